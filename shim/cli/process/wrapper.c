/* SPDX-License-Identifier: MIT */
/* Owns the look into shell scripts that start a program. It must not run anything, and need not
 * understand the shell: it knows the few lines that wrappers consist of. */
#include "cli/process/wrapper.h"

#include "base/path.h"
#include "cli/process/reach.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SCRIPT_MOST = 64 * 1024 };

bool ns_wrapper_is_shell(const char *path)
{
    static const char *const shells[] = {"sh",  "bash", "dash", "ash",
                                         "ksh", "mksh", "zsh",  "busybox"};

    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(ns_path_base(path), shells[i]) == 0)
            return true;
    return false;
}

/* May a command begin here: at the beginning of the line, behind an operator or a keyword? */
static bool may_begin(const char *line, const char *at)
{
    static const char *const keywords[] = {"then", "do", "else"};

    while (at > line && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    if (at == line || strchr(";&|({", at[-1]))
        return true;
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        size_t length = strlen(keywords[i]);

        if ((size_t)(at - line) >= length && memcmp(at - length, keywords[i], length) == 0)
            return true;
    }
    return false;
}

/* What follows the command of the line that begins with these words; NULL if there is none. */
static const char *command(const char *line, const char *words)
{
    for (const char *at = line; (at = strstr(at, words)); at++)
        if (may_begin(line, at))
            return at + strlen(words);
    return NULL;
}

static void look_at_assignment(const char *line, unsigned number, struct ns_wrapper *wrapper)
{
    const char *at = strstr(line, "LD_PRELOAD=");

    if (!at || (at > line && !strchr(" \t;&|({", at[-1])))
        return;
    wrapper->sets = number;
}

/* exec [-a NAME] PROGRAM, if it is written out */
static void look_at_exec(const char *line, unsigned number, struct ns_wrapper *wrapper)
{
    const char *at = command(line, "exec ");
    size_t length;

    if (!at)
        return;
    at += strspn(at, " \t");
    if (strncmp(at, "-c ", 3) == 0)
        wrapper->clears = number;
    if (strncmp(at, "-a ", 3) == 0) {
        at += 3 + strspn(at + 3, " \t");
        at += strcspn(at, " \t");
        at += strspn(at, " \t");
    }
    length = strcspn(at, " \t;&|");
    if (length >= 2 && (*at == '"' || *at == '\'') && at[length - 1] == *at) {
        at++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof(wrapper->program) || *at == '-' ||
        strcspn(at, "$`\"'\\*?[<>{}~=") < length)
        return;
    wrapper->becomes = number;
    snprintf(wrapper->program, sizeof(wrapper->program), "%.*s", (int)length, at);
}

void ns_wrapper_read(const char *script, struct ns_wrapper *wrapper)
{
    FILE *stream = fopen(script, "re");
    char line[4096];
    bool keeps = false; /* some line reads the old value: it may well be in the new one */

    *wrapper = (struct ns_wrapper){0};
    for (unsigned number = 1;
         stream && ftell(stream) < SCRIPT_MOST && fgets(line, sizeof(line), stream); number++) {
        const char *text = line + strspn(line, " \t");

        line[strcspn(line, "\n")] = '\0';
        if (*text == '#')
            continue;
        keeps = keeps || strstr(text, "$LD_PRELOAD") || strstr(text, "${LD_PRELOAD");
        look_at_assignment(text, number, wrapper);
        look_at_exec(text, number, wrapper);
        if (command(text, "unset LD_PRELOAD"))
            wrapper->unsets = number;
        if (strstr(text, "env -i ") || strstr(text, "env - ") || command(text, "sudo ") ||
            command(text, "exec sudo "))
            wrapper->clears = number;
    }
    if (keeps)
        wrapper->sets = 0;
    if (stream)
        fclose(stream);
}

struct listener {
    void (*report)(void *context, const char *text);
    void *context;
};

__attribute__((format(printf, 2, 3))) static void tell(const struct listener *to,
                                                       const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    to->report(to->context, text);
}

void ns_wrapper_judge(const struct ns_wrapper *wrapper, const char *script,
                      void (*report)(void *context, const char *text), void *context)
{
    static struct ns_reach reach;
    const struct listener to = {report, context};
    const char *reason;

    if (wrapper->sets)
        tell(&to,
             "line %u of %s sets LD_PRELOAD anew, so that what it starts loses the shim; "
             "\"LD_PRELOAD=$LD_PRELOAD:...\" would keep it",
             wrapper->sets, script);
    if (wrapper->unsets)
        tell(&to, "line %u of %s takes LD_PRELOAD out of the environment", wrapper->unsets, script);
    if (wrapper->clears)
        tell(&to, "line %u of %s starts a program with an environment that has no LD_PRELOAD",
             wrapper->clears, script);
    if (!wrapper->becomes)
        return;
    ns_reach_inspect(wrapper->program, &reach);
    reason = ns_reach_reason(reach.verdict);
    if (reason)
        tell(&to, "%s, which it becomes, %s", reach.file, reason);
}

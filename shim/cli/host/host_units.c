/* SPDX-License-Identifier: MIT */
/* Owns the drop-ins of units: all of them are written or none, and taken away again. It must not
 * touch a file that this command did not write. Not async-signal-safe. */
#include "cli/host/host_unit.h"

#include "cli/cli.h"
#include "cli/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

/* How each drop-in of ours begins. */
static const char mark[] = "# Written by nagleshim host;";

int ns_host_dropin_path(const struct ns_host *host, const char *name, char own[PATH_MAX])
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), NS_HOST_UNITS "/%s.d/" NS_HOST_DROPIN, name);
    return ns_host_resolve(host, path, own);
}

static bool is_ours(const char *text)
{
    return strncmp(text, mark, sizeof(mark) - 1) == 0;
}

bool ns_host_reload(const struct ns_host *host)
{
    int status = -1;
    pid_t child;

    if (host->root[0] || access("/run/systemd/system", F_OK) != 0)
        return true; /* nothing runs there */
    child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        ns_host_signals_restore();
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        execlp("systemctl", "systemctl", "daemon-reload", (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A template, or the prefix of several, which cannot be started. */
static bool is_of_many(const char *name)
{
    return ns_unit_is_prefix(name) || ns_unit_is_template(name);
}

struct plan {
    char name[NAME_MAX];
    char *text;
    struct ns_change change;
};

/* May the place of a unit's drop-in be written to? An exit status. */
static int judge_place(const struct ns_host *host, const char *name)
{
    char own[PATH_MAX], *old = NULL;
    int error = ns_host_dropin_path(host, name, own);
    bool foreign;

    if (error) {
        SAY(NS_HOST_UNITS "/%s.d: %s; nothing was changed", name,
            error == -ENOENT ? "it is a link that leads nowhere" : strerror(-error));
        return ns_host_exit(error);
    }
    error = ns_host_read(own, &old);
    foreign = old && !is_ours(old);
    free(old);
    if (!error && !foreign)
        return NS_EXIT_YES;
    SAY("%s: %s; nothing was changed", own,
        error == -EINVAL ? "it is not a regular file"
        : error          ? strerror(-error)
                         : "this command did not write it");
    return ns_host_exit(error);
}

struct plans {
    const struct ns_host *host;
    struct plan *list;
    unsigned n;
};

/* Has this unit a drop-in of ours, or will it get one? */
static bool has_own(void *context, const char *name)
{
    const struct plans *plans = context;
    char own[PATH_MAX], *text = NULL;
    bool has = false;

    for (unsigned i = 0; i < plans->n; i++)
        has = has || strcmp(plans->list[i].name, name) == 0;
    if (has)
        return true;
    if (ns_host_dropin_path(plans->host, name, own) == 0 && ns_host_read(own, &text) == 0)
        has = text && is_ours(text);
    free(text);
    return has;
}

/* What is to be written for each unit; nothing is written yet. An exit status. */
static int prepare(const struct ns_host *host, char **names, unsigned n, struct plan *plans)
{
    static struct ns_unit unit;
    struct plans all = {.host = host, .list = plans, .n = n};

    for (unsigned i = 0; i < n; i++) {
        int status;

        if (!ns_host_unit_name(names[i], plans[i].name))
            return NS_EXIT_ERROR;
        status = judge_place(host, plans[i].name);
        if (status != NS_EXIT_YES)
            return status;
        plans[i].text = ns_unit_dropin(host, plans[i].name, &unit);
        if (!plans[i].text) {
            SAY("%s: %s", plans[i].name, unit.blocked);
            return NS_EXIT_ERROR;
        }
    }
    for (unsigned i = 0; i < n; i++)
        if (is_of_many(plans[i].name) &&
            !ns_unit_judge_members(host, plans[i].name, plans[i].text, has_own, &all))
            return NS_EXIT_ERROR;
    return NS_EXIT_YES;
}

/* All but the last, which has been undone already. */
static bool undo(struct plan *plans, unsigned n)
{
    bool undone = true;

    for (unsigned i = n; i > 0; i--) {
        if (i < n)
            ns_change_undo(&plans[i - 1].change);
        undone = undone && !plans[i - 1].change.done;
    }
    return undone;
}

static const char *say_undone(bool undone)
{
    return undone ? "nothing was changed"
                  : "not everything could be put back: see 'nagleshim host status'";
}

/* An exit status. */
static int write_all(const struct ns_host *host, struct plan *plans, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char own[PATH_MAX];
        int error = ns_host_dropin_path(host, plans[i].name, own);
        bool undone;

        if (!error)
            error = ns_change_make(&plans[i].change, own, plans[i].text);
        if (!error)
            continue;
        undone = undo(plans, i + 1);
        SAY("%s cannot be written: %s; %s", own, strerror(-error), say_undone(undone));
        return undone ? ns_host_exit(error) : NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

static int carry_out(const struct ns_host *host, struct plan *plans, unsigned n)
{
    int status = write_all(host, plans, n);

    if (status != NS_EXIT_YES)
        return status;
    if (ns_host_signals_came()) {
        ns_change_undo(&plans[n - 1].change);
        SAY("interrupted; %s", say_undone(undo(plans, n)));
        return NS_EXIT_ERROR;
    }
    if (!ns_host_reload(host)) {
        ns_change_undo(&plans[n - 1].change);
        SAY("systemctl daemon-reload failed; %s", say_undone(undo(plans, n)));
        return NS_EXIT_ERROR;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct plan *plan = &plans[i];
        bool same = plan->change.old && strcmp(plan->change.old, plan->text) == 0;

        if (same)
            ns_output_line("%s has it already", plan->name);
        else if (is_of_many(plan->name))
            ns_output_line("every unit of %s has it at its next start", plan->name);
        else if (host->root[0])
            ns_output_line("%s has it at its next start", plan->name);
        else
            ns_output_line("%s has it at its next start: systemctl restart '%s'", plan->name,
                           plan->name);
    }
    return NS_EXIT_YES;
}

int ns_host_units_enable(struct ns_host *host, char **names, unsigned n, const char *library)
{
    struct plan *plans = calloc(n, sizeof(*plans));
    int status = plans ? ns_host_library(host, library, false) : NS_EXIT_ERROR;

    if (status == NS_EXIT_YES)
        status = prepare(host, names, n, plans);
    if (status == NS_EXIT_YES)
        status = carry_out(host, plans, n);
    for (unsigned i = 0; plans && i < n; i++) {
        ns_change_forget(&plans[i].change);
        free(plans[i].text);
    }
    free(plans);
    return status;
}

/* Of drop-ins, unless others have files there. One that a link leads to was there before. */
static void remove_directory(const struct ns_host *host, const char *name)
{
    char path[PATH_MAX], own[PATH_MAX];

    snprintf(path, sizeof(path), NS_HOST_UNITS "/%s.d", name);
    if (ns_host_resolve(host, path, own) == 0)
        rmdir(own);
}

/* What a unit has of ours in its place, in own. 0 or -errno. */
static int look_for(const struct ns_host *host, const char *name, char own[PATH_MAX],
                    char entry[PATH_MAX], bool *ours)
{
    char *old = NULL;
    int error = ns_host_dropin_path(host, name, own);

    *ours = false;
    *entry = '\0';
    if (error == -ENOENT) /* its directory is a link to nowhere */
        return 0;
    if (error)
        return error;
    if (ns_change_sweep(own))
        remove_directory(host, name);
    error = ns_host_read(own, &old);
    *ours = !error && old && is_ours(old);
    if (*ours)
        ns_host_dropin_entry(old, entry);
    free(old);
    return error;
}

struct cover {
    const char *unit;
    char name[NAME_MAX + 1];
};

static void find_cover(void *context, const char *name, const char *text)
{
    struct cover *cover = context;

    if (text && strcmp(name, cover->unit) != 0 && ns_host_is_for(name, cover->unit))
        snprintf(cover->name, sizeof(cover->name), "%s", name);
}

/* What is so of a unit that has no drop-in of its own. */
static void say_rest(const struct ns_host *host, const char *name, const char *otherwise)
{
    struct cover cover = {.unit = name};

    ns_host_units_each(host, find_cover, &cover);
    if (cover.name[0])
        ns_output_line("%s has it by the drop-in of %s, which stays", name, cover.name);
    else
        ns_output_line("%s %s", name, otherwise);
}

/* Take the drop-in of a unit away. *changed is set if there was one. */
static int take_away(const struct ns_host *host, const char *name, bool *changed)
{
    struct ns_change change;
    char own[PATH_MAX], entry[PATH_MAX];
    bool ours;
    int error = look_for(host, name, own, entry, &ours);

    if (!error && !ours) {
        say_rest(host, name, "is not enabled");
        return NS_EXIT_YES;
    }
    if (!error && host->only && !ns_host_is_meant(host, entry, strlen(entry))) {
        ns_output_line("%s has %s, which stays", name, entry);
        return NS_EXIT_YES;
    }
    if (!error)
        error = ns_change_make(&change, own, NULL);
    if (error) {
        SAY("%s cannot be removed: %s", own, strerror(-error));
        return ns_host_exit(error);
    }
    ns_change_forget(&change);
    remove_directory(host, name);
    *changed = true;
    say_rest(host, name, "has it no more at its next start");
    return NS_EXIT_YES;
}

struct all {
    const struct ns_host *host;
    int worst;
    bool changed;
};

static void take_named_away(struct all *all, const char *name)
{
    int status = take_away(all->host, name, &all->changed);

    all->worst = status > all->worst ? status : all->worst;
}

/* What was left half-way is removed, and nothing said of it. */
static void take_each_away(void *context, const char *name, const char *text)
{
    struct all *all = context;
    char entry[PATH_MAX], own[PATH_MAX];
    bool ours;

    if (text)
        ns_host_dropin_entry(text, entry);
    if (!text)
        look_for(all->host, name, own, entry, &ours);
    else if (!all->host->only || ns_host_is_meant(all->host, entry, strlen(entry)))
        take_named_away(all, name);
}

int ns_host_units_disable(const struct ns_host *host, char **names, unsigned n, bool *found)
{
    struct all all = {.host = host, .worst = NS_EXIT_YES};

    for (unsigned i = 0; i < n; i++) {
        char name[NAME_MAX];

        if (!ns_host_unit_name(names[i], name))
            return NS_EXIT_ERROR;
    }
    /* Those of many first, so that it is known of the others what they still have. */
    for (unsigned i = 0; i < 2 * n; i++) {
        char name[NAME_MAX];

        if (ns_host_unit_name(names[i % n], name) && is_of_many(name) == (i < n))
            take_named_away(&all, name);
    }
    if (n == 0)
        ns_host_units_each(host, take_each_away, &all);
    if (all.changed && !ns_host_reload(host)) {
        SAY("systemctl daemon-reload failed: the units have it until that is done");
        all.worst = NS_EXIT_ERROR;
    }
    *found = all.changed;
    return all.worst;
}

static void visit(const struct ns_host *host, const char *directory,
                  void (*each)(void *context, const char *name, const char *text), void *context)
{
    char name[NAME_MAX + 1], own[PATH_MAX], *text = NULL;
    size_t length = strlen(directory);

    if (length < 11 || strcmp(directory + length - 10, ".service.d") != 0)
        return;
    snprintf(name, sizeof(name), "%.*s", (int)(length - 2), directory);
    if (ns_host_dropin_path(host, name, own) != 0)
        return;
    if (ns_host_read(own, &text) == 0 && text && is_ours(text))
        each(context, name, text);
    else if (ns_change_is_left(own))
        each(context, name, NULL);
    free(text);
}

int ns_host_units_each(const struct ns_host *host,
                       void (*each)(void *context, const char *name, const char *text),
                       void *context)
{
    char own[PATH_MAX];
    struct dirent **entries;
    int n = ns_host_resolve(host, NS_HOST_UNITS "/.", own);

    if (n == 0 && (n = scandir(own, &entries, NULL, alphasort)) < 0)
        n = -errno;
    if (n < 0)
        return n == -ENOENT ? 0 : n;
    for (int i = 0; i < n; i++) {
        visit(host, entries[i]->d_name, each, context);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

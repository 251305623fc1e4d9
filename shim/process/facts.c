/* SPDX-License-Identifier: MIT */
/* Owns what the reader reads of a process: the parts, and their order. It judges nothing, and
 * trusts nothing that it reads: the process may belong to any user. All but ns_facts_ask runs in
 * the reader, and may wait for ever. */
#include "process/facts.h"

#include "base/clock.h"
#include "base/path.h"
#include "policy/find.h"
#include "process/open.h"
#include "process/reader.h"
#include "process/scope.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RULES_MOST = 1000, SEARCH_NS = 300000000 }; /* more is not read */

/* The control group names the unit or the container of a process: in the line
 * "0::/system.slice/system-app.slice/app@1.service" an instance of a template, in its slice. */
static void read_group(struct ns_facts *facts)
{
    static const char top[] = ":/system.slice/", service[] = ".service";
    NS_AUTO_FCLOSE FILE *stream = ns_proc_stream(facts->proc.dir, "cgroup");
    char line[PATH_MAX + 256]; /* A rest would be read as a line, and may be of a user's choice. */
    while (stream && fgets(line, sizeof line, stream)) {
        const char *first = strchr(line, ':'), *path = first ? strchr(first + 1, ':') : NULL;
        const bool in_system = path && strncmp(path, top, sizeof top - 1) == 0;
        const char *unit = in_system ? ns_proc_past_slices(path + 1) : "";
        const size_t length = strcspn(unit, "/\n");
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(facts->origin.group, sizeof facts->origin.group, "%.*s",
                     (int)strcspn(path + 1, "\n"), path + 1);
        facts->origin.in_container |= strstr(line, "kubepods") || strstr(line, "/libpod-") ||
                                      strstr(line, "/docker/") ||
                                      (strstr(line, "/docker-") && strstr(line, ".scope"));
        if (length >= sizeof service &&
            strncmp(unit + length - sizeof service + 1, service, sizeof service - 1) == 0)
            snprintf(facts->origin.unit, sizeof facts->origin.unit, "%.*s",
                     (int)(length - sizeof service + 1), unit);
    }
    if (facts->origin.in_container)
        facts->origin.unit[0] = '\0';
}

/* Is it a variable of the program, and not one that sessions and services have? */
static bool is_of_program(const char *name)
{
    static const char others[] =
        "@(PWD|OLDPWD|SHLVL|_|TERM*|COLORTERM|USER|LOGNAME|HOME|MAIL|SHELL|LANG*|LC_*|PATH|HOST*|"
        "*COLORS*|SSH_*|XDG_*|DBUS_*|SUDO_*|LD_*|TMUX*|STY|WINDOW*|DISPLAY|LINES|COLUMNS|"
        "INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_*|MANAGERPID|NOTIFY_SOCKET|LISTEN_*|WATCHDOG_*|"
        "TMPDIR|EDITOR|PAGER)";
    static const char of_a_name[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    return name[strspn(name, of_a_name)] == '\0' && fnmatch(others, name, FNM_EXTMATCH) != 0;
}

/* The variables that it has and this command lacks. Are there several that name directories of the
 * executable? erl sets such ones for beam.smp. */
static void read_variables(struct ns_facts *facts)
{
    const struct ns_proc *proc = &facts->proc;
    NS_AUTO_FCLOSE FILE *stream = ns_proc_stream(proc->dir, "environ");
    static char entry[NS_VARIABLE_ROOM];
    char *value;
    size_t left = NS_VARIABLES_MOST, length, used = 0;
    unsigned found = 0;
    while (stream && ns_proc_variable(stream, entry, &left)) {
        value = entry + strcspn(entry, "=");
        length = *value ? strlen(value + 1) : 0;
        *value = '\0';
        if (getenv(entry))
            continue;
        found +=
            length > 1 && strncmp(proc->exe, value + 1, length) == 0 && proc->exe[length] == '/';
        if (*entry && strlen(entry) + 3 < sizeof facts->origin.variables - used &&
            is_of_program(entry))
            used += (size_t)snprintf(facts->origin.variables + used,
                                     sizeof facts->origin.variables - used, "%s%s",
                                     used ? ", " : "", entry);
    }
    facts->origin.has_variables = found > 1;
}

struct files {
    const struct ns_proc *proc;
    uint64_t last; /* the processor's time at which the search is given up */
};

/* Stops at a file that calls libc for sockets, and after too long: others choose the files. */
static bool makes_no_sockets(void *context, const struct ns_mapping *mapping)
{
    const struct files *files = context;
    const char *name = ns_path_base(mapping->path);
    char link[32];
    if (ns_clock_now(CLOCK_PROCESS_CPUTIME_ID) > files->last)
        return false;
    /* What every process may load. */
    if (!mapping->has_file || mapping->offset != 0 || strncmp(name, "libresolv", 9) == 0 ||
        strncmp(name, "libnagleshim", 12) == 0)
        return true;
    NS_AUTO_CLOSE int fd = ns_proc_find_file(files->proc, mapping->path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return fd >= 0 && !ns_elf_path_makes_sockets(link);
}

/* Is the library ready, without having seen a socket yet? */
static bool saw_nothing(const struct ns_loaded *loaded)
{
    return loaded->shim == NS_SHIM_WORKS && loaded->has_stats &&
           loaded->stats.sockets + loaded->stats.left_alone == 0;
}

static void read_program(struct ns_facts *facts)
{
    struct ns_proc *proc = &facts->proc;
    struct files files = {proc, ns_clock_now(CLOCK_PROCESS_CPUTIME_ID) + SEARCH_NS};
    const bool unseen = saw_nothing(&facts->loaded) || facts->loaded.path[0] == '\0';
    NS_AUTO_CLOSE int exe = ns_open_regular(proc->dir, "exe");
    facts->has_elf = exe >= 0 && ns_elf_inspect(exe, &facts->elf) == 0;
    facts->sockets = ns_proc_sockets(proc, &facts->has_ring);
    facts->own_calls =
        unseen && facts->sockets > 0 && ns_proc_each_mapping(proc, makes_no_sockets, &files) == 0;
    if (saw_nothing(&facts->loaded) && (facts->elf.is_go || facts->sockets > 0))
        facts->loaded.shim = facts->elf.is_go || (facts->own_calls && facts->has_ring)
                                 ? NS_SHIM_NO
                                 : NS_SHIM_UNKNOWN;
    read_variables(facts);
}

static void find_file(const struct ns_facts *facts, const char *path, struct ns_found *found)
{
    NS_AUTO_CLOSE int fd = ns_proc_find_file(&facts->proc, path);
    const char *unfit;
    char link[32];
    struct stat st;
    found->error = fd < 0 ? fd : fstat(fd, &st) != 0 ? -errno : 0;
    if (found->error)
        return;
    found->changed = (double)st.st_ctim.tv_sec + (double)st.st_ctim.tv_nsec / 1e9;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    unfit = ns_elf_path_unfit(link, facts->elf.narrow);
    snprintf(found->unfit, sizeof found->unfit, "%s", unfit ? unfit : "");
}

static void read_rules(struct ns_facts *facts)
{
    const struct ns_status *status = &facts->loaded.status;
    struct ns_status_rule there;
    for (unsigned i = 0; i < status->n_rules && i < RULES_MOST; i++) {
        struct ns_examined_rule *rule = &facts->rules[facts->n_rules];
        if (facts->n_rules == NS_FACTS_RULES_MOST ||
            ns_proc_memory(&facts->proc, status->rules + i * sizeof there, &there, sizeof there))
            return;
        facts->has_rules = true;
        if (!there.applies)
            continue;
        *rule = (struct ns_examined_rule){
            .index = i, .send = there.send, .ack = there.ack, .sockets = there.sockets};
        if (there.name)
            ns_proc_text(&facts->proc, there.name, rule->name, sizeof rule->name);
        facts->n_rules++;
    }
}

static void read_status(struct ns_facts *facts)
{
    const struct ns_status *status = &facts->loaded.status;
    facts->has_policy = status->policy && ns_proc_text(&facts->proc, status->policy, facts->policy,
                                                       sizeof facts->policy) == 0;
    if (status->origin == NS_POLICY_NAMED || status->origin == NS_POLICY_IN_DIRECTORY)
        find_file(facts, facts->policy, &facts->policy_file);
    if (status->reason)
        ns_proc_text(&facts->proc, status->reason, facts->reason, sizeof facts->reason);
    if (status->state == NS_STATUS_ACTIVE)
        read_rules(facts);
}

/* Where LD_PRELOAD, or the ld.so.preload of its root, names the library. */
static void read_preload(struct ns_facts *facts)
{
    NS_AUTO_FREE char *list = ns_proc_preload(&facts->proc, &facts->has_lost_preload);
    NS_AUTO_CLOSE int fd = ns_proc_find_file(&facts->proc, NS_PRELOAD_FILE);
    char link[32];
    snprintf(facts->preload, sizeof facts->preload, "%s", list ? list : "");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!list || !ns_preload_find(list, facts->entry)) {
        NS_AUTO_FREE char *text = fd < 0 ? NULL : ns_file_read(link);
        facts->is_of_file = text && ns_preload_find(text, facts->entry);
        find_file(facts, NS_PRELOAD_FILE, &facts->preload_file);
    }
    if (facts->entry[0])
        find_file(facts, facts->entry, &facts->entry_file);
}

/* memory: see ns_reader_ask. */
static void read_facts(void *data, int memory)
{
    struct ns_facts *facts = data;
    const enum ns_facts_depth depth = facts->depth;
    struct ns_proc *proc = &facts->proc;
    struct ns_state last;
    int error = ns_proc_open(proc->pid, memory, proc);
    if (error || proc->state.is_kernel_thread)
        goto end;
    facts->lives_elsewhere = ns_proc_has_other(proc, "root") || ns_proc_has_other(proc, "ns/mnt");
    facts->has_other_number = ns_proc_has_other(proc, "ns/pid");
    facts->origin.has_namespaces =
        facts->lives_elsewhere || facts->has_other_number || ns_proc_has_other(proc, "ns/net");
    read_group(facts);
    error = ns_proc_look(proc);
    ns_proc_name(proc, facts->name, sizeof facts->name);
    if (error)
        goto end;
    error = ns_loaded_find(proc, &facts->loaded);
    if (depth >= NS_FACTS_WORDS)
        facts->words_size = ns_proc_words(proc, facts->words, sizeof facts->words);
    if (depth >= NS_FACTS_PROGRAM || saw_nothing(&facts->loaded))
        read_program(facts);
    if (depth >= NS_FACTS_ALL && facts->loaded.has_status)
        read_status(facts);
    if (depth >= NS_FACTS_ALL)
        read_preload(facts);
end:
    /* If it is ending, a part of what was read may be missing. */
    if (error == -ENOENT ||
        (proc->dir >= 0 && ns_state_is_gone(ns_state_read(proc->dir, "stat", &last), &last)))
        error = -ESRCH;
    ns_proc_close(proc);
    facts->error = error;
}

/* Whatever the reader was made to write, numbers have their range. */
static bool is_valid(const struct ns_facts *facts)
{
    return facts->words_size <= sizeof facts->words && facts->n_rules <= NS_FACTS_RULES_MOST &&
           facts->loaded.shim <= NS_SHIM_WORKS && facts->error <= 0;
}

/* Without an answer: what the kernel says without waiting for the process. */
static void begin(struct ns_facts *facts, pid_t pid, enum ns_facts_depth depth)
{
    memset(facts, 0, sizeof *facts);
    facts->depth = depth;
    facts->proc = (struct ns_proc){.pid = pid, .process = pid};
}

int ns_facts_ask(pid_t pid, enum ns_facts_depth depth, struct ns_facts *facts)
{
    _Static_assert(sizeof *facts <= NS_READER_ROOM, "there is room for an answer");
    begin(facts, pid, depth);
    int error = ns_reader_ask(pid, ns_reader_user(pid), true, read_facts, facts, sizeof *facts);
    if (!error && !is_valid(facts))
        error = -EIO;
    if (error) {
        begin(facts, pid, depth);
        ns_state_of(pid, &facts->proc.state);
        snprintf(facts->name, sizeof facts->name, "%s", facts->proc.state.name);
        facts->error = error;
    }
    if (facts->proc.real_user != geteuid())
        facts->origin.other_user = facts->proc.real_user;
    facts->is_answered = !error;
    facts->end = '\0';
    return facts->error;
}

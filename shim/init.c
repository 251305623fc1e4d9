/* SPDX-License-Identifier: MIT */
/* Start-up and exit, and the only reader of the environment. Must never stop the program or print
 * on stdout. Prints on stderr only if NAGLESHIM_LOG asks for it, or if NAGLESHIM_POLICY or
 * NAGLESHIM_LOG itself is wrong. */
#include "calls/calls.h"
#include "report/log.h"
#include "policy/find.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/system.h"
#include "report/report.h"
#include "report/status.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static struct ns_ruleset rules;

/* The process's names for patterns and for the search for a policy. exe has room for PATH_MAX. */
static void process_facts(struct ns_process *process, char *exe)
{
    long n = NS_SYSTEM(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe, PATH_MAX - 1);
    exe[n > 0 ? n : 0] = 0;
    exe[ns_path_length(exe)] = 0;
    process->exe = n > 0 ? exe : NULL;
    process->execfn = (const char *)getauxval(AT_EXECFN);
    process->argv0 = program_invocation_name;
}

/* The arguments of this process, but for the first. musl passes none to constructors. NULL: they
 * cannot be read as a whole. */
static char *const *arguments(void)
{
    int fd = (int)NS_SYSTEM(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t room = 4096, size = 0, count = 0;
    char *text = fd < 0 ? NULL : malloc(room), *more = text, **list = NULL;
    for (ssize_t n = 1; more && n > 0; size += n > 0 ? (size_t)n : 0) {
        if (size + 1 == room) {
            more = realloc(text, room *= 2);
            text = more ? more : text;
        }
        n = more ? NS_REAL(read)(fd, text + size, room - 1 - size) : -1;
    }
    if (fd >= 0)
        NS_REAL(close)(fd);
    for (size_t i = 0; i < size; i++)
        count += !text[i];
    if (more && size > 0)
        list = calloc(count + 1, sizeof *list);
    if (!list) {
        free(text);
        return NULL;
    }
    text[size] = 0;
    count = 0;
    for (char *p = text + strlen(text) + 1; p < text + size; p += strlen(p) + 1)
        list[count++] = p;
    return list;
}

static void complain(const struct ns_policy_found *found)
{
    NS_LARGE_ARRAY static char text[PATH_MAX + 600]; /* static: the status section keeps it */
    ns_status_disabled(ns_policy_error_text(found, text, sizeof text));
    /* Not every process reports a broken policy of a directory; `nagleshim check` shows it. */
    bool asked = found->origin == NS_POLICY_NAMED || found->origin == NS_POLICY_INLINE;
    if (asked || ns_log_to_file()) {
        ns_log(NS_LOG_ERROR, "%s; no socket is touched", text);
        ns_report_is_written();
    }
}

static bool wants_arguments(const struct ns_policy *policy)
{
    bool wants = false;
    for (size_t i = 0; i < policy->n_rules; i++)
        wants |= policy->rules[i].args != NULL;
    return wants;
}

static bool use_policy(const struct ns_policy *policy, const struct ns_process *process,
                       const char *path)
{
    if (ns_ruleset_build(&rules, policy, process) != 0) {
        ns_status_disabled("there was no memory for its rules");
        return false;
    }
    ns_status_rules(policy, &rules);
    if (rules.n_rules == 0)
        ns_status_disabled(policy->enabled ? "no rule of its policy is for this program"
                                           : "its policy says \"enabled\": false");
    ns_log(NS_LOG_DEBUG, "policy %s: %zu of %zu rules are for this process",
           path[0] ? path : "built in", rules.n_rules, policy->n_rules);
    return rules.n_rules > 0;
}

/* Returns whether there are rules for this process. The policy is read now, even if the process
 * never makes a socket, since it may be unable to read it later (chroot, setuid, a sandbox). */
static bool find_rules(void)
{
    NS_LARGE_ARRAY static struct ns_policy_found found; /* too large for a small stack */
    char exe[PATH_MAX];
    struct ns_process process = {0};
    const char *named = NS_REAL(getenv)("NAGLESHIM_POLICY");
    const char *dir = NS_REAL(getenv)("NAGLESHIM_POLICY_DIR");
    bool is_named = named && *named;
    ns_status_looking();
    /* Most processes: the built-in policy, which needs no facts about the process. */
    if (!is_named && !ns_policy_has_directory(dir)) {
        ns_status_policy(dir && *dir ? NS_POLICY_NO_DIRECTORY : NS_POLICY_BUILTIN, "");
        return use_policy(ns_policy_builtin(), &process, "");
    }
    process_facts(&process, exe);
    struct ns_policy_request request = {
        .policy = named,
        .policy_dir = dir,
        .argv0 = process.argv0,
        .exe = process.exe,
    };
    ns_policy_find(&request, &found);
    ns_status_policy(found.origin, found.path);
    if (!found.policy) {
        complain(&found);
        return false;
    }
    if (wants_arguments(found.policy))
        process.args = arguments();
    return use_policy(found.policy, &process, found.path);
}

/* Sockets of a service manager or inetd, which get their rule now, since a server on stdio may
 * never make a call that the library sees. Any other inherited socket is found at its first use. */
static void register_inherited(void)
{
    enum { MOST = 256 };
    const char *pid = NS_REAL(getenv)("LISTEN_PID"), *listen_fds = NS_REAL(getenv)("LISTEN_FDS");
    long handed = listen_fds && pid && atol(pid) == (long)getpid() ? atol(listen_fds) : 0;
    for (int fd = 0; fd < MOST && (fd < 3 || fd - 3 < handed); fd++)
        ns_handover_started_with(fd);
    ns_stdio_reads(STDIN_FILENO);
}

static bool is_off(void)
{
    const char *off = NS_REAL(getenv)("NAGLESHIM_OFF");
    return off && *off && strcmp(off, "0") != 0;
}

__attribute__((constructor)) static void begin(void)
{
    int saved = errno;
    /* First, also if the library is switched off: a signal handler would look them up too late. */
    ns_real_load_all();
    ns_stdio_start();
    /* NAGLESHIM_OFF works whatever else is broken. A set-user-ID program is never changed, though
     * ld.so may load the library there from a trusted directory. */
    if (is_off()) {
        ns_status_begin(NS_STATUS_OFF);
        return;
    }
    if (getauxval(AT_SECURE)) {
        ns_status_disabled("it runs with more rights than its user's (set-user-ID and its like)");
        return;
    }
    bool known =
        ns_log_open(NS_REAL(getenv)("NAGLESHIM_LOG"), NS_REAL(getenv)("NAGLESHIM_LOG_FILE"));
    if (!known)
        ns_log(NS_LOG_ERROR,
               "NAGLESHIM_LOG must be off, error, info or debug, not '%s'; 'error' is used",
               NS_REAL(getenv)("NAGLESHIM_LOG"));
    ns_report_open(program_invocation_name);
    /* Without rules there is no table, so that every call passes at its first test. */
    if (find_rules()) {
        ns_socket_open(&rules);
        ns_thread_start();
        /* The process may raise its soft limit later. */
        ns_fd_open(1u << 20);
        register_inherited();
        ns_loader_start();
        ns_status_begin(NS_STATUS_ACTIVE);
    }
    errno = saved;
}

__attribute__((destructor)) static void end(void)
{
    ns_before_end();
}

/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim host status`: what is enabled, how many processes run with it, and what must be
 * restarted. It judges processes as doctor does, and changes nothing. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "cli/output.h"
#include "cli/policy/directory.h"
#include "cli/process/elf.h"

#include "policy/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FACT(...) ns_output_fact("facts", __VA_ARGS__)

/* One place where the library is enabled, and the processes that it is for. */
struct enabled {
    char unit[NAME_MAX + 1]; /* "": every program, by /etc/ld.so.preload */
    char library[PATH_MAX];
    double written;     /* when its drop-in was, in seconds; 0 for every program */
    unsigned with;      /* processes that run with the library */
    unsigned aside;     /* that have it loaded, and in which it does nothing: why_aside */
    unsigned earlier;   /* that were started before the library was enabled */
    unsigned lacking;   /* that were started since, and do not have it: why_lacking */
    unsigned unreached; /* that it cannot be loaded into */
    bool is_broken;     /* one has a broken policy */
    char why_aside[NS_FINDING_SIZE], why_lacking[NS_FINDING_SIZE]; /* the first reason */
};

struct status {
    struct enabled *list;
    size_t n;
    unsigned denied; /* processes that could not be examined */
    unsigned wrong;  /* unusable libraries, and broken policies */
    struct ns_sockets sockets;
};

static double seconds(const struct timespec *time)
{
    return (double)time->tv_sec + (double)time->tv_nsec / 1e9;
}

static struct enabled *add(struct status *status, const char *library)
{
    struct enabled *list = realloc(status->list, (status->n + 1) * sizeof *list);

    if (!list)
        return NULL;
    status->list = list;
    struct enabled *one = &list[status->n++];
    *one = (struct enabled){.with = 0};
    snprintf(one->library, sizeof one->library, "%s", library);
    return one;
}

static void add_unit(void *context, const struct ns_dropin *dropin)
{
    struct enabled *one = add(context, dropin->library);
    struct stat st;

    if (!one)
        return;
    snprintf(one->unit, sizeof one->unit, "%s", dropin->unit);
    if (stat(dropin->path, &st) == 0)
        one->written = seconds(&st.st_mtim);
}

/* The service that a process runs in, by its control group; "" if it runs in none. */
static void unit_of(const struct ns_proc *proc, char unit[NAME_MAX + 1])
{
    char line[PATH_MAX];
    int fd = openat(proc->dir, "cgroup", O_RDONLY | O_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

    unit[0] = '\0';
    while (stream && fgets(line, sizeof line, stream)) {
        char *rest = NULL;

        if (!strstr(line, "::") && !strstr(line, ":name=systemd:"))
            continue;
        for (char *part = strtok_r(line, "/\n", &rest); part; part = strtok_r(NULL, "/\n", &rest)) {
            size_t length = strlen(part);

            if (length > 8 && length <= NAME_MAX && strcmp(part + length - 8, ".service") == 0)
                strcpy(unit, part);
        }
    }
    if (stream)
        fclose(stream);
    else if (fd >= 0)
        close(fd);
}

/* When a unit was last started, in seconds of the clock of files. Its processes may be younger: a
 * server starts others, with the environment that it has itself. */
static double unit_started(const char *unit, const struct ns_proc *proc)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof path, NS_HOST_RUNNING "/invocation:%s", unit);
    return lstat(path, &st) == 0 ? seconds(&st.st_mtim) : ns_proc_started(proc);
}

static void keep_first(char why[NS_FINDING_SIZE], const struct ns_finding *reason)
{
    if (why[0] == '\0')
        snprintf(why, NS_FINDING_SIZE, "%s", reason->text);
}

static bool is(const struct ns_finding *reason, enum ns_finding_id id)
{
    return reason && reason->id == id;
}

static void count(struct enabled *enabled, const struct ns_examination *process)
{
    const struct ns_finding *verdict = ns_findings_verdict(&process->findings);
    const struct ns_finding *reason =
        verdict && verdict->kind == NS_FINDING_IS_REASON ? verdict : NULL;
    /* The process lacks the variable that the drop-in sets. */
    bool is_unset =
        enabled->unit[0] && (is(reason, NS_FINDING_UNSET) || is(reason, NS_FINDING_OTHERS_ONLY));

    if (process->loaded.state != NS_LOADED_NO && !reason) {
        enabled->with++;
    } else if (process->loaded.state != NS_LOADED_NO) {
        enabled->aside++;
        enabled->is_broken = enabled->is_broken || is(reason, NS_FINDING_BROKEN);
        keep_first(enabled->why_aside, reason);
    } else if (is(reason, NS_FINDING_EARLIER) ||
               (is_unset && unit_started(enabled->unit, &process->proc) <= enabled->written)) {
        enabled->earlier++;
    } else if (is_unset) {
        enabled->lacking++;
        keep_first(enabled->why_lacking, reason);
    } else {
        enabled->unreached++;
    }
}

static bool examine(void *context, pid_t pid)
{
    static struct ns_examination process;
    struct status *status = context;
    char unit[NAME_MAX + 1];

    if (pid == getpid())
        return true;
    int error = ns_examine(&process, pid, true, &status->sockets);
    if (error && error != -ESRCH)
        status->denied++;
    if (!error && !process.proc.is_kernel_thread && process.loaded.state != NS_LOADED_STARTING) {
        unit_of(&process.proc, unit);
        for (size_t i = 0; i < status->n; i++)
            if (!status->list[i].unit[0] || strcmp(status->list[i].unit, unit) == 0)
                count(&status->list[i], &process);
    }
    ns_examine_end(&process);
    return true;
}

static void print_processes(const struct enabled *enabled, FILE *text)
{
    fprintf(text, "; %u process%s with it", enabled->with, enabled->with == 1 ? "" : "es");
    if (enabled->aside > 0)
        fprintf(text, "; %u in which it does nothing: %s", enabled->aside, enabled->why_aside);
    if (enabled->earlier > 0)
        fprintf(text, "; %u started before it was enabled: restart %s", enabled->earlier,
                enabled->unit[0] ? "the unit"
                                 : "them ('nagleshim doctor --all --every' lists them)");
    if (enabled->lacking > 0)
        fprintf(text, "; %u started since, without it: %s", enabled->lacking, enabled->why_lacking);
    if (enabled->unreached > 0)
        fprintf(text, "; %u that it cannot reach ('nagleshim doctor --all --every' says why)",
                enabled->unreached);
}

static void print_enabled(const struct ns_host *host, struct status *status,
                          const struct enabled *enabled)
{
    char reason[512], text[4096] = "";
    cJSON *entry = ns_output_entry("enabled");
    FILE *stream = host->is_image ? NULL : fmemopen(text, sizeof text, "w");

    if (stream) {
        print_processes(enabled, stream);
        fclose(stream);
    }
    FACT(enabled->unit[0] ? enabled->unit : NS_HOST_PRELOAD, "%s%s", enabled->library, text);
    ns_output_text(entry, "unit", enabled->unit[0] ? enabled->unit : NULL);
    ns_output_text(entry, "library", enabled->library);
    if (entry) {
        cJSON_AddNumberToObject(entry, "with", enabled->with);
        cJSON_AddNumberToObject(entry, "aside", enabled->aside);
        cJSON_AddNumberToObject(entry, "earlier", enabled->earlier);
        cJSON_AddNumberToObject(entry, "lacking", enabled->lacking);
        cJSON_AddNumberToObject(entry, "unreached", enabled->unreached);
    }
    if (enabled->library[0] == '/' &&
        ns_elf_path_is_unfit(enabled->library, reason, sizeof reason)) {
        status->wrong++;
        FACT("wrong", "%s %s", enabled->library, reason);
    }
}

static void judge_policy(void *context, const char *path)
{
    static struct ns_policy_found found;
    struct status *status = context;
    char text[PATH_MAX + sizeof found.where.message + 32];

    ns_policy_read_as(NS_POLICY_IN_DIRECTORY, path, &found, NULL);
    if (!found.policy) {
        status->wrong++;
        FACT("wrong", "%s; programs that get this policy are left alone",
             ns_policy_error_text(&found, text, sizeof text));
    }
    ns_policy_free((struct ns_policy *)found.policy);
}

static int conclude(const struct status *status)
{
    cJSON *object = ns_output_object();
    bool good = status->n > 0 && status->wrong == 0;

    for (size_t i = 0; i < status->n; i++)
        good = good && status->list[i].earlier == 0 && status->list[i].lacking == 0 &&
               !status->list[i].is_broken;
    if (status->denied > 0)
        FACT("not examined", "%u process%s: %s", status->denied, status->denied == 1 ? "" : "es",
             geteuid() == 0 ? "not permitted to root here, in a container or chroot perhaps"
                            : "run it as root");
    if (status->n == 0)
        ns_output_line("nothing is enabled");
    if (object)
        cJSON_AddBoolToObject(object, "good", good);
    return good ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_host_status(const struct ns_host *host)
{
    struct status status = {.n = 0};
    char entry[PATH_MAX];

    ns_output_expect("facts");
    ns_output_expect("enabled");
    if (ns_host_preload_entry(entry))
        add(&status, entry);
    ns_host_each_dropin(add_unit, &status);
    if (!host->is_image && status.n > 0)
        ns_proc_each(examine, &status);
    for (size_t i = 0; i < status.n; i++)
        print_enabled(host, &status, &status.list[i]);
    ns_directory_each(NS_POLICY_DIR_DEFAULT, judge_policy, &status);
    int result = conclude(&status);
    free(status.list);
    ns_proc_sockets_end(&status.sockets);
    return result;
}

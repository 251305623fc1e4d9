/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim host status`: what is enabled in a system, which processes run with it, and what
 * must be started again for it. It judges processes as doctor does, and changes nothing. Not
 * async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/policy/directory.h"
#include "cli/process/elf.h"
#include "cli/output.h"
#include "cli/process/process_report.h"

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

enum {
    NAMED_MOST = 8,
    WAIT_MS = 1500, /* for all that have just been started, together */
};

struct enabled {
    char name[NAME_MAX + 1]; /* a unit; "" for every program */
    char library[PATH_MAX];
    /* processes: with it, in which it does nothing, started before it, since it but without it, out
     * of its reach */
    unsigned with, aside, later, lacking, never;
    bool is_broken; /* one stands aside for its policy */
    char why_aside[NS_FINDING_SIZE], why_lacking[NS_FINDING_SIZE]; /* the first reason */
    double written; /* when its drop-in was, in seconds; 0 for every program */
    char units[NAMED_MOST][NAME_MAX + 1]; /* that must be started again, for every program */
    unsigned n_units, more_units;
};

struct status {
    const struct ns_host *host;
    struct enabled *list;
    size_t n;
    unsigned denied, wrong; /* libraries and policies that are not as they should be */
    struct ns_sockets sockets;
    int wait_ms; /* what is left of WAIT_MS */
};

static double seconds(const struct timespec *time)
{
    return (double)time->tv_sec + (double)time->tv_nsec / 1e9;
}

static struct enabled *add(struct status *status, const char *name, const char *library)
{
    struct enabled *list = realloc(status->list, (status->n + 1) * sizeof(*list));
    struct enabled *one;

    if (!list)
        return NULL;
    status->list = list;
    one = &list[status->n++];
    *one = (struct enabled){.with = 0};
    snprintf(one->name, sizeof(one->name), "%s", name);
    snprintf(one->library, sizeof(one->library), "%s", library);
    return one;
}

static void add_unit(void *context, const char *name, const char *text)
{
    struct status *status = context;
    struct enabled *one;
    char entry[PATH_MAX], own[PATH_MAX];
    struct stat st;

    if (!text)
        return;
    ns_host_dropin_entry(text, entry);
    one = add(status, name, entry);
    if (one && ns_host_dropin_path(status->host, name, own) == 0 && stat(own, &st) == 0)
        one->written = seconds(&st.st_mtim);
}

/* The unit that a process runs in, by its control group; "" if it runs in none. */
static void unit_of(const struct ns_proc *proc, char unit[NAME_MAX + 1])
{
    char line[PATH_MAX];
    int fd = openat(proc->dir, "cgroup", O_RDONLY | O_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

    unit[0] = '\0';
    while (stream && fgets(line, sizeof(line), stream)) {
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
    ns_sanitize(unit);
}

/* When a unit was started the last time, in seconds by the clock of files; 0 if that cannot be
 * told. Its processes may be younger: a server starts others anew that have what it has. */
static double unit_started(const char *unit)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), NS_HOST_RUNNING "/invocation:%s", unit);
    return lstat(path, &st) == 0 ? seconds(&st.st_mtim) : 0;
}

/* Does the process lack a variable that the drop-in sets? */
static bool lacks_variable(const struct ns_finding *reason)
{
    return reason->kind == NS_FINDING_UNSET || reason->kind == NS_FINDING_OTHERS_ONLY;
}

/* Would it have the shim if it were started now? */
static bool is_earlier(const struct enabled *enabled, const struct ns_process_report *patient,
                       const char *unit)
{
    const struct ns_finding *reason = ns_findings_first_reason(&patient->findings);
    double started;

    if (!reason || reason->kind == NS_FINDING_EARLIER)
        return reason != NULL;
    if (enabled->name[0] == '\0' || !lacks_variable(reason))
        return false;
    started = unit_started(unit);
    if (started == 0)
        started = ns_proc_started(&patient->proc);
    return started <= enabled->written;
}

static void name_unit(struct enabled *enabled, const char *unit)
{
    for (unsigned i = 0; i < enabled->n_units; i++)
        if (strcmp(enabled->units[i], unit) == 0)
            return;
    if (unit[0] == '\0')
        return;
    if (enabled->n_units == NAMED_MOST)
        enabled->more_units++;
    else
        snprintf(enabled->units[enabled->n_units++], sizeof(enabled->units[0]), "%s", unit);
}

static void keep(char why[NS_FINDING_SIZE], const struct ns_finding *reason)
{
    if (why[0] == '\0')
        snprintf(why, NS_FINDING_SIZE, "%s", reason->text);
}

/* The shim is in it: does it work? */
static void count_loaded(struct enabled *enabled, const struct ns_finding *reason)
{
    bool is_broken = reason && reason->kind == NS_FINDING_BROKEN;

    if (!reason) {
        enabled->with++;
        return;
    }
    if (is_broken && !enabled->is_broken) /* what is to be mended goes before what is meant */
        enabled->why_aside[0] = '\0';
    keep(enabled->why_aside, reason);
    enabled->is_broken = enabled->is_broken || is_broken;
    enabled->aside++;
}

static void count(struct enabled *enabled, const struct ns_process_report *patient,
                  const char *unit)
{
    const struct ns_finding *reason = ns_findings_first_reason(&patient->findings);

    if (patient->loaded.state != NS_LOADED_NO) {
        count_loaded(enabled, reason);
    } else if (is_earlier(enabled, patient, unit)) {
        enabled->later++;
        if (enabled->name[0] == '\0')
            name_unit(enabled, unit);
    } else if (reason && enabled->name[0] != '\0' && lacks_variable(reason)) {
        enabled->lacking++;
        keep(enabled->why_lacking, reason);
    } else {
        enabled->never++;
    }
}

/* One that has just been started may still get the library. */
static void examine(struct status *status, struct ns_process_report *patient, pid_t pid)
{
    struct timespec before, after;

    ns_process_report_examine(patient, pid, 0, &status->sockets);
    if (patient->state != NS_PROCESS_REPORT_STARTING || status->wait_ms <= 0)
        return;
    ns_process_report_end(patient);
    clock_gettime(CLOCK_MONOTONIC, &before);
    ns_process_report_examine(patient, pid, status->wait_ms, &status->sockets);
    clock_gettime(CLOCK_MONOTONIC, &after);
    status->wait_ms -=
        (int)((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

static bool look_at(void *context, pid_t pid)
{
    static struct ns_process_report patient;
    struct status *status = context;
    char unit[NAME_MAX + 1];

    if (pid == getpid())
        return true;
    examine(status, &patient, pid);
    if (patient.state == NS_PROCESS_REPORT_DENIED || patient.state == NS_PROCESS_REPORT_HIDDEN)
        status->denied++;
    if (patient.state == NS_PROCESS_REPORT_JUDGED ||
        patient.state == NS_PROCESS_REPORT_UNREADABLE) {
        unit_of(&patient.proc, unit);
        for (size_t i = 0; i < status->n; i++)
            if (status->list[i].name[0] == '\0' || ns_host_is_for(status->list[i].name, unit))
                count(&status->list[i], &patient, unit);
    }
    ns_process_report_end(&patient);
    return true;
}

static void print_processes(const struct enabled *enabled, FILE *text)
{
    fprintf(text, "; %u process%s with it", enabled->with, enabled->with == 1 ? "" : "es");
    if (enabled->aside > 0)
        fprintf(text, "; %u in which it does nothing: %s", enabled->aside, enabled->why_aside);
    if (enabled->later > 0)
        fprintf(text, "; %u started before: start %s again", enabled->later,
                enabled->name[0] ? "it" : "them");
    for (unsigned i = 0; i < enabled->n_units; i++)
        fprintf(text, "%s%s", i ? ", " : ": ", enabled->units[i]);
    if (enabled->more_units > 0)
        fputs(" and others", text);
    if (enabled->lacking > 0)
        fprintf(text, "; %u without it, though started since: %s", enabled->lacking,
                enabled->why_lacking);
    if (enabled->never > 0)
        fprintf(text, "; %u out of its reach (nagleshim doctor --all --every says why)",
                enabled->never);
}

static void print_enabled(struct status *status, const struct enabled *enabled)
{
    char own[PATH_MAX], reason[512], text[4096] = "";
    cJSON *entry = ns_output_entry("enabled");
    FILE *stream = status->host->root[0] ? NULL : fmemopen(text, sizeof(text), "w");

    if (stream) {
        print_processes(enabled, stream);
        fclose(stream);
    }
    FACT(enabled->name[0] ? enabled->name : NS_HOST_PRELOAD, "%s%s", enabled->library, text);
    ns_output_text(entry, "unit", enabled->name[0] ? enabled->name : NULL);
    ns_output_text(entry, "library", enabled->library);
    if (entry) {
        cJSON_AddNumberToObject(entry, "with", enabled->with);
        cJSON_AddNumberToObject(entry, "aside", enabled->aside);
        cJSON_AddNumberToObject(entry, "earlier", enabled->later);
        cJSON_AddNumberToObject(entry, "lacking", enabled->lacking);
        cJSON_AddNumberToObject(entry, "unreached", enabled->never);
    }
    if (enabled->library[0] != '/' || ns_host_real(status->host, enabled->library, own) != 0)
        return;
    if (ns_elf_path_is_unfit(own, reason, sizeof(reason))) {
        status->wrong++;
        FACT("wrong", "%s%s %s", status->host->root, enabled->library, reason);
    }
}

static void judge_policy(void *context, const char *path)
{
    static struct ns_policy_found found;
    struct status *status = context;
    char text[PATH_MAX + sizeof(found.where.message) + 32];

    ns_policy_read_as(NS_POLICY_IN_DIRECTORY, path, &found, NULL);
    if (!found.policy) {
        status->wrong++;
        FACT("wrong", "%s; the programs that get it are left alone",
             ns_policy_error_text(&found, text, sizeof(text)));
    }
    ns_policy_free((struct ns_policy *)found.policy);
}

static int conclude(const struct status *status)
{
    cJSON *object = ns_output_object();
    bool good = status->n > 0 && status->wrong == 0;

    for (size_t i = 0; i < status->n; i++)
        good = good && status->list[i].later == 0 && status->list[i].lacking == 0 &&
               !status->list[i].is_broken;
    if (status->denied > 0)
        FACT("not looked into", "%u processes: ask as root", status->denied);
    if (status->n == 0)
        ns_output_line("nothing is enabled");
    if (object)
        cJSON_AddBoolToObject(object, "good", good);
    return good ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_host_status(const struct ns_host *host)
{
    struct status status = {.host = host, .wait_ms = WAIT_MS};
    char entry[PATH_MAX], policies[PATH_MAX];
    int result, error;

    ns_output_expect("facts");
    ns_output_expect("enabled");
    if (ns_host_preload_entry(host, entry))
        add(&status, "", entry);
    error = ns_host_units_each(host, add_unit, &status);
    if (error)
        ns_say("host", NS_HOST_UNITS ": %s", strerror(-error));
    if (!host->root[0] && status.n > 0)
        ns_proc_each(look_at, &status);
    for (size_t i = 0; i < status.n; i++)
        print_enabled(&status, &status.list[i]);
    if (ns_host_path(host, NS_POLICY_DIR_DEFAULT, policies))
        ns_directory_each(policies, judge_policy, &status);
    result = error ? ns_host_exit(error) : conclude(&status);
    free(status.list);
    ns_proc_sockets_end(&status.sockets);
    return result;
}

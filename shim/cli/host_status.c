/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim host status`: what is enabled in a system, which processes run with it, and what
 * must be started again for it. It judges processes as doctor does, and changes nothing. Not
 * async-signal-safe. */
#include "cli/host.h"

#include "cli/cli.h"
#include "cli/directory.h"
#include "cli/elf.h"
#include "cli/output.h"
#include "cli/patient.h"

#include "policy/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    unsigned with, later, never; /* processes: with it, started before it, out of its reach */
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
    char entry[PATH_MAX];

    if (!text)
        return;
    ns_host_dropin_entry(text, entry);
    add(context, name, entry);
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
    ns_proc_tame(unit);
}

/* Is the drop-in of this name for that unit: its own, its template's, or that of its prefix? */
static bool is_for(const char *name, const char *unit)
{
    size_t length = strlen(name) - strlen(".service");
    bool is_many = length > 0 && (name[length - 1] == '@' || name[length - 1] == '-');

    if (name[0] == '\0' || strcmp(name, unit) == 0)
        return true;
    return is_many && strncmp(name, unit, length) == 0;
}

/* Would it have the shim if it were started now? */
static bool is_earlier(const struct ns_patient *patient, bool is_unit)
{
    const struct ns_finding *reason = ns_findings_first_reason(&patient->findings);

    if (!reason || patient->loaded.state != NS_LOADED_NO)
        return false;
    return reason->cause == NS_CAUSE_EARLIER ||
           (is_unit && (reason->cause == NS_CAUSE_UNSET || reason->cause == NS_CAUSE_OTHERS_ONLY));
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

static void count(struct enabled *enabled, const struct ns_patient *patient, const char *unit)
{
    bool works = patient->loaded.state != NS_LOADED_NO;

    if (works)
        enabled->with++;
    else if (is_earlier(patient, enabled->name[0] != '\0'))
        enabled->later++;
    else
        enabled->never++;
    if (!works && enabled->name[0] == '\0' && is_earlier(patient, false))
        name_unit(enabled, unit);
}

/* One that has just been started may still get the library. */
static void examine(struct status *status, struct ns_patient *patient, pid_t pid)
{
    struct timespec before, after;

    ns_patient_examine(patient, pid, 0, &status->sockets);
    if (patient->state != NS_PATIENT_STARTING || status->wait_ms <= 0)
        return;
    ns_patient_end(patient);
    clock_gettime(CLOCK_MONOTONIC, &before);
    ns_patient_examine(patient, pid, status->wait_ms, &status->sockets);
    clock_gettime(CLOCK_MONOTONIC, &after);
    status->wait_ms -=
        (int)((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

static bool look_at(void *context, pid_t pid)
{
    static struct ns_patient patient;
    struct status *status = context;
    char unit[NAME_MAX + 1];

    if (pid == getpid())
        return true;
    examine(status, &patient, pid);
    if (patient.state == NS_PATIENT_DENIED || patient.state == NS_PATIENT_HIDDEN)
        status->denied++;
    if (patient.state == NS_PATIENT_JUDGED || patient.state == NS_PATIENT_UNREADABLE) {
        unit_of(&patient.proc, unit);
        for (size_t i = 0; i < status->n; i++)
            if (is_for(status->list[i].name, unit))
                count(&status->list[i], &patient, unit);
    }
    ns_patient_end(&patient);
    return true;
}

static void print_processes(const struct enabled *enabled, char *text, size_t size)
{
    int used = snprintf(text, size, "; %u process%s with it", enabled->with,
                        enabled->with == 1 ? "" : "es");

    if (enabled->later > 0)
        used += snprintf(text + used, size - (size_t)used, "; %u started before: start %s again",
                         enabled->later, enabled->name[0] ? "it" : "them");
    for (unsigned i = 0; i < enabled->n_units; i++)
        used +=
            snprintf(text + used, size - (size_t)used, "%s%s", i ? ", " : ": ", enabled->units[i]);
    if (enabled->more_units > 0)
        used += snprintf(text + used, size - (size_t)used, " and others");
    if (enabled->never > 0)
        snprintf(text + used, size - (size_t)used,
                 "; %u out of its reach (nagleshim doctor --all --every says why)", enabled->never);
}

static void print_enabled(struct status *status, const struct enabled *enabled)
{
    char own[PATH_MAX], reason[512], text[4096] = "";
    cJSON *entry = ns_output_entry("enabled");

    if (!status->host->root[0])
        print_processes(enabled, text, sizeof(text));
    FACT(enabled->name[0] ? enabled->name : NS_HOST_PRELOAD, "%s%s", enabled->library, text);
    ns_output_text(entry, "unit", enabled->name[0] ? enabled->name : NULL);
    ns_output_text(entry, "library", enabled->library);
    if (entry) {
        cJSON_AddNumberToObject(entry, "with", enabled->with);
        cJSON_AddNumberToObject(entry, "earlier", enabled->later);
        cJSON_AddNumberToObject(entry, "unreached", enabled->never);
    }
    if (!ns_host_path(status->host, enabled->library, own) || strchr(enabled->library, '/') == NULL)
        return;
    if (ns_elf_path_is_unfit(own, reason, sizeof(reason))) {
        status->wrong++;
        FACT("wrong", "%s %s", own, reason);
    }
}

static void judge_policy(void *context, const char *path)
{
    static struct ns_policy_found found;
    struct status *status = context;
    char text[PATH_MAX + sizeof(found.where.message) + 32];

    ns_policy_read(path, &found);
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
    unsigned later = 0;
    bool good;

    for (size_t i = 0; i < status->n; i++)
        later += status->list[i].later;
    good = status->n > 0 && later == 0 && status->wrong == 0;
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
    result = error ? NS_EXIT_ERROR : conclude(&status);
    free(status.list);
    ns_proc_sockets_end(&status.sockets);
    return result;
}

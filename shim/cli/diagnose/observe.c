/* SPDX-License-Identifier: MIT */
/* Owns the view from inside: the library that only observes, which is preloaded into the program,
 * and the private directory for its records. The directory must not outlive the command. Not
 * async-signal-safe. */
#include "cli/diagnose/diagnose.h"

#include "cli/cli.h"
#include "cli/process/elf.h"
#include "cli/process/environment.h"
#include "cli/process/preload.h"
#include "cli/process/proc.h"
#include "cli/process/reach.h"
#include "cli/diagnose/recorded.h"

#include "judge/statistics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define DIRECTORY_NAME "nagleshim."
#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static bool find_library(char path[PATH_MAX], struct ns_diagnose_end *end)
{
    char reason[128];

    if (ns_preload_locate_named(NS_OBSERVER_NAME, path) != 0) {
        ns_diagnose_note(end, "seen from outside only: " NS_OBSERVER_NAME
                              " was not found, or its path cannot be written in LD_PRELOAD");
        return false;
    }
    if (ns_elf_path_is_unfit(path, reason, sizeof reason)) {
        ns_diagnose_note(end, "seen from outside only: %s %s; install it again", path, reason);
        return false;
    }
    return true;
}

/* Is there a reason not to observe the program? */
static bool is_unfit(const struct ns_diagnose_options *options, struct ns_diagnose_end *end)
{
    const char *list = getenv("LD_PRELOAD");
    static struct ns_reach reach;
    char entry[PATH_MAX], off[128];

    if (options->outside)
        return true;
    if (ns_environment_off(off, sizeof off)) {
        ns_diagnose_note(end, "seen from outside only: NAGLESHIM_OFF is set");
        return true;
    }
    ns_reach_inspect(options->program[0], &reach);
    if (reach.verdict == NS_REACH_OTHER_MACHINE) { /* its loader would print an error */
        ns_diagnose_note(end, "seen from outside only: it %s", ns_reach_reason(reach.verdict));
        return true;
    }
    if (list && ns_preload_find(list, entry)) {
        ns_diagnose_note(end,
                         "LD_PRELOAD already names the library, so the program ran with it and was "
                         "seen from outside only");
        return true;
    }
    return false;
}

/* Is the directory in memory? On a disk, a process that writes to a mapped file sometimes waits for
 * the file system (mostly its journal), and is killed if the disk is full. */
static bool is_memory(const char *directory)
{
    struct statfs fs;

    return statfs(directory, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* Does the open directory belong to this user? */
static bool is_own(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid();
}

/* Remove the records in a directory and nothing else. */
static void empty(int fd)
{
    DIR *directory = fdopendir(dup(fd));
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (strcmp(entry->d_name, NS_RECORD_PROCESSES) == 0 ||
            fnmatch("*" NS_RECORD_SUFFIX, entry->d_name, FNM_PERIOD) == 0)
            unlinkat(fd, entry->d_name, 0);
    if (directory)
        closedir(directory);
}

/* Has nobody locked the directory for a while? A new one is not locked at once. */
static bool is_left_behind(int fd)
{
    enum { SECONDS = 60 };
    struct stat st;

    return is_own(fd) && fstat(fd, &st) == 0 && time(NULL) - st.st_mtime > SECONDS &&
           flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* A command that was killed leaves its directory behind; the next one removes it. */
static void sweep(const char *temporary)
{
    DIR *list = opendir(temporary);
    struct dirent *entry;

    while (list && (entry = readdir(list))) {
        int fd = -1;

        if (fnmatch(DIRECTORY_NAME "??????", entry->d_name, 0) == 0)
            fd = openat(dirfd(list), entry->d_name, DIRECTORY_FLAGS);
        if (is_left_behind(fd)) {
            empty(fd);
            unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
        }
        if (fd >= 0)
            close(fd);
    }
    if (list)
        closedir(list);
}

static bool make_directory(struct ns_observation *observation, struct ns_diagnose_end *end)
{
    const char *temporary = getenv("TMPDIR");

    if (!temporary || *temporary != '/' || strlen(temporary) > sizeof observation->directory - 32)
        temporary = "/tmp";
    if (!is_memory(temporary) && is_memory("/dev/shm") && access("/dev/shm", W_OK | X_OK) == 0)
        temporary = "/dev/shm";
    sweep(temporary);
    snprintf(observation->directory, sizeof observation->directory, "%s/" DIRECTORY_NAME "XXXXXX",
             temporary);
    if (mkdtemp(observation->directory)) {
        observation->fd = open(observation->directory, DIRECTORY_FLAGS);
        if (is_own(observation->fd) && flock(observation->fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        errno = EBUSY; /* another user has replaced it */
        if (observation->fd >= 0)
            close(observation->fd);
    }
    ns_diagnose_note(end, "seen from outside only: cannot make a directory in %s: %s", temporary,
                     strerror(errno));
    observation->directory[0] = '\0';
    return false;
}

bool ns_observe_begin(const struct ns_diagnose_options *options, struct ns_observation *observation,
                      struct ns_diagnose_end *end)
{
    char library[PATH_MAX];
    char *list;

    if (is_unfit(options, end) || !find_library(library, end) || !make_directory(observation, end))
        return false;
    list = ns_preload_join(getenv("LD_PRELOAD"), library);
    if (!list || asprintf(&observation->preload, "LD_PRELOAD=%s", list) < 0)
        observation->preload = NULL;
    free(list);
    if (!observation->preload) {
        ns_observe_end(observation);
        return false;
    }
    snprintf(observation->texts[0], sizeof observation->texts[0], "NAGLESHIM_RECORD=%s",
             observation->directory);
    observation->environment[0] = observation->preload;
    observation->environment[1] = observation->texts[0];
    snprintf(observation->texts[1], sizeof observation->texts[1], "NAGLESHIM_EXPERIMENT%s",
             options->experiment == NS_EXPERIMENT_PUSH          ? "=push"
             : options->experiment == NS_EXPERIMENT_ACKNOWLEDGE ? "=acknowledge"
                                                                : "");
    observation->environment[2] = observation->texts[1];
    return true;
}

static void add_connection(struct ns_diagnosis *diagnosis, struct ns_diagnosed_process *process,
                           const struct ns_recorded *recorded)
{
    struct ns_diagnosed_connection connection = {
        .process = process,
        .source = NS_SOURCE_INSIDE,
        .role = recorded->role,
        .local = recorded->local,
        .remote = recorded->remote,
        .connections = recorded->connections,
        .verdict = &recorded->verdict,
        .pattern = recorded->pattern,
    };
    int row = ns_diagnosis_add(diagnosis, &connection);

    for (size_t i = 0; row >= 0 && i < recorded->n_holds; i++)
        ns_diagnosis_add_hold(diagnosis, (unsigned)row, &recorded->holds[i]);
}

static void add_experiment(struct ns_diagnosis *diagnosis,
                           const struct ns_diagnosed_process *process,
                           const struct ns_recorded_process *recorded)
{
    if (recorded->experiment == NS_EXPERIMENT_NONE ||
        diagnosis->n_experiments == NS_EXPERIMENTS_MOST)
        return;
    diagnosis->experiments[diagnosis->n_experiments++] = (struct ns_diagnosed_experiment){
        .process = process,
        .trial = {.pushes = recorded->experiment == NS_EXPERIMENT_PUSH,
                  .done = recorded->n_treated,
                  .left = recorded->n_untreated,
                  .done_ms = ns_statistics_median(recorded->treated, recorded->n_treated),
                  .left_ms = ns_statistics_median(recorded->untreated, recorded->n_untreated),
                  .p = ns_statistics_mann_whitney(recorded->treated, recorded->n_treated,
                                                  recorded->untreated, recorded->n_untreated)},
    };
}

static void add_process(struct ns_diagnosis *diagnosis, const struct ns_recorded_process *recorded)
{
    struct ns_diagnosed_process *process = ns_diagnosis_new_process(diagnosis, recorded->pid);

    if (!process)
        return;
    snprintf(process->name, sizeof process->name, "%s", recorded->name);
    snprintf(process->exe, sizeof process->exe, "%s", recorded->exe);
    process->curable.yes = true; /* the library was preloaded */
    diagnosis->looks += recorded->looks;
    diagnosis->forgotten += recorded->slots_lost;
    diagnosis->missed += recorded->events_lost;
    for (size_t i = 0; i < recorded->n_connections; i++)
        add_connection(diagnosis, process, &recorded->connections[i]);
    add_experiment(diagnosis, process, recorded);
}

/* Are these rows about the same connections? From inside, an inherited socket has no role, and its
 * service is its peer. */
static bool same_ends(const struct ns_diagnosed *inside, const struct ns_diagnosed *row)
{
    if (inside->role == NS_ROLE_UNKNOWN)
        return ns_address_is_same(&inside->service, &row->remote) ||
               ns_address_is_same(&inside->service, &row->service);
    if (inside->role != row->role && row->role != NS_ROLE_UNKNOWN)
        return false;
    return ns_address_is_same(&inside->service, &row->service) ||
           (inside->role == NS_ROLE_SERVER && inside->service.port == row->local.port);
}

/* Does a record describe the connections of this row from outside more exactly? In a container a
 * process knows itself by another pid. */
static bool is_recorded(const struct ns_diagnosis *diagnosis, const struct ns_diagnosed *row)
{
    if (row->source == NS_SOURCE_INSIDE)
        return false;
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_diagnosed *other = &diagnosis->rows[i];

        if (other->source == NS_SOURCE_INSIDE &&
            (other->process->pid == row->process->pid ||
             (row->process->has_other_number &&
              strcmp(other->process->name, row->process->name) == 0)) &&
            same_ends(other, row))
            return true;
    }
    return false;
}

static bool has_outside_row(const struct ns_diagnosis *diagnosis,
                            const struct ns_diagnosed_process *process)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        if (diagnosis->rows[i].process == process && diagnosis->rows[i].source == NS_SOURCE_OUTSIDE)
            return true;
    return false;
}

/* Only processes of this user in this root directory can write to the directory. */
static void note_apart(const struct ns_diagnosis *diagnosis, struct ns_diagnose_end *end)
{
    const struct ns_diagnosed_process *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < diagnosis->n_processes; i++) {
        const struct ns_diagnosed_process *process = diagnosis->processes[i];

        if (!process->is_apart || process->curable.reason[0] ||
            !has_outside_row(diagnosis, process))
            continue;
        first = first ? first : process;
        n++;
    }
    if (n == 1)
        ns_diagnose_note(end,
                         "process %d (%s) was seen from outside only: it has another user, root "
                         "directory or mount namespace, and cannot write its record",
                         first->pid, first->name);
    else if (n > 1)
        ns_diagnose_note(end,
                         "%zu processes were seen from outside only: they have another user, root "
                         "directory or mount namespace, and cannot write their records",
                         n);
}

static void note_unrecorded(const struct ns_observation *observation, size_t n,
                            struct ns_diagnose_end *end)
{
    if (n)
        ns_diagnose_note(end,
                         "%zu process%s seen from outside only: there were more than %d, or there "
                         "was no room for records in %s",
                         n, n == 1 ? " was" : "es were", NS_RECORD_PROCESSES_MOST,
                         observation->directory);
}

void ns_observe_collect(const struct ns_observation *observation, struct ns_diagnosis *diagnosis,
                        struct ns_diagnose_end *end)
{
    struct ns_recorded_all all;

    if (!observation->directory[0])
        return;
    if (ns_recorded_read(observation->fd, &all) == 0) {
        for (size_t i = 0; i < all.n_processes; i++)
            add_process(diagnosis, &all.processes[i]);
        note_unrecorded(observation, all.n_unrecorded, end);
        if (all.n_broken)
            ns_diagnose_note(end, "%zu records could not be read", all.n_broken);
        ns_recorded_free(&all);
        ns_diagnosis_drop(diagnosis, is_recorded);
    }
    note_apart(diagnosis, end);
}

void ns_observe_end(struct ns_observation *observation)
{
    if (observation->directory[0]) {
        empty(observation->fd);
        close(observation->fd);
        /* If the name is another directory's now, it is only removed if it is empty. */
        rmdir(observation->directory);
    }
    observation->directory[0] = '\0';
    free(observation->preload);
    observation->preload = NULL;
}

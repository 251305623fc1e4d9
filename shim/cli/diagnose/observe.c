/* SPDX-License-Identifier: MIT */
/* Owns the view from inside: the library that only observes, which is preloaded into the program,
 * and the private directory for its records. The directory must not outlive the command. */
#include "cli/diagnose/diagnose.h"

#include "cli/program/program.h"
#include "cli/verbs.h"
#include "judge/record.h"
#include "process/scope.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PREFIX "nagleshim.diagnose."

enum { SWEPT_MOST = 4096 };

/* Is the directory in memory? On a disk, a process that writes to a mapped file sometimes waits for
 * the file system (mostly its journal), and is killed if the disk is full. */
static bool is_memory(const char *directory)
{
    struct statfs fs;
    return statfs(directory, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* The directory in which observed processes leave their records. While the command runs it holds a
 * lock on it. */
static char name[1024];
static int directory = -1; /* its name may later be another directory's; -1: nothing is observed */

/* If the name is another directory's now, that is only removed if it is empty. */
static void remove_directory(int fd, const char *path)
{
    NS_AUTO_CLOSEDIR DIR *list = fdopendir(fd);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (fnmatch("*" NS_RECORD_SUFFIX, entry->d_name, FNM_PERIOD) == 0)
            unlinkat(fd, entry->d_name, 0);
    rmdir(path);
}

static void remove_records(void)
{
    if (directory >= 0)
        remove_directory(directory, name);
    directory = -1;
}

/* Opens and locks a directory. -1: it is another user's, or a command that runs has it. */
static int take_directory(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077) &&
                   flock(fd, LOCK_EX | LOCK_NB) == 0))
        return fd;
    close(fd);
    return -1;
}

/* Removes what killed commands of this user have left in this place, where others may have made
 * very many directories of such names. */
static void sweep(const char *place)
{
    NS_AUTO_CLOSEDIR DIR *list = opendir(place);
    const struct dirent *entry;
    for (int n = 0; n < SWEPT_MOST && list && (entry = readdir(list)); n++) {
        const char *path = ns_words("%s/%s", place, entry->d_name);
        int fd = fnmatch(PREFIX "??????", entry->d_name, 0) == 0 ? take_directory(path) : -1;
        if (fd >= 0)
            remove_directory(fd, path);
    }
}

static bool make_directory(void)
{
    const char *place = getenv("TMPDIR");
    struct stat st = {0};
    if (!place || *place != '/' || strlen(place) > sizeof name - 32 || !is_memory(place))
        place = "/dev/shm";
    if (!is_memory(place))
        return false;
    sweep(place);
    atexit(remove_records); /* whatever fails */
    /* Another command may sweep it before it is locked. */
    for (int tries = 0; tries < 8 && st.st_nlink == 0; tries++) {
        remove_records();
        snprintf(name, sizeof name, "%s/" PREFIX "XXXXXX", place);
        directory = mkdtemp(name) ? take_directory(name) : -1;
        if (directory >= 0)
            fstat(directory, &st);
    }
    return st.st_nlink > 0;
}

#define OUTSIDE "seen from outside only: "

char *const *ns_observe_begin(struct ns_diagnosis *diagnosis)
{
    static char *environment[4];
    static struct ns_reach reach;
    char library[PATH_MAX], text[PATH_MAX];
    const char *source, *missing, *what = ns_option_text(NS_DIAGNOSE_EXPERIMENT);
    if (ns_option_text(NS_DIAGNOSE_OUTSIDE))
        return NULL;
    ns_reach_inspect(ns_operands.words[0], &reach);
    if (ns_environment_off()) {
        NS_NOTE(diagnosis, OUTSIDE "NAGLESHIM_OFF is set");
    } else if (reach.verdict == NS_REACH_OTHER_MACHINE) { /* its loader would print an error */
        NS_NOTE(diagnosis, OUTSIDE "it %s", ns_reach_reason(reach.verdict));
    } else if (!ns_reach_reason(reach.verdict) && (source = ns_reach_source(&reach, text))) {
        NS_NOTE(diagnosis,
                "%s already names the library, so the program ran with it and was seen from "
                "outside only",
                source);
    } else if ((missing = ns_preload_locate(NS_OBSERVER_NAME, reach.narrow, library))) {
        NS_NOTE(diagnosis, OUTSIDE "%s", missing);
    } else if (!make_directory()) {
        NS_NOTE(diagnosis, OUTSIDE
                "records need a directory in memory (tmpfs), and neither /dev/shm nor TMPDIR "
                "is one that can be written");
    } else {
        environment[0] = ns_preload_variable(library, reach.file);
        environment[1] = ns_words("NAGLESHIM_RECORD=%s", name);
        environment[2] = ns_words("NAGLESHIM_EXPERIMENT%s%s", what ? "=" : "", what ? what : "");
        return environment;
    }
    return NULL;
}

/* Are these rows about the same connections? From inside, an inherited socket has no role, and its
 * service is its peer. */
static bool same_ends(const struct ns_row *inside, const struct ns_row *row)
{
    if (inside->role == NS_ROLE_UNKNOWN && inside->service.port == 0)
        return row->local.port == inside->local.port;
    if (inside->role == NS_ROLE_UNKNOWN)
        return ns_address_is_same(&inside->service, &row->remote) ||
               ns_address_is_same(&inside->service, &row->service);
    if (inside->role != row->role && row->role != NS_ROLE_UNKNOWN)
        return false;
    return ns_address_is_same(&inside->service, &row->service) ||
           (inside->role == NS_ROLE_SERVER && inside->service.port == row->local.port);
}

/* Does the record describe the connections of this row? In a container a process knows itself by
 * another pid. */
static bool describes(const struct ns_row *inside, const struct ns_row *row)
{
    return inside->source == NS_SOURCE_INSIDE && row->source == NS_SOURCE_OUTSIDE &&
           (inside->process->pid == row->process->pid ||
            (row->process->has_other_number &&
             strcmp(inside->process->name, row->process->name) == 0)) &&
           same_ends(inside, row);
}

/* From inside every hold is seen, unless the program waits without libc. On a busy machine, those
 * that are seen from outside are not certain. */
static bool sees_less(const struct ns_row *inside, const struct ns_row *row)
{
    const struct ns_verdict *seen = &inside->verdict, *verdict = &row->verdict;
    return verdict->stalls + verdict->maybe > 2 * (seen->stalls + seen->maybe + seen->late) + 1;
}

/* A row from outside is needless if one from inside sees as much. In a container several processes
 * may have one name; each row from inside stays, unless a row from outside is left that saw more.
 * Only from outside is it seen when this end's ACKs leave. */
static void merge(struct ns_row *inside, struct ns_row *outside)
{
    struct ns_verdict *verdict = &inside->verdict;
    const uint64_t late = verdict->delays[NS_DELAY_PEER] + verdict->receiving;
    inside->process->queued = outside->process->queued;
    inside->process->stolen = outside->process->stolen;
    verdict->lone_acks += outside->verdict.lone_acks;
    /* A client that waited for no late data only asks as often as its delayed ACKs come. */
    if (inside->role != NS_ROLE_CLIENT || late * 2 > outside->verdict.gaps) {
        verdict->gaps += outside->verdict.gaps;
        verdict->gaps_ns += outside->verdict.gaps_ns;
    }
    memcpy(verdict->lateness, outside->verdict.lateness, sizeof verdict->lateness);
    ns_verdict_grade(verdict);
    outside->is_needless |= !sees_less(inside, outside);
}

/* A process that a preload reaches, but whose connections are in no record. */
static void examine_unrecorded(struct ns_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->n_rows; i++) {
        const struct ns_row *row = diagnosis->rows[i];
        if (row->source != NS_SOURCE_OUTSIDE || row->is_peer || !row->process->is_reachable)
            continue;
        NS_NOTE(diagnosis,
                "process %d (%s) was seen from outside only: it left no record, as it "
                "has another user, root directory, mount namespace or environment, "
                "its calls do not go through libc, or there was no room",
                row->process->pid, row->process->name);
        return;
    }
}

void ns_observe_collect(struct ns_diagnosis *diagnosis)
{
    if (directory < 0)
        return;
    size_t n_broken = ns_recorded_read(directory, diagnosis);
    remove_records();
    if (n_broken)
        NS_NOTE(diagnosis, "%s could not be read", ns_count(n_broken, "record"));
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        for (size_t j = 0; j < diagnosis->n_rows; j++)
            if (describes(diagnosis->rows[i], diagnosis->rows[j]))
                merge(diagnosis->rows[i], diagnosis->rows[j]);
    ns_diagnosis_drop_needless(diagnosis);
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        for (size_t j = 0; j < diagnosis->n_rows; j++)
            diagnosis->rows[i]->is_needless |= describes(diagnosis->rows[i], diagnosis->rows[j]);
    ns_diagnosis_drop_needless(diagnosis);
    examine_unrecorded(diagnosis);
}

/* SPDX-License-Identifier: MIT */
/* See owners.h. Reads the descriptor tables in /proc. It stops no process and opens none of its
 * descriptors. Not async-signal-safe. */
#include "watch/owners.h"

#include "base/clock.h"
#include "base/path.h"
#include "process/proc.h"
#include "process/scope.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES_FIRST = 1024, ROUNDS_KEPT = 64, READ_AT_ONCE = 32 };

static size_t place_of(const struct ns_owners *owners, uint64_t inode)
{
    size_t at = (size_t)(inode * 0x9e3779b97f4a7c15U >> 32) & (owners->room - 1);
    while (owners->places[at].inode && owners->places[at].inode != inode)
        at = (at + 1) & (owners->room - 1);
    return at;
}

/* Move the slots that are kept to a table with room for more. */
static void rebuild(struct ns_owners *owners)
{
    struct ns_owned *old = owners->places;
    size_t old_room = owners->room, kept = 0;
#define KEPT(place)                                                                                \
    ((place)->inode &&                                                                             \
     ((place)->connection || owners->stamp - (place)->stamp < (uint32_t)ROUNDS_KEPT))
    for (size_t i = 0; i < old_room; i++)
        kept += KEPT(&old[i]);
    owners->room = PLACES_FIRST;
    while (owners->room < kept * 4)
        owners->room *= 2;
    owners->places = ns_allocate(owners->room, sizeof *owners->places);
    for (size_t i = 0; i < old_room; i++)
        if (KEPT(&old[i]))
            owners->places[place_of(owners, old[i].inode)] = old[i];
#undef KEPT
    owners->used = kept;
    free(old);
}

struct ns_owned *ns_owners_place(struct ns_owners *owners, uint64_t inode, bool make)
{
    if (make && owners->used * 2 >= owners->room)
        rebuild(owners);
    struct ns_owned *place = owners->room ? &owners->places[place_of(owners, inode)] : NULL;
    if (place && !place->inode && make) {
        *place = (struct ns_owned){.inode = inode, .stamp = owners->stamp};
        owners->used++;
    }
    return place && place->inode ? place : NULL;
}

/* Its directory in /proc, or -errno. state: NULL if it is not asked for. */
static int open_process(pid_t pid, struct ns_state *state)
{
    const int directory = ns_proc_directory(pid);
    const int error = directory >= 0 && state ? ns_state_read(directory, "stat", state) : 0;
    if (!error)
        return directory;
    close(directory);
    return error == -ENOENT ? -ESRCH : error;
}

const struct ns_watched_process *ns_owners_process(const struct ns_owners *owners, pid_t pid)
{
    for (size_t i = 0; i < owners->n_processes; i++)
        if (owners->processes[i].pid == pid)
            return &owners->processes[i];
    return NULL;
}

int ns_owners_add(struct ns_owners *owners, pid_t pid, uint64_t before)
{
    struct ns_state state;
    if (ns_owners_process(owners, pid))
        return 0;
    NS_AUTO_CLOSE int directory = open_process(pid, &state);
    if (directory < 0)
        return directory;
    if (state.start >= before) /* the one that was listed may have ended */
        return -ESRCH;
    NS_GROW(owners->processes, owners->n_processes);
    owners->processes[owners->n_processes++] =
        (struct ns_watched_process){.pid = pid, .started = state.start};
    return 0;
}

/* At once, since the process may end the next moment. */
static void name_owner(const struct ns_owners *owners, struct ns_owned *place)
{
    struct ns_state state;
    char exe[PATH_MAX];
    ssize_t n;
    if (ns_state_read(dirfd(owners->round.list), "../stat", &state) != 0)
        return;
    place->started = state.start;
    n = readlinkat(dirfd(owners->round.list), "../exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    exe[ns_path_length(exe)] = '\0';
    /* A process that is ending has no executable. */
    snprintf(place->name, sizeof place->name, "%.*s", (int)sizeof place->name - 1,
             *exe ? ns_path_base(exe) : state.name);
}

static void take_descriptor(struct ns_owners *owners, const char *name)
{
    pid_t pid = owners->round.pid;
    struct ns_owned *place;
    char target[64];
    ssize_t n = readlinkat(dirfd(owners->round.list), name, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strncmp(target, "socket:[", 8) != 0)
        return;
    place = ns_owners_place(owners, strtoull(target + 8, NULL, 10), true);
    bool chosen = owners->round.chosen;
    owners->round.fresh += chosen && !place->chosen;
    /* If its process does not have it any more, this one inherited it. */
    if (place->pid == 0 || owners->stamp - place->stamp > 1 || (chosen && !place->chosen)) {
        place->pid = pid;
        place->chosen = chosen;
        name_owner(owners, place);
    }
    if (place->pid == pid)
        place->fd = atoi(name);
    place->stamp = owners->stamp;
}

static void note_refused(struct ns_owners *owners, pid_t pid, int error)
{
    owners->round.denied++;
    owners->refused = pid;
    owners->refusal = error;
}

/* If only the main thread of a process has ended: the directory of another one; or -1. */
static int open_thread(int directory)
{
    NS_AUTO_CLOSEDIR DIR *tasks = ns_proc_list(directory, "task");
    const struct dirent *entry;
    struct ns_state state;
    int thread = -1;
    while (thread < 0 && tasks && (entry = readdir(tasks))) {
        thread = openat(dirfd(tasks), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (thread >= 0 && (ns_state_read(thread, "stat", &state) != 0 || state.letter == 'Z')) {
            close(thread);
            thread = -1;
        }
    }
    return thread;
}

/* Begin to read the descriptors of a process. -ESRCH: it has ended; other errors: not permitted. */
static int begin_process(struct ns_owners *owners, pid_t pid, int opened)
{
    NS_AUTO_CLOSE int directory = opened;
    int error = directory < 0 ? directory : ns_netns_note(owners, directory);
    const int thread = error == -ENOENT ? open_thread(directory) : -1;
    if (thread >= 0) {
        close(directory);
        directory = thread;
        error = ns_netns_note(owners, directory);
    }
    owners->round.pid = pid;
    owners->round.list = error ? NULL : ns_proc_list(directory, "fd");
    if (owners->round.list)
        return 0;
    error = error ? error : -errno;
    error = error == -ENOENT ? -ESRCH : error;
    /* Kernel threads and zombies have no sockets, although permission is checked first for them as
     * well. */
    struct ns_state state;
    if (error != -ESRCH && owners->round.chosen &&
        !(ns_state_read(directory, "stat", &state) == 0 &&
          (state.is_kernel_thread || strchr("ZX", state.letter))))
        note_refused(owners, pid, error);
    return error;
}

/* The children of each thread, proc_pid_task_tid_children(5). Of those that start during the round,
 * whose children are read as well, a program may have ever more: the next round finds them. */
static void find_children(struct ns_owners *owners, int directory)
{
    NS_AUTO_CLOSEDIR DIR *tasks = ns_proc_list(directory, "task");
    const struct dirent *entry;
    char path[300];
    while (tasks && (entry = readdir(tasks))) {
        pid_t pid;
        snprintf(path, sizeof path, "%s/children", entry->d_name); /* not of "." and ".." */
        NS_AUTO_FCLOSE FILE *stream = ns_proc_stream(dirfd(tasks), path);
        while (stream && fscanf(stream, "%d", &pid) == 1) {
            int error = ns_owners_add(owners, pid, owners->round.began);
            if (error && error != -ESRCH)
                note_refused(owners, pid, error);
        }
    }
}

/* Children are added at the end of the list, and read in the same round. */
static bool next_chosen(struct ns_owners *owners)
{
    if (owners->round.next == owners->n_processes)
        return false;
    const struct ns_watched_process process = owners->processes[owners->round.next];
    struct ns_state state;
    int directory = open_process(process.pid, &state);
    if (directory >= 0 && state.start != process.started) { /* another process has its number */
        close(directory);
        directory = -ESRCH;
    }
    owners->round.chosen = true;
    if (owners->children && directory >= 0)
        find_children(owners, directory);
    int error = begin_process(owners, process.pid, directory);
    owners->processes[owners->round.next].refusal = error;
    if (error == -ESRCH)
        owners->processes[owners->round.next] = owners->processes[--owners->n_processes];
    else
        owners->round.next++;
    return true;
}

static bool next_of_all(struct ns_owners *owners)
{
    pid_t pid;
    if (!owners->round.all)
        return false;
    do
        pid = owners->round.all[owners->round.next_of_all++];
    while (pid && ns_owners_process(owners, pid));
    if (!pid)
        return false;
    owners->round.chosen = owners->all;
    begin_process(owners, pid, open_process(pid, NULL));
    return true;
}

static void read_some_descriptors(struct ns_owners *owners)
{
    const struct dirent *entry = NULL;
    for (int i = 0; i < READ_AT_ONCE && (entry = readdir(owners->round.list)); i++)
        if (isdigit((unsigned char)entry->d_name[0]))
            take_descriptor(owners, entry->d_name);
    if (!entry) {
        closedir(owners->round.list);
        owners->round.list = NULL;
    }
}

static int begin_round(struct ns_owners *owners)
{
    memset(&owners->round, 0, sizeof owners->round);
    if ((owners->all || owners->everyone) && !(owners->round.all = ns_proc_all()))
        return -errno;
    owners->round.goes_on = true;
    owners->round.began = ns_state_now();
    owners->stamp++;
    return 0;
}

static void end_round(struct ns_owners *owners)
{
    if (owners->round.all) {
        free(owners->round.all);
        owners->round.all = NULL;
        owners->complete = owners->stamp;
        owners->everyone = false;
    }
    owners->round.goes_on = false;
    owners->denied = owners->round.denied;
    owners->fresh = owners->round.fresh;
}

int ns_owners_step(struct ns_owners *owners, uint64_t until)
{
    int error = owners->round.goes_on ? 0 : begin_round(owners);
    if (error)
        return error;
    do {
        if (owners->round.list) {
            read_some_descriptors(owners);
        } else if (!next_chosen(owners) && !next_of_all(owners)) {
            end_round(owners);
            return 0;
        }
    } while (ns_clock_now(CLOCK_MONOTONIC) < until);
    return 1;
}

void ns_owners_stop(struct ns_owners *owners)
{
    if (owners->round.list)
        closedir(owners->round.list);
    free(owners->round.all);
    memset(&owners->round, 0, sizeof owners->round);
}

void ns_owners_release(struct ns_owners *owners)
{
    ns_owners_stop(owners);
    free(owners->processes);
    free(owners->places);
    ns_netns_release(owners);
}

/* SPDX-License-Identifier: MIT */
/* A process as /proc shows it. Everything is read through one descriptor of its directory, so that
 * a process that ends is not confused with a later one that has the same number. Errors are -errno;
 * -ESRCH: it has ended; -EACCES or -EPERM: this user may not read it.
 *
 * What takes a struct ns_proc may wait for the process or a file system, for ever: it is for the
 * reader (facts.h). The other functions read what the kernel knows itself. */
#ifndef NS_PROC_H
#define NS_PROC_H

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* What the file stat of a process says, which every user may read. */
struct ns_state {
    char letter; /* 'Z': a zombie */
    int threads; /* of a zombie, which is then only the main thread: those that go on, and it */
    bool is_exiting, is_kernel_thread;
    char name[16];  /* the kernel's name for it, cut; a process can change it */
    uint64_t start; /* in clock ticks after boot; identifies a process together with its pid */
};

struct ns_proc {
    int dir;    /* /proc/PID; negative: closed */
    int memory; /* its file mem, or -errno */
    pid_t pid;
    /* from status and stat, which anybody may read */
    pid_t process;         /* the thread group: differs from pid if that is a thread's number */
    uid_t user, real_user; /* effective; real, which set-user-ID programs do not change */
    int seccomp;           /* 0: none; 1: strict; 2: filter */
    struct ns_state state; /* all zero: unknown */
    /* from ns_proc_look */
    char exe[PATH_MAX];    /* ends with " (deleted)" if the file was removed; "": unknown */
    char execfn[PATH_MAX]; /* AT_EXECFN, what execve was given; "": memory cannot be read */
    bool secure;           /* AT_SECURE: the loader ignores LD_PRELOAD */
};

/* Open a file, or a directory, below an open directory of /proc for reading; NULL and errno. */
FILE *ns_proc_stream(int directory, const char *name);
DIR *ns_proc_list(int directory, const char *name);

/* The numbers of all processes, and a 0, to be freed; NULL and errno. The list is complete before a
 * process is examined: otherwise a user who starts processes all the time, each with a greater
 * number, would keep the caller busy for ever. */
pid_t *ns_proc_all(void);

/* name: the path of the file relative to directory. 0 or -errno. */
int ns_state_read(int directory, const char *name, struct ns_state *state);

/* The same for its file status: process, user, real_user and seccomp. Waits for nothing. */
int ns_proc_read_status(int directory, const char *name, struct ns_proc *proc);

/* The same of a process by its number. */
int ns_state_of(pid_t pid, struct ns_state *state);

/* The start of a process that is started now. */
uint64_t ns_state_now(void);

/* Is the process exiting, a zombie, or gone? state: or its main thread, although others go on;
 * error: of reading it. are: each of several, which end with a 0; of none, false. */
bool ns_state_is_gone(int error, const struct ns_state *state);
bool ns_proc_is_gone(pid_t pid);
bool ns_proc_are_gone(const pid_t *pids);

static inline bool ns_proc_is_denied(int error)
{
    return error == -EPERM || error == -EACCES;
}

/* What follows the slices at the beginning of a control group's path: of the groups with names in
 * systemd's way, systemd itself has made only those in slices. The last part always follows,
 * without the underscore that systemd puts before a unit's name which the kernel may use for a
 * file, as "io.service", or which begins with one. */
const char *ns_proc_past_slices(const char *path);

#define NS_PROC_STUCK                                                                              \
    "it, or another process of its user, is stuck in the kernel or very slow, perhaps on a file "  \
    "system that does not answer; it was not examined"

/* Open its directory in /proc. Returns a descriptor, or -errno. */
int ns_proc_directory(pid_t pid);

/* Open the directory, and the memory unless that was opened by somebody else, and read status and
 * stat. ns_proc_close is to be called in any case. */
int ns_proc_open(pid_t pid, int memory, struct ns_proc *proc);
void ns_proc_close(struct ns_proc *proc);

/* Read what only the same user and root may read. */
int ns_proc_look(struct ns_proc *proc);

/* The next variable of an environment, cut to its room. left: how many bytes may be read, at first
 * NS_VARIABLES_MOST: a process may show any of its memory as its environment (PR_SET_MM_MAP). False
 * at the end. */
enum { NS_VARIABLE_ROOM = 64 << 10, NS_VARIABLES_MOST = 4 << 20 };
bool ns_proc_variable(FILE *variables, char entry[NS_VARIABLE_ROOM], size_t *left);

/* The LD_PRELOAD that it was started with, to be freed. NULL: it was not set; or, with *is_lost, it
 * is unknown, since the process may have overwritten it, as nginx, redis and perl do to change
 * their title. */
char *ns_proc_preload(const struct ns_proc *proc, bool *is_lost);

/* Its name, in buffer: the base name of what execve was given, or of the executable if
 * the process has renamed itself. For one that may not be read, the kernel's, which is cut. */
const char *ns_proc_name(const struct ns_proc *proc, char *buffer, size_t size);

/* Its arguments, each with a zero byte. Returns how many bytes; 0 if they are unknown, longer than
 * size, or overwritten by a title. */
size_t ns_proc_words(const struct ns_proc *proc, char *buffer, size_t size);

/* How long its threads, the first 256 of them, have waited for a CPU, in ns; 0: unknown. */
uint64_t ns_proc_queued(pid_t pid);

/* For how long a hypervisor has not run a CPU that had something to run, in ns, as a mean of this
 * machine's CPUs; 0: unknown. See "steal" in proc_stat(5). Only differences have a meaning. */
uint64_t ns_proc_stolen(void);

/* Calls visit for each line of maps, until it returns false. Returns 1 if it did, and 0 if it did
 * not. */
struct ns_mapping {
    uint64_t start, end, offset;
    bool writable, has_file;
    const char *path; /* "" if it has none */
};
int ns_proc_each_mapping(const struct ns_proc *proc,
                         bool (*visit)(void *context, const struct ns_mapping *mapping),
                         void *context);

/* Read size bytes of its memory. -EFAULT if not all of them can be read. */
int ns_proc_memory(const struct ns_proc *proc, uint64_t address, void *buffer, size_t size);

/* A text in its memory, cut to size. */
int ns_proc_text(const struct ns_proc *proc, uint64_t address, char *buffer, size_t size);

/* Returns how many of its descriptors are TCP sockets. Sets *has_ring if one is an io_uring. */
unsigned ns_proc_sockets(const struct ns_proc *proc, bool *has_ring);

/* Find a file as the process would: below its root, for a relative path from its working directory.
 * Returns a descriptor with O_PATH, or -errno. */
int ns_proc_find_file(const struct ns_proc *proc, const char *path);

/* Has it another root directory ("root"), or namespace of a kind ("ns/pid"), than this command?
 * False if that is unknown. */
bool ns_proc_has_other(const struct ns_proc *proc, const char *kind);

/* When it was started at the latest, in seconds of the clock that file times have; 0: unknown. */
double ns_state_started(const struct ns_state *state);

#endif

/* SPDX-License-Identifier: MIT */
/* A process as /proc shows it. Everything is read through one descriptor of its directory, so that
 * a process that ends, and whose number is used again, is not taken for another. Errors are
 * -errno; -ESRCH: it has ended; -EACCES or -EPERM: not to be read by this user. */
#ifndef NS_PROC_H
#define NS_PROC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct ns_proc {
    int dir; /* /proc/PID */
    pid_t pid;
    /* from status, which anybody may read */
    char name[64]; /* the kernel's, cut to 15 bytes */
    char state;    /* 'Z': only its exit status is left */
    pid_t process; /* the thread group: pid, but for a thread's number */
    pid_t parent;
    uid_t user;  /* effective */
    int seccomp; /* 0: none; 1: strict; 2: filter */
    bool is_kernel_thread;
    uint64_t start; /* clock ticks after boot; 0: not known */
    /* from ns_proc_look */
    char exe[PATH_MAX];    /* with " (deleted)" if so; "" if there is none */
    char execfn[PATH_MAX]; /* AT_EXECFN, what execve was given; "" if memory cannot be read */
    char *environ, *arguments;
    size_t environ_size, arguments_size;
    bool secure; /* AT_SECURE: the loader ignores LD_PRELOAD */
};

/* Calls visit for the number of each process that /proc shows, until it returns false. 0 or -errno;
 * -ENOENT: it shows none. */
int ns_proc_each(bool (*visit)(void *context, pid_t pid), void *context);

/* Open the directory and read status. */
int ns_proc_open(pid_t pid, struct ns_proc *proc);
void ns_proc_close(struct ns_proc *proc);

/* Read what only the same user and root may read. May be called again: what was there is given up.
 */
int ns_proc_look(struct ns_proc *proc);

/* Is it ending, or has it ended since ns_proc_open, if only to be a zombie? */
bool ns_proc_is_gone(const struct ns_proc *proc);

/* A thread of it that lives, whose main thread has ended; 0 if there is none. */
pid_t ns_proc_other_thread(const struct ns_proc *proc);

/* A variable of the environment that it was started with; NULL if it was not set. */
const char *ns_proc_getenv(const struct ns_proc *proc, const char *name);

/* Its argument number n; NULL past the last. */
const char *ns_proc_argument(const struct ns_proc *proc, unsigned n);

/* What argv[0] was when it was started, as far as can be told: what execve was given, or the
 * executable, where the process has written a title over its arguments (setproctitle). */
const char *ns_proc_argv0(const struct ns_proc *proc);

/* Its name, for people, and one that a policy's pattern for it may have: the base name of what
 * execve was given, or of the executable where the process has given itself another name since; of
 * another user's process the kernel's, which is cut. In buffer, tame. */
const char *ns_proc_name(const struct ns_proc *proc, char *buffer, size_t size);

/* One line of maps for each call of visit, until that returns false. */
struct ns_mapping {
    uint64_t start, end, offset;
    bool writable, executable, has_file;
    const char *path; /* "" if it has none */
};
int ns_proc_each_mapping(const struct ns_proc *proc,
                         bool (*visit)(void *context, const struct ns_mapping *mapping),
                         void *context);

/* Its memory: all of size, or an error. */
int ns_proc_memory(const struct ns_proc *proc, uint64_t address, void *buffer, size_t size);

/* A text in its memory, cut to size, control characters replaced. */
int ns_proc_text(const struct ns_proc *proc, uint64_t address, char *buffer, size_t size);

/* How many TCP sockets the kernel knows it has that are connected or listen, each counted once.
 * sockets keeps what was read of its network namespace for the next process in it; it is 0 at
 * first.
 */
struct ns_sockets {
    struct ns_socket_table *tables;
    size_t n;
};
int ns_proc_sockets(const struct ns_proc *proc, struct ns_sockets *sockets, unsigned *count);
void ns_proc_sockets_end(struct ns_sockets *sockets);

/* Find a file as the process would, below its root, whatever links stand in the way; a relative
 * path is looked up in its working directory. Returns a descriptor with O_PATH, or -errno. */
int ns_proc_find_file(const struct ns_proc *proc, const char *path);

/* Open it for reading, if it is a regular file: -EISDIR or -ESPIPE if not. */
int ns_proc_open_file(const struct ns_proc *proc, const char *path);

/* Has it another root or mount namespace than this command? */
bool ns_proc_lives_elsewhere(const struct ns_proc *proc);

/* Has it another number for itself, in a pid namespace of its own? */
bool ns_proc_has_other_number(const struct ns_proc *proc);

/* When it was started at the latest, in seconds of the clock that file times have; 0 if unknown. */
double ns_proc_started(const struct ns_proc *proc);

/* When a file was changed, in the same seconds. */
double ns_proc_changed(const struct stat *st);

#endif

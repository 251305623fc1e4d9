/* SPDX-License-Identifier: MIT */
/* Owns the reading of /proc/PID. It must not stop, trace or change the process, and trusts nothing
 * in its memory: lengths are bounded. */
#include "process/proc.h"

#include "base/clock.h"
#include "base/path.h"
#include "process/scope.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The start is known to a clock tick, and a file's time to a jiffy. */
#define START_SLACK 0.03

enum { THREADS_MOST = 256 };
enum { FLAG_EXITING = 0x4, FLAG_KERNEL_THREAD = 0x200000 }; /* linux/sched.h: PF_ */

FILE *ns_proc_stream(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

DIR *ns_proc_list(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

pid_t *ns_proc_all(void)
{
    NS_AUTO_CLOSEDIR DIR *dir = opendir("/proc");
    const struct dirent *entry;
    pid_t *pids = NULL;
    size_t n = 0;
    while (dir && (entry = readdir(dir))) {
        const pid_t pid = atoi(entry->d_name);
        if (pid <= 0)
            continue;
        NS_GROW(pids, n);
        pids[n++] = pid;
    }
    if (!dir)
        return NULL;
    NS_GROW(pids, n);
    pids[n] = 0;
    return pids;
}

int ns_proc_read_status(int directory, const char *name, struct ns_proc *proc)
{
    NS_AUTO_FCLOSE FILE *status = ns_proc_stream(directory, name);
    char line[256];
    if (!status)
        return -errno;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "Uid:\t%u\t%u", &proc->real_user, &proc->user) != 2 &&
            sscanf(line, "Tgid:\t%d", &proc->process) != 1)
            sscanf(line, "Seccomp:\t%d", &proc->seccomp);
    return 0;
}

/* See proc_pid_stat(5). */
int ns_state_read(int directory, const char *name, struct ns_state *state)
{
    NS_AUTO_CLOSE int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    char line[1024]; /* more than enough for the fields up to the start */
    unsigned flags;
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n < 0)
        return -errno;
    line[n] = '\0';
    const char *name_at = strchr(line, '(');
    const char *at = strrchr(line, ')'); /* the name may contain blanks and parentheses */
    if (!name_at || !at || at < name_at ||
        sscanf(at + 1,
               " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s"
               " %*s %d %*s %" SCNu64,
               &state->letter, &flags, &state->threads, &state->start) != 4)
        return -EIO;
    snprintf(state->name, sizeof state->name, "%.*s", (int)(at - name_at - 1), name_at + 1);
    state->is_exiting = flags & FLAG_EXITING;
    state->is_kernel_thread = flags & FLAG_KERNEL_THREAD;
    return 0;
}

bool ns_state_is_gone(int error, const struct ns_state *state)
{
    return error ? error == -ENOENT || error == -ESRCH
                 : strchr("ZX", state->letter) || state->is_exiting;
}

int ns_state_of(pid_t pid, struct ns_state *state)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return ns_state_read(AT_FDCWD, path, state);
}

uint64_t ns_state_now(void)
{
    return ns_clock_now(CLOCK_BOOTTIME) / (1000000000U / (uint64_t)sysconf(_SC_CLK_TCK));
}

bool ns_proc_is_gone(pid_t pid)
{
    struct ns_state state = {0};
    return ns_state_is_gone(ns_state_of(pid, &state), &state) && state.threads <= 1;
}

bool ns_proc_are_gone(const pid_t *pids)
{
    const bool any = *pids;
    while (*pids && ns_proc_is_gone(*pids))
        pids++;
    return any && !*pids;
}

int ns_proc_directory(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", pid);
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0 || errno != ENOENT)
        return directory >= 0 ? directory : errno == EPERM ? -EACCES /* hidepid=1 */ : -errno;
    /* With hidepid, /proc does not show the processes of other users. */
    return kill(pid, 0) != 0 && errno == EPERM ? -EACCES : -ESRCH;
}

int ns_proc_open(pid_t pid, int memory, struct ns_proc *proc)
{
    *proc = (struct ns_proc){.memory = memory, .pid = pid, .process = pid};
    proc->dir = ns_proc_directory(pid);
    int error = proc->dir < 0 ? proc->dir : ns_proc_read_status(proc->dir, "status", proc);
    if (error)
        return error == -ENOENT ? -ESRCH : error;
    ns_state_read(proc->dir, "stat", &proc->state);
    if (memory < 0)
        proc->memory = openat(proc->dir, "mem", O_RDONLY | O_CLOEXEC);
    if (proc->memory < 0)
        proc->memory = -errno;
    return 0;
}

void ns_proc_close(struct ns_proc *proc)
{
    if (proc->dir >= 0)
        close(proc->dir);
    if (proc->memory >= 0)
        close(proc->memory);
    proc->dir = proc->memory = -1;
}

static int read_auxv(struct ns_proc *proc)
{
    NS_AUTO_FCLOSE FILE *auxv = ns_proc_stream(proc->dir, "auxv");
    unsigned long entry[2];
    if (!auxv)
        return -errno;
    while (fread(entry, sizeof entry, 1, auxv) == 1) {
        if (entry[0] == AT_SECURE)
            proc->secure = entry[1] != 0;
        if (entry[0] == AT_EXECFN &&
            ns_proc_text(proc, entry[1], proc->execfn, sizeof proc->execfn) != 0)
            proc->execfn[0] = '\0';
    }
    return 0;
}

int ns_proc_look(struct ns_proc *proc)
{
    ssize_t n = readlinkat(proc->dir, "exe", proc->exe, sizeof proc->exe - 1);
    int error = n < 0 ? -errno : 0;
    proc->exe[n > 0 ? n : 0] = '\0';
    if (!error)
        error = read_auxv(proc);
    return error == -ENOENT ? -ESRCH : error;
}

/* Is it the name of the program that runs? */
static bool names_program(const struct ns_proc *proc, const char *word)
{
    struct stat named, exe;
    NS_AUTO_CLOSE int fd = ns_proc_find_file(proc, word);
    return strcmp(ns_path_base(word), ns_path_base(proc->execfn)) == 0 ||
           (fd >= 0 && fstat(fd, &named) == 0 && fstatat(proc->dir, "exe", &exe, 0) == 0 &&
            named.st_ino == exe.st_ino && named.st_dev == exe.st_dev);
}

size_t ns_proc_words(const struct ns_proc *proc, char *buffer, size_t size)
{
    NS_AUTO_CLOSE int fd = openat(proc->dir, "cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buffer, size);
    if (n <= 0 || (size_t)n == size || buffer[n - 1] != '\0' || !names_program(proc, buffer))
        return 0;
    return (size_t)n;
}

uint64_t ns_proc_queued(pid_t pid)
{
    uint64_t sum = 0, one;
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    NS_AUTO_CLOSEDIR DIR *tasks = opendir(path);
    const struct dirent *task;
    for (int n = 0; tasks && n < THREADS_MOST && (task = readdir(tasks)); n++) {
        snprintf(path, sizeof path, "%s/schedstat", task->d_name);
        NS_AUTO_FCLOSE FILE *file = ns_proc_stream(dirfd(tasks), path);
        /* "../schedstat" is that of the first thread again. */
        if (file && task->d_name[0] != '.' && fscanf(file, "%*u %" SCNu64, &one) == 1)
            sum += one;
    }
    return sum;
}

uint64_t ns_proc_stolen(void)
{
    static const char format[] = "cpu%*[0-9] %*u %*u %*u %*u %*u %*u %*u %" SCNu64;
    uint64_t sum = 0, ticks, n = 0;
    char line[512];
    NS_AUTO_FCLOSE FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0)
        if (sscanf(line, format, &ticks) == 1) {
            sum += ticks;
            n++;
        }
    return n > 0 ? 1 + sum * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)) / n : 0;
}

bool ns_proc_variable(FILE *variables, char entry[NS_VARIABLE_ROOM], size_t *left)
{
    size_t n = 0, from = *left;
    int c = EOF;
    for (; *left > 0 && (c = getc_unlocked(variables)) != EOF && c != '\0'; --*left)
        if (n < NS_VARIABLE_ROOM - 1)
            entry[n++] = (char)c;
    entry[n] = '\0';
    *left -= c == '\0';
    return *left < from;
}

char *ns_proc_preload(const struct ns_proc *proc, bool *is_lost)
{
    static const char name[] = "LD_PRELOAD=";
    NS_AUTO_FCLOSE FILE *variables = ns_proc_stream(proc->dir, "environ");
    static char entry[NS_VARIABLE_ROOM];
    char *value = NULL;
    size_t left = NS_VARIABLES_MOST, length = strlen(name);
    *is_lost = false;
    while (variables && !value && ns_proc_variable(variables, entry, &left)) {
        *is_lost |= !strchr(entry, '=');
        if (strncmp(entry, name, length) == 0)
            value = strdup(entry + length);
    }
    return value;
}

const char *ns_proc_name(const struct ns_proc *proc, char *buffer, size_t size)
{
    enum { KERNEL_MOST = 15 }; /* TASK_COMM_LEN without its end */
    char exe[PATH_MAX];

    snprintf(exe, sizeof exe, "%.*s", (int)ns_path_length(proc->exe), proc->exe);
    const char *name = ns_path_program(proc->execfn, ns_path_base(exe));
    /* The kernel has the beginning of it, unless the process has renamed itself. */
    if (strncmp(proc->state.name, name, KERNEL_MOST) != 0)
        name = *exe ? ns_path_base(exe) : proc->state.name;
    snprintf(buffer, size, "%s", name);
    return buffer;
}

int ns_proc_each_mapping(const struct ns_proc *proc,
                         bool (*visit)(void *context, const struct ns_mapping *mapping),
                         void *context)
{
    NS_AUTO_FCLOSE FILE *maps = ns_proc_stream(proc->dir, "maps");
    NS_AUTO_FREE char *line = NULL;
    size_t room = 0;
    int stopped = 0;
    if (!maps)
        return errno == ENOENT ? -ESRCH : -errno;
    while (!stopped && getline(&line, &room, maps) > 0) {
        struct ns_mapping mapping = {0};
        uint64_t inode = 0;
        char permissions[8] = "";
        int path = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %n",
                   &mapping.start, &mapping.end, permissions, &mapping.offset, &inode, &path) < 5)
            continue;
        mapping.writable = permissions[1] == 'w';
        mapping.has_file = inode != 0;
        mapping.path = path > 0 ? line + path : "";
        stopped = !visit(context, &mapping);
    }
    return stopped;
}

/* How many bytes were read, or -errno. Fewer than size if unmapped memory follows. */
static ssize_t read_memory(const struct ns_proc *proc, uint64_t address, void *buffer, size_t size)
{
    if (proc->memory < 0)
        return proc->memory;
    ssize_t n = pread(proc->memory, buffer, size, (off_t)address);
    return n >= 0 ? n : errno == EIO ? -EFAULT : -errno;
}

int ns_proc_memory(const struct ns_proc *proc, uint64_t address, void *buffer, size_t size)
{
    ssize_t n = read_memory(proc, address, buffer, size);
    return n < 0 ? (int)n : (size_t)n == size ? 0 : -EFAULT;
}

int ns_proc_text(const struct ns_proc *proc, uint64_t address, char *buffer, size_t size)
{
    ssize_t n = read_memory(proc, address, buffer, size - 1);
    buffer[n > 0 ? n : 0] = '\0';
    return n < 0 ? (int)n : 0;
}

unsigned ns_proc_sockets(const struct ns_proc *proc, bool *has_ring)
{
    NS_AUTO_CLOSEDIR DIR *dir = ns_proc_list(proc->dir, "fd");
    const struct dirent *entry;
    unsigned count = 0;
    *has_ring = false;
    while (dir && (entry = readdir(dir))) {
        char path[300], target[64] = "", protocol[32] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dirfd(dir), entry->d_name);
        if (readlink(path, target, sizeof target - 1) < 0)
            continue;
        *has_ring |= strcmp(target, "anon_inode:[io_uring]") == 0;
        /* Other files are not asked, since their file system may not answer. */
        if (strncmp(target, "socket:", 7) == 0 &&
            getxattr(path, "system.sockprotoname", protocol, sizeof protocol) > 0)
            count += strncmp(protocol, "TCP", 3) == 0 || strncmp(protocol, "MPTCP", 5) == 0;
    }
    return count;
}

bool ns_proc_has_other(const struct ns_proc *proc, const char *kind)
{
    /* faccessat() would ask without the reader's capabilities. */
    struct stat there, own;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/%s", kind);
    return fstatat(proc->dir, kind, &there, 0) == 0 && stat(path, &own) == 0 &&
           (there.st_dev != own.st_dev || there.st_ino != own.st_ino);
}

/* The path below the root of the process, which for a relative one needs its working directory: as
 * the root of the search, this would be the end of "..". False if that is outside of its root. */
static bool find_path(const struct ns_proc *proc, const char *path, char full[PATH_MAX])
{
    char root[PATH_MAX], cwd[PATH_MAX];
    ssize_t above = readlinkat(proc->dir, "root", root, sizeof root);
    ssize_t length = readlinkat(proc->dir, "cwd", cwd, sizeof cwd);
    above = above == 1 ? 0 : above;
    if (above < 0 || length < above || memcmp(root, cwd, (size_t)above) != 0 ||
        (length > above && cwd[above] != '/'))
        return false;
    return snprintf(full, PATH_MAX, "%.*s/%s", (int)(length - above), cwd + above, path) < PATH_MAX;
}

int ns_proc_find_file(const struct ns_proc *proc, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        /* A link in another root must not lead into ours. */
        .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_IN_ROOT,
    };
    char full[PATH_MAX];
    if (*path != '/' && !find_path(proc, path, full))
        return -ENOENT;
    NS_AUTO_CLOSE int at = openat(proc->dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = at < 0 ? -1
                    : (int)syscall(SYS_openat2, at, *path == '/' ? path : full, &how,
                                   sizeof how); /* Linux 5.6 */
    return fd < 0 ? -errno : fd;
}

double ns_state_started(const struct ns_state *state)
{
    const double now = (double)ns_clock_now(CLOCK_REALTIME),
                 up = (double)ns_clock_now(CLOCK_BOOTTIME);
    const double after = (double)state->start / (double)sysconf(_SC_CLK_TCK);
    return state->start ? (now - up) / 1e9 + after + START_SLACK : 0;
}

const char *ns_proc_past_slices(const char *path)
{
    const char *end;
    while ((end = strchr(path, '/')) &&
           (end == path || (end - path >= 6 && strncmp(end - 6, ".slice", 6) == 0)))
        path = end + 1;
    return path + (*path == '_');
}

/* SPDX-License-Identifier: MIT */
/* See find.h. Owns the search for a policy and the reading of its file. Never blocks on a file that
 * it opens, and never opens one below descriptor 3, which a daemon may have closed on purpose.
 * Reads no environment and prints nothing. A program may have its own functions called access and
 * open, so it makes these calls by number. */
#include "policy/find.h"

#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int (*ns_policy_open)(const char *path);

static int open_quietly(const char *path)
{
    int fd;
    do /* O_NONBLOCK: a FIFO must not hold up the start of a program */
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return -errno;
    if (fd >= 3)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int error = high < 0 ? -errno : high;
    close(fd);
    return error;
}

const char *ns_policy_error_reason(int error)
{
    return error == -ESPIPE ? "it is not a regular file" : strerror(-error);
}

/* Reads one byte more than a policy may have, to see that it is too large. Memory is zero, so a NUL
 * follows the text. */
static int read_all(int fd, struct ns_arena *memory, char **text, size_t *len)
{
    *text = ns_arena_alloc(memory, NS_POLICY_SIZE_MOST + 1);
    if (!*text)
        return -ENOMEM;
    for (ssize_t n = 1; n != 0 && *len <= NS_POLICY_SIZE_MOST;) {
        n = read(fd, *text + *len, NS_POLICY_SIZE_MOST + 1 - *len);
        if (n < 0 && errno != EINTR)
            return -errno;
        *len += n > 0 ? (size_t)n : 0;
    }
    ns_arena_trim(memory, *text, *len + 1);
    return 0;
}

static void start(struct ns_policy_found *found, enum ns_policy_origin origin, const char *path)
{
    found->origin = origin;
    found->policy = NULL;
    found->error = 0;
    found->where = (struct ns_policy_error){0};
    size_t len = strnlen(path, sizeof found->path - 1);
    memcpy(found->path, path, len);
    found->path[len] = '\0';
}

static void compile(struct ns_policy_found *found, struct ns_arena *memory, const char *text,
                    size_t len, const struct ns_policy_errors *all)
{
    struct ns_policy *policy;
    found->error = ns_policy_parse(memory, text, len, &policy, &found->where, all);
    found->policy = policy;
}

static void load(struct ns_policy_found *found, enum ns_policy_origin origin, const char *path,
                 bool is_stdin, const struct ns_policy_errors *all)
{
    struct ns_arena memory = {0};
    char *text = NULL;
    size_t len = 0;
    int fd = is_stdin ? STDIN_FILENO : (ns_policy_open ? ns_policy_open : open_quietly)(path);
    start(found, origin, path);
    /* Not fstat, whose symbol is of GLIBC_2.33, while the library must load on older ones. Pipes
     * and terminals cannot seek, a directory refuses the read, a device ends at the size limit. */
    bool seeks = is_stdin || fd < 0 || syscall(SYS_lseek, fd, 0l, SEEK_CUR) >= 0;
    found->error = fd < 0 ? fd : !seeks ? -errno : read_all(fd, &memory, &text, &len);
    if (fd >= 0 && !is_stdin)
        close(fd);
    if (found->error == 0) {
        compile(found, &memory, text, len, all);
        return;
    }
    ns_arena_free(&memory);
    snprintf(found->where.message, sizeof found->where.message, "cannot be read: %s",
             ns_policy_error_reason(found->error));
}

void ns_policy_read(enum ns_policy_origin origin, const char *path, struct ns_policy_found *found,
                    const struct ns_policy_errors *all)
{
    bool is_named = origin == NS_POLICY_NAMED;
    load(found, origin, path, is_named && strcmp(path, "-") == 0, all);
    if (is_named && found->error == -ESPIPE)
        strcat(found->where.message, "; '-' is standard input");
}

/* The base name of a path if it can be the name of a policy file, otherwise NULL. The "-bash" of a
 * login shell becomes bash. */
static const char *usable_base(const char *path)
{
    if (!path)
        return NULL;
    const char *base = ns_path_base(path);
    if (base[0] == '-')
        base++;
    /* Programs write sentences into argv[0]. Control characters would damage a log. */
    for (const char *c = base; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return NULL;
    bool good = *base && strlen(base) <= NAME_MAX - strlen(".json") && strcmp(base, ".") != 0 &&
                strcmp(base, "..") != 0;
    return good ? base : NULL;
}

bool ns_policy_next_directory(const char **list, const char **path, size_t *length)
{
    const char *at = *list;
    if (!at)
        return false;
    *length = strcspn(at, ":");
    *path = *length ? at : NS_POLICY_DIR_DEFAULT;
    *list = at[*length] ? at + *length + 1 : NULL;
    if (*length == 0)
        *length = strlen(NS_POLICY_DIR_DEFAULT);
    return true;
}

bool ns_policy_has_directory(const char *list)
{
    const char *dir;
    size_t len;
    char path[PATH_MAX];
    list = list ? list : "";
    while (ns_policy_next_directory(&list, &dir, &len)) {
        if (len >= sizeof path)
            continue;
        memcpy(path, dir, len);
        path[len] = '\0';
        /* Every program needs openat to start, so a seccomp filter allows it. */
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
        if (fd >= 0)
            return close(fd) == 0;
    }
    return false;
}

/* Returns true if the search ends here, because the file exists. */
static bool try_file(const struct ns_policy_request *request, enum ns_policy_origin origin,
                     const char *path, struct ns_policy_found *found)
{
    load(found, origin, path, false, request->all);
    if (request->tried)
        request->tried(path, found->error);
    return found->error != -ENOENT && found->error != -ENOTDIR;
}

/* Directory by directory, not name by name: so a default.json in the first directory applies to
 * every program, whatever the other directories contain. */
static bool try_directories(const struct ns_policy_request *request, struct ns_policy_found *found)
{
    const char *bases[] = {usable_base(request->argv0), usable_base(request->exe), "default"};
    const char *list = request->policy_dir ? request->policy_dir : "", *dir;
    char path[PATH_MAX];
    size_t len;
    while (ns_policy_next_directory(&list, &dir, &len)) {
        for (size_t i = 0; i < 3; i++) {
            bool skip = !bases[i];
            for (size_t j = 0; j < i && !skip; j++)
                skip = bases[j] && strcmp(bases[j], bases[i]) == 0;
            if (skip)
                continue;
            int n = snprintf(path, sizeof path, "%.*s/%s.json", (int)len, dir, bases[i]);
            if (n > 0 && n < PATH_MAX && try_file(request, NS_POLICY_IN_DIRECTORY, path, found))
                return true;
        }
    }
    return false;
}

void ns_policy_find(const struct ns_policy_request *request, struct ns_policy_found *found)
{
    const char *named = request->policy ? request->policy : "";
    if (named[strspn(named, " \t\r\n")] == '{') {
        start(found, NS_POLICY_INLINE, "NAGLESHIM_POLICY");
        compile(found, &(struct ns_arena){0}, named, strlen(named), request->all);
    } else if (named[0]) {
        /* Not ns_policy_read: standard input is the application's, so "-" is a file here. */
        try_file(request, NS_POLICY_NAMED, named, found);
    } else if (!try_directories(request, found)) {
        start(found, NS_POLICY_BUILTIN, "");
        found->policy = ns_policy_builtin();
    }
}

char *ns_policy_error_text(const struct ns_policy_found *found, char *buffer, size_t size)
{
    const struct ns_policy_error *where = &found->where;
    const char *path = found->path[0] ? found->path : "''"; /* the variable was empty */
    if (where->line)
        snprintf(buffer, size, "%s:%u:%u: %s", path, where->line, where->column, where->message);
    else
        snprintf(buffer, size, "%s: %s", path, where->message);
    return buffer;
}

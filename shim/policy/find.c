/* SPDX-License-Identifier: MIT */
/* See find.h. Owns the search for a policy and the reading of its file. Never blocks on a file that
 * it opens, and never opens one below descriptor 3, which a daemon may have closed on purpose.
 * Reads no environment and prints nothing. */
#include "policy/find.h"

#include "base/path.h"
#include "policy/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The bytes of a file, and the memory for compiling them. */
struct content {
    char *bytes;
    size_t len;
    struct ns_arena scratch;
};

static int open_quietly(const char *path)
{
    int fd;
    do /* O_NONBLOCK: a FIFO must not hold up the start of a program */
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
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

/* Reads one byte more than a policy may have, to see that it is too large. */
static int read_all(int fd, struct content *content)
{
    content->bytes = ns_arena_alloc(&content->scratch, NS_POLICY_SIZE_MOST + 1);
    if (!content->bytes)
        return -ENOMEM;
    for (;;) {
        ssize_t n = read(fd, content->bytes + content->len, NS_POLICY_SIZE_MOST + 1 - content->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        content->len += (size_t)n;
        if (n == 0 || content->len > NS_POLICY_SIZE_MOST)
            break;
    }
    ns_arena_trim(&content->scratch, content->bytes, content->len);
    return 0;
}

static int read_path(const char *path, struct content *content)
{
    int fd = open_quietly(path);
    if (fd < 0)
        return fd;
    /* Not fstat, whose symbol is of GLIBC_2.33, while the library must load on older ones. Pipes
     * and terminals cannot seek, a directory refuses the read, a device ends at the size limit. */
    int result = lseek(fd, 0, SEEK_CUR) < 0 ? -errno : read_all(fd, content);
    close(fd);
    return result;
}

const char *ns_policy_error_reason(int error)
{
    return error == -ESPIPE ? "it is not a regular file" : strerror(-error);
}

static void could_not_read(struct ns_policy_found *found, int error)
{
    found->error = error;
    found->where = (struct ns_policy_error){0};
    snprintf(found->where.message, sizeof found->where.message, "cannot be read: %s",
             ns_policy_error_reason(error));
}

static void compile(struct content *content, struct ns_policy_found *found,
                    const struct ns_policy_errors *all)
{
    struct ns_policy *policy;
    found->error = ns_policy_parse_in(&content->scratch, content->bytes, content->len, &policy,
                                      &found->where, all);
    found->policy = policy;
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

static void load(const struct ns_policy_request *request, const char *path, bool is_stdin,
                 struct ns_policy_found *found)
{
    struct content content = {0};
    int error = is_stdin ? read_all(STDIN_FILENO, &content) : read_path(path, &content);
    if (error)
        could_not_read(found, error);
    else
        compile(&content, found, request->all);
    ns_arena_free(&content.scratch);
}

void ns_policy_read(const char *path, struct ns_policy_found *found)
{
    ns_policy_read_as(NS_POLICY_NAMED, path, found, NULL);
}

void ns_policy_read_as(enum ns_policy_origin origin, const char *path,
                       struct ns_policy_found *found, const struct ns_policy_errors *all)
{
    const struct ns_policy_request request = {.all = all};
    bool is_named = origin == NS_POLICY_NAMED;
    start(found, origin, path);
    load(&request, path, is_named && strcmp(path, "-") == 0, found);
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

/* Returns true if the search ends here, because the file exists. */
static bool try_file(const struct ns_policy_request *request, const char *path,
                     struct ns_policy_found *found, ns_policy_tried *tried, void *context)
{
    start(found, NS_POLICY_IN_DIRECTORY, path);
    load(request, path, false, found);
    if (tried)
        tried(context, path, found->error);
    return found->error != -ENOENT && found->error != -ENOTDIR;
}

struct ns_policy_directories ns_policy_directories(const char *list)
{
    return (struct ns_policy_directories){list ? list : ""};
}

bool ns_policy_next_directory(struct ns_policy_directories *directories, const char **path,
                              size_t *length)
{
    const char *at = directories->rest;
    if (!at)
        return false;
    *length = (size_t)(strchrnul(at, ':') - at);
    *path = *length ? at : NS_POLICY_DIR_DEFAULT;
    directories->rest = at[*length] == ':' ? at + *length + 1 : NULL;
    if (*length == 0)
        *length = strlen(NS_POLICY_DIR_DEFAULT);
    return true;
}

bool ns_policy_has_directory(const char *list)
{
    struct ns_policy_directories directories = ns_policy_directories(list);
    const char *dir;
    size_t len;
    char path[PATH_MAX];
    while (ns_policy_next_directory(&directories, &dir, &len)) {
        if (len >= sizeof path)
            continue;
        memcpy(path, dir, len);
        path[len] = '\0';
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* dir is not terminated: its length is dir_len. */
static bool try_directory(const struct ns_policy_request *request, const char *dir, size_t dir_len,
                          struct ns_policy_found *found, ns_policy_tried *tried, void *context)
{
    const char *candidates[] = {request->argv0, request->exe, "default"};
    const char *bases[3];
    char path[PATH_MAX];
    for (size_t i = 0; i < 3; i++) {
        bases[i] = usable_base(candidates[i]);
        bool skip = !bases[i];
        for (size_t j = 0; j < i && !skip; j++)
            skip = bases[j] && strcmp(bases[j], bases[i]) == 0;
        if (skip)
            continue;
        int n = snprintf(path, sizeof path, "%.*s/%s.json", (int)dir_len, dir, bases[i]);
        if (n > 0 && n < PATH_MAX && try_file(request, path, found, tried, context))
            return true;
    }
    return false;
}

/* Directory by directory, not name by name: so a default.json in the first directory applies to
 * every program, whatever the other directories contain. */
static bool try_directories(const struct ns_policy_request *request, struct ns_policy_found *found,
                            ns_policy_tried *tried, void *context)
{
    struct ns_policy_directories directories = ns_policy_directories(request->policy_dir);
    const char *dir;
    size_t len;
    while (ns_policy_next_directory(&directories, &dir, &len))
        if (try_directory(request, dir, len, found, tried, context))
            return true;
    return false;
}

void ns_policy_find(const struct ns_policy_request *request, struct ns_policy_found *found,
                    ns_policy_tried *tried, void *context)
{
    const char *named = request->policy ? request->policy : "";
    const char *first = named;
    while (ns_scan_is_blank(*first))
        first++;
    if (*first == '{') {
        start(found, NS_POLICY_INLINE, "NAGLESHIM_POLICY");
        struct content content = {.bytes = (char *)named, .len = strlen(named)};
        compile(&content, found, request->all);
        ns_arena_free(&content.scratch);
    } else if (named[0]) {
        /* Not ns_policy_read: standard input is the application's, so "-" is a file here. */
        start(found, NS_POLICY_NAMED, named);
        load(request, named, false, found);
        if (tried)
            tried(context, named, found->error);
    } else if (!try_directories(request, found, tried, context)) {
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

/* SPDX-License-Identifier: MIT */
/* The search for a policy, its errors, and that no file can block it or take a low descriptor.
 * Works in a temporary directory. */
#include "policy/find.h"
#include "unit.h"

static char dir[] = "/tmp/nagleshim-find-XXXXXX";
static char path_buffer[PATH_MAX];
static char trace[4096]; /* base names of the files tried, with their errors */

static const char *in_dir(const char *name)
{
    snprintf(path_buffer, sizeof path_buffer, "%s/%s", dir, name);
    return path_buffer;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_dir(name), "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

static void write_policy(const char *name)
{
    char text[200];
    snprintf(text, sizeof text, "{\"version\": 1, \"rules\": [{\"name\": \"%s\"}]}", name);
    write_file(name, text);
}

/* Notes the path below dir, or the name of a file elsewhere, and the error. */
static void remember(const char *path, int error)
{
    size_t used = strlen(trace), length = strlen(dir);
    const char *name = strncmp(path, dir, length) == 0 ? path + length + 1 : strrchr(path, '/') + 1;
    snprintf(trace + used, sizeof trace - used, "%s%s:%d", used ? " " : "", name, -error);
}

static struct ns_policy_found found;

/* The name of the first rule of the found policy, or "" if there is no policy. */
static const char *find_by(struct ns_policy_request *request)
{
    static char name[100];
    trace[0] = '\0';
    request->tried = remember;
    ns_policy_find(request, &found);
    snprintf(name, sizeof name, "%s", found.policy ? found.policy->rules[0].name : "");
    ns_policy_free((struct ns_policy *)(uintptr_t)found.policy);
    return name;
}

static const char *find(const char *policy, const char *argv0, const char *exe)
{
    return find_by(&(struct ns_policy_request){
        .policy = policy, .policy_dir = dir, .argv0 = argv0, .exe = exe});
}

static const char *find_in(const char *list, const char *argv0, const char *exe)
{
    return find_by(&(struct ns_policy_request){.policy_dir = list, .argv0 = argv0, .exe = exe});
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

CHECK(make_directory)
{
    if (!mkdtemp(dir))
        abort();
}

CHECK(test_directory)
{
    /* write: text that is written first, unless it is NULL. */
    static const struct {
        const char *write, *policy, *argv0, *exe, *name, *trace, *what;
    } rows[] = {
        {NULL, NULL, "/bin/app", "/opt/real", "every-tcp-socket",
         "app.json:2 real.json:2 default.json:2", "without a file the built-in policy"},
        {"default.json", "", "/bin/app", "/opt/real", "default.json",
         "app.json:2 real.json:2 default.json:0", "default.json is for every program"},
        {"real.json", NULL, "/bin/app", "/opt/real", "real.json", "app.json:2 real.json:0",
         "a file for the executable is preferred"},
        {"app.json", NULL, "/bin/app", "/opt/real", "app.json", "app.json:0",
         "a file for argv[0] is preferred to that"},
        {NULL, NULL, "app", NULL, "app.json", "app.json:0", "argv[0] need not be a path"},
        {NULL, NULL, "-app", NULL, "app.json", "app.json:0",
         "the argv[0] of a login shell starts with a dash"},
        {NULL, NULL, NULL, NULL, "default.json", "default.json:0", "an unknown process"},
        {NULL, NULL, "gone", "/bin/gone", "default.json", "gone.json:2 default.json:0",
         "a name is looked up once"},
        {NULL, NULL, "default", "/bin/gone", "default.json", "default.json:0",
         "also if it is default"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].write)
            write_policy(rows[i].write);
        OK(is(find(rows[i].policy, rows[i].argv0, rows[i].exe), rows[i].name) &&
               is(trace, rows[i].trace) &&
               found.origin == (i ? NS_POLICY_IN_DIRECTORY : NS_POLICY_BUILTIN),
           "%s: %s", rows[i].what, trace);
    }
}

CHECK(test_directories)
{
    char list[4 * PATH_MAX], long_list[3 * PATH_MAX];
    static const struct {
        const char *write, *exe, *name, *what;
    } rows[] = {
        {NULL, "/opt/real", "every-tcp-socket", "a list is searched in its order"},
        {"far/app.json", "/opt/real", "far/app.json", "a file of a later directory"},
        {"near/real.json", "/opt/real", "near/real.json", "a file of an earlier one is preferred"},
        {NULL, "/opt/other", "far/app.json", "if it is for the program"},
        {"near/default.json", "/opt/other", "near/default.json",
         "default.json of an earlier one is preferred to any file of a later one"},
    };
    if (mkdir(in_dir("near"), 0700) != 0 || mkdir(in_dir("far"), 0700) != 0)
        abort();
    snprintf(list, sizeof list, "%s/near:%s/far", dir, dir);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].write)
            write_policy(rows[i].write);
        OK(is(find_in(list, "app", rows[i].exe), rows[i].name), "%s: %s", rows[i].what, trace);
        if (i == 0)
            OK(is(trace, "near/app.json:2 near/real.json:2 near/default.json:2 "
                         "far/app.json:2 far/real.json:2 far/default.json:2"),
               "each directory for each name");
    }
    write_file("near/default.json", "{}");
    OK(is(find_in(list, "app", "/opt/other"), "") && found.error == -EINVAL &&
           is(found.path, in_dir("near/default.json")),
       "a broken file ends the search");
    unlink(in_dir("near/default.json"));
    unlink(in_dir("near/real.json"));
    snprintf(list, sizeof list, "%s/none:%s/far/app.json:%s/far", dir, dir, dir);
    OK(is(find_in(list, "app", NULL), "far/app.json") && ns_policy_has_directory(list),
       "a missing file, and a file instead of a directory, are skipped: %s", trace);
    snprintf(list, sizeof list, "%s/none:%s/neither", dir, dir);
    OK(!ns_policy_has_directory(list), "a list without a directory");
    memset(long_list, 'x', sizeof long_list);
    snprintf(long_list + 2 * PATH_MAX, PATH_MAX, ":%s/far", dir);
    OK(is(find_in(long_list, "app", NULL), "far/app.json") && ns_policy_has_directory(long_list),
       "a name longer than a path is skipped");
}

CHECK(test_empty_directories)
{
    static const struct {
        const char *list, *are;
    } rows[] = {
        {"", "D"},     {":", "D D"},   {"a", "a"},        {"a:", "a D"},
        {":a", "D a"}, {"a:b", "a b"}, {"a::b", "a D b"}, {"a/:../b", "a/ ../b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char are[100] = "";
        const char *list = rows[i].list, *at;
        size_t length;
        while (ns_policy_next_directory(&list, &at, &length)) {
            bool is_default = length == strlen(NS_POLICY_DIR_DEFAULT) &&
                              memcmp(at, NS_POLICY_DIR_DEFAULT, length) == 0;
            snprintf(are + strlen(are), sizeof are - strlen(are), "%s%.*s", are[0] ? " " : "",
                     is_default ? 1 : (int)length, is_default ? "D" : at);
        }
        OK(is(are, rows[i].are), "the directories of '%s' are %s", rows[i].list, are);
    }
}

CHECK(test_odd_names)
{
    static const char *const odd[] = {"", ".", "..", "/", "-", "/bin/", "a\nb", "\x7F"};
    char name[300];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        find(NULL, odd[i], NULL);
        OK(is(trace, "default.json:0"), "odd argv[0] number %zu is skipped", i);
    }
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    find(NULL, name, NULL);
    OK(is(trace, "default.json:0"), "a name that is too long for a file is skipped");
    find(NULL, "two words: here", NULL);
    OK(is(trace, "two words: here.json:2 default.json:0"), "a name with spaces is looked up");
}

CHECK(test_broken)
{
    char text[PATH_MAX + 600], expected[PATH_MAX + 600];
    write_file("broken.json", "{\n  \"version\": 2\n}\n");
    OK(is(find(NULL, "broken", NULL), "") && found.error == -EINVAL && is(trace, "broken.json:22"),
       "a broken file ends the search, and there is no policy");
    snprintf(expected, sizeof expected, "%s:2:14: \"version\" must be 1, not 2",
             in_dir("broken.json"));
    OK(is(ns_policy_error_text(&found, text, sizeof text), expected), "%s", text);
    if (mkdir(in_dir("directory.json"), 0700) != 0 || mkfifo(in_dir("fifo.json"), 0600) != 0 ||
        symlink("loop.json", in_dir("loop.json")) != 0)
        abort();
    OK(is(find(NULL, "directory", NULL), "") && found.error == -EISDIR, "a directory in its place");
    OK(is(find(NULL, "fifo", NULL), "") && found.error == -ESPIPE, "a FIFO, without blocking");
    snprintf(expected, sizeof expected, "%s: cannot be read: it is not a regular file",
             in_dir("fifo.json"));
    OK(is(ns_policy_error_text(&found, text, sizeof text), expected), "%s", text);
    OK(is(find(NULL, "loop", NULL), "") && found.error == -ELOOP, "a symbolic link to itself");
    ns_policy_read("/dev/zero", &found);
    OK(!found.policy && found.error == -EINVAL, "an endless device is not read to its end: %s",
       found.where.message);
    ns_policy_read("/dev/null", &found);
    OK(!found.policy && found.error == -EINVAL, "an empty file is no policy");
}

CHECK(test_named)
{
    OK(is(find(in_dir("real.json"), "app", NULL), "real.json") && found.origin == NS_POLICY_NAMED,
       "NAGLESHIM_POLICY names a file, and no directory is searched");
    OK(is(find(in_dir("none.json"), "app", NULL), "") && found.error == -ENOENT,
       "a missing file ends the search");
    OK(is(find(" \n{\"version\":1,\"rules\":[{\"name\":\"inline\"}]}", "app", NULL), "inline") &&
           found.origin == NS_POLICY_INLINE && is(found.path, "NAGLESHIM_POLICY") && is(trace, ""),
       "NAGLESHIM_POLICY is the policy itself");
    char text[PATH_MAX + 600];
    find("{\"version\":2}", "app", NULL);
    OK(is(ns_policy_error_text(&found, text, sizeof text),
          "NAGLESHIM_POLICY:1:12: \"version\" must be 1, not 2"),
       "%s", text);
    if (chdir(dir) != 0)
        abort();
    OK(is(find("./real.json", "app", NULL), "real.json"), "a relative path");
    struct ns_policy_request request = {.policy = "-", .policy_dir = dir};
    ns_policy_find(&request, &found);
    OK(!found.policy && found.error == -ENOENT, "\"-\" is not the application's standard input");
    request = (struct ns_policy_request){.policy_dir = "/nonexistent/dir", .argv0 = "app"};
    ns_policy_find(&request, &found);
    OK(found.origin == NS_POLICY_BUILTIN && found.policy == ns_policy_builtin(),
       "a missing directory");
    request.policy_dir = "/dev/null";
    ns_policy_find(&request, &found);
    OK(found.origin == NS_POLICY_BUILTIN, "a file instead of a directory");
}

CHECK(test_size)
{
    FILE *file = fopen(in_dir("big.json"), "we");
    if (!file)
        abort();
    fputs("{\"version\":1,\"rules\":[{\"name\":\"big\"}]}", file);
    while (ftell(file) < NS_POLICY_SIZE_MOST)
        fputc('\n', file);
    fflush(file);
    OK(is(find(NULL, "big", NULL), "big"), "a file of 256 KiB is read");
    fputc('\n', file);
    fclose(file);
    OK(is(find(NULL, "big", NULL), "") && found.error == -EINVAL, "a larger one is not: %s",
       found.where.message);
}

CHECK(test_descriptors)
{
    int in = dup(0), out = dup(1), err = dup(2), probe;
    fflush(stdout);
    close(0);
    close(1);
    close(2);
    bool read_well = is(find(NULL, "app", NULL), "app.json");
    bool low_free = fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
    bool none_left = (probe = open("/dev/null", O_RDONLY | O_CLOEXEC)) == 0;
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    OK(read_well && low_free && none_left, "descriptors 0, 1 and 2 stay closed (%d)", probe);
    close(in);
    close(out);
    close(err);
}

CHECK(test_standard_input)
{
    int pipe_ends[2], in = dup(0);
    static const char text[] = "{\"version\":1,\"rules\":[]}";
    if (pipe(pipe_ends) != 0 || write(pipe_ends[1], text, strlen(text)) < 0)
        abort();
    close(pipe_ends[1]);
    dup2(pipe_ends[0], 0);
    ns_policy_read("-", &found);
    OK(found.policy && is(found.path, "-"), "\"-\" of the command is standard input");
    ns_policy_free((struct ns_policy *)(uintptr_t)found.policy);
    OK(fcntl(0, F_GETFD) >= 0, "which stays open");
    dup2(in, 0);
    close(in);
    close(pipe_ends[0]);
}

CHECK(remove_all)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    OK(system(command) == 0, "the temporary directory is removed");
}

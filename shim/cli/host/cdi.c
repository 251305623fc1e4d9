/* SPDX-License-Identifier: MIT */
/* Owns the specification for the Container Device Interface that `nagleshim cdi` prints: what a
 * container runtime adds to a container that asks for the shim as it asks for a device. It must
 * write no file. Not async-signal-safe. */
#include "cli/cli.h"

#include "cli/process/elf.h"
#include "cli/process/preload.h"
#include "cli/verbs.h"

#include "policy/find.h"

#include <cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lowest that has what is used here: readers refuse what is newer than they are, and podman 4.3
 * does so from 0.6 on. */
#define CDI_VERSION "0.3.0"
#define CDI_KIND "nagleshim.dev/shim"

/* Where they lie in every container, wherever they lie here. */
#define LIBRARY_THERE "/opt/nagleshim/" NS_LIBRARY_NAME
#define POLICIES_THERE "/etc/nagleshim"
#define PRELOAD_THERE "/etc/ld.so.preload"

#define SAY(...) ns_say("cdi", __VA_ARGS__)

/* What a container gets. */
struct paths {
    char library[PATH_MAX];
    char preload[PATH_MAX]; /* a file like /etc/ld.so.preload; "": there is none */
    const char *policies;   /* NULL: there is no such directory */
};

/* Read-only, and not run as a program: a library is mapped, which noexec would forbid. */
static void add_mount(cJSON *edits, const char *from, const char *to)
{
    cJSON *mounts = cJSON_GetObjectItemCaseSensitive(edits, "mounts");
    cJSON *mount = cJSON_CreateObject();
    const char *const options[] = {"ro", "bind", "nosuid", "nodev"};

    if (!mounts)
        mounts = cJSON_AddArrayToObject(edits, "mounts");
    cJSON_AddStringToObject(mount, "hostPath", from);
    cJSON_AddStringToObject(mount, "containerPath", to);
    cJSON_AddItemToObject(mount, "options",
                          cJSON_CreateStringArray(options, sizeof(options) / sizeof(options[0])));
    cJSON_AddItemToArray(mounts, mount);
}

static void add_variable(cJSON *edits, const char *name, const char *value)
{
    cJSON *variables = cJSON_GetObjectItemCaseSensitive(edits, "env");
    char text[PATH_MAX + 64];

    if (!variables)
        variables = cJSON_AddArrayToObject(edits, "env");
    snprintf(text, sizeof(text), "%s=%s", name, value);
    cJSON_AddItemToArray(variables, cJSON_CreateString(text));
}

static cJSON *add_device(cJSON *devices, const char *name)
{
    cJSON *device = cJSON_CreateObject();

    cJSON_AddStringToObject(device, "name", name);
    cJSON_AddItemToArray(devices, device);
    return cJSON_AddObjectToObject(device, "containerEdits");
}

static void specify_devices(cJSON *devices, const struct paths *paths)
{
    cJSON *edits = add_device(devices, "default");

    add_variable(edits, "LD_PRELOAD", LIBRARY_THERE);
    edits = add_device(devices, "log");
    add_variable(edits, "LD_PRELOAD", LIBRARY_THERE);
    add_variable(edits, "NAGLESHIM_LOG", "info");
    if (paths->preload[0]) /* LD_PRELOAD stays the container's own */
        add_mount(add_device(devices, "keep-env"), paths->preload, PRELOAD_THERE);
}

static cJSON *specify(const struct paths *paths)
{
    cJSON *specification = cJSON_CreateObject(), *edits;

    cJSON_AddStringToObject(specification, "cdiVersion", CDI_VERSION);
    cJSON_AddStringToObject(specification, "kind", CDI_KIND);
    specify_devices(cJSON_AddArrayToObject(specification, "devices"), paths);
    /* Of every device. */
    edits = cJSON_AddObjectToObject(specification, "containerEdits");
    add_mount(edits, paths->library, LIBRARY_THERE);
    if (paths->policies) {
        add_mount(edits, paths->policies, POLICIES_THERE);
        add_variable(edits, "NAGLESHIM_POLICY_DIR", POLICIES_THERE);
    }
    return specification;
}

/* A container does not start where something that it is to mount is missing: that is left out. */
static void find_policies(struct paths *paths)
{
    struct stat st;

    if (stat(NS_POLICY_DIR_DEFAULT, &st) == 0 && S_ISDIR(st.st_mode))
        paths->policies = NS_POLICY_DIR_DEFAULT;
    else
        SAY("%s is not there, so that containers get no policies of this machine",
            NS_POLICY_DIR_DEFAULT);
}

static bool names_library(const char *path)
{
    char text[4096], entry[PATH_MAX];
    FILE *stream = fopen(path, "re");
    size_t n = stream ? fread(text, 1, sizeof(text) - 1, stream) : 0;

    if (stream)
        fclose(stream);
    text[n] = '\0';
    return ns_preload_find_in_file(text, entry) && strcmp(entry, LIBRARY_THERE) == 0;
}

/* It is installed with this command, or named. */
static bool find_preload(const char *named, struct paths *paths)
{
    char here[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
    char *slash;

    here[n > 0 ? n : 0] = '\0';
    slash = strrchr(here, '/');
    snprintf(path, sizeof(path), "%.*s/../share/nagleshim/container/ld.so.preload",
             slash ? (int)(slash - here) : 0, here);
    if (!realpath(named ? named : path, paths->preload) || !names_library(paths->preload)) {
        if (named) {
            SAY("'%s' is no file that names " LIBRARY_THERE, named);
            return false;
        }
        SAY("%s is not there, so that there is no device keep-env", path);
        paths->preload[0] = '\0';
    }
    return true;
}

static bool find_library(struct paths *paths)
{
    char reason[512];

    if (ns_preload_locate(paths->library) == -ENOENT) {
        SAY(NS_LIBRARY_NAME " is neither beside this command, nor in ../lib, nor in " NS_LIBDIR);
        return false;
    }
    if (ns_elf_path_is_unfit(paths->library, reason, sizeof(reason))) {
        SAY("%s %s; install it again", paths->library, reason);
        return false;
    }
    return true;
}

static int print(const struct paths *paths)
{
    cJSON *specification = specify(paths);
    char *text = cJSON_Print(specification);

    cJSON_Delete(specification);
    if (!text)
        return NS_EXIT_ERROR;
    puts(text);
    free(text);
    return NS_EXIT_YES;
}

int ns_cdi_main(int argc, char **argv)
{
    static struct paths paths;
    const char *preload = NULL;
    int option;

    while ((option = ns_verbs_next_option("cdi", argc, argv)) != -1) {
        if (option == NS_CDI_HELP) {
            ns_help_print("cdi");
            return NS_EXIT_YES;
        }
        if (option != NS_CDI_PRELOAD_FILE) {
            ns_say_option("cdi", argv, option);
            return NS_EXIT_ERROR;
        }
        preload = optarg;
    }
    if (optind < argc) {
        SAY("'%s': nothing may follow; see 'nagleshim cdi --help'", argv[optind]);
        return NS_EXIT_ERROR;
    }
    if (!find_library(&paths) || !find_preload(preload, &paths))
        return NS_EXIT_ERROR;
    find_policies(&paths);
    return print(&paths);
}

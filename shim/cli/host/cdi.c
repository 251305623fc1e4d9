/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim cdi`: it prints config/container/cdi.json, the specification for the Container
 * Device Interface, with the paths of this machine. Writes no file. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/program/program.h"
#include "cli/verbs.h"
#include "policy/find.h"
#include "process/scope.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_THERE "/opt/nagleshim/" NS_LIBRARY_NAME /* in every container */

/* The Makefile knows that this file depends on the specification. cdiVersion is low because readers
 * refuse newer ones: podman 4.3 refuses 0.6. */
__asm__(".pushsection .rodata\n"
        ".global ns_cdi\n"
        "ns_cdi:\n"
        ".incbin \"config/container/cdi.json\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char ns_cdi[] __attribute__((visibility("hidden")));

/* The file for the device keep-env: named, or installed with this command; "" if there is none. */
static bool find_preload_file(const char *named, char file[PATH_MAX])
{
    char here[PATH_MAX] = "", entry[PATH_MAX];
    if (readlink("/proc/self/exe", here, sizeof here - 1) > 0)
        *strrchr(here, '/') = '\0';
    const char *path = ns_words("%s/../share/nagleshim/container/ld.so.preload", here);
    if (realpath(named ? named : path, file) && ns_preload_find_in_file(file, entry) &&
        strcmp(entry, LIBRARY_THERE) == 0)
        return true;
    *file = '\0';
    if (named)
        ns_say("'%s' does not name " LIBRARY_THERE, named);
    else
        ns_say("note: the device keep-env is left out, because %s is missing", path);
    return !named;
}

static void set_host_path(cJSON *edits, int mount, const char *path)
{
    cJSON *mounts = cJSON_GetObjectItemCaseSensitive(edits, "mounts");
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetArrayItem(mounts, mount), "hostPath",
                                           cJSON_CreateString(path));
}

/* A container does not start if a file that it mounts is missing: such mounts are left out. The
 * numbers are positions in config/container/cdi.json. */
static bool print(const char *library, const char *preload_file)
{
    cJSON *all = cJSON_Parse(ns_cdi);
    cJSON *edits = cJSON_GetObjectItemCaseSensitive(all, "containerEdits");
    cJSON *devices = cJSON_GetObjectItemCaseSensitive(all, "devices");
    set_host_path(edits, 0, library);
    set_host_path(edits, 1, NS_POLICY_DIR_DEFAULT);
    if (access(NS_POLICY_DIR_DEFAULT "/.", F_OK) != 0) {
        ns_say("note: " NS_POLICY_DIR_DEFAULT " does not exist: containers get no policies of this "
               "machine");
        cJSON_DeleteItemFromObjectCaseSensitive(edits, "env");
        cJSON_DeleteItemFromArray(cJSON_GetObjectItemCaseSensitive(edits, "mounts"), 1);
    }
    if (*preload_file)
        set_host_path(
            cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(devices, 2), "containerEdits"), 0,
            preload_file);
    else
        cJSON_DeleteItemFromArray(devices, 2);
    NS_AUTO_FREE char *text = ns_output_json(all);
    ns_print_lines(stdout, ns_words("%s\n", text));
    return true;
}

int ns_cdi_main(void)
{
    char library[PATH_MAX], preload_file[PATH_MAX];
    return ns_preload_take(0, library) &&
                   find_preload_file(ns_option_text(NS_CDI_PRELOAD_FILE), preload_file) &&
                   print(library, preload_file)
               ? NS_EXIT_YES
               : NS_EXIT_ERROR;
}

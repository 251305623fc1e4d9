/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim host status`: where the library is enabled, and whether it would load. Changes
 * nothing. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/process/elf.h"
#include "cli/process/preload.h"

#include <glob.h>
#include <stdlib.h>

/* unit: NULL for every program. Is the library good? */
static bool print_enabled(const char *unit, const char *library)
{
    cJSON *entry = ns_output_entry("enabled");
    char reason[512];

    ns_output_fact("facts", unit ? unit : NS_PRELOAD_FILE, "%s", library);
    ns_output_text(entry, "unit", unit);
    ns_output_text(entry, "library", library);
    /* The loader searches for a name without a slash. */
    if (library[0] != '/' || !ns_elf_path_is_unfit(library, reason, sizeof reason))
        return true;
    ns_output_fact("facts", "wrong", "%s %s", library, reason);
    return false;
}

int ns_host_status(const struct ns_host *host)
{
    char *text = ns_file_read(NS_PRELOAD_FILE), library[PATH_MAX];
    struct ns_dropin dropin;
    bool good = true;
    unsigned n = 0;
    glob_t found;

    ns_output_expect("facts");
    ns_output_expect("enabled");
    if (text && ns_preload_find(text, library)) {
        good = print_enabled(NULL, library);
        n++;
    }
    free(text);
    if (glob(NS_DROPINS, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (ns_dropin_read(found.gl_pathv[i], &dropin)) {
                good = print_enabled(dropin.unit, dropin.library) && good;
                n++;
            }
        globfree(&found);
    }
    good = good && n > 0;
    if (n == 0)
        ns_output_line("nothing is enabled");
    else if (!host->is_image)
        ns_output_line("'nagleshim doctor --all' lists the processes that run with it");
    if (ns_output_object())
        cJSON_AddBoolToObject(ns_output_object(), "good", good);
    return good ? NS_EXIT_YES : NS_EXIT_NO;
}

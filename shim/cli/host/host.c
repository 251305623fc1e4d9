/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim host`: its options and rights are checked before anything is
 * changed. Also owns `host status`, which changes nothing. */
#include "cli/host/host.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cure/group.h"
#include "process/elf.h"
#include "process/scope.h"
#include "cli/program/program.h"
#include "cli/verbs.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum action { NOTHING, ENABLE, DISABLE, STATUS };

/* What is to be done, or NOTHING after a message. Words after --unit UNIT are units, too. */
static enum action parse(struct ns_list *units)
{
    static const char *const words[] = {
        [ENABLE] = "enable", [DISABLE] = "disable", [STATUS] = "status"};
    const char *word = ns_operands.words[0];
    enum action action = NOTHING;
    for (int i = ENABLE; word && i <= STATUS; i++)
        if (strcmp(word, words[i]) == 0)
            action = (enum action)i;
    if (action == NOTHING)
        ns_say(
            "%s%s%shost must be followed by enable, disable or status; see 'nagleshim host --help'",
            word ? "'" : "", word ? word : "", word ? "': " : "");
    for (unsigned i = 1; i < ns_operands.n && action != NOTHING && units->n > 0; i++)
        ns_list_add(units, ns_operands.words[i]);
    return action;
}

static bool is_clear(enum action action, const struct ns_list *units)
{
    const char *library = ns_option_text(NS_HOST_LIBRARY);
    const bool preload = ns_option_text(NS_HOST_PRELOAD_FILE);
    char path[PATH_MAX];
    if (ns_operands.n > 1 && units->n == 0)
        return NS_REFUSE("unexpected word '%s'; see 'nagleshim host --help'", ns_operands.words[1]);
    for (unsigned i = 0; i < units->n; i++)
        if (!ns_host_unit_path(units->words[i], path))
            return false;
    if (preload && units->n > 0)
        return NS_REFUSE("--unit and --preload cannot be used together");
    if (action == ENABLE && !preload && units->n == 0)
        return NS_REFUSE(
            "enable needs --unit UNIT, for a service, or --preload, for every program");
    if (action == STATUS && (preload || units->n > 0 || library))
        return NS_REFUSE("status takes neither --unit nor --preload nor --library");
    if (library && library[0] != '/')
        return NS_REFUSE("'%s': the path of the library must be absolute", library);
    if (library && strcmp(ns_path_base(library), NS_LIBRARY_NAME) != 0)
        return NS_REFUSE("'%s': the library must be called " NS_LIBRARY_NAME, library);
    return true;
}

/* From now on ^C, a closed pipe and the like have no effect, so that no change stays half done. */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Without --unit and --preload: everything. An exit status. */
static int disable(const char *only, const struct ns_list *units)
{
    const bool preload = ns_option_text(NS_HOST_PRELOAD_FILE);
    int status = NS_EXIT_YES;
    bool changed = false;
    if (preload || units->n == 0)
        status = ns_host_preload_disable(only, &changed);
    if (!preload) {
        int of_units = ns_host_units_disable(only, units, &changed);
        status = of_units > status ? of_units : status;
    }
    if (status == NS_EXIT_YES && !changed && units->n == 0)
        ns_output_line("%s%s",
                       preload ? NS_PRELOAD_FILE " does not name " : "nothing is enabled with ",
                       only ? only : "the library");
    return status == NS_EXIT_DENIED && changed ? NS_EXIT_ERROR : status;
}

/* unit: NULL for every program. Is the library good? */
static bool print_enabled(const char *unit, const char *library)
{
    cJSON *entry = ns_output_entry("places");
    ns_output_fact(unit ? unit : NS_PRELOAD_FILE, "%s", library);
    ns_output_text(entry, "unit", unit);
    ns_output_text(entry, "library_file", library);
    char path[PATH_MAX];
    const char *wrong = NULL;
    if (!ns_preload_is_searched(library))
        wrong = ns_elf_path_unfit(library, 0);
    else if (ns_preload_search(library, 0, path) == 0)
        wrong = "is in no directory that the loader searches";
    if (wrong)
        ns_output_fact("wrong", "%s %s", library, wrong);
    return !wrong;
}

static int print_status(void)
{
    char library[PATH_MAX];
    struct ns_dropin dropin;
    struct ns_groups groups = {0};
    bool good = true;
    unsigned n = 0;
    NS_AUTO_GLOB glob_t found = {0};
    if (ns_preload_find_in_file(NS_PRELOAD_FILE, library)) {
        good = print_enabled(NULL, library);
        n++;
    }
    glob(NS_DROPINS, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (ns_dropin_read(found.gl_pathv[i], &dropin)) {
            good = print_enabled(dropin.unit, dropin.library) && good;
            n++;
        }
    good = good && n > 0;
    const bool are_known = ns_cure_list_groups(&groups) == 0;
    if (n == 0 && groups.n == 0 && are_known)
        ns_output_line("nothing is enabled");
    else if (n == 0)
        ns_output_line("the library is not enabled");
    else
        ns_output_line("'nagleshim doctor --all' lists the processes that run with it");
    cJSON_AddBoolToObject(ns_output_object(), "good", good);
    return good ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_host_main(void)
{
    struct ns_list *units = ns_option_list(NS_HOST_UNIT);
    const enum action action = parse(units);
    const char *library = ns_option_text(NS_HOST_LIBRARY);
    char own[PATH_MAX];
    if (action == NOTHING || !is_clear(action, units))
        return NS_EXIT_ERROR;
    ns_environment_judge();
    if (action == STATUS)
        return print_status();
    if (geteuid() != 0) {
        ns_say("permission denied: only root can change a system; nothing was changed");
        return NS_EXIT_DENIED;
    }
    if (action == ENABLE && units->n > 0 && access(NS_SYSTEMD_RUNS, F_OK) != 0)
        return NS_FAIL("systemd is not running here, so no unit can be examined; use --preload, "
                       "or write a drop-in as nagleshim-host(1) shows");
    if (action == ENABLE && !library && !ns_preload_take(0, own))
        return NS_EXIT_ERROR;
    umask(022); /* what is written is for every user */
    block_signals();
    if (action == DISABLE)
        return disable(library, units);
    library = library ? library : own;
    return units->n > 0 ? ns_host_units_enable(library, units) : ns_host_preload_enable(library);
}

/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim host`: what is meant is clear, and allowed, before anything
 * is changed. Not async-signal-safe. */
#include "cli/host/host.h"

#include "base/path.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/process/preload.h"
#include "cli/verbs.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

enum { UNITS_MOST = 256 };

enum action { NOTHING, ENABLE, DISABLE, STATUS };

struct wish {
    enum action action;
    bool preload, help;
    char *units[UNITS_MOST];
    unsigned n_units;
    const char *library, *root;
};

static bool add_unit(struct wish *wish, char *unit)
{
    char name[NAME_MAX];

    if (wish->n_units == UNITS_MOST) {
        SAY("more than %d units", UNITS_MOST);
        return false;
    }
    if (!ns_host_unit_name(unit, name))
        return false;
    wish->units[wish->n_units++] = unit;
    return true;
}

/* False if the option is none, which has been said. */
static bool take_option(struct wish *wish, char **argv, int option)
{
    switch (option) {
    case NS_HOST_UNIT:
        return add_unit(wish, optarg);
    case NS_HOST_PRELOAD_FILE:
        wish->preload = true;
        return true;
    case NS_HOST_LIBRARY:
        wish->library = optarg;
        return true;
    case NS_HOST_ROOT:
        wish->root = optarg;
        return true;
    case NS_HOST_HELP:
        wish->help = true;
        return true;
    case NS_HOST_JSON:
        return true;
    default:
        ns_say_option("host", argv, option);
        return false;
    }
}

static bool take_word(struct wish *wish, char *word)
{
    static const char *const words[] = {
        [ENABLE] = "enable", [DISABLE] = "disable", [STATUS] = "status"};

    if (wish->action != NOTHING && wish->n_units > 0)
        return add_unit(wish, word); /* --unit one another */
    for (int i = ENABLE; wish->action == NOTHING && i <= STATUS; i++)
        if (strcmp(word, words[i]) == 0)
            wish->action = (enum action)i;
    if (wish->action != NOTHING && strcmp(word, words[wish->action]) == 0)
        return true;
    if (wish->action != NOTHING) {
        SAY("'%s': %s takes no such word; see 'nagleshim host --help'", word, words[wish->action]);
        return false;
    }
    SAY("'%s': host is followed by enable, disable or status; see 'nagleshim host --help'", word);
    return false;
}

static bool parse(int argc, char **argv, struct wish *wish)
{
    int option;

    while ((option = ns_verbs_next_option("host", argc, argv)) != -1)
        if (!take_option(wish, argv, option))
            return false;
    for (int i = optind; i < argc && !wish->help; i++)
        if (!take_word(wish, argv[i]))
            return false;
    return true;
}

static bool is_clear(const struct wish *wish)
{
    if (wish->action == NOTHING)
        SAY("host is followed by enable, disable or status; see 'nagleshim host --help'");
    else if (wish->preload && wish->n_units > 0)
        SAY("--unit and --preload cannot be used together");
    else if (wish->action == ENABLE && !wish->preload && wish->n_units == 0)
        SAY("enable what? --unit UNIT for a service, --preload for every program of the system");
    else if (wish->action == STATUS && (wish->preload || wish->n_units > 0))
        SAY("status tells of everything, and takes neither --unit nor --preload");
    else if (wish->action == STATUS && wish->library)
        SAY("--library is for enable and disable");
    else if (wish->library && wish->library[0] != '/')
        SAY("'%s': the library's path must be absolute", wish->library);
    else if (wish->library && strcmp(ns_path_base(wish->library), NS_LIBRARY_NAME) != 0)
        SAY("'%s': the library is called " NS_LIBRARY_NAME ", by which it is found again",
            wish->library);
    else
        return true;
    return false;
}

/* The directory that is another system; "" is this one. */
static bool take_root(const struct wish *wish, char root[PATH_MAX])
{
    struct stat st;
    char etc[PATH_MAX];

    root[0] = '\0';
    if (!wish->root)
        return true;
    if (!realpath(wish->root, root)) {
        SAY("--root '%s': %s", wish->root, strerror(errno));
        return false;
    }
    if (strcmp(root, "/") == 0)
        root[0] = '\0';
    if (snprintf(etc, sizeof(etc), "%s/etc", root) >= (int)sizeof(etc) || lstat(etc, &st) != 0 ||
        !S_ISDIR(st.st_mode)) {
        SAY("--root '%s': there is no system, for it has no directory etc", wish->root);
        return false;
    }
    return true;
}

int ns_host_exit(int error)
{
    return error == -EACCES || error == -EPERM ? NS_EXIT_DENIED : NS_EXIT_ERROR;
}

/* May anything be changed here at all? */
static int judge_rights(const struct wish *wish, const struct ns_host *host)
{
    bool wants_units = wish->n_units > 0;

    if (wish->action != STATUS && !host->root[0] && geteuid() != 0) {
        SAY("permission denied: only root may change this system; nothing was changed");
        return NS_EXIT_DENIED;
    }
    if (wish->action == ENABLE && wants_units && !host->root[0] &&
        access("/run/systemd/system", F_OK) != 0) {
        SAY("systemd does not run here, so that there are no units; use --preload, or --root for "
            "an image");
        return NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

/* The path there of a library that was named by its path here, perhaps. */
static const char *in_system(const struct ns_host *host, const char *library)
{
    size_t root = strlen(host->root);

    return strncmp(library, host->root, root) == 0 && library[root] == '/' ? library + root
                                                                           : library;
}

static int enable(struct ns_host *host, struct wish *wish)
{
    char own[PATH_MAX];
    const char *library = wish->library;

    if (!library) {
        int error = ns_preload_locate(own);

        if (error == -ENOENT) {
            SAY(NS_LIBRARY_NAME " is neither beside this command, nor in ../lib, nor in " NS_LIBDIR
                                "; name it with --library");
            return NS_EXIT_ERROR;
        }
        library = own;
    }
    library = in_system(host, library);
    return wish->preload ? ns_host_preload_enable(host, library)
                         : ns_host_units_enable(host, wish->units, wish->n_units, library);
}

/* Of everything, if nothing is named. */
static int disable(struct ns_host *host, struct wish *wish)
{
    bool all = !wish->preload && wish->n_units == 0, found = false, found_units = false;
    int status = NS_EXIT_YES, units = NS_EXIT_YES;

    if (wish->library)
        host->only = in_system(host, wish->library);
    if (wish->preload || all)
        status = ns_host_preload_disable(host, &found);
    if (!wish->preload)
        units = ns_host_units_disable(host, wish->units, wish->n_units, &found_units);
    status = status > units ? status : units;
    if (status == NS_EXIT_DENIED && (found || found_units))
        return NS_EXIT_ERROR; /* something was changed */
    if (status != NS_EXIT_YES || found || found_units)
        return status;
    if (wish->preload)
        ns_output_line(NS_HOST_PRELOAD " does not name %s",
                       host->only ? host->only : "the library");
    else if (all)
        ns_output_line("nothing is enabled%s%s", host->only ? " with " : "",
                       host->only ? host->only : "");
    return status;
}

int ns_host_main(int argc, char **argv)
{
    static struct wish wish;
    static struct ns_host host;
    char root[PATH_MAX];
    int status;

    if (!parse(argc, argv, &wish))
        return NS_EXIT_ERROR;
    if (wish.help) {
        ns_help_print("host");
        return NS_EXIT_YES;
    }
    if (!is_clear(&wish) || !take_root(&wish, root))
        return NS_EXIT_ERROR;
    host.root = root;
    status = judge_rights(&wish, &host);
    if (status != NS_EXIT_YES)
        return status;
    if (wish.action == STATUS)
        return ns_host_status(&host);
    if (!ns_host_lock(&host, wish.action == ENABLE))
        return NS_EXIT_ERROR;
    ns_host_signals_hold();
    status = wish.action == ENABLE ? enable(&host, &wish) : disable(&host, &wish);
    ns_host_signals_restore();
    return status;
}

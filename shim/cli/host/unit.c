/* SPDX-License-Identifier: MIT */
/* Owns the drop-ins of services: all that are named are written and take effect, or none is. It
 * must not touch a file that this command did not write. Not async-signal-safe. */
#include "cli/host/unit.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/process/preload.h"

#include "policy/find.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)
#define UNITS "/etc/systemd/system"

static const char mark[] = "# Written by nagleshim host;"; /* the beginning of each drop-in */

struct plan {
    char name[NAME_MAX], directory[NAME_MAX + 32], path[NAME_MAX + 64];
    char *text;
    struct ns_change change;
};

bool ns_host_unit_name(const char *word, char name[NAME_MAX])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789:-_.\\@";
    const char *dot = strrchr(word, '.');
    bool has_type = dot && strcmp(dot, ".service") == 0;
    int n = snprintf(name, NAME_MAX, "%s%s", word, has_type ? "" : ".service");
    size_t length = has_type ? (size_t)(dot - word) : strlen(word);

    if (length == 0 || strchr(".-", *word) || word[strspn(word, allowed)] != '\0' ||
        n >= NAME_MAX - 8) {
        SAY("'%s' is not the name of a unit", word);
        return false;
    }
    if (strchr("@-", word[length - 1])) {
        SAY("'%s' stands for several services: name each one, an instance as %s1 for example", word,
            word);
        return false;
    }
    return true;
}

static bool reload(const struct ns_host *host)
{
    return host->is_image || access("/run/systemd/system", F_OK) != 0 ||
           system("systemctl daemon-reload >&2") == 0;
}

static void find_place(struct plan *plan)
{
    snprintf(plan->directory, sizeof plan->directory, UNITS "/%s.d", plan->name);
    snprintf(plan->path, sizeof plan->path, "%s/" NS_HOST_DROPIN, plan->directory);
}

/* May this command write the drop-in: is there no file yet, or one that it wrote? An exit status.
 */
static int judge_place(const struct plan *plan)
{
    char *text = NULL;
    int error = ns_file_read(plan->path, &text, NULL);
    bool is_foreign = text && strncmp(text, mark, sizeof mark - 1) != 0;

    free(text);
    if (!error && !is_foreign)
        return NS_EXIT_YES;
    SAY("%s: %s; nothing was changed", plan->path,
        error == -EINVAL ? "it is not a regular file"
        : error          ? strerror(-error)
                         : "this command did not write it");
    return ns_host_exit(error);
}

static char *write_text(const struct ns_host *host, const char *name, const struct ns_unit *unit)
{
    char *list = ns_preload_join(unit->preload, host->library), *text = NULL;
    size_t size;
    FILE *stream = list ? open_memstream(&text, &size) : NULL;

    if (stream) {
        fprintf(stream,
                "%s 'nagleshim host disable --unit %s' removes it.\n"
                "[Service]\n"
                "Environment=\"LD_PRELOAD=%s\"\n",
                mark, name, list);
        if (unit->hides_files) /* "-": a missing file is skipped */
            fprintf(stream, "BindReadOnlyPaths=-%s -%s\n", host->library, NS_POLICY_DIR_DEFAULT);
        if (unit->has_noexec)
            fprintf(stream, "ExecPaths=-%s\n", host->library);
        fclose(stream);
    }
    free(list);
    return text;
}

/* Fills unit with the LD_PRELOAD that the library is to be joined to: the unit's own, else that of
 * systemd's DefaultEnvironment=. False, and the reason is printed, if a drop-in cannot set it. */
static bool ask(const struct ns_host *host, const char *name, struct ns_unit *unit)
{
    static struct ns_unit manager;

    if (host->is_image) {
        ns_unit_search(name, unit);
        if (!unit->load_state[0])
            SAY("warning: %s: the image has no such unit", name);
    } else {
        if (!ns_unit_ask(name, unit) || (!unit->has_preload && !ns_unit_ask(NULL, &manager)))
            return false;
        if (strcmp(unit->load_state, "loaded") != 0) {
            SAY("%s: systemctl reports LoadState=%s; only a loaded unit can be changed", name,
                unit->load_state);
            return false;
        }
        if (!unit->has_preload)
            snprintf(unit->preload, sizeof unit->preload, "%s", manager.preload);
    }
    if (unit->blocked[0])
        SAY("%s: %s", name, unit->blocked);
    return !unit->blocked[0];
}

/* The text for each unit; nothing is written yet. An exit status. */
static int prepare(const struct ns_host *host, char **names, unsigned n, struct plan *plans)
{
    static struct ns_unit unit;

    for (unsigned i = 0; i < n; i++) {
        struct plan *plan = &plans[i];

        ns_host_unit_name(names[i], plan->name);
        find_place(plan);
        int status = judge_place(plan);
        if (status != NS_EXIT_YES)
            return status;
        if (!ask(host, plan->name, &unit))
            return NS_EXIT_ERROR;
        plan->text = write_text(host, plan->name, &unit);
        if (!plan->text)
            return NS_EXIT_ERROR;
    }
    return NS_EXIT_YES;
}

static const char *undo(const struct ns_host *host, struct plan *plans, unsigned n)
{
    bool undone = true;

    for (unsigned i = 0; i < n; i++) {
        undone = ns_change_undo(&plans[i].change) && undone;
        rmdir(plans[i].directory); /* unless other files are there */
    }
    return reload(host) && undone ? "nothing was changed"
                                  : "not everything could be restored: see 'nagleshim host status'";
}

/* Does the library come first in the unit's LD_PRELOAD, as systemd sees it now? */
static bool takes_effect(const struct ns_host *host, const char *name)
{
    static struct ns_unit unit;
    char entry[PATH_MAX] = "";

    if (host->is_image)
        return true;
    if (!ns_unit_ask(name, &unit))
        return false;
    if (ns_preload_find(unit.preload, entry) && strcmp(entry, host->library) == 0)
        return true;
    SAY("%s: its LD_PRELOAD is '%s' even with the drop-in: a drop-in that is read later sets it, "
        "see 'systemctl cat %s'",
        name, unit.preload, name);
    return false;
}

/* Writes every drop-in and checks that systemd uses it. An exit status. */
static int carry_out(const struct ns_host *host, struct plan *plans, unsigned n)
{
    int status = NS_EXIT_YES;

    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++) {
        int error = ns_change_make(&plans[i].change, plans[i].path, plans[i].text);

        if (!error)
            continue;
        SAY("%s cannot be written: %s", plans[i].path, strerror(-error));
        status = ns_host_exit(error);
    }
    if (status == NS_EXIT_YES && !reload(host)) {
        SAY("'systemctl daemon-reload' failed");
        status = NS_EXIT_ERROR;
    }
    for (unsigned i = 0; i < n && status == NS_EXIT_YES; i++)
        if (!takes_effect(host, plans[i].name))
            status = NS_EXIT_ERROR;
    if (status == NS_EXIT_YES && ns_host_interrupted()) {
        SAY("interrupted");
        status = NS_EXIT_ERROR;
    }
    if (status != NS_EXIT_YES)
        SAY("%s", undo(host, plans, n));
    return status;
}

static void report(const struct ns_host *host, const struct plan *plan)
{
    const char *old = plan->change.old;

    if (old && strcmp(old, plan->text) == 0)
        ns_output_line("%s has the library already", plan->name);
    else if (host->is_image)
        ns_output_line("%s will have the library at its next start", plan->name);
    else
        ns_output_line("%s will have the library at its next start: systemctl restart '%s'",
                       plan->name, plan->name);
}

int ns_host_units_enable(const struct ns_host *host, char **names, unsigned n)
{
    struct plan *plans = calloc(n, sizeof *plans);
    int status = plans ? ns_host_judge_library(host, false) : NS_EXIT_ERROR;

    if (status == NS_EXIT_YES)
        status = prepare(host, names, n, plans);
    if (status == NS_EXIT_YES)
        status = carry_out(host, plans, n);
    for (unsigned i = 0; plans && i < n; i++) {
        if (status == NS_EXIT_YES)
            report(host, &plans[i]);
        ns_change_forget(&plans[i].change);
        free(plans[i].text);
    }
    free(plans);
    return status;
}

void ns_host_each_dropin(void (*visit)(void *context, const struct ns_dropin *dropin),
                         void *context)
{
    static struct ns_dropin dropin;
    glob_t found;

    if (glob(UNITS "/*.service.d/" NS_HOST_DROPIN, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = found.gl_pathv[i] + strlen(UNITS "/"), *list;
        char *text = NULL;

        if (ns_file_read(found.gl_pathv[i], &text, NULL) == 0 && text &&
            strncmp(text, mark, sizeof mark - 1) == 0) {
            snprintf(dropin.path, sizeof dropin.path, "%s", found.gl_pathv[i]);
            snprintf(dropin.unit, sizeof dropin.unit, "%.*s", (int)strcspn(name, "/") - 2, name);
            list = strstr(text, "LD_PRELOAD=");
            dropin.library[0] = '\0';
            if (list) {
                text[list - text + (ptrdiff_t)strcspn(list, "\"\n")] = '\0';
                ns_preload_find(list + strlen("LD_PRELOAD="), dropin.library);
            }
            visit(context, &dropin);
        }
        free(text);
    }
    globfree(&found);
}

struct disabling {
    const struct ns_host *host;
    const char *name; /* NULL: every unit */
    int status;
    bool found, changed;
};

static void take_away(void *context, const struct ns_dropin *dropin)
{
    struct disabling *all = context;
    struct ns_change change;
    char directory[PATH_MAX];

    if (all->name && strcmp(all->name, dropin->unit) != 0)
        return;
    if (!ns_host_is_meant(all->host, dropin->library, strlen(dropin->library))) {
        if (all->name)
            ns_output_line("%s has %s, which stays", dropin->unit, dropin->library);
        all->found = true;
        return;
    }
    int error = ns_change_make(&change, dropin->path, NULL);
    ns_change_forget(&change);
    all->found = true;
    if (error) {
        SAY("%s cannot be removed: %s", dropin->path, strerror(-error));
        int status = ns_host_exit(error);
        all->status = status > all->status ? status : all->status;
        return;
    }
    all->changed = true;
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(dropin->path, '/') - dropin->path),
             dropin->path);
    rmdir(directory); /* unless other files are there */
    ns_output_line("%s will not have the library at its next start", dropin->unit);
}

int ns_host_units_disable(const struct ns_host *host, char **names, unsigned n, bool *found)
{
    struct disabling all = {.host = host, .status = NS_EXIT_YES};
    char name[NAME_MAX];

    if (n == 0)
        ns_host_each_dropin(take_away, &all);
    for (unsigned i = 0; i < n; i++) {
        ns_host_unit_name(names[i], name);
        all.name = name;
        all.found = false;
        ns_host_each_dropin(take_away, &all);
        if (!all.found)
            ns_output_line("%s is not enabled", name);
    }
    if (all.changed && !reload(host)) {
        SAY("'systemctl daemon-reload' failed: services that start before it is done have the "
            "library");
        all.status = NS_EXIT_ERROR;
    }
    *found = all.changed;
    return all.status;
}

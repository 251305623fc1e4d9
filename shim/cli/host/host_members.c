/* SPDX-License-Identifier: MIT */
/* Owns the question which units there are of a prefix or a template, and whether the drop-in of it
 * would take something from one of them: of drop-ins that set LD_PRELOAD the last has the word. It
 * changes nothing. Not async-signal-safe. */
#include "cli/host/host_unit.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

struct members {
    const struct ns_host *host;
    const char *many;
    char **names;
    size_t n;
    bool failed;
};

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name);

    return length > strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

static void add(struct members *members, const char *name, size_t length)
{
    char **names, *copy = strndup(name, length);

    if (!copy || ns_unit_is_prefix(copy) || !ns_host_is_for(members->many, copy) ||
        strcmp(members->many, copy) == 0) {
        free(copy);
        return;
    }
    for (size_t i = 0; i < members->n; i++)
        if (strcmp(members->names[i], copy) == 0) {
            free(copy);
            return;
        }
    names = realloc(members->names, (members->n + 1) * sizeof(*names));
    if (!names) {
        members->failed = true;
        free(copy);
        return;
    }
    members->names = names;
    names[members->n++] = copy;
}

static void add_entry(void *context, const char *directory, const char *name)
{
    struct members *members = context;
    static const char running[] = "invocation:";
    char path[PATH_MAX];

    if (strncmp(name, running, sizeof(running) - 1) == 0)
        name += sizeof(running) - 1;
    if (ends_in(name, ".service"))
        add(members, name, strlen(name));
    else if (ends_in(name, ".service.d"))
        add(members, name, strlen(name) - 2);
    else if ((ends_in(name, ".wants") || ends_in(name, ".requires") || ends_in(name, ".upholds")) &&
             snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path))
        ns_host_entries(members->host, path, add_entry, members);
}

/* Those with files or drop-ins of their own, that something wants, and that run. */
static void find_members(struct members *members)
{
    for (size_t i = 0; ns_unit_places[i]; i++)
        ns_host_entries(members->host, ns_unit_places[i], add_entry, members);
    ns_host_entries(members->host, NS_HOST_RUNNING, add_entry, members);
}

/* What follows the comment, which has the unit's name. */
static const char *settings_of(const char *text)
{
    const char *end = strchr(text, '\n');

    return end ? end : text;
}

/* Does a nearer drop-in than that of many go for the unit? */
static bool has_nearer(const char *many, const char *unit,
                       bool (*has_own)(void *context, const char *name), void *context)
{
    char name[NAME_MAX];

    for (unsigned i = 0; ns_unit_dropin_directory(unit, i, name); i++) {
        name[strlen(name) - 2] = '\0';
        if (strcmp(name, many) == 0)
            return false;
        if (has_own(context, name))
            return true;
    }
    return false;
}

struct verdict {
    char differ[512], *end;
    unsigned more;
};

static void note(struct verdict *verdict, const char *name)
{
    size_t room = sizeof(verdict->differ) - (size_t)(verdict->end - verdict->differ);

    if (verdict->more > 0 || strlen(name) + 2 > room)
        verdict->more++;
    else
        verdict->end += sprintf(verdict->end, " %s", name);
}

/* False if nothing helps, which has been said. */
static bool judge(const struct members *members, const char *name, const char *text,
                  struct verdict *verdict)
{
    static struct ns_unit unit;
    char *own = ns_unit_dropin(members->host, name, &unit);
    bool good = own || !unit.is_there;

    if (!good)
        SAY("%s: %s: %s", members->many, name, unit.blocked);
    else if (own && strcmp(settings_of(own), settings_of(text)) != 0)
        note(verdict, name);
    free(own);
    return good;
}

bool ns_unit_judge_members(const struct ns_host *host, const char *many, const char *text,
                           bool (*has_own)(void *context, const char *name), void *context)
{
    struct members members = {.host = host, .many = many};
    struct verdict verdict = {.more = 0};
    bool good;

    verdict.end = verdict.differ;
    find_members(&members);
    good = !members.failed;
    for (size_t i = 0; i < members.n; i++) {
        if (good && !has_nearer(many, members.names[i], has_own, context))
            good = judge(&members, members.names[i], text, &verdict);
        free(members.names[i]);
    }
    free(members.names);
    if (good && verdict.differ[0]) {
        SAY("%s: units of it that set LD_PRELOAD or hide directories themselves need drop-ins of "
            "their own; name them, too: --unit%s%s",
            many, verdict.differ, verdict.more ? " and others" : "");
        good = false;
    }
    return good;
}

/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim top` says of a process: its name, and what the shim does in it. Reads /proc,
 * and takes nothing there for granted. Not async-signal-safe. */
#include "cli/top.h"

#include "cli/loaded.h"

#include <errno.h>
#include <string.h>

enum { RULES_MOST = 1000 };

/* The rules of which it has taken sockets; where one is all there is, in full. */
static void describe_rules(const struct ns_proc *proc, const struct ns_status *status, char *shim,
                           size_t size)
{
    unsigned used = 0;

    snprintf(shim, size, "no socket");
    for (unsigned i = 0; i < status->n_rules && i < RULES_MOST; i++) {
        struct ns_status_rule rule;
        const char *send, *ack;

        if (ns_proc_memory(proc, status->rules + i * sizeof(rule), &rule, sizeof(rule)) != 0)
            break;
        if (!rule.applies || rule.sockets == 0)
            continue;
        send = ns_send_name((enum ns_send)rule.send);
        ack = ns_ack_name((enum ns_ack)rule.ack);
        if (used++ == 0)
            snprintf(shim, size, "%s%s%s", send ? send : "?",
                     rule.ack == NS_ACK_BEFORE_WAIT ? "" : ", ack ",
                     rule.ack == NS_ACK_BEFORE_WAIT ? ""
                     : ack                          ? ack
                                                    : "?");
    }
    if (used > 1)
        snprintf(shim + strlen(shim), size - strlen(shim), " +%u", used - 1);
}

static void describe(const struct ns_proc *proc, char *shim, size_t size)
{
    static struct ns_loaded loaded;
    int error = ns_loaded_find(proc, &loaded);

    if (error || loaded.state == NS_LOADED_UNREADABLE)
        snprintf(shim, size, error == -EACCES || error == -EPERM || !error ? "denied" : "?");
    else if (loaded.state == NS_LOADED_NO)
        snprintf(shim, size, "no");
    else if (loaded.state == NS_LOADED_STARTING)
        snprintf(shim, size, "starting");
    else if (loaded.state != NS_LOADED_YES)
        snprintf(shim, size, "another version");
    else if (loaded.status.state == NS_STATUS_OFF)
        snprintf(shim, size, "off");
    else if (loaded.status.state == NS_STATUS_ASIDE)
        snprintf(shim, size, "aside");
    else
        describe_rules(proc, &loaded.status, shim, size);
}

void ns_top_look_at_shim(pid_t pid, char *name, size_t name_size, char *shim, size_t shim_size)
{
    struct ns_proc proc;

    /* Of one that has ended, what was known stays. */
    if (ns_proc_open(pid, &proc) != 0) {
        if (name[0] == '\0')
            snprintf(name, name_size, "?");
        if (shim[0] == '\0')
            snprintf(shim, shim_size, "?");
        return;
    }
    if (ns_proc_look(&proc) == 0)
        describe(&proc, shim, shim_size);
    else
        snprintf(shim, shim_size, "denied");
    ns_proc_name(&proc, name, name_size);
    ns_proc_close(&proc);
}

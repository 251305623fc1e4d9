/* SPDX-License-Identifier: MIT */
/* Owns what `nagleshim top` says of a process: its name, and what the shim does in it. Reads /proc,
 * and takes nothing there for granted. Not async-signal-safe. */
#include "cli/top/top.h"

#include "cli/process/loaded.h"

#include <string.h>

/* The rules of which it has taken sockets; where one is all there is, in full. */
struct used {
    char *text;
    size_t size;
    unsigned n;
};

static void describe_rule(void *context, unsigned number, const struct ns_status_rule *rule)
{
    struct used *used = context;
    const char *send = ns_send_name((enum ns_send)rule->send);
    const char *ack = ns_ack_name((enum ns_ack)rule->ack);
    bool is_usual = rule->ack == NS_ACK_BEFORE_WAIT;

    (void)number;
    if (rule->sockets == 0 || used->n++ > 0)
        return;
    snprintf(used->text, used->size, "%s%s%s", send ? send : "?", is_usual ? "" : ", ack ",
             is_usual ? ""
             : ack    ? ack
                      : "?");
}

static void describe_rules(const struct ns_proc *proc, const struct ns_status *status, char *text,
                           size_t size)
{
    struct used used = {text, size, 0};

    snprintf(text, size, "no socket");
    ns_loaded_each_rule(proc, status, describe_rule, &used);
    if (used.n > 1)
        snprintf(text + strlen(text), size - strlen(text), " +%u", used.n - 1);
}

static void look_at_shim(const struct ns_proc *proc, struct ns_top_process *process)
{
    static const char *const texts[] = {
        [NS_SHIM_UNKNOWN] = "?",
        [NS_SHIM_DENIED] = "denied",
        [NS_SHIM_NO] = "no",
        [NS_SHIM_UNNAMED] = "no?",
        [NS_SHIM_STARTING] = "starting",
        [NS_SHIM_VERSION] = "another version",
        [NS_SHIM_OFF] = "off",
        [NS_SHIM_DISABLED] = "aside",
        [NS_SHIM_OBSERVES] = "observes",
    };
    static struct ns_loaded loaded;

    process->shim = ns_loaded_shim(proc, ns_loaded_find(proc, &loaded), &loaded);
    if (process->shim <= NS_SHIM_OBSERVES)
        snprintf(process->shim_text, sizeof(process->shim_text), "%s", texts[process->shim]);
    else
        describe_rules(proc, &loaded.status, process->shim_text, sizeof(process->shim_text));
}

void ns_top_look_at_process(struct ns_top_process *process)
{
    struct ns_proc proc;
    int error = ns_proc_open(process->pid, &proc);

    /* Of one that has ended, what was known stays; another may have its number by now. */
    if (!error && (process->started == 0 || proc.start == process->started)) {
        if (ns_proc_look(&proc) == 0) {
            look_at_shim(&proc, process);
        } else {
            process->shim = NS_SHIM_DENIED;
            snprintf(process->shim_text, sizeof(process->shim_text), "denied");
        }
        ns_proc_name(&proc, process->name, sizeof(process->name));
    }
    if (!error)
        ns_proc_close(&proc);
    if (process->name[0] == '\0')
        snprintf(process->name, sizeof(process->name), "?");
    if (process->shim_text[0] == '\0')
        snprintf(process->shim_text, sizeof(process->shim_text), "?");
}

/* SPDX-License-Identifier: MIT */
/* Start-up of the observing library (libnagleshim-observe.so); the only reader of its
 * environment. Must never stop the program or print anything that NAGLESHIM_LOG does not ask for.
 */
#include "base/real.h"
#include "observe/recorder.h"
#include "report/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static enum ns_experiment experiment_of(const char *word)
{
    if (word && strcmp(word, "push") == 0)
        return NS_EXPERIMENT_PUSH;
    return word && strcmp(word, "acknowledge") == 0 ? NS_EXPERIMENT_ACKNOWLEDGE
                                                    : NS_EXPERIMENT_NONE;
}

__attribute__((constructor)) static void begin(void)
{
    int saved = errno;
    const char *off = getenv("NAGLESHIM_OFF"), *directory = getenv("NAGLESHIM_RECORD");
    /* Even if nothing is recorded: a first lookup must not come in a signal handler. */
    ns_real_load_all();
    bool is_off = (off && *off && strcmp(off, "0") != 0) || getauxval(AT_SECURE);
    if (!is_off && directory && *directory) {
        ns_log_open(getenv("NAGLESHIM_LOG"), getenv("NAGLESHIM_LOG_FILE"));
        ns_recorder_open(directory, experiment_of(getenv("NAGLESHIM_EXPERIMENT")));
    }
    errno = saved;
}

/* SPDX-License-Identifier: MIT */
/* Prints the records in a directory as the command reads them: a line for all, for each process and
 * connection, and with "holds" for each hold. */
#include "cli/diagnose/recorded.h"
#include "judge/statistics.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static void show_connection(const struct ns_recorded_process *process,
                            const struct ns_recorded *connection, bool holds)
{
    const struct ns_verdict *verdict = &connection->verdict;
    printf("connection of %s: role %s local %u remote %u connections %u nodelay %d writes %lu "
           "requests %lu waits %lu grade \"%s\" stalls %lu maybe %lu late %lu certain_ms %.1f "
           "receiving %lu "
           "pattern \"%s\"\n",
           process->name, ns_role_name(connection->role), connection->local.port,
           connection->remote.port, connection->connections, connection->nodelay,
           connection->writes, connection->requests, connection->waits,
           ns_grade_name(verdict->grade), verdict->stalls, verdict->maybe, verdict->late,
           (double)verdict->certain_ns / 1e6, verdict->receiving, connection->pattern);
    for (size_t i = 0; holds && i < connection->n_holds; i++) {
        const struct ns_hold *hold = &connection->holds[i];

        printf("hold of %s: ms %.3f waited %d certain %d\n", process->name,
               (double)(hold->end - hold->begin) / 1e6, hold->waited, hold->certain);
    }
}

int main(int argc, char **argv)
{
    bool holds = argc > 2 && strcmp(argv[2], "holds") == 0;
    struct ns_recorded_all all;
    int error = argc > 1 ? ns_recorded_read(open(argv[1], O_RDONLY | O_DIRECTORY), &all) : -1;
    if (error) {
        fprintf(stderr, "show_record: %d\n", error);
        return 1;
    }
    printf("records %zu broken %zu\n", all.n_processes, all.n_broken);
    for (size_t i = 0; i < all.n_processes; i++) {
        struct ns_recorded_process *process = &all.processes[i];
        printf("process %d name %s looks %lu lost %lu %lu treated %zu median %.3f untreated %zu "
               "median %.3f\n",
               process->pid, process->name, process->looks, process->events_lost,
               process->slots_lost, process->n_treated,
               ns_statistics_median(process->treated, process->n_treated), process->n_untreated,
               ns_statistics_median(process->untreated, process->n_untreated));
        for (size_t j = 0; j < process->n_connections; j++)
            show_connection(process, &process->connections[j], holds);
    }
    ns_recorded_free(&all);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Prints the records in a directory as the command reads them: a line for all, for each process and
 * row of connections. */
#include "../probes/system.h"
#include "cli/diagnose/diagnose.h"

int main(int argc, char **argv)
{
    static struct ns_diagnosis diagnosis;
    int directory = argc > 1 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
    if (directory < 0) {
        perror("show_record");
        return 1;
    }
    size_t n_broken = ns_recorded_read(directory, &diagnosis);
    printf("records %zu broken %zu looks %" PRIu64 " lost %" PRIu64 " %" PRIu64 "\n",
           diagnosis.n_processes, n_broken, diagnosis.looks, diagnosis.missed, diagnosis.forgotten);
    for (size_t i = 0; i < diagnosis.n_processes; i++) {
        const struct ns_row_process *process = diagnosis.processes[i];
        printf("process %d name %s with %zu median %.3f without %zu median %.3f\n", process->pid,
               process->name, process->trial.done, process->trial.done_ms, process->trial.left,
               process->trial.left_ms);
    }
    for (size_t i = 0; i < diagnosis.n_rows; i++) {
        const struct ns_row *row = diagnosis.rows[i];
        const struct ns_verdict *verdict = &row->verdict;
        printf("connection of %s: role %s local %u remote %u connections %u calls %" PRIu64
               " requests %" PRIu64 " "
               "grade \"%s\" stalls %" PRIu64 " maybe %" PRIu64 " late %" PRIu64
               " certain_ms %.1f receiving %" PRIu64 " "
               "pattern \"%s\"\n",
               row->process->name, ns_role_name(row->role), row->local.port, row->remote.port,
               row->connections, verdict->calls, verdict->requests, ns_grade_name(verdict->grade),
               verdict->stalls, verdict->maybe, verdict->late, (double)verdict->certain_ns / 1e6,
               verdict->receiving, row->pattern ? row->pattern : "");
    }
    ns_diagnosis_release(&diagnosis);
    return 0;
}

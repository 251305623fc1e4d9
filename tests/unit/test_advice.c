/* SPDX-License-Identifier: MIT */
/* Every combination of what is known of the two ends of a connection: each advice is one line that
 * a shell can read, and whoever stalls gets one. */
#include "cli/diagnose/diagnose.h"

#include "address.h"
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000u

/* What is known of an end; bits. */
enum {
    REACHABLE = 1,
    UNREACHABLE = 2,
    LIBRARY = 4,
    UNIT = 8,
    CONTAINER = 16,
    VARIABLES = 32,
    WORDS = 64,
    NAMESPACES = 128,
    ENDS = 256,
};

enum { STALLS, WAITS, DOUBTS, OPEN, NOTHING, VERDICTS };

static const struct ns_verdict verdicts[VERDICTS] = {
    [STALLS] = {.grade = NS_GRADE_PROVEN,
                .requests = 10,
                .stalls = 10,
                .certain_ns = 440ull * MS,
                .most_ns = 440ull * MS,
                .proof = {.begin = MS, .end = 45ull * MS}},
    [WAITS] = {.grade = NS_GRADE_LIKELY,
               .requests = 10,
               .receiving = 10,
               .receiving_ns = 440ull * MS},
    [DOUBTS] = {.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_ANSWERS, .maybe = 3},
    [OPEN] = {.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_PEER, .gaps = 5, .lone_acks = 5},
    [NOTHING] = {.grade = NS_GRADE_NONE, .requests = 10},
};

static void add(struct ns_diagnosis *diagnosis, enum ns_role role, unsigned known, unsigned verdict)
{
    static const char words[] = "it's\0a \"program\"";
    struct ns_row_process *process = ns_diagnosis_process(diagnosis, getpid(), role);
    strcpy(process->name, "it's\nit");
    strcpy(process->exe, "/opt/it's");
    process->is_reachable = known & REACHABLE;
    process->unreachable = known & UNREACHABLE ? "is linked statically" : NULL;
    process->shim = known & LIBRARY ? NS_SHIM_WORKS : NS_SHIM_NO;
    strcpy(process->origin.unit, known & UNIT ? "it's.service" : "");
    process->origin.in_container = known & CONTAINER;
    process->origin.has_variables = known & VARIABLES;
    process->origin.has_namespaces = known & NAMESPACES;
    process->words_size = known & WORDS ? sizeof words : 0;
    memcpy(process->words, words, sizeof words);
    ns_diagnosis_add(diagnosis, &(struct ns_row){
                                    .process = process,
                                    .role = role,
                                    .local = role == NS_ROLE_SERVER ? at(2, 7000) : at(1, 40000),
                                    .remote = role == NS_ROLE_SERVER ? at(1, 40000) : at(2, 7000),
                                    .verdict = verdicts[verdict],
                                });
}

/* Does a shell take it for one command, with what follows " # " as a comment? */
static bool is_line(const char *text)
{
    char quote = '\0';
    for (const char *c = text; *c; c++) {
        if (strncmp(c, "(null)", 6) == 0)
            return false;
        if (!quote && strncmp(c, " # ", 3) == 0)
            break;
        if (*c == '\\' && !quote && c[1])
            c++;
        else if (*c == quote || (!quote && (*c == '\'' || *c == '"')))
            quote = quote ? '\0' : *c;
    }
    return !quote && *text && !strchr(text, '\n'); /* a comment has an end, too */
}

static unsigned wrong;

static void must(bool good, const char *what, const char *text)
{
    if (!good && wrong++ < 10)
        printf("# %s: %s\n", what, text ? text : "nothing");
}

/* Both ends are rows, or only the first one. */
static void check(struct ns_diagnosis *diagnosis, bool is_started)
{
    static char *program[] = {"it's", "a \"program\"", NULL};
    struct ns_report report = {.diagnosis = diagnosis,
                               .command = "/opt/my command",
                               .program = is_started ? program : NULL};
    ns_diagnosis_finish(diagnosis);
    ns_report_advise(&report);
    bool is_source = report.next && strncmp(report.next, "set TCP_NODELAY, ", 17) == 0;
    must(!report.next || (is_source ? !strchr(report.next, '\n') : is_line(report.next)),
         "next is no line", report.next);
    must(!report.now || is_line(report.now), "now is no line", report.now);
    const struct ns_row *first = diagnosis->rows[0];
    const char *again = report.next ? strstr(report.next, " -- 'it") : NULL;
    must(!again || is_started || !first->process->origin.has_namespaces || diagnosis->n_rows > 1 ||
             strstr(again, "  # in its namespaces"),
         "it is started elsewhere", report.next);
    must(!first->conclusion.stalls || report.next, "no advice", ns_diagnosis_headline(diagnosis));
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        for (unsigned n = 0; n < diagnosis->rows[i]->n_cures; n++) {
            const struct ns_row *end = diagnosis->rows[i]->cures[n].at;
            const char *command = ns_report_command(&report, diagnosis->rows[i], n);
            must(end && end->process->unreachable ? !command : command && is_line(command),
                 "a cure's command", command);
        }
    ns_diagnosis_release(diagnosis);
    ns_words_forget();
}

CHECK(check_all)
{
    static struct ns_diagnosis diagnosis;
    unsigned n = 0;
    for (unsigned i = 0; i < VERDICTS * ENDS * (VERDICTS + 1) * 4; i++) {
        unsigned rest = i, own = rest % ENDS, verdict = (rest /= ENDS) % VERDICTS;
        unsigned other = (rest /= VERDICTS) % (VERDICTS + 1);
        bool is_server = (rest /= VERDICTS + 1) % 2, is_started = rest / 2;
        /* The other end has each of a few kinds in turn. */
        static const unsigned kinds[] = {REACHABLE | WORDS, UNREACHABLE | WORDS, 0,
                                         REACHABLE | LIBRARY | UNIT};
        if ((own & REACHABLE) && (own & UNREACHABLE))
            continue;
        for (unsigned kind = 0; kind < (other < VERDICTS ? 4 : 1); kind++, n++) {
            add(&diagnosis, is_server ? NS_ROLE_SERVER : NS_ROLE_CLIENT, own, verdict);
            if (other < VERDICTS)
                add(&diagnosis, is_server ? NS_ROLE_CLIENT : NS_ROLE_SERVER, kinds[kind], other);
            check(&diagnosis, is_started);
        }
    }
    printf("# %u combinations\n", n);
    OK(n > 30000 && wrong == 0, "whatever is known of both ends, each advice is a line");
}

static void *wait_for_ever(void *unused)
{
    pause();
    return unused;
}

/* Starts a process whose second thread goes on, and whose main thread has ended or does, too. */
static pid_t start(bool ends)
{
    pthread_t thread;
    pid_t pid = fork();
    struct ns_state state = {0};
    if (pid == 0) {
        pthread_create(&thread, NULL, wait_for_ever, NULL);
        if (ends)
            pthread_exit(NULL);
        wait_for_ever(NULL);
    }
    while (ends && ns_state_of(pid, &state) == 0 && state.letter != 'Z')
        usleep(1000);
    return pid;
}

CHECK(check_main_thread)
{
    for (int verdict = STALLS; verdict <= DOUBTS; verdict += DOUBTS - STALLS)
        for (int ends = 0; ends < 2; ends++) {
            static struct ns_diagnosis diagnosis;
            struct ns_report report = {.diagnosis = &diagnosis, .command = "nagleshim"};
            pid_t pid = start(ends);
            add(&diagnosis, NS_ROLE_CLIENT, UNREACHABLE, (unsigned)verdict);
            diagnosis.processes[0]->pid = pid;
            ns_diagnosis_finish(&diagnosis);
            ns_report_advise(&report);
            const char *advice = verdict == STALLS ? report.now : report.next;
            OK(ends ? !advice : advice && strstr(advice, "cure --pid"),
               "a cure is proposed for a process%s", ends ? " only with its main thread" : "");
            ns_diagnosis_release(&diagnosis);
            ns_words_forget();
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
}

/* SPDX-License-Identifier: MIT */
/* Makes rows by hand, and checks the conclusions, sentences, policy and next command. */
#include "cli/diagnose/diagnose.h"

#include "policy/policy.h"

#include "address.h"
#include "unit.h"

#include <inttypes.h>

#define MS 1000000u

static struct ns_diagnosis diagnosis; /* of the current check */

static void begin(void)
{
    ns_diagnosis_release(&diagnosis);
    diagnosis = (struct ns_diagnosis){0};
}

static struct ns_row_process *process(pid_t pid, const char *exe, const char *unreachable)
{
    struct ns_row_process *made = ns_diagnosis_process(&diagnosis, pid, 0);
    snprintf(made->exe, sizeof made->exe, "/opt/%s", exe);
    snprintf(made->name, sizeof made->name, "%.60s", exe);
    made->unreachable = *unreachable ? unreachable : NULL;
    made->is_reachable = !*unreachable;
    return made;
}

/* Ten requests of 10.0.0.1 to 10.0.0.2:7000, each held by this end for 44 ms. */
static struct ns_verdict stalls(void)
{
    return (struct ns_verdict){
        .grade = NS_GRADE_PROVEN,
        .requests = 10,
        .stalls = 10,
        .late_acks = 10,
        .certain_ns = 440ull * MS,
        .most_ns = 440ull * MS,
        .shortest_ns = 40ull * MS,
        .longest_ns = 48ull * MS,
        .rtt_us = 20000,
        .proof = {.begin = MS, .end = 45ull * MS, .look = {.unsent = 1, .unacked = 2}}};
}

/* Ten answers that this end's delayed ACK delayed for 44 ms. */
static struct ns_verdict receives(void)
{
    return (struct ns_verdict){.grade = NS_GRADE_LIKELY,
                               .requests = 10,
                               .segments = 10,
                               .receiving = 10,
                               .receiving_ns = 440ull * MS};
}

static void add(struct ns_row_process *whose, enum ns_role role, struct ns_verdict verdict)
{
    struct ns_row connection = {
        .process = whose,
        .role = role,
        .local = role == NS_ROLE_SERVER ? at(2, 7000) : at(1, 40000),
        .remote = role == NS_ROLE_SERVER ? at(1, 40000) : at(2, 7000),
        .verdict = verdict,
    };
    ns_diagnosis_add(&diagnosis, &connection);
}

/* A diagnosis of one connection of one process. */
static void diagnose(const char *exe, enum ns_role role, struct ns_verdict verdict)
{
    begin();
    add(process(7, exe, ""), role, verdict);
    ns_diagnosis_finish(&diagnosis);
}

/* Both ends were watched. */
static void diagnose_ends(struct ns_verdict server, struct ns_verdict client, bool inside)
{
    begin();
    add(process(8, "server", ""), NS_ROLE_SERVER, server);
    add(process(7, "client", ""), NS_ROLE_CLIENT, client);
    diagnosis.rows[1]->source = inside ? NS_SOURCE_INSIDE : NS_SOURCE_OUTSIDE;
    ns_diagnosis_finish(&diagnosis);
}

static bool says(const char *text, const char *part)
{
    if (text && strstr(text, part))
        return true;
    printf("# \"%s\" is not in: %s\n", part, text ? text : "nothing");
    return false;
}

/* The text of the policy in a buffer, if the parser accepts it. */
static const char *policy_of(void)
{
    static char copy[2048];
    cJSON *rules = ns_diagnosis_policy(&diagnosis);
    char *text = rules ? cJSON_PrintUnformatted(rules) : NULL;
    struct ns_policy *policy = NULL;
    struct ns_policy_error error;
    bool valid = !text || ns_policy_parse(&(struct ns_arena){0}, text, strlen(text), &policy,
                                          &error, NULL) == 0;
    snprintf(copy, sizeof copy, "%s", !valid ? "not a policy" : text ? text : "");
    ns_policy_free(policy);
    cJSON_Delete(rules);
    free(text);
    return copy;
}

static const char *next_command(void)
{
    struct ns_report report = {.diagnosis = &diagnosis, .command = "nagleshim"};
    ns_report_advise(&report);
    return report.next;
}

CHECK(check_stall)
{
    begin();
    add(process(7, "a*b [x]", ""), NS_ROLE_CLIENT, stalls());
    add(diagnosis.processes[0], NS_ROLE_CLIENT, stalls());
    ns_diagnosis_finish(&diagnosis);
    const struct ns_row *row = diagnosis.rows[0];
    OK(diagnosis.n_rows == 1 && row->connections == 2 && row->verdict.stalls == 20,
       "connections of one process to one service are one row");
    const char *text = ns_diagnosis_headline(&diagnosis);
    OK(says(text, "it stalls: at least 20 requests of a*b [x] were held") &&
           says(text, "880 ms were lost"),
       "the headline has the number and the price of the stalls");
    text = ns_diagnosis_proof(row);
    OK(says(text, "1 byte unsent behind 2 unacknowledged segments"), "the proof has its numbers");
    OK(row->n_cures == 2 && fabs(row->cures[0].from_ms - 64) < 0.01 &&
           fabs(row->cures[0].to_ms - 20) < 0.01 &&
           strcmp(row->cures[0].does, "send adaptive") == 0,
       "a cure on this end saves the hold");
    OK(fabs(row->cures[1].to_ms - 40) < 0.01 && strcmp(row->cures[1].does, "ack before-wait") == 0,
       "a cure on the other end saves the hold less a round trip");
    OK(says(policy_of(), "\"process\":\"a\\\\*b \\\\[x\\\\]\""),
       "pattern characters in a name are quoted in the policy");
}

CHECK(check_few)
{
    struct ns_verdict verdict = stalls();
    verdict.stalls = 3;
    verdict.requests = 1000;
    verdict.delays[NS_DELAY_PEER] = 24;
    diagnose("client", NS_ROLE_CLIENT, verdict);
    OK(diagnosis.grade == NS_GRADE_CANNOT_TELL,
       "three stalls beside many long waits may be chance");
    verdict.delays[NS_DELAY_PEER] = 23;
    diagnose("client", NS_ROLE_CLIENT, verdict);
    OK(diagnosis.grade == NS_GRADE_PROVEN, "and beside not so many they are none");
    verdict.stalls = 4;
    verdict.delays[NS_DELAY_PEER] = 500;
    diagnose("client", NS_ROLE_CLIENT, verdict);
    OK(diagnosis.grade == NS_GRADE_PROVEN, "nor are more");
}

CHECK(check_slow_server)
{
    struct ns_verdict verdict = stalls();
    verdict.grade = NS_GRADE_LIKELY;
    verdict.maybe = verdict.stalls;
    verdict.stalls = verdict.certain_ns = 0;
    verdict.answered_ns = 300ull * MS;
    diagnose("client", NS_ROLE_CLIENT, verdict);
    const struct ns_row *row = diagnosis.rows[0];
    OK(fabs(row->cures[0].from_ms - 74) < 0.01 && fabs(row->cures[0].to_ms - 30) < 0.01 &&
           fabs(row->cures[1].to_ms - 50) < 0.01,
       "a cure saves the hold, and not the time that the server takes after it");
}

CHECK(check_unreachable)
{
    begin();
    add(process(7, "go", "it is a Go program"), NS_ROLE_CLIENT, stalls());
    ns_diagnosis_finish(&diagnosis);
    const char *policy = policy_of();
    OK(says(policy, "\"match\":{\"role\":\"server\",\"local\":[\"7000\"]}"),
       "if no preload reaches the process, the rule is for the other end");
    const char *next = next_command();
    OK(says(next, "at the other end: the server on 10.0.0.2:7000"), "and so is the next command");
}

CHECK(check_reused_pid)
{
    begin();
    struct ns_row_process *one = ns_diagnosis_process(&diagnosis, 500, 1000);
    OK(ns_diagnosis_process(&diagnosis, 500, 1000) == one &&
           ns_diagnosis_process(&diagnosis, 500, 1001) != one,
       "a process that reuses a pid is another process");
}

CHECK(check_many_processes)
{
    struct ns_watched watched = {.name = "many", .started = 9};
    const struct ns_row_process *last = NULL;
    begin();
    for (watched.pid = 1; watched.pid <= 2 * NS_DIAGNOSIS_PROCESSES_MOST; watched.pid++)
        last = ns_diagnosis_process_of(&diagnosis, &watched);
    OK(diagnosis.n_processes == NS_DIAGNOSIS_PROCESSES_MOST + 1 && last->pid == 0 &&
           strcmp(last->name, "other processes") == 0,
       "ever more processes with connections take no more memory");
    watched.pid = 7;
    OK(ns_diagnosis_process_of(&diagnosis, &watched) == diagnosis.processes[6] &&
           strcmp(diagnosis.processes[6]->name, "many") == 0,
       "those that were there before are still known");
    watched.pid = 0;
    OK(strcmp(ns_diagnosis_process_of(&diagnosis, &watched)->name, "another user's process") == 0,
       "another user's process is not one of them");
}

/* A client that is seen from inside waits for a server that is seen from outside, by samples. */
CHECK(check_figures)
{
    struct ns_verdict waits = receives();
    waits.requests = 40;
    waits.receiving = 38;
    waits.receiving_ns = 1678ull * MS;
    diagnose_ends(stalls(), waits, true);
    const struct ns_row *holder = diagnosis.rows[0];
    OK(says(ns_diagnosis_cure(holder, 0), "in server: ") &&
           says(ns_diagnosis_cure(holder, 1), "in client: "),
       "a cure names its process");
    begin();
    add(process(8, "x", ""), NS_ROLE_SERVER, stalls());
    add(process(7, "x", ""), NS_ROLE_CLIENT, waits);
    ns_diagnosis_finish(&diagnosis);
    OK(says(ns_diagnosis_headline(&diagnosis), "it stalls: at least 10 messages") &&
           says(ns_diagnosis_headline(&diagnosis), "; at least 440 ms were lost"),
       "from outside the figures are lower bounds");
    OK(says(ns_diagnosis_cure(diagnosis.rows[0], 0), "in x[8]: "),
       "two of one name have their pids");
}

CHECK(check_mixed)
{
    struct ns_verdict mixed = stalls();
    mixed.maybe = 20;
    mixed.most_ns += 20 * 45ull * MS;
    mixed.answered_ns = 20 * 100ull * MS;
    diagnose("x", NS_ROLE_CLIENT, mixed);
    OK(says(ns_diagnosis_mixed(diagnosis.rows[0]),
            "20 requests took 145 ms each: up to 45 ms held, the rest the peer"),
       "requests that were held and then took longer have their own sentence");
    diagnosis.processes[0]->queued.since = 600ull * MS;
    OK(says(ns_diagnosis_mixed(diagnosis.rows[0]),
            "the rest the peer; or x[7] waited for a CPU, for 600 ms in all"),
       "and so have those whose process may have waited for a CPU");
}

/* A doubt about a program that was started, which only --outside left unseen from inside. */
CHECK(check_outside)
{
    static char *program[] = {"x", NULL};
    for (int outside = 0; outside < 2; outside++) {
        begin();
        struct ns_row_process *started = process(7, "x", "");
        memcpy(started->words, "x", started->words_size = sizeof "x");
        add(started, NS_ROLE_CLIENT,
            (struct ns_verdict){
                .grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_ANSWERS, .maybe = 3});
        ns_diagnosis_finish(&diagnosis);
        struct ns_report report = {.diagnosis = &diagnosis,
                                   .command = "nagleshim",
                                   .program = program,
                                   .outside = outside};
        ns_report_advise(&report);
        OK(outside ? says(report.next, "nagleshim diagnose -- x  # ") : !report.next,
           "a doubt from outside %s", outside ? "is decided from inside" : "stays with the note");
    }
}

/* The library is loaded in the process, or the peer is on this host. */
CHECK(check_advice)
{
    begin();
    struct ns_verdict open = {.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_PEER, .gaps = 5};
    add(process(7, "x", ""), NS_ROLE_CLIENT, stalls());
    diagnosis.processes[0]->shim = NS_SHIM_WORKS;
    ns_diagnosis_finish(&diagnosis);
    OK(says(ns_diagnosis_cure(diagnosis.rows[0], 0), "the library is loaded there already") &&
           *policy_of() == '\0',
       "what is in force already is not proposed");
    for (uint16_t here = 0; here < 2; here++) {
        begin();
        add(process(7, "x", ""), NS_ROLE_CLIENT, open);
        if (here)
            diagnosis.rows[0]->remote = at(1, 7000);
        ns_diagnosis_finish(&diagnosis);
        const char *next = next_command();
        OK(says(next, here ? "# as root; the peer is a process of this host"
                           : "# as root, on the host of 10.0.0.2"),
           "the next command is for the host of the peer");
    }
}

CHECK(check_longest_delay)
{
    struct ns_verdict held = {.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_ANSWERS, .maybe = 3};
    struct ns_verdict late = {.grade = NS_GRADE_NONE, .delays[NS_DELAY_PEER] = 5};
    late.delays_ns[NS_DELAY_PEER] = 220 * MS;
    diagnose_ends(late, held, false);
    OK(says(ns_diagnosis_headline(&diagnosis),
            "the longest delay, of server[8]: the peer sent its next request late"),
       "of several rows, the one with the longest delay is named");
}

CHECK(check_both_ends)
{
    diagnose_ends(receives(), stalls(), false);
    const char *policy = policy_of();
    OK(says(policy, "client to port 7000") && !strstr(policy, "server on"),
       "the rule is for the end that holds the bytes");
    struct ns_verdict answers = stalls();
    answers.stalls = answers.delays[NS_DELAY_PEER] = 9;
    answers.certain_ns = answers.most_ns = answers.delays_ns[NS_DELAY_PEER] = 400ull * MS;
    diagnose_ends(answers, stalls(), false);
    const struct ns_row *row = diagnosis.rows[0];
    OK(says(ns_diagnosis_headline(&diagnosis),
            "it stalls: at least 10 requests of client and at least 9 messages of its peer were "
            "held by Nagle's algorithm until the other end's delayed ACK came; at least 840 ms"),
       "if both ends hold, one sentence has both halves and their sum");
    OK(says(ns_diagnosis_cost(row), "840 ms lost, of which 400 ms behind the holds of server[8]") &&
           says(ns_diagnosis_cure(row, 0), "a stalled request: 104.0 ms now") &&
           diagnosis.rows[1]->verdict.delays[NS_DELAY_PEER] == 0 && !diagnosis.rows[1]->counts,
       "so have the row and its cure, and no half counts as a slow peer");
    answers.late_acks = 4;
    diagnose("client", NS_ROLE_CLIENT, answers);
    OK(says(ns_diagnosis_headline(&diagnosis),
            "held by Nagle's algorithm until the peer's ACK came"),
       "if most ACKs came sooner than a delayed one, they are not called delayed");
    answers = (struct ns_verdict){
        .grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_ANSWERS, .maybe = 3, .most_ns = 120 * MS};
    diagnose_ends(answers, stalls(), false);
    OK(says(ns_diagnosis_proof(diagnosis.rows[1]),
            "see its row; this end may have held bytes, too: 3 times, 40.0 ms each"),
       "a row that the peer holds has its own half, too");
}

/* A server holds what it sends to one of two clients. */
CHECK(check_other_client)
{
    for (uint64_t gaps = 0; gaps < 8; gaps += 7) {
        struct ns_verdict nothing = {.grade = NS_GRADE_NONE, .requests = 10, .gaps = gaps};
        begin();
        add(process(8, "server", ""), NS_ROLE_SERVER, stalls());
        add(process(7, "client", ""), NS_ROLE_CLIENT, nothing);
        add(process(9, "other", ""), NS_ROLE_CLIENT, nothing);
        diagnosis.rows[2]->local.port++;
        ns_diagnosis_finish(&diagnosis);
        unsigned held = 0;
        for (size_t i = 0; i < diagnosis.n_rows; i++)
            held |= diagnosis.rows[i]->is_held ? 1u << (diagnosis.rows[i]->process->pid - 7) : 0;
        OK(held == (gaps ? 5 : 1), gaps ? "data behind a client's delayed ACKs may be held, too"
                                        : "another client is not called held without evidence");
    }
}

/* A server holds the messages that it sends unasked; the other end only reads. */
CHECK(check_reader)
{
    struct ns_verdict late = {.grade = NS_GRADE_LATE, .late = 20, .late_ns = 800ull * MS};
    const struct ns_verdict doubt = {.grade = NS_GRADE_CANNOT_TELL,
                                     .doubt = NS_DOUBT_PEER,
                                     .segments = 100,
                                     .gaps = 39,
                                     .gaps_ns = 39 * 45ull * MS,
                                     .lone_acks = 40};
    diagnose_ends(late, doubt, false);
    OK(says(ns_diagnosis_headline(&diagnosis), "it may stall: at least 20 messages of server") &&
           says(ns_diagnosis_proof(diagnosis.rows[0]),
                "held 20 times, 40.0 ms each, and 39 times data came to client[7]") &&
           says(ns_diagnosis_cost(diagnosis.rows[0]),
                "at least 20 messages; perhaps 800 ms lost") &&
           diagnosis.rows[1]->is_held,
       "what both ends show together is one verdict, and counts messages");
    const struct ns_verdict answered = {.grade = NS_GRADE_CANNOT_TELL,
                                        .doubt = NS_DOUBT_ANSWERS,
                                        .maybe = 11,
                                        .most_ns = 440ull * MS};
    diagnose_ends(answered, receives(), true);
    OK(diagnosis.rows[0]->is_held &&
           says(ns_diagnosis_proof(diagnosis.rows[1]),
                "held 11 times, 40.0 ms each, and 10 times client[7] waited"),
       "holds and the waits of the other end, seen from inside, are one verdict");
    diagnose_ends(doubt, doubt, false);
    OK(says(ns_diagnosis_headline(&diagnosis), "the peer, held nothing, so its program may wait"),
       "of two ends that hold nothing, a program may still wait for an ACK");
    late.late = 2;
    diagnose_ends(late, doubt, false);
    OK(says(ns_diagnosis_headline(&diagnosis), "server[8], the peer, held bytes 2 times") &&
           !next_command(),
       "a doubt has what the other end shows, and does not propose to look there");
}

/* A client of a relay, which waits for a server. The client was seen from inside. */
CHECK(check_relay)
{
    struct ns_verdict waits = receives(), holds = stalls();
    const struct ns_verdict behind = {.delays = {[NS_DELAY_PEER] = 118},
                                      .delays_ns = {[NS_DELAY_PEER] = 5200ull * MS}};
    waits.requests = 120;
    waits.receiving = waits.gaps = waits.lone_acks = 118;
    waits.receiving_ns = waits.gaps_ns = 5300ull * MS;
    for (uint64_t each = 5; each <= 45; each += 10) {
        holds.requests = 120;
        holds.stalls = 118;
        holds.certain_ns = holds.most_ns = holds.longest_ns = 118 * each * MS;
        begin();
        add(process(8, "relay", ""), NS_ROLE_SERVER, holds);
        add(process(7, "client", ""), NS_ROLE_CLIENT, waits);
        diagnosis.rows[0]->is_peer = true;
        diagnosis.rows[1]->source = NS_SOURCE_INSIDE;
        diagnosis.processes[0]->pid = getpid(); /* it is running */
        ns_diagnosis_behind(diagnosis.processes[0], &behind, &diagnosis.rows[1]->service);
        ns_diagnosis_finish(&diagnosis);
        OK(diagnosis.lost_ms <= (double)(118 * each) + 0.01,
           "holds of %" PRIu64 " ms explain no more than they lasted", each);
        OK((diagnosis.grade == NS_GRADE_PROVEN) == (each > 5) &&
               !diagnosis.rows[0]->is_held == (each <= 25 || diagnosis.rows[0]->is_peer),
           "if they are a small part of the time, nothing is proven (%" PRIu64 " ms)", each);
        OK(says(next_command(), each < 25 ? "diagnose --pid " : "run -- "),
           "the next command is about the larger part (%" PRIu64 " ms)", each);
    }
    holds = (struct ns_verdict){.grade = NS_GRADE_CANNOT_TELL,
                                .doubt = NS_DOUBT_ANSWERS,
                                .maybe = 22,
                                .most_ns = 22 * 43ull * MS};
    diagnose_ends(holds, waits, true);
    OK(diagnosis.grade == NS_GRADE_CANNOT_TELL && diagnosis.lost_ms <= 0 &&
           diagnosis.rows[1]->verdict.delays[NS_DELAY_PEER] == 118,
       "few holds of the peer leave it in doubt what all the waits were for");
}

CHECK(check_receiving)
{
    diagnose("server", NS_ROLE_SERVER, receives());
    const char *text = ns_diagnosis_headline(&diagnosis);
    OK(says(text, "it may stall: 10 times the peer of server seems to have waited"),
       "a likely stall is reported as possible");
    OK(says(text, "perhaps 440 ms"), "the price of a likely stall is an upper bound");
    OK(strcmp(diagnosis.rows[0]->cures[0].does, "ack before-wait") == 0 &&
           strcmp(diagnosis.rows[0]->cures[1].does, "send adaptive") == 0,
       "this end can acknowledge, and the other can push");
}

CHECK(check_one)
{
    struct ns_verdict one = stalls();
    one.stalls = 1;
    diagnose("x", NS_ROLE_CLIENT, one);
    OK(says(ns_diagnosis_headline(&diagnosis), "at least 1 request of x was held"),
       "one request was held");
    one = stalls();
    one.longest_ns = one.shortest_ns;
    diagnose("x", NS_ROLE_CLIENT, one);
    OK(says(ns_diagnosis_cost(diagnosis.rows[0]), " stalled for 40.0 ms;"), "equal times are one");
    one.stalls = 1;
    one.stalls = 0;
    one.grade = NS_GRADE_CANNOT_TELL;
    one.doubt = NS_DOUBT_ANSWERS;
    diagnose("x", NS_ROLE_CLIENT, one);
    diagnosis.processes[0]->words_size = sizeof "./x";
    snprintf(diagnosis.processes[0]->words, sizeof "./x", "./x");
    const char *next = next_command();
    OK(says(next, " diagnose -- ./x  # restarted, it is seen from inside"),
       "a doubt from outside proposes the view from inside");
}

/* The grade of a server that its delayed ACK seems to slow down, whose client was seen like this.
 */
static enum ns_grade server_of(struct ns_verdict client)
{
    diagnose_ends(receives(), client, true);
    return diagnosis.rows[diagnosis.rows[0]->role != NS_ROLE_SERVER]->verdict.grade;
}

CHECK(check_peer)
{
    struct ns_verdict nothing = {.grade = NS_GRADE_NONE, .requests = 10},
                      late = {.grade = NS_GRADE_LATE, .late = 10},
                      unknown = {.grade = NS_GRADE_CANNOT_TELL};
    OK(server_of(stalls()) == NS_GRADE_LIKELY && server_of(unknown) == NS_GRADE_LIKELY,
       "a peer that may hold bytes may wait for this end's ACK");
    OK(server_of(nothing) == NS_GRADE_NONE && server_of(late) == NS_GRADE_NONE,
       "a peer whose holds do not matter does not wait for it");
}

/* A process has a row that holds and another row, and an experiment. */
CHECK(check_experiments)
{
    const struct ns_verdict receiving = receives(), holds = stalls();
    const enum ns_experiment push = NS_EXPERIMENT_PUSH, acknowledge = NS_EXPERIMENT_ACKNOWLEDGE;
    const enum ns_grade proven = NS_GRADE_PROVEN, likely = NS_GRADE_LIKELY;
    const struct {
        enum ns_experiment what;
        double done_ms, p;
        const struct ns_verdict *other;
        enum ns_grade grade, other_grade;
        unsigned cured;
        const char *name;
    } cases[] = {
        {push, 34, 1e-6, &receiving, proven, likely, 1, "a push that helps is a measured cure"},
        {push, 43.9, 0.4, &receiving, NS_GRADE_LATE, likely, 0,
         "a push that gains nothing shows that nobody waited"},
        {acknowledge, 0.1, 1e-6, &receiving, proven, proven, 1, "an ACK that helps is the proof"},
        {push, 0.1, 1e-6, &holds, proven, proven, 0,
         "an experiment is about no row if it may be about two"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        struct ns_row_process *whose = process(9, "x", "");
        unsigned n_cured = 0;
        bool as_expected = true;
        whose->trial = (struct ns_trial){cases[i].what, 10, 10, cases[i].done_ms, 44, cases[i].p};
        add(whose, NS_ROLE_CLIENT, stalls());
        add(whose, NS_ROLE_SERVER, *cases[i].other);
        ns_diagnosis_finish(&diagnosis);
        for (size_t j = 0; j < 2; j++) {
            const struct ns_row *row = diagnosis.rows[j];
            as_expected &= row->verdict.grade ==
                           (row->role == NS_ROLE_CLIENT ? cases[i].grade : cases[i].other_grade);
            as_expected &= !says(ns_diagnosis_proof(row), "--experiment");
            if (!row->is_cured)
                continue;
            n_cured++;
            as_expected &= row->cures[0].measured && row->conclusion.certain &&
                           fabs(row->cures[0].to_ms - cases[i].done_ms) < 0.01 &&
                           fabs(row->conclusion.lost_ms - 10 * (44 - cases[i].done_ms)) < 0.01 &&
                           says(ns_diagnosis_cure(row, 0), "(measured)");
        }
        OK(as_expected && n_cured == cases[i].cured, "%s", cases[i].name);
    }
}

CHECK(check_no_stall)
{
    static const struct {
        struct ns_verdict verdict;
        const char *says;
    } cases[] = {
        {{.grade = NS_GRADE_NONE,
          .requests = 5,
          .delays = {[NS_DELAY_PEER] = 5},
          .delays_ns = {[NS_DELAY_PEER] = 220ull * MS}},
         "no stall: at least 5 requests on 1 connection, and Nagle's algorithm held none of them; "
         "the longest delay: 5 answers came after 44.0 ms, and this view cannot show why"},
        {{.grade = NS_GRADE_NONE,
          .requests = 1,
          .delays = {[NS_DELAY_CORK] = 1},
          .delays_ns = {[NS_DELAY_CORK] = 200ull * MS}},
         "the program's own TCP_CORK or MSG_MORE held bytes, once, 200.0 ms"},
        {{.grade = NS_GRADE_NONE,
          .delays = {[NS_DELAY_WINDOW] = 1},
          .delays_ns = {[NS_DELAY_WINDOW] = 300ull * MS}},
         "nothing to judge: on 1 connection no request was answered; the longest delay: the peer's "
         "receive window was full"},
        {{.grade = NS_GRADE_NONE,
          .delays = {[NS_DELAY_LOSS] = 1},
          .delays_ns = {[NS_DELAY_LOSS] = 300ull * MS}},
         "segments were lost"},
        {{.grade = NS_GRADE_LATE, .late = 3, .late_ns = 60 * MS},
         "no stall: bytes were held 3 times, 20.0 ms each, but no answer depended on them"},
        {{.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_NO_WINDOW}, "cannot tell: this kernel"},
        {{.grade = NS_GRADE_CANNOT_TELL,
          .doubt = NS_DOUBT_ANSWERS,
          .maybe = 4,
          .early = 4,
          .most_ns = 80 * MS},
         "cannot tell: bytes were held 4 times, 20.0 ms each, but answers came meanwhile"},
        {{.grade = NS_GRADE_CANNOT_TELL,
          .doubt = NS_DOUBT_ANSWERS,
          .maybe = 4,
          .answered_ns = 1,
          .most_ns = 160 * MS},
         "held 4 times, 40.0 ms each, but the times of the answers do not show that the program "
         "waited for them"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        diagnose("x", NS_ROLE_CLIENT, cases[i].verdict);
        OK(says(ns_diagnosis_headline(&diagnosis), cases[i].says), "another delay is named (%zu)",
           i + 1);
        if (i == 0)
            OK(says(next_command(), " diagnose --all --for 10  # as root, on the host of 10.0.0.2"),
               "one that is as long as a delayed ACK is to be seen at the peer");
    }
    diagnosis.rows[0]->source = NS_SOURCE_INSIDE;
    diagnosis.rows[0]->verdict = cases[0].verdict;
    OK(says(ns_diagnosis_proof(diagnosis.rows[0]), "in 5 requests Nagle's algorithm held no byte"),
       "from inside, requests are counted and not samples");
    diagnose("x", NS_ROLE_SERVER, cases[0].verdict);
    OK(says(ns_diagnosis_headline(&diagnosis), "the peer sent its next request late, 5 times"),
       "a server waits for requests");
    diagnosis.processes[0]->queued.since = 100 * MS;
    OK(says(ns_diagnosis_headline(&diagnosis), "or x[7] waited for a CPU, for 100 ms in all"),
       "a process that waited for a CPU may be the slow one");
}

CHECK(check_words)
{
    static char *program[] = {"a b", "it's", "x\ny\033", "plain-1.0/x", "", NULL};
    struct ns_report words = {.diagnosis = &diagnosis,
                              .command = "./nagleshim",
                              .program = program,
                              .policy_file = "my policy.json"};
    diagnose("p", NS_ROLE_CLIENT, stalls());
    ns_report_advise(&words);
    OK(words.next &&
           strcmp(words.next, "./nagleshim run --policy 'my policy.json' -- 'a b' 'it'\\''s' "
                              "$'x\\012y\\033' plain-1.0/x ''") == 0,
       "the next command is quoted for the shell");
}

CHECK(check_rows)
{
    begin();
    /* Each of these rows has all the others as its other ends. */
    for (int i = 1; i <= NS_DIAGNOSIS_ROWS_MOST + 5; i++)
        add(process(i, "many", ""), i % 2 ? NS_ROLE_CLIENT : NS_ROLE_SERVER, stalls());
    OK(diagnosis.n_rows == NS_DIAGNOSIS_ROWS_MOST && diagnosis.forgotten == 5,
       "connections whose row has no room are counted");
    ns_diagnosis_finish(&diagnosis);
}

CHECK(check_holds)
{
    begin();
    add(process(1, "quiet", ""), NS_ROLE_CLIENT, (struct ns_verdict){.grade = NS_GRADE_NONE});
    add(process(2, "loud", ""), NS_ROLE_CLIENT, stalls());
    struct ns_hold hold = {.begin = 10000, .end = 20000, .waited = true, .certain = true};
    ns_diagnosis_add_hold(&diagnosis, diagnosis.rows[0], &hold);
    for (unsigned i = 0; i < NS_DIAGNOSIS_HOLDS_MOST + 4; i++) {
        hold.begin--;
        ns_diagnosis_add_hold(&diagnosis, diagnosis.rows[1], &hold);
    }
    ns_diagnosis_finish(&diagnosis);
    OK(diagnosis.n_holds == NS_DIAGNOSIS_HOLDS_MOST && diagnosis.holds_untold == 5,
       "holds without room are counted");
    const struct ns_row_hold *last = &diagnosis.holds[diagnosis.n_holds - 1];
    OK(diagnosis.holds[0].hold.certain && diagnosis.holds[0].hold.waited && !last->hold.certain &&
           !last->hold.waited && strcmp(last->row->process->name, "quiet") == 0,
       "no hold is more certain than its row");
    OK(diagnosis.holds[0].hold.begin < diagnosis.holds[1].hold.begin &&
           diagnosis.holds[0].row == diagnosis.rows[0] &&
           strcmp(diagnosis.rows[0]->process->name, "loud") == 0,
       "holds are sorted by time, and each knows its row");
}

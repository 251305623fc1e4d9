/* SPDX-License-Identifier: MIT */
/* What is told of a diagnosis: rows made by hand in, sentences and a policy out. */
#include "cli/diagnose/diagnosis.h"
#include "cli/diagnose/diagnosis_policy.h"
#include "cli/diagnose/diagnosis_report.h"
#include "cli/diagnose/diagnosis_words.h"

#include "policy/policy.h"

#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000u

static const struct ns_diagnosis_means none = {.command = "nagleshim"};

static struct ns_address at(uint8_t last, uint16_t port)
{
    struct ns_address address = {.known = true, .port = port};

    address.addr.s6_addr[10] = address.addr.s6_addr[11] = 0xff;
    address.addr.s6_addr[12] = 10;
    address.addr.s6_addr[15] = last;
    return address;
}

static struct ns_diagnosed_process *process(struct ns_diagnosis *diagnosis, pid_t pid,
                                            const char *exe, const char *unreachable)
{
    struct ns_diagnosed_process *made = ns_diagnosis_process(diagnosis, pid, 0);

    snprintf(made->exe, sizeof(made->exe), "/opt/%s", exe);
    snprintf(made->name, sizeof(made->name), "%.60s", exe);
    snprintf(made->curable.reason, sizeof(made->curable.reason), "%s", unreachable);
    made->curable.yes = !*unreachable;
    return made;
}

/* Ten requests of 10.0.0.1 to 10.0.0.2:7000, each of which its own end held for 44 ms. */
static struct ns_verdict stalls(void)
{
    return (struct ns_verdict){
        .grade = NS_GRADE_PROVEN,
        .requests = 10,
        .stalls = 10,
        .late_acks = 10,
        .certain_ns = 440ull * MS,
        .most_ns = 440ull * MS,
        .held_ns = 440ull * MS,
        .shortest_ns = 40ull * MS,
        .longest_ns = 48ull * MS,
        .rtt_us = 20000,
        .proof = {.begin = MS, .end = 45ull * MS, .look = {.unsent = 1, .unacked = 2}},
    };
}

static void add(struct ns_diagnosis *diagnosis, const struct ns_diagnosed_process *whose,
                enum ns_role role, const struct ns_verdict *verdict)
{
    struct ns_diagnosed_connection connection = {
        .process = whose,
        .role = role,
        .local = role == NS_ROLE_SERVER ? at(2, 7000) : at(1, 40000),
        .remote = role == NS_ROLE_SERVER ? at(1, 40000) : at(2, 7000),
        .verdict = verdict,
        .pattern = "",
    };

    ns_diagnosis_add(diagnosis, &connection);
}

static bool says(const char *text, const char *part)
{
    if (text && strstr(text, part))
        return true;
    printf("# \"%s\" is not in: %s\n", part, text ? text : "nothing");
    return false;
}

/* The text of the policy, if the parser takes it, in a buffer. */
static const char *policy_of(const struct ns_diagnosis *diagnosis, bool *valid)
{
    static char copy[2048];
    char *text = ns_diagnosis_policy(diagnosis, false);
    struct ns_policy *policy = NULL;
    struct ns_policy_error error;

    *valid = text && ns_policy_parse(text, strlen(text), &policy, &error) == 0;
    snprintf(copy, sizeof(copy), "%s", text ? text : "");
    ns_policy_free(policy);
    free(text);
    return copy;
}

static void check_stall(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict verdict = stalls();
    struct ns_cure cures[2];
    char text[1024];
    bool valid;

    add(&diagnosis, process(&diagnosis, 7, "a*b [x]", ""), NS_ROLE_CLIENT, &verdict);
    add(&diagnosis, diagnosis.processes[0], NS_ROLE_CLIENT, &verdict);
    ns_diagnosis_finish(&diagnosis);
    OK(diagnosis.n_rows == 1 && diagnosis.rows[0].connections == 2 &&
           diagnosis.rows[0].verdict.stalls == 20,
       "connections of one process to one service are one row");
    ns_diagnosis_headline(&diagnosis, text, sizeof(text));
    OK(says(text, "it stalls: at least 20 requests of a*b [x] were held"),
       "a proven stall is called one");
    OK(says(text, "880 ms were lost"), "and its price is named");
    ns_diagnosis_proof(&diagnosis.rows[0], text, sizeof(text));
    OK(says(text, "1 byte unsent behind 2 unacknowledged segments"), "the proof has its numbers");
    OK(ns_diagnosis_cures(&diagnosis, &diagnosis.rows[0], cures) == 2 &&
           fabs(cures[0].from_ms - 64) < 0.01 && fabs(cures[0].to_ms - 20) < 0.01 &&
           strcmp(cures[0].does, "send adaptive") == 0,
       "a cure on this end saves the hold");
    OK(fabs(cures[1].to_ms - 40) < 0.01 && strcmp(cures[1].does, "ack before-wait") == 0,
       "one on the other end the hold less a round trip");
    OK(says(policy_of(&diagnosis, &valid), "\"process\":\"a\\\\*b \\\\[x\\\\]\"") && valid,
       "a name is no pattern in the policy");
    ns_diagnosis_release(&diagnosis);
}

static void check_unreachable(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict verdict = stalls();
    const char *policy;
    char *next;
    bool valid;

    add(&diagnosis, process(&diagnosis, 7, "go", "it is a Go program"), NS_ROLE_CLIENT, &verdict);
    ns_diagnosis_finish(&diagnosis);
    policy = policy_of(&diagnosis, &valid);
    OK(says(policy, "\"match\":{\"role\":\"server\",\"local\":[\"7000\"]}") && valid,
       "where no preload reaches the process, the rule is for whatever serves it");
    next = ns_diagnosis_next(&diagnosis, &none);
    OK(says(next, "at the other end: what serves 10.0.0.2:7000"), "and that is said");
    free(next);
    ns_diagnosis_release(&diagnosis);
}

static void check_pid_that_comes_again(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_diagnosed_process *one = ns_diagnosis_process(&diagnosis, 500, 1000);

    OK(ns_diagnosis_process(&diagnosis, 500, 1000) == one, "a process is known again");
    OK(ns_diagnosis_process(&diagnosis, 500, 1001) != one,
       "and another one that has got its number is another");
    ns_diagnosis_release(&diagnosis);
}

static void check_both_ends(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict held = stalls();
    struct ns_verdict held_up = {
        .grade = NS_GRADE_LIKELY, .requests = 10, .receiving = 10, .receiving_ns = 440ull * MS};
    const char *policy;
    bool valid;

    add(&diagnosis, process(&diagnosis, 8, "server", ""), NS_ROLE_SERVER, &held_up);
    OK(!ns_diagnosis_holds(&diagnosis.rows[0]), "whoever waits for the peer's bytes holds none");
    add(&diagnosis, process(&diagnosis, 7, "client", ""), NS_ROLE_CLIENT, &held);
    ns_diagnosis_finish(&diagnosis);
    OK(diagnosis.rows[0].verdict.grade == NS_GRADE_PROVEN &&
           ns_diagnosis_other_end(&diagnosis, &diagnosis.rows[0]) == &diagnosis.rows[1],
       "the worst comes first, and its other end is known");
    OK(fabs(ns_diagnosis_total_lost_ms(&diagnosis) - 440) < 0.01,
       "what both ends saw is lost once");
    policy = policy_of(&diagnosis, &valid);
    OK(says(policy, "client to port 7000") && !strstr(policy, "server on") && valid,
       "and cured at the end that holds");
    ns_diagnosis_release(&diagnosis);
}

static void check_receiving(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict verdict = {.grade = NS_GRADE_LIKELY,
                                 .requests = 10,
                                 .receiving = 10,
                                 .receiving_ns = 440ull * MS,
                                 .rtt_us = 1000};
    struct ns_cure cures[2];
    char text[1024];

    add(&diagnosis, process(&diagnosis, 8, "server", ""), NS_ROLE_SERVER, &verdict);
    ns_diagnosis_finish(&diagnosis);
    ns_diagnosis_headline(&diagnosis, text, sizeof(text));
    OK(says(text, "it may stall: the peer of server seems to be held until this end's"),
       "what is only likely is called so");
    OK(says(text, "at most 440 ms"), "and its price is a bound");
    ns_diagnosis_cures(&diagnosis, &diagnosis.rows[0], cures);
    OK(strcmp(cures[0].does, "ack before-wait") == 0 && strcmp(cures[1].does, "send adaptive") == 0,
       "this end cures by its ACK, the other by its push");
    ns_diagnosis_release(&diagnosis);
}

/* A row that holds, and one that the peer seems to be held for, of a process in which the coin has
 * decided. */
static struct ns_diagnosis tried(const char *what, double done_ms, double left_ms, double p)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict holds = stalls(), receives = {.grade = NS_GRADE_LIKELY,
                                                    .requests = 10,
                                                    .segments = 10,
                                                    .receiving = 10,
                                                    .receiving_ns = 440ull * MS};
    const struct ns_diagnosed_process *whose = process(&diagnosis, 9, "x", "");

    add(&diagnosis, whose, NS_ROLE_CLIENT, &holds);
    add(&diagnosis, whose, NS_ROLE_SERVER, &receives);
    diagnosis.experiments[diagnosis.n_experiments++] = (struct ns_diagnosed_experiment){
        .process = whose,
        .what = what,
        .done = 10,
        .left = 10,
        .done_ms = done_ms,
        .left_ms = left_ms,
        .p = p,
    };
    ns_diagnosis_finish(&diagnosis);
    return diagnosis;
}

static const struct ns_diagnosed *row_of(const struct ns_diagnosis *diagnosis, enum ns_role role)
{
    return &diagnosis->rows[diagnosis->rows[0].role == role ? 0 : 1];
}

/* A server that its peer seems to be held for, and that peer, of which so much was seen. */
static enum ns_grade server_beside(const struct ns_verdict *client)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict receives = {.grade = NS_GRADE_LIKELY,
                                  .requests = 10,
                                  .segments = 10,
                                  .receiving = 10,
                                  .receiving_ns = 440ull * MS};
    enum ns_grade grade;

    add(&diagnosis, process(&diagnosis, 8, "server", ""), NS_ROLE_SERVER, &receives);
    add(&diagnosis, process(&diagnosis, 9, "client", ""), NS_ROLE_CLIENT, client);
    ns_diagnosis_finish(&diagnosis);
    grade = row_of(&diagnosis, NS_ROLE_SERVER)->verdict.grade;
    ns_diagnosis_release(&diagnosis);
    return grade;
}

static void check_held_back(void)
{
    struct ns_verdict holds = stalls(), nothing = {.grade = NS_GRADE_NONE, .requests = 10},
                      late = {.grade = NS_GRADE_LATE, .late = 10},
                      unknown = {.grade = NS_GRADE_CANNOT_TELL};

    OK(server_beside(&holds) == NS_GRADE_LIKELY && server_beside(&unknown) == NS_GRADE_LIKELY,
       "a peer that seems to be held may be");
    OK(server_beside(&nothing) == NS_GRADE_NONE,
       "unless it was looked at, and nothing of it was held");
    OK(server_beside(&late) == NS_GRADE_NONE, "or nobody waited for what was");
}

/* Has a process with two rows that hold one that was measured? */
static bool measured_of_two(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict holds = stalls();
    const struct ns_diagnosed_process *whose = process(&diagnosis, 9, "x", "");
    bool measured;

    add(&diagnosis, whose, NS_ROLE_CLIENT, &holds);
    add(&diagnosis, whose, NS_ROLE_SERVER, &holds);
    diagnosis.experiments[diagnosis.n_experiments++] = (struct ns_diagnosed_experiment){
        .process = whose,
        .what = "push",
        .done = 10,
        .left = 10,
        .done_ms = 0.1,
        .left_ms = 44,
        .p = 1e-6,
    };
    ns_diagnosis_finish(&diagnosis);
    measured = diagnosis.rows[0].measured || diagnosis.rows[1].measured;
    ns_diagnosis_release(&diagnosis);
    return measured;
}

static void check_experiments(void)
{
    struct ns_diagnosis diagnosis = tried("push", 34, 44, 1e-6);
    const struct ns_diagnosed *holds = row_of(&diagnosis, NS_ROLE_CLIENT), *receives;
    struct ns_cure cures[2];
    char text[1024];

    ns_diagnosis_cures(&diagnosis, holds, cures);
    OK(holds->verdict.grade == NS_GRADE_PROVEN && cures[0].measured && cures[0].from_ms >= 44 &&
           cures[0].to_ms >= 34 && !cures[1].measured,
       "what the coin has measured is what is told of the cure");
    OK(fabs(ns_diagnosis_lost_ms(holds) - 100) < 0.01, "and of the price");
    OK(says(ns_diagnosis_cure(&diagnosis, holds, 0, text, sizeof(text)), "as measured"),
       "and that is said");
    ns_diagnosis_release(&diagnosis);
    diagnosis = tried("push", 43.9, 44, 0.4);
    holds = row_of(&diagnosis, NS_ROLE_CLIENT);
    receives = row_of(&diagnosis, NS_ROLE_SERVER);
    OK(holds->verdict.grade == NS_GRADE_LATE && ns_diagnosis_cures(&diagnosis, holds, cures) == 0,
       "where a push gains nothing, nobody waited");
    OK(receives->verdict.grade == NS_GRADE_LIKELY, "and the other direction is not judged by it");
    ns_diagnosis_release(&diagnosis);
    diagnosis = tried("acknowledge", 208, 208, 0.2);
    receives = row_of(&diagnosis, NS_ROLE_SERVER);
    OK(receives->verdict.grade == NS_GRADE_NONE, "where an ACK gains nothing, it is no late ACK");
    ns_diagnosis_release(&diagnosis);
    diagnosis = tried("acknowledge", 0.1, 44, 1e-6);
    receives = row_of(&diagnosis, NS_ROLE_SERVER);
    OK(receives->verdict.grade == NS_GRADE_PROVEN && ns_diagnosis_certain(receives),
       "and where it is a cure, that is the proof");
    ns_diagnosis_release(&diagnosis);
    diagnosis = tried("push", 0.1, 44, 1e-6);
    holds = row_of(&diagnosis, NS_ROLE_CLIENT);
    OK(holds->measured, "what was tried in one row is told of it");
    ns_diagnosis_release(&diagnosis);
    OK(!measured_of_two(), "but not what was tried in two");
    diagnosis = tried("push", 30, 44, 0.2);
    OK(row_of(&diagnosis, NS_ROLE_CLIENT)->verdict.grade == NS_GRADE_PROVEN,
       "a difference that chance may make decides nothing");
    ns_diagnosis_release(&diagnosis);
}

static void check_no_stall(void)
{
    static const struct {
        struct ns_verdict verdict;
        const char *says;
    } cases[] = {
        {{.grade = NS_GRADE_NONE,
          .requests = 5,
          .causes = {[NS_CAUSE_PEER] = 5},
          .causes_ns = {[NS_CAUSE_PEER] = 220ull * MS}},
         "no stall: at least 5 requests on 1 connection, and Nagle's algorithm held none of them; "
         "what took "
         "the time: the peer, or the program, took its time, 5 times, 44.0 ms each"},
        {{.grade = NS_GRADE_NONE,
          .requests = 1,
          .causes = {[NS_CAUSE_CORK] = 1},
          .causes_ns = {[NS_CAUSE_CORK] = 200ull * MS}},
         "the program's own TCP_CORK or MSG_MORE held it, once, 200.0 ms"},
        {{.grade = NS_GRADE_NONE,
          .causes = {[NS_CAUSE_WINDOW] = 1},
          .causes_ns = {[NS_CAUSE_WINDOW] = 300ull * MS}},
         "the peer's window was shut"},
        {{.grade = NS_GRADE_NONE,
          .causes = {[NS_CAUSE_LOSS] = 1},
          .causes_ns = {[NS_CAUSE_LOSS] = 300ull * MS}},
         "segments were lost"},
        {{.grade = NS_GRADE_LATE, .late = 3},
         "no stall: bytes were held 3 times, and nobody waited for them"},
        {{.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_NO_WINDOW}, "cannot tell: this kernel"},
        {{.grade = NS_GRADE_CANNOT_TELL, .doubt = NS_DOUBT_ANSWERS}, "--experiment tells"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ns_diagnosis diagnosis = {0};
        char text[1024];
        bool valid;

        add(&diagnosis, process(&diagnosis, 1, "x", ""), NS_ROLE_CLIENT, &cases[i].verdict);
        ns_diagnosis_finish(&diagnosis);
        ns_diagnosis_headline(&diagnosis, text, sizeof(text));
        OK(says(text, cases[i].says), "what is not this bug is named as what it is (%zu)", i + 1);
        OK(ns_diagnosis_next(&diagnosis, &none) == NULL && *policy_of(&diagnosis, &valid) == '\0' &&
               ns_diagnosis_lost_ms(&diagnosis.rows[0]) <= 0,
           "and has no price, no policy and nothing to do (%zu)", i + 1);
        ns_diagnosis_release(&diagnosis);
    }
}

static void check_words(void)
{
    static char *program[] = {"a b", "it's", "x\ny\033", "plain-1.0/x", "", NULL};
    const struct ns_diagnosis_means means = {"./nagleshim", program, "my policy.json"};
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict verdict = stalls();
    char *next;

    add(&diagnosis, process(&diagnosis, 7, "p", ""), NS_ROLE_CLIENT, &verdict);
    ns_diagnosis_finish(&diagnosis);
    next = ns_diagnosis_next(&diagnosis, &means);
    OK(next && strcmp(next, "./nagleshim run --policy 'my policy.json' -- 'a b' 'it'\\''s' "
                            "$'x\\ny\\x1b' plain-1.0/x ''") == 0,
       "the next command is one that a shell takes");
    free(next);
    ns_diagnosis_release(&diagnosis);
}

static void check_holds(void)
{
    struct ns_diagnosis diagnosis = {0};
    struct ns_verdict verdict = stalls(), other = {.grade = NS_GRADE_NONE};

    add(&diagnosis, process(&diagnosis, 1, "quiet", ""), NS_ROLE_CLIENT, &other);
    add(&diagnosis, process(&diagnosis, 2, "loud", ""), NS_ROLE_CLIENT, &verdict);
    for (unsigned i = 0; i < NS_DIAGNOSIS_HOLDS_MOST + 5; i++)
        ns_diagnosis_add_hold(&diagnosis, 1, &(struct ns_hold){.begin = 10000 - i, .end = 20000});
    ns_diagnosis_finish(&diagnosis);
    OK(diagnosis.n_holds == NS_DIAGNOSIS_HOLDS_MOST && diagnosis.holds_untold == 5,
       "holds beyond what there is room for are counted");
    OK(diagnosis.holds[0].hold.begin < diagnosis.holds[1].hold.begin &&
           diagnosis.holds[0].row == &diagnosis.rows[0] &&
           strcmp(diagnosis.rows[0].process->name, "loud") == 0,
       "they are in the order of time, and each knows its row");
    ns_diagnosis_release(&diagnosis);
}

int main(void)
{
    check_stall();
    check_unreachable();
    check_pid_that_comes_again();
    check_both_ends();
    check_receiving();
    check_experiments();
    check_held_back();
    check_no_stall();
    check_words();
    check_holds();
    return ns_unit_done();
}

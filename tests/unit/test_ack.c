/* SPDX-License-Identifier: MIT */
/* ack.h. A script is what a connection's end does: r is a read that finds data, w a write of its
 * own, "." a wait. The result has "A" for each wait that sends an ACK, "Q" for one that leaves it
 * to the kernel from then on, and "-" for one that does neither. */
#include "conn/ack.h"

#include "unit.h"

#include <string.h>

struct end {
    struct ns_ack_state state;
    uint8_t epoch;
};

static void act(struct end *end, const char *script, char *seen)
{
    for (; *script; script++) {
        if (*script == 'r') {
            ns_ack_read(&end->state, end->epoch);
        } else if (*script == 'w') {
            ns_ack_wrote(&end->state);
        } else {
            end->epoch++;
            *seen++ = !ns_ack_is_pending(end->state) ? '-' : ns_ack_sent(&end->state) ? 'Q' : 'A';
        }
    }
    *seen = 0;
}

static void expect(const char *script, const char *wanted, const char *what)
{
    struct end end = {.epoch = 250};
    char seen[256];
    act(&end, script, seen);
    OK(strcmp(seen, wanted) == 0, "%s: %s", what, seen);
}

static void check_left_out(void)
{
    struct end end = {.epoch = 7};
    char seen[256];
    act(&end, "rw", seen);
    for (int i = 0; i < NS_ACK_NEEDLESS; i++) {
        act(&end, "r.w", seen);
        if (strcmp(seen, "A") != 0)
            OK(false, "an ACK before each wait, at first");
    }
    act(&end, "r.wr.wr.w", seen);
    OK(strcmp(seen, "---") == 0, "none where an answer has always carried it: %s", seen);
    act(&end, "r.", seen);
    act(&end, "r.w", seen); /* it came in two pieces, and the peer had waited to send the second */
    OK(strcmp(seen, "A") == 0, "from the first one that was missed on they are sent: %s", seen);
    int acks = 0;
    for (int i = 0; i < 10000; i++) {
        act(&end, "r.w", seen);
        acks += strcmp(seen, "A") == 0;
    }
    OK(acks == 10000, "for good");
    end = (struct end){.epoch = 7};
    act(&end, "rw", seen);
    for (int i = 0; i < 1000; i++)
        act(&end, "rr.w", seen);
    act(&end, "rrr.w", seen);
    OK(strcmp(seen, "-") == 0,
       "what comes in many reads without a wait is no piece that was missed");
}

/* What was read was acknowledged, and that was of use: the count begins anew. */
static void check_use(void)
{
    struct end end = {.epoch = 7};
    char seen[256];
    act(&end, "rw", seen);
    for (int i = 0; i < 2 * NS_ACK_NEEDLESS - 2; i++)
        act(&end, i == NS_ACK_NEEDLESS - 1 ? "r.r.w" : "r.w", seen);
    act(&end, "r.w", seen);
    OK(strcmp(seen, "A") == 0, "one that was of use counts against many that were not: %s", seen);
}

/* How the kernel has it may not come of what was written here. */
static void check_others(void)
{
    struct end end = {.state = {.interactive = 1}};
    char seen[256];
    act(&end, "r.r.r.", seen);
    OK(strcmp(seen, "AAA") == 0, "who writes elsewhere is no reader alone: %s", seen);
    end = (struct end){0};
    act(&end, "rw", seen);
    end.state.interactive = 0; /* the program's own TCP_QUICKACK */
    act(&end, "wr.", seen);
    OK(strcmp(seen, "-") == 0, "a write that answers nothing does not make it interactive: %s",
       seen);
}

int main(void)
{
    expect("r.wr", "-", "a server owes nothing for its first request");
    expect("wr.", "-", "nor a client for its first answer");
    expect("rwr.", "A", "from then on what is read and not answered is acknowledged");
    expect("rwr.rwr.", "AA", "also the first of two pieces");
    expect("rwrw.rw.", "--", "an answer carries its ACK");
    expect("rwr.r.r.r.wr.", "AQ--A", "who only reads has the kernel do it, until it writes again");
    expect("r.r.r.r.", "----", "who never writes has it do it anyway");
    expect("rwr..", "A-", "once is enough");
    check_left_out();
    check_use();
    check_others();
    return ns_unit_done();
}

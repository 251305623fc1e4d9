/* SPDX-License-Identifier: MIT */
/* ack.h. In a script r is a read that finds data, w a write, "." a wait. The result has for each
 * wait "A" if an ACK is sent, "Q" if ACKs are left to the kernel from then on, otherwise "-". */
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
            OK(false, "first an ACK is sent before each wait");
    }
    act(&end, "r.wr.wr.w", seen);
    OK(strcmp(seen, "---") == 0, "no ACK if an answer always carried it: %s", seen);
    act(&end, "r.", seen);
    act(&end, "r.w", seen); /* it came in two segments, and the second one was held */
    OK(strcmp(seen, "A") == 0, "after the first missed ACK they are sent again: %s", seen);
    int acks = 0;
    for (int i = 0; i < 10000; i++) {
        act(&end, "r.w", seen);
        acks += strcmp(seen, "A") == 0;
    }
    OK(acks == 10000, "and never skipped again");
    end = (struct end){.epoch = 7};
    act(&end, "rw", seen);
    for (int i = 0; i < 1000; i++)
        act(&end, "rr.w", seen);
    act(&end, "rrr.w", seen);
    OK(strcmp(seen, "-") == 0, "many reads without a wait are no missed ACK");
}

/* An ACK that let more data come resets the count. */
static void check_use(void)
{
    struct end end = {.epoch = 7};
    char seen[256];
    act(&end, "rw", seen);
    for (int i = 0; i < 2 * NS_ACK_NEEDLESS - 2; i++)
        act(&end, i == NS_ACK_NEEDLESS - 1 ? "r.r.w" : "r.w", seen);
    act(&end, "r.w", seen);
    OK(strcmp(seen, "A") == 0, "one useful ACK outweighs many useless ones: %s", seen);
}

/* The kernel's state need not come from writes in this process. */
static void check_others(void)
{
    struct end end = {.state = {.interactive = 1}};
    char seen[256];
    act(&end, "r.r.r.", seen);
    OK(strcmp(seen, "AAA") == 0, "a socket that another process writes to is not only read: %s",
       seen);
    end = (struct end){0};
    act(&end, "rw", seen);
    end.state.interactive = 0; /* the program's own TCP_QUICKACK */
    act(&end, "wr.", seen);
    OK(strcmp(seen, "-") == 0, "a write that is no answer does not make it interactive: %s", seen);
}

int main(void)
{
    expect("r.wr", "-", "no ACK is pending for a server's first request");
    expect("wr.", "-", "nor for a client's first answer");
    expect("rwr.", "A", "later, data that is read and not answered is acknowledged");
    expect("rwr.rwr.", "AA", "also the first of two segments");
    expect("rwrw.rw.", "--", "an answer carries its ACK");
    expect("rwr.r.r.r.wr.", "AQ--A",
           "a connection that is only read leaves ACKs to the kernel until it writes");
    expect("r.r.r.r.", "----", "one that never writes leaves them to the kernel");
    expect("rwr..", "A-", "one ACK is enough");
    check_left_out();
    check_use();
    check_others();
    return ns_unit_done();
}

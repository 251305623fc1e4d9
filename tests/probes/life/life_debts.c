/* SPDX-License-Identifier: MIT */
/* What a thread owes its connections when it waits, and what it has learnt that it need not do:
 * whether an ACK was sent is asked of the peer's kernel. See life.h. */
#include "life.h"

#include <pthread.h>
#include <sys/sendfile.h>

enum { LARGE = 20000 };

static void *large;

/* Looks for what is there, and again: a wait all the same, if nothing is. */
static void look(void)
{
    poll(NULL, 0, 0);
    poll(NULL, 0, 0);
}

/* A write that takes nothing leaves everything as it was. */
SCENARIO("refused")
{
    struct conn conn = open_conn();
    char *nowhere = mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) {
        put(conn.fd, "held");
        EXPECT(write(conn.fd, nowhere, LARGE) == -1 && errno == EFAULT);
        look();
        at_once(conn.peer, "held");
        owe(conn);
        EXPECT(write(conn.fd, nowhere, LARGE) == -1 && errno == EFAULT);
        look();
        EXPECT(is_acknowledged(conn.peer));
    }
    munmap(nowhere, LARGE);
    close_conn(conn);
}

static struct conn spliced_from;
static int into;

static void *splices_and_waits(void *conn)
{
    put(((struct conn *)conn)->fd, "held");
    if (splice(spliced_from.fd, NULL, into, NULL, 1, 0) != 1)
        wrong("nothing was spliced");
    return NULL;
}

SCENARIO("splices")
{
    struct conn conn = open_conn();
    pthread_t thread;
    int way[2];
    EXPECT(pipe2(way, O_CLOEXEC) == 0);
    delay_acks(conn.fd);
    answer(conn.peer, "!");
    EXPECT(splice(conn.fd, NULL, way[1], NULL, 1, 0) == 1);
    look();
    EXPECT(is_acknowledged(conn.peer));
    /* The application's own MSG_MORE: what we hold leaves first. */
    put(conn.fd, "held");
    EXPECT(splice(way[0], NULL, conn.fd, NULL, 1, SPLICE_F_MORE) == 1);
    at_once(conn.peer, "held");
    put(conn.fd, "sent");
    at_once(conn.peer, "!sent");
    spliced_from = open_conn();
    into = way[1];
    pthread_create(&thread, NULL, splices_and_waits, &conn);
    at_once(conn.peer, "held");
    answer(spliced_from.peer, "!");
    pthread_join(thread, NULL);
    close_conn(spliced_from);
    close_conn(conn);
    close(way[0]);
    close(way[1]);
}

/* One round in which the answer carries the ACK, if it has not been sent by then. */
static bool is_left_out(struct conn conn)
{
    owe(conn);
    look();
    bool left_out = !is_acknowledged(conn.peer);
    put(conn.fd, "answer");
    look();
    arrives(conn.peer, "answer");
    return left_out;
}

/* Somebody always answers soon. */
SCENARIO("leaves-acks-out")
{
    enum { ROUNDS = 400, MORE = 10, STALL_MS = 6 };
    struct conn conn = open_conn();
    int before = 0, left_out = 0;
    /* Its Nagle would wait for the kernel's delayed ACK, after which the next comes at once. */
    set_kernel_option(conn.peer, TCP_NODELAY, 1);
    /* Where this process is kept from answering soon, an ACK was missed, and it begins anew. */
    for (int tries = 0; tries < 3 && left_out <= MORE / 2; tries++) {
        for (before = 0; before < ROUNDS && !is_left_out(conn);)
            before++;
        EXPECT(before > 1 || tries > 0);
        left_out = 0;
        for (int i = 0; i < MORE; i++)
            left_out += is_left_out(conn);
    }
    EXPECT(left_out > MORE / 2);
    /* Twice nobody does: the second has seen that the first one's ACK was missed. */
    owe(conn);
    look();
    compute_ms(STALL_MS);
    owe(conn);
    look();
    EXPECT(is_acknowledged(conn.peer));
    close_conn(conn);
}

static void swallow(int peer, size_t size)
{
    char data[4096];
    double begin = now_ms();
    while (size > 0 && look_again(begin, 2000)) {
        long n = raw(SYS_recvfrom, peer, (long)data,
                     (long)(size < sizeof data ? size : sizeof data), MSG_DONTWAIT, 0, 0);
        size -= n > 0 ? (size_t)n : 0;
    }
    EXPECT(size == 0);
}

/* What is never held takes the others with it: how many pushes there are is counted. */
SCENARIO("takes-along")
{
    struct conn conn = open_conn();
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 20; i++) {
        off_t begin = 0;
        put(conn.fd, "header");
        if (i % 2)
            EXPECT(write(conn.fd, large, LARGE) == LARGE);
        else
            EXPECT(sendfile(conn.fd, file, &begin, LARGE) == LARGE);
        look();
        swallow(conn.peer, LARGE + strlen("header"));
    }
    close(file);
    close_conn(conn);
}

/* Bursts that lie there while the program waits where nobody sees it: the kernel sends them after
 * 200 ms. Returns how many bursts of two writes are held until the connection stops holding. */
static int late_bursts(struct conn conn)
{
    int bursts = 0;
    for (; bursts < 5; bursts++) {
        int before = results->held;
        put(conn.fd, "la");
        put(conn.fd, "te");
        if (results->held == before)
            break;
        arrives_within(conn.peer, "late", 1000);
        look();
    }
    at_once(conn.peer, "late");
    return bursts;
}

/* One such burst for each of three connections; then no connection holds any more, except those
 * that are there already. */
SCENARIO("late")
{
    struct conn before = open_conn();
    for (int i = 0; i < 3; i++) {
        struct conn conn = open_conn();
        EXPECT(late_bursts(conn) == 1);
        close_conn(conn);
    }
    struct conn after = open_conn();
    EXPECT(late_bursts(after) == 0);
    still_governed(before);
    close_conn(before);
    close_conn(after);
}

int main(int argc, char **argv)
{
    large = calloc(1, LARGE);
    return life_main(argc, argv);
}

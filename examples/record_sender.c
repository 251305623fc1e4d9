/* SPDX-License-Identifier: MIT */
/* Sends records of 20 to 100 bytes one way to record_receiver, each with one blocking send. With
 * --sndbuf 0 --winsock-send it behaves like a Winsock program with a send buffer of zero: a send
 * returns when the peer has acknowledged it, and the peer delays its ACKs. */
#include "common.h"
#include "record.h"

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

enum { WINSOCK_BUFFER = 8192 };

static const char help[] =
    "Usage: record_sender [OPTION]... HOST PORT [COUNT]\n"
    "Send COUNT records (10000) of 20 to 100 bytes to record_receiver.\n"
    "  --sndbuf N      SO_SNDBUF; 0 is the least there is\n"
    "  --winsock-send  while the buffer is under 8 KiB, a send ends when it is acknowledged\n"
    "  --pace US       produce a record every US microseconds, instead of at once\n"
    "  --warmup N      sends before those that count (0)\n"
    "  --help          this text\n";

struct sender {
    struct common common;
    bool winsock;
    int64_t pace_ns;
};

/* The kernel's smallest buffer is below Winsock's default, and the kernel's default is above it.
 * SO_MEMINFO returns the kernel's value; SO_SNDBUF would, too. */
static bool buffer_is_at_minimum(int fd)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof(memory);
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &length) != 0)
        die_errno("SO_MEMINFO");
    return memory[SK_MEMINFO_SNDBUF] < WINSOCK_BUFFER;
}

static void wait_until_acknowledged(int fd)
{
    static const struct timespec moment = {.tv_nsec = 50000};
    int left = 0;
    while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0)
        nanosleep(&moment, NULL);
}

static void wait_until(int64_t ns)
{
    struct timespec due = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        ;
}

/* Make the next record. Returns its size. */
static size_t produce(struct record *record, uint32_t number)
{
    *record = (struct record){.length = record_length(number), .number = number};
    fill_pattern(record->text, record->length - offsetof(struct record, text), number);
    record->made_ns = now_ns();
    return record->length;
}

static void send_all(int fd, const void *record, size_t size)
{
    const char *data = record;
    while (size > 0) {
        ssize_t sent = send(fd, data, size, 0);
        if (sent < 0 && errno != EINTR)
            die_errno("send");
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
    }
}

static void run(int fd, const struct sender *sender, struct rounds *rounds)
{
    bool slow = sender->winsock && buffer_is_at_minimum(fd);
    int64_t due = now_ns();
    for (uint32_t number = 0; rounds_left(rounds); number++) {
        struct record record;
        if (sender->pace_ns > 0)
            wait_until(due += sender->pace_ns);
        size_t size = produce(&record, number);
        rounds_begin(rounds, fd);
        send_all(fd, &record, size);
        if (slow)
            wait_until_acknowledged(fd);
        rounds_end(rounds);
    }
}

/* At the end the receiver sends the number of records that it got. This also shows that all bytes
 * have left. */
static void check_receipt(int fd, uint32_t records)
{
    uint32_t received = 0;
    if (shutdown(fd, SHUT_WR) != 0)
        die_errno("shutdown");
    if (!read_all(fd, &received, sizeof(received)))
        die("the receiver closed the connection without a receipt");
    if (received != records)
        die("sent %u records, and the receiver got %u", records, received);
}

static void parse_options(int argc, char **argv, struct sender *sender)
{
    static const struct option options[] = {ALL_OPTIONS,
                                            {"sndbuf", required_argument, NULL, 's'},
                                            {"winsock-send", no_argument, NULL, 'a'},
                                            {"pace", required_argument, NULL, 'p'},
                                            END_OF_OPTIONS};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (common_option(option, &sender->common, help))
            continue;
        switch (option) {
        case 's':
            sender->common.socket.sndbuf = (int)parse_number(optarg, "--sndbuf", 0, INT_MAX);
            break;
        case 'a':
            sender->winsock = true;
            break;
        case 'p':
            sender->pace_ns = 1000 * parse_number(optarg, "--pace", 1, 10000000);
            break;
        }
    }
}

int main(int argc, char **argv)
{
    struct sender sender = {.common = COMMON_DEFAULTS};
    struct rounds rounds;
    uint32_t counted = 10000;
    int fd;
    parse_options(argc, argv, &sender);
    if (argc - optind < 2 || argc - optind > 3)
        usage_error("needs HOST PORT, see --help");
    if (argc - optind == 3)
        counted = (uint32_t)parse_number(argv[optind + 2], "COUNT", 1, 1 << 30);
    rounds_prepare(&rounds, counted, sender.common.warmup);
    fd = connect_to(argv[optind], argv[optind + 1], &sender.common.socket);
    run(fd, &sender, &rounds);
    check_receipt(fd, counted + (uint32_t)sender.common.warmup);
    printf("records %u ", counted);
    print_rounds(&rounds, fd);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Receives the records of record_sender and never writes, so no data carries its ACKs. Linux
 * acknowledges at once on a connection that only receives. With --winsock-ack each ACK is delayed
 * as by Winsock, but by 40 ms instead of 200. */
#include "common.h"
#include "record.h"

enum { READ_SIZE = 200 };

static const char help[] =
    "Usage: record_receiver [OPTION]... PORT\n"
    "Receive the records of record_sender and print how late they were.\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --winsock-ack    TCP_QUICKACK=0 after each receive: acknowledgements are delayed\n"
    "  --connections N  connections to serve, one after the other (1); 0: no end\n"
    "  --warmup N       records before those that count (0)\n"
    "  --help           this text\n";

static struct common common = COMMON_DEFAULTS;
static bool winsock;

struct stream {
    char buffer[READ_SIZE + RECORD_MOST];
    size_t have;
    uint32_t next; /* number of the record that must come next */
    int64_t *delay_ns;
    size_t counted;
    size_t room;
};

static void note_delay(struct stream *stream, const struct record *record, int64_t now)
{
    if (record->number < common.warmup)
        return;
    if (stream->counted == stream->room) {
        stream->room = stream->room > 0 ? 2 * stream->room : 16384;
        stream->delay_ns = realloc(stream->delay_ns, stream->room * sizeof(*stream->delay_ns));
        if (stream->delay_ns == NULL)
            die("no memory for %zu delays", stream->room);
    }
    stream->delay_ns[stream->counted++] = now - record->made_ns;
}

static void check_record(const struct stream *stream, const struct record *record)
{
    char expected[sizeof(record->text)];
    size_t text = record->length - offsetof(struct record, text);
    fill_pattern(expected, text, record->number);
    if (record->number != stream->next || record->zero != 0 ||
        memcmp(record->text, expected, text) != 0)
        die("record %u arrived with other bytes than were sent", stream->next);
}

/* Use the record at AT. Returns its size, or 0 if it is not complete yet. */
static size_t take_one(struct stream *stream, const char *at, size_t have, int64_t now)
{
    struct record record;
    if (have < sizeof(record.length))
        return 0;
    memcpy(&record.length, at, sizeof(record.length));
    if (record.length != record_length(stream->next))
        die("record %u arrived with a length of %u", stream->next, record.length);
    if (have < record.length)
        return 0;
    memcpy(&record, at, record.length);
    check_record(stream, &record);
    note_delay(stream, &record, now);
    stream->next++;
    return record.length;
}

static void take_all(struct stream *stream, int64_t now)
{
    size_t used = 0, size;
    while ((size = take_one(stream, stream->buffer + used, stream->have - used, now)) > 0)
        used += size;
    stream->have -= used;
    memmove(stream->buffer, stream->buffer + used, stream->have);
}

static void delay_acknowledgement(int fd)
{
    if (winsock)
        set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 0, "TCP_QUICKACK");
}

static void receive(int fd, struct stream *stream)
{
    delay_acknowledgement(fd);
    for (;;) {
        ssize_t got = recv(fd, stream->buffer + stream->have, READ_SIZE, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            die_errno("recv");
        if (got == 0)
            break;
        delay_acknowledgement(fd);
        stream->have += (size_t)got;
        take_all(stream, now_ns());
    }
    if (stream->have > 0)
        die("the sender closed the connection within record %u", stream->next);
}

static void serve(int fd)
{
    static struct stream stream;
    struct summary summary;
    stream = (struct stream){0};
    receive(fd, &stream);
    write_all(fd, &stream.next, sizeof(stream.next));
    summary = summarise(stream.delay_ns, stream.counted);
    printf("records %zu warmup %zu median_us %.1f max_us %.1f stalls %zu\n", stream.counted,
           common.warmup, summary.median_us, summary.max_us, summary.stalls);
    fflush(stdout);
    free(stream.delay_ns);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        SERVER_OPTIONS, {"winsock-ack", no_argument, NULL, 'a'}, END_OF_OPTIONS};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!common_option(option, &common, help))
            winsock = true;
    if (argc - optind != 1)
        usage_error("needs PORT, see --help");
    serve_connections(argv[optind], &common, serve);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Receives the records of record_sender and never writes, so no data carries its ACKs. Linux
 * acknowledges at once on a connection that only receives. With --winsock-ack each ACK is delayed
 * as by Winsock, but by 40 ms instead of 200. */
#include "common.h"
#include "record.h"

enum { READ_SIZE = 200 };

static const char help[] =
    "Usage: record_receiver [OPTION]... PORT\n"
    "Receive the records of record_sender and tell how late they were.\n"
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
    uint32_t next;       /* number of the record that must come next */
    uint32_t batch_left; /* records that are still missing from the current batch */
    uint64_t bytes;      /* of counted records */
    uint64_t receives;   /* from the first counted record on */
    int64_t begun;
    int64_t ended;
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
    if (stream->counted == 0)
        stream->begun = now;
    stream->ended = now;
    stream->bytes += record->length;
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

/* Use the record or batch header at AT. Returns its size, or 0 if it is not complete yet. */
static size_t take_one(struct stream *stream, const char *at, size_t have, int64_t now)
{
    struct batch_header header;
    struct record record;
    if (have < sizeof(header))
        return 0;
    memcpy(&header, at, sizeof(header));
    if (header.zero == 0) {
        if (stream->batch_left > 0)
            die("a batch ended %u records early", stream->batch_left);
        stream->batch_left = header.records;
        return sizeof(header);
    }
    memcpy(&record.length, at, sizeof(record.length));
    if (record.length != record_length(stream->next))
        die("record %u arrived with a length of %u", stream->next, record.length);
    if (have < record.length)
        return 0;
    memcpy(&record, at, record.length);
    check_record(stream, &record);
    note_delay(stream, &record, now);
    stream->next++;
    if (stream->batch_left > 0)
        stream->batch_left--;
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
        stream->receives += stream->counted > 0;
    }
    if (stream->have > 0 || stream->batch_left > 0)
        die("the sender closed the connection within record %u", stream->next);
}

static void serve(int fd)
{
    static struct stream stream;
    struct summary summary;
    double ms;
    stream = (struct stream){0};
    receive(fd, &stream);
    write_all(fd, &stream.next, sizeof(stream.next));
    ms = (double)(stream.ended - stream.begun) / 1e6;
    summary = summarise(stream.delay_ns, stream.counted);
    printf("records %zu warmup %zu bytes %llu receives %llu total_ms %.3f records_per_s %.1f "
           "median_us %.1f max_us %.1f stalls %zu\n",
           stream.counted, common.warmup, (unsigned long long)stream.bytes,
           (unsigned long long)stream.receives, ms,
           ms > 0 ? (double)stream.counted * 1e3 / ms : 0.0, summary.median_us, summary.max_us,
           summary.stalls);
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

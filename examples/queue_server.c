/* SPDX-License-Identifier: MIT */
/* A queue of messages over HTTP/1.1 with persistent connections: 201 for a POST after its whole
 * body has arrived, 200 and a message for a GET. Each answer is one write; nothing is stored. */
#include "common.h"

enum { HEAD_LIMIT = 8192, BODY_LIMIT = 1 << 20, STORED = 480 };

static const char help[] =
    "Usage: queue_server [OPTION]... PORT\n"
    "Take messages by POST /queue/N and give them by GET /queue/N.\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --connections N  connections to serve, one after the other (1); 0: no end\n"
    "  --warmup N       answers whose segments are not counted (0)\n"
    "  --help           this text\n";

static struct common common = COMMON_DEFAULTS;

/* The bytes that were read from the connection and not used yet. */
struct input {
    char bytes[HEAD_LIMIT + BODY_LIMIT + 1];
    size_t have;
};

struct request {
    bool get;
    size_t number;
    size_t head; /* including the empty line */
    size_t body;
};

/* Read up to the empty line that ends a head; false at the end of the stream. */
static bool read_head(int fd, struct input *input)
{
    for (;;) {
        size_t got;
        input->bytes[input->have] = '\0';
        if (strstr(input->bytes, "\r\n\r\n") != NULL)
            return true;
        if (input->have >= HEAD_LIMIT)
            die("a request's head is longer than %d bytes", HEAD_LIMIT);
        got = read_some(fd, input->bytes + input->have, HEAD_LIMIT - input->have);
        if (got == 0 && input->have > 0)
            die("the client closed the connection within a request's head");
        if (got == 0)
            return false;
        input->have += got;
    }
}

static size_t content_length(const char *head, const char *end)
{
    static const char name[] = "Content-Length:";
    for (const char *line = strstr(head, "\r\n"); line != NULL && line < end;
         line = strstr(line + 2, "\r\n")) {
        unsigned long length;
        char *after;
        if (strncasecmp(line + 2, name, sizeof(name) - 1) != 0)
            continue;
        length = strtoul(line + 2 + sizeof(name) - 1, &after, 10);
        if (*after != '\r' || length > BODY_LIMIT)
            die("a request's Content-Length must be a number up to %d", BODY_LIMIT);
        return length;
    }
    return 0;
}

static struct request parse_head(const char *head)
{
    const char *end = strstr(head, "\r\n\r\n");
    struct request request = {.head = (size_t)(end - head) + 4};
    char method[8] = "";
    if (sscanf(head, "%7[A-Z] /queue/%zu HTTP/1.1\r\n", method, &request.number) != 2 ||
        (strcmp(method, "GET") != 0 && strcmp(method, "POST") != 0))
        die("not a request for /queue/N: %.*s", (int)strcspn(head, "\r\n"), head);
    request.get = strcmp(method, "GET") == 0;
    request.body = content_length(head, end);
    return request;
}

static void read_body(int fd, struct input *input, const struct request *request)
{
    static char expected[BODY_LIMIT];
    while (input->have < request->head + request->body) {
        size_t got =
            read_some(fd, input->bytes + input->have, request->head + request->body - input->have);
        if (got == 0)
            die("the client closed the connection within message %zu", request->number);
        input->have += got;
    }
    fill_pattern(expected, request->body, request->number);
    if (memcmp(input->bytes + request->head, expected, request->body) != 0)
        die("message %zu arrived with other bytes than were sent", request->number);
    input->have -= request->head + request->body;
    memmove(input->bytes, input->bytes + request->head + request->body, input->have);
}

static void answer(int fd, const struct request *request)
{
    static const char created[] = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    char found[128 + STORED];
    int head;
    if (!request->get) {
        write_all(fd, created, sizeof(created) - 1);
        return;
    }
    head = snprintf(found, sizeof(found), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", STORED);
    fill_pattern(found + head, STORED, request->number);
    write_all(fd, found, (size_t)head + STORED);
}

static void serve(int fd)
{
    static struct input input;
    struct meter meter = {.warmup = common.warmup};
    input.have = 0;
    while (read_head(fd, &input)) {
        struct request request = parse_head(input.bytes);
        read_body(fd, &input, &request);
        meter_count(&meter, fd);
        answer(fd, &request);
    }
    print_meter(&meter, fd);
}

int main(int argc, char **argv)
{
    return serve_main(argc, argv, &common, help, serve);
}

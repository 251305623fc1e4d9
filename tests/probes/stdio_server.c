/* SPDX-License-Identifier: MIT */
/* The server of examples/queue_put, written with stdio: it reads and writes inside libc, where no
 * preloaded library sees it. POST is answered in one piece, GET in two: the head, then the message.
 * Usage: stdio_server PORT; serves one connection and ends. */
#include "../../examples/common.h"

enum { LINE_LIMIT = 1024, BODY_LIMIT = 65536, STORED = 480 };

static void must_write(FILE *stream)
{
    if (fflush(stream) != 0)
        die_errno("cannot answer");
}

static void take(FILE *stream, size_t number, size_t size)
{
    static char body[BODY_LIMIT], expected[BODY_LIMIT];
    if (size > BODY_LIMIT || fread(body, 1, size, stream) != size)
        die("message %zu is not all there", number);
    fill_pattern(expected, size, number);
    if (memcmp(body, expected, size) != 0)
        die("message %zu arrived with other bytes than were sent", number);
    fprintf(stream, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    must_write(stream);
}

static void give(FILE *stream, size_t number)
{
    char message[STORED];
    fill_pattern(message, STORED, number);
    fprintf(stream, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", STORED);
    must_write(stream);
    fwrite(message, 1, STORED, stream);
    must_write(stream);
}

/* Serves one request; false at the end of the stream. */
static bool serve_one(FILE *stream)
{
    char line[LINE_LIMIT], method[8];
    size_t number, size = 0;
    if (fgets(line, sizeof(line), stream) == NULL)
        return false;
    if (sscanf(line, "%7[A-Z] /queue/%zu HTTP/1.1", method, &number) != 2)
        die("not a request for /queue/N: %s", line);
    while (fgets(line, sizeof(line), stream) != NULL && strcmp(line, "\r\n") != 0)
        sscanf(line, "Content-Length: %zu", &size);
    if (strcmp(method, "GET") == 0)
        give(stream, number);
    else
        take(stream, number, size);
    return true;
}

int main(int argc, char **argv)
{
    struct socket_options none = {.sndbuf = -1};
    FILE *stream;
    int listener;
    if (argc != 2)
        usage_error("needs PORT");
    listener = listen_on(parse_number(argv[1], "PORT", 0, 65535), &none);
    stream = fdopen(accept_one(listener), "r+");
    if (stream == NULL)
        die_errno("fdopen");
    while (serve_one(stream))
        ;
    fclose(stream);
    return 0;
}

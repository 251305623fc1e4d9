/* SPDX-License-Identifier: MIT */
/* Answers each request, which is a line, with a header by write() and a file by sendfile(), over a
 * persistent connection. Nagle's algorithm holds the end of the file until the header is
 * acknowledged. The client, which has only half of its answer, sends nothing that would carry the
 * ACK. */
#include "common.h"

#include <sys/mman.h>
#include <sys/sendfile.h>

static const char help[] =
    "Usage: sendfile_server [OPTION]... PORT\n"
    "Answer every line with a header by write() and a file by sendfile().\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --connections N  connections to serve, one after the other (1); 0: no end\n"
    "  --warmup N       answers whose segments are not counted (0)\n"
    "  --help           this text\n";

enum { SIZE = 400 };

static struct common common = COMMON_DEFAULTS;
static int file;

static int make_file(void)
{
    int fd = memfd_create("sendfile_server", MFD_CLOEXEC);
    char content[SIZE];
    if (fd < 0)
        die_errno("cannot make the file");
    fill_pattern(content, SIZE, SIZE);
    write_all(fd, content, SIZE);
    return fd;
}

static void answer(int fd, const char *request)
{
    char header[128];
    int length = snprintf(header, sizeof(header), "content of %d bytes for %s\n", SIZE, request);
    off_t sent = 0;
    write_all(fd, header, (size_t)length);
    while (sent < SIZE)
        if (sendfile(fd, file, &sent, (size_t)(SIZE - sent)) < 0 && errno != EINTR)
            die_errno("sendfile");
}

static void serve(int fd)
{
    struct meter meter = {.warmup = common.warmup};
    char request[64];
    size_t have = 0;
    for (;;) {
        size_t got = read_some(fd, request + have, sizeof(request) - have);
        char *end = memchr(request, '\n', have + got);
        have += got;
        if (got == 0)
            break;
        if (end != NULL && end + 1 != request + have)
            die("a second request came before the answer to the first");
        if (end == NULL && have == sizeof(request))
            die("a request is longer than %zu bytes", sizeof(request));
        if (end == NULL)
            continue;
        *end = '\0';
        meter_count(&meter, fd);
        answer(fd, request);
        have = 0;
    }
    if (have > 0)
        die("the client closed the connection within a request");
    print_meter(&meter, fd);
}

int main(int argc, char **argv)
{
    file = make_file();
    return serve_main(argc, argv, &common, help, serve);
}

/* SPDX-License-Identifier: MIT */
/* Answers each request, which is a line, with a header by write() and a file by sendfile(), over a
 * kept connection. Nagle's algorithm holds the end of the file until the header is acknowledged,
 * and the client, which has only half of its answer, has nothing to send that would acknowledge it.
 */
#include "common.h"

#include <sys/mman.h>
#include <sys/sendfile.h>

static const char help[] =
    "Usage: sendfile_server [OPTION]... PORT\n"
    "Answer every line with a header by write() and a file by sendfile().\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --size N         the file's size in bytes (400)\n"
    "  --cork           TCP_CORK around header and file\n"
    "  --nodelay        TCP_NODELAY\n"
    "  --connections N  connections to serve, one after the other (1); 0: no end\n"
    "  --warmup N       answers whose segments are not counted (0)\n"
    "  --mss N          the largest segment to use\n"
    "  --help           this text\n";

static struct common common = COMMON_DEFAULTS;
static size_t size = 400;
static bool cork;
static int file;

static int make_file(void)
{
    int fd = memfd_create("sendfile_server", MFD_CLOEXEC);
    char *content = malloc(size);

    if (fd < 0 || content == NULL)
        die_errno("cannot make the file");
    fill_pattern(content, size, size);
    write_all(fd, content, size);
    free(content);
    return fd;
}

static void answer(int fd, const char *request)
{
    char header[128];
    int length = snprintf(header, sizeof(header), "content of %zu bytes for %s\n", size, request);
    off_t sent = 0;

    if (cork)
        set_option(fd, IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK");
    write_all(fd, header, (size_t)length);
    while ((size_t)sent < size)
        if (sendfile(fd, file, &sent, size - (size_t)sent) < 0 && errno != EINTR)
            die_errno("sendfile");
    if (cork)
        set_option(fd, IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK");
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
    static const struct option options[] = {SERVER_OPTIONS,
                                            NODELAY_OPTION,
                                            {"size", required_argument, NULL, 's'},
                                            {"cork", no_argument, NULL, 'k'},
                                            END_OF_OPTIONS};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (common_option(option, &common, help))
            continue;
        if (option == 's')
            size = (size_t)parse_number(optarg, "--size", 1, 1 << 30);
        if (option == 'k')
            cork = true;
    }
    if (argc - optind != 1)
        usage_error("needs PORT, see --help");
    file = make_file();
    serve_connections(argv[optind], &common, serve);
    return 0;
}

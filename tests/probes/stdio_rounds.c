/* SPDX-License-Identifier: MIT */
/* Question and answer over one connection, written and read with stdio or with bare calls, each
 * message in one piece or in two. stdio reads and writes inside libc, where no preloaded library
 * sees it.
 * Usage: stdio_rounds client WRITE READ PIECES [--warmup N] HOST PORT COUNT
 *        stdio_rounds server WRITE READ PIECES PORT
 *        stdio_rounds inetd WRITE READ PIECES PORT
 *        stdio_rounds parent WRITE READ PIECES PORT
 * WRITE is write, pwritev2, fprintf or dprintf; READ is read, readall (MSG_WAITALL), preadv2,
 * fgets, getline, fread, getc or getc_unlocked. pwritev2 and preadv2 are those of a build for large
 * files. dup2-READ makes the streams first, and puts the connection under them by dup2.
 * A server serves one connection and ends. inetd hands it on 0 and 1, parent on 5, to this
 * program, started again with what INETD_PRELOAD says in LD_PRELOAD. */
#define _FILE_OFFSET_BITS 64
#include "rounds.h"

static struct {
    const char *how_to_write, *how_to_read;
    int in, out;
    FILE *reader, *writer;
    bool replaces;
} end = {.out = 1};

/* A program of inetd uses the existing streams, and makes no call for them. */
static FILE *stream(int fd, const char *mode)
{
    FILE *stream = fd == 0 ? stdin : fd == 1 ? stdout : fdopen(fd, mode);
    if (stream == NULL)
        die_errno("fdopen");
    return stream;
}

static void open_streams(void)
{
    if (!strstr(end.how_to_read, "read") || strcmp(end.how_to_read, "fread") == 0)
        end.reader = stream(end.in, "r");
    if (strcmp(end.how_to_write, "fprintf") == 0)
        end.writer = stream(end.out, "w");
}

static void say_piece(const char *text, size_t size)
{
    if (end.writer != NULL) {
        if (fprintf(end.writer, "%.*s", (int)size, text) != (int)size || fflush(end.writer) != 0)
            die_errno("fprintf");
    } else if (strcmp(end.how_to_write, "dprintf") == 0) {
        if (dprintf(end.out, "%.*s", (int)size, text) != (int)size)
            die_errno("dprintf");
    } else if (strcmp(end.how_to_write, "pwritev2") == 0) {
        struct iovec piece = {(void *)(uintptr_t)text, size};
        if (pwritev2(end.out, &piece, 1, -1, 0) != (ssize_t)size)
            die_errno("pwritev2");
    } else {
        write_all(end.out, text, size);
    }
}

/* Reads a line with stdio; false at the end of the stream. */
static bool take_line(char *text)
{
    if (strcmp(end.how_to_read, "getline") == 0) {
        char *line = NULL;
        size_t size = 0;
        ssize_t got = getline(&line, &size, end.reader);
        if (got > 0 && (size_t)got < MESSAGE_ROOM)
            memcpy(text, line, (size_t)got + 1);
        free(line);
        return got > 0;
    }
    if (strcmp(end.how_to_read, "fread") == 0)
        return fread(text, MESSAGE, 1, end.reader) == 1;
    if (strncmp(end.how_to_read, "getc", 4) == 0) {
        int byte = 0;
        bool locks = strcmp(end.how_to_read, "getc") == 0;
        for (size_t i = 0; i + 1 < MESSAGE_ROOM && byte != '\n' && byte != EOF; i++)
            text[i] = (char)(byte = locks ? getc(end.reader) : getc_unlocked(end.reader));
        return byte == '\n';
    }
    return fgets(text, MESSAGE_ROOM, end.reader) != NULL;
}

/* The first bytes by preadv2; false at the end of the stream. */
static bool take_vector(char *text)
{
    struct iovec piece = {text, MESSAGE};
    ssize_t got = preadv2(end.in, &piece, 1, -1, 0);
    if (got < 0)
        die_errno("preadv2");
    return got > 0 && (got == MESSAGE || read_all(end.in, text + got, MESSAGE - (size_t)got));
}

static bool hear_text(char *text)
{
    if (strcmp(end.how_to_read, "readall") == 0)
        return recv(end.in, text, MESSAGE, MSG_WAITALL) == MESSAGE;
    if (strcmp(end.how_to_read, "preadv2") == 0)
        return take_vector(text);
    return end.reader != NULL ? take_line(text) : read_all(end.in, text, MESSAGE);
}

static int client_begins(const char *host, const char *port, const struct socket_options *options)
{
    int fd = connect_to(host, port, options);
    end.in = end.out = end.replaces ? socket(AF_INET, SOCK_STREAM, 0) : fd;
    open_streams();
    if (end.replaces && (dup2(fd, end.in) < 0 || close(fd) != 0))
        die_errno("dup2");
    return end.in;
}

/* The server starts itself again as inetd would, on descriptors 0 and 1, or as another parent
 * would, on another number. */
static void hand_over(int fd, int number, char **argv)
{
    const char *preload = getenv("INETD_PRELOAD");
    const char *role = number == 0 ? "on-0-and-1" : "on-5";
    if (dup2(fd, number) != number || (number == 0 && dup2(fd, 1) != 1))
        die_errno("dup2");
    if (fd != number)
        close(fd);
    if (preload != NULL)
        setenv("LD_PRELOAD", preload, 1);
    execl("/proc/self/exe", argv[0], role, argv[2], argv[3], argv[4], (char *)NULL);
    die_errno("cannot start again");
}

static int accept_only(const char *port)
{
    int listener = listen_at(port);
    int fd = accept_one(listener);
    close(listener);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        usage_error("needs a role, WRITE, READ and PIECES");
    end.how_to_write = argv[2];
    end.replaces = strncmp(argv[3], "dup2-", 5) == 0;
    end.how_to_read = argv[3] + (end.replaces ? 5 : 0);
    in_pieces = strcmp(argv[4], "2") == 0;
    if (strcmp(argv[1], "client") == 0) {
        ask(argc - 4, argv + 4);
        return 0;
    }
    if (strcmp(argv[1], "inetd") == 0)
        hand_over(accept_only(argv[5]), 0, argv);
    else if (strcmp(argv[1], "parent") == 0)
        hand_over(accept_only(argv[5]), 5, argv);
    else if (strcmp(argv[1], "server") == 0)
        end.in = end.out = accept_only(argv[5]);
    else if (strcmp(argv[1], "on-5") == 0)
        end.in = end.out = 5;
    open_streams();
    serve();
    return 0;
}

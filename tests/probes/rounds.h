/* SPDX-License-Identifier: MIT */
/* Requests and answers over one connection, each in one piece or in two. The programs differ in how
 * they make a connection, write a piece and read a message. */
#pragma once

#include "../../examples/common.h"
#include "system.h"

enum { MESSAGE = 15, FIRST_PIECE = 8, MESSAGE_ROOM = 32 };

static bool in_pieces;

/* Each program defines these: client_begins() makes the connection and returns it; hear_text() is
 * false at the end of the stream. */
static int client_begins(const char *host, const char *port, const struct socket_options *options);
static void say_piece(const char *text, size_t size);
static bool hear_text(char *text);

static void say(size_t number)
{
    char text[MESSAGE_ROOM];
    snprintf(text, sizeof(text), "message %06zu\n", number % 1000000);
    if (in_pieces) {
        say_piece(text, FIRST_PIECE);
        say_piece(text + FIRST_PIECE, MESSAGE - FIRST_PIECE);
    } else {
        say_piece(text, MESSAGE);
    }
}

/* False at the end of the stream. */
static bool hear(size_t number)
{
    char text[MESSAGE_ROOM] = "", expected[MESSAGE_ROOM];
    if (!hear_text(text))
        return false;
    snprintf(expected, sizeof(expected), "message %06zu\n", number % 1000000);
    if (strcmp(text, expected) != 0)
        die("message %zu arrived as: %s", number, text);
    return true;
}

static void serve(void)
{
    for (size_t number = 0; hear(number); number++)
        say(number);
}

static int listen_at(const char *port)
{
    struct socket_options none = {.sndbuf = -1};
    return listen_on(parse_number(port, "PORT", 0, 65535), &none);
}

/* Sends the requests with the arguments [--warmup N] HOST PORT COUNT, and prints the results. */
static void ask(int argc, char **argv)
{
    static const struct option options[] = {ALL_OPTIONS, END_OF_OPTIONS};
    struct common common = COMMON_DEFAULTS;
    struct rounds rounds;
    int option, fd;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        common_option(option, &common, "Usage: see the source\n");
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT");
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), common.warmup);
    fd = client_begins(argv[optind], argv[optind + 1], &common.socket);
    while (rounds_left(&rounds)) {
        rounds_begin(&rounds, fd);
        say(rounds.seen);
        if (!hear(rounds.seen))
            die("the server closed the connection after %zu rounds", rounds.seen);
        rounds_end(&rounds);
    }
    print_rounds(&rounds, fd);
}

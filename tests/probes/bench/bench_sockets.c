/* SPDX-License-Identifier: MIT */
/* Has COUNT connected TCP sockets, half of them accepted, each with something written and read;
 * says "ready", and ends when its standard input does.
 * Usage: bench_sockets COUNT */
#include "bench.h"

/* The number of ports from which to connect to one address is limited. */
enum { TO_ONE_LISTENER = 20000 };

static void exchange(int from, int to)
{
    char byte = 'x';
    write_all(from, &byte, 1);
    if (!read_all(to, &byte, 1))
        die("the connection ended");
}

static void open_pair(int listener, const struct sockaddr_in *address)
{
    int client = loopback_connect(address);
    int server = accept_one(listener);
    exchange(client, server);
    exchange(server, client);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address;
    size_t count;
    int listener = -1;
    char byte;
    if (argc != 2)
        usage_error("needs COUNT");
    count = parse_count(argv[1]);
    allow_files(count + 10);
    for (size_t i = 0; i < count; i += 2) {
        if (i % TO_ONE_LISTENER == 0) {
            close(listener);
            listener = loopback_listener(&address);
        }
        open_pair(listener, &address);
    }
    puts("ready");
    fflush(stdout);
    while (read_some(STDIN_FILENO, &byte, 1) != 0)
        ;
    return 0;
}

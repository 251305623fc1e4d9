/* SPDX-License-Identifier: MIT */
/* Owns `nagleshim demo`: a server, and a client that writes each request in two pieces. diagnose
 * finds the stall, and the library ends it. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "base/clock.h"
#include "judge/statistics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { REQUESTS = 40, HEAD = 120, BODY = 60, ANSWER = 200 };
/* A delayed ACK takes 40 ms, and an answer without one less than a tenth of this. */
#define STALL_MS 20

static int local_socket(unsigned short port, struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static bool receive(int fd, size_t size)
{
    char bytes[HEAD + BODY + ANSWER];
    return recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

static void serve(int listener)
{
    static const char answer[ANSWER];
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        while (receive(fd, HEAD + BODY) && write(fd, answer, ANSWER) == ANSWER)
            continue;
        close(fd);
    }
}

/* Starts the server, which ends with this command. Its port, or -1. */
static int start_server(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int listener = local_socket(0, &address);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        return -1;
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            serve(listener);
        _exit(NS_EXIT_ERROR);
    }
    close(listener);
    return pid > 0 ? ntohs(address.sin_port) : -1;
}

/* The client: it prints the median of its requests, in ms. */
static int ask(unsigned short port)
{
    static const char head[HEAD], body[BODY];
    struct sockaddr_in address;
    double ms[REQUESTS];
    int fd = local_socket(port, &address);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        return NS_FAIL("cannot connect to port %u: %s", port, strerror(errno));
    for (unsigned i = 0; i < REQUESTS; i++) {
        uint64_t begin = ns_clock_now(CLOCK_MONOTONIC);
        if (write(fd, head, HEAD) != HEAD || write(fd, body, BODY) != BODY || !receive(fd, ANSWER))
            return NS_FAIL("the server has closed the connection");
        ms[i] = (double)(ns_clock_now(CLOCK_MONOTONIC) - begin) / 1e6;
    }
    close(fd);
    ns_print(stdout, "%.3f\n", ns_statistics_median(ms, REQUESTS));
    return NS_EXIT_YES;
}

/* Print a command, run it, and return the median that the client prints; negative on failure. */
static double run(const char *verb, unsigned short port)
{
    char self[PATH_MAX] = "", line[64] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return -1;
    setenv("DEMO_SELF", self, 1); /* the path may have any character */
    const char *command =
        ns_words("\"$DEMO_SELF\" %s -- \"$DEMO_SELF\" demo --client %u", verb, port);
    ns_print(stdout, "$ nagleshim %s -- nagleshim demo --client %u\n", verb, port);
    fflush(stdout);
    FILE *output = popen(command, "re");
    while (output && fgets(line, sizeof line, output))
        continue;
    return output && pclose(output) == 0 && *line ? strtod(line, NULL) : -1;
}

static int show(unsigned short port)
{
    ns_print(
        stdout,
        "A server on 127.0.0.1:%u answers each request once it is complete. A client sends %d\n"
        "requests, each in two writes: %d and %d bytes.\n\n",
        port, REQUESTS, HEAD, BODY);
    double before = run("diagnose", port);
    if (before < 0)
        return NS_EXIT_ERROR;
    ns_print(stdout, "\nWith the library:\n");
    double after = run("run", port);
    if (after < 0)
        return NS_EXIT_ERROR;
    ns_print(
        stdout,
        "\nA request takes %.2f ms (median), and %.1f ms without the library: %.0f times faster.\n"
        "To diagnose your program: nagleshim diagnose -- PROGRAM\n",
        after, before, before / after);
    if (before < STALL_MS)
        ns_say("the client did not stall: is the library preloaded everywhere on this host?");
    return before >= STALL_MS && after < STALL_MS ? NS_EXIT_YES : NS_EXIT_NO;
}

int ns_demo_main(void)
{
    if (ns_option_text(NS_DEMO_CLIENT))
        return ask((unsigned short)ns_option_number(NS_DEMO_CLIENT, 0));
    int at = start_server();
    if (at < 0)
        return NS_FAIL("cannot start a server on 127.0.0.1: %s", strerror(errno));
    return show((unsigned short)at);
}

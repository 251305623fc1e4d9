/* SPDX-License-Identifier: MIT */
/* A program that was started with descriptors 0 to 2 closed, as some daemons are. What it opens
 * gets the lowest numbers, and nobody else may have them. Asks for one answer after another, in
 * three writes each, and writes what was seen to the file that is its second argument. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, PACKET = 30 };

static int wrong, line_of_wrong;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition) && !wrong++)                                                              \
            line_of_wrong = __LINE__;                                                              \
    } while (0)

static int is_closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The same bytes as those of tcp_nodelay_client. */
static void fill(char *data, unsigned seed)
{
    unsigned state = seed * 2654435761u + 1;
    for (int i = 0; i < PACKET; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (char)('a' + (state >> 16) % 26);
    }
}

static int ask(int fd, unsigned number)
{
    char packet[PACKET], answer[PACKET];
    double begin = now_ms();
    fill(packet, number);
    for (int i = 0; i < PACKET; i += 10)
        EXPECT(write(fd, packet + i, 10) == 10);
    EXPECT(recv(fd, answer, PACKET, MSG_WAITALL) == PACKET);
    EXPECT(memcmp(answer, packet, PACKET) == 0);
    EXPECT(is_closed(1) && is_closed(2));
    return now_ms() - begin > 20;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int stalls = 0;
    if (argc < 3)
        return 2;
    EXPECT(is_closed(0) && is_closed(1) && is_closed(2));
    address.sin_port = htons((unsigned short)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(fd == 0);
    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    for (unsigned i = 0; i < ROUNDS; i++)
        stalls += ask(fd, i);
    int other = open("/dev/null", O_RDONLY);
    EXPECT(other == 1);
    FILE *results = fopen(argv[2], "w");
    EXPECT(results && fileno(results) == 2);
    if (results)
        fprintf(results, "stalls %d wrong %d line %d\n", stalls, wrong, line_of_wrong);
    return wrong != 0 || !results || fclose(results) != 0;
}

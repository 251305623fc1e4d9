/* SPDX-License-Identifier: MIT */
/* A program that was started with descriptors 0 to 2 closed, as some daemons are. Its own
 * descriptors must get these numbers. It sends requests in three writes each, and writes its
 * results to the file that is its second argument. */
#include "packets.h"

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

int main(int argc, char **argv)
{
    int stalls = 0;
    if (argc < 3)
        return 2;
    EXPECT(is_closed(0) && is_closed(1) && is_closed(2));
    int fd = connect_to_port(argv[1]);
    EXPECT(fd == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t begin = now_ns();
        EXPECT(ask(fd, i));
        EXPECT(is_closed(1) && is_closed(2));
        stalls += now_ns() - begin > STALL_NS;
    }
    int other = open("/dev/null", O_RDONLY);
    EXPECT(other == 1);
    FILE *results = fopen(argv[2], "w");
    EXPECT(results && fileno(results) == 2);
    if (results)
        fprintf(results, "stalls %d wrong %d line %d\n", stalls, wrong, line_of_wrong);
    return wrong != 0 || !results || fclose(results) != 0;
}

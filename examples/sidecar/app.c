/* SPDX-License-Identifier: MIT */
/* The application of the test's images: starts queue_server, reads from it which port it has, and
 * becomes queue_put. Usage: run COUNT */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char port[16];
    int from_server[2];
    if (argc != 2 || pipe(from_server) != 0)
        return 2;
    if (fork() == 0) {
        dup2(from_server[1], STDOUT_FILENO);
        execl("/bin/queue_server", "queue_server", "0", (char *)NULL);
        _exit(127);
    }
    FILE *line = fdopen(from_server[0], "r");
    if (line == NULL || fscanf(line, "listening on port %15[0-9]", port) != 1)
        return 1;
    execl("/bin/queue_put", "queue_put", "--warmup", "20", "127.0.0.1", port, argv[1],
          (char *)NULL);
    return 127;
}

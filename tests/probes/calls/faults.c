/* SPDX-License-Identifier: MIT */
/* A small program with connections, whose bytes must arrive complete and in order although calls
 * inside a preloaded library fail. It makes no call that may fail for another reason. Prints
 * "done", and exits with 7. */
#include "loopback.h"

enum {
    LINKS = 12,
    HIGH = 1030
}; /* more than a thread's list holds, and a descriptor beyond the table's first chunk */

static struct link {
    int client, server;
} links[LINKS];

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: not true: %s (errno %d)\n", __LINE__, #condition, errno);             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void open_links(void)
{
    struct sockaddr_in address;
    int listener = loopback_listener(&address), idle = 60;
    for (int i = 0; i < LINKS; i++) {
        links[i].client = socket(AF_INET, SOCK_STREAM, 0);
        /* These calls may be the ones that fail. */
        if (i > 0)
            setsockopt(links[i].client, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        MUST(connect(links[i].client, (struct sockaddr *)&address, sizeof address) == 0);
        if (i == 0)
            setsockopt(links[i].client, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        links[i].server = accept_one(listener);
    }
    MUST(dup2(links[0].client, HIGH) == HIGH);
    close(links[0].client);
    links[0].client = HIGH;
    close(listener);
}

static void put(int fd, const char *text)
{
    for (; *text; text++)
        MUST(write(fd, text, 1) == 1);
}

static void get(int fd, const char *text)
{
    char data[64];
    MUST(read_all(fd, data, strlen(text)) && memcmp(data, text, strlen(text)) == 0);
}

static void talk(void)
{
    for (int i = 0; i < LINKS; i++)
        put(links[i].client, "request");
    for (int i = 0; i < LINKS; i++)
        get(links[i].server, "request"); /* and an ACK is pending on each */
    struct pollfd none = {.fd = links[0].client, .events = POLLIN};
    MUST(poll(&none, 1, 1) == 0);
    for (int i = 0; i < LINKS; i++) {
        put(links[i].server, "answer");
        get(links[i].client, "answer");
    }
}

static void fork_and_write(void)
{
    int status = -1;
    put(links[1].client, "parent ");
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        put(links[1].client, "child");
        _exit(0);
    }
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    get(links[1].server, "parent child");
}

static void close_links(void)
{
    char byte;
    for (int i = 0; i < LINKS; i++) {
        int copy = dup(links[i].client);
        MUST(copy >= 0);
        put(copy, "last");
        close(links[i].client);
        put(copy, " words");
        close(copy);
        get(links[i].server, "last words");
        MUST(read(links[i].server, &byte, 1) == 0);
        close(links[i].server);
    }
}

int main(void)
{
    alarm(20);
    open_links();
    talk();
    fork_and_write();
    talk();
    close_links();
    puts("done");
    return 7;
}

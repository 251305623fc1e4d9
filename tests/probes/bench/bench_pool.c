/* SPDX-License-Identifier: MIT */
/* A server of which one thread reads the requests of all connections and another one answers, and a
 * client with one request under way on each of its connections. Says how many requests a second.
 * Usage: bench_pool server PORT [--nodelay], until it is killed;
 *        bench_pool client HOST PORT COUNT CONNECTIONS [--nodelay] */
#include "bench.h"

#include <pthread.h>

enum { MOST = 256, EVENTS = 64 };

/* Connections whose request is to be answered. None is in it twice: no request comes before the
 * answer to the last one. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t some;
    int fd[MOST];
    size_t begin, count;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};

static void *answer_all(void *unused)
{
    char answer[ANSWER];

    fill_pattern(answer, sizeof(answer), 1);
    for (;;) {
        int fd;

        pthread_mutex_lock(&queue.lock);
        while (queue.count == 0)
            pthread_cond_wait(&queue.some, &queue.lock);
        fd = queue.fd[queue.begin];
        queue.begin = (queue.begin + 1) % MOST;
        queue.count--;
        pthread_mutex_unlock(&queue.lock);
        write_all(fd, answer, sizeof(answer));
    }
    return unused;
}

static void hand_over(int fd)
{
    pthread_mutex_lock(&queue.lock);
    if (queue.count == MOST)
        die("more than %d connections", MOST);
    queue.fd[(queue.begin + queue.count++) % MOST] = fd;
    pthread_cond_signal(&queue.some);
    pthread_mutex_unlock(&queue.lock);
}

static void serve(int listener)
{
    struct epoll_event events[EVENTS];
    char request[REQUEST];
    int epoll = epoll_create1(0);
    pthread_t thread;

    if (epoll < 0 || pthread_create(&thread, NULL, answer_all, NULL) != 0)
        die_errno("cannot start");
    watch(epoll, listener, (epoll_data_t){.fd = listener});
    for (;;) {
        size_t ready = wait_for_some(epoll, events, EVENTS);

        for (size_t i = 0; i < ready; i++) {
            int fd = events[i].data.fd;

            if (fd == listener) {
                fd = accept_client(listener);
                watch(epoll, fd, (epoll_data_t){.fd = fd});
            } else if (read_all(fd, request, sizeof(request))) {
                hand_over(fd);
            } else {
                close(fd);
            }
        }
    }
}

static void ask(const char *host, const char *port, size_t count, size_t connections)
{
    struct epoll_event events[EVENTS];
    char request[REQUEST], answer[ANSWER];
    int epoll = epoll_create1(0);
    size_t asked = 0, answered = 0;
    int64_t begun;

    fill_pattern(request, sizeof(request), 2);
    begun = now_ns();
    for (; asked < connections; asked++) {
        int fd = connect_to(host, port, &options);

        watch(epoll, fd, (epoll_data_t){.fd = fd});
        write_all(fd, request, sizeof(request));
    }
    while (answered < asked) {
        size_t ready = wait_for_some(epoll, events, EVENTS);

        for (size_t i = 0; i < ready; i++) {
            if (!read_all(events[i].data.fd, answer, sizeof(answer)))
                die("the server closed the connection");
            answered++;
            if (asked < count) {
                asked++;
                write_all(events[i].data.fd, request, sizeof(request));
            }
        }
    }
    printf("requests_per_s %.1f\n", (double)answered * 1e9 / (double)(now_ns() - begun));
}

int main(int argc, char **argv)
{
    serve_or_count(argc, argv, serve, 6);
    ask(argv[2], argv[3], parse_count(argv[4]),
        (size_t)parse_number(argv[5], "CONNECTIONS", 1, MOST));
    return 0;
}

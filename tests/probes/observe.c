/* SPDX-License-Identifier: MIT */
/* A client that writes a request in two pieces and waits for its answer, and a server for it: the
 * observing library records its connections. Usage: observe serve | observe PORT SCENE */
#include "loopback.h"
#include "scenario.h"

enum { HEADER = 5, BODY = 7, ANSWER = 3, ROUNDS = 4 };

static struct sockaddr_in server;

/* Reads size bytes; false: the stream has ended. */
static bool read_whole(int fd, size_t size)
{
    char data[64];
    while (size > 0) {
        ssize_t n = read(fd, data, size);
        if (n <= 0)
            return false;
        size -= (size_t)n;
    }
    return true;
}

static void *answer(void *of)
{
    int fd = *(int *)of;
    free(of);
    while (read_whole(fd, HEADER + BODY) && write(fd, "ok\n", ANSWER) == ANSWER)
        ;
    close(fd);
    return NULL;
}

static int serve(void)
{
    struct sockaddr_in address;
    int listener = loopback_listener(&address);
    printf("listening on port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        pthread_t thread;
        int *fd = malloc(sizeof *fd);
        *fd = accept(listener, NULL, NULL);
        if (*fd < 0 || pthread_create(&thread, NULL, answer, fd) != 0)
            die_errno("cannot serve");
        pthread_detach(thread);
    }
}

static void ask(int fd)
{
    if (write(fd, "head\n", HEADER) != HEADER || write(fd, "bodies\n", BODY) != BODY)
        die_errno("cannot write");
}

/* The samples must not change errno. */
static void rounds(int fd, int n)
{
    for (int i = 0; i < n; i++) {
        errno = ENOTTY;
        ask(fd);
        if (!read_whole(fd, ANSWER) || errno != ENOTTY)
            die_errno("no answer, or errno is another");
    }
}

SCENARIO_NAMED(one, "one")
{
    int fd = loopback_connect(&server);
    rounds(fd, ROUNDS);
    close(fd);
}

SCENARIO("nodelay")
{
    int fd = loopback_connect(&server), on = 1, said = 0;
    socklen_t size = sizeof said;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    rounds(fd, ROUNDS);
    if (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &said, &size) != 0 || !said)
        die_errno("TCP_NODELAY is off");
    close(fd);
}

static void *rounds_of_thread(void *unused)
{
    (void)unused;
    one();
    return NULL;
}

SCENARIO("threads")
{
    pthread_t some[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&some[i], NULL, rounds_of_thread, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(some[i], NULL);
}

/* One thread writes to a socket, another one reads from it, and the writer waits for the reader. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd, answers;
} shared = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void *reads_answers(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS && read_whole(shared.fd, ANSWER); i++) {
        pthread_mutex_lock(&shared.lock);
        shared.answers++;
        pthread_cond_signal(&shared.changed);
        pthread_mutex_unlock(&shared.lock);
    }
    return NULL;
}

SCENARIO("reader")
{
    pthread_t thread;
    shared.fd = loopback_connect(&server);
    pthread_create(&thread, NULL, reads_answers, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        ask(shared.fd);
        pthread_mutex_lock(&shared.lock);
        while (shared.answers <= i)
            pthread_cond_wait(&shared.changed, &shared.lock);
        pthread_mutex_unlock(&shared.lock);
    }
    pthread_join(thread, NULL);
    close(shared.fd);
}

/* Before the next piece is written, a wait ends for another reason: a pipe of the program, as in
 * event loops. The request is not complete then, so no answer is late. */
SCENARIO("woken")
{
    int fd = loopback_connect(&server), way[2];
    char data[8];
    if (pipe(way) != 0)
        die_errno("pipe");
    for (int i = 0; i < ROUNDS; i++) {
        struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = way[0], .events = POLLIN}};
        if (write(fd, "he", 2) != 2 || write(fd, "ad\n", HEADER - 2) != HEADER - 2 ||
            write(way[1], "!", 1) != 1 || poll(both, 2, -1) != 1 || read(way[0], data, 8) != 1 ||
            write(fd, "bodies\n", BODY) != BODY || !read_whole(fd, ANSWER))
            die_errno("cannot talk");
    }
    close(fd);
}

SCENARIO("fork")
{
    one();
    pid_t child = fork();
    if (child == 0) {
        one();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    one();
}

static void connections(int n)
{
    for (int i = 0; i < n; i++) {
        int fd = loopback_connect(&server);
        if (write(fd, "head\nbodies\n", HEADER + BODY) != HEADER + BODY || !read_whole(fd, ANSWER))
            die_errno("no answer");
        close(fd);
    }
}

static void drops(bool before)
{
    if (before)
        close(loopback_connect(&server));
    else
        one();
    if (setresuid(65534, 65534, 65534) != 0)
        die_errno("setresuid");
    one();
}

/* Overwrites arguments and environment, as servers do to set their title. */
static void title(char *begin)
{
    size_t length = 0;
    for (char **entry = environ; *entry; entry++)
        length = (size_t)(*entry + strlen(*entry) - begin);
    environ = NULL;
    memset(begin, 0, length);
    one();
}

/* Connections to peers that do not read, so that less than a segment stays unsent, and waits that
 * end for another reason. */
SCENARIO("slow-readers")
{
    enum { MANY = 200, WAITS = 100 };
    static const int window = 1;
    struct sockaddr_in address;
    int listener = loopback_listener(&address), way[2], fds[MANY];
    static char data[1400];
    if (setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &window, sizeof window) != 0 ||
        listen(listener, MANY) != 0 || pipe(way) != 0)
        die_errno("pipe");
    for (int i = 0; i < MANY; i++) {
        fds[i] = loopback_connect(&address);
        if (write(fds[i], data, sizeof data) != sizeof data)
            die_errno("cannot write");
    }
    for (int i = 0; i < WAITS; i++) {
        struct pollfd wake = {.fd = way[0], .events = POLLIN};
        if (write(way[1], "!", 1) != 1 || poll(&wake, 1, -1) != 1 || read(way[0], data, 1) != 1)
            die_errno("poll");
    }
}

static char **arguments;

SCENE("connections", connections(300))
SCENE("drop-first", drops(true))
SCENE("drop-later", drops(false))
SCENE("kill", one(); raise(SIGKILL))
SCENE("exec", one(); execl(arguments[0], arguments[0], arguments[1], "one", NULL))
SCENE("title", title(arguments[0]))

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        return serve();
    if (argc != 3)
        die("usage: observe serve | observe PORT SCENE");
    server = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    arguments = argv;
    if (!run_scenario(argv[2], strlen(argv[2])))
        die("no such scene");
    printf("done\n");
    return 0;
}

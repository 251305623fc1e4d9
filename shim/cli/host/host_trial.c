/* SPDX-License-Identifier: MIT */
/* Owns the trial of the library before a system gets it, and after: a program is started with it.
 * One that is cut off kills every program, and one that prints spoils scripts; neither shows in the
 * file alone. Not async-signal-safe. */
#include "cli/host/host.h"

#include "cli/cli.h"
#include "cli/process/elf.h"
#include "cli/process/loaded.h"
#include "cli/process/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAY(...) ns_say("host", __VA_ARGS__)

enum { SECONDS_MOST = 10 };

/* A program that runs in the system, its standard streams, what the child says that could not
 * become it, and the first bytes of what it printed that it should not have. */
struct trial {
    pid_t child;
    int in, out, err, failure;
    char said[256];
};

/* What the child writes to its parent: the call is a word in the memory of both. */
struct failure {
    const char *call;
    int error;
};

/* What is left in a pipe until its other end is closed; the first bytes are kept. */
static void drain(struct trial *trial, int fd)
{
    char bytes[512];
    size_t used = strlen(trial->said);
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)) {
        size_t room = sizeof(trial->said) - 1 - used, take = n > 0 ? (size_t)n : 0;

        take = take < room ? take : room;
        memcpy(trial->said + used, bytes, take);
        used += take;
        trial->said[used] = '\0';
    }
}

/* Its wait status. */
static int finish(struct trial *trial)
{
    int status = -1;

    close(trial->in);
    drain(trial, trial->err);
    drain(trial, trial->out);
    close(trial->out);
    close(trial->err);
    while (waitpid(trial->child, &status, 0) < 0 && errno == EINTR)
        ;
    trial->said[strcspn(trial->said, "\n")] = '\0';
    ns_sanitize(trial->said);
    return status;
}

/* In the child. Returns only if it cannot: what failed. */
static const char *become(const struct ns_host *host, const char *program, bool preload,
                          const int streams[3])
{
    char variable[PATH_MAX + 16];
    char *const words[] = {(char *)program, NULL};
    char *environment[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C",
                           preload ? variable : NULL, NULL};

    snprintf(variable, sizeof(variable), "LD_PRELOAD=%s", host->library);
    for (int i = 0; i < 3; i++)
        if (dup2(streams[i], i) < 0)
            return "dup2";
    if (host->root[0] && (chroot(host->root) != 0 || chdir("/") != 0))
        return "chroot";
    alarm(SECONDS_MOST); /* stays through execve */
    execve(program, words, environment);
    return "execve";
}

/* Has the child become the program? An exit status; it has been said what failed. */
static int judge_start(struct trial *trial, const char *program)
{
    struct failure failure;
    ssize_t n;

    while ((n = read(trial->failure, &failure, sizeof(failure))) < 0 && errno == EINTR)
        ;
    close(trial->failure);
    if (n != (ssize_t)sizeof(failure))
        return NS_EXIT_YES;
    finish(trial);
    SAY("the library cannot be tried with %s: %s: %s", program, failure.call,
        strerror(failure.error));
    return ns_host_exit(-failure.error);
}

/* An exit status. */
static int start(struct trial *trial, const struct ns_host *host, const char *program, bool preload)
{
    int in[2], out[2], err[2], failed[2];

    *trial = (struct trial){.in = -1, .out = -1, .err = -1};
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
        pipe2(failed, O_CLOEXEC) != 0) {
        SAY("the library cannot be tried: pipe2: %s", strerror(errno));
        return NS_EXIT_ERROR; /* the command ends soon, and its descriptors with it */
    }
    trial->child = fork();
    if (trial->child == 0) {
        struct failure failure;

        ns_host_signals_restore();
        failure.call = become(host, program, preload, (const int[]){in[0], out[1], err[1]});
        failure.error = errno;
        _exit(write(failed[1], &failure, sizeof(failure)) > 0 ? 126 : 125);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    close(failed[1]);
    trial->failure = failed[0];
    trial->in = in[1];
    trial->out = out[0];
    trial->err = err[0];
    if (trial->child > 0)
        return judge_start(trial, program);
    SAY("the library cannot be tried: fork: %s", strerror(errno));
    return NS_EXIT_ERROR;
}

static bool judge_end(const struct trial *trial, int status, const char *program)
{
    if (WIFSIGNALED(status))
        SAY("%s, started with the library, ended by signal %d (%s)", program, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        SAY("%s, started with the library, exits with %d%s%s", program,
            WIFEXITED(status) ? WEXITSTATUS(status) : -1, trial->said[0] ? ": " : "", trial->said);
    else if (trial->said[0])
        SAY("%s, started with the library, prints: %s", program, trial->said);
    else
        return true;
    return false;
}

/* cat gives back a byte once it is past its start, and waits for the next one. */
static bool echoes(const struct trial *trial)
{
    char byte = '\n';
    struct pollfd answer = {.fd = trial->out, .events = POLLIN};

    if (write(trial->in, &byte, 1) != 1)
        return false;
    return poll(&answer, 1, SECONDS_MOST * 1000) > 0 && read(trial->out, &byte, 1) == 1;
}

/* Is the shim in the memory of the child? */
static enum ns_loaded_state look_at(pid_t child)
{
    static struct ns_loaded loaded;
    struct ns_proc proc;
    enum ns_loaded_state state = NS_LOADED_NO;

    if (ns_proc_open(child, &proc) != 0)
        return state;
    if (ns_loaded_find(&proc, &loaded) == 0)
        state = loaded.state;
    ns_proc_close(&proc);
    return state;
}

static bool judge_state(enum ns_loaded_state state, const char *program)
{
    if (state == NS_LOADED_YES)
        return true;
    if (state == NS_LOADED_NO)
        SAY("%s, started with the library, does not have it in its memory", program);
    else
        SAY("%s, started with the library, has one that this command does not know", program);
    return false;
}

bool ns_host_programs(const struct ns_host *host, bool by_file)
{
    static struct ns_elf elf;
    char own[PATH_MAX];
    const char *libc;
    int fd;

    if (!ns_host_path(host, "/bin/cat", own))
        return false;
    fd = open(own, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ns_elf_inspect(fd, &elf) != 0) {
        SAY("%s cannot be read, so that the library cannot be tried", own);
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    libc = ns_reach_libc(elf.interpreter);
    if (by_file && libc && strcmp(libc, "musl") == 0) {
        SAY("this system's libc is musl, whose loader reads no " NS_HOST_PRELOAD);
        return false;
    }
    return true;
}

int ns_host_trial(const struct ns_host *host, bool preload)
{
    static const char cat[] = "/bin/cat", none[] = "/bin/true";
    struct trial trial;
    enum ns_loaded_state state;
    bool echoed;
    int status;

    signal(SIGPIPE, SIG_IGN); /* a child that does not live to read */
    status = start(&trial, host, none, preload);
    if (status == NS_EXIT_YES && !judge_end(&trial, finish(&trial), none))
        status = NS_EXIT_ERROR;
    if (status == NS_EXIT_YES)
        status = start(&trial, host, cat, preload);
    if (status != NS_EXIT_YES)
        return status;
    echoed = echoes(&trial);
    state = echoed ? look_at(trial.child) : NS_LOADED_NO;
    return judge_end(&trial, finish(&trial), cat) && judge_state(state, cat) ? NS_EXIT_YES
                                                                             : NS_EXIT_ERROR;
}

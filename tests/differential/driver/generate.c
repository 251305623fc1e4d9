/* SPDX-License-Identifier: MIT */
/* Makes the script of a seed: connections first, and then calls at random on what there is, mostly
 * such that make sense. What it takes for the kinds of its descriptors need not be true: the
 * program copes with any script. */
#include "maker.h"

#include <stdarg.h>
#include <stdlib.h>

/* splitmix64 */
static uint64_t next(struct maker *maker)
{
    uint64_t z = maker->state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

int below(struct maker *maker, int count)
{
    return (int)(next(maker) % (uint64_t)count);
}

bool percent(struct maker *maker, int chance)
{
    return below(maker, 100) < chance;
}

const char *one_of(struct maker *maker, const char *words)
{
    static char word[64][64];
    static int turn;
    int count = 1;
    for (const char *at = words; *at; at++)
        count += *at == ' ';
    const char *at = words;
    for (int i = below(maker, count); i > 0; i--)
        at = strchr(at, ' ') + 1;
    turn = (turn + 1) % 64;
    snprintf(word[turn], sizeof word[turn], "%.*s", (int)strcspn(at, " "), at);
    return word[turn];
}

void say(struct maker *maker, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t room = SCRIPT_MOST - maker->length;
    int n = vsnprintf(maker->out + maker->length, room, format, list);
    va_end(list);
    if ((size_t)n + 200 < room)
        maker->length += (size_t)n;
    else
        maker->out[maker->length] = '\0';
}

char pick(struct maker *maker, int wanted)
{
    char found[SLOTS];
    int count = 0;
    if (maker->place == IN_HANDLER)
        return 'h';
    for (int i = 0; i < SLOTS; i++)
        if ((maker->things[i] & (unsigned)wanted) && i != 'h' - 'a')
            found[count++] = (char)('a' + i);
    if (count == 0 && wanted != TCP && percent(maker, 80))
        return pick(maker, TCP);
    if (count == 0 || percent(maker, 2))
        return (char)('a' + below(maker, 8));
    return found[below(maker, count)];
}

char unused(struct maker *maker)
{
    for (int i = 0; i < SLOTS; i++)
        if (maker->things[i] == NO_THING && i != 'h' - 'a')
            return (char)('a' + i);
    return (char)('a' + below(maker, SLOTS));
}

void has(struct maker *maker, char slot, enum thing thing)
{
    if (maker->place == IN_MAIN || maker->place == IN_THREAD)
        maker->things[slot - 'a'] = thing;
}

enum thing thing_of(const struct maker *maker, char slot)
{
    return maker->things[slot - 'a'];
}

const char *size(struct maker *maker)
{
    if (maker->place == IN_HANDLER || percent(maker, 75))
        return one_of(maker, "1 2 3 7 10 30 100 100 300 500 1000 0");
    return one_of(maker, "1447 1448 1449 2000 4096 4097 8192 16384 16385 30000 65536 70000");
}

void prefix(struct maker *maker, bool may_sleep)
{
    if (may_sleep && maker->has_alarm && maker->place != IN_HANDLER && percent(maker, 12))
        say(maker, "interrupted ");
    if ((maker->features & BAD_ARGUMENTS) && percent(maker, 2))
        say(maker, "%s ", one_of(maker, "bad_buffer bad_argument"));
}

static void make_line(struct maker *maker);

static void make_block(struct maker *maker, enum place place, int lines)
{
    enum place outer = maker->place;
    maker->place = place;
    maker->children += place == IN_CHILD;
    for (int i = 0; i < lines; i++)
        make_line(maker);
    maker->children -= place == IN_CHILD;
    maker->place = outer;
    say(maker, "}\n");
}

/* A child's descriptors are its own: what it makes is gone after it. */
static void make_process(struct maker *maker)
{
    switch (below(maker, 13)) {
    case 0 ... 2:
        say(maker, "fork %s {\n", one_of(maker, "exit _exit _exit _Fork"));
        make_block(maker, IN_CHILD, 1 + below(maker, 5));
        break;
    case 3:
        say(maker, "vfork {\n");
        make_block(maker, IN_VFORK_CHILD, 1 + below(maker, 3));
        break;
    case 4:
        say(maker, "clone {\n");
        make_block(maker, IN_VFORK_CHILD, 1 + below(maker, 3));
        break;
    case 5 ... 6:
        say(maker, "thread %s {\n", percent(maker, 50) ? "tight" : "");
        if (percent(maker, 15))
            say(maker, "unshare_range %c\n", pick(maker, TCP));
        else if (percent(maker, 15))
            say(maker, "unshare CLONE_FILES\n");
        make_block(maker, IN_THREAD, 1 + below(maker, 5));
        break;
    case 7 ... 8:
        say(maker, "worker {\n");
        make_block(maker, IN_THREAD, 1 + below(maker, 5));
        break;
    case 9:
        say(maker, "spawn %c %s %s\n", pick(maker, TCP), size(maker),
            one_of(maker, "posix_spawn posix_spawn vfork fork system popen"));
        break;
    case 10:
        say(maker, "%s\n", one_of(maker, "seccomp altstack"));
        break;
    case 11:
        say(maker, "unshare %s\n", one_of(maker, "CLONE_FILES CLONE_FS CLONE_SYSVSEM"));
        break;
    default:
        say(maker, "waitpid\n");
    }
}

static void make_handler(struct maker *maker, const char *name)
{
    say(maker, "handler %s %s {\n", name,
        one_of(maker, "0 SA_RESTART SA_RESTART SA_RESTART|SA_ONSTACK SA_NODEFER SA_SIGINFO"));
    if (percent(maker, 15)) {
        say(maker, "fork _exit {\nwrite h 5\n}\n");
        make_block(maker, IN_HANDLER, 0);
    } else {
        make_block(maker, IN_HANDLER, below(maker, 3));
    }
}

/* With a mask, a signal that is pending may end a wait. */
static void make_signal(struct maker *maker)
{
    const char *name = one_of(maker, "SIGUSR1 SIGUSR2");
    switch (below(maker, 6)) {
    case 0:
        say(maker, "%s %s\n", one_of(maker, "raise raise kill"), name);
        break;
    case 1:
        say(maker, "%s %s\n", one_of(maker, "block block unblock"), name);
        break;
    case 2:
        say(maker, "block %s\nraise %s\n", name, name);
        make_wait(maker);
        break;
    case 3:
        say(maker, "%s %s 300\n", one_of(maker, "sigtimedwait sigwait sigsuspend"),
            one_of(maker, "SIGUSR1 SIGUSR1|SIGUSR2 0"));
        break;
    case 4:
        if (maker->has_alarm && maker->place == IN_MAIN)
            say(maker, "pause\n");
        break;
    default:
        say(maker, "mask\n");
    }
}

/* In a handler, and in a child with this process's memory, only what is safe there. */
static void make_line(struct maker *maker)
{
    static void (*const anything[])(struct maker *) = {
        make_write, make_write, make_write,  make_write,  make_burst,   make_burst,
        make_read,  make_read,  make_read,   make_read,   make_wait,    make_wait,
        make_wait,  make_epoll, make_option, make_option, make_new,     make_copy,
        make_close, make_peer,  make_peer,   make_peer,   make_process, make_signal};
    static void (*const careful[])(struct maker *) = {make_write, make_burst, make_read,
                                                      make_option, make_wait};
    if (maker->place == IN_HANDLER || maker->place == IN_VFORK_CHILD)
        careful[below(maker, sizeof careful / sizeof *careful)](maker);
    else
        anything[below(maker, sizeof anything / sizeof *anything)](maker);
}

static void make_beginning(struct maker *maker)
{
    if (percent(maker, 80)) {
        say(maker, "connect h\n");
        if (percent(maker, 60))
            make_handler(maker, "SIGPIPE");
        else
            say(maker, "signal SIGPIPE ignored\n");
        make_handler(maker, "SIGUSR1");
        make_handler(maker, "SIGUSR2");
        make_handler(maker, "SIGALRM");
        maker->has_alarm = true;
    }
    for (int i = 1 + below(maker, 3); i > 0; i--) {
        char slot = unused(maker);
        say(maker, "connect %c\n", slot);
        has(maker, slot, TCP);
    }
    if (percent(maker, 20)) {
        char slot = unused(maker);
        say(maker, "listen %c\n", slot);
        has(maker, slot, LISTENER);
    }
}

void generate(uint64_t seed, unsigned features, char script[SCRIPT_MOST])
{
    struct maker maker = {.state = seed * 0x2545f4914f6cdd1dU, .out = script, .features = features};
    script[0] = '\0';
    make_beginning(&maker);
    for (int i = 5 + below(&maker, 45); i > 0; i--)
        make_line(&maker);
    if (percent(&maker, 30))
        say(&maker, "end %s\n",
            one_of(&maker, "exit _exit quick_exit abort signal exec "
                           "pthread_exit thrd_exit sys_exit return"));
}

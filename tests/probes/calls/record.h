/* SPDX-License-Identifier: MIT */
/* Makes calls and records their results, so that two runs can be compared exactly. The text is in
 * shared memory, so that it has a child's lines, too. Records nothing that differs between two
 * runs: no address, time or process id. */
#pragma once

#include "loopback.h"

enum { RECORD_SIZE = 4 << 20, UNTOUCHED = 9999, NO_FD = 999 };

static struct record {
    size_t used;
    char text[RECORD_SIZE];
} * record;
static const char *record_context = "main";

/* The compiler would warn about these values, or optimise calls away, if it knew them. */
static void *volatile none = NULL;
static void *volatile nowhere = (void *)1;

static void record_open(void)
{
    record = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (record == MAP_FAILED)
        abort();
}

__attribute__((format(printf, 1, 2))) static void record_add(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(record->text + record->used, sizeof record->text - record->used, format,
                      arguments);
    va_end(arguments);
    record->used += (size_t)n;
}

static void record_result(const char *text, long result, int error)
{
    const char *name = error == UNTOUCHED ? "-" : error ? strerrorname_np(error) : "0";
    record_add("%s: %s = %ld %s\n", record_context, text, result, name ? name : "?");
}

/* Records the call's text, result, and errno, which a successful call must not change. */
#define RECORD_CALL(text, expression)                                                              \
    do {                                                                                           \
        errno = UNTOUCHED;                                                                         \
        long result_ = (long)(expression);                                                         \
        record_result(text, result_, errno);                                                       \
    } while (0)
#define CALL(expression) RECORD_CALL(#expression, (expression))
/* The same for a call whose result is an address, and for one without a result. */
#define CALL_POINTER(expression) RECORD_CALL(#expression, ((expression) != NULL))
#define CALL_VOID(expression) RECORD_CALL(#expression, ((expression), 0))

static void record_bytes(const char *what, const void *data, size_t size)
{
    const unsigned char *byte = data;
    record_add("%s:   %s [", record_context, what);
    for (size_t i = 0; i < size; i++)
        record_add(byte[i] >= 32 && byte[i] < 127 ? "%c" : "\\%02x", byte[i]);
    record_add("]\n");
}

static void record_value(const char *what, long value)
{
    record_add("%s:   %s %ld\n", record_context, what, value);
}

/* Writes the text to descriptor 1, and empties it. */
static void record_flush(void)
{
    for (size_t sent = 0; sent < record->used;) {
        ssize_t n = write(1, record->text + sent, record->used - sent);
        if (n <= 0)
            _exit(9);
        sent += (size_t)n;
    }
    record->used = 0;
}

/* --- descriptors for the calls --- */

struct pair {
    int a, b;
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    record_add("%s: cannot %s: %s\n", record_context, what, strerror(errno));
    record_flush();
    _exit(8);
}

static struct pair open_pair(void)
{
    struct sockaddr_in address;
    int listener = loopback_listener(&address);
    struct pair pair = {.a = loopback_connect(&address)};
    pair.b = accept_one(listener);
    close(listener);
    return pair;
}

static void close_pair(struct pair pair)
{
    close(pair.a);
    close(pair.b);
}

/* Records size bytes that have arrived at fd. */
static void expect_bytes(int fd, size_t size)
{
    char data[64];
    size_t got = 0;
    while (got < size) {
        ssize_t n = recv(fd, data + got, size - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    record_bytes("arrived", data, got);
}

/* Writes the text to from, and waits until it can be read at to. */
static void feed(int from, int to, const char *text)
{
    struct pollfd ready = {.fd = to, .events = POLLIN};
    must(write(from, text, strlen(text)) == (ssize_t)strlen(text), "feed");
    must(poll(&ready, 1, 5000) == 1, "be fed");
}

/* Makes an ACK pending on the connection, because the kernel delays it. */
static void owe_on(struct pair pair)
{
    char byte;
    int off = 0;
    setsockopt(pair.a, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
    feed(pair.b, pair.a, "!");
    must(read(pair.a, &byte, 1) == 1, "owe");
}

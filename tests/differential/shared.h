/* SPDX-License-Identifier: MIT */
/* What the runner of the differential fuzzer and the program share: the script, the trace, a model
 * of every connection, and their messages. The memory is shared so that the trace of a killed
 * program is kept, and so that children can add to it. */
#pragma once

#include "../probes/rights.h"

enum {
    CONTROL_FD = 1000, /* a socket to the runner, which is also the peer */
    SHARED_FD = 1001,  /* struct shared */
    SCRIPT_MOST = 16384,
    TRACE_MOST = 131072,
    CONNECTIONS = 12,
    PATTERN_PERIOD = 65521,
    WRITE_MOST = 70000,
};

/* Bytes in one direction. */
struct stream {
    int64_t written, read;
};

/* End 0 is the program's, end 1 the runner's. */
struct connection {
    bool used;
    struct stream stream[2]; /* what end 0 writes, what end 1 writes */
    bool held;               /* the program's last bytes may wait for more of them */
    bool corked;
    bool stopped;   /* the peer does not read */
    bool half;      /* the peer writes no more */
    bool over;      /* the peer has closed or reset */
    bool uncertain; /* the number of bytes that arrive before a reset depends on time */
};

enum verb {
    NOTHING,
    ACCEPT,  /* one connection from the listener */
    SEND,    /* number: how many bytes */
    CHECK,   /* wait for all bytes that the program has written */
    STOP,    /* read no more */
    RESUME,  /* read again */
    TAKE,    /* read number bytes nevertheless */
    HALF,    /* shut down writing */
    CLOSE,   /* close */
    RESET,   /* close with a reset */
    CONNECT, /* to the program's listener, number: its address and port, extra: bytes to send at
                once */
    RIGHTS,  /* a socket is passed: write number bytes on it and close it */
    SIGNAL,  /* number: the signal */
    LATER,   /* what, once the thread number sleeps; no reply */
    DONE,    /* the thread no longer sleeps: drop its requests for later */
};

struct message {
    int32_t verb;
    int32_t connection;
    int64_t number;
    int64_t extra;
    int32_t what;   /* LATER: the verb */
    int32_t thread; /* LATER: whose sleep */
    int32_t process;
};

struct reply {
    int64_t number; /* CHECK: the bytes that arrived; -1: the request could not be executed */
    int64_t wrong;  /* the offset of the first wrong byte, or -1 */
};

struct shared {
    char script[SCRIPT_MOST];
    char trace[TRACE_MOST];
    uint32_t trace_length;
    uint32_t calls;
    char current[200];      /* the line that is being executed */
    uint32_t handled;       /* signals whose handler has returned */
    uint32_t listener;      /* the runner's address */
    uint16_t listener_port; /* and port */
    uint16_t refused_port;  /* a port without a listener */
    struct connection connections[CONNECTIONS];
    char pattern[2 * PATTERN_PERIOD + WRITE_MOST];
};

/* The bytes that an end writes, from this offset on; WRITE_MOST of them are contiguous. */
static inline const char *pattern_at(const struct shared *shared, int connection, int end,
                                     int64_t offset)
{
    return shared->pattern + (offset + (connection * 2 + end) * 4099) % PATTERN_PERIOD;
}

/* The first byte of data that differs from the end's stream, or -1. */
static inline int64_t pattern_differs(const struct shared *shared, int connection, int end,
                                      int64_t offset, const char *data, int64_t size)
{
    for (int64_t done = 0; done < size;) {
        int64_t n = size - done < WRITE_MOST ? size - done : WRITE_MOST;
        const char *wanted = pattern_at(shared, connection, end, offset + done);
        if (memcmp(data + done, wanted, (size_t)n) != 0) {
            while (data[done] == *wanted) {
                done++;
                wanted++;
            }
            return offset + done;
        }
        done += n;
    }
    return -1;
}

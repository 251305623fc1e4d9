/* SPDX-License-Identifier: MIT */
/* Calls on a connection for the places of a program that the differential fuzzer
 * (tests/differential) does not reach. */
#pragma once

#include "record.h"

/* The calls of a request and its answer; the fuzzer tests them with all kinds of arguments. */
static void calls_traffic(void)
{
    struct pair pair = open_pair();
    struct pollfd one = {.fd = pair.a, .events = POLLIN};
    off64_t offset = 0;
    char in[16] = "";
    int value = 1, file = memfd_create("probe", MFD_CLOEXEC);
    socklen_t length = sizeof value;
    must(file >= 0 && write(file, "0123456789", 10) == 10, "make a file");
    CALL(setsockopt(pair.a, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    CALL(write(pair.a, "write", 5));
    CALL(send(pair.a, "send", 4, MSG_MORE));
    CALL(sendfile64(pair.a, file, &offset, 4));
    record_value("offset", (long)offset);
    expect_bytes(pair.b, 13);
    CALL(poll(&one, 1, 2));
    CALL(recv(pair.a, in, sizeof in, MSG_DONTWAIT));
    feed(pair.b, pair.a, "answer");
    CALL(poll(&one, 1, 2));
    CALL(read(pair.a, in, 2));
    CALL(recv(pair.a, in + 2, 4, MSG_WAITALL));
    record_bytes("read", in, 6);
    CALL(getsockopt(pair.a, IPPROTO_TCP, TCP_NODELAY, &value, &length));
    record_value("value", value);
    CALL(fcntl64(pair.a, F_GETFL));
    CALL(write(NO_FD, in, 5));
    CALL(setsockopt(NO_FD, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    close(file);
    close_pair(pair);
}

/* SPDX-License-Identifier: MIT */
/* Connections of a probe with itself, for probes that do not test how connections are made. */
#pragma once

#include "../../examples/common.h"
#include "system.h"

/* Makes a listener on a free port, and sets *address. */
static inline int loopback_listener(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)address, length) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &length) != 0)
        die_errno("cannot listen");
    return fd;
}

static inline int loopback_connect(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        die_errno("connect");
    return fd;
}

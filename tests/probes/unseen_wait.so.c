/* SPDX-License-Identifier: MIT */
/* A wait for input that no preloaded library sees, for turns.py. */
#include "raw.h"

void unseen_wait(int fd);

void unseen_wait(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    RAW(ppoll, &input, 1, NULL, NULL);
}

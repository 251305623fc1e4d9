/* SPDX-License-Identifier: MIT */
/* The runner of the differential fuzzer: it executes the program with a script, without a library
 * or with one, and meanwhile is the peer of its connections. */
#pragma once

#include "../shared.h"

/* peer.c: the other end of every connection of one run. */
void peer_begin(struct shared *shared, int control, int listener);
void peer_message(void);
void peer_turn(void);
bool peer_has_orders(void); /* for when the program sleeps */
struct pollfd;
int peer_descriptors(struct pollfd *items, int count);
void peer_readable(int fd);
void peer_finish(bool killed);

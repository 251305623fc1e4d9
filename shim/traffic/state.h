/* SPDX-License-Identifier: MIT */
/* The states of a connection that the decision tables read and write: words of ns_conn. */
#ifndef NS_STATE_H
#define NS_STATE_H

#include "conn/conn.h"
#include "traffic/ack.h"
#include "traffic/burst.h"

/* Access to a member that is a small struct, as one word. Two threads that use a socket at the same
 * time may lose a count, which costs a segment. */
#define NS_WORD_MEMBER(type, name, word_type, member)                                              \
    static inline struct type name(const struct ns_conn *conn)                                     \
    {                                                                                              \
        union {                                                                                    \
            word_type word;                                                                        \
            struct type value;                                                                     \
        } both = {.word = NS_GET(conn, member)};                                                   \
        return both.value;                                                                         \
    }                                                                                              \
    static inline void name##_put(struct ns_conn *conn, struct type value)                         \
    {                                                                                              \
        union {                                                                                    \
            struct type value;                                                                     \
            word_type word;                                                                        \
        } both = {.value = value};                                                                 \
        NS_PUT(conn, member, both.word);                                                           \
    }

NS_WORD_MEMBER(ns_burst, ns_conn_burst, uint64_t, burst)
NS_WORD_MEMBER(ns_ack_state, ns_conn_ack, uint64_t, ack_state)

#endif

/* SPDX-License-Identifier: MIT */
/* The options of `nagleshim explain`. */
#ifndef NS_EXPLAIN_OPTIONS_H
#define NS_EXPLAIN_OPTIONS_H

#include "policy/match.h"

enum { NS_EXPLAIN_ARGS_MOST = 256 };

struct ns_explain_options {
    const char *policy;
    char *process;
    const char *local, *remote; /* as given; facts has them as addresses */
    char *args[NS_EXPLAIN_ARGS_MOST];
    unsigned n_args;
    struct ns_socket_facts facts;
    bool help;
};

/* Fills options, which must be zero. Returns false after a message. */
bool ns_explain_take_options(int argc, char **argv, struct ns_explain_options *options);

#endif

/* SPDX-License-Identifier: MIT */
/* Owns the command line of `nagleshim explain`. It must resolve no names: the addresses of a host
 * name change, and the shim never sees the name. Not async-signal-safe. */
#include "cli/policy/explain_options.h"

#include "cli/cli.h"
#include "cli/verbs.h"

#include "policy/endpoint.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <string.h>

#define SAY(...) ns_say("explain", __VA_ARGS__)

/* "10.0.0.1:7001" or "[::1]:7001" */
static bool parse_address(const char *text, struct ns_address *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    char host[INET6_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    bool has_brackets = *text == '[' && colon && colon > text + 1 && colon[-1] == ']';
    const char *start = has_brackets ? text + 1 : text;
    size_t length = colon ? (size_t)(colon - start) - (has_brackets ? 1 : 0) : sizeof host;
    unsigned long port;

    if (length >= sizeof host || !ns_parse_number(colon + 1, 1, 65535, &port))
        return false;
    memcpy(host, start, length);
    host[length] = '\0';
    in.sin_port = in6.sin6_port = htons((uint16_t)port);
    if (!has_brackets && inet_pton(AF_INET, host, &in.sin_addr) == 1)
        *address = ns_address_from((const struct sockaddr *)&in, sizeof in);
    else if (has_brackets && inet_pton(AF_INET6, host, &in6.sin6_addr) == 1)
        *address = ns_address_from((const struct sockaddr *)&in6, sizeof in6);
    else
        return false;
    return true;
}

static bool take_address(const char *option, const char **text, struct ns_address *address)
{
    struct ns_endpoint endpoint;
    struct in6_addr unused;
    char problem[256];

    *text = optarg;
    if (parse_address(optarg, address))
        return true;
    if (ns_endpoint_parse(optarg, &endpoint, problem, sizeof problem) == 0 &&
        endpoint.ends_like_a_port)
        SAY("%s needs a port: %s", option,
            ns_endpoint_tell_port(&endpoint, problem, sizeof problem));
    else if (inet_pton(AF_INET, optarg, &unused) == 1)
        SAY("%s needs a port: %s:7001", option, optarg);
    else if (inet_pton(AF_INET6, optarg, &unused) == 1)
        SAY("%s needs brackets and a port: [%s]:7001", option, optarg);
    else
        SAY("%s must be an address and a port, as 10.0.0.1:7001 or [::1]:7001, not '%s' (no host "
            "names, and a port from 1 to 65535)",
            option, optarg);
    return false;
}

static bool take_role(enum ns_role *role)
{
    char known[64];
    int value;

    if (!ns_words_find(NS_WORDS_ROLE, optarg, &value)) {
        SAY("--role must be %s, not '%s'", ns_words_join(NS_WORDS_ROLE, known, sizeof known),
            optarg);
        return false;
    }
    *role = (enum ns_role)value;
    return true;
}

static bool take_arg(struct ns_explain_options *options)
{
    if (options->n_args == NS_EXPLAIN_ARGS_MOST) {
        SAY("more than %d --arg are not allowed", NS_EXPLAIN_ARGS_MOST);
        return false;
    }
    options->args[options->n_args++] = optarg;
    return true;
}

static bool take_option(int option, char **argv, struct ns_explain_options *options)
{
    switch (option) {
    case NS_EXPLAIN_POLICY:
        options->policy = optarg;
        return true;
    case NS_EXPLAIN_PROCESS:
        options->process = optarg;
        return true;
    case NS_EXPLAIN_ARG:
        return take_arg(options);
    case NS_EXPLAIN_ROLE:
        return take_role(&options->facts.role);
    case NS_EXPLAIN_REMOTE:
        return take_address("--remote", &options->remote, &options->facts.remote);
    case NS_EXPLAIN_LOCAL:
        return take_address("--local", &options->local, &options->facts.local);
    case NS_EXPLAIN_JSON:
        return true;
    case NS_EXPLAIN_HELP:
        options->help = true;
        return true;
    default:
        ns_say_option("explain", argv, option);
        return false;
    }
}

bool ns_explain_take_options(int argc, char **argv, struct ns_explain_options *options)
{
    int option;

    while ((option = ns_verbs_next_option("explain", argc, argv)) != -1) {
        if (!take_option(option, argv, options))
            return false;
        if (options->help)
            return true;
    }
    if (optind < argc) {
        SAY("'%s' is not an option; use --arg for an argument of the program", argv[optind]);
        return false;
    }
    if (!options->process || *options->process == '\0') {
        SAY("--process is missing: a program's path or name; see 'nagleshim explain --help'");
        return false;
    }
    return true;
}

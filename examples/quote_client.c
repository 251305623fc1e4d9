/* SPDX-License-Identifier: MIT */
/* Requests a quote from quote_server on one connection and waits for it on another, one request at
 * a time. Each connection is one-way, so no answer carries an ACK, and a request waits in the
 * kernel for the ACK of the previous request. */
#include "common.h"
#include "quote.h"

static const char help[] =
    "Usage: quote_client [OPTION]... HOST PORT COUNT\n"
    "Send COUNT requests to quote_server, each after the answer to the one before it.\n"
    "  --winsock-ack     TCP_QUICKACK=0 after each receive: acknowledgements are delayed\n"
    "  --quickack        TCP_QUICKACK=1 after each receive: it is acknowledged at once\n"
    "  --nodelay         TCP_NODELAY\n"
    "  --warmup N        requests before those that count (0)\n"
    "  --help            this text\n";

struct client {
    struct common common;
    int quickack; /* set after each receive, unless it is below 0 */
    int commands;
    int data;
};

static void set_quickack(const struct client *client)
{
    if (client->quickack >= 0)
        set_option(client->data, IPPROTO_TCP, TCP_QUICKACK, client->quickack, "TCP_QUICKACK");
}

static int connect_for(const struct client *client, char **where, char purpose)
{
    int fd = connect_to(where[0], where[1], &client->common.socket);
    write_all(fd, &purpose, 1);
    return fd;
}

static void check_quote(const struct quote *quote, uint32_t stock)
{
    char name[sizeof(quote->name)];
    fill_pattern(name, sizeof(name), stock);
    if (ntohl(quote->stock) != stock || ntohl(quote->price) != price_of(stock) ||
        memcmp(quote->name, name, sizeof(name)) != 0)
        die("the quote for stock %u arrived with other bytes than were sent", stock);
}

static void read_quote(const struct client *client, struct quote *quote)
{
    size_t have = 0;
    while (have < sizeof(*quote)) {
        size_t got = read_some(client->data, (char *)quote + have, sizeof(*quote) - have);
        if (got == 0)
            die("the server closed the connection after %zu of %zu bytes", have, sizeof(*quote));
        set_quickack(client);
        have += got;
    }
}

static void run(const struct client *client, struct rounds *rounds)
{
    struct quote quote;
    set_quickack(client);
    for (uint32_t number = 0; rounds_left(rounds); number++) {
        struct quote_request request = {htonl(number), htonl(number)};
        rounds_begin(rounds, client->commands);
        write_all(client->commands, &request, sizeof(request));
        read_quote(client, &quote);
        rounds_end(rounds);
        check_quote(&quote, number);
    }
}

static void parse_options(int argc, char **argv, struct client *client)
{
    static const struct option options[] = {ALL_OPTIONS,
                                            NODELAY_OPTION,
                                            {"winsock-ack", no_argument, NULL, 'a'},
                                            {"quickack", no_argument, NULL, 'q'},
                                            END_OF_OPTIONS};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!common_option(option, &client->common, help))
            client->quickack = option == 'q';
}

int main(int argc, char **argv)
{
    struct client client = {.common = COMMON_DEFAULTS, .quickack = -1};
    struct rounds rounds;
    parse_options(argc, argv, &client);
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT, see --help");
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), client.common.warmup);
    client.commands = connect_for(&client, argv + optind, CONNECTION_COMMANDS);
    client.data = connect_for(&client, argv + optind, CONNECTION_DATA);
    run(&client, &rounds);
    print_rounds(&rounds, client.commands);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Asks quote_server for a quote on one connection and waits for it on another, one request at a
 * time. Each direction is one-way, so no answer carries an acknowledgement, and a request waits in
 * the kernel for that of the request before it. */
#include "common.h"
#include "quote.h"

static const char help[] =
    "Usage: quote_client [OPTION]... HOST PORT COUNT\n"
    "Send COUNT requests to quote_server, each after the answer to the one before it.\n"
    "  --one-connection  requests and quotes on the same connection\n"
    "  --batch N         stocks in one request, quotes in one answer (1)\n"
    "  --winsock-ack     TCP_QUICKACK=0 after each receive: acknowledgements are delayed\n"
    "  --quickack        TCP_QUICKACK=1 after each receive: it is acknowledged at once\n"
    "  --nodelay         TCP_NODELAY\n"
    "  --warmup N        requests before those that count (0)\n"
    "  --mss N           the largest segment to use\n"
    "  --help            this text\n";

struct client {
    struct common common;
    bool one_connection;
    int quickack; /* set after each receive, unless it is below 0 */
    uint32_t batch;
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

static void read_quotes(const struct client *client, struct quote *quotes)
{
    size_t have = 0, wanted = client->batch * sizeof(*quotes);

    while (have < wanted) {
        size_t got = read_some(client->data, (char *)quotes + have, wanted - have);

        if (got == 0)
            die("the server closed the connection after %zu of %zu bytes", have, wanted);
        set_quickack(client);
        have += got;
    }
}

static void run(const struct client *client, struct rounds *rounds)
{
    static struct quote_request request;
    static struct quote quotes[QUOTE_LIMIT];
    size_t size = sizeof(request.count) + client->batch * sizeof(request.stocks[0]);
    uint32_t stock = 0;

    request.count = htonl(client->batch);
    set_quickack(client);
    while (rounds_left(rounds)) {
        for (uint32_t i = 0; i < client->batch; i++)
            request.stocks[i] = htonl(stock + i);
        rounds_begin(rounds, client->commands);
        write_all(client->commands, &request, size);
        read_quotes(client, quotes);
        rounds_end(rounds);
        for (uint32_t i = 0; i < client->batch; i++)
            check_quote(&quotes[i], stock++);
    }
}

static void parse_options(int argc, char **argv, struct client *client)
{
    static const struct option options[] = {ALL_OPTIONS,
                                            NODELAY_OPTION,
                                            {"one-connection", no_argument, NULL, 'o'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"winsock-ack", no_argument, NULL, 'a'},
                                            {"quickack", no_argument, NULL, 'q'},
                                            END_OF_OPTIONS};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (common_option(option, &client->common, help))
            continue;
        switch (option) {
        case 'o':
            client->one_connection = true;
            break;
        case 'b':
            client->batch = (uint32_t)parse_number(optarg, "--batch", 1, QUOTE_LIMIT);
            break;
        case 'a':
            client->quickack = 0;
            break;
        case 'q':
            client->quickack = 1;
            break;
        }
    }
}

int main(int argc, char **argv)
{
    struct client client = {.common = COMMON_DEFAULTS, .quickack = -1, .batch = 1};
    struct rounds rounds;
    size_t quotes;

    parse_options(argc, argv, &client);
    if (argc - optind != 3)
        usage_error("needs HOST PORT COUNT, see --help");
    rounds_prepare(&rounds, parse_count(argv[optind + 2]), client.common.warmup);
    client.commands = connect_for(&client, argv + optind,
                                  client.one_connection ? CONNECTION_BOTH : CONNECTION_COMMANDS);
    client.data = client.one_connection ? client.commands
                                        : connect_for(&client, argv + optind, CONNECTION_DATA);
    run(&client, &rounds);
    quotes = rounds.done * client.batch;
    printf("quotes %zu quotes_per_s %.1f ", quotes,
           (double)quotes * 1e9 / (double)(rounds.ended - rounds.begun));
    print_rounds(&rounds, client.commands);
    return 0;
}

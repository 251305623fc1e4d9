/* SPDX-License-Identifier: MIT */
/* Gives stock quotes to a client that asks on one connection and gets the answers on another. On
 * the command connection the server sends only ACKs. With --winsock-ack they are delayed as by
 * Winsock, and Nagle's algorithm holds the client's next request. */
#include "common.h"
#include "quote.h"

static const char help[] =
    "Usage: quote_server [OPTION]... PORT\n"
    "Answer the requests of quote_client until it closes its connections.\n"
    "PORT 0 takes a free one. The first line printed is 'listening on port N'.\n"
    "  --winsock-ack    TCP_QUICKACK=0 after each receive: acknowledgements are delayed\n"
    "  --quickack       TCP_QUICKACK=1 after each receive: it is acknowledged at once\n"
    "  --nodelay        TCP_NODELAY\n"
    "  --connections N  clients to serve, one after the other (1); 0: no end\n"
    "  --warmup N       answers whose segments are not counted (0)\n"
    "  --help           this text\n";

static struct common common = COMMON_DEFAULTS;
static int quickack = -1; /* set after each receive, unless it is below 0 */

struct client {
    int commands;
    int data;
};

static void set_quickack(int fd)
{
    if (quickack >= 0)
        set_option(fd, IPPROTO_TCP, TCP_QUICKACK, quickack, "TCP_QUICKACK");
}

/* Wait for the connections of one client, in any order. */
static struct client accept_client(int listener)
{
    struct client client = {-1, -1};
    while (client.commands < 0 || client.data < 0) {
        int fd = accept_one(listener);
        char purpose = 0;
        if (!read_all(fd, &purpose, 1))
            die("a client closed its connection before it told what it is for");
        set_quickack(fd);
        if (purpose != CONNECTION_COMMANDS && purpose != CONNECTION_DATA)
            die("a connection for '%c' is not known", purpose);
        *(purpose == CONNECTION_DATA ? &client.data : &client.commands) = fd;
    }
    return client;
}

/* Read one request, usually in one receive; false at the end of the stream. */
static bool read_request(int fd, struct quote_request *request)
{
    size_t have = 0;
    while (have < sizeof(*request)) {
        size_t got = read_some(fd, (char *)request + have, sizeof(*request) - have);
        if (got == 0 && have == 0)
            return false;
        if (got == 0)
            die("the client closed the connection within a request");
        set_quickack(fd);
        have += got;
    }
    return true;
}

static void serve(const struct client *client)
{
    struct quote_request request;
    struct meter meter = {.warmup = common.warmup};
    while (read_request(client->commands, &request)) {
        uint32_t stock = ntohl(request.stock);
        struct quote quote = {.stock = request.stock, .price = htonl(price_of(stock))};
        fill_pattern(quote.name, sizeof(quote.name), stock);
        meter_count(&meter, client->data);
        write_all(client->data, &quote, sizeof(quote));
    }
    print_meter(&meter, client->data);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {SERVER_OPTIONS,
                                            NODELAY_OPTION,
                                            {"winsock-ack", no_argument, NULL, 'a'},
                                            {"quickack", no_argument, NULL, 'q'},
                                            END_OF_OPTIONS};
    int listener, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!common_option(option, &common, help))
            quickack = option == 'q';
    if (argc - optind != 1)
        usage_error("needs PORT, see --help");
    listener = listen_on(parse_number(argv[optind], "PORT", 0, 65535), &common.socket);
    for (size_t i = 0; common.connections == 0 || i < common.connections; i++) {
        struct client client = accept_client(listener);
        serve(&client);
        close(client.commands);
        close(client.data);
    }
    return 0;
}

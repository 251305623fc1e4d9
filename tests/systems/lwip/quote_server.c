/* SPDX-License-Identifier: MIT */
/* examples/quote_server on another TCP stack: lwIP, which delays an ACK until its timer ticks,
 * every 250 ms. It is behind a TUN device, sets no option, and answers quote_client until it is
 * killed. All calls of lwIP are made in lwIP's thread or under its lock. */
#include "../../probes/tun.h"
#include "common.h"
#include "quote.h"

#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>
#include <lwip/tcpip.h>
#include <poll.h>

#define LINUX_ADDRESS "10.98.0.1"
#define LWIP_ADDRESS "10.98.0.2"

enum { PORT = 7000, ROOM = 1536 };

/* The state of the current client; one client is served at a time. */
static struct {
    struct tcp_pcb *data;
    char request[sizeof(struct quote_request)];
    size_t have;
} client;

static int device;
static struct netif netif;

static err_t to_device(struct netif *from, struct pbuf *packet, const ip4_addr_t *to)
{
    char bytes[ROOM];
    u16_t size = pbuf_copy_partial(packet, bytes, sizeof(bytes), 0);
    (void)from;
    (void)to;
    return write(device, bytes, size) == size ? ERR_OK : ERR_IF;
}

static err_t set_up_netif(struct netif *made)
{
    made->name[0] = 't';
    made->name[1] = 'n';
    made->mtu = TUN_MTU;
    made->output = to_device;
    return ERR_OK;
}

static void answer(const struct quote_request *request)
{
    uint32_t stock = ntohl(request->stock);
    struct quote quote = {.stock = request->stock, .price = htonl(price_of(stock))};
    if (client.data == NULL)
        die("a request came before the connection for its answer");
    fill_pattern(quote.name, sizeof(quote.name), stock);
    if (tcp_write(client.data, &quote, sizeof(quote), TCP_WRITE_FLAG_COPY) != ERR_OK)
        die("tcp_write refuses a quote");
    tcp_output(client.data);
}

static void take(const char *bytes, size_t size)
{
    struct quote_request request;
    if (size > sizeof(request) - client.have)
        die("a request is too long");
    memcpy(client.request + client.have, bytes, size);
    client.have += size;
    if (client.have < sizeof(request))
        return;
    memcpy(&request, client.request, sizeof(request));
    client.have = 0;
    answer(&request);
}

/* The first byte of a connection shows its purpose. */
static size_t take_purpose(struct tcp_pcb *connection, char purpose)
{
    if (purpose != CONNECTION_COMMANDS && purpose != CONNECTION_DATA)
        die("a connection for '%c' is not known", purpose);
    if (purpose == CONNECTION_DATA)
        client.data = connection;
    else
        client.have = 0;
    tcp_arg(connection, &client);
    return 1;
}

static err_t received(void *argument, struct tcp_pcb *connection, struct pbuf *packet, err_t error)
{
    char bytes[ROOM];
    size_t used, size;
    if (error != ERR_OK)
        return error;
    if (packet == NULL) {
        if (connection == client.data)
            client.data = NULL;
        return tcp_close(connection);
    }
    size = pbuf_copy_partial(packet, bytes, sizeof(bytes), 0);
    used = argument == NULL ? take_purpose(connection, bytes[0]) : 0;
    if (size > used)
        take(bytes + used, size - used);
    tcp_recved(connection, packet->tot_len);
    pbuf_free(packet);
    return ERR_OK;
}

static err_t accepted(void *argument, struct tcp_pcb *connection, err_t error)
{
    (void)argument;
    if (error != ERR_OK)
        return error;
    tcp_arg(connection, NULL);
    tcp_recv(connection, received);
    return ERR_OK;
}

static void begin(void)
{
    ip4_addr_t own, mask, gateway;
    struct tcp_pcb *listener;
    if (!ip4addr_aton(LWIP_ADDRESS, &own) || !ip4addr_aton("255.255.255.0", &mask) ||
        !ip4addr_aton(LINUX_ADDRESS, &gateway))
        die("an address is none");
    LOCK_TCPIP_CORE();
    if (netif_add(&netif, &own, &mask, &gateway, NULL, set_up_netif, tcpip_input) == NULL)
        die("netif_add");
    netif_set_default(&netif);
    netif_set_link_up(&netif);
    netif_set_up(&netif);
    listener = tcp_new();
    if (listener == NULL || tcp_bind(listener, IP_ADDR_ANY, PORT) != ERR_OK)
        die("tcp_bind");
    listener = tcp_listen(listener);
    tcp_accept(listener, accepted);
    UNLOCK_TCPIP_CORE();
    printf("listening on port %d\nlwIP at %s acknowledges after %d ms\n", PORT, LWIP_ADDRESS,
           TCP_FAST_INTERVAL);
    fflush(stdout);
}

static void from_device(void)
{
    char bytes[ROOM];
    ssize_t size = read(device, bytes, sizeof(bytes));
    struct pbuf *packet;
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        die_errno("read");
    /* The kernel's own IPv6 packets are ignored. */
    if (size <= 0 || (bytes[0] & 0xf0) != 0x40)
        return;
    packet = pbuf_alloc(PBUF_RAW, (u16_t)size, PBUF_RAM);
    if (packet == NULL || pbuf_take(packet, bytes, (u16_t)size) != ERR_OK)
        die("no memory for a packet");
    if (netif.input(packet, &netif) != ERR_OK)
        pbuf_free(packet);
}

int main(void)
{
    struct pollfd polled = {.events = POLLIN};
    device = tun_create("lwip", LINUX_ADDRESS, LWIP_ADDRESS);
    tcpip_init(NULL, NULL);
    begin();
    polled.fd = device;
    for (;;)
        if (poll(&polled, 1, -1) > 0)
            from_device();
}

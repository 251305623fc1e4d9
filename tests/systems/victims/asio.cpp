// SPDX-License-Identifier: MIT
// Messages whose length and text are two writes, and come back like that, with Boost.Asio.
// Usage: asio server; asio client PORT OPERATIONS
#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace asio = boost::asio;
using asio::ip::tcp;

static void send(tcp::socket &socket, const std::string &message)
{
    const std::uint32_t length = static_cast<std::uint32_t>(message.size());

    asio::write(socket, asio::buffer(&length, sizeof(length)));
    asio::write(socket, asio::buffer(message));
}

static std::string receive(tcp::socket &socket)
{
    std::uint32_t length = 0;

    asio::read(socket, asio::buffer(&length, sizeof(length)));
    std::string message(length, '\0');
    asio::read(socket, asio::buffer(message));
    return message;
}

static void serve(asio::io_context &context)
{
    tcp::acceptor listener(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));

    std::printf("listening on port %d\n", listener.local_endpoint().port());
    std::fflush(stdout);
    for (;;) {
        tcp::socket peer = listener.accept();

        try {
            for (;;)
                send(peer, receive(peer));
        } catch (const boost::system::system_error &) {
            // That was the last one.
        }
    }
}

static void ask(asio::io_context &context, unsigned short port, std::size_t count)
{
    const std::string message(400, 'x');
    std::vector<double> times;
    tcp::socket socket(context);

    socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(), port));
    for (std::size_t i = 0; i <= count; i++) {
        const auto begun = std::chrono::steady_clock::now();

        send(socket, message);
        if (receive(socket) != message)
            throw std::runtime_error("another message");
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
        // The first is not counted.
        if (i > 0)
            times.push_back(took.count());
    }
    std::sort(times.begin(), times.end());
    std::printf(
        "operations %zu median_us %.1f max_us %.1f stalls %td\n", count, times[count / 2] * 1e6,
        times.back() * 1e6,
        std::count_if(times.begin(), times.end(), [](double time) { return time > 0.020; }));
}

int main(int argc, char **argv)
{
    asio::io_context context;

    if (argc == 4)
        ask(context, static_cast<unsigned short>(std::atoi(argv[2])),
            static_cast<std::size_t>(std::atoi(argv[3])));
    else
        serve(context);
}

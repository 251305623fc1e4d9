// SPDX-License-Identifier: MIT
// Sends messages with Boost.Asio, one write for each field. Usage: talk PORT WARMUP COUNT
#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace asio = boost::asio;

static void put(asio::ip::tcp::socket &socket, const std::string &piece)
{
    asio::write(socket, asio::buffer(piece));
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "Usage: talk PORT WARMUP COUNT\n");
        return 2;
    }
    const long warmup = std::atol(argv[2]), count = std::atol(argv[3]);
    asio::io_context context;
    asio::ip::tcp::socket socket(context);
    std::vector<double> times;
    std::string input;

    socket.connect({asio::ip::make_address("127.0.0.1"),
                    static_cast<unsigned short>(std::atoi(argv[1]))});
    for (long number = 0; number < warmup + count; number++) {
        const auto begun = std::chrono::steady_clock::now();

        put(socket, "{\"number\": ");
        put(socket, std::to_string(number));
        put(socket, ", \"symbol\": \"ACME\"");
        put(socket, ", \"price\": ");
        put(socket, std::to_string(1000 + number % 9000));
        put(socket, ", \"size\": ");
        put(socket, std::to_string(100 + number % 900));
        put(socket, ", \"side\": ");
        put(socket, number % 2 == 0 ? "\"buy\"" : "\"sell\"");
        put(socket, "}\n");
        const std::size_t length = asio::read_until(socket, asio::dynamic_buffer(input), '\n');
        if (input.substr(0, length) != std::to_string(number) + "\n") {
            std::fprintf(stderr, "another answer\n");
            return 1;
        }
        input.erase(0, length);
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - begun;
        if (number >= warmup)
            times.push_back(took.count());
    }
    std::sort(times.begin(), times.end());
    std::printf("messages %ld mean_us %.1f median_us %.1f stalls %ld\n", count,
                times.empty() ? 0 : std::accumulate(times.begin(), times.end(), 0.0) / double(count),
                times.empty() ? 0 : times[times.size() / 2],
                long(std::count_if(times.begin(), times.end(), [](double us) { return us > 20000; })));
    return 0;
}

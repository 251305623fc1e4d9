// SPDX-License-Identifier: MIT
// Answers each request with 400 bytes. Usage: cpp-httplib
#include <httplib.h>
#include <cstdio>
#include <string>

int main()
{
    httplib::Server server;
    server.Get(".*", [](const httplib::Request &, httplib::Response &answer) {
        answer.set_content(std::string(400, 'x'), "text/plain");
    });
    server.set_keep_alive_max_count(1000);
    printf("listening on port %d\n", server.bind_to_any_port("127.0.0.1"));
    fflush(stdout);
    server.listen_after_bind();
}

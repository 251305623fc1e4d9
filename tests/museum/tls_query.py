# SPDX-License-Identifier: MIT
# DNS over TLS, with a connection for each query. Usage: tls_query.py PORT OPERATIONS
import socket
import ssl
import struct
import sys

import rounds

QUERY = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + b"\4page\4test\0" + struct.pack(">2H", 1, 1)


def main(port, count):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def query():
        with socket.create_connection(("127.0.0.1", port)) as plain:
            with context.wrap_socket(plain) as sock:
                sock.sendall(struct.pack(">H", len(QUERY)) + QUERY)
                assert len(sock.recv(1000)) >= 2

    rounds.measure(query, count)


main(int(sys.argv[1]), int(sys.argv[2]))

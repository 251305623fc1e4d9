# SPDX-License-Identifier: MIT
# Messages of 20 kB by multiprocessing.connection, which writes the length of such a message and the message
# itself in two pieces. Usage: pickles.py server; pickles.py client PORT OPERATIONS
import multiprocessing.connection
import sys

import rounds


def serve():
    with multiprocessing.connection.Listener(("127.0.0.1", 0)) as listener:
        print("listening on port %d" % listener.address[1], flush=True)
        while True:
            with listener.accept() as peer:
                try:
                    while True:
                        peer.send_bytes(peer.recv_bytes())
                except EOFError:
                    pass


def main(port, count):
    message = rounds.PAGE * 50
    with multiprocessing.connection.Client(("127.0.0.1", port)) as peer:
        def echo():
            peer.send_bytes(message)
            assert peer.recv_bytes() == message, "another message"

        rounds.measure(echo, count)


if sys.argv[1] == "server":
    serve()
else:
    main(int(sys.argv[2]), int(sys.argv[3]))

# SPDX-License-Identifier: MIT
# Writes to a server and waits for a replica of it, which this starts. Usage: redis_wait.py PORT OPERATIONS DIRECTORY
import os
import socket
import subprocess
import sys

import rounds

port, count, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.makedirs(directory, exist_ok=True)
replica = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", directory + "/s", "--save", "", "--dir", directory,
                            "--replicaof", "127.0.0.1", str(port)], stdout=subprocess.DEVNULL)
with socket.create_connection(("127.0.0.1", port)) as master:
    def ask(command):
        master.sendall(command + b"\r\n")
        return master.recv(99)

    try:
        while ask(b"WAIT 1 100") != b":1\r\n":
            pass

        def write():
            ask(b"SET key value")
            assert ask(b"WAIT 1 1000") == b":1\r\n"

        rounds.measure(write, count)
    finally:
        replica.terminate()
        replica.wait()

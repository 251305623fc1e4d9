# SPDX-License-Identifier: MIT
# Runs commands over one connection. Usage: paramiko_run.py PORT: the server; with OPERATIONS: the client
import socket
import sys
import threading

import paramiko

import rounds


class Server(paramiko.ServerInterface):
    def check_auth_none(self, username):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        threading.Timer(0.001, channel.shutdown_write).start()
        return True


if len(sys.argv) == 2:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    key = paramiko.RSAKey.generate(2048)
    while True:
        served = paramiko.Transport(listener.accept()[0])
        served.add_server_key(key)
        served.start_server(server=Server())
transport = paramiko.Transport(("127.0.0.1", int(sys.argv[1])))
transport.start_client()
transport.auth_none("x")


def run():
    channel = transport.open_session()
    channel.exec_command("command")
    assert channel.recv(1) == b""
    channel.close()


rounds.measure(run, int(sys.argv[2]))
transport.close()

# SPDX-License-Identifier: MIT
# paho: publishes to a topic that it has subscribed to, and waits until the message comes back and the handshake of the
# published one has ended. Usage: mqtt_echo.py PORT OPERATIONS QOS [nodelay]; paho gives access to the socket for nodelay.
import socket
import sys
import time

import paho.mqtt.client as mqtt

import rounds


def main(port, count, qos, nodelay):
    client = mqtt.Client(client_id="echo")
    state = {"subscribed": False, "came": 0, "sent": 0}

    def on_subscribe(*_):
        state["subscribed"] = True

    def on_message(_client, _userdata, message):
        assert message.payload == b"%d" % state["sent"], "another message"
        state["came"] += 1

    def until(done):
        deadline = time.monotonic() + 10
        while not done():
            assert client.loop(1) == mqtt.MQTT_ERR_SUCCESS, "the connection was lost"
            assert time.monotonic() < deadline, "no answer"

    def echo():
        state["sent"] += 1
        info = client.publish("echo", b"%d" % state["sent"], qos)
        until(lambda: state["came"] == state["sent"] and info.is_published())

    def on_socket_open(_client, _userdata, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    if nodelay:
        client.on_socket_open = on_socket_open
    client.on_subscribe = on_subscribe
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.subscribe("echo", qos)
    until(lambda: state["subscribed"])
    rounds.measure(echo, count)


main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "nodelay" in sys.argv[4:])

# SPDX-License-Identifier: MIT
# Publishes a message and gets it back. Usage: rabbitpy_publish.py PORT OPERATIONS
import sys

import rabbitpy

import rounds

with rabbitpy.Connection("amqp://guest:guest@127.0.0.1:%s/%%2f" % sys.argv[1]) as connection:
    with connection.channel() as channel:
        queue = rabbitpy.Queue(channel, "museum", exclusive=True)
        queue.declare()

        def publish():
            rabbitpy.Message(channel, "text").publish("", "museum")
            message = None
            while not message:
                message = queue.get(False)

        rounds.measure(publish, int(sys.argv[2]))

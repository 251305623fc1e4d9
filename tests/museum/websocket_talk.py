# SPDX-License-Identifier: MIT
# Two messages, and then the answer to the second. Usage: websocket_talk.py PORT [OPERATIONS]
import asyncio
import sys

import rounds


async def serve(port):
    import websockets

    async def answer(connection):
        while True:
            await connection.recv()
            await connection.send(await connection.recv())

    async with websockets.serve(answer, "127.0.0.1", port):
        await asyncio.Future()


def ask(port, count):
    import websocket

    connection = websocket.create_connection("ws://127.0.0.1:%d/" % port)

    def talk():
        connection.send("head")
        connection.send("body")
        assert connection.recv() == "body"

    rounds.measure(talk, count)


if len(sys.argv) == 2:
    asyncio.run(serve(int(sys.argv[1])))
else:
    ask(int(sys.argv[1]), int(sys.argv[2]))

# SPDX-License-Identifier: MIT
# Sends messages with json.dump, which writes a piece for each name, value and bracket. A codec's writer, from the time
# before the text layer, sends each piece at once.
# Usage: talk.py PORT WARMUP COUNT
import codecs
import json
import socket
import sys
import time


def main(port, warmup, count):
    connection = socket.create_connection(("127.0.0.1", port))
    answers = connection.makefile("rb")
    out = codecs.getwriter("utf-8")(connection.makefile("wb", buffering=0))
    times = []
    for number in range(warmup + count):
        begun = time.monotonic()
        json.dump({"number": number, "symbol": "ACME", "price": 1000 + number % 9000,
                   "size": 100 + number % 900, "side": "sell" if number % 2 else "buy"}, out)
        out.write("\n")
        out.flush()
        assert answers.readline() == b"%d\n" % number, "another answer"
        times.append(time.monotonic() - begun)
    times = sorted(times[warmup:]) or [0]
    print("messages %d mean_us %.1f median_us %.1f stalls %d" % (
        count, sum(times) * 1e6 / len(times), times[len(times) // 2] * 1e6,
        sum(t > 0.020 for t in times)))


if len(sys.argv) != 4 or not all(word.isdecimal() for word in sys.argv[1:]):
    print("usage: talk.py PORT WARMUP COUNT", file=sys.stderr)
    sys.exit(2)
main(*map(int, sys.argv[1:]))

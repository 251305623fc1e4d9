# SPDX-License-Identifier: MIT
"""A client of the soak. Each line of its input is a turn: "RATE SECONDS". Prints requests, errors, and requests over 30 ms."""
import http.client
import sys
import time

connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=20)
for line in sys.stdin:
    rate, seconds = map(int, line.split())
    errors = slow = 0
    start = time.monotonic()
    for i in range(rate * seconds):
        time.sleep(max(0, start + i / rate - time.monotonic()))
        begin = time.monotonic()
        try:
            if i % 2:
                connection.request("POST", "/order", b"x" * 3000)
                good = connection.getresponse().read() == b"3000"
            else:
                connection.request("GET", f"/item/{i}")
                good = connection.getresponse().read() == b"%d:%s" % (i, b"x" * (i * 61 % 8000))
        except (OSError, http.client.HTTPException):
            connection.close()
            good = False
        errors += not good
        slow += time.monotonic() - begin > 0.03
    print(rate * seconds, errors, slow, flush=True)

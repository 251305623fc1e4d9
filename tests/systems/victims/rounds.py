# SPDX-License-Identifier: MIT
# Times operations and prints the line that the tests read. The first one opens the connection and is not
# counted.
import time

PAGE = b"x" * 400
STALL = 0.020
now = time.monotonic


def report(times):
    times = sorted(times)
    print("operations %d median_us %.1f max_us %.1f stalls %d" % (
        len(times), times[len(times) // 2] * 1e6, times[-1] * 1e6, sum(t > STALL for t in times)))


def measure(operation, count):
    operation()
    times = []
    for _ in range(count):
        begun = now()
        operation()
        times.append(now() - begun)
    report(times)

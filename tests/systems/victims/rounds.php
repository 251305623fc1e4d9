<?php
// SPDX-License-Identifier: MIT
// Times operations and prints the line that the tests read. The first one opens the connection and is not
// counted.
function measure(callable $operation, int $count): void
{
    $times = [];
    $operation();
    for ($i = 0; $i < $count; $i++) {
        $begun = hrtime(true);
        $operation();
        $times[] = (hrtime(true) - $begun) / 1000;
    }
    sort($times);
    $stalls = count(array_filter($times, fn ($time) => $time > 20000));
    printf("operations %d median_us %.1f max_us %.1f stalls %d\n", $count, $times[intdiv($count, 2)], end($times), $stalls);
}

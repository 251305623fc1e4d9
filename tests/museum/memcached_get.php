<?php
// SPDX-License-Identifier: MIT
// Asks for a key that does not exist, over the binary protocol. Usage: memcached_get.php PORT OPERATIONS
$memcached = new Memcached;
$memcached->setOptions([Memcached::OPT_BINARY_PROTOCOL => true, Memcached::OPT_TCP_NODELAY => false]);
$memcached->addServer('127.0.0.1', (int) $argv[1]);
$memcached->flush();
for ($i = 0; $i <= $argv[2]; $i++) {
    $begun = hrtime(true);
    $memcached->get('x');
    $times[] = (hrtime(true) - $begun) / 1e3;
}
array_shift($times);
sort($times);
printf("operations %d median_us %.1f max_us %.1f stalls %d\n", count($times), $times[count($times) >> 1], end($times),
    count(array_filter($times, fn($time) => $time > 20000)));

<?php
// SPDX-License-Identifier: MIT
// ext-sockets, which PHP opens with RTLD_DEEPBIND: a line in two writes, and the same line back in two writes.
// Usage: sockets.php server; sockets.php client PORT OPERATIONS
require __DIR__ . '/rounds.php';

function line_of($socket): ?string
{
    for ($line = ''; !str_ends_with($line, "\n"); $line .= $part) {
        $part = socket_read($socket, 64);
        if ($part === '' || $part === false) {
            return null;
        }
    }
    return $line;
}

function say($socket, string $line): void
{
    socket_write($socket, substr($line, 0, 8));
    socket_write($socket, substr($line, 8));
}

$socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
if ($argv[1] === 'server') {
    socket_bind($socket, '127.0.0.1', 0);
    socket_listen($socket);
    socket_getsockname($socket, $address, $port);
    echo "listening on port $port\n";
    while ($peer = socket_accept($socket)) {
        while (($line = line_of($peer)) !== null) {
            say($peer, $line);
        }
    }
}
socket_connect($socket, '127.0.0.1', (int) $argv[2]) || exit(1);
measure(function () use ($socket) {
    static $number = 0;
    $line = sprintf("message %06d\n", ++$number);
    say($socket, $line);
    line_of($socket) === $line || exit(1);
}, (int) $argv[3]);
// The program has not set it.
exit(socket_get_option($socket, SOL_TCP, TCP_NODELAY));

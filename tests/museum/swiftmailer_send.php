<?php
// SPDX-License-Identifier: MIT
// Sends messages over one connection to an SMTP server. Usage: swiftmailer_send.php PORT OPERATIONS
require 'Swift/autoload.php';

$mailer = new Swift_Mailer(new Swift_SmtpTransport('127.0.0.1', (int) $argv[1]));
$message = (new Swift_Message('x', 'text'))->setFrom('a@example.org')->setTo('b@example.org');
$mailer->send($message);
for ($i = 0; $i < $argv[2]; $i++) {
    $begun = hrtime(true);
    $mailer->send($message);
    $times[] = (hrtime(true) - $begun) / 1e3;
}
sort($times);
printf("operations %d median_us %.1f max_us %.1f stalls %d\n", $i, $times[$i >> 1], end($times),
    count(array_filter($times, fn($time) => $time > 20000)));

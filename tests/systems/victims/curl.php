<?php
// SPDX-License-Identifier: MIT
// ext-curl, which PHP opens with RTLD_DEEPBIND, with libcurl. Usage: curl.php PORT OPERATIONS
require __DIR__ . '/rounds.php';

$curl = curl_init("http://127.0.0.1:$argv[1]/");
curl_setopt_array($curl, [CURLOPT_POSTFIELDS => str_repeat('x', 400), CURLOPT_RETURNTRANSFER => true]);
measure(fn () => curl_exec($curl) || exit(1), (int) $argv[2]);

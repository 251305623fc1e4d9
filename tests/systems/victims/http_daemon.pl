# SPDX-License-Identifier: MIT
# Answers a POST with 201 by libwww-perl's own server. Usage: http_daemon.pl
use strict;
use warnings;
use HTTP::Daemon;
use HTTP::Response;

my $daemon = HTTP::Daemon->new(LocalAddr => '127.0.0.1') or die "cannot listen: $!";
$| = 1;
printf "listening on port %d\n", $daemon->sockport;
while (my $client = $daemon->accept) {
    while ($client->get_request) {
        $client->send_response(
            HTTP::Response->new(201, 'Created', ['Content-Length' => 7], "stored\n"));
    }
    $client->close;
}

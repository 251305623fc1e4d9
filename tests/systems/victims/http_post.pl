# SPDX-License-Identifier: MIT
# Posts messages to examples/queue_server over one kept connection with Perl's own client, which writes the
# head and the body in two pieces. Usage: http_post.pl PORT OPERATIONS [nodelay]
use strict;
use warnings;
use HTTP::Tiny;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# The pattern that the server expects of message N: fill_pattern of examples/common.h.
sub message {
    my ($number) = @_;
    my $state = ($number * 2654435761 + 1) & 0xffffffff;
    my $text = '';
    for (1 .. 480) {
        $state = ($state * 1664525 + 1013904223) & 0xffffffff;
        $text .= chr(97 + ($state >> 16) % 26);
    }
    return $text;
}

my ($port, $count, $nodelay) = @ARGV;
my $http = HTTP::Tiny->new(keep_alive => 1);

sub post {
    my ($number) = @_;
    my $content = message($number);
    my $begun = clock_gettime(CLOCK_MONOTONIC);
    my $answer = $http->request('POST', "http://127.0.0.1:$port/queue/$number",
        {content => $content});
    die "$answer->{status} $answer->{content}" unless $answer->{status} == 201;
    return clock_gettime(CLOCK_MONOTONIC) - $begun;
}

# The first opens the connection and is not counted.
post(0);
# It has no option for that: the cure goes into what it keeps.
if ($nodelay) {
    setsockopt($http->{handle}{fh}, IPPROTO_TCP, TCP_NODELAY, 1) or die "TCP_NODELAY: $!";
}
my @times = sort { $a <=> $b } map { post($_) } 1 .. $count;
printf "operations %d median_us %.1f max_us %.1f stalls %d\n", $count, 1e6 * $times[$count / 2],
    1e6 * $times[-1], scalar grep { $_ > 0.020 } @times;

# SPDX-License-Identifier: MIT
# Posts messages over one persistent connection with Perl's own client, which writes head and body in two pieces.
# Usage: http_post.pl PORT OPERATIONS
use strict;
use warnings;
use HTTP::Tiny;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($port, $count) = @ARGV;
my $http = HTTP::Tiny->new(keep_alive => 1);

sub post {
    my $begun = clock_gettime(CLOCK_MONOTONIC);
    my $answer = $http->request('POST', "http://127.0.0.1:$port/queue", {content => 'x' x 480});
    die "$answer->{status} $answer->{content}" unless $answer->{status} == 201;
    return clock_gettime(CLOCK_MONOTONIC) - $begun;
}

# The first opens the connection and is not counted.
post();
my @times = sort { $a <=> $b } map { post() } 1 .. $count;
printf "operations %d median_us %.1f max_us %.1f stalls %d\n", $count, 1e6 * $times[$count / 2],
    1e6 * $times[-1], scalar grep { $_ > 0.020 } @times;

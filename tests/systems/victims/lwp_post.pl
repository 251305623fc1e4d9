# SPDX-License-Identifier: MIT
# POSTs over one kept connection with libwww-perl. Usage: lwp_post.pl PORT OPERATIONS
use strict;
use warnings;
use LWP::UserAgent;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($port, $count) = @ARGV;
my $agent = LWP::UserAgent->new(keep_alive => 1);

sub post {
    my $begun = clock_gettime(CLOCK_MONOTONIC);
    my $answer = $agent->post("http://127.0.0.1:$port/queue", Content => 'x' x 400);
    die $answer->status_line unless $answer->code == 201;
    return clock_gettime(CLOCK_MONOTONIC) - $begun;
}

# The first opens the connection and is not counted.
post();
my @times = sort { $a <=> $b } map { post() } 1 .. $count;
printf "operations %d median_us %.1f max_us %.1f stalls %d\n", $count, 1e6 * $times[$count / 2],
    1e6 * $times[-1], scalar grep { $_ > 0.020 } @times;

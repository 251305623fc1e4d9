# SPDX-License-Identifier: MIT
# A client of the soak: see client.py.
use strict;
use warnings;
use HTTP::Tiny;
use Time::HiRes qw(sleep time);

$| = 1;
my $http = HTTP::Tiny->new(timeout => 20);
while (my $line = <STDIN>) {
    my ($rate, $seconds) = split ' ', $line;
    my ($errors, $slow, $start) = (0, 0, time);
    for my $i (0 .. $rate * $seconds - 1) {
        my $wait = $start + $i / $rate - time;
        sleep $wait if $wait > 0;
        my $begin = time;
        my ($answer, $want);
        if ($i % 2) {
            $answer = $http->post('http://127.0.0.1:8080/order', { content => 'x' x 3000 });
            $want = '3000';
        } else {
            $answer = $http->get("http://127.0.0.1:8080/item/$i");
            $want = "$i:" . 'x' x ($i * 61 % 8000);
        }
        $errors++ if $answer->{status} != 200 || $answer->{content} ne $want;
        $slow++ if time - $begin > 0.03;
    }
    print $rate * $seconds, " $errors $slow\n";
}

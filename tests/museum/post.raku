# SPDX-License-Identifier: MIT
# Sends a head and a body, and reads the answer. Usage: post.raku PORT OPERATIONS
my $socket = IO::Socket::INET.new(:host<127.0.0.1>, :port(@*ARGS[0].Int));
my @times = (0 .. @*ARGS[1]).map({
    my $begun = now;
    $socket.print("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n");
    $socket.print("body");
    until $socket.recv.contains("body") {}
    ((now - $begun) * 1e6).Int
})[1 .. *].sort;
say "operations {+@times} median_us {@times[* div 2]} max_us {@times[*-1]} stalls {+@times.grep(* > 20_000)}";

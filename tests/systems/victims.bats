# SPDX-License-Identifier: MIT
# Promise: With the library, unmodified programs of other projects do not stall, and no new stall appears.
# Each test runs a row of victims.table without the library, and then with it, without a policy, on the server, on the client
# and on both. `make check-museum` runs more programs.

load ../helpers/common
load ../helpers/victims

@test "python3 -m http.server: each GET over a persistent connection stalls, and none with the library" {
    victim http.server stalls
}

@test "memcached: each get of pymemcache after a set with noreply stalls, and none with the library" {
    victim memcached stalls
}

@test "Ruby's Net::HTTP and WEBrick: each POST over a persistent connection stalls, and none with the library" {
    victim WEBrick stalls
}

@test "Puma: each POST of Perl's HTTP::Tiny in two writes stalls, and none with the library" {
    victim Puma stalls
}

@test "mosquitto and paho: no echo with QoS 1 stalls without the library, and none with it" {
    # As root it changes its user.
    [[ $EUID -ne 0 ]] || has_ptrace || ns_skip "CAP_SYS_PTRACE is missing"
    victim mosquitto flows
}

@test "haproxy between Perl's HTTP::Tiny and Python's http.server: each POST stalls, and none with the library on the proxy only" {
    victim haproxy stalls
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Made by tests/victims.gen heavy from tests/victims.table, where the programs are: change them there.
# Unmodified programs that nobody here wrote, without the shim and with it in either or both, under the
# built-in policy; and that nowhere in them runs a thread of the shim's. helpers/victims.bash runs them.

bats_require_minimum_version 1.5.0
load ../helpers/common
load ../helpers/threads
load ../helpers/victims

setup() {
    ns_setup
}

teardown() {
    ns_teardown
    victims_teardown
}

@test "heavy.bats is what victims.gen makes of victims.table" {
    diff "$BATS_TEST_FILENAME" <(tests/victims.gen heavy)
}

@test "axum: each POST of Perl's HTTP::Tiny in two writes stalls without the shim" {
    victim axum nowhere stalls
}

@test "axum: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the server alone" {
    victim axum server flows
}

@test "axum: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the client alone" {
    victim axum client flows
}

@test "axum: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on both ends" {
    victim axum both flows
}

@test "axum: no thread of the shim runs with a POST of Perl's HTTP::Tiny in two writes" {
    victim_threads axum both
}

@test "Python's http.server and a client in Go: each POST over a kept connection stalls without the shim" {
    victim Go-client nowhere stalls
}

@test "Python's http.server and a client in Go: no POST over a kept connection stalls with the shim on the server alone" {
    victim Go-client server flows
}

@test "Python's http.server and a client in Go: no thread of the shim runs with a POST over a kept connection" {
    victim_threads Go-client server
}

@test "Perl's HTTP::Tiny and a server in Go: each POST over a kept connection stalls without the shim" {
    victim Go-server nowhere stalls
}

@test "Perl's HTTP::Tiny and a server in Go: no POST over a kept connection stalls with the shim on the client alone" {
    victim Go-server client flows
}

@test "Perl's HTTP::Tiny and a server in Go: no thread of the shim runs with a POST over a kept connection" {
    victim_threads Go-server client
}

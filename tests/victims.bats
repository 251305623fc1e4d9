#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Unmodified programs that nobody here wrote, without the shim and with it in either or both, under the
# built-in policy. The first operation, which opens the connection, is not counted.

bats_require_minimum_version 1.5.0
load helpers/common
load helpers/victims

setup_file() {
    victims_setup_file
}

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

@test "python3 -m http.server: each GET over a kept connection stalls without the shim" {
    victim http.server nowhere stalls
}

@test "python3 -m http.server: no GET over a kept connection stalls with the shim on the server alone" {
    victim http.server server flows
}

@test "python3 -m http.server: no GET over a kept connection stalls with the shim on the client alone" {
    victim http.server client flows
}

@test "python3 -m http.server: no GET over a kept connection stalls with the shim on both ends" {
    victim http.server both flows
}

@test "memcached: each get after a set of pymemcache that asks for no answer stalls without the shim" {
    victim memcached nowhere stalls
}

@test "memcached: no get after a set of pymemcache that asks for no answer stalls with the shim on the server alone" {
    victim memcached server flows
}

@test "memcached: no get after a set of pymemcache that asks for no answer stalls with the shim on the client alone" {
    victim memcached client flows
}

@test "memcached: no get after a set of pymemcache that asks for no answer stalls with the shim on both ends" {
    victim memcached both flows
}

@test "Perl's HTTP::Tiny: each POST over a kept connection stalls without the shim" {
    victim HTTP::Tiny nowhere stalls
}

@test "Perl's HTTP::Tiny: no POST over a kept connection stalls with the shim on the server alone" {
    victim HTTP::Tiny server flows
}

@test "Perl's HTTP::Tiny: no POST over a kept connection stalls with the shim on the client alone" {
    victim HTTP::Tiny client flows
}

@test "Perl's HTTP::Tiny: no POST over a kept connection stalls with the shim on both ends" {
    victim HTTP::Tiny both flows
}

@test "OpenJDK's com.sun.net.httpserver: each GET over a kept connection stalls without the shim" {
    victim com.sun.net.httpserver nowhere stalls
}

@test "OpenJDK's com.sun.net.httpserver: no GET over a kept connection stalls with the shim on the server alone" {
    victim com.sun.net.httpserver server flows
}

@test "OpenJDK's com.sun.net.httpserver: no GET over a kept connection stalls with the shim on the client alone" {
    victim com.sun.net.httpserver client flows
}

@test "OpenJDK's com.sun.net.httpserver: no GET over a kept connection stalls with the shim on both ends" {
    victim com.sun.net.httpserver both flows
}

@test "mosquitto and paho: no echo with QoS 1 stalls without the shim" {
    victim mosquitto-1 nowhere flows
}

@test "mosquitto and paho: no echo with QoS 1 stalls with the shim on the broker alone" {
    victim mosquitto-1 server flows
}

@test "mosquitto and paho: no echo with QoS 1 stalls with the shim on the client alone" {
    victim mosquitto-1 client flows
}

@test "mosquitto and paho: no echo with QoS 1 stalls with the shim on both ends" {
    victim mosquitto-1 both flows
}

@test "mosquitto and paho: each echo with QoS 2 stalls without the shim" {
    victim mosquitto-2 nowhere stalls
}

@test "mosquitto and paho: no echo with QoS 2 stalls with the shim on the broker alone" {
    victim mosquitto-2 server flows
}

@test "mosquitto and paho: no echo with QoS 2 stalls with the shim on the client alone" {
    victim mosquitto-2 client flows
}

@test "mosquitto and paho: no echo with QoS 2 stalls with the shim on both ends" {
    victim mosquitto-2 both flows
}

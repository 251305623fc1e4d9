#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Made by tests/victims.gen from tests/victims.table, where the programs are: change them there.
# Unmodified programs that nobody here wrote, without the shim and with it in either or both, under the
# built-in policy; and that nowhere in them runs a thread of the shim's. helpers/victims.bash runs them.

bats_require_minimum_version 1.5.0
load helpers/common
load helpers/threads
load helpers/victims

setup() {
    ns_setup
}

teardown() {
    ns_teardown
    victims_teardown
}

@test "victims.bats is what victims.gen makes of victims.table" {
    diff "$BATS_TEST_FILENAME" <(tests/victims.gen)
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

@test "python3 -m http.server: no thread of the shim runs with a GET over a kept connection" {
    victim_threads http.server both
}

@test "Python's http.client and http.server: each POST over a kept connection stalls without the shim" {
    victim http.client nowhere stalls
}

@test "Python's http.client and http.server: no POST over a kept connection stalls with the shim on the server alone" {
    victim http.client server flows
}

@test "Python's http.client and http.server: no POST over a kept connection stalls with the shim on the client alone" {
    victim http.client client flows
}

@test "Python's http.client and http.server: no POST over a kept connection stalls with the shim on both ends" {
    victim http.client both flows
}

@test "Python's http.client and http.server: no thread of the shim runs with a POST over a kept connection" {
    victim_threads http.client both
}

@test "Python's multiprocessing.connection: each echo of 20 kB stalls without the shim" {
    victim pickles nowhere stalls
}

@test "Python's multiprocessing.connection: no echo of 20 kB stalls with the shim on the server alone" {
    victim pickles server flows
}

@test "Python's multiprocessing.connection: no echo of 20 kB stalls with the shim on the client alone" {
    victim pickles client flows
}

@test "Python's multiprocessing.connection: no echo of 20 kB stalls with the shim on both ends" {
    victim pickles both flows
}

@test "Python's multiprocessing.connection: no thread of the shim runs with an echo of 20 kB" {
    victim_threads pickles both
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

@test "memcached: no thread of the shim runs with a get after a set of pymemcache that asks for no answer" {
    victim_threads memcached both
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

@test "Perl's HTTP::Tiny: no thread of the shim runs with a POST over a kept connection" {
    victim_threads HTTP::Tiny both
}

@test "Perl's LWP and HTTP::Daemon: each POST over a kept connection stalls without the shim" {
    victim HTTP::Daemon nowhere stalls
}

@test "Perl's LWP and HTTP::Daemon: no POST over a kept connection stalls with the shim on the server alone" {
    victim HTTP::Daemon server flows
}

@test "Perl's LWP and HTTP::Daemon: no POST over a kept connection stalls with the shim on the client alone" {
    victim HTTP::Daemon client flows
}

@test "Perl's LWP and HTTP::Daemon: no POST over a kept connection stalls with the shim on both ends" {
    victim HTTP::Daemon both flows
}

@test "Perl's LWP and HTTP::Daemon: no thread of the shim runs with a POST over a kept connection" {
    victim_threads HTTP::Daemon both
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

@test "OpenJDK's com.sun.net.httpserver: no thread of the shim runs with a GET over a kept connection" {
    victim_threads com.sun.net.httpserver both
}

@test "OpenJDK's HttpURLConnection and com.sun.net.httpserver: each POST over a kept connection stalls without the shim" {
    victim HttpURLConnection nowhere stalls
}

@test "OpenJDK's HttpURLConnection and com.sun.net.httpserver: no POST over a kept connection stalls with the shim on the server alone" {
    victim HttpURLConnection server flows
}

@test "OpenJDK's HttpURLConnection and com.sun.net.httpserver: no POST over a kept connection stalls with the shim on the client alone" {
    victim HttpURLConnection client flows
}

@test "OpenJDK's HttpURLConnection and com.sun.net.httpserver: no POST over a kept connection stalls with the shim on both ends" {
    victim HttpURLConnection both flows
}

@test "OpenJDK's HttpURLConnection and com.sun.net.httpserver: no thread of the shim runs with a POST over a kept connection" {
    victim_threads HttpURLConnection both
}

@test "Java's ObjectOutputStream on a socket: each list sent and read back stalls without the shim" {
    victim ObjectOutputStream nowhere stalls
}

@test "Java's ObjectOutputStream on a socket: no list sent and read back stalls with the shim on the server alone" {
    victim ObjectOutputStream server flows
}

@test "Java's ObjectOutputStream on a socket: no list sent and read back stalls with the shim on the client alone" {
    victim ObjectOutputStream client flows
}

@test "Java's ObjectOutputStream on a socket: no list sent and read back stalls with the shim on both ends" {
    victim ObjectOutputStream both flows
}

@test "Java's ObjectOutputStream on a socket: no thread of the shim runs with a list sent and read back" {
    victim_threads ObjectOutputStream both
}

@test "Ruby's Net::HTTP and WEBrick: each POST over a kept connection stalls without the shim" {
    victim WEBrick nowhere stalls
}

@test "Ruby's Net::HTTP and WEBrick: no POST over a kept connection stalls with the shim on the server alone" {
    victim WEBrick server flows
}

@test "Ruby's Net::HTTP and WEBrick: no POST over a kept connection stalls with the shim on the client alone" {
    victim WEBrick client flows
}

@test "Ruby's Net::HTTP and WEBrick: no POST over a kept connection stalls with the shim on both ends" {
    victim WEBrick both flows
}

@test "Ruby's Net::HTTP and WEBrick: no thread of the shim runs with a POST over a kept connection" {
    victim_threads WEBrick both
}

@test "Ruby's Net::HTTP and Puma: no POST over a kept connection stalls without the shim" {
    victim Puma nowhere flows
}

@test "Ruby's Net::HTTP and Puma: no POST over a kept connection stalls with the shim on the server alone" {
    victim Puma server flows
}

@test "Ruby's Net::HTTP and Puma: no POST over a kept connection stalls with the shim on the client alone" {
    victim Puma client flows
}

@test "Ruby's Net::HTTP and Puma: no POST over a kept connection stalls with the shim on both ends" {
    victim Puma both flows
}

@test "Ruby's Net::HTTP and Puma: no thread of the shim runs with a POST over a kept connection" {
    victim_threads Puma both
}

@test "Puma: each POST of Perl's HTTP::Tiny in two writes stalls without the shim" {
    victim Puma-two-writes nowhere stalls
}

@test "Puma: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the server alone" {
    victim Puma-two-writes server flows
}

@test "Puma: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the client alone" {
    victim Puma-two-writes client flows
}

@test "Puma: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on both ends" {
    victim Puma-two-writes both flows
}

@test "Puma: no thread of the shim runs with a POST of Perl's HTTP::Tiny in two writes" {
    victim_threads Puma-two-writes both
}

@test "gunicorn: each POST of Perl's HTTP::Tiny in two writes stalls without the shim" {
    victim gunicorn nowhere stalls
}

@test "gunicorn: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the server alone" {
    victim gunicorn server flows
}

@test "gunicorn: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the client alone" {
    victim gunicorn client flows
}

@test "gunicorn: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on both ends" {
    victim gunicorn both flows
}

@test "gunicorn: no thread of the shim runs with a POST of Perl's HTTP::Tiny in two writes" {
    victim_threads gunicorn both
}

@test "uvicorn: each POST of Perl's HTTP::Tiny in two writes stalls without the shim" {
    victim uvicorn nowhere stalls
}

@test "uvicorn: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the server alone" {
    victim uvicorn server flows
}

@test "uvicorn: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the client alone" {
    victim uvicorn client flows
}

@test "uvicorn: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on both ends" {
    victim uvicorn both flows
}

@test "uvicorn: no thread of the shim runs with a POST of Perl's HTTP::Tiny in two writes" {
    victim_threads uvicorn both
}

@test "Jetty: each POST of Perl's HTTP::Tiny in two writes stalls without the shim" {
    victim Jetty nowhere stalls
}

@test "Jetty: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the server alone" {
    victim Jetty server flows
}

@test "Jetty: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the client alone" {
    victim Jetty client flows
}

@test "Jetty: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on both ends" {
    victim Jetty both flows
}

@test "Jetty: no thread of the shim runs with a POST of Perl's HTTP::Tiny in two writes" {
    victim_threads Jetty both
}

@test "Netty: each POST of Perl's HTTP::Tiny in two writes stalls without the shim" {
    victim Netty nowhere stalls
}

@test "Netty: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the server alone" {
    victim Netty server flows
}

@test "Netty: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on the client alone" {
    victim Netty client flows
}

@test "Netty: no POST of Perl's HTTP::Tiny in two writes stalls with the shim on both ends" {
    victim Netty both flows
}

@test "Netty: no thread of the shim runs with a POST of Perl's HTTP::Tiny in two writes" {
    victim_threads Netty both
}

@test "Boost.Asio: each message whose length and text are two writes stalls without the shim" {
    victim Asio nowhere stalls
}

@test "Boost.Asio: no message whose length and text are two writes stalls with the shim on the server alone" {
    victim Asio server flows
}

@test "Boost.Asio: no message whose length and text are two writes stalls with the shim on the client alone" {
    victim Asio client flows
}

@test "Boost.Asio: no message whose length and text are two writes stalls with the shim on both ends" {
    victim Asio both flows
}

@test "Boost.Asio: no thread of the shim runs with a message whose length and text are two writes" {
    victim_threads Asio both
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

@test "mosquitto and paho: no thread of the shim runs with an echo with QoS 1" {
    victim_threads mosquitto-1 both
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

@test "mosquitto and paho: no thread of the shim runs with an echo with QoS 2" {
    victim_threads mosquitto-2 both
}

@test "Perl's HTTP::Tiny, haproxy and Python's http.server: each POST over a kept connection stalls without the shim" {
    victim haproxy nowhere stalls
}

@test "Perl's HTTP::Tiny, haproxy and Python's http.server: no POST over a kept connection stalls with the shim on the proxy alone" {
    victim haproxy proxy flows
}

@test "Perl's HTTP::Tiny, haproxy and Python's http.server: no thread of the shim runs with a POST over a kept connection" {
    victim_threads haproxy proxy
}

@test "Perl's HTTP::Tiny, socat and Python's http.server: each POST over a kept connection stalls without the shim" {
    victim socat nowhere stalls
}

@test "Perl's HTTP::Tiny, socat and Python's http.server: no POST over a kept connection stalls with the shim on the proxy alone" {
    victim socat proxy flows
}

@test "Perl's HTTP::Tiny, socat and Python's http.server: no thread of the shim runs with a POST over a kept connection" {
    victim_threads socat proxy
}

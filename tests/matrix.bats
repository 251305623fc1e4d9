#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Made by tests/matrix.gen from tests/matrix.table, where the expectations and their reasons are: change
# them there. helpers/matrix.bash runs a cell.

bats_require_minimum_version 1.5.0
load helpers/common
load helpers/matrix

setup_file() {
    matrix_setup_file
}

setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

@test "matrix.bats is what matrix.gen makes of matrix.table" {
    diff "$BATS_TEST_DIRNAME/matrix.bats" <("$BATS_TEST_DIRNAME/matrix.gen")
}

@test "redhat: without the shim, rounds stall, and each takes 2 segments" {
    cell redhat - - nowhere stalls 2
}

@test "redhat: with nodelay and before-wait on the writing end, no round stalls, and each takes 15 segments" {
    cell redhat nodelay before-wait writing flows 15
}

@test "redhat: with nodelay and before-wait on the other end, no round stalls" {
    cell redhat nodelay before-wait other flows -
}

@test "redhat: with nodelay and before-wait on both ends, no round stalls, and each takes 15 segments" {
    cell redhat nodelay before-wait both flows 15
}

@test "redhat: with nodelay and app on the writing end, no round stalls, and each takes 15 segments" {
    cell redhat nodelay app writing flows 15
}

@test "redhat: with nodelay and app on the other end, rounds stall, and each takes 2 segments" {
    cell redhat nodelay app other stalls 2
}

@test "redhat: with nodelay and app on both ends, no round stalls, and each takes 15 segments" {
    cell redhat nodelay app both flows 15
}

@test "redhat: with auto-cork and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell redhat auto-cork before-wait writing flows 1
}

@test "redhat: with auto-cork and before-wait on the other end, no round stalls" {
    cell redhat auto-cork before-wait other flows -
}

@test "redhat: with auto-cork and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell redhat auto-cork before-wait both flows 1
}

@test "redhat: with auto-cork and app on the writing end, no round stalls, and each takes 1 segment" {
    cell redhat auto-cork app writing flows 1
}

@test "redhat: with auto-cork and app on the other end, rounds stall, and each takes 2 segments" {
    cell redhat auto-cork app other stalls 2
}

@test "redhat: with auto-cork and app on both ends, no round stalls, and each takes 1 segment" {
    cell redhat auto-cork app both flows 1
}

@test "redhat: with adaptive and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell redhat adaptive before-wait writing flows 2
}

@test "redhat: with adaptive and before-wait on the other end, no round stalls" {
    cell redhat adaptive before-wait other flows -
}

@test "redhat: with adaptive and before-wait on both ends, no round stalls" {
    cell redhat adaptive before-wait both flows -
}

@test "redhat: with adaptive and app on the writing end, no round stalls, and each takes 2 segments" {
    cell redhat adaptive app writing flows 2
}

@test "redhat: with adaptive and app on the other end, rounds stall, and each takes 2 segments" {
    cell redhat adaptive app other stalls 2
}

@test "redhat: with adaptive and app on both ends, no round stalls, and each takes 2 segments" {
    cell redhat adaptive app both flows 2
}

@test "redhat: with flush-before-read and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell redhat flush-before-read before-wait writing flows 2
}

@test "redhat: with flush-before-read and before-wait on the other end, no round stalls" {
    cell redhat flush-before-read before-wait other flows -
}

@test "redhat: with flush-before-read and before-wait on both ends, no round stalls" {
    cell redhat flush-before-read before-wait both flows -
}

@test "redhat: with flush-before-read and app on the writing end, no round stalls, and each takes 2 segments" {
    cell redhat flush-before-read app writing flows 2
}

@test "redhat: with flush-before-read and app on the other end, rounds stall, and each takes 2 segments" {
    cell redhat flush-before-read app other stalls 2
}

@test "redhat: with flush-before-read and app on both ends, no round stalls, and each takes 2 segments" {
    cell redhat flush-before-read app both flows 2
}

@test "redhat: with app and before-wait on the writing end, rounds stall, and each takes 2 segments" {
    cell redhat app before-wait writing stalls 2
}

@test "redhat: with app and before-wait on the other end, no round stalls" {
    cell redhat app before-wait other flows -
}

@test "redhat: with app and before-wait on both ends, no round stalls" {
    cell redhat app before-wait both flows -
}

@test "redhat: with app and app on the writing end, rounds stall, and each takes 2 segments" {
    cell redhat app app writing stalls 2
}

@test "redhat: with app and app on the other end, rounds stall, and each takes 2 segments" {
    cell redhat app app other stalls 2
}

@test "redhat: with app and app on both ends, rounds stall, and each takes 2 segments" {
    cell redhat app app both stalls 2
}

@test "uneven: without the shim, rounds stall, and each takes 2 segments" {
    cell uneven - - nowhere stalls 2
}

@test "uneven: with nodelay and before-wait on the writing end, no round stalls" {
    cell uneven nodelay before-wait writing flows -
}

@test "uneven: with nodelay and before-wait on the other end, no round stalls" {
    cell uneven nodelay before-wait other flows -
}

@test "uneven: with nodelay and before-wait on both ends, no round stalls" {
    cell uneven nodelay before-wait both flows -
}

@test "uneven: with nodelay and app on the writing end, no round stalls" {
    cell uneven nodelay app writing flows -
}

@test "uneven: with nodelay and app on the other end, rounds stall, and each takes 2 segments" {
    cell uneven nodelay app other stalls 2
}

@test "uneven: with nodelay and app on both ends, no round stalls" {
    cell uneven nodelay app both flows -
}

@test "uneven: with auto-cork and before-wait on the writing end, no round stalls" {
    cell uneven auto-cork before-wait writing flows -
}

@test "uneven: with auto-cork and before-wait on the other end, no round stalls" {
    cell uneven auto-cork before-wait other flows -
}

@test "uneven: with auto-cork and before-wait on both ends, no round stalls" {
    cell uneven auto-cork before-wait both flows -
}

@test "uneven: with auto-cork and app on the writing end, no round stalls" {
    cell uneven auto-cork app writing flows -
}

@test "uneven: with auto-cork and app on the other end, rounds stall, and each takes 2 segments" {
    cell uneven auto-cork app other stalls 2
}

@test "uneven: with auto-cork and app on both ends, no round stalls" {
    cell uneven auto-cork app both flows -
}

@test "uneven: with adaptive and before-wait on the writing end, no round stalls" {
    cell uneven adaptive before-wait writing flows -
}

@test "uneven: with adaptive and before-wait on the other end, no round stalls" {
    cell uneven adaptive before-wait other flows -
}

@test "uneven: with adaptive and before-wait on both ends, no round stalls" {
    cell uneven adaptive before-wait both flows -
}

@test "uneven: with adaptive and app on the writing end, no round stalls" {
    cell uneven adaptive app writing flows -
}

@test "uneven: with adaptive and app on the other end, rounds stall, and each takes 2 segments" {
    cell uneven adaptive app other stalls 2
}

@test "uneven: with adaptive and app on both ends, no round stalls" {
    cell uneven adaptive app both flows -
}

@test "uneven: with flush-before-read and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell uneven flush-before-read before-wait writing flows 2
}

@test "uneven: with flush-before-read and before-wait on the other end, no round stalls" {
    cell uneven flush-before-read before-wait other flows -
}

@test "uneven: with flush-before-read and before-wait on both ends, no round stalls" {
    cell uneven flush-before-read before-wait both flows -
}

@test "uneven: with flush-before-read and app on the writing end, no round stalls, and each takes 2 segments" {
    cell uneven flush-before-read app writing flows 2
}

@test "uneven: with flush-before-read and app on the other end, rounds stall, and each takes 2 segments" {
    cell uneven flush-before-read app other stalls 2
}

@test "uneven: with flush-before-read and app on both ends, no round stalls, and each takes 2 segments" {
    cell uneven flush-before-read app both flows 2
}

@test "uneven: with app and before-wait on the writing end, rounds stall, and each takes 2 segments" {
    cell uneven app before-wait writing stalls 2
}

@test "uneven: with app and before-wait on the other end, no round stalls" {
    cell uneven app before-wait other flows -
}

@test "uneven: with app and before-wait on both ends, no round stalls" {
    cell uneven app before-wait both flows -
}

@test "uneven: with app and app on the writing end, rounds stall, and each takes 2 segments" {
    cell uneven app app writing stalls 2
}

@test "uneven: with app and app on the other end, rounds stall, and each takes 2 segments" {
    cell uneven app app other stalls 2
}

@test "uneven: with app and app on both ends, rounds stall, and each takes 2 segments" {
    cell uneven app app both stalls 2
}

@test "sendfile: without the shim, rounds stall, and each takes 2 segments" {
    cell sendfile - - nowhere stalls 2
}

@test "sendfile: with nodelay and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell sendfile nodelay before-wait writing flows 2
}

@test "sendfile: with nodelay and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell sendfile nodelay before-wait other flows 2
}

@test "sendfile: with nodelay and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile nodelay before-wait both flows 2
}

@test "sendfile: with nodelay and app on the writing end, no round stalls, and each takes 2 segments" {
    cell sendfile nodelay app writing flows 2
}

@test "sendfile: with nodelay and app on the other end, rounds stall, and each takes 2 segments" {
    cell sendfile nodelay app other stalls 2
}

@test "sendfile: with nodelay and app on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile nodelay app both flows 2
}

@test "sendfile: with auto-cork and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell sendfile auto-cork before-wait writing flows 1
}

@test "sendfile: with auto-cork and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell sendfile auto-cork before-wait other flows 2
}

@test "sendfile: with auto-cork and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell sendfile auto-cork before-wait both flows 1
}

@test "sendfile: with auto-cork and app on the writing end, no round stalls, and each takes 1 segment" {
    cell sendfile auto-cork app writing flows 1
}

@test "sendfile: with auto-cork and app on the other end, rounds stall, and each takes 2 segments" {
    cell sendfile auto-cork app other stalls 2
}

@test "sendfile: with auto-cork and app on both ends, no round stalls, and each takes 1 segment" {
    cell sendfile auto-cork app both flows 1
}

@test "sendfile: with adaptive and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell sendfile adaptive before-wait writing flows 2
}

@test "sendfile: with adaptive and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell sendfile adaptive before-wait other flows 2
}

@test "sendfile: with adaptive and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile adaptive before-wait both flows 2
}

@test "sendfile: with adaptive and app on the writing end, no round stalls, and each takes 2 segments" {
    cell sendfile adaptive app writing flows 2
}

@test "sendfile: with adaptive and app on the other end, rounds stall, and each takes 2 segments" {
    cell sendfile adaptive app other stalls 2
}

@test "sendfile: with adaptive and app on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile adaptive app both flows 2
}

@test "sendfile: with flush-before-read and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell sendfile flush-before-read before-wait writing flows 2
}

@test "sendfile: with flush-before-read and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell sendfile flush-before-read before-wait other flows 2
}

@test "sendfile: with flush-before-read and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile flush-before-read before-wait both flows 2
}

@test "sendfile: with flush-before-read and app on the writing end, no round stalls, and each takes 2 segments" {
    cell sendfile flush-before-read app writing flows 2
}

@test "sendfile: with flush-before-read and app on the other end, rounds stall, and each takes 2 segments" {
    cell sendfile flush-before-read app other stalls 2
}

@test "sendfile: with flush-before-read and app on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile flush-before-read app both flows 2
}

@test "sendfile: with app and before-wait on the writing end, rounds stall, and each takes 2 segments" {
    cell sendfile app before-wait writing stalls 2
}

@test "sendfile: with app and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell sendfile app before-wait other flows 2
}

@test "sendfile: with app and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell sendfile app before-wait both flows 2
}

@test "sendfile: with app and app on the writing end, rounds stall, and each takes 2 segments" {
    cell sendfile app app writing stalls 2
}

@test "sendfile: with app and app on the other end, rounds stall, and each takes 2 segments" {
    cell sendfile app app other stalls 2
}

@test "sendfile: with app and app on both ends, rounds stall, and each takes 2 segments" {
    cell sendfile app app both stalls 2
}

@test "record: without the shim, rounds stall, and each takes 1 segment" {
    cell record - - nowhere stalls 1
}

@test "record: with nodelay and before-wait on the writing end, no round stalls" {
    cell record nodelay before-wait writing flows -
}

@test "record: with nodelay and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell record nodelay before-wait other flows 1
}

@test "record: with nodelay and before-wait on both ends, no round stalls" {
    cell record nodelay before-wait both flows -
}

@test "record: with nodelay and app on the writing end, no round stalls" {
    cell record nodelay app writing flows -
}

@test "record: with nodelay and app on the other end, rounds stall, and each takes 1 segment" {
    cell record nodelay app other stalls 1
}

@test "record: with nodelay and app on both ends, no round stalls" {
    cell record nodelay app both flows -
}

@test "record: with auto-cork and before-wait on the writing end, no round stalls" {
    cell record auto-cork before-wait writing flows -
}

@test "record: with auto-cork and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell record auto-cork before-wait other flows 1
}

@test "record: with auto-cork and before-wait on both ends, no round stalls" {
    cell record auto-cork before-wait both flows -
}

@test "record: with auto-cork and app on the writing end, no round stalls" {
    cell record auto-cork app writing flows -
}

@test "record: with auto-cork and app on the other end, rounds stall, and each takes 1 segment" {
    cell record auto-cork app other stalls 1
}

@test "record: with auto-cork and app on both ends, no round stalls" {
    cell record auto-cork app both flows -
}

@test "record: with adaptive and before-wait on the writing end, no round stalls" {
    cell record adaptive before-wait writing flows -
}

@test "record: with adaptive and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell record adaptive before-wait other flows 1
}

@test "record: with adaptive and before-wait on both ends, no round stalls" {
    cell record adaptive before-wait both flows -
}

@test "record: with adaptive and app on the writing end, no round stalls" {
    cell record adaptive app writing flows -
}

@test "record: with adaptive and app on the other end, rounds stall, and each takes 1 segment" {
    cell record adaptive app other stalls 1
}

@test "record: with adaptive and app on both ends, no round stalls" {
    cell record adaptive app both flows -
}

@test "record: with flush-before-read and before-wait on the writing end, no round stalls" {
    cell record flush-before-read before-wait writing flows -
}

@test "record: with flush-before-read and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell record flush-before-read before-wait other flows 1
}

@test "record: with flush-before-read and before-wait on both ends, no round stalls" {
    cell record flush-before-read before-wait both flows -
}

@test "record: with flush-before-read and app on the writing end, no round stalls" {
    cell record flush-before-read app writing flows -
}

@test "record: with flush-before-read and app on the other end, rounds stall, and each takes 1 segment" {
    cell record flush-before-read app other stalls 1
}

@test "record: with flush-before-read and app on both ends, no round stalls" {
    cell record flush-before-read app both flows -
}

@test "record: with app and before-wait on the writing end, no round stalls" {
    cell record app before-wait writing flows -
}

@test "record: with app and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell record app before-wait other flows 1
}

@test "record: with app and before-wait on both ends, no round stalls" {
    cell record app before-wait both flows -
}

@test "record: with app and app on the writing end, no round stalls" {
    cell record app app writing flows -
}

@test "record: with app and app on the other end, rounds stall, and each takes 1 segment" {
    cell record app app other stalls 1
}

@test "record: with app and app on both ends, no round stalls" {
    cell record app app both flows -
}

@test "record-paced: without the shim, rounds stall" {
    cell record-paced - - nowhere stalls -
}

@test "record-paced: with nodelay and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell record-paced nodelay before-wait writing flows 1
}

@test "record-paced: with nodelay and before-wait on the other end, no round stalls" {
    cell record-paced nodelay before-wait other flows -
}

@test "record-paced: with nodelay and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell record-paced nodelay before-wait both flows 1
}

@test "record-paced: with nodelay and app on the writing end, no round stalls, and each takes 1 segment" {
    cell record-paced nodelay app writing flows 1
}

@test "record-paced: with nodelay and app on the other end, rounds stall" {
    cell record-paced nodelay app other stalls -
}

@test "record-paced: with nodelay and app on both ends, no round stalls, and each takes 1 segment" {
    cell record-paced nodelay app both flows 1
}

@test "record-paced: with auto-cork and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell record-paced auto-cork before-wait writing flows 1
}

@test "record-paced: with auto-cork and before-wait on the other end, no round stalls" {
    cell record-paced auto-cork before-wait other flows -
}

@test "record-paced: with auto-cork and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell record-paced auto-cork before-wait both flows 1
}

@test "record-paced: with auto-cork and app on the writing end, no round stalls, and each takes 1 segment" {
    cell record-paced auto-cork app writing flows 1
}

@test "record-paced: with auto-cork and app on the other end, rounds stall" {
    cell record-paced auto-cork app other stalls -
}

@test "record-paced: with auto-cork and app on both ends, no round stalls, and each takes 1 segment" {
    cell record-paced auto-cork app both flows 1
}

@test "record-paced: with flush-before-read and before-wait on the writing end, no round stalls" {
    cell record-paced flush-before-read before-wait writing flows -
}

@test "record-paced: with flush-before-read and before-wait on the other end, no round stalls" {
    cell record-paced flush-before-read before-wait other flows -
}

@test "record-paced: with flush-before-read and before-wait on both ends, no round stalls" {
    cell record-paced flush-before-read before-wait both flows -
}

@test "record-paced: with flush-before-read and app on the writing end, no round stalls" {
    cell record-paced flush-before-read app writing flows -
}

@test "record-paced: with flush-before-read and app on the other end, rounds stall" {
    cell record-paced flush-before-read app other stalls -
}

@test "record-paced: with flush-before-read and app on both ends, no round stalls" {
    cell record-paced flush-before-read app both flows -
}

@test "record-paced: with app and before-wait on the writing end, rounds stall" {
    cell record-paced app before-wait writing stalls -
}

@test "record-paced: with app and before-wait on the other end, no round stalls" {
    cell record-paced app before-wait other flows -
}

@test "record-paced: with app and before-wait on both ends, no round stalls" {
    cell record-paced app before-wait both flows -
}

@test "record-paced: with app and app on the writing end, rounds stall" {
    cell record-paced app app writing stalls -
}

@test "record-paced: with app and app on the other end, rounds stall" {
    cell record-paced app app other stalls -
}

@test "record-paced: with app and app on both ends, rounds stall" {
    cell record-paced app app both stalls -
}

@test "quote: without the shim, rounds stall, and each takes 1 segment" {
    cell quote - - nowhere stalls 1
}

@test "quote: with nodelay and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell quote nodelay before-wait writing flows 1
}

@test "quote: with nodelay and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell quote nodelay before-wait other flows 1
}

@test "quote: with nodelay and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell quote nodelay before-wait both flows 1
}

@test "quote: with nodelay and app on the writing end, rounds stall, and each takes 1 segment" {
    cell quote nodelay app writing stalls 1
}

@test "quote: with nodelay and app on the other end, rounds stall, and each takes 1 segment" {
    cell quote nodelay app other stalls 1
}

@test "quote: with nodelay and app on both ends, no round stalls, and each takes 1 segment" {
    cell quote nodelay app both flows 1
}

@test "quote: with auto-cork and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell quote auto-cork before-wait writing flows 1
}

@test "quote: with auto-cork and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell quote auto-cork before-wait other flows 1
}

@test "quote: with auto-cork and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell quote auto-cork before-wait both flows 1
}

@test "quote: with auto-cork and app on the writing end, rounds stall, and each takes 1 segment" {
    cell quote auto-cork app writing stalls 1
}

@test "quote: with auto-cork and app on the other end, rounds stall, and each takes 1 segment" {
    cell quote auto-cork app other stalls 1
}

@test "quote: with auto-cork and app on both ends, no round stalls, and each takes 1 segment" {
    cell quote auto-cork app both flows 1
}

@test "quote: with adaptive and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell quote adaptive before-wait writing flows 1
}

@test "quote: with adaptive and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell quote adaptive before-wait other flows 1
}

@test "quote: with adaptive and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell quote adaptive before-wait both flows 1
}

@test "quote: with adaptive and app on the writing end, rounds stall, and each takes 1 segment" {
    cell quote adaptive app writing stalls 1
}

@test "quote: with adaptive and app on the other end, rounds stall, and each takes 1 segment" {
    cell quote adaptive app other stalls 1
}

@test "quote: with adaptive and app on both ends, no round stalls, and each takes 1 segment" {
    cell quote adaptive app both flows 1
}

@test "quote: with flush-before-read and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell quote flush-before-read before-wait writing flows 1
}

@test "quote: with flush-before-read and before-wait on the other end, no round stalls, and each takes 1 segment" {
    cell quote flush-before-read before-wait other flows 1
}

@test "quote: with flush-before-read and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell quote flush-before-read before-wait both flows 1
}

@test "quote: with flush-before-read and app on the writing end, rounds stall, and each takes 1 segment" {
    cell quote flush-before-read app writing stalls 1
}

@test "quote: with flush-before-read and app on the other end, rounds stall, and each takes 1 segment" {
    cell quote flush-before-read app other stalls 1
}

@test "quote: with flush-before-read and app on both ends, no round stalls, and each takes 1 segment" {
    cell quote flush-before-read app both flows 1
}

@test "quote: with app and before-wait on the writing end, rounds stall, and each takes 1 segment" {
    cell quote app before-wait writing stalls 1
}

@test "quote: with app and before-wait on the other end, rounds stall, and each takes 1 segment" {
    cell quote app before-wait other stalls 1
}

@test "quote: with app and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell quote app before-wait both flows 1
}

@test "quote: with app and app on the writing end, rounds stall, and each takes 1 segment" {
    cell quote app app writing stalls 1
}

@test "quote: with app and app on the other end, rounds stall, and each takes 1 segment" {
    cell quote app app other stalls 1
}

@test "quote: with app and app on both ends, rounds stall, and each takes 1 segment" {
    cell quote app app both stalls 1
}

@test "java: without the shim, rounds stall" {
    cell java - - nowhere stalls -
}

@test "java: with nodelay and before-wait on the writing end, no round stalls" {
    cell java nodelay before-wait writing flows -
}

@test "java: with nodelay and before-wait on the other end, no round stalls" {
    cell java nodelay before-wait other flows -
}

@test "java: with nodelay and before-wait on both ends, no round stalls" {
    cell java nodelay before-wait both flows -
}

@test "java: with nodelay and app on the writing end, no round stalls" {
    cell java nodelay app writing flows -
}

@test "java: with nodelay and app on the other end, rounds stall" {
    cell java nodelay app other stalls -
}

@test "java: with nodelay and app on both ends, no round stalls" {
    cell java nodelay app both flows -
}

@test "java: with auto-cork and before-wait on the writing end, no round stalls" {
    cell java auto-cork before-wait writing flows -
}

@test "java: with auto-cork and before-wait on the other end, no round stalls" {
    cell java auto-cork before-wait other flows -
}

@test "java: with auto-cork and before-wait on both ends, no round stalls" {
    cell java auto-cork before-wait both flows -
}

@test "java: with auto-cork and app on the writing end, no round stalls" {
    cell java auto-cork app writing flows -
}

@test "java: with auto-cork and app on the other end, rounds stall" {
    cell java auto-cork app other stalls -
}

@test "java: with auto-cork and app on both ends, no round stalls" {
    cell java auto-cork app both flows -
}

@test "java: with adaptive and before-wait on the writing end, no round stalls" {
    cell java adaptive before-wait writing flows -
}

@test "java: with adaptive and before-wait on the other end, no round stalls" {
    cell java adaptive before-wait other flows -
}

@test "java: with adaptive and before-wait on both ends, no round stalls" {
    cell java adaptive before-wait both flows -
}

@test "java: with adaptive and app on the writing end, no round stalls" {
    cell java adaptive app writing flows -
}

@test "java: with adaptive and app on the other end, rounds stall" {
    cell java adaptive app other stalls -
}

@test "java: with adaptive and app on both ends, no round stalls" {
    cell java adaptive app both flows -
}

@test "java: with flush-before-read and before-wait on the writing end, no round stalls" {
    cell java flush-before-read before-wait writing flows -
}

@test "java: with flush-before-read and before-wait on the other end, no round stalls" {
    cell java flush-before-read before-wait other flows -
}

@test "java: with flush-before-read and before-wait on both ends, no round stalls" {
    cell java flush-before-read before-wait both flows -
}

@test "java: with flush-before-read and app on the writing end, no round stalls" {
    cell java flush-before-read app writing flows -
}

@test "java: with flush-before-read and app on the other end, rounds stall" {
    cell java flush-before-read app other stalls -
}

@test "java: with flush-before-read and app on both ends, no round stalls" {
    cell java flush-before-read app both flows -
}

@test "java: with app and before-wait on the writing end, rounds stall" {
    cell java app before-wait writing stalls -
}

@test "java: with app and before-wait on the other end, no round stalls" {
    cell java app before-wait other flows -
}

@test "java: with app and before-wait on both ends, no round stalls" {
    cell java app before-wait both flows -
}

@test "java: with app and app on the writing end, rounds stall" {
    cell java app app writing stalls -
}

@test "java: with app and app on the other end, rounds stall" {
    cell java app app other stalls -
}

@test "java: with app and app on both ends, rounds stall" {
    cell java app app both stalls -
}

@test "queue: without the shim, rounds stall, and each takes 2 segments" {
    cell queue - - nowhere stalls 2
}

@test "queue: with nodelay and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell queue nodelay before-wait writing flows 2
}

@test "queue: with nodelay and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell queue nodelay before-wait other flows 2
}

@test "queue: with nodelay and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell queue nodelay before-wait both flows 2
}

@test "queue: with nodelay and app on the writing end, no round stalls, and each takes 2 segments" {
    cell queue nodelay app writing flows 2
}

@test "queue: with nodelay and app on the other end, rounds stall, and each takes 2 segments" {
    cell queue nodelay app other stalls 2
}

@test "queue: with nodelay and app on both ends, no round stalls, and each takes 2 segments" {
    cell queue nodelay app both flows 2
}

@test "queue: with auto-cork and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell queue auto-cork before-wait writing flows 1
}

@test "queue: with auto-cork and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell queue auto-cork before-wait other flows 2
}

@test "queue: with auto-cork and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell queue auto-cork before-wait both flows 1
}

@test "queue: with auto-cork and app on the writing end, no round stalls, and each takes 1 segment" {
    cell queue auto-cork app writing flows 1
}

@test "queue: with auto-cork and app on the other end, rounds stall, and each takes 2 segments" {
    cell queue auto-cork app other stalls 2
}

@test "queue: with auto-cork and app on both ends, no round stalls, and each takes 1 segment" {
    cell queue auto-cork app both flows 1
}

@test "queue: with adaptive and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell queue adaptive before-wait writing flows 2
}

@test "queue: with adaptive and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell queue adaptive before-wait other flows 2
}

@test "queue: with adaptive and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell queue adaptive before-wait both flows 2
}

@test "queue: with adaptive and app on the writing end, no round stalls, and each takes 2 segments" {
    cell queue adaptive app writing flows 2
}

@test "queue: with adaptive and app on the other end, rounds stall, and each takes 2 segments" {
    cell queue adaptive app other stalls 2
}

@test "queue: with adaptive and app on both ends, no round stalls, and each takes 2 segments" {
    cell queue adaptive app both flows 2
}

@test "queue: with flush-before-read and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell queue flush-before-read before-wait writing flows 2
}

@test "queue: with flush-before-read and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell queue flush-before-read before-wait other flows 2
}

@test "queue: with flush-before-read and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell queue flush-before-read before-wait both flows 2
}

@test "queue: with flush-before-read and app on the writing end, no round stalls, and each takes 2 segments" {
    cell queue flush-before-read app writing flows 2
}

@test "queue: with flush-before-read and app on the other end, rounds stall, and each takes 2 segments" {
    cell queue flush-before-read app other stalls 2
}

@test "queue: with flush-before-read and app on both ends, no round stalls, and each takes 2 segments" {
    cell queue flush-before-read app both flows 2
}

@test "queue: with app and before-wait on the writing end, rounds stall, and each takes 2 segments" {
    cell queue app before-wait writing stalls 2
}

@test "queue: with app and before-wait on the other end, no round stalls, and each takes 2 segments" {
    cell queue app before-wait other flows 2
}

@test "queue: with app and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell queue app before-wait both flows 2
}

@test "queue: with app and app on the writing end, rounds stall, and each takes 2 segments" {
    cell queue app app writing stalls 2
}

@test "queue: with app and app on the other end, rounds stall, and each takes 2 segments" {
    cell queue app app other stalls 2
}

@test "queue: with app and app on both ends, rounds stall, and each takes 2 segments" {
    cell queue app app both stalls 2
}

@test "stdio: without the shim, rounds stall, and each takes 2 segments" {
    cell stdio - - nowhere stalls 2
}

@test "stdio: with nodelay and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell stdio nodelay before-wait writing flows 2
}

@test "stdio: with nodelay and before-wait on the other end, rounds are late, or stall on an older kernel, and each takes 2 segments" {
    cell stdio nodelay before-wait other late 2
}

@test "stdio: with nodelay and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell stdio nodelay before-wait both flows 2
}

@test "stdio: with nodelay and app on the writing end, no round stalls, and each takes 2 segments" {
    cell stdio nodelay app writing flows 2
}

@test "stdio: with nodelay and app on the other end, rounds stall, and each takes 2 segments" {
    cell stdio nodelay app other stalls 2
}

@test "stdio: with nodelay and app on both ends, no round stalls, and each takes 2 segments" {
    cell stdio nodelay app both flows 2
}

@test "stdio: with auto-cork and before-wait on the writing end, no round stalls, and each takes 1 segment" {
    cell stdio auto-cork before-wait writing flows 1
}

@test "stdio: with auto-cork and before-wait on the other end, rounds are late, or stall on an older kernel, and each takes 2 segments" {
    cell stdio auto-cork before-wait other late 2
}

@test "stdio: with auto-cork and before-wait on both ends, no round stalls, and each takes 1 segment" {
    cell stdio auto-cork before-wait both flows 1
}

@test "stdio: with auto-cork and app on the writing end, no round stalls, and each takes 1 segment" {
    cell stdio auto-cork app writing flows 1
}

@test "stdio: with auto-cork and app on the other end, rounds stall, and each takes 2 segments" {
    cell stdio auto-cork app other stalls 2
}

@test "stdio: with auto-cork and app on both ends, no round stalls, and each takes 1 segment" {
    cell stdio auto-cork app both flows 1
}

@test "stdio: with adaptive and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell stdio adaptive before-wait writing flows 2
}

@test "stdio: with adaptive and before-wait on the other end, rounds are late, or stall on an older kernel, and each takes 2 segments" {
    cell stdio adaptive before-wait other late 2
}

@test "stdio: with adaptive and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell stdio adaptive before-wait both flows 2
}

@test "stdio: with adaptive and app on the writing end, no round stalls, and each takes 2 segments" {
    cell stdio adaptive app writing flows 2
}

@test "stdio: with adaptive and app on the other end, rounds stall, and each takes 2 segments" {
    cell stdio adaptive app other stalls 2
}

@test "stdio: with adaptive and app on both ends, no round stalls, and each takes 2 segments" {
    cell stdio adaptive app both flows 2
}

@test "stdio: with flush-before-read and before-wait on the writing end, no round stalls, and each takes 2 segments" {
    cell stdio flush-before-read before-wait writing flows 2
}

@test "stdio: with flush-before-read and before-wait on the other end, rounds are late, or stall on an older kernel, and each takes 2 segments" {
    cell stdio flush-before-read before-wait other late 2
}

@test "stdio: with flush-before-read and before-wait on both ends, no round stalls, and each takes 2 segments" {
    cell stdio flush-before-read before-wait both flows 2
}

@test "stdio: with flush-before-read and app on the writing end, no round stalls, and each takes 2 segments" {
    cell stdio flush-before-read app writing flows 2
}

@test "stdio: with flush-before-read and app on the other end, rounds stall, and each takes 2 segments" {
    cell stdio flush-before-read app other stalls 2
}

@test "stdio: with flush-before-read and app on both ends, no round stalls, and each takes 2 segments" {
    cell stdio flush-before-read app both flows 2
}

@test "stdio: with app and before-wait on the writing end, rounds stall, and each takes 2 segments" {
    cell stdio app before-wait writing stalls 2
}

@test "stdio: with app and before-wait on the other end, rounds are late, or stall on an older kernel, and each takes 2 segments" {
    cell stdio app before-wait other late 2
}

@test "stdio: with app and before-wait on both ends, rounds are late, or stall on an older kernel, and each takes 2 segments" {
    cell stdio app before-wait both late 2
}

@test "stdio: with app and app on the writing end, rounds stall, and each takes 2 segments" {
    cell stdio app app writing stalls 2
}

@test "stdio: with app and app on the other end, rounds stall, and each takes 2 segments" {
    cell stdio app app other stalls 2
}

@test "stdio: with app and app on both ends, rounds stall, and each takes 2 segments" {
    cell stdio app app both stalls 2
}

@test "stdio-answer: without the shim, rounds stall" {
    cell stdio-answer - - nowhere stalls -
}

@test "stdio-answer: with nodelay and before-wait on the writing end, no round stalls" {
    cell stdio-answer nodelay before-wait writing flows -
}

@test "stdio-answer: with nodelay and before-wait on the other end, no round stalls" {
    cell stdio-answer nodelay before-wait other flows -
}

@test "stdio-answer: with nodelay and before-wait on both ends, no round stalls" {
    cell stdio-answer nodelay before-wait both flows -
}

@test "stdio-answer: with nodelay and app on the writing end, no round stalls" {
    cell stdio-answer nodelay app writing flows -
}

@test "stdio-answer: with nodelay and app on the other end, rounds stall" {
    cell stdio-answer nodelay app other stalls -
}

@test "stdio-answer: with nodelay and app on both ends, no round stalls" {
    cell stdio-answer nodelay app both flows -
}

@test "stdio-answer: with auto-cork and before-wait on the writing end, no round stalls" {
    cell stdio-answer auto-cork before-wait writing flows -
}

@test "stdio-answer: with auto-cork and before-wait on the other end, no round stalls" {
    cell stdio-answer auto-cork before-wait other flows -
}

@test "stdio-answer: with auto-cork and before-wait on both ends, no round stalls" {
    cell stdio-answer auto-cork before-wait both flows -
}

@test "stdio-answer: with auto-cork and app on the writing end, no round stalls" {
    cell stdio-answer auto-cork app writing flows -
}

@test "stdio-answer: with auto-cork and app on the other end, rounds stall" {
    cell stdio-answer auto-cork app other stalls -
}

@test "stdio-answer: with auto-cork and app on both ends, no round stalls" {
    cell stdio-answer auto-cork app both flows -
}

@test "stdio-answer: with flush-before-read and before-wait on the writing end, rounds stall" {
    cell stdio-answer flush-before-read before-wait writing stalls -
}

@test "stdio-answer: with flush-before-read and before-wait on the other end, no round stalls" {
    cell stdio-answer flush-before-read before-wait other flows -
}

@test "stdio-answer: with flush-before-read and before-wait on both ends, no round stalls" {
    cell stdio-answer flush-before-read before-wait both flows -
}

@test "stdio-answer: with flush-before-read and app on the writing end, rounds stall" {
    cell stdio-answer flush-before-read app writing stalls -
}

@test "stdio-answer: with flush-before-read and app on the other end, rounds stall" {
    cell stdio-answer flush-before-read app other stalls -
}

@test "stdio-answer: with flush-before-read and app on both ends, rounds stall" {
    cell stdio-answer flush-before-read app both stalls -
}

@test "stdio-answer: with app and before-wait on the writing end, rounds stall" {
    cell stdio-answer app before-wait writing stalls -
}

@test "stdio-answer: with app and before-wait on the other end, no round stalls" {
    cell stdio-answer app before-wait other flows -
}

@test "stdio-answer: with app and before-wait on both ends, no round stalls" {
    cell stdio-answer app before-wait both flows -
}

@test "stdio-answer: with app and app on the writing end, rounds stall" {
    cell stdio-answer app app writing stalls -
}

@test "stdio-answer: with app and app on the other end, rounds stall" {
    cell stdio-answer app app other stalls -
}

@test "stdio-answer: with app and app on both ends, rounds stall" {
    cell stdio-answer app app both stalls -
}

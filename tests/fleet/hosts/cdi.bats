#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: A container that asks podman for the device nagleshim.dev/shim does not stall, on glibc and on musl, with an unchanged image.
# shellcheck disable=SC2154 # bats sets $output, helpers/common.bash the rest

load ../../helpers/common

# On a busy machine a few of the 50 posts do not stall.
# devices KIND: runs that image without a device and with each device, and prints the number of stalled posts of each run.
devices() {
    # A mount namespace, because podman reads /etc/cdi and cannot use version 2 of control groups beside version 1.
    unshare --mount tests/fleet/hosts/devices "$1" 3>&-
}

@test "an image on glibc stalls, and does not with the device, also if it preloads its own library" {
    run -0 devices glibc
    [[ ${lines[0]} == 'none '@([34]?|50) && ${lines[1]} == 'default 0' && ${lines[2]} == 'log 0' && ${lines[3]} == 'keep-env 0' ]]
}

@test "the same for an image on musl, except keep-env, whose file musl does not read" {
    run -0 devices musl
    [[ ${lines[0]} == 'none '@([34]?|50) && ${lines[1]} == 'default 0' && ${lines[2]} == 'log 0' && ${lines[3]} == 'keep-env '@([34]?|50) ]]
}

# SPDX-License-Identifier: MIT
# Promise: A pod that the Kubernetes policy has changed runs with the image without a stall.
# `make check-fleet` compares this pod with the one that a real API server returns.

BATS_TEST_TIMEOUT=600 # it builds the image

load ../../helpers/command

@test "in the pod that the API server returned 50 posts do not stall, and without LD_PRELOAD they do" {
    [[ $EUID -eq 0 ]] || cannot_here 'podman needs root for this'
    run tests/fleet/play "$T/play" try
    [[ $status -eq 0 ]] || cannot_here "podman cannot start a container: $output"
    MACHINES=$(dpkg --print-architecture) config/image/build "$T/image"
    IMAGE_DIRECTORY=$T/image tests/fleet/play "$T/play" images glibc
    run -0 tests/fleet/play "$T/play" tests/fleet/returned.json
    expect_part output 'posts 50 stalled 0'
    jq 'del(.spec.containers[0].env)' tests/fleet/returned.json >"$T/without.json"
    run -0 tests/fleet/play "$T/play" "$T/without.json"
    # On a busy machine a delayed ACK may come before the second write.
    [[ ${output##*stalled } -ge 35 ]]
}

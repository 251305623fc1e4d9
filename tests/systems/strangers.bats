# SPDX-License-Identifier: MIT
# Promise: CPython's own tests of its socket module have the same results with the library as without it.
# Waits: many of those tests sleep.
# `make check-strangers` runs more suites, of more packages.

BATS_TEST_TIMEOUT=320
load ../helpers/common

setup() {
    ns_setup
    { [[ $EUID -eq 0 ]] && unshare --net --mount true; } 2>/dev/null || ns_skip 'needs root for namespaces of its own'
    compgen -G '/usr/lib/python3.*/test/test_socket.py' >/dev/null || ns_skip "CPython's own tests are not installed"
}

@test "CPython's tests of its socket module have the same results, and the library treats their sockets" {
    timeout -s KILL 300 tests/systems/strangers/run -o "$T/suites" -w 'without default' cpython/test_socket >"$T/table" ||
        wrong 'a run differs:' "$T/table"
    # Hundreds of tests pass. The library treats hundreds of sockets in one run and none in the other.
    awk '$1 == "cpython/test_socket" { gsub("/", " / "); passed = $4; none = $7; same = $8; sockets = $11 }
        END { exit !(passed > 500 && same == passed && none == 0 && sockets > 200) }' "$T/table" || wrong 'too few passed:' "$T/table"
}

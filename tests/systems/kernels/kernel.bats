# SPDX-License-Identifier: MIT
# Promise: On Linux 5.10 and newer the library uses the features of the kernel, works without missing ones, and scales to 100 000 sockets.
# Tests that need their own kernel, or differ between kernels. tests/systems/kernels/run runs them in a virtual machine,
# with the files that tests/systems/kernels/guest names. NS_KERNEL is the kernel that should run there.

BATS_TEST_TIMEOUT=600 # a processor that is emulated is slow
load ../../helpers/common
load ../../helpers/matrix

@test "the requested kernel runs" {
    [[ $(uname -r) == "$NS_KERNEL" && $NS_ISOLATED == 1 ]]
}

@test "the built-in policy on either end, or on both, cures the stall" {
    local where
    policy=''
    for where in writing other both; do
        flow redhat "$where" -
        flow queue "$where" -
    done
}

@test "options that this kernel lacks fail as without the library" {
    cat >"$T/options.py" <<'END_OF_PROGRAM'
import errno, socket

def say(what, call):
    try:
        print(what, call())
    except OSError as error:
        print(what, errno.errorcode[error.errno])

listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
for option in range(1, 64):
    # The results of TCP_INFO, TCP_TIMESTAMP and TCP_CC_INFO change with every call.
    if option not in (11, 24, 26):
        say(f"get {option}", lambda: near.getsockopt(socket.IPPROTO_TCP, option))
for value in (8000, 40000):
    say(f"set 46 to {value}", lambda: near.setsockopt(socket.IPPROTO_TCP, 46, value))
    say("get 46", lambda: near.getsockopt(socket.IPPROTO_TCP, 46))
END_OF_PROGRAM
    python3 "$T/options.py" >"$T/without"
    grep -c ENOPROTOOPT "$T/without"
    NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=$T/log LD_PRELOAD=$LIBRARY python3 "$T/options.py" >"$T/with"
    grep -qE 'sockets [1-9]' "$T/log"
    diff "$T/without" "$T/with"
}

has_kernel_tls() {
    modprobe -q tls || ns_skip 'this kernel was built without kTLS'
}

@test "kTLS records arrive complete and in time in every mode" {
    local send
    has_kernel_tls
    for send in nodelay auto-cork adaptive flush-before-read; do
        NAGLESHIM_POLICY="{\"version\": 1, \"rules\": [{\"send\": \"$send\", \"max_delay_us\": 100000}]}" \
            LIFE_LIMIT_MS=80 LD_PRELOAD=$LIBRARY timeout 20 "$PROBES/life" kernel-tls >"$T/out"
        cat "$T/out"
        run ! grep -q 'no kTLS here' "$T/out"
        [[ $(field late "$T/out") -eq 0 ]]
    done
}

@test "the test detects a record that stays open" {
    has_kernel_tls
    run ! env MISTAKE=hold LD_PRELOAD="$PROBES/mistakes.so" timeout 20 "$PROBES/life" kernel-tls
    [[ $output == *'did not arrive'* ]]
}

# confined [LINE]: runs a client that AppArmor confines, with the library in a directory of the system. Sets output.
confined() {
    printf '%s\n' 'abi <abi/3.0>,' 'include <tunables/global>' "profile confined $T/confined {" 'include <abstractions/base>' \
        'network inet stream,' "$T/** rw," "$@" '}' >"$T/profile"
    apparmor_parser --replace --skip-cache "$T/profile"
    "$EXAMPLES/tcp_nodelay_server" --connections 1 0 20 >"$T/server.out" &
    ns_wait_for "$T/server.out" port
    NAGLESHIM_POLICY_DIR=/etc/nagleshim NAGLESHIM_LOG=info LD_PRELOAD=libnagleshim.so run "$T/confined" --stats 127.0.0.1 "$(sed -nE '1s/.*port ([0-9]+).*/\1/p' "$T/server.out")" 20
    printf '%s\n' "$output"
}

@test "AppArmor: a profile with the abstraction base admits the library, and its policy needs one more line" {
    mount -t securityfs securityfs /sys/kernel/security 2>/dev/null || true
    [[ -e /sys/kernel/security/apparmor/profiles ]] || ns_skip 'this kernel has no AppArmor'
    cp "$EXAMPLES/tcp_nodelay_client" "$T/confined"
    cp "$LIBRARY" /usr/lib/x86_64-linux-gnu/libnagleshim.so
    mkdir -p /etc/nagleshim
    echo '{"version": 1, "rules": [{"name": "own", "match": {}, "send": "nodelay"}]}' >/etc/nagleshim/confined.json
    confined
    [[ $output == *'confined: disabled: /etc/nagleshim/confined.json: cannot be read: Permission denied'* ]]
    confined '/etc/nagleshim/** r,'
    [[ $output == *'1 TCP socket, rule own of /etc/nagleshim/confined.json'*'TCP_NODELAY set 1'* ]]
}

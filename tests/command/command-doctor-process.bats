# SPDX-License-Identifier: MIT
# Promise: `nagleshim doctor --pid` shows what the library does in a running process, or that this is unknown.

load ../helpers/doctor

setup() {
    ns_setup
    may_look
}

@test "doctor shows that the library works in a process, its policy and rules, and the number of sockets" {
    policy policies/queue_server '{"name": "none", "match": {"role": "client"}, "ack": "app"},
        {"name": "servers", "send": "auto-cork"}, {"match": {"process": "other"}}'
    server s
    "$EXAMPLES/queue_put" 127.0.0.1 "$port" 3 >"$T/put.out"
    doctor_of s
    expect_works s
    expect_whole stderr ""
    expect_part output "process: ${NS_PID[s]}, $(realpath "$EXAMPLES/queue_server")"
    expect_part output "library: $LIBRARY, version $(sed -n 's/^VERSION := //p' Makefile)"
    expect_part output "policy: $T/policies/queue_server.json, 3 rules"
    expect_part output 'rule 1 "none": send adaptive, ack app; used for 0 sockets'
    expect_part output 'rule 2 "servers": send auto-cork, ack before-wait; used for 2 sockets'
    expect_no_part output "rule 3"
    expect_part output "so far: sockets 2, left alone 0, "
    # Only the listener is left.
    expect_part output "TCP sockets: 1"
    expect_no_part output "warning: "
}

@test "doctor knows a policy given inline, and the built-in one" {
    examine p pause env LD_PRELOAD="$LIBRARY" NAGLESHIM_POLICY='{"version": 1, "rules": [{}]}'
    expect_works p
    expect_part output "policy: NAGLESHIM_POLICY, 1 rule"
    examine q pause env LD_PRELOAD="$LIBRARY"
    expect_works q
    expect_part output "policy: built in"
}

@test "doctor warns that the policy was changed after the process had read it" {
    policy policies/default '{}'
    examine p pause env LD_PRELOAD="$LIBRARY"
    expect_works p
    expect_no_part output "warning: "
    # Wait until the clock of file times has advanced.
    local end=$((SECONDS + 10))
    until policy policies/default '{"send": "app"}' && doctor_of p && [[ $output == *"warning: "* ]]; do
        ((SECONDS < end)) || break
    done
    expect_works p
    expect_part output "warning: $T/policies/default.json was changed after the process had read it: restart the process to use the new version"
    # A process that execs long after its fork has read the policy at the exec.
    ns_start q bash -c 'until [[ -e $1/go ]]; do sleep 0.01; done; LD_PRELOAD=$2 exec "$3" pause' bash \
        "$T" "$LIBRARY" "$PROBES/doctor_patient"
    ns_wait_for "/proc/${NS_PID[q]}/comm" bash
    until holds "$(cut -d ' ' -f 1 /proc/uptime) > $(awk '{ print $22 / 100 }' "/proc/${NS_PID[q]}/stat") + 0.1"; do
        sleep 0.01
    done
    policy policies/default '{"send": "app"}, {}'
    touch "$T/go"
    ns_wait_for "$T/q.out" '^ready '
    doctor_of q
    expect_works q
    expect_no_part output "warning: "
}

@test "doctor reads the library of a file that was replaced, removed or renamed since" {
    cp "$LIBRARY" "$T/another-name.so"
    examine p pause env LD_PRELOAD="$T/another-name.so"
    expect_works p
    expect_part output "library: $T/another-name.so, version "
    expect_part output "LD_PRELOAD: did not name it"
    cp "$LIBRARY" "$T/new.so"
    mv "$T/new.so" "$T/another-name.so"
    doctor_of p
    expect_works p
    expect_part output "warning: the library's file was replaced or removed"
    rm "$T/another-name.so"
    doctor_of p
    expect_works p
}

@test "doctor accepts the number of a thread" {
    patient p thread env LD_PRELOAD="$LIBRARY"
    doctor --pid "$number"
    expect_works p
    expect_part output "process: ${NS_PID[p]}, "
}

@test "doctor finds the library in a forked child, and not in one that was started without it" {
    ns_start p env LD_PRELOAD="$LIBRARY" bash -c 'while :; do read -rt 9; done < <(:) & echo "forked $!"
        exec 9< <(exec env -u LD_PRELOAD sleep 1000 </dev/null >/dev/null 2>&1 & echo $!); read -r other <&9
        echo "started $other"; wait'
    ns_wait_for "$T/p.out" '^started '
    also forked "$(sed -n 's/^forked //p' "$T/p.out")"
    also started "$(sed -n 's/^started //p' "$T/p.out")"
    doctor_of forked
    expect_works forked
    ns_wait_for "/proc/${NS_PID[started]}/comm" '^sleep$'
    doctor_of started
    expect_fails started "LD_PRELOAD was not set when it was started"
}

@test "doctor finds the library in a process of musl" {
    musl_loader
    gcc -o "$T/patient" tests/probes/doctor_patient.c -D_GNU_SOURCE -Wl,--dynamic-linker="$musl" -pthread
    patient=$T/patient examine p pause env LD_PRELOAD="$LIBRARY"
    expect_works p
    patient=$T/patient examine q pause
    expect_fails q "LD_PRELOAD was not set when it was started"
    expect_part output "loader: $musl (musl)"
}

@test "doctor does not claim to work if the library has seen none of the sockets in use" {
    # An inherited connection that is never used.
    server s
    exec 8<>"/dev/tcp/127.0.0.1/$port"
    examine r pause env LD_PRELOAD="$LIBRARY"
    expect 2 output has "TCP sockets: 1"
    expect_part output "warning: the library is loaded, but has seen none of its TCP sockets in use"
    expect_part output "verdict: it is unknown whether the library works in process"
    exec 8>&-
    examine t pause env LD_PRELOAD="$LIBRARY"
    expect_works t
    expect_no_part output "warning: "
}

@test "doctor of a zombie exits 2" {
    patient p zombie env LD_PRELOAD="$LIBRARY"
    doctor --pid "$number"
    expect 2 output is "" stderr is "nagleshim doctor: there is no process $number"
    doctor_of p
    expect_works p
}

@test "doctor never gives a wrong verdict about a process that ends meanwhile" {
    local pid ms works=0
    # The last ones live longer than the examination takes.
    for ms in {000..078..2}; do
        LD_PRELOAD=$LIBRARY sleep "0.$ms" 3>&- &
        pid=$!
        doctor --pid "$pid"
        case $status in
        0)
            expect_part output "verdict: the library works in process $pid"
            works=$((works + 1))
            ;;
        2) expect_whole stderr "nagleshim doctor: there is no process $pid" ;;
        *) unexpected ;;
        esac
        wait "$pid"
    done
    [[ $works -gt 0 ]]
}

@test "doctor exits 3 for another user's process, and for one that is not dumpable" {
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    cp "$NS" "$LIBRARY" "$PROBES/doctor_patient" "$T"
    let_others_in "$T"
    patient p pause env LD_PRELOAD="$T/libnagleshim.so"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" doctor --pid "${NS_PID[p]}"
    expect 3 stderr is "nagleshim doctor: process ${NS_PID[p]}: permission denied: run this command as root"
    patient=$T/doctor_patient patient q hidden "${as_other[@]}" env LD_PRELOAD="$T/libnagleshim.so"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" doctor --pid "${NS_PID[q]}"
    expect 3 stderr is "nagleshim doctor: process ${NS_PID[q]}: permission denied: run this command as root"
    doctor_of q
    if has_ptrace; then
        expect_works q
    else
        expect_denied q
    fi
    # Its own user may.
    [[ $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0) == 0 ]] || cannot_here "kernel.yama.ptrace_scope is not 0"
    patient=$T/doctor_patient patient r pause "${as_other[@]}" env LD_PRELOAD="$T/libnagleshim.so"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" doctor --pid "${NS_PID[r]}"
    expect_works r
}

# doctor_without_memory PID: runs doctor in a sandbox in which pread64 fails with EPERM, as under Yama.
doctor_without_memory() {
    run --separate-stderr python3 -c 'import ctypes, os, platform, struct, sys
number, large, half = {"x86_64": (17, 1, 4), "aarch64": (67, 1, 4), "i686": (180, 1 << 27, 0)}[platform.machine()]
code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 3, number)
# Only large offsets, which are addresses: ELF files are read with pread, too.
code += struct.pack("HBBI", 0x20, 0, 0, 16 + 8 * 3 + half) + struct.pack("HBBI", 0x35, 0, 1, large)
code += struct.pack("HBBI", 6, 0, 0, 0x50001) + struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
libc = ctypes.CDLL(None)
program = struct.pack("HP", len(code) // 8, ctypes.cast(code, ctypes.c_void_p).value)
libc.prctl(38, 1, 0, 0, 0) == 0 or sys.exit("no_new_privs")
libc.prctl(22, 2, program, 0, 0) == 0 or sys.exit("seccomp")
os.execv(sys.argv[1], sys.argv[1:])' "$NS" doctor --pid "$1"
}

@test "doctor reports that it may not read a process's memory" {
    patient p pause env LD_PRELOAD="$LIBRARY"
    doctor_without_memory "${NS_PID[p]}"
    expect 3 output has "library: $LIBRARY"
    expect_part output "warning: the status of its library cannot be read: Operation not permitted (see kernel.yama.ptrace_scope)"
    patient q pause
    doctor_without_memory "${NS_PID[q]}"
    expect_fails q "LD_PRELOAD was not set when it was started"
    expect_part output "warning: its memory cannot be read (see kernel.yama.ptrace_scope), or has too many files: the library was searched for by its name"
}

@test "doctor and explain exit 3 for a program that may be executed but not read" {
    local verb
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    cp "$NS" "$LIBRARY" "$T"
    program ordinary "$T/secret"
    chmod 0711 "$T/secret"
    let_others_in "$T"
    for verb in doctor explain; do
        run --separate-stderr "${as_other[@]}" "$T/nagleshim" "$verb" "$T/secret"
        expect 3 stderr is "nagleshim $verb: cannot read '$T/secret', which may only be executed: Permission denied"
    done
    mkdir -m 0700 "$T/closed"
    run --separate-stderr "${as_other[@]}" "$T/nagleshim" doctor "$T/closed/program"
    expect 3 stderr is "nagleshim doctor: '$T/closed/program': Permission denied"
}

@test "doctor exits 2 for a status section of another version, and for an overwritten one" {
    local kind
    for kind in older newer; do
        examine "$kind" pause env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS="$kind"
        expect_status 2
        # The name of another version cannot control the terminal.
        expect_part output "warning: the status of its library has a form that this command does not know; use the command of version 9.9?]0;x"
    done
    examine garbage pause env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=garbage
    expect 2 output has "warning: the status of its library has been overwritten"
}

@test "doctor survives invalid addresses in a status section, and prints no control characters" {
    examine p pause env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=rules
    expect_works p
    expect_part output "warning: the name of its policy cannot be read"
    expect_part output "warning: its rules cannot be read"
    examine q pause env LD_PRELOAD="$PROBES/doctor_status.so" NS_TEST_STATUS=escape
    expect_fails q 'the library is disabled: because?[31m of?this'
}

@test "doctor waits until a process that has just started is a second old" {
    local n begun
    for n in 1 2 3 4 5 6 7 8; do
        # It sleeps between fork and exec, and is a copy of a shell without the library until then.
        ns_start "p$n" bash -c "read -rt 0.$((n - 1)) <><(:); exec env LD_PRELOAD=$LIBRARY $PROBES/doctor_patient pause"
        doctor_of "p$n"
        expect_works "p$n"
    done
    # A process that has just executed another program has other memory than a moment ago.
    cat >"$T/chain" <<'SCRIPT'
(($1 > 0)) && exec bash "$0" "$(($1 - 1))" "$2"
exec "$2" pause
SCRIPT
    begun=${EPOCHREALTIME/./}
    LD_PRELOAD=$LIBRARY ns_start chain bash "$T/chain" 250 "$PROBES/doctor_patient"
    while ((${EPOCHREALTIME/./} < begun + 600000)); do
        doctor_of chain
        expect_works chain
    done
}

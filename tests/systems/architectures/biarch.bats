# SPDX-License-Identifier: MIT
# Promise: On a system that runs 32-bit programs beside 64-bit ones, both kinds are cured, and the command works with both.
# tests/systems/architectures/run builds the programs in build/i386, which run natively.

load ../../helpers/system

WIDE=/usr/lib/x86_64-linux-gnu NARROW=/usr/lib/i386-linux-gnu

setup() {
    system_setup
    PROGRAM=$PWD/build/i386/probes/report
    CLIENT=$PWD/build/i386/examples/tcp_nodelay_client
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
}

# Makes a system whose programs /bin/wide and /bin/narrow are those of both kinds, each with its library.
make_both() {
    rm "$R/usr/lib/libnagleshim.so"
    cp build/probes/report "$R/bin/wide"
    cp "$PROGRAM" "$R/bin/narrow"
    add_libraries "$R" build/probes/report
    # The program names this loader; others name the usual one.
    mkdir -p "$R/usr/i686-linux-gnu/lib" "$R/lib/i386-linux-gnu"
    cp -L /usr/i686-linux-gnu/lib/ld-linux.so.2 "$R/usr/i686-linux-gnu/lib"
    cp -L /usr/i686-linux-gnu/lib/ld-linux.so.2 "$R/lib"
    cp -L /usr/i686-linux-gnu/lib/libc.so.6 "$R/lib/i386-linux-gnu"
    put_library "$WIDE" build
    put_library "$NARROW" build/i386
    find "$R" -type d -exec chmod 0755 {} +
}

# put_library DIRECTORY BUILD: what make install-library does. It would link again, because its flags are others, and a library
# that is being linked is too short for the rows that run meanwhile.
put_library() {
    install -m 0644 -D -t "$R$1" "$2/libnagleshim.so" "$2/libnagleshim-observe.so"
}

# both_log PATTERN: the programs print nothing, and the log of each is one line, which matches.
both_log() {
    local program
    for program in wide narrow; do
        : >"$R/log"
        run --separate-stderr env NAGLESHIM_LOG=info NAGLESHIM_LOG_FILE=/log "${as_root[@]}" \
            chroot "$R" "/bin/$program" joins talks exit
        echo "$program: $stderr"
        cat "$R/log"
        [[ $status -eq 0 && -z $output$stderr && $(<"$R/log") =~ $1 ]]
    done
}

@test "one ld.so.preload gives programs of both kinds their library, and nothing is printed" {
    make_both
    both_log '^$'
    host enable --preload --library "$WIDE/libnagleshim.so"
    expect_status 0
    [[ $(<"$R/etc/ld.so.preload") == libnagleshim.so ]]
    both_log '^[^ ]* nagleshim\[[0-9]+\]: [a-z]+: 3 TCP sockets, .* bursts joined 10, '
    host status
    expect 0 output has "/etc/ld.so.preload: libnagleshim.so"
    # Without one of the libraries the name would make each program of its kind print an error.
    host disable --library "$NARROW/libnagleshim.so"
    expect 0 output has "no longer names"
    both_log '^$'
}

@test "enable warns if there is no library for 32-bit programs, and refuses one that their loader does not find" {
    make_both
    rm "$R$NARROW/libnagleshim.so"
    host enable --preload --library "$WIDE/libnagleshim.so"
    expect 0 stderr has "each will print an error: there is no libnagleshim.so for 32-bit programs: install the package libnagleshim:i386"
    grep -q "^/usr/lib/nagleshim/.*/libnagleshim.so$" "$R/etc/ld.so.preload"
    host disable
    put_library /usr/local/lib/other build/i386
    host enable --preload --library "$WIDE/libnagleshim.so"
    expect 2 stderr has "/usr/local/lib/other/libnagleshim.so is not the only file that its loader may find"
    [[ ! -e $R/etc/ld.so.preload ]]
    # A name that no loader finds is not good.
    rm "$R$WIDE/libnagleshim.so"
    echo libnagleshim.so >"$R/etc/ld.so.preload"
    host status
    expect 1 output has "is in no directory that the loader searches"
}

@test "run, doctor, diagnose and compare take the library of the program's kind" {
    run --separate-stderr "$NS" run --log info -- "$PROGRAM" joins talks exit
    [[ $status -eq 0 && $(wc -l <<<"$stderr") -eq 1 && $stderr == *" bursts joined 10, "* ]]
    doctor "$PROGRAM"
    expect 0 output has "library: $PWD/build/i386/libnagleshim.so"
    run --separate-stderr "$NS" diagnose -- "$PROGRAM" joins talks exit
    expect 0 stderr has ": proven"
    [[ $stderr$output != *'from outside only'* ]]
    run --separate-stderr "$NS" compare --runs 5 -- "$PROGRAM" joins talks exit
    expect 0 stderr has "faster with the library"
}

@test "without a library for 32-bit programs, run warns, diagnose looks from outside, and compare refuses" {
    mkdir "$T/bin"
    cp build/nagleshim build/*.so "$T/bin"
    run --separate-stderr "$T/bin/nagleshim" run -- "$PROGRAM"
    expect 0 stderr has "the library will not reach $PROGRAM: there is no libnagleshim.so for 32-bit programs"
    run --separate-stderr "$T/bin/nagleshim" compare -- "$PROGRAM" joins talks exit
    expect 2 stderr has "there is no libnagleshim.so for 32-bit programs"
    run --separate-stderr "$T/bin/nagleshim" diagnose -- "$PROGRAM" joins talks exit
    [[ $output$stderr == *'from outside only: there is no libnagleshim-observe.so for 32-bit programs'* ]]
}

@test "doctor reads the status of a 32-bit process, and cure ends its stalls" {
    local policy='NAGLESHIM_POLICY={"version": 1, "rules": [{"send": "app", "ack": "app"}]}'
    ns_serve server "$EXAMPLES/tcp_nodelay_server" 0 0
    ns_start client env LD_PRELOAD="$PWD/build/i386/libnagleshim.so" "$policy" "$CLIENT" 127.0.0.1 "$port" 20
    sleep 0.3
    doctor_of client
    expect_part output "rule 1: send app, ack app; used for 1 socket"
    ns_join client
    ns_join server
    ns_serve server "$EXAMPLES/tcp_nodelay_server" 0 0
    ns_start client "$CLIENT" --stats 127.0.0.1 "$port" 150
    sleep 0.3
    run --separate-stderr "$NS" cure --pid "${NS_PID[client]}"
    expect_status 0
    ns_join client
    holds "$(field stalls "$T/client.out") > 2 && $(field stalls "$T/client.out") < 100"
}

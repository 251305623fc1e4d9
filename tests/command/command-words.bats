# SPDX-License-Identifier: MIT
# Promise: One option and one word mean the same in every verb of the command.
# Waits: each verb watches for a second.
# shellcheck disable=SC2086 # $command, $selection and $words are several words

load ../helpers/command

teardown() {
    ns_teardown
    for _ in {1..200}; do
        [[ -n ${top-} && -e $top ]] || return 0
        find "$top" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.01
    done
}

# Starts a program with a connection of its own that sends a byte a hundred times per second: $one, and $two, which listens on $port.
two_programs() {
    local which
    for which in one two; do
        ns_start $which perl -MIO::Socket::INET -e '$| = 1; $l = IO::Socket::INET->new(Listen => 1) or die;
            $a = IO::Socket::INET->new("127.0.0.1:" . $l->sockport) or die; $b = $l->accept; print "listening on port ", $l->sockport, "\n";
            for (1 .. 3000) { syswrite $a, "x"; sysread $b, $_, 1; select undef, undef, undef, 0.01 }'
        ns_port $which
    done
    one=${NS_PID[one]} two=${NS_PID[two]}
}

@test "--pid may be given several times, in diagnose, top, doctor and cure" {
    local command
    has_ptrace || [[ $EUID -ne 0 ]] || cannot_here "CAP_SYS_PTRACE is missing"
    two_programs
    run --separate-stderr "$NS" diagnose --for 1 --json --pid "$one" --pid "$two" --pid "$one"
    jq -e --argjson pids "[$one, $two]" '[.rows[].process.pid] | unique == ($pids | sort)' <<<"$output"
    for command in "top --json" "doctor --json" "cure --json --dry-run"; do
        run --separate-stderr "$NS" $command --pid "$one" --pid "$two" --pid "$one"
        jq -e --argjson pids "[$one, $two]" '[.rows[]?.process.pid, .processes[]?.pid] | unique == ($pids | sort)' <<<"$output"
    done
    # The one that is not there is named, wherever it stands.
    for command in "diagnose --for 1" "top --once" "doctor" "cure --dry-run"; do
        run --separate-stderr "$NS" $command --pid "$one" --pid 4194304
        expect 2 stderr has "nagleshim ${command%% *}: there is no process 4194304"
        run --separate-stderr "$NS" $command --pid 4194304 --pid "$one"
        expect 2 stderr has "nagleshim ${command%% *}: there is no process 4194304"
    done
    # The control: each alone.
    run --separate-stderr "$NS" top --json --pid "$two"
    jq -e --argjson pid "$two" '[.rows[].process.pid] | unique == [$pid]' <<<"$output"
}

@test "diagnose, top and cure go on until the last process of --pid has ended" {
    has_ptrace || [[ $EUID -ne 0 ]] || cannot_here "CAP_SYS_PTRACE is missing"
    two_programs
    ns_start diagnose "$NS" diagnose --pid "$one" --pid "$two"
    ns_start top "$NS" top --interval 0.5 --pid "$one" --pid "$two"
    ns_start cure "$NS" cure --follow --pid "$one" --pid "$two"
    sleep 1
    ns_stop two
    sleep 1.5
    kill -0 "${NS_PID[diagnose]}" "${NS_PID[top]}" "${NS_PID[cure]}"
    ns_stop one
    timeout 10 tail -f /dev/null --pid "${NS_PID[diagnose]}"
    timeout 10 tail -f /dev/null --pid "${NS_PID[top]}"
    timeout 10 tail -f /dev/null --pid "${NS_PID[cure]}"
}

@test "--json prints the object, and --json=FILE writes the same one, in every verb" {
    local words
    policy p '{}' >/dev/null
    mkdir -p "$T/root/etc"
    while read -r words; do
        words=${words//DIR/$T}
        run --separate-stderr "$NS" ${words/JSON/--json}
        jq -S 'walk(if type == "object" then with_entries(select(.value | type != "number")) else . end)' <<<"$output" >"$T/printed"
        run --separate-stderr "$NS" ${words/JSON/--json=$T/o.json}
        expect "$status" output is ""
        jq -S 'walk(if type == "object" then with_entries(select(.value | type != "number")) else . end)' "$T/o.json" >"$T/written"
        [[ -s $T/written && $(stat -c %a "$T/o.json") == 600 ]]
        [[ $(command jq -r .command "$T/written") == "${words%% *}" ]]
        case $words in
        top* | compare* | diagnose*) ;; # what they measure differs
        *) diff "$T/printed" "$T/written" ;;
        esac
        rm "$T/o.json"
    done <<'CASES'
check JSON DIR/p.json
explain JSON --policy DIR/p.json cat
doctor JSON cat
diagnose JSON -- true
compare --runs 5 JSON -- true
top JSON --interval 0.5
CASES
    "$NS" host status --json | jq -e '.command == "host"'
    run --separate-stderr "$NS" check --json=/nowhere/o.json "$T/p.json"
    expect 2 output is "" stderr is "nagleshim check: cannot write '/nowhere/o.json': No such file or directory"
}

@test "a word after --json is the program, and no file" {
    run -127 --separate-stderr "$NS" diagnose --json "$T/o.json" -- true
    [[ ! -e $T/o.json ]]
    cp /bin/true "$T/o.json"
    run --separate-stderr "$NS" diagnose --json "$T/o.json"
    jq -e '.subject | endswith("/o.json")' <<<"$output"
    cmp /bin/true "$T/o.json"
}

@test "--unit, --cgroup and --port select processes in diagnose, top and doctor" {
    local command selection other escaped
    [[ $EUID -eq 0 ]] || cannot_here "only root can make a control group"
    top=$(findmnt -nfo TARGET -t cgroup2)/nagleshim-$$.slice
    group=$top/nagleshim-$$-words.slice/words-$$.service
    # systemd makes none there, but a user may.
    other=$top/theirs.scope/system.slice/words-$$.service
    escaped=$top/__words-$$.service
    mkdir -p "$group" "$other" "$escaped" 2>/dev/null || cannot_here "control groups cannot be made"
    two_programs
    echo "$one" >"$group/cgroup.procs"
    echo "$two" >"$other/cgroup.procs"
    for command in "diagnose --for 1 --json" "top --json --interval 0.5" "doctor --json"; do
        for selection in "--cgroup $group" "--unit ${group##*/}"; do
            run --separate-stderr "$NS" $command $selection
            jq -e --argjson one "$one" '[.rows[]?.process.pid, .processes[]?.pid] | unique == [$one]' <<<"$output"
        done
        # systemd puts an underscore before a name that begins with one, or is of a controller, as "io.service".
        echo "$one" >"$escaped/cgroup.procs"
        run --separate-stderr "$NS" $command --unit "_words-$$"
        jq -e --argjson one "$one" '[.rows[]?.process.pid, .processes[]?.pid] | unique == [$one]' <<<"$output"
        echo "$one" >"$group/cgroup.procs"
        for selection in "--cgroup $other" "--port $port"; do
            run --separate-stderr "$NS" $command $selection
            jq -e --argjson two "$two" '[.rows[]?.process.pid, .processes[]?.pid] | unique == [$two]' <<<"$output"
        done
        run --separate-stderr "$NS" $command --cgroup no-such-group
        expect 2 stderr is "nagleshim ${command%% *}: there is no control group 'no-such-group'"
        run --separate-stderr "$NS" $command --port 1
        expect 2 stderr is "nagleshim ${command%% *}: no TCP connection with port 1 was found"
    done
}

@test "processes of a group or with a port that end meanwhile end neither diagnose nor top nor doctor" {
    local command selection
    [[ $EUID -eq 0 ]] || cannot_here "only root can make a control group"
    top=$(findmnt -nfo TARGET -t cgroup2)/nagleshim-$$
    mkdir "$top" 2>/dev/null || cannot_here "control groups cannot be made"
    # There are always some that live for 20 ms and have a connection.
    ns_start brief sh -c 'echo $$ >"$0/cgroup.procs" && exec perl -MIO::Socket::INET -e "$1"' "$top" '$| = 1; $SIG{CHLD} = "IGNORE";
        $l = IO::Socket::INET->new(Listen => 64) or die; print "listening on port ", $l->sockport, "\n";
        for (;;) {
            if (!fork) { $c = IO::Socket::INET->new("127.0.0.1:" . $l->sockport); select undef, undef, undef, 0.02; exit }
            $a = $l->accept;
        }'
    ns_port brief
    for command in "diagnose --for 0.2" "top --once --interval 0.5" doctor; do
        for selection in "--cgroup $top" "--port $port"; do
            for _ in 1 2 3; do
                run --separate-stderr "$NS" $command $selection
                expect_no_part stderr 'there is no process'
            done
        done
    done
    # The only one ends while doctor waits until it has loaded its libraries.
    mkdir "$top/one"
    ns_start lone sh -c 'echo $$ >"$0/cgroup.procs" && echo ready && exec sleep 0.4' "$top/one"
    ns_wait_for "$T/lone.out" ready
    run --separate-stderr "$NS" doctor --cgroup "$top/one"
    expect_no_part stderr 'there is no process'
    # The control: the one that --pid names has to be there.
    run --separate-stderr "$NS" diagnose --for 0.2 --pid "${NS_PID[brief]}" --pid 4194304
    expect 2 stderr is "nagleshim diagnose: there is no process 4194304"
}

@test "without the rights to examine their process, diagnose, top and doctor find the sockets of --port" {
    local command
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    two_programs
    install -m 755 "$NS" "$T/nagleshim"
    chmod 755 "$T"
    for command in "diagnose --for 1" "top --once" doctor; do
        run --separate-stderr "${as_other[@]}" "$T/nagleshim" $command --port "$port"
        expect 3 output is "" stderr has ' could not be examined: ' stderr has ': run this command as root' \
            stderr has "nagleshim ${command%% *}: 2 sockets with port $port belong to no process that could be examined"
        # The control.
        run --separate-stderr "${as_other[@]}" "$T/nagleshim" $command --port 1
        expect 2 stderr is "nagleshim ${command%% *}: no TCP connection with port 1 was found"
    done
}

@test "the sockets of --port that are on their way between two processes are not called absent" {
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    ns_python
    ns_start sent "$python" -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 0))
ends = [socket.create_connection(listener.getsockname()), listener.accept()[0]]
pair = socket.socketpair()
socket.send_fds(pair[0], [b"x"], [end.fileno() for end in ends])
for end in ends: end.close()
print("listening on port", listener.getsockname()[1], flush=True)
time.sleep(60)'
    ns_port sent
    run --separate-stderr "$NS" diagnose --for 1 --port "$port"
    expect 2 output is "" stderr is "nagleshim diagnose: 2 sockets with port $port belong to no process that could be examined"
}

@test "a process that may not be examined is named, with the capability that is missing" {
    [[ $EUID -eq 0 ]] || cannot_here "only root can become another user"
    ns_start other setpriv --reuid 65533 --clear-groups perl -MSocket -e '$| = 1; socket(S, AF_INET, SOCK_STREAM, 0); listen(S, 1); print "ready\n"; sleep 60'
    ns_wait_for "$T/other.out" ready
    run --separate-stderr setpriv --bounding-set -all --inh-caps -all --reuid 65532 --clear-groups "$NS" diagnose --all --for 0.3
    [[ $stderr =~ could\ not\ be\ examined:\ (the\ last,|process)\ [0-9]+\ \(.+\):\ run\ this\ command\ as\ root ]] || unexpected
    # Root is not told to be root.
    run --separate-stderr setpriv --bounding-set=-sys_ptrace,-dac_override,-dac_read_search --inh-caps=-all "$NS" diagnose --all --for 0.3
    [[ $stderr =~ could\ not\ be\ examined:\ (the\ last,|process)\ [0-9]+\ \(.+\):\ this\ command\ lacks\ CAP_SYS_ ]] || unexpected
    run --separate-stderr setpriv --bounding-set=-sys_ptrace,-dac_override,-dac_read_search --inh-caps=-all \
        "$NS" diagnose --for 0.3 --pid "${NS_PID[other]}"
    expect 3 output is "" \
        stderr is "nagleshim diagnose: process ${NS_PID[other]}: permission denied: this command lacks CAP_SYS_PTRACE, or a security module protects it"
    # Another capability, or descriptors, are not called that one.
    unshare --net true 2>/dev/null || cannot_here "no network namespace can be made"
    ns_start far unshare --net perl -MSocket -e '$| = 1; socket(S, AF_INET, SOCK_STREAM, 0); listen(S, 1); print "ready\n"; sleep 60'
    ns_wait_for "$T/far.out" ready
    run --separate-stderr setpriv --bounding-set=-sys_admin --inh-caps=-all "$NS" diagnose --for 0.3 --pid "${NS_PID[far]}"
    expect 3 output is "" stderr is "nagleshim diagnose: process ${NS_PID[far]}: permission denied: this command lacks CAP_SYS_ADMIN, \
to enter its network, or CAP_SYS_PTRACE, or a security module protects it"
    run --separate-stderr prlimit --nofile=7:7 "$NS" diagnose --for 0.3 --pid "${NS_PID[far]}"
    expect 2 output is "" stderr is "nagleshim diagnose: cannot examine process ${NS_PID[far]}: Too many open files"
    # Nor is a limit of processes, without which the command would ask in that namespace.
    install -m 755 "$NS" "$T/nagleshim" # the tree may be in a directory that only root may enter
    let_others_in "$T"
    run --separate-stderr unshare --pid --fork --mount-proc --kill-child setpriv --bounding-set -all --inh-caps -all --reuid 65531 --regid 65531 \
        --clear-groups sh -c 'unshare --user --net sleep 60 & sleep 0.5; exec prlimit --nproc=1:1 "$0" diagnose --all --for 0.3' "$T/nagleshim"
    [[ $stderr =~ could\ not\ be\ examined:\ process\ [0-9]+\ \(sleep\):\ Resource\ temporarily\ unavailable ]] || unexpected
}

@test "a process of another user that /proc hides is not called absent" {
    local hide command hidden
    "${as_other[@]}" true 2>/dev/null || cannot_here "only root can be another user"
    unshare --mount mount -t proc proc /proc 2>/dev/null || cannot_here "/proc cannot be mounted"
    install -m 755 "$NS" "$T/nagleshim"
    chmod 755 "$T"
    for hide in 1 2; do
        for command in "diagnose --for 0.3" "top --once" doctor "cure --dry-run"; do
            # shellcheck disable=SC2206 # several words
            hidden=(unshare --mount bash -c "mount -t proc -o hidepid=$hide proc /proc && exec \"\$@\"" hidden
                "${as_other[@]}" "$T/nagleshim" $command --pid)
            run --separate-stderr "${hidden[@]}" $$
            expect 3 output is "" stderr is "nagleshim ${command%% *}: process $$: permission denied: run this command as root"
            # The control.
            run --separate-stderr "${hidden[@]}" 2147483647
            expect 2 output is "" stderr is "nagleshim ${command%% *}: there is no process 2147483647"
        done
    done
}

@test "what the command writes has no tabs" {
    printf '\xef\xbb\xbf{"version": 1, "rules": []}' >"$T/mark.json"
    run --separate-stderr "$NS" check --json "$T/mark.json"
    jq -e '.files[0].valid | not' <<<"$output"
    [[ $output != *$'\t'* ]]
}

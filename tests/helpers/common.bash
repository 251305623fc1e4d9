# SPDX-License-Identifier: MIT
# Functions for every test that starts programs: a clean environment, servers that end with the test and whose port is
# known, and the kernel's count of delayed ACKs. Ends only processes that it started.

bats_require_minimum_version 1.5.0
export -n NAGLESHIM_MUST_WORK # the command warns of it
. "${BASH_SOURCE[0]%/*}/retry.bash"

# Without the two programs that bats starts for the time, before and after each test.
get_mills_since_epoch() {
    local now=${EPOCHREALTIME/./}
    [[ -z ${1-} ]] || printf -v "$1" %d "$((now / 1000))"
    [[ -n ${1-} ]] || echo "$((now / 1000))"
}

# Skips a test that this machine or this user cannot run. With NAGLESHIM_MUST_WORK=1 this is a failure.
ns_skip() {
    if [[ ${NAGLESHIM_MUST_WORK:-} == 1 ]]; then
        echo "cannot be tested here: $1"
        return 1
    fi
    skip "$1"
}

ns_setup() {
    # bats notes each command before it runs, for the report of a failure. Only the report of a job that runs alone has the lines of
    # the helpers, too. This is here because bats sets its trap after it has read the helpers.
    [[ ${NS_BESIDE-} != 1 ]] || trap '[[ $BASH_SOURCE != "$BATS_TEST_SOURCE" ]] || bats_debug_trap "$BASH_SOURCE"' DEBUG
    T=$BATS_TEST_TMPDIR
    # NS_PROGRAMS: programs of another architecture (tests/systems/architectures).
    EXAMPLES=${NS_PROGRAMS:-$PWD/build}/examples
    PROBES=${NS_PROGRAMS:-$PWD/build}/probes
    # NS_LIBRARY names another build of the library, and libraries to load before it (tests/sanitized).
    LIBRARY=${NS_LIBRARY:-${NS_BUILD:-$(realpath build)}/libnagleshim.so}
    OBSERVER=${LIBRARY/libnagleshim.so/libnagleshim-observe.so}
    NS_STARTED=()
    declare -gA NS_PID=() NS_LAUNCHER=()
    NS=${NS_COMMAND:-$PWD/build/nagleshim} # another build of it (tests/sanitized)
    unset LD_PRELOAD NAGLESHIM_POLICY NAGLESHIM_OFF NAGLESHIM_LOG NAGLESHIM_LOG_FILE
    # The policies of this machine must not affect the tests.
    export NAGLESHIM_POLICY_DIR=$T/policies LC_ALL=C
    as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    umask 022 # the command warns about files that others may write to
    mkdir -p "$NAGLESHIM_POLICY_DIR"
}

ns_teardown() {
    local pid
    prefer_session "${NS_SESSION_NICE:-0}"
    for pid in "${NS_STARTED[@]}"; do
        # timeout makes a process group. A killed timeout does not end the program that it runs.
        kill -KILL -- "$pid" "-$pid" 2>/dev/null || true
    done
    # Without arguments, wait would also wait for the timer with which bats limits a test.
    [[ ${#NS_STARTED[@]} -eq 0 ]] || wait "${NS_STARTED[@]}" 2>/dev/null || true
}

# With NS_CC, tests compile their own programs for another architecture, too.
if [[ -n ${NS_CC-} ]]; then
    gcc() {
        local compiler
        read -ra compiler <<<"$NS_CC"
        "${compiler[@]}" "$@" || return
        [[ -n $NS_EMULATOR && " $* " =~ \ -o\ ([^ ]+)\  && " $* " != *' -shared '* && " $* " != *' -c '* ]] || return 0
        local program=${BASH_REMATCH[1]}
        mkdir -p "${program%/*}/foreign"
        mv "$program" "${program%/*}/foreign"
        ln -s "$NS_EMULATOR" "$program"
    }
fi

ns_needs_strace() {
    command -v strace >/dev/null || ns_skip "strace is not installed"
    strace -qq -o /dev/null true 2>/dev/null || ns_skip "strace may not trace here"
}

# Without CAP_SYS_PTRACE (bit 19), as in some containers, root may not examine other users' processes.
has_ptrace() {
    (((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 19) & 1))
}

# wrong TEXT [FILE]...: prints the text and the files, and fails.
wrong() {
    echo "$1"
    cat /dev/null "${@:2}" || true
    return 1
}

# A test file that needs more defines its own setup.
setup() {
    ns_setup
}

teardown() {
    ns_teardown
}

# ns_start NAME COMMAND...: starts it in the background; its output is in $T/NAME.out and $T/NAME.err.
ns_start() {
    local name=$1
    shift
    # The output of an earlier process of this name must not be read as that of the new one.
    : >"$T/$name.out"
    # bats waits for every process that has descriptor 3 open.
    "${timed[@]}" "$@" >"$T/$name.out" 2>"$T/$name.err" </dev/null 3>&- &
    NS_PID[$name]=$!
    NS_STARTED+=("$!")
    [[ ${#timed[@]} -eq 0 ]] || find_launched "$name" "$!"
}

# find_launched NAME LAUNCHER: the program's process is the child of probes/run_delay.
find_launched() {
    local launcher='' pid='' alive=1
    while :; do
        # An ended launcher may have written its line just before.
        kill -0 "$2" 2>/dev/null || alive=
        while read -r launcher pid && [[ $launcher != "$2" ]]; do :; done 2>/dev/null <"$times.pid" || true
        [[ $launcher != "$2" || -z $pid ]] || break
        [[ -n $alive ]] || return
        sleep 0.002
    done
    NS_PID[$1]=$pid
    NS_LAUNCHER[$pid]=$2
    NS_STARTED+=("$pid")
}

# ns_reap NAME: waits for it, and returns its exit status.
ns_reap() {
    wait "${NS_LAUNCHER[${NS_PID[$1]}]-${NS_PID[$1]}}"
}

# What bats runs at the end of a test's time. The last command that it has noted is the one that takes too long.
bats_timeout_trap() {
    BATS_TIMED_OUT=1 BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
    exit 1
}

# ns_until SECONDS WHAT COMMAND...: waits until the command succeeds.
ns_until() {
    local end=$((SECONDS + $1)) limit=$1 text="waited in vain for $2"
    shift 2
    until "$@"; do
        if ((SECONDS > end)); then
            more_time "$limit" "$text" || wrong "$text" || return
            end=$((SECONDS + limit)) limit=
        fi
        sleep 0.01
    done
}

# has_line FILE REGEX
has_line() {
    local line
    while IFS= read -r line || [[ -n $line ]]; do
        [[ ! $line =~ $2 ]] || return 0
    done 2>/dev/null <"$1"
    return 1
}

# ns_wait_for FILE REGEX [SECONDS]: waits until a line of FILE matches.
ns_wait_for() {
    [[ ${3-10} =~ ^[0-9]+$ ]] || wrong "not a number of seconds: $3" || return
    ns_until "${3:-10}" "a line of $1 that matches '$2'" has_line "$1" "$2" || wrong '' "$1"
}

# ns_port NAME: sets port to the port that a server has printed.
ns_port() {
    ns_wait_for "$T/$1.out" '[Ll]istening on port [0-9]+$|port [0-9]+ ' || wrong "it failed:" "$T/$1.err" || return
    read -r port <"$T/$1.out" || true
    [[ $port =~ .*port\ ([0-9]+) ]] && port=${BASH_REMATCH[1]} || port=''
}

# ns_serve NAME COMMAND...: starts a server that prints its port, and sets port.
ns_serve() {
    ns_start "$@"
    ns_port "$1"
}

# has_ended PID: the shell asks for the status of its own children at once.
has_ended() {
    [[ ! -e /proc/$1 ]]
}

# ns_join NAME [SECONDS]: waits until it has ended by itself, and returns its exit status.
ns_join() {
    ns_until "${2:-20}" "$1 to end" has_ended "${NS_PID[$1]}" || return
    ns_reap "$1"
}

# ns_stop NAME [SIGNAL]: ends it, and waits until it has ended.
ns_stop() {
    kill -"${2:-TERM}" "${NS_PID[$1]}"
    ns_until 20 "$1 to end" has_ended "${NS_PID[$1]}" || return
    ns_reap "$1" || true
}

# tcp_counter NAME: prints a TcpExt counter of this network namespace.
tcp_counter() {
    local names values earlier
    while read -r names && read -r values; do
        [[ $names != TcpExt:* ]] || break
    done </proc/net/netstat
    read -ra earlier <<<"${names%% "$1" *}"
    read -ra values <<<"$values"
    echo "${values[${#earlier[@]}]}"
}

# repeat N WORDS
repeat() {
    local i
    for ((i = 0; i < $1; i++)); do
        echo -n "$2 "
    done
}

# Prints the number of delayed ACKs sent so far.
ns_delayed_acks() {
    tcp_counter DelayedACKs
}

# ns_prompt: this test and its programs run before others, if that is permitted, so that answers come in time on a busy
# machine. With a real-time priority, a program that starts would keep those of other tests waiting for 100 ms. What computes for
# long must give it up (nice -n 20).
ns_prompt() {
    [[ ! -x $PROBES/prompt ]] || "$PROBES/prompt" -p "$BASHPID"
    prefer_session -20
}

# prefer_session NICE: the nice value of all processes of this job beside those of other sessions ("autogroup" in sched(7)).
prefer_session() {
    [[ ${NS_SESSION-} != 1 ]] || echo "$1" >/proc/self/autogroup || true
} 2>/dev/null

# field NAME FILE: prints the number after this word, from the last line of FILE that has it.
field() {
    local text
    read -rd '' text <"$2" || true
    [[ " $text" =~ .*[[:space:]]"$1"[[:blank:]]+([^[:space:]]+) ]] || true
    echo "${BASH_REMATCH[1]-}"
}

# holds "EXPRESSION": compares numbers, which may have fractions.
holds() {
    awk "BEGIN { exit !($1) }"
}

# ns_python MODULE...: sets python to the first Python that has these modules. A run of the tests looks for it once.
ns_python() {
    local known="${NS_WORK:-$T}/python $*"
    ! read -r python 2>/dev/null <"$known" || return 0
    for python in /usr/bin/python3 python3; do
        if "$python" -c 'import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)' "$@" 2>/dev/null; then
            echo "$python" >"$known"
            return 0
        fi
    done
    ns_skip "no Python with: $*"
}

# Sets the array "mounts" to a command that starts another one in its own mount namespace. In a chroot, where / is not a
# mount point, its mounts may be visible outside, so the caller must unmount them. If there is no such namespace, no test
# may be skipped and nothing is installed, the machine is assumed to be disposable: "mounts" is then empty, and the caller
# must remove what it installs.
ns_mount_namespace() {
    mounts=(unshare --mount)
    [[ $EUID -eq 0 ]] || mounts=(unshare --map-root-user --mount)
    "${mounts[@]}" true 2>/dev/null && return 0
    mounts+=(--propagation unchanged)
    "${mounts[@]}" true 2>/dev/null && return 0
    mounts=()
    [[ ${NAGLESHIM_MUST_WORK:-} == 1 && $EUID -eq 0 && ! -e /etc/nagleshim &&
        ! -e /usr/local/lib/libnagleshim.so ]] || ns_skip "no mount namespace of one's own"
}

# free_port: prints a port that nobody uses, for a program that cannot choose a free one itself.
free_port() {
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# add_libraries ROOT FILE...: copies the libraries that these files need into the root directory, to the same paths.
add_libraries() {
    ldd "${@:2}" | grep -oE '/[^ :]+(\s|$)' | sort -u | xargs cp -L --parents -t "$1"
}

# let_others_in DIR: lets every user enter DIR and the directories above it.
let_others_in() {
    local dir=$1
    while [[ $dir != / ]]; do
        chmod o+x "$dir" || ns_skip "no way in for another user"
        dir=${dir%/*}
        dir=${dir:-/}
    done
}

# mapped NAME: is the library mapped in a running program that ns_start has started?
mapped() {
    local maps
    maps=$(<"/proc/${NS_PID[$1]}/maps") || true
    if [[ -z $maps ]]; then
        echo "$1 does not run any more"
        return 2
    fi
    [[ $maps == *libnagleshim.so* ]]
}

# ns_wait_for_tun NAME REGEX: waits until a program that ns_start has started prints that it has made a TUN device. The
# program exits with 77 if there are no TUN devices.
ns_wait_for_tun() {
    local end=$((SECONDS + 10)) status=0
    until has_line "$T/$1.out" "$2"; do
        if ! kill -0 "${NS_PID[$1]}" 2>/dev/null || ((SECONDS > end)); then
            ns_stop "$1" KILL 2>/dev/null || true
            ns_reap "$1" || status=$?
            cat "$T/$1.err"
            [[ $status -ne 77 ]] || ns_skip "no TUN device: $(cat "$T/$1.err")"
            return 1
        fi
        sleep 0.01
    done
}

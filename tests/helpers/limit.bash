# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A test that hangs ends all the same. After BATS_TEST_TIMEOUT bats tells the test to end, and its children; but a shell
# hears that when what it runs has ended, and bats goes on when nobody holds its pipes any more. So whatever the tests
# have started is ended from outside where a run stands still for longer. Nothing else is ever ended: what the tests
# have started bears NS_RUNS in its environment, or descends from what does.

# Seconds that bats has for itself, after a test's limit and between one step and the next.
NS_GRACE=${NS_GRACE:-5}

# limit_of FILE: the seconds that each of its tests may take.
limit_of() {
    (
        eval "$(grep -m 1 -E '^(export )?BATS_TEST_TIMEOUT=' "$1" 2>/dev/null)"
        echo "$BATS_TEST_TIMEOUT"
    )
}

# started_by_tests RUN KEPT: the processes of this run, "PID COMMAND" each. KEPT says how much of bats's own is none of
# them: "bats" (all of it), "file" (but for the test), "suite" (but for the file, too), "" (nothing).
started_by_tests() {
    local marked
    marked=$(grep -lzsE "^NS_RUNS=.*:$1(:|$)" /proc/[0-9]*/environ | tr -cd '0-9\n' | tr '\n' ' ') || true
    ps -eo pid=,ppid=,args= | awk -v marked="$marked" -v kept="$2" -v run="$$" '
        # A test is the child of a file, and what it starts is not of bats, although a subshell has the same name.
        function keep(pid, below,   n, child, i, kind) {
            own[pid] = 1
            n = split(children[pid], child, " ")
            for (i = 1; i <= n; i++) {
                kind = args[child[i]]
                if (kind ~ /bats-exec-test/ && below == "file") {
                    if (kept == "bats")
                        own[child[i]] = 1
                } else if (kind ~ /bats-exec-file/ && below == "suite") {
                    if (kept != "suite")
                        keep(child[i], "file")
                } else if (below != "file")
                    keep(child[i], kind ~ /bats-exec-suite/ ? "suite" : below)
            }
        }
        function take(pid,   n, child, i) {
            if (taken[pid]++)
                return
            n = split(children[pid], child, " ")
            for (i = 1; i <= n; i++)
                take(child[i])
        }
        {
            pid = $1
            parent[pid] = $2
            children[$2] = children[$2] " " pid
            $1 = $2 = ""
            args[pid] = substr($0, 3)
        }
        END {
            n = split(marked, pids, " ")
            for (i = 1; i <= n; i++) {
                if (kept != "" && parent[pids[i]] == run)
                    keep(pids[i], "")
                take(pids[i])
            }
            for (pid in taken)
                if (!own[pid] && (pid in args))
                    print pid, args[pid]
        }'
}

# end_started RUN KEPT: ends them, and says which; but for the clocks that bats itself has left.
end_started() {
    local pid command
    while read -r pid command; do
        kill -KILL "$pid" 2>/dev/null || continue
        [[ $command == *bats-exec-* || $command == "sleep "[0-9]* ]] || echo "# ended: $pid $command"
    done < <(started_by_tests "$@")
}

# watch_over RUN LOG: until it is ended; LOG is bats's own report, which grows with each test that begins or ends.
watch_over() {
    local run=$1 log=$2 step=0 size last=-1 since=$SECONDS file limit=$BATS_TEST_TIMEOUT ends idle processes
    # What it starts itself is none of the tests'.
    unset NS_RUNS
    # Nothing ever comes from there: a sleep would outlive this.
    exec {idle}<> <(:)
    while kill -0 "$$"; do
        read -rt 1 -u "$idle" || true
        size=$(stat -c %s "$log" 2>/dev/null) || size=0
        if [[ $size != "$last" ]]; then
            last=$size since=$SECONDS step=0
            continue
        fi
        ((SECONDS - since >= NS_GRACE)) || continue
        ends=
        processes=$(started_by_tests "$run" '') || continue
        if [[ $processes == *bats-exec-suite* ]]; then
            file=$(tac "$log" | sed -n '/^suite /{s///p;q}')
            limit=$(limit_of "$file")
        elif [[ $processes == *bats-core/bats* ]]; then
            # All tests are over, and somebody holds what bats reads from.
            limit=0 ends=bats
        else
            continue
        fi
        ((SECONDS - since >= limit + NS_GRACE * (1 + step))) || continue
        case ${ends:-$step} in
        bats | 0) end_started "$run" bats ;;
        1) end_started "$run" file ;;
        2) end_started "$run" suite ;;
        *) end_started "$run" '' ;;
        esac
        [[ $step -eq 0 ]] || echo "# did not end by itself: $(tac "$log" | sed -nE '/^(begin [0-9]+|suite) /{s///p;q}')"
        step=$((step + 1))
    done
}

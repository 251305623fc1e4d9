# SPDX-License-Identifier: MIT
# Promise: Random programs see the same results, errno, events, signals and bytes with the library as without it.
# Computes: it runs some thousand programs.
# The scripts in corpus.txt, which once differed, run first, then scripts made from the first seeds. With DIFFERENTIAL_SECONDS
# (make fuzz-programs: 3600 in all) the seeds are new. A script that differs is cut down to a few lines, printed, and kept
# in build/differential/findings.

BATS_TEST_TIMEOUT=$((${DIFFERENTIAL_SECONDS:-0} + 1220))
load ../helpers/common

setup() {
    ns_setup
    DIFFERENTIAL=$PWD/build/differential
    export NAGLESHIM_RECORD=$T/record # of the library that observes
    mkdir "$NAGLESHIM_RECORD"
}

# differential OPTION...: runs the driver, whose last line counts programs and differences.
differential() {
    timeout "$((${DIFFERENTIAL_SECONDS:-0} + 1200))" tests/differential/differential "$@" 3>&-
}

# enough PROGRAMS: at least this many ran. At most 1 % of them, plus one, differed between two runs without a library. As many
# comparisons, of two runs each, differed with it and then seldom again.
enough() {
    awk -v least="$1" '$1 == "programs" { found = $2 >= least && $8 <= 1 + $2 / 100 && $10 <= 1 + $4 / 200 } END { exit !found }' <<<"$output"
}

# sees_sockets POLICY...: under each policy the library treats the socket of a program, which itself sets no option. A library
# that treats none would make no difference. Under app it need not set one.
sees_sockets() {
    local policy
    ns_needs_strace
    printf '%s\n' 'connect a' 'write a 10' 'write a 10' 'peer_send a 20' 'read a 20' >"$T/sees"
    for policy; do
        [[ $policy == app ]] || strace -f -qq -e trace=execve,setsockopt -o "$T/trace" \
            tests/differential/differential -l "$LIBRARY" -p "$policy" -S "$T/sees" 3>&- >/dev/null
        awk '/execve.*differential\/program/ { program = $1 } $1 == program && /setsockopt.*TCP_/ { n++ } END { exit !n }' \
            "$T/trace" || wrong "under $policy the library has treated no socket" "$T/trace" || return
    done
}

# random PERCENT PROGRAMS POLICY... [-w TEXT]: runs this many programs, or for PERCENT of DIFFERENTIAL_SECONDS. Prints the seed.
random() {
    local seed=${DIFFERENTIAL_SEED:-1} most=(-n "$2") policies=() names=() policy
    if [[ -n ${DIFFERENTIAL_SECONDS-} ]]; then
        seed=${DIFFERENTIAL_SEED:-$((EPOCHSECONDS * 1000))}
        most=(-t "$((DIFFERENTIAL_SECONDS * $1 / 100))")
    fi
    shift 2
    for policy; do
        [[ $policy != -w ]] || break
        policies+=(-p "$policy") names+=("$policy")
        shift
    done
    echo "seeds from $seed on (DIFFERENTIAL_SEED)"
    run -0 differential -l "$LIBRARY" "${policies[@]}" "$@" -s "$seed" "${most[@]}" -j 4 -m 5 \
        -o "$DIFFERENTIAL/findings"
    enough 10
    [[ $LIBRARY == "$OBSERVER" ]] || sees_sockets "${names[@]}"
}

@test "no difference that the differential fuzzer found in the past has returned" {
    awk -v to="$T" '/^== / { file = to "/" $2 ".txt"; next } !/^#/ { gsub(/; /, "\n") } file && NF { print >file }' \
        tests/differential/corpus.txt
    run -0 differential -l "$LIBRARY" -p all "$T"/*.txt
    enough "$(grep -c '^== ' tests/differential/corpus.txt)"
    sees_sockets default nodelay flush-before-read adaptive-app auto-cork
}

@test "random programs see no difference under the built-in policy" {
    random 40 600 default
}

@test "random programs see no difference under nodelay, flush-before-read and app" {
    random 20 150 nodelay flush-before-read app
}

@test "random programs see no difference with the observing library" {
    # The number of bytes that a blocking write sends before a signal interrupts it depends on the time for observing.
    LIBRARY=$OBSERVER random 20 300 default -w 'interrupted full'
    [[ $(find "$NAGLESHIM_RECORD" -name '*.record' | wc -l) -gt 100 ]]
}

@test "random programs see no difference under auto-cork" {
    random 20 150 auto-cork auto-cork-late
}

# found_out MISTAKE TEXT [SEED]: a library with this mistake is detected, and the lines printed show it. The search begins at
# SEED, shortly before the first program that shows the mistake.
found_out() {
    MISTAKE=$1 run differential -l "$PROBES/mistakes.so" -s "${3:-1}" -n 2000 -m 1 -r 2
    [[ $status -eq 1 ]] && grep -qE "$2" <<<"$output" || wrong "$1: exit status $status"$'\n'"$output"
}

@test "the differential fuzzer detects a library that changes results, errno, bytes, masks or descriptors" {
    local group groups=() failed=
    # Programs that hang are waited for: three groups at the same time.
    for group in 0 1 2; do
        (
            case $group in
            0)
                found_out short '^# with: .*flood .* = [0-9]+' 225
                found_out errno '^# with: .* EAGAIN'
                found_out byte '^# with: .* WRONG'
                ;;
            1)
                found_out mask '^ppoll'
                found_out leak '^# with: '
                found_out cloexec '^accept' 160
                found_out nonblock '^accept' 15
                ;;
            2)
                found_out copied-flag '^dup3'
                found_out interrupted 'interrupted full' 55
                found_out split '^# with: .* ids ' 8
                ;;
            esac
        ) 3>&- &
        groups+=("$!")
    done
    for group in "${groups[@]}"; do wait "$group" || failed=1; done
    [[ -z $failed ]]
}

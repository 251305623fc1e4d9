# SPDX-License-Identifier: MIT
# Promise: The library sets TCP_NODELAY and sends ACKs exactly where a wait would stall, and does nothing anywhere else.
# strace shows what the library does on a connection between the program's own calls.

load ../helpers/common

setup_file() {
    ! python3 -c 'import socket; socket.socket().getsockopt(socket.IPPROTO_TCP, 46)' 2>/dev/null || touch "$BATS_FILE_TMPDIR/bound"
}

setup() {
    ns_setup
    ns_needs_strace
    # If the kernel has TCP_DELACK_MAX_US, the library limits a connection's delayed ACKs.
    bound=()
    [[ ! -e $BATS_FILE_TMPDIR/bound ]] || bound=(bound)
}

# Prints a word for each call. Words for other sockets than the connection begin with "other:" or "listener:".
translate() {
    local program='
        function of(fd) { return fd == near ? "" : fd == far ? "other:" : fd == 1 ? "stdout:" : "listener:" }
        function say(word) { printf "%s ", word }
        function number() { match($0, /\[[0-9]+\]/); return substr($0, RSTART + 1, RLENGTH - 2) }
        NR == FNR {
            if (match($0, /connections [0-9]+ [0-9]+ pipe [0-9]+/)) {
                split(substr($0, RSTART, RLENGTH), said, " ")
                near = said[2]
                far = said[3]
                pipe = said[5]
            }
            # Another process may make a call before this one returns.
            if (/ <unfinished \.\.\.>/) began[$1] = FNR
            if (/ resumed>.*EAGAIN/) empty[began[$1]] = 1
            next
        }
        /"begin/ { first = $1 }
        !first || / resumed>/ || started[$1] { next }
        { call = $2; sub(/\(.*/, "", call); fd = $2; sub(/^[a-z0-9_]*\(/, "", fd); fd += 0 }
        call == "listen" || call == "accept" { say(call) }
        call == "setsockopt" && /TCP_NODELAY/ { say(of(fd) "nodelay=" (/\[1\]|"\\1/ ? 1 : 0)) }
        call == "setsockopt" && /TCP_QUICKACK, \[[1-9]/ { say(of(fd) "ack=" (/\[1\]/ ? 1 : 2)) }
        call == "setsockopt" && /TCP_CORK/ { say(of(fd) "cork=" (/\[1\]/ ? 1 : 0)) }
        call == "setsockopt" && /0x2e|TCP_DELACK_MAX_US/ { say(of(fd) "bound") }
        call ~ /^(write|send|sendto|writev)$/ && (fd == near || fd == far) { 
            say(of(fd) (/MSG_MORE/ ? "more" : "write"))
        }
        call ~ /^(read|recv|recvfrom|readv)$/ && fd == near { say(/EAGAIN/ || empty[FNR] ? "nothing" : "read") }
        call == "read" && fd == pipe { say("pipe") }
        call == "splice" { say(fd == near ? "splice-in" : "splice-out") }
        call == "poll" { say(/, 0\) +=/ ? "look" : "wait") }
        call == "ppoll" && /, 1, \{tv_sec=0, tv_nsec=0\}/ { say("look") }
        call ~ /^p?select6?$/ { say(/tv_sec=0, tv_[un]sec=0/ ? "look" : / \[\],/ ? "wait-for-nothing" : "wait") }
        call == "clock_nanosleep" { say("nap") }
        call == "nanosleep" { say("pause") }
        call ~ /^(clone3?|v?fork)$/ && !/ENOSYS/ { say("fork") }
        call == "execve" && /nonexistent/ { say("exec") }
        call == "execve" && !/nonexistent/ { started[$1] = 1 }
        call == "exit_group" && $1 == first { say("end") }
        call == "close" && fd == near { say("close") }
        call ~ /^dup[23]?$/ { say("dup") }
        call == "sendmsg" { say("pass") }
        call == "recvmsg" { say("passed") }
        call == "io_setup" { say("aio") }
        call == "io_uring_setup" { say("uring") }
        call == "setsockopt" && /TCP_KEEPIDLE/ { say(of(fd) "keepidle=" number()) }
        call == "setsockopt" && /SO_KEEPALIVE/ { say(of(fd) "keepalive=" number()) }
        call == "connect" && fd == near { say("connect") }
        call == "exit" && $1 != first { say("gone") }
        call ~ /^(getpid|getpeername|newfstatat|fstat|lseek|mmap2?)$/ && filtered { sub("mmap2", "mmap", call); say(call) }
        call ~ /^fcntl(64)?$/ && !/F_SETFL/ && filtered { say("fcntl") }
        call == "seccomp" || call == "prctl" && /SECCOMP/ { filtered = 1; say("filter") }'
    awk "$program" "$1" "$1"
}

# expand WORDS: "write*3" is three writes.
expand() {
    local word all=() n
    for word in $1; do
        n=1
        [[ $word != *'*'* ]] || n=${word#*\*}
        while ((n-- > 0)); do
            [[ $word == *bound && ${#bound[@]} -eq 0 ]] || all+=("${word%\**}")
        done
    done
    echo "${all[*]}"
}

# trace PRELOAD WORDS: traces a program that makes these steps. inject: the calls that fail, for strace.
trace() {
    # shellcheck disable=SC2086 # its words
    timeout 20 "${timed[@]}" strace -f -qq ${inject:+-e "inject=$inject"} -o "$T/raw" -E LD_PRELOAD="$1" "$PROBES/steps" $2 >"$T/out" 2>&1 ||
        wrong "it failed:" "$T/out" || return
    seen=$(translate "$T/raw")
    seen=${seen% }
}

# trace_is WORDS EXPECTED: a pause that is as long as a wait, 8 ms, changes what the library does next. Its clock has ticks of up to
# 4 ms: it may take half as long for a wait.
trace_is() {
    trace "$LIBRARY" "$1" || return
    [[ $seen == "$2" || $seen == "$2 end" ]] || is_late 4 "expected: $2"$'\n'"seen:     $seen"$'\n'
}

# does WORDS EXPECTED: the trace of a program that makes the steps WORDS is EXPECTED.
does() {
    local expected seen
    expected=$(expand "$2")
    in_time trace_is "$1" "$expected"
}

# ends_as WORDS EXPECTED: the same of the last words of the trace.
ends_as() {
    trace "$LIBRARY" "$1" || return
    [[ ${seen% end} == *" $(expand "$2")" ]] || is_late 4 "expected at the end: $2"$'\n'"seen:     $seen"$'\n'
}

# does WORDS EXPECTED under a rule.
does_under() {
    NAGLESHIM_POLICY="{\"version\": 1, \"rules\": [{$1}]}" does "$2" "$3"
}

@test "without the library only the program's own calls are seen" {
    trace '' 'connected write*6 hear wait write*6 wait hear write close'
    [[ $seen == "$(expand 'write*6 read wait write*6 wait read write close end')" ]]
}

# --- adaptive: when TCP_NODELAY is on

@test "a connection's first write costs nothing, and TCP_NODELAY is set before its second write" {
    does 'connected hear write' 'read write'
    does 'connected write hear write' 'write read nodelay=1 write'
    does 'accepted write*3' 'listen accept write nodelay=1 write*2'
}

@test "writes of zero bytes and failing writes do not count as writes of a burst" {
    does 'connected empty*3 wait' 'write*3 wait'
    does 'connected bad write' 'write*2'
    does 'connected write*3 empty*3 wait' 'write nodelay=1 write*5 wait'
}

@test "at the fourth write without a wait TCP_NODELAY is cleared, and it is set again before the wait" {
    does 'connected write*6 wait' 'write nodelay=1 write*2 nodelay=0 write*3 nodelay=1 wait'
    does 'connected write*4 wait' 'write nodelay=1 write*2 nodelay=0 write nodelay=1 wait'
    # On a connection that only sends, the second write without a wait is held; the third one after a burst of two.
    does 'connected write*3 wait write*3 wait' 'write nodelay=1 write*2 wait write nodelay=0 write*2 look nodelay=1 wait'
    does 'connected write*3 wait write*2 wait write*3 wait' \
        'write nodelay=1 write*2 wait write nodelay=0 write look nodelay=1 wait write*2 nodelay=0 write look nodelay=1 wait'
    does 'connected write*3 wait hear write*3 wait' 'write nodelay=1 write*2 wait read write*3 wait'
    # While another connection has pending bytes, the library first asks whether a blocking write would wait. Before the wait,
    # the lower descriptor is the first.
    local other='look other:write look other:nodelay=1 other:write look other:write look other:nodelay=0 other:write'
    does 'connected write*5 other*4 write*2 wait' \
        "write nodelay=1 write*2 nodelay=0 write*2 $other look write look write other:nodelay=1 nodelay=1 wait"
    # For a big write it is not asked, because there may be room for a part of it.
    does 'connected write*5 other-big write wait' \
        'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 other:write write wait'
    does 'connected write*6 select' 'write nodelay=1 write*2 nodelay=0 write*3 nodelay=1 wait'
    does 'connected write*6 nap' 'write nodelay=1 write*2 nodelay=0 write*3 nodelay=1 nap'
    does 'connected write*6 empty-pipe' 'write nodelay=1 write*2 nodelay=0 write*3 look nodelay=1 pipe'
}

@test "TCP_NODELAY is set again before a blocking read, and after a read that finds data or the second one that finds none" {
    does 'connected write*4 says read' 'write nodelay=1 write*2 nodelay=0 write nodelay=1 read'
    does 'connected write*4 get' 'write nodelay=1 write*2 nodelay=0 write read nodelay=1'
    # A stream may look for input now and then; a program that looks twice waits.
    does 'connected write*4 try write' 'write nodelay=1 write*2 nodelay=0 write nothing write'
    does 'connected write*4 try*2' 'write nodelay=1 write*2 nodelay=0 write nothing*2 nodelay=1'
    does 'connected write*4 count*2' 'write nodelay=1 write*2 nodelay=0 write nodelay=1'
    # An answer begins another burst.
    does 'connected write*3 get write*3' 'write nodelay=1 write*2 read write*3'
}

@test "TCP_NODELAY is set again before fork, exec, exit and close" {
    local way joined='write nodelay=1 write*2 nodelay=0 write*2 nodelay=1'
    for way in fork close; do
        does "connected write*5 $way" "$joined $way"
    done
    for way in exit _exit; do
        does "connected write*5 $way" "$joined"
    done
    does 'connected write*5 close-by-number' "$joined close"
    does 'connected write*5 clone' "$joined fork"
    trace "$LIBRARY" 'connected write*5 daemon' # it ends at any time
    [[ $seen == "$(expand "$joined fork")"* ]] || wrong "$seen"
    does 'connected write*5 filter' "$joined nodelay=0 filter"
    # These set both options on every connection, because another program may use the connections.
    joined+=' other:nodelay=1 other:bound bound'
    does 'connected write*5 vfork' "$joined fork"
    does 'connected write*5 spawn' "$joined fork"
    does 'connected write*5 exec' "$joined exec"
    does 'connected write*5 exec-by-number' "$joined exec"
}

@test "what a thread holds is pushed at its end" {
    does 'connected thread write*5' 'fork write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 gone'
    does_under '"send": "auto-cork"' 'connected thread write*5' 'fork nodelay=1 cork=1 write*5 cork=0 gone'
    # Also what a destructor of the program writes after the library's own.
    does 'connected thread write last-words' 'fork write nodelay=1 write*3 nodelay=0 write*2 nodelay=1 gone'
}

@test "another program gets a connection with TCP_NODELAY set, even after a single write" {
    local handed='other:nodelay=1 other:bound nodelay=1 bound'
    does 'connected write exec' "write $handed exec"
    does 'connected write spawn' "write $handed fork"
    does 'connected write vfork' "write $handed fork"
    # After the child has ended, bursts are joined as before, and a raw clone is seen.
    does 'connected vfork write*5 clone' "$handed fork write*3 nodelay=0 write*2 nodelay=1 fork"
    does 'connected write vfork write*5 close' \
        "write $handed fork write nodelay=0 write*4 nodelay=1 close"
    does 'connected write fork' 'write fork'
}

# The parent ends at any time.
@test "what a daemon makes is its own, and what it writes to /dev/null is no answer" {
    local seen
    in_time ends_as 'connected daemon connected write spawn' 'listener:nodelay=1 listener:bound fork'
    in_time ends_as 'connected stdout daemon hear write hear note wait' 'look ack=2 wait'
}

@test "TCP_NODELAY stays cleared if the program polls with zero timeout between writes, until it has stopped writing" {
    local begin='write nodelay=1 write*2 nodelay=0 write*2'
    does 'connected write*5 look write look write look write wait' \
        "$begin look write look write look write nodelay=1 wait"
    does 'connected write*4 look write' 'write nodelay=1 write*2 nodelay=0 write look write'
    does 'connected write*5 look*2' "$begin look*2 nodelay=1"
    does 'connected write*5 look other look' "$begin look*2 other:write look nodelay=1"
}

@test "TCP_NODELAY that the program sets stays set" {
    does 'connected nodelay write*9 wait' 'nodelay=1 write*9 wait'
    does 'connected nodelay-by-number says-nodelay write*9 wait' 'nodelay=1 write*9 wait'
    does 'connected write*9 nodelay write*9 wait' \
        'write nodelay=1 write*2 nodelay=0 write*6 nodelay=1 write*9 wait'
    # A program that sets and clears the option pushes by itself: Nagle's algorithm stays on until it waits.
    does 'connected write*2 delay write*3 wait' \
        'write nodelay=1 write nodelay=0 nodelay=1 write*3 wait'
    does 'connected write*2 nodelay delay write*3 wait' \
        'write nodelay=1 write nodelay=1 nodelay=0 write*3 nodelay=1 wait'
}

@test "the library leaves the program's TCP_CORK and MSG_MORE alone" {
    does 'connected write*2 cork write*6 uncork write*4' \
        'write nodelay=1 write cork=1 write*6 cork=0 write nodelay=0 write*3'
    does 'connected write*2 wait more*6 wait' 'write nodelay=1 write wait more*6 wait'
    does 'connected write*2 wait more write hear write*4' 'write nodelay=1 write wait more write read write*3 nodelay=0 write'
    # Nagle's algorithm would hold the end of the second message, which the program sends without the flag.
    does 'connected more write more write wait' 'more write nodelay=1 more write wait'
    does 'connected hear write hear cork write uncork wait' 'read write read bound cork=1 write cork=0 nodelay=1 wait'
    does 'connected hear write hear cork uncork wait' 'read write read bound cork=1 cork=0 look ack=2 wait'
    does 'connected copy write*5 cork-copy wait' 'dup write nodelay=1 write*2 nodelay=0 write*2 listener:nodelay=1 listener:cork=1 wait'
    does 'connected write*5 cork write wait' 'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 cork=1 write wait'
    does 'connected write*5 more' 'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 more'
    does 'connected hear write hear cork write wait' 'read write read bound cork=1 write look ack=2 wait'
    # A cork that came with the connection: from another program, or from the listener.
    does 'raw-corked send*6 uncork' 'write*6 cork=0 nodelay=1'
    does 'accepted listener-cork accepted-next write*2' 'listen accept listener:cork=1 accept'
}

@test "records with MSG_EOR and copies with MSG_ZEROCOPY are not held, and have TCP_NODELAY from the second one on" {
    does 'connected record*3' 'write nodelay=1 write*2'
    does 'connected copied*6 wait' 'write nodelay=1 write*5 wait'
}

@test "TCP_NODELAY is set at once, and stays set, if the library cannot see the later writes" {
    does 'connected write fdopen write*6' 'write nodelay=1 bound write*6'
    does 'connected fdopen nodelay delay' 'nodelay=1 bound nodelay=1 nodelay=0 nodelay=1'
    does 'connected write*5 fdopen' 'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 bound'
    does 'socket fdopen connect-it write*4 wait' 'listen nodelay=1 connect write*4 wait'
    # TCP_REPAIR needs CAP_NET_ADMIN.
    [[ $NS_ISOLATED == 0 ]] || does 'connected write repair write*6' 'write nodelay=1 write*6'
    does 'connected write*2 pass write*6' 'write nodelay=1 write nodelay=0 pass write*6' # it is the receiver's now
    does 'connected write*2 pass-fails write' 'write nodelay=1 write nodelay=0 pass nodelay=1 write'
    does_under '"send": "auto-cork", "max_delay_us": 100000' 'connected write pass write' 'nodelay=1 cork=1 write look cork=0 nodelay=0 pass write'
    does 'connected write stdout write*6' 'write dup stdout:nodelay=1 write*6'
    does 'raw stdout' 'dup stdout:nodelay=1'
    does 'connected write aio write*6' 'write aio other:nodelay=1 other:bound nodelay=1 bound write*6'
    does 'connected aio socket' 'aio other:nodelay=1 other:bound nodelay=1 bound listener:nodelay=1 listener:bound'
    does 'connected aio connected' 'aio other:nodelay=1 other:bound nodelay=1 bound listen listener:nodelay=1 listener:bound'
    does 'accepted aio' 'listen accept aio listener:nodelay=1 listener:bound other:nodelay=1 other:bound nodelay=1 bound'
    # If io_setup and io_uring_setup fail, nothing changes.
    does 'connected no-aio no-uring write*6' 'aio uring write nodelay=1 write*2 nodelay=0 write*3'
    does 'connected write write-by-number write*6' 'write nodelay=1 bound write*7'
    # Data that came late shows that unseen writes have begun the interactive mode, whatever else forbids to hold there.
    local unseen='unseen-write hear delay-of-ack hear unseen-write hear wait'
    [[ $NS_ISOLATED == 0 || ${#bound[@]} -eq 0 ]] || does "connected write hear fdopen repair $unseen" \
        'write read nodelay=1 bound write read pause read write read look ack=2 wait'
}

# --- acknowledgements

@test "for one request and one answer the library sends no ACK" {
    # At the next write without a wait the library sets TCP_NODELAY: it has seen the others.
    does 'connected write hear wait write' 'write read wait nodelay=1 write'
    does 'connected hear write wait write' 'read write wait nodelay=1 write'
    does 'connected hear wait hear wait write*2' 'read wait read wait write nodelay=1 write'
}

@test "data that is read after an answer was written is acknowledged before a wait" {
    does 'connected hear write hear wait' 'read write read bound look ack=2 wait'
    does 'connected hear write vector wait' 'read write read bound look ack=2 wait'
    does 'connected hear write message wait' 'read write bound look ack=2 wait'
    does 'connected hear write hear write wait' 'read write read bound nodelay=1 write wait'
    does 'connected hear write hear write hear wait' 'read write read bound nodelay=1 write read look ack=2 wait'
    does 'connected hear write hear other*3' \
        'read write read bound look other:write look other:nodelay=1 other:write look other:write'
    does 'connected hear write hear nap' 'read write read bound ack=2 nap'
    does 'connected hear write hear select' 'read write read bound look ack=2 wait'
    does 'connected hear write hear says select-data' 'read write read bound look'
    does 'connected hear write hear says select-data-of-many' 'read write read bound ack=2 wait'
    does 'connected hear write hear pipe' 'read write read bound look pipe'
    # A stream closes it.
    does 'connected hear write hear file-then-pipe' 'read write read bound look dup look ack=2'
    # At its start a file is asked, since an eventfd looks the same; it is always ready.
    does 'connected hear write hear file*3 wait' 'read write read bound look*2 ack=2 wait'
    does 'connected hear write hear empty-pipe' 'read write read bound look ack=2 pipe'
    # A program that copies is asked about seldom, once it has not waited 16 times. In this mode no pause ends a burst.
    local copied
    copied="$(repeat 16 'look pipe write')$(repeat 15 'pipe write')look $(repeat 9 'pipe write')"
    does_under '"send": "flush-before-read"' "connected write*5 $(repeat 40 'pipe write')" "write*5 $copied"
    does 'connected hear write get try*2' 'read write read bound nothing*2 ack=2'
    does 'connected hear write get count*2' 'read write read bound ack=2'
}

@test "a wait that need not block sends no ACK, and neither does a first probe" {
    does 'connected hear write hear says find' 'read write read bound look'
    does 'connected hear write peek wait' 'read write read wait'
    # What ends such a wait is data, and not the end of the stream.
    does 'connected hear write touch read wait' 'read write read*2 bound look ack=2 wait'
    # A loop that asks for room each time never waits, and its peer does.
    does 'connected hear write room hear room*6' 'read write wait read bound look*2 ack=2 wait*4'
    does 'connected hear write hear look-for-room*8' 'read write read bound look*2 ack=2 look*6'
    does 'connected hear write hear hear wait' 'read write read bound read look ack=2 wait'
    does 'connected hear write hear late' 'read write read bound fork nothing ack=2 read'
    does 'connected hear write hear bad-time' 'read write read bound'
    does 'connected hear write hear other look*2' 'read write read bound look other:write look*2 ack=2'
    local way
    for way in connected-nonblock 'connected nonblock' 'connected nonblock-by-ioctl'; do
        does "$way hear write hear miss" 'read write read bound nothing'
        does "$way block hear write hear late" 'read write read bound fork nothing ack=2 read'
    done
}

@test "after twelve ACKs that an answer followed, no more are sent until one is missed" {
    local first skipped
    first="read write read bound look ack=2 wait nodelay=1 write $(repeat 11 'read look ack=2 wait write')"
    skipped="$(repeat 4 'read wait write')read bound wait write "
    # Data comes after the 40 ms of the kernel's delayed ACK.
    does "connected hear write $(repeat 17 'hear wait write')hear wait pause*2 hear write wait hear wait" \
        "$first${skipped}read wait pause*2 read write wait read look ack=2 wait"
    # Data that comes later has not waited for the ACK.
    does "connected hear write $(repeat 17 'hear wait write')hear wait pause*5 hear write wait hear wait" \
        "$first${skipped}read wait pause*5 read write wait read wait"
}

@test "an answer that takes longer than the bound on its ACK costs no third segment after sixteen" {
    [[ ${#bound[@]} -gt 0 ]] || ns_skip 'this kernel has no TCP_DELACK_MAX_US'
    does "connected hear write $(repeat 20 'hear pause write')" "read write read bound pause nodelay=1 write \
$(repeat 15 'read pause write')read bound pause write $(repeat 3 'read pause write')"
}

@test "after a failing write, held bytes and pending ACKs are sent before the wait" {
    does 'connected hear write hear bad wait' 'read write read bound nodelay=1 write look ack=2 wait'
    does_under '"send": "auto-cork", "max_delay_us": 100000' 'connected write bad wait' 'nodelay=1 cork=1 write*2 cork=0 wait'
    does_under '"send": "auto-cork", "max_delay_us": 100000' 'connected write bad-big wait' 'nodelay=1 cork=1 write*2 cork=0 wait'
    # An interrupted read does not show what the descriptor is.
    does 'connected interrupted write*4 wait' 'read write nodelay=1 write*2 nodelay=0 write nodelay=1 wait'
}

@test "if the kernel refuses an option, no burst is held on the connection again" {
    local inject=setsockopt:error=EPERM:when=2
    does 'connected write*9 wait' 'write nodelay=1 write*2 nodelay=0 write*6 wait'
    inject=setsockopt:error=EPERM:when=3
    does 'connected write*5 wait write*5 wait' 'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 wait nodelay=1 write*5 wait'
}

@test "after a signal handler has left a read by siglongjmp, the thread's connections are treated as before" {
    does 'connected write*5 left write*5 wait' 'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 read write nodelay=0 write*4 look nodelay=1 wait'
    does 'connected hear write left hear wait left hear wait' 'read write read*2 bound look ack=2 wait read*2 look ack=2 wait'
}

@test "splice from a socket makes an ACK pending, and splice with SPLICE_F_MORE first pushes held bytes" {
    does 'connected hear write splice-in wait' 'read write splice-in bound look ack=2 wait'
    does_under '"send": "auto-cork", "max_delay_us": 100000' 'connected splice-in write splice-out write wait' \
        'splice-in nodelay=1 cork=1 write look cork=0 splice-out write wait'
    does 'connected splice*2' 'splice-out nodelay=1 splice-out'
}

@test "a program that only reads sends an ACK before each of its waits, until twelve were sent" {
    does "connected hear write $(repeat 14 'hear wait')" \
        "read write read bound look ack=2 wait $(repeat 11 'read look ack=2 wait')$(repeat 2 'read wait')"
}

@test "the kernel acknowledges reads with MSG_WAITALL at once, until six were needless" {
    does "connected hear write $(repeat 10 'whole write')" "read write ack=1 bound read nodelay=1 write \
$(repeat 5 'ack=1 read write')read write read write bound read write read write"
    does "connected hear write $(repeat 10 'late-whole write')" "read write fork ack=1 bound read nodelay=1 write \
$(repeat 5 'fork ack=1 read write')fork read write fork read write fork bound read write fork read write"
    does 'connected whole' 'read'
}

@test "a socket that a raw system call has made is treated from its first use on" {
    does 'raw-high send*2' 'nodelay=1 write*2'
    does 'raw get wait' 'read bound look ack=2 wait'
    does 'raw has-nodelay send*8 wait' 'nodelay=1 write*8 wait'
    does 'raw send*5 wait' 'nodelay=1 write*3 nodelay=0 write*2 nodelay=1 wait'
    does 'raw get write hear hear wait' 'read bound nodelay=1 write read*2 look ack=2 wait'
    local option
    for option in local remote; do
        does_under "\"match\": {\"$option\": \"127.0.0.1\"}" 'raw send*2' 'nodelay=1 write*2'
        does_under "\"match\": {\"$option\": \"127.0.0.2\"}" 'raw send*2' 'write*2'
    done
    does 'raw-unix send*4' 'write*4'
    # Asked once what it is.
    [[ $(grep -c 'SO_DOMAIN, ' "$T/raw") -eq 1 ]]
}

@test "a program that sets SO_RCVLOWAT gets its data in one read" {
    does 'connected hear write lowat hear write hear' 'read write read bound nodelay=1 write read'
    does 'connected hear write hear lowat four' 'read write read bound fork ack=2 read'
    does 'raw-lowat get four' 'read bound fork ack=2 read'
}

@test "the end of the peer's stream is not acknowledged" {
    does 'connected hear write hear end wait' 'read write read bound read wait'
    does 'connected hear write hear none nap' 'read write read bound read ack=2 nap'
    does 'connected hear write end wait' 'read write read wait'
}

@test "the program's own TCP_DELACK_MAX_US stays, and getsockopt does not report the library's value" {
    [[ ${#bound[@]} -gt 0 ]] || ns_skip 'this kernel has no TCP_DELACK_MAX_US'
    does 'connected told hear write hear told hear told' 'read write read bound read'
    does 'connected bound hear write hear wait' 'bound read write read look ack=2 wait'
    does 'connected bound write*5 wait' 'bound write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 wait'
    does 'connected hear write hear quickack told' 'read write read bound ack=1'
}

@test "after the program's own TCP_QUICKACK the library sends no ACK" {
    does 'connected hear write quickack hear wait' 'read write ack=1 read wait'
    does 'connected hear write hear quickack wait' 'read write read bound ack=1 wait'
}

@test "other waits also send pending ACKs, except those that need not block" {
    does 'connected hear write hear sem' 'read write read bound ack=2'
    does 'connected hear write hear free-sem' 'read write read bound'
    does 'connected hear write hear child' 'read write read bound fork ack=2'
    does 'connected hear write hear accept' 'read write read bound listen look ack=2 accept'
    does 'connected hear write hear accept4' 'read write read bound listen look ack=2'
    does 'connected hear write hear connect' 'read write read bound ack=2'
    does 'connected hear write hear futex' 'read write read bound ack=2'
    does 'connected hear write hear epoll' 'read write read bound ack=2'
}

@test "a thread continues a burst of another thread, and pushes it before a wait or a fork" {
    local begin='fork write nodelay=1 write*2 nodelay=0 write*2'
    does 'connected another write wait write' "$begin write nodelay=1 wait write"
    does 'connected another fork' "$begin nodelay=1 fork"
    # What this thread reads, or looks for, neither ends the burst nor sends it.
    does 'connected another try*2' "$begin nothing*2"
    does 'connected another splice-in' "$begin splice-in"
    does 'connected hear write another hear wait' 'read write fork nodelay=1 write*3 nodelay=0 write*2 read bound look ack=2 wait'
}

@test "a thread sends the pending ACKs of more connections than its list has room for" {
    trace "$LIBRARY" 'connected crowd wait'
    [[ $(grep -c 'TCP_QUICKACK, \[2\]' "$T/raw") -eq 1100 ]]
}

@test "under flush-before-read held bytes are pushed before a wait, and Nagle's algorithm stays on" {
    local under='"send": "flush-before-read"'
    does_under "$under" 'connected hear write wait' 'read write wait'
    does_under "$under" 'connected write wait write wait' 'write wait write look nodelay=1 nodelay=0 wait'
    does_under "$under" 'connected hear write*2 wait hear write wait' \
        'read write*2 nodelay=1 nodelay=0 wait read bound write wait'
}

@test "an accepted connection is treated like any other, and its listener is left alone" {
    does 'accepted hear write hear wait' 'listen accept read write read bound look ack=2 wait'
    does 'accepted-nonblock hear write hear miss' 'read write read bound nothing'
}

@test "a connection received in a message is treated from its first use on" {
    does 'raw pass-back write*2' 'pass close passed nodelay=1 write*2'
    does 'raw send pass-back-by-number write*2' 'nodelay=1 write nodelay=0 pass close passed nodelay=1 write*2'
    does_under '"match": {"remote": "127.0.0.2"}' 'raw pass-back stdout write*2' 'pass close passed dup write*2'
}

# translate prints "listener:" for the next connection.
@test "after a listener was passed on, its next connections are treated" {
    does 'accepted pass-listener accepted-next write*2' 'listen accept pass accept listener:nodelay=1'
    does 'accepted pass-listener-back accepted-next write*2' 'listen accept pass passed accept listener:nodelay=1'
}

# Options stay at the socket, and its maker would not learn of a change.
@test "a child that starts a program or installs a filter changes no socket of its parent, however it was made" {
    local way
    for way in child-program clone-program unseen-child-program; do
        does "connected write $way write" 'write fork nodelay=1 write'
        does "accepted write*2 $way accepted-next write*2" 'listen accept write nodelay=1 write fork accept listener:nodelay=1'
    done
    # The end of a child that clone() has made is one of a process.
    does 'connected write*2 clone-writes write*2' 'write nodelay=1 write fork write nodelay=0 write*5 nodelay=1 gone write nodelay=0 write'
    does 'connected write*2 clone-filter write' 'write nodelay=1 write fork filter gone write'
    does 'connected write*2 child-filter write' 'write nodelay=1 write fork filter write'
    # One that shares the descriptors, too, makes its parent no child.
    does 'connected write*2 clone-all pass' \
        'write nodelay=1 write fork other:nodelay=1 other:bound bound nodelay=0 bound pass'
}

@test "a program that is started gets the connections that survive the exec, and no other is changed" {
    does 'connected write spawn' 'write other:nodelay=1 other:bound nodelay=1 bound fork'
    does 'connected write cloexec spawn' 'write fork'
    does 'connected write cloexec exec' 'write exec'
    does 'connected write cloexec vfork' 'write fork'
}

@test "a listener that accepts unseen has the program's own options in the next program, and keeps the library's while a child is made" {
    local begin='listener:nodelay=1 listener:bound listen accept'
    does 'aio accepted exec' "$begin listener:nodelay=0 listener:bound exec"
    does 'aio accepted spawn' "$begin fork"
}

@test "what the program corks stays corked while a child is made" {
    local other='other:nodelay=1 other:bound' way ended
    for way in spawn vfork clone-vfork; do
        ended=fork
        [[ $way != clone-vfork ]] || ended='fork gone'
        does "connected cork write $way write uncork" "cork=1 write $other $ended write cork=0"
        does "connected more $way write" "more $other $ended write"
    done
    does 'connected cork write child-program write uncork' 'cork=1 write fork write cork=0'
    does 'connected cork write exec' "cork=1 write $other exec"
}

@test "clone() with CLONE_VFORK pushes what is held, like vfork" {
    does 'connected cloexec write*5 clone-vfork' 'write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 fork gone'
}

@test "a socket that could not be passed on is treated as before, and so is a parent's connection that a child passes on" {
    does 'accepted pass-listener-fails accepted-next write*2' 'listen accept pass accept listener:nodelay=1'
    does 'accepted write*2 pass-fails write' 'listen accept write nodelay=1 write nodelay=0 pass nodelay=1 write'
    does 'socket pass-fails connect-it write*2' 'pass listen connect nodelay=1 write*2'
    does 'raw pass-back pass-fails write*2' 'pass close passed pass nodelay=1 write*2'
    does 'connected write*2 child-passes write*3 wait' 'write nodelay=1 write fork pass write nodelay=0 write*2 look nodelay=1 wait'
}

@test "after a pipe has replaced a connection at its descriptor, nothing is pending" {
    does 'connected hear write becomes-a-pipe fed wait' 'read write dup read read wait'
}

@test "what gets a connection's descriptor by raw system calls or by syscall() is not taken for it, and datagrams are not joined" {
    local begin='write nodelay=1 write*2 nodelay=0 write' under='"send": "auto-cork", "max_delay_us": 100000'
    does 'connected write*4 becomes-other write*4 wait' "$begin dup write*4 nodelay=1 wait"
    does 'connected write*4 becomes-writable wait' "$begin dup write pipe write nodelay=1 wait"
    does 'connected write*4 vanish is-gone wait' "$begin close write nodelay=1 read close wait"
    does 'connected write*3 becomes-udp datagrams*2 wait' 'write nodelay=1 write*2 dup nodelay=0 write*4 wait'
    does 'connected write*4 becomes-udp-by-number datagrams*2 wait' "$begin nodelay=1 close dup write*4 wait"
    begin='nodelay=1 cork=1 write*4'
    does_under "$under" 'connected write*4 becomes-other write*4 wait' "$begin dup write*4 cork=0 wait"
    does_under "$under" 'connected write*4 becomes-udp datagrams*2 wait' "$begin dup write*4 cork=0 wait"
    does_under "$under" 'connected write*4 becomes-udp-by-number datagrams*2 wait' "$begin cork=0 close dup write*4 wait"
}

@test "after close_range in a thread's own descriptor table the connections of the others are treated" {
    does 'connected write*2 thread-sockets pass' 'write nodelay=1 write fork gone nodelay=0 pass'
    does 'connected write*2 thread-closes write*3 wait' 'write nodelay=1 write fork gone write nodelay=0 write*2 look nodelay=1 wait'
    does 'connected write*2 helper write*3 wait' 'write nodelay=1 write fork gone write nodelay=0 write*2 look nodelay=1 wait'
    # A call that fails gives it no own table.
    does 'connected write*2 thread close-no-range write*6 wait' \
        'write nodelay=1 write fork write*3 nodelay=0 write*3 nodelay=1 wait gone'
}

@test "TCP_NODELAY that the program sets through one descriptor counts for its duplicate, too" {
    does 'connected copy nodelay swap write*8 wait' 'dup nodelay=1 wait'
    trace "$LIBRARY" 'connected copy swap write*8 wait'
    [[ $seen == *nodelay=0*nodelay=1* ]] || wrong "$seen"
}

@test "a read that returns after its descriptor was closed does not count for the next connection there" {
    trace "$LIBRARY" 'connected reader connected write*5 reader-hears wait'
    echo "seen: $seen"
    seen=${seen// gone/}
    # translate prints "listener:" for the connection's other descriptor.
    [[ $seen == *'listener:nodelay=1 listener:nodelay=0 listener:nodelay=1 wait'* ]]
}

@test "under nodelay only a connection's second write costs a call more, and pending ACKs are sent" {
    local under='"send": "nodelay"'
    does_under "$under" 'connected write*9 wait write*3' 'write nodelay=1 write*8 wait write*3'
    does_under "$under" 'connected write*3 delay write*3' 'write nodelay=1 write*2 nodelay=0 nodelay=1 write*3'
    does_under "$under" 'connected write*3 cork write*2 uncork write' 'write nodelay=1 write*2 cork=1 write*2 cork=0 write'
    does_under "$under" 'connected write*2 hear write hear wait' 'write nodelay=1 write read write read bound look ack=2 wait'
    does_under "$under" 'connected write*2 hear write hear write wait' 'write nodelay=1 write read write read bound write wait'
}

# translate prints "listener:" for the duplicate.
@test "writes through a descriptor and through its duplicate form one burst" {
    does 'connected write*2 copy write swap write swap write*3 wait' \
        'write nodelay=1 write dup write listener:nodelay=0 write*3 listener:nodelay=1 wait'
    does 'connected write*5 copy write vanish swap wait' \
        'write nodelay=1 write*2 nodelay=0 write*2 dup write close nodelay=1 listener:nodelay=1 wait'
    does 'connected copy write*5 close swap wait write*5 wait' \
        'dup write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 close wait listener:nodelay=0 look listener:nodelay=1 wait'
    does 'connected copy close swap write*5 wait' \
        'dup close listener:nodelay=1 listener:nodelay=0 listener:nodelay=1 wait'
}

@test "data that is read through one of two duplicates is acknowledged, whichever of them is closed" {
    does 'connected copy hear write hear swap close wait' 'dup read write read bound listener:ack=2 wait'
    does 'connected copy hear write hear close swap wait' 'dup read write read bound ack=2 close wait'
}

@test "after a raw system call closes a descriptor, its pending bytes and ACKs are sent through its duplicate" {
    does 'connected copy hear write hear vanish swap wait' 'dup read write read bound close look ack=2 listener:ack=2 wait'
    does 'connected copy write*5 vanish swap wait' \
        'dup write nodelay=1 write*2 nodelay=0 write*2 close nodelay=1 listener:nodelay=1 wait'
    does 'connected copy write*5 is-covered swap wait' \
        'dup write nodelay=1 write*2 nodelay=0 write*2 dup nodelay=1 listener:nodelay=1 wait'
    does_under '"send": "auto-cork"' 'connected copy write*3 vanish swap wait' \
        'dup nodelay=1 cork=1 write*3 close cork=0 listener:cork=0 wait'
}

@test "before close_range or dup2 closes a descriptor, what was written there is sent, since its number may be a new socket's soon" {
    does 'connected copy write*5 close-range socket swap wait' 'dup write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 wait'
    does_under '"send": "auto-cork", "max_delay_us": 100000' 'connected copy write*3 close-range socket swap wait' \
        'dup nodelay=1 cork=1 write*3 cork=0 wait'
    local way
    for way in replace replace-by-dup3; do
        does "connected copy write*5 $way swap wait" 'dup write nodelay=1 write*2 nodelay=0 write*2 nodelay=1 dup wait'
    done
    does 'connected write*5 onto-itself write wait' 'write nodelay=1 write*2 nodelay=0 write*2 dup write nodelay=1 wait'
}

@test "a thousand sockets, one after another, need no memory of their own" {
    trace "$LIBRARY" 'connected many-sockets'
    sed '1,/connections/d' "$T/raw" >"$T/steps"
    [[ $(grep -c 'socket(' "$T/steps") -eq 1100 ]]
    run ! grep mmap "$T/steps"
}

@test "a file that gets the number of a connection's stream is not asked for a connection" {
    trace "$LIBRARY" 'connected fdopen write fread write fread*2 write fread*2 fclose file-there'
    [[ $seen == *'ack=1 read close read'* ]] || wrong "$seen"
    run ! grep ENOTSOCK "$T/raw"
}

@test "after the program has installed a seccomp filter, the library does nothing" {
    does 'connected hear write hear filter pipe vfork connect accept' 'read write read bound*2 filter pipe fork listen accept'
    does 'connected write*2 filter write*8 hear write hear wait connected write*8 hear write hear wait' \
        'write nodelay=1 write nodelay=0 filter write*8 read write read wait listen wait'
    does 'connected helper filter write*2 close' 'fork gone filter write*2 close'
    # mmap and fcntl are those of posix_spawn and fdopen.
    does 'connected write*2 filter spawn vfork exec fdopen stdout pass' \
        'write nodelay=1 write nodelay=0 filter mmap fork*2 exec fcntl dup pass'
    does 'connected write*2 filter becomes-a-pipe' 'write nodelay=1 write nodelay=0 filter dup read'
}

@test "a seccomp filter that the kernel refuses changes nothing, and neither does a clock that must not be read" {
    trace "$LIBRARY" 'connected write*2 refused write*2'
    [[ $seen == 'write nodelay=1 write nodelay=0 filter'*' filter'*' nodelay=1 write'* ]] || wrong "$seen"
    in_time ends_as 'raw pass-back refused write*2' 'nodelay=1 write*2'
    # What was passed on is left alone, and an option that a rule ignores stays ignored.
    trace "$LIBRARY" 'connected write*2 pass refused write*8'
    [[ $seen == *' filter'* && ${seen##* filter} != *nodelay* ]] || wrong "$seen"
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"sockopt": {"TCP_KEEPIDLE": "ignore"}}]}' \
        trace "$LIBRARY" 'accepted listener-idle refused accepted-next both-idle'
    [[ $seen == *' filter'* && $seen != *keepidle* ]] || wrong "$seen"
    [[ $(uname -m) != x86_64 ]] || does 'connected hear write tsc hear wait' 'read write fork gone read bound look ack=2 wait'
}

@test "a seccomp filter that the kernel refuses does not end the rest under another thread's filter" {
    local i
    for ((i = 0; i < 10; i++)); do
        trace "$LIBRARY" 'connected write*2 filter-meanwhile write*2'
        [[ $seen == 'write nodelay=1 write '*' filter'* ]] || wrong "$seen" || return
        [[ ${seen##* filter} == *write*write* && ${seen##* filter} != *nodelay* ]] || wrong "$seen" || return
    done
}

@test "a thread that installs a seccomp filter while another one's is being installed is not killed" {
    trace "$LIBRARY" 'connected second-filter' && [[ $seen == *' filter'* ]] || wrong "$seen"
}

@test "before a seccomp filter the library clears its TCP_NODELAY, except in a forked child, whose parent uses the sockets" {
    local begin='listen accept write'
    does 'accepted write*2 filter accept' "$begin nodelay=1 write nodelay=0 filter listen accept"
    does 'connected write*2 filter-by-number write' 'write nodelay=1 write nodelay=0 filter write'
    does 'connected nodelay filter' 'nodelay=1 filter'
    does 'accepted write child-filter' "$begin fork filter"
}

@test "if no rule is for the program, the library makes no table and does nothing" {
    export NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"process": "other"}}]}'
    does 'connected write*6 hear write hear wait' 'write*6 read write read wait'
    # It asks nothing about the descriptors that it finds. With a rule it does.
    run ! grep -q 'lseek(0, 0, SEEK_CUR)' "$T/raw"
    unset NAGLESHIM_POLICY
    trace "$LIBRARY" "connected $(repeat 6 write)"
    [[ $seen == *nodelay=1* ]]
    grep -q 'lseek(0, 0, SEEK_CUR)' "$T/raw"
}

@test "options set by a rule are undone if the socket gets another rule or none" {
    local options='"sockopt": {"TCP_KEEPIDLE": {"set": 77}, "SO_KEEPALIVE": {"set": 1}}' set='keepidle=77 keepalive=1' way undone
    local two='"match": {"remote": "127.0.0.2"}, "send": "nodelay"' three='"match": {"remote": "127.0.0.3"}, "send": "app", "ack": "app"'
    for way in 'socket 7200' 'socket idle says-own 500'; do
        undone="connect keepidle=${way##* } keepalive=0 connect"
        way=${way% *}
        does_under "$two, $options}, {$three" "$way refused-by-2 says-own connect-it says-own write*2" \
            "$set ${undone/connect/connect listen} write*2"
        does_under "$two, $options}, {$three" "$way refused-by-2 says-own refused-by-3 says-own refused-by-2 says-own" "$set $undone $set connect"
    done
    # The library uses its object of a closed socket again.
    does_under "$two, $options" 'socket refused-by-2 close socket says-own' "$set connect close"
    does_under "$two, ${options//set/max}" 'socket idle close socket connect-it' 'close listen connect'
    # A child of vfork has its own descriptors, and this memory.
    does_under "$two, $options" 'socket vfork-connects refused-by-2 says-own' "fork close connect $set connect"
    # A connection that is accepted has the options of its listener.
    does_under "\"match\": {\"local\": \"127.0.0.1\", \"role\": \"server\"}, $options" 'accepted says-own' \
        'listener:keepidle=77 listener:keepalive=1 listen accept keepidle=77 keepalive=1'
}

@test "options that the program has set before its rule is known wait for the rule, also when a child is made" {
    local way rule='"sockopt": {"TCP_KEEPIDLE": {"max": 100}}' other='other:nodelay=1 other:bound '
    does_under "$rule" 'socket idle fork connect-it' 'fork listen keepidle=100 connect'
    does_under "$rule" 'connected bad-idle idle says-own' 'keepidle= keepidle=100'
    does_under "${rule/'{"max": 100}'/'"ignore"'}" 'socket idle fork connect-it' 'fork listen connect'
    # Another program gets them as they were asked for, but not those of a socket that an exec closes.
    for way in child-program clone-program; do
        does_under "$rule" "socket idle $way connect-it" 'fork keepidle=500 listen keepidle=100 connect'
    done
    for way in spawn vfork; do
        does_under "$rule" "socket idle $way connect-it" "keepidle=500 ${other}fork listen keepidle=100 connect"
    done
    does_under "$rule" 'socket idle exec' "keepidle=500 ${other}exec"
    does_under "$rule" 'socket idle child-passes' 'fork keepidle=500 pass'
    for way in spawn exec child-program; do
        does_under "$rule" "socket idle cloexec $way" "$([[ $way == exec ]] && echo exec || echo fork)"
    done
    # A rule's value that the parent's connection has by then stays.
    does_under "$rule" 'socket idle late-program' 'fork listen keepidle=100 connect'
}

@test "the log keeps no descriptor open, and neither does a rule with args" {
    local debug
    env LD_PRELOAD="$LIBRARY" ls /proc/self/fd >"$T/plain"
    NAGLESHIM_LOG=debug NAGLESHIM_LOG_FILE=$T/log env LD_PRELOAD="$LIBRARY" ls /proc/self/fd >"$T/logged"
    debug=$(grep -c . "$T/log")
    [[ $debug -gt 1 ]]
    diff "$T/plain" "$T/logged"
    # Nor does the reading of the program's arguments.
    NAGLESHIM_POLICY='{"version": 1, "rules": [{"match": {"args": "/proc/*"}}]}' env LD_PRELOAD="$LIBRARY" ls /proc/self/fd >"$T/logged"
    diff "$T/plain" "$T/logged"
}

@test "under auto-cork a burst is corked from its first write, and pushed before a wait or a burst elsewhere" {
    local under='"send": "auto-cork", "max_delay_us": 100000'
    does_under "$under" 'connected write*3 hear write*2 wait' \
        'nodelay=1 cork=1 write*3 cork=0 read cork=1 write*2 cork=0 wait'
    does_under "$under" 'connected write big write wait' 'nodelay=1 cork=1 write*3 cork=0 wait'
    does_under "$under" 'connected write nodelay delay write wait' 'nodelay=1 cork=1 write nodelay=1 nodelay=0 write nodelay=1 cork=0 wait'
    does_under "$under" 'connected write other write wait' \
        'nodelay=1 cork=1 write look other:nodelay=1 cork=0 other:cork=1 other:write look write other:cork=0 wait'
    # A busy poll elsewhere is a wait.
    does_under "$under" 'connected other*2 try*3 wait' \
        'other:nodelay=1 other:cork=1 other:write*2 nothing*2 other:cork=0 nothing wait'
    does_under "$under" 'connected write*2 try-local wait' 'nodelay=1 cork=1 write*2 look cork=0 wait'
    # A stream that asks for room before each write stays corked.
    does_under "$under" 'connected write room write room write room write' \
        'nodelay=1 cork=1 write cork=0 wait write wait cork=1 write look write'
    # After a single write, the next burst is corked from its second write.
    does_under "$under" "connected $(repeat 4 'write wait')" \
        'nodelay=1 cork=1 write cork=0 wait write wait cork=1 write look cork=0 wait cork=1 write look cork=0 wait'
    does_under "$under" "connected $(repeat 4 'write hear')" \
        'nodelay=1 cork=1 write cork=0 read write read bound write read write read'
}

@test "a connection with late bursts is corked later, and with a very late one no more" {
    local late='write*2 pause hear'
    # The library uses its object of a closed socket again.
    does_under '"send": "auto-cork"' "connected $(repeat 3 "$late")close connected write*2 wait" \
        'nodelay=1 cork=1 write*2 pause cork=0 read write cork=1 write pause cork=0 read bound write*2 pause read close
listen connect nodelay=1 cork=1 write*2 cork=0 wait'
    does_under '"send": "auto-cork", "max_delay_us": 100000' "connected $(repeat 3 "$late")" \
        "nodelay=1 $(repeat 2 'cork=1 write*2 pause cork=0 read')bound cork=1 write*2 pause cork=0 read"
    # After three such connections, the next ones are not corked either. translate prints "listener:" for them.
    local other=' listen listener:nodelay=1'
    late='connected write*2 pause*6 hear '
    does_under '"send": "auto-cork"' "${late}write*2 wait $late${late}connected write*2 wait" "nodelay=1 cork=1 write*2 pause*6 cork=0 \
read write*2 wait$(repeat 2 "$other listener:cork=1 pause*6 listener:cork=0")$other wait"
}

@test "under auto-cork another thread's bytes are pushed before an exec" {
    does_under '"send": "auto-cork", "max_delay_us": 100000' 'connected another exec' \
        'fork nodelay=1 cork=1 write*5 cork=0 other:nodelay=1 other:bound bound exec'
}

@test "bytes that a child of vfork writes are not held" {
    does_under '"send": "auto-cork", "max_delay_us": 1000' 'connected vfork-writes write*3 hear' \
        'other:nodelay=1 other:bound nodelay=1 bound fork write*2 cork=1 write*3 cork=0 read'
}

@test "held bytes are pushed before a fork, before a seccomp filter, and before a close that unread data turns into a reset" {
    local under='"send": "auto-cork", "max_delay_us": 100000'
    does_under "$under" 'connected write fork' 'nodelay=1 cork=1 write cork=0 fork'
    does_under "$under" 'connected write filter' 'nodelay=1 cork=1 write cork=0 nodelay=0 filter'
    does_under "$under" 'connected says write close' 'nodelay=1 cork=1 write cork=0 close'
}

# SPDX-License-Identifier: MIT
# Promise: Every function of libc that reads, writes, waits or starts a process is intercepted, or names.table says why not.
# tests/systems/libcs does the same with other releases of glibc.

load ../helpers/common

setup() {
    ns_setup
    libcs=("$(gcc -print-file-name=libc.so.6)")
    [[ ! -e $(echo /lib/ld-musl-*.so.1) ]] || libcs+=(/lib/ld-musl-*.so.1)
}

@test "the library has every function of this machine's libcs that reads, writes, waits or starts a process, or names.table has it" {
    tests/file/names "$LIBRARY" "${libcs[@]}"
}

@test "each row of names.table fits a function" {
    [[ ${#libcs[@]} -eq 2 ]] || ns_skip "musl is not installed"
    tests/file/names --rows "$LIBRARY" "${libcs[@]}"
}

# found NAMES EXPECTED: with a libc that exports just these, the comparison prints just this.
found() {
    # shellcheck disable=SC2086 # several names
    printf 'int %s(void) { return 0; }\n' $1 | gcc -w -fno-builtin -shared -fPIC -o "$T/libc.so" -x c -
    run -1 tests/file/names "$LIBRARY" "$T/libc.so"
    [[ $output == "$2" ]] || wrong "$output"
}

@test "a function that is in neither, and one that is in both, are found" {
    local name table=tests/file/names.table
    for name in readv4 pwritev4 sendv poll_again epoll_pwait3 sleep_until pthread_join_np waitpidfd vfork2 futex_wait; do
        found "$name strlen read pwrite" "neither in the library nor in names.table: $name"
    done
    mkdir -p "$T/tests/file"
    { cat "$table" && echo 'fgets | a reason'; } >"$T/$table"
    cp tests/file/names "$T/tests/file"
    cd "$T"
    found "strlen fgets pwrite" "in the library and in names.table: fgets"
}

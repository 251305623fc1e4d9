# SPDX-License-Identifier: MIT
# Promise: Whatever another user has named his programs, files, control groups and rules, no verb of the command lets a name
# drive the terminal, begin a line, or break the JSON.
# Waits: the verbs that watch do so for a second.

load ../helpers/doctor

setup() {
    ns_setup
    has_ptrace || cannot_here "CAP_SYS_PTRACE is missing"
    ns_python
    # A title for the terminal's window, an incomplete sequence of UTF-8, and a line of its own. The kernel refuses the
    # newline in a control group's name, and it ends a #! line.
    word=$'x\e]2;x\a\xe2\x82'
    bad=$word$'\nINJECTED'
    local root
    root=$(findmnt -nfo TARGET -t cgroup2) || cannot_here 'no cgroup2 file system is mounted'
    top=$root/system.slice/system-nagleshim.slice
    group=$top/$$$word.service
    mkdir -p "$group" 2>/dev/null || cannot_here 'control groups cannot be made'
    ns_start names unshare --mount sh -c 'mount -t bpf bpf /sys/fs/bpf && mount -t tmpfs none /etc/systemd/system &&
        mount -t tmpfs none /dev/shm && echo mounted; exec sleep 600'
    ns_wait_for "$T/names.out" mounted || cannot_here 'no BPF file system can be mounted'
    local names=/proc/${NS_PID[names]}
    inside=(nsenter --mount="$names/ns/mnt" --root="$names/root" --wd="$names/cwd" --)
    verbs=()
}

teardown() {
    ns_teardown
    for _ in {1..200}; do
        ! rmdir "$group" "$top" "${top%/*}" 2>/dev/null || return 0
        sleep 0.01
    done
}

# says_of FORM VERB WORDS...: runs it, for at most $seconds, and keeps what it prints.
says_of() {
    local form=$1 file
    shift
    verbs+=("$1")
    file=$T/said/${#verbs[@]}.$1
    timeout "${seconds:-20}" "${inside[@]}" "$NS" "$@" >"$file.out.$form" 2>"$file.err.text" 3>&- || true
}

# Programs and files whose names and contents have the bad text; a client that stalls, one that has the library and waits, and
# a control group. The client pauses, as it sends as fast as it can once it is cured.
make_names() {
    mkdir "$T/said" "$T/dir$bad" "$T/lib$bad"
    cp "$EXAMPLES/queue_put" "$T/put$bad"
    cp "$PROBES/doctor_patient" "$T/patient$bad"
    cp "$LIBRARY" "$T/lib$bad/libnagleshim.so"
    printf '#!/no/%s\n' "$word" >"$T/script$bad"
    echo 'int main(void) { return 3; }' | gcc -x c -o "$T/odd$bad" "-Wl,--dynamic-linker=/no/$bad" -
    chmod +x "$T/script$bad"
    # The library's parser refuses C0 in a rule's name, but neither C1 nor what turns the direction of a text.
    printf '{"version": 1, "rules": [{"name": "\u009b31m\u202e%s"}]}' '?]2;x?' >"$T/rule$bad.json"
    printf '{"version": 1, "%s": 2, "rules": [{"send": 5}]}' "${word//$'\a'/}" >"$T/dir$bad/wrong$bad.json"
    cp "$T/rule$bad.json" "$T/dir$bad/rule$bad.json"
    "${inside[@]}" sh -c 'mkdir "/etc/systemd/system/$1.service.d" && printf "[Service]\nEnvironment=LD_PRELOAD=%s\n" "$2" \
        >"/etc/systemd/system/$1.service.d/zz-nagleshim.conf"' sh "$word" "/no/$word/libnagleshim.so"
    ns_serve server "$EXAMPLES/queue_server" --connections 0 0
    ns_start put "${inside[@]}" sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$group" "$T/put$bad" --pause 500 --warmup 0 \
        127.0.0.1 "$port" 100000000
    put=${NS_PID[put]}
    NAGLESHIM_POLICY="$T/rule$bad.json" LD_PRELOAD="$T/lib$bad/libnagleshim.so" ns_start patient "$T/patient$bad" pause "$bad"
    ns_wait_for "$T/patient.out" '^ready ' || wrong "it failed:" "$T/patient.err"
    patient=${NS_PID[patient]}
}

# Every verb, with every option that reads something of others.
run_verbs() {
    local form
    says_of text run --policy "$T/none$bad" -- "$T/put$bad"
    says_of text run "$T/none$bad"
    says_of text host enable --unit "$bad"
    says_of text demo "$bad"
    says_of text version "$bad"
    says_of text help "$bad"
    says_of text "no$bad"
    for form in text json; do
        local json=()
        [[ $form == text ]] || json=(--json)
        says_of $form check "${json[@]}" "$T/none$bad" "$T/rule$bad.json"
        says_of $form check "${json[@]}" --dir "$T/dir$bad"
        says_of $form explain "${json[@]}" --policy "$T/rule$bad.json" "$T/put$bad"
        says_of $form doctor "${json[@]}" "$T/script$bad"
        says_of $form doctor "${json[@]}" "$T/odd$bad"
        says_of $form doctor "${json[@]}" --pid "$put"
        says_of $form doctor "${json[@]}" --pid "$patient"
        says_of $form doctor "${json[@]}" --all
        says_of $form cure "${json[@]}" --dry-run --pid "$put"
        says_of $form cure "${json[@]}" --cgroup "$group"
        says_of $form host status "${json[@]}"
        says_of $form cure "${json[@]}" --undo
        says_of $form diagnose "${json[@]}" --for 1 --pid "$put"
        says_of $form compare "${json[@]}" -- "$T/odd$bad"
    done
    seconds=3 says_of text diagnose --for 1 --json="$T/said/inside.json" --html "$T/said/page.text" --write-policy "$T/made$bad.json" -- \
        "$T/put$bad" --warmup 0 127.0.0.1 "$port" 20
    says_of text top --once --interval 1 --pid "$put"
    says_of json top --json --interval 1 --pid "$put"
    seconds=2 says_of text top --prometheus - --interval 0.5 --pid "$put"
}

# Prints what is wrong with the files, by verb.
judge() {
    "$python" - "$@" <<'PYTHON'
import json, os, sys
directory, verbs = sys.argv[1], sys.argv[2:]
wrong, reached = [], set()
for name in sorted(os.listdir(directory)):
    data = open(f"{directory}/{name}", "rb").read()
    verb = "diagnose" if name in ("inside.json", "page.text") else name.split(".")[1]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        wrong.append(f"{name}: {error}")
        text = data.decode(errors="replace")
    odd = {c for c in text if c != "\n" and not (c == "\t" and ("json" in name or name == "page.text")) and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0
           or 0x202a <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069)}
    if odd:
        wrong.append(f"{name}: has {odd}")
    if any(line.startswith("INJECTED") for line in text.split("\n")):
        wrong.append(f"{name}: a line begins with INJECTED")
    if name.endswith("json"):
        try:
            json.loads(text)
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    if "?]2;x?" in text or "\\u001b]2;x" in text:
        reached.add((verb, "json" if name.endswith("json") else "text"))
print(*wrong, sep="\n")
for verb in verbs:
    for form in ["text"] + ["json"] * (verb in ("check", "explain", "doctor", "cure", "host", "diagnose", "top")):
        if (verb, form) not in reached:
            print(f"the names do not reach the {form} of {verb}")
PYTHON
}

@test "no name that a user can choose drives the terminal or breaks the JSON, whatever the verb" {
    local known=()
    make_names
    # The judge refuses the names as they are.
    mkdir "$T/raw"
    printf '%s' "$bad" >"$T/raw/1.raw.out.text"
    run judge "$T/raw"
    [[ $output == *'1.raw.out.text: has'*'begins with INJECTED'* && $output == *"can't decode"* ]]
    run_verbs
    mapfile -t known < <(sed -n 's/^NS_VERB(\([a-z]*\),.*/\1/p' shim/cli/verbs.def | sort)
    [[ ${#known[@]} -gt 10 ]]
    run judge "$T/said" "${known[@]}"
    [[ -z $output ]] || wrong "$output"
    grep -q stalls "$T/said/page.text"
}

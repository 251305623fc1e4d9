# SPDX-License-Identifier: MIT
# Promise: `nagleshim check` prints every error of a policy with its place, and warns of rules that are probably wrong.

load ../helpers/command

# mistakes TEXT: sets places to those of check's messages about it, as "line:column line:column".
mistakes() {
    printf '%s' "$1" >"$T/p.json"
    run --separate-stderr "$NS" check "$T/p.json"
    expect 1 output is ""
    places=$(sed -nE "s,^$T/p\.json:([0-9]+:[0-9]+): .*; .*|^$T/p\.json:([0-9]+:[0-9]+): .* must be .*,\1\2,p" <<<"$stderr" | tr '\n' ' ')
    # Each line has a place, the mistake and what is allowed.
    [[ $(wc -w <<<"$places") -eq ${#stderr_lines[@]} ]] || unexpected
}

expect_places() {
    [[ $places == "$1 " ]] || unexpected "expected places: $1; got: $places"
}

@test "check prints every error of a file, in the order of the text" {
    mistakes '{"version": 2, "enabled": "yes",
 "rules": [
  {"name": "", "send": "fast", "max_delay_us": 7},
  {"match": {"process": ["a", 3, ""], "role": "peer", "local": ["x", "7000-1"], "wat": 1}},
  {"sockopt": {"SO_NONE": 1, "SO_SNDBUF": {"set": -1, "min": 3}, "TCP_CORK": "pass"}},
  17
 ],
 "rules": [], "more": true}'
    expect_places "1:13 1:27 3:12 3:24 3:48 4:31 4:34 4:47 4:65 4:70 4:81 5:16 5:51 5:55 5:66 6:3 8:2 8:15"
    mistakes '{"rule": [],
 "versoin": 1}'
    expect_places "1:2 2:2 1:1 1:1"
    expect_part stderr '"version" is missing'
    expect_part stderr '"rules" is missing'
    mistakes '[1, 2]'
    expect_places "1:1"
}

@test "check warns of a rule only if an earlier rule takes all of its sockets" {
    local rules
    while IFS= read -r rules; do
        run --separate-stderr "$NS" check "$(policy p "$rules")"
        expect 0 stderr is "$T/p.json: warning: rule 2: never used: rule 1 before it already takes every socket it could match"
    done <<'CASES'
{"match": {"process": ["a", "b*"]}}, {"match": {"process": "b*", "role": "client", "remote": "80"}}
{"match": {"remote": ["10.0.0.0/8", "fd00::/8"]}}, {"match": {"remote": ["10.1.0.0/16", "[fd00::1]:80"]}}
{"match": {"remote": "1-1023"}}, {"match": {"remote": ["10.0.0.1:80", "443"], "args": "x"}}
{"match": {"role": "server", "local": "80-90"}}, {"match": {"role": "server", "local": "127.0.0.1:80-90"}}
{"match": {"args": "x"}}, {"match": {"args": "x"}}
{"match": {"role": "client"}}, {"match": {"role": "client", "remote": "80"}}
{}, {}
CASES
    while IFS= read -r rules; do
        run --separate-stderr "$NS" check "$(policy p "$rules")"
        expect 0 stderr is ""
    done <<'CASES'
{"match": {"process": "a"}}, {"match": {"role": "client"}}
{"match": {"process": "a"}}, {"match": {"process": ["a", "b"]}}
{"match": {"remote": "10.0.0.0/8"}}, {"match": {"remote": ["10.1.0.0/16", "11.0.0.0/8"]}}
{"match": {"remote": "10.1.0.0/16"}}, {"match": {"remote": "10.0.0.0/8"}}
{"match": {"remote": "80-90"}}, {"match": {"remote": "80-91"}}
{"match": {"remote": "0.0.0.0/0"}}, {"match": {"remote": "80"}}
{"match": {"remote": "80"}}, {"match": {"local": "80", "role": "server"}}
{"match": {"role": "server"}}, {"match": {"process": "a"}}
{"match": {"role": "client"}}, {"match": {"role": "server"}}, {}
{"match": {"process": "a"}}, {}
CASES
    # Thousands of rules take less than two seconds of a processor (0.09 measured).
    python3 -c 'print("""{"version": 1, "rules": [%s]}""" % ", ".join("{\"match\": {\"process\": [\"a%d\", \"b%d\"]}}" % (i, i) for i in range(4000)))' >"$T/p.json"
    run bash -c 'ulimit -t 2; exec "$@"' bash "$NS" check "$T/p.json"
    expect 0 output is "$T/p.json: valid, 4000 rules"
}

@test "check warns of rules with one half on, and of options and delays that have no effect or harm" {
    local rules said
    while IFS=';' read -r rules said; do
        run --separate-stderr "$NS" check "$(policy p "$rules")"
        expect 0 stderr is "${said:+$T/p.json: warning: $said}"
    done <<'CASES'
{}
{"send": "app", "ack": "app"}
{"send": "auto-cork", "max_delay_us": 200}
{"sockopt": {"SO_SNDBUF": "ignore"}}
;"rules" is empty: nothing is touched
{"ack": "app"};rule 1: only writes are treated, which can cause a stall that was not there before; treat reads ("ack": "before-wait"), too
{"send": "app"};rule 1: only reads are treated, which can cause a stall that was not there before; treat writes ("send": "adaptive"), too
{"send": "auto-cork", "max_delay_us": 50000};rule 1: max_delay_us is longer than the delayed ACK (40 ms) that it should avoid
{"send": "nodelay", "max_delay_us": 300};rule 1: max_delay_us has no effect: only "send": "auto-cork" holds bytes
{"max_delay_us": 200};rule 1: max_delay_us has no effect: only "send": "auto-cork" holds bytes
{"sockopt": {"SO_SNDBUF": {"min": 65536}}};rule 1: an explicit SO_SNDBUF switches the kernel's autotuning off; "ignore" leaves it on
{"match": {"role": "client", "local": "80"}};rule 1: "local" of a client matches only if the program binds the socket before it connects
CASES
}

@test "check warns of rules that match nothing, and says what was probably meant" {
    local rules said
    while IFS=';' read -r rules said; do
        run --separate-stderr "$NS" check "$(policy p "{\"match\": {$rules}}")"
        expect 0 stderr is "${said:+$T/p.json: warning: rule 1: $said}"
    done <<'CASES'
"role": "server", "remote": ["10.0.0.1:80", "443"];"remote" of a server is the client's address, whose port the kernel chooses; did you mean "local"?
"process": "/usr/bin/";"process": "/usr/bin/": it is a directory; did you mean its programs, with * at the end?
"process": "redis,nginx";"process": "redis,nginx": it is one pattern; did you mean a list, ["a", "b"]?
"process": "redis|nginx";"process": "redis|nginx": it is one pattern; did you mean a list, ["a", "b"]?
"process": ["a", "^nginx$"];"process": "^nginx$": it is not a regular expression; did you mean it without ^?
"process": "/bin/sh /srv/x";"process": "/bin/sh /srv/x": "process" has no arguments; did you mean "args"?
"process": "*/server.py";"process": "*/server.py": the process is usually its interpreter; did you mean "args"?
"process": "python3", "args": "-m app";"args": "-m app": each argument is compared alone; did you mean one of the words?
"role": "server", "remote": ["10.0.0.0/8", "443"], "process": ["/usr/bin/*", "redis", "[^a]*", "/opt/An App/bin/app", "python3.11"]
"role": "client", "remote": "5432", "args": ["-m", "*/app.py"]
CASES
}

@test "check warns of files in a policy directory that no program reads, and of rules for another program" {
    local file dir=$T/policies
    policy policies/default '{"match": {"process": "*"}}'
    policy policies/python3 '{"match": {"process": "/usr/bin/python3.11"}}, {"match": {"process": ["redis*"]}}, {}'
    policy policies/link '{"match": {"process": "Nginx2"}}' # the control, as the files from Nginx2.json on
    for file in nginx.conf Nginx.json nginx.service.json app.py.json Nginx2.json nginx.json.old .hidden; do
        cp "$dir/default.json" "$dir/$file"
    done
    mkdir "$dir/directory"
    cp /bin/true "$T/Nginx2" && ln -s Nginx2 "$T/link"
    PATH=$T:$PATH run --separate-stderr "$NS" check
    expect 0 stderr is "nagleshim check: warning: $dir/Nginx.json: PATH has no such program; did you mean a name in small letters?
nagleshim check: warning: $dir/app.py.json: a script gets its interpreter's file, such as python3.json
nagleshim check: warning: $dir/nginx.conf: only files in .json are read, for example nginx.json
nagleshim check: warning: $dir/nginx.service.json: the name is a unit's; did you mean the program's, without .service?
$dir/python3.json: warning: rule 2: \"process\" is not python3, the program that reads this file"
}

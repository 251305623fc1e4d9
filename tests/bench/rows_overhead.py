# SPDX-License-Identifier: MIT
"""Programs that need no cure, which the library must not slow down."""

import functools
import os
import pathlib
import shutil
import tempfile

from side_by_side import BUILT_IN, NO_SHIM, PROBES, CannotRun, field, free_port, matched, modes, path


def compare_overhead(bench, name, run, pairs, note=""):
    """run(place, policy) measures once: the library must not make the program slower, and adaptive must not be slower
    than nodelay."""
    rows = ((name, BUILT_IN, NO_SHIM, "no slower"),
            (f"{name}: adaptive / nodelay", modes()["adaptive"], modes()["nodelay"], "within 2 %"))
    for title, policy, other, most in rows:
        for cpus, place in bench.places.items() if bench.wanted(title) else ():
            bench.compare(title, cpus, lambda: run(place, policy), lambda: run(place, other), pairs, most, note)


def redis(bench, place, policy, clients, pipelining, count):
    """Seconds for a request."""
    port = free_port()
    out = bench.exchange(place, (policy, policy),
                         ["redis-server", "--save", "", "--appendonly", "no", "--dir", bench.work, "--port", port],
                         ["redis-benchmark", "-p", port, "-c", clients, "-P", pipelining, "-n",
                          count // 5 if bench.quick else count, "-t", "set", "--csv"], port)
    return 1 / matched(r'^"SET[^"]*","([0-9.]+)"', out, "redis-benchmark")


def bench_redis(bench):
    for clients, pipelining, count in ((1, 1, 12000), (20, 1, 25000), (20, 16, 200000)):
        compare_overhead(bench, f"redis-benchmark: {clients} clients, pipelines of {pipelining}",
                         lambda place, policy: redis(bench, place, policy, clients, pipelining, count), bench.pairs(9))


NGINX = """
daemon off; worker_processes 1; pid {dir}/pid; error_log stderr crit;
events {{ worker_connections 512; }}
http {{
    access_log off; tcp_nodelay on; keepalive_requests 1000000;
    client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
    uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
    upstream behind {{ server 127.0.0.1:{behind}; keepalive 64; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{front};
        location / {{
            proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";
        }}
    }}
    server {{ listen 127.0.0.1:{behind}; location / {{ return 200 "{text}"; }} }}
}}
"""


def wrk(bench, place, policy, connections):
    folder = pathlib.Path(tempfile.mkdtemp(dir=bench.work))
    front = free_port()
    (folder / "conf").write_text(NGINX.format(dir=folder, front=front, behind=free_port(), text="x" * 512))
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    out = bench.exchange(place, (policy, policy), [nginx, "-e", "stderr", "-p", folder, "-c", folder / "conf"],
                         ["wrk", "-t", 1, "-c", connections, "-d", "1s", f"http://127.0.0.1:{front}/"], front)
    if "Non-2xx" in out or "Socket errors" in out:
        raise CannotRun(f"wrk says: {out.strip()[-300:]}")
    return 1 / matched(r"Requests/sec: +([0-9.]+)", out, "wrk")


def bench_wrk(bench):
    for connections in (1, 20):
        compare_overhead(bench, f"wrk through nginx as a proxy, {connections} connections",
                         lambda place, policy: wrk(bench, place, policy, connections), bench.pairs(9, 2))


def probe_pair(bench, place, policies, probe, *counts):
    """Seconds for a request of a probe that is its own server and client."""
    out = bench.exchange(place, policies, [PROBES / probe, "server", 0],
                         [PROBES / probe, "client", "127.0.0.1", "PORT", *counts])
    return 1 / field(out, "requests_per_s")


def compare_ends(bench, title, target, *counts):
    """A row for each end with the library."""
    where = {"client": (NO_SHIM, BUILT_IN), "server": (BUILT_IN, NO_SHIM), "both": (BUILT_IN, BUILT_IN)}
    names = [f"{title}, on {end} / without" for end in where]
    if not any(map(bench.wanted, names)):
        return
    with path():
        for cpus, place in bench.places.items():
            ways = [functools.partial(probe_pair, bench, place, policies, "bench_connect", *counts)
                    for policies in ((NO_SHIM, NO_SHIM), *where.values())]
            without, *ours = bench.by_turns(ways, bench.pairs(15))
            for name, times in zip(names, ours):
                bench.add_ratio(name, cpus, times, without, target)


def bench_connections(bench):
    compare_ends(bench, "a connection for each request", "no slower", 500 if bench.quick else 2500)
    compare_ends(bench, "requests read with MSG_WAITALL", 1.10, 2000 if bench.quick else 10000, "whole")


BENCHES = (bench_redis, bench_wrk, bench_connections)

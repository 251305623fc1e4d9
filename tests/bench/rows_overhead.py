# SPDX-License-Identifier: MIT
"""Programs that need no cure, which the library must not slow down; and the cost of being observed."""

import functools
import os
import pathlib
import shutil
import tempfile

from rows_scale import add_flat, added, most_sockets
from rows_send import CURES, small_writes
from side_by_side import (BUILT_IN, NO_SHIM, OBSERVED, PROBES, CannotRun, column, field, free_port, matched, modes,
                          path)


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


def bench_connections(bench):
    count = 500 if bench.quick else 2500
    where = {"client": (NO_SHIM, BUILT_IN), "server": (BUILT_IN, NO_SHIM), "both": (BUILT_IN, BUILT_IN)}
    names = [f"a connection for each request, on {end} / without" for end in where]
    if not any(map(bench.wanted, names)):
        return
    with path():
        for cpus, place in bench.places.items():
            ways = [functools.partial(probe_pair, bench, place, policies, "bench_connect", count)
                    for policies in ((NO_SHIM, NO_SHIM), *where.values())]
            without, *ours = bench.by_turns(ways, bench.pairs(15))
            for name, times in zip(names, ours):
                bench.add_ratio(name, cpus, times, without)


# --- being observed; a stall would hide every difference, so the programs are cured by hand ---

def saturated(bench, place, policy, cure, pieces):
    out = bench.exchange(place, (policy, NO_SHIM), [PROBES / "bench_saturated", "server", 0, pieces, *cure],
                         [PROBES / "bench_saturated", "client", "127.0.0.1", "PORT", pieces, 8, 1000 if bench.quick else 6000])
    return field(out, "round_us") / 1e6


def bench_saturated(bench):
    """A server whose waits never block, with the library on the server only."""
    for pieces in (2, 20):
        name = f"saturated server, {pieces} writes, 8 clients: round / TCP_NODELAY"
        for cpus, place in bench.places.items() if bench.wanted(name) else ():
            with path():
                bench.compare(name, cpus, lambda: saturated(bench, place, BUILT_IN, [], pieces),
                              lambda: saturated(bench, place, NO_SHIM, ["nodelay"], pieces), bench.pairs(7), 1.05)


def bench_observed(bench):
    """Under TCP_CORK one ioctl a round and a few loads; with TCP_NODELAY the loads."""
    rounds = 300 if bench.quick else 3000
    for cure in ("cork", "no_delay"):
        name = f"15 writes with {CURES[cure]} by hand, observed / not"
        for cpus, place in bench.places.items() if bench.wanted(name) else ():
            with path():
                runs = bench.by_turns([functools.partial(small_writes, bench, place, (NO_SHIM, client), [cure], rounds)
                                       for client in (OBSERVED, NO_SHIM)], bench.pairs(11))
            bench.add_ratio(name, cpus, *(column(one, 0) for one in runs), 1.10)
    # Sockets without writes are not sampled.
    add_flat(bench, [(f"added to a write and a poll, observed: {sockets} sockets",
                      lambda sockets=sockets: added(bench, "calls", sockets, 1, 10, OBSERVED) / 100)
                     for sockets in dict.fromkeys(most_sockets(n) for n in (10, 10000))])


def bench_stdio(bench):
    """No stream is a connection: fgets and fread are a load and a jump more, getc is libc's."""
    for function, calls in (("fgets", 20), ("fread", 20), ("getc", 100)):
        name = f"{function} over a file"
        if bench.wanted(name):
            bench.compare(name, "1", *(functools.partial(
                lambda policy: field(bench.client(bench.places["1"][0], policy, [
                    PROBES / "bench_stdio", function, calls * (30000 if bench.quick else 300000)]), "ns_per_call") / 1e9, policy)
                for policy in (BUILT_IN, NO_SHIM)), bench.pairs(25), "within 2 %")


BENCHES = (bench_stdio, bench_redis, bench_wrk, bench_connections, bench_saturated, bench_observed)

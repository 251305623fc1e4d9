# SPDX-License-Identifier: MIT
"""The programs of tests/systems/victims.table, which nobody here wrote, with the shim on one end against the same
programs with the cure that they have themselves: an option of their own where there is one."""

import collections
import getpass
import shutil
import subprocess

from side_by_side import BUILT_IN, NO_SHIM, ROOT, CannotRun, field, free_port

VICTIMS = ROOT / "tests/systems/victims"
PYTHON = "/usr/bin/python3"  # for which the distribution has the modules

# server(bench, cured) starts one, and gives its port; client(cured) is what comes before the port and
# the number of operations, and what comes after. shim: the end that is to have it.
Victim = collections.namedtuple("Victim", "title shim server client")


def http_server(bench, policy, cured):
    site = bench.work / "site"
    site.mkdir(exist_ok=True)
    (site / "page.html").write_text("x" * 400)
    command = [PYTHON, "-u", "-m", "http.server", "0", "-p", "HTTP/1.1", "-b", "127.0.0.1", "-d", site]
    if cured:
        command = [PYTHON, VICTIMS / "http_server_nodelay.py", site]
    return bench.start(bench.places["1"][0], policy, command, wait_for=r"port (\d+)")


def memcached(bench, policy, _):
    port = free_port()
    return bench.start(bench.places["1"][0], policy, [
        "memcached", "-p", port, "-U", "0", "-l", "127.0.0.1", "-u", getpass.getuser()], port)


def queue_server(bench, policy, _):
    return bench.start(bench.places["1"][0], policy,
                       [ROOT / "build/examples/queue_server", "--connections", "0", "0"],
                       wait_for=r"port (\d+)")


def java(bench, policy, cured):
    built = bench.work / "java"
    if not built.exists():
        subprocess.run(["javac", "-d", built, VICTIMS / "HttpPage.java"], check=True)
    option = ["-Dsun.net.httpserver.nodelay=true"] if cured else []
    return bench.start(bench.places["1"][0], policy,
                       ["java", "-XX:+UseSerialGC", *option, "-cp", built, "HttpPage"],
                       wait_for=r"port (\d+)")


def mosquitto(bench, policy, cured):
    port, config = free_port(), bench.work / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser {getpass.getuser()}\n"
                      + "set_tcp_nodelay true\n" * cured)
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    return bench.start(bench.places["1"][0], policy, [program, "-c", config], port)


def script(*command):
    """A client whose cure is its last argument, or that has none."""
    def make(cured, after=()):
        return command, [*after, *(["nodelay"] if cured else [])]
    return make


GET = script(PYTHON, VICTIMS / "http_get.py")
ECHO = script(PYTHON, VICTIMS / "mqtt_echo.py")

ALL = (
    Victim("http.server with the shim / with disable_nagle_algorithm", "server", http_server,
           lambda _: GET(False)),
    Victim("pymemcache with the shim / with no_delay=True", "client", memcached,
           script(PYTHON, VICTIMS / "memcached_client.py")),
    Victim("HTTP::Tiny with the shim / with TCP_NODELAY", "client", queue_server,
           script("perl", VICTIMS / "http_post.pl")),
    Victim("com.sun.net.httpserver with the shim / with its nodelay", "server", java,
           lambda _: GET(False)),
    Victim("mosquitto QoS 2, shim on it / TCP_NODELAY on both", "server", mosquitto,
           lambda cured: ECHO(cured, ["2"])),
)


def one_run(bench, victim, cured):
    policy = NO_SHIM if cured else BUILT_IN
    port = victim.server(bench, policy if victim.shim == "server" else NO_SHIM, cured)
    before, after = victim.client(cured)
    out = bench.client(bench.places["1"][0], policy if victim.shim == "client" else NO_SHIM,
                       [*before, port, 200 if bench.quick else 1000, *after])
    bench.end_servers()
    stalls = field(out, "stalls")
    if cured and stalls > 20:
        raise CannotRun(f"{victim.title}: {stalls:.0f} stalls with its own cure")
    return field(out, "median_us") / 1e6


def bench_victims(bench):
    for victim in ALL:
        if bench.wanted(victim.title):
            bench.compare(victim.title, "1", lambda: one_run(bench, victim, False),
                          lambda: one_run(bench, victim, True), bench.pairs(9), 1.05)


BENCHES = (bench_victims,)

# SPDX-License-Identifier: Apache-2.0
"""Cost of the library for a server: requests per second of the HTTP example.

The same program without the library, with it but not started, recorded by an
agent and embedded.

* All servers are under load all the time, but only one at a time runs, for a
  second; the others are stopped. So other work of the machine disturbs all of
  them equally. (Turns are not shorter, because a recorder's work of once a
  second would be done at each turn.)
* The load comes from another processor and is not the limit: the processor of
  the server is busy all the time, as the table shows.
* One agent runs beside the load, as where a processor has free time; another
  one on the server's processor, so that its CPU time is missing there.
* A second row without the library shows the noise. One more has a thread that
  asks 101 times a second which threads ran and where they block, and as many
  signals that do nothing: it shows the cost of the questions alone.
* A service runs in memory that has been touched: each server gets load for
  some seconds before it is measured.
* The place of a program's pages is worth half a per cent as long as it runs:
  each round starts all of them again.
* A virtual machine does not get all of its time: rates are per processor time,
  of the server and of an agent that shares its processor.
"""
import dataclasses
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.append(f"{ROOT}/tests/integration")
from kit.library_bench import Installation  # noqa: E402
from machine import NotRun, cpu_seconds, dying_with_us  # noqa: E402

PATHS = ("/report", "/page", "/ping")
CONNECTIONS = 16
SERVER_CPU, LOAD_CPU = "0", "1"
TURN_S = 1
WARM_S = 2  # of small requests, until the log of their spans has wrapped


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    program: str
    mode: str
    agent_cpu: str = ""  # CPU time of the agent that records it


ROWS = (Row("without the library", "plain", "off"),
        Row("the same once more", "plain", "off"),
        Row("questions and signals", "plain", "embedded"),
        Row("linked, not started", "linked", "off"),
        Row("agent beside it", "linked", "agent", LOAD_CPU),
        Row("agent on its processor", "linked", "agent", SERVER_CPU),
        Row("embedded", "linked", "embedded"))


def build(stage):
    """The example as a user builds it, and without the library."""
    source = f"{ROOT}/etc/example/http_server.c"
    installed = Installation(stage)
    library = [*installed.ask("--cflags", "--libs"),
               f"-Wl,-rpath,{installed.libdir}"]
    stub = [f"-I{installed.includedir}", f"-I{ROOT}",
            f"{ROOT}/tests/bench/no_fgtrace.c"]
    for name, flags in (("linked", library), ("plain", stub)):
        result = subprocess.run(
            ["gcc", "-O2", source, *flags, "-lmicrohttpd", "-o",
             stage.path(f"bin/{name}")], capture_output=True, text=True)
        if result.returncode != 0:
            raise NotRun(f"{name}: {result.stderr[-300:]}")


class Server:
    """One of the programs, stopped with its agent while it is not its turn."""

    def __init__(self, stage, row, number):
        self.agent, socket = None, stage.path(f"root/server.{number}.sock")
        if row.agent_cpu:
            self.agent = start_agent(stage, socket, row.agent_cpu)
        self.child = subprocess.Popen(
            dying_with_us(["taskset", "-c", SERVER_CPU,
                           stage.path(f"bin/{row.program}"), "0", row.mode]),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "FGTRACE_SOCKET": socket})
        match = re.match(r"ready (\d+)", self.child.stdout.readline())
        if not match:
            self.close()
            raise NotRun(f"the server does not start ({row})")
        self.port = match[1]
        self.charged = [self.child.pid]
        if row.agent_cpu == SERVER_CPU:
            self.charged.append(self.agent.pid)

    def _signal(self, number):
        for child in filter(None, (self.agent, self.child)):
            child.send_signal(number)

    def stop(self):
        self._signal(signal.SIGSTOP)

    def go_on(self):
        self._signal(signal.SIGCONT)

    def close(self):
        for child in filter(None, (self.child, self.agent)):
            if child.poll() is None:
                child.kill()
            child.wait()
        self.child.stdout.close()


def start_load(server, path, seconds):
    return subprocess.Popen(
        ["taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{CONNECTIONS}",
         f"-d{seconds}s", f"http://127.0.0.1:{server.port}{path}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def requests_of(load):
    out = load.communicate()[0]
    match = re.search(r"^ +(\d+) requests in ", out, re.M)
    if not match or "Non-2xx" in out:
        raise NotRun("wrk: " + out[-200:])
    return int(match[1])


def take_turns(servers, until):
    """Row → seconds that it ran. At least one whole round is taken."""
    active = [0.0] * len(servers)
    while time.monotonic() < until:
        for row, server in enumerate(servers):
            began = time.monotonic()
            server.go_on()
            time.sleep(TURN_S)
            server.stop()
            active[row] += time.monotonic() - began
    return active


def session(servers, path, seconds):
    """Row → (requests, processor seconds, seconds)."""
    whole = math.ceil((seconds + TURN_S) * len(servers)) + 2
    loads = [start_load(server, path, whole) for server in servers]
    time.sleep(0.5)  # the first turn is not the one in which they start
    before = [cpu_seconds(server.charged) for server in servers]
    active = take_turns(servers, time.monotonic() + seconds * len(servers))
    used = [cpu_seconds(server.charged) - then
            for server, then in zip(servers, before)]
    return list(zip(map(requests_of, loads), used, active))


def of_rounds(path, found):
    """found: what session() returned, of each round."""
    lines = [f"  GET {path}", "    " + " " * 24 +
             "requests/s   change (quartiles)          processor busy"]
    rates = [[requests / used for requests, used, _ in row]
             for row in zip(*found)]
    plain = [statistics.mean(each) for each in zip(*rates[:2])]
    for line, row, own in zip(ROWS, zip(*found), rates):
        changes = [100 * (rate / without - 1)
                   for rate, without in zip(own, plain)]
        low, middle, high = statistics.quantiles(changes, n=4) \
            if len(changes) > 1 else changes * 3
        busy = 100 * statistics.median(used / wall for _, used, wall in row)
        lines.append(
            f"    {line.name:24s}{statistics.median(own):9.0f}   "
            f"{middle:+6.2f} % ({low:+.2f} … {high:+.2f})     "
            f"{busy:6.1f} %")
    return lines


def start_agent(stage, socket, processor):
    agent = subprocess.Popen(
        dying_with_us(["taskset", "-c", processor,
                       stage.path("bin/fgtrace-agent"), "--socket", socket,
                       "daemon"]),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        if os.path.exists(socket):
            break
        time.sleep(0.1)
    return agent


def one_round(stage, seconds, paths):
    """Path → what session() returned."""
    servers = []
    try:
        for number, row in enumerate(ROWS):
            servers.append(Server(stage, row, number))
        time.sleep(1)  # until all servers are recorded
        for server in servers:
            requests_of(start_load(server, "/ping", WARM_S))
            server.stop()
        return {path: session(servers, path, seconds) for path in paths}
    finally:
        for server in servers:
            server.close()


def measure(stage, rounds, seconds, paths):
    build(stage)
    found = [one_round(stage, seconds, paths) for _ in range(rounds)]
    return [line for path in paths
            for line in of_rounds(path, [each[path] for each in found])]


def table(stage, rounds, seconds, paths=PATHS):
    lines = [f"HTTP server, 4 threads on one processor, {CONNECTIONS} kept "
             "connections: each request is a transaction with a task and a "
             "span"]
    try:
        if len(os.sched_getaffinity(0)) < 2:
            raise NotRun("needs two processors")
        lines += measure(stage, rounds, seconds, paths)
    except (NotRun, subprocess.CalledProcessError) as error:
        lines.append(f"  not run: {error}")
    return "\n".join(lines + [""])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slices on their way through the agent to an HTTP server.

usage: tests/bench/delivery/bench_delivery.py [--slices N] [--seconds S] BUILD

A program with 40 threads uploads slices of its last S seconds (default: 5), each
to one of the agent's destinations: one for each format, all of them nginx. It
has always more slices ready than the agent sends at a time. Prints for each
format the bytes of a request with its head, and of a sample (one thread at one
tick); then the CPU time of a slice, of the agent and its children without what
sampling takes, and the ticks that were missed. Once from memory, once by the
spool. Nothing passes or fails.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path[:0] = [BENCH, os.path.join(os.path.dirname(BENCH), "integration")]
from bench_continuous import cpu_seconds  # noqa: E402
from kit.daemon_bench import Daemon  # noqa: E402
from kit.delivery.nginx import Nginx  # noqa: E402
from kit.harness import Bench, read_until  # noqa: E402

THREADS = 40
CALLS = 6  # of the library at a time
AHEAD = 24  # slices that wait, in memory or in the spool
PATIENCE_S = 120
ENDINGS = ("fgt", "pftrace", "trace.json", "trace.json.gz", "pb.gz", "folded",
           "speedscope.json", "otlp", "envelope", "chunk.envelope")


class NotRun(Exception):
    pass


def config(bench, port, has_spool):
    entries = ",\n".join(
        f'{{ name = "{ending}"; url = "http://127.0.0.1:{port}/{{seq}}.{ending}";'
        " }" for ending in ENDINGS)
    spool = f'spool_dir = "{bench.path("spool")}";' if has_spool else ""
    return f"upload: {{ {spool} destinations = ( {entries} ); }};"


def start_program(bench, daemon):
    child = bench.start(
        [sys.executable, os.path.join(os.path.dirname(os.path.abspath(
            __file__)), "busy_program.py"), str(THREADS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "LD_LIBRARY_PATH": bench.build,
             "FGTRACE_SOCKET": daemon.socket})
    read_until(child.stdout, "ready ")
    return child


def missed(status):
    return status["targets"][0]["missed_ticks"]


def waiting(status):
    return status["deliveries_waiting"] + status["spool_entries"]


def send_all(daemon, program, count, last_ms):
    """Slices that the agent did not take at once, and the most that waited."""
    todo = collections.deque(ENDINGS[number % len(ENDINGS)]
                             for number in range(count))
    asked, refused, most = 0, 0, 0
    while todo or asked:
        now = waiting(daemon.status())
        most = max(most, now)
        if todo and asked < CALLS and now < AHEAD:
            program.stdin.write(f"{last_ms} {todo.popleft()}\n")
            program.stdin.flush()
            asked += 1
        elif asked:
            result, ending = program.stdout.readline().split()
            asked -= 1
            if result != "0":
                refused += 1
                todo.append(ending)
    return refused, most


def wait_until_sent(nginx, count):
    until = time.monotonic() + PATIENCE_S
    while len(nginx.requests()) < count and time.monotonic() < until:
        time.sleep(0.01)


def samples_of_a_slice(bench, nginx):
    counts = []
    for name in os.listdir(nginx.root):
        if name.endswith(".fgt"):
            shown = bench.run("convert", os.path.join(nginx.root, name),
                              "--json")
            counts.append(sum(thread["samples"] for thread in
                              json.loads(shown.stdout)["threads"]))
    if not counts:
        raise NotRun("no slice has arrived")
    return sum(counts) / len(counts)


def put_sizes(bench, nginx):
    sizes = collections.defaultdict(list)
    for status, size, path in nginx.requests():
        if status // 100 != 2:
            raise NotRun(f"nginx answers {status} to {path}")
        sizes[path.split(".", 1)[1]].append(size)
    samples = samples_of_a_slice(bench, nginx)
    print(f"  a slice: {samples:.0f} samples")
    for ending in ENDINGS:
        mean = sum(sizes[ending]) / max(len(sizes[ending]), 1)
        print(f"  as {ending:16s} {len(sizes[ending]):4d} slices, "
              f"{mean / 1000:8.1f} kB on the wire, {mean / samples:6.2f} "
              "bytes a sample")


def measure(bench, has_spool, count, seconds):
    nginx = Nginx(bench)
    daemon = Daemon(bench, "agent", config(bench, nginx.port, has_spool))
    program = start_program(bench, daemon)
    time.sleep(seconds)
    before, idle = cpu_seconds(daemon.child.pid), missed(daemon.status())
    time.sleep(seconds)
    idle_cpu = (cpu_seconds(daemon.child.pid) - before) / seconds
    idle = missed(daemon.status()) - idle
    before, lost = cpu_seconds(daemon.child.pid), missed(daemon.status())
    began = time.monotonic()
    refused, most = send_all(daemon, program, count, int(1000 * seconds))
    wait_until_sent(nginx, count)
    took = time.monotonic() - began
    used = cpu_seconds(daemon.child.pid) - before - idle_cpu * took
    lost = missed(daemon.status()) - lost
    status = daemon.status()
    arrived = len(nginx.requests())
    print(f"{arrived} of {count} slices of {seconds:g} s x {THREADS} threads, "
          f"{'by the spool' if has_spool else 'from memory'}: {took:.1f} s, "
          f"{count / took:.1f} a second, {status['deliveries_failed']} failed, "
          f"{refused} not taken at once, up to {most} waited")
    print(f"  CPU of a slice {1000 * used / count:.1f} ms (agent and children; "
          f"sampling took {1000 * idle_cpu:.1f} ms/s)")
    print(f"  missed ticks: {lost} in {took:.1f} s of uploads, {idle} in "
          f"{seconds:g} s before")
    put_sizes(bench, nginx)
    program.stdin.close()
    daemon.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--slices", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    for has_spool in (False, True):
        bench = Bench(arguments.build)
        try:
            measure(bench, has_spool, arguments.slices, arguments.seconds)
        except (NotRun, OSError, RuntimeError) as error:
            print(f"not run: {error}")
        finally:
            bench.close()


if __name__ == "__main__":
    main()

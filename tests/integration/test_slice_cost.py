# SPDX-License-Identifier: Apache-2.0
"""Slices of 1000 threads that are nearly all idle: what they leave behind in
the daemon's memory, and how large a Sentry profile gets.
test_slice_cost.py BUILD [GROUP…]"""
import collections
import json
import os
import subprocess
import sys
import threading
import time

from kit.daemon_bench import Daemon, run_groups
from kit.daemon_client import call
from kit.harness import run_checker

THREADS, BUSY = 1000, 2
SECONDS = 6  # that are recorded: more bytes than Sentry takes at each tick
GROWTH_MAX = 8 << 20
PROFILE_MAX = 10 << 20


def crowd(bench):
    child = bench.start([bench.program("crowd"), str(BUSY),
                         str(THREADS - BUSY), "20", "600"],
                        stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    return child


def memory(pid, field):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
    raise KeyError(field)


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def fetch(daemon, times):
    for _ in range(times):
        now = time.monotonic_ns()
        reply = call(daemon.socket, "slice",
                     from_ns=now - 30 * 10**9, to_ns=now)
        if not reply["ok"]:
            raise RuntimeError(reply["why"])


def missed(daemon):
    return daemon.status()["targets"][0]["missed_ticks"]


def memory_stays(checks, bench):
    """The level before the first slice is the measure."""
    target, daemon = crowd(bench), Daemon(bench, "memory")
    daemon.attach(target.pid)
    time.sleep(SECONDS)
    before, pid = missed(daemon), daemon.child.pid
    forget_peak(pid)
    level = memory(pid, "VmRSS")
    fetch(daemon, 1)
    checks.ok("the first slice grows the daemon by less than 8 MiB",
              memory(pid, "VmHWM") - level < GROWTH_MAX,
              (level, memory(pid, "VmHWM")))
    fetch(daemon, 200)
    checks.ok("so do 200 more",
              memory(pid, "VmHWM") - level < GROWTH_MAX,
              (level, memory(pid, "VmHWM")))
    clients = [threading.Thread(target=fetch, args=(daemon, 200))
               for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    checks.ok("and four clients at once",
              memory(pid, "VmHWM") - level < GROWTH_MAX,
              (level, memory(pid, "VmHWM")))
    # It counts a slice when its maker has ended, after the last byte.
    for _ in range(100):
        served = daemon.status()["slices_served"]
        if served == 1001:
            break
        time.sleep(0.02)
    checks.ok("all were served", served == 1001, served)
    print(f"# {memory(pid, 'VmHWM') - level} bytes more at the peak; "
          f"{missed(daemon) - before} ticks missed meanwhile")
    daemon.end()
    target.kill()


def read_profile(path):
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    return json.loads(lines[2]), json.loads(lines[4])["profile"]


def sentry_tells_what_ran(checks, bench):
    """Who ran is told at each tick, who slept at changes; all are there."""
    target, daemon = crowd(bench), Daemon(bench, "sentry")
    daemon.attach(target.pid)
    time.sleep(SECONDS)
    path = bench.path("crowd.envelope")
    result = bench.run("slice", "--socket", daemon.socket, "--last",
                       f"{SECONDS - 1}s", "-o", path)
    checks.ok("the envelope is written", result.returncode == 0,
              result.stderr)
    checks.ok("it is below 10 MiB", os.path.getsize(path) < PROFILE_MAX,
              os.path.getsize(path))
    result = run_checker("check_sentry_envelope", path)
    checks.ok("Relay's rules hold", result.returncode == 0, result.stdout)
    transaction, profile = read_profile(path)
    counts = collections.Counter(int(sample["thread_id"])
                                 for sample in profile["samples"])
    ticks = max(counts.values())
    whole = sum(count == ticks for count in counts.values())
    thinned = transaction["extra"]["thinned_threads"]
    checks.ok("every thread is told", len(counts) == THREADS + 1, len(counts))
    checks.ok("a busy thread has many samples a second",
              ticks > 60 * (SECONDS - 1), ticks)
    checks.ok("those that ran are told at each tick",
              counts[target.pid] == ticks and whole > BUSY,
              (counts[target.pid], whole, ticks))
    checks.ok("the others are not, and that is said",
              thinned == len(counts) - whole > THREADS / 2,
              (thinned, whole))
    daemon.end()
    target.kill()


if __name__ == "__main__":
    run_groups([memory_stays, sentry_tells_what_ran])

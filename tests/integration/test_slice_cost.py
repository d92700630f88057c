# SPDX-License-Identifier: Apache-2.0
"""Slices of 1000 threads, most of them idle: growth of the daemon's memory, and
size of the Sentry profile.
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
# A sample of each thread at each tick would be more than Sentry takes.
SECONDS = 6
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
    """Memory after slices is compared with that before the first one."""
    target, daemon = crowd(bench), Daemon(bench, "memory")
    daemon.attach(target.pid)
    time.sleep(SECONDS)
    before, pid = missed(daemon), daemon.child.pid
    forget_peak(pid)
    level = memory(pid, "VmRSS")
    fetch(daemon, 1)
    checks.ok("first slice grows the daemon by less than 8 MiB",
              memory(pid, "VmHWM") - level < GROWTH_MAX,
              (level, memory(pid, "VmHWM")))
    fetch(daemon, 200)
    checks.ok("200 more slices keep the daemon below that",
              memory(pid, "VmHWM") - level < GROWTH_MAX,
              (level, memory(pid, "VmHWM")))
    clients = [threading.Thread(target=fetch, args=(daemon, 200))
               for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    checks.ok("four clients at once keep the daemon below that",
              memory(pid, "VmHWM") - level < GROWTH_MAX,
              (level, memory(pid, "VmHWM")))
    # The daemon counts a slice when its thread has ended, after the last byte.
    for _ in range(100):
        served = daemon.status()["slices_served"]
        if served == 1001:
            break
        time.sleep(0.02)
    checks.ok("all slices were served", served == 1001, served)
    print(f"# {memory(pid, 'VmHWM') - level} bytes more at the peak; "
          f"{missed(daemon) - before} ticks missed meanwhile")
    daemon.end()
    target.kill()


def read_profile(path):
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    return json.loads(lines[2]), json.loads(lines[4])["profile"]


def sentry_shows_running_threads(checks, bench):
    """Running threads have a sample at each tick, sleeping threads at
    changes; no thread is missing."""
    target, daemon = crowd(bench), Daemon(bench, "sentry")
    daemon.attach(target.pid)
    time.sleep(SECONDS)
    path = bench.path("crowd.envelope")
    result = bench.run("slice", "--socket", daemon.socket, "--last",
                       f"{SECONDS - 1}s", "-o", path)
    checks.ok("envelope is written", result.returncode == 0,
              result.stderr)
    checks.ok("envelope is below 10 MiB", os.path.getsize(path) < PROFILE_MAX,
              os.path.getsize(path))
    result = run_checker("check_sentry_envelope", path)
    checks.ok("envelope passes Relay's rules",
              result.returncode == 0, result.stdout)
    transaction, profile = read_profile(path)
    counts = collections.Counter(int(sample["thread_id"])
                                 for sample in profile["samples"])
    ticks = max(counts.values())
    whole = sum(count == ticks for count in counts.values())
    thinned = transaction["extra"]["thinned_threads"]
    checks.ok("every thread has samples",
              len(counts) == THREADS + 1, len(counts))
    checks.ok("busy thread has more than 60 samples a second",
              ticks > 60 * (SECONDS - 1), ticks)
    checks.ok("threads that ran have a sample at each tick",
              counts[target.pid] == ticks and whole > BUSY,
              (counts[target.pid], whole, ticks))
    checks.ok("idle threads have fewer, and thinned_threads counts them",
              thinned == len(counts) - whole > THREADS / 2,
              (thinned, whole))
    daemon.end()
    target.kill()


if __name__ == "__main__":
    run_groups([memory_stays, sentry_shows_running_threads])

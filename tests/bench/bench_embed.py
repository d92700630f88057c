#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording inside the process costs: CPU, memory, work.

usage: bench_embed.py BUILD [SECONDS [BLOCKED…]]

One busy thread beside N blocked ones, with and without
LD_PRELOAD=libfgtrace.so, in alternation. CPU is what the library's threads
use; the cost of its signals for the busy thread shows in the work that this
thread does in a second of its CPU time. "wakes" is the CPU of a thread that a
timer wakes as often, and that does nothing; "floor" that of a thread in the
same program that only asks whether any thread ran, as every tick must: the
minimum of this method on this machine. Memory is the difference to the process
without the library, without the ring. Nothing passes or fails.
"""
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BLOCKED = (0, 100, 1000, 5000)
BUDGETS = {0: 0.45, 100: 0.6, 1000: 1.2, 5000: 6.5}  # % of a core
ROUNDS = 3
SETTLE_S = 2.5
DEPTH = 10
RECORDERS = ("fgt-sampler", "fgt-library", "bench-floor")
MEMORY_BASE_KIB = 1500000 / 1024  # the budget, and for each thread:
MEMORY_EACH_KIB = 100 / 1024


def read(path):
    with open(path) as file:
        return file.read()


def thread_cpu_ns(pid):
    """{(tid, name): CPU time} of all threads."""
    used = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        base = f"/proc/{pid}/task/{tid}"
        try:
            used[(tid, read(f"{base}/comm").strip())] = \
                int(read(f"{base}/schedstat").split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return used


def memory_kib(pid):
    """(resident, of that the ring): the ring is a memfd, and the writer's own
    tables, which are mapped right below it."""
    total = ring = last_end = last_kib = 0
    for text in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )",
                         read(f"/proc/{pid}/smaps")):
        first = text.split("\n", 1)[0]
        start, end = (int(x, 16) for x in first.split()[0].split("-"))
        kib = int(re.search(r"\nRss: +(\d+)", text)[1])
        total += kib
        if "memfd:fgtrace-ring" in first:
            ring += kib + (last_kib if last_end == start else 0)
        last_end, last_kib = end, kib
    return total, ring


class Crowd:
    def __init__(self, build, blocked, more):
        self.child = subprocess.Popen(
            [f"{build}/tests/programs/crowd", "1", str(blocked), str(DEPTH),
             "600"], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **more})
        line = self.child.stdout.readline()
        self.pid = int(line.split()[1])
        self.last = None
        time.sleep(SETTLE_S)

    def line(self):
        """Skips old lines and returns the next new one."""
        os.set_blocking(self.child.stdout.fileno(), False)
        text = ""
        while text.count("\n") < 2:
            try:
                text += os.read(self.child.stdout.fileno(), 65536).decode()
            except BlockingIOError:
                time.sleep(0.02)
        return [float(x) for x in text.strip().split("\n")[-1].split()][:3]

    def measure(self, seconds):
        self.line()
        begin, cpu = self.line(), thread_cpu_ns(self.pid)
        time.sleep(seconds)
        end, after = self.line(), thread_cpu_ns(self.pid)
        elapsed = (end[0] - begin[0]) / 1e9
        used = sum(after[t] - cpu.get(t, 0) for t in after if t[1] in RECORDERS)
        return {"cpu": used / seconds / 1e7,
                "work": (end[1] - begin[1]) / ((end[2] - begin[2]) / 1e9),
                "rate": (end[1] - begin[1]) / elapsed,
                "memory": memory_kib(self.pid)}

    def close(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


def measure_wakes(build, seconds):
    """CPU of a process that only wakes (% of a core)."""
    wakes = subprocess.Popen([f"{build}/tests/bench/bench_wake"])
    try:
        time.sleep(0.1)  # until the library is loaded
        begin_s = time.monotonic()
        before = sum(thread_cpu_ns(wakes.pid).values())
        time.sleep(seconds)
        after = sum(thread_cpu_ns(wakes.pid).values())
        return (after - before) / (time.monotonic() - begin_s) / 1e7
    finally:
        wakes.kill()
        wakes.wait()


def run_round(build, blocked, seconds, scratch):
    kinds = {"alone": {},
             "floor": {"LD_PRELOAD": f"{build}/tests/bench/bench_floor.so"},
             "recorded": {"LD_PRELOAD": f"{build}/libfgtrace.so.0",
                          "FGTRACE_OUT": f"{scratch}/out.fgt"}}
    results = {"wakes": measure_wakes(build, seconds)}
    for name, more in kinds.items():
        crowd = Crowd(build, blocked, more)
        results[name] = crowd.measure(seconds)
        crowd.close()
    return results


def show(blocked, rounds):
    cpu = [r["recorded"]["cpu"] for r in rounds]
    floor = statistics.median(r["floor"]["cpu"] for r in rounds)
    lost = statistics.median(1 - r["recorded"]["work"] / r["alone"]["work"]
                             for r in rounds)
    wakes = statistics.median(r["wakes"] for r in rounds)
    ring = statistics.median(r["recorded"]["memory"][1] for r in rounds)
    more = statistics.median(r["recorded"]["memory"][0] -
                             r["recorded"]["memory"][1] -
                             r["alone"]["memory"][0] for r in rounds)
    print(f"{blocked:7}   {statistics.median(cpu):6.3f} "
          f"({min(cpu):.3f} to {max(cpu):.3f}; {BUDGETS.get(blocked, '-')})   "
          f"{floor:.3f}   {wakes:.3f}   {100 * lost:6.2f} %   "
          f"{more:6.0f} "
          f"({MEMORY_BASE_KIB + MEMORY_EACH_KIB * blocked:.0f})   "
          f"{ring:.0f}", flush=True)


def main():
    build = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    wanted = [int(x) for x in sys.argv[3:]] or BLOCKED
    print("blocked   CPU % of a core (budget)   floor   wakes   work lost   "
          "memory KiB (budget)   ring KiB")
    with tempfile.TemporaryDirectory() as scratch:
        for blocked in wanted:
            show(blocked, [run_round(build, blocked, seconds, scratch)
                           for _ in range(ROUNDS)])


if __name__ == "__main__":
    main()

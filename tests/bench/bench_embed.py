#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording inside the process costs: CPU, memory, work.

usage: bench_embed.py BUILD [SECONDS [BLOCKED…]]

One busy thread beside N blocked ones, with and without
LD_PRELOAD=libfgtrace.so, in alternation. CPU is what the library's threads
use; what its signals take from the busy thread shows in the work that it gets
done in a second of its own CPU time. Memory is what the process has more than
without, the ring (shared memory) apart. "wakes" is what a thread takes that a
timer wakes as often, and that does nothing. Nothing passes or fails.
"""
import os
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
OURS = ("fgt-sampler", "fgt-library")


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


def memory_kb(pid):
    """(private, shared) resident memory."""
    values = {}
    for line in read(f"/proc/{pid}/status").split("\n"):
        if line.startswith("Rss"):
            name, value = line.split(":")
            values[name] = int(value.split()[0])
    return values["RssAnon"] + values["RssFile"], values["RssShmem"]


class Crowd:
    def __init__(self, build, blocked, out):
        environment = dict(os.environ)
        if out:
            environment.update(LD_PRELOAD=f"{build}/libfgtrace.so.0",
                               FGTRACE_OUT=out)
        self.child = subprocess.Popen(
            [f"{build}/tests/programs/crowd", "1", str(blocked), str(DEPTH),
             "600"], stdout=subprocess.PIPE, text=True, env=environment)
        line = self.child.stdout.readline()
        self.pid = int(line.split()[1])
        self.last = None
        time.sleep(SETTLE_S)

    def line(self):
        """Skips to what it says now."""
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
        ours = sum(after[t] - cpu.get(t, 0) for t in after if t[1] in OURS)
        return {"cpu": ours / seconds / 1e7,
                "work": (end[1] - begin[1]) / ((end[2] - begin[2]) / 1e9),
                "rate": (end[1] - begin[1]) / elapsed,
                "memory": memory_kb(self.pid)}

    def close(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


def measure_wakes(build, seconds):
    """What a process that only wakes takes (% of a core)."""
    wakes = subprocess.Popen([f"{build}/tests/bench/bench_wake"])
    try:
        time.sleep(0.1)  # it is loaded
        begin_s = time.monotonic()
        before = sum(thread_cpu_ns(wakes.pid).values())
        time.sleep(seconds)
        after = sum(thread_cpu_ns(wakes.pid).values())
        return (after - before) / (time.monotonic() - begin_s) / 1e7
    finally:
        wakes.kill()
        wakes.wait()


def run_round(build, blocked, seconds, scratch):
    results = {"wakes": measure_wakes(build, seconds)}
    for name in ("alone", "recorded"):
        crowd = Crowd(build, blocked, name == "recorded" and
                      f"{scratch}/out.fgt")
        results[name] = crowd.measure(seconds)
        crowd.close()
    return results


def main():
    build = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    wanted = [int(x) for x in sys.argv[3:]] or BLOCKED
    print("blocked   CPU % of a core (budget)   wakes   work lost   memory KiB "
          "(ring)   a thread")
    base = None
    with tempfile.TemporaryDirectory() as scratch:
        for blocked in wanted:
            rounds = [run_round(build, blocked, seconds, scratch)
                      for _ in range(ROUNDS)]
            cpu = [r["recorded"]["cpu"] for r in rounds]
            lost = [1 - r["recorded"]["work"] / r["alone"]["work"]
                    for r in rounds]
            wakes = statistics.median(r["wakes"] for r in rounds)
            more = statistics.median(
                r["recorded"]["memory"][0] - r["alone"]["memory"][0]
                for r in rounds)
            ring = statistics.median(r["recorded"]["memory"][1]
                                     for r in rounds)
            base = more if base is None else base
            each = (more - base) * 1024 / blocked if blocked else 0
            print(f"{blocked:7}   {statistics.median(cpu):6.3f} "
                  f"({min(cpu):.3f} to {max(cpu):.3f}; "
                  f"{BUDGETS.get(blocked, '-')})   {wakes:.3f}   "
                  f"{100 * statistics.median(lost):6.2f} %   "
                  f"{more:8.0f} ({ring:.0f})   {each:.0f} B", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost of a slice of many mostly idle threads, by process.

usage: tests/bench/bench_slice.py [--threads N] [--rounds N] [--seconds S] BUILD

2 busy threads, the rest blocked, for 30 s. Prints per format how long the
command line takes, how long `convert` takes of it (decode, encode, write),
how large the file is; then the daemon's share: CPU time per slice, growth of
its peak memory, ticks missed while slices are taken without a pause beside an
equal time without any; last the size of each part of a Sentry envelope.
Nothing passes or fails.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, f"{ROOT}/tests/integration")
from kit.daemon_client import call  # noqa: E402

FORMATS = ("fgt", "envelope", "envelope.gz", "trace.json", "trace.json.gz",
           "chunk.envelope", "pb.gz", "folded", "speedscope.json", "otlp",
           "pftrace", "pftrace.gz")


def proc_kb(pid, field):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    raise KeyError(field)


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def cpu_ms(pid):
    """CPU time of all threads of the process, ended ones included."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, arguments, scratch):
        self.agent = f"{arguments.build}/fgtrace-agent"
        self.scratch, self.rounds = scratch, arguments.rounds
        self.ring = arguments.ring
        self.socket = f"{scratch}/agent/agent.sock"
        os.makedirs(f"{scratch}/agent", mode=0o750)
        self.crowd = subprocess.Popen(
            [f"{arguments.build}/tests/programs/crowd", "2",
             str(arguments.threads - 2), "20", "1000"],
            stdout=subprocess.PIPE, text=True)
        self.target = int(self.crowd.stdout.readline().split()[1])
        self.daemon = subprocess.Popen(
            [self.agent, "--socket", self.socket, "daemon"],
            stderr=subprocess.DEVNULL)
        while self.run("status").returncode != 0:
            time.sleep(0.05)
        self.check("attach", str(self.target))

    def run(self, *arguments):
        return subprocess.run([self.agent, *arguments], capture_output=True,
                              text=True, env={**os.environ,
                                              "FGTRACE_SOCKET": self.socket})

    def check(self, *arguments):
        result = self.run(*arguments)
        if result.returncode != 0:
            sys.exit(result.stderr)

    def timed(self, *arguments):
        begin = time.monotonic()
        self.check(*arguments)
        return 1000 * (time.monotonic() - begin)

    def missed(self):
        return call(self.socket, "status")["targets"][0]["missed_ticks"]

    def fetch(self):
        now = time.monotonic_ns()
        return call(self.socket, "slice", pid=self.target,
                    from_ns=now - self.ring * 10**9, to_ns=now)["file"]

    def close(self):
        self.daemon.terminate()
        self.daemon.wait()
        self.crowd.kill()
        self.crowd.wait()


def format_lines(bench):
    source = f"{bench.scratch}/source.fgt"
    for form in FORMATS:
        out = f"{bench.scratch}/slice.{form}"
        times, converts = [], []
        for _ in range(bench.rounds + 1):
            times.append(bench.timed("slice", "--last", f"{bench.ring}s", "-o", out))
        bench.check("slice", "--last", f"{bench.ring}s", "-o", source)
        for _ in range(bench.rounds):
            converts.append(bench.timed("convert", source, "-o", out))
        print(f"as {form:13s} first {times[0]:6.1f} ms, then "
              f"{statistics.median(times[1:]):6.1f} ms, of it convert "
              f"{statistics.median(converts):6.1f} ms, "
              f"{os.path.getsize(out) / 1e6:7.3f} MB", flush=True)


def daemon_lines(bench, seconds):
    """The first fetch happened long before: names are known."""
    pid = bench.daemon.pid
    forget_peak(pid)
    before = proc_kb(pid, "VmRSS")
    counts, peaks = [], []
    for is_slicing in (False, True):
        missed, used = bench.missed(), cpu_ms(pid)
        begin, done = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            if is_slicing:
                bench.fetch()
                done += 1
            else:
                time.sleep(0.1)
        counts.append((bench.missed() - missed, cpu_ms(pid) - used, done))
        peaks.append(proc_kb(pid, "VmHWM"))
    (idle_missed, idle_ms, _), (busy_missed, busy_ms, done) = counts
    print(f"daemon: resident {before / 1024:.1f} MiB; peak without slices "
          f"{(peaks[0] - before) / 1024:+.2f} MiB, with "
          f"{(peaks[1] - before) / 1024:+.2f} MiB; CPU of a slice "
          f"{(busy_ms - idle_ms) / done:.1f} ms ({done} in {seconds:g} s)")
    print(f"missed ticks in {seconds:g} s: {idle_missed} without slices, "
          f"{busy_missed} with", flush=True)


def size(value):
    return len(json.dumps(value, separators=(",", ":")))


def sentry_lines(path):
    """The last line is the profile."""
    with open(path, "rb") as file:
        lines = file.read().splitlines()
    body = json.loads(lines[4])
    profile = body["profile"]
    print(f"sentry: {len(lines[4])} bytes of profile")
    for key, value in profile.items():
        print(f"  {key:16s} {size(value):9d} bytes, {len(value):7d} pieces, "
              f"{size(value) / max(len(value), 1):6.1f} bytes each")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default=f"{ROOT}/build/bench")
    parser.add_argument("--threads", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--ring", type=int, default=30,
                        help="seconds in a slice (default: 30)")
    arguments = parser.parse_args()
    scratch = tempfile.mkdtemp(prefix="fgtrace-bench-")
    bench = Bench(arguments, scratch)
    try:
        time.sleep(arguments.ring + 1)
        pid, before = bench.daemon.pid, proc_kb(bench.daemon.pid, "VmRSS")
        forget_peak(pid)
        print(f"# a slice of {arguments.ring} s x {arguments.threads} threads, "
              f"{arguments.threads - 2} of them blocked")
        bench.fetch()
        print(f"first slice: daemon's peak "
              f"{(proc_kb(pid, 'VmHWM') - before) / 1024:+.2f} MiB over "
              f"{before / 1024:.1f} MiB, then "
              f"{proc_kb(pid, 'VmRSS') / 1024:.1f} MiB", flush=True)
        format_lines(bench)
        daemon_lines(bench, arguments.seconds)
        sentry_lines(f"{scratch}/slice.envelope")
    finally:
        bench.close()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()

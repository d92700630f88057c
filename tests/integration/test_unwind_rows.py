# SPDX-License-Identifier: Apache-2.0
"""Stacks by rows beside stacks by libunwind alone, of the same snapshots.

usage: test_unwind_rows.py BUILD [SNAPSHOTS]

Snapshots are of real programs at work, stopped at any instruction. At least
99.9 % of the stacks must be equal, of every program.
"""
import subprocess
import sys

import real_programs
from harness import Bench, Checks, read_until

SNAPSHOTS = 100000
MINIMUM = 0.999


def compare(bench, checks, name, pid, snapshots):
    result = subprocess.run(
        [bench.program("compare_rows"), str(pid), str(snapshots)],
        capture_output=True, text=True, timeout=600, check=False)
    if not checks.ok(f"{name}: compared", result.returncode == 0,
                     result.stderr):
        return
    lines = result.stdout.split("\n")
    figures = dict(line.split() for line in lines
                   if line and not line.startswith("#"))
    equal, frames = int(figures["equal"]), int(figures["frames"])
    for line in lines:
        if line.startswith("#"):
            print(line)
    print(f"# {name}: {equal} of {snapshots} stacks equal, "
          f"{frames / snapshots:.1f} frames each, "
          f"{figures['addresses']} addresses, "
          f"{figures['complete']} complete; "
          f"{figures['rows_ns_per_frame']} ns a frame by rows, "
          f"{figures['libunwind_ns_per_frame']} by libunwind")
    checks.ok(f"{name}: 99.9 % of the stacks are equal",
              equal >= MINIMUM * snapshots, str(figures))
    checks.ok(f"{name}: these are different stacks, and whole ones",
              frames >= 4 * snapshots and int(figures["addresses"]) >= 200 and
              int(figures["complete"]) >= 0.99 * snapshots, str(figures))


def start(bench, name):
    child = bench.start([bench.program(name)], stdout=subprocess.PIPE,
                        text=True)
    return int(read_until(child.stdout, "ready ")), child


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    total = int(sys.argv[2]) if len(sys.argv) > 2 else SNAPSHOTS
    programs = {
        "redis-server": lambda: real_programs.redis(bench),
        "postgres": lambda: real_programs.postgres(bench),
        "python3": lambda: real_programs.python(bench, 600),
        "libstdc++": lambda: start(bench, "streams"),
        "libc": lambda: start(bench, "calls"),
    }
    try:
        for name, begin in programs.items():
            pid, child = begin()
            compare(bench, checks, name, pid, total // len(programs))
            child.kill()
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

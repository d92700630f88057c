# SPDX-License-Identifier: Apache-2.0
"""Stacks by rows beside stacks by libunwind alone, of the same snapshots.

usage: test_unwind_rows.py BUILD [SNAPSHOTS]

Snapshots are of real programs at work, stopped at any instruction. At least
99.9 % of the stacks of every program must be equal. Then every row of the
files of these programs is compared with the same row by readelf, also in files
without .eh_frame_hdr and with .debug_frame only.
"""
import glob
import subprocess
import sys

from kit import readelf_rows, real_programs
from kit.harness import Bench, Checks, read_until

SNAPSHOTS = 100000
MINIMUM = 0.999


def compare(bench, checks, name, pid, snapshots):
    result = subprocess.run(
        [bench.program("compare_rows"), str(pid), str(snapshots)],
        capture_output=True, text=True, timeout=600, check=False)
    if not checks.ok(f"{name}: stacks are compared", result.returncode == 0,
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
    checks.ok(f"{name}: stacks differ from each other, and most are whole",
              frames >= 4 * snapshots and int(figures["addresses"]) >=
              snapshots // 200 and
              int(figures["complete"]) >= 0.99 * snapshots, str(figures))


def check_file(bench, checks, path):
    """Each row at its first and at its last address."""
    rows = readelf_rows.read(path)
    addresses = "".join(f"{first:x}\n{last:x}\n" for first, last, _ in rows)
    printed = subprocess.run([bench.program("print_rows"), path],
                             input=addresses, capture_output=True, text=True,
                             check=False).stdout.split("\n")
    expected = [(address, words) for first, last, words in rows
                for address in (first, last)]
    wrong = [f"{row}, not {theirs}" for row, (address, theirs)
             in zip(printed, expected)
             if not readelf_rows.is_same(address, row, theirs)]
    complex_count = sum(line.endswith(" complex") for line in printed[::2])
    checks.ok(f"{path}: every row equals readelf's",
              rows and len(printed) == len(expected) + 1 and not wrong,
              f"{len(wrong)} of {len(expected)}: {wrong[:10]}")
    print(f"# {path}: {len(rows)} rows, {complex_count} left to libunwind")


def check_files(bench, checks):
    patterns = ["/usr/bin/redis-server", "/usr/lib/postgresql/*/bin/postgres",
                "/usr/bin/python3", "/lib/*-linux-gnu/libstdc++.so.6",
                "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/ld-linux*",
                "/lib/*-linux-gnu/libcrypto.so.*",
                bench.program("unwind/unwind_no_hdr"),
                bench.program("unwind/unwind_debug_frame")]
    for pattern in patterns:
        paths = sorted(glob.glob(pattern))
        checks.ok(f"{pattern} is there", paths)
        for path in paths:
            check_file(bench, checks, path)


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
        check_files(bench, checks)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

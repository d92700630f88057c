# SPDX-License-Identifier: Apache-2.0
"""Blocks in Chrome traces begin and end when they really did.

usage: test_edges.py BUILD [SECONDS [--short]]

A program writes down the time before and after each sleep; a recording of it
is compared with these times. The program reads its clock outside the call: it
leaves its CPU shortly after the first reading, and gets one shortly before the
second. Two delays are not errors of the trace:

* Another process had the CPU. So not every edge must be within the limit, and
  because a scenario has few blocks, the stricter limit is for all together.
* After a long sleep caches are cold and the processor slept, too: the longer
  the sleep, the later the second reading may be.

(By ticks alone, almost no edge would be within any of these limits.)

Every sleep is drawn, those between two ticks too: unless a thread blocked more
than seven times between two ticks, or not every switch could be read.

With --short only the first two of the scenarios.
"""
import bisect
import json
import subprocess
import sys

from kit import check_chrome_trace, strict
from kit.timeline.chrome_events import spread
from kit.harness import Bench, Checks, read_until

LIMIT_US = 50
# Below 100 %: on a busy machine a program sleeps later than it reads its clock.
# Work and sleep, in ms.
SCENARIOS = ((4, 3), (7, 3), (20, 200), (1, 40))
# Sleep in ms → how late the program may read its clock after it.
WAKE_LIMITS_US = {3: LIMIT_US, 40: 2 * LIMIT_US, 200: 4 * LIMIT_US}
# Share of blocks with both edges within the limits: of a scenario, and of all.
LEAST, LEAST_OF_ALL = 0.8, 0.95
NOT_BLOCKED = ("running", "runnable")
# Of the sleeps.
LEAST_SHOWN = 0.98


def is_bpf_there(bench):
    _, socket = bench.daemon("bpf")
    child = bench.start([bench.program("naps"), "1", "5", "3"],
                        stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    bench.run("--socket", socket, "attach", pid)
    status = json.loads(bench.run("--socket", socket, "status",
                                  "--json").stdout)
    return status["targets"][0]["who_ran"] == "bpf", status["bpf_why"]


def blocks_of(trace):
    """[(begin, end), …] in ns of CLOCK_MONOTONIC; blocks that the ends of the
    slice cut are left out. A wait for a CPU is no block: the program cannot
    read its clock before it ends, so that its sleep seems to go on."""
    start = int(trace["otherData"]["monotonic_clock_of_ts_0_ns"])
    depth = 0
    spans = []
    for event in spread(trace["traceEvents"]):
        if event["ph"] == "B":
            if depth == 0:
                spans.append([event["name"], event["ts"], None])
            depth += 1
        elif event["ph"] == "E":
            depth -= 1
            if depth == 0:
                spans[-1][2] = event["ts"]
    return [(start + 1000 * begin, start + 1000 * end)
            for name, begin, end in spans[1:-1] if name not in NOT_BLOCKED]


def compare(blocks, naps):
    """Errors of both edges in µs, and how many blocks share a sleep."""
    begins = [before for before, _ in naps]
    errors = []
    used = set()
    shared = 0
    for begin, end in blocks:
        middle = (begin + end) / 2
        index = max(0, bisect.bisect(begins, middle) - 1)
        before, after = naps[index]
        shared += index in used
        used.add(index)
        errors.append(((begin - before) / 1000, (after - end) / 1000))
    return errors, shared


def record(bench, work, sleep, seconds):
    tag = f"{work}-{sleep}"
    child = bench.start([bench.program("naps"), str(work), str(sleep),
                         str(seconds + 2)], stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    trace = bench.path(tag + ".trace.json")
    result = bench.run("record", "-d", str(seconds), "-p", pid, "-o", trace,
                       "--state-frames", "root")
    if result.returncode != 0:
        raise RuntimeError(f"record: {result.stderr}")
    naps = [tuple(map(int, line.split())) for line in child.stdout]
    child.wait()
    check_chrome_trace.check(trace)
    return strict.parse_json(strict.read_bytes(trace)), naps


def check_scenario(checks, bench, work, sleep, seconds, ret_counts):
    """Adds (blocks within the limits, all blocks) to the results."""
    tag = f"{sleep} ms every {work + sleep} ms"
    trace, naps = record(bench, work, sleep, seconds)
    blocks = blocks_of(trace)
    errors, shared = compare(blocks, naps)
    wrong = [(begin, end) for begin, end in errors
             if not -1 <= begin <= LIMIT_US or
             not -1 <= end <= WAKE_LIMITS_US[sleep]]
    good = len(errors) - len(wrong)
    middle = sorted(max(pair) for pair in errors)[len(errors) // 2] \
        if errors else 0
    begin, end = blocks[0][0], blocks[-1][1]
    slept = sum(begin - LIMIT_US * 1000 <= nap[0] and
                nap[1] <= end + WAKE_LIMITS_US[sleep] * 1000 for nap in naps)
    print(f"# {tag}: {good} of {len(blocks)} blocks within the limits, "
          f"median {middle:.1f} µs; {slept} sleeps")
    ret_counts[tag] = good, len(blocks)
    checks.ok(f"{tag}: most blocks have both edges within the limits",
              len(blocks) >= 5 and good >= LEAST * len(blocks),
              f"{good} of {len(blocks)}, wrong by {wrong[:8]}")
    checks.ok(f"{tag}: no two blocks are the same sleep", shared == 0,
              f"{shared} share one")
    checks.ok(f"{tag}: {100 * LEAST_SHOWN:.0f} % of the sleeps are shown",
              LEAST_SHOWN * slept <= len(blocks) <= slept + 1,
              f"{len(blocks)} blocks, {slept} sleeps")


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    bench = Bench(sys.argv[1])
    checks = Checks()
    try:
        has_bpf, why = is_bpf_there(bench)
        if not has_bpf:
            print("skipped: no context switches from this kernel: "
                  + why)
            return
        counts = {}
        for work, sleep in SCENARIOS[:2 if "--short" in sys.argv else None]:
            check_scenario(checks, bench, work, sleep, seconds, counts)
        good, count = map(sum, zip(*counts.values()))
        checks.ok("95 % of all blocks have both edges within the limits",
                  good >= LEAST_OF_ALL * count, f"{good} of {count}")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

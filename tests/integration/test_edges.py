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
than seven times between two ticks, waited for a CPU for more than a sixteenth
of the time between them, or not every switch could be read. Where the program
waited, its own clock shows it.

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
# Work and sleep, in ms.
SCENARIOS = ((4, 3), (7, 3), (20, 200), (1, 40))
# Sleep in ms → how late the program may read its clock after it.
WAKE_LIMITS_US = {3: LIMIT_US, 40: 2 * LIMIT_US, 200: 4 * LIMIT_US}
# Share of blocks with both edges within the limits: of a scenario, and of all.
LEAST, LEAST_OF_ALL = 0.8, 0.95
NOT_BLOCKED = ("running", "runnable")
TICK_NS = 10_000_000
# The program is this much later than it wanted: two such waits in one tick are
# more than a sixteenth of it, for which a trace leaves its edges out.
LATE_NS = TICK_NS // 40
# Of the sleeps more than two ticks away from such a time.
LEAST_SHOWN = 0.99


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


def undisturbed(naps, work, sleep):
    """Those with no late turn between the ticks around them."""
    usual = (work + sleep) * 1_000_000
    late = [after for (_, before), (_, after) in zip(naps, naps[1:])
            if after - before > usual + LATE_NS]
    far = 2 * TICK_NS + usual

    def is_far(nap):
        index = bisect.bisect(late, nap[0])
        return all(abs(after - nap[1]) > far
                   for after in late[max(0, index - 1):index + 1])
    return [nap for nap in naps if is_far(nap)]


def count_shown(blocks, naps):
    begins = [begin for begin, _ in blocks]
    return sum(index > 0 and blocks[index - 1][1] > before
               for before, after in naps
               for index in [bisect.bisect(begins, after)])


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
    naps = [nap for nap in naps if begin - LIMIT_US * 1000 <= nap[0] and
            nap[1] <= end + WAKE_LIMITS_US[sleep] * 1000]
    calm = undisturbed(naps, work, sleep)
    shown = count_shown(blocks, calm)
    print(f"# {tag}: {good} of {len(blocks)} blocks within the limits, "
          f"median {middle:.1f} µs; {len(naps)} sleeps, {shown} of the "
          f"{len(calm)} far from waits for a CPU are shown")
    ret_counts[tag] = good, len(blocks)
    checks.ok(f"{tag}: most blocks have both edges within the limits",
              len(blocks) >= 5 and good >= LEAST * len(blocks),
              f"{good} of {len(blocks)}, wrong by {wrong[:8]}")
    checks.ok(f"{tag}: no two blocks are the same sleep", shared == 0,
              f"{shared} share one")
    checks.ok(f"{tag}: {100 * LEAST_SHOWN:.0f} % of the sleeps are shown",
              LEAST_SHOWN * len(calm) <= shown and
              len(blocks) <= len(naps) + 1,
              f"{shown} of {len(calm)}; {len(blocks)} blocks, {len(naps)} "
              f"sleeps")


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

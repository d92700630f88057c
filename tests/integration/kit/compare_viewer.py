# SPDX-License-Identifier: Apache-2.0
"""compare_viewer.py FOLDED PERIOD_US < viewer_speedscope.mjs's lines

Each line of standard input is speedscope's result for one file. It must have
imported the file without a warning, in the right format, with the same time in
the same stacks as the folded file (ticks × period). Chrome traces change midway
between two ticks, so a thread's first stack lasts half a period less, and its
last one as much more. Exit 0 or 1.
"""
import json
import sys
from collections import Counter

# Ending → the format that the viewer should recognise, and its units in a µs.
EXPECTED = {".trace.json": ("Trace Event Format", 1),
            ".speedscope.json": ("speedscope json", 1000),
            ".folded": ("collapsed stack", 0)}


def read_folded(path):
    stacks = Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            stack, _, ticks = line.rstrip("\n").rpartition(" ")
            stacks[stack] += int(ticks)
    return stacks


def faults(seen, folded, period_us):
    ending = next(e for e in EXPECTED if seen["file"].endswith(e))
    kind, units = EXPECTED[ending]
    if kind not in (seen["importedAs"] or ""):
        yield f"taken for {seen['importedAs']}"
    yield from seen["warnings"][:3]
    profiles = seen["profiles"] or []
    found = Counter()
    for profile in profiles:
        found.update(profile["stacks"])
    unit = period_us * units if units else 1
    # The writer adds a nanosecond at each change of stack.
    rounding = max(0.5, units / 2)
    half = unit / 2 if ending == ".trace.json" else 0
    off = {stack: found[stack] - folded[stack] * unit
           for stack in folded.keys() | found.keys()}
    for stack, by in off.items():
        if abs(by) > half + rounding:
            yield f"{stack}: {found[stack]}, not {folded[stack] * unit}"
    if abs(sum(off.values())) > rounding * len(off):
        yield f"{sum(off.values())} too much in all"
    # Both ends of each thread, and no more.
    if sum(abs(by) for by in off.values()) > \
            2 * half * len(profiles) + rounding * len(off):
        yield "more than a change a thread's end lies elsewhere"


def main():
    folded = read_folded(sys.argv[1])
    period_us = float(sys.argv[2])
    count = failed = 0
    for line in sys.stdin:
        seen = json.loads(line)
        count += 1
        for fault in faults(seen, folded, period_us):
            print(f"{seen['file']}: {fault}", file=sys.stderr)
            failed += 1
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()

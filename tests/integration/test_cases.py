# SPDX-License-Identifier: Apache-2.0
"""Programs that are hard to sample, in each way in which they can be sampled.

usage: test_cases.py BUILD [SECONDS [--short|--table]]

For each scenario of kit/truth_cases.py and each mode (root with BPF, root with
schedstat, an ordinary user, a program that records itself): what a recording
shows of a thread's time, in any function and state, is what the program wrote
down about itself; or the time is marked as not sampled. A Chrome trace and a
folded file of one recording agree. With --short some cases, with --table only
the table of errors, which agent/README.md has.
"""
import json
import sys

from kit.harness import Bench, Checks
from kit.stage import Stage
from kit.truth_cases import (CASES, GOAL_STATES, LIMITS, SHORT, WHOLE_LEAST,
                             describe, measure, print_table)
from kit.truth_record import MODES, record

USUAL_SECONDS = 10
PROGRAMS = ("truth-fp", "truth-nofp")


def check(checks, line):
    tag = f"{line['case']} by {line['mode']}"
    far, where = line["beyond"]
    limit = LIMITS.get((line["case"], line["mode"]), 0)
    checks.ok(f"{tag}: every function within "
              f"{CASES[line['case']] + limit:.1f} points of the truth, beside "
              f"the noise, or marked", far <= limit, f"{where}: {far:.1f} off")
    error, where = line["states"]
    checks.ok(f"{tag}: every state within {GOAL_STATES + limit:.1f} points",
              100 * abs(error) <= GOAL_STATES + limit, where)
    if "whole" in line:
        whole, marked, total, example = line["whole"]
        checks.ok(f"{tag}: {100 * WHOLE_LEAST:.0f} % of {total} stacks are "
                  f"whole, or marked", total > 0 and
                  whole + marked >= total * (WHOLE_LEAST - limit / 100),
                  f"{whole} whole, {marked} marked; {example}")
    if "brief" in line:
        shown, marked, true = line["brief"]
        checks.ok(f"{tag}: threads shorter than a tick are not shown for "
                  f"longer than they ran", shown <= true + CASES["brief"],
                  f"{shown:.1f} points shown, {marked:.1f} marked, "
                  f"{true:.1f} true")


def shares_of_trace(path):
    """{name: share of the time of all threads}: functions and states."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    stacks, last, spent, total = {}, {}, {}, 0
    for event in events:
        if event["ph"] not in "BE":
            continue
        thread, stack = event["tid"], stacks.setdefault(event["tid"], [])
        if stack:
            total += event["ts"] - last[thread]
        for name in set(stack):
            spent[name] = spent.get(name, 0) + event["ts"] - last[thread]
        last[thread] = event["ts"]
        if event["ph"] == "B":
            stack.append(event["name"])
        else:
            stack.pop()
    return {name: us / total for name, us in spent.items()}


def shares_of_folded(path):
    """The same, by ticks."""
    ticks, total = {}, 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            stack, count = line.rstrip("\n").rsplit(" ", 1)
            total += int(count)
            for name in set(stack.split(";")):
                ticks[name] = ticks.get(name, 0) + int(count)
    return {name: count / total for name, count in ticks.items()}


def check_formats(checks, bench, stage, case, seconds):
    _, recording = record(stage, "nofp", case, seconds, "bpf")
    shares = {}
    for name, read in (("trace.json", shares_of_trace),
                       ("folded", shares_of_folded)):
        path = stage.path(f"{case}.{name}")
        result = bench.run("convert", recording.path, "-o", path,
                           "--state-frames", "root")
        checks.ok(f"{case}: convert to {name}", result.returncode == 0,
                  result.stderr)
        shares[name] = read(path)
    # The other threads wait all the time.
    points = 100 * len(recording.samples)
    off = {name: points * (shares["trace.json"].get(name, 0) - share)
           for name, share in shares["folded"].items()
           if not name.startswith("[")}
    worst = max(off, key=lambda name: abs(off[name]))
    text = f"{worst}: {off[worst]:+.1f} points in the trace"
    # Ticks have the noise of counting, edges have not.
    checks.ok(f"{case}: a Chrome trace and a folded file agree within 4 points",
              abs(off[worst]) <= 4, text)
    print(f"# {case}: {text}")


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else USUAL_SECONDS
    is_table, lines = "--table" in sys.argv, []
    cells = SHORT if "--short" in sys.argv else \
        [(case, mode) for case in CASES for mode in MODES]
    try:
        stage = Stage(bench, PROGRAMS)
        for case, mode in cells:
            lines.append(measure(stage, case, mode, seconds))
            print("\n".join(describe(lines[-1])), flush=True)
            if not is_table:
                check(checks, lines[-1])
        if not is_table:
            for case in ("naps",) if cells is SHORT else ("naps", "mill"):
                check_formats(checks, bench, stage, case, seconds)
    finally:
        bench.close()
    print_table(lines)
    if not is_table:
        checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Programs that are hard to sample, in each way in which they can be sampled.

usage: test_cases.py BUILD [SECONDS [--short|--table]]

For each scenario of kit/truth_cases.py and each mode (root with BPF, root with
schedstat, an ordinary user, a program that records itself): what a recording
shows of a thread's time, in any function and state, is what the program wrote
down about itself; or the time is marked as not sampled. Chrome traces show
what lies between ticks, too. With --short some cases, with --table only the
table of errors, which agent/README.md has.
"""
import sys

from kit.harness import Bench, Checks
from kit.stage import Stage
from kit.truth_cases import (BRANCH_LIMITS, CALLERS_MOST, CASES, GOAL_STATES,
                             OF_EVENTS, SHORT, cut_most, describe, limit_of,
                             may_have_events, measure, print_table, whole_least)
from kit.truth_record import MODES, Recording, record_by_agent
from kit.truth_trace import error_of_trace

USUAL_SECONDS = 10
# They block between ticks.
TRACES = ("naps", "mill", "blips")


def check(checks, line):
    tag = f"{line['case']} by {line['mode']}"
    far, where = line["beyond"]
    limit = limit_of(line["case"], line["mode"])
    checks.ok(f"{tag}: every function within "
              f"{CASES[line['case']] + limit:.1f} points of the truth, beside "
              f"the noise, or marked", far <= limit, f"{where}: {far:.1f} off")
    error, where = line["states"]
    checks.ok(f"{tag}: every state within {GOAL_STATES + limit:.1f} points",
              100 * abs(error) <= GOAL_STATES + limit, where)
    wrong, example = line["callers"]
    checks.ok(f"{tag}: at most {100 * CALLERS_MOST:.0f} % of time is in the "
              f"kernel below a function that the thread was not in",
              wrong <= CALLERS_MOST, f"{100 * wrong:.1f} %: {example}")
    if "whole" in line:
        whole, marked, total, example = line["whole"]
        least = whole_least(line["case"], line["mode"])
        checks.ok(f"{tag}: {100 * least:.0f} % of {total} stacks are whole, or "
                  f"marked", total > 0 and whole + marked >= total * least,
                  f"{whole} whole, {marked} marked; {example}")
        most = cut_most(line["case"], line["mode"])
        checks.ok(f"{tag}: at most {100 * most:.0f} % of stacks are cut short",
                  line["cut"] <= most, f"{100 * line['cut']:.1f} %")
    if "branches" in line:
        clear, wrong, example = line["branches"]
        most = BRANCH_LIMITS[line["mode"]]
        checks.ok(f"{tag}: at most {100 * most:.1f} % of {clear} stacks are of "
                  f"a branch that the thread was not in", clear > 0 and
                  wrong <= most * clear, f"{wrong}: {example}")
    if "brief" in line:
        shown, marked, true = line["brief"]
        checks.ok(f"{tag}: threads shorter than a tick are not shown for "
                  f"longer than they ran", shown <= true + CASES["brief"],
                  f"{shown:.1f} points shown, {marked:.1f} marked, "
                  f"{true:.1f} true")


def check_trace(checks, stage, case, seconds):
    """Edges have no noise of counting."""
    truth, fgt = record_by_agent(stage, "nofp", case, seconds, "bpf")
    path = stage.path(f"{case}.trace.json")
    result = stage.bench.run("convert", fgt, "-o", path,
                             "--state-frames", "root")
    error, where = error_of_trace(truth, Recording(fgt), path)
    checks.ok(f"{case}: a Chrome trace shows how long threads ran to 1 point",
              result.returncode == 0 and abs(error) <= 1,
              where + result.stderr)
    print(f"# {case}, Chrome trace: {where}")


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else USUAL_SECONDS
    is_table, lines = "--table" in sys.argv, []
    is_short = "--short" in sys.argv
    cells = SHORT if is_short else \
        [(case, mode) for case in CASES for mode in MODES]
    try:
        stage = Stage(bench, ())
        for case, mode in cells:
            if (case, mode) in OF_EVENTS and not may_have_events():
                print(f"# {case} by {mode}: not checked, since perf events are "
                      f"forbidden")
                continue
            lines.append(measure(stage, case, mode, seconds))
            print("\n".join(describe(lines[-1])), flush=True)
            if not is_table:
                check(checks, lines[-1])
        if not is_table:
            for case in TRACES[:1] if is_short else TRACES:
                check_trace(checks, stage, case, seconds)
    finally:
        bench.close()
    print_table(lines)
    if not is_table:
        checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Slow instances of a span beside ordinary ones: a program that knows which are
slow, and where they spend their time.
test_slow_spans.py BUILD"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import Bench, Checks, read_until  # noqa: E402

COUNT, FAST_MS, PAUSE_MS = 200, 20, 100
SLOW_TRACE = f"{40:032x}"  # each 20th is slow
checks = Checks()
ok = checks.ok


def sums(lines):
    """{function of the program: samples} of folded lines."""
    found = {}
    for line in lines.splitlines():
        stack, samples = line.rsplit(" ", 1)
        for name in ("compute_price", "retry_payment", "burn_ms"):
            if name in stack.split(";"):
                found[name] = found.get(name, 0) + int(samples)
    return found


def check_slice(bench, source, slow):
    result = bench.run(*source, "--span", "checkout", "--slower-than", "80ms",
                       "-f", "folded", "-o", "-")
    found = sums(result.stdout)
    paused_ms = found.get("retry_payment", 0) / 0.101
    ok("the slow part has the pauses", abs(paused_ms - slow * PAUSE_MS) <
       0.1 * slow * PAUSE_MS, (paused_ms, slow, result.stderr))
    priced_ms = found.get("compute_price", 0) / 0.101
    ok("of the rest only that of slow instances",
       abs(priced_ms - slow * FAST_MS) < 0.5 * slow * FAST_MS, priced_ms)
    ok("a note has the lengths", re.search(
        rf'{slow} of {COUNT} instances of "checkout" took longer than 80.0 ms; '
        r'median 2\d\.\d ms', result.stderr), result.stderr)
    listed = re.findall(r"  (\d+\.\d) ms  .*, trace (\w{32})$",
                        result.stderr, re.M)
    ok("it lists the five slowest with their trace", len(listed) == 5 and
       all(float(ms) > 100 and int(trace, 16) % 20 == 0
           for ms, trace in listed), result.stderr)
    result = bench.run(*source, "--span", "checkout", "-f", "folded", "-o", "-",
                       "-q")
    priced_ms = sums(result.stdout).get("compute_price", 0) / 0.101
    ok("without a limit all instances are there",
       abs(priced_ms - COUNT * FAST_MS) < 0.15 * COUNT * FAST_MS and
       not result.stderr, (priced_ms, result.stderr))


def check_diff(bench, source, slow):
    result = bench.run(*source, "--span", "checkout", "--slower-than", "p95",
                       "--against", "p50", "--json")
    answer = json.loads(result.stdout)
    first = answer["rows"][0]
    ok("the planted function is the first difference",
       first["function"] == "retry_payment" and
       abs(first["change"] - PAUSE_MS) < 0.25 * PAUSE_MS, answer["rows"][:3])
    ok("instances are counted", answer["after"]["instances"] >= slow and
       0.4 * COUNT < answer["before"]["instances"] < 0.6 * COUNT,
       (answer["before"], answer["after"]))
    text = bench.run(*source, "--span", "checkout", "--slower-than",
                     "80ms").stdout
    ok("the text has ms of an instance", "ms of an instance" in text and
       f"after: {slow} slow ones" in text, text)


def check_trace(bench, source):
    result = bench.run(*source, "--trace-id", SLOW_TRACE, "-f", "folded",
                       "-o", "-")
    found = sums(result.stdout)
    ok("a trace has its span alone",
       abs(found.get("retry_payment", 0) / 0.101 - PAUSE_MS) < 40 and
       found.get("compute_price", 0) <= 8, (found, result.stderr))


def check_why(bench, source):
    result = bench.run(*source, "--transaction", SLOW_TRACE)
    ok("why explains a transaction", result.returncode == 0 and
       "retry_payment" in result.stdout, (result.stdout, result.stderr))
    result = bench.run(*source, "--transaction", "none")
    ok("one that is not there is an error", result.returncode == 5 and
       "trace_id=none" in result.stderr, result.stderr)


def check_mistakes(bench, path):
    for name, status, words, arguments in (
            ("no such span", 5, "there are: checkout",
             ("--span", "none", "-o", "-")),
            ("none that slow", 5, "the longest took 1",
             ("--span", "checkout", "--slower-than", "9s", "-o", "-")),
            ("a limit without a span", 2, "--span NAME",
             ("--slower-than", "9s")),
            ("no such trace", 5, "trace_id=none",
             ("--trace-id", "none", "-o", "-")),
            ("a bad quantile", 2, "give 200ms, or p50",
             ("--span", "checkout", "--slower-than", "p200"))):
        result = bench.run("convert", path, *arguments)
        ok(name, result.returncode == status and words in result.stderr,
           (result.returncode, result.stderr))
    result = bench.run("diff", path, "--span", "checkout")
    overlap = bench.run("diff", path, "--span", "checkout", "--slower-than",
                        "p50", "--against", "p99")
    ok("ordinary ones are not slow", overlap.returncode != 0 and
       "--against p99 takes slow instances" in overlap.stderr, overlap.stderr)
    ok("diff needs a limit", result.returncode == 2 and
       "--slower-than" in result.stderr, result.stderr)


def main():
    bench = Bench(sys.argv[1])
    try:
        _, socket = bench.daemon("slow")
        child = bench.start([bench.program("slow_spans"), str(COUNT)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env={**os.environ,
                                            "FGTRACE_SOCKET": socket})
        pid = read_until(child.stdout, "ready ")
        slow = int(read_until(child.stdout, "done "))
        agent = ("--socket", socket)
        check_slice(bench, (*agent, "slice", "-p", pid, "--last", "60s"), slow)
        check_diff(bench, (*agent, "diff", "-p", pid), slow)
        path = bench.path("all.fgt")
        bench.run(*agent, "slice", "-p", pid, "--last", "60s", "-q", "-o", path)
        check_slice(bench, ("convert", path), slow)
        check_trace(bench, (*agent, "slice", "-p", pid, "--last", "60s"))
        check_trace(bench, ("convert", path))
        check_why(bench, (*agent, "why", "-p", pid))
        check_why(bench, ("why", path))
        check_diff(bench, ("diff", path), slow)
        check_mistakes(bench, path)
        child.stdin.close()
        child.wait(10)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

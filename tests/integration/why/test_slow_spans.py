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


def check_mistakes(bench, path):
    for name, status, words, arguments in (
            ("no such span", 5, "there are: checkout",
             ("--span", "none", "-o", "-")),
            ("none that slow", 5, "the longest took 1",
             ("--span", "checkout", "--slower-than", "9s", "-o", "-")),
            ("a limit without a span", 2, "--span NAME",
             ("--slower-than", "9s")),
            ("a bad quantile", 2, "give 200ms, or p50",
             ("--span", "checkout", "--slower-than", "p200"))):
        result = bench.run("convert", path, *arguments)
        ok(name, result.returncode == status and words in result.stderr,
           (result.returncode, result.stderr))
    result = bench.run("diff", path, "--span", "checkout")
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
        check_diff(bench, ("diff", path), slow)
        check_mistakes(bench, path)
        child.stdin.close()
        child.wait(10)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

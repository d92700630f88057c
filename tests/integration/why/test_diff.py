# SPDX-License-Identifier: Apache-2.0
"""What grew and what shrank: a service while its cache is locked against the
time before, in one ring and as two files.
test_diff.py BUILD"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.faults import Service  # noqa: E402
from kit.harness import Bench, Checks  # noqa: E402

BEFORE_S = 4
checks = Checks()
ok = checks.ok


def lock_row(answer):
    """The wait for the lock, which was not there before."""
    return next((row for row in answer.get("rows", [])
                 if row["function"] == "lookup_cache" and
                 row["state"].startswith("futex g_cache_lock")), None)


def check(name, result):
    answer = json.loads(result.stdout or "{}")
    row = lock_row(answer)
    ok(f"{name}: exit 0", result.returncode == 0, result.stderr)
    sides = answer.get("before", {}), answer.get("after", {})
    ok(f"{name}: both times are given, one after the other", all(
        abs(side["to_ns"] - side["from_ns"] - side["seconds"] * 1e9) < 1e3
        for side in sides) and sides[0]["to_ns"] <= sides[1]["from_ns"] + 2e7,
       sides)
    ok(f"{name}: the wait for the lock grew", row and row["change"] > 0.5 and
       row["before"] < 0.2 and row["threads"] == "worker-*",
       answer.get("rows", [])[:4])
    ok(f"{name}: its holder is named", row and "maint" in row["state"], row)
    ok(f"{name}: the largest change is first", answer.get("rows") and all(
        abs(one["change"]) >= abs(two["change"]) - 1e-9 for one, two in
        zip(answer["rows"], answer["rows"][1:])), "")


def check_pprof(bench, paths):
    """pprof's own difference of the two slices names the same wait."""
    for path in paths:
        bench.run("convert", path, "-o", path.replace(".fgt", ".pb.gz"))
    result = subprocess.run(
        ["go", "tool", "pprof", "-symbolize=none", "-top", "-base"] +
        [path.replace(".fgt", ".pb.gz") for path in paths],
        text=True, capture_output=True, timeout=60)
    grown = [line for line in result.stdout.splitlines()
             if "lookup_cache" in line]
    ok("go tool pprof -base: the waits of the workers grew",
       result.returncode == 0 and grown and
       seconds(grown[0].split()[3]) > 0.5, result.stdout + result.stderr)


def check_filters(bench, paths):
    """Rows of some threads, functions and states."""
    def rows(*flags):
        return json.loads(bench.run("diff", *paths, "--json", "--top", "0",
                                    *flags).stdout)["rows"]
    for name, flags in (
            ("threads", ("--thread", "worker-*")),
            ("function", ("--function", "lookup_cache")),
            ("states", ("--state", "futex", "--thread", "worker-*"))):
        found = rows(*flags)
        ok(f"{name}: the wait for the lock, and no other thread",
           found and len(found) < len(rows()) and lock_row({"rows": found}) and
           all(row["threads"] == "worker-*" for row in found), found)
    ok("--running: no row is blocked", all(
        row["state"] in ("running", "runnable")
        for row in rows("--running")) and rows("--running"))
    none = bench.run("diff", *paths, "--state", "none-such")
    ok("a filter that takes nothing is explained", none.returncode == 5 and
       "no sample passes the filter: states are" in none.stderr, none)
    whole = bench.run("diff", *paths, "--last", "2s")
    ok("a time is refused beside two files", whole.returncode == 2 and
       "leave out --last" in whole.stderr, whole)
    none = bench.run("convert", paths[0], "--thread", "none-such", "--json")
    ok("a slice without a sample has no data", none.returncode == 5 and
       "no sample passes the filter: threads are" in none.stderr, none)


def seconds(text):
    return float(text[:-2]) / 1e3 if text.endswith("ms") else float(text[:-1])


def main():
    bench = Bench(sys.argv[1])
    try:
        _, socket = bench.daemon("diff")
        service = Service(bench, socket, "lock_convoy", BEFORE_S)
        service.wait()
        ask = ["--socket", socket]
        pid = str(service.child.pid)
        after = f"m:{service.from_ns}", f"m:{service.to_ns}"
        before = f"m:{service.from_ns - 3 * 10**9}", f"m:{service.from_ns}"
        check("ring", bench.run(
            *ask, "diff", "-p", pid, "--from", after[0], "--to", after[1],
            "--against-from", before[0], "--against-to", before[1], "--json"))
        paths = []
        for name, (begin, end) in (("before", before), ("after", after)):
            paths.append(bench.path(f"{name}.fgt"))
            bench.run(*ask, "slice", "-q", "-p", pid, "--from", begin, "--to",
                      end, "-o", paths[-1])
        check("files", bench.run("diff", *paths, "--json"))
        check_pprof(bench, paths)
        text = bench.run("diff", *paths).stdout
        ok("text: has the change, and both sides", "change   before    after" in
           text and "lookup_cache → pthread_mutex_lock: futex g_cache_lock" in
           text, text)
        few, all_rows = (bench.run("diff", *paths, "--top", top).stdout
                         for top in ("1", "0"))
        ok("text: what --top leaves out is counted, and 0 leaves out nothing",
           len(few.splitlines()) == 5 and
           f"and {len(all_rows.splitlines()) - 4} more: --top 0 shows all" in
           few and "shows all" not in all_rows, few + all_rows)
        check_filters(bench, paths)
        same = bench.run("diff", paths[0], paths[0]).stdout
        ok("a slice and itself: nothing", "nothing grew or shrank" in same,
           same)
        alone = bench.run("diff", paths[0])
        ok("one file alone is a mistake that names the remedy",
           alone.returncode == 2 and "--against-from" in alone.stderr, alone)
        empty = bench.run("diff", paths[1], "--against-from", "m:1",
                          "--against-to", "m:2")
        ok("a time without ticks is named", empty.returncode != 0 and
           "the time to compare with" in empty.stderr, empty)
        for flag in "against-from", "against-to", "from", "to":
            times = {"from": "-1s", "to": "now", "against-from": "-3s",
                     "against-to": "-2s", flag: "yesterday"}
            bad = bench.run("diff", paths[1], *(
                f"--{name}={value}" for name, value in times.items()))
            ok(f"--{flag} that is no time is a mistake in use",
               bad.returncode == 2 and "'yesterday'" in bad.stderr, bad)
        service.child.kill()
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

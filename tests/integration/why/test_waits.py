# SPDX-License-Identifier: Apache-2.0
"""Reasons of waits: a program whose threads know what they wait for, sampled by
root and by an ordinary user.
test_waits.py BUILD"""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import Bench, Checks  # noqa: E402
from kit.read_fgt import Slice  # noqa: E402

checks = Checks()
ok = checks.ok
KINDS = ("unknown", "mutex", "rwlock", "lock", "notification", "descriptor",
         "events", "child", "sleep", "page fault", "signal", "ipc", "stopped",
         "kernel")
OWNED = ("mutex", "rwlock")
# Which variable each lock is.
OBJECTS = {"lock": "g_mutex", "chained": "g_mutex", "second": "g_second_mutex",
           "reader": "g_rwlock"}


class Waiting:
    """The program, and what each of its threads waits for."""

    def __init__(self, bench, path, as_nobody):
        self.child = bench.start([path], as_nobody, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.expected = {}
        for line in self.child.stdout:
            if line.strip() == "ready":
                break
            name, tid, kind, number = line.split()
            self.expected[int(tid)] = name, kind, int(number)


def waits_of(path):
    """tid → (kind, owner, number, text, object) of its last run."""
    with open(path, "rb") as file:
        found = Slice(file.read())
    reasons = dict(found.run_waits)
    waits = {}
    for run, (thread, *_) in enumerate(found.runs):
        if run in reasons:
            kind, owner, _, number, _, text, name = \
                found.waits[reasons[run] - 1]
            waits[found.threads[thread][0]] = (
                KINDS[kind], owner, number,
                found.string(text).decode(), found.string(name).decode())
    return waits


def check(mode, waiting, waits):
    for tid, (name, kind, number) in waiting.expected.items():
        found = waits.get(tid, ("no reason", 0, -1, "", ""))
        if not ok(f"{mode}: {name} waits for {kind}", found[0] == kind, found):
            continue
        if kind in OWNED:
            ok(f"{mode}: {name} names the thread that holds it",
               found[1] == number, (found, number))
            ok(f"{mode}: {name} names the variable",
               found[4] == OBJECTS[name], found)
        elif kind in ("descriptor", "child"):
            ok(f"{mode}: {name} has its number", found[2] == number,
               (found, number))
    pipe = next((waits.get(tid) for tid, (name, *_) in waiting.expected.items()
                 if name == "pipe"), None) or [""] * 5
    ok(f"{mode}: the descriptor is a pipe", pipe[3].startswith("pipe:["), pipe)


def record(bench, mode, as_nobody, *arguments):
    program = bench.program("waits")
    if as_nobody:
        folder = bench.copy_for_nobody()
        program = shutil.copy2(program, folder)
    waiting = Waiting(bench, program, as_nobody)
    _, socket = bench.daemon(mode.replace(" ", "-"), *arguments,
                             as_nobody=as_nobody)
    result = bench.run("--socket", socket, "attach", str(waiting.child.pid),
                       as_nobody=as_nobody)
    ok(f"{mode}: attach", result.returncode == 0, result.stderr)
    time.sleep(1)
    path = bench.path(f"{mode}.fgt")
    with open(path, "wb") as file:
        slice_of = subprocess.run(
            [bench.agent, "--socket", socket, "slice", "-q", "--last", "900ms",
             "-p", str(waiting.child.pid), "-f", "fgt", "-o", "-"],
            stdout=file, check=False)
    ok(f"{mode}: slice", slice_of.returncode == 0, slice_of.returncode)
    check(mode, waiting, waits_of(path))
    waiting.child.stdin.close()


def main():
    bench = Bench(sys.argv[1])
    try:
        record(bench, "root", False)
        record(bench, "ordinary user", True)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

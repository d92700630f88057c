# SPDX-License-Identifier: Apache-2.0
"""Who woke whom: threads that pass mutexes on know it; root with BPF only.
test_wakes.py BUILD"""
import bisect
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import Bench, Checks  # noqa: E402
from kit.read_fgt import Slice  # noqa: E402

SOON_NS = 1000000  # a mutex is taken so soon after it was given away
SLACK_NS = 300000
TASK, INTERRUPT = 0, 1
checks = Checks()
ok = checks.ok


def handed_over(lines):
    """(ns, thread that gave a mutex away, thread that got it)."""
    holds = collections.defaultdict(list)
    for line in lines:
        tid, mutex, acquired, released = line.split()
        holds[mutex].append((int(acquired), int(released), int(tid)))
    for every in holds.values():
        every.sort()
        for (_, released, giver), (acquired, _, taker) in zip(every, every[1:]):
            if giver != taker and acquired - released < SOON_NS:
                yield released, acquired, giver, taker


def check(found, lines):
    wakes = collections.defaultdict(list)
    for thread, ns, waker, _ in found.wakes:
        wakes[found.threads[thread][0]].append((ns, found.wakers[waker]))
    begin, end = found.ticks[5][0], found.ticks[-5][0]
    right = wrong = 0
    for released, acquired, giver, taker in handed_over(lines):
        if not begin < acquired < end:
            continue
        times = [ns for ns, _ in wakes[taker]]
        near = wakes[taker][bisect.bisect_left(times, released - SLACK_NS):
                            bisect.bisect_right(times, acquired + SLACK_NS)]
        if any(waker[1] == giver for _, waker in near):
            right += 1
        elif near:
            wrong += 1
    contexts = collections.Counter(found.wakers[waker][3]
                                   for _, _, waker, _ in found.wakes)
    ok("threads are woken by each other", right > 100, right)
    ok("wakers are the threads that gave the mutex away",
       wrong <= 0.03 * right, (right, wrong))
    ok("sleepers are woken by interrupts", contexts[INTERRUPT] > 100 and
       contexts[TASK] > 100, contexts)


def check_stacks(found):
    """What wakers of the process were doing: all of them gave a mutex away."""
    wakes = [found.wakers[waker] for _, _, waker, _ in found.wakes]
    own = [waker for waker in wakes
           if waker[0] == found.process["pid"] and waker[3] == TASK]
    stacks = [found.stack_names(waker[4]) for waker in own if waker[4]]
    right = sum(b"work" in stack and any(b"unlock" in name for name in stack)
                for stack in stacks)
    ok("wakers have the stack of that moment", len(stacks) >= 0.95 * len(own),
       (len(stacks), len(own)))
    ok("it is where the mutex was given away", right >= 0.98 * len(stacks),
       (right, len(stacks), collections.Counter(map(tuple, stacks)).most_common(3)))


def check_arrows(bench, path, found):
    """Each wake-up by a thread of the slice is an arrow of the Chrome trace."""
    trace = bench.path("wakes.trace.json")
    bench.run("convert", path, "-q", "-o", trace)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    ends = {phase: {event["id"]: event["tid"] for event in events
                    if event["ph"] == phase and event.get("cat") == "wake"}
            for phase in "sf"}
    tids = {thread[0] for thread in found.threads}
    pairs = collections.Counter(
        (found.wakers[waker][1], found.threads[thread][0])
        for thread, ns, waker, _ in found.wakes
        if found.wakers[waker][3] == TASK and ns >= found.ticks[0][0] and
        found.wakers[waker][1] in tids)
    drawn = collections.Counter((tid, ends["f"].get(number))
                                for number, tid in ends["s"].items())
    ok("arrows lead from wakers to the woken", drawn == pairs and drawn,
       (drawn - pairs, pairs - drawn))


def main():
    bench = Bench(sys.argv[1])
    try:
        child = bench.start([bench.program("handover"), "5"],
                            stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        path = bench.path("wakes.fgt")
        result = bench.run("record", "-q", "-p", str(child.pid), "-d", "4",
                           "-o", path)
        ok("record", result.returncode == 0, result.stderr)
        with open(path, "rb") as file:
            found = Slice(file.read())
        if not found.wakers and os.getuid() != 0:
            print("# not root: wake-ups are not recorded")
        else:
            check(found, child.stdout)
            check_stacks(found)
            check_arrows(bench, path, found)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

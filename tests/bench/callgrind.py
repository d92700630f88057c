# SPDX-License-Identifier: Apache-2.0
"""Instructions of a tick, counted by callgrind: the same on every machine.

Two runs of different length are subtracted, so that what happens once (the
first look at every thread, the tables of each image) does not count. Only
instructions in user space: system calls cost the kernel's as well.
"""
import re
import subprocess

from machine import NotRun

# What a tick consists of; none of them calls another.
PARTS = ("fgt_tick_begin", "fgt_running_perf_drain", "fgt_perf_threads_drain",
         "fgt_tick_finish")
TICKS = (100, 400)
TIMEOUT_S = 120


def _count(stage, pid, ticks):
    """(instructions, ticks, stacks, provider) of one run."""
    out = stage.path("callgrind.out")
    result = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
         "--collect-atstart=no",
         *(f"--toggle-collect={part}" for part in PARTS),
         f"{stage.build}/tests/bench/bench_tick", str(pid), str(ticks)],
        capture_output=True, text=True, timeout=TIMEOUT_S)
    told = re.search(r"ticks (\d+) stacks (\d+) provider (.+)",
                     result.stdout)
    if result.returncode != 0 or not told:
        raise NotRun("callgrind: " + result.stderr.strip()[-200:])
    with open(out) as file:
        total = re.search(r"^totals: (\d+)", file.read(), re.M)
    return (int(total.group(1)), int(told.group(1)), int(told.group(2)),
            told.group(3))


def of_tick(stage, make_target):
    """A line for the table."""
    target = make_target()
    try:
        target.go_on()
        first, second = (_count(stage, target.pid, ticks) for ticks in TICKS)
    except subprocess.TimeoutExpired:
        raise NotRun(f"callgrind took over {TIMEOUT_S} s") from None
    finally:
        target.close()
    instructions, ticks, stacks = (b - a for a, b in zip(first, second)
                                   if isinstance(a, int))
    return (f"{instructions / ticks:12.0f} instructions a tick, "
            f"{stacks / ticks:5.2f} stacks read in each ({first[3]})")


def table(stage):
    lines = ["instructions of fgtrace's tick in user space (callgrind), "
             "depth 20"]
    for busy, blocked in ((0, 10), (0, 1000), (2, 10), (2, 1000)):
        name = f"{busy} busy + {blocked} blocked".ljust(32)
        try:
            lines.append(name + of_tick(
                stage, lambda: stage.crowd(blocked, 20, busy)))
        except NotRun as error:
            lines.append(name + f"  not run: {error}")
    return "\n".join(lines + [""])

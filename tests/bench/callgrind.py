# SPDX-License-Identifier: Apache-2.0
"""Instructions of a tick, counted by callgrind: not noisy, as times are.

Instructions in user space only: those of the kernel are not counted.
"""
import re
import subprocess

from machine import NotRun

# The parts of a tick; none of them calls another.
PARTS = ("fgt_tick_begin", "fgt_sampling_drain", "fgt_tick_finish")
# perf reports the tasks and samples of all processes of the machine: to read
# them is no cost of the target.
OF_OTHERS = {"fgt_perf_buffer_next", "fgt_perf_cpus_drain",
             "fgt_perf_task_parse", "fgt_perf_sample_parse", "take_sample",
             "is_wanted"}
TICKS = 500
TIMEOUT_S = 120


def _sum(path):
    """Instructions of all functions themselves, without those OF_OTHERS."""
    names, name, total, is_call = {}, "", 0, False
    with open(path) as file:
        for line in file:
            function = re.match(r"(c?)fn=\((\d+)\)(?: (\S+))?", line)
            if function:
                known = names.setdefault(function[2], function[3])
                name = name if function[1] else known
            elif line.startswith("calls="):
                is_call = True
            elif re.match(r"[-+*\d]", line):
                if not is_call and name not in OF_OTHERS:
                    total += int(line.split()[1])
                is_call = False
    return total


def _count(stage, pid):
    """Of one run, per tick: a line for the table."""
    out = stage.path("callgrind.out")
    result = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
         "--collect-atstart=no",
         *(f"--toggle-collect={part}" for part in PARTS),
         f"{stage.build}/tests/bench/bench_tick", str(pid), str(TICKS)],
        capture_output=True, text=True, timeout=TIMEOUT_S)
    found = re.search(r"ticks (\d+) stacks (\d+) provider (.+)",
                     result.stdout)
    if result.returncode != 0 or not found:
        raise NotRun("callgrind: " + result.stderr.strip()[-200:])
    ticks = int(found.group(1))
    return (f"{_sum(out) / ticks:12.0f} instructions a tick, "
            f"{int(found.group(2)) / ticks:5.2f} stacks read in each "
            f"({found.group(3)})")


def of_tick(stage, make_target):
    target = make_target()
    try:
        target.go_on()
        return _count(stage, target.pid)
    except subprocess.TimeoutExpired:
        raise NotRun(f"callgrind took over {TIMEOUT_S} s") from None
    finally:
        target.close()


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


def _count_spans(stage, spans):
    out = stage.path("callgrind.out")
    result = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
         f"{stage.build}/tests/bench/bench_spans", str(spans)],
        capture_output=True, text=True, timeout=TIMEOUT_S)
    if result.returncode != 0:
        raise NotRun("callgrind: " + result.stderr.strip()[-200:])
    with open(out) as file:
        return int(re.search(r"^totals: (\d+)", file.read(), re.M).group(1))


def of_spans(stage):
    """The difference of two runs, so that start and end are not counted."""
    try:
        few, many = _count_spans(stage, 10000), _count_spans(stage, 110000)
    except (NotRun, subprocess.TimeoutExpired) as error:
        return f"instructions of a span: not run: {error}\n"
    return (f"{(many - few) / 100000:.0f} instructions for a span's begin and "
            "end, two looks at the clock included (callgrind)\n")

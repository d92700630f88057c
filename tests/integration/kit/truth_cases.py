# SPDX-License-Identifier: Apache-2.0
"""The cases of the table in agent/README.md: scenarios of the truth program,
what is asked of each mode, and the table itself."""
import resource

from kit.truth_judge import (branches, cut_share, judge, short_lives,
                             whole_stacks)
from kit.truth_record import MODES, record

# Points beside the noise of counting; for bursts shorter than a tick, 2.
USUAL_GOAL, SHORT_GOAL = 1.0, 2.0
# Case → goal.
CASES = {
    "beside": USUAL_GOAL, "faults": USUAL_GOAL, "calls": USUAL_GOAL,
    "reads": USUAL_GOAL,
    "naps": SHORT_GOAL, "mill": SHORT_GOAL, "coroutines": SHORT_GOAL,
    "deep": USUAL_GOAL, "blips": SHORT_GOAL, "handled": SHORT_GOAL,
    "step": SHORT_GOAL, "turns": SHORT_GOAL,
    "brief": SHORT_GOAL, "spawn": USUAL_GOAL,
    "altstack": USUAL_GOAL, "jit": USUAL_GOAL, "spinners": USUAL_GOAL,
    "twins": SHORT_GOAL, "crowded": SHORT_GOAL,
}
# Shares of states have the noise of counting in them.
GOAL_STATES = 4.0
# Of a thread's time, in the kernel below a function that it was not in.
CALLERS_MOST = 0.02
# (case, mode) → points beyond the goal that are known to be left.
LIMITS = {
    ("step", "user"): 4, ("step", "embedded"): 1,
    ("beside", "embedded"): 1, ("beside", "schedstat"): 1,
    ("handled", "embedded"): 1, ("handled", "schedstat"): 2,
    ("handled", "user"): 1, ("spinners", "embedded"): 2,
    ("twins", "schedstat"): 2,
}
# Of programs that record themselves, where perf events are forbidden: timers
# keep step with the kernel's ticks (see agent/README.md).
TIMER_LIMITS = {"step": 3, "naps": 4, "handled": 4, "crowded": 26}
# Mode → share of stacks that may be of a branch that the thread was not in. By
# its switches: until two stacks of one place have been read.
BRANCH_LIMITS = {"bpf": 0.002, "schedstat": 0.04, "user": 0.04,
                 "embedded": 0.06}
# With timers these are wrong without a marker.
OF_EVENTS = (("turns", "embedded"),)
LOCKED_LEAST = 272 << 10  # RLIMIT_MEMLOCK
# In each run; the soak has all of them.
SHORT = (("spinners", "bpf"), ("step", "bpf"), ("blips", "user"),
         ("spawn", "schedstat"), ("deep", "bpf"), ("twins", "bpf"),
         ("turns", "embedded"))
# Cases whose stacks must have leaf part and root part. Coroutines have a root
# of their own kind.
STACK_CASES = ("deep", "altstack", "jit", "spawn")
WHOLE_LEAST = 0.99
# Of all stacks, so many may end before their root.
CUT_MOST = 0.01
# What is read after the sample is not shown where the sampler came late to it,
# as an ordinary user's does where the thread waits for a CPU. The first signals
# of a thread do not copy as much as the later ones.
CUT_LIMITS = {
    ("altstack", "user"): 0.06, ("altstack", "embedded"): 0.02,
    ("deep", "user"): 0.02, ("deep", "embedded"): 0.02,
    ("deep", "bpf"): 0.02, ("spawn", "bpf"): 0.02,
}
# The samples of a program that records itself are up to 3.3 ms older than their
# tick: as many stacks more may be of the step before. Shares are right.
OLDER_LIMITS = {
    ("deep", "embedded"): 0.20, ("altstack", "embedded"): 0.16,
    ("jit", "embedded"): 0.10,
}


def may_have_events():
    """May a program that records itself have perf events?"""
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        paranoid = int(file.read())
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if locked != resource.RLIM_INFINITY and locked < LOCKED_LEAST:
        return False
    with open("/proc/self/status", encoding="utf-8") as file:
        return paranoid <= 2 and "Seccomp:\t0\n" in file.read()


def cut_most(case, mode):
    return CUT_LIMITS.get((case, mode), CUT_MOST)


def whole_least(case, mode):
    """Share of stacks that are whole or marked."""
    return WHOLE_LEAST - OLDER_LIMITS.get((case, mode), 0)


def limit_of(case, mode):
    if mode == "embedded" and case in TIMER_LIMITS and not may_have_events():
        return TIMER_LIMITS[case]
    return LIMITS.get((case, mode), 0)


def measure(stage, case, mode, seconds):
    """One line of results."""
    truth, recording = record(stage, "nofp", case, seconds, mode)
    verdict = judge(truth, recording, CASES[case])
    line = {
        "case": case, "mode": mode,
        "functions": verdict.functions, "states": verdict.states,
        "at_ticks": verdict.at_ticks, "marked": verdict.marked,
        "beyond": verdict.beyond, "callers": verdict.callers,
    }
    if case in STACK_CASES:
        line["whole"] = whole_stacks(truth, recording)
        line["cut"] = cut_share(truth, recording)
    if case == "brief":
        line["brief"] = short_lives(truth, recording, "brief")
    if case == "twins":
        line["branches"] = branches(truth, recording)
    return line


def describe(line):
    """Details for the log, a list of lines."""
    tag = f"{line['case']} by {line['mode']}"
    text = [f"# {tag}: worst function {line['functions'][2]}, "
            f"at the ticks {line['at_ticks'][1]}",
            f"# {tag}: worst state {line['states'][1]}; marked "
            f"{100 * line['marked']:.1f} %"]
    if line["callers"][0]:
        text.append(f"# {tag}: {100 * line['callers'][0]:.1f} % of time is in "
                    f"the kernel below a wrong function: "
                    f"{line['callers'][1]}")
    if "whole" in line:
        whole, marked, total, example = line["whole"]
        text.append(f"# {tag}: {whole} of {total} stacks whole, {marked} "
                    f"marked; {example}")
        text.append(f"# {tag}: {100 * line['cut']:.1f} % of stacks are cut "
                    f"short")
    if "brief" in line:
        shown, marked, true = line["brief"]
        text.append(f"# {tag}: brief threads: {shown:.1f} points shown, "
                    f"{marked:.1f} marked, {true:.1f} true")
    if "branches" in line:
        clear, wrong, example = line["branches"]
        text.append(f"# {tag}: {wrong} of {clear} stacks of another branch; "
                    f"{example}")
    return text


def cell(lines):
    """Worst of the lines: functions, states, marked; stacks that are not
    whole."""
    if not lines:
        return "-"
    text = f"{max(100 * abs(each['functions'][0]) for each in lines):.1f} " \
        f"{max(100 * abs(each['states'][0]) for each in lines):.1f} " \
        f"{max(100 * each['marked'] for each in lines):.0f}%"
    if "whole" in lines[0]:
        bad = max(100 * (1 - (each["whole"][0] + each["whole"][1]) /
                         max(1, each["whole"][2])) for each in lines)
        text += f" w{bad:.0f}"
    if "brief" in lines[0]:
        shown, marked, true = lines[0]["brief"]
        text += f" b{shown:.0f}+{marked:.0f}/{true:.0f}"
    return text


def print_table(lines):
    print("# Worst of all threads: error of a function, error of a state "
          "(points), marked share;\n# w: stacks neither whole nor marked (%); "
          "b: CPU time of short threads, shown + marked / true (points).")
    width = max([20] + [len(cell([line])) + 2 for line in lines])
    print(f"# {'case':<12}" + "".join(f"{mode:<{width}}" for mode in MODES))
    for case in CASES:
        row = [cell([line for line in lines if line["case"] == case and
                     line["mode"] == mode]) for mode in MODES]
        if set(row) != {"-"}:
            print(f"# {case:<12}" + "".join(f"{text:<{width}}"
                                          for text in row).rstrip())

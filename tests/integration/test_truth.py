# SPDX-License-Identifier: Apache-2.0
"""Recordings agree with what a program wrote down about itself.

usage: test_truth.py BUILD [SECONDS [--short]]

Programs with and without frame pointers spend known shares of time in known
functions; each share must come out within 2 points (1.5 for phases that
differ only by caller), states must be right, 99.5 % of stacks complete. A pair
of threads in lock-step must be shown running as long as they run. With --short
only the shares, once for each provider.
"""
import itertools
import json
import os
import re
import subprocess
import sys

from kit.harness import (Bench, Checks, Samples, as_user, read_until,
                         slack_of)

# Limits for a recording of 20 s or more.
USUAL_SECONDS = 20
LIMITS = {"shares": 0.02, "bursts": 0.02, "kinds": 0.02, "callers": 0.015,
          "pool": 0.02, "pair": None}
# Polled, a thread that lost its CPU to the sampler looks like one that waits:
# pools are shown up to two and a half points too busy.
POLLED_POOL_LIMIT = 0.03
# A thread that blocks 10,000 times a second is in step with the sampler. Polled,
# it is shown as running all the time; an ordinary user has its CPU time, less
# 3 to 5 points, for which no cause has been found.
PAIR_LIMITS = {"bpf": 0.06, "nobody": 0.06}
# Providers of which threads ran; each must give the same slices.
PROVIDERS = {"bpf": ("nofp", "fp"), "schedstat": ("nofp",),
             "nobody": ("nofp", "fp")}
ROOTS = {"clone", "clone3", "__clone", "__clone3", "_start"}


def record(bench, variant, scenario, seconds, with_perf, provider):
    """Runs one scenario; returns (truth, samples, perf's output or None)."""
    as_nobody = provider == "nobody"
    if not as_nobody:
        os.environ["FGTRACE_SAMPLING_WHO_RAN"] = provider
    # On a slow machine the default budget would lower the rate.
    os.environ["FGTRACE_SAMPLING_MAX_CPU_PERCENT"] = "0"
    tag = f"{variant}-{scenario}-{provider}"
    folder = bench.copy_for_nobody() if as_nobody else None
    program = f"{folder}/truth-{variant}" if folder \
        else bench.program(f"truth-{variant}")
    child = bench.start([program, scenario, str(seconds + 2)], as_nobody,
                        stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    perf = None
    if with_perf:
        perf = bench.start(
            ["perf", "record", "-q", "-F", "101", "-e", "cpu-clock",
             "--call-graph", "dwarf", "-p", pid, "-o",
             bench.path(tag + ".perf"), "--", "sleep", str(seconds)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out = bench.path(tag + ".d")
    os.makedirs(out, exist_ok=True)
    os.chmod(out, 0o777)
    agent = f"{folder}/fgtrace-agent" if folder else bench.agent
    result = subprocess.run(
        as_user([agent, "record", "-d", str(seconds), "-p", pid, "-o",
                 f"{out}/slice.fgt"], as_nobody),
        capture_output=True, text=True, timeout=seconds + 60)
    if result.returncode != 0:
        raise RuntimeError(f"record: {result.stderr}")
    convert = bench.run("convert", f"{out}/slice.fgt", "-o",
                        f"{out}/slice.envelope", "--state-frames", "root")
    if convert.returncode != 0:
        raise RuntimeError(f"convert: {convert.stderr}")
    truth = json.loads("{" + read_until(child.stdout, "{"))
    child.wait()
    if perf:
        perf.wait()
    return truth, Samples(f"{out}/slice.envelope"), perf and bench.path(
        tag + ".perf")


def expected_share(thread, step, as_nobody):
    """(least, most): one figure for root. An ordinary user cannot see that a
    thread waits for a CPU: that time may show as the blocked call before."""
    total = sum(s["ns"] for s in thread["steps"])
    waited = sum(s["ns"] - s["cpu_ns"] for s in thread["steps"]
                 if s["state"] == "running")
    share = step["ns"] / total
    if not as_nobody:
        return share, share
    if step["state"] == "running":
        return min(share, step["cpu_ns"] / total), share
    return share, share + waited / total


def check_shares(checks, tag, truth, samples, limit, as_nobody):
    worst = (0.0, "")
    for thread in truth["threads"]:
        for step in thread["steps"]:
            least, most = expected_share(thread, step, as_nobody)
            seen = samples.share(thread["name"], step["function"])
            error = max(least - seen, seen - most, 0)
            if error >= worst[0]:
                worst = (error, f"{thread['name']} {step['function']}: "
                         f"{100 * seen:.1f} % seen, {100 * least:.1f} % to "
                         f"{100 * most:.1f} % true")
    checks.ok(f"{tag}: every share within {100 * limit:.1f} points",
              worst[0] <= limit, worst[1])
    print(f"# {tag}: worst share: {worst[1]}")


def check_running(checks, tag, truth, samples, limit, sees_switches):
    """Steps of a few µs are no longer than reading the clock. Known is only how
    long a thread had a CPU, and how long it had or wanted one; a thread that
    lost its CPU is still shown running. The kernel's CPU time includes the µs
    in which an idle CPU wakes up for the thread. A provider of switches
    (sees_switches) does not see these: its lower limit is the time in which
    the thread did not block."""
    for thread in truth["threads"]:
        stacks = [s for _, s in samples.by_thread.get(thread["name"], [])]
        seen = sum(s[-1] == "running" for s in stacks) / max(1, len(stacks))
        busy_ns = sum(s["ns"] for s in thread["steps"]
                      if s["state"] == "running")
        least = thread["cpu_ns"] / thread["ns"]
        if sees_switches:
            least = min(least, busy_ns / thread["ns"])
        most = (thread["cpu_ns"] + thread["wait_ns"]) / thread["ns"]
        text = f"{100 * seen:.1f} % seen, {100 * least:.1f} % to " \
            f"{100 * most:.1f} % true"
        checks.ok(f"{tag}: {thread['name']} is shown running as long as it "
                  f"ran",
                  least - limit <= seen <= most + limit, text)
        print(f"# {tag}: {thread['name']} running: {text}")


def is_among(shown, states):
    """A state is shown with its reason: "futex g_lock ← flusher"."""
    return any(shown == state or shown.startswith(state + " ")
               for state in states)


def check_states(checks, tag, truth, samples):
    """Samples inside a step's function carry the state of that step. One that
    is woken waits for its CPU where it blocked, as long as the thread waited
    in all."""
    wrong = total = 0
    example = ""
    worst_running = (0.0, "")
    for thread in truth["threads"]:
        stacks = [s for _, s in samples.by_thread.get(thread["name"], [])]
        waits = thread["wait_ns"] / thread["ns"] * len(stacks)
        for step in thread["steps"]:
            states = set(step["state"].split("|"))
            if "running" in states:
                states.add("runnable")
            running = 0
            for stack in stacks:
                if step["function"] not in stack or \
                        is_among(stack[-1], states):
                    total += step["function"] in stack
                    continue
                total += 1
                # A blocking function runs too, on its way in and out.
                if stack[-1] == "running":
                    running += 1
                elif stack[-1] == "runnable" and waits >= 1:
                    waits -= 1
                else:
                    wrong += 1
                    example = f"{step['function']} as {stack[-1]}"
            share = running / max(1, len(stacks))
            allowed = step["cpu_ns"] / sum(s["ns"] for s in thread["steps"])
            worst_running = max(worst_running, (
                share - allowed, f"{step['function']} in {thread['name']}: "
                f"{100 * share:.1f} % shown running, {100 * allowed:.1f} % "
                "true"))
    checks.ok(f"{tag}: states right on 99.5 % of {total} samples",
              total > 0 and wrong <= total * 0.005,
              f"{wrong} of {total} wrong, such as {example}")
    checks.ok(f"{tag}: blocking functions are rarely shown running",
              worst_running[0] <= 0.02, worst_running[1])


def check_complete(checks, tag, truth, samples):
    """Every stack reaches from its leaf to the thread's start."""
    complete = total = gaps = 0
    reasons = {}
    for thread in truth["threads"]:
        for _, stack in samples.by_thread.get(thread["name"], []):
            total += 1
            cut = [f for f in stack if f.startswith("[truncated")]
            if stack[0].startswith("[gap"):
                gaps += 1  # the sampler had no CPU: no stack is expected
            elif not cut and len(stack) >= 2 and stack[-2] in ROOTS:
                complete += 1
            else:
                why = cut[0] if cut else f"root {stack[-2:-1]}"
                reasons[why] = reasons.get(why, 0) + 1
    checks.ok(f"{tag}: 99.5 % of {total} stacks complete",
              total > 0 and complete >= (total - gaps) * 0.995, str(reasons))
    checks.ok(f"{tag}: gaps are few", gaps <= total * 0.02, f"{gaps}")
    if total:
        print(f"# {tag}: {complete} of {total} complete, {gaps} gaps "
              f"{reasons}")


def check_count(checks, tag, truth, samples, seconds):
    """101 samples a second for each thread, blocked or not."""
    expected = 101 * seconds
    counts = {thread["name"]: len(samples.by_thread.get(thread["name"], []))
              for thread in truth["threads"]}
    checks.ok(f"{tag}: each thread has a sample at each tick",
              len(set(counts.values())) == 1 and
              min(counts.values()) >= 0.97 * expected, str(counts))


def check_scenario(checks, tag, scenario, truth, samples, limit, as_nobody,
                   sees_switches=False):
    if scenario == "pair":
        check_running(checks, tag, truth, samples, limit, sees_switches)
        return
    check_shares(checks, tag, truth, samples, limit, as_nobody)
    check_states(checks, tag, truth, samples)
    check_complete(checks, tag, truth, samples)


def perf_shares(path):
    """{thread: {function: samples}} of perf's on-CPU samples."""
    text = subprocess.run(
        ["perf", "script", "--no-inline", "-F", "comm,tid,ip,sym", "-i", path],
        capture_output=True, text=True, check=False).stdout
    shares = {}
    for block in text.split("\n\n"):
        lines = block.strip().split("\n")
        match = re.match(r"\s*(\S.*?)\s+(\d+)\s*$", lines[0])
        if not match:
            continue
        functions = {line.split()[-1] for line in lines[1:] if line.split()}
        counts = shares.setdefault(match.group(1), {"": 0})
        counts[""] += 1
        for function in functions:
            counts[function] = counts.get(function, 0) + 1
    return shares


def check_perf(checks, tag, samples, path):
    """On-CPU shares agree with perf record --call-graph dwarf."""
    perf = perf_shares(path)
    worst = (0.0, "")
    compared = 0
    for thread, counts in perf.items():
        running = [stack for _, stack in samples.by_thread.get(thread, [])
                   if stack[-1] == "running"]
        if len(running) < 100 or counts[""] < 100:
            continue
        for function in ("burn_alpha", "burn_beta"):
            compared += 1
            share = sum(function in s for s in running) / len(running)
            theirs = counts.get(function, 0) / counts[""]
            # Two independent measurements of a few hundred samples each.
            slack = 2.6 * (0.25 / len(running) + 0.25 / counts[""]) ** 0.5
            if abs(share - theirs) - slack >= worst[0]:
                worst = (abs(share - theirs) - slack,
                         f"{thread} {function}: {100 * share:.1f} % here, "
                         f"{100 * theirs:.1f} % perf")
            print(f"# {tag}: {thread} {function} on CPU: "
                  f"{100 * share:.1f} % here, {100 * theirs:.1f} % perf")
    checks.ok(f"{tag}: on-CPU shares agree with perf", compared > 0 and
              worst[0] <= 0.02, worst[1] or "perf saw nothing")


def compare(checks, bench, variant, scenario, seconds, provider):
    tag = f"{variant} {scenario} by {provider}"
    as_nobody = provider == "nobody"
    truth, samples, perf = record(
        bench, variant, scenario, seconds,
        scenario == "shares" and not as_nobody, provider)
    limit = LIMITS[scenario]
    if (provider, scenario) == ("schedstat", "pool"):
        limit = POLLED_POOL_LIMIT
    elif scenario == "pair":
        limit = PAIR_LIMITS[provider]
    limit *= slack_of(seconds, USUAL_SECONDS)
    check_scenario(checks, tag, scenario, truth, samples, limit, as_nobody,
                   provider == "bpf")
    check_count(checks, tag, truth, samples, seconds)
    if perf:
        check_perf(checks, tag, samples, perf)


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else USUAL_SECONDS
    is_short = "--short" in sys.argv
    try:
        for provider, scenario in itertools.product(
                PROVIDERS, ["shares", "kinds"] if is_short else LIMITS):
            if scenario == "pair" and provider not in PAIR_LIMITS:
                continue
            for variant in PROVIDERS[provider][:1 if is_short else None]:
                compare(checks, bench, variant, scenario, seconds, provider)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

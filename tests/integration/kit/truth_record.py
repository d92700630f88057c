# SPDX-License-Identifier: Apache-2.0
"""Records the truth program in each way in which a program can be sampled.

Of a recording: what the program wrote down about itself, and the slice, read
from its .fgt form without the agent's help.
"""
import bisect
import json
import os
import shutil
import subprocess

from kit.harness import as_user, read_until
from kit.read_fgt import Slice

MODES = ("bpf", "schedstat", "user", "embedded")


def record_embedded(stage, variant, scenario, seconds, as_nobody=True):
    """Returns (truth, path of the slice)."""
    user = "nobody" if as_nobody else "root"
    out = stage.path(f"{variant}-{scenario}-{user}.fgt")
    result = stage.run([stage.program(f"truth-{variant}"), scenario,
                        str(seconds)], out, as_nobody, timeout=seconds + 60)
    lines = [line for line in result.stdout.split("\n")
             if line.startswith("{")]
    if not lines or not os.path.exists(out):
        raise RuntimeError(f"{scenario}, embedded: {result.stderr}")
    return json.loads(lines[0]), out


def record_by_agent(stage, variant, scenario, seconds, mode):
    """Returns (truth, path of the slice). Mode "user": as an ordinary user;
    other modes: as root, with this provider."""
    as_nobody = mode == "user"
    # On a slow machine the default budget would lower the rate.
    settings = {**os.environ, "FGTRACE_SAMPLING_MAX_CPU_PERCENT": "0"}
    settings.pop("FGTRACE_SAMPLING_WHO_RAN", None)
    if not as_nobody:
        settings["FGTRACE_SAMPLING_WHO_RAN"] = mode
    child = stage.bench.start(
        [stage.program(f"truth-{variant}"), scenario, str(seconds + 2)],
        as_nobody, stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    out = stage.path(f"{variant}-{scenario}-{mode}.fgt")
    result = subprocess.run(
        as_user([stage.program("fgtrace-agent"), "record", "-d", str(seconds),
                 "-p", pid, "-o", out], as_nobody),
        env=settings, capture_output=True, text=True, check=False,
        timeout=seconds + 60)
    if result.returncode != 0:
        raise RuntimeError(f"record: {result.stderr}")
    truth = json.loads("{" + read_until(child.stdout, "{"))
    child.wait()
    return truth, out


def record(stage, variant, scenario, seconds, mode):
    """Returns (truth, Recording). To look at what went wrong: both are copied
    to the folder FGT_TRUTH_KEEP, if that is set."""
    if mode == "embedded":
        truth, path = record_embedded(stage, variant, scenario, seconds)
    else:
        truth, path = record_by_agent(stage, variant, scenario, seconds, mode)
    if "FGT_TRUTH_KEEP" in os.environ:
        kept = os.path.join(os.environ["FGT_TRUTH_KEEP"],
                            f"{variant}-{scenario}-{mode}")
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        shutil.copy(path, kept + ".fgt")
        with open(kept + ".json", "w", encoding="utf-8") as file:
            json.dump(truth, file)
    return truth, Recording(path)


class Sample:
    """One thread at one tick: ns, periods that it stands for, names of the
    frames (leaf first), name of the state."""

    __slots__ = ("ns", "weight", "stack", "state")

    def __init__(self, ns, weight, stack, state):
        self.ns, self.weight = ns, weight
        self.stack, self.state = stack, state


class Recording:
    """samples[name of thread]: in the order of time, of all threads that have
    this name."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.slice = Slice(file.read())
        fgt = self.slice
        ticks = [ns for ns, in fgt.ticks]
        self.begin_ns, self.end_ns = ticks[0], ticks[-1]
        self.samples = {}
        states = {number: fgt.string(name).decode() or "unknown"
                  for number, name in fgt.states}
        stacks, starts = {}, [0] + [tick for tick, _ in fgt.paces]
        weights = [1] + [periods for _, periods in fgt.paces]
        self.ticks = sum(self.weights(starts, weights, tick)
                         for tick in range(len(ticks)))
        for thread, first, count, stack, state in fgt.runs:
            name = fgt.string(fgt.threads[thread][1]).decode()
            if stack not in stacks:
                stacks[stack] = [frame.decode("utf-8", "replace") for frame
                                 in fgt.stack_names(stack)]
            self.samples.setdefault(name, []).extend(
                Sample(ticks[tick],
                       self.weights(starts, weights, tick), stacks[stack],
                       states[state])
                for tick in range(first, first + count))
        for samples in self.samples.values():
            samples.sort(key=lambda sample: sample.ns)

    @staticmethod
    def weights(starts, weights, tick):
        return weights[bisect.bisect(starts, tick) - 1]

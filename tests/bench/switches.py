# SPDX-License-Identifier: Apache-2.0
"""What fgtrace adds to a context switch and to a wake-up.

Two threads that do nothing but switch are measured for part of a second
without it, then with each agent attached in turn, and so on: each agent is
compared with the window before it, and the medians of all rounds are printed.
At 20 ticks a second nearly all of it is the program that the kernel runs at each
switch; at 101 more of sampling is in it as well.
"""
import os
import re
import statistics
import subprocess
import time

from machine import NotRun, dying_with_us, is_root

DEPTH = 10
WINDOW_S = 0.35
SETTLE_S = 0.1
START_S = 30
# How the threads switch → title, switches and wake-ups of an operation.
KINDS = (
    ("pipes", "one processor, through pipes: a switch and a wake-up each", 2),
    ("apart", "two processors, through pipes: a wake-up each, to its end", 2),
    ("yield", "one processor, sched_yield(2): a switch each", 1),
)


class Agent:
    """A daemon that samples the pair from attach() to detach()."""

    def __init__(self, stage, name, binary, who_ran, hz):
        self.name, self.binary = name, binary
        self.socket = stage.path("root/" + re.sub("[^a-z0-9]+", "-",
                                                  name.lower()) + ".sock")
        self.child = subprocess.Popen(
            dying_with_us([binary, "--socket", self.socket, "daemon"]),
            env={**os.environ, "FGTRACE_SAMPLING_WHO_RAN": who_ran,
                 "FGTRACE_SAMPLING_HZ": str(hz),
                 "FGTRACE_SAMPLING_MAX_CPU_PERCENT": "0"},
            stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_S
        while self._call("status").returncode != 0:
            if self.child.poll() is not None or time.monotonic() > until:
                raise NotRun(f"{name}: the daemon does not answer")
            time.sleep(0.05)
        self.per_switch = []  # ns, beyond the window before

    def _call(self, *arguments):
        return subprocess.run([self.binary, "--socket", self.socket,
                               *arguments], text=True, capture_output=True,
                              timeout=START_S)

    def attach(self, pid):
        result = self._call("attach", str(pid))
        if result.returncode != 0:
            raise NotRun(f"{self.name}: {result.stderr.strip()}")

    def detach(self, pid):
        self._call("detach", str(pid))

    def close(self):
        self.child.terminate()
        self.child.wait()


def _agents(stage, base):
    """base: another build of the agent, to compare with; or None."""
    binary = stage.path("bin/fgtrace-agent")
    wanted = [("BPF, 20 ticks a second", binary, "bpf", 20),
              ("BPF, 101 ticks a second", binary, "bpf", 101),
              ("no BPF, 101 ticks a second", binary, "schedstat", 101)]
    if base:
        wanted[2:] = [("base: BPF, 20 ticks a second", base, "bpf", 20),
                      ("base: BPF, 101 ticks a second", base, "bpf", 101)]
    return [Agent(stage, *one) for one in wanted]


def _window_ns(target, switches):
    """Wall time of a switch; the pair keeps its processor busy."""
    time.sleep(SETTLE_S)
    return 1e9 / (target.window(WINDOW_S).work_per_s * switches)


def _measure(target, agents, switches, rounds):
    plain = []
    for _ in range(rounds):
        for agent in agents:
            plain.append(_window_ns(target, switches))
            agent.attach(target.pid)
            agent.per_switch.append(_window_ns(target, switches) - plain[-1])
            agent.detach(target.pid)
        # Each agent has every place in the round.
        agents.append(agents.pop(0))
    return plain


def _line(name, values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"  {name:32s}{middle:9.1f} ±{(high - low) / 2:.1f}"


def _table_of(stage, kind, title, switches, rounds, base):
    agents, target = [], None
    try:
        agents = _agents(stage, base)
        target = stage.pair(DEPTH, kind)
        target.go_on()
        plain = _measure(target, agents, switches, rounds)
        agents.sort(key=lambda agent: agent.name)
        return [title, _line("without fgtrace", plain)] + \
            [_line(agent.name, agent.per_switch) for agent in agents]
    finally:
        for agent in agents:
            agent.close()
        if target:
            target.close()


def table(stage, rounds, base=None, kinds=KINDS):
    lines = ["ns of a switch, and ns that fgtrace adds to it: medians of "
             f"{rounds} pairs of windows, ± half the distance between their "
             "quartiles"]
    for kind in kinds:
        try:
            if not is_root():
                raise NotRun("needs root")
            lines += _table_of(stage, *kind, rounds, base)
        except (NotRun, OSError, subprocess.SubprocessError) as error:
            lines.append(f"  not run: {error}")
    return "\n".join(lines + [""])

# SPDX-License-Identifier: Apache-2.0
"""The profilers that are compared; `outside` and `inside` list them.

A profiler is started on a target (it then records, or stands ready), gets the
begin and the end of the measured window, and is stopped. stop() returns a
Recording.
"""
import dataclasses
import json
import os
import select
import signal
import subprocess
import time

import stacks
from machine import NotRun, as_nobody, dying_with_us, is_root

HZ = 101
BLOCKED_KINDS = 5  # ways to block in crowd.go
SETTLE_S = 1.0
START_S = 60


@dataclasses.dataclass
class Recording:
    """Results of a profiler. A sample is one thread at one instant."""
    seconds: float
    samples: float
    bytes: float  # of the whole file
    bytes_per_sample: float  # without the parts written once, if known
    seen_percent: float  # of the blocked threads
    complete_percent: float  # stacks that reach their thread's start
    ring_bytes_per_sample: float = float("nan")
    note: str = ""


class Profiler:
    is_inside = False
    compares_with_plain = False  # memory: compared with a target without it

    def __init__(self, name):
        self.name = name

    def pids(self):
        return []

    def close(self):
        """Ends what was started; may be called at any time, and again."""

    def begin(self):
        pass

    def end(self):
        pass


def ratio(part, whole):
    return part / whole if whole else float("nan")


def percent(part, whole):
    return 100.0 * ratio(part, whole)


def end_child(child):
    if not child:
        return
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(START_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class Fgtrace(Profiler):
    """The daemon. who_ran: the provider of which threads ran."""

    def __init__(self, stage, name, is_ordinary_user, who_ran="auto"):
        super().__init__(name)
        self.stage, self.who_ran = stage, who_ran
        self.is_ordinary_user = is_ordinary_user
        side = "user" if is_ordinary_user else "root"
        self.socket = stage.path(f"{side}/agent.sock")
        self.slice = stage.path(f"{side}/slice.fgt")
        self.child = None

    def _command(self, *arguments):
        command = [self.stage.path("bin/fgtrace-agent"), "--socket",
                   self.socket, *arguments]
        return as_nobody(command) if self.is_ordinary_user else command

    def call(self, *arguments):
        return subprocess.run(self._command(*arguments), text=True,
                              capture_output=True, timeout=START_S)

    def _status(self):
        return json.loads(self.call("status", "--json").stdout)["targets"][0]

    def start(self, target):
        if not self.is_ordinary_user and not is_root():
            raise NotRun("needs root")
        self.target = target
        command = self._command("daemon")
        self.child = subprocess.Popen(
            command if self.is_ordinary_user else dying_with_us(command),
            env={**os.environ, "FGTRACE_SAMPLING_WHO_RAN": self.who_ran,
                 # The cost of the full rate, not what the rate limit leaves.
                 "FGTRACE_SAMPLING_MAX_CPU_PERCENT": "0"},
            stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_S
        while self.call("status").returncode != 0:
            if self.child.poll() is not None or time.monotonic() > until:
                raise NotRun("the daemon does not answer")
            time.sleep(0.05)
        result = self.call("attach", str(target.pid))
        if result.returncode != 0:
            raise NotRun(result.stderr.strip())
        time.sleep(SETTLE_S)

    def pids(self):
        return [self.child.pid]

    def begin(self):
        self.before, self.began = self._status(), time.monotonic()

    def end(self):
        self.seconds = time.monotonic() - self.began
        self.after = self._status()
        if self.who_ran not in ("auto", self.after["who_ran"]):
            raise NotRun(f"{self.after['who_ran']} instead of {self.who_ran}")

    def close(self):
        end_child(self.child)
        self.child = None

    def _slice_bytes(self, seconds):
        result = self.call("slice", "--last", f"{seconds:.3f}s", "-p",
                           str(self.target.pid), "-o", self.slice)
        if result.returncode != 0:
            raise NotRun(result.stderr.strip())
        return os.path.getsize(self.slice)

    def stop(self):
        before, after = self.before, self.after
        whole = self._slice_bytes(self.seconds)
        try:
            half = self._slice_bytes(self.seconds / 2)
        except NotRun:  # too few ticks to cut half of them
            half = whole
        self.close()
        ticks = after["ticks"] - before["ticks"]
        if ticks <= 0:
            raise NotRun("it did not tick")
        samples = ticks * after["threads"]
        others = self.target.threads() - self.target.blocked
        logged = after["ring_log_used_bytes"] - before["ring_log_used_bytes"]
        return Recording(
            seconds=self.seconds, samples=samples, bytes=whole,
            # Parts written once (names, older stacks) are in both slices.
            bytes_per_sample=(2 * (whole - half) / samples if whole > half
                              else float("nan")),
            # Negative: more fell out of the ring than came in.
            ring_bytes_per_sample=(logged / samples if logged > 0
                                   else float("nan")),
            seen_percent=percent(after["threads"] - others,
                                 self.target.blocked),
            complete_percent=percent(after["stacks_complete"],
                                     after["stacks"]),
            note=f"{after['who_ran']} + {after['running']}, "
                 f"{ticks / self.seconds:.0f} ticks a second")


class Perf(Profiler):
    """perf record -p, opened disabled and enabled when it stands ready."""

    def __init__(self, stage, name, arguments):
        super().__init__(name)
        self.out, self.arguments = stage.path("perf.data"), arguments
        self.errors = stage.path("perf.err")
        self.child = self.control = self.answers = None

    def start(self, target):
        self.target = target
        control, self.control = os.pipe()
        self.answers, answer = os.pipe()
        with open(self.errors, "w") as errors:
            self.child = subprocess.Popen(
                ["perf", "record", "-q", "-F", str(HZ), "-e", "cpu-clock",
                 *self.arguments, "-p", str(target.pid), "-o", self.out,
                 "-D", "-1", f"--control=fd:{control},{answer}"],
                pass_fds=(control, answer), stdout=subprocess.DEVNULL,
                stderr=errors)
        os.close(control)
        os.close(answer)
        self._order("enable")

    def _order(self, word):
        os.write(self.control, f"{word}\n".encode())
        ready, _, _ = select.select([self.answers], [], [], START_S)
        if ready and os.read(self.answers, 64):
            return
        with open(self.errors) as errors:
            why = errors.read().split("Hint:")[0] or \
                f"no answer in {START_S} s"
        raise NotRun("perf: " + " ".join(why.split())[:200])

    def close(self):
        end_child(self.child)
        for fd in (self.control, self.answers):
            if fd is not None:
                os.close(fd)
        self.child = self.control = self.answers = None

    def pids(self):
        return [self.child.pid]

    def begin(self):
        self.began = time.monotonic()

    def end(self):
        self._order("disable")
        self.seconds = time.monotonic() - self.began

    def stop(self):
        self.close()
        found = stacks.of_perf(self.out)
        return Recording(
            seconds=self.seconds, samples=found.samples,
            bytes=os.path.getsize(self.out),
            bytes_per_sample=ratio(stacks.perf_sample_bytes(self.out),
                                   found.samples),
            seen_percent=percent(found.blocked_threads, self.target.blocked),
            complete_percent=percent(found.complete, found.samples),
            note="perf script afterwards: "
                 f"{1000 * found.cpu_s / self.seconds:.0f} ms of CPU for each "
                 "second recorded, not counted above")


def wait_for(path, why):
    until = time.monotonic() + START_S
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise NotRun(why)
        time.sleep(0.02)


class Gperftools(Profiler):
    """libprofiler in the target, switched on and off by a signal."""
    is_inside = True
    compares_with_plain = True

    def __init__(self, stage, name):
        super().__init__(name)
        self.stage, self.count = stage, 0

    def start(self, target):
        self.target = target
        self.out = self.stage.path(f"out/gperftools.{self.count}")
        self.count += 1
        target.child.send_signal(signal.SIGUSR2)
        self.began = time.monotonic()
        wait_for(self.out, "libprofiler did not start (LD_PRELOAD)")

    def forget(self):
        """The next target counts its files from 0."""
        for number in range(self.count):
            if os.path.exists(self.stage.path(f"out/gperftools.{number}")):
                os.remove(self.stage.path(f"out/gperftools.{number}"))
        self.count = 0

    def stop(self):
        seconds = time.monotonic() - self.began
        self.target.child.send_signal(signal.SIGUSR2)
        until = time.monotonic() + START_S
        while not stacks.is_whole_gperftools(self.out):
            if time.monotonic() > until:
                raise NotRun("libprofiler did not write its file")
            time.sleep(0.05)
        found = stacks.of_gperftools(self.out, self.target.program)
        return Recording(
            seconds=seconds, samples=found.samples,
            bytes=os.path.getsize(self.out),
            bytes_per_sample=ratio(found.bytes, found.samples),
            seen_percent=percent(found.blocked_threads, self.target.blocked),
            complete_percent=percent(found.complete, found.samples))


class Fgprof(Profiler):
    """In the Go program; every goroutine, 99 times a second if it can."""
    is_inside = True

    def __init__(self, stage, name):
        super().__init__(name)
        self.out = stage.path("out/fgprof")

    def forget(self):
        if os.path.exists(self.out):
            os.remove(self.out)

    def start(self, target):
        self.target = target
        self.forget()
        target.child.send_signal(signal.SIGUSR1)
        self.began = time.monotonic()

    def stop(self):
        self.target.child.send_signal(signal.SIGUSR2)
        wait_for(self.out, "fgprof did not write its file")
        seconds = time.monotonic() - self.began
        found = stacks.of_fgprof(
            self.out, self.target.blocked / BLOCKED_KINDS)
        return Recording(
            seconds=seconds, samples=found.samples,
            bytes=os.path.getsize(self.out),
            bytes_per_sample=ratio(os.path.getsize(self.out), found.samples),
            seen_percent=percent(found.blocked_threads, self.target.blocked),
            complete_percent=percent(found.complete, found.samples),
            note=f"{found.snapshots / seconds:.0f} snapshots a second; of "
                 "stacks with equal functions its file keeps one count only")


def outside(stage):
    """Profilers that watch from another process. One line a variant."""
    return [
        Fgtrace(stage, "fgtrace, root, BPF", False, "bpf"),
        Fgtrace(stage, "fgtrace, root, no BPF", False, "schedstat"),
        Fgtrace(stage, "fgtrace, ordinary user", True),
        Perf(stage, "perf -F 101 --call-graph dwarf",
             ["--call-graph", "dwarf"]),
        Perf(stage, "perf -F 101 -g", ["-g"]),
    ]


def inside(stage):
    """Profilers that are part of the target, with what makes the target."""
    return [
        (Gperftools(stage, "gperftools"),
         lambda *crowd: stage.crowd(*crowd, environment=stage.libprofiler())),
        (Fgprof(stage, "fgprof (Go)"), stage.go_crowd),
    ]


def inside_pair(stage):
    """Goroutines switch without the kernel: fgprof has no such pair."""
    return [
        (Gperftools(stage, "gperftools"),
         lambda depth: stage.pair(depth, "pipes", stage.libprofiler())),
    ]

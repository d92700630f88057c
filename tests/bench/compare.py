# SPDX-License-Identifier: Apache-2.0
"""Measures all profilers on the same kind of target, in alternation.

Work lost is measured against windows without a profiler before and after. The
row "no profiler" compares such a window with its neighbours in the same way:
it shows the noise of the machine. Neighbours on the same hardware make a
processor slower, never faster: so the fastest tenth of the tenths of a second,
with and without the profiler, is compared.
"""
import dataclasses
import statistics
import struct
import subprocess
import sys
import time

import targets
from machine import NotRun, cpu_seconds, resident_mb

NO_PROFILER = "no profiler"
BEST = 0.9  # quantile that stands for the undisturbed machine
FIGURES = ("outside_ms", "inside_ms", "lost_percent", "memory_mb",
           "samples_per_s", "bytes_per_s", "bytes_per_sample",
           "ring_bytes_per_sample", "seen_percent", "complete_percent")


@dataclasses.dataclass
class Row:
    """One line of the table: medians, or why there are none."""
    profiler: str
    is_inside: bool = False
    rounds: int = 0
    median: dict = dataclasses.field(default_factory=dict)
    spread: dict = dataclasses.field(default_factory=dict)
    why: str = ""
    note: str = ""


class Samples:
    """The results of the rounds for one profiler."""

    def __init__(self, name, is_inside):
        self.row = Row(name, is_inside)
        self.values = {figure: [] for figure in FIGURES}
        self.rates, self.base_rates = [], []

    def add(self, window, bases, **figures):
        self.row.rounds += 1
        self.rates += window.rates
        for base in bases:
            self.base_rates += base.rates
        figures.update(losses(window, bases))
        for name, value in figures.items():
            self.values[name].append(value)

    def result(self):
        for name, values in self.values.items():
            values = [value for value in values if value == value]
            if not values:
                continue
            self.row.median[name] = statistics.median(values)
            if len(values) >= 3:
                low, _, high = statistics.quantiles(values, n=4)
                self.row.spread[name] = (high - low) / 2
        if self.rates and self.base_rates:
            self.row.median["best_lost_percent"] = 100 * (
                1 - best(self.rates) / best(self.base_rates))
        return self.row


def best(rates):
    return sorted(rates)[int(BEST * (len(rates) - 1))]


def losses(window, bases):
    """In the same processor time less work is done: the rest is overhead
    inside the target, in its threads or in the kernel."""
    per_cpu_s = statistics.mean(base.work_per_cpu_s for base in bases)
    per_s = statistics.mean(base.work_per_s for base in bases)
    return {"inside_ms": 1000 * window.cpu_per_s *
            (1 - window.work_per_cpu_s / per_cpu_s),
            "lost_percent": 100 * (1 - window.work_per_s / per_s)}


def of_recording(recording):
    return {"samples_per_s": recording.samples / recording.seconds,
            "bytes_per_s": recording.bytes / recording.seconds,
            "bytes_per_sample": recording.bytes_per_sample,
            "ring_bytes_per_sample": recording.ring_bytes_per_sample,
            "seen_percent": recording.seen_percent,
            "complete_percent": recording.complete_percent}


@dataclasses.dataclass
class Measured:
    window: targets.Window
    outside_ms: float
    resident_mb: float
    recording: object


def measure(profiler, target, seconds):
    try:
        profiler.start(target)
        profiler.begin()
        pids = profiler.pids()
        before, began = cpu_seconds(pids), time.monotonic()
        window = target.window(seconds)
        used, elapsed = cpu_seconds(pids) - before, time.monotonic() - began
        resident = resident_mb(pids)
        profiler.end()
        return Measured(window, 1000 * used / elapsed, resident,
                        profiler.stop())
    finally:
        profiler.close()


def attempt(held, measurement):
    """An error of one profiler ends its rounds, not those of the others."""
    if held.row.why:
        return None
    try:
        return measurement()
    except NotRun as error:
        held.row.why = str(error)
    except (OSError, ValueError, LookupError, struct.error,
            subprocess.SubprocessError) as error:
        held.row.why = repr(error)
    return None


def measure_outside(profilers, target, seconds, samples):
    """One round: a window without, then each profiler and a window without
    after every second one."""
    target.go_on()
    bases, pending = [target.window(seconds)], []
    for index, profiler in enumerate(profilers):
        held = samples[profiler.name]
        measured = attempt(held, lambda: measure(profiler, target, seconds))
        if measured:
            pending.append((held, len(bases), measured))
        if index % 2 == 1 or index == len(profilers) - 1:
            bases.append(target.window(seconds))
    target.stop()
    for held, after, measured in pending:
        held.add(measured.window, (bases[after - 1], bases[after]),
                 outside_ms=measured.outside_ms,
                 memory_mb=measured.resident_mb,
                 **of_recording(measured.recording))
        held.row.note = measured.recording.note
    if len(bases) >= 3:
        samples[NO_PROFILER].add(bases[1], (bases[0], bases[2]))


def measure_inside(profiler, target, without_mb, seconds, held):
    """Profiler and windows without it, in a separate target."""
    target.go_on()
    before = target.window(seconds)
    measured = measure(profiler, target, seconds)
    after = target.window(seconds)
    target.stop()
    held.add(measured.window, (before, after), outside_ms=0.0,
             memory_mb=measured.window.resident_mb - without_mb,
             **of_recording(measured.recording))
    held.row.note = measured.recording.note


class Comparison:
    """One number of threads, one depth (or the pair): targets and rows."""

    def __init__(self, make_target, outside, inside):
        self.outside, self.inside, self.opened = outside, inside, []
        self.samples = {NO_PROFILER: Samples(NO_PROFILER, False)}
        for profiler in [*outside, *(one for one, _ in inside)]:
            self.samples[profiler.name] = Samples(profiler.name,
                                                  profiler.is_inside)
        self.target = self._open(make_target)
        self.own, self.without_mb = {}, {}
        for profiler, make in inside:
            try:
                profiler.forget()
                own = self.own[profiler.name] = self._open(make)
                # libprofiler costs memory as soon as it is loaded.
                self.without_mb[profiler.name] = resident_mb(
                    [(self.target if profiler.compares_with_plain
                      else own).pid])
            except NotRun as error:
                self.samples[profiler.name].row.why = str(error)

    def _open(self, make):
        target = make()
        self.opened.append(target)
        return target

    def round(self, seconds):
        measure_outside(self.outside, self.target, seconds, self.samples)
        # Each profiler has every place in the round once.
        self.outside = self.outside[1:] + self.outside[:1]
        for profiler, _ in self.inside:
            held = self.samples[profiler.name]
            attempt(held, lambda: measure_inside(
                profiler, self.own[profiler.name],
                self.without_mb[profiler.name], seconds, held))

    def close(self):
        for target in self.opened:
            target.close()


def run(make_target, outside, inside, rounds, seconds, until):
    """The rows; raises NotRun if there is no target or no time."""
    if time.monotonic() > until:
        raise NotRun("the time was over (--minutes)")
    comparison = None
    try:
        comparison = Comparison(make_target, outside, inside)
        for number in range(rounds):
            if number and time.monotonic() > until:
                break
            comparison.round(seconds)
            print(".", end="", file=sys.stderr, flush=True)
    finally:
        if comparison:
            comparison.close()
    print(file=sys.stderr)
    return [held.result() for held in comparison.samples.values()]

# SPDX-License-Identifier: Apache-2.0
"""The programs that are profiled; they report how much work they do.

Each prints "ready PID", then "MONO_NS OPERATIONS CPU_NS" ten times a second.
A target that is not being measured is stopped, so as not to disturb others.
"""
import dataclasses
import os
import select
import signal
import subprocess
import time

from machine import NotRun, as_nobody, check_room_for_threads, resident_mb

BUSY = 2
START_S = 120
SETTLE_S = 0.3
WINDOW_TRIES = 3
LIFE_S = "7200"  # if the benchmark is killed, the target ends by itself


@dataclasses.dataclass
class Window:
    """What the target did during some seconds."""
    work_per_s: float
    work_per_cpu_s: float
    cpu_per_s: float
    resident_mb: float
    rates: list  # work per second of each tenth of a second


class Target:
    """A child that works; it can be stopped and continued."""

    def __init__(self, command, blocked, environment=None):
        self.program, self.blocked = command[0], blocked
        self.text = ""
        check_room_for_threads(blocked + BUSY)
        self.child = subprocess.Popen(
            as_nobody(command), stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})})
        os.set_blocking(self.child.stdout.fileno(), False)
        try:
            self.pid = self._wait_until_ready()
        except NotRun:
            self.close()
            raise
        self.stop()

    def _read_more(self):
        while True:
            try:
                more = os.read(self.child.stdout.fileno(), 65536)
            except BlockingIOError:
                return True
            if not more:
                return False
            self.text += more.decode()

    def _wait_until_ready(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            select.select([self.child.stdout], [], [], 1)
            is_open = self._read_more()
            if "\n" in self.text:
                first, self.text = self.text.split("\n", 1)
                return int(first.split()[1])
            if not is_open:
                break
        raise NotRun(f"{self.program} could not start its threads")

    def stop(self):
        self.child.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)
        time.sleep(SETTLE_S)

    def _rows(self, seconds):
        """The lines that it prints during so many seconds."""
        begin = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        self._read_more()
        *lines, self.text = self.text.split("\n")
        rows = [[int(field) for field in line.split()] for line in lines]
        return [row for row in rows if begin <= row[0] <= end]

    def window(self, seconds):
        for _ in range(WINDOW_TRIES):  # a virtual machine may stand still
            rows = self._rows(seconds)
            if len(rows) >= 2:
                return self._window(rows)
        status = self.child.poll()
        raise NotRun(f"{self.program} reports no progress" if status is None
                     else f"{self.program} ended with status {status}")

    def _window(self, rows):
        wall, work, cpu = (rows[-1][i] - rows[0][i] for i in range(3))
        return Window(work_per_s=work * 1e9 / wall,
                      work_per_cpu_s=work * 1e9 / max(cpu, 1),
                      cpu_per_s=cpu / wall,
                      resident_mb=resident_mb([self.pid]),
                      rates=[(last[1] - first[1]) * 1e9 / (last[0] - first[0])
                             for first, last in zip(rows, rows[1:])])

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.child.stdout.close()


class Stage:
    """The folder of programs and their files; an ordinary user may enter it."""

    def __init__(self, build, scratch):
        self.build, self.scratch = build, scratch

    def path(self, name):
        return os.path.join(self.scratch, name)

    def crowd(self, blocked, depth, busy=BUSY, environment=None, nap_ms=None):
        naps = [str(nap_ms)] if nap_ms else []
        return Target([self.path("bin/crowd"), str(busy), str(blocked),
                       str(depth), LIFE_S, *naps], blocked, environment)

    def pair(self, depth, kind="pipes", environment=None):
        return Target([self.path("bin/pair"), str(depth), LIFE_S, kind], 0,
                      environment)

    def go_crowd(self, blocked, depth):
        if not os.path.exists(self.path("bin/crowd-go")):
            raise NotRun("the Go program could not be built")
        return Target([self.path("bin/crowd-go"), str(BUSY), str(blocked),
                       str(depth), LIFE_S, self.path("out/fgprof")], blocked)

    def libprofiler(self):
        """The environment in which SIGUSR2 starts and stops gperftools."""
        return {"LD_PRELOAD": "libprofiler.so.0",
                "CPUPROFILE": self.path("out/gperftools"),
                "CPUPROFILE_FREQUENCY": "101",
                "CPUPROFILESIGNAL": str(int(signal.SIGUSR2))}

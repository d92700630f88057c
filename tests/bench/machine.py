# SPDX-License-Identifier: Apache-2.0
"""The machine, for the benchmarks: clocks, memory, limits, users."""
import os
import platform
import resource
import subprocess
import time

NOBODY = 65534
NOFILE_WANTED = 262144
TIDS_LEFT_ALONE = 2000  # for everything else that runs on the machine


class NotRun(Exception):
    """Why a figure is missing; ends up in the table."""


def is_root():
    return os.geteuid() == 0


def dying_with_us(command):
    """The child is killed when the benchmark ends: a stopped one would stay
    for ever."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


def as_nobody(command):
    """Targets belong to an ordinary user, so that both kinds of fgtrace can
    sample the same process."""
    if not is_root():
        return dying_with_us(command)
    return dying_with_us([f"--reuid={NOBODY}", f"--regid={NOBODY}",
                          "--clear-groups", *command])


def raise_limits():
    """Profilers that keep a descriptor per thread get enough of them, as far
    as we may. Returns how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE,
                           (NOFILE_WANTED, max(hard, NOFILE_WANTED)))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE,
                           (min(hard, NOFILE_WANTED), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def read(path, default=""):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return default


def check_room_for_threads(threads):
    """Raises NotRun when this machine cannot run so many more threads."""
    running = int(read("/proc/loadavg").split()[3].split("/")[1])
    limits = [("kernel.pid_max", read("/proc/sys/kernel/pid_max"), running),
              ("kernel.threads-max", read("/proc/sys/kernel/threads-max"),
               running),
              # A stack and its guard page are a mapping each.
              ("vm.max_map_count / 2",
               str(int(read("/proc/sys/vm/max_map_count", "0")) // 2), 0),
              ("ulimit -u",
               str(resource.getrlimit(resource.RLIMIT_NPROC)[0]), 0)]
    group = read("/proc/self/cgroup").split("\n")[-1].split(":")[-1]
    for name in ("pids.max", "pids.current"):
        value = read(f"/sys/fs/cgroup{group}/{name}", "max")
        if name == "pids.max":
            pids_max = value
        elif value != "max":
            limits.append(("cgroup pids.max", pids_max, int(value)))
    for name, value, used in limits:
        if not value.isdigit():
            continue  # max, or -1 for unlimited
        if int(value) - used < threads + TIDS_LEFT_ALONE:
            raise NotRun(f"{threads} threads more do not fit below {name} = "
                         f"{value} ({used} in use)")


def process_clock(pid):
    """CPU seconds of a process, its ended threads included."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED


def family(pid):
    """A process and all its descendants."""
    pids = [pid]
    for found in pids:
        for tid in os.listdir(f"/proc/{found}/task"):
            pids += map(int, read(
                f"/proc/{found}/task/{tid}/children").split())
    return pids


def cpu_seconds(pids):
    total = 0.0
    for pid in pids:
        try:
            total += sum(process_clock(member) for member in family(pid))
        except OSError:
            pass
    return total


def resident_mb(pids):
    pages = 0
    for pid in pids:
        try:
            for member in family(pid):
                pages += int(read(f"/proc/{member}/statm", "0 0").split()[1])
        except OSError:
            pass
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def describe():
    """One line about the machine of the figures."""
    model = [line.split(":", 1)[1].strip()
             for line in read("/proc/cpuinfo").split("\n")
             if line.startswith("model name")]
    system = [line.split("=", 1)[1].strip('"')
              for line in read("/etc/os-release").split("\n")
              if line.startswith("PRETTY_NAME=")]
    return (f"{len(os.sched_getaffinity(0))} processors "
            f"({model[0] if model else platform.machine()}), Linux "
            f"{platform.release()}, {system[0] if system else 'unknown'}, "
            f"perf_event_paranoid "
            f"{read('/proc/sys/kernel/perf_event_paranoid', '?')}, "
            f"load {read('/proc/loadavg').split()[0]} before")


def versions():
    found = []
    for package, name in (("linux-perf", "perf"),
                          ("libgoogle-perftools-dev", "gperftools"),
                          ("golang-github-felixge-fgprof-dev", "fgprof"),
                          ("golang-go", "go"), ("valgrind", "valgrind")):
        result = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", package],
            capture_output=True, text=True)
        found.append(f"{name} {result.stdout or 'not installed'}")
    return ", ".join(found)

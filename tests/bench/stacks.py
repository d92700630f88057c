# SPDX-License-Identifier: Apache-2.0
"""Counts samples, and stacks that reach their thread's start, in what the
other profilers write. The crowd's threads start in be_busy and be_blocked."""
import dataclasses
import re
import resource
import struct
import subprocess

from machine import NotRun

PERF_RECORD_SAMPLE = 9
STARTS = ("be_busy", "be_blocked", "main")


@dataclasses.dataclass
class Found:
    samples: int = 0
    complete: int = 0
    blocked_threads: float = 0
    snapshots: int = 0
    bytes: int = 0  # of the samples alone
    cpu_s: float = 0  # time that finding them took


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def of_perf(path):
    before = children_cpu_s()
    result = subprocess.run(
        ["perf", "script", "--no-inline", "-F", "tid,ip,sym", "-i", path],
        capture_output=True, text=True)
    if result.returncode != 0:
        raise NotRun("perf script: " + result.stderr.strip()[-200:])
    found, blocked = Found(cpu_s=children_cpu_s() - before), set()
    for sample in result.stdout.split("\n\n"):
        lines = sample.strip("\n").split("\n")
        if not lines[0].strip():
            continue
        functions = [line.split()[-1] for line in lines[1:] if line.strip()]
        found.samples += 1
        found.complete += any(name in STARTS for name in functions)
        if "be_blocked" in functions:
            blocked.add(lines[0].split()[0])
    found.blocked_threads = len(blocked)
    return found


def perf_sample_bytes(path):
    """Bytes of the samples in a perf.data, without headers and mappings."""
    with open(path, "rb") as file:
        data = file.read()
    # struct perf_file_header: magic, size, attr_size, attrs, data (at, size)
    at, size = struct.unpack_from("<QQ", data, 40)
    end, total = min(at + size, len(data)), 0
    while at + 8 <= end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if length < 8:
            break
        total += length if kind == PERF_RECORD_SAMPLE else 0
        at += length
    return total


def _ranges(program):
    """Address ranges of the functions that threads start in."""
    listed = subprocess.run(["nm", "-S", program], capture_output=True,
                            text=True).stdout
    return {fields[3]: (int(fields[0], 16),
                        int(fields[0], 16) + int(fields[1], 16))
            for fields in map(str.split, listed.split("\n"))
            if len(fields) == 4 and fields[3] in STARTS}


def _words(path):
    with open(path, "rb") as file:
        data = file.read()
    return data, struct.unpack_from(f"<{len(data) // 8}Q", data)


def is_whole_gperftools(path):
    """The mappings come last, the stack's among them."""
    with open(path, "rb") as file:
        return b"[stack]" in file.read()


def of_gperftools(path, program):
    """Format of gperftools: words; header, then (count, depth, depth × pc),
    then 0 1 0 and the text of /proc/PID/maps."""
    data, words = _words(path)
    ranges = _ranges(program)
    found, at = Found(), 2 + words[1]
    samples = []
    while not (words[at] == 0 and words[at + 1] == 1 and words[at + 2] == 0):
        depth = words[at + 1]
        samples.append((words[at], words[at + 2:at + 2 + depth]))
        at += 2 + depth
    found.bytes = at * 8
    maps = data[(at + 3) * 8:].decode(errors="replace")
    match = re.search(r"^\s*([0-9a-f]+)-\S+ \S+ 0+ .*" +
                      re.escape(program) + "$", maps, re.M)
    base = int(match.group(1), 16) if match else 0
    for count, pcs in samples:
        names = {name for pc in pcs for name, (low, high) in ranges.items()
                 if low <= pc - base < high}
        found.samples += count
        found.complete += count if names else 0
        # The thread is not recorded.
        found.blocked_threads += count if "be_blocked" in names else 0
    return found


def of_fgprof(path, kinds):
    """Folded stacks; a whole one begins with runtime.goexit. The counts are
    of all snapshots together. kinds: how many goroutines block in the same
    way, so that counts show the number of snapshots.
    Of stacks with the same functions but other lines fgprof 0.9 writes one
    count only, so its file has fewer samples than it took."""
    found, blocked, most = Found(), 0, 0
    with open(path) as file:
        for line in file:
            stack, text = line.rstrip("\n").rsplit(" ", 1)
            count = int(text)
            found.samples += count
            if stack.startswith("runtime.goexit;"):
                found.complete += count
            if "main.block;" in stack:
                blocked += count
                most = max(most, count)
    found.snapshots = max(round(most / kinds), 1)
    found.blocked_threads = blocked / found.snapshots
    return found

# SPDX-License-Identifier: Apache-2.0
"""The .fgt format is as ringbuf/README.md describes it.

usage: test_fgt_format.py BUILD

A reader written from that page (read_fgt.py) finds the same stacks and the same
time of each thread as the agent, and refuses the same files.
"""
import glob
import os
import re
import subprocess

from kit.cli_checks import ok, run_groups, start_busy, start_sampling
from kit.crc32c import FGT_END
from kit.read_fgt import BadSlice, Slice

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
CORPUS = os.path.join(TOP, "tests", "fuzz", "corpus", "slice")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def is_readable(data):
    try:
        Slice(data)
        return True
    except BadSlice:
        return False


def convert(bench, data, *arguments):
    """The agent's folded lines of a slice, None if it refuses."""
    result = subprocess.run(
        [bench.agent, "convert", "-", "-q", "-o", "-", "-f", "folded",
         "--state-frames", "leaf", *arguments], input=data,
        capture_output=True)
    return result.stdout if result.returncode == 0 else None


def compare(bench, name, data):
    found = Slice(data)
    found.without_file = b"[anon]"  # the command line names what has no name
    theirs = convert(bench, data)
    ok(f"{name}: same folded lines", b"".join(found.folded()) == theirs,
       f"{found.folded()[:3]} {theirs[:300] if theirs else theirs}")
    for tid, total in sorted(found.totals().items()):
        lines = convert(bench, data, "--tid", str(tid)) or b""
        theirs = sum(int(line.rsplit(b" ", 1)[1])
                     for line in lines.splitlines())
        ok(f"{name}: same total of a thread", total == theirs,
           f"{tid}: {total} {theirs}")
    return found


def test_example():
    """The hexdump of the page is the file, and the reader finds its contents."""
    page = read(os.path.join(TOP, "ringbuf", "README.md")).decode()
    rows = re.findall(r"^([0-9a-f]{3})  ((?:[0-9a-f]{2} +)+)\|", page, re.M)
    data = bytes.fromhex("".join(row for _, row in rows))
    ok("the page shows the example as it is",
       data == read(os.path.join(CORPUS, "tiny.fgt")), f"{len(data)} bytes")
    found = Slice(data)
    ok("the example holds what the page has",
       found.folded() == [b"main;loop;epoll_wait;epoll_wait 8\n"] and
       found.process["pid"] == 4242 and found.runs == [(0, 0, 8, 3, 296)] and
       found.edges == [(0, 4, 9000, 1000)] and
       found.range == [5000000000, 5070000000] and
       found.ticks[-1] == (5070000000,) and found.string(3) == b"main",
       f"{found.folded()} {found.runs} {found.edges}")


def test_damage(bench, data):
    """Agent and reader refuse a file that is cut short, and agree about other
    damage."""
    ok("every cut is refused",
       not any(is_readable(data[:end]) for end in range(len(data))))
    ok("bytes behind the end are refused", not is_readable(data + b"\0"))
    ok("another version is refused",
       not is_readable(data.replace(b"version\x01", b"version\x02")))
    differing = []
    for at in range(4, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 1
        agent = convert(bench, bytes(damaged)) is not None
        if is_readable(bytes(damaged)) != agent:
            differing.append((at, agent))
    ok("agent and reader agree about every changed byte", not differing,
       differing[:10])


def test_broken_copy(bench, data):
    """A copy of a real file with one bit changed, or that was broken off, is
    refused, and the error has the cause and the remedy."""
    ok("a file ends with its checksum", data[:-4].endswith(FGT_END))
    whole, passed = convert(bench, data), []
    for bit in range(0, 8 * len(data), 8 * len(data) // 149):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        if convert(bench, bytes(damaged)) not in (None, whole):
            passed.append(bit)
    ok("no changed bit changes what is shown", not passed, passed)
    path = bench.path("broken.fgt")
    for content, cause in ((data[:len(data) // 2],
                            f"cut off at byte {len(data) // 2},"),
                           (data[:2000] + b"\0" * 512 + data[2512:],
                            "do not match its checksum")):
        with open(path, "wb") as file:
            file.write(content)
        for verb in (["convert", path, "-o", "-", "-f", "folded"],
                     ["why", path], ["diff", path, path]):
            result = bench.run(*verb)
            ok(f"{verb[0]} refuses a broken copy",
               result.returncode == 1 and cause in result.stderr and
               "copy or write it once more" in result.stderr and
               len(result.stderr.splitlines()) == 1, result.stderr)


def run(bench):
    test_example()
    for path in sorted(glob.glob(os.path.join(CORPUS, "*.fgt"))):
        compare(bench, os.path.basename(path), read(path))
    test_damage(bench, read(os.path.join(CORPUS, "tiny.fgt")))
    pid = start_busy(bench)
    path = bench.path("real.fgt")
    result = bench.run("slice", "--last", "3s", "-p", str(pid), "-o", path,
                       env=dict(os.environ,
                                FGTRACE_SOCKET=start_sampling(bench, pid)))
    ok("a real slice is written", result.returncode == 0, result.stderr)
    found = compare(bench, "a real slice", read(path))
    ok("a real slice has threads, frames and ticks",
       len(found.ticks) > 100 and len(found.frames) > 3 and
       found.process["pid"] == pid, f"{len(found.ticks)} ticks")
    test_broken_copy(bench, read(path))


if __name__ == "__main__":
    run_groups(run)

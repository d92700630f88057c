# SPDX-License-Identifier: Apache-2.0
"""ELF files that no linker writes, under threads of another user that a daemon
with sanitizers samples: unwound by the daemon, named by its helper.

usage: test_mutated_files.py BUILD [COUNT [SEED]]

COUNT (4,800) files in all. Five of six are mapped as they are, by stand.c; the
sixth is executed, where the kernel and the loader take it.
"""
import collections
import os
import random
import shutil
import subprocess
import sys
import time

from parts import mutate_elf
from parts.attacked import SECOND, Attacked, in_ms
from kit.daemon_bench import sleeper
from kit.daemon_client import call
from kit.harness import Bench, Checks, as_user
from kit.read_fgt import BadSlice, Slice

COUNT = 4800
MAPPED, EXECUTED = 40, 8  # of a round; one mapped file is whole
SAMPLED_S = 0.8
CONFIG = ("sampling: { max_cpu_percent = 0.0; };\n"
          "ring: { memory_mb = 2; };\n")


class Files:
    """Seeds, and rounds of files made of them."""

    def __init__(self, folder, seed):
        self.random, self.folder = random.Random(seed), folder
        os.makedirs(folder, exist_ok=True)
        self.libraries = {
            name: mutate_elf.make(folder, name, ("-shared", "-fPIC", *flags))
            for name, flags in mutate_elf.LIBRARIES.items()}
        self.programs = {
            name: mutate_elf.make(folder, name, ("-DPROGRAM", *flags))
            for name, flags in mutate_elf.PROGRAMS.items()}
        self.debug = mutate_elf.Elf(os.path.join(folder, "0000.debug"))
        self.offset = {name: mutate_elf.offset_of_function(
            os.path.join(folder, name)) for name in self.libraries}

    def mapped(self, number):
        """Seeds of one offset are in a round together: its paths and it."""
        name = sorted(self.libraries)[number % len(self.libraries)]
        folder = os.path.join(self.folder, f"round{number}")
        os.makedirs(folder)
        paths = []
        for i in range(MAPPED):
            paths.append(os.path.join(folder, f"{i:04}.so"))
            if i == 0:
                shutil.copy(os.path.join(self.folder, name), paths[0])
            elif name == "linked":
                mutate_elf.write_linked(self.random, paths[i],
                                        self.libraries[name], self.debug)
            else:
                mutate_elf.write(self.random, paths[i], mutate_elf.mutate(
                    self.random, self.libraries[name], True))
        shutil.copy(os.path.join(self.folder, "0000.debug"), folder)
        return name, paths, self.offset[name]

    def executed(self, number):
        folder = os.path.join(self.folder, f"round{number}")
        paths = [os.path.join(folder, f"program{i}") for i in range(EXECUTED)]
        for path in paths:
            elf = self.random.choice(list(self.programs.values()))
            mutate_elf.write(self.random, path,
                             mutate_elf.mutate(self.random, elf, False))
        return paths


def stacks(reply, counts):
    """Per thread's name its stacks: of each frame its image and its names."""
    found = collections.defaultdict(list)
    try:
        data = Slice(reply["file"])
    except BadSlice as error:
        counts["slices that may not be read"] += 1
        print(f"# {error}")
        return found
    for thread, _, _, link, _ in data.runs:
        name = data.string(data.threads[thread][1]).decode()
        stack, node = [], link - 1
        while link:
            frame = data.nodes[node][1]
            image = data.frames[frame][1]
            path = data.string(data.images[image - 1]["path"]) if image else b""
            stack.append((path.decode(errors="replace"),
                          data.frame_names(frame)))
            if not data.nodes[node][0]:
                break
            node -= data.nodes[node][0]
        found[name].append(stack)
    return found


def count_mapped(reply, name, paths, counts):
    """What became of each file's thread."""
    found = stacks(reply, counts)
    for i, path in enumerate(paths):
        inside = [frame for stack in found[f"f{i}"] for frame in stack
                  if frame[0].startswith(path)]
        names = {text for _, each in inside for text in each}
        all_names = [text for stack in found[f"f{i}"]
                     for _, each in stack for text in each]
        is_whole = b"stand_thread" in all_names
        is_named = b"stand_here" in names
        if i == 0:
            counts["whole files"] += 1
            counts["whole files unwound"] += is_whole
            counts["whole files named"] += is_named
            if not (is_whole and is_named):
                print(f"# the whole {name}: {found['f0'][:1]}")
        else:
            counts["mapped"] += 1
            counts["in a stack"] += bool(inside)
            counts["unwound"] += is_whole
            counts["named"] += is_named


def start_executed(paths):
    """Those that live for a moment; each may crash as it likes."""
    children = []
    for path in paths:
        try:
            children.append(subprocess.Popen(
                as_user([path], True), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True))
        except OSError:
            pass
    time.sleep(0.1)
    return children


def one_round(bench, daemon, files, number, counts, took):
    name, paths, offset = files.mapped(number)
    stand = bench.start([bench.program("stand"), f"{offset:x}", *paths], True,
                        stdout=subprocess.PIPE, text=True)
    ready = stand.stdout.readline().split()
    counts["refused by mmap"] += MAPPED - int(ready[1])
    daemon.attach(stand.pid)
    programs = files.executed(number)
    children = start_executed(programs)
    counts["executed"] += len(programs)
    for child in children:
        if child.poll() is None:
            reply = call(daemon.socket, "attach", pid=child.pid)
            counts["running"] += reply["ok"]
    time.sleep(SAMPLED_S)
    for child in [stand, *children]:
        if child.poll() is not None:
            continue
        began = time.monotonic()
        reply = call(daemon.socket, "slice", timeout=60, pid=child.pid,
                     last_ns=SECOND)
        took.append(time.monotonic() - began)
        if child is stand:
            count_mapped(reply, name, paths, counts)
        elif reply["ok"]:
            counts["running sliced"] += bool(stacks(reply, counts))
    for child in [stand, *children]:
        if child.poll() is None:
            child.kill()
        child.wait()
        call(daemon.socket, "detach", pid=child.pid)
    shutil.rmtree(os.path.dirname(paths[0]))
    bench.children.remove(stand)


def ticks(daemon, pid):
    return next(each for each in call(daemon.socket, "targets")["targets"]
                if each["pid"] == pid)["ticks"]


def run(bench, daemon, files, count):
    """Counts, seconds of each slice, ticks a second of another target."""
    other = sleeper(bench)
    daemon.attach(other.pid)
    counts, took = collections.Counter(), []
    time.sleep(0.5)
    before, began = ticks(daemon, other.pid), time.monotonic()
    number = 0
    while counts["mapped"] + counts["executed"] < count:
        one_round(bench, daemon, files, number, counts, took)
        number += 1
    seconds = time.monotonic() - began
    rate = (ticks(daemon, other.pid) - before) / seconds
    return counts, took, rate, seconds


def check(checks, bench, daemon, files, count):
    counts, took, rate, seconds = run(bench, daemon, files, count)
    print(f"# {dict(counts)}")
    status = daemon.status()
    print("#", {key: value for key, value in status.items()
                if key.startswith(("image", "slices", "rss"))})
    mapped = counts["mapped"]
    checks.ok(f"{mapped} files mapped and {counts['executed']} executed in "
              f"{seconds:.0f} s: as many as asked for",
              mapped + counts["executed"] >= count, counts)
    checks.ok("each whole file is unwound and named",
              counts["whole files"] == counts["whole files unwound"] ==
              counts["whole files named"] > 0, counts)
    checks.ok(f"threads stood in {counts['in a stack']} mutated files: most "
              "were mapped and looked at",
              counts["in a stack"] > 0.9 * mapped, counts)
    checks.ok(f"{counts['unwound']} were unwound: some had no rules",
              0.3 * mapped < counts["unwound"] < mapped, counts)
    checks.ok(f"{counts['named']} had their names: some had none",
              0.3 * mapped < counts["named"] < mapped, counts)
    checks.ok(f"{counts['running']} programs ran, "
              f"{counts['running sliced']} have stacks",
              counts["running sliced"] > counts["executed"] / 10, counts)
    checks.ok("each slice may be read",
              not counts["slices that may not be read"], counts)
    checks.ok(f"slices took {in_ms(took)}", max(took) < 30, in_ms(took))
    checks.ok(f"another target had {rate:.0f} ticks a second", rate > 75, rate)
    daemon.check_end(checks, "mutated files")


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 10**9
    print(f"# seed {seed}", flush=True)
    try:
        files = Files(bench.path("files"), seed)
        daemon = Attacked(bench, "files", CONFIG)
        check(checks, bench, daemon, files, count)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

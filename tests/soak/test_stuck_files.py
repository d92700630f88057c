# SPDX-License-Identifier: Apache-2.0
"""File systems that stop to answer, huge pages and namespaces, all at once and
again and again, while another target is sampled.

usage: test_stuck_files.py BUILD [ROUNDS]

ROUNDS (5): in each, seven kinds of targets whose files, stacks, roots or
namespaces are hostile are attached and sliced, and huge pages are passed.
"""
import errno
import os
import socket
import sys
import time

from parts.attacked import SECOND, Aside, Attacked, in_ms, measure
from kit.daemon_bench import is_error, sleeper
from kit.daemon_client import call
from kit.harness import Bench, Checks
from kit.hostile.silent_files import (ALL_STUCK, PAUSE, SPIN, attach, bytes_of,
                                      compiled, in_overlay, started)
from kit.hostile.unreadable import go_on
from kit.stuck_fs import StuckFs
from test_hostile_files import huge_memory, misplaced
from test_registration import register

ROUNDS = 5
PATIENCE_S = 20
HZ = 101


class Round:
    """Targets whose file systems have stopped to answer."""

    def __init__(self, bench, program, number):
        self.bench, self.children, self.all_files = bench, [], []
        self.folder = bench.path(f"round{number}")
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o755)
        elf = bytes_of(program)
        stack = self.files("stack", b"\0" * (1 << 20))
        code = self.files("code", PAUSE + b"\0" * ((1 << 20) - len(PAUSE)))
        run, root, lower = (self.files(name, elf)
                            for name in ("run", "root", "lower"))
        self.misplaced = [misplaced(bench, "stack", stack.path),
                          misplaced(bench, "code", code.path)]
        self.children += self.misplaced
        self.children.append(started(bench, [run.path]))
        self.children.append(started(
            bench, ["/file"], preexec_fn=lambda: os.chroot(root.folder)))
        top = os.path.join(self.folder, "overlay")
        self.children.append(started(
            bench, [os.path.join(top, "file")],
            preexec_fn=in_overlay(lower.folder, top)))
        for flags in ("-Urpf", "-mnpf"):
            self.children.append(started(
                bench, ["unshare", "--kill-child", flags, "--mount-proc",
                        program]))

    def files(self, name, contents):
        self.all_files.append(StuckFs(os.path.join(self.folder, name),
                                      contents))
        return self.all_files[-1]

    def stop_to_answer(self):
        for each in self.all_files:
            each.stuck |= ALL_STUCK
        for each in self.misplaced:
            go_on(each)

    def end(self):
        for each in self.children:
            each.kill()
        for each in self.all_files:
            each.close()


def refuses_huge_pages(daemon):
    """True also where there are none."""
    try:
        fd = huge_memory()
    except OSError:
        return True
    connection, reply = register(daemon.socket, spans=True, fds=[fd])
    connection.close()
    os.close(fd)
    return is_error(reply, errno.EINVAL)


def one_round(bench, daemon, program, number):
    """Targets, those attached, those sliced; seconds of each slice; is memory
    of huge pages refused?"""
    each = Round(bench, program, number)
    try:
        each.stop_to_answer()
        attached = sum(attach(daemon, child.pid, PATIENCE_S)
                       for child in each.children)
        time.sleep(1.5)
        took, sliced = [], 0
        for child in each.children:
            began = time.monotonic()
            try:
                reply = call(daemon.socket, "slice", timeout=PATIENCE_S,
                             pid=child.pid, last_ns=SECOND)
                sliced += reply["ok"]
            except socket.timeout:
                pass
            took.append(time.monotonic() - began)
        return len(each.children), attached, sliced, took, \
            refuses_huge_pages(daemon)
    finally:
        each.end()


def target(daemon, pid):
    return next(one for one in call(daemon.socket, "targets")["targets"]
                if one["pid"] == pid)


def check(checks, bench, daemon, rounds):
    program = compiled(bench, "spin", SPIN, "-static")
    own = sleeper(bench)
    daemon.attach(own.pid)
    time.sleep(0.5)
    watch = Aside(measure(daemon.socket, 0.05))
    before, began = target(daemon, own.pid)["ticks"], time.monotonic()
    results = []
    for number in range(rounds):
        results.append(one_round(bench, daemon, program, number))
        print(f"# round {number}: {results[-1][:3]}", flush=True)
    ticks = target(daemon, own.pid)["ticks"] - before
    seconds = time.monotonic() - began
    took, failed = watch.result()
    count, attached, sliced = (sum(each[i] for each in results)
                               for i in range(3))
    slices = sum((each[3] for each in results), [])
    checks.ok(f"{attached} of {count} targets are attached",
              attached == count, results)
    checks.ok(f"{sliced} of {count} have a slice: {in_ms(slices)}",
              sliced == count and max(slices) < 15, results)
    checks.ok("memory of huge pages is refused",
              all(each[4] for each in results), results)
    checks.ok(f"another target had {ticks / seconds:.1f} ticks a second for "
              f"{seconds:.0f} s", ticks / seconds > 0.9 * HZ,
              (ticks, seconds))
    checks.ok(f"root's status: {in_ms(took)}", not failed and max(took) < 5,
              failed[:3])


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    os.chmod(bench.scratch, 0o755)
    daemon = Attacked(bench, "stuck", is_sanitized=False)
    try:
        check(checks, bench, daemon, rounds)
        daemon.check_end(checks, "stuck files")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

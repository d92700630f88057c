# SPDX-License-Identifier: Apache-2.0
"""Targets that come and go: after a warm-up the daemon's memory, descriptors and
threads stay as they are, and so do its helpers'.

usage: test_churn.py BUILD [SECONDS]

SECONDS (600) in all; the last third is compared with the second one.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from parts.attacked import SECOND, USERS, Aside, Attacked, in_ms, measure
from parts.series import check_series, look
from kit.daemon_bench import sleeper
from kit.daemon_client import Connection, call, request
from kit.harness import Bench, Checks
from kit.transact import Program

SECONDS = 600
LOOK_S = 1


class Churn:
    """One user's programs."""

    def __init__(self, bench, path, uid):
        self.bench, self.path = bench, path
        self.out = os.path.join(bench, f"out{uid}")
        self.random, self.turns, self.failed = random.Random(uid), 0, []

    def start(self, *command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL,
                                start_new_session=True)

    def ask(self, verb, /, may_fail=False, **arguments):
        try:
            reply = call(self.path, verb, **arguments)
        except (OSError, EOFError) as error:
            reply = {"ok": False, "why": repr(error)}
        if not reply["ok"] and not may_fail:
            self.failed.append((verb, reply["why"]))
        return reply

    def program(self, name, *arguments):
        """Attached once it is another program, sliced, ended."""
        child = self.start(os.path.join(self.bench, name), *arguments)
        time.sleep(0.05)
        if child.poll() is None:
            self.ask("attach", pid=child.pid, children=True, may_fail=True)
        time.sleep(0.2)
        self.ask("slice", pid=child.pid, last_ns=SECOND, may_fail=True)
        if self.random.random() < 0.5:
            self.ask("detach", pid=child.pid, may_fail=True)
        try:
            os.killpg(child.pid, self.random.choice((
                signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)))
        except ProcessLookupError:
            self.failed.append((name, "ended by itself"))
        child.wait()
        self.ask("detach", pid=child.pid, may_fail=True)

    def registered(self):
        """Over another connection; half of them end without bye."""
        connection = Connection(self.path)
        reply = connection.send(request("register", mode="agent")).receive()
        if reply["ok"]:
            time.sleep(0.05)
            self.ask("slice", self=True, last_ns=SECOND, may_fail=True)
            if self.random.random() < 0.5:
                connection.send(request("bye")).receive()
        connection.close()

    def crashing(self):
        """A program with the library, which ends as it likes."""
        how = self.random.choice(("segv", "abort", "kill", "exit"))
        child = subprocess.Popen(
            [os.path.join(self.bench, "transact"), "mode=agent",
             f"socket={self.path}", f"destination={self.out}"],
            env={**os.environ, "LD_LIBRARY_PATH": self.bench},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        child.stdout.readline()
        time.sleep(0.1)
        child.stdin.write(f"end {how}\n")
        child.stdin.flush()
        child.wait()
        child.stdin.close()
        child.stdout.close()

    def run(self, stop):
        kinds = (lambda: self.program("lifecycle", "fork", "3", "5"),
                 lambda: self.program("lifecycle", "exec", "3", "5"),
                 lambda: self.program("crowd", "1", "200", "20", "5"),
                 lambda: self.program("truth-fp", "calls", "5"),
                 lambda: self.program("blockers", "5"),
                 self.registered, self.registered, self.crashing)
        while not stop.is_set():
            self.random.choice(kinds)()
            self.turns += 1
        return self.turns, self.failed


def copy(bench):
    """Programs and the library where every user may run them."""
    folder = bench.path("bin")
    os.makedirs(folder)
    for name in ("lifecycle", "crowd", "truth-fp", "blockers", "transact"):
        shutil.copy2(bench.program(name), folder)
    shutil.copy2(os.path.join(bench.build, "libfgtrace.so.0"), folder)
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o755)
    for uid in USERS:
        os.mkdir(os.path.join(folder, f"out{uid}"))
        os.chown(os.path.join(folder, f"out{uid}"), uid, uid)
    return folder


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    daemon = Attacked(bench, "churn", is_sanitized=False)
    try:
        folder = copy(bench)
        own = sleeper(bench)
        daemon.attach(own.pid)
        watch = Aside(measure(daemon.socket, 0.2))
        churns = [Aside(Churn(folder, daemon.socket, uid).run, uid)
                  for uid in USERS]
        series, end = [], time.monotonic() + seconds
        while time.monotonic() < end and daemon.is_alive():
            series.append(look(daemon.child.pid))
            time.sleep(LOOK_S)
        results = [churn.result() for churn in churns]
        took, failed = watch.result()
        check(checks, daemon, series, results, took, failed)
    finally:
        bench.close()
    checks.finish()


def check(checks, daemon, series, results, took, failed):
    turns = sum(count for count, _ in results)
    status = daemon.status()
    print("#", {key: value for key, value in status.items()
                if key.startswith(("slices", "image", "crashes", "ring_"))})
    checks.ok(f"{turns} targets came and went in {len(series)} s, "
              f"{status['crashes']} crashed while registered",
              turns > len(series) and status["crashes"] > 0 and
              not any(each for _, each in results), results)
    checks.ok(f"root's status: {in_ms(took)}", not failed and max(took) < 5,
              failed[:3])
    check_series(checks, series)
    daemon.check_end(checks, "churn")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the daemon: a daemon, a target that sleeps, groups of
checks.
"""
import os
import signal
import sys
import time

from kit.daemon_client import call
from kit.harness import Bench, Checks


class Daemon:
    """A daemon in a separate folder; its log is a file."""

    def __init__(self, bench, name, config="", **arguments):
        self.bench = bench
        self.folder = bench.path(name)
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o750)
        self.socket = os.path.join(self.folder, "agent.sock")
        self.log = self.folder + ".log"
        self.config = self.folder + ".conf"
        self.write_config(config)
        self.start(**arguments)

    def write_config(self, text):
        with open(self.config, "w") as file:
            file.write(text)
        os.chmod(self.config, 0o644)

    def command(self):
        return [self.bench.agent, "daemon", "-c", self.config, "--socket",
                self.socket]

    def start(self, **arguments):
        with open(self.log, "a") as log:
            arguments.setdefault("stderr", log)
            self.child = self.bench.start(self.command(), **arguments)
        self.wait()

    def wait(self):
        for _ in range(600):
            try:
                if self.status()["pid"] == self.child.pid:
                    return
            except OSError:
                pass
            if self.child.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("daemon does not answer: " + self.log_text()[-500:])

    def status(self):
        return call(self.socket, "status")

    def log_text(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def until(self, is_true, seconds=30):
        """Waits until the daemon has done something; False after the time."""
        for _ in range(int(seconds * 20)):
            if is_true():
                return True
            time.sleep(0.05)
        return False

    def attach(self, pid, **arguments):
        reply = call(self.socket, "attach", pid=pid, **arguments)
        if not reply["ok"]:
            raise RuntimeError(reply["why"])
        return reply

    def end(self, number=signal.SIGTERM):
        """Ends it by the signal; seconds that it took."""
        began = time.monotonic()
        self.child.send_signal(number)
        self.child.wait(20)
        if number != signal.SIGKILL and self.child.returncode != 0:
            raise RuntimeError(f"left with {self.child.returncode}: "
                               f"{self.log_text()[-2000:]}")
        return time.monotonic() - began


def sleeper(bench, **arguments):
    child = bench.start(["sleep", "600"], **arguments)
    while open(f"/proc/{child.pid}/comm").read() != "sleep\n":
        time.sleep(0.01)
    return child


def is_error(reply, number):
    return not reply["ok"] and reply["error"] == -number and reply["why"]


def run_groups(groups):
    """Runs all groups, or those that the command line names, and ends."""
    checks = Checks()
    bench = Bench(sys.argv[1])
    wanted = sys.argv[2:]
    try:
        for group in groups:
            if not wanted or group.__name__ in wanted:
                try:
                    group(checks, bench)
                except Exception as error:  # the next group still runs
                    checks.ok(group.__name__, False, repr(error))
    finally:
        bench.close()
    checks.finish()

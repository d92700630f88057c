# SPDX-License-Identifier: Apache-2.0
"""Shared by the integration tests: checks, the agent, daemons, slices.

A test script takes the build directory as its first argument and prints one
line per check: `ok NAME` or `not ok NAME: why`; it exits 1 if any failed.
FGTRACE_AGENT overrides the agent under test.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
KIT = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(KIT)))


class Checks:
    """Counts and prints checks."""

    def __init__(self):
        self.failed = 0
        self.passed = 0

    def ok(self, name, is_ok, why=""):
        if is_ok:
            self.passed += 1
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"not ok {name}: {why}", flush=True)
        return is_ok

    def finish(self):
        sys.exit(1 if self.failed or not self.passed else 0)


def slack_of(seconds, usual_seconds):
    """The factor by which a limit is wider for a shorter recording: shares are
    counts of samples, and the error of a count grows with the root."""
    return max(1.0, usual_seconds / seconds) ** 0.5


class Bench:
    """A build, a scratch folder that every user may enter, its children."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.agent = os.environ.get(
            "FGTRACE_AGENT", os.path.join(self.build, "fgtrace-agent"))
        self.scratch = tempfile.mkdtemp(prefix="fgtrace-test-")
        os.chmod(self.scratch, 0o755)
        self.children = []

    def program(self, name):
        return os.path.join(self.build, "tests", "programs", name)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def start(self, command, as_nobody=False, **arguments):
        """Starts a child that close() ends."""
        child = subprocess.Popen(as_user(command, as_nobody), **arguments)
        self.children.append(child)
        return child

    def run(self, *arguments, as_nobody=False, timeout=120, **more):
        """Runs the agent to its end; text output captured."""
        return subprocess.run(
            as_user([self.agent, *arguments], as_nobody), text=True,
            capture_output=True, timeout=timeout, check=False, **more)

    def copy_for_nobody(self):
        """Copies agent and programs where an ordinary user may run them."""
        folder = self.path("bin")
        os.makedirs(folder, exist_ok=True)
        for path in (self.agent, self.program("truth-fp"),
                     self.program("truth-nofp"), self.program("blockers"),
                     self.program("behave")):
            shutil.copy2(path, folder)
            os.chmod(os.path.join(folder, os.path.basename(path)), 0o755)
        return folder

    def daemon(self, name, *arguments, as_nobody=False, agent=None):
        """Starts a daemon on its own socket and waits until it answers."""
        folder = self.path(name)
        os.makedirs(folder, exist_ok=True)
        if as_nobody:
            os.chown(folder, NOBODY, NOBODY)
        os.chmod(folder, 0o750)
        socket = os.path.join(folder, "agent.sock")
        binary = agent or self.agent
        with open(self.path(name + ".log"), "w") as log:
            child = self.start([binary, "--socket", socket, "daemon",
                                *arguments], as_nobody, stderr=log)
        for _ in range(100):
            if child.poll() is not None:
                break
            if subprocess.run(as_user([binary, "--socket", socket, "status"],
                                      as_nobody),
                              capture_output=True).returncode == 0:
                return child, socket
            time.sleep(0.1)
        with open(self.path(name + ".log")) as log:
            raise RuntimeError("daemon does not answer: " + log.read()[-500:])

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


def as_user(command, as_nobody):
    if not as_nobody or os.getuid() != 0:
        return list(command)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
            "--clear-groups", *command]


def run_checker(name, *paths):
    """Runs a module of the kit over files; exits 0 if they are right."""
    return subprocess.run(
        [sys.executable, "-m", f"kit.{name}", *paths], text=True,
        capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": os.path.dirname(KIT)})


def read_until(stream, prefix):
    """Reads lines until one starts with prefix; returns its rest."""
    for line in stream:
        if line.startswith(prefix):
            return line[len(prefix):].strip()
    raise RuntimeError(f"no line '{prefix}…'")


class Samples:
    """A Sentry envelope taken apart: per thread, its sampled stacks.

    by_thread[name] is a list of (elapsed_ns, [function, …]), leaf first, the
    state's virtual frame last (recorded with --state-frames root).
    """

    def __init__(self, path):
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
        items = {}
        index = 1
        while index + 1 < len(lines) and lines[index]:
            header = json.loads(lines[index])
            items[header["type"]] = json.loads(lines[index + 1])
            index += 2
        self.transaction = items["transaction"]
        body = items["profile"]
        profile = body["profile"]
        frames = [frame.get("function", "") for frame in profile["frames"]]
        stacks = [[frames[i] for i in stack] for stack in profile["stacks"]]
        names = {tid: thread.get("name", tid)
                 for tid, thread in profile["thread_metadata"].items()}
        self.by_thread = {}
        self.count = 0
        for sample in profile["samples"]:
            name = names[str(sample["thread_id"])]
            self.by_thread.setdefault(name, []).append(
                (int(sample["elapsed_since_start_ns"]),
                 stacks[sample["stack_id"]]))
            self.count += 1

    def functions(self):
        return {function for samples in self.by_thread.values()
                for _, stack in samples for function in stack}

    def share(self, thread, function):
        """Part of the thread's samples that hold the function, 0 … 1."""
        samples = self.by_thread.get(thread, [])
        if not samples:
            return 0.0
        return sum(function in stack for _, stack in samples) / len(samples)


def base_name(function):
    """burn_alpha(unsigned long) [inlined] → burn_alpha"""
    return function.split("(")[0].split("::")[-1].strip()

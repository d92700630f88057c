# SPDX-License-Identifier: Apache-2.0
"""Controls the program tests/programs/transact.c, and reads its envelopes from a
directory or a server."""
import collections
import os
import shutil
import subprocess
import time

from kit import check_sentry_chunk, check_sentry_envelope, strict
from kit.strict import Wrong

EVERY = dict(no_gap=1, per_hour=100000)  # transactions are kept
KEY = "0123456789abcdef0123456789abcdef"
PATIENCE_S = 30


def until(condition, seconds=PATIENCE_S):
    """Waits until a condition holds; False after the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def copy_for_nobody(bench):
    """A transact, with its library, that another user may execute."""
    folder = bench.copy_for_nobody()
    shutil.copy2(bench.program("transact"), folder)
    for name in os.listdir(bench.build):
        if name.startswith("libfgtrace.so"):
            shutil.copy2(os.path.join(bench.build, name), folder,
                         follow_symlinks=True)
    return os.path.join(folder, "transact")


class Program:
    """One transact; its options are keyword arguments. prepare: is called in
    the child before it executes the program."""

    def __init__(self, bench, as_nobody=False, path=None, prepare=None,
                 **options):
        command = [path or bench.program("transact"),
                   *[f"{key}={value}" for key, value in options.items()]]
        self.errors = open(bench.path("transact.err"), "a+")
        self.errors_begin = os.fstat(self.errors.fileno()).st_size
        environment = {**os.environ,
                       "LD_LIBRARY_PATH": os.path.dirname(command[0])
                       if path else bench.build}
        self.child = bench.start(command, as_nobody, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True,
                                 stderr=self.errors, env=environment,
                                 preexec_fn=prepare)
        self.started, self.pid = map(int, self.read()[1:])

    def log_text(self):
        """The lines that the library has logged to this program."""
        with open(self.errors.name, encoding="utf-8") as file:
            file.seek(self.errors_begin)
            return file.read()

    def read(self):
        line = self.child.stdout.readline()
        if not line:
            raise EOFError("transact has ended")
        return line.split()

    def ask(self, line):
        """The words of the answer, after the verb."""
        return self.run(line)

    def end(self, how):
        """Ends it while it works; its status."""
        self.child.stdin.write(f"end {how}\n")
        self.child.stdin.flush()
        return self.child.wait(PATIENCE_S)

    def status(self):
        words = ["result", *self.ask("status")]
        return dict(zip(words[::2], map(int, words[1::2])))

    def run(self, *lines):
        """Sends several lines without waiting in between; the last answer."""
        self.child.stdin.write("".join(f"{line}\n" for line in lines))
        self.child.stdin.flush()
        return [self.read()[1:] for _ in lines][-1]

    def close(self):
        if self.child.poll() is None:
            self.child.stdin.close()
            self.child.wait(PATIENCE_S)


class Envelope:
    """Checked by Relay's rules, then parsed. wrong: the rules that it breaks."""

    def __init__(self, bench, data, mode=None):
        self.data, self.mode, self.wrong = data, mode, ""
        path = bench.path("one.envelope")
        with open(path, "wb") as file:
            file.write(data)
        header, items = check_sentry_envelope.split_items(data)
        self.header = header
        self.items = {item["type"]: strict.parse_json(body)
                      for item, body in items}
        checker = check_sentry_chunk if "profile_chunk" in self.items \
            else check_sentry_envelope
        try:
            checker.check(path)
        except Wrong as wrong:
            self.wrong = str(wrong)
        self.transaction = self.items.get("transaction")
        self.profile = self.items.get("profile")
        self.chunk = self.items.get("profile_chunk")

    def profiler_id(self):
        profile = self.transaction["contexts"].get("profile")
        return profile and profile["profiler_id"]

    def trace(self):
        return self.transaction["contexts"]["trace"]

    def seconds(self):
        return (self.transaction["timestamp"] -
                self.transaction["start_timestamp"])

    def threads(self):
        """Names of the profile's threads."""
        body = (self.profile or self.chunk)["profile"]
        return {data["name"] for data in body["thread_metadata"].values()}

    def thread_functions(self, thread):
        """{function: samples of a thread that hold it}."""
        body = (self.profile or self.chunk)["profile"]
        tids = {tid for tid, data in body["thread_metadata"].items()
                if data["name"] == thread}
        found = collections.Counter()
        for sample in body["samples"]:
            if str(sample["thread_id"]) in tids:
                found.update({body["frames"][frame].get("function", "")
                              for frame in body["stacks"][sample["stack_id"]]})
        return found

    def share(self, tid, function):
        """Part of a thread's samples that hold a function."""
        body = (self.profile or self.chunk)["profile"]
        frames = [frame.get("function", "") for frame in body["frames"]]
        stacks = [[frames[i] for i in stack] for stack in body["stacks"]]
        samples = [stacks[sample["stack_id"]] for sample in body["samples"]
                   if str(sample["thread_id"]) == str(tid)]
        found = sum(any(function in name for name in stack)
                    for stack in samples)
        return found / len(samples) if samples else 0.0


def check_wrong(checks, name, envelopes):
    wrong = [envelope.wrong for envelope in envelopes if envelope.wrong]
    checks.ok(f"{name}: envelopes pass Relay's rules", not wrong, wrong)


class Folder:
    """A directory that is a destination."""

    def __init__(self, bench, name, owner=None):
        self.bench, self.path = bench, bench.path(name)
        os.makedirs(self.path, 0o700)
        if owner is not None and os.getuid() == 0:
            os.chown(self.path, owner, owner)

    def names(self):
        return sorted(name for name in os.listdir(self.path)
                      if name.endswith(".envelope"))

    def read(self):
        """All envelopes, oldest first."""
        found = []
        for name in self.names():
            path = os.path.join(self.path, name)
            with open(path, "rb") as file:
                found.append(Envelope(self.bench, file.read(),
                                      os.stat(path)))
        return found

    def wait(self, count):
        """Waits until there are count envelopes; returns all."""
        until(lambda: len(self.names()) >= count)
        return self.read()


def dsn_of(server, scheme="http", host="127.0.0.1"):
    return f"{scheme}://{KEY}@{host}:{server.port}/42"


def received(bench, server):
    """All envelopes; a transaction also has the first chunk that follows it."""
    found = [Envelope(bench, request.envelope()) for request in server.requests]
    for one in found:
        if one.transaction and one.profiler_id():
            one.chunk = next((other.chunk for other in found
                              if not other.transaction and
                              other.chunk["profiler_id"] == one.profiler_id()),
                             None)
    return found


def transactions(bench, server):
    return [one for one in received(bench, server) if one.transaction]


def capabilities_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file
                    if ":\t" in line)


def delivering_children(daemon):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                text = file.read()
            if "(fgt-delivery) " in text and \
                    int(text.rsplit(")", 1)[1].split()[1]) == daemon.child.pid:
                found.append(int(name))
        except OSError:
            pass
    return found

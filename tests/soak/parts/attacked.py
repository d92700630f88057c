# SPDX-License-Identifier: Apache-2.0
"""A daemon that is attacked: built with address and undefined sanitizers, open
to every user, with a watch on the ends of its helpers."""
import collections
import ctypes
import glob
import multiprocessing
import os
import re
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "integration"))
from kit.daemon_bench import Daemon  # noqa: E402
from kit.daemon_client import call  # noqa: E402

USERS = (0, 65534, 60001)  # who attacks
SECOND = 10**9
EXIT_OF_SANITIZERS = 66
PR_SET_DUMPABLE = 4
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": f"exitcode={EXIT_OF_SANITIZERS}:"
                    "allocator_may_return_null=1",
    "UBSAN_OPTIONS": f"exitcode={EXIT_OF_SANITIZERS}:print_stacktrace=1",
}
FINDING = re.compile(r"(ERROR: \w+Sanitizer.*|.*runtime error: .*|"
                     r"[Aa]ssertion .*failed.*)")
# Of a process that has been ended by these, something in it was wrong.
BAD_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL,
               signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP)


class Ends(threading.Thread):
    """How children of a process have ended, as the kernel reports it to root:
    a helper's standard error is /dev/null. counts: by "exit N", "signal N"."""

    NETLINK_CONNECTOR, EVENT_EXIT = 11, 0x80000000

    def __init__(self, parent):
        super().__init__(daemon=True)
        self.parent, self.counts = parent, collections.Counter()
        self.lost = 0
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM,
                                    self.NETLINK_CONNECTOR)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # …RCVBUFFORCE
        self.socket.bind((0, 1))
        listen = struct.pack("<IIIIHHI", 1, 1, 0, 0, 4, 0, 1)
        self.socket.send(struct.pack("<IHHII", 16 + len(listen), 3, 0, 0,
                                     os.getpid()) + listen)
        self.start()

    def run(self):
        while True:
            try:
                data = self.socket.recv(4096)
            except OSError as error:
                if error.errno == 105:  # ENOBUFS: events were lost
                    self.lost += 1
                    continue
                return
            if len(data) < 76:
                continue
            what, _, _, pid, group, code, _, _, parent = \
                struct.unpack_from("<IIQIIIIII", data, 36)
            if what == self.EVENT_EXIT and parent == self.parent and \
                    pid == group:
                self.counts[f"signal {code & 127}" if code & 127
                            else f"exit {code >> 8 & 255}"] += 1

    def bad(self):
        names = [f"exit {EXIT_OF_SANITIZERS}",
                 *(f"signal {int(number)}" for number in BAD_SIGNALS)]
        return {name: self.counts[name] for name in names
                if self.counts[name]}


class Attacked(Daemon):
    """Open to all users. is_sanitized: of the build with sanitizers, which is
    beside the build that is tested."""

    def __init__(self, bench, name, config="", is_sanitized=True, **arguments):
        if is_sanitized:
            bench.agent = os.path.join(os.path.dirname(bench.build), "asan",
                                       "fgtrace-agent")
        arguments.setdefault("env", ENVIRONMENT)
        super().__init__(bench, name, config, **arguments)
        os.chmod(self.folder, 0o755)
        os.chmod(self.socket, 0o666)
        self.ends = Ends(self.child.pid)

    def is_alive(self):
        return self.child.poll() is None

    def findings(self):
        """What sanitizers reported, and helpers that ended badly."""
        found = FINDING.findall(self.log_text())
        if self.ends.bad():
            found.append(f"helpers: {self.ends.bad()}")
        return found

    def descriptors(self):
        """How many of each kind: by the name without its number."""
        kinds = collections.Counter()
        for path in glob.glob(f"/proc/{self.child.pid}/fd/*"):
            try:
                kinds[re.sub(r"\d+", "N", os.readlink(path))] += 1
            except OSError:
                pass
        return kinds

    def threads(self):
        return len(os.listdir(f"/proc/{self.child.pid}/task"))

    def check_end(self, checks, what):
        """It lives, ends by SIGTERM with status 0 (no leak), no finding."""
        checks.ok(f"{what}: the daemon lives", self.is_alive(),
                  self.log_text()[-2000:])
        try:
            self.end()
            why = ""
        except Exception as error:  # its log is the reason
            why = repr(error)
        checks.ok(f"{what}: it ends with status 0", not why, why)
        checks.ok(f"{what}: no finding of a sanitizer, of "
                  f"{sum(self.ends.counts.values())} helpers none ended "
                  "badly", not self.findings(), self.findings())
        print(f"# {what}: children ended {dict(self.ends.counts)}")


class Aside:
    """Runs function(stop) in a process of that user; stop.is_set() is true
    when result() has been called, which returns what the function returns."""

    def __init__(self, function, uid=0):
        fork = multiprocessing.get_context("fork")
        self.stop = fork.Event()
        self.reader, writer = fork.Pipe(False)

        def run():
            if uid:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                # Its user may trace it, as a process that it has started.
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            try:
                writer.send((True, function(self.stop)))
            except Exception as error:  # travels to the parent
                writer.send((False, repr(error)))

        self.process = fork.Process(target=run)
        self.process.start()
        writer.close()

    def result(self, seconds=0):
        """Lets it go on for at most that long, or (0) until it returns by
        itself or is stopped now."""
        if not seconds or not self.reader.poll(seconds):
            self.stop.set()
        if not self.reader.poll(120):
            self.process.kill()
            raise TimeoutError("it does not end")
        is_ok, value = self.reader.recv()
        self.process.join()
        if not is_ok:
            raise RuntimeError(value)
        return value

    def wait(self):
        """Until it returns by itself."""
        is_ok, value = self.reader.recv()
        self.process.join()
        if not is_ok:
            raise RuntimeError(value)
        return value


def measure(path, pause_s=0.02, verb="status", **arguments):
    """A function for Aside: how long a verb took each time, in s, and the
    reasons of those that failed."""
    def run(stop):
        took, failed = [], []
        while not stop.is_set():
            began = time.monotonic()
            try:
                reply = call(path, verb, **arguments)
                if not reply["ok"]:
                    failed.append(reply["why"])
            except (OSError, EOFError) as error:
                failed.append(repr(error))
            took.append(time.monotonic() - began)
            time.sleep(pause_s)
        return took, failed
    return run


def use_once(daemon):
    """Each user has a process sampled and sliced, so that there is what a
    daemon keeps: a helper for each user."""
    def use(_):
        replies = [call(daemon.socket, "attach", pid=os.getpid())]
        time.sleep(0.3)
        replies += [call(daemon.socket, verb, pid=os.getpid())
                    for verb in ("slice", "detach")]
        return [reply.get("why", "") for reply in replies]
    for uid in USERS:
        why = Aside(use, uid).wait()
        if any(why):
            raise RuntimeError(f"user {uid}: {why}")


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def in_ms(took):
    """For the test's line."""
    if not took:
        return "none"
    return f"{len(took)}, median {quantile(took, 0.5) * 1e3:.1f} ms, " \
        f"p99 {quantile(took, 0.99) * 1e3:.1f} ms, " \
        f"at most {max(took) * 1e3:.0f} ms"


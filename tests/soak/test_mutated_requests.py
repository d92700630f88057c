# SPDX-License-Identifier: Apache-2.0
"""Requests that no honest client sends, from three users at once, to a daemon
with sanitizers: it lives, answers, and keeps nothing of them.

usage: test_mutated_requests.py BUILD [COUNT [SEED]]

COUNT (150,000) requests in all. SEED repeats a run, as far as its timing can be
repeated.
"""
import collections
import os
import random
import socket
import struct
import sys
import time

from parts.attacked import USERS, Aside, Attacked, in_ms, measure, use_once
from kit.daemon_client import Unpacker, call
from kit.harness import Bench, Checks
from kit.stuck_fs import StuckFs
from kit.transact import Program
from parts.mutate import Descriptors, mutate, seeds, send_with

COUNT = 150000
KEPT_MAX = 6  # connections that a user leaves open
REPLY_MAX = 1 << 18  # then a slice is abandoned
PATIENCE_S = 20
PAUSE_S = 0.01


class Broken(Exception):
    """A reply that is none."""


class Attacker:
    """One user's requests, one after another."""

    def __init__(self, path, folder, files, contents, seed):
        self.path, self.random = path, random.Random(seed)
        self.descriptors = Descriptors(folder, files, contents)
        self.kept, self.counts = [], collections.Counter()
        self.seeds = seeds(os.getpid(), time.monotonic_ns())
        self.weights = [weight for weight, _ in self.seeds]

    def request(self):
        return self.random.choices(self.seeds, self.weights)[0][1]

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_S)
        for _ in range(2000):
            try:
                connection.connect(self.path)
                return connection
            except BlockingIOError:  # the backlog is full
                time.sleep(0.005)
        raise Broken("the backlog stays full")

    def send(self, connection, data, request):
        wants = request.get("spans") or request.get("ring")
        if wants and self.random.random() < 0.4:
            self.descriptors.scribble(self.random)
            send_with(connection, data, self.descriptors.good * 2)
            self.counts["with memory"] += 1
        elif self.random.random() < (0.5 if wants else 0.03):
            send_with(connection, data, self.descriptors.some(self.random))
            self.counts["with odd descriptors"] += 1
        elif self.random.random() < 0.05:
            at = self.random.randrange(len(data) + 1)
            connection.sendall(data[:at])
            time.sleep(0.001)
            connection.sendall(data[at:])
            self.counts["in two parts"] += 1
        else:
            connection.sendall(data)

    def look_at(self, data):
        """The reply: "error N", "ok", "nothing" or "part"."""
        if len(data) < 4:
            return "nothing"
        length, = struct.unpack_from(">I", data)
        if len(data) < 4 + length:
            return "part"
        reply = Unpacker(data[4:4 + length]).value()
        if reply.get("v") != 2 or not isinstance(reply.get("ok"), bool):
            raise Broken(f"reply {reply}")
        if reply["ok"]:
            return "ok"
        if reply["error"] >= 0 or not reply["why"] or "\n" in reply["why"]:
            raise Broken(f"error {reply}")
        return f"error {-reply['error']}"

    def read(self, connection):
        """Until it is closed, or silent for a moment, or enough."""
        data = b""
        while len(data) < REPLY_MAX:
            try:
                part = connection.recv(65536)
            except (TimeoutError, ConnectionError):
                break
            if not part:
                break
            data += part
        return self.look_at(data)

    def attack(self):
        connection = self.kept.pop(0) \
            if self.kept and self.random.random() < 0.3 else self.connect()
        request = self.request()
        try:
            self.send(connection, mutate(self.random, request), request)
            if self.random.random() < 0.05:
                self.counts["abandoned"] += 1
                connection.close()
                return
            is_kept = request["verb"] in ("register", "deliver") and \
                self.random.random() < 0.5
            if not is_kept:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(PAUSE_S if is_kept else PATIENCE_S)
            self.counts[self.read(connection)] += 1
            connection.settimeout(PATIENCE_S)
            if is_kept and len(self.kept) < KEPT_MAX:
                self.kept.append(connection)
                return
        except (BrokenPipeError, ConnectionResetError):
            self.counts["closed"] += 1
        connection.close()

    def run(self, count):
        for _ in range(count):
            self.attack()
        for connection in self.kept:
            connection.close()
        return self.counts


def span_log(bench, daemon):
    """The memory that a program passes when it registers."""
    program = Program(bench, mode="agent", socket=daemon.socket)
    contents = b""
    for name in os.listdir(f"/proc/{program.pid}/fd"):
        path = f"/proc/{program.pid}/fd/{name}"
        if "memfd:" in os.readlink(path):
            with open(path, "rb") as file:
                contents = file.read()
    program.close()
    return contents


def attack(daemon, folder, contents, count, seed, files):
    """The attackers' counts; latencies of root meanwhile."""
    watch = Aside(measure(daemon.socket))
    attackers = [
        Aside(lambda _, uid=uid: Attacker(
            daemon.socket, folder, files, contents, seed + uid).run(
                count // len(USERS)), uid) for uid in USERS]
    counts = [attacker.wait() for attacker in attackers]
    return counts, watch.result()


def settles(daemon, before):
    """True once what clients left has been closed: files of images are, a
    minute after their last use."""
    def is_as_before():
        return sum((daemon.descriptors() - before).values()) <= 0
    return daemon.until(is_as_before, 100)


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 10**9
    print(f"# seed {seed}", flush=True)
    files = []
    try:
        files = [StuckFs(bench.path("fuse"), b"x" * 4096)]
    except OSError as error:
        print(f"# without files of FUSE: {error}")
    daemon = Attacked(bench, "requests", "ring: { memory_mb = 1; };")
    try:
        check(checks, bench, daemon, count, seed, files)
    finally:
        for each in files:
            each.close()
        bench.close()
    checks.finish()


def check(checks, bench, daemon, count, seed, files):
    contents = span_log(bench, daemon)
    print(f"# span log of {len(contents)} bytes")
    folder = bench.path("odd")
    os.makedirs(folder)
    os.chmod(folder, 0o777)
    use_once(daemon)
    before, threads = daemon.descriptors(), daemon.threads()
    began = time.monotonic()
    counts, (took, failed) = attack(daemon, folder, contents, count, seed,
                                    [each.path for each in files])
    seconds = time.monotonic() - began
    sent = sum(counts, collections.Counter())
    for uid, each in zip(USERS, counts):
        print(f"# user {uid}: {dict(each)}")
    total = sum(number for name, number in sent.items()
                if name in ("ok", "part", "nothing", "closed", "abandoned") or
                name.startswith("error"))
    refused = len([name for name in sent if name.startswith("error")])
    checks.ok(f"{total} requests in {seconds:.0f} s: all sent",
              total == count // len(USERS) * len(USERS), sent)
    checks.ok(f"answers are of {refused} kinds of errors, and ok",
              refused >= 6 and sent["ok"] > total / 50, sent)
    checks.ok(f"root's status was answered throughout: {in_ms(took)}",
              len(took) > seconds and not failed and max(took) < 5,
              (in_ms(took), failed[:3]))
    for each in call(daemon.socket, "targets")["targets"]:
        call(daemon.socket, "detach", pid=each["pid"])
    checks.ok("its descriptors are as many as before", settles(daemon, before),
              daemon.descriptors() - before)
    checks.ok("its threads are as many as before", daemon.until(
        lambda: daemon.threads() <= threads + 1),
        (threads, daemon.threads()))
    checks.ok("nothing is left of clients", daemon.until(
        lambda: daemon.status()["clients"] == 1 and
        daemon.status()["registered"] == 0), daemon.status())
    daemon.check_end(checks, "mutated requests")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Two users while a third one misbehaves: root and user B are served, and keep
their rings, names and slices.

usage: test_users.py BUILD [SECONDS]

SECONDS (12) of each kind of misbehaviour; then of all at once.
"""
import os
import socket
import subprocess
import sys
import time

from parts.attacked import SECOND, USERS, Aside, Attacked, in_ms, measure
from test_mutated_files import Files
from kit.daemon_bench import sleeper
from kit.daemon_client import Connection, call, frame, pack, request
from kit.harness import Bench, Checks

SECONDS = 12
ROOT, A, B = USERS
LATEST_S = 5  # a limit of patience, not a benchmark
EACH = 2  # processes of user A for each kind


def without_end(function):
    """For Aside: errors are what A is there for."""
    def run(stop):
        turns = 0
        while not stop.is_set():
            try:
                function()
            except (OSError, EOFError, RuntimeError):
                pass
            turns += 1
        return turns
    return run


class Bad:
    """What user A does."""

    def __init__(self, path, pids, out, stand):
        self.path, self.pids, self.out, self.stand = path, pids, out, stand

    def open(self, data):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(2)
        connection.connect(self.path)
        connection.send(data)
        return connection

    def connections(self):
        """Silent ones, half requests, and replies that are not read."""
        kept = []
        for data in (b"\0", b"\0\0", request("status"), request("targets")) * 10:
            kept.append(self.open(data))
        for each in kept:
            each.close()

    def registrations(self):
        """More than there is room for, and none ends with bye."""
        kept = [self.open(request("register", mode="agent"))
                for _ in range(70)]
        time.sleep(0.2)
        for each in kept:
            each.close()

    def deliveries(self):
        connection = Connection(self.path)
        connection.send(request("register", mode="embedded")).receive()
        for _ in range(50):
            connection.send(request("deliver", destination=self.out,
                                    data=b"x" * 200000)).receive()
        connection.close()

    def slices(self):
        """Of all its targets at once; some are not read."""
        kept = [self.open(request("slice", pid=pid)) for pid in self.pids]
        for each in kept[::2]:
            each.recv(1 << 20)
        for each in kept:
            each.close()

    def targets(self):
        """Rings: each process that it has, by name, with children."""
        child = subprocess.Popen(
            ["sh", "-c", "for i in $(seq 40); do sleep 5 & done; wait"])
        call(self.path, "attach", pid=child.pid, children=True)
        call(self.path, "attach", name="sleep", children=True)
        time.sleep(0.5)
        call(self.path, "detach", name="sleep")
        child.kill()
        child.wait()

    def names(self):
        """Hostile files, each time with threads that are new."""
        offset, paths = self.stand[1:]
        child = subprocess.Popen(
            [self.stand[0], f"{offset:x}", *paths], stdout=subprocess.PIPE)
        child.stdout.readline()
        call(self.path, "attach", pid=child.pid)
        time.sleep(0.3)
        call(self.path, "slice", pid=child.pid, last_ns=SECOND)
        call(self.path, "detach", pid=child.pid)
        child.kill()
        child.wait()
        child.stdout.close()

    def large(self):
        """Requests of 1 MiB that the daemon has to check."""
        data = frame(pack({"v": 2, "verb": "x" * 1000000}))
        self.open(data).close()
        connection = self.open(data[:4])
        connection.send(b"\x81\xa1v\xdd\0\x0f\0\0" + b"\x01" * 0xf0000)
        connection.close()

    def kinds(self):
        return {"connections": self.connections, "large": self.large,
                "registrations": self.registrations, "slices": self.slices,
                "deliveries": self.deliveries, "targets": self.targets,
                "names": self.names}


class Watch:
    """Latencies of a user's status and slices of a target."""

    def __init__(self, daemon, uid, pid):
        self.status = Aside(measure(daemon.socket), uid)
        self.slice = Aside(measure(daemon.socket, 0.1, "slice", pid=pid,
                                   last_ns=SECOND), uid)

    def results(self):
        return self.status.result(), self.slice.result()


def ticks(daemon, pid):
    """And when it had so many."""
    targets = call(daemon.socket, "targets")["targets"]
    return next(each for each in targets if each["pid"] == pid)["ticks"], \
        time.monotonic()


def phase(checks, daemon, name, functions, pids, seconds):
    """pids: root's target and B's."""
    watches = [Watch(daemon, uid, pid) for uid, pid in zip((ROOT, B), pids)]
    bad = [Aside(without_end(function), A) for function in functions
           for _ in range(EACH)]
    before = [ticks(daemon, pid) for pid in pids]
    time.sleep(seconds)
    rates = [(after[0] - first[0]) / (after[1] - first[1]) for first, after in
             zip(before, [ticks(daemon, pid) for pid in pids])]
    results = [watch.results() for watch in watches]
    turns = f", {sum(each.result() for each in bad)} turns of A" if bad else ""
    for user, rate, (status, slices) in zip(("root", "B"), rates, results):
        failed = status[1] + slices[1]
        longest = max(status[0] + slices[0])
        checks.ok(f"{name}{turns}: {user}'s status: "
                  f"{in_ms(status[0])}; slices: {in_ms(slices[0])}; "
                  f"{rate:.0f} ticks/s",
                  not failed and longest < LATEST_S and rate > 90,
                  (failed[:3], len(failed), longest, rate))


def start_as(bench, uid, *command):
    return bench.start(["setpriv", f"--reuid={uid}", f"--regid={uid}",
                        "--clear-groups", *command],
                       stdout=subprocess.DEVNULL)


def new_target(bench, daemon, uid):
    """Attached by its user; "" or why not."""
    child = start_as(bench, uid, "sleep", "600") if uid else sleeper(bench)
    time.sleep(0.2)
    reply = Aside(lambda _: call(daemon.socket, "attach", pid=child.pid),
                  uid).wait()
    return reply.get("why", ""), child.pid


def stand_of(bench):
    """The program, and hostile files, where A may use them."""
    os.chmod(bench.scratch, 0o755)
    _, paths, offset = Files(bench.path("files"), 1).mapped(3)
    return bench.program("stand"), offset, paths


def check(checks, bench, daemon, seconds):
    pids = []
    for uid in (ROOT, B):
        why, pid = new_target(bench, daemon, uid)
        if why:
            raise RuntimeError(why)
        pids.append(pid)
    crowds = [start_as(bench, A, bench.program("crowd"), "0", "800", "60",
                       "3600").pid for _ in range(3)]
    time.sleep(1)
    for pid in crowds:
        call(daemon.socket, "attach", pid=pid)
    out = bench.path("out")
    os.makedirs(out)
    os.chown(out, A, A)
    kinds = Bad(daemon.socket, crowds * 4, out, stand_of(bench)).kinds()
    phase(checks, daemon, "alone", (), pids, seconds)
    for name, function in kinds.items():
        phase(checks, daemon, name, (function,), pids, seconds)
    everything = [Aside(without_end(function), A)
                  for function in kinds.values()]
    phase(checks, daemon, "all", (), pids, seconds)
    for user, uid in ("root", ROOT), ("B", B):
        why, pid = new_target(bench, daemon, uid)
        time.sleep(0.5)
        reply = call(daemon.socket, "slice", pid=pid)
        checks.ok(f"{user} has room for a new target meanwhile",
                  not why and reply["ok"], (why, reply.get("why")))
    turns = dict(zip(kinds, [each.result() for each in everything]))
    checks.ok(f"A did all of it meanwhile: {turns}", all(turns.values()), "")
    for user, pid in zip(("root", "B"), pids):
        reply = call(daemon.socket, "slice", pid=pid)
        checks.ok(f"{user}'s ring holds its last 25 s still", reply["ok"] and
                  reply["to_ns"] - reply["from_ns"] > 25 * SECOND,
                  reply.get("why", reply.get("ticks")))
    print("#", {key: value for key, value in daemon.status().items()
                if key.startswith(("slices", "deliveries", "clients"))})


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    daemon = Attacked(bench, "users", is_sanitized=False)
    try:
        check(checks, bench, daemon, seconds)
        daemon.check_end(checks, "users")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

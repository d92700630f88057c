# SPDX-License-Identifier: Apache-2.0
"""Requests for the HTTP server that no honest client sends, streams and
websockets among them: daemon and server live, answer, and keep nothing.

usage: test_mutated_http.py BUILD [COUNT [SEED]]

COUNT (30,000) requests in all. SEED repeats a run, as far as its timing can be
repeated.
"""
import collections
import random
import re
import socket
import sys
import time

from parts.attacked import ENVIRONMENT, USERS, Aside, Attacked, in_ms
from parts.mutate_http import frames, mutate, seed
from parts.series import check_series, look
from kit.daemon_client import call
from kit.harness import Bench, Checks
from kit.read_fgt import Slice
from kit.web.client import ask
from kit.web.site import HTTP

COUNT = 30000
READ_MAX = 1 << 18
PATIENCE_S = 0.3  # then a stream is left
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
EXPECTED = {"100", "101", "200", "400", "401", "403", "404", "405", "413", "414",
            "417", "429", "431", "501", "503", "504", "505"}


class Attacker:
    """Requests, one after another."""

    def __init__(self, port, token, pid, seed_):
        self.random = random.Random(seed_)
        self.of = port, token, pid
        self.counts = collections.Counter()

    def read(self, connection):
        data = b""
        try:
            while len(data) < READ_MAX:
                part = connection.recv(65536)
                if not part:
                    break
                data += part
        except OSError:
            pass
        return data

    def attack(self):
        lines, is_websocket = seed(self.random, *self.of)
        data = mutate(self.random, lines)
        connection = socket.create_connection(("127.0.0.1", self.of[0]), 20)
        try:
            connection.sendall(data)
            if is_websocket:
                time.sleep(0.02)
                connection.sendall(frames(self.random))
            if self.random.random() < 0.05:
                self.counts["abandoned"] += 1
                return
            connection.settimeout(PATIENCE_S)
            match = STATUS.match(self.read(connection))
            self.counts[match[1].decode() if match else "nothing"] += 1
        except ConnectionError:
            self.counts["closed"] += 1
        finally:
            connection.close()

    def run(self, count):
        for _ in range(count):
            self.attack()
        return self.counts


def probe(port):
    """For Aside: how long /-/healthy took, and which failed."""
    def run(stop):
        took, failed = [], []
        while not stop.is_set():
            began = time.monotonic()
            try:
                answer = ask(port, "/-/healthy")
                if answer.status != 200:
                    failed.append(repr(answer))
            except OSError as error:
                failed.append(repr(error))
            took.append(time.monotonic() - began)
            time.sleep(0.1)
        return took, failed
    return run


def attack(daemon, arguments, count, seed_):
    """The attackers' counts, the probe's results, and what the daemon used."""
    watch = Aside(probe(arguments[0]))
    attackers = [Aside(lambda _, n=n: Attacker(*arguments, seed_ + n).run(
        count // len(USERS))) for n in range(len(USERS))]
    series = []
    while any(each.process.is_alive() for each in attackers):
        series.append(look(daemon.child.pid))
        if any(each.reader.poll() for each in attackers):
            break  # it waits for its result to be read
        time.sleep(0.5)
    counts = [each.wait() for each in attackers]
    return sum(counts, collections.Counter()), watch.result(), series


def more(daemon, before):
    return {name: count for name, count in
            (daemon.descriptors() - before).items()
            if not name.startswith("/proc/")}


def check(checks, bench, daemon, count, seed_):
    target = bench.start([bench.program("crowd"), "1", "20", "20", "3600"],
                         stdout=-3)
    daemon.attach(target.pid)
    time.sleep(1)
    status = daemon.status()
    port = int(status["http_address"].rpartition(":")[2])
    token = status["http_url"].partition("?token=")[2]
    arguments = port, token, target.pid
    attack(daemon, arguments, 600, seed_ + 100)  # what is kept, is now
    before = daemon.descriptors()
    began = time.monotonic()
    sent, (took, failed), series = attack(daemon, arguments, count, seed_)
    seconds = time.monotonic() - began
    print(f"# {dict(sent)}")
    checks.ok(f"{sum(sent.values())} requests in {seconds:.0f} s: all sent",
              sum(sent.values()) == count // len(USERS) * len(USERS), sent)
    statuses = {name for name in sent if name.isdigit()}
    checks.ok(f"answers are of {len(statuses)} kinds, none unexpected",
              statuses <= EXPECTED and {"101", "200", "400", "404"} <= statuses,
              sent)
    checks.ok(f"a probe was served throughout: {in_ms(took)}",
              len(took) > seconds and not failed and max(took) < 5,
              (in_ms(took), failed[:3]))
    status = daemon.status()
    checks.ok("the server was not started again", status["http_restarts"] == 0,
              status)
    answer = ask(port, "/api/v1/slice?format=fgt&last=2s&pid="
                 f"{target.pid}&token={token}")
    reply = call(daemon.socket, "slice", pid=target.pid, last_ns=10**9)
    checks.ok("slices are served still, with samples", answer.status == 200 and
              Slice(answer.body).threads and reply["ok"],
              (answer.status, reply.get("why")))
    check_series(checks, series)
    checks.ok("its descriptors are as many as before, without those of the "
              "target", daemon.until(lambda: not more(daemon, before), 60),
              more(daemon, before))
    daemon.check_end(checks, "mutated http")


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    seed_ = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 10**9
    print(f"# seed {seed_}", flush=True)
    options = ENVIRONMENT["ASAN_OPTIONS"] + ":quarantine_size_mb=8"
    daemon = Attacked(bench, "http", HTTP,
                      env={**ENVIRONMENT, "ASAN_OPTIONS": options})
    try:
        check(checks, bench, daemon, count, seed_)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

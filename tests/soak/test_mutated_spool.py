# SPDX-License-Identifier: Apache-2.0
"""Spool files that power loss, another program or a hostile hand has changed:
the daemon starts with them, sends what is whole, and puts the others aside.

usage: test_mutated_spool.py BUILD [COUNT [SEED]]

COUNT (2,000) files, 50 for each start of the daemon; every fourth comes while it
runs.
"""
import json
import os
import random
import struct
import subprocess
import sys
import time

from parts.attacked import ENVIRONMENT, Attacked
from parts.series import check_series, look
from kit.crc32c import crc32c
from kit.daemon_bench import sleeper
from kit.daemon_client import call
from kit.harness import Bench, Checks
from kit.sentry_server import SentryServer, answer, fixed
from kit.transact import EVERY, Program, until

COUNT, ROUND = 2000, 50
KEPT_MAX = 16  # damaged files
FIXED = 48
EXTREMES = (0, 1, 47, 48, 16384, 16385, 0x7fffffff, 0x80000000, 0xffffffff,
            64 << 20, (64 << 20) + 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
NAMES = ("lock", "flush", "..spool", ".spool", "x.spool", "%n.spool",
         "-" * 200 + ".spool", "0" * 60 + ".spool")


def mend_sums(data):
    """So that what was changed is believed."""
    if len(data) < FIXED:
        return
    head_len, body_len = struct.unpack_from("<IQ", data, 12)
    head = data[FIXED:FIXED + head_len]
    body = data[FIXED + len(head):][:body_len]
    struct.pack_into("<II", data, 32, crc32c(head), crc32c(body))
    struct.pack_into("<I", data, 40, crc32c(data[:40]))


def mutate(random_, seed):
    """Some lengths fit what is there, and most sums."""
    data = bytearray(seed)
    head_len, = struct.unpack_from("<I", data, 12)
    for _ in range(random_.choice((1, 1, 2, 4, 12))):
        how = random_.randrange(6)
        if how == 0:
            form, at, size = random_.choice((("<I", 8, 4), ("<I", 12, 4),
                                             ("<Q", 16, 8), ("<Q", 24, 8)))
            struct.pack_into(form, data, at, random_.choice(EXTREMES) &
                             ((1 << 8 * size) - 1))
        elif how <= 3 and len(data) > FIXED:
            at = FIXED + random_.randrange(min(head_len, len(data) - FIXED))
            size = random_.choice((1, 4, 8))
            data[at:at + size] = (random_.choice(EXTREMES) & (
                (1 << 8 * size) - 1)).to_bytes(size, "little")
        elif how == 4:
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        elif len(data) > FIXED + 1:
            del data[random_.randrange(FIXED, len(data)):]
            if random_.random() < 0.5:
                struct.pack_into("<Q", data, 16,
                                 max(0, len(data) - FIXED - head_len))
    if random_.random() < 0.75:
        mend_sums(data)
    if random_.random() < 0.05:
        del data[random_.randrange(len(data)):]
    return bytes(data)


class Spool:
    def __init__(self, bench, server, seed):
        self.bench, self.random = bench, random.Random(seed)
        self.folder, self.count = bench.path("spool"), 0
        self.text = f'upload: {{ spool_dir = "{self.folder}"; ' \
            'destinations = ( { name = "lab"; url = "http://127.0.0.1:' \
            f'{server.port}/x"; method = "PUT"; format = "folded"; }} ); ' \
            'transactions = [ "lab" ]; };\n'

    def entries(self):
        return sorted(name for name in os.listdir(self.folder)
                      if name.endswith(".spool"))

    def collect(self, daemon):
        """Entries of a program: names and bytes."""
        program = Program(self.bench, mode="agent", socket=daemon.socket,
                          **EVERY)
        for _ in range(4):
            program.run("begin GET_/cart http.server", "burn 30", "finish")
        until(lambda: len(self.entries()) >= 4)
        program.close()
        seeds = []
        for name in self.entries():
            with open(os.path.join(self.folder, name), "rb") as file:
                seeds.append((name, file.read()))
        return seeds

    def put(self, seeds):
        """A file under a name as the daemon gives them, or another one."""
        name, data = self.random.choice(seeds)
        self.count += 1
        if self.random.random() < 0.1:
            name = self.random.choice(NAMES)
        elif self.random.random() < 0.9:
            name = list(name)
            for _ in range(3):
                at = self.random.randrange(12, len(name) - 6)
                if name[at] in "0123456789abcdef":
                    name[at] = self.random.choice("0123456789abcdef")
            name = "".join(name)
        path = os.path.join(self.folder, name)
        if os.path.lexists(path) and name in NAMES:
            return
        how = self.random.random()
        if how < 0.03 and not os.path.lexists(path):
            self.random.choice((
                lambda: os.mkfifo(path), lambda: os.mkdir(path),
                lambda: os.symlink("/etc/passwd", path)))()
            return
        if os.path.isdir(path) or os.path.islink(path):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
        try:
            fd = os.open(path, flags, 0o600)
        except OSError:  # a pipe without a reader
            return
        try:
            os.write(fd, mutate(self.random, data))
            if how > 0.98:
                os.ftruncate(fd, 1 << 36)
        except OSError:
            pass
        os.close(fd)


def is_printable(bench, daemon):
    """What a terminal gets of the spool, as text and as JSON."""
    shown = [subprocess.run([bench.agent, "--socket", daemon.socket, "spool",
                             "list", *more], capture_output=True, timeout=60,
                            check=False).stdout for more in ([], ["--json"])]
    try:
        return all(line.isprintable() for each in shown
                   for line in each.decode().split("\n")) and \
            json.loads(shown[1])
    except ValueError:
        return False


def wait_until_sent(bench, daemon, server):
    """Flushed until nothing that can be sent is left."""
    seen = -1
    for _ in range(20):
        bench.run("--socket", daemon.socket, "spool", "flush", timeout=60)
        time.sleep(0.3)
        if seen == len(server.requests):
            break
        seen = len(server.requests)


def check(checks, bench, count, seed):
    server = SentryServer(fixed(503))
    spool = Spool(bench, server, seed)
    options = ENVIRONMENT["ASAN_OPTIONS"] + ":quarantine_size_mb=8"
    environment = {**ENVIRONMENT, "ASAN_OPTIONS": options}

    def start():
        return Attacked(bench, "spooled", spool.text, env=environment)
    daemon = start()
    seeds = spool.collect(daemon)
    checks.ok(f"{len(seeds)} entries to begin with", len(seeds) >= 4, seeds)
    target = sleeper(bench)
    series, findings, unprintable = [], [], 0
    while spool.count < count:
        daemon.end()
        findings += daemon.findings()
        server.script = lambda _request, _connection: answer(
            spool.random.choice((201, 201, 201, 400, 413, 503)))
        for _ in range(ROUND * 3 // 4):
            spool.put(seeds)
        daemon = start()
        for _ in range(ROUND // 4):
            spool.put(seeds)
        unprintable += not is_printable(bench, daemon)
        wait_until_sent(bench, daemon, server)
        series.append(look(daemon.child.pid))
    checks.ok(f"{spool.count} files; {len(server.requests)} were sent",
              len(server.requests) > count / 50, len(server.requests))
    checks.ok("spool list prints nothing raw", not unprintable, unprintable)
    bad = os.path.join(spool.folder, "bad")
    checks.ok("damaged ones are put aside, and few kept", os.path.isdir(bad) and
              0 < len(os.listdir(bad)) <= KEPT_MAX, os.listdir(bad))
    daemon.attach(target.pid)
    time.sleep(1)
    reply = call(daemon.socket, "slice", pid=target.pid)
    checks.ok("slices work", reply["ok"], reply.get("why"))
    sent = len(server.requests)
    server.script = fixed(201)
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    program.run("begin GET_/cart http.server", "burn 30", "finish")
    checks.ok("a delivery arrives", until(
        lambda: len(server.requests) > sent), daemon.log_text()[-1000:])
    program.close()
    check_series(checks, series)
    checks.ok("no finding in any of the starts", not findings, findings)
    daemon.check_end(checks, "mutated spool")
    server.close()


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 10**9
    print(f"# seed {seed}", flush=True)
    try:
        check(checks, bench, count, seed)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

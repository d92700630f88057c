# SPDX-License-Identifier: Apache-2.0
"""Targets that publish contexts that mislead, with triggers and in continuous
mode, which come and go while the configuration changes.

usage: test_hostile_targets.py BUILD [SECONDS [SEED]]

SECONDS (120) in all; the last third is compared with the second one.
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

from parts.attacked import ENVIRONMENT, SECOND, Aside, Attacked, in_ms, measure
from parts.series import check_series, look
from kit.daemon_bench import sleeper
from kit.daemon_client import call
from kit.harness import Bench, Checks
from kit.read_fgt import Slice

SECONDS = 120
AT_ONCE = 4
RELOAD_S = 3
CONDITIONS = ('cpu_percent = 20.0;', 'asleep_s = 1.0; thread = "liar";',
              'state = "running";', 'signal = "SIGUSR1";', 'killed = true;',
              'starved_s = 0.2;', 'transaction_ms = 1;')


def trigger(number, when, out):
    return f'{{ name = "t{number}"; when: {{ {when} }}; deliver = "{out}"; ' \
        "window_s = 2; min_gap_s = 1; after_s = 0.1; }"


def config(random_, out, names):
    """Some triggers, some targets by name, some of them continuous."""
    chosen = random_.sample(range(len(CONDITIONS)), random_.randrange(1, 5))
    targets = [f'{{ name = "{name}"; children = true; '
               + (f'continuous = true; continuous_s = 2; deliver = "{out}"; '
                  if random_.random() < 0.6 else "") + "}"
               for name in names if random_.random() < 0.7]
    rules = [trigger(number, CONDITIONS[number], out) for number in chosen]
    return f"targets = ( {', '.join(targets)} );\n" \
        f"triggers = ( {', '.join(rules)} );\n"


class Liars:
    """Programs that are started, sliced and ended at random."""

    def __init__(self, folder, path, seed):
        self.folder, self.path = folder, path
        self.random, self.running, self.turns = random.Random(seed), [], 0
        self.counts = dict.fromkeys(("slices", "with spans", "with a service"),
                                    0)

    def start(self):
        name = self.random.choice(("liar", "liar", "liar", "traced-own"))
        argument = str(self.random.randrange(10**6)) if name == "liar" else \
            "hostile"
        child = subprocess.Popen(
            [os.path.join(self.folder, name), argument],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        call(self.path, "attach", pid=child.pid)
        self.running.append(child)

    def end(self):
        child = self.running.pop(self.random.randrange(len(self.running)))
        child.send_signal(self.random.choice((
            signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGTERM)))
        child.wait()
        child.stdin.close()
        self.turns += 1

    def read(self, reply):
        if not reply["ok"]:
            return
        found = Slice(reply["file"])  # which checks it
        self.counts["slices"] += 1
        self.counts["with spans"] += len(found.spans) > 0
        self.counts["with a service"] += len(found.service) > 0

    def run(self, stop):
        while not stop.is_set():
            if len(self.running) < AT_ONCE:
                self.start()
            else:
                self.end()
            time.sleep(self.random.choice((0.1, 0.3, 1)))
            if self.running:
                reply = call(self.path, "slice", last_ns=SECOND,
                             pid=self.random.choice(self.running).pid)
                self.read(reply)
        while self.running:
            self.end()
        return self.turns, self.counts


def run(daemon, folder, out, seconds, random_):
    """Results of the liars and of root's status, and what the daemon used."""
    liars = Aside(Liars(folder, daemon.socket, random_.random()).run)
    watch = Aside(measure(daemon.socket, 0.1))
    series, end, reload_at = [], time.monotonic() + seconds, 0
    while time.monotonic() < end and daemon.is_alive():
        if time.monotonic() > reload_at:
            daemon.write_config(config(random_, out, ("liar", "traced-own",
                                                      "sleep")))
            daemon.child.send_signal(signal.SIGHUP)
            reload_at = time.monotonic() + RELOAD_S
            for path in pathlib.Path(out).iterdir():
                path.unlink(missing_ok=True)  # a temporary name goes by itself
        series.append(look(daemon.child.pid))
        time.sleep(0.5)
    return liars.result(60), watch.result(), series


def check(checks, bench, daemon, seconds, seed):
    folder, out = bench.path("bin"), bench.path("out")
    os.mkdir(folder)
    os.mkdir(out, 0o700)
    for name in ("liar", "traced-own"):
        shutil.copy2(bench.program(name), folder)
    own = sleeper(bench)
    (turns, counts), (took, failed), series = run(
        daemon, folder, out, seconds, random.Random(seed))
    status = daemon.status()
    print("#", {key: value for key, value in status.items()
                if key.startswith(("slices", "deliver", "trigger", "targets"))
                and not isinstance(value, list)})
    checks.ok(f"{turns} hostile targets came and went: {counts}",
              turns > seconds / 3 and counts["slices"] > seconds / 3 and
              all(counts.values()), (turns, counts))
    checks.ok("what they did was delivered", "t" in daemon.log_text() and
              os.listdir(out), daemon.log_text()[-1000:])
    checks.ok(f"root's status: {in_ms(took)}", not failed and max(took) < 5,
              failed[:3])
    daemon.attach(own.pid)
    time.sleep(1)
    reply = call(daemon.socket, "slice", pid=own.pid, last_ns=SECOND)
    checks.ok("slices work still", reply["ok"], reply.get("why"))
    check_series(checks, series)
    daemon.check_end(checks, "hostile targets")


def main():
    checks, bench = Checks(), Bench(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 10**9
    print(f"# seed {seed}", flush=True)
    options = ENVIRONMENT["ASAN_OPTIONS"] + ":quarantine_size_mb=8"
    daemon = Attacked(bench, "hostile", "",
                      env={**ENVIRONMENT, "ASAN_OPTIONS": options})
    try:
        check(checks, bench, daemon, seconds, seed)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

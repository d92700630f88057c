# SPDX-License-Identifier: Apache-2.0
"""The budget of CPU time is kept for every target.

usage: test_rate_limit.py BUILD [PART…]

Programs that are expensive to sample: thousands of threads that wake often, and
thousands a second that start and end. The rate must be lowered, status, log and
slice must report it, and it must return. Shares at the lowered rate must be
right.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "integration"))
from kit.timeline.chrome_events import spread  # noqa: E402
from kit.harness import (Bench, Checks, Samples, as_user,  # noqa: E402
                         read_until)

PATIENCE_S = 120
BUSY = 0.3  # of its time, in storm.c
WAKERS = "3000"


def programs(bench):
    """Agent and programs where an ordinary user may run them; copied once."""
    folder = bench.path("bin")
    if not os.path.exists(folder):
        bench.copy_for_nobody()
        for name in ("storm", "without_perf"):
            shutil.copy2(bench.program(name), folder)
            os.chmod(f"{folder}/{name}", 0o755)
    return folder


class Daemon:
    """A daemon with a budget, and its command line."""

    def __init__(self, bench, name, percent, wrapper=(), as_nobody=False):
        self.bench, self.name, self.as_nobody = bench, name, as_nobody
        self.folder = bench.path(name)
        os.makedirs(self.folder, exist_ok=True)
        self.config = bench.path(name + ".conf")
        self.set_budget(percent)
        if as_nobody:
            os.chown(self.folder, 65534, 65534)
        os.chmod(self.folder, 0o755)
        self.socket = f"{self.folder}/agent.sock"
        self.agent = programs(bench) + "/fgtrace-agent"
        with open(bench.path(name + ".log"), "w") as log:
            self.child = bench.start(
                [*wrapper, self.agent, "--socket", self.socket, "daemon",
                 "-c", self.config], as_nobody, stderr=log)
        if not until(lambda: self.call("status").returncode == 0):
            raise RuntimeError("daemon does not answer: " + self.log())

    def set_budget(self, percent):
        with open(self.config, "w") as file:
            file.write(f"sampling = {{ max_cpu_percent = {percent}; }};\n")
        if self.as_nobody:
            os.chown(self.config, 65534, 65534)

    def reload(self, percent):
        self.set_budget(percent)
        self.child.send_signal(signal.SIGHUP)

    def call(self, *arguments):
        return subprocess.run(
            as_user([self.agent, "--socket", self.socket, *arguments],
                    self.as_nobody), capture_output=True, text=True,
            timeout=60, check=False)

    def status(self):
        return json.loads(self.call("status", "--json").stdout)

    def target(self):
        return min(self.status()["targets"],
                   key=lambda target: target["attached_ns"])

    def attach(self, pid):
        result = self.call("attach", str(pid))
        if result.returncode != 0:
            raise RuntimeError(result.stderr)

    def log(self):
        with open(self.bench.path(self.name + ".log")) as file:
            return file.read()

    def cpu_s(self):
        """CPU time of the thread that samples."""
        for path in glob.glob(f"/proc/{self.child.pid}/task/*/comm"):
            with open(path) as file:
                if file.read().strip() != "fgt-sampler":
                    continue
            with open(os.path.dirname(path) + "/schedstat") as file:
                return int(file.read().split()[0]) / 1e9
        return 0.0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def end(self):
        self.child.terminate()
        self.child.wait(30)


def until(condition, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.25)
    return False


def storm(bench, *arguments, as_nobody=False):
    child = bench.start([f"{programs(bench)}/storm", *arguments], as_nobody,
                        stdout=subprocess.PIPE, text=True)
    return child, int(read_until(child.stdout, "ready "))


def is_lowered(daemon):
    return daemon.target()["rate_periods"] > 1


def is_kept(daemon, percent):
    """Is there a window in which sampling costs no more than that?"""
    def look():
        from_s, before = time.monotonic(), daemon.cpu_s()
        time.sleep(12)
        now = 100 * (daemon.cpu_s() - before) / (time.monotonic() - from_s)
        print(f"# {now:.2f} % of a core, {daemon.target()['rate_hz']:.3g} Hz")
        return now <= percent
    return until(look)


def check_reported(checks, who, daemon, slice_path):
    """Status, log and slice report a lowered rate."""
    target = daemon.target()
    checks.ok(f"{who}: status has rate, divisor, cost and cause",
              target["rate_periods"] > 1 and target["cpu_percent"] > 0 and
              abs(target["rate_hz"] * target["rate_periods"] - 101) < 1e-6 and
              "sampling.max_cpu_percent" in target["rate_note"], target)
    text = daemon.call("status").stdout
    checks.ok(f"{who}: text of status has the rate and the key",
              re.search(r"rate lowered to \S+ Hz, one tick in \d+, to keep "
                        r"sampling.max_cpu_percent = ", text), text[-500:])
    logged = [float(hz) for hz in re.findall(
        r"rate lowered to (\S+) Hz(?!.*nothing left to lower)", daemon.log())]
    lowest = float(re.search(r"to (\S+) Hz", target["rate_note"])[1])
    checks.ok(f"{who}: each lower rate is logged once",
              logged and logged == sorted(set(logged), reverse=True) and
              logged[-1] <= lowest, (logged, lowest))
    if not slice_path:
        return
    result = daemon.call("slice", "--last", "10s", "-p", str(target["pid"]),
                         "-o", slice_path, "--json")
    if not checks.ok(f"{who}: slice can be cut", result.returncode == 0,
                     result.stderr):
        return
    summary = json.loads(result.stdout)
    checks.ok(f"{who}: slice has its mean rate and the lowest one",
              summary["effective_hz"] < 60 and
              summary["lowered_to_hz"] < 60 and
              "the rate was lowered to" in result.stderr,
              {**summary, "threads": 0, "functions": 0})
    checks.ok(f"{who}: ticks left out by the lowered rate are not missed",
              summary["missed_ticks"] * 10 < summary["ticks"] + 10, summary)


def share_by_summary(bench, path):
    result = bench.run("convert", path, "--json", "--top", "100")
    summary = json.loads(result.stdout)
    thread = max(summary["threads"], key=lambda t: t["running"])
    return thread["running"] / thread["samples"], thread["tid"]


def share_by_folded(bench, path, tid):
    out = path + ".folded"
    bench.run("convert", path, "-o", out, "--tid", str(tid))
    total = running = 0
    with open(out) as file:
        for line in file:
            stack, count = line.rsplit(" ", 1)
            total += int(count)
            running += int(count) if stack.startswith("running") else 0
    return running / total


def share_by_chrome(bench, path, tid):
    out = path + ".trace.json"
    bench.run("convert", path, "-o", out, "--tid", str(tid), "--state-frames",
              "root")
    with open(out) as file:
        events = json.load(file)["traceEvents"]
    total = running = depth = 0
    for event in spread(events):
        if event["ph"] == "B":
            depth += 1
            if depth == 1:
                name, begin = event["name"], event["ts"]
        elif event["ph"] == "E":
            depth -= 1
            if depth == 0:
                total += event["ts"] - begin
                running += event["ts"] - begin if name == "running" else 0
    return running / total


def shares_by_sentry(bench, path, tid):
    """A sample lasts until the next one. The length of the last one is not in
    the file: it is that of the one before, or half or twice that, if the rate
    changed there."""
    out = path + ".envelope"
    bench.run("convert", path, "-o", out, "--tid", str(tid))
    samples = next(iter(Samples(out).by_thread.values()))
    lasts = [after[0] - before[0] for before, after in zip(samples,
                                                          samples[1:])]
    shares = []
    for part in (0.5, 1, 2):
        each = [*lasts, part * lasts[-1]]
        running = sum(last for last, (_, stack) in zip(each, samples)
                      if stack[-1] == "running")
        shares.append(running / sum(each))
    return shares


def check_shares(bench, checks):
    """The rate is lowered and raised in the slice: shares are of time."""
    daemon = Daemon(bench, "shares", "0")
    child, pid = storm(bench, "wake", "20", "600", "600")
    daemon.attach(pid)
    time.sleep(5)
    daemon.reload("0.1")
    checks.ok("a budget set by SIGHUP is kept from then on",
              until(lambda: is_lowered(daemon)), daemon.target())
    time.sleep(20)
    path = bench.path("shares.fgt")
    daemon.call("slice", "--last", "25s", "-p", str(pid), "-o", path)
    shares = {"summary": share_by_summary(bench, path)}
    shares["summary"], tid = shares["summary"]
    shares["folded"] = share_by_folded(bench, path, tid)
    shares["chrome"] = share_by_chrome(bench, path, tid)
    of_sentry = shares_by_sentry(bench, path, tid)
    print("#", shares, of_sentry)
    checks.ok("all formats agree on the share of a slice of several rates",
              max(shares.values()) - min(shares.values()) < 0.03 and
              min(of_sentry) - 0.03 < shares["folded"] < max(of_sentry) + 0.03,
              (shares, of_sentry))
    # About a hundred ticks: the limit is four standard deviations.
    checks.ok("known share is right at a lowered rate",
              abs(shares["summary"] - BUSY) < 0.18, shares)
    daemon.reload("0")
    checks.ok("without a limit the rate is full again",
              until(lambda: not is_lowered(daemon)), daemon.target())
    checks.ok("full rate is logged", until(
        lambda: "the rate is 101 Hz again" in daemon.log()),
        daemon.log()[-500:])
    child.kill()
    daemon.end()


def check_wakers(bench, checks):
    daemon = Daemon(bench, "wakers", "4")
    child, pid = storm(bench, "wake", WAKERS, "75", "900")
    daemon.attach(pid)
    checks.ok("threads that wake: the rate comes down",
              until(lambda: is_lowered(daemon)), daemon.target())
    checks.ok("threads that wake: the budget is kept", is_kept(daemon, 4),
              daemon.target())
    check_reported(checks, "threads that wake", daemon, bench.path("wakers.fgt"))
    other = bench.start(["sleep", "600"])
    daemon.attach(other.pid)
    others = lambda: [t for t in daemon.status()["targets"]
                      if t["pid"] == other.pid]
    checks.ok("another target is sampled at the full rate", until(
        lambda: others()[0]["effective_hz"] > 60 and
        others()[0]["rate_periods"] == 1), others())
    checks.ok("while the first one's rate is lowered", is_lowered(daemon),
              daemon.status()["targets"])
    daemon.call("detach", str(other.pid))
    read_until(child.stdout, "calm ")
    checks.ok("threads that wake: the rate returns when they sleep", until(
        lambda: not is_lowered(daemon), 2 * PATIENCE_S), daemon.target())
    checks.ok("threads that wake: full rate is logged", until(
        lambda: "the rate is 101 Hz again" in daemon.log()),
        daemon.log()[-500:])
    child.kill()
    daemon.end()


def check_fallbacks(bench, checks):
    """Without perf events of all CPUs, and without any."""
    without_perf = f"{programs(bench)}/without_perf"
    for who, wrapper in (("an ordinary user", ()),
                         ("an ordinary user without perf", (without_perf,))):
        daemon = Daemon(bench, who.replace(" ", "-"), "2", wrapper, True)
        child, pid = storm(bench, "wake", "1000", "600", "600",
                           as_nobody=True)
        daemon.attach(pid)
        checks.ok(f"{who}: the rate comes down",
                  until(lambda: is_lowered(daemon)), daemon.target())
        checks.ok(f"{who}: the budget is kept", is_kept(daemon, 2),
                  daemon.target())
        check_reported(checks, who, daemon, None)
        child.kill()
        daemon.end()


def check_churn(bench, checks):
    """Faults X12 and X13: thousands of threads a second, with a bounded table."""
    daemon = Daemon(bench, "churn", "1")
    before = daemon.descriptors()
    child, pid = storm(bench, "churn", "5000", "40", "900")
    daemon.attach(pid)
    checks.ok("threads that come and go: the rate comes down",
              until(lambda: is_lowered(daemon)), daemon.target())
    time.sleep(5)
    early = daemon.status()
    checks.ok("threads that come and go: the budget is kept",
              is_kept(daemon, 1), daemon.target())
    late = daemon.status()
    grown = late["rss_bytes"] - early["rss_bytes"]
    checks.ok("threads that come and go: no memory is kept for them",
              grown < 8 << 20, f"{early['rss_bytes']} → {late['rss_bytes']}")
    made = int(read_until(child.stdout, "calm "))
    print(f"# {made} threads came and went, {grown} bytes more")
    checks.ok("threads that come and go: thousands were made", made > 10000,
              made)
    checks.ok("threads that come and go: none stays in the table", until(
        lambda: daemon.target()["threads"] == 2), daemon.target())
    checks.ok("threads that come and go: no descriptor is left", until(
        lambda: daemon.descriptors() < before + 60),
        f"{before} → {daemon.descriptors()}")
    checks.ok("threads that come and go: ring drops them", until(
        lambda: daemon.target()["ring_threads"] < 100), daemon.target())
    child.kill()
    daemon.end()


def check_reuse(bench, checks):
    """Within one tick, a thread's number is given to another thread."""
    for who, wrapper in (("perf", ()),
                         ("no perf", (bench.program("without_perf"),))):
        child = bench.start([bench.program("lifecycle"), "reuse", "1", "2"],
                            stdout=subprocess.PIPE, text=True)
        pid = read_until(child.stdout, "ready ")
        result = subprocess.run(
            [*wrapper, bench.agent, "record", "-p", pid, "--json", "--top",
             "100"], capture_output=True, text=True, timeout=60, check=False)
        tid = int(read_until(child.stdout, "reused "))
        if not tid:
            print("# a thread's number cannot be reused on demand here")
            continue
        summary = json.loads(result.stdout)
        names = sorted(t["name"] for t in summary["threads"]
                       if t["tid"] == tid)
        walls = {f["name"]: f["wall"] for f in summary["functions"]}
        checks.ok(f"number used twice is shown as two threads with their "
                  f"names ({who})", names == ["first", "second"],
                  summary["threads"])
        checks.ok(f"threads of one number do not share stacks ({who})",
                  all(50 < walls.get(f"{n}_life", 0) < 125
                      for n in ("first", "second")), walls)


def check_record(bench, checks):
    child, pid = storm(bench, "wake", "500", "60", "60")
    path = bench.path("record.fgt")
    result = bench.run("record", "-d", "12", "--max-cpu", "0.5", "-p",
                       str(pid), "-o", path, "--json")
    child.kill()
    summary = json.loads(result.stdout) if result.returncode == 0 else {}
    checks.ok("record --max-cpu lowers its rate and prints it",
              summary.get("effective_hz", 101) < 60 and
              "rate lowered to" in result.stderr and
              "the rate was lowered to" in result.stderr, result.stderr)
    checks.ok("record explains why a thread has more samples than ticks",
              "a tick there counts as up to" in result.stderr, result.stderr)
    result = bench.run("record", "--max-cpu", "101", "--", "true")
    checks.ok("a budget out of range is refused", result.returncode == 2 and
              "0 or a number from 0.1 to 100" in result.stderr, result.stderr)


def main():
    checks = Checks()
    bench = Bench(sys.argv[1])
    parts = {"reuse": check_reuse, "shares": check_shares,
             "record": check_record, "wakers": check_wakers,
             "churn": check_churn, "fallbacks": check_fallbacks}
    try:
        for name in sys.argv[2:] or parts:
            parts[name](bench, checks)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

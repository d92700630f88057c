# SPDX-License-Identifier: Apache-2.0
"""Targets that start, end, exec, fork, stop, crash, or belong to another user.

usage: test_lifecycle.py BUILD
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from kit.harness import Bench, Checks, Samples, as_user, read_until


CROWD = 3000


class Daemon:
    """A daemon and its command line."""

    def __init__(self, bench, name, as_nobody=False, agent=None):
        self.bench, self.as_nobody = bench, as_nobody
        self.agent = agent or bench.agent
        self.child, self.socket = bench.daemon(name, as_nobody=as_nobody,
                                               agent=agent)

    def call(self, *arguments):
        return subprocess.run(
            as_user([self.agent, "--socket", self.socket, *arguments],
                    self.as_nobody), capture_output=True, text=True,
            timeout=60)

    def path(self, pid):
        """Of a slice, where the daemon's user may write."""
        return os.path.join(os.path.dirname(self.socket), f"{pid}.fgt")

    def samples(self, pid, last="5s"):
        """The target's samples, or None with the error printed."""
        fgt = self.path(pid)
        result = self.call("slice", "--last", last, "-p", str(pid), "-o", fgt)
        if result.returncode == 0:
            result = self.bench.run("convert", fgt, "-o", fgt + ".envelope",
                                    "-f", "sentry")
        if result.returncode != 0:
            print("#", result.stderr.strip())
            return None
        return Samples(fgt + ".envelope")


def start(bench, *arguments):
    child = bench.start([bench.program("lifecycle"), *arguments],
                        stdout=subprocess.PIPE, text=True)
    return child, int(read_until(child.stdout, "ready "))


def process_state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def check_kill_of_many_threads(bench, checks, daemon):
    """Threads that were sampled for seconds are not brief ones when the
    kernel is done with them after the tick that found them ended."""
    child = bench.start([bench.program("crowd"), "0", str(CROWD), "5", "60"],
                        stdout=subprocess.PIPE, text=True)
    pid = str(int(child.stdout.readline().split()[1]))
    daemon.call("attach", pid)
    time.sleep(2)
    child.kill()
    child.wait()
    time.sleep(0.5)
    result = daemon.call("slice", "-p", pid, "--last", "2s", "--json")
    counted = json.loads(result.stdout)["brief_threads"] \
        if result.returncode == 0 else result.stderr
    checks.ok(f"{CROWD} threads that are killed were not brief ones",
              counted == 0, counted)


def check_one_ring(checks, daemon, pid, what):
    """Returns the samples of a program that has executed itself again."""
    daemon.call("attach", str(pid))
    time.sleep(3.5)
    samples = daemon.samples(pid)
    functions = samples.functions() if samples else set()
    checks.ok(f"exec: {what}",
              {"before_exec_work", "after_exec_work"} <= functions,
              str(sorted(functions)))
    return samples


def check_fork_and_exec(bench, checks, daemon):
    child, pid = start(bench, "fork", "1", "3")
    daemon.call("attach", str(pid))
    time.sleep(2)
    samples = daemon.samples(pid)
    functions = samples.functions() if samples else set()
    checks.ok("fork: the parent's ring holds the parent only",
              "parent_work" in functions and "child_work" not in functions,
              str(sorted(functions)))
    child.wait()
    child, pid = start(bench, "exec", "1", "2")
    samples = check_one_ring(checks, daemon, pid,
                             "work before and after it is seen in one ring")
    stacks = [s for t in samples.by_thread.values() for _, s in t] \
        if samples else []
    complete = sum(not any(f.startswith("[truncated") for f in s)
                   for s in stacks)
    checks.ok("exec: stacks are complete on both sides of it",
              stacks and complete >= 0.95 * len(stacks),
              f"{complete} of {len(stacks)}")


def check_stop(bench, checks, daemon):
    child, pid = start(bench, "fork", "1", "30")
    daemon.call("attach", str(pid))
    time.sleep(0.5)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    checks.ok("stop: a stopped target stays stopped",
              process_state(pid) == "T", process_state(pid))
    samples = daemon.samples(pid, "1s")
    states = {s[-1] for t in samples.by_thread.values() for _, s in t} \
        if samples else set()
    checks.ok("stop: stopped target is shown as stopped", "stopped" in states,
              str(states))
    os.kill(pid, signal.SIGCONT)
    time.sleep(1)
    samples = daemon.samples(pid, "500ms")
    checks.ok("stop: continued target is shown as running",
              samples is not None and
              samples.share("lifecycle", "parent_work") > 0.5 and
              {s[-1] for t in samples.by_thread.values()
               for _, s in t} != {"stopped"}, "")
    subprocess.run(["pkill", "-9", "-P", str(pid)], check=False)
    child.kill()
    child.wait()


def check_death(bench, checks, daemon):
    """Fault X2: the ring of a process outlives it."""
    child, pid = start(bench, "sleepers", "3", "60")
    daemon.call("attach", str(pid))
    time.sleep(1.2)
    child.kill()
    time.sleep(0.3)
    attach = daemon.call("attach", str(pid))
    checks.ok("death: a zombie is refused in one line",
              attach.returncode != 0 and
              attach.stderr.count("\n") == 1, attach.stderr)
    child.wait()
    time.sleep(0.5)
    samples = daemon.samples(pid, "5s")
    checks.ok("death: last seconds can be sliced after the end",
              samples is not None and
              "never_runs_again" in samples.functions(), "no slice")
    targets = daemon.call("targets")
    checks.ok("death: targets lists it as ended",
              str(pid) in targets.stdout and "ended" in targets.stdout,
              targets.stdout)
    clock = r"\d\d:\d\d:\d\d"
    checks.ok("death: targets shows from when to when it was sampled",
              re.search(rf" {pid} .* {clock} to .*{clock}, ended( by SIGKILL)?$",
                        targets.stdout, re.M), targets.stdout)


def check_signal(bench, checks, daemon):
    """The signal that ended a target has its name in all answers."""
    for name, arguments, number in (("SIGSEGV", ("sleepers", "3", "60"), 11),
                                    ("exit", ("sleepers", "3", "2"), 0)):
        child, pid = start(bench, *arguments)
        daemon.call("attach", str(pid))
        time.sleep(1.2)
        if number:
            os.kill(pid, number)
        child.wait()
        for _ in range(100):
            target = next(t for t in json.loads(daemon.call(
                "targets", "--json").stdout)["targets"] if t["pid"] == pid)
            if target["ended_ns"] and "ended_by" in target or not number:
                break
            time.sleep(0.1)
        time.sleep(1.5 if not number else 0)
        stacks, why = (daemon.call(verb, "-p", str(pid)) for verb in
                       ("stacks", "why"))
        fgt = daemon.path(pid)
        daemon.call("slice", "-p", str(pid), "-q", "-o", fgt)
        texts = {"stacks": stacks.stdout, "why": why.stdout,
                 "the note": stacks.stderr,
                 "stacks of a file": bench.run("stacks", fgt).stdout,
                 "targets": daemon.call("targets").stdout.split(
                     f" {pid} ")[1].split("\n")[0]}
        found = {verb: json.loads(daemon.call(
            verb, "-p", str(pid), "--json").stdout).get("ended_by")
            for verb in ("stacks", "why", "slice")}
        if number:
            checks.ok("signal: has its name in texts",
                      all("ended by SIGSEGV" in text for text in
                          texts.values()), texts)
            checks.ok("signal: has its name in JSON",
                      target.get("ended_by") == name and
                      set(found.values()) == {name}, (target, found))
        else:
            checks.ok("signal: one that exits was ended by none",
                      not any("ended by" in text for text in texts.values())
                      and set(found.values()) == {None}, (texts, found))


def check_sleepers(bench, checks, daemon):
    """All threads are seen, also those without measurable CPU time."""
    child, pid = start(bench, "sleepers", "200", "8")
    time.sleep(0.5)
    daemon.call("attach", str(pid))
    time.sleep(2)
    samples = daemon.samples(pid, "1s")
    fgt = daemon.path(pid)
    out = bench.run("convert", fgt, "-o", bench.path("s.json"), "-f", "sentry")
    threads = set()
    if out.returncode == 0:
        with open(bench.path("s.json"), "rb") as file:
            body = json.loads(file.read().split(b"\n")[4])
        threads = set(body["profile"]["thread_metadata"])
    blocked = samples and sum("never_runs_again" in s for t in
                              samples.by_thread.values() for _, s in t)
    total = samples.count if samples else 0
    checks.ok("sleepers: all 201 threads are in the slice",
              len(threads) == 201, f"{len(threads)}")
    checks.ok("sleepers: each thread has its stack", total and
              blocked >= 0.99 * total * 200 / 201, f"{blocked} of {total}")
    child.kill()
    child.wait()


def check_names(bench, checks, daemon):
    child, pid = start(bench, "names", "1", "12")
    daemon.call("attach", str(pid))
    time.sleep(2)
    samples = daemon.samples(pid, "1s")
    names = set(samples.by_thread) if samples else set()
    checks.ok("names: hostile thread names are complete",
              {"a) R 1 (b", "new\nline", "ü;<x>\"\\"} <= names, str(names))
    targets = daemon.call("targets")
    checks.ok("names: thread names never break a line of text",
              "\033" not in targets.stdout, repr(targets.stdout[:200]))
    child.kill()
    child.wait()


def check_other_users(bench, checks):
    folder = bench.copy_for_nobody()
    daemon = Daemon(bench, "nobody", True, f"{folder}/fgtrace-agent")
    child, pid = start(bench, "sleepers", "1", "20")
    attach = daemon.call("attach", str(pid))
    checks.ok("permission: another user's process is refused with a remedy",
              attach.returncode == 4 and attach.stderr.count("\n") == 1,
              f"{attach.returncode} {attach.stderr}")
    child.kill()
    child.wait()
    program = shutil.copy2(bench.program("lifecycle"), folder)
    os.chmod(program, 0o755)
    child = bench.start([program, "exec", "1", "2"], stdout=subprocess.PIPE,
                        text=True, as_nobody=True)
    check_one_ring(checks, daemon, int(read_until(child.stdout, "ready ")),
                   "an ordinary user's agent shows it what came before, too")
    child.wait()


def check_pid_reuse(bench, checks, daemon):
    """Fault X1: another process with the same pid is not recorded in the old ring."""
    for _ in range(20):
        child, pid = start(bench, "sleepers", "1", "60")
        daemon.call("attach", str(pid))
        time.sleep(0.6)
        child.kill()
        child.wait()
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                file.write(str(pid - 1))
        except OSError:
            print("# pid reuse cannot be provoked here")
            return
        again, second = start(bench, "fork", "1", "4")
        if second == pid:
            break
        subprocess.run(["pkill", "-9", "-P", str(second)], check=False)
        again.kill()
        again.wait()
    else:
        checks.ok("pid reuse: pid was used again", False, "20 attempts")
        return
    time.sleep(1)
    samples = daemon.samples(pid, "10s")
    checks.ok("pid reuse: the old ring never shows the new process",
              samples is not None and
              "parent_work" not in samples.functions(), "")
    daemon.call("attach", str(pid))
    time.sleep(1)
    samples = daemon.samples(pid, "500ms")
    checks.ok("pid reuse: the new process can be attached",
              samples is not None and "parent_work" in samples.functions(),
              "")
    again.wait()


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    try:
        daemon = Daemon(bench, "root")
        check_kill_of_many_threads(bench, checks, daemon)
        check_fork_and_exec(bench, checks, daemon)
        check_stop(bench, checks, daemon)
        check_death(bench, checks, daemon)
        check_signal(bench, checks, daemon)
        check_sleepers(bench, checks, daemon)
        check_names(bench, checks, daemon)
        check_pid_reuse(bench, checks, daemon)
        if os.getuid() == 0:
            check_other_users(bench, checks)
        checks.ok("daemon still answers",
                  daemon.call("status").returncode == 0, "no status")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

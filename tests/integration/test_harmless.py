# SPDX-License-Identifier: Apache-2.0
"""A sampled program behaves as one that is not.

usage: test_harmless.py BUILD [SECONDS]

The probe of 17 blocking calls runs under a daemon, as root and as an ordinary
user. Programs that fork, exec, get signals, stop and die must print and return
the same as without a sampler.
"""
import os
import subprocess
import sys
import time

from kit.harness import Bench, Checks, as_user, read_until

BEHAVIOURS = (["fork"], ["exec", "30"], ["signals"], ["stop"], ["threads"],
              ["segv"], ["abort"], ["exit"])


def agent(binary, socket, as_nobody, *arguments):
    return subprocess.run(
        as_user([binary, "--socket", socket, *arguments], as_nobody),
        capture_output=True, text=True, timeout=60)


def check_blockers(checks, who, folder, socket, as_nobody, seconds):
    probe = subprocess.Popen(
        as_user([f"{folder}/blockers", str(seconds)], as_nobody),
        stdout=subprocess.PIPE, text=True)
    pid = read_until(probe.stdout, "ready ")
    attach = agent(f"{folder}/fgtrace-agent", socket, as_nobody, "attach", pid)
    checks.ok(f"{who}: probe attached", attach.returncode == 0, attach.stderr)
    lines = probe.stdout.read().strip().split("\n")
    probe.wait()
    for line in lines:
        name, _, calls, _, early, _, eintr, _, wrong = line.split()
        checks.ok(f"{who}: {name} undisturbed in {calls} calls",
                  int(calls) > 0 and early == eintr == wrong == "0", line)
    sliced = agent(f"{folder}/fgtrace-agent", socket, as_nobody, "slice",
                   "--last", "3s", "-p", pid, "-f", "folded", "-o", "-")
    checks.ok(f"{who}: probe was sampled",
              "block_epoll_wait" in sliced.stdout and
              "block_sigtimedwait" in sliced.stdout,
              sliced.stderr or sliced.stdout[:200])


def behave(folder, arguments, as_nobody):
    return subprocess.Popen(
        as_user([f"{folder}/behave", *arguments], as_nobody),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def check_behaviours(checks, who, folder, socket, as_nobody):
    for arguments in BEHAVIOURS:
        alone = behave(folder, arguments, as_nobody)
        alone_text, _ = alone.communicate(timeout=120)
        sampled = behave(folder, arguments, as_nobody)
        time.sleep(0.05)
        attach = agent(f"{folder}/fgtrace-agent", socket, as_nobody, "attach",
                       str(sampled.pid), "--children")
        sampled_text, _ = sampled.communicate(timeout=120)
        checks.ok(f"{who}: {arguments[0]} as without a sampler",
                  attach.returncode == 0 and
                  sampled_text == alone_text and
                  sampled.returncode == alone.returncode,
                  f"attach {attach.returncode} {attach.stderr.strip()}; "
                  f"alone {alone.returncode} {alone_text!r}, "
                  f"sampled {sampled.returncode} {sampled_text!r}")


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    try:
        folder = bench.copy_for_nobody()
        for as_nobody in (False, True):
            if as_nobody and os.getuid() != 0:
                continue
            who = "ordinary user" if as_nobody else "root"
            daemon, socket = bench.daemon(
                "nobody" if as_nobody else "root", as_nobody=as_nobody,
                agent=f"{folder}/fgtrace-agent")
            check_blockers(checks, who, folder, socket, as_nobody, seconds)
            check_behaviours(checks, who, folder, socket, as_nobody)
            checks.ok(f"{who}: daemon still runs",
                      daemon.poll() is None, "it ended")
            daemon.terminate()
            checks.ok(f"{who}: daemon ends after SIGTERM",
                      daemon.wait(6) == 0, f"status {daemon.returncode}")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Recording where perf events are forbidden: by ptrace, and harmless.

usage: test_without_perf.py BUILD [SECONDS]

The agent runs under a seccomp filter that refuses perf_event_open, as in most
containers, as root and as an ordinary user.
"""
import json
import os
import shutil
import subprocess
import sys

from kit.harness import Bench, Checks, Samples, as_user, read_until

LIMIT = 0.05


def copy_programs(bench):
    folder = bench.copy_for_nobody()
    for name in ("without_perf", "scenes"):
        shutil.copy2(bench.program(name), folder)
        os.chmod(f"{folder}/{name}", 0o755)
    return folder


def record(folder, as_nobody, *arguments):
    return subprocess.run(
        as_user([f"{folder}/without_perf", f"{folder}/fgtrace-agent",
                 "record", *arguments], as_nobody),
        capture_output=True, text=True, timeout=120, check=False)


def out_folder(bench, who):
    out = bench.path(who.replace(" ", "-"))
    os.makedirs(out, exist_ok=True)
    os.chmod(out, 0o777)
    return out


def check_running(checks, who, truth, samples):
    """Threads are shown running as often as they used a CPU; ticks in which
    a thread waits for a CPU may show as running, too."""
    for thread in truth["threads"]:
        name = thread["name"]
        total = sum(step["ns"] for step in thread["steps"])
        least = sum(step["cpu_ns"] for step in thread["steps"]) / total
        most = max(least, sum(step["ns"] for step in thread["steps"]
                              if step["state"] == "running") / total)
        stacks = [stack for _, stack in samples.by_thread.get(name, [])]
        seen = sum(stack[-1] == "running" for stack in stacks) \
            / max(1, len(stacks))
        checks.ok(f"{who}: {name} is shown running as often as it ran",
                  least - LIMIT <= seen <= most + LIMIT,
                  f"{100 * seen:.1f} % seen, {100 * least:.1f} % to "
                  f"{100 * most:.1f} % true")


def check_stacks(checks, who, samples):
    total = cut = without = 0
    for stacks in samples.by_thread.values():
        for _, stack in stacks:
            total += 1
            cut += any(frame.startswith("[truncated") for frame in stack)
            without += any(frame.startswith("[not sampled")
                           for frame in stack)
    checks.ok(f"{who}: 95 % of {total} stacks complete",
              total > 0 and cut <= total * 0.05, f"{cut} truncated")
    print(f"# {who}: {without} of {total} ticks without their own stack")


def check_busy(bench, checks, who, folder, as_nobody):
    """A thread that keeps its CPU is sampled by stops. It is stopped more often
    the fewer other threads want that CPU."""
    out = out_folder(bench, who)
    child = bench.start([f"{folder}/scenes", "busy"], as_nobody)
    result = record(folder, as_nobody, "-d", "5", "-p", str(child.pid), "-o",
                    f"{out}/busy.folded")
    child.kill()
    counts = [0, 0]
    with open(f"{out}/busy.folded", encoding="utf-8") as lines:
        for line in lines:
            counts["burn_ms" in line and "[not sampled" not in line] += \
                int(line.split()[-1])
    checks.ok(f"{who}: thread that keeps its CPU has a stack",
              result.returncode == 0 and counts[1] > 0,
              f"{counts[1]} of {sum(counts)} {result.stderr}")
    print(f"# {who}: {counts[1]} of {sum(counts)} ticks of a busy thread have "
          "their own stack")


def check_truth(bench, checks, who, folder, as_nobody, seconds):
    out = out_folder(bench, who)
    child = bench.start([f"{folder}/truth-fp", "shares", str(seconds + 2)],
                        as_nobody, stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    result = record(folder, as_nobody, "-d", str(seconds), "-p", pid, "-o",
                    f"{out}/slice.fgt")
    if not checks.ok(f"{who}: recording succeeds", result.returncode == 0,
                     result.stderr):
        return
    bench.run("convert", f"{out}/slice.fgt", "-o", f"{out}/slice.envelope",
              "--state-frames", "root")
    truth = json.loads("{" + read_until(child.stdout, "{"))
    child.wait()
    samples = Samples(f"{out}/slice.envelope")
    check_running(checks, who, truth, samples)
    check_stacks(checks, who, samples)


def check_status(bench, checks, who, folder, as_nobody):
    """A busy command is stopped many times: recording must not end then."""
    out = out_folder(bench, who)
    alone = subprocess.run(as_user([f"{folder}/behave", "exit"], as_nobody),
                           capture_output=True, text=True, check=False)
    result = record(folder, as_nobody, "-o", f"{out}/exit.folded", "--",
                    f"{folder}/behave", "exit")
    checks.ok(f"{who}: status of the command is passed on",
              result.returncode == alone.returncode,
              f"{result.returncode}, not {alone.returncode}: {result.stderr}")
    script = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; exit 33"
    result = record(folder, as_nobody, "-o", f"{out}/busy.folded", "--",
                    "sh", "-c", script)
    checks.ok(f"{who}: a busy command is recorded to its end",
              result.returncode == 33 and "still runs" not in result.stderr,
              f"{result.returncode}: {result.stderr}")


def check_not_enabled(bench, checks):
    """Events that open, but cannot be switched on."""
    child = bench.start([bench.program("scenes"), "busy"])
    folded = bench.path("not-enabled.folded")
    result = subprocess.run(
        # strace makes only this call slow, which does not matter here.
        ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e",
         "trace=ioctl", "-e", "inject=ioctl:error=EACCES:when=1", bench.agent,
         "record", "-d", "3", "--max-cpu", "0", "-p", str(child.pid), "-o",
         folded],
        capture_output=True, text=True, timeout=60, check=False)
    child.kill()
    text = ""
    if os.path.exists(folded):
        with open(folded, encoding="utf-8") as file:
            text = file.read()
    checks.ok("ptrace replaces events that cannot be switched on",
              result.returncode == 0 and "burn_ms" in text,
              f"{result.returncode} {result.stderr} {text[:300]}")


def check_harmless(bench, checks, who, folder, as_nobody, mode, seconds):
    out = out_folder(bench, who)
    probe = bench.start([f"{folder}/blockers", str(seconds + 2), *mode], as_nobody,
                        stdout=subprocess.PIPE, text=True)
    pid = read_until(probe.stdout, "ready ")
    result = record(folder, as_nobody, "-d", str(seconds), "-p", pid,
                    "-o", f"{out}/probe.folded")
    checks.ok(f"{who}: records the probe {' '.join(mode)}",
              result.returncode == 0, result.stderr)
    for line in probe.stdout.read().strip().split("\n"):
        name, _, calls, _, early, _, eintr, _, wrong = line.split()
        checks.ok(f"{who}: {name} undisturbed in {calls} calls",
                  int(calls) > 0 and early == eintr == wrong == "0", line)
    probe.wait()


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    try:
        folder = copy_programs(bench)
        if os.getuid() == 0:
            check_not_enabled(bench, checks)
        for as_nobody in (False, True):
            if as_nobody and os.getuid() != 0:
                continue
            who = "ordinary user" if as_nobody else "root"
            check_truth(bench, checks, who, folder, as_nobody, seconds)
            check_busy(bench, checks, who, folder, as_nobody)
            check_status(bench, checks, who, folder, as_nobody)
            for mode in ([], ["spin"]):
                check_harmless(bench, checks, who, folder, as_nobody, mode,
                               seconds)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Programs that record themselves: LD_PRELOAD=libfgtrace.so FGTRACE_OUT=FILE.

usage: test_embedded.py BUILD [SECONDS [--short] [PART…]]

Real programs behave as without it, slices agree with what programs record about
themselves, no call ends early; as root and as an ordinary user. With --short
only two scenarios are compared.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from kit.harness import Bench, Checks, read_until, slack_of
from kit.stage import Stage
from kit.truth_record import record_embedded
from test_truth import check_scenario

# Limits for a recording of 12 s or more.
USUAL_SECONDS = 12
PROGRAMS = ("truth-fp", "truth-nofp", "blockers", "crowd", "throwers")
CROWD = 200
# The kernel looks at timers on CPU time at its own ticks: a sample is some
# milliseconds late, an error that shows in phases as short as these.
LIMITS = {"shares": 0.025, "bursts": 0.025, "kinds": 0.02, "callers": 0.015,
          "pool": 0.03, "pair": 0.04}
# Time-outs of sockets end with a tick of the kernel: work after one that ends
# before the next tick is never seen by a timer.
IN_STEP_WITH_KERNEL = {"recv"}


# ---- Truth ----------------------------------------------------------------

def compare_truth(checks, stage, variant, scenario, seconds, as_nobody):
    who = "nobody" if as_nobody else "root"
    tag = f"{variant} {scenario} as {who}"
    truth, fgt = record_embedded(stage, variant, scenario, seconds, as_nobody)
    samples = stage.samples(fgt)
    truth["threads"] = [thread for thread in truth["threads"]
                        if thread["name"] not in IN_STEP_WITH_KERNEL]
    # As for any ordinary user: no source reports which threads wait for a CPU.
    check_scenario(checks, tag, scenario, truth, samples, LIMITS[scenario] *
                   slack_of(seconds, USUAL_SECONDS), True)


# ---- Programs that must not change ----------------------------------------

def check_blockers(checks, stage, as_nobody, *arguments):
    who = "nobody" if as_nobody else "root"
    out = stage.path(f"blockers-{who}.fgt")
    result = stage.run([stage.program("blockers"), "4", *arguments], out,
                       as_nobody, hz=1000)
    kind = " ".join(arguments) or "17 calls"
    checks.ok(f"{kind} at 1000 Hz as {who}: no call ends early or with EINTR",
              result.returncode == 0, result.stdout + result.stderr)
    checks.ok(f"{kind} at 1000 Hz as {who}: program is recorded",
              os.path.exists(out), result.stderr)


def check_throwers(checks, stage):
    out = stage.path("throwers.folded")
    result = stage.run([stage.program("throwers"), "4"], out, hz=1000)
    checks.ok("C++ exceptions at 1000 Hz reach their handlers",
              result.returncode == 0, result.stdout + result.stderr)
    with open(out) as file:
        text = file.read()
    checks.ok("C++ stacks have demangled names",
              "rethrow(unsigned int)" in text, text[-500:])


def check_crowd(checks, stage):
    out = stage.path("crowd.fgt")
    child = stage.start(
        [stage.program("crowd"), "1", str(CROWD), "10", "60"], out)
    read_until(child.stdout, "ready ")
    began = time.monotonic(), cpu_seconds(child.pid)
    time.sleep(4)
    had = (cpu_seconds(child.pid) - began[1]) / (time.monotonic() - began[0])
    child.send_signal(signal.SIGUSR2)
    is_there = wait_for(out)
    checks.ok("SIGUSR2 writes a slice", is_there and child.poll() is None)
    child.terminate()
    child.communicate()
    if not is_there:
        return
    samples = stage.samples(out)
    counts = [len(s) for s in samples.by_thread.values()]
    states = {}
    for stacks in samples.by_thread.values():
        for _, stack in stacks:
            states[stack[-1]] = states.get(stack[-1], 0) + 1
    checks.ok(f"{CROWD} blocked threads are all there",
              sum(counts) >= CROWD * 3 * 101, f"{sum(counts)} samples")
    # Where other programs take its CPU, it waits for one; so may the sampler.
    seen = max(1, sum(states.values()) - states.get("[gap: no samples]", 0))
    runs = states.get("running", 0) / seen
    busy = runs + states.get("runnable", 0) / seen
    checks.ok("one thread runs, the others are blocked",
              0.5 / CROWD < busy < 2.5 / CROWD and runs > had / 2 / CROWD,
              f"{states}, {had:.2f} of a CPU")
    checks.ok("no thread of the library is in the slice", not
              {"fgt-sampler", "fgt-library"} & set(samples.by_thread),
              str(set(samples.by_thread)))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def has_handler(pid, number):
    with open(f"/proc/{pid}/status") as file:
        caught = re.search(r"^SigCgt:\s*(\S+)", file.read(), re.M)
    return int(caught[1], 16) >> (number - 1) & 1


def check_early_signal(checks, stage):
    """SIGUSR2 as soon as there is a handler: the recorder starts later."""
    out = stage.path("early.folded")
    child = stage.start(
        [stage.program("crowd"), "1", "2", "10", "60"], out)
    while not has_handler(child.pid, signal.SIGUSR2) and child.poll() is None:
        pass
    child.send_signal(signal.SIGUSR2)
    is_there = wait_for(out)
    checks.ok("SIGUSR2 during the start writes a slice",
              is_there and child.poll() is None)
    child.terminate()
    child.communicate()


def wait_for(path, seconds=10):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.path.exists(path):
            return True
        time.sleep(0.05)
    return False


def check_redis(checks, stage):
    if not shutil.which("redis-server"):
        return
    out, sock = stage.path("redis.trace.json"), stage.path("redis.sock")
    child = stage.start(
        ["redis-server", "--port", "0", "--unixsocket", sock, "--save", "",
         "--dir", stage.out, "--logfile", stage.path("redis.log")], out)
    wait_for(sock)
    load = subprocess.run(
        ["redis-benchmark", "-s", sock, "-n", "150000", "-q", "-t",
         "set,get,lpush"], capture_output=True, text=True, timeout=120)
    child.terminate()
    _, error = child.communicate(timeout=30)
    checks.ok("redis-server serves, and ends normally",
              load.returncode == 0 and child.returncode == 0, error)
    if not checks.ok("redis-server leaves a trace", os.path.exists(out),
                     error):
        return
    with open(out) as file:
        text = file.read()
    json.loads(text)
    checks.ok("redis-server's functions are in it",
              "aeMain" in text and "bio" in text
              and "epoll_wait" in text, text[:300])


PYTHON = """
import os, subprocess, sys, threading, time
def spin(until):
    while time.monotonic() < until:
        sum(range(1000))
threads = [threading.Thread(target=spin, args=(time.monotonic() + 1,))
           for _ in range(3)]
[t.start() for t in threads]
# Long enough for two ticks also where Python starts within one.
answer = "import time; time.sleep(0.1); print(6 * 7)"
children = [subprocess.run([sys.executable, "-c", answer],
            capture_output=True, text=True) for _ in range(3)]
pid = os.fork()
if pid == 0:
    sys.exit(7)
_, status = os.waitpid(pid, 0)
[t.join() for t in threads]
print([c.stdout.strip() for c in children], [c.stderr for c in children],
      os.waitstatus_to_exitcode(status))
try:
    os.waitpid(-1, os.WNOHANG)
    print("a child too many")
except ChildProcessError:
    print("no other child")
"""


def check_python(checks, stage):
    out = stage.path("python.folded")
    result = stage.run([sys.executable, "-c", PYTHON], out)
    checks.ok("python3 with threads and children behaves as without us",
              result.stdout == "['42', '42', '42'] ['', '', ''] 7\n"
              "no other child\n" and result.returncode == 0,
              result.stdout + result.stderr)
    with open(out) as file:
        text = file.read()
    checks.ok("the slice is the program's, not one of its children's",
              "PyEval" in text or "Py_RunMain" in text, text[:300])
    result = stage.run([sys.executable, "-c", PYTHON],
                       stage.path("python-%p.folded"))
    files = [n for n in os.listdir(stage.out)
             if re.fullmatch(r"python-\d+\.folded", n)]
    checks.ok("with %p each process has a separate file", len(files) >= 2,
              f"{files} {result.stderr}")


def check_settings(checks, stage):
    result = stage.run(["/bin/true"], stage.path("x.unknown"))
    checks.ok("name without a known format is logged, and the program runs",
              result.returncode == 0 and ".trace.json" in result.stderr,
              result.stderr)
    alone = {**os.environ,
             "LD_PRELOAD": f"{stage.library}/libfgtrace.so.0"}
    result = subprocess.run(["/bin/cat", "/proc/self/maps"], env=alone,
                            capture_output=True, text=True)
    checks.ok("without FGTRACE_OUT nothing is loaded",
              result.returncode == 0 and "embed" not in result.stdout
              and "libfgtrace" in result.stdout, result.stderr)
    broken = stage.path("broken")
    os.makedirs(f"{broken}/fgtrace")
    shutil.copy(f"{stage.library}/libfgtrace.so.0", broken)
    with open(f"{broken}/fgtrace/libfgtrace-embed.so", "w") as file:
        file.write("not a library\n")
    result = subprocess.run(
        ["/bin/true"], capture_output=True, text=True, env={
            **os.environ, "FGTRACE_OUT": stage.path("broken.fgt"),
            "LD_PRELOAD": f"{broken}/libfgtrace.so.0"})
    checks.ok("the program runs and logs why the recorder cannot be loaded",
              result.returncode == 0 and
              "cannot be loaded (" in result.stderr and
              "libfgtrace-embed.so: " in result.stderr, result.stderr)
    out = stage.path("seconds.fgt")
    os.environ["FGTRACE_SECONDS"] = "1"
    stage.run(["/bin/sleep", "3"], out)
    del os.environ["FGTRACE_SECONDS"]
    samples = stage.samples(out)
    span = max(s[-1][0] for s in samples.by_thread.values())
    checks.ok("slice reaches back FGTRACE_SECONDS",
              0.5e9 < span < 2.5e9, f"{span / 1e9} s")


def check_folders(checks, stage):
    """An unwritable folder is reported when the program starts."""
    shut, file = stage.path("shut"), stage.path("file")
    os.mkdir(shut, 0o755)
    os.chown(shut, 0, 0) if os.getuid() == 0 else os.chmod(shut, 0o555)
    with open(file, "w", encoding="utf-8"):
        os.chmod(file, 0o755)
    for folder, cause, remedy in (
            (shut, "Permission denied", "let this user write"),
            (stage.path("none"), "No such file", "create the directory"),
            (f"{file}/below", "Not a directory", "use a directory")):
        result = stage.run(["/bin/sleep", "0.3"], f"{folder}/x.fgt",
                           as_nobody=True)
        line = result.stderr.split("\n", maxsplit=1)[0]
        checks.ok(f"{cause}: first line of the log has the cause and the "
                  f"remedy",
                  result.returncode == 0 and remedy in line and
                  line.startswith(f"fgtrace: {folder}: {cause}"),
                  result.stderr)


def check_users(checks, stage, seconds, is_short):
    for as_nobody in (False, True):
        for scenario in ["shares"] if is_short else LIMITS:
            compare_truth(checks, stage, "nofp", scenario, seconds, as_nobody)
    if not is_short:
        compare_truth(checks, stage, "fp", "kinds", seconds, True)


def check_calls(checks, stage):
    for as_nobody in (False, True):
        check_blockers(checks, stage, as_nobody)
        check_blockers(checks, stage, as_nobody, "spin")


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else USUAL_SECONDS
    wanted = [part for part in sys.argv[3:] if part != "--short"]
    is_short = "--short" in sys.argv
    parts = {"settings": check_settings, "folders": check_folders,
             "throwers": check_throwers,
             "crowd": check_crowd, "early": check_early_signal,
             "redis": check_redis, "python": check_python,
             "calls": check_calls,
             "truth": lambda *both: check_users(*both, seconds, is_short)}
    try:
        stage = Stage(bench, PROGRAMS)
        for name, check in parts.items():
            if not wanted or name in wanted:
                check(checks, stage)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Programs that choose the numbers of their descriptors, or close those that
they did not open, while they record themselves. Their own files stay
undamaged, and the programs end. test_descriptors.py BUILD"""
import os
import re
import resource
import subprocess
import sys

from kit.daemon_bench import Daemon
from kit.harness import Bench, Checks
from kit.library_bench import Host, Installation

PATIENCE_S = 20

# Closes all descriptors, then checks that its pipes work, and that its child
# has them.
CLOSER = """
import os, sys, time
time.sleep(0.3)
os.closerange(3, int(sys.argv[1]))
pipes = [os.pipe() for _ in range(40)]
for read, write in pipes:
    os.write(write, b"x" * 64)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    sum(range(1000))
lost = [read for read, write in pipes if len(os.read(read, 99)) != 64]
child = os.fork()
if not child:
    for pair in pipes:
        list(map(os.fstat, pair))
    os._exit(0)
print(lost, os.waitpid(child, 0)[1])
"""


# Puts its own files under all numbers, also those of the recorder. dup2 fails
# with EBUSY while an open(2) of another thread gets the same number.
TAKER = """
import os, time
def take(source, number):
    for attempt in range(100):
        try:
            return os.dup2(source, number)
        except OSError as error:
            if error.errno != 16:
                raise
time.sleep(0.3)
os.closerange(3, 4096)
pipe = os.pipe()
taken = range(pipe[1] + 1, 1024)
for number in taken:
    take(pipe[0], number)
time.sleep(0.2)
child = os.fork()
if not child:
    lost = 0
    for number in taken:
        try:
            os.fstat(number)
        except OSError:
            lost += 1
    os._exit(lost > 0)
print(os.waitpid(child, 0)[1])
"""


def run(bench, name, command):
    """Its output, None if it does not end; and its folded stacks."""
    out = bench.path(f"{name}.folded")
    try:
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=PATIENCE_S, cwd=bench.scratch,
            env={**os.environ, "FGTRACE_OUT": out,
                 "LD_PRELOAD": f"{bench.build}/libfgtrace.so.0"})
    except subprocess.TimeoutExpired:
        return None, ""
    if not os.path.exists(out):
        return result.stdout, ""
    with open(out) as file:
        return result.stdout, file.read()


def scripts(checks, bench):
    with open(bench.path("two"), "w") as file:
        file.write("one\ntwo\n")
    os.mkfifo(bench.path("fifo"))
    wrong = []
    for number in range(3, 31):
        text, _ = run(bench, "reads", [
            "bash", "-c", f"exec {number}<two; sleep 0.15; cat <&{number}; "
            f"(cat <&{number}; echo sub) 2>&1"])
        if text != "one\ntwo\nsub\n":
            wrong.append((number, text))
    checks.ok("script reads from the descriptor that it chose",
              not wrong, wrong)
    text, _ = run(bench, "writes", [
        "bash", "-c", "exec 5>lines; sleep 0.15; echo a >&5; (echo b >&5); "
        "ls two >&5; cat lines"])
    checks.ok("script writes to the descriptor that it chose",
              text == "a\nb\ntwo\n", text)
    text, stacks = run(bench, "waits", [
        "bash", "-c", "exec 4<>fifo; sleep 0.3; read -t 0.3 -u 4 line; "
        "echo end"])
    checks.ok("recorder's threads do not wait for the script's FIFO",
              text == "end\n" and stacks != "", (text, stacks))


def daemons(checks, bench):
    for end in (64, 256, 5000):
        text, stacks = run(bench, f"closes.{end}",
                           [sys.executable, "-c", CLOSER, str(end)])
        checks.ok(f"program that closes 3 to {end} keeps what it opens",
                  text == "[] 0\n", text)
        checks.ok(f"program that closes 3 to {end} keeps its stacks",
                  "_PyEval" in stacks,
                  stacks[:300])


def reuse(checks, bench):
    text, _ = run(bench, "takes", [sys.executable, "-c", TAKER])
    checks.ok("child keeps its files at the numbers of the recorder's",
              text and text.startswith("0\n"), text)


def read(path):
    with open(path) as file:
        return file.read()


def descriptors_of(pid, least=256):
    """Files at numbers of at least this; each memfd is listed once."""
    names = []
    for number in map(int, os.listdir(f"/proc/{pid}/fd")):
        if number < least:
            continue
        name = os.readlink(f"/proc/{pid}/fd/{number}")
        if "memfd" not in name or name not in names:
            names.append(name)
    return names


def recording_goes_on(checks, bench):
    """Threads, stacks and spans of what a program does after it has closed all
    descriptors that it did not open."""
    program, why = Installation(bench).compile("host.c", "host", ["cc"],
                                               "-std=c99", "-pedantic")
    if not program:
        raise RuntimeError(why)
    daemon = Daemon(bench, "closed")
    for mode in ("embedded", "agent"):
        host = Host(bench, program)
        host.start(daemon.socket, mode)
        host.ask("load")
        host.ask("burn 1500")  # until their files are open
        host.ask("close")
        host.ask("burn 2500")  # the recorder looks for its files once a second
        host.ask("span after_closing")
        host.ask("burn 100")
        out = bench.path(f"closed.{mode}")
        result = host.ask(f"write 1000 {out}")
        checks.ok(f"{mode}: slices are written after the program closed all",
                  result == [0] * 9, (result, host.ask("status")))
        stacks = re.findall(r"main;.*burn_in_host.* (\d+)$",
                            read(f"{out}.5"), re.M)
        checks.ok(f"{mode}: stacks are whole", sum(map(int, stacks)) > 60,
                  read(f"{out}.5")[:600])
        if mode == "embedded":
            files = descriptors_of(host.child.pid)
            checks.ok("images have their files again, and the memfds are "
                      "there", len(files) == len(set(files)) and
                      any("libresolv" in each for each in files) and
                      any("libm.so" in each for each in files) and
                      any("fgtrace-spans" in each for each in files), files)
        checks.ok(f"{mode}: slice has spans",
                  "after_closing" in read(f"{out}.1"))
        checks.ok(f"{mode}: status reports no fault",
                  host.ask("status")[:3] ==
                  [0, 2 if mode == "embedded" else 1, 1],
                  host.ask("status"))
        host.end()
    daemon.end()


def threads_files(pid):
    """The files of threads in /proc that the recorder keeps open."""
    return [name for name in descriptors_of(pid, 0)
            if re.search(r"/task/\d+/", name)]


def samples_of(host, path, ms):
    """Number of samples of late threads in the last ms; the folded stacks."""
    host.ask(f"write {ms} {path}")
    stacks = read(f"{path}.5")
    found = re.findall(r"late_in_host.* (\d+)$", stacks, re.M)
    return sum(map(int, found)), stacks


def none_left(checks, bench):
    """Fault T6: a program that uses all descriptors, and then also takes those that
    the recorder gives back."""
    program, why = Installation(bench).compile("host.c", "host", ["cc"],
                                               "-std=c99", "-pedantic")
    if not program:
        raise RuntimeError(why)
    host = Host(bench, program)
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (256, 256))
    host.start("/nowhere", "embedded")
    host.ask("burn 300")
    kept = threads_files(host.pid)
    for _ in range(3):  # the recorder looks once a second, and opens some
        host.ask("fill")
        host.ask("burn 1200")
    checks.ok("recorder gives its spare descriptors back to a full program",
              kept and not threads_files(host.pid),
              (kept, threads_files(host.pid)))
    host.ask("spawn 5000")
    text = " ".join(map(str, host.ask("status")))
    checks.ok("status reports that no descriptor is left",
              "no file descriptor left" in text, text)
    host.ask("free")
    host.ask("burn 2000")
    found, stacks = samples_of(host, bench.path("short"), 1000)
    checks.ok("new threads are recorded once a descriptor is free",
              found > 20, stacks[:600])
    host.ask("burn 10500")
    text = " ".join(map(str, host.ask("status")))
    checks.ok("status no longer reports missing descriptors",
              "no file descriptor left" not in text, text)
    host.ask("burn 500")
    checks.ok("recorder keeps files of threads again", threads_files(host.pid),
              descriptors_of(host.pid, 0))
    host.end()


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    try:
        scripts(checks, bench)
        daemons(checks, bench)
        reuse(checks, bench)
        recording_goes_on(checks, bench)
        none_left(checks, bench)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

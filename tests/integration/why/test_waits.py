# SPDX-License-Identifier: Apache-2.0
"""Reasons of waits: a program whose threads know what they wait for, sampled by
root and by an ordinary user; one whose threads pass mutexes on while others
wait for them, in each way in which it can be sampled.
test_waits.py BUILD"""
import bisect
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import (  # noqa: E402
    Bench, Checks, as_user, read_until)
from kit.read_fgt import Slice  # noqa: E402

checks = Checks()
ok = checks.ok
KINDS = ("unknown", "mutex", "rwlock", "lock", "notification", "descriptor",
         "events", "child", "sleep", "page fault", "signal", "ipc", "stopped",
         "kernel", "join")
OWNED = ("mutex", "rwlock", "lock")
# Which variable each lock is.
OBJECTS = {"lock": "g_mutex", "chained": "g_mutex", "second": "g_second_mutex",
           "robust": "g_robust_mutex",
           "reader": "g_rwlock", "writer": "g_rwlock",
           "after_readers": "g_read_rwlock"}


class Waiting:
    """The program, and what each of its threads waits for."""

    def __init__(self, bench, path, as_nobody):
        self.child = bench.start([path], as_nobody, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.expected = {}
        for line in self.child.stdout:
            if line.strip() == "ready":
                break
            name, tid, kind, number = line.split()
            self.expected[int(tid)] = name, kind, int(number)


def waits_of(path):
    """tid → (kind, owner, number, text, object, timeout_ns) of its last
    run."""
    with open(path, "rb") as file:
        found = Slice(file.read())
    reasons = dict(found.run_waits)
    waits = {}
    for run, (thread, *_) in enumerate(found.runs):
        if run in reasons:
            kind, owner, _, number, timeout, text, name = \
                found.waits[reasons[run] - 1]
            waits[found.threads[thread][0]] = (
                KINDS[kind], owner, number,
                found.string(text).decode(), found.string(name).decode(),
                timeout)
    return waits


def check_events(mode, name, found, number):
    """Of descriptors that are named once the wait lasts."""
    ok(f"{mode}: {name} has its number", found[2] == number, (found, number))
    prefix = f"epoll {number} of " if name.startswith("epoll") else ""
    each = r"\d+ \(eventfd\)"
    names = rf"descriptors {each}(, {each}){{7}} and 12 more" \
        if name == "epoll_many" else \
        r"descriptors \d+ \(pipe\), \d+ \(tcp port \d+\), " \
        r"\d+ \(timerfd\), \d+ \(eventfd\)"
    ok(f"{mode}: {name} names its descriptors",
       re.fullmatch(prefix + names, found[4] or found[3]), found)


def check(mode, waiting, waits):
    for tid, (name, kind, number) in waiting.expected.items():
        found = waits.get(tid, ("no reason", 0, -1, "", "", 0))
        if not ok(f"{mode}: {name} waits for {kind}", found[0] == kind, found):
            continue
        if kind in OWNED:
            ok(f"{mode}: {name} names the thread that holds it",
               found[1] == number, (found, number))
            ok(f"{mode}: {name} names the variable",
               found[4] == OBJECTS[name], found)
        elif kind == "join":
            ok(f"{mode}: {name} names the thread that it waits for",
               found[1] == number, (found, number))
        elif kind in ("descriptor", "child"):
            if kind == "child":
                ok(f"{mode}: the child has its name", found[3] == "waits",
                   found)
            ok(f"{mode}: {name} has its number", found[2] == number,
               (found, number))
        elif kind == "events":
            check_events(mode, name, found, number)
        if name == "await_until":
            ok(f"{mode}: {name} has the time that is left",
               3500e9 < found[5] <= 3600e9, found)
        if name in ("flock", "record"):
            child = next(number for _, kind, number in
                         waiting.expected.values() if kind == "child")
            ok(f"{mode}: {name} names the process that has the file",
               found[3].endswith(f", held by waits (pid {child})"), found)
    pipe = next((waits.get(tid) for tid, (name, *_) in waiting.expected.items()
                 if name == "pipe"), None) or [""] * 6
    ok(f"{mode}: the descriptor is a pipe", pipe[3].startswith("pipe:["), pipe)


def record(bench, mode, as_nobody, *arguments):
    program = bench.program("waits")
    if as_nobody:
        folder = bench.copy_for_nobody()
        program = shutil.copy2(program, folder)
    waiting = Waiting(bench, program, as_nobody)
    _, socket = bench.daemon(mode.replace(" ", "-"), *arguments,
                             as_nobody=as_nobody)
    result = bench.run("--socket", socket, "attach", str(waiting.child.pid),
                       as_nobody=as_nobody)
    ok(f"{mode}: attach", result.returncode == 0, result.stderr)
    time.sleep(1)
    path = bench.path(f"{mode}.fgt")
    with open(path, "wb") as file:
        slice_of = subprocess.run(
            [bench.agent, "--socket", socket, "slice", "-q", "--last", "900ms",
             "-p", str(waiting.child.pid), "-f", "fgt", "-o", "-"],
            stdout=file, check=False)
    ok(f"{mode}: slice", slice_of.returncode == 0, slice_of.returncode)
    check(mode, waiting, waits_of(path))
    waiting.child.stdin.close()


def name_child_in_namespace(bench):
    """The process that is 2 in a PID namespace is another one than 2 here."""
    outer = bench.start(["unshare", "--pid", "--fork", sys.executable, "-c",
                         "import subprocess; print('ready', flush=True); "
                         "subprocess.run(['sleep', '600'])"],
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                        text=True)
    outer.stdout.readline()
    time.sleep(0.3)
    pid = children_of(outer.pid)[0]
    child = children_of(pid)[0]
    path = bench.path("namespace.fgt")
    with open(path, "wb") as file:
        subprocess.run([bench.agent, "record", "-q", "-p", str(pid), "-d", "1",
                        "-f", "fgt", "-o", "-"], stdout=file, check=True)
    found = waits_of(path).get(pid, ())
    ok("PID namespace: the child is the process of that namespace",
       found[:1] + found[2:4] == ("child", child, "sleep"), (found, child))
    for number in (child, pid):
        os.kill(number, signal.SIGKILL)


def numbers_in_namespace(pid):
    """Number of a thread in its PID namespace → its number here."""
    numbers = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status") as file:
            line = next(x for x in file if x.startswith("NSpid:"))
        numbers[int(line.split()[-1])] = int(tid)
    return numbers


def record_waits(bench, pid, name):
    path = bench.path(name + ".fgt")
    with open(path, "wb") as file:
        subprocess.run([bench.agent, "record", "-q", "-p", str(pid), "-d", "1",
                        "-f", "fgt", "-o", "-"], stdout=file, check=True)
    return waits_of(path)


def name_holders_in_namespace(bench):
    """glibc writes into its locks what the namespace calls their holders."""
    child = bench.start(["unshare", "--pid", "--fork", bench.program("waits")],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        text=True)
    lines = []
    for line in child.stdout:
        if line.strip() == "ready":
            break
        lines.append(line.split())
    pid = children_of(child.pid)[0]
    numbers = numbers_in_namespace(pid)
    waits = record_waits(bench, pid, "holders")
    for name, number, kind, owner in lines:
        if name in OBJECTS and name != "after_readers":
            found = waits.get(numbers[int(number)], ("no reason", 0))
            ok(f"PID namespace: {name} names the thread that it waits for",
               found[:2] == (kind, numbers[int(owner)]), (found, kind, owner))
    os.kill(pid, signal.SIGKILL)


# A process waits for a mutex that its child holds.
SHARED = """
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
memory = mmap.mmap(-1, 4096)
lock = ctypes.byref(ctypes.c_char.from_buffer(memory))
attributes = ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(attributes)
libc.pthread_mutexattr_setpshared(attributes, 1)
libc.pthread_mutex_init(lock, attributes)
if os.fork() == 0:
    libc.prctl(15, b"holder")
    libc.pthread_mutex_lock(lock)
    print("ready", os.getpid(), flush=True)
    time.sleep(600)
time.sleep(0.3)
libc.pthread_mutex_lock(lock)
"""


def name_holder_of_another_process(bench):
    child = bench.start([sys.executable, "-c", SHARED], stdout=subprocess.PIPE,
                        text=True)
    holder = int(read_until(child.stdout, "ready "))
    time.sleep(0.5)
    found = record_waits(bench, child.pid, "shared").get(child.pid, ())
    ok("the holder of a shared mutex is the other process",
       found[:2] == ("mutex", holder) and found[3] == "holder",
       (found, holder))
    os.kill(holder, signal.SIGKILL)


# Each of four threads waits for the last of its hundred children.
MANY = """
import os, signal, threading, time
def work():
    for _ in range(100):
        last = os.fork()
        if not last:
            while True:
                signal.pause()
    os.waitpid(last, 0)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
while len(os.listdir('/proc/self/task')) < 5:
    time.sleep(0.01)
print('ready', flush=True)
time.sleep(600)
"""


def name_children_of_many_threads(bench):
    """More of them than one tick looks at: one of the next ticks goes on."""
    outer = bench.start(["unshare", "--pid", "--fork", sys.executable, "-c",
                         MANY], stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL, text=True)
    outer.stdout.readline()
    pid = children_of(outer.pid)[0]
    last = {}
    for _ in range(200):
        for tid in map(int, os.listdir(f"/proc/{pid}/task")):
            with open(f"/proc/{pid}/task/{tid}/children") as file:
                children = file.read().split()
            if len(children) == 100:
                last[tid] = int(children[-1])
        if len(last) == 4:
            break
        time.sleep(0.1)
    time.sleep(0.3)
    path = bench.path("many.fgt")
    with open(path, "wb") as file:
        subprocess.run([bench.agent, "record", "-q", "-p", str(pid), "-d", "1",
                        "-f", "fgt", "-o", "-"], stdout=file, check=True)
    waits = waits_of(path)
    found = {tid: waits.get(tid, ("", 0, 0))[2] for tid in last}
    ok("PID namespace: four threads have their child among 400",
       len(last) == 4 and found == last, (found, last))
    os.kill(pid, signal.SIGKILL)


# Waits for a raw socket, and for a connection of a UNIX socket; another user's
# UNIX socket has a line of /proc/net/unix about the first one as its name.
SOCKETS = """
import os, socket, sys, threading
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
unix = socket.socket(socket.AF_UNIX)
unix.bind(sys.argv[1])
unix.listen()
forged = socket.socket(socket.AF_UNIX)
forged.bind("\\0x\\n0000000000000000: 00000002 00000000 00010000 0001 01 "
            f"{os.fstat(raw.fileno()).st_ino:5} /run/forged")
threading.Thread(target=unix.accept, daemon=True).start()
print("ready", flush=True)
raw.recv(100)
"""


def names_of_sockets(bench):
    path, name = bench.path("sockets.fgt"), bench.path("listens")
    child = bench.start([sys.executable, "-c", SOCKETS, name],
                        stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    time.sleep(0.3)
    with open(path, "wb") as file:
        subprocess.run([bench.agent, "record", "-q", "-p", str(child.pid), "-d",
                        "1", "-f", "fgt", "-o", "-"], stdout=file, check=True)
    waits = waits_of(path)
    raw = waits.pop(child.pid)
    ok("a socket gets no name that another socket's name holds",
       raw[3].startswith("socket:[") and not raw[4], raw)
    ok("a UNIX socket has its name", [wait[4] or wait[3] for wait in
                                      waits.values()] == [f"unix {name}"],
       waits)


# Each answer comes after 0.2 s, over another connection.
CLOSED = """
import select, socket, sys, threading, time
def serve(listener):
    while True:
        peer, _ = listener.accept()
        time.sleep(0.2)
        peer.close()
listener = socket.create_server(("::1", int(sys.argv[1])),
                                family=socket.AF_INET6)
threading.Thread(target=serve, args=(listener,), daemon=True).start()
print("ready", flush=True)
while True:
    for wait in (lambda: client.recv(1),
                 lambda: select.select([client], [], [])):
        client = socket.create_connection(("::1", int(sys.argv[1])))
        wait()
        client.close()
"""


def names_of_closed_sockets(bench):
    """Nearly all connections of the recording are closed when it is cut."""
    port = 20000 + os.getpid() % 10000
    child = bench.start([sys.executable, "-c", CLOSED, str(port)],
                        stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    path = bench.path("closed.folded")
    bench.run("record", "-q", "-p", str(child.pid), "-d", "3", "-o", path)
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if f" tcp to [::1]:{port};" in line]
    for call in ("recvfrom", "select"):
        count = sum(int(line.split()[-1]) for line in lines
                    if call in line.split(" tcp to")[0])
        ok(f"{call} of sockets that are closed has their peer", count > 100,
           lines)


def lock_of_another_user(bench):
    """An ordinary user does not learn what holds a file, where a process of
    another user does; root does."""
    locked, path = bench.path("locked"), bench.path("locked.fgt")
    with open(locked, "w", encoding="ascii"):
        os.chmod(locked, 0o666)
    holder = bench.start(["flock", locked, "sh", "-c",
                          "echo ready; exec sleep 600"],
                         stdout=subprocess.PIPE, text=True)
    holder.stdout.readline()
    for as_nobody in (True, False):
        child = bench.start(["flock", locked, "true"], as_nobody)
        time.sleep(0.3)
        with open(path, "wb") as file:
            subprocess.run([bench.agent, "record", "-q", "-p", str(child.pid),
                            "-d", "1", "-f", "fgt", "-o", "-"], stdout=file,
                           check=True)
        found = waits_of(path)[child.pid][3]
        text = "a process of another user" if as_nobody else \
            f"flock (pid {holder.pid})"
        ok(f"a file that {text} has locked", found.endswith(
            f", held by {text}"), found)
        child.kill()
    os.kill(children_of(holder.pid)[0], signal.SIGKILL)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class Holds:
    """Who held which mutex, and when, as the program wrote it down."""
    SLACK_NS = 2000000  # a tick reads its waits so much later, or more

    def __init__(self, lines):
        self.holds = collections.defaultdict(list)
        for line in lines:
            tid, mutex, acquired, released = line.split()
            self.holds[mutex].append((int(acquired), int(released), int(tid)))
        for holds in self.holds.values():
            holds.sort()

    def verdict(self, mutex, owner, ns):
        """Of an owner that is named, or not (0), at that time."""
        holds = self.holds[mutex]
        last = bisect.bisect_right(holds, (ns + self.SLACK_NS,))
        near = [tid for acquired, released, tid in holds[max(0, last - 4):last]
                if acquired - self.SLACK_NS <= ns <= released + self.SLACK_NS]
        if owner:
            return "right" if owner in near else "wrong"
        return "none" if near else "right"


def verdicts_of(path, holds):
    with open(path, "rb") as file:
        found = Slice(file.read())
    reasons, verdicts = dict(found.run_waits), collections.Counter()
    for run, (_, first, count, *_) in enumerate(found.runs):
        if run not in reasons:
            continue
        kind, owner, _, _, _, _, name = found.waits[reasons[run] - 1]
        mutex = found.string(name).decode()
        if KINDS[kind] != "mutex" or mutex not in holds.holds:
            continue
        for ns, in found.ticks[first:first + count]:
            verdicts[holds.verdict(mutex, owner, ns)] += 1
    return verdicts


def check_owners(bench, mode, as_nobody, **settings):
    """The mutexes pass through several hands while a thread waits."""
    program = bench.program("handover")
    if as_nobody:
        program = shutil.copy2(program, bench.copy_for_nobody())
    child = bench.start([program, "4"], as_nobody, stdout=subprocess.PIPE,
                        text=True)
    child.stdout.readline()
    path = bench.path(f"{mode}.fgt")
    with open(path, "wb") as file:
        result = subprocess.run(
            as_user([bench.agent, "record", "-q", "-p", str(child.pid), "-d",
                     "3", "-f", "fgt", "-o", "-"], as_nobody),
            env={**os.environ, "FGTRACE_SAMPLING_MAX_CPU_PERCENT": "0",
                 **settings}, stdout=file, check=False)
    if not ok(f"{mode}: record", result.returncode == 0, result.returncode):
        return
    verdicts = verdicts_of(path, Holds(child.stdout))
    waits = sum(verdicts.values())
    ok(f"{mode}: threads wait for mutexes", waits > 500, verdicts)
    ok(f"{mode}: owners are the threads that hold them",
       verdicts["wrong"] <= 0.01 * waits, verdicts)
    ok(f"{mode}: owners are known", verdicts["none"] <= 0.05 * waits,
       verdicts)


def check_calls(bench):
    """A blocked thread has the stack of the call that it is blocked in, or
    none: not that of the call before."""
    child = bench.start([bench.program("alternate"), "20", "1500"],
                        stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    path = bench.path("calls.folded")
    result = bench.run("record", "-q", "-d", "4", "-p", pid, "-o", path,
                       "--state-frames", "leaf")
    child.kill()
    right = wrong = unknown = 0
    with open(path) as file:
        lines = file.read().splitlines()
    for line in lines:
        stack, count = line.rsplit(" ", 1)
        frames = stack.split(";")
        functions = {"clock_nanosleep": "nap", "futex": "wait_for_it"}
        function = functions.pop(frames[-1].split(" ")[0], None)
        if not function:
            continue
        right += int(count) * (function in frames)
        wrong += int(count) * any(f in frames for f in functions.values())
        unknown += int(count) * (len(frames) < 4)
    print(f"# alternating calls: {right} right, {wrong} wrong, {unknown} "
          "unknown", flush=True)
    ok("no stack of another call", result.returncode == 0 and right > 2000 and
       wrong == 0, (result.stderr, right, wrong))
    ok("few are unknown", unknown < 0.1 * right, unknown)


def main():
    bench = Bench(sys.argv[1])
    try:
        check_owners(bench, "handed over, root", False)
        check_owners(bench, "handed over, schedstat", False,
                     FGTRACE_SAMPLING_WHO_RAN="schedstat")
        check_owners(bench, "handed over, user", True)
        record(bench, "root", False)
        record(bench, "ordinary user", True)
        check_calls(bench)
        lock_of_another_user(bench)
        name_child_in_namespace(bench)
        name_holders_in_namespace(bench)
        name_holder_of_another_process(bench)
        name_children_of_many_threads(bench)
        names_of_sockets(bench)
        names_of_closed_sockets(bench)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

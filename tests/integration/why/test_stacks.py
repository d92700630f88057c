# SPDX-License-Identifier: Apache-2.0
"""Stacks of all threads, now and then: with a daemon, without one, of a file;
equal stacks together; a deadlock.
test_stacks.py BUILD"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.faults import Service  # noqa: E402
from kit.harness import Bench, Checks, read_until  # noqa: E402

checks = Checks()
ok = checks.ok


def start(bench, as_nobody=False):
    """The program whose threads wait, and the line of each by its name."""
    child = bench.start([bench.program("waits")], as_nobody,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        text=True)
    expected = {}
    for line in child.stdout:
        if line.strip() == "ready":
            break
        name, tid, kind, number = line.split()
        expected[name] = int(tid), kind, int(number)
    return child, expected


def stacks(bench, *arguments):
    result = bench.run("stacks", *arguments, "--json")
    if result.returncode:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout)


def by_tid(answer):
    return {thread["tid"]: group for group in answer["groups"]
            for thread in group["threads"]}


def check(mode, expected, answer):
    groups = by_tid(answer)
    for name, (tid, kind, number) in expected.items():
        group = groups.get(tid, {"wait": {}, "stack": []})
        ok(f"{mode}: {name} waits for {kind}",
           group.get("wait", {}).get("kind") == kind, group)
        if kind == "mutex":
            ok(f"{mode}: {name} names the holder",
               group["wait"].get("owner_tid") == number, group)
        ok(f"{mode}: {name} has its stack", "start_thread" in group["stack"],
           group["stack"])


def test_without_daemon(bench, child, expected):
    none = ("--socket", bench.path("none.sock"))
    check("no daemon", expected, stacks(bench, *none, "-p", str(child.pid)))
    text = bench.run("stacks", *none, "-p", str(child.pid)).stdout
    ok("text names lock and holder",
       f"mutex g_mutex, held by waits (tid {expected['lock'][2]})" in text,
       text)
    one = stacks(bench, *none, "-p", str(child.pid), "--tid", str(child.pid))
    ok("--tid shows one thread", len(one["groups"]) == 1 and
       one["groups"][0]["threads"][0]["tid"] == child.pid, one)
    below = by_tid(stacks(bench, *none, "-p", str(os.getpid()), "--children"))
    ok("--children shows the processes below", {os.getpid(), child.pid} <=
       below.keys(), below.keys())


def check_markdown(bench, target):
    """It ends with flags that ask for the same time again."""
    for verb, asked, keys in (
            ("stacks", ("--at", "-1s"), {"at": "at_ns"}),
            ("slice", ("--last", "1s"), {"from": "from_ns", "to": "to_ns"})):
        text = bench.run(verb, *target, *asked, "-f", "md").stdout
        flags = dict(re.findall("--(at|from|to) m:([0-9]+)",
                                text.splitlines()[-1]))
        again = bench.run(verb, *target, "--json", *(
            f"--{name}=m:{ns}" for name, ns in flags.items()))
        answer = json.loads(again.stdout) if again.stdout else {}
        ok(f"{verb}: markdown ends with the same time for later", flags and
           {name: str(answer.get(key)) for name, key in keys.items()} == flags,
           text[-300:] + again.stdout[:300] + again.stderr)


def test_past(bench, socket, child, expected):
    target = ("--socket", socket, "-p", str(child.pid))
    bench.run("--socket", socket, "attach", str(child.pid))
    time.sleep(1.5)
    answer = stacks(bench, *target, "--at", "-1s")
    check("a second ago", expected, answer)
    ok("it is known for how long",
       all(group["since_ms"] < 10000 for group in answer["groups"]), answer)
    check_markdown(bench, target)
    path = bench.path("waits.fgt")
    bench.run("--socket", socket, "slice", "-q", "-p", str(child.pid),
              "--last", "1s", "-o", path)
    check("a file", expected, stacks(bench, path))


def test_user(bench):
    """What a user may see of a target ends at its last tick: that is no end of
    the target."""
    folder = bench.copy_for_nobody()
    child = bench.start([shutil.copy2(bench.program("waits"), folder)], True,
                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    _, socket = bench.daemon("user", as_nobody=True)
    target = ("--socket", socket, "-p", str(child.pid))
    bench.run("--socket", socket, "attach", str(child.pid), as_nobody=True)
    time.sleep(1.5)
    for verb in (("stacks",), ("why", "--last", "500ms")):
        result = bench.run(*verb, *target, as_nobody=True)
        ok(f"{verb[0]}: a user's target that runs has not ended",
           result.returncode == 0 and "ended" not in result.stderr,
           result.stderr)
    child.kill()


def test_deadlock(bench, socket):
    """Two threads that wait for each other, in the past by now."""
    service = Service(bench, socket, "deadlock", 1)
    from_ns, _ = service.wait()
    answer = stacks(bench, "--socket", socket, "-p", str(service.child.pid),
                    "--at", f"m:{from_ns + 400000000}")
    names = {thread["tid"]: thread["name"] for group in answer["groups"]
             for thread in group["threads"]}
    ok("a deadlock is listed with its threads",
       [sorted(names[tid] for tid in cycle)
        for cycle in answer["deadlocks"]] == [["counter", "mover"]],
       answer["deadlocks"])
    text = bench.run("stacks", "--socket", socket, "-p",
                     str(service.child.pid), "--at",
                     f"m:{from_ns + 400000000}").stdout
    ok("text has it at its end",
       "mutex g_stock_lock, held by mover" in text.split("Deadlock:")[-1] and
       "mutex g_cache_lock, held by counter" in text, text[-400:])
    pool = [group for group in answer["groups"]
            if group["threads"][0]["name"].startswith("backend-")]
    ok("equal stacks are shown once", len(pool) == 1 and
       sum(len(group["threads"]) for group in pool) == 6, pool)
    test_filters(bench, ["--socket", socket, "-p", str(service.child.pid),
                         "--at", f"m:{from_ns + 400000000}"], names)
    service.end()


# One thread takes a lock twice.
TWICE = """
#define _GNU_SOURCE
#include <pthread.h>
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static void *wait_for_it(void *argument)
{
    pthread_setname_np(pthread_self(), "second");
    pthread_mutex_lock(&g_lock);
    return argument;
}
int main(void)
{
    pthread_t thread;
    pthread_mutex_lock(&g_lock);
    pthread_create(&thread, NULL, wait_for_it, NULL);
    pthread_mutex_lock(&g_lock);
}
"""


def test_deadlock_of_one(bench, socket):
    program = bench.path("twice")
    subprocess.run(["cc", "-g", "-pthread", "-x", "c", "-", "-o", program],
                   input=TWICE, text=True, check=True)
    child = bench.start([program])
    bench.run("--socket", socket, "attach", str(child.pid))
    time.sleep(1)
    target = ("--socket", socket, "-p", str(child.pid))
    ok("a thread that waits for itself is a deadlock",
       stacks(bench, *target)["deadlocks"] == [[child.pid]],
       bench.run("stacks", *target).stdout)
    why = bench.run("why", *target, "--last", "500ms").stdout
    ok("why names it", f"deadlock: twice (tid {child.pid}) waits for itself"
       in why, why)
    child.kill()


# One thread takes a lock, and ends with it when standard input ends.
LEFT = """
#include <pthread.h>
#include <unistd.h>
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static void *leave(void *argument)
{
    char byte;

    pthread_mutex_lock(&g_lock);
    while (read(0, &byte, 1) > 0);
    return argument;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, leave, NULL);
    usleep(100000);
    pthread_mutex_lock(&g_lock);
}
"""


def test_holder_that_has_ended(bench, socket):
    program = bench.path("left")
    subprocess.run(["cc", "-g", "-pthread", "-x", "c", "-", "-o", program],
                   input=LEFT, text=True, check=True)
    child = bench.start([program], stdin=subprocess.PIPE)
    bench.run("--socket", socket, "attach", str(child.pid))
    time.sleep(1)
    child.stdin.close()
    time.sleep(1)
    text = bench.run("stacks", "--socket", socket, "-p", str(child.pid)).stdout
    ok("a lock whose holder has ended still names it",
       re.search("mutex g_lock, held by tid [0-9]+, which has ended", text),
       text)
    child.kill()


# Locks one file, and another one when its standard input ends.
CROSSED = """
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char byte;
    flock(open(argv[1], O_RDWR | O_CREAT, 0600), LOCK_EX);
    write(1, "x", 1);
    while (read(0, &byte, 1) > 0);
    flock(open(argv[2], O_RDWR | O_CREAT, 0600), LOCK_EX);
    return argc;
}
"""


def test_deadlock_of_processes(bench, socket):
    """By locks on files; the first one waits when there is none yet."""
    program = bench.path("crossed")
    subprocess.run(["cc", "-g", "-x", "c", "-", "-o", program],
                   input=CROSSED, text=True, check=True)
    files = bench.path("left.lock"), bench.path("right.lock")
    children = [bench.start([program, *order], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
                for order in (files, files[::-1])]
    for child in children:
        child.stdout.read(1)
        bench.run("--socket", socket, "attach", str(child.pid))
    pids = [child.pid for child in children]
    for child in children:
        child.stdin.close()
        time.sleep(1.5)
    one = ("--socket", socket, "-p", str(pids[0]))
    both = ("--socket", socket, "-n", "crossed")
    answer = stacks(bench, *both)
    ok("processes that lock files are a deadlock",
       [sorted(cycle) for cycle in answer["deadlocks"]] == [sorted(pids)],
       answer)
    text = bench.run("stacks", *one).stdout
    ok("one of them has it in words, and where to look",
       f"held by crossed (pid {pids[1]}), which waits for this process" in
       text and f"Not shown: the process of tid {pids[1]}" in text, text)
    why = bench.run("why", *both, "--last", "300ms").stdout
    ok("why names it, too", "wait for each other)" in why, why)
    for child in children:
        child.kill()


def test_filters(bench, ask, names):
    """Some threads; the deadlock stays."""
    for flags, is_wanted in (
            (["--thread", "backend-*"],
             lambda tid, _: names[tid].startswith("backend-")),
            (["--state", "futex"], lambda _, state: state == "futex"),
            (["--state", "blocked", "--function", "*sleep*"],
             lambda _, state: state == "clock_nanosleep")):
        answer = stacks(bench, *ask, *flags)
        found = [(thread["tid"], group["state"]) for group in answer["groups"]
                 for thread in group["threads"]]
        ok(f"{' '.join(flags)}: no other threads", found and all(
            is_wanted(*row) for row in found) and
            len(found) < len(names), found)
        ok(f"{' '.join(flags)}: the deadlock is listed",
           len(answer["deadlocks"]) == 1, answer["deadlocks"])
    none = bench.run("stacks", *ask, "--thread", "nothing")
    ok("a filter that takes nothing names what there is",
       none.returncode == 5 and "threads are" in none.stderr, none)
    none = bench.run("stacks", *ask, "--thread", "mover", "--tid",
                     str(next(tid for tid, name in names.items()
                              if name == "counter")))
    ok("one that takes nothing at that time is explained", none.returncode == 5 and
       "no thread passes the filter at that time" in none.stderr, none)


def expect(bench, name, status, words, *arguments):
    result = bench.run("stacks", *arguments)
    ok(name, result.returncode == status and words in result.stderr and
       result.stderr.count("\n") == 1,
       f"{result.returncode}: {result.stderr}")


def test_busy(bench):
    """For how long an idle one has been there is known beside many threads that
    wake all the time, too; at a time in the past, a part of it at least."""
    config = bench.path("busy.conf")
    with open(config, "w") as file:
        file.write("sampling: { max_cpu_percent = 0; };\n")
    _, socket = bench.daemon("busy", "-c", config)
    children = [bench.start([bench.program("alternate"), threads, "20000"],
                            stdout=subprocess.PIPE, text=True)
                for threads in ("4", "400")]
    pids = [read_until(child.stdout, "ready ") for child in children]
    for pid in pids:
        bench.run("--socket", socket, "attach", pid)
    time.sleep(4)
    few, many, past = [
        by_tid(stacks(bench, "--socket", socket, "-p", pid, *at))[int(pid)]
        for pid, at in ((pids[0], ()), (pids[1], ()),
                        (pids[1], ("--at", "-500ms")))]
    ok("few busy threads: an idle one has been there for as long as is known",
       few["since_ms"] > 2500, few)
    ok("many busy threads: so it has", many["since_ms"] > 2500, many)
    ok("… at a time in the past as well, or for at least a second",
       past["since_ms"] > 500 and not past["since_is_known"], past)
    for child in children:
        child.kill()


def compare(name, ask, alone, several):
    """Of several processes each has been there for as long as it has alone."""
    apart = [(tid, group["since_ms"], group["since_is_known"],
              several.get(tid))
             for tid, group in alone.items() if tid not in several or
             group["since_is_known"] != several[tid]["since_is_known"] or
             abs(group["since_ms"] - several[tid]["since_ms"]) > 700]
    ok(f"{name}: {ask}: for how long is as with -p alone", alone and
       not apart, apart)


def test_several(bench):
    """For how long is known of each process of several, of which one has been
    sampled for longer, and one naps."""
    _, socket = bench.daemon("several")
    children = [start(bench)[0] for _ in range(2)]
    children.append(bench.start([bench.program("crowd"), "0", "3", "4", "60",
                                 "300"], stdout=subprocess.PIPE, text=True))
    children[2].stdout.readline()
    for child in children:
        bench.run("--socket", socket, "attach", str(child.pid))
        time.sleep(1.2)
    one = ("--socket", socket)
    for ask in (["-n", "waits"], ["--all"]):
        several = by_tid(stacks(bench, *one, *ask))
        for child in children[:2]:
            alone = by_tid(stacks(bench, *one, "-p", str(child.pid)))
            ok("it is so for at least as long as it is sampled",
               any(group["since_ms"] > 2000 and not group["since_is_known"]
                   for group in alone.values()), alone)
            compare("daemon", " ".join(ask), alone, several)
    naps = [group for tid, group in several.items()
            if group["state"] in ("poll", "epoll_wait")
            and tid in by_tid(stacks(bench, *one, "-p", str(children[2].pid)))]
    ok("naps are short in an answer of several, too",
       naps and max(group["since_ms"] for group in naps) < 900, naps)
    path = bench.path("several.fgt")
    bench.run(*one, "slice", "-q", "--all", "--last", "10s", "-o", path)
    several = by_tid(stacks(bench, path))
    for child in children[:2]:
        bench.run(*one, "slice", "-q", "-p", str(child.pid), "--last", "10s",
                  "-o", bench.path("one.fgt"))
        compare("file", "--all", by_tid(stacks(bench, bench.path("one.fgt"))),
                several)
    for child in children:
        child.kill()


# Its first thread ends, by exit(2).
LEADERLESS = """
import ctypes, os, sys, threading, time
ends = os.pipe()
threading.Thread(target=os.read, args=(ends[0], 1)).start()
time.sleep(0.2)
print("ready", flush=True)
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)
"""


def test_leaderless(bench):
    """Then neither memory nor descriptors can be read by the PID."""
    child = bench.start([sys.executable, "-c", LEADERLESS, "93" if
                         os.uname().machine == "aarch64" else "60"],
                        stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    time.sleep(0.3)
    waits = [group.get("wait", {}).get("text", "") for group in
             stacks(bench, "-p", str(child.pid))["groups"]]
    ok("a descriptor is known where the first thread has ended",
       any(text.startswith("read of pipe:[") for text in waits), waits)
    child.kill()


def main():
    bench = Bench(sys.argv[1])
    try:
        child, expected = start(bench)
        test_without_daemon(bench, child, expected)
        _, socket = bench.daemon("stacks")
        test_past(bench, socket, child, expected)
        test_deadlock(bench, socket)
        test_deadlock_of_one(bench, socket)
        test_deadlock_of_processes(bench, socket)
        test_holder_that_has_ended(bench, socket)
        test_busy(bench)
        test_several(bench)
        test_user(bench)
        test_leaderless(bench)
        none = ("--socket", bench.path("none.sock"))
        expect(bench, "a process that is not", 1, "4194304", *none, "-p",
               "4194304")
        expect(bench, "a thread that is not", 5, "no such thread", *none, "-p",
               str(child.pid), "--tid", "4194304")
        expect(bench, "a past time without a daemon", 3, "", *none, "-p",
               str(child.pid), "--at", "-1s")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

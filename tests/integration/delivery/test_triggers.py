# SPDX-License-Identifier: Apache-2.0
"""Triggers: each condition, with a program that makes it true, delivers one
slice; gap, cap, reload, and a program that does nothing unusual.
test_triggers.py BUILD [GROUP…]"""
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.daemon_bench import Daemon, run_groups, sleeper  # noqa: E402
from kit.harness import read_until  # noqa: E402
from kit.real_programs import wait_for  # noqa: E402
from kit.sentry_server import SentryServer, accept  # noqa: E402
from kit.transact import (  # noqa: E402
    EVERY, Folder, Program, check_wrong, dsn_of, received, until)

SPINS = "import time\nprint('ready', flush=True)\nwhile True: pass"
# Two threads take turns with a lock: each holds it for so many seconds.
CONVOY = """
import sys, threading, time
lock = threading.Lock()
hold = 0.02
def work():
    while True:
        with lock:
            time.sleep(hold)
        time.sleep(0.002)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
print('ready', flush=True)
for line in sys.stdin:
    hold = float(line)
"""


def python(bench, script, *before):
    child = bench.start([*before, "/usr/bin/python3", "-c", script],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        text=True)
    read_until(child.stdout, "ready")
    return child


def rule(name, when, deliver, **more):
    keys = {"window_s": "3", "min_gap_s": "600", "after_s": "0.2", **more}
    return (f"{{ name = \"{name}\"; when: {{ {when} }}; deliver = \"{deliver}\";"
            + "".join(f" {key} = {value};" for key, value in keys.items())
            + " }")


def config(*rules, targets=(), more=""):
    listed = ", ".join(f"{{ pid = {pid}; }}" for pid in targets)
    return f"{more}targets = ( {listed} );\ntriggers = ( {', '.join(rules)} );"


def triggers(bench, daemon, *words):
    """What `triggers --json` prints, by name."""
    result = bench.run("triggers", *words, "--json", "--socket", daemon.socket)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    reply = json.loads(result.stdout)
    return {one["name"]: one for one in reply["triggers"]}


def fired(bench, daemon, name):
    return triggers(bench, daemon)[name]["fired"]


def names_of(folder, trigger):
    return [name for name in folder.names() if name.startswith(trigger + "-")]


def check_slice(checks, folder, trigger, pid, word):
    """One slice of that trigger, with its name and cause."""
    checks.ok(f"{trigger}: one slice arrives, whose file has its name",
              until(lambda: names_of(folder, trigger)) and
              len(names_of(folder, trigger)) == 1, folder.names())
    found = [one for one in folder.read()
             if one.transaction["transaction"] == trigger]
    check_wrong(checks, trigger, found)
    tags = found[0].transaction["tags"] if found else {}
    checks.ok(f"{trigger}: tags have trigger, cause and process",
              tags.get("trigger") == trigger and word in tags.get("cause", "")
              and tags.get("pid") == str(pid) and tags.get("process"), tags)
    body = found and (found[0].profile or found[0].chunk)
    checks.ok(f"{trigger}: the slice has stacks",
              bool(body and body["profile"]["samples"]), "")
    return found[0] if found else None


def redis(bench):
    path = bench.path("redis.sock")
    server = bench.start(["redis-server", "--port", "0", "--unixsocket", path,
                          "--save", "", "--enable-debug-command", "yes",
                          "--dir", bench.scratch], stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(path))
    return server, path


def a_server_that_sleeps(checks, bench):
    """Redis does nothing unusual for seconds, then its only busy thread
    sleeps for three."""
    server, path = redis(bench)
    folder = Folder(bench, "redis-out")
    rules = (rule("asleep", "asleep_s = 1.5;", folder.path,
                  target='"redis-server"'),
             rule("state", 'state = "*nanosleep"; longer_s = 1; '
                  'thread = "redis-*";', folder.path,
                  target='"redis-server"'),
             rule("hot", "cpu_percent = 50; for_s = 2;", folder.path),
             rule("starved", "starved_s = 0.5;", folder.path),
             rule("disk", 'state = "f*sync"; longer_s = 0.5;', folder.path),
             rule("killed", "killed = true;", folder.path))
    daemon = Daemon(bench, "redis", config(*rules, targets=[server.pid]))
    time.sleep(5)  # time in which each condition is looked at
    listed = triggers(bench, daemon)
    checks.ok("a quiet server fires nothing",
              not any(one["fired"] or one["suppressed"] or one["failed"]
                      for one in listed.values()), listed)
    checks.ok("triggers apply to the target", all(
        one["targets"] == 1 for one in listed.values()), listed)
    subprocess.run(["redis-cli", "-s", path, "debug", "sleep", "3"],
                   check=True, stdout=subprocess.DEVNULL)
    check_slice(checks, folder, "asleep", server.pid, "slept")
    one = check_slice(checks, folder, "state", server.pid, "nanosleep")
    functions = one.thread_functions("redis-server") if one else {}
    checks.ok("state: the slice shows the command that slept",
              any("debugCommand" in name or "usleep" in name or
                  "nanosleep" in name for name in functions), functions)
    time.sleep(2)  # a second slice would be found by then
    listed = triggers(bench, daemon)
    checks.ok("one stretch fires once", listed["asleep"]["fired"] == 1 and
              listed["state"]["fired"] == 1 and len(folder.names()) == 2,
              (listed, folder.names()))
    server.kill()
    check_slice(checks, folder, "killed", server.pid, "SIGKILL")
    daemon.end()


def busy_programs(checks, bench):
    folder = Folder(bench, "busy-out")
    calm = sleeper(bench)
    child = python(bench, SPINS)
    daemon = Daemon(bench, "busy", config(
        rule("hot", "cpu_percent = 3; for_s = 1;", folder.path),
        targets=[child.pid, calm.pid]))
    check_slice(checks, folder, "hot", child.pid, "% of a core")
    listed = triggers(bench, daemon)["hot"]
    checks.ok("hot: both targets are looked at, one fires",
              listed["targets"] == 2 and listed["last_pid"] == child.pid and
              listed["fired"] == 1 and listed["next_in_ns"] > 500e9, listed)
    child.kill()
    daemon.end()


def a_lock_convoy(checks, bench):
    folder = Folder(bench, "convoy-out")
    child = python(bench, CONVOY)
    daemon = Daemon(bench, "convoy", config(
        rule("convoy", 'state = "futex"; longer_s = 1;', folder.path),
        targets=[child.pid]))
    time.sleep(4)  # turns of 20 ms
    checks.ok("convoy: short waits do not fire",
              fired(bench, daemon, "convoy") == 0, folder.names())
    child.stdin.write("1.6\n")
    child.stdin.flush()
    check_slice(checks, folder, "convoy", child.pid, "was in futex")
    child.kill()
    daemon.end()


# Two threads that take two locks in different order, once a line has come.
DEADLOCK = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t two = PTHREAD_MUTEX_INITIALIZER;
static void *back(void *argument)
{
    pthread_setname_np(pthread_self(), "back");
    pthread_mutex_lock(&two);
    usleep(100000);
    pthread_mutex_lock(&one);
    return argument;
}
int main(void)
{
    pthread_t thread;
    puts("ready");
    fflush(stdout);
    getchar();
    pthread_create(&thread, NULL, back, NULL);
    pthread_mutex_lock(&one);
    usleep(100000);
    pthread_mutex_lock(&two);
}
"""


def threads_that_wait_for_each_other(checks, bench):
    folder = Folder(bench, "deadlock-out")
    program = bench.path("two_locks")
    subprocess.run(["cc", "-g", "-pthread", "-x", "c", "-", "-o", program],
                   input=DEADLOCK, text=True, check=True)
    child = bench.start([program], stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    daemon = Daemon(bench, "deadlock", config(
        rule("deadlock", "deadlock = true;", folder.path),
        targets=[child.pid]))
    time.sleep(2)
    checks.ok("deadlock: one thread is none",
              fired(bench, daemon, "deadlock") == 0, folder.names())
    child.stdin.write("\n")
    child.stdin.flush()
    check_slice(checks, folder, "deadlock", child.pid,
                f"two_locks (tid {child.pid}) and back (tid ")
    time.sleep(2)
    checks.ok("deadlock: it fires once",
              fired(bench, daemon, "deadlock") == 1, folder.names())
    child.kill()
    daemon.end()


def a_process_without_a_cpu(checks, bench):
    """SCHED_IDLE beside a busy process with the highest priority, on one CPU."""
    cpu = str(min(os.sched_getaffinity(0)))
    folder = Folder(bench, "starved-out")
    child = python(bench, SPINS, "chrt", "-i", "0", "taskset", "-c", cpu)
    daemon = Daemon(bench, "starved", config(
        rule("starved", "starved_s = 0.3;", folder.path),
        targets=[child.pid]))
    hog = python(bench, SPINS, "nice", "-n", "-20", "taskset", "-c", cpu)
    check_slice(checks, folder, "starved", child.pid, "runnable")
    hog.kill()
    child.kill()
    daemon.end()


def ends_of_processes(checks, bench):
    folder = Folder(bench, "ends-out")
    crashing, asked, ending = (sleeper(bench) for _ in range(3))
    daemon = Daemon(bench, "ends", config(
        rule("killed", "killed = true;", folder.path, min_gap_s="1"),
        targets=[crashing.pid, asked.pid, ending.pid]))
    daemon.until(lambda: triggers(bench, daemon)["killed"]["targets"] == 3)
    asked.terminate()
    crashing.send_signal(signal.SIGSEGV)
    check_slice(checks, folder, "killed", crashing.pid, "SIGSEGV")
    asked.wait()
    time.sleep(2)  # the other end is looked at, too
    checks.ok("killed: SIGTERM does not fire",
              fired(bench, daemon, "killed") == 1, folder.names())
    daemon.end()


def an_end_without_room(checks, bench):
    """The queue of a destination is full when a process is killed: its slice
    is tried again until there is room, and it is one failure."""
    is_open = threading.Event()

    def wait(request, connection):
        is_open.wait(60)
        return accept(request, connection)

    server, child = SentryServer(wait), sleeper(bench)
    path = bench.path("room.dsn")
    with open(path, "w") as file:
        file.write(dsn_of(server) + "\n")
    os.chmod(path, 0o600)
    daemon = Daemon(bench, "room", config(
        rule("killed", "killed = true;", "lab", after_s="0"),
        rule("filler", 'file = "/nowhere/x";', "lab", after_s="0"),
        targets=[child.pid], more=f"""upload: {{ destinations = (
  {{ name = "lab"; dsn_file = "{path}"; }} ); }};\n"""))
    time.sleep(1)  # something is recorded
    for _ in range(40):
        if "busy" in bench.run("triggers", "try", "filler", "--socket",
                               daemon.socket).stderr:
            break
    child.kill()
    checks.ok("room: an end finds the queue full", daemon.until(
        lambda: triggers(bench, daemon)["killed"]["failed"] == 1),
        triggers(bench, daemon)["killed"])
    time.sleep(3)  # several looks
    listed = triggers(bench, daemon)["killed"]
    checks.ok("room: … which is counted and logged once",
              listed["failed"] == 1 and
              daemon.log_text().count("trigger_failed message=\"killed") == 1,
              (listed, daemon.log_text()[-900:]))
    is_open.set()
    checks.ok("room: … and fires when there is room", daemon.until(
        lambda: fired(bench, daemon, "killed") == 1, 20),
        (triggers(bench, daemon)["killed"], daemon.log_text()[-900:]))
    checks.ok("room: … once, with the end in it", until(lambda: [
        one.transaction["transaction"] for one in received(bench, server)
        if one.transaction].count("killed") == 1), len(server.requests))
    daemon.end()
    server.close()


def events(checks, bench):
    """A signal, a file, the verb; gap, cap and reload."""
    folder, place = Folder(bench, "events-out"), bench.path("place")
    os.makedirs(place)
    child = sleeper(bench)
    text = config(
        rule("signal", 'signal = "SIGUSR2";', folder.path, min_gap_s="1",
             max_per_hour="2"),
        rule("file", f'file = "{place}/dump";', folder.path),
        rule("late", f'file = "{place}/later/dump";', folder.path),
        targets=[child.pid])
    daemon = Daemon(bench, "events", text)
    time.sleep(1)  # something is recorded
    for _ in range(3):
        daemon.child.send_signal(signal.SIGUSR2)
        time.sleep(1.3)  # more than min_gap_s
    listed = triggers(bench, daemon)["signal"]
    checks.ok("signal: the cap of an hour holds", listed["fired"] == 2 and
              listed["suppressed"] == 1 and listed["next_in_ns"] > 3500e9,
              listed)
    checks.ok("signal: two slices arrive",
              until(lambda: len(names_of(folder, "signal")) == 2),
              folder.names())
    open(f"{place}/other", "w").close()
    open(f"{place}/dump", "w").close()
    check_slice(checks, folder, "file", child.pid, "appeared")
    os.remove(f"{place}/dump")
    os.rename(f"{place}/other", f"{place}/dump")
    daemon.until(lambda: triggers(bench, daemon)["file"]["suppressed"] == 1)
    listed = triggers(bench, daemon)["file"]
    checks.ok("file: the gap holds", listed["fired"] == 1 and
              listed["suppressed"] == 1, listed)
    os.makedirs(f"{place}/later")
    until(lambda: [time.sleep(0.5), open(f"{place}/later/dump", "w").close(),
                   os.remove(f"{place}/later/dump"),
                   fired(bench, daemon, "late")][-1])
    checks.ok("file: a directory that is made later is watched",
              fired(bench, daemon, "late") == 1, daemon.log_text()[-500:])
    os.rename(f"{place}/later", f"{place}/former")
    os.makedirs(f"{place}/later")
    checks.ok("file: so is one in the place of a directory that was renamed",
              until(lambda: [time.sleep(0.5),
                             open(f"{place}/later/dump", "w").close(),
                             os.remove(f"{place}/later/dump"),
                             triggers(bench, daemon)["late"]["suppressed"]
                             ][-1], 10), triggers(bench, daemon)["late"])
    reload_keeps(checks, bench, daemon, text)
    trying(checks, bench, daemon, folder)
    daemon.end()


def reload_keeps(checks, bench, daemon, text):
    daemon.write_config(text.replace("window_s = 3", "window_s = 4"))
    daemon.child.send_signal(signal.SIGHUP)
    daemon.until(lambda: daemon.status()["reloads"] == 1)
    listed = triggers(bench, daemon)["signal"]
    checks.ok("a reload keeps counts and limits", listed["fired"] == 2 and
              listed["window_s"] == 4 and listed["next_in_ns"] > 3500e9,
              listed)
    daemon.write_config(text.replace("signal =", "sginal =", 1))
    daemon.child.send_signal(signal.SIGHUP)
    daemon.until(lambda: daemon.status()["reload_failed"] == 1)
    checks.ok("a bad trigger leaves the former ones",
              "did you mean `signal`?" in daemon.status()["reload_why"] and
              len(triggers(bench, daemon)) == 3, daemon.status()["reload_why"])


def trying(checks, bench, daemon, folder):
    before = len(names_of(folder, "signal"))
    result = bench.run("triggers", "try", "signal", "--socket", daemon.socket)
    checks.ok("triggers try fires in spite of the limits",
              result.returncode == 0 and "signal fired: 1" in result.stdout and
              until(lambda: len(names_of(folder, "signal")) == before + 1),
              (result.stdout, result.stderr, folder.names()))
    result = bench.run("triggers", "try", "signl", "--socket", daemon.socket)
    checks.ok("triggers try names the nearest one", result.returncode == 1 and
              "did you mean signal" in result.stderr, result.stderr)
    result = bench.run("triggers", "--socket", daemon.socket)
    checks.ok("triggers prints rules, counts and the last time",
              "signal: all targets (1 now), signal SIGUSR2" in result.stdout
              and "last: " in result.stdout, result.stdout)
    if os.getuid() == 0:
        os.chmod(daemon.folder, 0o755)
        os.chmod(daemon.socket, 0o666)
        result = bench.run("triggers", "--socket", daemon.socket,
                           as_nobody=True)
        checks.ok("other users do not see the owner's triggers",
                  result.returncode == 4, (result.returncode, result.stderr))


def every_format(checks, bench):
    """The trigger's name is in what each kind of file has for it."""
    child = sleeper(bench)
    places = {form: bench.path(form) for form in ("fgt", "chrome", "pprof")}
    for place in places.values():
        os.makedirs(place)
    listed = ", ".join(f'{{ name = "{form}"; directory = "{place}"; '
                       f'format = "{form}"; }}'
                       for form, place in places.items())
    daemon = Daemon(bench, "forms", f"""
upload: {{ destinations = ( {listed} ); }};
targets = ( {{ pid = {child.pid}; }} );
triggers = ( {{ name = "all-forms"; when: {{ file = "/nowhere/x"; }};
  window_s = 2; after_s = 0.1; }} );""")
    time.sleep(1)  # something is recorded
    result = bench.run("triggers", "try", "all-forms", "--socket",
                       daemon.socket)
    found = {}
    for form, place in places.items():
        until(lambda: [name for name in os.listdir(place)
                       if name.startswith("all-forms-")], 10)
        for name in os.listdir(place):
            with open(os.path.join(place, name), "rb") as file:
                found[form] = file.read()
    checks.ok("forms: without deliver each destination gets a slice, whose "
              "file has the trigger's name", result.returncode == 0 and
              found.keys() == places.keys(),
              (result.stderr, daemon.log_text()[-600:]))
    notes = json.loads(found["chrome"])["otherData"]["notes"]
    checks.ok("forms: notes of a Chrome trace", notes["trigger"] ==
              "all-forms" and "tried by" in notes["cause"], notes)
    checks.ok("forms: a mark is at the instant in a Chrome trace", any(
        event["name"] == "trigger all-forms" and event["ph"] in "iI"
        for event in json.loads(found["chrome"])["traceEvents"]), "")
    checks.ok("forms: a comment of pprof", b"trigger: all-forms" in
              gzip.decompress(found["pprof"]), "")
    checks.ok("forms: the .fgt file has the name", b"all-forms" in
              found["fgt"] and b"trigger" in found["fgt"], "")
    daemon.end()


def slow_transactions(checks, bench):
    """The program's transaction goes to its server, the slice to the agent's."""
    own, agents = SentryServer(), SentryServer()
    dsn = bench.path("trigger.dsn")
    with open(dsn, "w") as file:
        file.write(dsn_of(agents) + "\n")
    os.chmod(dsn, 0o600)
    daemon = Daemon(bench, "slow", config(
        rule("slow", 'transaction_ms = 300; transaction = "GET*";', "lab",
             window_s="2"),
        more='upload: { release = "agent@1"; destinations = '
             f'( {{ name = "lab"; dsn_file = "{dsn}"; }} ); }};\n'))
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(own), **EVERY)
    for name, nap in (("GET_/fast", 20), ("PUT_/slow", 400),
                      ("GET_/slow", 400)):
        program.run(f"begin {name} http.server", f"nap {nap}", "finish")
    checks.ok("slow: three transactions arrive",
              until(lambda: len(own.transactions()) == 3), len(own.requests))
    checks.ok("slow: one slice goes to the destination of the configuration",
              until(lambda: len(agents.requests) == 2) and
              len(agents.transactions()) == 1,
              daemon.log_text()[-600:])
    found = received(bench, agents)
    check_wrong(checks, "slow", found)
    tags = found[0].transaction["tags"] if found else {}
    checks.ok("slow: the cause names the transaction", "GET_/slow took" in
              tags.get("cause", "") and found[0].transaction["release"] ==
              "agent@1", tags)
    checks.ok("slow: no other transaction fired",
              fired(bench, daemon, "slow") == 1, triggers(bench, daemon))
    program.close()
    daemon.end()
    own.close()
    agents.close()


if __name__ == "__main__":
    run_groups([a_server_that_sleeps, busy_programs, a_lock_convoy,
                threads_that_wait_for_each_other,
                a_process_without_a_cpu, ends_of_processes,
                an_end_without_room, events,
                every_format, slow_transactions])

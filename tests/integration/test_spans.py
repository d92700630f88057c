# SPDX-License-Identifier: Apache-2.0
"""Spans, from the program's call to the file that shows them.

usage: test_spans.py BUILD

Slices of a program with the library, recorded inside it and by an agent, also
after its death. The live file of FGTRACE_ACTIVITY: on a full disk, in a FIFO
that is not opened, not read, or changes its reader, and with one name for
several processes; never written with more rights than the user's.
"""
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from kit import check_chrome_trace, check_sentry_envelope, strict
from kit.harness import Bench, Checks, as_user, read_until

# Longer than any machine needs; only a program that hangs takes longer.
HANG_SECONDS = 60


class Stage:
    """The installed library, and the program that uses it."""

    def __init__(self, bench):
        self.bench = bench
        prefix = bench.path("prefix")
        subprocess.run(["cmake", "--install", bench.build, "--prefix", prefix],
                       check=True, capture_output=True)
        library = glob.glob(f"{prefix}/lib/**/libfgtrace.so", recursive=True)
        self.environment = {
            **os.environ, "LD_LIBRARY_PATH": os.path.dirname(library[0])}

    def environment_with(self, **more):
        return {**self.environment, **more}

    def run(self, *arguments, **environment):
        return subprocess.run(
            [self.bench.program("sayer"), *arguments], text=True,
            env=self.environment_with(**environment), capture_output=True,
            timeout=HANG_SECONDS)

    def start(self, *arguments, **environment):
        return self.bench.start(
            [self.bench.program("sayer"), *arguments],
            env=self.environment_with(**environment), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def shown_in(events):
    """The events of a Chrome trace that show that all kinds were written."""
    tids = {e["tid"] for e in events if e.get("ph") == "M" and
            e["args"].get("name", "").startswith("request#")}
    begun = [e for e in events if e["ph"] == "B" and e["tid"] in tids]
    return {"tracks": len(tids),
            "names": {e["name"].split("#")[0] for e in begun},
            "labels": sum("labels" in e.get("args", {}) for e in begun),
            "arrows": sum(e["ph"] == "s" for e in events),
            "marks": {e["name"] for e in events if e["ph"] == "i"},
            "counters": {e["name"] for e in events if e["ph"] == "C"}}


def check_slice(checks, name, path):
    try:
        summary = check_chrome_trace.check(path)
    except (OSError, strict.Wrong) as wrong:
        checks.ok(name, False, wrong)
        return
    events = strict.parse_json(strict.read_bytes(path))["traceEvents"]
    shown = shown_in(events)
    checks.ok(f"{name} ({summary})",
              shown["tracks"] == 3 and shown["labels"] > 0 and
              shown["names"] == {"request", "parse", "query", "read"} and
              shown["arrows"] > 10 and shown["marks"] == {"read a row"} and
              shown["counters"] == {"requests"}, shown)


def test_embedded(checks, stage):
    path = stage.bench.path("embedded.trace.json")
    result = stage.run("work", "embedded", "1.5", path)
    checks.ok("embedded program runs",
              result.returncode == 0, result.stderr[-300:])
    check_slice(checks, "its slice has what it recorded", path)


def test_agent(checks, stage):
    bench = stage.bench
    _, socket = bench.daemon("agent")
    path = bench.path("agent.trace.json")
    child = stage.start("work", "agent", "-", path, FGTRACE_SOCKET=socket)
    pid = read_until(child.stdout, "ready ")
    time.sleep(1.5)

    def cut(out):
        return bench.run("--socket", socket, "slice", "--last", "1s", "-p",
                         pid, "-o", out)

    result = cut(bench.path("outside.trace.json"))
    checks.ok("agent cuts a slice of the program", result.returncode == 0,
              result.stderr[-300:])
    check_slice(checks, "the agent's slice has what it recorded",
                bench.path("outside.trace.json"))
    cut(bench.path("kept.fgt"))
    bench.run("convert", bench.path("kept.fgt"), "-o",
              bench.path("kept.envelope"))
    try:
        summary = check_sentry_envelope.check(bench.path("kept.envelope"))
        checks.ok(f"envelope has the spans ({summary})",
                  not summary.endswith(" 0 spans"), summary)
    except (OSError, strict.Wrong) as wrong:
        checks.ok("envelope has the spans", False, wrong)
    child.send_signal(signal.SIGKILL)
    child.wait()
    result = bench.run("--socket", socket, "slice", "--last", "2s", "-p", pid,
                       "-o", bench.path("dead.trace.json"))
    checks.ok("slice of a killed program has its last seconds",
              result.returncode == 0, result.stderr[-300:])
    check_slice(checks, "what it recorded outlives it",
                bench.path("dead.trace.json"))


def read_live(path):
    """The events: a JSON array that is never closed, one event a line."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return json.loads(text.rstrip().rstrip(",") + "]")


def test_live(checks, stage):
    path = stage.bench.path("live-{pid}.json")
    result = stage.run("work", "embedded", "0.3", FGTRACE_ACTIVITY=path)
    found = glob.glob(stage.bench.path("live-[0-9]*.json"))
    checks.ok("live file is written", result.returncode == 0 and
              len(found) == 1, (result.stderr, found))
    events = read_live(found[0]) if found else []
    shown = shown_in(events)
    checks.ok("live file has all events",
              shown["names"] == {"request", "parse", "query", "read"} and
              shown["marks"] == {"read a row", "number"} and
              shown["counters"] == {"requests"}, shown)
    begins = sum(e["ph"] == "B" for e in events)
    checks.ok("live file has as many ends as begins",
              begins > 50 and begins == sum(e["ph"] == "E" for e in events),
              begins)


def lost_in(path):
    return sum(e["args"]["lost"] for e in read_live(path)
               if e["name"] == "[events lost]")


def test_without_start(checks, stage):
    path = stage.bench.path("storm.json")
    result = stage.run("storm", "2000", FGTRACE_ACTIVITY=path)
    begins = sum(e["ph"] == "B" for e in read_live(path))
    checks.ok("live file needs no fgt_start()",
              result.stdout == "sent 2000\n" and begins == 2001,
              (result.stdout, begins))


def test_daemon(checks, stage):
    """The program closes the live file and opens its own under that number."""
    live, own = stage.bench.path("daemon.json"), stage.bench.path("its-own")
    result = stage.run("daemon", own, FGTRACE_ACTIVITY=live)
    checks.ok("program that closes the live file keeps its own file clean",
              result.returncode == 0 and os.path.getsize(own) == 0,
              (result.stderr, os.path.getsize(own)))
    events = read_live(live)
    checks.ok("live file that was closed is opened again",
              sum(e["ph"] == "B" for e in events) == 33 and
              sum(e["name"] == "process_name" for e in events) == 1,
              len(events))


def begins_of(path):
    """Numbers of spans and tasks and of processes; or what is wrong."""
    try:
        events = read_live(path)
    except (OSError, ValueError) as wrong:
        return (str(wrong), 0)
    return (sum(e["ph"] == "B" for e in events),
            len({e["pid"] for e in events}))


def test_children(checks, stage):
    """A program with the library starts other programs with it."""
    sayer = stage.bench.program("sayer")
    path = stage.bench.path("family.json")
    for name, command in (
            ("a child", f"{sayer} storm 5"),
            ("a child of a child", f"{sayer} around '{sayer} storm 5'"),
            ("one with a new environment",
             f"env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH FGTRACE_ACTIVITY={path} "
             f"{sayer} storm 5")):
        result = stage.run("around", command, FGTRACE_ACTIVITY=path)
        checks.ok(f"{name} leaves its parent's live file alone",
                  result.returncode == 0 and begins_of(path) == (22, 1),
                  (result.stderr, begins_of(path)))
        checks.ok(f"{name} prints the cause if its environment is new",
                  ("another process writes this file" in result.stderr) ==
                  ("environment" in name), result.stderr)
    stage.run("around", f"FGTRACE_ACTIVITY={path}2 {sayer} storm 5",
              FGTRACE_ACTIVITY=path)
    checks.ok("child with another file name writes its file",
              begins_of(path) == (22, 1) and begins_of(path + "2") == (6, 1))
    many = stage.bench.path("family-%p.json")
    stage.run("around", f"{sayer} storm 5", FGTRACE_ACTIVITY=many)
    found = glob.glob(stage.bench.path("family-[0-9]*.json"))
    checks.ok("'%p' in the name makes one file a process",
              sorted(map(begins_of, found)) == [(6, 1), (22, 1)], found)
    result = stage.run("then", sayer, "storm", "5", FGTRACE_ACTIVITY=path)
    checks.ok("process continues its live file after exec",
              result.returncode == 0 and begins_of(path) == (17, 1),
              (result.stderr, begins_of(path)))


def test_same_name(checks, stage):
    path = stage.bench.path("same.json")
    first = stage.start("work", "embedded", "-", FGTRACE_ACTIVITY=path)
    read_until(first.stdout, "ready ")
    time.sleep(0.3)
    second = stage.run("storm", "5", FGTRACE_ACTIVITY=path)
    first.communicate("")
    checks.ok("live file of another process is not written",
              second.stdout == "sent 5\n" and begins_of(path)[1] == 1 and
              begins_of(path)[0] > 50, begins_of(path))
    checks.ok("second process prints why it does not write",
              second.stderr.count("\n") == 1 and
              "another process writes this file" in second.stderr, second.stderr)
    third = stage.run("storm", "5", FGTRACE_ACTIVITY=path)
    checks.ok("live file of an ended process may be replaced",
              not third.stderr and begins_of(path) == (6, 1),
              (third.stderr, begins_of(path)))


def test_full_disk(checks, stage):
    folder = stage.bench.path("full")
    os.mkdir(folder)
    if os.getuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
            capture_output=True).returncode != 0:
        print("# a full disk: not tried, only root can mount one")
        return
    try:
        result = stage.run("storm", "300000",
                           FGTRACE_ACTIVITY=f"{folder}/live.json")
        size = os.path.getsize(f"{folder}/live.json")
        checks.ok("full disk does not stall the program",
                  result.stdout == "sent 300000\n" and size >= 60 << 10,
                  (result.stdout, result.stderr, size))
    finally:
        subprocess.run(["umount", folder], check=False)


def test_fifo(checks, stage):
    path = stage.bench.path("fifo")
    os.mkfifo(path)
    result = stage.run("lose", "300000", FGTRACE_ACTIVITY=path)
    line, lost = result.stdout.split("\n")[:2]
    checks.ok("FIFO without a reader does not stall the program",
              line == "sent 300000",
              result.stderr)
    checks.ok("status has the number of lost events",
              int(lost.split()[1]) > 300000, result.stdout)
    checks.ok("standard error has the cause and the number",
              "fifo: the FIFO has no reader\n" in result.stderr and
              missing_in(result.stderr) == 600002, result.stderr)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    result = stage.run("storm", "300000", FGTRACE_ACTIVITY=path)
    checks.ok("FIFO that is not read does not stall the program",
              result.stdout == "sent 300000\n", result.stderr)
    events = events_in(reader)
    checks.ok("missing events are reported",
              600002 <= events + missing_in(result.stderr) < 600010 and
              "reader was too slow" in result.stderr, (result.stderr, events))
    os.close(reader)
    result = stage.run("storm", "1000", FGTRACE_ACTIVITY="/dev/full")
    checks.ok("missing events are reported at the end, too",
              result.stdout == "sent 1000\n" and
              "No space left on device\n" in result.stderr and
              2002 <= missing_in(result.stderr) < 2010, result.stderr)


def missing_in(text):
    found = re.search(r"about (\d+) events at the end are missing", text)
    return int(found.group(1)) if found else 0


def events_in(reader):
    """Number of span events, and of those that are reported as missing."""
    text = b""
    while piece := os.read(reader, 1 << 16):
        text += piece
    events = json.loads(text[:text.rindex(b",\n")] + b"]")
    return (sum(e["ph"] in "BE" for e in events) +
            sum(e["args"]["lost"] for e in events
                if e["name"] == "[events lost]"))


def test_next_reader(checks, stage):
    """Events on their way to a reader that left are reported to the next one."""
    path, gate = stage.bench.path("next"), stage.bench.path("gate")
    os.mkfifo(path)
    os.mkfifo(gate)
    first = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(first, fcntl.F_SETPIPE_SZ, 4096)
    filler = os.open(path, os.O_WRONLY)
    os.write(filler, b" " * 3000)  # room for the head, not for the events
    os.close(filler)
    child = stage.start("around", f"cat {gate}", FGTRACE_ACTIVITY=path)
    read_until(child.stdout, "sent ")
    time.sleep(0.3)
    os.close(first)
    time.sleep(0.3)
    second = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    time.sleep(0.3)
    os.close(os.open(gate, os.O_WRONLY))
    child.wait(HANG_SECONDS)
    with os.fdopen(second, "rb") as pipe:
        text = pipe.read()
    events = json.loads(text[:text.rindex(b",\n")] + b"]")
    kept = sum(e["ph"] in "BE" for e in events)
    lost = sum(e["args"]["lost"] for e in events
               if e["name"] == "[events lost]")
    checks.ok("next reader gets the number of events that the last one missed",
              kept == 22 and 22 <= lost <= 23, (kept, lost))


def test_slow_reader(checks, stage):
    """Events without a reader are counted, to the last one."""
    path = stage.bench.path("slow")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    child = stage.start("storm", "300000", FGTRACE_ACTIVITY=path)
    read_until(child.stdout, "sent ")  # and it waits half a second for us
    os.set_blocking(reader, True)
    copy = stage.bench.path("slow.json")
    with os.fdopen(reader, "rb") as pipe, open(copy, "wb") as out:
        shutil.copyfileobj(pipe, out)
    events = read_live(copy)
    kept = sum(e["ph"] in "BE" for e in events)
    lost = lost_in(copy)
    checks.ok("events that a slow reader missed are counted",
              child.wait() == 0 and lost > 0 and kept + lost == 600002,
              (kept, lost))
    shown = [e for e in events if e["ph"] in "BEi"]
    gaps = [i for i, e in enumerate(shown) if e["name"] == "[events lost]"]
    checks.ok("missed events are reported in their place",
              gaps and gaps[-1] + 1 < len(shown) and
              shown == sorted(shown, key=lambda e: e["ts"]),
              (gaps, len(shown)))


def test_rights(checks, stage):
    bench = stage.bench
    program = shutil.copy2(bench.program("sayer-static"),
                           bench.path("privileged"))
    result = subprocess.run([program, "storm", "10"], text=True,
                            env={"FGTRACE_ACTIVITY": bench.path("own.json")},
                            capture_output=True, timeout=HANG_SECONDS)
    checks.ok("the static library has a live file, too",
              result.stdout == "sent 10\n" and
              os.path.exists(bench.path("own.json")), result.stderr)
    if os.getuid() != 0:
        print("# more rights than the user's: not tried, only root can give")
        return
    os.chmod(program, 0o4755)
    result = subprocess.run(as_user([program, "storm", "10"], True), text=True,
                            env={"FGTRACE_ACTIVITY": bench.path("root.json")},
                            capture_output=True, timeout=HANG_SECONDS)
    checks.ok("a set-user-ID program writes no file",
              result.stdout == "sent 10\n" and
              not os.path.exists(bench.path("root.json")), result.stderr)


def main():
    checks = Checks()
    bench = Bench(sys.argv[1])
    try:
        stage = Stage(bench)
        for test in (test_embedded, test_agent, test_live, test_daemon,
                     test_children, test_same_name, test_without_start,
                     test_full_disk, test_fifo, test_next_reader,
                     test_slow_reader, test_rights):
            test(checks, stage)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Recording without a daemon, terminals and signals.

usage: test_record.py BUILD

The recorded command keeps its input, output and status; ^C; recording as an
ordinary user; binary output is not written to a terminal.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

from kit.cli_checks import (
    check_content, expect_error, ok, run_groups, start_busy, start_sampling,
    summary)
from kit.harness import NOBODY, as_user, read_until


def test_record(bench, busy_pid):
    folded = bench.path("record.folded")
    result = bench.run("record", "-d", "1500ms", "-p", str(busy_pid), "-o",
                       folded)
    ok("record -p", result.returncode == 0, result.stderr)
    check_content("record -p", folded, "folded")
    with open(folded) as file:
        ok("record -p sees the burning function", "burn" in file.read())
    for name, command, status in (
            ("0", "sleep 0.4", 0), ("its own", "sleep 0.4; exit 7", 7),
            ("a signal's", "sleep 0.4; kill -TERM $$", 143)):
        result = bench.run("record", "-o", bench.path("c.trace.json"), "--",
                           "sh", "-c", command)
        ok(f"record passes on {name} status", result.returncode == status,
           f"{result.returncode}: {result.stderr}")
    out = bench.run("record", "-q", "-o", bench.path("d.folded"), "--", "sh",
                    "-c", "cat; sleep 0.3; exec sleep 0.3", input="typed\n")
    ok("the command keeps standard input and output",
       out.stdout == "typed\n" and not out.stderr, f"{out.stdout} {out.stderr}")
    with open(bench.path("d.folded")) as file:
        text = file.read()
    ok("nothing of fgtrace is in the recording", "fgt_" not in text and
       "become" not in text, text[:300])
    for name, status, command in (
            ("a command that is not", 127, "no-such-command-at-all"),
            ("a path that is not", 127, "/nope"),
            ("a file that is no program", 126, "/etc/passwd")):
        expect_error(bench, name, status, "cannot run", "record", "-o",
                     bench.path("e.folded"), "--", command)
    mark = bench.path("ran")
    expect_error(bench, "a recording that could not be written", 1,
                 "does not exist", "record", "-o", bench.path("none/x.fgt"),
                 "--", "touch", mark)
    ok("is reported before the command runs", not os.path.exists(mark))
    os.symlink("nothing-there", bench.path("link.folded"))
    for path in (bench.path("link.folded"), "/proc/x.fgt"):
        expect_error(bench, f"{path} is not blamed on its directory", 1,
                     "takes no files", "record", "-o", path, "--", "true")
    expect_error(bench, "a command that is over at once is no fault", 0,
                 "two ticks", "record", "-r", "1", "-o",
                 bench.path("e.folded"), "--", "true")
    ok("nothing is written for it",
       not os.path.exists(bench.path("e.folded")))
    expect_error(bench, "a command that fails at once", 7, "two ticks",
                 "record", "-r", "1", "-o", bench.path("e.folded"), "--",
                 "sh", "-c", "exit 7")
    expect_error(bench, "record of a process that is not", 1, "", "record",
                 "-p", "4194304", "-d", "1", "-o", "/dev/null", "-f", "fgt")
    data = summary(bench, "record", "-r", "499", "-d", "1", "-p",
                   str(busy_pid))
    ok("record -r", 350 < data.get("effective_hz", 0) < 510, data)


def test_output_in_environment(bench):
    """The name of the recording's file is not the command's."""
    path, seen = bench.path("env.folded"), bench.path("env.txt")
    result = bench.run("record", "-q", "--", "sh", "-c",
                       f"echo [$FGTRACE_OUTPUT] >{seen}; sleep 0.3",
                       env={**os.environ, "FGTRACE_OUTPUT": path})
    with open(seen) as file:
        ok("FGTRACE_OUTPUT is record's, and not passed on",
           result.returncode == 0 and file.read() == "[]\n" and
           os.path.exists(path), result.stderr)


def test_later_children(bench):
    """--children, of a process and of a command, also has those that start
    later; those that are too brief are counted."""
    late = shutil.copy2("/bin/sleep", bench.path("late-sleep"))
    script = f"sleep 1.5; {late} 2 & /bin/true; /bin/true; wait"
    shell = bench.start(["sh", "-c", "sleep 0.2; " + script])
    for name, flags in (("-p PID", ["-p", str(shell.pid)]),
                        ("-- CMD", ["--", "sh", "-c", script])):
        path = bench.path("later.folded")
        result = bench.run("record", "-d", "3.4", "--children", "-o", path,
                           *flags)
        with open(path) as file:
            names = set(re.findall(r"^([^;]*) \(\d+\);", file.read(), re.M))
        ok(f"record --children {name}: a process that started later is there",
           result.returncode == 0 and {"sh", "sleep", "late-sleep"} == names,
           (names, result.stderr))
    ok("record --children: brief ones are counted",
       "ended without being sampled" in result.stderr, result.stderr)
    result = bench.run("record", "-o", bench.path("alone.fgt"), "--", "sh",
                       "-c", "sleep 1.2; true")
    ok("record of a shell names the flag that has its children",
       "1 child process ended without being sampled: record with --children"
       in result.stderr, result.stderr)


def test_several_processes(bench):
    """Those of a name, and those below a process."""
    program = shutil.copy2("/bin/sleep", bench.path("twin-of-sleep"))
    twins = [bench.start([program, "60"]) for _ in range(2)]
    shell = bench.start(["sh", "-c", "sleep 60 & sleep 60 & echo ready; wait"],
                        stdout=subprocess.PIPE)
    shell.stdout.readline()
    time.sleep(0.2)
    with open(f"/proc/{shell.pid}/task/{shell.pid}/children") as file:
        below = [int(word) for word in file.read().split()]
    for name, flags, pids in (
            ("-n NAME", ["-n", "twin-of-sleep"], [one.pid for one in twins]),
            ("-p PID --children", ["-p", str(shell.pid), "--children"],
             [shell.pid, *below])):
        path = bench.path("several.folded")
        result = bench.run("record", "-d", "1", *flags, "-o", path)
        with open(path) as file:
            text = file.read()
        ok(f"record {name}: all of them, and no other", result.returncode == 0
           and sorted({int(pid) for pid in re.findall(
               r"^[^;]* \((\d+)\);", text, re.M)}) == sorted(pids),
           (pids, text[:500], result.stderr))
        ok(f"record {name}: their number is printed",
           f"and {len(pids) - 1} more process" in result.stderr, result.stderr)
    expect_error(bench, "record of a name that no process has", 1,
                 "no process is called 'no-such-name'", "record", "-n",
                 "no-such-name", "-d", "1")
    test_later_children(bench)
    test_output_in_environment(bench)
    for pid in below:
        os.kill(pid, signal.SIGKILL)
    for one in twins:
        one.kill()


def record_in_background(bench, *arguments, **more):
    return subprocess.Popen([bench.agent, "record", *arguments],
                            stderr=subprocess.PIPE, text=True, **more)


def test_record_signals(bench, busy_pid):
    path = bench.path("int.folded")
    child = record_in_background(bench, "-p", str(busy_pid), "-o", path)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, text = child.communicate(timeout=30)
    ok("SIGINT ends the recording and writes it", child.returncode == 0 and
       os.path.getsize(path) > 0, text)
    child = record_in_background(bench, "-o", path, "--", "sleep", "30")
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, text = child.communicate(timeout=30)
    ok("the command gets it as well", child.returncode == 130, text)
    child = record_in_background(bench, "-d", "500ms", "-o", path, "--", "sh",
                                 "-c", "sleep 1.5; exit 3")
    _, text = child.communicate(timeout=30)
    ok("a command that goes on is waited for", child.returncode == 3 and
       "still runs" in text, text)


def ignore_interrupts():
    """Ignores SIGINT and SIGQUIT, as in background jobs of a plain shell."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def test_ignored_signals(bench, busy_pid):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        path = bench.path(f"ignored-{number}.folded")
        child = record_in_background(bench, "-p", str(busy_pid), "-o", path,
                                     preexec_fn=ignore_interrupts)
        time.sleep(0.6)
        child.send_signal(number)
        # SIGHUP comes twice: from the terminal and from the shell.
        if number == signal.SIGHUP:
            time.sleep(0.02)
            child.send_signal(number)
        _, text = child.communicate(timeout=30)
        ok(f"{number.name} that was ignored ends the recording and writes it",
           child.returncode == 0 and os.path.exists(path), text)
    result = bench.run("record", "-o", bench.path("mask.folded"), "--", "grep",
                       "SigIgn", "/proc/self/status",
                       preexec_fn=ignore_interrupts)
    mask = int(result.stdout.split()[1], 16)
    ok("what was ignored stays ignored for the command",
       mask & 0x3 == 0x3 and not mask & 1 << signal.SIGTERM - 1,
       result.stdout)


def test_ordinary_user(bench):
    """Own processes may be recorded without any privilege."""
    if os.getuid() != 0:
        return
    folder = bench.copy_for_nobody()
    target = bench.start([f"{folder}/truth-nofp", "shares", "60"], True,
                         stdout=subprocess.PIPE, text=True)
    pid = read_until(target.stdout, "ready ")
    out = bench.path("ordinary")
    os.makedirs(out)
    os.chown(out, NOBODY, NOBODY)
    result = subprocess.run(
        as_user([f"{folder}/fgtrace-agent", "record", "-d", "2", "-p", pid,
                 "-o", f"{out}/x.folded", "--json"], True),
        capture_output=True, text=True, cwd=out)
    ok("an ordinary user records an own process", result.returncode == 0,
       result.stderr)
    if result.returncode == 0:
        data = json.loads(result.stdout)
        ok("with complete stacks", data["complete"] >= 0.98 * data["samples"],
           data)
    result = subprocess.run(
        as_user([f"{folder}/fgtrace-agent", "record", "-q", "-o",
                 f"{out}/y.folded", "--", "sh", "-c", "sleep 0.5; exit 9"],
                True), capture_output=True, text=True, cwd=out)
    ok("and an own command", result.returncode == 9 and
       os.path.getsize(f"{out}/y.folded") > 0, result.stderr)
    target.terminate()
    program = shutil.copy2("/bin/sleep", f"{folder}/shared-name")
    twins = [bench.start([program, "60"], is_own) for is_own in (False, True)]
    time.sleep(0.2)
    result = subprocess.run(
        as_user([f"{folder}/fgtrace-agent", "record", "-q", "-d", "0.3", "-n",
                 "shared-name", "-o", f"{out}/z.folded"], True),
        capture_output=True, text=True, cwd=out)
    ok("of a name that others use, too, with the reason for what is missing",
       result.returncode == 0 and re.search(
           f"1 of 2 processes are missing: .*{twins[0].pid}", result.stderr),
       result.stderr)


def run_in_terminal(command, seconds, send=None):
    """Runs on a pseudo terminal; returns (status, what it printed)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    text, begun, is_sent = b"", time.monotonic(), send is None
    while True:
        if not is_sent and time.monotonic() - begun > seconds:
            os.write(fd, send)
            is_sent = True
        try:
            if select.select([fd], [], [], 0.1)[0]:
                block = os.read(fd, 65536)
                if not block:
                    break
                text += block
        except OSError:
            break
        if time.monotonic() - begun > 60:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def test_terminal(bench, agent_socket, busy_pid):
    path = bench.path("tty.folded")
    status, text = run_in_terminal(
        [bench.agent, "record", "-p", str(busy_pid), "-o", path], 1.5, b"\x03")
    ok("a terminal shows progress", re.search(
        r"recording \d+ threads? of .* \(\d+\): \d+\.\d s, \d+ % complete "
        r"stacks  \^C to stop", text), repr(text[:500]))
    ok("^C ends it and writes", status == 0 and os.path.getsize(path) > 0,
       f"{status} {text[-300:]!r}")
    status, text = run_in_terminal(
        [bench.agent, "record", "-o", path, "--", "sleep", "30"], 1.5, b"\x03")
    ok("^C reaches the command once", status == 130 and
       os.path.getsize(path) > 0, f"{status} {text[-300:]!r}")
    status, text = run_in_terminal(
        [bench.agent, "--socket", agent_socket, "slice", "--last", "1s", "-o",
         "-"], 0)
    ok("binary does not go to a terminal", status == 2 and "terminal" in text,
       text)


def run(bench):
    test_several_processes(bench)
    pid = start_busy(bench)
    agent_socket = start_sampling(bench, pid)
    test_record(bench, pid)
    test_record_signals(bench, pid)
    test_ignored_signals(bench, pid)
    test_ordinary_user(bench)
    test_terminal(bench, agent_socket, pid)


if __name__ == "__main__":
    run_groups(run)

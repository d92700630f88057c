# SPDX-License-Identifier: Apache-2.0
"""attach and detach from the command line, and errors of ordinary users.

usage: test_attach.py BUILD
"""
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import time

from kit.cli_checks import (
    expect_error, is_one_line, ok, run_groups, start_busy, start_sampling,
    summary)
from kit.harness import as_user


def test_attach(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    sleeper = bench.start(["sleep", "60"])
    pid = str(sleeper.pid)
    expect_error(bench, "slice of what is not attached", 1, "", "slice", "-p",
                 pid, env=env)
    attach = bench.run("attach", pid, env=env)
    ok("attach by pid", attach.returncode == 0 and
       f"sampling {pid} sleep" in attach.stdout, attach.stdout + attach.stderr)
    ambiguous = bench.run("slice", "--last", "1s", env=env)
    ok("several targets: one must be chosen", ambiguous.returncode == 2 and
       "-p PID" in ambiguous.stderr and is_one_line(ambiguous.stderr),
       ambiguous.stderr)
    time.sleep(0.3)
    by_name = summary(bench, "slice", "--last", "1s", "-n", "sleep", env=env)
    ok("slice by name", by_name.get("name") == "sleep", by_name)
    ok("a sleeper is seen sleeping", by_name["threads"] and
       by_name["threads"][0]["running"] == 0 and "nanosleep" in
       by_name["threads"][0]["blocked_in"][0]["state"], by_name)
    detach = bench.run("detach", pid, "--json", env=env)
    ok("detach prints what it detached", detach.returncode == 0 and
       json.loads(detach.stdout)["targets"][0]["pid"] == sleeper.pid,
       detach.stdout + detach.stderr)
    expect_error(bench, "detach again", 1, "", "detach", pid, env=env)
    expect_error(bench, "attach of a process that is not", 1, "", "attach",
                 "4194304", env=env)
    expect_error(bench, "attach of a name that is not", 1,
                 "no process named no-such-program: ", "attach",
                 "no-such-program", env=env)
    agent = json.loads(bench.run("status", "--json", env=env).stdout)["pid"]
    expect_error(bench, "attach of the agent names the key that permits it", 4,
                 "sampling.include_self", "attach", str(agent), env=env)


def test_attach_flags(bench, agent_socket):
    """-p and -n, as the other verbs have them, and as environment."""
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    copy = bench.path("12345678")
    shutil.copy2(shutil.which("sleep"), copy)
    first, second = (bench.start([name, "60"]) for name in ("sleep", copy))
    time.sleep(0.3)
    for verb, word in (("attach", "sampling"), ("detach", "no longer sampling")):
        by_pid = bench.run(verb, "-p", str(first.pid), env=env)
        ok(f"{verb} -p", by_pid.returncode == 0 and by_pid.stdout ==
           f"{word} {first.pid} sleep\n", by_pid)
        by_name = bench.run(verb, "-n", "12345678", env=env)
        ok(f"{verb} -n of a name that is a number", by_name.returncode == 0 and
           f"{word} {second.pid} 12345678\n" in by_name.stdout, by_name)
    argument = bench.run("attach", str(second.pid),
                         env=dict(env, FGTRACE_PID=str(first.pid)))
    ok("an argument instead of what the environment names", argument.stdout ==
       f"sampling {second.pid} 12345678\n", argument)
    first.kill()
    second.kill()


def test_32_bits(bench, agent_socket):
    """A program of the i386 that pauses: one segment, its header included."""
    code = bytes.fromhex("b81d000000cd80ebf7")  # again: pause(); goto again
    end = 52 + 32 + len(code)
    start = 0x8048000 + 52 + 32
    path = bench.path("pauses")
    with open(path, "wb") as file:
        file.write(
            b"\x7fELF\x01\x01\x01" + bytes(9) +
            struct.pack("<2H5I6H", 2, 3, 1, start, 52, 0, 0, 52, 32, 1, 40, 0,
                        0) +
            struct.pack("<8I", 1, 0, 0x8048000, 0x8048000, end, end, 5, 4096) +
            code)
    os.chmod(path, 0o755)
    try:
        child = bench.start([path])
    except OSError as error:
        print(f"# no program of 32 bits runs here: {error}")
        return
    time.sleep(0.2)
    expect_error(bench, "attach of a program of 32 bits", 2, "32 bits",
                 "attach", str(child.pid),
                 env=dict(os.environ, FGTRACE_SOCKET=agent_socket))
    child.kill()


def test_attach_name(bench, agent_socket):
    """A name stays attached; only living processes are listed as sampled."""
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    copy = bench.path("short-lived")
    shutil.copy2(shutil.which("sleep"), copy)
    first = bench.start([copy, "60"])
    time.sleep(0.3)
    attach = bench.run("attach", "short-lived", env=env)
    ok("attach by name prints the process and the rule",
       attach.returncode == 0 and attach.stdout ==
       f"sampling {first.pid} short-lived\n"
       "sampling processes that start later, named short-lived\n",
       attach.stdout + attach.stderr)
    time.sleep(1.5)
    first.kill()
    first.wait()
    second = bench.start([copy, "60"])
    time.sleep(3)
    again = bench.run("attach", "short-lived", env=env)
    ok("a process that has ended is not reported as sampled",
       f"sampling {second.pid} short-lived\n" in again.stdout and
       str(first.pid) not in again.stdout, again.stdout + again.stderr)
    targets = bench.run("targets", env=env)
    ok("targets prints the rule",
       "attached when it starts: short-lived (by user " in targets.stdout and
       re.search(f"{second.pid}  short-lived", targets.stdout),
       targets.stdout)
    ended = json.loads(bench.run("slice", "-p", str(first.pid), "--last", "1s",
                                 "--json", env=env).stdout or "{}")
    ok("--last counts from the end of a process that has ended",
       ended.get("ticks", 0) > 50, ended)
    detach = bench.run("detach", "short-lived", env=env)
    ok("detach by name prints that the rule is gone",
       "no longer sampling processes that start later, named short-lived\n" in
       detach.stdout, detach.stdout + detach.stderr)


def test_attach_several(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    pids = [str(bench.start(["sleep", "60"]).pid) for _ in range(2)]
    both = bench.run("attach", *pids, env=env)
    ok("attach of several processes", both.returncode == 0 and
       both.stdout == "".join(f"sampling {pid} sleep\n" for pid in pids),
       both.stdout + both.stderr)
    mixed = bench.run("detach", pids[0], "4194304", "--json", pids[1],
                      "no-such-program", env=env)
    replies = [json.loads(line) for line in mixed.stdout.splitlines()]
    ok("one line for each failure, and what can be done is done",
       mixed.returncode == 1 and mixed.stderr.count("\n") == 2 and
       "detach: 4194304: " in mixed.stderr and
       "detach: no-such-program: " in mixed.stderr and
       [str(reply["targets"][0]["pid"]) for reply in replies] == pids,
       mixed.stdout + mixed.stderr)
    expect_error(bench, "attach of several without agent", 3, "no agent",
                 "attach", *pids, "--socket", bench.path("none.sock"))


def test_other_users(bench, agent_socket, pid):
    if os.getuid() != 0:
        return
    binary = os.path.join(bench.copy_for_nobody(), "fgtrace-agent")
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "slice", "-p", str(pid),
                 "-o", "-"], True), capture_output=True, text=True)
    ok("an ordinary user does not get a slice of root's target",
       result.returncode == 4 and is_one_line(result.stderr) and
       not result.stdout, f"{result.returncode} {result.stderr}")
    folder = os.path.dirname(agent_socket)
    os.chmod(folder, 0o755)
    os.chmod(agent_socket, 0o666)
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "slice", "-p", str(pid),
                 "-o", "-"], True), capture_output=True, text=True)
    ok("nor through an open socket", result.returncode in (1, 4) and
       is_one_line(result.stderr) and not result.stdout,
       f"{result.returncode} {result.stderr}")
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "targets", "--json"], True),
        capture_output=True, text=True)
    ok("an ordinary user does not see root's targets", str(pid) not in result.stdout,
       result.stdout)
    result = subprocess.run(
        as_user([binary, "record", "-d", "1", "-p", str(pid), "-o",
                 "/dev/null", "-f", "folded"], True), capture_output=True,
        text=True)
    ok("an ordinary user does not record root's process", result.returncode == 4 and
       is_one_line(result.stderr), f"{result.returncode} {result.stderr}")
    _, own = bench.daemon("nobody", as_nobody=True, agent=binary)
    result = subprocess.run(
        as_user([binary, "--socket", own, "status", "--json"], True),
        capture_output=True, text=True)
    status = json.loads(result.stdout)
    ok("status reports to an ordinary user what BPF would need",
       "CAP_BPF" in status["bpf_why"] and
       status["perf_cpu_why"] in status["bpf_why"], result.stdout)
    test_ordinary_user_errors(bench, binary, agent_socket)
    forbidden = bench.path("forbidden")
    os.mkdir(forbidden, 0o700)
    for verb, *words in (["record", "-d", "1", "--", "true"],
                         ["slice", "--socket", agent_socket]):
        result = subprocess.run(
            as_user([binary, verb, "-o", f"{forbidden}/x.folded", *words],
                    True), capture_output=True, text=True)
        ok(f"{verb} into a forbidden directory is not permitted",
           result.returncode == 4 and is_one_line(result.stderr) and
           "-o" in result.stderr, f"{result.returncode} {result.stderr}")


def test_ordinary_user_errors(bench, binary, agent_socket):
    """The error names the socket or the environment variable, no other file."""
    def run(name, status, parts, *words, cwd=None, **env):
        result = subprocess.run(
            as_user([binary, *words], True), capture_output=True, text=True,
            cwd=cwd, env={**os.environ, "XDG_RUNTIME_DIR": "", **env})
        ok(f"ordinary user, {name}", result.returncode == status and
           is_one_line(result.stderr) and
           all(part in result.stderr for part in parts) and
           "slice;" not in result.stderr and "-o" not in result.stderr.split(),
           f"{result.returncode} {result.stderr}")

    os.chmod(agent_socket, 0o600)
    for directory in (bench.scratch, "/"):
        run(f"slice in {directory} without agent", 3,
            ("no agent listens on /tmp/fgtrace-",), "slice", cwd=directory)
        run(f"slice in {directory} from root's agent", 4,
            (agent_socket, "run as its owner"), "slice", "--socket",
            agent_socket, cwd=directory)
    os.chmod(agent_socket, 0o666)
    private = bench.path("private")
    os.mkdir(private, 0o700)
    run("XDG_RUNTIME_DIR of another user", 4,
        (f"XDG_RUNTIME_DIR={private}", "--socket"), "status",
        XDG_RUNTIME_DIR=private)
    run("XDG_RUNTIME_DIR that does not exist", 3,
        ("XDG_RUNTIME_DIR=/none", "--socket"), "status",
        XDG_RUNTIME_DIR="/none")
    script = "mount -t tmpfs tmpfs /run && mkdir /run/fgtrace && " \
        'touch /run/fgtrace/agent.sock && exec "$@"'
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh",
         *as_user([binary, "status"], True)], capture_output=True, text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": ""})
    if "fgtrace-agent:" not in result.stderr:
        print("# cannot mount a tmpfs here: root's socket is not tested")
        return
    ok("ordinary user, root's agent is named", result.returncode == 3 and
       is_one_line(result.stderr) and
       "--socket /run/fgtrace/agent.sock" in result.stderr, result.stderr)


def run(bench):
    pid = start_busy(bench)
    agent_socket = start_sampling(bench, pid)
    test_attach(bench, agent_socket)
    test_attach_flags(bench, agent_socket)
    if platform.machine() == "x86_64":
        test_32_bits(bench, agent_socket)
    test_attach_name(bench, agent_socket)
    test_attach_several(bench, agent_socket)
    test_other_users(bench, agent_socket, pid)


if __name__ == "__main__":
    run_groups(run)

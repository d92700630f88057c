# SPDX-License-Identifier: Apache-2.0
"""Registered programs that die. Their last seconds are delivered if the signal
that killed them is a fault, not a request to end (SIGTERM, SIGINT, …).
test_crashes.py BUILD [GROUP…]

In agent mode the ring is the agent's; embedded it is the program's own, of
which the agent holds the memory.
"""
import os
import signal
import time

from kit.daemon_bench import Daemon, run_groups
from kit.daemon_client import Connection, call, request
from kit.transact import Folder, Program, until

CRASHES = (("segv", signal.SIGSEGV), ("abort", signal.SIGABRT),
           ("kill", signal.SIGKILL))
REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
QUIET_S = 3  # longer than the agent waits for the end of a process


def has_embedded(bench):
    return any(name.startswith("libfgtrace-embed")
               for _, _, names in os.walk(bench.build) for name in names)


def modes(bench):
    return ("agent", "embedded") if has_embedded(bench) else ("agent",)


def start(bench, daemon, mode, folder, **options):
    program = Program(bench, mode=mode, socket=daemon.socket,
                      destination=folder.path, release="shop@1.0", **options)
    until(lambda: daemon.status()["registered"] == 1)
    return program


def check_crash(checks, name, program, folder, daemon, signal_name,
                has_span=False):
    found = folder.wait(1)
    if not checks.ok(f"{name}: the last seconds are delivered",
                     len(found) == 1, daemon.log_text()[-400:]):
        return
    envelope = found[0]
    transaction = envelope.transaction
    checks.ok(f"{name}: envelope passes Relay's rules", not envelope.wrong,
              envelope.wrong)
    checks.ok(f"{name}: envelope is a crash by {signal_name}",
              (envelope.trace()["op"], envelope.trace()["status"],
               transaction.get("level"), transaction["tags"]) ==
              ("crash", "aborted", "fatal", {"signal": signal_name}) and
              transaction["transaction"] == "transact" and
              transaction["release"] == "shop@1.0", transaction)
    checks.ok(f"{name}: stacks show what the program did",
              envelope.share(program.pid, "burn_for_it") > 0.3,
              envelope.share(program.pid, "burn_for_it"))
    checks.ok(f"{name}: envelope has the span that was open", not has_span or
              any("open-at-the-end" in span.get("description", "")
                  for span in transaction["spans"]), transaction["spans"])
    ended = transaction["timestamp"]
    checks.ok(f"{name}: samples reach to the end",
              abs(ended - envelope.mode.st_mtime) < 3,
              envelope.mode.st_mtime - ended)


def signals(checks, bench):
    for mode in modes(bench):
        daemon = Daemon(bench, "signals-" + mode)
        for how, number in CRASHES:
            folder = Folder(bench, f"{mode}-{how}")
            program = start(bench, daemon, mode, folder)
            program.run("begin x y", "task work", "span open-at-the-end",
                        "burn 700")
            status = program.end(how)
            checks.ok(f"{mode}, {how}: program died of the signal",
                      status == -number,
                      status)
            check_crash(checks, f"{mode}, {how}", program, folder, daemon,
                        signal.Signals(number).name, has_span=True)
        checks.ok(f"{mode}: crashes are counted",
                  daemon.status()["crashes"] == len(CRASHES),
                  daemon.status()["crashes"])
        daemon.end()


def memory_group(bench):
    """A memory group of 128 MB, None where the machine has no such groups."""
    path = "/sys/fs/cgroup/memory/fgtrace-test-%d" % os.getpid()
    try:
        os.mkdir(path)
        with open(path + "/memory.limit_in_bytes", "w") as file:
            file.write(str(128 << 20))
        return path
    except OSError:
        return None


def out_of_memory(checks, bench):
    group = memory_group(bench)
    if not group:
        print("# no memory group on this machine", flush=True)
        checks.ok("out of memory: not tried", True)
        return
    try:
        for mode in modes(bench):
            daemon = Daemon(bench, "oom-" + mode)
            folder = Folder(bench, mode + "-oom")
            program = start(bench, daemon, mode, folder)
            with open(group + "/cgroup.procs", "w") as file:
                file.write(str(program.pid))
            program.ask("burn 700")
            status = program.end("oom")
            checks.ok(f"{mode}, oom: kernel killed the program",
                      status == -signal.SIGKILL, status)
            check_crash(checks, f"{mode}, oom", program, folder, daemon,
                        "SIGKILL")
            daemon.end()
    finally:
        os.rmdir(group)


def ends_that_are_no_crashes(checks, bench):
    for mode in modes(bench):
        daemon = Daemon(bench, "ends-" + mode)
        folder = Folder(bench, mode + "-ends")
        for how, wanted in (("exit", 3), ("_exit", 1)):
            program = start(bench, daemon, mode, folder)
            program.ask("burn 100")
            status = program.end(how)
            checks.ok(f"{mode}, {how}: program ended as asked",
                      status == wanted, status)
        for number in REQUESTS:
            how = number.name
            before = signal.signal(number, signal.SIG_DFL)  # inherited
            program = start(bench, daemon, mode, folder)
            signal.signal(number, before)
            program.ask("burn 100")
            program.child.send_signal(number)
            status = program.child.wait()
            checks.ok(f"{mode}, {how}: program died of the signal",
                      status == -number,
                      status)
            checks.ok(f"{mode}, {how}: log names the end", daemon.until(
                lambda: f"pid {program.pid}, transact, was ended by "
                f"{how}" in daemon.log_text()),
                daemon.log_text()[-400:])
            reply = call(daemon.socket, "slice", pid=program.pid)
            checks.ok(f"{mode}, {how}: the agent's ring stays",
                      reply["ok"] == (mode == "agent"), reply.get("why"))
        program = start(bench, daemon, mode, folder)
        program.run("burn 100", "stop")
        program.child.kill()
        program.child.wait()
        program = start(bench, daemon, mode, folder)
        program.ask("burn 100")
        program.child.stdin.write("end exec\n")
        program.child.stdin.flush()
        comm = f"/proc/{program.pid}/comm"
        until(lambda: open(comm).read() == "sleep\n")
        gone = until(lambda: daemon.status()["registered"] == 0, 10)
        checks.ok(f"{mode}, exec: program is no longer registered", gone,
                  daemon.status()["registered"])
        program.child.kill()
        program.child.wait()
        time.sleep(QUIET_S)
        checks.ok(f"{mode}: none of these ends is a crash",
                  daemon.status()["crashes"] == 0 and not folder.names() and
                  "event=crash" not in daemon.log_text(),
                  (folder.names(), daemon.log_text()[-400:]))
        daemon.end()


def without_a_destination(checks, bench):
    daemon = Daemon(bench, "nowhere")
    program = Program(bench, mode="agent", socket=daemon.socket)
    program.ask("burn 100")
    program.end("kill")
    checks.ok("crash without a destination is logged",
              daemon.until(lambda: daemon.status()["crashes"] == 1) and
              "SIGKILL" in daemon.log_text(), daemon.log_text()[-300:])
    checks.ok("crash without a destination queues nothing",
              daemon.status()["deliveries_waiting"] == 0, daemon.status())
    daemon.end()


def outlived(checks, bench):
    """A child that was cloned without fork handlers has the connection, too."""
    daemon = Daemon(bench, "outlived")
    folder = Folder(bench, "outlived-out")
    program = start(bench, daemon, "agent", folder)
    checks.ok("program has a child that holds all its descriptors",
              program.run("burn 100", "heir 30") == ["1"], "")
    program.end("abort")
    checks.ok("death is noticed although a child lives on",
              daemon.until(lambda: daemon.status()["crashes"] == 1, 15) and
              len(folder.wait(1)) == 1, daemon.log_text()[-400:])
    checks.ok("dead program is no longer registered",
              daemon.status()["registered"] == 0,
              daemon.status()["registered"])
    daemon.end()


def many_at_once(checks, bench):
    daemon = Daemon(bench, "many")
    folder = Folder(bench, "many-out")
    programs = [Program(bench, mode="agent", socket=daemon.socket,
                        destination=folder.path) for _ in range(8)]
    for program in programs:
        program.ask("burn 100")
    for program in programs:
        program.child.kill()
    found = folder.wait(len(programs))
    checks.ok("eight deaths at once make eight envelopes", len(found) == 8 and
              not any(e.wrong for e in found),
              (len(found), [e.wrong for e in found],
               daemon.log_text()[-400:]))
    checks.ok("agent still answers", daemon.status()["crashes"] == 8,
              daemon.status()["crashes"])
    daemon.end()


def last_word(daemon, registered, asked):
    """A process that asks for a delivery and ends, while the agent stands
    still."""
    done, worked = os.pipe()
    go_on, may_go_on = os.pipe()
    child = os.fork()
    if child == 0:
        connection = Connection(daemon.socket)
        connection.send(request("register", mode="agent",
                                destination=registered)).receive()
        time.sleep(0.5)
        os.write(worked, b"x")
        os.read(go_on, 1)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        connection.send(request("deliver", destination=asked,
                                from_ns=now - 10**9, to_ns=now))
        os._exit(0)
    os.read(done, 1)
    daemon.child.send_signal(signal.SIGSTOP)
    os.write(may_go_on, b"x")
    os.waitpid(child, 0)
    daemon.child.send_signal(signal.SIGCONT)


def last_words(checks, bench):
    daemon = Daemon(bench, "last-words")
    folder = Folder(bench, "last-words-out")
    other = Folder(bench, "last-words-elsewhere")
    last_word(daemon, folder.path, other.path)
    last_word(daemon, folder.path, folder.path)
    checks.ok("what a process asked for right before its end is delivered",
              len(folder.wait(1)) == 1, daemon.log_text()[-400:])
    checks.ok("but only where it has registered to deliver",
              not os.listdir(other.path), os.listdir(other.path))
    daemon.end()


GROUPS = (signals, out_of_memory, ends_that_are_no_crashes,
          without_a_destination, outlived, last_words, many_at_once)

if __name__ == "__main__":
    run_groups(GROUPS)

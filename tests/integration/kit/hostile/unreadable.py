# SPDX-License-Identifier: Apache-2.0
"""Groups of test_hostile_files.py: programs whose memory cannot be read any more,
as a file system does not answer (fault X7). All other programs are still
sampled."""
import ctypes
import os
import signal
import subprocess
import time

from kit import stuck_fs
from kit.daemon_bench import Daemon, is_error, sleeper
from kit.daemon_client import as_user, call, request
from kit.harness import NOBODY
from kit.stuck_fs import StuckFs, ticks_of

MS_BIND = 4096
HZ = 101
SECONDS = 4
LOST_MAX = 110  # ticks of another program: about a second


def waiting(bench, program, *arguments, **options):
    """A program of tests/programs, as it waits for a line."""
    child = bench.start([bench.program(program), *arguments],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        **options)
    if child.stdout.readline() != b"ready\n":
        raise RuntimeError(f"{program} does not begin")
    return child


def unreadable(bench, what, path):
    return waiting(bench, "unreadable", what, path, as_nobody=True)


def go_on(child):
    child.stdin.write(b"\n")
    child.stdin.flush()


def lost_ticks(daemon, pid, child, start):
    """Ticks of another program that are missing in the next seconds."""
    began, before = time.monotonic(), ticks_of(daemon, pid)
    start()
    time.sleep(SECONDS)
    ticks = ticks_of(daemon, pid) - before
    return (time.monotonic() - began) * HZ - ticks


def sampling_goes_on(checks, bench, what):
    daemon = Daemon(bench, "unreadable-" + what)
    files = StuckFs(bench.path("unreadable-files-" + what), b"\0" * (1 << 20))
    other = sleeper(bench)
    child = unreadable(bench, what, files.path)
    try:
        daemon.attach(other.pid)
        daemon.attach(child.pid)
        time.sleep(1)
        if what == "lock":
            files.failing[stuck_fs.READ] = 1
        files.stuck.add(stuck_fs.READ)
        lost = lost_ticks(daemon, other.pid, child, lambda: go_on(child))
        print(f"# {what}: another program lost {lost:.0f} of "
              f"{SECONDS * HZ} ticks")
        checks.ok(f"{what}: another program loses a second of ticks at most",
                  lost < LOST_MAX, f"{lost}: {daemon.log_text()[-800:]}")
        reports_it(checks, bench, daemon, child, what)
        files.stuck.clear()
        files.close()
        checks.ok(f"{what}: the thread returns", daemon.until(
            lambda: daemon.status()["threads_lost"] == 0),
            daemon.log_text()[-800:])
        checks.ok(f"{what}: … which is logged",
                  "has returned after" in daemon.log_text())
        lost = lost_ticks(daemon, other.pid, child, lambda: None)
        checks.ok(f"{what}: … and no tick is lost", lost < LOST_MAX / 4, lost)
    finally:
        child.kill()
        took = daemon.end()
    checks.ok(f"{what}: the daemon ends in time", took < 5, took)


def reports_it(checks, bench, daemon, child, what):
    checks.ok(f"{what}: one thread was given up",
              daemon.status()["threads_lost"] == 1 and
              daemon.status()["threads_given_up"] == 1, daemon.status())
    lines = [line for line in daemon.log_text().splitlines()
             if f"pid {child.pid}: not sampled any more" in line]
    checks.ok(f"{what}: one line of the log has cause and remedy",
              len(lines) == 1 and "attach it again" in lines[0],
              daemon.log_text()[-800:])
    run = bench.run("slice", "--socket", daemon.socket, "-p", str(child.pid),
                    "--last", "20s", "-q", "-f", "folded", "-o", "-")
    checks.ok(f"{what}: its ring is readable", "usleep" in run.stdout or
              "nanosleep" in run.stdout, run.stdout[-300:] + run.stderr[-300:])
    reply = call(daemon.socket, "attach", pid=child.pid)
    checks.ok(f"{what}: it is not attached again", is_error(reply, 11), reply)


def memory_that_is_locked_stops_no_ticks(checks, bench):
    sampling_goes_on(checks, bench, "lock")


def stacks_that_become_files_stop_no_ticks(checks, bench):
    sampling_goes_on(checks, bench, "stack")


def directories_of_threads_that_are_locked_stop_no_ticks(checks, bench):
    sampling_goes_on(checks, bench, "task")


def attaching_may_be_given_up(checks, bench):
    """The thread of jobs, too: other programs can be attached."""
    daemon = Daemon(bench, "attach-unreadable")
    files = StuckFs(bench.path("attach-unreadable-files"), b"\0" * (1 << 20))
    child = unreadable(bench, "lock", files.path)
    try:
        files.failing[stuck_fs.READ] = 1
        files.stuck.add(stuck_fs.READ)
        go_on(child)
        time.sleep(2)
        began = time.monotonic()
        reply = call(daemon.socket, "attach", pid=child.pid)
        took = time.monotonic() - began
        checks.ok("attach of a program that cannot be read is refused in time",
                  is_error(reply, 11) and took < 2, (took, reply))
        daemon.attach(sleeper(bench).pid)
        checks.ok("another one is attached", True)
    finally:
        child.kill()
        took = daemon.end()
        files.close()
    checks.ok("a daemon with such a thread ends in time", took < 5, took)


def mounted(what, path):
    if stuck_fs.libc.mount(what.encode(), path.encode(), None, MS_BIND, None):
        raise OSError(ctypes.get_errno(), "bind mount " + path)


def recording_without_a_daemon_ends(checks, bench):
    """And has what was recorded before the program could not be read."""
    files = StuckFs(bench.path("record-unreadable-files"), b"\0" * (1 << 20))
    child = unreadable(bench, "lock", files.path)
    out = bench.path("record-unreadable.folded")
    try:
        files.failing[stuck_fs.READ] = 1
        files.stuck.add(stuck_fs.READ)
        record = bench.start([bench.agent, "record", "-p", str(child.pid), "-d",
                              "60", "-o", out], stderr=subprocess.PIPE,
                             text=True)
        time.sleep(2)
        go_on(child)
        end = time.monotonic() + 15
        while record.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        has_ended = record.poll() is not None
        files.close()
        errors = record.communicate(timeout=20)[1]
        checks.ok("record ends when its program cannot be read any more",
                  has_ended and "not sampled any more" in errors, errors)
        with open(out) as file:
            checks.ok("… and writes what it has", "nanosleep" in file.read(),
                      errors)
    finally:
        child.kill()


def files_in_proc_that_do_not_answer_stop_no_jobs(checks, bench):
    """A read of /proc that does not return, of a process that is not sampled.
    Others are attached, rules are reloaded, triggers fire."""
    files = StuckFs(bench.path("proc-files"), b"1 (x) S 1\n")
    alien, other = sleeper(bench), sleeper(bench)
    rules = f"""targets = ( {{ name = "no-such"; }} );
triggers = ( {{ name = "ends"; when: {{ killed = true; }}; after_s = 0;
  deliver = "{bench.scratch}"; }} );"""
    daemon = Daemon(bench, "stuck-proc", rules)
    place = f"/proc/{alien.pid}/task/{alien.pid}/stat"
    try:
        daemon.attach(other.pid)
        files.pid = daemon.child.pid
        mounted(files.path, place)
        files.stuck.add(stuck_fs.READ)
        checks.ok("jobs: a read that does not return is given up",
                  daemon.until(lambda: f"pid {alien.pid} is left out" in
                               daemon.log_text(), 8),
                  daemon.log_text()[-600:])
        began = time.monotonic()
        daemon.attach(sleeper(bench).pid)
        checks.ok("jobs: a program is attached at once",
                  time.monotonic() - began < 1.5, time.monotonic() - began)
        reply = call(daemon.socket, "attach", pid=alien.pid)
        checks.ok("jobs: but not that one", is_error(reply, 11), reply)
        daemon.child.send_signal(signal.SIGHUP)
        checks.ok("jobs: the configuration is reloaded", daemon.until(
            lambda: daemon.status()["reloads"] == 1, 3), daemon.status())
        time.sleep(3)  # several scans
        checks.ok("jobs: no other thread is lost by the same process",
                  daemon.log_text().count("is left out") == 1,
                  daemon.log_text()[-900:])
        other.kill()
        checks.ok("jobs: a trigger fires", daemon.until(
            lambda: call(daemon.socket, "triggers")["triggers"][0]["fired"]),
            daemon.log_text()[-600:])
        files.stuck.clear()
        files.close()
        checks.ok("jobs: the thread returns", daemon.until(
            lambda: "can be read again" in daemon.log_text()),
            daemon.log_text()[-600:])
    finally:
        stuck_fs.libc.umount2(place.encode(), stuck_fs.MNT_DETACH)
        took = daemon.end()
    checks.ok("jobs: the daemon ends in time", took < 5, took)


def open_to_users(daemon):
    os.chmod(daemon.socket, 0o666)
    os.chmod(daemon.folder, 0o755)


def answers_meanwhile(checks, daemon, what):
    began = time.monotonic()
    status = call(daemon.socket, "status", timeout=10)
    took = time.monotonic() - began
    print(f"# {what}: status after {took:.2f} s")
    checks.ok(f"{what}: the loop answers others", took < 3 and
              status["pid"] == daemon.child.pid, took)


def locking_client(bench, daemon, files):
    """An ordinary user's program that locks its directory of
    /proc; what is written to it is sent to the daemon."""
    return waiting(bench, "unreadable", "proc", files.path, daemon.socket,
                   as_nobody=True)


def locked(child, files):
    files.stuck.add(stuck_fs.READ)
    child.send_signal(signal.SIGUSR1)
    time.sleep(1.5)
    for _ in range(3):  # names that were looked up before
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("2")


def send(child, data):
    child.stdin.write(data)
    child.stdin.flush()
    time.sleep(0.3)


def clients_that_lock_their_directory_stop_no_loop(checks, bench):
    """Without rights: a thread lists /proc/self into memory that does not come,
    another one wants to add a file: who looks a name up there waits."""
    daemon = Daemon(bench, "locked-client")
    open_to_users(daemon)
    files = StuckFs(bench.path("locked-client-files"), b"\0" * (1 << 20))
    child = locking_client(bench, daemon, files)
    try:
        locked(child, files)
        send(child, request("slice", pid=child.pid, last_ns=10**9))
        answers_meanwhile(checks, daemon, "locked client")
        checks.ok("locked client: it is left out", daemon.until(
            lambda: f"pid {child.pid} is left out" in daemon.log_text(), 5),
            daemon.log_text()[-600:])
        began = time.monotonic()
        reply = call(daemon.socket, "attach", pid=child.pid)
        checks.ok("locked client: attaching it is refused in time", is_error(
            reply, 11) and time.monotonic() - began < 2, reply)
        daemon.attach(sleeper(bench).pid)
        checks.ok("locked client: another program is attached", True)
    finally:
        files.stuck.clear()
        files.close()
        child.kill()
        took = daemon.end()
    checks.ok("locked client: the daemon ends in time", took < 5, took)


def attaching_a_locked_directory_stops_no_jobs(checks, bench):
    daemon = Daemon(bench, "locked-attach")
    open_to_users(daemon)
    files = StuckFs(bench.path("locked-attach-files"), b"\0" * (1 << 20))
    child = locking_client(bench, daemon, files)
    try:
        locked(child, files)
        began = time.monotonic()
        reply = call(daemon.socket, "attach", pid=child.pid, timeout=10)
        took = time.monotonic() - began
        checks.ok("locked attach: it is refused in time",
                  is_error(reply, 11) and took < 3, (took, reply))
        daemon.attach(sleeper(bench).pid)
        checks.ok("locked attach: another program is attached", True)
    finally:
        files.stuck.clear()
        files.close()
        child.kill()
        took = daemon.end()
    checks.ok("locked attach: the daemon ends in time", took < 5, took)


def programs_that_lock_their_directory_stop_no_deliveries(checks, bench):
    """One that has registered: where it delivers is looked up at each order."""
    daemon = Daemon(bench, "locked-program")
    open_to_users(daemon)
    files = StuckFs(bench.path("locked-program-files"), b"\0" * (1 << 20))
    child = locking_client(bench, daemon, files)
    try:
        send(child, request("register", mode="agent"))
        checks.ok("locked program: it is registered", daemon.until(
            lambda: any(one["pid"] == child.pid for one in
                        daemon.status()["targets"])), daemon.log_text()[-600:])
        locked(child, files)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        send(child, request("deliver", destination="/tmp", from_ns=now - 10**9,
                            to_ns=now))
        answers_meanwhile(checks, daemon, "locked program")
        checks.ok("locked program: it is left out", daemon.until(
            lambda: "is left out" in daemon.log_text() or
            "not sampled any more" in daemon.log_text(), 5),
            daemon.log_text()[-600:])
    finally:
        files.stuck.clear()
        files.close()
        child.kill()
        took = daemon.end()
    checks.ok("locked program: the daemon ends in time", took < 5, took)


def a_daemon_starts_beside_a_locked_directory(checks, bench):
    """Its rules are looked for before the first request."""
    first = Daemon(bench, "locked-first")
    open_to_users(first)
    files = StuckFs(bench.path("locked-start-files"), b"\0" * (1 << 20))
    child = locking_client(bench, first, files)
    wanted = sleeper(bench)
    daemon = None
    try:
        locked(child, files)
        daemon = Daemon(bench, "locked-start",
                        'targets = ( { name = "sleep"; } );')
        checks.ok("locked start: what the rules want is attached",
                  daemon.until(lambda: any(
                      one["pid"] == wanted.pid for one in
                      daemon.status()["targets"]), 10),
                  daemon.log_text()[-600:])
    finally:
        files.stuck.clear()
        files.close()
        child.kill()
        first.end()
    checks.ok("locked start: the daemon ends in time", daemon.end() < 5)


def rules_that_name_silent_files_stop_no_jobs(checks, bench):
    """exe of a rule leads to a server that has gone."""
    files = StuckFs(bench.path("rule-files"), b"")
    files.stuck.add(stuck_fs.LOOKUP)
    daemon = None
    try:
        daemon = Daemon(bench, "silent-rule",
                        f'targets = ( {{ exe = "{files.path}"; }} );')
        began = time.monotonic()
        reply = call(daemon.socket, "attach", pid=sleeper(bench).pid,
                     timeout=10)
        took = time.monotonic() - began
        checks.ok("silent rule: a program is attached", reply["ok"] and
                  took < 3, (took, reply))
        checks.ok("silent rule: one line of the log names the file",
                  daemon.until(lambda: daemon.log_text().count(
                      f"exe {files.path}: its file system") == 1, 5),
                  daemon.log_text()[-600:])
        time.sleep(3)
        checks.ok("silent rule: it is not asked each second",
                  files.asked == [stuck_fs.LOOKUP], files.asked)
    finally:
        files.stuck.clear()
        files.close()
    checks.ok("silent rule: the daemon ends in time", daemon.end() < 5)


def owners_that_cannot_be_read_stop_no_loop(checks, bench):
    """The gate reads the owner of each target that an ordinary user asks for."""
    daemon = Daemon(bench, "stuck-owner")
    open_to_users(daemon)
    files = StuckFs(bench.path("owner-files"), b"Uid:\t0\n")
    child = sleeper(bench, as_nobody=True)
    place = f"/proc/{child.pid}/status"
    try:
        daemon.attach(child.pid)
        as_user(NOBODY, NOBODY, lambda: call(daemon.socket, "targets"))
        files.pid = daemon.child.pid
        mounted(files.path, place)
        files.stuck.add(stuck_fs.READ)
        began = time.monotonic()
        reply = as_user(NOBODY, NOBODY, lambda: call(
            daemon.socket, "targets", timeout=10))
        took = time.monotonic() - began
        print(f"# stuck owner: targets after {took:.2f} s")
        checks.ok("stuck owner: the target is not shown, in time",
                  reply["targets"] == [] and took < 3, (took, reply))
        answers_meanwhile(checks, daemon, "stuck owner")
        files.stuck.clear()
        files.close()
        stuck_fs.libc.umount2(place.encode(), stuck_fs.MNT_DETACH)
        checks.ok("stuck owner: it is shown again", daemon.until(
            lambda: len(as_user(NOBODY, NOBODY, lambda: call(
                daemon.socket, "targets"))["targets"]) == 1, 8),
            daemon.log_text()[-600:])
    finally:
        stuck_fs.libc.umount2(place.encode(), stuck_fs.MNT_DETACH)
        child.kill()
        took = daemon.end()
    checks.ok("stuck owner: the daemon ends in time", took < 5, took)


GROUPS = (memory_that_is_locked_stops_no_ticks,
          stacks_that_become_files_stop_no_ticks,
          directories_of_threads_that_are_locked_stop_no_ticks,
          attaching_may_be_given_up,
          recording_without_a_daemon_ends,
          files_in_proc_that_do_not_answer_stop_no_jobs,
          clients_that_lock_their_directory_stop_no_loop,
          attaching_a_locked_directory_stops_no_jobs,
          programs_that_lock_their_directory_stop_no_deliveries,
          a_daemon_starts_beside_a_locked_directory,
          rules_that_name_silent_files_stop_no_jobs,
          owners_that_cannot_be_read_stop_no_loop)

# SPDX-License-Identifier: Apache-2.0
"""Groups of test_hostile_files.py: programs whose memory cannot be read any more,
as a file system does not answer (fault X7). All other programs are still
sampled."""
import ctypes
import signal
import subprocess
import time

from kit import stuck_fs
from kit.daemon_bench import Daemon, is_error, sleeper
from kit.daemon_client import call
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


GROUPS = (memory_that_is_locked_stops_no_ticks,
          stacks_that_become_files_stop_no_ticks, attaching_may_be_given_up,
          files_in_proc_that_do_not_answer_stop_no_jobs)

# SPDX-License-Identifier: Apache-2.0
"""Groups of test_hostile_files.py: programs below file systems that stop
answering. Root's daemon attaches them, slices them and samples all other programs."""
import os
import subprocess
import time

from kit import stuck_fs
from kit.daemon_bench import Daemon, sleeper
from kit.daemon_client import call
from kit.harness import NOBODY
from kit.stuck_fs import StuckFs

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
ALL_STUCK = {stuck_fs.OPEN, stuck_fs.READ, stuck_fs.STATFS, stuck_fs.GETATTR,
             stuck_fs.LOOKUP, stuck_fs.ACCESS}
SPIN = """
#include <unistd.h>
__attribute__((noinline)) static void work_hard(void)
{
	for (volatile long i = 0;; i++)
		;
}
int main(void)
{
	alarm(600); /* it does not outlive a test that was killed */
	(void)!write(1, "ready\\n", 6);
	work_hard();
	return 0;
}
"""
# Code that no file has, as a JIT's.
JIT = """
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(code, "\\xeb\\xfe", 2);
	(void)!write(1, "ready\\n", 6);
	((void (*)(void))code)();
}
"""
# pause(2) for ever: code in a file that is no program.
PAUSE = {"x86_64": b"\xb8\x22\0\0\0\x0f\x05\xeb\xf7"}.get(
    os.uname().machine)
libc = stuck_fs.libc


def must(is_failed):
    if is_failed:
        raise OSError(stuck_fs.ctypes.get_errno(), "cannot prepare")


def compiled(bench, name, text, *flags):
    path = bench.path(name)
    with open(path + ".c", "w") as file:
        file.write(text)
    subprocess.run(["cc", "-O1", "-o", path, path + ".c", *flags], check=True,
                   capture_output=True)
    os.chmod(path, 0o755)
    return path


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def in_overlay(lower, folder):
    """The calling process becomes NOBODY, root of a user namespace in which it
    mounts an overlay that nothing else sees, as rootless containers are."""
    empty = folder + "-empty"
    for each in (folder, empty):
        os.makedirs(each)
        os.chmod(each, 0o755)

    def mount():
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # Its procfs files would be root's.
        must(libc.prctl(4, 1, 0, 0, 0))
        must(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        for name, text in (("setgroups", "deny"),
                           ("uid_map", f"0 {NOBODY} 1"),
                           ("gid_map", f"0 {NOBODY} 1")):
            with open("/proc/self/" + name, "w") as file:
                file.write(text)
        must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        must(libc.mount(b"overlay", folder.encode(), b"overlay", 0,
                        f"lowerdir={lower}:{empty},userxattr".encode()))
    return mount


def with_tmp(folder):
    def mount():
        must(libc.unshare(CLONE_NEWNS))
        must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        must(libc.mount(folder.encode(), b"/tmp", None, MS_BIND, None))
    return mount


def started(bench, command, **arguments):
    child = bench.start(command, stdout=subprocess.PIPE, **arguments)
    child.stdout.readline()
    return child


def timed(function):
    began = time.monotonic()
    result = function()
    return result, time.monotonic() - began


def attach(daemon, pid, seconds):
    """True: it was attached within that time."""
    child = os.fork()
    if child == 0:
        try:
            daemon.attach(pid)
            os._exit(0)
        except BaseException:
            os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def ticks_of(daemon, pid):
    return next(one["ticks"] for one in
                call(daemon.socket, "targets")["targets"]
                if one["pid"] == pid)


def slice_of(bench, daemon, pid, last="1s"):
    """Text (None: not within 20 s), seconds."""
    def run():
        try:
            return subprocess.run(
                [bench.agent, "slice", "--socket", daemon.socket, "-p",
                 str(pid), "--last", last, "-q", "-f", "folded", "-o", "-"],
                capture_output=True, text=True, timeout=20).stdout
        except subprocess.TimeoutExpired:
            return None
    return timed(run)


def check_not_late(checks, bench, daemon, pid):
    text, seconds = slice_of(bench, daemon, pid)
    checks.ok("slices of other programs are not late", text and seconds < 1,
              f"{seconds:.1f} s")


def end(files, daemon, *children):
    for child in children:
        child.kill()
    if files:
        files.close()
    daemon.end()


def programs_in_overlays_have_stacks(checks, bench):
    """As in rootless containers; with and without FUSE below."""
    program = compiled(bench, "spin", SPIN, "-static")
    os.chmod(bench.path(""), 0o755)
    plain = bench.path("plain-lower")
    os.makedirs(plain)
    os.chmod(plain, 0o755)
    subprocess.run(["cp", program, os.path.join(plain, "file")], check=True)
    files = StuckFs(bench.path("lower"), bytes_of(program))
    daemon = Daemon(bench, "overlays")
    try:
        for lower, what in ((plain, "a disk"), (files.folder, "FUSE")):
            folder = bench.path("overlay-" + what[-4:])
            child = started(bench, [os.path.join(folder, "file")],
                            preexec_fn=in_overlay(lower, folder))
            daemon.attach(child.pid)
            time.sleep(1.5)
            text, _ = slice_of(bench, daemon, child.pid)
            checks.ok(f"an overlay above {what} has stacks and names",
                      "main;work_hard" in str(text), text)
            child.kill()
    finally:
        end(files, daemon)


def overlays_that_do_not_answer_stop_no_ticks(checks, bench):
    """Fault X7: an overlay answers for its layers, with their owner's rights,
    so that its type does not show what is below."""
    program = compiled(bench, "spin", SPIN, "-static")
    os.chmod(bench.path(""), 0o755)
    files = StuckFs(bench.path("stuck-lower"), bytes_of(program))
    folder = bench.path("stuck-overlay")
    daemon = Daemon(bench, "stuck-overlays")
    other = sleeper(bench)
    child = started(bench, [os.path.join(folder, "file")],
                    preexec_fn=in_overlay(files.folder, folder))
    try:
        daemon.attach(other.pid)
        files.stuck |= ALL_STUCK
        checks.ok("a program in an overlay that does not answer is attached",
                  attach(daemon, child.pid, 3), files.asked)
        before = ticks_of(daemon, other.pid)
        time.sleep(5)
        ticks = ticks_of(daemon, other.pid) - before
        checks.ok("other programs keep their ticks", ticks > 400,
                  f"{ticks} of 505")
        log = daemon.log_text()
        checks.ok("the log names the file, once, and the remedy",
                  log.count("event=files_refused") == 1 and
                  "unmount its file system" in log, log[-700:])
        checks.ok("and the target's limitation",
                  "(overlay) may not answer" in log, log[-700:])
        text, seconds = slice_of(bench, daemon, child.pid)
        checks.ok("its slice comes", text and seconds < 5,
                  f"{seconds:.1f} s: {text}")
        check_not_late(checks, bench, daemon, other.pid)
        files.stuck.clear()
    finally:
        end(files, daemon, child, other)


def overlays_that_stop_to_answer_stop_no_ticks(checks, bench):
    """Fault X7: one that has answered the reader need not answer the daemon,
    whose threads may still want to know, close or open the file."""
    program = compiled(bench, "spin", SPIN, "-static")
    os.chmod(bench.path(""), 0o755)
    for name, contents, stuck in (
            ("known", bytes_of(program), {stuck_fs.GETATTR}),
            ("closed", (PAUSE or b"").ljust(1 << 20, b"\0"),
             {stuck_fs.FLUSH}),
            ("opened", bytes_of(program), {stuck_fs.OPEN, stuck_fs.FLUSH})):
        if name == "closed" and not PAUSE:
            continue
        files = StuckFs(bench.path("lower-" + name), contents)
        files.kept_s = 0
        folder = bench.path("overlay-" + name)
        daemon = Daemon(bench, "stops-" + name)
        other = sleeper(bench)
        command = [os.path.join(folder, "file")] if name != "closed" else \
            [bench.program("misplaced"), "code", os.path.join(folder, "file")]
        child = started(bench, command, stdin=subprocess.PIPE,
                        preexec_fn=in_overlay(files.folder, folder))
        try:
            daemon.attach(other.pid)
            files.pid = daemon.child.pid
            if name != "opened":
                files.stuck |= stuck
            if name == "closed":
                child.stdin.write(b"\n")
                child.stdin.flush()
                time.sleep(0.3)
            attach(daemon, child.pid, 3)
            time.sleep(1.2)
            files.stuck |= stuck
            text, seconds = slice_of(bench, daemon, child.pid)
            checks.ok(f"{name}: a slice comes", text and seconds < 5,
                      f"{seconds:.1f} s: {text}")
            before = ticks_of(daemon, other.pid)
            time.sleep(3)
            ticks = ticks_of(daemon, other.pid) - before
            checks.ok(f"{name}: other programs keep their ticks", ticks > 240,
                      f"{ticks} of 303; asked {files.asked}")
        finally:
            end(files, daemon, child, other)


def perf_maps_that_do_not_answer_are_not_waited_for(checks, bench):
    program = compiled(bench, "jit", JIT)
    files = StuckFs(bench.path("tmp"), b"")
    daemon = Daemon(bench, "perf-maps")
    other = sleeper(bench)
    fd = os.open(program, os.O_PATH)
    # Its name is below /tmp, which is another one then.
    child = started(bench, [f"/proc/self/fd/{fd}"], pass_fds=[fd],
                    preexec_fn=with_tmp(files.folder))
    try:
        daemon.attach(other.pid)
        daemon.attach(child.pid)
        time.sleep(1.2)
        files.stuck |= ALL_STUCK
        text, seconds = slice_of(bench, daemon, child.pid)
        checks.ok("a slice does not wait for a perf map", text and seconds < 5,
                  f"{seconds:.1f} s, asked {files.asked}")
        checks.ok("it has the other names", "main;[anon]" in str(text), text)
        text, seconds = slice_of(bench, daemon, child.pid)
        checks.ok("the next one does not ask", text and seconds < 1,
                  f"{seconds:.1f} s")
        check_not_late(checks, bench, daemon, other.pid)
    finally:
        end(files, daemon, child, other)


def roots_that_do_not_answer_are_not_waited_for(checks, bench):
    """A target whose root is such a file system; and one that has ended."""
    program = compiled(bench, "spin", SPIN, "-static")
    files = StuckFs(bench.path("root"), bytes_of(program))
    daemon = Daemon(bench, "roots")
    living = started(bench, ["/file"],
                     preexec_fn=lambda: os.chroot(files.folder))
    ended = started(bench, [files.path])
    try:
        for child in (living, ended):
            daemon.attach(child.pid)
        time.sleep(1.2)
        files.stuck |= ALL_STUCK
        text, seconds = slice_of(bench, daemon, living.pid)
        checks.ok("below a root that does not answer a slice comes",
                  text and seconds < 8, f"{seconds:.1f} s: {text}")
        ended.kill()
        ended.wait()
        time.sleep(1.2)
        text, seconds = slice_of(bench, daemon, ended.pid, "3s")
        checks.ok("one of an ended program comes", text and seconds < 5,
                  f"{seconds:.1f} s: {text}")
    finally:
        end(files, daemon, living)


def files_that_stop_to_answer_are_not_waited_for(checks, bench):
    """A file that can be opened, and whose first bytes can be read: what is
    read after that is read by the helper."""
    program = compiled(bench, "spin", SPIN, "-static")
    files = StuckFs(bench.path("half"), bytes_of(program))
    daemon = Daemon(bench, "halves")
    other = sleeper(bench)
    child = started(bench, [files.path])
    try:
        daemon.attach(other.pid)
        daemon.attach(child.pid)
        time.sleep(1.2)
        child.kill()
        child.wait()
        time.sleep(1.2)
        files.first_bytes_only = True
        text, seconds = slice_of(bench, daemon, child.pid, "3s")
        checks.ok("a slice does not wait for the rest of a file",
                  text and seconds < 5, f"{seconds:.1f} s: {text}")
        checks.ok("it was asked for", files.asked, files.asked)
        check_not_late(checks, bench, daemon, other.pid)
        files.first_bytes_only = False
        files.stuck.add(stuck_fs.FLUSH)
    finally:
        end(files, daemon, other)


def programs_on_file_systems_of_users_have_stacks(checks, bench):
    """As on NFS or sshfs, while these answer; and when they stop to."""
    program = compiled(bench, "spin", SPIN, "-static", "-fomit-frame-pointer")
    files = StuckFs(bench.path("far"), bytes_of(program))
    daemon = Daemon(bench, "far-files")
    other = sleeper(bench)
    children = [started(bench, [files.path], as_nobody=as_nobody)
                for as_nobody in (False, True)]
    try:
        for child, user in zip(children, ("root", "a user")):
            daemon.attach(child.pid)
            time.sleep(1.5)
            text, _ = slice_of(bench, daemon, child.pid)
            checks.ok(f"a program of {user} on FUSE has stacks and names",
                      "main;work_hard" in str(text), text)
        daemon.attach(other.pid)
        files.stuck |= ALL_STUCK | {stuck_fs.FLUSH}
        before = ticks_of(daemon, other.pid)
        slow = max(slice_of(bench, daemon, child.pid)[1]
                   for child in children)
        checks.ok("its slices come when it does not answer", slow < 8,
                  f"{slow:.1f} s")
        for child in children:
            child.kill()
            child.wait()
        time.sleep(3)
        ticks = ticks_of(daemon, other.pid) - before
        checks.ok("other programs keep their ticks", ticks > 250, ticks)
        files.stuck.clear()
    finally:
        end(files, daemon, other, *children)


GROUPS = (programs_on_file_systems_of_users_have_stacks,
          files_that_stop_to_answer_are_not_waited_for,
          programs_in_overlays_have_stacks,
          overlays_that_do_not_answer_stop_no_ticks,
          overlays_that_stop_to_answer_stop_no_ticks,
          perf_maps_that_do_not_answer_are_not_waited_for,
          roots_that_do_not_answer_are_not_waited_for)

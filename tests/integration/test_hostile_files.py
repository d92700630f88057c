# SPDX-License-Identifier: Apache-2.0
"""Files of hostile users: descriptors that they pass to the daemon, file systems
that do not answer. The daemon works on. test_hostile_files.py BUILD [GROUP…]"""
import fcntl
import os
import signal
import subprocess
import time

from kit import stuck_fs
from kit.daemon_bench import Daemon, is_error, run_groups
from kit.daemon_client import Connection, as_user, call, request
from kit.harness import NOBODY
from kit.stuck_fs import StuckFs
from test_registration import F_ADD_SEALS, F_SEAL_SHRINK, register, send_with

MFD_HUGETLB = 4
SECONDS = 1.5  # a reply takes milliseconds


def huge_memory():
    fd = os.memfd_create("huge", os.MFD_CLOEXEC | 2 | MFD_HUGETLB)
    os.ftruncate(fd, 2 << 20)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
    return fd


def answers(daemon):
    began = time.monotonic()
    return daemon.status()["pid"] == daemon.child.pid and \
        time.monotonic() - began < SECONDS


def memory_of_huge_pages_is_refused(checks, bench):
    daemon = Daemon(bench, "huge")
    try:
        fd = huge_memory()
    except OSError as error:
        checks.skip("memory of huge pages is refused", error)
        return
    connection, reply = register(daemon.socket, spans=True, fds=[fd])
    checks.ok("memory of huge pages is refused: its holes may have no page",
              is_error(reply, 22), reply)
    reply = call(daemon.socket, "slice", pid="self", last_ns=10**9)
    checks.ok("the daemon answers after it", answers(daemon), reply)
    connection.close()
    daemon.end()


def pass_as_nobody(daemon, path, data):
    """One descriptor of that file, beside data; True: it was sent."""
    def send():
        connection = Connection(daemon.socket)
        fd = os.open(path, os.O_RDONLY)
        send_with(connection, data, [fd])
        time.sleep(0.3)
        return True
    return as_user(NOBODY, NOBODY, send)


def files_that_cannot_be_closed(checks, bench):
    daemon = Daemon(bench, "unclosable")
    os.chmod(daemon.socket, 0o666)
    os.chmod(daemon.folder, 0o755)
    files = StuckFs(bench.path("stuck"), b"x" * 4096, user=0)
    try:
        files.stuck.add(stuck_fs.FLUSH)
        pass_as_nobody(daemon, files.path, b"x")
        checks.ok("a descriptor beside one byte is not taken",
                  answers(daemon) and
                  not open_files(daemon.child.pid, files.folder))
        pass_as_nobody(daemon, files.path,
                       request("register", mode="agent", spans=True))
        checks.ok("one that a registration passes is closed beside the loop",
                  daemon.until(lambda: files.asked) and answers(daemon),
                  files.asked)
        pass_as_nobody(daemon, files.path,
                       request("register", mode="agent", spans=True))
        checks.ok("no further one of that user is taken",
                  "descriptor_refused" in daemon.log_text(),
                  daemon.log_text())
        takes_over(checks, daemon)
    finally:
        files.close()
    daemon.end()


def open_files(pid, folder):
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += [os.readlink(f"/proc/{pid}/fd/{fd}")]
        except OSError:
            pass
    return [name for name in found if name.startswith(folder)]


def takes_over(checks, daemon):
    """The old one cannot end: one of its threads waits for the file system."""
    old = daemon.child
    old.send_signal(signal.SIGKILL)
    time.sleep(0.5)
    checks.ok("a killed daemon with such a file cannot end",
              old.poll() is None)
    daemon.start()
    checks.ok("the next one starts all the same", answers(daemon),
              daemon.log_text()[-500:])
    checks.ok("a third one does not", "runs on" in second_daemon(daemon))


def second_daemon(daemon):
    return subprocess.run(daemon.command(), capture_output=True, text=True,
                          timeout=20).stderr


def main():
    run_groups((memory_of_huge_pages_is_refused, files_that_cannot_be_closed))


if __name__ == "__main__":
    main()

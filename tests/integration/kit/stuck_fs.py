# SPDX-License-Identifier: Apache-2.0
"""What keeps the daemon waiting. A file system in user space that does not answer
some requests, as a hostile user may mount one, and as one over a network is when
its server is gone. Threads of the daemon that hang (fault R10)."""
import contextlib
import ctypes
import os
import re
import signal
import struct
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = \
    1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = 27, 29, 34, 36, 42
WITHOUT_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
ENOENT, EIO, ENOSYS = 2, 5, 38
MNT_FORCE, MNT_DETACH = 1, 2
REQUEST_MAX = 1 << 17
NAME = b"file"
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


class StuckFs:
    """One file with these contents. stuck: numbers of requests that are not
    answered if that user (None: any), and a thread of that process (0: any),
    makes them; may be changed at any time.
    first_bytes_only: nor is any READ but that of the first bytes. asked: those that were not answered."""

    def __init__(self, folder, contents, user=None):
        self.folder, self.contents, self.user = folder, contents, user
        self.stuck, self.asked = set(), []
        self.first_bytes_only, self.pid = False, 0
        self.kept_s = 60  # so long the kernel need not ask for attributes
        self.failing = {}  # so many more of that number get an error
        self.path = os.path.join(folder, NAME.decode())
        os.makedirs(folder, exist_ok=True)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40755,user_id=0,group_id=0," \
            "allow_other"
        if libc.mount(b"stuck", folder.encode(), b"fuse", 0,
                      options.encode()):
            raise OSError(ctypes.get_errno(), "mount fuse")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self):
        """All that wait get an error."""
        libc.umount2(self.folder.encode(), MNT_FORCE)
        libc.umount2(self.folder.encode(), MNT_DETACH)
        self.thread.join(5)
        os.close(self.device)

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, REQUEST_MAX)
            except OSError:
                return
            _, code, unique, node, user, _, tid = \
                struct.unpack_from("<IIQQIII", request)
            if self.failing.get(code):
                self.failing[code] -= 1
                os.write(self.device,
                         struct.pack("<IiQ", 16, -EIO, unique))
                continue
            is_stuck = code in self.stuck or (
                self.first_bytes_only and code == READ and
                struct.unpack_from("<QQ", request, 40)[1])
            if is_stuck and self.user in (None, user) and (
                    not self.pid or
                    os.path.exists(f"/proc/{self.pid}/task/{tid}")):
                self.asked.append(code)
                continue
            if code in WITHOUT_ANSWER:
                continue
            error, answer = self._answer(code, node, request[40:])
            head = struct.pack("<IiQ", 16 + len(answer), -error, unique)
            try:
                os.write(self.device, head + answer)
            except OSError:
                pass  # the process that asked has gone

    def _attributes(self, node):
        mode, size = (0o40755, 0) if node == 1 else \
            (0o100755, len(self.contents))
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0,
                           0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _answer(self, code, node, body):
        """errno, bytes."""
        if code == INIT:
            return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9,
                                  65536, 1, 0, 0, 0)
        if code == LOOKUP:
            if body.rstrip(b"\0") != NAME:
                return ENOENT, b""
            return 0, struct.pack("<QQQQII", 2, 1, self.kept_s,
                                  self.kept_s, 0, 0) + \
                self._attributes(2)
        if code == GETATTR:
            return 0, struct.pack("<QII", self.kept_s, 0, 0) + \
                self._attributes(node)
        if code in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 1, 0, 0)
        if code == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return 0, self.contents[offset:offset + size]
        if code == STATFS:
            return 0, struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 0, 0)
        if code in (RELEASE, RELEASEDIR, FLUSH, ACCESS):
            return 0, b""
        return ENOSYS, b""


def thread_of(pid, name):
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm") as file:
            if file.read().strip() == name:
                return int(tid)
    raise RuntimeError(f"{pid} has no thread {name}")


@contextlib.contextmanager
def stopped(tid):
    """One thread stands still, as if it waited for ever."""
    def ask(request):
        if libc.ptrace(request, tid, None, None):
            raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int] + [ctypes.c_void_p] * 2
    ask(PTRACE_SEIZE)
    ask(PTRACE_INTERRUPT)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        ask(PTRACE_DETACH)


def sampler_that_hangs_is_reported(checks, bench, daemon, target):
    """daemon samples target; it is a Daemon with its Manager as manager."""
    sampler = thread_of(daemon.child.pid, "fgt-sampler")
    with stopped(sampler):
        time.sleep(3.5)
        status = daemon.status()
        shown = bench.run("--socket", daemon.socket, "status").stdout
    # A second may pass between the two.
    hung, shown = (re.sub(r"has hung for \d+ s", "has hung", text)
                   for text in (status["hung"], shown))
    checks.ok("a sampler that hangs is shown with its process",
              re.search(r"the sampler has hung for [2-4] s", status["hung"]) and
              hung in shown, (status["hung"], shown[:600]))
    checks.ok("… logged once", daemon.log_text().count(
        "event=hung message=\"the sampler has hung") == 1, daemon.log_text()[-600:])
    checks.ok("… when it goes on, too", daemon.until(
        lambda: "the sampler goes on after" in daemon.log_text()),
        daemon.log_text()[-600:])
    checks.ok("… and it goes on", target_gets_ticks(daemon, target))
    if daemon.manager:
        checks.ok("… and sent to the service manager", any(
            line.startswith("STATUS=the sampler has hung for")
            for line in daemon.manager.read()) and
            daemon.manager.has("STATUS=sampling"), daemon.manager.lines)
    checks.ok("… and it is over", daemon.status()["hung"] == "",
              daemon.status()["hung"])


def ticks_of(daemon, pid):
    return next(one["ticks"] for one in daemon.status()["targets"]
                if one["pid"] == pid)


def target_gets_ticks(daemon, pid):
    before = ticks_of(daemon, pid)
    return daemon.until(lambda: ticks_of(daemon, pid) > before + 20)


def process_that_is_stopped_does_not_hang(checks, daemon, target):
    """SIGSTOP, as a suspended machine, stops the watchdog, too."""
    daemon.child.send_signal(signal.SIGSTOP)
    time.sleep(4)
    daemon.child.send_signal(signal.SIGCONT)
    checks.ok("after SIGSTOP and SIGCONT it goes on",
              target_gets_ticks(daemon, target))
    checks.ok("… and nothing is called a hang",
              "event=hung" not in daemon.log_text(), daemon.log_text()[-600:])

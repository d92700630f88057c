# SPDX-License-Identifier: Apache-2.0
"""Programs with a network and mounts of their own: what they deliver arrives
where they mean. test_namespaces.py BUILD [GROUP…]"""
import ctypes
import fcntl
import os
import socket
import struct
import threading

from kit.daemon_bench import Daemon, run_groups
from kit.sentry_server import SentryServer
from kit.transact import EVERY, Program, dsn_of
from test_transactions import request

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
libc = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result:
        raise OSError(ctypes.get_errno(), "namespaces")


def new_network():
    """Of this thread; with a loopback device that is up."""
    must(libc.unshare(CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS,
                    struct.pack("16sH14x", b"lo", IFF_UP))


class OtherNetwork:
    """Of a thread, with a server in it."""

    def __init__(self):
        thread = threading.Thread(target=self._make)
        thread.start()
        thread.join()

    def _make(self):
        new_network()
        self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.server = SentryServer()

    def enter(self):
        must(libc.setns(self.fd, CLONE_NEWNET))

    def close(self):
        self.server.close()
        os.close(self.fd)


def posts_stay_in_the_programs_network(checks, bench):
    """127.0.0.1 of the program is not the daemon's."""
    daemon, network, here = Daemon(bench, "net"), OtherNetwork(), \
        SentryServer()
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(here), prepare=network.enter,
                      **EVERY)
    request(program, "nap 60")
    checks.ok("one in the daemon's network is not found", daemon.until(
        lambda: "delivery_retry" in daemon.log_text() or
        "undelivered" in daemon.log_text(), 20) and not here.requests,
        (here.requests, daemon.log_text()[-500:]))
    program.close()
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(network.server),
                      prepare=network.enter, **EVERY)
    request(program, "nap 60")
    checks.ok("an envelope reaches the server in the program's network",
              daemon.until(lambda: network.server.requests, 20),
              daemon.log_text()[-500:])
    program.close()
    daemon.end()
    for each in (network, here):
        each.close()


def directories_are_the_programs(checks, bench):
    """A mount that only the program has, and a link that leads out of its
    root."""
    daemon = Daemon(bench, "mounts")
    folder = bench.path("out")
    os.makedirs(folder)

    def mount():
        must(libc.unshare(CLONE_NEWNS))
        must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        must(libc.mount(b"out", folder.encode(), b"tmpfs", 0, None))

    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder, prepare=mount, **EVERY)
    request(program, "nap 60")
    inside = f"/proc/{program.pid}/root{folder}"
    checks.ok("an envelope appears in the program's directory", daemon.until(
        lambda: any(name.endswith(".envelope")
                    for name in os.listdir(inside)), 20),
        daemon.log_text()[-500:])
    checks.ok("and not in the one that the daemon has by that name",
              not os.listdir(folder), os.listdir(folder))
    program.close()
    daemon.end()


def main():
    if os.getuid() != 0:
        print("# skipped: only root makes namespaces")
        print("1..0")
        return
    run_groups((posts_stay_in_the_programs_network,
                directories_are_the_programs))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A group of test_hostile_files.py: sockets that a client passes, whose last
close waits (fault C5)."""
import os
import socket
import struct
import time

from kit.daemon_bench import Daemon
from kit.daemon_client import Connection, as_user, call, request
from kit.harness import NOBODY


def lingering():
    """A socket whose last close waits for 20 s, and its peer."""
    listener, one = socket.socket(), socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    one.connect(listener.getsockname())
    other = listener.accept()[0]
    one.setblocking(False)
    for _ in range(4):
        try:
            while True:
                one.send(b"x" * 65536)
        except BlockingIOError:
            time.sleep(0.05)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                   struct.pack("ii", 1, 20))
    return one, other


def sockets_that_linger(checks, bench):
    """The last close of one waits for as long as its user wants."""
    daemon = Daemon(bench, "lingering")
    os.chmod(daemon.socket, 0o666)
    os.chmod(daemon.folder, 0o755)
    beginning = request("register", mode="agent")
    table = [("one byte", b"", b"x", 0),
             ("a status", b"", request("status"), 0),
             ("a byte out of band", b"", b"x", socket.MSG_OOB),
             ("a registration", b"", beginning, 0),
             ("what follows a registration", beginning, b"xyz", 0)]
    for name, before, data, flags in table:
        def send(before=before, data=data, flags=flags):
            connection = Connection(daemon.socket)
            one, other = lingering()
            if before:
                connection.send(before)
            connection.socket.sendmsg(
                [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                          struct.pack("i", one.fileno()))], flags)
            one.close()
            time.sleep(0.2)
            began = time.monotonic()
            call(daemon.socket, "status", timeout=60)
            return time.monotonic() - began
        seconds = as_user(NOBODY, NOBODY, send)
        checks.ok(f"a socket that lingers beside {name} keeps no client waiting",
                  seconds < 5, seconds)
    daemon.end()

# SPDX-License-Identifier: Apache-2.0
"""The verb register, and hostile clients: malformed requests, wrong descriptors,
too many of them, processes of other users. test_registration.py BUILD
[GROUP…]"""
import array
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

from kit.daemon_bench import Daemon, is_error, run_groups
from kit.daemon_client import (VERSION, Connection, as_user, call, frame, pack,
                               request)
from kit.harness import NOBODY
from kit.transact import Program, until

F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
SECOND = 1000000000


def memory(is_sealed=True, size=4096):
    fd = os.memfd_create("test", os.MFD_CLOEXEC | 2)
    os.ftruncate(fd, size)
    if is_sealed:
        fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
    return fd


def send_with(connection, data, fds):
    connection.socket.sendmsg(
        [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                  array.array("i", fds))])


def register(path, fds=(), **arguments):
    """An open connection and the reply."""
    arguments.setdefault("mode", "agent")
    connection = Connection(path)
    data = request("register", **arguments)
    if fds:
        send_with(connection, data, fds)
    else:
        connection.send(data)
    return connection, connection.receive()


def descriptors(daemon):
    """How many descriptors of the kinds that the tests pass."""
    count = 0
    for fd in os.listdir(f"/proc/{daemon.child.pid}/fd"):
        try:
            name = os.readlink(f"/proc/{daemon.child.pid}/fd/{fd}")
        except OSError:
            continue
        count += name.startswith(("/memfd:test", "/etc/passwd"))
    return count


def register_reply_is_as_the_protocol_defines(checks, bench):
    daemon = Daemon(bench, "register")
    connection, reply = register(daemon.socket, release="app@1.0")
    checks.ok("register gets a reply",
              reply["ok"] and reply["pid"] == os.getpid() and
              reply["hz"] == 101 and reply["ring_seconds"] == 30 and
              "limitation" in reply, reply)
    targets = call(daemon.socket, "targets")["targets"]
    checks.ok("process that registers is sampled",
              [(t["pid"], t["origin"]) for t in targets] ==
              [(os.getpid(), "registered")], targets)
    time.sleep(0.3)
    reply = call(daemon.socket, "slice", self=True)
    checks.ok("registered process can slice itself", reply["ok"] and
              reply["pid"] == os.getpid(), reply.get("why"))
    second, reply = register(daemon.socket)
    checks.ok("process may register twice", reply["ok"] and
              daemon.status()["registered"] == 2, reply)
    checks.ok("bye gets a reply",
              connection.send(request("bye")).receive()["ok"])
    connection.close()
    daemon.until(lambda: daemon.status()["registered"] == 1)
    time.sleep(0.3)
    checks.ok("process is sampled while one registration is left",
              len(call(daemon.socket, "targets")["targets"]) == 1)
    second.send(request("bye")).receive()
    second.close()
    checks.ok("process is not sampled after its last bye", daemon.until(
        lambda: call(daemon.socket, "targets")["targets"] == []))
    connection, reply = register(daemon.socket)
    connection.close()  # without bye, and the process lives on
    checks.ok("connection that ends without bye ends the registration",
              daemon.until(lambda: call(daemon.socket,
                                        "targets")["targets"] == []),
              daemon.log_text()[-300:])
    log = daemon.log_text()
    checks.ok("log has both kinds of end, and none by hand",
              f"pid {os.getpid()}, by its fgt_stop()" in log and
              f"pid {os.getpid()}, it runs another program now, or" in log and
              "on request" not in log, log[-600:])
    daemon.attach(os.getpid())
    connection, reply = register(daemon.socket)
    connection.send(request("bye")).receive()
    connection.close()
    time.sleep(0.5)
    targets = call(daemon.socket, "targets")["targets"]
    checks.ok("target attached by hand stays",
              [t["origin"] for t in targets] == ["attached"], targets)
    connection, reply = register(daemon.socket, mode="embedded",
                                 ring=True, fds=[memory()])
    checks.ok("embedded program is not sampled, its ring is kept",
              reply["ok"], reply)
    connection.close()
    daemon.end()


def requests_are_checked(checks, bench):
    daemon = Daemon(bench, "checked")
    before = descriptors(daemon)
    table = [
        ("no mode", dict(mode=1)),
        ("another mode", dict(mode="root")),
        ("release is a number", dict(release=1)),
        ("long release", dict(release="x" * 201)),
        ("long environment", dict(environment="x" * 65)),
        ("long destination", dict(destination="x" * 1024)),
        ("spans without memory", dict(spans=True)),
        ("spans is a number", dict(spans=1)),
        ("ring without memory", dict(ring=True, mode="embedded")),
        ("one for two", dict(ring=True, spans=True, fds=[memory()])),
        ("memory that may shrink", dict(spans=True, fds=[memory(False)])),
        ("a file", dict(spans=True, fds=[os.open("/etc/passwd", 0)])),
        ("a directory", dict(spans=True, fds=[os.open("/", 0)])),
        ("a pipe", dict(spans=True, fds=list(os.pipe()))),
        ("a socket", dict(spans=True, fds=[socket.socket().detach()])),
    ]
    for name, arguments in table:
        connection, reply = register(daemon.socket, **arguments)
        checks.ok(f"refused: {name}", is_error(reply, errno.EINVAL), reply)
        connection.close()
    connection, reply = register(daemon.socket, spans=True,
                                 fds=[memory() for _ in range(50)])
    checks.ok("one of fifty descriptors is kept", reply["ok"], reply)
    connection.close()
    connection, reply = register(daemon.socket, fds=[memory(), memory()])
    checks.ok("descriptors that the request does not need are closed",
              reply["ok"],
              reply)
    connection.close()
    checks.ok("refused requests leave no descriptor", daemon.until(
        lambda: descriptors(daemon) == before), (before, descriptors(daemon)))
    daemon.end()


def registered_connections_are_checked(checks, bench):
    daemon = Daemon(bench, "connections")
    zoo = {
        "nothing in the frame": frame(b""),
        "beyond 16 MiB": b"\x01\x10\x00\x00",
        "garbage": frame(b"\xc1\xc1"),
        "bomb": frame(b"\xdd\x05\xf5\xe1\x00"),
    }
    for name, data in zoo.items():
        connection, reply = register(daemon.socket)
        reply = connection.send(data).receive()
        checks.ok(f"{name}: request gets a reply", not reply["ok"], reply)
        try:
            connection.read(1)
            checks.ok(f"{name}: connection is closed afterwards", False)
        except EOFError:
            checks.ok(f"{name}: connection is closed afterwards", True)
        connection.close()
    for name, data in (("another verb", request("attach", pid=1)),
                       ("no verb", frame(pack({"v": VERSION}))),
                       ("register again", request("register",
                                                  mode="agent"))):
        connection, reply = register(daemon.socket)
        reply = connection.send(data).receive()
        checks.ok(f"{name}: refused", not reply["ok"], reply)
        checks.ok(f"{name}: connection stays open",
                  connection.send(request("bye")).receive()["ok"])
        connection.close()
    begun = daemon.status()["rss_bytes"]
    slow = [register(daemon.socket)[0] for _ in range(20)]
    for connection in slow:  # 15 MiB are announced, none comes
        connection.send(b"\x00\xf0\x00\x00")
    time.sleep(0.5)
    checks.ok("memory grows with received bytes, not announced ones",
              daemon.status()["rss_bytes"] - begun < 30 << 20,
              daemon.status()["rss_bytes"] - begun)
    checks.ok("half requests are closed after 5 s", daemon.until(
        lambda: daemon.status()["registered"] == 0, 12),
        daemon.status()["registered"])
    many = []
    for connection in slow:
        connection.close()
    for _ in range(100):
        many.append(register(daemon.socket)[0])
    checks.ok("hundred silent programs do not block others",
              daemon.status()["registered"] == 100 and
              daemon.status()["clients"] == 1, daemon.status()["clients"])
    for connection in many:
        connection.close()
    checks.ok("registrations end with their connections", daemon.until(
        lambda: daemon.status()["registered"] == 0))
    daemon.end()


def users_register_themselves_only(checks, bench):
    """Fault C7: the kernel names the process that connected."""
    daemon = Daemon(bench, "others")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)

    def too_many():
        connections = []
        for _ in range(70):
            connection, reply = register(daemon.socket, mode="embedded",
                                         ring=True, fds=[memory()])
            connections.append(connection)
            if not reply["ok"]:
                return len(connections) - 1, reply
        return len(connections), None

    count, reply = as_user(NOBODY, NOBODY, too_many)
    checks.ok("ordinary user gets 64 registrations, then an error",
              count == 64 and
              is_error(reply, errno.EUSERS), (count, reply))
    checks.ok("registrations end with their process", daemon.until(
        lambda: daemon.status()["registered"] == 0))

    def pass_on():
        """The connection of a process that has ended: its pid is free, or
        that of another process."""
        reader, writer = socket.socketpair()
        child = os.fork()
        if child == 0:
            connection = Connection(daemon.socket)
            socket.send_fds(writer, [b"x"], [connection.socket.fileno()])
            os._exit(0)
        fd = socket.recv_fds(reader, 1, 1)[1][0]
        os.waitpid(child, 0)
        stale = socket.socket(fileno=fd)
        stale.settimeout(20)
        connection = Connection.__new__(Connection)
        connection.socket = stale
        return connection.send(request("register", mode="agent")).receive()

    reply = as_user(NOBODY, NOBODY, pass_on)
    checks.ok("connection that was passed on registers no process",
              is_error(reply, errno.ESRCH), reply)
    outside = subprocess.Popen(["sleep", "60"])
    daemon.attach(outside.pid)
    time.sleep(0.2)

    def spy():
        connection, reply = register(daemon.socket)
        slices = [call(daemon.socket, "slice", pid=outside.pid),
                  call(daemon.socket, "slice", self=True, pid=outside.pid)]
        connection.close()
        return reply, slices

    reply, slices = as_user(NOBODY, NOBODY, spy)
    checks.ok("registration gives no access to other processes",
              reply["ok"] and
              is_error(slices[0], errno.ESRCH) and
              is_error(slices[1], errno.EINVAL), (reply, slices))
    outside.kill()
    outside.wait()

    def for_a_child():
        """A child inherits the connection of a parent that changed its user,
        so that the child may not trace it."""
        connection = Connection(daemon.socket)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            reply = connection.send(request("register",
                                            mode="agent")).receive()
            os.write(writer, str(reply).encode())
            os._exit(0)
        os.waitpid(child, 0)
        return os.read(reader, 1000).decode()

    text = as_user(NOBODY, NOBODY, for_a_child)
    checks.ok("child cannot register its parent",
              f"'error': -{errno.EPERM}" in text, text)

    def own_word():
        connection, reply = register(daemon.socket)
        time.sleep(0.3)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        slices = [call(daemon.socket, "slice", self=True),
                  call(daemon.socket, "slice", pid=os.getpid()),
                  call(daemon.socket, "slice", self=True, from_ns=1,
                       to_ns=now + 60 * SECOND)]
        connection.close()
        return reply, slices, now

    reply, slices, now = as_user(NOBODY, NOBODY, own_word)
    checks.ok("untraceable program slices itself",
              reply["ok"] and slices[0]["ok"], (reply, slices[0].get("why")))
    checks.ok("untraceable program is sliced by its own request only",
              is_error(slices[1], errno.ESRCH),
              slices[1])
    checks.ok("untraceable program gets no slice with a future end",
              slices[2]["ok"] and
              slices[2]["to_ns"] < now + SECOND, slices[2].get("why"))
    daemon.end()


def crowd(daemon, count):
    """count processes that register at the same moment. Their replies are
    read from the pipe; they stay until it is closed."""
    start_reader, start_writer = os.pipe()
    reader, writer = os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        children.append(child)
        if child == 0:
            os.close(start_writer)
            os.close(reader)
            os.read(start_reader, 1)  # until all processes are there
            _connection, reply = register(daemon.socket)
            os.write(writer, (str(reply.get("why", "ok")) + "\n").encode())
            time.sleep(60)
            os._exit(0)
    os.close(writer)
    os.close(start_writer)
    with os.fdopen(reader, "r") as stream:
        replies = [stream.readline().strip() for _ in range(count)]
        silent = [Connection(daemon.socket) for _ in range(20)]
        time.sleep(0.3)
        for connection in silent:
            connection.close()
        time.sleep(0.3)
        registered = call(daemon.socket, "status")["registered"]
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return replies, registered


def slow_ones(path, count):
    """count connections; all are open before the first one asks."""
    connections = [Connection(path) for _ in range(count)]
    time.sleep(0.2)
    replies = []
    for connection in connections:
        try:
            connection.send(request("register", mode="agent"))
        except BrokenPipeError:
            pass  # refused: the reply has the reason
        reply = connection.receive()
        replies.append(reply.get("why", "ok"))
    for connection in connections:
        connection.close()
    return replies


def many_programs_are_slow(checks, bench):
    """On a busy machine programs connect, but send their request late."""
    daemon = Daemon(bench, "slow-crowd", "ring: { per_user = 64; };")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    replies = as_user(NOBODY, NOBODY, lambda: slow_ones(daemon.socket, 20))
    checks.ok("slow programs are not refused before their request",
              replies == ["ok"] * 20, replies)
    replies = as_user(NOBODY, NOBODY, lambda: slow_ones(daemon.socket, 50))
    checks.ok("too many silent connections of a user are closed",
              replies[-20:] == ["ok"] * 20 and
              any("asked nothing for longest" in reply for reply in replies),
              replies)
    daemon.end()


def many_programs_start_at_once(checks, bench):
    daemon = Daemon(bench, "crowd", "ring: { per_user = 64; };")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    replies, registered = as_user(NOBODY, NOBODY, lambda: crowd(daemon, 20))
    checks.ok("twenty programs of a user register at once",
              replies == ["ok"] * 20, replies)
    checks.ok("programs stay registered beside silent connections",
              registered == 20, registered)
    daemon.end()


def a_place_that_becomes_free_is_taken(checks, bench):
    daemon = Daemon(bench, "free", "ring: { per_user = 1; };")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    first, second = [Program(bench, as_nobody=True, mode="agent",
                             socket=daemon.socket) for _ in range(2)]
    checks.ok("one of two has a ring",
              (first.status()["recording"], second.status()["recording"]) ==
              (1, 0), (first.status(), second.status()))
    first.run("stop")
    checks.ok("other program gets the ring when it is free",
              until(lambda: second.status()["recording"] == 1, 6),
              daemon.log_text()[-300:])
    for program in (first, second):
        program.close()
    daemon.end()


def daemon_leaves_with_registered_ones(checks, bench):
    daemon = Daemon(bench, "leaving")
    connections = [register(daemon.socket)[0] for _ in range(10)]
    took = daemon.end()
    checks.ok("daemon ends at once", took < 3, took)
    for connection in connections:
        connection.close()


def main():
    run_groups((register_reply_is_as_the_protocol_defines, requests_are_checked,
                registered_connections_are_checked,
                users_register_themselves_only,
                many_programs_are_slow, many_programs_start_at_once,
                a_place_that_becomes_free_is_taken,
                daemon_leaves_with_registered_ones))


if __name__ == "__main__":
    main()

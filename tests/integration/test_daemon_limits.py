# SPDX-License-Identifier: Apache-2.0
"""The daemon and hostile clients: malformed and slow requests, clients that
use up memory, descriptors or rings (faults C1 to C8, T4, T6). test_daemon_limits.py BUILD
[GROUP…]"""
import array
import contextlib
import errno
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

from kit.daemon_bench import Daemon, is_error, run_groups, sleeper
from kit.daemon_client import (VERSION, Connection, as_user, call, frame, pack,
                               request)
from kit.harness import NOBODY
from kit.stuck_fs import stopped


def loop_that_hangs_leaves(checks, bench):
    """SIGTERM that the main thread does not take: the watchdog does."""
    daemon = Daemon(bench, "deaf")
    began = time.monotonic()
    with contextlib.suppress(OSError), stopped(daemon.child.pid):
        daemon.child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.child.wait(9)
    checks.ok("a loop that hangs: SIGTERM ends the agent within 9 s",
              daemon.child.poll() == 1 and time.monotonic() - began < 9,
              (daemon.child.poll(), time.monotonic() - began))
    checks.ok("… and the log has the reason", "the loop does not take it" in
              daemon.log_text(), daemon.log_text()[-300:])


def time_without_ticks_is_missed(checks, bench):
    """A stopped daemon: intervals between ticks differ, periods do not."""
    daemon, counts = Daemon(bench, "stopped"), []
    daemon.attach(sleeper(bench).pid)
    for pause_s in (0, 4):
        daemon.child.send_signal(signal.SIGSTOP)
        time.sleep(pause_s)
        daemon.child.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        target = daemon.status()["targets"][0]
        counts.append((time.monotonic(),
                       target["ticks"] + target["missed_ticks"]))
    (begin_s, before), (end_s, after) = counts
    rate = (after - before) / (end_s - begin_s)
    checks.ok("ticks that a stopped daemon missed are as many as the rate has",
              abs(rate - 101) < 3, rate)
    daemon.end()


def malformed(checks, bench):
    """Fault C1: every malformed request is answered or its connection closed, and
    the daemon keeps no memory of it."""
    daemon = Daemon(bench, "malformed")
    good = pack({"v": VERSION, "verb": "status"})
    pair = pack("v") + pack(1)
    zoo = {
        "nothing in the frame": frame(b""),
        "1 MiB and a byte": b"\0\x10\0\1",
        "4 GiB": b"\xff\xff\xff\xff",
        "five-byte bomb": frame(b"\xdd\x05\xf5\xe1\x00"),
        "five-byte bomb of pairs": frame(b"\xdf\x7f\xff\xff\xff"),
        "nested bombs": frame(b"\xdd\x00\x98\x96\x80" * 30),
        "huge string": frame(b"\x81\xdb\xff\xff\xff\xff"),
        "huge bytes": frame(b"\x81\xa1v\xc6\xff\xff\xff\xff"),
        "truncated": frame(good[:-3]),
        "trailing byte": frame(good + b"\0"),
        "reserved tag": frame(b"\xc1"),
        "not a map": frame(b"\x01"),
        "array": frame(pack([1, "status"])),
        "text": b"GET / HTTP/1.1\r\n\r\n",
        "twice a key": frame(b"\x82" + pair + pair),
        "key is a number": frame(b"\x81\x01\x01"),
        "NUL in a string": frame(pack({"v": VERSION, "verb": "sta\0tus"})),
        "ext type": frame(b"\x81\xa1v\xd4\x01\x01"),
        "deep": frame(b"\x81\xa1v" + b"\x91" * 1000 + b"\x01"),
        "a million elements": frame(b"\x81\xa1v\xdd\x00\x0f\x00\x00" +
                                    b"\x01" * 0xf0000),
        "a thousand keys": frame(
            b"\xde\x03\xe8" + b"".join(pack(f"k{i}") + b"\x01"
                                       for i in range(1000))),
        "no version": frame(pack({"verb": "status"})),
        "no verb": frame(pack({"v": VERSION})),
        "verb is a list": frame(pack({"v": VERSION, "verb": ["status"]})),
        "long verb": request("x" * 100000),
    }
    before = daemon.status()["rss_bytes"]
    for name, data in zoo.items():
        connection = Connection(daemon.socket, 10)
        try:
            reply = connection.send(data).receive()
            is_refused = is_error(reply, -reply.get("error", 0))
        except (EOFError, ConnectionError):
            is_refused, reply = True, None
        finally:
            connection.close()
        checks.ok(f"malformed: {name}",
                  is_refused and daemon.status()["ok"], reply)
    grown = daemon.status()["rss_bytes"] - before
    checks.ok("malformed requests leave no memory behind",
              grown < 64 << 20, grown)
    checks.ok("malformed requests leave no connection behind", daemon.until(
        lambda: daemon.status()["clients"] == 1), daemon.status()["clients"])
    daemon.end()


def little_memory(checks, bench):
    """The bomb in a daemon with little memory."""
    limit = 512 << 20
    try:
        daemon = Daemon(bench, "little-memory", preexec_fn=lambda: (
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))))
    except RuntimeError as error:
        # A program with sanitizers maps terabytes and cannot run here.
        print(f"# skipped with 512 MiB of address space: {error}"[:200])
        return
    reply = Connection(daemon.socket).send(
        frame(b"\xdd\x05\xf5\xe1\x00")).receive()
    checks.ok("bomb is refused within 512 MiB",
              is_error(reply, errno.EBADMSG) and
              daemon.status()["ok"], reply)
    daemon.end()


def slow_clients(checks, bench):
    """Fault C2: a slow client delays only itself."""
    daemon = Daemon(bench, "slow", "ring: { memory_mb = 8; };")
    path = daemon.socket
    daemon.attach(sleeper(bench).pid)
    time.sleep(0.3)
    silent = []
    for i in range(100):
        connection = Connection(path)
        try:
            connection.send([b"", b"\0", b"\0\0\0\x40\x81"][i % 3])
        except ConnectionError:
            pass
        silent.append(connection)
    never = []
    for verb in ["slice", "status"] * 10:
        connection = Connection(path).send(request(verb))
        never.append(connection)
    checks.ok("status answers beside 100 silent and 20 deaf clients",
              daemon.status()["ok"], "")
    checks.ok("slice answers beside silent and deaf clients",
              call(path, "slice")["ok"], "")
    checks.ok("silent clients are disconnected", daemon.until(
        lambda: daemon.status()["clients"] <= 21, 8),
        daemon.status()["clients"])
    for connection in silent + never:
        connection.close()
    checks.ok("places of disconnected clients are free again", daemon.until(
        lambda: daemon.status()["clients"] == 1), daemon.status()["clients"])
    daemon.end()


def without_file(reply):
    return {key: value for key, value in reply.items() if key != "file"}


def deaf_readers(checks, bench):
    """Slices whose clients do not read are few: each of them is in memory."""
    if os.getuid() != 0:
        print("# skipped: another user's slices (not root)")
        return
    script = ("import threading, time\nthreading.stack_size(65536)\n"
              "for _ in range(6000):\n"
              "    threading.Thread(target=time.sleep, args=(600,),\n"
              "                     daemon=True).start()\n"
              "print('x', flush=True)\ntime.sleep(600)\n")
    crowd = bench.start(["setpriv", f"--reuid={NOBODY}",
                         f"--regid={NOBODY}", "--clear-groups",
                         sys.executable, "-c", script],
                        stdout=subprocess.PIPE)
    crowd.stdout.readline()
    daemon = Daemon(bench, "deaf")
    path = daemon.socket
    os.chown(daemon.folder, 0, NOBODY)
    os.chown(path, 0, NOBODY)
    daemon.attach(crowd.pid)
    time.sleep(1)
    size = len(call(path, "slice")["file"])
    checks.ok("the slice does not fit into a socket", size > 80000, size)

    def as_nobody():
        deaf = [Connection(path).send(request("slice")) for _ in range(2)]
        for connection in deaf:
            connection.receive()
        return without_file(call(path, "slice"))

    reply = as_user(NOBODY, NOBODY, as_nobody)
    checks.ok("third unread slice of an ordinary user gets EBUSY",
              is_error(reply, errno.EBUSY) and "two" in reply["why"], reply)
    checks.ok("user is served again when its readers are gone", daemon.until(
        lambda: daemon.status()["slices_active"] == 0) and
        as_user(NOBODY, NOBODY,
                lambda: call(path, "slice"))["ok"], "")
    deaf = []
    for _ in range(8):
        deaf.append(Connection(path).send(request("slice")))
        deaf[-1].receive()
    reply = without_file(call(path, "slice"))
    checks.ok("at most eight slices are sent at once",
              is_error(reply, errno.EBUSY) and
              daemon.status()["slices_active"] == 8, reply)
    for connection in deaf:
        connection.close()
    checks.ok("slices are sent again when readers are gone", daemon.until(
        lambda: daemon.status()["slices_active"] == 0) and
        call(path, "slice")["ok"], "")
    daemon.end()


def few_descriptors(checks, bench):
    """Fault T6."""
    daemon = Daemon(bench, "descriptors", preexec_fn=lambda: (
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))))
    connections = [Connection(daemon.socket) for _ in range(60)]
    used = daemon.child.pid
    before = cpu_ticks(used)
    time.sleep(1)
    checks.ok("daemon without descriptors does not spin",
              cpu_ticks(used) - before < 50, cpu_ticks(used) - before)
    for connection in connections:
        connection.close()
    checks.ok("daemon with descriptors again answers", daemon.until(
        lambda: answers(daemon)), "")
    daemon.end()


def answers(daemon):
    try:
        return daemon.status()["ok"]
    except (OSError, EOFError):
        return False


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def count_fds(daemon):
    return len(os.listdir(f"/proc/{daemon.child.pid}/fd"))


def descriptors_in_messages(checks, bench):
    """Fault C5."""
    daemon = Daemon(bench, "passing")
    daemon.status()  # what reads root's requests has been started
    before = count_fds(daemon)
    reader, writer = os.pipe()
    connections = []
    for _ in range(4):
        connection = Connection(daemon.socket)
        connection.socket.sendmsg(
            [b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                       array.array("i", [writer] * 250))])
        connections.append(connection)
    daemon.status()
    # The connection of a status is closed after its answer.
    checks.ok("passed descriptors are closed", daemon.until(
        lambda: count_fds(daemon) - before <= len(connections), 2),
        (before, count_fds(daemon)))
    os.close(reader)
    os.close(writer)
    daemon.end()


def no_rights_are_added(checks, bench):
    """Fault Z1: no process of its user reads its memory, which holds stacks
    and keys. Procfs gives the files of such a process to root."""
    agent = os.path.join(bench.copy_for_nobody(), "fgtrace-agent")
    config = bench.path("self.conf")
    with open(config, "w") as file:
        file.write("sampling: { include_self = true; };\n")
    os.chmod(config, 0o644)
    for name, arguments, owner in (("closed", (), 0),
                                   ("open", ("-c", config), NOBODY)):
        child, path = bench.daemon(name, *arguments, as_nobody=True,
                                   agent=agent)
        if os.getuid() == 0:
            checks.ok(f"{name}: memory of an ordinary user's daemon",
                      os.stat(f"/proc/{child.pid}/maps").st_uid == owner)
        with open(f"/proc/{child.pid}/status") as file:
            checks.ok(f"{name}: it gets no rights by executing",
                      "NoNewPrivs:\t1\n" in file.read())
        if arguments:
            reply = call(path, "attach", pid=child.pid)
            time.sleep(1)
            listed = call(path, "targets")["targets"]
            checks.ok("a daemon that samples itself can read itself",
                      reply["ok"] and [each["pid"] for each in listed] ==
                      [child.pid] and not listed[0].get("why"),
                      (reply, listed))
        child.terminate()
        child.wait(20)


def start_as(bench, uid, command, **arguments):
    return bench.start(["setpriv", f"--reuid={uid}", f"--regid={uid}",
                        "--clear-groups", *command], **arguments)


def open_to_all(daemon):
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)


def attach_all(path, pids):
    return sum(call(path, "attach", pid=pid)["ok"] for pid in pids)


def users_leave_room_for_root(checks, bench):
    """Fault T4: sixteen users with sixteen targets each, then one with 2,300
    children."""
    if os.getuid() != 0:
        print("# skipped: targets of several users (not root)")
        return
    daemon = Daemon(bench, "users")
    open_to_all(daemon)
    first, sampled = 60001, 0
    for uid in range(first, first + 16):
        pids = [start_as(bench, uid, ["sleep", "600"]).pid for _ in range(16)]
        time.sleep(0.1)
        sampled += as_user(uid, uid, lambda: attach_all(daemon.socket, pids))
    checks.ok("users together have at most 224 targets",
              32 <= sampled <= 224, sampled)
    own = sleeper(bench)
    reply = call(daemon.socket, "attach", pid=own.pid)
    checks.ok("root has room beside 16 users with 16 targets each",
              reply["ok"], reply)
    time.sleep(0.5)
    reply = call(daemon.socket, "slice", pid=own.pid)
    checks.ok("… and its stacks", reply["ok"], reply.get("why"))
    daemon.end()


def children_leave_room_for_root(checks, bench):
    if os.getuid() != 0:
        print("# skipped: children of another user (not root)")
        return
    daemon = Daemon(bench, "children")
    open_to_all(daemon)
    family = start_as(
        bench, NOBODY, ["sh", "-c", "i=0; while [ $i -lt 2300 ]; do sleep 600 "
                        "& i=$((i + 1)); done; echo; exec sleep 600"],
        stdout=subprocess.PIPE, start_new_session=True)
    family.stdout.readline()
    try:
        reply = as_user(NOBODY, NOBODY, lambda: call(
            daemon.socket, "attach", pid=family.pid, children=True))
        checks.ok("a user's process with 2,300 children is attached",
                  reply["ok"], reply)
        time.sleep(2)
        before = cpu_ticks(daemon.child.pid)
        time.sleep(2)
        used = cpu_ticks(daemon.child.pid) - before
        checks.ok("children that are not sampled cost little", used < 60, used)
        for origin in ("attached", "with its children"):
            own = sleeper(bench)
            reply = call(daemon.socket, "attach", pid=own.pid,
                         children=origin != "attached")
            checks.ok(f"root has room beside them: {origin}", reply["ok"],
                      reply)
        status = daemon.status()
        checks.ok("the user has at most ring.per_user targets",
                  status["target_count"] <= 18, status["target_count"])
        more = re.findall(r"(\d+) more processes, pid (\d+) among them: limit "
                          "of", daemon.log_text())
        checks.ok("the log has eight that were not attached, and the number "
                  "of the others", len(more) == 1 and
                  int(more[0][0]) + 8 + 16 == 2301 and
                  "dropped" not in daemon.log_text(), more)
    finally:
        os.killpg(family.pid, signal.SIGKILL)
    daemon.end()


def children_are_attached_together(checks, bench):
    """Each has its first tick, which is not waited for before the next one."""
    daemon = Daemon(bench, "together", "sampling: { hz = 2; };")
    parent = bench.start(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; "
                          "do sleep 600 & done; echo; wait"],
                         stdout=subprocess.PIPE, start_new_session=True)
    parent.stdout.readline()
    began = time.monotonic()
    reply = call(daemon.socket, "attach", pid=parent.pid, children=True)
    took = time.monotonic() - began
    targets = daemon.status()["targets"]
    os.killpg(parent.pid, signal.SIGKILL)
    checks.ok("12 children at 2 Hz are attached within 3 s", reply["ok"] and
              len(targets) == 13 and took < 3, (took, len(targets), reply))
    checks.ok("… and all have ticked", all(
        target["samples_blocked"] for target in targets), targets)
    daemon.end()


def memory_group(name, limit):
    """A group of this limit, or None where none can be made."""
    for parent, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                         ("/sys/fs/cgroup", "memory.max")):
        path = os.path.join(parent, name)
        try:
            os.mkdir(path)
        except OSError:
            continue
        try:
            with open(os.path.join(path, file), "w") as stream:
                stream.write(str(limit))
            return path
        except OSError:
            os.rmdir(path)
    return None


def rings_heed_the_memory_group(checks, bench):
    """Fault T4: three targets in a group of 24 MB."""
    group = memory_group(f"fgtrace-test-{os.getpid()}", 24 << 20)
    if not group:
        print("# skipped: rings heed the memory group (none can be made)")
        return

    def enter():
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    try:
        daemon = Daemon(bench, "group", preexec_fn=enter)
        crowds = [bench.start([bench.program("crowd"), "1", "300", "20", "60"],
                              stdout=subprocess.DEVNULL) for _ in range(3)]
        for crowd in crowds:
            daemon.attach(crowd.pid)
        time.sleep(6)
        status = daemon.status()
        sizes = [t["ring_size_bytes"] for t in status["targets"]]
        checks.ok("rings of three targets fit into half of the group",
                  len(sizes) == 3 and sum(sizes) <= 12 << 20, sizes)
        checks.ok("status shows the total", status["ring_total_bytes"] ==
                  12 << 20 and status["ring_used_bytes"] >= sum(sizes),
                  status)
        replies = [call(daemon.socket, "slice", pid=crowd.pid)
                   for crowd in crowds]
        checks.ok("each has a slice", all(r["ok"] for r in replies),
                  [r.get("why") for r in replies])
        daemon.end()
    finally:
        for crowd in crowds:
            crowd.kill()
        time.sleep(0.2)
        os.rmdir(group)


if __name__ == "__main__":
    run_groups([loop_that_hangs_leaves, time_without_ticks_is_missed,
                malformed, little_memory, slow_clients, deaf_readers,
                few_descriptors, descriptors_in_messages,
                no_rights_are_added,
                users_leave_room_for_root, children_leave_room_for_root,
                children_are_attached_together,
                rings_heed_the_memory_group])

# SPDX-License-Identifier: Apache-2.0
"""Faults C3, X16, Z7. Who sees which program: the verbs slice, self, deliver,
crash and targets, each with programs that become more than their user is.
Root's daemon, whose clients are an ordinary user's."""
import concurrent.futures
import ctypes
import os
import shutil
import signal
import socket
import struct
import time

from kit.daemon_bench import Daemon, is_error
from kit.daemon_client import Connection, as_user, call, request
from kit.harness import NOBODY
from kit.read_fgt import Slice

CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
PR_SET_DUMPABLE = 4
CAP_NET_RAW = 13
CAPABILITIES = struct.pack("<IIIII", 0x02000001, 1 << CAP_NET_RAW, 0, 0, 0)
KINDS = ("plain", "set-uid", "file capabilities", "not dumpable",
         "user namespace")
SECRET, PLAIN = "keep_secret", "stay_plain"
SECOND = 10**9
# Long enough for its unwind rules, on a busy machine.
SECRET_MS = "1200"
libc = ctypes.CDLL(None, use_errno=True)


class Programs:
    """Copies of shifter: "plain", and for each kind a secret one, in a folder
    that other users cannot list."""

    def __init__(self, bench):
        self.folder = bench.path("programs")
        if os.path.exists(self.folder):
            shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o711)
        self.plain = self._copy(bench, "plain", 0o755)
        self.secret = {
            "plain": self._copy(bench, "secret", 0o755),
            "set-uid": self._copy(bench, "secret-set", 0o4711),
            "file capabilities": self._copy(bench, "secret-cap", 0o755),
            "not dumpable": self._copy(bench, "secret-read", 0o711),
            "user namespace": self._copy(bench, "secret-ns", 0o755)}
        os.setxattr(self.secret["file capabilities"], "security.capability",
                    CAPABILITIES)
        self.asking = self._copy(bench, "secret-set-ask", 0o4711)
        self.asking_plain = self._copy(bench, "secret-ask", 0o755)

    def _copy(self, bench, name, mode):
        path = os.path.join(self.folder, name)
        shutil.copyfile(bench.program("shifter"), path)
        os.chmod(path, mode)
        return path


def open_daemon(bench, name):
    daemon = Daemon(bench, name)
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    return daemon


def functions(data):
    """Names in a .fgt file's stacks."""
    return {name for name in (SECRET, PLAIN) if name.encode() in data} \
        if Slice(data) else set()


def seen(reply):
    """What a slice shows: functions, or nothing."""
    return functions(reply["file"]) if reply["ok"] else set()


def by_user(function):
    return as_user(NOBODY, NOBODY, function)


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


# ---- slice and targets ----------------------------------------------------

def stages(programs, kind):
    """State → what a program does from its beginning."""
    secret = programs.secret[kind]
    first = [programs.plain, "-1"]  # go_on() ends it
    return {"now": [*first, secret, "-1"],
            "there and back": [*first, secret, SECRET_MS, programs.plain, "-1"],
            "there and back between two ticks":
                [*first, secret, "0", programs.plain, "-1"],
            "ended": [*first, secret, SECRET_MS]}


def wait_for_stacks(daemon, pid):
    """Of the plain stage: on a busy machine unwind rules come late."""
    daemon.until(lambda: PLAIN in seen(call(daemon.socket, "slice", pid=pid,
                                            last_ns=SECOND)))


def go_on(daemon, pid):
    """Ends the plain stage when its stacks are there."""
    wait_for_stacks(daemon, pid)
    os.kill(pid, signal.SIGUSR1)


def ask_all(daemon, pids):
    """As one user, of all: what slices show, and who is listed."""
    def ask():
        slices = [seen(call(daemon.socket, "slice", pid=pid,
                            last_ns=20 * SECOND)) for pid in pids]
        listed = {target["pid"] for target in
                  call(daemon.socket, "targets")["targets"]}
        return slices, listed
    return by_user(ask)


def expected(kind, state):
    """Functions that a slice shows, and whether the program is listed."""
    if "two ticks" in state:  # one between them cannot be excluded
        return {PLAIN}, True
    if kind == "plain":
        return {SECRET, PLAIN}, True
    if state == "there and back":
        return {PLAIN}, True
    return set(), False


def programs_show_what_their_user_may_trace(checks, bench):
    daemon, programs = open_daemon(bench, "gate"), Programs(bench)
    rows = [(kind, state, bench.start(command, as_nobody=True))
            for kind in KINDS
            for state, command in stages(programs, kind).items()]
    pids = [child.pid for _, _, child in rows]
    for pid in pids:
        daemon.attach(pid)
    for pid in pids:
        go_on(daemon, pid)
    time.sleep(2)
    slices, listed = ask_all(daemon, pids)
    whole = [seen(call(daemon.socket, "slice", pid=pid, last_ns=20 * SECOND))
             for pid in pids]
    for (kind, state, child), shown, all_shown in zip(rows, slices, whole):
        functions, is_listed = expected(kind, state)
        checks.ok(f"slice, {kind}, {state}: {sorted(functions)}",
                  shown == functions, (shown, all_shown))
        checks.ok(f"targets, {kind}, {state}: "
                  f"{'' if is_listed else 'not '}listed",
                  (child.pid in listed) == is_listed, listed)
        checks.ok(f"root sees both, {kind}, {state}",
                  all_shown == {SECRET, PLAIN} or "two ticks" in state,
                  all_shown)
        child.kill()
        child.wait()
    daemon.end()


def slice_asked_for_before(daemon, pid):
    """By a user, before the program goes on; it ends after that."""
    def ask():
        wait_for_stacks(daemon, pid)
        connection = Connection(daemon.socket)
        connection.send(request("slice", pid=pid, from_ns=now() - SECOND,
                                to_ns=now() + 3 * SECOND // 2))
        time.sleep(0.2)
        os.kill(pid, signal.SIGUSR1)
        return receive_file(connection)
    return by_user(ask)


def slices_are_asked_for_again_when_they_are_cut(checks, bench):
    """The request comes while the program is plain, its end while it is not;
    or it is plain again by then."""
    daemon, programs = open_daemon(bench, "later"), Programs(bench)
    for state, rest in (("now", ["-1"]),
                        ("there and back", ["600", programs.plain, "-1"])):
        children = [bench.start([programs.plain, "-1", programs.secret[kind],
                                 *rest], as_nobody=True) for kind in KINDS]
        for child in children:
            daemon.attach(child.pid)
        replies = together([
            lambda pid=child.pid: slice_asked_for_before(daemon, pid)
            for child in children])
        for kind, child, reply in zip(KINDS, children, replies):
            functions, _ = expected(kind, state)
            checks.ok(f"slice asked for before, {kind}, {state}: "
                      f"{sorted(functions)}", seen(reply) == functions,
                      (seen(reply), reply.get("why")))
            child.kill()
            child.wait()
    daemon.end()


# ---- self -----------------------------------------------------------------

def become(command, begin):
    """A child connects and begins, then becomes the command; its parent, which
    has the connection too, reads. Returns (pid, connection) to the parent."""
    parent_end, child_end = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        connection = begin()
        socket.send_fds(child_end, [b"x"], [connection.socket.fileno()])
        os.dup2(connection.socket.fileno(), 1)
        os.execv(command[0], command)
    fd = socket.recv_fds(parent_end, 1, 1)[1][0]
    connection = Connection.__new__(Connection)
    connection.socket = socket.socket(fileno=fd)
    connection.socket.settimeout(20)
    return pid, connection


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


PROMPT = "Password: "


def begin_with(daemon, data, is_registered=False):
    def begin():
        connection = Connection(daemon.socket)
        if is_registered:
            connection.send(request("register", mode="agent")).receive()
        return connection.send(data[:-len(PROMPT)])
    return begin


def half_of(daemon, programs, is_registered, data, receive):
    """What the prompts of both programs complete."""
    replies = []
    for program in (programs.asking_plain, programs.asking):
        def ask(program=program):
            pid, connection = become([program, "700", programs.secret["plain"],
                                      "-1"],
                                     begin_with(daemon, data, is_registered))
            if not is_registered:
                time.sleep(0.2)
                as_root.send(str(pid).encode())
            try:
                return receive(connection)
            except (EOFError, OSError) as error:
                return {"ok": False, "why": repr(error)}
            finally:
                end(pid)
        root, as_root = socket.socketpair()
        if not is_registered:
            attach_on_request(daemon, root)
        replies.append(by_user(ask))
    return replies


def attach_on_request(daemon, root):
    if os.fork() == 0:
        daemon.attach(int(root.recv(20)))
        os._exit(0)


def receive_file(connection):
    head, data = connection.receive_slice()
    return {**head, "file": data} if data else head


def half_a_request_is_not_completed_by_a_prompt(checks, bench):
    daemon, programs = open_daemon(bench, "half"), Programs(bench)
    data = request("slice", self=True, last_ns=10 * SECOND, note=PROMPT)
    plain, raised = half_of(daemon, programs, False, data, receive_file)
    checks.ok("self, plain: its prompt completes the request",
              SECRET in seen(plain), plain.get("why"))
    checks.ok("self, set-uid: its prompt completes no request",
              seen(raised) == set(), seen(raised))
    out = bench.path("half-out")
    os.mkdir(out)
    os.chown(out, NOBODY, NOBODY)
    data = request("deliver", from_ns=now(), to_ns=now() + SECOND,
                   destination=out, note=PROMPT)
    plain, raised = half_of(daemon, programs, True, data,
                            lambda connection: connection.receive())
    checks.ok("deliver, plain: its prompt completes the request", plain["ok"],
              plain)
    checks.ok("deliver, set-uid: its prompt completes no request",
              is_error(raised, 1), raised)
    daemon.end()


# ---- deliver and crash ----------------------------------------------------

def texts_in(folder):
    found = b""
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name), "rb") as file:
                found += file.read()
        except FileNotFoundError:
            pass  # it was written meanwhile, and has its name now
    return {name for name in (SECRET, PLAIN) if name.encode() in found}


def out_folder(bench, name):
    folder = bench.path(name)
    os.mkdir(folder)
    os.chown(folder, NOBODY, NOBODY)
    return folder


def registered(daemon, destination):
    def begin():
        connection = Connection(daemon.socket)
        reply = connection.send(request(
            "register", mode="agent", destination=destination)).receive()
        if not reply["ok"]:
            raise RuntimeError(reply["why"])
        return connection
    return begin


def deliver_by_child(daemon, command, out):
    """The child sends, on the connection that its parent registered."""
    def ask():
        pid, connection = become(command, registered(daemon, out))
        go_on(daemon, pid)
        time.sleep(1.3)
        reply = connection.send(request(
            "deliver", destination=out, from_ns=now() - 10 * SECOND,
            to_ns=now())).receive()
        time.sleep(0.7)
        end(pid)
        return reply
    return by_user(ask)


def together(functions):
    """Runs each in a thread; their results."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in
                [pool.submit(function) for function in functions]]


def kept_connections_deliver_what_is_visible(checks, bench):
    daemon, programs = open_daemon(bench, "kept"), Programs(bench)
    rows = [(kind, state, command,
             out_folder(bench, f"kept-{kind}-{state}".replace(" ", "-")))
            for kind in KINDS
            for state, command in stages(programs, kind).items()
            if state != "ended"]
    replies = together([lambda row=row: deliver_by_child(daemon, *row[2:])
                        for row in rows])
    for (kind, state, _, out), reply in zip(rows, replies):
        functions, is_listed = expected(kind, state)
        daemon.until(lambda: texts_in(out) == functions, 5)
        checks.ok(f"deliver, {kind}, {state}: {sorted(functions)}",
                  texts_in(out) == functions and reply["ok"] == is_listed,
                  (texts_in(out), reply, daemon.log_text()[-300:]))
    daemon.end()


def crash(daemon, programs, kind, out):
    def ask():
        pid, connection = become(
            [programs.plain, "300", programs.secret[kind], "400", "crash"],
            registered(daemon, out))
        os.waitpid(pid, 0)
        connection.close()
    return by_user(ask)


def crashes_deliver_what_is_visible(checks, bench):
    daemon, programs = open_daemon(bench, "crash"), Programs(bench)
    outs = {kind: out_folder(bench, f"crash-{kind}".replace(" ", "-"))
            for kind in KINDS}
    together([lambda kind=kind, out=out: crash(daemon, programs, kind, out)
              for kind, out in outs.items()])
    daemon.until(lambda: daemon.status()["registered"] == 0)
    time.sleep(1)
    for kind, out in outs.items():
        functions, _ = expected(kind, "ended")
        checks.ok(f"crash, {kind}: {sorted(functions)}",
                  texts_in(out) == functions,
                  (texts_in(out), daemon.log_text()[-300:]))
    daemon.end()


# ---- namespaces -----------------------------------------------------------

def in_namespace(flag, function):
    """Runs function as root of a new namespace of that kind."""
    def inside():
        if libc.unshare(flag):
            raise OSError(ctypes.get_errno(), "unshare")
        return as_user(0, 0, function)
    return inside


def map_root():
    with open("/proc/self/setgroups", "w") as file:
        file.write("deny")
    for kind in "ug":
        with open(f"/proc/self/{kind}id_map", "w") as file:
            file.write(f"0 {NOBODY} 1")


def root_of_a_user_namespace(ask):
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # lost with the change of user
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    map_root()
    return os.getuid(), ask()


def root_of_other_namespaces_is_not_root(checks, bench):
    daemon, programs = open_daemon(bench, "roots"), Programs(bench)
    child = bench.start([programs.plain, "-1"])
    daemon.attach(child.pid)
    own = bench.start([programs.plain, "-1"], as_nobody=True)
    daemon.attach(own.pid)
    time.sleep(0.3)

    def ask():
        return ([target["pid"] for target in
                 call(daemon.socket, "targets")["targets"]],
                call(daemon.socket, "slice", pid=child.pid, last_ns=SECOND))

    listed, reply = ask()
    checks.ok("root sees all", sorted(listed) == sorted([child.pid, own.pid])
              and reply["ok"], (listed, reply))
    uid, (listed, reply) = by_user(lambda: root_of_a_user_namespace(ask))
    checks.ok("root of a user namespace sees what its user sees",
              uid == 0 and listed == [own.pid] and not reply["ok"],
              (listed, reply))
    listed, reply = as_user(0, 0, in_namespace(CLONE_NEWPID, ask))
    checks.ok("root of a pid namespace is not root here",
              listed == [] and not reply["ok"], (listed, reply))
    daemon.end()


GROUPS = (programs_show_what_their_user_may_trace,
          slices_are_asked_for_again_when_they_are_cut,
          half_a_request_is_not_completed_by_a_prompt,
          kept_connections_deliver_what_is_visible,
          crashes_deliver_what_is_visible,
          root_of_other_namespaces_is_not_root)

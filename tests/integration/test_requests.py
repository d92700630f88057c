# SPDX-License-Identifier: Apache-2.0
"""Requests to the daemon: attached names are rules, times are on either
clock, fronts read them (fault C9), with few rights. test_requests.py BUILD
[GROUP…]"""
import errno
import os
import re
import shutil
import signal
import subprocess
import time

from kit import service_sandbox
from kit.daemon_bench import Daemon, is_error, run_groups, sleeper
from kit.daemon_client import Connection, as_user, call, request
from kit.harness import KIT, NOBODY
from kit.trust_table import CLONE_NEWPID, in_namespace

SECOND = 1000000000


def names_are_rules(checks, bench):
    """attach NAME holds for processes that start later, until detach NAME."""
    daemon = Daemon(bench, "names", "ring: { per_user = 64; };")
    path = daemon.socket
    program = bench.path("phoenix")
    shutil.copy("/bin/sleep", program)

    def pids():
        return {target["pid"] for target in call(path, "targets")["targets"]
                if target["alive"]}

    first = bench.start([program, "600"])
    daemon.until(lambda: os.readlink(f"/proc/{first.pid}/exe") == program)
    reply = call(path, "attach", name="phoenix")
    checks.ok("attach NAME samples what runs", reply["ok"] and
              [t["pid"] for t in reply["targets"]] == [first.pid] and
              [rule["name"] for rule in reply["rules"]] == ["phoenix"], reply)
    first.kill()
    first.wait()
    second = bench.start([program, "600"])
    checks.ok("and a process of the name that starts later",
              daemon.until(lambda: second.pid in pids()), daemon.status())
    reply = call(path, "attach", name="phoenix")
    checks.ok("a process that has ended is not named", reply["ok"] and
              [t["pid"] for t in reply["targets"]] == [second.pid], reply)
    rules = [(rule["name"], rule["uid"]) for rule in
             call(path, "targets")["rules"]]
    checks.ok("rule is listed once, with its user",
              rules == [("phoenix", os.getuid())], rules)
    checks.ok("detach PID holds against the rule",
              call(path, "detach", pid=second.pid)["ok"] and
              not daemon.until(lambda: second.pid in pids(), 2.5), pids())
    call(path, "attach", name="phoenix")
    reply = call(path, "detach", name="phoenix")
    third = bench.start([program, "600"])
    checks.ok("detach NAME drops the rule", reply["ok"] and
              [rule["name"] for rule in reply["rules"]] == ["phoenix"] and
              not call(path, "targets")["rules"] and
              not daemon.until(lambda: pids() & {second.pid, third.pid}, 2.5),
              (reply, pids()))
    checks.ok("detach NAME again finds nothing", is_error(
        call(path, "detach", name="phoenix"), errno.ESRCH), "")
    if os.getuid() == 0:
        rules_of_one_user(checks, bench, daemon, program)
    daemon.end()


def rules_of_one_user(checks, bench, daemon, program):
    """No more rules than 16, and only for processes of that user."""
    os.chown(daemon.folder, 0, NOBODY)
    os.chown(daemon.socket, 0, NOBODY)
    os.chmod(os.path.dirname(program), 0o755)
    names = [f"phoenix{i}" for i in range(17)]
    for name in names:
        shutil.copy(program, bench.path(name))
        bench.start([bench.path(name), "600"], as_nobody=True)
    time.sleep(0.5)
    replies = [as_user(NOBODY, NOBODY, lambda name=name: call(
        daemon.socket, "attach", name=name)) for name in names]
    checks.ok("user has at most 16 rules",
              [r["ok"] for r in replies] == [True] * 16 + [False] and
              "limit of attached names" in replies[16]["why"],
              [r.get("why") for r in replies])
    checks.ok("a name without room for its rule attaches no process",
              names[16] not in [t["name"]
                                for t in daemon.status()["targets"]], "")
    stranger = bench.start([bench.path(names[0]), "600"])
    own = bench.start([bench.path(names[0]), "600"], as_nobody=True)
    checks.ok("rule of a user is for processes of that user",
              daemon.until(lambda: own.pid in [
                  t["pid"] for t in daemon.status()["targets"]]) and
              stranger.pid not in [
                  t["pid"] for t in daemon.status()["targets"]], "")


def times_are_resolved(checks, bench):
    """A slice's times on either clock, by one request."""
    daemon = Daemon(bench, "times")
    path = daemon.socket
    target = sleeper(bench)
    daemon.attach(target.pid)
    time.sleep(3)
    wall, mono = time.time_ns(), time.monotonic_ns()
    reply = call(path, "slice", from_wall_ns=wall - 2 * SECOND,
                 to_wall_ns=wall - SECOND)
    checks.ok("wall times are mapped by the ring's anchors", reply["ok"] and
              abs(reply["from_ns"] - (mono - 2 * SECOND)) < SECOND // 10 and
              abs(reply["to_ns"] - (mono - SECOND)) < SECOND // 10 and
              reply["wall_clock_set"] is False, reply)
    reply = call(path, "slice", from_wall_ns=1, to_wall_ns=wall - 60 * SECOND)
    checks.ok("error reports the ring's range on both clocks",
              is_error(reply, errno.ENODATA) and reply["outside"] and
              abs((reply["newest_wall_ns"] - wall) -
                  (reply["newest_ns"] - mono)) < SECOND // 20, reply)
    for name, arguments in (
            ("from on both clocks", dict(from_ns=1, from_wall_ns=1)),
            ("from and last", dict(from_ns=1, last_ns=1)),
            ("last as text", dict(last_ns="1")),
            ("wall from after to", dict(from_wall_ns=wall, to_wall_ns=1))):
        reply = call(path, "slice", **arguments)
        checks.ok(f"error: {name}", is_error(reply, errno.EINVAL), reply)
    target.kill()
    target.wait()
    daemon.until(lambda: not daemon.status()["targets"][0]["alive"])
    ended_ns = daemon.status()["targets"][0]["ended_ns"]
    time.sleep(2)
    reply = call(path, "slice", last_ns=SECOND)
    checks.ok("last counts from the end of a target that has ended",
              reply["ok"] and
              abs(reply["from_ns"] - (ended_ns - SECOND)) < SECOND // 5, reply)
    daemon.end()
    command = [bench.agent, "daemon", "--socket", "/nonexistent/x.sock"]
    refused = subprocess.run(command, capture_output=True, text=True,
                             timeout=60)
    checks.ok("directory other than the default is not created",
              refused.returncode != 0 and "does not exist" in refused.stderr
              and not os.path.exists("/nonexistent"), refused)


def children(pid, name):
    """Those of a process that have this name."""
    found = []
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in map(int, file.read().split()):
            try:
                with open(f"/proc/{child}/comm") as comm:
                    found += [child] if comm.read().strip() == name else []
            except OSError:
                pass
    return found


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file
                    if ":\t" in line)


def register(path):
    connection = Connection(path)
    reply = connection.send(request("register", mode="agent")).receive()
    return connection, reply


def fronts_read_requests(checks, bench):
    """Each user has a process without rights that reads its requests; what
    ends it costs an answer, and nothing else."""
    daemon = Daemon(bench, "fronts")
    target = sleeper(bench)
    daemon.attach(target.pid)
    connection, reply = register(daemon.socket)
    checks.ok("a program registers", reply["ok"], reply)
    front, = children(daemon.child.pid, "fgt-front")
    status = status_of(front)
    checks.ok("a front has no rights", int(status["CapEff"], 16) == 0 and
              int(status["CapPrm"], 16) == 0 and status["NoNewPrivs"] == "1"
              and status["Seccomp"] == "2" and
              (os.getuid() != 0 or "0" not in status["Uid"].split()), status)
    if os.getuid() == 0:
        checks.ok("it has no file and no connection of a client",
                  sorted({os.readlink(f"/proc/{front}/fd/{fd}").split(":")[0]
                          for fd in os.listdir(f"/proc/{front}/fd")}) ==
                  ["/dev/null", "socket"] and
                  len(os.listdir(f"/proc/{front}/fd")) == 4, front)
    os.kill(front, signal.SIGSTOP)
    waiting = Connection(daemon.socket).send(
        request("slice", pid=target.pid))
    time.sleep(0.2)
    os.kill(front, signal.SIGKILL)
    front_killed = front
    reply = waiting.receive()
    checks.ok("front that is killed while a client waits: the client gets an "
              "error", is_error(reply, errno.EAGAIN), reply)
    status = daemon.status()
    ticks = status["targets"][0]["ticks"]
    checks.ok("the next request is read by another front", status["ok"] and
              children(daemon.child.pid, "fgt-front") not in ([], [front]),
              status)
    checks.ok("registered programs stay so", status["registered"] == 1 and
              connection.send(request("confirm")).receive()["ok"], status)
    front, = children(daemon.child.pid, "fgt-front")
    os.kill(front, signal.SIGSTOP)
    connection.send(request("bye")).close()
    time.sleep(0.3)
    os.kill(front, signal.SIGCONT)
    checks.ok("last word of a program that closes its connection is heard",
              daemon.until(lambda: daemon.status()["registered"] == 0) and
              "registered_left" not in daemon.log_text(), daemon.log_text())
    checks.ok("and recording goes on", daemon.until(
        lambda: daemon.status()["targets"][0]["ticks"] > ticks + 50),
        daemon.status())
    checks.ok("the log has one line of it",
              daemon.log_text().count("front_failed") == 1, daemon.log_text())
    checks.ok("and one with the signal that ended it",
              daemon.log_text().count("child_ended") == 1 and
              f"fgt-front (pid {front_killed}, for user {os.getuid()}) was "
              "ended by signal 9 (KILL)" in daemon.log_text() and
              daemon.status()["children_ended"] == 1, daemon.log_text())
    for number, fault in ((signal.SIGTERM, "leaves"),
                          (signal.SIGKILL, "is killed")):
        fronts = children(daemon.child.pid, "fgt-front")
        daemon.end(number)
        checks.ok(f"fronts end when the daemon {fault}", fronts and
                  daemon.until(lambda: not any(
                      os.path.exists(f"/proc/{pid}/fd") and
                      status_of(pid)["State"][0] != "Z" for pid in fronts)),
                  fronts)
        daemon.start()
    daemon.end()
    waiting.close()


def users_have_separate_fronts(checks, bench):
    if os.getuid() != 0:
        print("# skipped: users have separate fronts (needs root)")
        return
    daemon = Daemon(bench, "users")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    as_user(0, 0, in_namespace(CLONE_NEWPID,
                               lambda: call(daemon.socket, "targets")))
    fronts = children(daemon.child.pid, "fgt-front")
    checks.ok("root of another pid namespace has another front than root",
              len(fronts) == 2, fronts)
    for uid in range(NOBODY - 20, NOBODY):
        reply = as_user(uid, uid, lambda: call(daemon.socket, "targets"))
        if not reply["ok"]:
            break
    fronts = children(daemon.child.pid, "fgt-front")
    checks.ok("twenty users are served, one after the other",
              reply["ok"] and len(fronts) == 8, (reply, fronts))
    uids = {status_of(pid)["Uid"] for pid in fronts}
    checks.ok("each front has a user id that nothing else has",
              len(uids) == len(fronts), uids)
    daemon.end()


def rights_are_those_of_the_service(checks, bench):
    """Of a daemon that no service manager has started."""
    if os.getuid() != 0:
        print("# skipped: rights are those of the service (needs root)")
        return
    daemon = Daemon(bench, "rights")
    daemon.attach(sleeper(bench).pid)
    unit = service_sandbox.Unit(os.path.join(
        os.path.dirname(KIT), "../../etc/fgtrace-agent.service.in"))
    service, with_deliveries = (
        sum(1 << service_sandbox.CAPABILITIES.index(name) for name in names)
        for names in (unit.capabilities(),
                      unit.capabilities() | {"SYS_ADMIN", "SETPCAP"}))
    with open("/proc/self/status") as file:
        own = int(re.search(r"CapPrm:\t(\w+)", file.read()).group(1), 16)
    status = status_of(daemon.child.pid)
    checks.ok("the daemon has the capabilities of its service",
              int(status["CapEff"], 16) == service & own and
              int(status["CapPrm"], 16) == with_deliveries & own, status)
    checks.ok("and none of its children can have more", all(
        int(status_of(pid)["CapBnd"], 16) & ~with_deliveries == 0
        for name in ("fgt-reader", "fgt-front", "fgt-rows")
        for pid in children(daemon.child.pid, name)), status)
    checks.ok("it has a filter of system calls",
              status["Seccomp"] == "2" and status["NoNewPrivs"] == "1",
              status)
    daemon.end()


if __name__ == "__main__":
    run_groups([names_are_rules, times_are_resolved, fronts_read_requests,
                users_have_separate_fronts,
                rights_are_those_of_the_service])

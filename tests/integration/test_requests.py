# SPDX-License-Identifier: Apache-2.0
"""Requests to the daemon: attached names are rules, times are on either
clock. test_requests.py BUILD [GROUP…]"""
import errno
import os
import shutil
import subprocess
import time

from kit.daemon_bench import Daemon, is_error, run_groups, sleeper
from kit.daemon_client import as_user, call
from kit.harness import NOBODY

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


if __name__ == "__main__":
    run_groups([names_are_rules, times_are_resolved])

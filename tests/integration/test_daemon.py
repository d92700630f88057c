# SPDX-License-Identifier: Apache-2.0
"""The daemon from outside: other users, signals, reloads, crashes
(faults C3, R5, R6, R7, R8, R9, Z7, Z9). test_daemon.py BUILD [GROUP…]"""
import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time

from kit.daemon_bench import Daemon, is_error, run_groups, sleeper
from kit.daemon_client import (VERSION, Connection, FakeAgent, as_user, call,
                               frame, pack, request)
from kit.harness import NOBODY

SECOND = 1000000000


def errors_are_precise(checks, bench):
    """Fault R3, and other requests that are refused."""
    daemon = Daemon(bench, "errors")
    path = daemon.socket
    reply = call(path, "slice")
    checks.ok("slice without targets names the remedy",
              is_error(reply, errno.ESRCH) and "attach" in reply["why"], reply)
    targets = [sleeper(bench) for _ in range(2)]
    for target in targets:
        daemon.attach(target.pid)
    reply = call(path, "slice")
    checks.ok("slice of one among several lists them",
              is_error(reply, errno.ENOTUNIQ) and
              {t["pid"] for t in reply["targets"]} ==
              {t.pid for t in targets}, reply)
    time.sleep(0.3)
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    reply = call(path, "slice", pid=targets[0].pid, from_ns=1, to_ns=2)
    checks.ok("range before the ring: error names the range that the ring "
              "holds",
              is_error(reply, errno.ENODATA) and
              0 < reply["oldest_ns"] < reply["newest_ns"] <= now + SECOND,
              reply)
    table = [
        ("from after to", errno.EINVAL, "slice", dict(from_ns=2, to_ns=1)),
        ("an hour ahead", errno.EINVAL, "slice",
         dict(to_ns=now + 4000 * SECOND)),
        ("time as text", errno.EINVAL, "slice", dict(from_ns="1")),
        ("negative time", errno.EINVAL, "slice", dict(from_ns=-1)),
        ("pid 0", errno.EINVAL, "slice", dict(pid=0)),
        ("pid as text", errno.EINVAL, "slice", dict(pid="1")),
        ("pid and name", errno.EINVAL, "slice", dict(pid=1, name="x")),
        ("no such pid", errno.ESRCH, "slice", dict(pid=2147483647)),
        ("no such name", errno.ESRCH, "slice", dict(name="no-such-name")),
        ("no such thread", errno.ENODATA, "slice",
         dict(pid=targets[0].pid, tid=1)),
        ("attach nothing", errno.EINVAL, "attach", {}),
        ("attach a dead pid", errno.ESRCH, "attach", dict(pid=2147483647)),
        ("children as number", errno.EINVAL, "attach",
         dict(pid=targets[0].pid, children=1)),
        ("detach a stranger", errno.ESRCH, "detach", dict(pid=os.getpid())),
        ("unknown verb", errno.EPROTONOSUPPORT, "explode", {}),
    ]
    for name, number, verb, arguments in table:
        reply = Connection(path).send(request(verb, **arguments)).receive()
        checks.ok(f"error: {name}", is_error(reply, number), reply)
    daemon.end()


def documented_keys():
    """The words in backticks of agent/protocol/README.md."""
    path = os.path.join(os.path.dirname(__file__), "../../agent/protocol",
                        "README.md")
    with open(path, encoding="utf-8") as text:
        return set(re.findall(r"`([a-z_]+)`", text.read()))


def versions(checks, bench):
    """A client and a daemon of different releases, in both directions."""
    daemon = Daemon(bench, "versions")
    daemon.attach(sleeper(bench).pid)
    status = daemon.status()
    unknown = {*status, *status["targets"][0]} - documented_keys()
    checks.ok("agent/protocol/README.md has every key of status",
              not unknown, unknown)
    for version, older in ((VERSION - 1, "program"), (VERSION + 1, "agent")):
        reply = Connection(daemon.socket).send(
            frame(pack({"v": version, "verb": "status"}))).receive()
        checks.ok(f"daemon refuses protocol {version} and names the older",
                  is_error(reply, errno.EPROTONOSUPPORT) and
                  f"agent uses protocol {VERSION}, this program {version}: "
                  in reply["why"] and f"{older} is older" in reply["why"],
                  reply)
    daemon.end()
    for version, older in ((VERSION - 1, "agent"), (VERSION + 1, "program")):
        for is_ok in (True, False):
            path = bench.path(f"other-{version}-{is_ok}.sock")
            refusal = {} if is_ok else {"error": -errno.EPROTONOSUPPORT,
                                        "why": "other words"}
            with FakeAgent(path, {"v": version, "ok": is_ok, **refusal}):
                ran = bench.run("status", "--socket", path)
            checks.ok(f"command line refuses protocol {version} and names "
                      f"the older (ok: {is_ok})",
                      ran.returncode != 0 and not ran.stdout and
                      f"agent uses protocol {version}, this "
                      f"program {VERSION}: " in ran.stderr and
                      f"{older} is older" in ran.stderr,
                      ran.stderr)


def slices_are_served(checks, bench):
    """Faults R4 and C6."""
    daemon = Daemon(bench, "slices")
    path = daemon.socket
    target = sleeper(bench)
    daemon.attach(target.pid)
    time.sleep(0.5)
    reply = call(path, "slice", name="sleep")
    checks.ok("slice by name", reply["ok"] and reply["pid"] == target.pid and
              reply["ticks"] >= 2 and len(reply["file"]) > 100, reply)

    results = []

    def take():
        try:
            results.append(call(path, "slice"))
        except (OSError, EOFError, ValueError) as error:
            results.append({"ok": False, "error": 0, "why": repr(error)})

    def take_many(count):
        results.clear()
        threads = [threading.Thread(target=take) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    take_many(2)
    checks.ok("two slices at once both succeed",
              [r["ok"] for r in results] == [True, True],
              [r.get("why") for r in results])
    take_many(50)
    served = sum(r["ok"] for r in results)
    odd = [r for r in results if not r["ok"] and r["error"] != -errno.EBUSY]
    checks.ok("50 slices at once: each is served or gets EBUSY",
              len(results) == 50 and served >= 4 and not odd, odd[:3])

    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    end = now + SECOND // 2
    reply = call(path, "slice", from_ns=now, to_ns=end)
    checks.ok("slice with a future end waits for it",
              reply["ok"] and
              time.clock_gettime_ns(time.CLOCK_MONOTONIC) >= end and
              now < reply["from_ns"] < reply["to_ns"] <= end and
              end - reply["to_ns"] < SECOND // 4, reply.get("why"))

    waiting = Connection(path).send(
        request("slice", to_ns=now + 600 * SECOND))
    checks.ok("waiting slice is counted", daemon.until(
        lambda: daemon.status()["slices_waiting"] == 1), daemon.status())
    waiting.close()
    checks.ok("waiting slice is cancelled when its client ends",
              daemon.until(
        lambda: daemon.status()["slices_waiting"] == 0), daemon.status())

    waiting = Connection(path).send(
        request("slice", pid=target.pid, to_ns=now + 600 * SECOND))
    daemon.until(lambda: daemon.status()["slices_waiting"] == 1)
    target.kill()
    target.wait()
    reply = waiting.receive_slice()[0]
    checks.ok("waiting slice ends when its target ends", reply["ok"], reply)
    reply = call(path, "slice", pid=target.pid)
    checks.ok("dead target can be sliced", reply["ok"], reply)
    alive = [t["alive"] for t in call(path, "targets")["targets"]]
    checks.ok("dead target is listed as ended", alive == [False], alive)
    reply = call(path, "detach", pid=target.pid)
    checks.ok("dead target can be detached", reply["ok"] and
              call(path, "targets")["targets"] == [], reply)
    daemon.end()


def other_users(checks, bench):
    """Faults C3, Z7."""
    if os.getuid() != 0:
        print("# skipped: other users (not root)")
        return
    daemon = Daemon(bench, "users", "ring: { per_user = 4; };")
    path = daemon.socket
    owned = sleeper(bench)
    theirs = sleeper(bench, as_nobody=True)
    more = sleeper(bench, as_nobody=True)
    daemon.attach(owned.pid)
    daemon.attach(theirs.pid)
    time.sleep(0.3)
    try:
        as_user(NOBODY, NOBODY, lambda: call(path, "status"))
        checks.ok("stranger may not connect", False, "connected")
    except RuntimeError as error:
        checks.ok("stranger may not connect", "PermissionError" in str(error),
                  error)
    # The administrator gives a group access to the socket.
    os.chown(daemon.folder, 0, NOBODY)
    os.chown(path, 0, NOBODY)

    def as_nobody(verb, **arguments):
        return as_user(NOBODY, NOBODY,
                       lambda: call(path, verb, **arguments))

    status = as_nobody("status")
    checks.ok("group member sees only own targets",
              status["ok"] and status["target_count"] == 1 and
              [t["pid"] for t in status["targets"]] == [theirs.pid], status)
    reply = as_nobody("slice")
    checks.ok("status of a group member counts its own target only",
              reply["ok"] and reply["pid"] == theirs.pid, reply.get("why"))
    for verb in ("slice", "detach", "attach"):
        absent = as_nobody(verb, pid=2147483647)
        hidden = as_nobody(verb, pid=owned.pid)
        checks.ok(f"{verb} of another user's target: error as for an absent "
                  f"one",
                  is_error(hidden, errno.EPERM if verb == "attach"
                           else errno.ESRCH) and
                  hidden["why"].replace(str(owned.pid), "N") ==
                  absent["why"].replace("2147483647", "N"),
                  (hidden, absent))
    checks.ok("slice by name takes own targets only",
              as_nobody("slice", name="sleep")["ok"], "")
    reply = as_nobody("attach", pid=more.pid)
    checks.ok("own process can be attached", reply["ok"], reply)
    reply = as_nobody("detach", name="sleep")
    checks.ok("own targets can be detached",
              reply["ok"] and {t["pid"] for t in reply["targets"]} ==
              {theirs.pid, more.pid}, reply)
    checks.ok("target of another user stays",
              [t["pid"] for t in call(path, "targets")["targets"]] ==
              [owned.pid], call(path, "targets"))

    crowd = [sleeper(bench, as_nobody=True) for _ in range(6)]
    replies = [as_nobody("attach", pid=child.pid) for child in crowd]
    checks.ok("ordinary user adds at most ring.per_user rings",
              [r["ok"] for r in replies] == [True] * 4 + [False] * 2 and
              is_error(replies[4], errno.ENOSPC) and
              "detach" in replies[4]["why"] and
              "ring.per_user" in replies[4]["why"], replies)
    as_nobody("detach", pid=crowd[0].pid)
    checks.ok("detached target makes room for another",
              as_nobody("attach", pid=crowd[4].pid)["ok"], "")
    checks.ok("root adds targets beyond the user's limit",
              call(path, "attach", pid=crowd[5].pid)["ok"], "")

    def flood():
        connections = [Connection(path) for _ in range(12)]
        reply = call(path, "status")
        parked = [Connection(path).send(request("nothing"))
                  for _ in range(3)]
        del connections, parked
        return reply

    checks.ok("silent connections of a user do not block its requests",
              as_user(NOBODY, NOBODY, flood)["ok"], "")
    checks.ok("root is served beside silent connections",
              daemon.status()["ok"], "")
    daemon.end()


def crashes(checks, bench):
    """Fault R5: a daemon starts whatever a killed one left behind."""
    daemon = Daemon(bench, "crashes")
    target = sleeper(bench)
    started = 0
    for _ in range(20):
        daemon.attach(target.pid)
        daemon.end(signal.SIGKILL)
        daemon.start()
        started += 1
    checks.ok("daemon starts again after each of 20 kill -9",
              started == 20,
              started)
    state = open(f"/proc/{target.pid}/stat").read().rsplit(")", 1)[1].split()
    checks.ok("target of killed daemons still sleeps",
              state[0] == "S", state[0])
    daemon.end()
    checks.ok("daemon that ends removes its socket",
              not os.path.exists(daemon.socket),
              "")


def races(checks, bench):
    """Fault R6."""
    daemon = Daemon(bench, "race")
    daemon.end(signal.SIGKILL)
    children = [bench.start(daemon.command(), stderr=subprocess.PIPE)
                for _ in range(20)]
    losers = []
    for _ in range(400):
        losers = [c for c in children if c.poll() is not None]
        if len(losers) >= 19:
            break
        time.sleep(0.05)
    winners = [c for c in children if c.poll() is None]
    checks.ok("20 starts at once: exactly one wins", len(winners) == 1,
              len(winners))
    if not winners:
        return
    daemon.child = winners[0]
    daemon.wait()
    texts = [c.stderr.read().decode() for c in losers]
    right = [text for text in texts if f"pid {winners[0].pid}" in text]
    checks.ok("losing daemons exit 1 and name the winner's pid",
              len(right) == 19 and {c.returncode for c in losers} == {1},
              [text for text in texts if text not in right][:2])
    daemon.end()


def slice_keeps_the_rate(checks, daemon):
    """After a reload with another hz: rings and sampler still agree."""
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    missed = daemon.status()["targets"][0]["missed_ticks"]
    time.sleep(1.5)
    reply = call(daemon.socket, "slice", from_ns=begin)
    missed = daemon.status()["targets"][0]["missed_ticks"] - missed
    seconds = (reply["to_ns"] - reply["from_ns"]) / SECOND
    checks.ok("a slice after the reload has the old rate",
              reply["ok"] and seconds > 1 and
              abs((reply["ticks"] + missed) / seconds - 101) < 20,
              (reply["ticks"], missed, seconds))


def reloads(checks, bench):
    """Fault R7."""
    broken = ["targets = (", "sampling: { hz = 0; };", "nonsense = 1;",
              "@include \"/etc\"", "sampling: { hz = 99999999999; };",
              "targets = ( { name = 5; } );", "\0", "log: { level = 3; };"]
    target = sleeper(bench)
    daemon = Daemon(bench, "reload", "targets = ( { pid = %d; } );"
                    % target.pid)

    def reload(text, key, count):
        daemon.write_config(text)
        daemon.child.send_signal(signal.SIGHUP)
        return daemon.until(lambda: daemon.status()[key] >= count)

    checks.ok("configured target is sampled",
              [t["origin"] for t in daemon.status()["targets"]] ==
              ["configured"], daemon.status()["targets"])
    for count, text in enumerate(broken, 1):
        is_reported = reload(text, "reload_failed", count)
        status = daemon.status()
        checks.ok(f"broken file {text[:20]!r} changes nothing",
                  is_reported and status["hz"] == 101 and
                  status["reload_why"] and
                  [t["pid"] for t in status["targets"]] == [target.pid],
                  status)
    copy = bench.path("rare-name")
    with open(copy, "wb") as file:
        file.write(open("/bin/sleep", "rb").read())
    os.chmod(copy, 0o755)
    shell = bench.start(["sh", "-c", f"sleep 600 & {copy} 600 & wait"],
                        start_new_session=True)
    text = "sampling: { hz = 49; }; targets = ( { name = \"rare-name\"; } );"
    checks.ok("corrected file is loaded", reload(text, "reloads", 1),
              daemon.status())
    checks.ok("successful reload clears the failure of the one before",
              daemon.status()["reload_why"] == "", daemon.status())
    checks.ok("new rate needs a restart, and the log has it",
              daemon.status()["hz"] == 101 and
              "sampling.hz" in daemon.log_text(), daemon.log_text()[-500:])
    checks.ok("target by name replaces the former target", daemon.until(
        lambda: [t["name"] for t in daemon.status()["targets"]] ==
        ["rare-name"]), daemon.status()["targets"])
    slice_keeps_the_rate(checks, daemon)
    text = "targets = ( { pid = %d; children = true; } );" % shell.pid
    reload(text, "reloads", 2)
    checks.ok("children of a target are sampled", daemon.until(
        lambda: sorted((t["name"], t["origin"])
                       for t in daemon.status()["targets"]) ==
        [("rare-name", "child"), ("sh", "configured"), ("sleep", "child")]),
        daemon.status()["targets"])
    reply = call(daemon.socket, "detach", pid=shell.pid)
    checks.ok("children are detached with their parent", reply["ok"] and
              daemon.status()["targets"] == [], reply)
    os.killpg(shell.pid, signal.SIGKILL)
    daemon.end()


def leaving(checks, bench):
    """Fault R8."""
    daemon = Daemon(bench, "leaving")
    path = daemon.socket
    daemon.attach(sleeper(bench).pid)
    time.sleep(0.3)
    silent = [Connection(path) for _ in range(5)]
    deaf = [Connection(path).send(request("slice")) for _ in range(5)]
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    waiting = Connection(path).send(request("slice", to_ns=now + 60 * SECOND))
    daemon.until(lambda: daemon.status()["slices_waiting"] == 1)
    took = daemon.end()
    checks.ok("SIGTERM with clients hanging: daemon ends within 5 s",
              took < 5.5 and daemon.child.returncode == 0,
              (took, daemon.child.returncode))
    reply = waiting.receive()
    checks.ok("waiting slice gets ESHUTDOWN",
              is_error(reply, errno.ESHUTDOWN), reply)
    del silent, deaf
    daemon.start()
    daemon.end(signal.SIGINT)
    checks.ok("SIGINT ends the daemon, too", daemon.child.returncode == 0,
              daemon.child.returncode)


def leaving_twice(checks, bench):
    """Fault R8: a client that does not read its long reply delays the end of the
    daemon. The first signal waits for it for a bounded time, the second
    does not."""
    if os.getuid() != 0:
        print("# skipped: an ordinary user may not add that many targets")
        return
    sleepers = [bench.start(["sleep", "600"]) for _ in range(120)]
    daemon = Daemon(bench, "twice", "ring: { memory_mb = 1; };")
    for number, name in ((2, "second signal"), (1, "deaf client")):
        for child in sleepers:
            daemon.attach(child.pid)
        deaf = Connection(daemon.socket).send(request("status"))
        daemon.until(lambda: daemon.status()["clients"] == 2)
        began = time.monotonic()
        daemon.child.send_signal(signal.SIGTERM)
        daemon.until(lambda: "event=leaving" in daemon.log_text())
        time.sleep(0.2)
        is_waiting = daemon.child.poll() is None
        if number == 2:
            daemon.child.send_signal(signal.SIGTERM)
        daemon.child.wait(20)
        took = time.monotonic() - began
        checks.ok(f"leaving: {name}", is_waiting and took < 5.5 and
                  daemon.child.returncode == number - 1 and
                  ("a second signal came" in daemon.log_text()) == (number == 2),
                  (is_waiting, took, daemon.child.returncode))
        deaf.close()
        if number == 2:
            os.unlink(daemon.log)
            daemon.start()


def closed_descriptors(checks, bench):
    """Fault R9."""
    daemon = Daemon(bench, "closed", preexec_fn=lambda: os.closerange(0, 3),
                    stderr=None)
    links = [os.readlink(f"/proc/{daemon.child.pid}/fd/{i}") for i in range(3)]
    checks.ok("daemon starts with 0, 1 and 2 closed",
              links == ["/dev/null"] * 3, links)
    daemon.end()
    reader, writer = os.pipe()
    daemon = Daemon(bench, "pipe", stderr=writer)
    os.close(reader)
    os.close(writer)
    daemon.attach(sleeper(bench).pid)
    checks.ok("daemon lives on when its log's reader is gone",
              daemon.status()["ok"],
              "")
    daemon.end()


def hostile_names(checks, bench):
    """Fault Z9."""
    daemon = Daemon(bench, "names", "ring: { per_user = 64; };")
    script = ("import ctypes, time\n"
              "ctypes.CDLL(None).prctl(15, b'a\\n level=error')\n"
              "print('x', flush=True)\ntime.sleep(600)\n")
    child = bench.start([sys.executable, "-c", script],
                        stdout=subprocess.PIPE)
    child.stdout.readline()
    daemon.attach(child.pid)
    call(daemon.socket, "slice", name="x\n time=1 level=error")
    lines = daemon.log_text().splitlines()
    checks.ok("each line of the log is one event of the daemon",
              lines and all(line.startswith("time=20") for line in lines) and
              not any(" level=error" in line.split(" event=")[0]
                      for line in lines), lines)
    daemon.end()


if __name__ == "__main__":
    run_groups([errors_are_precise, versions, slices_are_served, other_users,
                crashes, races, reloads, leaving, leaving_twice,
                closed_descriptors, hostile_names])

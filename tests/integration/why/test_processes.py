# SPDX-License-Identifier: Apache-2.0
"""Several processes in one slice: a PostgreSQL server, whose sessions wait for
one another, in every format; children of a process; all targets.
test_processes.py BUILD"""
import collections
import glob
import json
import os
import shutil
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import Bench, Checks  # noqa: E402
from kit.read_fgt import Slice  # noqa: E402
from kit.real_programs import postgres_server, wait_for  # noqa: E402

HOLDS_S = 1.5
checks = Checks()
ok = checks.ok


class Agent:
    def __init__(self, bench, socket):
        self.bench, self.socket = bench, socket

    def run(self, *arguments):
        where = [] if arguments[0] == "convert" else ["--socket", self.socket]
        return self.bench.run(*where, *arguments)

    def must(self, *arguments):
        result = self.run(*arguments)
        if result.returncode:
            raise RuntimeError(f"{arguments}: {result.stderr}")
        return result.stdout


def session(bench, psql, folder, statements):
    """(the session's process, the client): it has printed its pid."""
    more = [part for text in statements for part in ("-c", text)]
    client = bench.start([*psql, "select pg_backend_pid()", *more],
                         stdout=subprocess.PIPE, text=True, cwd=folder)
    return int(client.stdout.readline()), client


def run_sessions(bench, psql, folder):
    """One holds a row for HOLDS_S, the other one waits for it: their pids."""
    subprocess.run([*psql, "create table stock (id int, amount int); "
                    "insert into stock values (1, 10)"], check=True,
                   cwd=folder, stdout=subprocess.DEVNULL)
    change = "update stock set amount = amount - 1 where id = 1"
    holder, first = session(bench, psql, folder, [
        "select pg_sleep(1)",
        f"begin; {change}; select pg_sleep({HOLDS_S}); commit"])
    waiter, second = session(bench, psql, folder,
                             ["select pg_sleep(1.3)", change,
                              "select pg_sleep(0.3)"])
    first.wait(20)
    second.wait(20)
    return holder, waiter


def weights(path):
    """Periods by pid."""
    with open(path, "rb") as file:
        found = Slice(file.read())
    sums = collections.Counter()
    for thread, tick, count, _, _ in found.runs:
        process = found.process_of.get(thread, 0)
        pid = found.processes[process][0] if found.processes else \
            found.process["pid"]
        sums[pid] += found.weight(tick, count)
    return sums, found


def check_summary(answer, holder, waiter):
    titles = {process["pid"]: process["title"]
              for process in answer["processes"]}
    ok("the server's processes are there", len(titles) >= 6, titles)
    ok("processes have their titles",
       any(title == "postgres: checkpointer" for title in titles.values()) and
       titles.get(waiter, "").startswith("postgres: postgres postgres "),
       titles)
    ok("sessions that have ended are there",
       holder in titles and waiter in titles, titles)
    ok("threads have the pid of their process",
       {thread["pid"] for thread in answer["threads"]} == set(titles))


def check_same_time(agent, bench, path, pids):
    """Each process has the time that its own slice has."""
    sums, found = weights(path)
    for pid in pids:
        one = bench.path(f"{pid}.fgt")
        agent.must("slice", "-q", "-p", str(pid), "-o", one, "--from",
                   f"m:{found.range[0]}", "--to", f"m:{found.range[1]}")
        alone, _ = weights(one)
        ok("a process has as much time as alone", sums[pid] == alone[pid],
           (sums[pid], alone[pid]))
    return sums


def check_formats(agent, bench, path, sums):
    trace = bench.path("pg.trace.json")
    agent.must("convert", path, "-q", "-o", trace)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    drawn = {event["pid"] for event in events if event["ph"] in "BX"}
    ok("the Chrome trace has a track of each process",
       set(sums) <= named and set(sums) == drawn, (named, drawn))
    folded = agent.must("convert", path, "-q", "-o", "-", "-f", "folded")
    by_pid = collections.Counter()
    for line in folded.splitlines():
        root, count = line.split(";")[0], int(line.rsplit(" ", 1)[1])
        by_pid[int(re.search(r" \((\d+)\)$", root)[1])] += count
    ok("folded stacks have the process at their root", by_pid == sums,
       (by_pid, sums))
    agent.must("convert", path, "-q", "-o", bench.path("pg.pb.gz"))
    tags = subprocess.run(["go", "tool", "pprof", "-tags",
                           bench.path("pg.pb.gz")], capture_output=True,
                          text=True).stdout
    ok("go tool pprof finds the processes", "postgres: checkpointer" in tags and
       " pid:" in tags, tags)


def check_envelopes(agent, bench, path, sums):
    agent.must("convert", path, "-q", "-o", bench.path("pg.envelope"))
    files = glob.glob(bench.path("pg.*.envelope"))
    pids = {int(file.rsplit(".", 2)[1]) for file in files}
    ok("each process has an envelope", pids == set(sums), (pids, sums))
    result = agent.run("convert", path, "-o", "-", "-f", "sentry")
    ok("there is none of several on standard output",
       result.returncode == 2 and "-o FILE or a directory\n" in result.stderr,
       result.stderr)


def check_wake(path, holder, waiter):
    """The commit of one session wakes the other one."""
    _, found = weights(path)
    if not found.wakes:
        print("# wake-ups are not recorded here")
        return
    wakers = collections.Counter(
        found.wakers[waker][0] for thread, _, waker, _ in found.wakes
        if found.threads[thread][0] == waiter)
    ok("a session was woken by the process that held its row",
       wakers[holder] > 0, wakers)


def check_why(agent, found, begin, waiter):
    """Which session did what in the second before the row was free."""
    answer = json.loads(agent.must(
        "why", "-n", "postgres", "--json", "--tid", str(waiter), "--from",
        f"m:{found['wait_ns']}", "--to", f"m:{found['wait_ns'] + 800000000}"))
    ok("why answers about a thread of one of several processes",
       answer["thread"]["tid"] == waiter and answer["windows"] > 0, answer)
    lock = [row["ms"] for row in answer["thread"]["time"]
            if "ProcSleep" in row.get("text", "")]
    ok("why shows that the session waited for a row", len(lock) == 1 and
       lock[0] > 600, answer["thread"])
    alone = json.loads(agent.must(
        "why", "-p", str(waiter), "--json", "--from",
        f"m:{found['wait_ns']}", "--to", f"m:{begin + 3400000000}"))
    ok("why of one session names the process that woke it",
       not alone["known"]["wakes"] or alone["known"]["outside_pid"] > 0, alone)
    end = found["wait_ns"] + 800000000
    grown = json.loads(agent.must(
        "diff", "-n", "postgres", "--json", "--against-from", f"m:{begin}",
        "--against-to", f"m:{found['wait_ns'] - 500000000}", "--from",
        f"m:{found['wait_ns']}", "--to", f"m:{end}"))
    lock = [row for row in grown["rows"] if "ProcSleep" in row["callers"]]
    ok("a row of diff has its process", len(lock) == 1 and
       lock[0]["pids"] == [waiter], lock)
    ok("diff does, too", len(lock) == 1 and lock[0]["before"] == 0 and
       lock[0]["after"] > 0.7, grown["rows"])


def test_postgres(bench, agent):
    server, psql, folder = postgres_server(bench)
    agent.must("attach", "postgres")
    begin = time.monotonic_ns()
    holder, waiter = run_sessions(bench, psql, folder)
    path = bench.path("pg.fgt")
    answer = json.loads(agent.must(
        "slice", "-n", "postgres", "-q", "--json", "-o", path, "--from",
        f"m:{begin}", "--to", "now"))
    check_summary(answer, holder, waiter)
    waits = [wait["text"] for wait in answer["waits"]]
    ok("the longest waits distinguish a row, a sleep and a client", all(
        sum(caller in text for text in waits) >= 1
        for caller in ("ProcSleep", "pg_sleep")), waits)
    sums = check_same_time(agent, bench, path, (holder, waiter, server.pid))
    check_formats(agent, bench, path, sums)
    check_envelopes(agent, bench, path, sums)
    check_wake(path, holder, waiter)
    check_why(agent, {"wait_ns": begin + 1800000000}, begin, waiter)
    stacks = agent.must("stacks", "-n", "postgres")
    ok("stacks shows all of them", " more processes, " in stacks and
       "postgres: checkpointer" in stacks, stacks)
    ok("targets shows titles", "postgres: checkpointer" in agent.must("targets"))


def test_children(bench, agent):
    shell = bench.start(["sh", "-c", "sleep 60 & sleep 60 & wait"],
                        stdout=subprocess.DEVNULL)
    agent.must("attach", "--children", str(shell.pid))
    ok("children are sampled", wait_for(lambda: agent.must(
        "targets", "--json").count('"name":"sleep"') >= 2, 10),
       agent.must("targets"))
    time.sleep(1)
    answer = json.loads(agent.must("slice", "-p", str(shell.pid), "--children",
                                   "--last", "500ms", "--json"))
    names = sorted(process["name"] for process in answer["processes"])
    ok("--children has a process and its children",
       names == ["sh", "sleep", "sleep"], names)
    rows = answer["waits"]
    ok("waits of two processes of a name have their pids",
       any(row["threads"].startswith("sleep (2: pid ") and
           row["process_count"] == 2 and len(row["pids"]) == 2
           for row in rows), rows)
    own = bench.start(["bash", "-c", "sleep 60 & wait"],
                      stdout=subprocess.DEVNULL)
    wait_for(lambda: subprocess.run(
        ["pgrep", "-P", str(own.pid)], capture_output=True,
        text=True).stdout, 10)
    child = subprocess.run(["pgrep", "-P", str(own.pid)], capture_output=True,
                           text=True, check=True).stdout.strip()
    agent.must("attach", str(own.pid))
    agent.must("attach", child)
    time.sleep(0.5)
    answer = json.loads(agent.must("slice", "-p", str(own.pid), "--children",
                                   "--last", "300ms", "--json"))
    ok("--children has a child that was attached by itself",
       [str(process["pid"]) for process in answer["processes"]] ==
       [str(own.pid), child], answer["processes"])
    subprocess.run(["kill", child], check=False)
    answer = json.loads(agent.must("slice", "-p", str(shell.pid), "--json",
                                   "--last", "500ms"))
    ok("without it there is one process", len(answer["processes"]) == 1)
    names = {process["name"] for process in json.loads(agent.must(
        "slice", "--all", "--last", "500ms", "--json"))["processes"]}
    ok("--all has all targets", {"sh", "sleep", "postgres"} <= names, names)
    few = agent.must("slice", "--all", "--last", "500ms", "--top", "2")
    rows = few[few.index("\n  thread "):].splitlines()[2:]
    ok("--top N has as many threads", len(rows) == 3 and
       "more: --threads 0 shows all" in rows[2], few)
    pids = {process["pid"] for process in answer["processes"]}
    subprocess.run(["pkill", "-P", str(shell.pid)], check=False)
    ok("the process is asked for by its pid", pids == {shell.pid}, pids)


def test_brief(bench, agent):
    """Children that end before they are found are counted."""
    shell = bench.start(["bash", "-c", "sleep 1; for i in {1..40}; do "
                         "/bin/true; done; sleep 60"])
    agent.must("attach", "--children", str(shell.pid))
    time.sleep(2.5)
    target = next(target for target in json.loads(agent.must(
        "targets", "--json"))["targets"] if target["pid"] == shell.pid)
    ok("children that were too brief are counted",
       35 <= target["unsampled_children"] <= 42, target["unsampled_children"])
    ok("targets has that", "child processes ended without being sampled" in
       agent.must("targets"))
    result = agent.run("slice", "--children", "-p", str(shell.pid), "-q", "-o",
                       bench.path("brief.fgt"))
    ok("a slice of several processes has that, too", re.search(
        r": \d+ child processes ended without being sampled since",
        result.stderr), result.stderr)


def test_late(bench, agent):
    """One was attached after the time that is asked for: it has no data of it,
    whichever process is the older one."""
    name = shutil.copy(shutil.which("sleep"), bench.path("latecomer"))
    old, new = bench.start([name, "60"]), bench.start([name, "60"])
    agent.must("attach", str(new.pid))
    time.sleep(3)
    agent.must("attach", str(old.pid))
    time.sleep(0.3)
    path = bench.path("late.fgt")
    result = agent.run("slice", "-n", "latecomer", "--from", "-2s", "--to", "-1s",
                       "-o", path)
    ok("a process without data in that time is left out", result.returncode ==
       0 and "missing" not in result.stderr, result)
    for each in old, new:
        each.kill()
        each.wait()


def test_mistakes(agent):
    result = agent.run("slice", "--children")
    ok("--children needs a process", result.returncode == 2 and
       "-p PID" in result.stderr, result.stderr)
    result = agent.run("slice", "-n", "nothing-of-that-name")
    ok("a name that no target has", result.returncode != 0 and
       "no target named nothing-of-that-name" in result.stderr, result.stderr)
    result = agent.run("slice", "--all", "-n", "postgres")
    ok("--all excludes a name", result.returncode == 2, result.stderr)


def main():
    bench = Bench(sys.argv[1])
    try:
        _, socket = bench.daemon("processes")
        agent = Agent(bench, socket)
        test_postgres(bench, agent)
        test_children(bench, agent)
        test_brief(bench, agent)
        test_late(bench, agent)
        test_mistakes(agent)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What the agent and the library keep on the disk until a destination answers:
servers that are down, agents that are killed, disks that are full, two agents.
test_spool.py BUILD [GROUP…]; FGT_TESTS_SOAK=1: 1,000 kills."""
import collections
import json
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import sentry_server  # noqa: E402
from kit.daemon_bench import Daemon, run_groups, sleeper  # noqa: E402
from kit.delivery.promtool import no_objection  # noqa: E402
from kit.delivery.small_disk import may_mount, small_disk  # noqa: E402
from kit.sentry_server import SentryServer, accept, answer, fixed  # noqa: E402
from kit.transact import (  # noqa: E402
    EVERY, KEY, Envelope, Program, dsn_of, until)

KILLS = 1000 if os.environ.get("FGT_TESTS_SOAK") else 25
UNDER_WAY = ("deliveries_active", "deliveries_waiting", "spool_unwritten",
             "spool_entries")
PUT_MORE = 'method = "PUT"; format = "folded";'


def spool_of(bench, name):
    return bench.path(name + "-spool")


def config(bench, name, entries, more=""):
    listed = ", ".join("{ " + entry + " }" for entry in entries)
    quoted = ", ".join(f'"{entry.split(chr(34))[1]}"' for entry in entries)
    return f'upload: {{ spool_dir = "{spool_of(bench, name)}"; {more}\n' \
        f"destinations = ( {listed} );\ntransactions = [ {quoted} ]; }};\n"


def url_entry(name, server, more=PUT_MORE):
    return f'name = "{name}"; url = "http://127.0.0.1:{server.port}/{name}"; ' \
        f"{more}"


def dsn_entry(bench, name, server):
    path = bench.path(name + ".dsn")
    with open(path, "w") as file:
        file.write(dsn_of(server))
    os.chmod(path, 0o600)
    return f'name = "{name}"; dsn_file = "{path}"; '


def entries_of(bench, name):
    try:
        return sorted(entry for entry in os.listdir(spool_of(bench, name))
                      if entry.endswith(".spool"))
    except FileNotFoundError:
        return []


def transaction(program, milliseconds=30):
    return program.run("begin GET_/cart http.server", f"burn {milliseconds}",
                       "finish")


def created(_request, _connection):
    return answer(201)


def flush(bench, daemon):
    return bench.run("--socket", daemon.socket, "spool", "flush")


def ids_of(server):
    return [request.event_id() for request in server.requests]


# ---- The agent ---------------------------------------------------------------


def kept_until_answered(checks, bench):
    """A server that does not answer, then an agent that is killed: what was
    accepted arrives once, under its id."""
    server = SentryServer(sentry_server.no_answer)
    daemon = Daemon(bench, "kept", config(
        bench, "kept", [dsn_entry(bench, "kept", server)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    for _ in range(3):
        transaction(program)
    # Each has an entry for the chunk of its profile.
    checks.ok("transactions wait in the spool", daemon.until(
        lambda: len(entries_of(bench, "kept")) == 6), daemon.log_text()[-600:])
    shown = bench.run("--socket", daemon.socket, "spool", "list", "--json")
    listed = json.loads(shown.stdout or "{}").get("entries", [])
    checks.ok("spool list shows destination, format, name, id and size",
              len(listed) == 6 and all(
                  row["destination"] == "kept" and row["format"] == "sentry"
                  and row["name"] == "GET_/cart" and len(row["id"]) == 32 and
                  row["bytes"] > 500 for row in listed),
              shown.stdout + shown.stderr)
    status = daemon.status()
    row = status["destinations"][0]
    checks.ok("status counts entries and bytes, also of the destination",
              status["spool_entries"] == row["spooled"] == 6 and
              status["spool_bytes"] == row["spooled_bytes"] ==
              sum(row["bytes"] for row in listed), status)
    metrics = bench.run("--socket", daemon.socket, "metrics").stdout
    checks.ok("metrics count them, too",
              "\nfgtrace_spool_entries 6\n" in metrics and
              "\nfgtrace_destination_waiting{destination=\"kept\","
              "kind=\"sentry\",place=\"spool\"} 6\n" in metrics,
              metrics[-3000:])
    no_objection(checks, "promtool has no objection to these", metrics)
    modes = {oct(os.stat(os.path.join(spool_of(bench, "kept"), name)).st_mode
                 & 0o777) for name in entries_of(bench, "kept")}
    texts = b"".join(open(os.path.join(spool_of(bench, "kept"), name),
                          "rb").read() for name in entries_of(bench, "kept"))
    checks.ok("files are their owner's, and hold no key", modes == {"0o600"}
              and KEY.encode() not in texts, modes)
    tried = set(ids_of(server))
    daemon.end(signal.SIGKILL)
    server.script = accept
    server.requests.clear()
    daemon.start()
    checks.ok("the next agent delivers what the killed one had", until(
        lambda: not entries_of(bench, "kept") and
        len(server.requests) >= 6), daemon.log_text()[-600:])
    sent = ids_of(server)
    # A child of the killed agent may have been sending one.
    checks.ok("under the ids that they had, and no other",
              set(sent) == {row["id"] for row in listed} and
              len(sent) <= 6 + 2 and tried <= set(sent), (tried, sent))
    envelopes = [Envelope(bench, request.envelope())
                 for request in server.requests]
    now = time.strftime("%Y-%m-%dT%H", time.gmtime())
    checks.ok("envelopes are right, with the time at which they are sent",
              not any(envelope.wrong for envelope in envelopes) and
              all(envelope.header["sent_at"].startswith(now[:10])
                  for envelope in envelopes),
              [envelope.wrong for envelope in envelopes])
    daemon.end()
    program.close()
    server.close()


def lost_reply_keeps_the_id(checks, bench):
    """Fault N11: the server takes it and closes before it answers."""
    server = SentryServer(sentry_server.no_answer)
    daemon = Daemon(bench, "reply", config(
        bench, "reply", [dsn_entry(bench, "reply", server)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    transaction(program)
    checks.ok("it is sent", until(lambda: server.requests),
              daemon.log_text()[-400:])
    until(lambda: daemon.status()["destinations"][0]["retried"] == 2)
    flushed = flush(bench, daemon)
    checks.ok("and again at a flush, with the same ids", flushed.returncode == 0
              and until(lambda: len(server.requests) == 4) and
              len(set(ids_of(server))) == 2, (flushed, ids_of(server)))
    server.script = accept
    until(lambda: daemon.status()["destinations"][0]["retried"] == 4)
    flush(bench, daemon)
    checks.ok("an answer ends it", until(
        lambda: not entries_of(bench, "reply")) and
        len(set(ids_of(server))) == 2, ids_of(server))
    daemon.end()
    program.close()
    server.close()


def one_that_is_down_delays_no_other(checks, bench):
    down, up = SentryServer(sentry_server.never), SentryServer(created)
    daemon = Daemon(bench, "two", config(bench, "two", [
        url_entry("down", down), url_entry("up", up)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    transaction(program)
    until(lambda: down.requests)  # it hangs from now on
    for _ in range(4):
        transaction(program)
    checks.ok("a server that hangs does not delay another", until(
        lambda: len(up.requests) == 5, 15), daemon.log_text()[-600:])
    status = daemon.status()  # before the request that hangs has failed
    waiting = {row["name"]: row["spooled"] for row in status["destinations"]}
    checks.ok("what it does not take is in the spool, before it has failed",
              until(lambda: len(entries_of(bench, "two")) == 5, 10) and
              waiting["down"] > 0 and
              status["deliveries_retried"] == 0,
              (waiting, entries_of(bench, "two"), daemon.log_text()[-600:]))
    seconds = daemon.end()
    checks.ok("SIGTERM: the agent leaves within 5 s, the spool stays",
              seconds < 5.5 and len(entries_of(bench, "two")) == 5,
              (seconds, entries_of(bench, "two")))
    program.close()
    down.close()
    up.close()


class FailsAtRandom:
    """Takes what is sent, or does not; answers it, or does not."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def __call__(self, request, connection):
        time.sleep(self.random.choice((0, 0, 0.02, 0.2)))
        script = self.random.choice(
            (accept, accept, accept, sentry_server.no_answer,
             sentry_server.half_a_head, sentry_server.half_a_body))
        return script(request, connection)


def ids_of_spans(envelopes):
    """{root span of a transaction: ids under which it arrived}."""
    found = collections.defaultdict(set)
    for envelope in envelopes:
        if envelope.transaction:
            found[envelope.trace()["span_id"]].add(
                envelope.header["event_id"])
    return found


def killed_at_any_time(checks, bench):
    """kill -9 of the agent with deliveries on their way to a server that fails
    at random."""
    seed = int(os.environ.get("FGT_TESTS_SEED", time.time_ns() % 10**6))
    print(f"# FGT_TESTS_SEED={seed}", flush=True)
    chance = random.Random(seed)
    server = SentryServer(FailsAtRandom(seed))
    daemon = Daemon(bench, "kills", config(
        bench, "kills", [dsn_entry(bench, "kills", server)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    seen = collections.Counter()
    spooled = set()
    for _ in range(KILLS):
        for _ in range(chance.randint(1, 3)):
            transaction(program, 10)
        time.sleep(chance.uniform(0, 0.5))  # until some point of their way
        daemon.end(signal.SIGKILL)
        spooled |= set(listed_ids(bench, "kills"))
        daemon.start()
        until(lambda: program.status()["recording"], 5)
    server.script = accept
    flush(bench, daemon)
    checks.ok(f"{KILLS} kills: the spool is empty in the end", until(
        lambda: not any(daemon.status()[number] for number in UNDER_WAY) and
        not entries_of(bench, "kills")), daemon.log_text()[-600:])
    for request in server.requests:
        seen[request.event_id()] += 1
    checks.ok("everything that was in the spool arrived",
              spooled <= set(seen), (spooled - set(seen), warnings_of(daemon)))
    envelopes = [Envelope(bench, request.envelope())
                 for request in server.requests]
    wrong = [envelope.wrong for envelope in envelopes]
    spans = ids_of_spans(envelopes)
    print(f"# {len(server.requests)} requests of {len(seen)} deliveries, "
          f"{len(spooled)} of them seen in the spool after a kill")
    checks.ok("nothing arrived under two ids", spans and all(
        len(ids) == 1 for ids in spans.values()), spans)
    checks.ok("nothing arrived damaged", not any(wrong) and not
              os.path.exists(os.path.join(spool_of(bench, "kills"), "bad")),
              [text for text in wrong if text][:3])
    names = [name for name in os.listdir(spool_of(bench, "kills"))
             if name.endswith(".tmp")]
    checks.ok("no temporary file is left", not names, names)
    daemon.end()
    program.close()
    server.close()


def warnings_of(daemon):
    return [line for line in daemon.log_text().splitlines()
            if "level=info" not in line]


def listed_ids(bench, name):
    shown = bench.run("spool", "list", "--dir", spool_of(bench, name),
                      "--json")
    return [row["id"] for row in json.loads(shown.stdout)["entries"]]


def full_disk(checks, bench):
    """Fault D1: a file system of 64 KiB; the oldest go."""
    if not may_mount():
        return
    server = SentryServer(fixed(503))
    folder = spool_of(bench, "full")
    with small_disk(folder):
        daemon = Daemon(bench, "full", config(
            bench, "full", [url_entry("lab", server, 'format = "chrome";')]))
        program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
        before = daemon.status()
        for _ in range(12):
            transaction(program, 200)
        checks.ok("disk full: the oldest are dropped, and counted",
                  daemon.until(lambda: daemon.status()
                               ["spool_dropped_disk_full"] > 0, 20),
                  daemon.log_text()[-800:])
        until(lambda: daemon.status()["deliveries_waiting"] == 0)
        status = daemon.status()
        checks.ok("what is counted and what is there are all",
                  until(lambda: daemon.status()["spool_spooled"] == 12) and
                  daemon.status()["spool_entries"] +
                  daemon.status()["spool_dropped_disk_full"] == 12,
                  daemon.status())
        checks.ok("the last error of the spool is the drop",
                  "(disk_full, " in status["spool_last_error"] and
                  0 <= time.time() - status["spool_last_error_ns"] / 1e9 < 60,
                  status)
        checks.ok("sampling goes on", status["ok"] and
                  before["hung_ns"] == status["hung_ns"] == 0, status)
        server.script = created
        flush(bench, daemon)
        checks.ok("the rest is delivered", until(
            lambda: not entries_of(bench, "full")), daemon.log_text()[-600:])
        daemon.end()
        program.close()
    server.close()


def full_of_files(checks, bench):
    """What had to go is in the next report to Sentry. With v1 an entry has a
    transaction and its profile, with v2 one of both."""
    full_of(checks, bench, "few", "", "profile_chunk", 1)
    full_of(checks, bench, "few-v1", 'sentry: { profile = "v1"; };\n',
            "profile", 2)


def full_of(checks, bench, name, more, profile, quantity):
    server = SentryServer(sentry_server.no_answer)
    daemon = Daemon(bench, name, more + config(
        bench, name, [dsn_entry(bench, name, server)], "spool_files = 2;"))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    for _ in range(3 + quantity):
        transaction(program)
    checks.ok("a full spool drops the oldest", daemon.until(
        lambda: daemon.status()["spool_dropped_full"] >= 3),
        daemon.log_text()[-600:])
    until(lambda: daemon.status()["deliveries_waiting"] == 0)
    server.requests.clear()
    server.script = accept
    flush(bench, daemon)
    until(lambda: not entries_of(bench, name))
    dropped = daemon.status()["spool_dropped_full"]
    transaction(program)
    until(lambda: len(server.requests) >= 5 - quantity)
    envelopes = [Envelope(bench, request.envelope())
                 for request in server.requests]
    reported = [event for one in envelopes for event in reports_of(one)]
    checks.ok("and reports them as cache_overflow, by category", all(
        event["reason"] == "cache_overflow" for event in reported) and
        sum(event["quantity"] for event in reported) == quantity * dropped and
        {event["category"] for event in reported} ==
        {"transaction", profile}, (dropped, reported))
    checks.ok("what was kept has its profile", not any(
        one.wrong for one in envelopes) and any(
            profile in one.items for one in envelopes[:2]),
        [(list(one.items), one.wrong) for one in envelopes])
    daemon.end()
    program.close()
    server.close()


def reports_of(envelope):
    return envelope.items.get("client_report", {}).get("discarded_events", [])


def unusable_directory(checks, bench):
    """Fault D3: without a spool it is delivered from memory, as before."""
    server = SentryServer(created)
    folder = spool_of(bench, "open")
    os.makedirs(folder)
    os.chmod(folder, 0o1777)
    daemon = Daemon(bench, "open", config(
        bench, "open", [url_entry("lab", server)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    checks.ok("a directory that others may write is refused in the log",
              daemon.until(lambda: "chmod it to 0700" in daemon.log_text()),
              daemon.log_text())
    transaction(program)
    checks.ok("deliveries go on without it", until(lambda: server.requests),
              daemon.log_text()[-400:])
    daemon.end()
    program.close()
    server.close()


def two_agents(checks, bench):
    """Fault D5: one directory, two agents."""
    server = SentryServer(created)
    text = config(bench, "pair", [url_entry("lab", server)])
    first = Daemon(bench, "pair", text)
    until(lambda: os.path.exists(os.path.join(spool_of(bench, "pair"),
                                              "lock")))
    second = Daemon(bench, "pair2", text)
    checks.ok("the second agent names the first one, and does without",
              second.until(lambda: f"used by process {first.child.pid}"
                           in second.log_text()), second.log_text())
    first.end()
    checks.ok("it takes the spool over when the first has left",
              second.until(lambda: "deliveries wait" in second.log_text(),
                           20), second.log_text())
    second.end()
    server.close()


# ---- The command line --------------------------------------------------------


def slice_into_spool(checks, bench):
    server = SentryServer(sentry_server.no_answer)
    daemon = Daemon(bench, "slice", config(bench, "slice", [
        dsn_entry(bench, "slice", server),
        f'name = "numbered"; url = "http://127.0.0.1:{server.port}/{{seq}}"']))
    target = sleeper(bench)
    daemon.attach(target.pid)
    time.sleep(1)
    shown = bench.run("--socket", daemon.socket, "slice", "--last", "500ms",
                      "-p", str(target.pid), "--upload", "slice", "--json")
    checks.ok("slice --upload exits 0 once it is in the spool, and names that",
              shown.returncode == 0 and "it is in the spool" in shown.stderr
              and json.loads(shown.stdout)["upload"]["spooled"] is True,
              shown)
    server.script = accept
    flush(bench, daemon)
    checks.ok("the agent sends it, under the same ids", until(
        lambda: not entries_of(bench, "slice")) and
        len(set(ids_of(server))) == 2 and len(server.requests) >= 3,
        (ids_of(server), daemon.log_text()[-600:]))
    server.script, before = sentry_server.no_answer, len(server.requests)
    bench.run("--socket", daemon.socket, "slice", "--last", "500ms",
              "-p", str(target.pid), "--upload", "numbered")
    flush(bench, daemon)
    until(lambda: len(server.requests) >= before + 2)
    lines = {one.line for one in server.requests[before:]}
    checks.ok("… and to the same URL, {seq} is that of the first try",
              len(server.requests) >= before + 2 and len(lines) == 1, lines)
    daemon.end()
    target.kill()
    server.close()


def drop_and_mistakes(checks, bench):
    server = SentryServer(fixed(503))
    daemon = Daemon(bench, "drop", config(
        bench, "drop", [url_entry("lab", server)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    for _ in range(3):
        transaction(program)
    checks.ok("three entries wait", daemon.until(
        lambda: len(entries_of(bench, "drop")) == 3),
        (daemon.log_text()[-900:], program.log_text()))
    first = entries_of(bench, "drop")[0][:-len(".spool")]
    one = bench.run("--socket", daemon.socket, "spool", "drop", first)
    checks.ok("spool drop ENTRY removes one", one.returncode == 0 and
              one.stdout.startswith("1 delivery ") and
              len(entries_of(bench, "drop")) == 2, one)
    nothing = bench.run("--socket", daemon.socket, "spool", "drop")
    checks.ok("spool drop without names is a mistake", nothing.returncode == 2
              and "--all" in nothing.stderr, nothing)
    other = bench.run("--socket", daemon.socket, "spool", "drop", "--all",
                      "--destination", "lba")
    checks.ok("spool drop of an unknown destination names the known ones",
              other.returncode == 1 and "'lab'" in other.stderr and
              len(entries_of(bench, "drop")) == 2, other)
    every = bench.run("--socket", daemon.socket, "spool", "drop", "--all",
                      "--destination", "lab", "--json")
    checks.ok("spool drop --all removes the rest", every.returncode == 0 and
              json.loads(every.stdout) == {"dropped": 2} and
              not entries_of(bench, "drop"), every)
    checks.ok("the agent notices", daemon.until(
        lambda: daemon.status()["spool_entries"] == 0), daemon.status())
    daemon.end()
    alone = bench.run("spool", "flush", "--dir", spool_of(bench, "drop"))
    checks.ok("flush without an agent is exit status 3", alone.returncode == 3
              and "no agent uses this spool" in alone.stderr, alone)
    wrong = bench.run("spool", "lisst")
    checks.ok("a misspelt action gets the nearest one", wrong.returncode == 2
              and "did you mean spool list" in wrong.stderr, wrong)
    program.close()
    server.close()


if __name__ == "__main__":
    run_groups([kept_until_answered, lost_reply_keeps_the_id,
                one_that_is_down_delays_no_other, killed_at_any_time,
                full_disk, full_of_files, unusable_directory, two_agents,
                slice_into_spool, drop_and_mistakes])

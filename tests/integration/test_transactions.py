# SPDX-License-Identifier: Apache-2.0
"""Transactions of programs, from begin to the envelope (ANCESTORS S15-S18,
R1-R12): what is kept, what arrives, what happens when nothing can.
test_transactions.py BUILD [GROUP…]"""
import os
import re
import shutil
import socket
import time

from kit import sentry_server
from kit.daemon_bench import Daemon, run_groups
from kit.harness import NOBODY
from kit.sentry_server import SentryServer, accept, fixed
from kit.transact import (
    EVERY, KEY, Folder, Program, check_wrong, dsn_of, received, until)

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def request(program, *lines, name="GET_/cart"):
    """One transaction; what finish answered."""
    return program.run(f"begin {name} http.server", *lines, "finish")


def tells_what_was_said(checks, bench):
    """S15, S17, S18"""
    server = SentryServer()
    daemon = Daemon(bench, "said")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), release="shop@1.0",
                      environment="test")
    checks.ok("it starts with the agent", program.started == 0 and
              program.status()["recording"] == 1, program.status())
    time.sleep(0.3)
    before = time.time()
    trace = program.run("begin early db", "trace")
    program.run("task work", "span inside")
    answer = program.run("tag cart 7", "tag cart 8", "tag empty", "result ok",
                         "name GET /cart?id=7", "burn 400", "finish")
    checks.ok("finish says that it is kept", answer[0] == "1", answer)
    checks.ok("it arrives", until(lambda: len(server.requests) == 1),
              daemon.log_text()[-400:])
    envelope = received(bench, server)[0]
    transaction, profile = envelope.transaction, envelope.profile
    check_wrong(checks, "a request", [envelope])
    checks.ok("transaction and profile travel together, in this order (S18)",
              list(envelope.items) == ["transaction", "profile"],
              list(envelope.items))
    checks.ok("name, op and status are what was said last (S17)",
              (transaction["transaction"], envelope.trace()["op"],
               envelope.trace()["status"]) == ("GET /cart?id=7", "db", "ok"),
              transaction)
    checks.ok("tags are what was said last",
              transaction["tags"] == {"cart": "8", "empty": ""},
              transaction.get("tags"))
    checks.ok("its spans are in it", any(
        "inside" in span.get("description", "")
        for span in transaction["spans"]), transaction["spans"])
    checks.ok("release and environment are in both items (S15)",
              [(item["release"], item["environment"])
               for item in (transaction, profile)] ==
              [("shop@1.0", "test")] * 2, transaction)
    checks.ok("trace and span are those that were passed on",
              trace[1] == f"{envelope.trace()['trace_id']}-"
              f"{envelope.trace()['span_id']}", trace)
    checks.ok("it lasted as long as it did", 0.4 <= envelope.seconds() < 2 and
              before - 0.1 <= transaction["start_timestamp"] <= time.time(),
              envelope.seconds())
    checks.ok("the active thread is the one that began it",
              profile["transaction"]["active_thread_id"] == str(program.pid)
              and envelope.trace()["data"]["thread.id"] == str(program.pid),
              profile["transaction"])
    checks.ok("and the stacks say what it did",
              envelope.share(program.pid, "burn_for_it") > 0.8,
              envelope.share(program.pid, "burn_for_it"))
    daemon.end()
    program.close()
    server.close()


def continues_traces(checks, bench):
    server = SentryServer()
    daemon = Daemon(bench, "traces")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), **EVERY)
    headers = [f"{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}-01"]
    for header in headers:
        answer = request(program, f"parent {header}", "nap 60")
        checks.ok(f"{header[:8]}…: kept", answer[0] == "1", answer)
    refused = program.run("begin x y", f"parent 00-{TRACE}-{SPAN}")
    checks.ok("a header that is none is refused", refused == ["-22"], refused)
    program.run("nap 60", "finish")
    until(lambda: len(server.requests) == 3)
    # What is due at the same time arrives in any order.
    envelopes = sorted(received(bench, server),
                       key=lambda e: e.transaction["start_timestamp"])
    traces = [(e.trace()["trace_id"], e.trace().get("parent_span_id"))
              for e in envelopes]
    checks.ok("both kinds of header continue the trace",
              traces[:2] == [(TRACE, SPAN)] * 2, traces)
    checks.ok("without one it is a separate trace",
              len(traces) == 3 and traces[2][0] != TRACE and
              traces[2][1] is None, traces)
    check_wrong(checks, "continued traces", envelopes)
    daemon.end()
    program.close()
    server.close()


def keeps_by_the_rules(checks, bench):
    """S16 and the rules"""
    daemon = Daemon(bench, "rules")
    folder = Folder(bench, "rules-out")

    def outcome(lines, **options):
        program = Program(bench, mode="agent", socket=daemon.socket,
                          **{"destination": folder.path, **EVERY, **options})
        answers = [request(program, *line)[0] for line in lines]
        status = program.status()
        program.run("flush 10000")
        program.close()
        checks.ok(f"{sorted(options)}: counters agree",
                  status["transactions"] == len(lines) and
                  status["kept"] == answers.count("1") and
                  status["dropped"] == answers.count("0"), status)
        return answers

    short, long, failed = [], ["nap 60"], ["result internal_error"]
    for name, lines, wanted, options in (
            ("all", [short, long, failed], "111", {}),
            ("none, at rate 0", [short, long, failed], "000",
             dict(sample_rate=-1)),
            ("only longer ones", [short, long, failed], "010",
             dict(min_ms=50)),
            ("longer ones and errors", [short, long, failed], "011",
             dict(min_ms=50, keep_errors=1)),
            ("errors even at rate 0", [short, failed], "01",
             dict(sample_rate=-1, keep_errors=1)),
            ("nothing, without a destination", [long], "0",
             dict(destination=""))):
        answers = outcome(lines, **options)
        checks.ok(f"kept: {name}", "".join(answers) == wanted, answers)
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path, decide=1, min_ms=100000,
                      **EVERY)
    answers = [request(program, name=name)[0] for name in
               ("keep-this", "not-this")]
    checks.ok("kept: what the program's own call says", answers ==
              ["1", "0"], answers)
    answer = program.run("begin x y", "fork")
    checks.ok("in the child of a fork there is none", answer == ["0"], answer)
    checks.ok("NULL is no transaction", program.run("drop", "finish")[0] ==
              "0", "")
    program.close()
    checks.ok("a short one arrives without samples, or with",
              until(lambda: len(folder.names()) >= 8), folder.names())
    check_wrong(checks, "all of them", folder.read())
    daemon.end()


def directories(checks, bench):
    """As the program's own user, whatever the agent may."""
    daemon = Daemon(bench, "folders")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    mine = Folder(bench, "mine", NOBODY)
    roots = Folder(bench, "roots")
    binary = os.path.join(bench.copy_for_nobody(), "transact")
    shutil.copy2(bench.program("transact"), binary)
    for name in os.listdir(bench.build):
        if name.startswith("libfgtrace.so"):
            shutil.copy2(os.path.join(bench.build, name),
                         os.path.dirname(binary), follow_symlinks=True)
    for folder, is_allowed in ((mine, True), (roots, False)):
        program = Program(bench, as_nobody=True, path=binary, mode="agent",
                          socket=daemon.socket, destination=folder.path,
                          **EVERY)
        failed = daemon.status()["deliveries_failed"]
        request(program, "nap 60", name="../../a/b")
        if is_allowed:
            found = folder.wait(1)
            checks.ok("only the user can read the file",
                      [(e.mode.st_uid, e.mode.st_mode & 0o777)
                       for e in found] == [(NOBODY, 0o600)],
                      daemon.log_text()[-300:])
            checks.ok("its name is harmless and tells the time", re.fullmatch(
                r"_\._\.\._a_b-\d{8}T\d{6}\.\d{3}Z\.envelope",
                "".join(folder.names())), folder.names())
        else:
            checks.ok("root's folder is not written for a user", until(
                lambda: daemon.status()["deliveries_failed"] > failed) and
                not folder.names(), folder.names())
        program.close()
    daemon.end()


def storm(checks, bench):
    """10,000 slow requests at once."""
    daemon = Daemon(bench, "storm")
    folder = Folder(bench, "storm-out")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path, no_gap=1, min_ms=1)
    words = program.say("storm 10000 1")
    numbers = dict(zip(words[1::2], map(int, words[2::2])))
    status = program.status()
    checks.ok("no more than the cap of an hour is kept, and that",
              numbers["kept"] + numbers["full"] == 120 and numbers["kept"] >= 64,
              words)
    checks.ok("every request is counted", status["transactions"] == 10000 and
              status["kept"] == numbers["kept"] and
              status["kept"] + status["dropped"] == 10000, status)
    print(f"# finish in a storm: p50 {numbers['p50']} ns, p99 {numbers['p99']} ns, "
          f"longest {numbers['max']} ns", flush=True)
    program.run("flush 20000")
    daemon.until(lambda: daemon.status()["deliveries_waiting"] +
                 daemon.status()["deliveries_active"] == 0, 60)
    status = daemon.status()
    checks.ok("what arrived and what did not is counted",
              status["deliveries_delivered"] == len(folder.names()) and
              status["deliveries_delivered"] > 0, status)
    program.close()
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path)
    kept = [request(program, "nap 10")[0] for _ in range(20)]
    checks.ok("by default a second lies between two", kept.count("1") == 1,
              kept)
    program.close()
    daemon.end()


def unreachable_servers(checks, bench):
    daemon = Daemon(bench, "down")
    server = SentryServer(fixed(503))
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), **EVERY)
    request(program, "nap 60")
    checks.ok("503: it is tried again", daemon.until(
        lambda: daemon.status()["deliveries_retried"] == 1),
        daemon.status())
    checks.ok("503: the log says so at once, and not the key",
              re.search("level=warning event=delivery_retry .*503",
                        daemon.log_text()) and
              KEY not in daemon.log_text(), daemon.log_text()[-400:])
    server.script = accept
    checks.ok("and arrives once", daemon.until(
        lambda: daemon.status()["deliveries_delivered"] == 1, 20),
        daemon.status())
    checks.ok("the log says how often it was tried",
              re.search("event=delivered .* after 2 tries: event",
                        daemon.log_text()), daemon.log_text()[-400:])
    checks.ok("with the same id as before",
              len({r.event_id() for r in server.requests}) == 1,
              len(server.requests))
    server.script = fixed(429, "Retry-After: 4")
    request(program, "nap 60")
    daemon.until(lambda: daemon.status()["deliveries_retried"] == 2)
    server.script = accept
    began, count = time.monotonic(), len(server.requests)
    request(program, "nap 60")
    daemon.until(lambda: daemon.status()["deliveries_delivered"] == 3, 30)
    checks.ok("429: it and what comes after it wait as long as asked",
              daemon.status()["deliveries_delivered"] == 3 and
              time.monotonic() - began > 3 and
              len(server.requests) == count + 2,
              (daemon.status(), time.monotonic() - began))
    server.close()
    program.close()
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=f"http://{KEY}@127.0.0.1:"
                      f"{closed.getsockname()[1]}/42", **EVERY)
    request(program, "nap 60")
    checks.ok("down: it is tried again", daemon.until(
        lambda: daemon.status()["deliveries_retried"] >= 4, 20),
        daemon.status())
    checks.ok("down: the log says so, the second time, too", all(
        re.search(f"level=warning event=delivery_retry .*in {seconds} s, "
                  f"try {tries} of 5 failed: .*onnect", daemon.log_text())
        for tries, seconds in ((1, 2), (2, 8))), daemon.log_text()[-600:])
    finish = int(request(program, "nap 60")[1])
    checks.ok("finish has not waited for any of it", finish < 50_000_000,
              finish)
    daemon.end()
    program.close()


def hostile_servers(checks, bench):
    daemon = Daemon(bench, "hostile")
    count = 0
    for name, script in (
            ("a login page", fixed(200, body=b"<html>Please log in")),
            ("401", fixed(401)), ("413", fixed(413)),
            ("a redirect", fixed(302, "Location: http://127.0.0.1:1/")),
            ("an endless body", sentry_server.endless_body),
            ("endless headers", sentry_server.endless_headers),
            ("a week's pause", fixed(429, "Retry-After: 604800"))):
        server = SentryServer(script)
        program = Program(bench, mode="agent", socket=daemon.socket,
                          destination=dsn_of(server), **EVERY)
        request(program, "nap 60")
        count += 1
        checks.ok(f"{name}: given up and logged once", daemon.until(
            lambda: daemon.status()["deliveries_failed"] == count, 20) and
            daemon.log_text().count("undelivered") == count,
            daemon.log_text()[-300:])
        program.close()
        server.close()
    checks.ok("the agent is there still",
              daemon.status()["deliveries_active"] == 0, daemon.status())
    daemon.end()


def long_transactions(checks, bench):
    """Longer than 30 s: a transaction and its chunks."""
    server = SentryServer()
    daemon = Daemon(bench, "long", "ring: { seconds = 60; };")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), release="shop@1.0", **EVERY)
    time.sleep(0.2)
    request(program, "burn 500", "nap 33000", "burn 500")
    until(lambda: len(server.requests) == 3)
    envelopes = received(bench, server)
    check_wrong(checks, "a long one", envelopes)
    alone = [e for e in envelopes if e.transaction]
    chunks = [e for e in envelopes if e.chunk]
    checks.ok("it leaves as one transaction and two chunks",
              (len(alone), len(chunks)) == (1, 2) and
              alone[0].seconds() > 34 and not alone[0].profile,
              [list(e.items) for e in envelopes])
    linked = {e.chunk["profiler_id"] for e in chunks}
    checks.ok("that name each other", alone and linked == {
        alone[0].transaction["contexts"]["profile"]["profiler_id"]} and
        len({e.chunk["chunk_id"] for e in chunks}) == 2, linked)
    times = [sample["timestamp"] for e in chunks
             for sample in e.chunk["profile"]["samples"]]
    begin = alone[0].transaction["start_timestamp"] if alone else 0
    checks.ok("the chunks reach from its beginning to its end",
              times and min(times) - begin < 0.2 and
              begin + alone[0].seconds() - max(times) < 0.2, times[:1])
    checks.ok("and hold what it did", any(
        e.share(program.pid, "nap_for_it") > 0.9 for e in chunks), "")
    daemon.end()
    program.close()
    server.close()


def uploads_slices(checks, bench):
    daemon = Daemon(bench, "uploads")
    folder = Folder(bench, "uploads-out")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path)
    program.run("burn 500")
    answer = program.say("upload 400")
    checks.ok("a slice is queued", answer == ["0"], answer)
    program.run("burn 500")
    answer = program.say(f"upload 400 {folder.path}")
    checks.ok("to a named place, too", answer == ["0"], answer)
    answer = program.say("upload 400 ftp://nowhere")
    checks.ok("not to a place of no kind", answer == ["-22"], answer)
    found = folder.wait(2)
    checks.ok("both arrive", len(found) == 2, daemon.log_text()[-300:])
    check_wrong(checks, "slices", found)
    checks.ok("with what was done",
              all(e.share(program.pid, "burn_for_it") > 0.8 for e in found),
              [e.share(program.pid, "burn_for_it") for e in found])
    program.close()
    daemon.end()


def agents_that_leave(checks, bench):
    daemon = Daemon(bench, "leave")
    folder = Folder(bench, "leave-out")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path, **EVERY)
    daemon.end()
    answers = [request(program, "nap 5") for _ in range(100)]
    checks.ok("without an agent as many are kept as there is room for",
              [a[0] for a in answers[:64]] == ["1"] * 64 and
              "-105" in [a[0] for a in answers],
              [a[0] for a in answers])
    dropped = sum(a[0] == "-105" for a in answers)

    def logged():
        return [int(number) for number in re.findall(
            r"^kept transactions and slices were dropped: (\d+): 64 or ",
            program.log_text(), re.M)]

    checks.ok("dropped transactions are logged", until(logged, 5),
              program.log_text()[-600:])
    dropped += request(program, "nap 1")[0] == "-105"
    time.sleep(1.5)
    checks.ok("but not at once again", len(logged()) == 1, logged())
    began = time.monotonic()
    program.run("stop")
    checks.ok("stop gives them a second, not more",
              time.monotonic() - began < 2.5, time.monotonic() - began)
    checks.ok("the rest of them when it stops",
              len(logged()) == 2 and sum(logged()) == dropped, (logged(), dropped))
    status = program.status()
    checks.ok("and counts them as undelivered",
              status["undelivered"] == status["kept"] >= 64, status)
    program.close()
    daemon.start()
    daemon.end()


def without_an_agent(checks, bench):
    """The same from inside the program."""
    server = SentryServer()
    nowhere = bench.path("no-agent.sock")
    program = Program(bench, mode="auto", socket=nowhere, release="shop@1.0",
                      destination=dsn_of(server), threads="adopted", **EVERY)
    checks.ok("embedded: it starts", program.started == 0 and
              program.status()["mode"] == 2, program.status())
    time.sleep(0.3)
    checks.ok("embedded: that there is no agent is no news",
              not program.log_text(), program.log_text())
    answer = program.run("begin GET_/cart http.server", "adopted", "stranger",
                         f"parent {TRACE}-{SPAN}-1", "burn 400", "finish")
    checks.ok("embedded: kept", answer[0] == "1", answer)
    checks.ok("embedded: delivered", program.say("flush 20000") == ["0"] and
              len(server.requests) == 1, program.status())
    envelopes = received(bench, server)
    check_wrong(checks, "embedded", envelopes)
    envelope = envelopes[0]
    share = envelope.share(program.pid, "_for_it")
    checks.ok("embedded: the stacks say what it did",
              share > 0.8 and envelope.threads() == {"transact", "adopted"},
              (share, envelope.threads()))
    checks.ok("embedded: the trace goes on",
              (envelope.trace()["trace_id"],
               envelope.trace()["parent_span_id"]) == (TRACE, SPAN),
              envelope.trace())
    server.script = fixed(503)
    request(program, "nap 60")
    until(lambda: len(server.requests) == 2)
    server.script = accept
    checks.ok("embedded: 503 is tried again",
              program.say("flush 20000") == ["0"] and
              program.status()["delivered"] == 2, program.status())
    server.close()
    program.close()
    folder = Folder(bench, "embedded-out")
    program = Program(bench, mode="embedded", destination=folder.path,
                      no_gap=1, min_ms=1)
    words = program.say("storm 10000 1")
    numbers = dict(zip(words[1::2], map(int, words[2::2])))
    print(f"# embedded, finish in a storm: p50 {numbers['p50']} ns, p99 "
          f"{numbers['p99']} ns, longest {numbers['max']} ns", flush=True)
    program.say("flush 60000")
    status = program.status()
    checks.ok("embedded: a storm keeps the cap, and all of it arrives",
              numbers["kept"] + numbers["full"] == 120 and
              len(folder.names()) == status["delivered"] == numbers["kept"],
              (words, status, len(folder.names())))
    program.close()


def before_the_first_tick(checks, bench):
    """Transactions before the first tick, after the last one and between two ticks
    are delivered."""
    daemon = Daemon(bench, "edges")
    for mode, hz, lines in (("embedded", 101, ["nap 60"]),
                            ("embedded", 5, ["nap 60"]), ("embedded", 5, []),
                            ("agent", 101, ["nap 60"])):
        folder = Folder(bench, f"edges-{mode}-{hz}-{len(lines)}")
        program = Program(bench, mode=mode, hz=hz, socket=daemon.socket,
                          destination=folder.path, **EVERY)
        time.sleep(0.3)
        for _ in range(8):
            request(program, "task work", "span first", "endspan", *lines,
                    "span last", "endspan", "nap 1")
        flushed = program.say("flush 20000")
        names = [sorted(word for word in ("first", "last") if any(
            word in span.get("description", "")
            for span in envelope.transaction["spans"]))
            for envelope in folder.wait(8)]
        checks.ok(f"{mode}, {hz} Hz, {lines}: all of it is delivered", flushed ==
                  ["0"] and names == [["first", "last"]] * 8,
                  (flushed, names, program.log_text()))
        program.close()
    daemon.end()


GROUPS = (tells_what_was_said, continues_traces, keeps_by_the_rules,
          directories, storm, unreachable_servers, hostile_servers,
          uploads_slices, agents_that_leave, without_an_agent,
          long_transactions, before_the_first_tick)

if __name__ == "__main__":
    run_groups(GROUPS)

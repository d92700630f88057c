# SPDX-License-Identifier: Apache-2.0
"""Transactions of programs, from begin to the envelope: which are kept, which
arrive, and what happens when nothing can.
test_transactions.py BUILD [GROUP…]"""
import os
import re
import socket
import time

from kit import sentry_server
from kit.daemon_bench import Daemon, run_groups
from kit.harness import NOBODY
from kit.sentry_server import SentryServer, accept, fixed
from kit.transact import (
    EVERY, KEY, Folder, Program, check_wrong, copy_for_nobody, dsn_of, received,
    transactions, until)

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def request(program, *lines, name="GET_/cart"):
    """One transaction; the result of finish."""
    return program.run(f"begin {name} http.server", *lines, "finish")


def envelope_has_texts(checks, bench):
    """Names, tags, spans and ids of a transaction, as the program gave them."""
    server = SentryServer()
    daemon = Daemon(bench, "facts")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), release="shop@1.0",
                      environment="test")
    checks.ok("program starts with the agent", program.started == 0 and
              program.status()["recording"] == 1, program.status())
    time.sleep(0.3)
    before = time.time()
    trace = program.run("begin early db", "trace")
    program.run("task work", "span inside")
    answer = program.run("tag cart 7", "tag cart 8", "tag empty", "result ok",
                         "name GET /cart?id=7", "burn 400", "finish")
    checks.ok("finish reports a kept transaction", answer[0] == "1", answer)
    checks.ok("transaction arrives", until(lambda: len(server.requests) == 2),
              daemon.log_text()[-400:])
    envelopes = received(bench, server)
    envelope = envelopes[0]
    transaction = envelope.transaction
    check_wrong(checks, "a request", envelopes)
    checks.ok("a transaction, then a chunk of its profile",
              [list(one.items) for one in envelopes] ==
              [["transaction"], ["profile_chunk"]],
              [list(one.items) for one in envelopes])
    checks.ok("name, op and status are the last ones given",
              (transaction["transaction"], envelope.trace()["op"],
               envelope.trace()["status"]) == ("GET /cart?id=7", "db", "ok"),
              transaction)
    checks.ok("tags are the last ones given",
              transaction["tags"] == {"cart": "8", "empty": ""},
              transaction.get("tags"))
    checks.ok("envelope has the spans", any(
        "inside" in span.get("description", "")
        for span in transaction["spans"]), transaction["spans"])
    checks.ok("release and environment are in both items",
              [(item["release"], item["environment"])
               for item in (transaction, envelope.chunk)] ==
              [("shop@1.0", "test")] * 2, transaction)
    checks.ok("trace and span are those of the header",
              trace[1] == f"{envelope.trace()['trace_id']}-"
              f"{envelope.trace()['span_id']}", trace)
    checks.ok("duration is the program's", 0.4 <= envelope.seconds() < 2 and
              before - 0.1 <= transaction["start_timestamp"] <= time.time(),
              envelope.seconds())
    checks.ok("active thread is the one that began the transaction",
              envelope.trace()["data"]["thread.id"] == str(program.pid),
              envelope.trace())
    checks.ok("stacks show what the program did",
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
    checks.ok("malformed header is refused", refused == ["-22"], refused)
    program.run("nap 60", "finish")
    until(lambda: len(server.transactions()) == 3)
    # Transactions that are due at the same time arrive in any order.
    envelopes = sorted(transactions(bench, server),
                       key=lambda e: e.transaction["start_timestamp"])
    traces = [(e.trace()["trace_id"], e.trace().get("parent_span_id"))
              for e in envelopes]
    checks.ok("both kinds of header continue the trace",
              traces[:2] == [(TRACE, SPAN)] * 2, traces)
    checks.ok("transaction without a header has a separate trace",
              len(traces) == 3 and traces[2][0] != TRACE and
              traces[2][1] is None, traces)
    check_wrong(checks, "continued traces", envelopes)
    daemon.end()
    program.close()
    server.close()


def keeps_by_the_rules(checks, bench):
    """The rules that decide whether a transaction is kept."""
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
    checks.ok("kept: the one that the program's call asked for", answers ==
              ["1", "0"], answers)
    answer = program.run("begin x y", "fork")
    checks.ok("child of a fork has no transaction", answer == ["0"], answer)
    checks.ok("NULL is no transaction", program.run("drop", "finish")[0] ==
              "0", "")
    program.close()
    checks.ok("short transaction arrives, with samples or without",
              until(lambda: len(folder.names()) >= 8), folder.names())
    check_wrong(checks, "all of them", folder.read())
    daemon.end()


def directories(checks, bench):
    """Files are written as the program's user, not with the agent's rights."""
    daemon = Daemon(bench, "folders")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    mine = Folder(bench, "mine", NOBODY)
    roots = Folder(bench, "roots")
    binary = copy_for_nobody(bench)
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
            checks.ok("file name is harmless and has process and time", re.fullmatch(
                r"_\._\.\._a_b-transact-\d+-\d{8}T\d{6}\.\d{3}Z\.envelope",
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
    words = program.ask("storm 10000 1")
    numbers = dict(zip(words[1::2], map(int, words[2::2])))
    status = program.status()
    checks.ok("number kept is the cap of an hour",
              numbers["kept"] + numbers["full"] == 120 and numbers["kept"] >= 64,
              words)
    checks.ok("storm: all requests counted", status["transactions"] == 10000 and
              status["kept"] == numbers["kept"] and
              status["kept"] + status["dropped"] == 10000, status)
    print(f"# finish in a storm: p50 {numbers['p50']} ns, p99 {numbers['p99']} ns, "
          f"longest {numbers['max']} ns", flush=True)
    program.run("flush 20000")
    daemon.until(lambda: daemon.status()["deliveries_waiting"] +
                 daemon.status()["deliveries_active"] == 0, 60)
    status = daemon.status()
    checks.ok("storm: arrived and lost transactions are counted",
              status["deliveries_delivered"] == len(folder.names()) and
              status["deliveries_delivered"] > 0, status)
    program.close()
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path)
    kept = [request(program, "nap 10")[0] for _ in range(20)]
    checks.ok("default gap between two kept ones is a second",
              kept.count("1") == 1, kept)
    program.close()
    daemon.end()


def unreachable_servers(checks, bench):
    daemon = Daemon(bench, "down")
    server = SentryServer(sentry_server.no_answer)
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), **EVERY)
    request(program, "nap 60")
    checks.ok("no answer: upload is repeated", daemon.until(
        lambda: daemon.status()["deliveries_retried"] == 1),
        daemon.status())
    checks.ok("no answer: the log has it at once, and not the key",
              re.search("level=warning event=delivery_retry .*mpty reply",
                        daemon.log_text()) and
              KEY not in daemon.log_text(), daemon.log_text()[-400:])
    server.script = accept
    checks.ok("repeated upload arrives once", daemon.until(
        lambda: daemon.status()["deliveries_delivered"] == 1, 20),
        daemon.status())
    checks.ok("log has the number of attempts",
              re.search("event=delivered .* after 2 tries: event",
                        daemon.log_text()), daemon.log_text()[-400:])
    checks.ok("repeated upload has the same id",
              len({r.event_id() for r in server.transactions()}) == 1,
              len(server.requests))
    server.script = fixed(429, "Retry-After: 4")
    request(program, "nap 60")
    daemon.until(lambda: daemon.status()["deliveries_failed"] == 1)
    server.script = accept
    began, count = time.monotonic(), len(server.transactions())
    request(program, "nap 60")
    daemon.until(lambda: daemon.status()["deliveries_delivered"] == 2, 30)
    checks.ok("429: later transactions wait as long as asked",
              daemon.status()["deliveries_delivered"] == 2 and
              time.monotonic() - began > 3 and
              len(server.transactions()) == count + 1,
              (daemon.status(), time.monotonic() - began))
    server.close()
    program.close()
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=f"http://{KEY}@127.0.0.1:"
                      f"{closed.getsockname()[1]}/42", **EVERY)
    request(program, "nap 60")
    checks.ok("down: upload is repeated", daemon.until(
        lambda: daemon.status()["deliveries_retried"] >= 3, 20),
        daemon.status())
    checks.ok("down: each failed attempt is logged", all(
        re.search(f"level=warning event=delivery_retry .*in [{seconds}] s, "
                  f"try {tries} of 5 failed: .*onnect", daemon.log_text())
        for tries, seconds in ((1, "12"), (2, "45678"))), daemon.log_text()[-600:])
    finish = int(request(program, "nap 60")[1])
    checks.ok("finish does not wait for the upload", finish < 50_000_000,
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
        checks.ok(f"{name}: upload is given up and logged once", daemon.until(
            lambda: daemon.status()["deliveries_failed"] == count, 20) and
            daemon.log_text().count("undelivered") == count,
            daemon.log_text()[-300:])
        program.close()
        server.close()
    checks.ok("agent still runs",
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
    chunks = [e for e in envelopes if not e.transaction]
    checks.ok("long one is sent as one transaction and two chunks",
              (len(alone), len(chunks)) == (1, 2) and
              alone[0].seconds() > 34 and not alone[0].profile,
              [list(e.items) for e in envelopes])
    linked = {e.chunk["profiler_id"] for e in chunks}
    checks.ok("transaction and chunks have the same ids", alone and linked == {
        alone[0].transaction["contexts"]["profile"]["profiler_id"]} and
        len({e.chunk["chunk_id"] for e in chunks}) == 2, linked)
    times = [sample["timestamp"] for e in chunks
             for sample in e.chunk["profile"]["samples"]]
    begin = alone[0].transaction["start_timestamp"] if alone else 0
    checks.ok("chunks reach from the transaction's begin to its end",
              times and min(times) - begin < 0.2 and
              begin + alone[0].seconds() - max(times) < 0.2, times[:1])
    checks.ok("chunks have the program's functions", any(
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
    answer = program.ask("upload 400")
    checks.ok("slice is queued", answer == ["0"], answer)
    program.run("burn 500")
    answer = program.ask(f"upload 400 {folder.path}")
    checks.ok("slice is queued for a named destination",
              answer == ["0"], answer)
    answer = program.ask("upload 400 ftp://nowhere")
    checks.ok("unknown kind of destination is refused",
              answer == ["-22"], answer)
    found = folder.wait(2)
    checks.ok("both slices arrive", len(found) == 2, daemon.log_text()[-300:])
    check_wrong(checks, "slices", found)
    checks.ok("slices have the program's functions",
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
    checks.ok("transactions without an agent fill the outbox",
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
    checks.ok("drops are not logged again at once", len(logged()) == 1, logged())
    began = time.monotonic()
    program.run("stop")
    checks.ok("stop waits at most a second for them",
              time.monotonic() - began < 2.5, time.monotonic() - began)
    checks.ok("stop logs the rest of the dropped ones",
              len(logged()) == 2 and sum(logged()) == dropped, (logged(), dropped))
    status = program.status()
    checks.ok("stop counts them as undelivered",
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
    checks.ok("embedded: program starts", program.started == 0 and
              program.status()["mode"] == 2, program.status())
    time.sleep(0.3)
    checks.ok("embedded: missing agent is not logged",
              not program.log_text(), program.log_text())
    answer = program.run("begin GET_/cart http.server", "adopted", "stranger",
                         f"parent {TRACE}-{SPAN}-1", "burn 400", "finish")
    checks.ok("embedded: kept", answer[0] == "1", answer)
    checks.ok("embedded: delivered", program.ask("flush 20000") == ["0"] and
              len(server.requests) == 2, program.status())
    envelopes = received(bench, server)
    check_wrong(checks, "embedded", envelopes)
    envelope = envelopes[0]
    share = envelope.share(program.pid, "_for_it")
    checks.ok("embedded: stacks show what the program did",
              share > 0.8 and envelope.threads() == {"transact", "adopted"},
              (share, envelope.threads()))
    checks.ok("embedded: header continues the trace",
              (envelope.trace()["trace_id"],
               envelope.trace()["parent_span_id"]) == (TRACE, SPAN),
              envelope.trace())
    server.script = sentry_server.no_answer
    request(program, "nap 60")
    until(lambda: len(server.requests) == 3)
    server.script = accept
    checks.ok("embedded: no answer: upload is repeated",
              program.ask("flush 20000") == ["0"] and
              program.status()["delivered"] == 2, program.status())
    server.close()
    program.close()
    folder = Folder(bench, "embedded-out")
    program = Program(bench, mode="embedded", destination=folder.path,
                      no_gap=1, min_ms=1)
    words = program.ask("storm 10000 1")
    numbers = dict(zip(words[1::2], map(int, words[2::2])))
    print(f"# embedded, finish in a storm: p50 {numbers['p50']} ns, p99 "
          f"{numbers['p99']} ns, longest {numbers['max']} ns", flush=True)
    program.ask("flush 60000")
    status = program.status()
    checks.ok("embedded: storm keeps the cap, and all kept ones arrive",
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
        flushed = program.ask("flush 20000")
        names = [sorted(word for word in ("first", "last") if any(
            word in span.get("description", "")
            for span in envelope.transaction["spans"]))
            for envelope in folder.wait(8)]
        checks.ok(f"{mode}, {hz} Hz, {lines}: all transactions are delivered",
                  flushed ==
                  ["0"] and names == [["first", "last"]] * 8,
                  (flushed, names, program.log_text()))
        program.close()
    daemon.end()


GROUPS = (envelope_has_texts, continues_traces, keeps_by_the_rules,
          directories, storm, unreachable_servers, hostile_servers,
          uploads_slices, agents_that_leave, without_an_agent,
          long_transactions, before_the_first_tick)

if __name__ == "__main__":
    run_groups(GROUPS)

# SPDX-License-Identifier: Apache-2.0
"""What the library keeps on the disk, in a program without an agent: it is
killed, or its server hangs; and what it reports of what it loses.
test_spool_embedded.py BUILD [GROUP…]"""
import collections
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from delivery.test_spool import ids_of, reports_of, transaction  # noqa: E402
from kit import sentry_server  # noqa: E402
from kit.daemon_bench import run_groups  # noqa: E402
from kit.sentry_server import SentryServer, accept  # noqa: E402
from kit.transact import (  # noqa: E402
    EVERY, KEY, Envelope, Program, dsn_of, until)


def thread_names(bench, request):
    chunk = Envelope(bench, request.envelope()).chunk
    return [thread["name"] for thread in
            chunk["profile"]["thread_metadata"].values()] if chunk else []


def embedded(checks, bench):
    """A program without an agent, killed while its server is down; the next run
    of it delivers."""
    server = SentryServer(sentry_server.no_answer)
    folder = bench.path("embedded-spool")
    options = dict(mode="embedded", destination=dsn_of(server),
                   spool_dir=folder, **EVERY)
    program = Program(bench, **options)
    for _ in range(2):
        transaction(program)
    checks.ok("embedded: transactions are on the disk", until(
        lambda: len([name for name in os.listdir(folder)
                     if name.endswith(".spool")]) == 4), program.log_text())
    texts = b"".join(open(os.path.join(folder, name), "rb").read()
                     for name in os.listdir(folder))
    checks.ok("embedded: without the key", KEY.encode() not in texts, "")
    program.child.kill()
    program.child.wait()
    tried = set(ids_of(server))
    server.script = accept
    server.requests.clear()
    again = Program(bench, **options)
    checks.ok("embedded: the next run delivers them, under the same ids", until(
        lambda: not [name for name in os.listdir(folder)
                     if name.endswith(".spool")]) and
        len(server.requests) == 4 and tried <= set(ids_of(server)),
        (again.log_text(), tried, ids_of(server)))
    again.close()
    server.close()


def embedded_behind_a_hang(checks, bench):
    """A server that does not answer keeps no transaction from the disk."""
    server = SentryServer(sentry_server.never)
    folder = bench.path("hanging-spool")
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      spool_dir=folder, **EVERY)
    transaction(program)
    hangs = until(lambda: server.requests, 10)
    transaction(program)
    checks.ok("embedded: what comes while a request hangs is on the disk",
              hangs and until(lambda: len(
                  [name for name in os.listdir(folder)
                   if name.endswith(".spool")]) == 4, 5),
              (hangs, os.listdir(folder), program.log_text()))
    server.script = accept
    began = time.monotonic()
    program.close()
    checks.ok("embedded: fgt_stop() does not wait for it",
              time.monotonic() - began < 3, time.monotonic() - began)
    again = Program(bench, mode="embedded", destination=dsn_of(server),
                    spool_dir=folder, **EVERY)
    until(lambda: len(set(ids_of(server))) == 4, 20)
    checks.ok("embedded: and comes with the next run", len(
        set(ids_of(server))) == 4, (ids_of(server), again.log_text()))
    names = {name for request in server.requests
             for name in thread_names(bench, request)}
    checks.ok("embedded: without the threads of the library",
              names and not names & {"fgt-library", "fgt-sender"}, names)
    again.close()
    server.close()


def embedded_while_it_sends(checks, bench):
    """What is put there while others leave is neither lost nor sent twice."""
    server = SentryServer(accept)
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      spool_dir=bench.path("busy-spool"), **EVERY)
    for _ in range(40):
        transaction(program, 1)
        time.sleep(0.02)
    until(lambda: program.status()["delivered"] == 40, 20)
    program.close()
    ids = [request.event_id() for request in server.requests
           if request.type() == "transaction"]
    checks.ok("embedded: 40 are put while they are sent, each arrives once",
              len(ids) == len(set(ids)) == 40, (len(ids), program.log_text()))
    server.close()


def reported(bench, server):
    """{(reason, category): quantity} of all reports."""
    found = collections.Counter()
    for request in server.requests:
        for event in reports_of(Envelope(bench, request.envelope())):
            found[event["reason"], event["category"]] += event["quantity"]
    return found


def embedded_full(checks, bench):
    """What a full spool drops is logged and reported, as by an agent."""
    server = SentryServer(sentry_server.no_answer)
    folder = bench.path("full-spool")
    options = dict(mode="embedded", destination=dsn_of(server),
                   spool_dir=folder, **EVERY)
    program = Program(bench, **options)
    transaction(program)
    until(lambda: program.status()["delivered"] == 1)
    program.close()
    entries = [name for name in sorted(os.listdir(folder))
               if name.endswith(".spool")]
    for number in range(1000):  # as many as fit, and older than these
        shutil.copy2(os.path.join(folder, entries[number % 2]),
                     os.path.join(folder, f"{number:016x}-{number:016x}.spool"))
    again = Program(bench, **options)
    for _ in range(2):
        transaction(again)
    checks.ok("embedded: what a full spool drops is logged", until(
        lambda: "deliveries were dropped (full, " in again.log_text(), 10),
        again.log_text())
    until(lambda: again.status()["delivered"] == 2)
    server.requests.clear()  # what they reported has no answer
    server.script = accept
    # Two of before, and two each of the two transactions.
    checks.ok("embedded: and reported as cache_overflow", until(
        lambda: sum(reported(bench, server).values()) >= 6, 20) and
        reported(bench, server) == {
            ("cache_overflow", category): 3
            for category in ("transaction", "profile_chunk")},
        (reported(bench, server), again.log_text()))
    again.child.kill()
    again.child.wait()
    server.close()


def embedded_full_queue(checks, bench):
    """What finds the queue full is reported when the server answers again."""
    server = SentryServer(sentry_server.no_answer)
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      **EVERY)
    for _ in range(70):
        transaction(program, 1)
    lost = program.status()["dropped"]
    checks.ok("embedded: a full queue is logged", until(
        lambda: "were dropped: " in program.log_text(), 10) and lost >= 6,
        (lost, program.log_text()))
    server.requests.clear()  # what they reported has no answer
    server.script = accept
    checks.ok("embedded: and reported", until(
        lambda: reported(bench, server) == {
            ("queue_overflow", category): program.status()["dropped"]
            for category in ("transaction", "profile_chunk")}, 20),
        (program.status()["dropped"], reported(bench, server)))
    program.close()
    server.close()


if __name__ == "__main__":
    run_groups([embedded, embedded_behind_a_hang, embedded_while_it_sends,
                embedded_full, embedded_full_queue])

# SPDX-License-Identifier: Apache-2.0
"""Sentry to the letter: transactions and the chunks of their profiles, answers
that are final, limits by category, and reports of what was not sent.
test_sentry.py BUILD [GROUP…]"""
import os
import re
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.daemon_bench import Daemon, run_groups  # noqa: E402
from kit.sentry_server import (  # noqa: E402
    SentryServer, accept, answer, fixed, never, no_answer)
from kit.transact import (  # noqa: E402
    EVERY, Program, check_wrong, dsn_of, received, transactions, until)


def request(program):
    return program.run("begin GET_/cart http.server", "burn 60", "finish")


def reports_of(bench, server):
    """(reason, category, quantity) of all reports."""
    return [(event["reason"], event["category"], event["quantity"])
            for one in received(bench, server)
            for event in one.items.get("client_report", {}).get(
                "discarded_events", [])]


class Case:
    """A daemon, a server with this script, and a program between them."""

    def __init__(self, bench, name, script=accept, config="", mode="agent"):
        self.bench, self.server = bench, SentryServer(script)
        self.daemon = Daemon(bench, name, config)
        self.program = Program(bench, mode=mode, socket=self.daemon.socket,
                               destination=dsn_of(self.server), **EVERY)
        time.sleep(0.3)

    def send(self, count, seconds=20):
        """One transaction; waits until so many requests have come."""
        before = len(self.server.requests)
        request(self.program)
        until(lambda: len(self.server.requests) >= before + count, seconds)
        time.sleep(0.3)  # another one would have come
        return [one.type() for one in self.server.requests[before:]]

    def status(self, key):
        return self.daemon.status()[key]

    def reports(self):
        return reports_of(self.bench, self.server)

    def close(self):
        self.program.close()
        self.daemon.end()
        self.server.close()


def limit(header, status=200):
    """Accepts, or not, and limits what comes next."""
    def script(one, connection):
        if status == 200:
            plain = accept(one, connection)
            return plain.replace(
                b"\r\n", f"\r\nX-Sentry-Rate-Limits: {header}\r\n".encode(), 1)
        return answer(status, [f"X-Sentry-Rate-Limits: {header}"])
    return script


def chunks_answered(script):
    """Transactions are accepted."""
    return lambda one, connection: (
        script if one.type() == "profile_chunk" else accept)(one, connection)


def transactions_and_chunks(checks, bench):
    case = Case(bench, "v2")
    types = case.send(2)
    envelopes = received(bench, case.server)
    check_wrong(checks, "v2", envelopes)
    checks.ok("v2: a transaction, then a chunk of its profile",
              types == ["transaction", "profile_chunk"], types)
    one = envelopes[0]
    thread = one.trace().get("data", {}).get("thread.id")
    checks.ok("v2: the transaction names profiler and thread of the chunk",
              one.chunk and thread in one.chunk["profile"]["thread_metadata"] and
              one.chunk["profiler_id"] == one.profiler_id(), one.transaction)
    checks.ok("v2: the chunk has what the thread did",
              one.share(thread, "burn_for_it") > 0.8,
              one.share(thread, "burn_for_it"))
    times = [sample["timestamp"] for sample in one.chunk["profile"]["samples"]]
    checks.ok("v2: the chunk lies in the transaction",
              one.transaction["start_timestamp"] - 0.02 <= min(times) and
              max(times) <= one.transaction["timestamp"] + 0.02, times)
    checks.ok("v2: compressed, sent at once", all(
        sent.get("Content-Encoding") == "gzip" for sent in
        case.server.requests) and one.header["sent_at"], one.header)
    case.close()
    case = Case(bench, "v1", config='sentry: { profile = "v1"; };')
    types = case.send(1)
    one = received(bench, case.server)[0]
    check_wrong(checks, "v1", [one])
    checks.ok("v1: one envelope with both", types == ["transaction"] and
              list(one.items) == ["transaction", "profile"], list(one.items))
    case.close()


def dsn_where(server):
    return f"http://***@127.0.0.1:{server.port}/42"


def answers_are_final(checks, bench):
    case = Case(bench, "final", fixed(500))
    for status in (500, 503, 400, 302, 200):
        case.server.script = fixed(status) if status != 200 else \
            lambda *_: answer(200, body=b"<html>Please log in</html>")
        types = case.send(1)
        time.sleep(2.5)  # the first pause of one that is sent again
        checks.ok(f"{status} is final", types == ["transaction"] and
                  len(case.server.requests) == 1 and
                  case.status("deliveries_retried") == 0, types)
        case.server.requests.clear()
    case.server.script = accept
    case.send(2)
    checks.ok("the next envelope reports them, and their profiles",
              sorted(case.reports()) ==
              [("send_error", "profile_chunk", 5),
               ("send_error", "transaction", 5)], case.reports())
    row = case.daemon.log_text()
    checks.ok("the log names each answer", all(
        f"'GET_/cart': {dsn_where(case.server)}: {words}" in row for words in
        ("answered 500", "answered 503", "answered 400", "redirected (302)"))
        and
        "not as Sentry does" in row, row[-1500:])
    check_wrong(checks, "report", received(bench, case.server))
    case.send(2)
    checks.ok("once", len(case.reports()) == 2, case.reports())
    case.server.requests.clear()
    case.server.script = no_answer
    request(case.program)
    until(lambda: case.server.connections and case.server.requests)
    case.server.script = accept
    checks.ok("no answer: sent again", until(
        lambda: case.status("deliveries_delivered") == 3),
        case.daemon.log_text()[-300:])
    ids = [one.event_id() for one in case.server.transactions()]
    sent = {one.header["sent_at"] for one in transactions(bench, case.server)}
    checks.ok("with the same id, and the time of each try",
              len(ids) >= 2 and len(set(ids)) == 1 and len(sent) == len(ids),
              (ids, sent))
    case.close()


def limits_by_category(checks, bench):
    case = Case(bench, "limits", limit("4:profile_chunk:organization"))
    types = case.send(1)
    began = time.monotonic()
    checks.ok("chunks limited by the answer to their transaction: none is sent",
              types == ["transaction"], types)
    checks.ok("the log has what is missing", re.search(
        "event=delivered .*without all of its profile",
        case.daemon.log_text()), case.daemon.log_text()[-300:])
    case.server.script = accept
    types = case.send(1)
    checks.ok("chunks limited: the next transaction goes alone",
              types == ["transaction"], types)
    time.sleep(max(0, 4.5 - (time.monotonic() - began)))
    types = case.send(2)
    checks.ok("after the limit both go",
              types == ["transaction", "profile_chunk"], types)
    checks.ok("a report counts what was left out",
              sum(count for reason, category, count in case.reports()
                  if (reason, category) ==
                  ("ratelimit_backoff", "profile_chunk")) == 2,
              case.reports())
    case.server.script = limit("60:error;default:organization")
    case.send(2)
    checks.ok("limits of other categories are none",
              case.send(2) == ["transaction", "profile_chunk"])
    case.server.script = limit("3::organization", 429)
    delivered = case.status("deliveries_delivered")
    types, began = case.send(1), time.monotonic()
    checks.ok("429 is final", types == ["transaction"] and
              case.status("deliveries_retried") == 0 and
              case.status("deliveries_delivered") == delivered, types)
    case.server.script = accept
    types = case.send(2)
    checks.ok("a limit of all: the next one waits for its end",
              types == ["transaction", "profile_chunk"] and
              time.monotonic() - began > 2.4, time.monotonic() - began)
    checks.ok("429 is not reported, as the server counts it; the chunk that "
              "was not sent after it is", case.reports() and
              all((reason, category) == ("ratelimit_backoff", "profile_chunk")
                  for reason, category, _ in case.reports()) and
              sum(count for _, _, count in case.reports()) == 3,
              case.reports())
    before = len(case.reports())
    case.server.script = chunks_answered(limit("2:profile_chunk:key", 429))
    types, began = case.send(2), time.monotonic()
    checks.ok("a chunk that is answered with 429: the transaction has arrived",
              types == ["transaction", "profile_chunk"] and
              case.status("deliveries_retried") == 0, types)
    case.server.script = accept
    case.send(1)
    time.sleep(max(0, 2.5 - (time.monotonic() - began)))
    case.send(2)
    checks.ok("the report has the chunk that the limit kept back, and not the "
              "one that the server has counted", case.reports()[before:] ==
              [("ratelimit_backoff", "profile_chunk", 1)],
              case.reports()[before:])
    check_wrong(checks, "limits", received(bench, case.server))
    case.close()
    case = Case(bench, "limits-v1", limit("30:profile:organization"),
                'sentry: { profile = "v1"; };')
    case.send(1)
    case.send(1)
    found = received(bench, case.server)
    check_wrong(checks, "limits of v1", found)
    checks.ok("v1, profiles limited: the transaction goes without one",
              [list(one.items)[:2] for one in found] ==
              [["transaction", "profile"], ["transaction"]],
              [list(one.items) for one in found])
    case.close()


def limits_of_embedded_programs(checks, bench):
    server = SentryServer(limit("60:profile_chunk:organization"))
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      **EVERY)
    for _ in range(2):
        request(program)
        program.ask("flush 20000")
    types = [one.type() for one in server.requests]
    checks.ok("embedded: chunks limited, transactions go",
              types == ["transaction"] * 2, types)
    checks.ok("embedded: the next envelope reports the chunk that was left out",
              reports_of(bench, server) ==
              [("ratelimit_backoff", "profile_chunk", 1)],
              reports_of(bench, server))
    check_wrong(checks, "embedded", received(bench, server))
    program.close()
    server.close()


def spools_of_embedded_programs(checks, bench):
    """What the directory holds keeps to the limits, and reports."""
    server = SentryServer(lambda *_: answer(429, ["Retry-After: 4"]))
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      spool_dir=bench.path("limited-spool"), **EVERY)
    began = time.monotonic()
    for _ in range(3):
        request(program)
    until(lambda: server.requests, 10)
    time.sleep(max(0, 3 - (time.monotonic() - began)))
    checks.ok("embedded, with a spool: 429 is the end of requests",
              len(server.requests) == 1, len(server.requests))
    server.script = limit("60:profile_chunk:organization")
    until(lambda: len(server.requests) >= 4, 20)
    checks.ok("what waited comes when the server takes it", 4 < time.monotonic()
              - began and [one.type() for one in server.requests] ==
              ["transaction", "profile_chunk", "transaction", "transaction"],
              [one.type() for one in server.requests])
    request(program)
    until(lambda: len(server.requests) >= 5, 20)
    found = received(bench, server)
    check_wrong(checks, "embedded, with a spool", found)
    checks.ok("and reports the chunks that are limited",
              sum(count for reason, category, count in
                  reports_of(bench, server) if (reason, category) ==
                  ("ratelimit_backoff", "profile_chunk")) >= 2,
              reports_of(bench, server))
    server.script = fixed(500)
    request(program)
    until(lambda: len(server.requests) >= 6, 20)
    server.script = accept
    request(program)
    until(lambda: len(server.requests) >= 7, 20)
    checks.ok("and what the server has refused",
              ("send_error", "transaction", 1) in reports_of(bench, server),
              reports_of(bench, server))
    program.close()
    server.close()


def deliveries_of(daemon):
    """The processes that deliver now."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file, \
                    open(f"/proc/{pid}/stat") as stat:
                if file.read().startswith("fgt-delivery\0") and \
                        f") S {daemon.child.pid} " in stat.read():
                    found.append(int(pid))
        except OSError:
            pass  # it has ended
    return found


def kill_delivery(case):
    """As it waits for the server's answer."""
    until(lambda: deliveries_of(case.daemon))
    time.sleep(0.3)
    for pid in deliveries_of(case.daemon):
        os.kill(pid, signal.SIGKILL)


def processes_that_die(checks, bench):
    """One that is killed is tried once more; without a spool, too."""
    case = Case(bench, "dies", never)
    request(case.program)
    kill_delivery(case)
    case.server.script = accept
    checks.ok("a delivery whose process dies is tried once more", until(
        lambda: case.status("deliveries_delivered") == 1, 10) and
        case.status("deliveries_retried") == 1,
        case.daemon.log_text()[-500:])
    case.server.script = never
    request(case.program)
    kill_delivery(case)
    until(lambda: case.status("deliveries_retried") == 2, 10)
    kill_delivery(case)
    checks.ok("… and no more", until(
        lambda: case.status("deliveries_failed") == 1, 10) and
        case.status("deliveries_retried") == 2,
        case.daemon.log_text()[-500:])
    case.server.script = accept
    case.send(2)
    checks.ok("… which is reported",
              sorted(case.reports()) ==
              [("internal_sdk_error", "profile_chunk", 1),
               ("internal_sdk_error", "transaction", 1)], case.reports())
    case.close()


def processes_that_do_not_start(checks, bench):
    """The report that would have gone with it goes with the next one."""
    case = Case(bench, "starts", fixed(500))
    case.send(1)
    case.server.script = accept
    pid = case.daemon.child.pid
    limit_of_it = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    free = min(number for number in range(len(used) + 1)
               if number not in used)
    # For what is cut, but not for a socket.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, limit_of_it[1]))
    request(case.program)
    until(lambda: "no process could be started" in case.daemon.log_text())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit_of_it)
    checks.ok("a process cannot be started",
              case.status("deliveries_failed") == 2 and
              len(case.server.requests) == 1, case.daemon.log_text()[-500:])
    case.send(2)
    checks.ok("the next report has what it had, and the transaction",
              sorted(case.reports()) ==
              [("internal_sdk_error", "profile_chunk", 1),
               ("internal_sdk_error", "transaction", 1),
               ("send_error", "profile_chunk", 1),
               ("send_error", "transaction", 1)], case.reports())
    case.close()


def losses_of_embedded_programs(checks, bench):
    """All tries take two minutes."""
    server = SentryServer(no_answer)
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      **EVERY)
    request(program)
    until(lambda: program.status()["undelivered"] == 1, 150)
    server.script = accept
    request(program)
    request(program)
    program.ask("flush 20000")
    checks.ok("embedded: what no try has delivered is reported",
              reports_of(bench, server) == [
                  ("network_error", "transaction", 1),
                  ("network_error", "profile_chunk", 1)],
              (reports_of(bench, server), program.status()))
    program.close()
    server.close()


GROUPS = (transactions_and_chunks, answers_are_final, limits_by_category,
          processes_that_die, processes_that_do_not_start,
          limits_of_embedded_programs, spools_of_embedded_programs)
if os.environ.get("FGT_TESTS_SOAK"):
    GROUPS += (losses_of_embedded_programs,)

if __name__ == "__main__":
    run_groups(GROUPS)

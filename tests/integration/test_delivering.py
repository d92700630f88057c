# SPDX-License-Identifier: Apache-2.0
"""The process that encodes and uploads. In agent mode it is the agent's
delivery child: its rights, and the agent when the child does not end. Embedded
it is the program: servers that refuse or hang.
test_delivering.py BUILD [GROUP…]"""
import ctypes
import os
import select
import signal
import socket
import time

from kit import sentry_server
from kit.daemon_bench import Daemon, run_groups
from kit.harness import NOBODY
from kit.sentry_server import SentryServer, accept, fixed
from test_transactions import request
from kit.transact import (
    EVERY, KEY, Folder, Program, capabilities_of, check_wrong,
    copy_for_nobody, delivering_children, dsn_of, until)

PTRACE_SEIZE = 0x4206


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def secrets_and_rights(checks, bench):
    """Fault Z1: the rights of the delivery child, and where the DSN can be read."""
    server = SentryServer(sentry_server.never)
    daemon = Daemon(bench, "rights", "log: { level = \"debug\"; };")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), **EVERY)
    request(program, "nap 60")
    checks.ok("a delivery child runs", until(
        lambda: delivering_children(daemon) and server.requests),
        daemon.log_text()[-300:])
    child = (delivering_children(daemon) or [os.getpid()])[0]
    status = capabilities_of(child)
    checks.ok("delivery child has no capability, no group, no new rights",
              int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and
              not status["Groups"].strip() and status["NoNewPrivs"] == "1",
              status)
    checks.ok("delivery child cannot regain rights or execute",
              (int(status["CapBnd"], 16) == 0 or os.getuid() != 0) and
              int(status["CapAmb"], 16) == 0 and status["Seccomp"] == "2",
              status)
    descriptors = [os.readlink(f"/proc/{child}/fd/{fd}")
                   for fd in os.listdir(f"/proc/{child}/fd")]
    checks.ok("delivery child has only its socket and data as descriptors",
              sum("/dev/null" in name for name in descriptors) == 3 and
              not any("fgtrace" in name and "delivery" not in name or
                      ".lock" in name or "anon_inode:[perf" in name
                      for name in descriptors), descriptors)
    checks.ok("delivery child is the first that the kernel kills without "
              "memory",
              read_text(f"/proc/{child}/oom_score_adj").strip() == "1000", "")
    limits = {line[:26].strip(): line[26:].split()[0]
              for line in read_text(f"/proc/{child}/limits").splitlines()[1:]}
    checks.ok("memory, files, cores and time of the child are limited",
              "unlimited" not in (limits["Max address space"],
                                  limits["Max file size"],
                                  limits["Max cpu time"]) and
              limits["Max core file size"] == "0", limits)
    for place in ("cmdline", "environ"):
        for pid in (child, daemon.child.pid):
            with open(f"/proc/{pid}/{place}", "rb") as file:
                checks.ok(f"key of the DSN is not in {place}",
                          KEY.encode() not in file.read(), "")
    status = daemon.status()
    checks.ok("key of the DSN is neither in the log nor in status",
              KEY not in daemon.log_text() and KEY not in str(status), "")
    daemon.end()
    program.close()
    server.close()


def traced(checks, bench):
    """A delivery child that a tracer keeps from ending delays nothing."""
    if os.getuid() != 0:
        print("# skipped: only root may trace the delivery child")
        return
    server = SentryServer(sentry_server.never)
    daemon = Daemon(bench, "traced")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(server), **EVERY)
    request(program, "nap 60")
    until(lambda: delivering_children(daemon) and server.requests)
    child = delivering_children(daemon)[0]
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p,
                       ctypes.c_void_p]
    checks.ok("delivery child is traced", ptrace(
        PTRACE_SEIZE, child, None, None) == 0, ctypes.get_errno())
    os.kill(child, signal.SIGKILL)
    checks.ok("agent answers while the child cannot end",
              daemon.until(lambda: daemon.status()["deliveries_retried"] == 1,
                           20), daemon.log_text()[-300:])
    os.waitpid(child, 0)
    checks.ok("delivery child is gone without its tracer", daemon.until(
        lambda: child not in delivering_children(daemon), 10), "")
    daemon.end()
    program.close()
    server.close()


def embedded_ones_wait_as_long_as_asked(checks, bench):
    server = SentryServer(fixed(429, "Retry-After: 4"))
    program = Program(bench, mode="embedded", destination=dsn_of(server),
                      **EVERY)
    request(program, "nap 60")
    until(lambda: server.requests)
    began = time.monotonic()
    request(program, "nap 60")
    time.sleep(1)  # time in which the second transaction would be sent
    server.script = accept
    answer = program.ask("flush 20000")
    sent = len(server.transactions())
    checks.ok("embedded: 429 is final; later transactions wait as long as "
              "asked", answer == ["0"] and program.status()["delivered"] == 1
              and time.monotonic() - began > 3 and sent == 2,
              (answer, time.monotonic() - began, sent))
    program.close()
    server.close()


def agents_that_return(checks, bench, name="return", config=""):
    """Transactions of the time without an agent arrive, without samples."""
    daemon = Daemon(bench, name, config)
    folder = Folder(bench, f"{name}-out")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path, **EVERY)
    daemon.end()
    answers = [request(program, "task work", "span kept", "burn 50",
                       "endspan", "endtask")[0] for _ in range(3)]
    daemon.start()
    found = folder.wait(3)
    checks.ok(f"{name}: transactions kept without an agent are delivered",
              answers == ["1"] * 3 and len(found) == 3,
              (answers, folder.names(), daemon.log_text()[-600:]))
    names = [[span["description"] for span in envelope.transaction["spans"]]
            for envelope in found]
    checks.ok(f"{name}: delivered transactions have the texts of that time",
              all("kept" in spans for spans in names), names)
    request(program, "burn 2000", name="GET_/later")
    found = folder.wait(4)
    names = [(envelope.transaction["transaction"], bool(envelope.profile))
            for envelope in found]
    checks.ok(f"{name}: transactions have a profile once it is sampled again",
              sorted(names) == [("GET_/cart", False)] * 3 +
              [("GET_/later", True)], names)
    check_wrong(checks, name, found)
    program.close()
    daemon.end()


def slow_agents_that_return(checks, bench):
    """The agent's first ticks come late; short transactions between ticks."""
    agents_that_return(checks, bench, "slow", "sampling: { hz = 3; };")


def agents_that_answer_late(checks, bench):
    """The agent is asked twice for one delivery: it must deliver once."""
    daemon = Daemon(bench, "late")
    folder = Folder(bench, "late-out")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path, **EVERY)
    request(program, "burn 50")
    folder.wait(1)
    for round_number in range(3):
        os.kill(daemon.child.pid, signal.SIGSTOP)
        request(program, "burn 20", name=f"GET_/late{round_number}")
        time.sleep(1.6)  # the library waits 1 s for an answer
        os.kill(daemon.child.pid, signal.SIGCONT)
        folder.wait(2 + round_number)
    program.ask("flush 10000")
    time.sleep(1)
    names = [envelope.transaction["transaction"]
             for envelope in folder.wait(4)]
    checks.ok("an agent that answers too late delivers once", sorted(names) ==
              ["GET_/cart"] + [f"GET_/late{i}" for i in range(3)],
              (names, program.log_text(), daemon.log_text()[-600:]))
    program.close()
    daemon.end()


def what_stop_gives_up_is_counted(checks, bench):
    server = SentryServer(sentry_server.never)
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    for name, port in (("hangs", server.port),
                       ("is down", closed.getsockname()[1])):
        program = Program(bench, mode="embedded", destination=f"http://{KEY}"
                          f"@127.0.0.1:{port}/42", **EVERY)
        request(program, "nap 60")
        until(lambda: server.requests)
        program.run("stop")
        status = program.status()
        checks.ok(f"a server {name}: undelivered once fgt_stop() is back",
                  (status["kept"], status["delivered"],
                   status["undelivered"]) == (1, 0, 1), status)
        with open(bench.path("transact.err")) as file:
            lines = file.read().count("fgt_stop() gave up undelivered items")
        checks.ok(f"a server {name}: one line in the log",
                  lines == (1 if name == "hangs" else 2), lines)
        program.close()
    server.close()


def hanging_server_delays_no_other_delivery(checks, bench):
    """One user's server hangs; deliveries to other destinations go on."""
    server = SentryServer(sentry_server.never)
    daemon = Daemon(bench, "slow-server")
    folder = Folder(bench, "slow-server-out")
    first = Program(bench, mode="agent", socket=daemon.socket,
                    destination=dsn_of(server), **EVERY)
    for _ in range(20):
        request(first, "nap 5")
    until(lambda: server.requests)
    second = Program(bench, mode="agent", socket=daemon.socket,
                     destination=folder.path, **EVERY)
    began = time.monotonic()
    request(second, "nap 60")
    folder.wait(1)
    second.end("abort")
    found = folder.wait(2)
    checks.ok("server that hangs delays neither other destinations nor "
              "crashes",
              len(found) == 2 and time.monotonic() - began < 10,
              (folder.names(), daemon.log_text()[-800:]))
    first.close()
    server.close()
    daemon.end()


def slices_have_release_and_environment(checks, bench):
    for mode in ("agent", "embedded"):
        daemon = Daemon(bench, f"whose-{mode}")
        folder = Folder(bench, f"whose-{mode}-out")
        program = Program(bench, mode=mode, socket=daemon.socket,
                          destination=folder.path, release="shop@1.0",
                          environment="test")
        program.run("burn 300")
        answers = [program.ask("upload 250"),
                   program.ask(f"write 250 {folder.path}/written.envelope")]
        checks.ok(f"{mode}: slices are uploaded and written to files",
                  answers == [["0"]] * 2, answers)
        found = folder.wait(2)
        checks.ok(f"{mode}: slices have release and environment in both items",
                  [(item.get("release"), item.get("environment"))
                   for envelope in found
                   for item in (envelope.transaction, envelope.profile)] ==
                  [("shop@1.0", "test")] * 4,
                  [envelope.transaction for envelope in found])
        checks.ok(f"{mode}: uploads of slices are no transactions", all(
            envelope.transaction["transaction"] == "transact"
            for envelope in found),
            [envelope.transaction["transaction"] for envelope in found])
        check_wrong(checks, f"{mode}: slices with a release", found)
        program.close()
        daemon.end()


def twice(answering):
    """A script that gives the first request no answer."""
    answers = iter([sentry_server.no_answer])
    return lambda *request: next(answers, answering)(*request)


def a_slice_is_sent_again_as_the_same(checks, bench):
    for mode in ("agent", "embedded"):
        daemon = Daemon(bench, f"same-{mode}")
        server = SentryServer(twice(fixed(200)))
        sentry = SentryServer(twice(accept))
        for place in (f"http://127.0.0.1:{server.port}/{{seq}}.json",
                      dsn_of(sentry)):
            program = Program(bench, mode=mode, socket=daemon.socket,
                              destination=place)
            program.run("burn 300", "upload 250", "flush 20000")
            program.close()
        checks.ok(f"{mode}: a slice that is sent again keeps its URL",
                  until(lambda: len(server.requests) == 2) and
                  len({one.line for one in server.requests}) == 1,
                  [one.line for one in server.requests])
        checks.ok(f"{mode}: … and at Sentry its id",
                  until(lambda: len(sentry.requests) >= 2) and
                  len({one.event_id() for one in sentry.transactions()}) == 1,
                  [one.head for one in sentry.requests])
        daemon.end()
        server.close()
        sentry.close()


def uploads_behind_a_transaction(checks, bench):
    """Slices that are due while the worker handles a transaction."""
    for mode in ("agent", "embedded"):
        daemon = Daemon(bench, f"behind-{mode}")
        folder = Folder(bench, f"behind-{mode}-out")
        program = Program(bench, mode=mode, socket=daemon.socket,
                          destination=folder.path, **EVERY)
        program.run("burn 300")
        for pause_ms in (1, 200, 400):
            request(program, "nap 60")
            program.run(f"nap {pause_ms}", "upload 200", "upload 200")
            checks.ok(f"{mode}: slices behind a transaction of {pause_ms} ms "
                      "ago arrive", program.ask("flush 5000") == ["0"],
                      program.status())
        found = folder.wait(9)
        checks.ok(f"{mode}: all slices and transactions arrive",
                  len(found) == 9, folder.names())
        program.close()
        daemon.end()


def agents_that_are_restarted(checks, bench):
    """Transactions that the agent accepted arrive, and so do crashes."""
    daemon = Daemon(bench, "restarted")
    folder = Folder(bench, "restarted-out")
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder.path, **EVERY)
    kept = 0
    for _ in range(4):
        answers = [request(program, "nap 30")[0] for _ in range(10)]
        kept += answers.count("1")
        daemon.end()
        daemon.start()
    checks.ok("ending agent delivers what it accepted, the next one the rest",
              kept == 40 and len(folder.wait(kept)) ==
              kept, (kept, len(folder.names()), daemon.log_text()[-600:]))
    checks.ok("log reports no lost transaction", "undelivered" not in
              daemon.log_text(), daemon.log_text()[-600:])
    program.run("burn 300")
    pidfd = os.pidfd_open(program.pid)
    os.kill(program.pid, signal.SIGKILL)
    select.select([pidfd], [], [], 5)  # all its threads have ended
    daemon.end()
    found = folder.wait(kept + 1)
    ops = [envelope.trace()["op"] for envelope in found]
    checks.ok("crash just before the agent's end arrives",
              ops.count("crash") == 1, (ops[-3:], daemon.log_text()[-900:]))
    os.close(pidfd)
    program.close()


def arrives(server, program):
    """One transaction of the program arrives at the server."""
    request(program, "nap 60")
    return until(lambda: server.requests, 10)


def private_authorities(checks, bench):
    """A server whose certificate is signed by the authority in ca_file."""
    authority = sentry_server.Authority(bench.path("authority"))
    tls = authority.context("private")
    own = f'upload: {{ ca_file = "{authority.certificate}"; }};'
    for name, options, config, is_trusted in (
            ("embedded", {"mode": "embedded"}, "", False),
            ("embedded, ca_file", {"mode": "embedded",
                                   "ca_file": authority.certificate}, "", True),
            ("agent", {"mode": "agent"}, "", False),
            ("agent, upload.ca_file", {"mode": "agent"}, own, True)):
        server = SentryServer(tls=tls)
        daemon = Daemon(bench, "private", config)
        program = Program(bench, socket=daemon.socket,
                          destination=dsn_of(server, "https"), **options,
                          **EVERY)
        if is_trusted:
            checks.ok(f"{name}: transaction arrives", arrives(server, program),
                      program.log_text() + daemon.log_text()[-400:])
        else:
            request(program, "nap 60")
            checks.ok(f"{name}: unknown server gets nothing, and the log "
                      f"with its cause",
                      until(lambda: "ca_file" in program.log_text() +
                            daemon.log_text()) and not server.requests,
                      program.log_text() + daemon.log_text()[-400:])
        if config:
            program.child.send_signal(signal.SIGSEGV)
            checks.ok(f"{name}: crash arrives", until(
                lambda: len(server.requests) == 2), daemon.log_text()[-400:])
        program.close()
        daemon.end()
        server.close()
        os.remove(daemon.log)


def plain_http_to_another_machine(checks, bench):
    """0.0.0.0 is this machine, but the address does not show it: plain http
    needs upload.allow_http."""
    allowed = "upload: { allow_http = true; };"
    server = SentryServer()
    daemon = Daemon(bench, "plain", allowed)
    destination = dsn_of(server, host="0.0.0.0")
    program = Program(bench, mode="embedded", destination=destination)
    checks.ok("plain http to another machine is refused",
              program.started == -22 and
              "FGTRACE_UPLOAD_ALLOW_HTTP" in program.log_text(),
              program.log_text())
    program.close()
    for mode in ("embedded", "agent"):
        del server.requests[:]
        program = Program(bench, mode=mode, socket=daemon.socket, allow_http=1,
                          destination=destination, **EVERY)
        checks.ok(f"{mode}: transaction arrives where plain http is allowed",
                  arrives(server, program),
                  program.log_text() + daemon.log_text()[-400:])
        program.close()
    daemon.end()
    daemon.write_config("")
    daemon.start()
    program = Program(bench, mode="agent", socket=daemon.socket, allow_http=1,
                      destination=destination, **EVERY)
    del server.requests[:]
    request(program, "nap 60")
    checks.ok("agent without allow_http sends nothing", until(
        lambda: "upload.allow_http" in daemon.log_text()) and
        not server.requests, daemon.log_text()[-400:])
    program.close()
    daemon.end()
    server.close()


def programs_that_stop_have_delivered(checks, bench):
    """fgt_stop() right behind the end of a transaction, by a user whose rights
    to see it are checked."""
    if os.getuid() != 0:
        print("# skipped: programs that stop have delivered (needs root)")
        return
    daemon = Daemon(bench, "stops")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    folder, path = Folder(bench, "stops-out", NOBODY), copy_for_nobody(bench)
    for _ in range(6):
        program = Program(bench, as_nobody=True, path=path, mode="agent",
                          socket=daemon.socket, destination=folder.path,
                          **EVERY)
        request(program, "nap 60")
        program.close()
    found = folder.wait(6)
    checks.ok("programs that stop at once have delivered", len(found) == 6 and
              "undelivered" not in daemon.log_text(),
              (len(found), daemon.log_text()[-800:]))
    check_wrong(checks, "programs that stop", found)
    daemon.end()


GROUPS = (secrets_and_rights, traced, embedded_ones_wait_as_long_as_asked,
          what_stop_gives_up_is_counted, agents_that_return,
          slow_agents_that_return, agents_that_answer_late,
          hanging_server_delays_no_other_delivery, agents_that_are_restarted,
          slices_have_release_and_environment,
          a_slice_is_sent_again_as_the_same, uploads_behind_a_transaction,
          private_authorities, plain_http_to_another_machine,
          programs_that_stop_have_delivered)

if __name__ == "__main__":
    run_groups(GROUPS)

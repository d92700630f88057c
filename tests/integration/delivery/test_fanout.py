# SPDX-License-Identifier: Apache-2.0
"""Transactions to the destinations of the daemon's configuration: several at
once, one that is down, refusals, pauses, secrets, and other users.
test_fanout.py BUILD [GROUP…]"""
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.daemon_bench import Daemon, run_groups  # noqa: E402
from kit.sentry_server import (  # noqa: E402
    SentryServer, accept, answer, fixed)
from kit.transact import (  # noqa: E402
    EVERY, Program, delivering_children, dsn_of, until)

CANARY = "c4n4ry5ecret"


def config(entries, names, more=""):
    listed = ",\n".join("{ " + entry + " }" for entry in entries)
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"upload: {{ destinations = ( {listed} );\n" \
        f"transactions = [ {quoted} ]; {more} }};\n"


def url_entry(name, server, more=""):
    return f'name = "{name}"; url = "http://127.0.0.1:{server.port}' \
        f'/{name}/{{pid}}-{{seq}}.trace.json"; {more}'


def secret_file(bench, name, text):
    path = bench.path(name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def destination_status(daemon):
    return {entry["name"]: entry for entry in daemon.status()["destinations"]}


def request(program, milliseconds=50):
    return program.run("begin GET_/cart http.server", f"burn {milliseconds}",
                       "finish")


class BlackHole:
    """Accepts a few connections in the kernel, reads nothing, answers nothing."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]

    def close(self):
        self.listener.close()


def seconds_to(server, program):
    """From the end of a transaction to its arrival."""
    before = len(server.requests)
    request(program)
    began = time.monotonic()
    until(lambda: len(server.requests) > before)
    return time.monotonic() - began


def dead_destination_delays_no_other(checks, bench):
    hole, server = BlackHole(), SentryServer(fixed(201))
    daemon = Daemon(bench, "alone", config([url_entry("lab", server)],
                                           ["lab"]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    request(program)
    alone = sorted(seconds_to(server, program) for _ in range(5))[2]
    checks.ok("transactions whose program names no destination arrive",
              until(lambda: len(server.requests) == 6) and
              server.requests[0].line.startswith("PUT /lab/"),
              daemon.log_text()[-400:])
    daemon.write_config(config(
        [url_entry("hole", hole), url_entry("lab", server)],
        ["hole", "lab"]))
    daemon.child.send_signal(signal.SIGHUP)
    checks.ok("reload takes over destinations", daemon.until(
        lambda: "hole" in destination_status(daemon)))
    both = sorted(seconds_to(server, program) for _ in range(8))[4]
    checks.ok("one that is down does not delay the other",
              both < alone + 0.5, f"{alone:.3f} s, then {both:.3f} s")
    print(f"# delivery: {alone:.3f} s alone, {both:.3f} s beside a black hole")
    daemon.until(lambda: destination_status(daemon)["lab"]["delivered"] == 14)
    found = destination_status(daemon)
    checks.ok("status has both", found["lab"]["delivered"] == 14 and
              found["lab"]["last_success_ns"] > 0 and
              found["hole"]["queued"] >= 1 and
              found["hole"]["delivered"] == 0, found)
    result = bench.run("status", "--socket", daemon.socket)
    checks.ok("status is printed", "/hole/" in result.stdout and
              "14 delivered by the agent" in result.stdout, result.stdout)
    daemon.attach(program.child.pid)
    sent = bench.run("slice", "--last", "1s", "--upload", "lab",
                     "--socket", daemon.socket, "-c", daemon.config)
    checks.ok("a slice that the command line sends is not the agent's",
              sent.returncode == 0 and len(server.requests) == 15 and
              destination_status(daemon)["lab"]["delivered"] == 14, sent)
    program.close()
    daemon.end()
    hole.close()
    server.close()


def refusal_stops_until_reload(checks, bench):
    refusing, server = SentryServer(fixed(401)), SentryServer(fixed(200))
    text = config([url_entry("closed", refusing), url_entry("lab", server)],
                  ["closed", "lab"])
    daemon = Daemon(bench, "refusing", text)
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    for _ in range(3):
        request(program)
        time.sleep(0.3)
    until(lambda: len(server.requests) == 3)
    daemon.until(lambda: destination_status(daemon)["closed"]
                 ["dropped_refused"] == 3)
    found = destination_status(daemon)["closed"]
    checks.ok("after 401 nothing more is sent", len(refusing.requests) == 1 and
              len(server.requests) == 3, len(refusing.requests))
    checks.ok("401 is logged once", daemon.log_text().count(
        "destination_refused") == 1, daemon.log_text()[-600:])
    checks.ok("status counts what was refused",
              found["dropped_refused"] == 3 and "401" in found["unusable"],
              found)
    daemon.child.send_signal(signal.SIGHUP)
    daemon.until(lambda: daemon.status()["reloads"] == 1)
    request(program)
    checks.ok("a reload tries it again",
              until(lambda: len(refusing.requests) == 2))
    program.close()
    daemon.end()
    refusing.close()
    server.close()


def refused_entries_wait_for_a_reload(checks, bench):
    refusing = SentryServer(fixed(403))
    daemon = Daemon(bench, "held", config(
        [url_entry("closed", refusing)], ["closed"],
        f'spool_dir = "{bench.path("held-spool")}"'))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    request(program)
    daemon.until(lambda: destination_status(daemon)["closed"]["unusable"])
    found = destination_status(daemon)["closed"]
    text = bench.run("status", "--socket", daemon.socket).stdout
    checks.ok("a destination that refused has no next try",
              "403" in found["unusable"] and found["spooled"] == 1 and
              found["next_try_in_ns"] == 0 and "next try" not in text and
              "nothing is sent to it until the configuration is reloaded" in
              text, (found, text))
    result = bench.run("spool", "flush", "--socket", daemon.socket)
    checks.ok("flush counts what is sent, and names what is not",
              result.stdout == "0 deliveries to be sent now\n" and
              "1 for 'closed' wait until the configuration is reloaded: " in
              result.stderr and len(refusing.requests) == 1, result)
    program.close()
    daemon.end()
    refusing.close()


def pauses_are_kept(checks, bench):
    """503 with Retry-After, then 200: sent again with the same bytes."""
    times = []

    def script(_request, _connection):
        times.append(time.monotonic())
        return answer(503, ["Retry-After: 3"]) if len(times) == 1 \
            else answer(200)

    server = SentryServer(script)
    final = SentryServer(fixed(413))
    daemon = Daemon(bench, "pauses", config(
        [url_entry("slow", server), url_entry("small", final)],
        ["slow", "small"]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    request(program)
    until(lambda: len(times) == 1)
    checks.ok("status has the next try", daemon.until(
        lambda: 0 < destination_status(daemon)["slow"]["next_try_in_ns"]
        <= 3e9), destination_status(daemon))
    checks.ok("503 is tried again", until(lambda: len(times) == 2) and
              times[1] - times[0] >= 2.9, times)
    checks.ok("the same bytes are sent again",
              server.requests[0].body == server.requests[1].body and
              server.requests[0].line == server.requests[1].line)
    found = destination_status(daemon)
    checks.ok("413 is final", len(final.requests) == 1 and
              found["small"]["dropped_too_large"] == 1, found)
    program.close()
    daemon.end()
    server.close()
    final.close()


def limits_of_sentry_are_counted(checks, bench):
    """Transactions are accepted without their chunks, then nothing is."""

    def limit_chunks(*request_of):
        header = b"\r\nX-Sentry-Rate-Limits: 60:profile_chunk:key\r\n"
        return accept(*request_of).replace(b"\r\n", header, 1)

    server = SentryServer(limit_chunks)
    dsn = secret_file(bench, "limited-dsn", dsn_of(server))
    daemon = Daemon(bench, "limited", config(
        [f'name = "sentry"; dsn_file = "{dsn}";'], ["sentry"]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    request(program)
    until(lambda: len(server.requests) == 1)
    server.script = lambda *_: answer(429, ["Retry-After: 60"])
    request(program)
    counted = daemon.until(lambda: destination_status(daemon)["sentry"]
                           ["dropped_rate_limited"] == 2)
    text = bench.run("status", "--socket", daemon.socket).stdout
    checks.ok("status counts what limits cost: a chunk, a transaction",
              counted and "2 rate_limited" in text,
              (destination_status(daemon), text))
    program.close()
    daemon.end()
    server.close()


def users_name_what_they_may(checks, bench):
    server = SentryServer(fixed(200))
    daemon = Daemon(bench, "users", config(
        [url_entry("open", server), url_entry("closed", server)], ["open"]))
    for folder in (bench.scratch, daemon.folder):
        os.chmod(folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    for name, is_root, count in (("closed", True, 1), ("closed", False, 1),
                                 ("open", False, 2), ("absent", False, 2)):
        if not is_root and os.getuid() != 0:
            continue
        program = Program(bench, as_nobody=not is_root, mode="agent",
                          socket=daemon.socket, destination=name, **EVERY)
        request(program)
        until(lambda: len(server.requests) == count, 5)
        time.sleep(0.3)
        checks.ok(f"{'root' if is_root else 'a user'} names {name}",
                  len(server.requests) == count, program.log_text())
        program.close()
    daemon.end()
    server.close()


def embedded_programs_use_urls(checks, bench):
    """The library's own thread sends; an agent's name means nothing there."""
    server = SentryServer(fixed(201))
    url = f"http://127.0.0.1:{server.port}/{{name}}-{{pid}}.folded"
    program = Program(bench, mode="embedded", destination=url, **EVERY)
    time.sleep(0.3)
    request(program, 300)
    checks.ok("embedded: transaction is put to the URL", until(
        lambda: server.requests) and server.requests[0].line ==
        f"PUT /GET_%2Fcart-{program.pid}.folded HTTP/1.1" and
        b"burn_for_it" in server.requests[0].body, program.log_text())
    program.close()
    program = Program(bench, mode="embedded", destination="lab", **EVERY)
    request(program)
    checks.ok("embedded: a name is explained", until(
        lambda: "neither a URL" in program.log_text()), program.log_text())
    program.close()
    server.close()


def no_secret_is_seen(checks, bench):
    """In /proc while a process sends, in logs, status and what is shown."""
    hole, server = BlackHole(), SentryServer(fixed(200))
    headers = secret_file(bench, "headers", f"Authorization: {CANARY}\n")
    url = secret_file(bench, "url", f"http://127.0.0.1:{hole.port}/x?sig="
                      f"{CANARY}\n")
    keys = secret_file(bench, "keys", f"aws_access_key_id = {CANARY}\n"
                       f"aws_secret_access_key = {CANARY}\n")
    daemon = Daemon(bench, "secrets", config(
        [f'name = "hole"; url_file = "{url}"; aws_keys_file = "{keys}"',
         url_entry("lab", server, f'headers_file = "{headers}"')],
        ["hole", "lab"]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    request(program)
    checks.ok("header of the configuration is sent", until(
        lambda: server.requests) and
        server.requests[0].get("Authorization") == CANARY)
    until(lambda: delivering_children(daemon))
    seen = []
    for pid in [daemon.child.pid, *delivering_children(daemon)]:
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                seen.append(file.read())
    shown = bench.run("config", "show", "-c", daemon.config)
    checked = bench.run("config", "check", "-c", daemon.config)
    status = bench.run("status", "--socket", daemon.socket)
    seen += [text.encode() for text in (
        shown.stdout, shown.stderr, checked.stdout, checked.stderr,
        status.stdout, json.dumps(daemon.status()), daemon.log_text(),
        program.log_text())]
    program.close()
    daemon.end()
    seen.append(daemon.log_text().encode())
    checks.ok("no secret is seen anywhere", all(
        CANARY.encode() not in text for text in seen) and len(seen) > 8,
        [text for text in seen if CANARY.encode() in text])
    checks.ok("URL is shown without its query",
              "/x?***" in status.stdout, status.stdout)
    hole.close()
    server.close()


if __name__ == "__main__":
    run_groups([dead_destination_delays_no_other, refusal_stops_until_reload,
                refused_entries_wait_for_a_reload, pauses_are_kept,
                limits_of_sentry_are_counted, users_name_what_they_may,
                embedded_programs_use_urls, no_secret_is_seen])

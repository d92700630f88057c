# SPDX-License-Identifier: Apache-2.0
"""Entries of a spool that are damaged are not sent; a disk without room shows.
test_spool_damage.py BUILD [GROUP…]"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from delivery.test_spool import (  # noqa: E402
    config, created, dsn_entry, entries_of, flush, spool_of, transaction,
    url_entry)
from kit import sentry_server  # noqa: E402
from kit.daemon_bench import Daemon, run_groups  # noqa: E402
from kit.delivery.small_disk import may_mount, small_disk  # noqa: E402
from kit.sentry_server import SentryServer, accept  # noqa: E402
from kit.transact import EVERY, Program  # noqa: E402


def logged(log, event):
    return [line for line in log.splitlines() if f"event={event} " in line]


def damaged(checks, bench):
    """One byte of an entry's file is changed while no agent runs."""
    server = SentryServer(sentry_server.no_answer)
    daemon = Daemon(bench, "bits", config(bench, "bits", [url_entry(
        "lab", server, 'method = "PUT"; format = "chrome";').replace(
            "/lab", "/{name}-{seq}")]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    places = (0, 9, 30, 60, 200, 0.5, 0.9, -1)
    for _ in range(len(places) + 1):
        transaction(program)
    checks.ok("entries wait", daemon.until(lambda: len(
        entries_of(bench, "bits")) == len(places) + 1),
        daemon.log_text()[-600:])
    checks.ok("status has the address of the request that failed",
              daemon.until(lambda: f"127.0.0.1:{server.port}/GET_" in
                           daemon.status()["destinations"][0]["last_error"]),
              daemon.status()["destinations"])
    daemon.end()
    for name, place in zip(entries_of(bench, "bits"), places):
        path = os.path.join(spool_of(bench, "bits"), name)
        size = os.path.getsize(path)
        at = int(place * size) if isinstance(place, float) else place % size
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x10]))
    server.requests.clear()
    server.script = created
    daemon.start()
    checks.ok("the whole one is sent, and no other", daemon.until(
        lambda: not entries_of(bench, "bits")) and
        len(server.requests) == 1, (entries_of(bench, "bits"),
                                    len(server.requests)))
    status = daemon.status()
    checks.ok("the others are counted, logged and kept aside",
              status["spool_dropped_damaged"] == len(places) and
              "(damaged, 8 so far)" in daemon.log_text() and
              len(os.listdir(os.path.join(spool_of(bench, "bits"), "bad"))) ==
              len(places), (status, daemon.log_text()[-900:]))
    delivered = logged(daemon.log_text(), "delivered")
    checks.ok("the log names process, transaction and address of what is "
              "delivered", len(delivered) == 1 and
              f"pid {program.child.pid}, 'GET_/cart' to http://127.0.0.1:"
              in delivered[0] and "{" not in delivered[0], delivered)
    daemon.end()
    program.close()
    server.close()


def disk_without_room(checks, bench):
    """Another file fills the disk: no entry can go to make room."""
    if not may_mount():
        return
    server = SentryServer(created)
    folder = spool_of(bench, "room")
    with small_disk(folder):
        daemon = Daemon(bench, "room", config(
            bench, "room", [url_entry("lab", server, 'format = "chrome";')]))
        program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
        status = daemon.status()
        checks.ok("a spool without an error has none in its status",
                  status["spool_last_error"] == "" and
                  status["spool_last_error_ns"] == 0, status)
        other = os.path.join(folder, "other")
        with open(other, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        transaction(program)
        checks.ok("what cannot be spooled is in the status, with the cause, "
                  "the remedy and the time", daemon.until(
                      lambda: daemon.status()["spool_last_error_ns"]) and
                  "No space left on device; make room on its disk" in
                  daemon.status()["spool_last_error"] and
                  daemon.status()["spool_unwritten"] == 1 and 0 <= time.time()
                  - daemon.status()["spool_last_error_ns"] / 1e9 < 60,
                  (daemon.status(), daemon.log_text()[-600:]))
        shown = bench.run("--socket", daemon.socket, "status").stdout
        checks.ok("in its text, too", "; 1 not on the disk yet" in shown and
                  "    last error 20" in shown and
                  "make room on its disk" in shown, shown)
        shown = bench.run("--socket", daemon.socket, "metrics").stdout
        checks.ok("and in the metrics",
                  "\nfgtrace_spool_unwritten 1\n" in shown and
                  "\nfgtrace_spool_last_error_timestamp_seconds 1" in shown,
                  shown[-3000:])
        os.unlink(other)
        checks.ok("with room again it is spooled and delivered", daemon.until(
            lambda: len(server.requests) == 1, 30) and
            daemon.status()["spool_unwritten"] == 0,
            (daemon.status(), daemon.log_text()[-600:]))
        daemon.end()
        program.close()
    server.close()


def host_fails(checks, bench):
    """What fails here and not at the server, and is mended: a library whose
    package is at work, a directory that is not there yet, a certificate."""
    server = SentryServer(created)
    libraries, later = bench.path("libraries"), bench.path("later")
    certificate = bench.path("client.pem")
    os.makedirs(libraries)
    for path in (os.path.join(libraries, "libcurl.so.4"), certificate):
        with open(path, "w") as file:
            file.write("-----BEGIN CERTIFICATE-----\nhalf of a file\n"
                       "-----BEGIN PRIVATE KEY-----\n")
    os.chmod(certificate, 0o600)
    daemon = Daemon(bench, "host", config(bench, "host", [
        url_entry("lab", server, 'format = "folded";'),
        f'name = "tree"; directory = "{later}"; format = "folded"',
        url_entry("sure", server, f'client_cert_file = "{certificate}"; '
                  f'client_key_file = "{certificate}";').replace(
            "http:", "https:")]),
        env=dict(os.environ, LD_LIBRARY_PATH=libraries))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    transaction(program)

    def errors():
        return {row["name"]: row["last_error"]
                for row in daemon.status()["destinations"]}
    checks.ok("each destination names its fault", daemon.until(
        lambda: "libcurl" in errors()["lab"] and
        "make the directory" in errors()["tree"]), errors())
    checks.ok("the deliveries stay", len(entries_of(bench, "host")) == 3,
              daemon.log_text()[-900:])
    os.remove(os.path.join(libraries, "libcurl.so.4"))
    os.makedirs(later)
    flush(bench, daemon)
    checks.ok("and leave once that is mended", daemon.until(
        lambda: len(server.requests) == 1 and os.listdir(later) and
        len(entries_of(bench, "host")) == 1), daemon.log_text()[-900:])
    checks.ok("that of a wrong certificate stays", daemon.until(
        lambda: "client_cert_file" in errors()["sure"]) and
        len(entries_of(bench, "host")) == 1, (errors(),
                                              daemon.log_text()[-900:]))
    daemon.end()
    program.close()
    server.close()


def secret_is_away(checks, bench):
    """A file of keys that is not there when the agent starts."""
    server = SentryServer(sentry_server.no_answer)
    daemon = Daemon(bench, "away", config(
        bench, "away", [dsn_entry(bench, "away", server)]))
    program = Program(bench, mode="agent", socket=daemon.socket, **EVERY)
    transaction(program)
    daemon.until(lambda: len(entries_of(bench, "away")) == 2)
    secret, hidden = bench.path("away.dsn"), bench.path("away.hidden")
    daemon.end()
    os.rename(secret, hidden)
    server.requests.clear()
    server.script = accept
    daemon.start()
    time.sleep(2)
    row = daemon.status()["destinations"][0]
    checks.ok("what waits for its destination stays, and status names the "
              "file", row["spooled"] == 2 and secret in row["unusable"] and
              not server.requests, row)
    os.rename(hidden, secret)
    checks.ok("it leaves without a reload once the file is there",
              daemon.until(lambda: len(server.requests) == 2, 60),
              daemon.log_text()[-900:])
    logged_once = daemon.log_text().count("event=destination_unusable")
    checks.ok("both are logged once", logged_once == 1 and
              "event=destination_usable" in daemon.log_text(), logged_once)
    daemon.end()
    program.close()
    server.close()


if __name__ == "__main__":
    run_groups([host_fails, secret_is_away, damaged, disk_without_room])

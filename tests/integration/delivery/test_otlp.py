# SPDX-License-Identifier: Apache-2.0
"""OTLP profiles by HTTP, to a server that applies all rules of the format.

usage: test_otlp.py BUILD

Both shapes, from the command line and by a destination of the configuration; a
transaction of a program, whose samples refer to its span; and the life of a
program in chunks.
"""
import glob
import gzip
import http.server
import os
import queue
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import strict  # noqa: E402
from kit.cli_checks import ok, run_groups  # noqa: E402
from kit.daemon_bench import Daemon  # noqa: E402
from kit.delivery import check_otlp  # noqa: E402
from kit.harness import KIT  # noqa: E402

PATH = "/v1development/profiles"
ANSWER_SECONDS = 60
CHUNKS = 3


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what keeps the rules; 400 and the reason otherwise."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            strict.demand(self.path == PATH, f"path {self.path}")
            strict.demand(self.headers["Content-Type"] ==
                          "application/x-protobuf", "content type")
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            self.server.arrived.put(check_otlp.Otlp(body))
            status = 200
        except strict.Wrong as wrong:
            self.server.arrived.put(wrong)
            status = 400
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def start_receiver():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.arrived = queue.Queue()
    server.url = f"http://127.0.0.1:{server.server_port}{PATH}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def arrival(server, name):
    """A request that keeps all rules, or None."""
    try:
        found = server.arrived.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        found = "nothing arrived"
    is_good = isinstance(found, check_otlp.Otlp)
    ok(f"{name}: arrives and keeps all rules", is_good, found)
    return found if is_good else None


def uploads(bench, server, name, source, has_times, *arguments):
    result = bench.run("convert", source, "--upload", *arguments)
    ok(f"{name}: is uploaded", result.returncode == 0, result.stderr)
    found = arrival(server, name)
    if found:
        ok(f"{name}: has {'times' if has_times else 'sums'}",
           found.has_times == has_times)


def test_command_line(bench, server):
    source = bench.path("one.fgt")
    bench.run("record", "-q", "-d", "1", "-o", source, "--",
              bench.program("truth-fp"), "shares", "2")
    uploads(bench, server, "by URL", source, True, server.url)
    uploads(bench, server, "by URL as sums", source, False, server.url,
            "--otlp-shape", "sum")
    config = bench.path("otlp.conf")
    with open(config, "w") as file:
        file.write("upload: { destinations = ( { name = \"pyroscope\"; "
                   f"url = \"{server.url}\"; shape = \"sum\"; }}, "
                   f"{{ name = \"lab\"; url = \"{server.url}\"; }} ); }};\n")
    uploads(bench, server, "by a destination with sums", source, False,
            "pyroscope", "-c", config)
    uploads(bench, server, "by a destination", source, True, "lab", "-c",
            config)


def test_transaction(bench, server):
    prefix = bench.path("installed")
    subprocess.run(["cmake", "--install", bench.build, "--prefix", prefix],
                   check=True, capture_output=True)
    library = glob.glob(f"{prefix}/lib/**/libfgtrace.so", recursive=True)[0]
    result = subprocess.run(
        [sys.executable, f"{KIT}/delivery/traced.py", "-"], text=True,
        capture_output=True, timeout=60,
        env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(library),
             "FGTRACE_DESTINATION": server.url,
             "FGTRACE_SOCKET": bench.path("no.sock")})
    if not ok("a program finishes a transaction", result.returncode == 0,
              result.stderr[-400:]):
        return
    tid, trace_id, span_id, ns = result.stdout.split()
    found = arrival(server, "transaction")
    links = dict(found.links()) if found else {}
    key = int(tid), trace_id, span_id
    ok("samples of the transaction refer to its span, as long as it lasts",
       list(links) == [key] and
       abs(links[key] - int(ns)) < 0.03e9 + int(ns) / 10, (links, key, ns))


def check_chunks(name, chunks, has_times):
    """Each begins where the one before ends, and no tick counts twice."""
    chunks.sort(key=lambda chunk: chunk.begin)
    period = chunks[0].period
    gaps = [after.begin - before.end
            for before, after in zip(chunks, chunks[1:])]
    ok(f"{name}: each begins where the one before ends",
       all(abs(gap) < 3 * period for gap in gaps), gaps)
    ok(f"{name}: all have their shape and one service", all(
        chunk.has_times == has_times for chunk in chunks) and
       len({chunk.resource["service.name"] for chunk in chunks}) == 1)
    threads = [{tid: sum(stacks.values())
                for tid, stacks in chunk.stacks().items()}
               for chunk in chunks]
    whole = chunks[-1].end - chunks[0].begin
    found = {tid: sum(one[tid] for one in threads) for tid in threads[0]
             if all(tid in one for one in threads)}
    ok(f"{name}: each tick of a thread counts once", found and all(
        abs(ns - whole) < whole / 50 for ns in found.values()),
       (found, whole))


def test_continuous(bench):
    """One program to two destinations, as times and as sums."""
    servers = [start_receiver(), start_receiver()]
    child = bench.start([bench.program("truth-fp"), "shares", "60"],
                        stdout=subprocess.DEVNULL)
    daemon = Daemon(bench, "continuous", f"""
upload: {{ destinations = (
  {{ name = "times"; url = "{servers[0].url}"; }},
  {{ name = "sums"; url = "{servers[1].url}"; shape = "sum"; }} ); }};
targets = ( {{ pid = {child.pid}; continuous = true; continuous_s = 2; }} );""")
    for server, name in zip(servers, ("chunks of times", "chunks of sums")):
        chunks = [arrival(server, name) for _ in range(CHUNKS)]
        if all(chunks):
            check_chunks(name, chunks, name == "chunks of times")
    daemon.end()
    for server in servers:
        server.shutdown()


def run(bench):
    server = start_receiver()
    test_command_line(bench, server)
    test_transaction(bench, server)
    test_continuous(bench)
    server.shutdown()


if __name__ == "__main__":
    run_groups(run)

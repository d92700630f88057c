# SPDX-License-Identifier: Apache-2.0
"""A real OpenTelemetry Collector takes our profiles and passes them on.

usage: test_collector.py BUILD WORK

The Collector is built by its own builder from the Go module proxy. It gets the
file that fgtrace writes by HTTP, as the file is and compressed, and exports
what it has understood by HTTP again: there the strict reader of the tests must
find the same time in the same stacks, and the same resource.
"""
import gzip
import http.client
import http.server
import os
import queue
import socket
import subprocess
import threading
import time

import stand
from stand import ok
from kit.delivery import check_otlp

VERSION = "v0.165.0"
PATH = "/v1development/profiles"
BUILDER = f"""dist:
  name: otelcol
  output_path: {{folder}}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {VERSION}
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter {VERSION}
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter {VERSION}
"""
CONFIG = """receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}
exporters:
  debug: {{verbosity: detailed}}
  otlphttp:
    profiles_endpoint: http://127.0.0.1:{sink}{path}
    compression: none
    sending_queue: {{enabled: false}}
    retry_on_failure: {{enabled: false}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    profiles: {{receivers: [otlp], exporters: [otlphttp, debug]}}
"""
ANSWER_SECONDS = 60


def build(work):
    """The Collector's binary."""
    folder = os.path.abspath(os.path.join(work, f"collector-{VERSION}"))
    binary = os.path.join(folder, "otelcol")
    if os.path.exists(binary):
        return binary
    os.makedirs(folder, exist_ok=True)
    manifest = os.path.join(folder, "builder.yaml")
    with open(manifest, "w") as file:
        file.write(BUILDER.format(folder=folder))
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false",
                   "CGO_ENABLED": "0", "GOMAXPROCS": "2"}
    stand.fetch(["go", "run",
                 f"go.opentelemetry.io/collector/cmd/builder@{VERSION}",
                 f"--config={manifest}"], cwd=folder, env=environment)
    return binary


class Sink(http.server.BaseHTTPRequestHandler):
    """Where the Collector exports to."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.arrived.put((self.path, self.headers["Content-Type"],
                                 body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(bench, binary, sink):
    """The port that the Collector listens on, and its log."""
    port, log = free_port(), bench.path("collector.log")
    config = bench.path("collector.yaml")
    with open(config, "w") as file:
        file.write(CONFIG.format(port=port, sink=sink, path=PATH))
    with open(log, "w") as out:
        child = bench.start([binary, f"--config={config}",
                             "--feature-gates=+service.profilesSupport"],
                            stdout=out, stderr=subprocess.STDOUT)
    end = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < end and child.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port, log
        time.sleep(0.1)
    with open(log) as text:
        raise RuntimeError(f"the Collector does not listen: {text.read()}")


def post(port, body, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port,
                                            timeout=ANSWER_SECONDS)
    connection.request("POST", PATH, body,
                       {"Content-Type": "application/x-protobuf", **headers})
    response = connection.getresponse()
    return response.status, response.read()


def arrives(name, port, path, arrived, **headers):
    with open(path, "rb") as file:
        status, answer = post(port, file.read(), **headers)
    # A partial success has a text, or a number above 0.
    ok(f"{name}: the Collector takes it all", status == 200 and
       answer in (b"", b"\n\0"), (status, answer))
    try:
        target, kind, body = arrived.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        ok(f"{name}: the Collector exports it", False, "nothing arrived")
        return
    ok(f"{name}: the Collector exports it",
       (target, kind) == (PATH, "application/x-protobuf"), (target, kind))
    sent, found = check_otlp.read(path), check_otlp.Otlp(
        body, is_passed_on=True)
    ok(f"{name}: every stack has the same time",
       found.stacks() == sent.stacks() and found.has_times == sent.has_times,
       f"{len(found.samples)} samples of {len(sent.samples)}")
    ok(f"{name}: the resource is the same", found.resource == sent.resource,
       found.resource)


def run(bench, work):
    binary = build(work)
    source = stand.record(bench)
    server = http.server.HTTPServer(("127.0.0.1", 0), Sink)
    server.arrived = queue.Queue()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port, log = start(bench, binary, server.server_port)
    times = stand.convert(bench, source, ".otlp")
    arrives("times", port, times, server.arrived)
    arrives("gzip", port, stand.convert(bench, source, ".otlp.gz"),
            server.arrived, **{"Content-Encoding": "gzip"})
    arrives("sums", port, stand.convert(bench, source, ".sum.otlp",
                                        "--otlp-shape", "sum"),
            server.arrived)
    with open(times, "rb") as file:
        status, _ = post(port, file.read()[:-1])
    ok("the Collector refuses a file that is cut short", status == 400, status)
    with open(log) as text:
        shown = text.read()
    ok("the Collector's own log shows threads and states",
       "thread.state" in shown and "truth-fp" in shown, shown[-800:])
    server.shutdown()


if __name__ == "__main__":
    stand.main(run)

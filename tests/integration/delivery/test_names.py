# SPDX-License-Identifier: Apache-2.0
"""Names without configuration: what programs publish about their service, by
their own code and by libfgtrace, what misleads, and where it is shown.

test_names.py BUILD [GROUP…]
"""
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import read_fgt  # noqa: E402
from kit.daemon_bench import Daemon, run_groups  # noqa: E402
from kit.daemon_client import call  # noqa: E402
from kit.harness import read_until  # noqa: E402
from kit.transact import until  # noqa: E402

SHOP = ("service.name=shop", "service.version=1.4", "service.namespace=web",
        "service.instance.id=i-7", "deployment.environment.name=staging")


class Publisher:
    """A context: publishes by code that knows the specification only."""

    def __init__(self, bench, *words):
        self.child = bench.start([bench.program("context"), *words],
                                 stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.pid = int(read_until(self.child.stdout, "ready "))

    def publish(self, *words):
        self.child.stdin.write(" ".join(words) + "\n")
        self.child.stdin.flush()
        read_until(self.child.stdout, "done")

    def end(self):
        self.child.kill()
        self.child.wait()


class Named:
    """A program that names itself to the library."""

    def __init__(self, bench, *words, environment=None):
        self.child = bench.start(
            [bench.program("named"), *words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "LD_LIBRARY_PATH": bench.build,
                 **(environment or {})})
        self.pid = int(read_until(self.child.stdout, "ready "))

    def ask(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().split()

    def end(self):
        self.child.kill()
        self.child.wait()


def targets(daemon):
    return {target["pid"]: target
            for target in call(daemon.socket, "targets")["targets"]}


def service(daemon, pid):
    return targets(daemon)[pid]["service"]


def has_name(daemon, pid, name):
    return until(lambda: service(daemon, pid)["name"] == name)


def contexts(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return [line for line in maps if "OTEL_CTX" in line]


def slice_of(bench, daemon, pid, form, name):
    path = bench.path(name)
    result = bench.run("--socket", daemon.socket, "slice", "--last", "2s", "-p",
                       str(pid), "-f", form, "-o", path)
    if result.returncode:
        raise RuntimeError(result.stderr)
    with open(path, "rb") as file:
        return file.read()


def published(checks, bench):
    """In each of the ways in which programs publish; again, and after exec."""
    daemon = Daemon(bench, "published")
    for way in ("memfd", "anon", "resource"):
        program = Publisher(bench, way, *SHOP)
        if way == "anon" and not contexts(program.pid):
            print("# anon: this kernel shows no names of memory")
            program.end()
            continue
        daemon.attach(program.pid)
        checks.ok(f"{way}: name is found", has_name(daemon, program.pid,
                                                    "shop"))
        found = service(daemon, program.pid)
        checks.ok(f"{way}: version, namespace, instance, environment",
                  [found.get(key) for key in
                   ("version", "namespace", "instance", "environment")] ==
                  ["1.4", "web", "i-7", "staging"], found)
        shown = bench.run("--socket", daemon.socket, "targets").stdout
        checks.ok(f"{way}: targets has a column of services", re.search(
            r"^ +pid  name +service +threads .*\n(.*\n)* *%d  \S+ +shop +\d+ "
            % program.pid, shown), shown)
        program.publish(way, "service.name=barn")
        checks.ok(f"{way}: what is published again takes its place",
                  has_name(daemon, program.pid, "barn") and
                  "version" not in service(daemon, program.pid))
        program.end()
    program = Publisher(bench, "memfd", "service.name=" + "ü" * 200,
                        "service.version=1")
    daemon.attach(program.pid)
    checks.ok("long name is cut between characters",
              has_name(daemon, program.pid, "ü" * 127))
    program.end()
    daemon.end()


def asleep(checks, bench):
    """A program that publishes after it was attached, and then sleeps."""
    daemon = Daemon(bench, "asleep")
    program = Publisher(bench, "none")
    daemon.attach(program.pid)
    time.sleep(1.5)
    program.publish("silent", *SHOP)
    checks.ok("sleeper's name is found", has_name(daemon, program.pid, "shop"))
    program.end()
    daemon.end()


def misled(checks, bench):
    """Contexts that lie: the target keeps its process's name, and all targets
    are sampled."""
    daemon = Daemon(bench, "misled")
    programs = {way: Publisher(bench, way, *SHOP) for way in
                ("writing", "endless", "nowhere", "changing", "garbage")}
    honest = Publisher(bench, "memfd", *SHOP)
    for program in [*programs.values(), honest]:
        daemon.attach(program.pid)
    checks.ok("honest neighbour is named", has_name(daemon, honest.pid, "shop"))
    before = {pid: target["ticks"] for pid, target in targets(daemon).items()}
    time.sleep(3)
    after = targets(daemon)
    for way, program in programs.items():
        checks.ok(f"{way}: process's name",
                  after[program.pid]["service"]["name"] in ("context", "shop")
                  if way == "changing" else
                  after[program.pid]["service"]["name"] == "context",
                  after[program.pid]["service"])
    checks.ok("all are sampled", all(
        after[pid]["ticks"] > count + 30 for pid, count in before.items()),
        [after[pid]["ticks"] - count for pid, count in before.items()])
    checks.ok("nothing is given up", all(
        target["alive"] for target in after.values()))
    for program in [*programs.values(), honest]:
        program.end()
    daemon.end()


def attribute(key, value):
    """The bytes of a KeyValue with a string."""
    key, value = key.encode(), value.encode()
    text = b"\n" + bytes([len(value)]) + value
    return b"\n" + bytes([len(key)]) + key + \
        b"\x12" + bytes([len(text)]) + text


def shown(checks, bench):
    """In .fgt, Chrome traces, envelopes and pprof."""
    daemon = Daemon(bench, "shown",
                    'upload: { release = "conf@0"; environment = "conf"; };')
    program = Publisher(bench, "memfd", *SHOP)
    daemon.attach(program.pid)
    has_name(daemon, program.pid, "shop")
    time.sleep(2.2)
    kept = read_fgt.Slice(slice_of(bench, daemon, program.pid, "fgt", "s.fgt"))
    checks.ok(".fgt has the service",
              kept.service["name"] == b"shop" and
              kept.service["environment"] == b"staging", kept.service)
    chrome = json.loads(slice_of(bench, daemon, program.pid, "chrome",
                                 "s.trace.json"))["otherData"]
    checks.ok("Chrome trace has the service",
              chrome["service.name"] == "shop" and
              chrome["deployment.environment.name"] == "staging", chrome)
    for form, kind in (("sentry", "transaction"),
                       ("sentry-chunk", "profile_chunk")):
        lines = slice_of(bench, daemon, program.pid, form,
                         f"{form}.envelope").split(b"\n")
        item = json.loads(lines[2])
        checks.ok(f"{form}: release and environment of the program",
                  json.loads(lines[1])["type"] == kind and
                  (item["release"], item["environment"]) ==
                  ("shop@1.4", "staging"), item.get("release"))
    pprof = gzip.decompress(slice_of(bench, daemon, program.pid, "pprof",
                                     "s.pb.gz"))
    checks.ok("pprof has the service", b"service shop" in pprof)
    checks.ok("pprof has it in labels, too", all(
        bytes((0x32, len(text))) + text in pprof for text in (
            b"service", b"shop", b"version", b"1.4", b"environment",
            b"staging")), pprof[-400:])
    otlp = slice_of(bench, daemon, program.pid, "otlp", "s.otlp")
    checks.ok("OpenTelemetry's resource has the service", all(
        attribute(key, value) in otlp for key, value in (
            ("service.name", "shop"), ("service.version", "1.4"),
            ("deployment.environment.name", "staging"))))
    program.publish("memfd", "service.name=shop")
    until(lambda: "version" not in service(daemon, program.pid))
    lines = slice_of(bench, daemon, program.pid, "sentry",
                     "c.envelope").split(b"\n")
    item = json.loads(lines[2])
    checks.ok("without a version: no release is invented",
              "release" not in item and "environment" not in item, item)
    program.end()
    daemon.end()


def library(checks, bench):
    """What libfgtrace publishes, and what is left of it."""
    daemon = Daemon(bench, "library")
    for mode in ("agent", "embedded"):
        words = (mode, "name=till", "version=2.0", "environment=prod",
                 "instance=one")
        program = Named(bench, *words, f"socket={daemon.socket}")
        checks.ok(f"{mode}: one context", len(contexts(program.pid)) == 1,
                  contexts(program.pid))
        if mode == "embedded":
            daemon.attach(program.pid)
        checks.ok(f"{mode}: the agent finds the name",
                  until(lambda: program.pid in targets(daemon)) and
                  has_name(daemon, program.pid, "till"))
        found = service(daemon, program.pid)
        checks.ok(f"{mode}: version, instance, environment",
                  [found.get(key) for key in
                   ("version", "instance", "environment")] ==
                  ["2.0", "one", "prod"], found)
        child = int(program.ask("fork")[1])
        checks.ok(f"{mode}: a child has none", not contexts(child))
        heir = int(program.ask("heir")[1])
        checks.ok(f"{mode}: a child that starts has one",
                  len(contexts(heir)) == 1, contexts(heir))
        for pid in (child, heir):
            os.kill(pid, signal.SIGKILL)
        checks.ok(f"{mode}: nothing is left after a stop",
                  program.ask("stop") == ["stopped"] and
                  not contexts(program.pid), contexts(program.pid))
        checks.ok(f"{mode}: and again", program.ask("start") == ["started"] and
                  len(contexts(program.pid)) == 1)
        program.end()
    daemon.end()


def defaults(checks, bench):
    """Names that the program does not give in so many words."""
    daemon = Daemon(bench, "defaults")
    for name, words, environment, expected in (
            ("release", ["release=app@3.1"], {}, ("app", "3.1")),
            ("OTEL_SERVICE_NAME", [], {"OTEL_SERVICE_NAME": "otel"},
             ("otel", None)),
            ("FGTRACE_SERVICE_NAME", [], {"OTEL_SERVICE_NAME": "otel",
                                          "FGTRACE_SERVICE_NAME": "own"},
             ("own", None))):
        program = Named(bench, "embedded", *words, environment=environment)
        daemon.attach(program.pid)
        checks.ok(f"{name}: name and version",
                  has_name(daemon, program.pid, expected[0]) and
                  service(daemon, program.pid).get("version") == expected[1],
                  service(daemon, program.pid))
        checks.ok(f"{name}: the instance is a UUID", re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
            r"[0-9a-f]{12}", service(daemon, program.pid)["instance"]))
        program.end()
    program = Named(bench, "embedded")
    daemon.attach(program.pid)
    path = bench.path("unnamed.trace.json")
    time.sleep(2)
    checks.ok("without a name the context has neither name nor instance",
              contexts(program.pid) and
              service(daemon, program.pid) == {"name": "named"},
              service(daemon, program.pid))
    checks.ok("and slices are of the process",
              program.ask(f"write {path}") == ["wrote", "0"] and
              "service.name" not in json.load(open(path))["otherData"])
    program.end()
    daemon.end()


if __name__ == "__main__":
    run_groups([published, asleep, misled, shown, library, defaults])

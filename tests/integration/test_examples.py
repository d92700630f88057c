# SPDX-License-Identifier: Apache-2.0
"""The examples and the README's program, built as a user builds them.

usage: test_examples.py BUILD

Against the installed library, by pkg-config and by strict compilers; then they
run with an agent and without one, and upload to the test's server, which
checks what arrives.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
import urllib.request

from kit import check_speedscope, strict
from kit.harness import ROOT, Bench, Checks, read_until
from kit.library_bench import Installation
from kit.sentry_server import SentryServer
from kit.transact import check_wrong, received

EXAMPLES = f"{ROOT}/etc/example"
KEY = "0123456789abcdef0123456789abcdef"
STRICT_C = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
            "-g", "-O1"]
STRICT_CC = ["g++", "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror",
             "-g", "-O1"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
checks = Checks()
ok = checks.ok


class Arrived:
    """A transaction and the chunk of its profile, as they arrived."""

    def __init__(self, envelope):
        self.wrong = envelope.wrong
        self.transaction = envelope.transaction
        self.name = self.transaction["transaction"]
        self.chunk = envelope.chunk or {"profile": {"frames": []}}
        self.functions = {frame.get("function")
                          for frame in self.chunk["profile"]["frames"]}
        self.spans = {span.get("description") or span.get("op")
                      for span in self.transaction.get("spans", [])}


class Place:
    """The installed library, an agent, a server."""

    def __init__(self, bench):
        self.bench = bench
        self.installed = Installation(bench)
        self.environment = {
            **os.environ,
            "PKG_CONFIG_PATH": f"{self.installed.libdir}/pkgconfig",
            "LD_LIBRARY_PATH": self.installed.libdir}
        self.server = SentryServer()
        self.dsn = f"http://{KEY}@127.0.0.1:{self.server.port}/1"
        _, self.socket = bench.daemon("agent")

    def env(self, mode):
        """Environment of a program that records in this mode."""
        socket = self.socket if mode == "agent" else \
            self.bench.path("absent.sock")
        return {**self.environment, "FGTRACE_SOCKET": socket,
                "FGTRACE_DESTINATION": self.dsn}

    def build(self, name, command, source, *packages):
        out = self.bench.path(name)
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", *packages],
            env=self.environment, capture_output=True, text=True, check=True)
        result = subprocess.run(
            [*command, source, "-o", out, *shlex.split(flags.stdout)],
            capture_output=True, text=True)
        ok(f"{name} is built without a warning", result.returncode == 0,
           result.stderr[-400:])
        return out if result.returncode == 0 else None

    def arrived(self, count, seconds=20):
        """Waits for count envelopes; takes all that came."""
        until = time.monotonic() + seconds
        while (len(self.server.transactions()) < count and
               time.monotonic() < until):
            time.sleep(0.1)
        time.sleep(0.3)  # an envelope that must not come
        found = received(self.bench, self.server)
        self.server.requests.clear()
        check_wrong(checks, "arrived", found)
        return [Arrived(one) for one in found if one.transaction]


def get(port, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def ask_all(port):
    """Quick requests beside a slow one, then one that fails."""
    others = [threading.Thread(target=get, args=(port, "/page"))
              for _ in range(20)]
    for other in others:
        other.start()
    status = get(port, "/slow?ms=600",
                 **{"sentry-trace": f"{TRACE}-00f067aa0ba902b7-1"})
    for other in others:
        other.join()
    time.sleep(1.2)  # the gap between two transactions that are kept
    return status, get(port, "/error")


def test_http_server(place, mode):
    program = place.bench.path("http_server")
    server = place.bench.start([program, "0", mode], env=place.env(mode),
                               stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    port = read_until(server.stdout, "ready ")
    time.sleep(0.5)
    statuses = ask_all(port)
    ok(f"{mode}: requests are answered", statuses == (200, 500), statuses)
    server.terminate()
    out, err = server.communicate(timeout=30)
    ok(f"{mode}: the server ends and prints what it kept",
       server.returncode == 0 and re.search(
           r"^2[0-9] transactions, 2 kept, 2 delivered$", out, re.M),
       f"{server.returncode} {out} {err}")
    found = {each.name: each for each in place.arrived(2)}
    ok(f"{mode}: the slow request and the failed one arrive, no other",
       set(found) == {"GET /slow", "GET /error"}, list(found))
    for name, each in found.items():
        ok(f"{mode}: Relay takes {name}", not each.wrong, each.wrong)
    check_slow(mode, found.get("GET /slow"))


def check_slow(mode, slow):
    if not ok(f"{mode}: the slow request is there", slow):
        return
    ok(f"{mode}: its profile shows where it waited",
       "query_database" in slow.functions, sorted(slow.functions)[:40])
    trace = slow.transaction["contexts"]["trace"]
    ok(f"{mode}: it goes on the caller's trace",
       trace["trace_id"] == TRACE and
       trace.get("parent_span_id") == "00f067aa0ba902b7", trace)
    length = slow.transaction["timestamp"] - \
        slow.transaction["start_timestamp"]
    ok(f"{mode}: it lasts as long as it did", 0.55 < length < 2.0, length)
    ok(f"{mode}: its spans came along", {"query", "render"} <= slow.spans,
       slow.spans)


def test_thread_pool(place, mode):
    program = place.bench.path("thread_pool")
    result = subprocess.run([program, "100", mode], env=place.env(mode),
                            capture_output=True, text=True, timeout=120)
    ok(f"{mode}: exceptions come through while it is recorded",
       result.stdout == "100 jobs, 20 failed; 1 kept, 1 delivered, "
       "0 misuses\n", result.stdout + result.stderr)
    found = place.arrived(1)
    if not ok(f"{mode}: the batch arrives", len(found) == 1, len(found)):
        return
    batch = found[0]
    ok(f"{mode}: Relay takes the batch", not batch.wrong, batch.wrong)
    ok(f"{mode}: its profile shows the work of other threads",
       any("count_primes" in name for name in batch.functions),
       sorted(batch.functions)[:40])
    threads = batch.chunk["profile"]["thread_metadata"]
    ok(f"{mode}: it holds the threads that worked for it",
       2 <= len(threads) <= 5, threads)


def test_python_host(place, mode):
    path = place.bench.path(f"host-{mode}.speedscope.json")
    result = subprocess.run([sys.executable, f"{EXAMPLES}/host.py", path,
                             mode], env=place.env(mode),
                            capture_output=True, text=True, timeout=120)
    ok(f"{mode}: Python records itself", result.returncode == 0,
       result.stderr[-400:])
    if result.returncode != 0:
        return
    try:
        print(f"# {mode}: host.py: {check_speedscope.check(path)}")
    except strict.Wrong as wrong:
        ok(f"{mode}: host.py's file", False, wrong)
    with open(path, encoding="utf-8") as file:
        names = {frame["name"] for frame in
                 json.load(file)["shared"]["frames"]}
    ok(f"{mode}: the file shows the hash and the sleep",
       any("sha256" in name.lower() or "EVP" in name for name in names) and
       any("nanosleep" in name or "select" in name for name in names),
       sorted(names)[:60])
    found = place.arrived(1)
    ok(f"{mode}: Python's transaction arrives",
       [each.name for each in found] == ["hashes"] and not found[0].wrong,
       [each.wrong for each in found])


def read_readme():
    """The program and its two commands in the README."""
    with open(f"{ROOT}/README.md", encoding="utf-8") as file:
        text = file.read()
    part = text.partition("\n## The library\n")[2].partition("\n## ")[0]
    blocks = [[]]
    for line in part.split("\n"):
        if line.startswith("    ") or (not line and blocks[-1]):
            blocks[-1].append(line[4:])
        elif blocks[-1]:
            blocks.append([])
    code = next(b for b in blocks if b and b[0].startswith("#include"))
    commands = next(b for b in blocks if b and b[0].startswith("cc "))
    return "\n".join(code).rstrip() + "\n", [c for c in commands if c]


def test_readme(place, mode):
    folder = place.bench.path(f"readme-{mode}")
    os.makedirs(folder)
    code, commands = read_readme()
    ok("the README's program has at most 12 lines",
       0 < code.count("\n") <= 12, code)
    with open(f"{folder}/report.c", "w") as file:
        file.write(code)
    environment = place.env(mode)
    for command in commands:
        command = re.sub(r"https://\S+", place.dsn, command)
        result = subprocess.run(command, shell=True, cwd=folder, text=True,
                                env=environment, capture_output=True,
                                timeout=60)
        ok(f"{mode}: README: {command.split()[0]} works",
           result.returncode == 0 and not result.stderr,
           f"{command}: {result.returncode} {result.stderr}")
    found = place.arrived(1)
    ok(f"{mode}: the README's profile arrives", len(found) == 1 and
       not found[0].wrong and "main" in found[0].functions,
       [each.wrong for each in found])
    test_recorded_too(mode, environment, folder)


def test_recorded_too(mode, environment, folder):
    """A program that starts and stops by itself, and is recorded as well."""
    out = f"{folder}/out.{{pid}}.%p.folded"
    program = subprocess.Popen(
        [f"{folder}/report"], cwd=folder, stderr=subprocess.PIPE, text=True,
        env={**environment, "FGTRACE_OUT": out, "FGTRACE_DESTINATION": ""})
    errors = program.communicate(timeout=60)[1]
    number = str(program.pid)
    path = out.replace("{pid}", number).replace("%p", number)
    text = ""
    if os.path.exists(path):
        with open(path) as file:
            text = file.read()
    ok(f"{mode}: FGTRACE_OUT records the README's program whole",
       program.returncode == 0 and not errors and "main" in text,
       f"{program.returncode} {errors} {text[:200]}")


def main():
    bench = Bench(sys.argv[1])
    try:
        place = Place(bench)
        programs = [
            place.build("http_server", STRICT_C, f"{EXAMPLES}/http_server.c",
                        "fgtrace", "libmicrohttpd"),
            place.build("thread_pool", STRICT_CC,
                        f"{EXAMPLES}/thread_pool.cc", "fgtrace")]
        for mode in ("agent", "embedded"):
            if programs[0]:
                test_http_server(place, mode)
            if programs[1]:
                test_thread_pool(place, mode)
            test_python_host(place, mode)
            test_readme(place, mode)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

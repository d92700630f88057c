# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the command line: errors of one line, contents of
files, a busy process and a daemon that samples it.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import time

from kit.harness import Bench, Checks, read_until, run_checker

CHECKERS = {"chrome": "check_chrome_trace", "folded": "check_folded",
            "sentry": "check_sentry_envelope",
            "sentry-chunk": "check_sentry_chunk",
            "pprof": "check_pprof", "speedscope": "check_speedscope",
            "otlp": "delivery.check_otlp",
            "perfetto": "timeline.check_perfetto_trace"}

checks = Checks()
ok = checks.ok


def is_one_line(text):
    return text.count("\n") == 1 and text.endswith("\n") and \
        text.startswith("fgtrace-agent: ")


def expect_error(bench, name, status, part, *arguments, **more):
    """One line that names the cause and, behind ; : or ?, the remedy."""
    result = bench.run(*arguments, **more)
    text = result.stderr
    ok(f"{name}: exit {status}", result.returncode == status,
       f"{result.returncode}: {text}")
    ok(f"{name}: one line with a remedy",
       is_one_line(text) and part in text and
       re.search(r"; |: |did you mean", re.sub(
           r"^fgtrace-agent: (?:[a-z]+: )?", "", text)), repr(text))
    print(f"# {text.strip()}")


def check_content(name, path, form):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        content = file.read()
    if form == "chrome":
        is_good = len(json.loads(content)["traceEvents"]) > 2
    elif form == "sentry":
        is_good = b'"type":"profile"' in content
    elif form == "sentry-chunk":
        is_good = b'"type":"profile_chunk"' in content
    elif form == "speedscope":
        is_good = len(json.loads(content)["profiles"]) > 0
    elif form == "folded":
        is_good = re.match(rb"(?:.*;.* \d+\n)+$", content) is not None
    else:
        is_good = len(content) > 100
    ok(f"{name}: {form} is what it should be", is_good, content[:200])
    if form in CHECKERS:
        result = run_checker(CHECKERS[form], path)
        ok(f"{name}: {CHECKERS[form]} agrees", result.returncode == 0,
           (result.stdout + result.stderr)[-400:])


def summary(bench, *arguments, **more):
    result = bench.run(*arguments, "--json", **more)
    try:
        return json.loads(result.stdout)
    except ValueError:
        return {"error": result.stderr, "threads": [], "functions": []}


def start_busy(bench):
    """A process that keeps two CPUs busy; its pid."""
    busy = bench.start([bench.program("truth-fp"), "shares", "600"],
                       stdout=subprocess.PIPE, text=True)
    return int(read_until(busy.stdout, "ready "))


def start_sampling(bench, pid):
    """A daemon that has sampled the process for 5 s; its socket."""
    _, agent_socket = bench.daemon("agent")
    attach = bench.run("--socket", agent_socket, "attach", str(pid))
    ok("attach", attach.returncode == 0, attach.stderr)
    time.sleep(5)
    return agent_socket


def run_groups(run):
    """Calls run(bench), ends what it started and the script."""
    bench = Bench(sys.argv[1])
    try:
        run(bench)
    finally:
        bench.close()
    checks.finish()

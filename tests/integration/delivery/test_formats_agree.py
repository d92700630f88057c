# SPDX-License-Identifier: Apache-2.0
"""Do all formats show the same time for what real programs did?

usage: test_formats_agree.py BUILD

Each slice is recorded once, as .fgt, and converted into every format: the time
of each thread, state and function must agree (kit/compare_formats.py). Traces also draw what context switches show
between ticks, which the other formats do not: the slice is converted without
its switches. Programs whose spans know their trace: pprof and OTLP have the
ids, for as long as the spans last.
"""
import glob
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import compare_formats, real_programs, strict  # noqa: E402
from kit.cli_checks import ok, run_groups  # noqa: E402
from kit.crc32c import crc32c  # noqa: E402
from kit.delivery import check_otlp  # noqa: E402
from kit.harness import KIT, run_checker  # noqa: E402

ENDINGS = (".fgt", ".trace.json", ".envelope", ".chunk.envelope", ".pb.gz",
           ".folded", ".speedscope.json", ".otlp", ".sum.otlp", ".pftrace")
SECONDS = 2
# Periods: three sixteenths at most, and what a busy machine adds.
JITTER = 0.3


def convert(bench, source, prefix):
    """Every format, with states as roots; the first error."""
    for ending in ENDINGS:
        shape = "sum" if ending == ".sum.otlp" else "timestamps"
        result = bench.run("convert", source, "-o", prefix + ending,
                           "--state-frames", "root", "--otlp-shape", shape,
                           "-q")
        if result.returncode != 0:
            return f"{ending}: {result.stderr}"
    return None


def compare(name, bench, source):
    prefix = bench.path(f"{name}-root")
    wrong = convert(bench, source, prefix)
    if not ok(f"{name}: is converted into every format", not wrong, wrong):
        return
    for checker, ending in (("delivery.check_otlp", ".otlp"),
                            ("delivery.check_otlp", ".sum.otlp"),
                            ("check_pprof", ".pb.gz")):
        result = run_checker(checker, prefix + ending)
        ok(f"{name}: {ending} keeps all rules", result.returncode == 0,
           result.stderr[-300:])
        print(f"# {result.stdout.strip()[-300:]}")
    try:
        compare_formats.compare(prefix, JITTER)
        wrong = None
    except strict.Wrong as differs:
        wrong = differs
    ok(f"{name}: all formats show the same times", not wrong, wrong)


def leave_out_switches(path):
    """Readers skip a key that they do not know."""
    with open(path, "rb") as file:
        data = file.read()
    if data.count(b"\xa5edges") == 1:
        data = data[:-4].replace(b"\xa5edges", b"\xa5edgez")
        with open(path, "wb") as file:
            file.write(data + crc32c(data).to_bytes(4, "big"))


def record(name, bench, *arguments):
    path = bench.path(f"{name}.fgt")
    result = bench.run("record", "-q", "-d", str(SECONDS), "-o", path,
                       *arguments)
    if ok(f"{name}: is recorded", result.returncode == 0 and
          os.path.exists(path), result.stderr):
        leave_out_switches(path)
        compare(name, bench, path)


def test_programs(bench):
    redis, load = real_programs.redis(bench)
    time.sleep(0.5)
    record("redis", bench, "-p", str(redis))
    load.terminate()
    record("shares", bench, "--", bench.program("truth-fp"), "shares",
           str(SECONDS + 1))
    record("crowd", bench, "--", bench.program("crowd"), "2", "50", "30",
           str(SECONDS + 1))
    record("python", bench, "--", sys.executable, "-c",
           "import hashlib, threading, time\n"
           "def run():\n"
           "    while True:\n"
           "        hashlib.sha256(bytes(1 << 20)).digest()\n"
           "        time.sleep(0.003)\n"
           "for i in range(3):\n"
           "    threading.Thread(target=run, daemon=True).start()\n"
           f"time.sleep({SECONDS + 1})\n")


def expected_links(lines):
    """{(tid, trace id, span id): ns} that the program printed."""
    found = {}
    for line in lines.splitlines():
        tid, trace_id, span_id, ns = line.split()
        found[int(tid), trace_id, span_id] = int(ns)
    return found


def test_traces(bench):
    prefix = bench.path("installed")
    subprocess.run(["cmake", "--install", bench.build, "--prefix", prefix],
                   check=True, capture_output=True)
    library = glob.glob(f"{prefix}/lib/**/libfgtrace.so", recursive=True)[0]
    out = bench.path("traced")
    result = subprocess.run(
        [sys.executable, f"{KIT}/delivery/traced.py", out], text=True,
        capture_output=True, timeout=60,
        env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(library),
             "FGTRACE_SOCKET": bench.path("no.sock")})
    if not ok("a program records spans that know their trace",
              result.returncode == 0, result.stderr[-300:]):
        return
    wanted = expected_links(result.stdout)
    by_pprof = compare_formats.read_pprof(out + ".pb.gz")[2]
    otlp = check_otlp.read(out + ".otlp")
    ok("pprof and OTLP agree on the spans", otlp.links() == by_pprof and
       by_pprof.keys() == wanted.keys(), (otlp.links(), by_pprof, wanted))
    # A tick more or less at each end, and what a busy machine misses.
    ok("samples of a span last as long as the span",
       all(abs(by_pprof[key] - ns) < 0.03e9 + ns / 10
           for key, ns in wanted.items()), (by_pprof, wanted))
    total = sum(sum(stacks.values()) for stacks in otlp.stacks().values())
    ok("what lies outside of spans has no link",
       sum(by_pprof.values()) < 0.9 * total, (by_pprof, total))
    result = bench.run("convert", out + ".fgt", "-o", out + ".again.otlp",
                       "-q")
    ok("a slice that is converted later has the same spans",
       result.returncode == 0 and
       check_otlp.read(out + ".again.otlp").links() == by_pprof,
       result.stderr)


def run(bench):
    test_programs(bench)
    test_traces(bench)


if __name__ == "__main__":
    run_groups(run)

# SPDX-License-Identifier: Apache-2.0
"""Samples carry the trace that their thread works for, as the program publishes
it (OTEP 4947): a program that has a function for each trace, and knows when.
test_traces.py BUILD; with FGT_TESTS_SOAK also libraries by each dialect."""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.delivery import check_otlp  # noqa: E402
from kit.harness import (  # noqa: E402
    Bench, Checks, as_user, read_until)
from kit.read_fgt import Slice  # noqa: E402

SHORT_MS = "40"  # spans of 0.1 s
TRACES = {n: f"fe{n:030x}" for n in (1, 2, 3, 4)}
checks = Checks()
ok = checks.ok


def count(lines):
    """{number of a trace: samples in its function} of folded lines."""
    found = {}
    for line in lines.splitlines():
        stack, samples = line.rsplit(" ", 1)
        name = re.search(r"span_of_(\d)", stack)
        number = int(name[1]) if name else 0
        found[number] = found.get(number, 0) + int(samples)
    return found


def check_stacks(bench, path, name, most):
    """No trace has a stack of another one."""
    total = wrong = 0
    for number, trace in TRACES.items():
        found = count(bench.run("convert", path, "--trace-id", trace, "-f",
                                "folded", "-o", "-", "-q").stdout)
        total += sum(found.values())
        wrong += sum(n for other, n in found.items() if other not in
                     (0, number))
    print(f"# {name}: {wrong} of {total} stacks are of another trace",
          flush=True)
    ok(f"{name}: at most {100 * most} % of stacks are of another trace",
       wrong <= most * total, (wrong, total))


def at(spans, tick_ns):
    return next((trace for begin, end, trace in spans
                 if begin <= tick_ns <= end), 0)


def check_times(path, name, truth, least):
    """truth: {thread: its spans}, as the program knows them."""
    with open(path, "rb") as file:
        found = Slice(file.read())
    numbers = {span: int(found.string(value)[-2:], 16)
               for span, key, value in found.labels
               if found.string(key) == b"trace_id"}
    shown = {}
    for i, (*_, begin, end, _, tid) in enumerate(found.spans):
        shown.setdefault(tid, []).append((begin, end or 2 ** 64, numbers[i]))
    sums = {"right": 0, "none": 0, "wrong": 0}
    for thread, first, ticks, *_ in found.runs:
        tid = found.threads[thread][0]
        for tick in range(first, first + ticks):
            tick_ns = found.ticks[tick][0]
            want = at(truth.get(tid, ()), tick_ns)
            got = at(shown.get(tid, ()), tick_ns)
            if want:
                sums["right" if got == want else "wrong" if got else
                     "none"] += 1
    total = sum(sums.values())
    print(f"# {name}: samples in spans, by their time: {sums}", flush=True)
    ok(f"{name}: there are samples", total > 500, total)
    ok(f"{name}: {100 * least} % of samples in spans have the right trace",
       sums["right"] >= least * total, sums)
    ok(f"{name}: at most 0.05 % have another one",
       sums["wrong"] <= 0.0005 * total, sums)


def read_truth(child):
    truth = {}
    for line in child.communicate("", timeout=10)[0].splitlines():
        word, tid, trace, begin, end = line.split()
        truth.setdefault(int(tid), []).append(
            (int(begin), int(end), int(trace)))
    return truth


def check_traces(bench, name, recorded, least=0.999, most=0.001):
    path, truth = recorded
    check_times(path, name, truth, least)
    check_stacks(bench, path, name, most)


def record(bench, socket, name, arguments, preload=None, seconds=6,
           as_nobody=False):
    """The slice, and what the program knows."""
    env = {**os.environ, "LD_PRELOAD": preload} if preload else None
    child = bench.start(arguments, as_nobody, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, text=True, env=env)
    pid = read_until(child.stdout, "ready ")
    bench.run("--socket", socket, "attach", pid, as_nobody=as_nobody)
    time.sleep(seconds + 3)
    path = bench.path(f"{name}.fgt")
    result = bench.run("--socket", socket, "slice", "-p", pid, "--last",
                       f"{seconds}s", "-q", "-o", path)
    ok(f"{name}: a slice", result.returncode == 0, result.stderr)
    # The last spans of the slice end, too.
    time.sleep(1.5)
    return path, read_truth(child)


def record_alone(bench, name, arguments, as_nobody, seconds=6):
    """The same without a daemon."""
    child = bench.start(arguments, as_nobody, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    path = bench.path(f"{name}.fgt")
    with open(path, "wb") as file:
        result = subprocess.run(
            as_user([bench.agent, "record", "-q", "-d", str(seconds), "-p", pid,
                     "-f", "fgt", "-o", "-"], as_nobody),
            stdout=file, stderr=subprocess.PIPE, check=False)
    ok(f"{name}: a slice", result.returncode == 0, result.stderr)
    time.sleep(1.5)
    return path, read_truth(child)


def test_ordinary_user(bench):
    """A daemon and a recording of an ordinary user, whose samples come after
    their ticks, and a recording of root."""
    own = shutil.copy2(bench.program("traced-own"), bench.copy_for_nobody())
    _, socket = bench.daemon("user", as_nobody=True)
    check_traces(bench, "user", record(
        bench, socket, "user", [own, "pointer"], as_nobody=True), 0.998, 0.005)
    check_traces(bench, "user-record", record_alone(
        bench, "user-record", [own, "pointer"], True), 0.998, 0.005)
    check_traces(bench, "record", record_alone(
        bench, "record", [own, "pointer"], False), 0.998)


def check_none(bench, path, name):
    result = bench.run("convert", path, "--trace-id", TRACES[1], "-f",
                       "folded", "-o", "-")
    ok(f"{name}: no trace", result.returncode == 5, result.stderr)


def check_links(bench, path):
    """Each sample in a trace's function has a link to that trace."""
    out = bench.path("own.otlp")
    bench.run("convert", path, "-q", "-o", out)
    sums = {"right": 0, "none": 0, "wrong": 0}
    for _, names, link, ns, _ in check_otlp.read(out).samples:
        trace = next((TRACES.get(int(name[-1])) for name in names
                      if re.fullmatch("span_of_[0-9]", name)), None)
        if trace:
            sums["none" if not link else
                 "right" if link[0] == trace else "wrong"] += ns
    total = sum(sums.values())
    print(f"# OTLP: ns of samples by their link: {sums}", flush=True)
    ok("OTLP: samples of a trace have links to it", total > 1e9 and
       sums["right"] >= 0.998 * total and sums["wrong"] <= 0.001 * total, sums)


def check_formats(bench, path):
    check_links(bench, path)
    text = bench.run("convert", path, "-f", "chrome", "-o", "-", "-q").stdout
    ok("Chrome has the spans with their trace",
       "OpenTelemetry span" in text and TRACES[1] in text)
    result = bench.run("why", path, "--transaction", TRACES[2])
    ok("why explains a trace", result.returncode == 0 and
       "sleep_ms" in result.stdout, (result.stdout, result.stderr))


def main():
    bench = Bench(sys.argv[1])
    library = {dialect: bench.program(f"libtraced-{dialect}.so")
               for dialect in ("gnu", "gnu2")}
    try:
        _, socket = bench.daemon("traces")
        own, other = bench.program("traced-own"), bench.program("traced")
        recorded = record(bench, socket, "own", [own, "pointer"])
        check_traces(bench, "own", recorded)
        check_formats(bench, recorded[0])
        # A context is read some 0.1 ms after its sample: 0.06 % are expected
        # to have none.
        check_traces(bench, "short", record(
            bench, socket, "short", [own, "in-place", SHORT_MS], seconds=12),
            0.998)
        check_traces(bench, "transactions", record(
            bench, socket, "transactions",
            [bench.program("traced-transactions"), socket]))
        check_traces(bench, "gnu2", record(
            bench, socket, "gnu2", [other, library["gnu2"], "in-place"]))
        for dialect in library if os.environ.get("FGT_TESTS_SOAK") else ():
            for name, preload in (("pointer", None),
                                  ("early", library[dialect])):
                name = f"{name}-{dialect}"
                check_traces(bench, name, record(
                    bench, socket, name, [other, library[dialect], "pointer"],
                    preload=preload))
        test_ordinary_user(bench)
        for way in ("hostile", "silent"):
            path, _ = record(bench, socket, way, [own, way], seconds=2)
            check_none(bench, path, way)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Samples carry the trace that their thread works for, as the program publishes
it (OTEP 4947): a program that has a function for each trace.
test_traces.py BUILD; with FGT_TESTS_SOAK also libraries by each dialect."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import Bench, Checks, read_until  # noqa: E402

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


def check_traces(bench, path, name):
    """Of all samples in a function of a trace, how many are of that trace."""
    everything = count(bench.run("convert", path, "-f", "folded", "-o", "-",
                                 "-q").stdout)
    total = sum(n for number, n in everything.items() if number)
    right = wrong = outside = 0
    for number, trace in TRACES.items():
        found = count(bench.run("convert", path, "--trace-id", trace, "-f",
                                "folded", "-o", "-", "-q").stdout)
        right += found.get(number, 0)
        outside += found.get(0, 0)
        wrong += sum(n for other, n in found.items() if other not in
                     (0, number))
    print(f"# {name}: {right} of {total} samples in spans have the right "
          f"trace, {wrong} another one; {outside} around spans", flush=True)
    ok(f"{name}: there are samples", total > 1000, everything)
    # A running thread's context is read a moment after its sample.
    ok(f"{name}: 99.5 % of samples in spans have the right trace",
       right >= 0.995 * total, (right, total))
    ok(f"{name}: at most 0.5 % have another one", wrong <= 0.005 * total, wrong)


def record(bench, socket, name, arguments, preload=None, seconds=6):
    env = {**os.environ, "LD_PRELOAD": preload} if preload else None
    child = bench.start(arguments, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, text=True, env=env)
    pid = read_until(child.stdout, "ready ")
    bench.run("--socket", socket, "attach", pid)
    time.sleep(seconds + 3)
    path = bench.path(f"{name}.fgt")
    result = bench.run("--socket", socket, "slice", "-p", pid, "--last",
                       f"{seconds}s", "-q", "-o", path)
    child.stdin.close()
    child.wait(10)
    ok(f"{name}: a slice", result.returncode == 0, result.stderr)
    return path


def check_none(bench, path, name):
    result = bench.run("convert", path, "--trace-id", TRACES[1], "-f",
                       "folded", "-o", "-")
    ok(f"{name}: no trace", result.returncode == 5, result.stderr)


def check_formats(bench, path):
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
        path = record(bench, socket, "own", [own, "pointer"])
        check_traces(bench, path, "own")
        check_formats(bench, path)
        path = record(bench, socket, "gnu2",
                      [other, library["gnu2"], "in-place"])
        check_traces(bench, path, "gnu2")
        for dialect in library if os.environ.get("FGT_TESTS_SOAK") else ():
            path = record(bench, socket, f"pointer-{dialect}",
                          [other, library[dialect], "pointer"])
            check_traces(bench, path, f"pointer-{dialect}")
            path = record(bench, socket, f"early-{dialect}",
                          [other, library[dialect], "pointer"],
                          preload=library[dialect])
            check_traces(bench, path, f"early-{dialect}")
        for way in ("hostile", "silent"):
            path = record(bench, socket, way, [own, way], seconds=2)
            check_none(bench, path, way)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

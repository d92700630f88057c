#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: what fgtrace costs and sees beside other profilers.

In one run and in alternation: fgtrace as root, with BPF and without, and as an
ordinary user, perf record with --call-graph dwarf and with -g, gperftools' CPU
profiler and fgprof, on 2 busy threads beside N blocked ones and on a pair of threads that
does nothing but switch. Then the costs of the ring, of slices and of a tick,
and the cost of libfgtrace for an HTTP server.

Prints a table, and writes it with a chart and the raw figures into the build
folder: bench.txt, bench.svg, bench.json. Nothing passes or fails.
"""
import argparse
import dataclasses
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.dont_write_bytecode = True

import callgrind  # noqa: E402
import chart  # noqa: E402
import compare  # noqa: E402
import machine  # noqa: E402
import profilers  # noqa: E402
import server  # noqa: E402
import slices  # noqa: E402
import switches  # noqa: E402
import table  # noqa: E402
import targets  # noqa: E402

SECTIONS = ("crowd", "pair", "switch", "tick", "parts", "slices", "stacks",
            "delivery", "continuous", "server")
PROGRAMS = (("bench_unwind", "the unwinder, on a copy of its stack"),
            ("bench_ring", "the ring and the encoders, in memory"),
            ("bench_spans", "what a span costs the program (budget: 150 ns)"),
            ("bench_transactions", "transactions (budget of finish: 5000 ns)"),
            ("bench_calls", "what the system calls of a tick cost here"))
PAIR_DEPTH = 10


def build(folder):
    subprocess.run([f"{ROOT}/etc/install-packages", "build", "bench"],
                   check=True)
    for command in (["cmake", "--preset", "release", "-B", folder,
                     "-DFGT_BENCH=ON"],
                    ["cmake", "--build", folder]):
        subprocess.run(command, cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)


def build_go(folder, out):
    """With Debian's sources of fgprof and without the network."""
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "",
                   "GOPATH": "/usr/share/gocode", "CGO_ENABLED": "0",
                   "GOCACHE": f"{folder}/go-cache"}
    result = subprocess.run(
        ["go", "build", "-o", out, f"{ROOT}/tests/bench/crowd.go"],
        env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        print("crowd.go: " + result.stderr, file=sys.stderr)


def set_stage(folder, scratch):
    """Programs where an ordinary user may run them."""
    os.chmod(scratch, 0o755)
    for name in ("bin", "out", "root", "user"):
        os.mkdir(f"{scratch}/{name}", 0o755)
    for program in ("fgtrace-agent", "tests/programs/crowd",
                    "tests/programs/pair"):
        shutil.copy2(f"{folder}/{program}", f"{scratch}/bin")
    build_go(folder, f"{scratch}/bin/crowd-go")
    if machine.is_root():
        for name in ("out", "user"):
            os.chown(f"{scratch}/{name}", machine.NOBODY, machine.NOBODY)
    for name in ("root", "user"):
        os.chmod(f"{scratch}/{name}", 0o750)
    return targets.Stage(folder, scratch)


class Report:
    """Prints every line, and keeps it for the files."""

    def __init__(self, folder):
        self.folder, self.text = folder, ""
        self.figures = {"machine": machine.describe(), "sections": []}

    def put(self, text):
        print(text, flush=True)
        self.text += text + "\n"

    def add(self, rows, **keys):
        self.figures["sections"].append(
            {**keys, "rows": [dataclasses.asdict(row) for row in rows]})
        self.write()

    def write(self):
        """Called after each part: an interrupted run leaves its figures."""
        with open(f"{self.folder}/bench.json", "w") as file:
            json.dump(self.figures, file, indent=1)
        with open(f"{self.folder}/bench.txt", "w") as file:
            file.write(self.text)
        chart.draw(self.figures, f"{self.folder}/bench.svg")


def run_comparison(title, start, inside, arguments, stage, report, until,
                   **keys):
    """inside: (profiler, how to start its target) of profilers that run in
    their target."""
    try:
        rows = compare.run(start, profilers.outside(stage), inside,
                           arguments.rounds, arguments.seconds, until)
    except machine.NotRun as error:
        report.put(f"{title}\n  not run: {error}\n")
        return
    report.put(table.of_rows(title, rows))
    report.add(rows, **keys)


def run_crowds(arguments, stage, report, until):
    for depth, blocked in itertools.product(
            map(int, arguments.depths.split(",")),
            map(int, arguments.blocked.split(","))):
        run_comparison(
            f"{targets.BUSY} busy + {blocked} blocked threads, depth {depth}",
            functools.partial(stage.crowd, blocked, depth),
            [(one, functools.partial(make, blocked, depth))
             for one, make in profilers.inside(stage)],
            arguments, stage, report, until,
            kind="crowd", blocked=blocked, depth=depth)


def run_pair(arguments, stage, report, until):
    run_comparison(
        "switch-heavy pair: 2 threads on one processor wake each other "
        f"through pipes, depth {PAIR_DEPTH}",
        functools.partial(stage.pair, PAIR_DEPTH),
        [(one, functools.partial(make, PAIR_DEPTH))
         for one, make in profilers.inside_pair(stage)],
        arguments, stage, report, until, kind="pair", depth=PAIR_DEPTH)


def run_programs(stage, report):
    for name, title in PROGRAMS:
        result = subprocess.run([f"{stage.build}/tests/bench/{name}"],
                                capture_output=True, text=True)
        text = result.stdout or f"not run: {result.stderr.strip()}\n"
        report.put(f"{title}\n" + "".join(
            f"  {line}\n" for line in text.splitlines()))


def run_many_slices(arguments, stage, report):
    more = ["--rounds", "1", "--seconds", "1"] if arguments.quick else []
    result = subprocess.run([f"{ROOT}/tests/bench/bench_slice.py",
                             "--ring", str(arguments.ring), *more,
                             stage.build], capture_output=True, text=True)
    report.put(result.stdout or f"not run: {result.stderr.strip()}\n")
    result = subprocess.run([f"{ROOT}/tests/bench/bench_sizes.py", "--ring",
                             str(arguments.ring), stage.build],
                            capture_output=True, text=True)
    report.put(result.stdout or f"not run: {result.stderr.strip()}\n")


def run_delivery(arguments, stage, report):
    more = ["--slices", "60"] if arguments.quick else []
    result = subprocess.run([f"{ROOT}/tests/bench/delivery/bench_delivery.py",
                             *more, stage.build], capture_output=True,
                            text=True)
    report.put(result.stdout or f"not run: {result.stderr.strip()}\n")


def run_continuous(arguments, stage, report):
    result = subprocess.run(
        [sys.executable, f"{ROOT}/tests/bench/bench_continuous.py",
         stage.build, *(("10", "5") if arguments.quick else ("60", "20"))],
        capture_output=True, text=True)
    report.put(result.stdout or f"not run: {result.stderr.strip()[-300:]}\n")


def run_sections(arguments, stage, report):
    until = time.monotonic() + 60 * arguments.minutes
    wanted = arguments.only.split(",")
    # The short parts first, so that they always have time.
    if "tick" in wanted:
        report.put(callgrind.table(stage))
        report.put(callgrind.of_spans(stage))
    if "parts" in wanted:
        run_programs(stage, report)
    if "slices" in wanted:
        report.put(slices.table(stage, profilers.outside(stage)[0],
                                arguments.rounds, arguments.ring))
        run_many_slices(arguments, stage, report)
    if "stacks" in wanted:
        report.put(slices.stacks_table(stage, profilers.outside(stage)[0],
                                       arguments.rounds))
    if "delivery" in wanted:
        run_delivery(arguments, stage, report)
    if "continuous" in wanted:
        run_continuous(arguments, stage, report)
    if "server" in wanted:
        report.put(server.table(stage, arguments.rounds,
                                arguments.seconds, arguments.paths))
    if "switch" in wanted:
        report.put(switches.table(stage, arguments.pairs, arguments.base))
    if "pair" in wanted:
        run_pair(arguments, stage, report, until)
    if "crowd" in wanted:
        run_crowds(arguments, stage, report, until)


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="tests/bench/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=f"{ROOT}/build/bench")
    parser.add_argument("--quick", action="store_true",
                        help="1 round, 1 s windows, N = 1000, depth 10, slices "
                        "of 4 s, one page of the server: at most 4 minutes "
                        "with packages and build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.2,
                        help="of each window (default: 1.2)")
    parser.add_argument("--blocked", default="10,100,1000,10000")
    parser.add_argument("--depths", default="10,50")
    parser.add_argument("--only", default=",".join(SECTIONS),
                        help="sections, of " + ",".join(SECTIONS))
    parser.add_argument("--minutes", type=float, default=24,
                        help="no further round begins after so long")
    parser.add_argument("--base", metavar="AGENT",
                        help="switch: compare with this fgtrace-agent, too")
    parser.add_argument("--draw", metavar="JSON",
                        help="only draw the chart of an earlier run again")
    arguments = parser.parse_args()
    arguments.ring, arguments.paths = 30, server.PATHS
    arguments.pairs = 15
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 1.0
        arguments.ring, arguments.paths = 4, ("/page",)
        arguments.pairs = 3
        arguments.blocked, arguments.depths = "1000", "10"
    arguments.build = os.path.abspath(arguments.build)
    unknown = set(arguments.only.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}")
    return arguments


def main():
    arguments = read_arguments()
    if arguments.draw:
        with open(arguments.draw) as file:
            chart.draw(json.load(file), f"{arguments.build}/bench.svg")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    build(arguments.build)
    descriptors = machine.raise_limits()
    report = Report(arguments.build)
    report.put(f"{report.figures['machine']}\n{machine.versions()}\n"
               f"each may open {descriptors} files; {arguments.rounds} "
               f"rounds, windows of {arguments.seconds} s\n\n"
               f"{table.LEGEND}\n")
    scratch = tempfile.mkdtemp(prefix="fgtrace-bench-")
    try:
        run_sections(arguments, set_stage(arguments.build, scratch), report)
        report.write()
        print(f"wrote {report.folder}/bench.txt, bench.svg, bench.json")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Programs behave the same with a recorder inside them (faults S1 to S19 of
agent/README.md, "Fault catalogue").

usage: test_library_faults.py BUILD [--one-way] [PATTERN]

Each program of tests/programs/lib prints what happened to it and exits 1 if
it was harmed. It runs plain, with the library preloaded at 1000 Hz (also as an
ordinary user), started by its own call, and with an agent: it must print the
same each time. Under a deliberately bad sampler it must print something
else, because a program that cannot be harmed proves nothing. With PATTERN only
rows whose name contains it; with --one-way each program is recorded in one of
its ways only, which differ from row to row.
"""
import concurrent.futures
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys

from kit.harness import Bench, Checks, as_user

PRELOAD, ORDINARY, STARTED, AGENT = (
    "preloaded", "as an ordinary user", "started", "with an agent")
EMBEDDED = (PRELOAD, STARTED)
ALL = (PRELOAD, ORDINARY, STARTED, AGENT)
# Only to end a hanging program: a busy machine forks slowly.
LIMIT_SECONDS = 240


class Row:
    """A program, how it is run, and a sampler that certainly harms it."""

    def __init__(self, name, program, *arguments, ways=EMBEDDED, bad=None,
                 plain=None, is_seen=True):
        self.name, self.program, self.arguments = name, program, arguments
        self.ways, self.bad, self.is_seen = ways, bad, is_seen
        self.plain = plain or arguments  # runs whose output must be the same


class Outcome:
    """How a run ended and its output, without the parts that may differ."""

    def __init__(self, status, text):
        lines = [line for line in text.split("\n")
                 if line and not line.startswith(("#", "ready "))]
        self.status = status
        self.lines = [re.sub(r"calls \d+", "calls", line) for line in lines]
        self.notes = [line for line in text.split("\n")
                      if line.startswith("#")]

    def same(self, other):
        return (self.status, self.lines) == (other.status, other.lines)

    def __str__(self):
        return f"{self.status} {self.lines[-8:]} after {self.notes[-3:]}"


class Zoo:
    """The installed library and the programs."""

    def __init__(self, bench):
        self.bench = bench
        prefix = bench.path("prefix")
        subprocess.run(["cmake", "--install", bench.build, "--prefix", prefix],
                       check=True, capture_output=True)
        found = glob.glob(f"{prefix}/lib/**/libfgtrace.so", recursive=True)
        self.library = found[0] if found else None
        # Where an ordinary user may run them.
        self.programs = bench.path("programs")
        shutil.copytree(bench.program("lib"), self.programs)
        shutil.copy2(bench.program("blockers"), self.programs)
        self.slices = bench.path("slices")
        os.mkdir(self.slices)
        os.chmod(self.slices, 0o777)
        self.bad = self.program("bad_sampler.so")
        self.number = 0
        self.socket = None

    def program(self, name):
        return os.path.join(self.programs, name)

    def start_agent(self):
        config = self.bench.path("agent.conf")
        with open(config, "w") as file:
            file.write("sampling: { hz = 1000; };\n")
        _, self.socket = self.bench.daemon("agent", "-c", config)

    def out(self):
        self.number += 1
        return os.path.join(self.slices, f"{self.number}.fgt")

    def variables(self, way, out):
        if way in (PRELOAD, ORDINARY):
            return {"LD_PRELOAD": self.library, "FGTRACE_OUT": out,
                    "FGTRACE_HZ": "1000"}
        if way == STARTED:
            return {"ZOO_LIBRARY": self.library, "ZOO_OUT": out,
                    "ZOO_START": "embedded"}
        if way == AGENT:
            return {"ZOO_LIBRARY": self.library, "ZOO_OUT": out,
                    "ZOO_START": "agent", "FGTRACE_SOCKET": self.socket}
        return {}

    def run(self, way, program, arguments, out=None, more=None, prefix=(),
            timeout=LIMIT_SECONDS):
        """Runs a program to its end, below prefix (which is not recorded)."""
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("FGTRACE_", "ZOO_"))}
        variables = self.variables(way, out or self.out()) | (more or {})
        if program == "blockers" and way in (STARTED, AGENT):
            variables["LD_PRELOAD"] = self.program("starter.so")
        if way == ORDINARY:
            prefix = (*prefix, *as_user([], True))
        command = [*prefix, "env", *(f"{key}={value}" for key, value in
                                     variables.items()),
                   self.program(program), *arguments]
        try:
            result = subprocess.run(command, env=env, text=True, timeout=timeout,
                                    stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, check=False)
        except subprocess.TimeoutExpired as late:
            return Outcome("no end", (late.stdout or b"").decode())
        return Outcome(result.returncode, result.stdout)

    def folded(self, path):
        """The folded recording, or why there is none."""
        if not os.path.exists(path):
            return "no file"
        result = self.bench.run("convert", path, "-o", "-", "-f", "folded")
        return result.stdout if result.returncode == 0 else result.stderr


ROWS = (
    Row("S1 blocking calls", "blockers", "2", ways=ALL, bad="signal"),
    Row("S1 calls after work", "blockers", "2", "spin", ways=ALL,
        bad="signal"),
    Row("S2 handlers swapped", "signals", "swap", "2", ways=ALL,
        bad="signal"),
    Row("S3 own signals", "signals", "raise", ways=ALL, bad="signal"),
    Row("S3 own signals, handled before", "signals", "raise", "early",
        ways=(STARTED, AGENT), is_seen=False),
    Row("S3 SIGURG by default", "signals", "default", "23"),
    Row("S3 SIGPROF by default", "signals", "default", "27", is_seen=False),
    Row("S3 a profiler in the program", "signals", "profile", "3", bad="signal",
        is_seen=False),
    Row("S3 a profiler's own timer", "signals", "profile", "4", "posix",
        bad="signal", is_seen=False),
    Row("S4 masked", "signals", "masked", "2", bad="signal", is_seen=False),
    Row("S5 sigwait", "signals", "wait", "2", bad="signal", is_seen=False),
    Row("S7 fork", "processes", "fork", "10000", ways=(PRELOAD,)),
    Row("S7 fork, started", "processes", "fork", "1000", ways=(STARTED, AGENT)),
    Row("S8 raw threads", "raw_threads", "2", bad="errno"),
    Row("S9 alternate stacks", "stack_room", "alternate", "16384"),
    Row("S9 alternate stacks, unused", "stack_room", "unused", "8192"),
    Row("S9 alternate stacks, crowded", "stack_room", "crowded", "8192"),
    Row("S9 alternate stacks, with room", "stack_room", "crowded", "16384"),
    Row("S9 stacks of coroutines", "coroutines", "2", bad="signal"),
    Row("S9 coroutines of the first thread", "coroutines", "2", "first",
        bad="signal"),
    Row("S10 headroom", "stack_room", "headroom", ways=ALL, bad="signal"),
    Row("S11 storm", "signals", "storm", "2"),
    Row("S12 unreadable stacks", "bad_stacks", "100", bad="frames"),
    Row("S13 churn", "churn", "3", "{plugin}", ways=(ORDINARY, STARTED),
        bad="malloc"),
    Row("S13 churn, longer", "churn", "20", "{plugin}", ways=(PRELOAD,),
        plain=("1", "{plugin}")),
    Row("S14 state", "state", "2", bad="errno"),
    Row("S16 static", "state-static", "1", ways=(PRELOAD,), is_seen=False),
    Row("S17 address sanitizer", "churn-asan", "2", "{plugin}",
        ways=(STARTED,)),
    Row("S18 io_uring", "workers", "2"),
    Row("S19 refused before", "filters", "before", "errno", ways=(STARTED,),
        is_seen=False),
    Row("S19 deadly before", "filters", "before", "kill", ways=(STARTED,),
        is_seen=False),
    Row("S19 refused to the first thread", "filters", "after", "errno"),
    Row("S19 deadly to the first thread", "filters", "after", "kill"),
    Row("S19 refused to all", "filters", "all", "errno"),
    Row("S19 deadly to all", "filters", "all", "kill", bad="signal"),
    Row("rights kept for its groups, started afterwards", "rights", "keep",
        "10", ways=(STARTED, AGENT)),
    Row("rights given up by the first thread", "rights", "drop", "10",
        ways=(PRELOAD, STARTED, AGENT), is_seen=False),
    Row("rights given up by a thread", "rights", "thread", "10",
        ways=(PRELOAD, STARTED, AGENT), is_seen=False),
    Row("rights given up, then confined", "rights", "confine", "5",
        ways=(PRELOAD, STARTED, AGENT), is_seen=False),
    Row("first thread ended", "leader", "300"),
    Row("jumps", "jumps", "2"),
    Row("exceptions, linked", "exceptions-linked", "2000"),
    Row("exceptions of a plug-in", "exceptions", "2000", "{thrower}"),
)


def recorded(zoo, row, way, out):
    """Whether the program's own functions are in what was recorded."""
    if not row.is_seen or way == AGENT:
        return True, ""
    text = zoo.folded(out)
    return "zoo_" in text or row.program == "blockers" and "block_" in text \
        or row.program == "blockers" and "spin" in text \
        or row.program.startswith("churn") and "churn" in text \
        or row.program == "state" and "look_at" in text, text[-300:]


def run_row(zoo, row, ways):
    """All runs of a row as (check, is right, why not)."""
    replace = {"{plugin}": zoo.program("plugin.so"),
               "{thrower}": zoo.program("exceptions-plugin.so")}
    arguments = [replace.get(a, a) for a in row.arguments]
    plain = zoo.run(None, row.program, [replace.get(a, a) for a in row.plain])
    results = []
    if plain.status == 77:
        print(f"# {row.name}: not possible here")
        return results
    is_death = row.name.startswith("S3 SIGPROF")
    results.append((f"{row.name}: plain", plain.status == (-27 if is_death
                                                           else 0),
                    str(plain)))
    for way in ways if zoo.library else ():
        out = zoo.out()
        outcome = zoo.run(way, row.program, arguments, out)
        results.append((f"{row.name}: {way} as plain", outcome.same(plain),
                        f"{outcome}, not {plain}"))
        is_seen, text = recorded(zoo, row, way, out)
        results.append((f"{row.name}: {way}, and was recorded", is_seen, text))
    if row.bad:
        outcome = zoo.run(None, row.program, arguments, timeout=9, more={
            "LD_PRELOAD": zoo.bad, "FGT_BAD": row.bad})
        results.append((f"{row.name}: notices a bad sampler",
                        not outcome.same(plain), str(outcome)))
    return results


def run_exec(zoo):
    """Fault S6: chains of programs; every second one has a recorder inside."""
    results = []
    for name, preload, more, runs in (
            ("exec", zoo.library, {"FGTRACE_HZ": "1000"}, "20"),
            # Whether a signal is pending at an exec is chance.
            ("bad", zoo.bad, {"FGT_BAD": "signal"}, "12")):
        if not preload:
            continue
        outcome = zoo.run(None, "processes", ["exec", runs, "200"],
                          more=more | {"ZOO_PRELOAD": preload,
                                       "FGTRACE_OUT": zoo.out()},
                          timeout=150)
        is_right = outcome.status == 0
        results.append((f"S6 {runs} x 200 execs" if name == "exec" else
                        "S6 notices a bad sampler",
                        is_right != (name == "bad"), str(outcome)))
    return results


def run_leader(zoo):
    """Whole stacks, although the first thread has ended."""
    out = zoo.out()
    zoo.run(PRELOAD, "leader", ["1500"], out)
    lines = [line for line in zoo.folded(out).splitlines()
             if "zoo_burn_ms" in line]
    count = {is_whole: sum(int(line.rsplit(" ", 1)[1]) for line in lines
                           if ("start_thread;" in line) == is_whole)
             for is_whole in (True, False)}
    return [("first thread ended: stacks are whole",
             count[True] > 500 and count[False] < count[True] / 10,
             f"{count} {lines[:3]}")]


def run_last_thread(zoo):
    """Fault S20: a program ends with the last of its threads."""
    results = []
    for way, how in itertools.product((PRELOAD, STARTED, AGENT),
                                      ("last", "call")):
        # Long enough that the first thread is known to have ended before.
        plain = zoo.run(None, "leader", ["1500", how])
        out = zoo.out()
        outcome = zoo.run(way, "leader", ["1500", how], out, timeout=20)
        results.append((f"last thread ended, {how}: {way} as plain",
                        outcome.same(plain), f"{outcome}, not {plain}"))
        if way == PRELOAD:
            text = zoo.folded(out)
            results.append((f"last thread ended, {how}: was recorded",
                            "zoo_burn_ms" in text, text[-300:]))
    return results


def run_by_loader(zoo):
    """The loader is run as the program, and loads it."""
    results = []
    with open("/bin/sh", "rb") as shell:
        loaders = re.findall(rb"/lib[^\0]*/ld-linux[^\0]*", shell.read())
    for loader in map(os.fsdecode, loaders[:1]):
        out = zoo.out()
        outcome = zoo.run(PRELOAD, loader, [zoo.program("leader"), "300"], out)
        text = zoo.folded(out)
        results.append(("run by the loader: recorded", outcome.status == 0 and
                        "zoo_burn_ms" in text, f"{outcome} {text[-300:]}"))
    return results


def run_few_files(zoo):
    """A program that may open few files keeps its numbers."""
    results = []
    for way, most, is_recorded in ((PRELOAD, 24, False), (PRELOAD, 64, True)):
        out = zoo.out()
        outcome = zoo.run(way, "leader", ["300"], out, prefix=(
            "prlimit", f"--nofile={most}:{most}"))
        results.append((f"{most} files: runs", outcome.status == 0 and
                        any("worked" in line for line in outcome.lines),
                        str(outcome)))
        results.append((f"{most} files: recorded, or the remedy is printed",
                        os.path.exists(out) if is_recorded else
                        any("ulimit -n" in line for line in outcome.lines),
                        str(outcome)))
    for limit, remedy in (("--fsize=1048576", "ulimit -f"),
                          ("--as=100000000", "ring_bytes")):
        outcome = zoo.run(PRELOAD, "leader", ["300"],
                          prefix=("prlimit", limit))
        results.append((f"{limit}: runs, and the remedy is printed",
                        outcome.status == 0 and any(
                            remedy in line for line in outcome.lines),
                        str(outcome)))
    return results


LATE = """
import ctypes, sys, threading
done = threading.Event()
threading.Thread(target=done.wait).start()
ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(libc.getenv(b"FGTRACE_PID"))
done.set()
"""


def run_late(zoo):
    """Loaded beside threads, which may read the environment: not changed."""
    out = zoo.out()
    result = subprocess.run(
        [sys.executable, "-c", LATE, zoo.library], text=True,
        capture_output=True, timeout=LIMIT_SECONDS, check=False,
        env={**os.environ, "FGTRACE_OUT": out})
    return [("loaded late: the environment stays as it was",
             result.stdout == "None\n" and result.returncode == 0,
             str(result))]


def run_lifetimes(zoo):
    """Fault S15: the library is loaded and closed, with and without a stop."""
    outcome = zoo.run(None, "lifetimes", [zoo.library, "30"])
    return [("S15 loaded and unloaded", outcome.status == 0, str(outcome))]


def run_set_user_id(zoo):
    """Fault S16: a set-user-id program ignores its user's environment."""
    if os.getuid() != 0:
        print("# S16 set-user-id: needs root")
        return []
    program = zoo.bench.path("lifetimes")
    shutil.copy2(zoo.program("lifetimes"), program)
    os.chmod(program, 0o4755)
    folder = zoo.bench.path("owned")
    os.mkdir(folder, 0o755)
    orders = [f"{key}={folder}/{key}.fgt" for key in
              ("FGTRACE_OUT", "FGTRACE_ACTIVITY", "FGTRACE_DESTINATION")]
    result = subprocess.run(
        as_user(["env", *orders, f"LD_PRELOAD={zoo.library}", program,
                 zoo.library, "0"], True), text=True, capture_output=True,
        timeout=LIMIT_SECONDS, check=False)
    return [("S16 set-user-id: runs", result.returncode == 0,
             result.stdout + result.stderr),
            ("S16 set-user-id: writes nothing", not os.listdir(folder),
             str(os.listdir(folder)))]


def run_tool(zoo, name, program, arguments, prefix=(), more=None, made=None,
             timeout=LIMIT_SECONDS):
    """Fault S17: another tool runs the program or is inside it."""
    plain = zoo.run(None, program, arguments)
    out = zoo.out()
    outcome = zoo.run(PRELOAD, program, arguments, out, more, prefix, timeout)
    lines = [line for line in plain.lines
             if any(line in other for other in outcome.lines)]
    return [(f"S17 {name}", outcome.status == 0 and lines == plain.lines,
             f"{outcome}, not {plain}"),
            (f"S17 {name}: its file is there", not made or
             os.path.exists(made) and os.path.getsize(made) > 0, str(made))]


def run_tools(zoo):
    results = []
    profile = zoo.bench.path("cpu.profile")
    profiler = glob.glob("/usr/lib/*/libprofiler.so.0")
    for first in (True, False) if profiler else ():
        libraries = [*profiler, zoo.library]
        results += run_tool(
            zoo, "gperftools, " + ("before" if first else "behind"), "jumps",
            ["2"], made=profile,
            more={"CPUPROFILE": profile, "LD_PRELOAD":
                  ":".join(libraries if first else reversed(libraries))})
    for name, command in (
            ("strace", ["strace", "-f", "-o", "/dev/null"]),
            ("gdb", ["gdb", "-q", "-batch", "-return-child-result", "-ex",
                     "handle all nostop noprint pass", "-ex", "run",
                     "--args"]),
            ("valgrind", ["valgrind", "-q", "--error-exitcode=9",
                          "--trace-children=yes"]),
            ("perf", ["perf", "record", "-q", "-F", "999", "-g", "-o",
                      zoo.bench.path("perf.data")])):
        if not shutil.which(command[0]):
            print(f"# S17 {name}: not installed")
        elif name == "valgrind":
            results += run_tool(zoo, name, "signals", ["default", "23"],
                                command)
        else:
            results += run_tool(zoo, name, "jumps", ["2"], command)
    return results


def run_objects(zoo):
    """Code of a handler has no thread-local storage, and no lock."""
    results = []
    objects = [path for path in glob.glob(f"{zoo.bench.build}/**/*_sig.c.o",
                                          recursive=True)]
    for path in objects:
        symbols = subprocess.run(["readelf", "-sW", path], text=True,
                                 capture_output=True).stdout
        name = os.path.basename(path)
        results.append((f"S8 {name} has no thread-local storage",
                        " TLS " not in symbols, symbols))
    return results


def every_task(zoo, is_one_way):
    for index, row in enumerate(ROWS):
        turn = index % len(row.ways)
        ways = row.ways[turn:turn + 1] if is_one_way else row.ways
        yield row.name, lambda row=row, ways=ways: run_row(zoo, row, ways)
    yield "S6 exec", lambda: run_exec(zoo)
    yield "S8 objects", lambda: run_objects(zoo)
    if zoo.library:
        yield "first thread", lambda: run_leader(zoo)
        yield "last thread", lambda: run_last_thread(zoo)
        yield "by the loader", lambda: run_by_loader(zoo)
        yield "few files", lambda: run_few_files(zoo)
        yield "late", lambda: run_late(zoo)
        yield "S15 lifetimes", lambda: run_lifetimes(zoo)
        yield "S16 set-user-id", lambda: run_set_user_id(zoo)
        yield "S17 tools", lambda: run_tools(zoo)


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    arguments = [a for a in sys.argv[2:] if a != "--one-way"]
    pattern = arguments[0] if arguments else ""
    try:
        zoo = Zoo(bench)
        if not zoo.library:
            print("# libfgtrace.so is not installed: only plain runs")
        else:
            zoo.start_agent()
        # More than there are CPUs: many programs sleep most of the time, and
        # threads that wait for a CPU are part of the test.
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            tasks = [pool.submit(task) for name, task in every_task(
                         zoo, "--one-way" in sys.argv)
                     if pattern in name]
            for task in tasks:
                for name, is_right, why in task.result():
                    checks.ok(name, is_right, why)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

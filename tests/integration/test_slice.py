# SPDX-License-Identifier: Apache-2.0
"""Slices and conversions by the command line.

usage: test_slice.py BUILD

Formats, times, summaries, complete files or none.
"""
import datetime
import json
import os
import re
import select
import signal
import subprocess
import time

from kit.cli_checks import (
    check_content, expect_error, is_one_line, ok, run_groups, start_busy,
    start_sampling, summary)
from kit.harness import as_user


def test_slices(bench, agent_socket, pid):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    folder = bench.path("slices")
    os.makedirs(folder)
    for ending, form in (("fgt", "fgt"), ("trace.json", "chrome"),
                         ("trace.json.gz", "chrome"), ("envelope", "sentry"),
                         ("envelope.gz", "sentry"), ("folded", "folded"),
                         ("folded.gz", "folded"),
                         ("chunk.envelope", "sentry-chunk"),
                         ("chunk.envelope.gz", "sentry-chunk"),
                         ("pb.gz", "pprof"),
                         ("speedscope.json", "speedscope"),
                         ("speedscope.json.gz", "speedscope"),
                         ("otlp", "otlp"), ("otlp.gz", "otlp"),
                         ("pftrace", "perfetto"),
                         ("pftrace.gz", "perfetto")):
        path = f"{folder}/out.{ending}"
        result = bench.run("slice", "--last", "2s", "-p", str(pid), "-o", path,
                           env=env)
        ok(f"slice to .{ending}", result.returncode == 0 and
           os.path.exists(path), result.stderr)
        if result.returncode != 0:
            continue
        ok(f"slice to .{ending} is private",
           os.stat(path).st_mode & 0o777 == 0o600)
        check_content(f"slice to .{ending}", path, form)
    ok("nothing else is left in the folder",
       len(os.listdir(folder)) == 16, os.listdir(folder))
    result = bench.run("slice", "--last", "1s", cwd=folder, env=env)
    made = [name for name in os.listdir(folder) if not name.startswith("out.")]
    ok("without -o a named trace appears here", result.returncode == 0 and
       len(made) == 1 and made[0].endswith(".trace.json") and
       f"-{pid}-" in made[0] and made[0] in result.stderr and
       "perfetto" in result.stderr, f"{made} {result.stderr}")
    ok("the summary has threads, ticks and rate",
       re.search(r"\d+ threads?, \d+ ticks at \d+\.\d Hz", result.stderr),
       result.stderr)
    quiet = bench.run("slice", "--last", "1s", "-q", "-f", "folded", "-o", "-",
                      env=env)
    ok("-o - streams and -q is quiet", quiet.returncode == 0 and
       not quiet.stderr and ";" in quiet.stdout, quiet.stderr)
    binary = subprocess.run([bench.agent, "slice", "--last", "1s", "-o", "-"],
                            capture_output=True, env=env)
    ok("-o - without -f is fgt", binary.returncode == 0 and
       len(binary.stdout) > 100, binary.stderr)
    piped = subprocess.run([bench.agent, "convert", "-", "-o", "-", "-f",
                            "folded", "-q"], input=binary.stdout,
                           capture_output=True)
    ok("convert reads standard input", piped.returncode == 0 and
       b";" in piped.stdout, piped.stderr)


def test_times(bench, agent_socket, pid):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket, TZ="Europe/Berlin")
    wall = time.time() - 3
    at = datetime.datetime.fromtimestamp(wall, datetime.timezone.utc)
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    local = time.strftime("%H:%M:%S", time.localtime(wall))
    mono = time.monotonic_ns()
    for name, begin, end, seconds in (
            ("relative", "-3s", "-1s", 2), ("mixed units", "-3000ms", "now", 3),
            ("RFC 3339", at.isoformat(), "-1s", 2),
            ("epoch", f"{wall:.3f}", "now", 3),
            ("local", local, "now", 3),
            ("monotonic", f"m:{mono - 2 * 10**9}", f"m:{mono}", 2)):
        result = summary(bench, "slice", "--from", begin, "--to", end, env=env)
        covered = (result.get("to_ns", 0) - result.get("from_ns", 0)) / 1e9
        ok(f"{name} times", abs(covered - seconds) < 1.6,
           f"{covered} s of {seconds}: {result.get('error')}")
    begun = time.monotonic()
    result = summary(bench, "slice", "--from", "now", "--to", "+1500ms",
                     env=env)
    ok("a future end waits", time.monotonic() - begun >= 1.4 and
       result.get("ticks", 0) > 30, result)
    begun = time.monotonic()
    expect_error(bench, "older than the ring", 5, "the ring holds", "slice",
                 "--from", "-50m", "--to", "-49m", env=env)
    ok("older than the ring is reported at once", time.monotonic() - begun < 5)
    check_held_in_asked_form(bench, "slice", "-p", str(pid), env=env)
    for last in ("1us", "1ms", "5ms"):
        expect_error(bench, f"a range of {last}", 5, "ask for a longer one",
                     "slice", "--last", last, env=env)
    expect_error(bench, "a begin beyond all times", 2, "out of range", "slice",
                 "--from", f"m:{2**64 - 1}", env=env)
    expect_error(bench, "too far in the future", 2, "", "slice", "--from",
                 "+5h", "--to", "+6h", env=env)
    expect_error(bench, "older than the ring by the clock", 5, "", "slice",
                 "--from", "2001-01-01T00:00:00Z", "--to",
                 "2001-01-01T00:00:01Z", env=env)
    tid = result["threads"][0]["tid"]
    one = summary(bench, "slice", "--last", "1s", "--tid", str(tid), env=env)
    ok("--tid leaves one thread", [thread["tid"] for thread in one["threads"]]
       == [tid], one)
    expect_error(bench, "a thread that is not there", 5,
                 "there is no thread 1 in", "slice", "--last", "1s", "--tid",
                 "1", env=env)
    by_flag = summary(bench, "slice", "--last", "1s",
                      env=dict(env, FGTRACE_FROM="-50m"))
    ok("a flag drops the variable against it", by_flag.get("ticks"), by_flag)
    by_variable = summary(bench, "slice",
                          env=dict(env, FGTRACE_LAST="1s"))
    ok("a variable goes before the default",
       50 < by_variable.get("ticks", 0) < 150, by_variable)


def test_stopped_agent(bench, agent_socket):
    """As by a debugger. Last, since it leaves a gap in the ring."""
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    agent = json.loads(bench.run("status", "--json", env=env).stdout)["pid"]
    os.kill(agent, signal.SIGSTOP)
    waiting = subprocess.Popen([bench.agent, "status"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ready, _, _ = select.select([waiting.stderr], [], [], 10)
    os.kill(agent, signal.SIGCONT)
    _, errors = waiting.communicate(timeout=30)
    ok("a wait for an agent that is stopped is announced",
       ready and "waiting for the agent on " + agent_socket in errors and
       waiting.returncode == 0, errors)


def check_held_in_asked_form(bench, *arguments, **more):
    """The error reports the ring's range on the clock of the request."""
    begin = time.time() - 3000
    day, clock = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d\.\d{3}"
    for write, form in (
            (lambda t: f"{t - begin - 3000}s", r"-\d+\.\d+s"),
            (lambda t: f"m:{int(t - begin) + 1}", r"m:\d+"),
            (lambda t: f"{t:.1f}", r"\d{10}\.\d{3}"),
            (lambda t: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t)),
             f"{day}T{clock}Z"),
            (lambda t: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t)),
             f"({day} )?{clock}")):
        result = bench.run(*arguments, "--from", write(begin), "--to",
                           write(begin + 1), **more)
        ok(f"{arguments[0]} --from {write(begin)} is answered in that form",
           result.returncode == 5 and
           re.search(f"holds {form} to ({form}|now)[ ;]", result.stderr),
           result.stderr)


def test_top(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    result = bench.run("slice", "--last", "2s", "--top", "5", "-q", env=env)
    ok("--top prints functions and threads", result.returncode == 0 and
       "hottest functions" in result.stdout and "burn" in result.stdout and
       "running" in result.stdout and not result.stderr,
       result.stdout + result.stderr)
    data = summary(bench, "slice", "--last", "2s", "--top", "3", env=env)
    ok("--json has the same", len(data["functions"]) <= 3 and
       data["running"] > 0 and any("burn" in function["name"]
                                   for function in data["functions"]), data)


def test_crowd(bench):
    """Two thousand threads of one kind, all of which begin to wait before the
    first tick: groups, and the reason of each."""
    count = 2000
    child = bench.start([bench.program("conns"), str(count)],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    result = bench.run("record", "-q", "-p", str(child.pid), "-d", "2",
                       "--top", "5", "-o", bench.path("crowd.fgt"))
    third = (count + 2) // 3
    ok("2000 threads: similar ones are one row, by state",
       re.search(rf"conn-\* +{count}: poll {count - third}, futex {third}\n",
                 result.stdout), result.stdout[:2000])
    row = re.search(rf"^ *([\d.]+) %  conn-\* \({third}\) +cache_lookup → "
                    r"pthread_mutex_lock: mutex g_cache_lock, held by maint",
                    result.stdout, re.M)
    ok("2000 threads: the lock and its holder for each that waits for it",
       row and float(row[1]) > 32, result.stdout[:2000])
    child.stdin.close()
    child.wait(10)


def test_convert(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    source = bench.path("source.fgt")
    bench.run("slice", "--last", "3s", "-o", source, env=env)
    for ending, form in (("trace.json", "chrome"), ("envelope", "sentry"),
                         ("folded.gz", "folded"), ("fgt", "fgt"),
                         ("chunk.envelope", "sentry-chunk"),
                         ("pb.gz", "pprof"),
                         ("speedscope.json.gz", "speedscope"),
                         ("pftrace", "perfetto")):
        path = bench.path(f"converted.{ending}")
        result = bench.run("convert", source, "-o", path)
        ok(f"convert to .{ending}", result.returncode == 0, result.stderr)
        if result.returncode == 0:
            check_content(f"convert to .{ending}", path, form)
    whole = summary(bench, "convert", source)
    again = summary(bench, "convert", bench.path("converted.fgt"))
    ok("fgt to fgt loses nothing", whole == again, f"{whole} {again}")
    part = summary(bench, "convert", source, "--from", "-1s")
    ok("-1s counts from the slice's end", part["to_ns"] == whole["to_ns"] and
       0.9e9 < part["to_ns"] - part["from_ns"] <= 1.0e9, part)
    with open(source, "rb") as file:
        content = file.read()
    for name, make in (("link.fgt", os.symlink), ("hard.fgt", os.link)):
        make(source, bench.path(name))
    for name in ("source.fgt", "link.fgt", "hard.fgt", "./source.fgt"):
        expect_error(bench, f"convert onto its input as {name}", 2,
                     "replace the input", "convert", source, "--from", "-1s",
                     "-o", bench.path(name), cwd=bench.scratch)
    with open(source, "rb") as file:
        ok("and the input is as it was", file.read() == content and
           os.stat(source).st_nlink == 2)
    with open(source, "rb") as file:
        expect_error(bench, "nor from standard input", 2, "replace the input",
                     "convert", "-", "-o", source, stdin=file)
    early = bench.run("convert", source, "--from", "-2h", "--top", "1")
    ok("convert of more than the file prints where it begins",
       early.returncode == 0 and "the file begins at -" in early.stderr and
       "sampling began later" not in early.stderr, early.stderr)
    path = bench.path("from-0.fgt")
    sliced = bench.run("slice", "--from", "m:0", "-o", path, env=env)
    result = bench.run("convert", path, "--top", "1")
    ok("asked from 0, no note is about the time since the machine began",
       sliced.returncode == result.returncode == 0 and
       "were not kept" not in sliced.stderr + result.stderr,
       sliced.stderr + result.stderr)
    path = bench.path("from-before.fgt")
    sliced = bench.run("slice", "--last", "10m", "-o", path, env=env)
    result = bench.run("convert", path, "--top", "1")
    ok("asked for ten minutes, what was not kept is reported",
       "s asked for were not kept" in sliced.stderr and
       "s asked for were not kept" in result.stderr,
       sliced.stderr + result.stderr)
    expect_error(bench, "convert of a thread that is not there", 5,
                 "there is no thread 1 in", "convert", source, "--tid", "1")
    ok("the table names what its share is of",
       "running samples" in early.stdout and
       "[not sampled" not in early.stdout, early.stdout)
    expect_error(bench, "convert of another time", 5, "the file holds",
                 "convert", source, "--from", "-50m", "--to", "-49m")
    check_held_in_asked_form(bench, "convert", source)
    expect_error(bench, "convert of a missing file", 1, "cannot read",
                 "convert", bench.path("none.fgt"), "-o", "/dev/null", "-f",
                 "folded")
    with open(bench.path("broken.fgt"), "wb") as file, \
            open(source, "rb") as good:
        file.write(good.read()[:-100])
    expect_error(bench, "convert of half a file", 1, "not a slice", "convert",
                 bench.path("broken.fgt"), "-f", "folded", "-o", "/dev/null")
    test_no_slice(bench, source)


def test_no_slice(bench, source):
    """Inputs that are no .fgt: the cause, and the exit status of the table."""
    with open(source, "rb") as file:
        later = b"FGT9" + file.read()[4:]
    for name, content in (("text.fgt", b"hello\n"), ("empty.fgt", b""),
                          ("later.fgt", later)):
        with open(bench.path(name), "wb") as file:
            file.write(content)
    form = ("-f", "folded", "-o", "/dev/null")
    for path in (bench.path("text.fgt"), bench.path("empty.fgt"),
                 bench.path("converted.envelope"), "/dev/zero"):
        expect_error(bench, f"convert of {os.path.basename(path)}", 1,
                     "is not an fgtrace slice; give a .fgt file",
                     "convert", path, *form)
    expect_error(bench, "convert of a later version", 1, "newer fgtrace\n",
                 "convert", bench.path("later.fgt"), *form)
    expect_error(bench, "convert of a directory", 1, "cannot read", "convert",
                 bench.scratch, *form)
    path = bench.path("folded.trace.json")
    odd = bench.run("convert", source, "-f", "folded", "-o", path)
    ok("a name that contradicts the format gets one line and the format",
       odd.returncode == 0 and odd.stderr.count("ends like a chrome file") == 1
       and odd.stderr.count("leave out -f") == 1, odd.stderr)
    check_content("folded under another name", path, "folded")
    one = bench.path("one.fgt")
    tid = summary(bench, "convert", source)["threads"][0]["tid"]
    bench.run("convert", source, "--tid", str(tid), "-o", one)
    expect_error(bench, "convert of another time of one thread", 5,
                 "of 1 thread;", "convert", one, "--from", "-50m", "--to",
                 "-49m")
    os.chmod(one, 0)
    agent = os.path.join(bench.copy_for_nobody(), "fgtrace-agent")
    os.chmod(bench.scratch, 0o755)
    refused = subprocess.run(
        as_user([agent, "convert", one, *form], as_nobody=True),
        capture_output=True, text=True)
    ok("convert of what may not be read: exit 4", refused.returncode == 4 and
       "cannot read" in refused.stderr, refused)


def test_state_frames(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    source = bench.path("frames.fgt")
    bench.run("slice", "--last", "2s", "-o", source, env=env)
    for where, pattern in (("root", r"^(?:[^;]*;)?running;"),
                           ("leaf", r";running \d+$"), ("no", None)):
        result = bench.run("convert", source, "-o", "-", "-f", "folded", "-q",
                           "--state-frames", where)
        has = re.search(pattern or r"(^|;)running[; ]", result.stdout, re.M)
        ok(f"state frames {where}", bool(has) == bool(pattern),
           result.stdout[:300])


def test_output_trouble(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    expect_error(bench, "no such directory", 1, "does not exist", "slice",
                 "--last", "1s", "-o", bench.path("none/x.fgt"), env=env)
    expect_error(bench, "no such directory for an automatic name", 1,
                 bench.path("none/") + ": the directory does not exist", "slice", "--last",
                 "1s", "-o", bench.path("none/"), env=env)
    folder = bench.path("folder")
    os.mkdir(folder)
    for output in (folder, folder + "/"):
        result = bench.run("slice", "--last", "1s", "-o", output, "-f", "fgt",
                           env=env)
        names = os.listdir(folder)
        ok(f"-o {output} gets an automatic name", result.returncode == 0 and
           len(names) == 1 and names[0].endswith(".fgt") and
           f"wrote {folder}/{names[0]} " in result.stderr,
           (names, result.stderr))
        for name in names:
            os.unlink(os.path.join(folder, name))
    expect_error(bench, "a full device", 1, "no space left", "slice",
                 "--last", "1s", "-o", "/dev/full", "-f", "folded", env=env)
    full = subprocess.run(f"exec '{bench.agent}' slice --last 1s -o - -f "
                          "folded >/dev/full", shell=True, env=env, text=True,
                          stderr=subprocess.PIPE)
    ok("standard output on a full device", full.returncode == 1 and
       is_one_line(full.stderr), full.stderr)
    closed = subprocess.run(f"exec '{bench.agent}' slice --last 1s -o - -f "
                            "folded >&-", shell=True, env=env, text=True,
                            stderr=subprocess.PIPE)
    ok("closed standard output does no harm", closed.returncode in (0, 1) and
       closed.stderr.count("\n") <= 2, closed.stderr)
    for redirect in ("0<&- 1>&- 2>&-", "2>&-", "0<&-"):
        path = bench.path("closed.folded")
        if os.path.exists(path):
            os.unlink(path)
        result = subprocess.run(
            f"exec '{bench.agent}' slice --last 1s -o {path} {redirect}",
            shell=True, env=env, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        ok(f"descriptors closed ({redirect})", result.returncode == 0 and
           os.path.getsize(path) > 0, result)
        with open(path) as file:
            ok(f"descriptors closed ({redirect}): nothing else in the file",
               "fgtrace-agent:" not in file.read())
    early = subprocess.run(f"'{bench.agent}' slice --last 3s -o - -f chrome -q"
                           " | head -c 10; echo ${PIPESTATUS[0]}",
                           shell=True, executable="/bin/bash", env=env,
                           text=True, capture_output=True)
    ok("a reader that leaves is no error to report", not early.stderr and
       early.stdout[10:].strip() in ("0", "1"), early)


def test_small_disk(bench, agent_socket):
    if os.getuid() != 0:
        return
    folder = bench.path("small")
    os.makedirs(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs",
                       folder], capture_output=True).returncode != 0:
        print("# cannot mount a tmpfs here: disk full is not tested")
        return
    try:
        env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
        expect_error(bench, "disk full", 1, "no space left", "slice", "--last",
                     "5s", "-o", f"{folder}/x.trace.json", env=env)
        ok("disk full leaves no half file", not os.listdir(folder),
           os.listdir(folder))
        with open(f"{folder}/x.trace.json", "w") as file:
            file.write("old")
        bench.run("slice", "--last", "5s", "-o", f"{folder}/x.trace.json",
                  env=env)
        with open(f"{folder}/x.trace.json") as file:
            ok("disk full leaves the old file", file.read() == "old")
    finally:
        subprocess.run(["umount", folder], check=False)


def run(bench):
    os.chdir(bench.scratch)  # what a full disk does not take is kept there
    pid = start_busy(bench)
    agent_socket = start_sampling(bench, pid)
    test_slices(bench, agent_socket, pid)
    test_times(bench, agent_socket, pid)
    test_top(bench, agent_socket)
    test_crowd(bench)
    test_convert(bench, agent_socket)
    test_state_frames(bench, agent_socket)
    test_output_trouble(bench, agent_socket)
    test_small_disk(bench, agent_socket)
    test_stopped_agent(bench, agent_socket)


if __name__ == "__main__":
    run_groups(run)

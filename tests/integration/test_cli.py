# SPDX-License-Identifier: Apache-2.0
"""The command line, as a person meets it.

usage: test_cli.py BUILD

Exit statuses, one-line errors with a remedy, help, times, files that appear
whole or not at all, recording with and without a daemon, terminals, closed
descriptors, uploads.
"""
import datetime
import gzip
import http.server
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from harness import NOBODY, Bench, Checks, as_user, read_until

VERBS = ("daemon", "attach", "detach", "slice", "record", "convert", "status",
         "targets", "config", "version")
KEY = "0123456789abcdef0123456789abcdef"  # the canary of every DSN here
CHECKERS = {"chrome": "check_chrome_trace.py", "folded": "check_folded.py",
            "sentry": "check_sentry_envelope.py"}
HERE = os.path.dirname(os.path.abspath(__file__))

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


def test_help(bench):
    result = bench.run("--help")
    ok("help lists every verb", result.returncode == 0 and
       all(f"\n  {verb} " in result.stdout for verb in VERBS), result.stdout)
    for verb in VERBS:
        texts = [bench.run(*words).stdout for words in
                 ((verb, "--help"), ("help", verb), (verb, "-h"))]
        ok(f"{verb} --help has flags, example and exit statuses",
           texts[0] == texts[1] == texts[2] and
           f"fgtrace-agent {verb}" in texts[0] and "Example" in texts[0] and
           "Exit status" in texts[0] and "--help" in texts[0], texts[0])
    ok("no line of help is longer than 110 columns", all(
        len(line) <= 110 or line.startswith("fgtrace-agent ")
        for verb in VERBS for line in
        bench.run(verb, "--help").stdout.split("\n")))
    version = bench.run("version", "--json")
    ok("version --json is JSON", "version" in json.loads(version.stdout))
    ok("--version is version",
       bench.run("--version").stdout == bench.run("version").stdout)


def test_documents(bench):
    """The man pages render cleanly and know every flag; completion works."""
    etc = os.path.join(HERE, "..", "..", "etc")
    pages = {}
    for page in ("fgtrace-agent.1", "fgtrace.conf.5"):
        result = subprocess.run(
            ["groff", "-man", "-wall", "-Tutf8", "-P-c", "-P-b", "-P-u",
             os.path.join(etc, "man", page)], capture_output=True, text=True)
        pages[page] = result.stdout.replace("\u2010", "-").replace(
            "\u2212", "-")
        ok(f"{page} renders without warnings", result.returncode == 0 and
           not result.stderr, result.stderr)
    flags = {flag for verb in VERBS for flag in
             re.findall(r"--[a-z][a-z-]+", bench.run(verb, "--help").stdout)}
    missing = [flag for flag in sorted(flags - {"--some-flag"})
               if flag not in pages["fgtrace-agent.1"]]
    ok("the man page knows every flag", len(flags) > 15 and not missing,
       missing)
    shown = json.loads(bench.run("config", "show", "--json").stdout)
    keys = [f"{group}.{key}" for group, values in shown.items()
            if isinstance(values, dict) for key in values]
    missing = [key for key in keys if key not in pages["fgtrace.conf.5"]]
    ok("the man page knows every key", len(keys) > 10 and not missing, missing)
    for words, part in ((["fgtrace-agent", "sl"], "slice"),
                        (["fgtrace-agent", "slice", "--state"],
                         "--state-frames"),
                        (["fgtrace-agent", "record", "-f", "ch"], "chrome"),
                        (["fgtrace-agent", "config", ""], "check")):
        script = (f"source '{etc}/completion/fgtrace-agent.bash'\n"
                  f"COMP_WORDS=({' '.join(repr(word) for word in words)})\n"
                  f"COMP_CWORD={len(words) - 1}\n_fgtrace_agent\n"
                  'echo "${COMPREPLY[@]}"')
        path = os.path.dirname(bench.agent) + ":" + os.environ["PATH"]
        result = subprocess.run(["bash", "-c", script], text=True,
                                env=dict(os.environ, PATH=path),
                                capture_output=True)
        ok(f"completion of {' '.join(words)!r}", part in result.stdout.split(),
           result.stdout + result.stderr)


def test_usage(bench):
    for name, part, *arguments in (
            ("no verb", "no verb"),
            ("unknown verb", "did you mean 'slice'", "slcie"),
            ("hopeless verb", "--help", "xyzzy"),
            ("unknown flag", "did you mean --format", "slice", "--formt", "x"),
            ("unknown letter", "unknown flag -z", "slice", "-z"),
            ("flag without value", "--from needs a value", "slice", "--from"),
            ("bad time", "is not a time", "slice", "--from", "yesterday"),
            ("bad duration", "is not a duration", "slice", "--last", "soon"),
            ("from after to", "after --to", "slice", "--from", "-1s", "--to",
             "-5s"),
            ("last with from", "exclude each other", "slice", "--last", "5s",
             "--from", "-1s"),
            ("unknown format", "chrome", "slice", "-f", "chrom"),
            ("unknown ending", "", "slice", "-o", "/tmp/x.unknown"),
            ("bad pid", "whole number", "slice", "-p", "12x"),
            ("pid and name", "exclude each other", "slice", "-p", "1", "-n",
             "x"),
            ("bad state frames", "root", "slice", "--state-frames", "roof"),
            ("json and -o -", "standard output", "slice", "--json", "-o", "-"),
            ("no destination", "--dsn-file", "record", "-p", "1",
             "--dsn-file", "/x"),
            ("record of nothing", "-- CMD", "record"),
            ("record of a stray word", "-- ls", "record", "ls"),
            ("record of both", "exclude each other", "record", "-p", "1",
             "--", "true"),
            ("rate out of range", "1 to 1000", "record", "-r", "0", "--",
             "true"),
            ("too long", "hour", "record", "-d", "2h", "--", "true"),
            ("convert of nothing", "argument is missing", "convert"),
            ("attach of nothing", "argument is missing", "attach"),
            ("config of nothing", "argument is missing", "config"),
            ("unknown action", "config check", "config", "chek"),
            ("missing configuration", "", "config", "check", "-c", "/none")):
        if name == "no destination":
            continue  # record has no upload: an unknown flag
        expect_error(bench, name, 2, part, *arguments)
    expect_error(bench, "record has no --upload", 2, "unknown flag", "record",
                 "--upload")
    environment = dict(os.environ, FGTRACE_FORMAT="nonsense")
    expect_error(bench, "bad environment", 2, "nonsense", "slice",
                 env=environment)


def test_no_agent(bench):
    missing = bench.path("no.sock")
    for verb, *arguments in (("status",), ("targets",), ("slice",),
                             ("attach", "1"), ("detach", "1")):
        expect_error(bench, f"{verb} without agent", 3, "no agent", verb,
                     *arguments, "--socket", missing)
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(missing)
    stale.close()
    expect_error(bench, "socket of a dead agent", 3, "no agent", "--socket",
                 missing, "status")
    expect_error(bench, "socket with a long path", 2, "107", "status",
                 "--socket", "/" + "x" * 200)


def test_config(bench):
    good, bad = bench.path("good.conf"), bench.path("bad.conf")
    with open(good, "w") as file:
        file.write("sampling: { hz = 51; };\nring: { memory_mb = 32; };\n")
    with open(bad, "w") as file:
        file.write("sampling: {\n  hzz = 51;\n};\n")
    result = bench.run("config", "check", "-c", good)
    ok("config check takes a good file", result.returncode == 0 and
       good in result.stdout, result.stderr)
    expect_error(bench, "config check refuses a bad one", 2,
                 f"{bad}:2", "config", "check", "-c", bad)
    shown = bench.run("config", "show", "-c", good)
    again = bench.path("again.conf")
    with open(again, "w") as file:
        file.write(shown.stdout)
    ok("config show reads back equal",
       bench.run("config", "show", "-c", again).stdout == shown.stdout)
    as_json = json.loads(
        bench.run("config", "show", "-c", good, "--json",
                  env=dict(os.environ, FGTRACE_RING_MEMORY_MB="48")).stdout)
    ok("environment goes before the file",
       as_json["sampling"]["hz"] == 51 and as_json["ring"]["memory_mb"] == 48,
       as_json)


# ---- With a daemon ------------------------------------------------------

def check_content(name, path, form):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        content = file.read()
    if form == "chrome":
        is_good = len(json.loads(content)["traceEvents"]) > 2
    elif form == "sentry":
        is_good = b'"type":"profile"' in content
    elif form == "folded":
        is_good = re.match(rb"(?:.*;.* \d+\n)+$", content) is not None
    else:
        is_good = len(content) > 100
    ok(f"{name}: {form} is what it should be", is_good, content[:200])
    if form in CHECKERS:
        result = subprocess.run(
            [sys.executable, os.path.join(HERE, CHECKERS[form]), path],
            capture_output=True, text=True)
        ok(f"{name}: {CHECKERS[form]} agrees", result.returncode == 0,
           (result.stdout + result.stderr)[-400:])


def test_slices(bench, agent_socket, pid):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    folder = bench.path("slices")
    os.makedirs(folder)
    for ending, form in (("fgt", "fgt"), ("trace.json", "chrome"),
                         ("trace.json.gz", "chrome"), ("envelope", "sentry"),
                         ("envelope.gz", "sentry"), ("folded", "folded"),
                         ("folded.gz", "folded")):
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
       len(os.listdir(folder)) == 7, os.listdir(folder))
    result = bench.run("slice", "--last", "1s", cwd=folder, env=env)
    made = [name for name in os.listdir(folder) if not name.startswith("out.")]
    ok("without -o a named trace appears here", result.returncode == 0 and
       len(made) == 1 and made[0].endswith(".trace.json") and
       f"-{pid}-" in made[0] and made[0] in result.stderr and
       "perfetto" in result.stderr, f"{made} {result.stderr}")
    ok("the summary says threads, ticks and rate",
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


def summary(bench, *arguments, **more):
    result = bench.run(*arguments, "--json", **more)
    try:
        return json.loads(result.stdout)
    except ValueError:
        return {"error": result.stderr, "threads": [], "functions": []}


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
    ok("older than the ring is told at once", time.monotonic() - begun < 5)
    expect_error(bench, "too far in the future", 2, "", "slice", "--from",
                 "+5h", "--to", "+6h", env=env)
    expect_error(bench, "older than the ring by the clock", 5, "", "slice",
                 "--from", "2001-01-01T00:00:00Z", "--to",
                 "2001-01-01T00:00:01Z", env=env)
    tid = result["threads"][0]["tid"]
    one = summary(bench, "slice", "--last", "1s", "--tid", str(tid), env=env)
    ok("--tid leaves one thread", [thread["tid"] for thread in one["threads"]]
       == [tid], one)
    expect_error(bench, "a thread that is not there", 5, "", "slice", "--last",
                 "1s", "--tid", "1", env=env)
    by_flag = summary(bench, "slice", "--last", "1s",
                      env=dict(env, FGTRACE_FROM="-50m"))
    ok("a flag drops the variable against it", by_flag.get("ticks"), by_flag)
    by_variable = summary(bench, "slice",
                          env=dict(env, FGTRACE_LAST="1s"))
    ok("a variable goes before the default",
       50 < by_variable.get("ticks", 0) < 150, by_variable)


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


def test_convert(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    source = bench.path("source.fgt")
    bench.run("slice", "--last", "3s", "-o", source, env=env)
    for ending, form in (("trace.json", "chrome"), ("envelope", "sentry"),
                         ("folded.gz", "folded"), ("fgt", "fgt")):
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
    expect_error(bench, "convert of another time", 5, "the file holds",
                 "convert", source, "--from", "-50m", "--to", "-49m")
    expect_error(bench, "convert of a missing file", 1, "cannot read",
                 "convert", bench.path("none.fgt"), "-o", "/dev/null", "-f",
                 "folded")
    with open(bench.path("broken.fgt"), "wb") as file, \
            open(source, "rb") as good:
        file.write(good.read()[:-100])
    expect_error(bench, "convert of half a file", 1, "not a slice", "convert",
                 bench.path("broken.fgt"), "-f", "folded", "-o", "/dev/null")


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
    expect_error(bench, "a directory", 1, "is a directory", "slice", "--last",
                 "1s", "-o", bench.scratch, "-f", "fgt", env=env)
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
    ok("a reader that leaves is no error to tell", not early.stderr and
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


def test_other_users(bench, agent_socket, pid):
    if os.getuid() != 0:
        return
    binary = os.path.join(bench.copy_for_nobody(), "fgtrace-agent")
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "slice", "-p", str(pid),
                 "-o", "-"], True), capture_output=True, text=True)
    ok("nobody does not get a slice of root's target",
       result.returncode == 4 and is_one_line(result.stderr) and
       not result.stdout, f"{result.returncode} {result.stderr}")
    folder = os.path.dirname(agent_socket)
    os.chmod(folder, 0o755)
    os.chmod(agent_socket, 0o666)
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "slice", "-p", str(pid),
                 "-o", "-"], True), capture_output=True, text=True)
    ok("nor through an open socket", result.returncode in (1, 4) and
       is_one_line(result.stderr) and not result.stdout,
       f"{result.returncode} {result.stderr}")
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "targets", "--json"], True),
        capture_output=True, text=True)
    ok("nobody does not see root's targets", str(pid) not in result.stdout,
       result.stdout)
    result = subprocess.run(
        as_user([binary, "record", "-d", "1", "-p", str(pid), "-o",
                 "/dev/null", "-f", "folded"], True), capture_output=True,
        text=True)
    ok("nobody does not record root's process", result.returncode == 4 and
       is_one_line(result.stderr), f"{result.returncode} {result.stderr}")


def test_status(bench, agent_socket, pid):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    text = bench.run("status", env=env)
    ok("status shows agent, capabilities and target", text.returncode == 0 and
       all(part in text.stdout for part in
           ("agent ", "perf events, per CPU", "ptrace", str(pid), "held")),
       text.stdout + text.stderr)
    status = json.loads(bench.run("status", "--json", env=env).stdout)
    ok("status --json has the target",
       pid in [target["pid"] for target in status["targets"]], status)
    target = status["targets"][0]
    ok("the rate is the one asked for", 90 < target["effective_hz"] < 112,
       target)
    targets = json.loads(bench.run("targets", "--json", env=env).stdout)
    ok("targets --json has it", targets["targets"][0]["pid"] == pid, targets)


def test_attach(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    sleeper = bench.start(["sleep", "60"])
    pid = str(sleeper.pid)
    expect_error(bench, "slice of what is not attached", 1, "", "slice", "-p",
                 pid, env=env)
    attach = bench.run("attach", pid, env=env)
    ok("attach by pid", attach.returncode == 0 and
       f"sampling {pid} sleep" in attach.stdout, attach.stdout + attach.stderr)
    ambiguous = bench.run("slice", "--last", "1s", env=env)
    ok("several targets: one must be chosen", ambiguous.returncode == 2 and
       "-p PID" in ambiguous.stderr and is_one_line(ambiguous.stderr),
       ambiguous.stderr)
    time.sleep(0.3)
    by_name = summary(bench, "slice", "--last", "1s", "-n", "sleep", env=env)
    ok("slice by name", by_name.get("name") == "sleep", by_name)
    ok("a sleeper is seen sleeping", by_name["threads"] and
       by_name["threads"][0]["running"] == 0 and "nanosleep" in
       by_name["threads"][0]["blocked_in"][0]["state"], by_name)
    detach = bench.run("detach", pid, "--json", env=env)
    ok("detach tells what it detached", detach.returncode == 0 and
       json.loads(detach.stdout)["targets"][0]["pid"] == sleeper.pid,
       detach.stdout + detach.stderr)
    expect_error(bench, "detach again", 1, "", "detach", pid, env=env)
    expect_error(bench, "attach of a process that is not", 1, "", "attach",
                 "4194304", env=env)
    expect_error(bench, "attach of a name that is not", 1, "", "attach",
                 "no-such-program", env=env)


# ---- Upload -------------------------------------------------------------

class Sentry(http.server.BaseHTTPRequestHandler):
    """Records what it gets and answers with server.status."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), body))
        event = json.loads(gzip.decompress(body).split(b"\n", 1)[0])["event_id"]
        answer = json.dumps({"id": event}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


def test_upload(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    server = http.server.HTTPServer(("127.0.0.1", 0), Sentry)
    server.requests, server.status = [], 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    dsn_file, config = bench.path("dsn"), bench.path("upload.conf")
    with open(os.open(dsn_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"http://{KEY}@127.0.0.1:{server.server_port}/7\n")
    with open(config, "w") as file:
        file.write('upload: { release = "app@1.0"; destinations = ( { name = '
                   f'"lab"; dsn_file = "{dsn_file}"; }} ); }};\n')
    told = ""
    for name, *flags in (("by configuration", "--upload", "-c", config),
                         ("by name", "--upload", "lab", "-c", config),
                         ("by DSN file", "--dsn-file", dsn_file)):
        server.requests.clear()
        result = bench.run("slice", "--last", "2s", *flags, env=env)
        told += result.stdout + result.stderr
        event = re.search(r"event ([0-9a-f]{32})", result.stderr)
        ok(f"upload {name}", result.returncode == 0 and event and
           len(server.requests) == 1, result.stderr)
        if not server.requests:
            continue
        path, headers, body = server.requests[0]
        header = json.loads(gzip.decompress(body).split(b"\n", 1)[0])
        ok(f"upload {name}: the event told is the event sent",
           path == "/api/7/envelope/" and event and
           header["event_id"] == event[1] and
           headers["Content-Encoding"] == "gzip", (path, headers, header))
    data = summary(bench, "slice", "--last", "1s", "--upload", "-c", config,
                   env=env)
    ok("upload --json", data.get("upload", {}).get("status") == 200, data)
    expect_error(bench, "unknown destination", 2, "did you mean 'lab'",
                 "slice", "--upload", "labb", "-c", config, env=env)
    for status in (403, 413, 429, 500):
        server.status = status
        expect_error(bench, f"answer {status}", 1, str(status), "slice",
                     "--last", "1s", "--dsn-file", dsn_file, env=env)
    server.shutdown()
    server.server_close()
    expect_error(bench, "server down", 1, "", "slice", "--last", "1s",
                 "--dsn-file", dsn_file, env=env)
    os.chmod(dsn_file, 0o644)
    expect_error(bench, "a DSN that others can read", 2, "", "slice", "--last",
                 "1s", "--dsn-file", dsn_file, env=env)
    ok("no output shows the DSN's key", KEY not in told and
       KEY not in bench.run("config", "show", "-c", config).stdout, told)


# ---- record -------------------------------------------------------------

def test_record(bench, busy_pid):
    folded = bench.path("record.folded")
    result = bench.run("record", "-d", "1500ms", "-p", str(busy_pid), "-o",
                       folded)
    ok("record -p", result.returncode == 0, result.stderr)
    check_content("record -p", folded, "folded")
    with open(folded) as file:
        ok("record -p sees the burning function", "burn" in file.read())
    for name, command, status in (
            ("0", "sleep 0.4", 0), ("its own", "sleep 0.4; exit 7", 7),
            ("a signal's", "sleep 0.4; kill -TERM $$", 143)):
        result = bench.run("record", "-o", bench.path("c.trace.json"), "--",
                           "sh", "-c", command)
        ok(f"record passes on {name} status", result.returncode == status,
           f"{result.returncode}: {result.stderr}")
    out = bench.run("record", "-q", "-o", bench.path("d.folded"), "--", "sh",
                    "-c", "cat; sleep 0.3; exec sleep 0.3", input="typed\n")
    ok("the command keeps standard input and output",
       out.stdout == "typed\n" and not out.stderr, f"{out.stdout} {out.stderr}")
    with open(bench.path("d.folded")) as file:
        text = file.read()
    ok("nothing of ours is in the recording", "fgt_" not in text and
       "become" not in text, text[:300])
    expect_error(bench, "a command that is not", 1, "cannot run", "record",
                 "-o", bench.path("e.folded"), "--", "no-such-command-at-all")
    mark = bench.path("ran")
    expect_error(bench, "a recording that could not be written", 1,
                 "does not exist", "record", "-o", bench.path("none/x.fgt"),
                 "--", "touch", mark)
    ok("is told before the command runs", not os.path.exists(mark))
    expect_error(bench, "a command that is over at once", 5, "two ticks",
                 "record", "-r", "1", "-o", bench.path("e.folded"), "--",
                 "true")
    ok("nothing is written for it",
       not os.path.exists(bench.path("e.folded")))
    expect_error(bench, "record of a process that is not", 1, "", "record",
                 "-p", "4194304", "-d", "1", "-o", "/dev/null", "-f", "fgt")
    data = summary(bench, "record", "-r", "499", "-d", "1", "-p",
                   str(busy_pid))
    ok("record -r", 350 < data.get("effective_hz", 0) < 510, data)


def record_in_background(bench, *arguments, **more):
    return subprocess.Popen([bench.agent, "record", *arguments],
                            stderr=subprocess.PIPE, text=True, **more)


def test_record_signals(bench, busy_pid):
    path = bench.path("int.folded")
    child = record_in_background(bench, "-p", str(busy_pid), "-o", path)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, text = child.communicate(timeout=30)
    ok("SIGINT ends the recording and writes it", child.returncode == 0 and
       os.path.getsize(path) > 0, text)
    child = record_in_background(bench, "-o", path, "--", "sleep", "30")
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, text = child.communicate(timeout=30)
    ok("the command gets it as well", child.returncode == 130, text)
    child = record_in_background(bench, "-d", "500ms", "-o", path, "--", "sh",
                                 "-c", "sleep 1.5; exit 3")
    _, text = child.communicate(timeout=30)
    ok("a command that goes on is waited for", child.returncode == 3 and
       "goes on" in text, text)


def test_ordinary_user(bench):
    """Own processes may be recorded without any privilege."""
    if os.getuid() != 0:
        return
    folder = bench.copy_for_nobody()
    target = bench.start([f"{folder}/truth-nofp", "shares", "60"], True,
                         stdout=subprocess.PIPE, text=True)
    pid = read_until(target.stdout, "ready ")
    out = bench.path("nobody")
    os.makedirs(out)
    os.chown(out, NOBODY, NOBODY)
    result = subprocess.run(
        as_user([f"{folder}/fgtrace-agent", "record", "-d", "2", "-p", pid,
                 "-o", f"{out}/x.folded", "--json"], True),
        capture_output=True, text=True, cwd=out)
    ok("an ordinary user records an own process", result.returncode == 0,
       result.stderr)
    if result.returncode == 0:
        data = json.loads(result.stdout)
        ok("with complete stacks", data["complete"] >= 0.98 * data["samples"],
           data)
    result = subprocess.run(
        as_user([f"{folder}/fgtrace-agent", "record", "-q", "-o",
                 f"{out}/y.folded", "--", "sh", "-c", "sleep 0.5; exit 9"],
                True), capture_output=True, text=True, cwd=out)
    ok("and an own command", result.returncode == 9 and
       os.path.getsize(f"{out}/y.folded") > 0, result.stderr)
    target.terminate()


def run_in_terminal(command, seconds, send=None):
    """Runs on a pseudo terminal; returns (status, what it printed)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    text, begun, is_sent = b"", time.monotonic(), send is None
    while True:
        if not is_sent and time.monotonic() - begun > seconds:
            os.write(fd, send)
            is_sent = True
        try:
            import select
            if select.select([fd], [], [], 0.1)[0]:
                block = os.read(fd, 65536)
                if not block:
                    break
                text += block
        except OSError:
            break
        if time.monotonic() - begun > 60:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def test_terminal(bench, agent_socket, busy_pid):
    path = bench.path("tty.folded")
    status, text = run_in_terminal(
        [bench.agent, "record", "-p", str(busy_pid), "-o", path], 1.5, b"\x03")
    ok("a terminal shows progress", re.search(
        r"recording \d+ threads? of .* \(\d+\): \d+\.\d s, \d+ % complete "
        r"stacks  \^C to stop", text), repr(text[:500]))
    ok("^C ends it and writes", status == 0 and os.path.getsize(path) > 0,
       f"{status} {text[-300:]!r}")
    status, text = run_in_terminal(
        [bench.agent, "record", "-o", path, "--", "sleep", "30"], 1.5, b"\x03")
    ok("^C reaches the command once", status == 130 and
       os.path.getsize(path) > 0, f"{status} {text[-300:]!r}")
    status, text = run_in_terminal(
        [bench.agent, "--socket", agent_socket, "slice", "--last", "1s", "-o",
         "-"], 0)
    ok("binary does not go to a terminal", status == 2 and "terminal" in text,
       text)


def main():
    bench = Bench(sys.argv[1])
    try:
        test_help(bench)
        test_documents(bench)
        test_usage(bench)
        test_no_agent(bench)
        test_config(bench)
        busy = bench.start([bench.program("truth-fp"), "shares", "600"],
                           stdout=subprocess.PIPE, text=True)
        pid = int(read_until(busy.stdout, "ready "))
        _, agent_socket = bench.daemon("agent")
        attach = bench.run("--socket", agent_socket, "attach", str(pid))
        ok("attach", attach.returncode == 0, attach.stderr)
        time.sleep(5)
        test_slices(bench, agent_socket, pid)
        test_times(bench, agent_socket, pid)
        test_top(bench, agent_socket)
        test_convert(bench, agent_socket)
        test_state_frames(bench, agent_socket)
        test_output_trouble(bench, agent_socket)
        test_small_disk(bench, agent_socket)
        test_status(bench, agent_socket, pid)
        test_upload(bench, agent_socket)
        test_attach(bench, agent_socket)
        test_record(bench, pid)
        test_record_signals(bench, pid)
        test_ordinary_user(bench)
        test_terminal(bench, agent_socket, pid)
        test_other_users(bench, agent_socket, pid)
    finally:
        bench.close()
    checks.finish()


main()

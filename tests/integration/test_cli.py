# SPDX-License-Identifier: Apache-2.0
"""The command line, as a user meets it.

usage: test_cli.py BUILD

Exit statuses, one-line errors with a remedy, help, configuration, what a
daemon reports to its user and to other users, uploads.
"""
import gzip
import http.server
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
import time

from kit.cli_checks import (
    expect_error, is_one_line, ok, run_groups, start_busy,
    start_sampling, summary)
from kit.harness import ROOT, as_user

VERBS = ("daemon", "attach", "detach", "slice", "record", "convert", "status",
         "targets", "config", "version")
KEY = "0123456789abcdef0123456789abcdef"  # the canary of every DSN here


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


def test_service(bench):
    """What the unit of an installation starts is what was installed."""
    def install():
        return subprocess.run(
            ["cmake", "--install", bench.build, "--prefix", prefix],
            capture_output=True, text=True)

    prefix = bench.path("installed here")
    result = install()
    ok("it can be installed anywhere", result.returncode == 0, result.stderr)
    unit = os.path.join(prefix, "lib/systemd/system/fgtrace-agent.service")
    with open(unit) as file:
        text = file.read()
    started = shlex.split(re.search("^ExecStart=(.*)$", text, re.M).group(1))
    conf = started[started.index("-c") + 1]
    ok("the unit starts the agent that was installed",
       started[0] == os.path.join(prefix, "bin/fgtrace-agent") and
       os.access(started[0], os.X_OK), started)
    checked = subprocess.run([started[0], "config", "check", "-c", conf],
                             capture_output=True, text=True)
    ok("with the configuration that was installed",
       conf.startswith(prefix) and checked.returncode == 0,
       (started, checked.stderr))
    with open(conf, "a") as file:
        file.write("# mine\n")
    install()
    with open(conf) as file:
        ok("which the next installation leaves alone",
           file.read().endswith("# mine\n"))


def test_documents(bench):
    """The man pages render cleanly and know every flag; completion works."""
    etc = os.path.join(ROOT, "etc")
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
        offered = complete(bench, words)
        ok(f"completion of {' '.join(words)!r}", part in offered, offered)


def complete(bench, words, env=None):
    """What the completion offers for the last of the words."""
    script = (f"source '{ROOT}/etc/completion/fgtrace-agent.bash'\n"
              f"COMP_WORDS=({' '.join(repr(word) for word in words)})\n"
              f"COMP_CWORD={len(words) - 1}\n_fgtrace_agent\n"
              'echo "${COMPREPLY[@]}"')
    path = os.path.dirname(bench.agent) + ":" + os.environ["PATH"]
    result = subprocess.run(["bash", "-c", script], text=True, check=False,
                            env=dict(env or os.environ, PATH=path),
                            capture_output=True)
    return (result.stdout + result.stderr).split()


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
    planned = bench.path("planned.conf")
    for key, text in (
            ("http.listen", '\nhttp: {\n  listen = "127.0.0.1:7071";\n};\n'),
            ("upload.spool_mb", "\nupload: {\n  spool_mb = 8;\n};\n")):
        with open(planned, "w") as file:
            file.write(text)
        expect_error(bench, f"config check refuses {key} of a later version",
                     2, f"planned.conf:3: `{key}` is not supported by this "
                     "version", "config", "check", "-c", planned)
    expect_error(bench, "which no daemon ignores either", 2, "planned.conf:3:",
                 "daemon", "-c", planned, "--socket", bench.path("no.sock"))
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
    offered = complete(bench, ["fgtrace-agent", "slice", "-p", ""], env)
    ok("completion of slice -p offers the targets", offered == [str(pid)],
       offered)
    offered = complete(bench, ["fgtrace-agent", "slice", "-n", ""], env)
    ok("completion of slice -n offers their names",
       offered == [targets["targets"][0]["name"]], offered)


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
    printed = ""
    for name, *flags in (("by configuration", "--upload", "-c", config),
                         ("by name", "--upload", "lab", "-c", config),
                         ("by DSN file", "--dsn-file", dsn_file)):
        server.requests.clear()
        result = bench.run("slice", "--last", "2s", *flags, env=env)
        printed += result.stdout + result.stderr
        event = re.search(r"event ([0-9a-f]{32})", result.stderr)
        ok(f"upload {name}", result.returncode == 0 and event and
           len(server.requests) == 1, result.stderr)
        if not server.requests:
            continue
        path, headers, body = server.requests[0]
        header = json.loads(gzip.decompress(body).split(b"\n", 1)[0])
        ok(f"upload {name}: the event printed is the event sent",
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
                     "--last", "1s", "--dsn-file", dsn_file, env=env,
                     cwd=bench.scratch)
    server.shutdown()
    server.server_close()
    folder = bench.path("kept")
    os.mkdir(folder)
    expect_error(bench, "server down", 1, "the slice was kept as", "slice",
                 "--last", "1s", "--dsn-file", dsn_file, env=env, cwd=folder)
    kept = os.listdir(folder)
    ok("what could not be sent is kept", len(kept) == 1 and
       kept[0].endswith(".fgt") and summary(
           bench, "convert", os.path.join(folder, kept[0]))["ticks"] > 50,
       kept)
    expect_error(bench, "nowhere to keep it", 1, "the slice was lost, too",
                 "slice", "--last", "1s", "--dsn-file", dsn_file, env=env,
                 cwd="/proc/self")
    os.chmod(dsn_file, 0o644)
    expect_error(bench, "a DSN that others can read", 2, "", "slice", "--last",
                 "1s", "--dsn-file", dsn_file, env=env)
    ok("no output shows the DSN's key", KEY not in printed and
       KEY not in bench.run("config", "show", "-c", config).stdout, printed)


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
    ok("detach prints what it detached", detach.returncode == 0 and
       json.loads(detach.stdout)["targets"][0]["pid"] == sleeper.pid,
       detach.stdout + detach.stderr)
    expect_error(bench, "detach again", 1, "", "detach", pid, env=env)
    expect_error(bench, "attach of a process that is not", 1, "", "attach",
                 "4194304", env=env)
    expect_error(bench, "attach of a name that is not", 1,
                 "no process named no-such-program; ", "attach",
                 "no-such-program", env=env)


def test_attach_name(bench, agent_socket):
    """A name stays attached, and only what lives is said to be sampled."""
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    copy = bench.path("short-lived")
    shutil.copy2(shutil.which("sleep"), copy)
    first = bench.start([copy, "60"])
    time.sleep(0.3)
    attach = bench.run("attach", "short-lived", env=env)
    ok("attach by name prints the process and the rule",
       attach.returncode == 0 and attach.stdout ==
       f"sampling {first.pid} short-lived\n"
       "sampling processes that start later, named short-lived\n",
       attach.stdout + attach.stderr)
    time.sleep(1.5)
    first.kill()
    first.wait()
    second = bench.start([copy, "60"])
    time.sleep(3)
    again = bench.run("attach", "short-lived", env=env)
    ok("a process that has ended is not said to be sampled",
       f"sampling {second.pid} short-lived\n" in again.stdout and
       str(first.pid) not in again.stdout, again.stdout + again.stderr)
    targets = bench.run("targets", env=env)
    ok("targets prints the rule",
       "attached when it starts: short-lived (by user " in targets.stdout and
       re.search(f"{second.pid}  short-lived", targets.stdout),
       targets.stdout)
    ended = json.loads(bench.run("slice", "-p", str(first.pid), "--last", "1s",
                                 "--json", env=env).stdout or "{}")
    ok("--last counts from the end of a process that has ended",
       ended.get("ticks", 0) > 50, ended)
    detach = bench.run("detach", "short-lived", env=env)
    ok("detach by name prints that the rule is gone",
       "no longer sampling processes that start later, named short-lived\n" in
       detach.stdout, detach.stdout + detach.stderr)


def test_attach_several(bench, agent_socket):
    env = dict(os.environ, FGTRACE_SOCKET=agent_socket)
    pids = [str(bench.start(["sleep", "60"]).pid) for _ in range(2)]
    both = bench.run("attach", *pids, env=env)
    ok("attach of several processes", both.returncode == 0 and
       both.stdout == "".join(f"sampling {pid} sleep\n" for pid in pids),
       both.stdout + both.stderr)
    mixed = bench.run("detach", pids[0], "4194304", "--json", pids[1],
                      "no-such-program", env=env)
    replies = [json.loads(line) for line in mixed.stdout.splitlines()]
    ok("one line for each failure, and what can be done is done",
       mixed.returncode == 1 and mixed.stderr.count("\n") == 2 and
       "detach: 4194304: " in mixed.stderr and
       "detach: no-such-program: " in mixed.stderr and
       [str(reply["targets"][0]["pid"]) for reply in replies] == pids,
       mixed.stdout + mixed.stderr)
    expect_error(bench, "attach of several without agent", 3, "no agent",
                 "attach", *pids, "--socket", bench.path("none.sock"))


def test_other_users(bench, agent_socket, pid):
    if os.getuid() != 0:
        return
    binary = os.path.join(bench.copy_for_nobody(), "fgtrace-agent")
    result = subprocess.run(
        as_user([binary, "--socket", agent_socket, "slice", "-p", str(pid),
                 "-o", "-"], True), capture_output=True, text=True)
    ok("an ordinary user does not get a slice of root's target",
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
    ok("an ordinary user does not see root's targets", str(pid) not in result.stdout,
       result.stdout)
    result = subprocess.run(
        as_user([binary, "record", "-d", "1", "-p", str(pid), "-o",
                 "/dev/null", "-f", "folded"], True), capture_output=True,
        text=True)
    ok("an ordinary user does not record root's process", result.returncode == 4 and
       is_one_line(result.stderr), f"{result.returncode} {result.stderr}")
    _, own = bench.daemon("nobody", as_nobody=True, agent=binary)
    result = subprocess.run(
        as_user([binary, "--socket", own, "status", "--json"], True),
        capture_output=True, text=True)
    status = json.loads(result.stdout)
    ok("status reports to an ordinary user what BPF would need",
       "CAP_BPF" in status["bpf_why"] and
       status["perf_cpu_why"] in status["bpf_why"], result.stdout)
    test_ordinary_user_errors(bench, binary, agent_socket)
    forbidden = bench.path("forbidden")
    os.mkdir(forbidden, 0o700)
    for verb, *words in (["record", "-d", "1", "--", "true"],
                         ["slice", "--socket", agent_socket]):
        result = subprocess.run(
            as_user([binary, verb, "-o", f"{forbidden}/x.folded", *words],
                    True), capture_output=True, text=True)
        ok(f"{verb} into a forbidden directory is not permitted",
           result.returncode == 4 and is_one_line(result.stderr) and
           "-o" in result.stderr, f"{result.returncode} {result.stderr}")


def test_ordinary_user_errors(bench, binary, agent_socket):
    """The cause is the socket or the environment: no other file is named."""
    def run(name, status, parts, *words, cwd=None, **env):
        result = subprocess.run(
            as_user([binary, *words], True), capture_output=True, text=True,
            cwd=cwd, env={**os.environ, "XDG_RUNTIME_DIR": "", **env})
        ok(f"ordinary user, {name}", result.returncode == status and
           is_one_line(result.stderr) and
           all(part in result.stderr for part in parts) and
           "slice;" not in result.stderr and "-o" not in result.stderr.split(),
           f"{result.returncode} {result.stderr}")

    os.chmod(agent_socket, 0o600)
    for directory in (bench.scratch, "/"):
        run(f"slice in {directory} without agent", 3,
            ("no agent listens on /tmp/fgtrace-",), "slice", cwd=directory)
        run(f"slice in {directory} from root's agent", 4,
            (agent_socket, "run as its owner"), "slice", "--socket",
            agent_socket, cwd=directory)
    os.chmod(agent_socket, 0o666)
    private = bench.path("private")
    os.mkdir(private, 0o700)
    run("XDG_RUNTIME_DIR of another user", 4,
        (f"XDG_RUNTIME_DIR={private}", "--socket"), "status",
        XDG_RUNTIME_DIR=private)
    run("XDG_RUNTIME_DIR that does not exist", 3,
        ("XDG_RUNTIME_DIR=/none", "--socket"), "status",
        XDG_RUNTIME_DIR="/none")
    script = "mount -t tmpfs tmpfs /run && mkdir /run/fgtrace && " \
        'touch /run/fgtrace/agent.sock && exec "$@"'
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh",
         *as_user([binary, "status"], True)], capture_output=True, text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": ""})
    if "fgtrace-agent:" not in result.stderr:
        print("# cannot mount a tmpfs here: root's socket is not tested")
        return
    ok("ordinary user, root's agent is named", result.returncode == 3 and
       is_one_line(result.stderr) and
       "--socket /run/fgtrace/agent.sock" in result.stderr, result.stderr)


def run(bench):
    test_help(bench)
    test_documents(bench)
    test_service(bench)
    test_usage(bench)
    test_no_agent(bench)
    test_config(bench)
    pid = start_busy(bench)
    agent_socket = start_sampling(bench, pid)
    test_status(bench, agent_socket, pid)
    test_upload(bench, agent_socket)
    test_attach(bench, agent_socket)
    test_attach_name(bench, agent_socket)
    test_attach_several(bench, agent_socket)
    test_other_users(bench, agent_socket, pid)


if __name__ == "__main__":
    run_groups(run)

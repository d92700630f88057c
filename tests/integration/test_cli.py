# SPDX-License-Identifier: Apache-2.0
"""The command line, as a user runs it.

usage: test_cli.py BUILD

Exit statuses, one-line errors with a remedy, help, configuration, status,
uploads.
"""
import gzip
import http.server
import json
import os
import re
import shlex
import socket
import subprocess
import threading
import time

from kit.cli_checks import (
    expect_error, ok, run_groups, start_busy, start_sampling, summary)
from kit.harness import ROOT

VERBS = ("daemon", "attach", "detach", "slice", "record", "convert", "status",
         "targets", "triggers", "spool", "config", "version", "why",
         "stacks", "diff", "mcp")
KEY = "0123456789abcdef0123456789abcdef"  # the canary of every DSN here


def test_synopses(bench):
    """Help and man page show each option that a verb takes."""
    everywhere = {"json", "json-to", "socket", "help"}
    with open(os.path.join(ROOT, "etc", "man", "fgtrace-agent.1")) as file:
        man = file.read().replace("\\-", "-")
    for verb in ("stacks", "diff", "why", "tail"):
        text = bench.run(verb, "--help").stdout
        synopsis = text.splitlines()[0]
        page = man.split(f".B fgtrace-agent {verb}\n")[1].split(".br\n")[0]
        for short, name in re.findall(r"^  (?:(-\w), |    )--([\w-]+)", text,
                                      re.M):
            words = re.compile(f"{short}\\b|--{name}(?![\\w-])" if short else
                               f"--{name}(?![\\w-])")
            if name not in everywhere and (verb, name) != ("tail", "no-idle"):
                ok(f"{verb}: help and man page have --{name}",
                   words.search(synopsis) and words.search(page),
                   (synopsis, page))


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
        flags = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", texts[0], re.M))
        named = set(re.findall(r"--([a-z-]+)", texts[0].split(
            "the flag wins.")[-1])) - {"some-flag", "children"}
        ok(f"{verb} --help names flags of {verb} only", named <= flags,
           named - flags)
    ok("no line of help is longer than 110 columns", all(
        len(line) <= 110 or line.startswith("fgtrace-agent ")
        for verb in VERBS for line in
        bench.run(verb, "--help").stdout.split("\n")))
    version = bench.run("version", "--json")
    ok("version --json is JSON", "version" in json.loads(version.stdout))
    ok("--version is version",
       bench.run("--version").stdout == bench.run("version").stdout)


def test_service(bench):
    """The unit file of an installation starts the installed program."""
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
    """The man pages render cleanly and have every flag; completion works."""
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
    """What the completion offers for the last word."""
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
            ("md and -o", "redirect it", "slice", "-f", "md", "-o",
             "/tmp/x.md"),
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
            ("attach -p of a name", "whole number", "attach", "-p", "cat"),
            ("attach of both", "exclude each other", "attach", "-p", "1",
             "-n", "cat"),
            ("config of nothing", "argument is missing", "config"),
            ("unknown action", "config check", "config", "chek"),
            ("stacks of both", "leave one out", "stacks", "/x.fgt", "-p", "1"),
            ("why of both", "leave one out", "why", "/x.fgt", "-n", "x"),
            ("missing configuration", "", "config", "check", "-c", "/none")):
        if name == "no destination":
            continue  # record has no upload: an unknown flag
        expect_error(bench, name, 2, part, *arguments)
    expect_error(bench, "record has no --upload", 2, "unknown flag", "record",
                 "--upload")
    odd = subprocess.run([bench.agent, "convert", b"/none/\xff\x1b\xc2\x9b\xc3\xa9"],
                         capture_output=True).stderr
    ok("no byte of a name controls the terminal, or is not UTF-8",
       "/none/????é" in odd.decode(errors="surrogateescape"), odd)
    environment = dict(os.environ, FGTRACE_FORMAT="nonsense")
    expect_error(bench, "bad environment", 2, "nonsense", "slice",
                 env=environment)


def test_no_agent(bench):
    missing = bench.path("no.sock")
    for verb, *arguments in (("status",), ("targets",), ("slice",),
                             ("attach", "1"), ("detach", "1"),
                             ("attach", "-p", "1", "2")):
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
    lacking = bench.path("lacking.conf")
    with open(lacking, "w") as file:
        file.write('upload: { destinations = ( { name = "lab"; directory = '
                   '"/none/slices"; },\n{ name = "s"; dsn_file = "/none/dsn"; '
                   '},\n{ url = "https://a/b"; headers_file = "/none/h"; } '
                   '); };')
    result = bench.run("config", "check", "-c", lacking)
    ok("config check warns of files that do not exist",
       result.returncode == 0 and
       f"{lacking}:1: destination 'lab': no such directory: /none/slices"
       in result.stderr and
       f"{lacking}:2: destination 's': no such dsn_file: /none/dsn"
       in result.stderr and "no such headers_file: /none/h" in result.stderr,
       result)
    rule = bench.path("rule.conf")
    with open(rule, "w") as file:
        file.write('triggers: ( { name = "stuck"; target = "cat"; '
                   'when: { state = "futx"; longer_s = 1; }; '
                   'deliver = "/tmp"; } );\n')
    result = bench.run("config", "check", "-c", rule)
    ok("config check warns of a state that does not exist",
       result.returncode == 0 and f"{rule}:1: trigger 'stuck' never fires" in result.stderr and
       "did you mean 'futex'?" in result.stderr, result.stderr)
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
           len(server.requests) == 2, result.stderr)
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
    failed = bench.run("slice", "-q", "--last", "1s", "--dsn-file", dsn_file,
                       "--json", env=env, cwd=folder)
    kept = json.loads(failed.stdout or "{}").get("upload", {}).get("kept")
    ok("--json has where it was kept", failed.returncode == 1 and kept and
       os.path.exists(os.path.join(folder, kept)), failed)
    elsewhere = f"the slice was kept as {folder}/"
    expect_error(bench, "no place to keep it here", 1, elsewhere, "slice",
                 "--last", "1s", "--dsn-file", dsn_file,
                 env={**env, "TMPDIR": folder}, cwd="/proc/self")
    expect_error(bench, "a full disk", 1, elsewhere, "slice", "--last", "1s",
                 "-f", "folded", "-o", "/dev/full", env={**env, "TMPDIR": folder},
                 cwd="/proc/self")
    os.chmod(dsn_file, 0o644)
    expect_error(bench, "a DSN that others can read", 2, "", "slice", "--last",
                 "1s", "--dsn-file", dsn_file, env=env)
    ok("no output shows the DSN's key", KEY not in printed and
       KEY not in bench.run("config", "show", "-c", config).stdout, printed)


def run(bench):
    test_synopses(bench)
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


if __name__ == "__main__":
    run_groups(run)

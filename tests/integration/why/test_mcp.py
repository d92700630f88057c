# SPDX-License-Identifier: Apache-2.0
"""The Model Context Protocol: client libraries ask about a service whose cache
was locked, and hostile lines do no harm.
test_mcp.py BUILD"""
import json
import os
import re
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.faults import Service, place_of  # noqa: E402
from kit.harness import Bench, Checks  # noqa: E402
from kit.mcp.server import (  # noqa: E402
    Lines, bring, by_library, node_version)

BEFORE_S = 6
FAULT = "lock_convoy"
MIB = 1 << 20
TOOLS = ["targets", "threads", "summary", "why", "stacks", "diff"]
OLD = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
META = "io.modelcontextprotocol/"
checks = Checks()
ok = checks.ok


def call(name, /, **arguments):
    return {"op": "call", "params": {"name": name, "arguments": arguments}}


def text_of(result):
    return result["content"][0]["text"] if "content" in result else str(result)


# ---- By the libraries --------------------------------------------------------

def questions(service, files):
    pid = service.child.pid
    of = {"pid": pid, "from": f"m:{service.from_ns}",
          "to": f"m:{service.to_ns}"}
    before = f"m:{service.from_ns - 3 * 10**9}"
    middle = (service.from_ns + service.to_ns) // 2
    return {
        "list": {"op": "list"},
        "targets": call("targets"),
        "threads": call("threads", limit=3, **of),
        "summary": call("summary", top=5, **of),
        "waiting": call("summary", state="futex", thread="worker-*", **of),
        "why": call("why", **of),
        "stacks": call("stacks", pid=pid, at=f"m:{middle}"),
        "stacks now": call("stacks", pid=os.getpid()),
        "diff": call("diff", against_from=before, **of),
        "why of a file": call("why", file=files[1], **{
            key: of[key] for key in ("from", "to")}),
        "diff of files": call("diff", before=files[0], after=files[1]),
        "no such tool": call("slice", pid=pid),
        "wrong type": call("why", pid="x"),
        "unknown argument": call("why", form="-10s"),
        "no data": call("why", pid=pid, **{"from": "m:1", "to": "m:2"}),
        "no target": call("threads", name="no-such-program"),
    }


def check_tools(era, tools):
    ok(f"{era}: the six tools are listed",
       [tool["name"] for tool in tools] == TOOLS, tools)
    ok(f"{era}: each has a schema that takes no other argument, and only reads",
       all(tool["inputSchema"]["type"] == "object" and
           tool["inputSchema"]["additionalProperties"] is False and
           tool["annotations"]["readOnlyHint"] is True and
           all(len(argument["description"]) > 5 for argument in
               tool["inputSchema"].get("properties", {}).values())
           for tool in tools), tools)


def check_threads(era, service, got):
    data = got["structuredContent"]
    names = {thread["name"] for thread in data["threads"]}
    ok(f"{era}: threads: all in the data", "maint" in names and
       any(name.startswith("worker") for name in names), names)
    ok(f"{era}: threads: the text has so many, and how to see all",
       text_of(got).count(str(service.child.pid)) >= 1 and
       "more: --threads 0 shows all" in text_of(got),
       text_of(got))


def check_answers(era, service, answers):
    targets = answers["targets"]["structuredContent"]["targets"]
    ok(f"{era}: targets: the service is one", service.child.pid in
       [target["pid"] for target in targets], targets)
    check_threads(era, service, answers["threads"])
    summary = answers["summary"]
    ok(f"{era}: summary: as many functions as were asked for",
       0 < len(summary["structuredContent"]["functions"]) <= 5 and
       "hottest functions" in text_of(summary), text_of(summary))
    waiting = answers["waiting"]["structuredContent"]["threads"]
    ok(f"{era}: summary: filters are the verb's", waiting and all(
        thread["name"].startswith("worker") for thread in waiting), waiting)
    why = answers["why"]
    ok(f"{era}: why: the cause is among the first three",
       place_of(FAULT, why["structuredContent"]) is not None, why)
    ok(f"{era}: why: the text is markdown with the same cause",
       text_of(why).startswith("## ") and "rebuild_index" in text_of(why),
       text_of(why))
    stacks = answers["stacks"]
    ok(f"{era}: stacks: what waits, for what, and who holds it",
       "g_cache_lock" in text_of(stacks) and "maint" in text_of(stacks) and
       stacks["structuredContent"], text_of(stacks))
    ok(f"{era}: stacks: of a process that is not sampled",
       not answers["stacks now"]["isError"] and
       "python3" in text_of(answers["stacks now"]), answers["stacks now"])
    for name in "diff", "diff of files":
        rows = answers[name]["structuredContent"]["rows"]
        ok(f"{era}: {name}: the wait for the lock grew", any(
            row["function"] == "lookup_cache" and row["change"] > 0.5
            for row in rows), rows[:4])
    ok(f"{era}: a file has the same cause", place_of(
        FAULT, answers["why of a file"]["structuredContent"]) is not None,
       answers["why of a file"])


def check_mistakes(era, answers):
    ok(f"{era}: an unknown tool is an error of the protocol",
       answers["no such tool"].get("code") == -32602 and
       "Unknown tool: slice" in answers["no such tool"]["message"],
       answers["no such tool"])
    for name, words in (("wrong type", "must be a whole number"),
                        ("unknown argument", "did you mean 'from'"),
                        ("no data", "no data in range"),
                        ("no target", "no-such-program")):
        got = answers[name]
        ok(f"{era}: {name}: a result that names cause and remedy",
           got.get("isError") is True and words in text_of(got) and
           "structuredContent" not in got, got)


def test_libraries(bench, socket, service, files):
    folder, reason = bring(bench)
    if not ok("npm brings the client libraries", folder, reason):
        return
    for era in "legacy", "modern":
        if era == "modern" and node_version() < 20:
            print("# node is older than 20: no library for 2026-07-28")
            continue
        steps = questions(service, files)
        got = by_library(bench, folder, era, socket, list(steps.values()))
        ok(f"{era}: the server introduces itself",
           got[0]["server"]["name"] == "fgtrace" and
           "tools" in got[0]["capabilities"] and
           "targets" in got[0]["instructions"], got[0])
        answers = dict(zip(steps, got[1:]))
        check_tools(era, answers["list"]["tools"])
        check_answers(era, service, answers)
        check_mistakes(era, answers)
    pong = by_library(bench, folder, "legacy", socket, [{"op": "ping"}])
    ok("legacy: ping", "code" not in pong[1], pong)


# ---- By lines ----------------------------------------------------------------

def test_revisions(bench, socket):
    server = Lines(bench, socket)
    for version in OLD:
        got = server.ask("initialize", {"protocolVersion": version})
        ok(f"{version} is taken", got["result"]["protocolVersion"] == version,
           got)
    got = server.ask("initialize", {"protocolVersion": "2099-01-01"})
    ok("another one gets the newest that has initialize",
       got["result"]["protocolVersion"] == OLD[0], got)
    meta = {"_meta": {META + "protocolVersion": "2026-07-28",
                      META + "clientCapabilities": {}}}
    got = server.ask("tools/call", {"name": "targets", **meta})["result"]
    ok("2026-07-28: a call by itself", got["resultType"] == "complete" and
       got["_meta"][META + "serverInfo"]["name"] == "fgtrace" and
       got["structuredContent"]["targets"], got)
    meta["_meta"][META + "protocolVersion"] = "2099-01-01"
    got = server.ask("tools/list", meta)["error"]
    ok("an unknown revision of a request gets those that are known",
       got["code"] == -32022 and got["data"]["supported"][0] == "2026-07-28"
       and got["data"]["requested"] == "2099-01-01", got)
    ok("it ends with its input", server.end() == 0)
    alone = Lines(bench, socket)
    got = alone.call("targets")["result"]
    ok("a call without initialize and without a revision",
       got["structuredContent"]["targets"] and "resultType" not in got, got)
    ok("it ends with its input, too", alone.end() == 0)


HOSTILE = [
    (b"{", -32700), (b'{"a":1}}', -32700), (b"\xff\xfe", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', -32700),
    (b'"' + b"a" * 1000, -32700), (b"[" * 100000, -32700),
    (b'{"id":' * 50000, -32700), (b"\0", -32700),
    (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700),
    (b"null", -32600), (b"[]", -32600), (b'{"jsonrpc":"1.0"}', -32600),
    (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600),
    (b"a" * (MIB + 1), -32600), (b"a" * (5 * MIB), -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"exec"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
     -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
     b'{"name":"why","arguments":7}}', -32602),
]


def test_hostile_lines(bench, socket):
    server = Lines(bench, socket)
    for line, code in HOSTILE:
        server.send(line)
        got = server.read()
        ok(f"{line[:40]} of {len(line)} bytes: {code}",
           got and got.get("error", {}).get("code") == code and
           len(got["error"]["message"]) > 10, got)
    server.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "why", "arguments": {"name": "a\0b"}}})
    got = server.read()
    ok("an argument with a NUL is a mistake, with the request's id",
       got["id"] == 7 and got["result"]["isError"] and
       "'name' must be a string without" in text_of(got["result"]), got)
    noise = random.Random(21)
    start = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'
    for _ in range(500):
        line = bytearray(start)
        for _ in range(noise.randrange(1, 6)):
            line[noise.randrange(len(line))] = noise.randrange(256)
        server.send(bytes(line).replace(b"\n", b" "))
    server.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})
    count, got = 0, server.read()
    while got and got.get("id") != "last":
        count += "error" in got
        got = server.read()
    ok("500 lines of noise: errors, and it goes on", got and count > 100,
       (count, got))
    ok("it ends with its input after all that", server.end() == 0)


def test_injection(bench, socket, service, files):
    """No argument writes, sends or reads what it must not."""
    folder = bench.path("here")
    os.makedirs(folder)
    server = Lines(bench, socket, cwd=folder, env={
        **os.environ, "FGTRACE_OUTPUT": "env.fgt", "FGTRACE_FORMAT": "fgt",
        "FGTRACE_UPLOAD": folder, "FGTRACE_TID": "1"})
    of = {"pid": service.child.pid}
    got = server.call("summary", last="1s", **of)["result"]
    ok("flags of the environment do not reach the verb", not got["isError"] and
       len(got["structuredContent"]["threads"]) > 1, got)
    for name, arguments in (
            ("summary", {"thread": "--output=x.fgt", **of}),
            ("summary", {"name": "-ox.fgt"}),
            ("threads", {"function": "-o x.fgt -f fgt", **of}),
            ("threads", {"last": "--upload=" + folder, **of}),
            ("why", {"from": "--json-to=x.json", **of}),
            ("why", {"file": "--json-to=x.fgt"}),
            ("diff", {"before": "-ox.fgt", "after": "--output=y.fgt"}),
            ("stacks", {"file": "--", **of}),
            ("why", {"file": "/etc/shadow"}), ("why", {"file": "-"}),
            ("summary", {"output": "x.fgt", **of}),
            ("why", {"from": "a" * 200000, **of})):
        got = server.call(name, **arguments)["result"]
        ok(f"{name} {str(arguments)[:60]}: an error or nothing found",
           got["isError"] or "structuredContent" in got, got)
    ok("no file was written", os.listdir(folder) == [], os.listdir(folder))
    link = os.path.join(folder, "-o link.fgt")
    os.symlink(files[1], link)
    got = server.call("why", file="-o link.fgt")["result"]
    ok("a file that begins like a flag is read", not got["isError"], got)
    ok("it ends", server.end() == 0)


def test_cancel(bench, socket, service):
    server = Lines(bench, socket)
    begin = time.monotonic()
    server.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
                 "params": {"name": "threads", "arguments": {
                     "pid": service.child.pid, "from": "now", "to": "+25s"}}})
    server.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    ok("requests are answered in their order", server.read(1) is None)
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                 "params": {"requestId": "other"}})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                 "params": {"requestId": "slow"}})
    got = server.read(10)
    ok("a call that is cancelled ends, without an answer",
       got and got["id"] == 2 and time.monotonic() - begin < 12, got)
    ok("it ends with its input", server.end() == 0)


def verbs_until(end):
    """The processes of verbs that wait for that end."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if f"--to={end}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_for(condition, seconds=5):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_killed(bench, socket, service):
    server = Lines(bench, socket)
    server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                 "params": {"name": "threads", "arguments": {
                     "pid": service.child.pid, "from": "now", "to": "+917s"}}})
    ok("a verb waits", wait_for(lambda: verbs_until("+917s")))
    server.child.kill()
    ok("it does not outlive its server", wait_for(
        lambda: not verbs_until("+917s")), verbs_until("+917s"))


def test_limits(bench, socket, service):
    """Without a daemon, with another user's, and with too much."""
    server = Lines(bench, bench.path("none.sock"))
    got = server.call("targets")["result"]
    ok("no agent: the error names the remedy", got["isError"] and
       "fgtrace-agent daemon" in text_of(got), got)
    server.end()
    if os.getuid() == 0:
        agent = os.path.join(bench.copy_for_nobody(), "fgtrace-agent")
        server = Lines(bench, socket, as_nobody=True, agent=agent)
        got = server.call("stacks", pid=service.child.pid)["result"]
        ok("an ordinary user gets no stacks of root", got["isError"] and
           "structuredContent" not in got, got)
        server.end()
    crowd = bench.start([bench.program("crowd"), "0", "9000", "2", "60"],
                        stdout=subprocess.DEVNULL)
    time.sleep(3)
    bench.run("--socket", socket, "attach", str(crowd.pid))
    time.sleep(3)
    server = Lines(bench, socket)
    got = server.call("threads", pid=crowd.pid, limit=0)["result"]
    ok("more than 1 MiB: an error that names the remedy", got["isError"] and
       "more than 1 MiB" in text_of(got), str(got)[:500])
    got = server.call("threads", pid=crowd.pid, limit=2, thread=str(
        crowd.pid))["result"]
    ok("a part of it is answered", not got["isError"] and
       len(got["structuredContent"]["threads"]) == 1, str(got)[:500])
    if os.environ.get("FGT_TESTS_SOAK"):
        got = server.call("threads", pid=crowd.pid, **{
            "from": "now", "to": "+50s"})["result"]
        ok("no answer within 30 s: an error", got["isError"] and
           "within 30 s" in text_of(got), got)
    crowd.kill()
    ok("it ends with its input", server.end() == 0)


def check_places_of_json(bench, files):
    """--json-to writes as -o does."""
    folder = bench.path("places")
    os.mkdir(folder)
    victim, link, old = (os.path.join(folder, name)
                         for name in ("victim", "link", "old"))
    with open(victim, "w") as file:
        file.write("kept")
    with open(old, "w") as file:
        file.write("old")
    os.chmod(old, 0o644)
    os.symlink(victim, link)
    if os.getuid() == 0:
        os.lchown(link, 65534, 65534)
        result = bench.run("diff", *files, "--json-to", link)
        with open(victim) as file:
            ok("a link of another user is not followed",
               result.returncode == 1 and file.read() == "kept" and
               "symbolic link of another user" in result.stderr and
               "--json-to" in result.stderr, result)
    result = bench.run("diff", *files, "--json-to", old)
    with open(old) as file:
        ok("a file that was there is for its user only, too",
           result.returncode == 0 and json.load(file) and
           os.stat(old).st_mode & 0o777 == 0o600, (result, os.stat(old)))
    for place in ("-", os.path.join(folder, "one.folded")):
        result = bench.run("convert", files[0], "-f", "folded", "-o", place,
                           "--json-to", place)
        ok(f"--output and --json-to may not both be {place}",
           result.returncode == 2 and not result.stdout and
           "choose another place" in result.stderr, result)
    result = bench.run("diff", *files, "--json-to", "-", cwd=folder)
    text = result.stdout
    ok("--json-to -: on standard output, behind the text",
       result.returncode == 0 and not text.startswith("{") and
       json.loads(text[text.index("\n{") + 1:]) and
       not os.path.exists(os.path.join(folder, "-")), result)


def test_forms(bench, socket, service, files):
    """-f md, -f json and --json-to of the verbs, which the tools use, too."""
    pid = str(service.child.pid)
    path = bench.path("beside.json")
    for verb in (["targets"], ["status"], ["triggers"], ["why", files[1]],
                 ["stacks", "-p", pid], ["diff", *files],
                 ["slice", "-p", pid, "--last", "2s"],
                 ["convert", files[0]]):
        of = [] if verb[-1].endswith(".fgt") else ["--socket", socket]
        result = bench.run(*of, *verb, "-f", "md", cwd=bench.scratch)
        ok(f"{verb[0]} -f md: a heading, or fenced columns",
           result.returncode == 0 and (result.stdout.startswith("## ") or (
               result.stdout.startswith("```\n") and
               re.search("\n```\n(\nThe same .*`\n)?$", result.stdout) and
               len(result.stdout.splitlines()) > 2)), result)
        if verb[0] in ("slice", "convert", "triggers"):
            continue
        result = bench.run(*of, *verb, "-f", "json")
        ok(f"{verb[0]} -f json", json.loads(result.stdout), result.stderr)
        result = bench.run(*of, *verb, "--json-to", path)
        with open(path, encoding="utf-8") as file:
            ok(f"{verb[0]} --json-to: both", result.stdout and
               not result.stdout.startswith("{") and json.load(file),
               result)
    ok("the file is for its user only", os.stat(path).st_mode & 0o777 == 0o600)
    ok("-f md writes no slice", not [
        name for name in os.listdir(bench.scratch) if name.endswith(
            ".trace.json")], os.listdir(bench.scratch))
    result = bench.run("--socket", socket, "triggers", "try", "x", "-f", "xml")
    ok("an unknown form is a mistake", result.returncode == 2 and
       "use text, md or json" in result.stderr, result)
    check_places_of_json(bench, files)
    result = bench.run("diff", *files, "--json-to", "/none/x.json")
    ok("a file that cannot be written is named", result.returncode == 1 and
       "/none/x.json" in result.stderr, result)


def write_files(bench, socket, service):
    paths = []
    for name, begin, end in (
            ("before", service.from_ns - 3 * 10**9, service.from_ns),
            ("after", service.from_ns - 5 * 10**9, service.to_ns)):
        paths.append(bench.path(f"{name}.fgt"))
        bench.run("--socket", socket, "slice", "-q", "-p",
                  str(service.child.pid), "--from", f"m:{begin}", "--to",
                  f"m:{end}", "-o", paths[-1])
    return paths


def main():
    bench = Bench(sys.argv[1])
    try:
        _, socket = bench.daemon("mcp")
        service = Service(bench, socket, FAULT, BEFORE_S)
        service.wait()
        files = write_files(bench, socket, service)
        begin = time.monotonic()
        test_libraries(bench, socket, service, files)
        print(f"# libraries: {time.monotonic() - begin:.1f} s")
        test_revisions(bench, socket)
        test_hostile_lines(bench, socket)
        test_injection(bench, socket, service, files)
        test_forms(bench, socket, service, files)
        test_cancel(bench, socket, service)
        test_killed(bench, socket, service)
        test_limits(bench, socket, service)
        service.child.kill()
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

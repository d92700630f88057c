# SPDX-License-Identifier: Apache-2.0
"""What the HTTP server of the daemon serves, by curl and go tool pprof, and a
program's own server. test_http_stacks.py BUILD [GROUP…]"""
import gzip
import json
import os
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.daemon_bench import run_groups, sleeper  # noqa: E402
from kit.daemon_client import call  # noqa: E402
from kit.harness import run_checker  # noqa: E402
from kit.delivery.promtool import no_objection  # noqa: E402
from kit.web.client import WebSocket, ask, read_metrics  # noqa: E402
from kit.web.site import Site  # noqa: E402


def traces_and_profiles(checks, bench):
    """What fgtrace and fgprof serve, of the past, at once (ANCESTORS 6.3)."""
    site = Site(bench, "traces")
    site.wait_for_ticks(250)
    auth = ["-H", f"Authorization: Bearer {site.token}"]
    path = bench.path("curl.trace.json")
    began = time.monotonic()
    result = site.curl("/debug/fgtrace?seconds=2", *auth, "-o", path)
    seconds = time.monotonic() - began
    ok = result.returncode == 0 and \
        run_checker("check_chrome_trace", path).returncode == 0
    checks.ok("curl /debug/fgtrace is a Chrome trace", ok,
              (result, run_checker("check_chrome_trace", path)))
    events = json.load(open(path))
    events = events["traceEvents"] if isinstance(events, dict) else events
    stamps = [e["ts"] for e in events if e.get("ph") in "BEX"]
    checks.ok("of the past two seconds", 1.0e6 < max(stamps) - min(stamps) <
              2.5e6, (max(stamps) - min(stamps), seconds))
    path = bench.path("curl.gz")
    site.curl("/debug/fgtrace?seconds=1", *auth, "-H",
              "Accept-Encoding: gzip", "-o", path)
    checks.ok("compressed for those that accept it", json.loads(
        gzip.open(path).read()), "")
    url = f"{site.url}/debug/pprof/profile?token={site.token}"
    result = subprocess.run(
        ["go", "tool", "pprof", "-top", "-seconds", "2", url], text=True,
        capture_output=True, check=False, timeout=100,
        env={**os.environ, "PPROF_TMPDIR": bench.scratch})
    checks.ok("go tool pprof reads /debug/pprof/profile",
              result.returncode == 0 and "start_thread" in result.stdout,
              result)
    answer = site.get("/debug/fgprof?seconds=1&format=folded")
    lines = answer.text.splitlines()
    checks.ok("/debug/fgprof?format=folded has stacks and counts",
              answer.status == 200 and len(lines) > 2 and
              all(line.rpartition(" ")[2].isdigit() for line in lines), answer)
    began = time.monotonic()
    answer = site.get("/debug/fgprof?seconds=1&wait=1&format=folded")
    checks.ok("wait=1 records the next second", answer.status == 200 and
              time.monotonic() - began >= 0.9, answer)
    forms = site.get("/debug/fgtrace?seconds=1&hz=50.5")
    checks.ok("hz has to be whole", forms.status == 400, forms)
    full = site.get("/debug/fgprof?seconds=2&format=folded").text
    half = site.get("/debug/fgprof?seconds=2&hz=51&format=folded").text
    count = [sum(int(line.rpartition(" ")[2]) for line in text.splitlines())
             for text in (full, half)]
    checks.ok("hz=51 has half of the samples", 0.4 < count[1] / count[0] <
              0.6, count)
    site.close()


def same_bytes_as_the_command_line(checks, bench):
    """/api/v1/slice is `slice`, and the target is chosen alike."""
    site = Site(bench, "slices")
    site.wait_for_ticks()
    target = call(site.daemon.socket, "targets")["targets"][0]
    end = target["newest_ns"] - 100000000
    for form in ("fgt", "chrome", "folded", "speedscope"):
        path = bench.path(f"cli.{form}")
        bench.run("--socket", site.daemon.socket, "slice", "--from",
                  f"m:{end - 500000000}", "--to", f"m:{end}", "-f", form,
                  "-q", "-o", path)
        answer = site.get(f"/api/v1/slice?from=m:{end - 500000000}&to=m:{end}"
                          f"&format={form}")
        checks.ok(f"/api/v1/slice of format {form} is the command line's",
                  answer.status == 200 and
                  answer.body == open(path, "rb").read(), answer)
    checks.ok("and named after the target", "truth-fp-" in
              answer.headers.get("content-disposition", ""), answer.headers)
    answer = site.get("/api/v1/threads")
    threads = json.loads(answer.text)["threads"]
    checks.ok("/api/v1/threads has the threads", {t["tid"] for t in threads} ==
              set(map(int, os.listdir(f"/proc/{site.target.pid}/task"))) and
              all("state" in t and t["samples"] for t in threads), answer)
    answer = site.get("/api/v1/targets")
    checks.ok("/api/v1/targets has the target", json.loads(answer.text)
              ["targets"][0]["pid"] == site.target.pid, answer)
    other = sleeper(bench)
    site.daemon.attach(other.pid)
    answer = site.get("/debug/fgtrace")
    checks.ok("of several targets one has to be named, and they are listed",
              answer.status == 400 and f"{other.pid} sleep" in answer.text and
              f"{site.target.pid} truth" in answer.text, answer)
    answer = site.get(f"/debug/fgtrace?pid={site.target.pid}&seconds=1")
    checks.ok("pid= names it", answer.status == 200, answer)
    answer = site.get("/debug/fgtrace?name=truth-fp&seconds=1")
    checks.ok("name= names it", answer.status == 200, answer)
    several_processes(checks, bench, site, other)
    answer = site.get("/debug/fgtrace?pid=1&seconds=1")
    checks.ok("what is no target is not found, and a path has those that are",
              answer.status == 404 and "/api/v1/targets" in answer.text and
              "fgtrace-agent" not in answer.text, answer)
    answer = site.get("/api/v1/slice?from=-3000s&to=-2999s&name=truth-fp")
    checks.ok("what the ring does not hold is not found",
              answer.status == 404 and "no data" in answer.text, answer)
    other.kill()
    other.wait()
    site.close()


def several_processes(checks, bench, site, other):
    """All targets, those of a name, and a choice of samples, as `slice`."""
    twin = sleeper(bench)
    site.daemon.attach(twin.pid)
    targets = []
    while len(targets) < 3 or min(t["newest_ns"] - t["oldest_ns"]
                                  for t in targets) < 500000000:
        time.sleep(0.1)
        targets = call(site.daemon.socket, "targets")["targets"]
    end = min(t["newest_ns"] for t in targets) - 50000000
    for flags, query, has in (
            (["--all"], "all=1", (site.target.pid, other.pid, twin.pid)),
            (["-n", "sleep"], "name=sleep", (other.pid, twin.pid)),
            (["-p", str(site.target.pid), "--children"],
             f"pid={site.target.pid}&children=1", ()),
            (["--all", "--state", "blocked", "--function", "*sleep*"],
             "all=1&state=blocked&function=*sleep*", (other.pid, twin.pid)),
            (["--all", "--running"], "all=1&running=1", ())):
        path = bench.path("cli.folded")
        run = bench.run("--socket", site.daemon.socket, "slice", "-q", *flags,
                        "--from", f"m:{end - 300000000}", "--to", f"m:{end}",
                        "-o", path)
        answer = site.get(f"/api/v1/slice?from=m:{end - 300000000}&to=m:{end}"
                          f"&format=folded&{query}")
        checks.ok(f"{query} is the command line's {' '.join(flags)}",
                  answer.status == 200 and answer.text == open(path).read() and
                  all(f"({pid})" in answer.text for pid in has),
                  (answer, run.stderr))
    threads = json.loads(site.get("/api/v1/threads?name=sleep").text)["threads"]
    checks.ok("/api/v1/threads names the process of each thread",
              {thread["pid"] for thread in threads} == {other.pid, twin.pid},
              threads)
    answer = site.get("/api/v1/slice?all=1&thread=none-such")
    checks.ok("a filter that takes nothing is explained", answer.status == 404
              and "threads are " in answer.text
              and "truth-fp" in answer.text, answer)
    twin.kill()
    twin.wait()


def bad_parameters_are_named(checks, bench):
    """fgtrace's texts (fault H8)."""
    site = Site(bench, "bad", is_busy=False)
    for target, text in (
            ("/debug/fgtrace?seconds=x", 'bad seconds: "x": '),
            ("/debug/fgtrace?seconds=NaN", 'bad seconds: "NaN": invalid'),
            ("/debug/fgtrace?seconds=1e300", 'bad seconds: "1e300": invalid'),
            ("/debug/fgtrace?seconds=1e9", 'bad seconds: "1e9": invalid'),
            ("/debug/fgtrace?seconds=-1", 'bad seconds: "-1": invalid value'),
            ("/debug/fgtrace?seconds=0", 'bad seconds: "0": invalid value'),
            ("/debug/fgtrace?hz=2000000000", 'bad hz: "2000000000": invalid'),
            ("/debug/fgtrace?hz=-5", 'bad hz: "-5": invalid value'),
            ("/debug/fgprof?format=svg", 'bad format: "svg": unknown format'),
            ("/debug/fgprof?second=5", "bad second: "),
            ("/debug/fgprof?seconds=1&seconds=2", "bad seconds: "),
            ("/api/v1/slice?from=yesterday", "bad from: "),
            ("/api/v1/status?pid=1", "bad pid: "),
            ("/api/v1/slice?from=%zz", "bad query: ")):
        answer = site.get(target)
        checks.ok(f"{target} is refused", answer.status == 400 and
                  answer.text.startswith(text) and answer.text.count("\n") == 1,
                  answer)
    answer = site.get("/api/v1/slice?to=+1s")
    checks.ok("a + that became a space is explained", answer.status == 400 and
              answer.text.endswith("write + as %2B\n"), answer)
    checks.ok("and the server is the same process", site.process() > 0 and
              site.daemon.status()["http_restarts"] == 0, site.process())
    site.close()


def metrics(checks, bench):
    """/metrics, and what Prometheus' own tool thinks of it."""
    site = Site(bench, "metrics")
    site.wait_for_ticks()
    answer = site.get("/metrics")
    found = read_metrics(answer.text)
    labels = {"pid": str(site.target.pid), "name": "truth-fp"}
    samples = {tuple(sorted(set(one.items()) - set(labels.items()))): value
               for one, value in found["fgtrace_target_samples_total"]}
    checks.ok("samples by result and reason", samples[
        (("reason", "running"), ("result", "stored"))] > 0 and len(samples) ==
        4, samples)
    checks.ok("ring, tables, rate, cost", all(
        found[name] and found[name][0][1] > 0 for name in (
            "fgtrace_target_ring_covered_seconds",
            "fgtrace_target_ring_used_bytes", "fgtrace_target_ticks_total",
            "fgtrace_target_ring_entries", "fgtrace_process_cpu_seconds_total",
            "fgtrace_target_effective_rate_hertz",
            "fgtrace_process_resident_memory_bytes")) and
        "fgtrace_target_missed_ticks_total" in found and
        "fgtrace_uploads_total" in found, sorted(found))
    printed = bench.run("--socket", site.daemon.socket, "metrics")
    checks.ok("the command line prints the same metrics",
              printed.returncode == 0 and
              sorted(read_metrics(printed.stdout)) ==
              sorted(name for name in found if "streams" not in name), printed)
    no_objection(checks, "promtool has no objection", answer.text)
    site.close()


def events_of(data):
    """The events of a stream of server-sent events that was broken off."""
    return [part[6:] for part in data.decode().split("\n\n")[:-1]
            if part.startswith("data: ")]


def check_chrome_array(events):
    """An array without an end whose B and E events fit, per thread."""
    if events[0] != "[" or not all(e.endswith(",") for e in events[1:]):
        raise ValueError(events[:3])
    stacks, last = {}, {}
    for event in json.loads("[" + "".join(events[1:])[:-1] + "]"):
        stack = stacks.setdefault(event["tid"], [])
        if event["ph"] == "B":
            stack.append(event["name"])
        elif event["ph"] == "E" and stack.pop() != event["name"]:
            raise ValueError(event)
        if event["ph"] in "BE" and event["ts"] < last.get(event["tid"], 0):
            raise ValueError(event)
        last[event["tid"]] = event["ts"]
    return stacks


def events_as_they_happen(checks, bench):
    """tail, and /api/v1/live."""
    site = Site(bench, "live")
    site.wait_for_ticks()
    results = {}
    for form in ("json", "chrome"):
        path = bench.path(f"tail.{form}")
        with open(path, "w") as file:
            child = bench.start([bench.agent, "--socket", site.daemon.socket,
                                 "tail", "-n", "truth-fp", "-f", form],
                                stdout=file)
        streamed = site.curl(f"/api/v1/live?format={form}", "-N", "-m", "3",
                             "-H", f"Authorization: Bearer {site.token}")
        child.terminate()
        child.wait()
        results[form] = (open(path).read().split("\n")[:-1],
                         events_of(streamed.stdout))
    for name, lines in zip(("tail", "/api/v1/live"), results["json"]):
        events = [json.loads(line) for line in lines]
        now = time.time()
        checks.ok(f"{name} has states and stacks, as they happen",
                  len({e["tid"] for e in events}) > 1 and
                  all(e["stack"] and e["state"] and now - 60 < e["ts"] < now
                      for e in events if "stack" in e) and
                  events[-1]["ts"] - events[0]["ts"] > 1, events[:3])
    for name, lines in zip(("tail -f chrome", "/api/v1/live?format=chrome"),
                           results["chrome"]):
        stacks = check_chrome_array(lines)
        checks.ok(f"{name} is an open array whose B and E fit",
                  len(stacks) > 1 and any(stacks.values()), lines[:3])
    streamed = site.curl("/api/v1/live?running=1", "-N", "-m",
                         "3", "-H", f"Authorization: Bearer {site.token}")
    events = [json.loads(line) for line in events_of(streamed.stdout)]
    checks.ok("a stream of some samples has no others", events and all(
        "left" in e or e["state"] in ("running", "runnable") for e in events),
        events[:3] or streamed)
    answer = site.get("/api/v1/live?no_idle=1")
    checks.ok("a stream without idle threads is refused, and why",
              answer.status == 400 and "leave out no_idle" in answer.text,
              answer)
    streams = []
    for _ in range(9):
        one = socket.create_connection(("127.0.0.1", site.port), 30)
        one.sendall(f"GET /api/v1/live?token={site.token} HTTP/1.1\r\n"
                    f"Host: 127.0.0.1:{site.port}\r\n\r\n".encode())
        streams.append(one)
        first = one.recv(12)
    checks.ok("the ninth stream is refused", first == b"HTTP/1.1 503", first)
    before = site.daemon.status()["targets"][0]["missed_ticks"]
    time.sleep(2)  # none of them reads
    after = site.daemon.status()["targets"][0]
    checks.ok("streams that nothing reads cost no tick",
              after["missed_ticks"] - before < 20, (before, after))
    for one in streams:
        one.close()

    def are_gone():
        found = read_metrics(site.get("/metrics").text)
        ended = {one["reason"]: value for one, value in
                 found["fgtrace_http_streams_ended_total"]}
        return found["fgtrace_http_streams"][0][1] == 0 and \
            ended["client"] >= 8 and ended["refused"] == 1
    checks.ok("clients that go are counted", site.daemon.until(are_gone, 20),
              site.get("/metrics").text[-900:])
    child = bench.start([bench.agent, "--socket", site.daemon.socket, "tail",
                         "-p", str(site.target.pid)], stdout=subprocess.PIPE)
    child.stdout.readline()
    site.target.kill()
    site.target.wait()
    child.stdout.read()
    checks.ok("tail ends with its target", child.wait(20) == 0, "")
    for flag, text in ((("-f", "svg"), "a stream has json and chrome"),
                       (("--no-idle",), "leave out no-idle")):
        result = bench.run("--socket", site.daemon.socket, "tail", *flag)
        checks.ok(f"tail {flag[0]} is refused, and why", result.returncode == 2
                  and text in result.stderr, result)
    site.daemon.end()


def websockets(checks, bench):
    """/api/v1/live as a websocket, and hostile clients (fault H10)."""
    site = Site(bench, "sockets")
    site.wait_for_ticks()
    target = f"/api/v1/live?token={site.token}"
    client = WebSocket(site.port, target)
    checks.ok("the handshake is that of RFC 6455", client.is_open,
              client.answer)
    time.sleep(1)
    client.send_frame(9, b"are you there")
    frames = client.frames_until(10)
    events = [json.loads(data) for opcode, data in frames if opcode == 1]
    checks.ok("events are text frames of JSON", len(events) > 2 and
              all("tid" in event for event in events), events[:2])
    checks.ok("a ping is answered", frames[-1][1] == b"are you there",
              frames[-1])
    client.send_frame(8, struct.pack(">H", 1000))
    frames = client.frames_until(8)
    checks.ok("and so is a close", frames[-1][1][:2] == b"\x03\xe8",
              frames[-1])
    chrome = WebSocket(site.port, target + "&format=chrome")
    chrome.frame()
    kind, data = chrome.frame()
    checks.ok("format=chrome streams Chrome's events", kind == 1 and
              json.loads(data.rstrip(b",\n"))["ph"] == "M", data)
    for name, data, status in (
            ("an unmasked frame", b"\x81\x01a", 1002),
            ("a reserved bit", b"\xc1\x80abcd", 1002),
            ("a length of 2^63", b"\x82\xff\x80" + bytes(7) + b"abcd", 1009),
            ("text that is no text", b"\x81\x81" + bytes(4) + b"\xff", 1007),
            ("a flood of pings", (b"\x89\x80" + bytes(4)) * 200, 1008)):
        client = WebSocket(site.port, target)
        client.send(data)
        frames = client.frames_until(8)
        checks.ok(f"{name} closes with {status}",
                  frames[-1][1] == struct.pack(">H", status), frames[-1])
    client = WebSocket(site.port, target)
    client.send(b"\x82\xff" + struct.pack(">Q", 100000) + bytes(100004))
    frames = client.frames_until(8)
    checks.ok("a message of 100 kB is closed with 1009, and without a reset",
              frames[-1][1] == struct.pack(">H", 1009) and
              client.connection.recv(1) == b"", frames[-1])
    for name, headers, status in (
            ("without key", ["Upgrade: websocket",
                             "Sec-WebSocket-Version: 13"], 400),
            ("of another version", ["Upgrade: websocket",
                                    "Sec-WebSocket-Version: 8",
                                    "Sec-WebSocket-Key: " + "A" * 22 + "=="],
             400),
            ("from a page of another site",
             ["Upgrade: websocket", "Origin: http://evil.example"], 403)):
        answer = ask(site.port, target, *headers)
        checks.ok(f"a handshake {name} is refused", answer.status == status,
                  answer)
    answer = WebSocket(site.port, "/api/v1/live").answer
    checks.ok("without token there is none", answer.status == 401, answer)

    def are_closed():
        found = read_metrics(site.get("/metrics").text)
        return found["fgtrace_http_streams"][0][1] == 1  # chrome's
    checks.ok("closed ones leave no stream", site.daemon.until(are_closed, 15),
              "")
    site.close()


def files_of(pid):
    """Pipes and events of a process, without those of its standard files."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            file = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if int(name) > 2 and ("pipe:" in file or "eventfd" in file):
            found[int(name)] = file
    return found


def program_serves_itself(checks, bench):
    """fgt_http_listen(): a program without an agent."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    child = bench.start([bench.program("listener"), f":{port}"], text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first = child.stdout.readline()
    checks.ok("fgt_http_listen returns 0", first == "listens 0\n", first)
    lines = [child.stdout.readline() for _ in range(2)]
    checks.ok("a second one is refused, with a reason", any(
        line.startswith("log this program serves HTTP already")
        for line in lines) and "again -114\n" in lines, lines)
    files = files_of(child.pid)
    checks.ok("what libraries keep open has large numbers",
              len(files) >= 3 and min(files) > 255, files)
    time.sleep(1)
    path = bench.path("own.trace.json")
    result = subprocess.run(
        ["curl", "-sSf", "-o", path, f"localhost:{port}/debug/fgtrace"],
        capture_output=True, text=True, check=False)
    checks.ok("curl :PORT/debug/fgtrace is a trace of the program",
              result.returncode == 0 and
              run_checker("check_chrome_trace", path).returncode == 0 and
              "spin_in_listener" in open(path).read(), result)
    result = subprocess.run(
        ["go", "tool", "pprof", "-top",
         f"http://localhost:{port}/debug/pprof/profile"], text=True,
        capture_output=True, check=False, timeout=100,
        env={**os.environ, "PPROF_TMPDIR": bench.scratch})
    checks.ok("go tool pprof reads its profile",
              "spin_in_listener" in result.stdout, result)
    answer = ask(port, "/api/v1/threads?name=listener")
    checks.ok("its threads", answer.status == 200 and
              json.loads(answer.text)["pid"] == child.pid, answer)
    tid = child.pid
    answer = ask(port, f"/debug/fgprof?format=folded&tid={tid}&seconds=1")
    checks.ok("one of them", answer.status == 200 and "spin_in_listener"
              not in answer.text, answer)
    for target, host, status in (
            ("/debug/fgtrace?pid=1", None, 404), ("/metrics", None, 404),
            ("/debug/fgtrace?seconds=x", None, 400),
            ("/debug/fgtrace", "evil.example", 403),
            ("/debug/fgtrace?hz=500&seconds=1", None, 400),
            ("/-/ready", None, 200)):
        answer = ask(port, target, host=host)
        checks.ok(f"{target} of {host}: {status}", answer.status == status,
                  answer)
    page, plain = (ask(port, f"/?token={token}") for token in
                   ("A" * 1500, "x"))
    checks.ok("its page of links repeats no text of the request",
              page.status == 200 and page.body == plain.body and
              "token=" not in page.text and "/debug/fgtrace" in page.text,
              (len(page.body), page))
    child.stdin.write("stop\n")
    child.stdin.flush()
    line = child.stdout.readline()
    try:
        ask(port, "/-/ready")
        is_closed = False
    except OSError:
        is_closed = True
    checks.ok("fgt_http_listen(NULL) ends the server", line == "stopped 0\n"
              and is_closed, line)
    child.stdin.close()
    checks.ok("and the program ends as before", child.wait(20) == 0, "")


if __name__ == "__main__":
    run_groups((traces_and_profiles, same_bytes_as_the_command_line,
                bad_parameters_are_named, metrics, events_as_they_happen,
                websockets, program_serves_itself))

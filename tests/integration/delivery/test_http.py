# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the daemon: what it refuses, its limits, its process
(faults H1 to H15). test_http.py BUILD [GROUP…]"""
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.daemon_bench import Daemon, run_groups  # noqa: E402
from kit.harness import as_user  # noqa: E402
from kit.web.client import Answer, ask, exchange, read_metrics  # noqa: E402
from kit.web.site import Site  # noqa: E402

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff",
           "referrer-policy": "no-referrer", "x-frame-options": "DENY",
           "cross-origin-resource-policy": "same-origin"}


def what_may_ask(checks, bench):
    """Host, Origin, token, framing (faults H2 to H6), headers (H12)."""
    site = Site(bench, "guard", is_busy=False)
    port, token = site.port, site.token
    path = "/api/v1/status"
    checks.ok("without token nothing is answered", ask(port, path).status ==
              401, "")
    for name, headers, host, status in (
            ("token in the header", [f"Authorization: Bearer {token}"], None,
             200),
            ("wrong token", ["Authorization: Bearer " + "0" * 32], None, 401),
            ("two Host headers", ["Host: 127.0.0.1"], None, 400),
            ("Host of an attacker", [], f"evil.example:{port}", 403),
            ("Host with another port", [], "127.0.0.1:1", 403),
            ("Host localhost", [], f"localhost:{port}", 401),
            ("Origin of a page", ["Origin: http://evil.example"], None, 403),
            ("Origin null", ["Origin: null"], None, 403),
            ("fetch of another site", ["Sec-Fetch-Site: cross-site"], None,
             403),
            ("a body", ["Content-Length: 5"], None, 400),
            ("chunks", ["Transfer-Encoding: chunked"], None, 400),
            ("both lengths", ["Content-Length: 5",
                              "Transfer-Encoding: chunked"], None, 400)):
        answer = ask(port, path, *headers, host=host)
        checks.ok(f"{name}: {status}", answer.status == status, answer)
    checks.ok("token in the query", ask(port, f"{path}?token={token}").status
              == 200, "")
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT",
                   "get", "PROPFIND"):
        answer = site.get(path, method=method)
        checks.ok(f"method {method} is refused", answer.status in (400, 405),
                  answer)
    answer = site.get(path, method="HEAD")
    checks.ok("HEAD has no body", answer.status == 200 and not answer.body,
              answer)
    checks.ok("HEAD of a slice is refused",
              site.get("/debug/fgtrace", method="HEAD").status == 405, "")
    for name, data in (
            ("HTTP/0.9", b"GET /api/v1/status\r\n\r\n"),
            ("no Host", b"GET /api/v1/status HTTP/1.1\r\n\r\n"),
            ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            ("negative length", b"GET / HTTP/1.1\r\nHost: localhost:%d\r\n"
             b"Content-Length: -1\r\n\r\n" % port),
            ("huge header", b"GET / HTTP/1.1\r\nHost: localhost:%d\r\nX: %s"
             b"\r\n\r\n" % (port, b"a" * 100000)),
            ("huge target", b"GET /%s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n"
             % (b"a" * 3000, port)),
            ("garbage", bytes(range(256)) * 8),
            ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9)):
        got = exchange(port, data)
        status = Answer(got).status if got else 0
        checks.ok(f"{name} is refused", status == 0 or 400 <= status < 600,
                  got[:200])
    paths = ["/..", "/../etc/passwd", "/%2e%2e/etc/passwd", "//", "/debug",
             "/debug/", "/debug/fgtrace/", "/debug//fgtrace",
             "/debug%2ffgtrace", "/DEBUG/fgtrace", "/.git/config", "/debug/"
             "fgtrace%00", "/debug/./fgtrace", "/\\..\\etc", "/debug/fgtrace;x",
             "/%", "/favicon.ico", "/metrics/", "/api/v1/"]
    wrong = [p for p in paths if site.get(p).status != 404]
    checks.ok("paths are compared whole", not wrong, wrong)
    for path in ("/", "/-/healthy", "/-/ready"):
        answer = ask(port, path)
        checks.ok(f"{path} needs no token", answer.status == 200, answer)
    page = ask(port, "/")
    link = ask(port, f"/?token={token}")
    checks.ok("the page has links, with the token for those that have it",
              '<a href="/metrics">' in page.text and token not in page.text
              and f'<a href="/metrics?token={token}">' in link.text, page)
    for answer in (page, site.get("/metrics"), ask(port, "/metrics"),
                   site.get("/nothing")):
        lacking = [h for h, v in HEADERS.items()
                   if answer.headers.get(h) != v]
        policy = answer.headers.get("content-security-policy", "")
        checks.ok(f"headers of {answer.status} {answer.text[:10]!r}",
                  not lacking and "frame-ancestors 'none'" in policy and
                  "default-src 'none'" in policy and
                  not [h for h in answer.headers
                       if h.startswith("access-control")],
                  answer.headers)
    site.close()


def users_and_secrets(checks, bench):
    """Other users (H4), and where the token is not (H13, H14)."""
    site = Site(bench, "users", is_busy=False)
    folder = site.daemon.folder
    path = os.path.join(folder, "http-token")
    with open(path) as file:
        token = file.read().strip()
    checks.ok("the token's file is the owner's alone", token == site.token and
              len(token) == 32 and os.stat(path).st_mode & 0o777 == 0o600, path)
    printed = bench.run("--socket", site.daemon.socket, "status").stdout
    checks.ok("status prints the address with the token",
              f"{site.url}/?token={token}" in printed, printed)
    if os.getuid() == 0:
        os.chmod(folder, 0o755)
        os.chmod(site.daemon.socket, 0o666)
        reply = subprocess.run(
            as_user([bench.copy_for_nobody() + "/fgtrace-agent", "--socket",
                     site.daemon.socket, "status", "--json"], True),
            capture_output=True, text=True, check=False)
        checks.ok("another user does not get the token",
                  reply.returncode == 0 and "http_address" in reply.stdout and
                  token not in reply.stdout, reply)
        result = site.curl("/api/v1/targets", "-f", as_nobody=True)
        checks.ok("and no data", b"401" in result.stderr, result)
    answer = site.get("/api/v1/status")
    checks.ok("the server does not show it", answer.status == 200 and
              token not in answer.text, answer)
    process = site.process()
    shown = b""
    for pid in (process, site.daemon.child.pid):
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                shown += file.read()
    checks.ok("nor do log and process list", token not in
              site.daemon.log_text() and token.encode() not in shown, shown)
    site.close()
    checks.ok("and its file goes with the daemon", not os.path.exists(path),
              path)


def process_has_no_rights(checks, bench):
    """The server's process, and its end (fault H15)."""
    site = Site(bench, "process", is_busy=False)
    site.wait_for_ticks(20)
    pid = site.process()
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file
                      if ":\t" in line)
    checks.ok("the server's process has no capabilities and a filter",
              int(status["CapEff"], 16) == 0 and status["Seccomp"] == "2" and
              status["NoNewPrivs"] == "1" and
              (os.getuid() != 0 or status["Uid"].split()[0] not in
               ("0", "65534")), status)
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True,
                               check=False).stdout
    checks.ok("it listens on loopback only", f"127.0.0.1:{site.port} " in
              listening and f"0.0.0.0:{site.port} " not in listening,
              listening)
    for number in (signal.SIGKILL, signal.SIGSEGV):
        pid = site.process()
        os.kill(pid, number)
        gone = site.daemon.until(lambda: site.process() not in (0, pid), 20)
        answer = site.get("/api/v1/threads")
        checks.ok(f"ended by {number.name}, it is started again", gone and
                  answer.status == 200, answer)
    checks.ok("and counted", site.daemon.status()["http_restarts"] == 2 and
              "http_failed" in site.daemon.log_text(), site.daemon.log_text())
    pid = site.process()
    site.daemon.end(signal.SIGKILL)
    checks.ok("it ends with the daemon", site.daemon.until(
        lambda: not os.path.exists(f"/proc/{pid}/exe") or
        open(f"/proc/{pid}/stat").read().split()[2] == "Z", 10), pid)
    site.target.kill()


def daemon_leaves_its_clients(checks, bench):
    """Requests without end do not keep the daemon (fault R8)."""
    site = Site(bench, "leaves", is_busy=False)
    site.wait_for_ticks(20)
    is_over = threading.Event()

    def ask_on():
        while not is_over.is_set():
            try:
                site.get("/debug/fgtrace?seconds=1")
            except OSError:
                pass
    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    seconds = site.daemon.end()
    is_over.set()
    for thread in threads:
        thread.join()
    checks.ok("it leaves within its 5 s", seconds < 5.5, seconds)
    site.target.kill()


def slow_and_many_clients(checks, bench):
    """Limits of time and of slices (faults H7, H9)."""
    site = Site(bench, "slow", is_busy=False)
    site.wait_for_ticks(20)
    socks = []
    for _ in range(80):
        one = socket.create_connection(("127.0.0.1", site.port), 30)
        one.sendall(b"GET / HTTP/1.1\r\n")
        socks.append(one)
    began = time.monotonic()
    worst = 0
    while time.monotonic() - began < 4:
        for one in socks:
            try:
                one.sendall(b"X: y\r\n")
            except OSError:
                pass
        asked = time.monotonic()
        site.daemon.status()
        worst = max(worst, time.monotonic() - asked)
        time.sleep(0.2)
    checks.ok("status is served while headers drip", worst < 2, worst)
    checks.ok("slow ones lose their places to others", site.daemon.until(
        lambda: site.get("/-/healthy").status == 200, 20), "")
    ended = 0
    for one in socks[:60]:
        one.settimeout(10)
        try:
            ended += not one.recv(1000)
        except ConnectionError:
            ended += 1
        except OSError:
            pass
        one.close()
    checks.ok("and are closed", ended >= 60, ended)
    for one in socks:
        one.close()
    answers = []

    def wait_for_slice():
        answers.append(site.get("/debug/fgtrace?seconds=3&wait=1"))
    threads = [threading.Thread(target=wait_for_slice) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    busy = [a for a in answers if a.status == 503]
    checks.ok("four slices at once, then 503 with Retry-After",
              len(busy) == 3 and all(a.headers.get("retry-after") == "1"
                                     for a in busy) and
              sum(a.status == 200 for a in answers) == 4, answers)
    gone = []
    for _ in range(4):
        one = socket.create_connection(("127.0.0.1", site.port), 30)
        one.sendall(f"GET /debug/fgtrace?seconds=600&wait=1&token={site.token}"
                    f" HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n\r\n"
                    .encode())
        gone.append(one)
    site.daemon.until(lambda: site.daemon.status()["slices_waiting"] == 4)
    for one in gone:
        one.close()
    checks.ok("clients that go make room", site.daemon.until(
        lambda: site.get("/debug/fgtrace?seconds=1").status == 200, 15), "")
    site.close()


def silent_connections(checks, bench):
    """495 of them, opened again as they are closed; some with half a
    header. A probe is served all the time."""
    site = Site(bench, "silent", is_busy=False)
    is_over, opened = threading.Event(), []

    def flood(text):
        socks = []
        while not is_over.is_set():
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", site.port))
            socks.append((one, text))
            opened.append(1)
            if len(socks) > 165:
                one, text = socks.pop(0)
                try:
                    one.send(text)
                    time.sleep(0.02)
                except OSError:
                    pass
                one.close()
    threads = [threading.Thread(target=flood, args=(text,)) for text in
               (b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\n")]
    for thread in threads:
        thread.start()
    time.sleep(1)
    worst, served, asked = 0, 0, 0
    began = time.monotonic()
    while time.monotonic() - began < 15:
        at = time.monotonic()
        asked += 1
        try:
            served += ask(site.port, "/-/healthy").status == 200
        except OSError:
            pass
        worst = max(worst, time.monotonic() - at)
        time.sleep(0.1)
    is_over.set()
    for thread in threads:
        thread.join()
    checks.ok(f"{served} probes are served beside {len(opened)} silent "
              f"connections, {worst:.2f} s at most",
              served == asked > 20 and worst < 2, (served, asked, worst))
    site.close()


SMALL_NETWORK = """ip link set lo up &&
echo 4096 4096 4096 > /proc/sys/net/ipv4/tcp_wmem && exec "$@" """


WEBSOCKET = ("Upgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
             "Sec-WebSocket-Version: 13\r\n")


def read_slowly(checks, site, name, headers, bytes_a_second):
    """Reads a stream at that rate for 60 s at most; it has to be closed."""
    began, got = time.monotonic(), 0
    metrics = read_metrics(site.get("/metrics").text)
    slow = {one["reason"]: value for one, value in
            metrics["fgtrace_http_streams_ended_total"]}["slow"]
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        one.connect(("127.0.0.1", site.port))
        one.sendall(f"GET /api/v1/live?token={site.token} HTTP/1.1\r\nHost: "
                    f"127.0.0.1:{site.port}\r\n{headers}\r\n".encode())
        while time.monotonic() - began < 60:
            time.sleep(0.1)
            try:
                got += len(one.recv(bytes_a_second // 10))
            except ConnectionError:
                pass
            metrics = read_metrics(site.get("/metrics").text)
            if metrics["fgtrace_http_streams"][0][1] == 0:
                break
    ended = {one["reason"]: value for one, value in
             metrics["fgtrace_http_streams_ended_total"]}
    checks.ok(f"{name} read at {bytes_a_second} bytes/s is closed: {got} "
              f"bytes, {time.monotonic() - began:.0f} s",
              ended["slow"] == slow + 1, metrics)


def slow_readers_of_streams(checks, bench):
    """They take some bytes all the time, but no block within 10 s, or blocks
    but fewer than there are. Loopback has large buffers, which hide that: in a
    network of this test alone."""
    if os.getuid() != 0:
        return
    if "FGT_SMALL_NETWORK" not in os.environ:
        result = subprocess.run(
            ["unshare", "-n", "sh", "-c", SMALL_NETWORK, "sh", sys.executable,
             os.path.abspath(__file__), bench.build,
             "slow_readers_of_streams"], capture_output=True, text=True,
            env={**os.environ, "FGT_SMALL_NETWORK": "1"}, check=False)
        checks.ok("streams that are read slowly are closed",
                  result.returncode == 0, result)
        return
    site = Site(bench, "reader")
    site.wait_for_ticks(20)
    for name, headers in (("a websocket", WEBSOCKET), ("events", "")):
        for rate in (1000, 2500):
            read_slowly(checks, site, name, headers, rate)
    site.close()


def no_descriptor_is_left(checks, bench):
    """Of the agent: requests fail at once, rather than wait for each other."""
    site = Site(bench, "descriptors", is_busy=False)
    pid = site.daemon.child.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    free = min(set(range(len(used) + 1)) - used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, limits[1]))
    began = time.monotonic()
    answer = site.get("/api/v1/targets")
    seconds = time.monotonic() - began
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    checks.ok("an agent without descriptors answers at once", seconds < 5 and
              answer.status == 503 and "open files" in answer.text,
              (seconds, answer))
    checks.ok("and serves when it has some again",
              site.get("/api/v1/targets").status == 200, "")
    site.close()


def what_is_configured(checks, bench):
    """Off by default; other addresses, no token (fault H1)."""
    daemon = Daemon(bench, "off")
    checks.ok("without http.listen there is no server",
              "http_address" not in daemon.status(), daemon.status())
    daemon.end()
    config = bench.path("remote.conf")
    for text, why in (
            ('http: { listen = "0.0.0.0:0"; };', "http.allow_remote"),
            ('http: { listen = "0.0.0.0:0"; allow_remote = true; '
             'token = "off"; };', "needs a token")):
        with open(config, "w") as file:
            file.write(text)
        result = bench.run("daemon", "-c", config, "--socket",
                           bench.path("no.sock"))
        checks.ok(f"{why}: another address is refused",
                  result.returncode == 2 and why in result.stderr, result)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with open(config, "w") as file:
            file.write('http: { listen = "127.0.0.1:%d"; };' %
                       taken.getsockname()[1])
        os.makedirs(bench.path("taken"), mode=0o750, exist_ok=True)
        result = bench.run("daemon", "-c", config, "--socket",
                           bench.path("taken/a.sock"))
        checks.ok("an address that is taken is an error",
                  result.returncode == 1 and "choose another port" in
                  result.stderr, result)
    token = bench.path("my-token")
    site = Site(bench, "names", 'http: { listen = "[::1]:0"; names = [ "lab" '
                f']; token_file = "{token}"; }};', is_busy=False)
    checks.ok("IPv6, token_file", site.url.startswith("http://[::1]:") and
              open(token).read().strip() == site.token, site.url)
    for host, status in (("lab", 200), ("other", 403)):
        result = site.curl("/-/healthy", "-g", "-H", f"Host: {host}", "-o",
                           "/dev/null", "-w", "%{http_code}")
        checks.ok(f"Host {host}: {status}", result.stdout.decode() ==
                  str(status), result)
    site.close()
    site = Site(bench, "open", 'http: { listen = ":0"; token = "off"; };',
                is_busy=False)
    checks.ok("token off: data without token, and a warning",
              ask(site.port, "/api/v1/targets").status == 200 and
              "without token" in site.daemon.log_text() and
              not site.token, site.daemon.log_text())
    site.close()


if __name__ == "__main__":
    run_groups((what_may_ask, users_and_secrets, process_has_no_rights,
                daemon_leaves_its_clients, slow_and_many_clients,
                silent_connections, slow_readers_of_streams,
                no_descriptor_is_left, what_is_configured))

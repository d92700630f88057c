# SPDX-License-Identifier: Apache-2.0
"""Slices to every kind of destination by the command line: nginx, strict
servers, directories; TLS, and servers that misbehave.
test_destinations.py BUILD [GROUP…]"""
import gzip
import os
import re
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import sentry_server  # noqa: E402
from kit.daemon_bench import run_groups  # noqa: E402
from kit.delivery import pyroscope, sigv4  # noqa: E402
from kit.delivery.nginx import Nginx  # noqa: E402
from kit.harness import run_checker  # noqa: E402
from kit.sentry_server import Authority, SentryServer, fixed  # noqa: E402
from kit.transact import KEY, until  # noqa: E402

CANARY = "c4n4ry5ecret"
BUSY = ["python3", "-c",
        "import time\nend = time.time() + 1.2\nwhile time.time() < end: pass"]


class Uploader:
    """Converts one recorded slice; keeps everything that is printed."""

    def __init__(self, bench):
        self.bench = bench
        self.printed = ""
        self.slice = bench.path("one.fgt")
        if not os.path.exists(self.slice):
            result = bench.run("record", "-o", self.slice, "--", *BUSY)
            if result.returncode:
                raise RuntimeError(result.stderr)

    def file(self, name, text, mode=0o600):
        path = self.bench.path(name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def config(self, *entries, more=""):
        """A configuration with these destinations."""
        return self.file("up.conf", "upload: { " + more + "destinations = ( " +
                         ",\n".join("{ " + entry + " }" for entry in entries)
                         + " ); };", 0o644)

    def convert(self, *arguments, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if not name.lower().endswith("_proxy")}
        result = self.bench.run("convert", self.slice, *arguments,
                                env={**clean, **environment},
                                cwd=self.bench.scratch)
        self.printed += result.stdout + result.stderr
        return result

    def send(self, entry, *arguments, more="", **environment):
        """To the only destination of a configuration."""
        return self.convert("--upload", "-c", self.config(entry, more=more),
                            *arguments, **environment)


def url_of(server, path, scheme="http", host="127.0.0.1"):
    return f"{scheme}://{host}:{server.port}{path}"


# ---- nginx -----------------------------------------------------------------

def fetch(url):
    return subprocess.run(["curl", "-s", "--noproxy", "*", url],
                          capture_output=True, check=False).stdout


def trace_is_put_to_nginx(checks, bench):
    """What is fetched back is equal to what -o writes."""
    if not shutil.which("nginx"):
        checks.ok("nginx is installed", False, "apt-get install nginx-light")
        return
    nginx, uploader = Nginx(bench), Uploader(bench)
    for ending in ("trace.json", "trace.json.gz", "folded", "fgt", "pb.gz",
                   "speedscope.json", "envelope"):
        path = bench.path("out." + ending)
        url = url_of(nginx, "/a/b/slice." + ending)
        result = uploader.convert("-o", path, "--upload", url)
        with open(path, "rb") as file:
            written = file.read()
        got = fetch(url)
        if ending.endswith("gz"):  # the header has the time
            written, got = gzip.decompress(written), gzip.decompress(got)
        if ending == "envelope":  # its ids are random
            written, got = got.count(b"\n"), written.count(b"\n")
        checks.ok(f"{ending} put to nginx and fetched back is what -o writes",
                  result.returncode == 0 and got and got == written,
                  result.stderr[-300:])
    for _ in range(2):
        uploader.convert("--upload", url_of(
            nginx, "/{host}/{name}-{pid}-{time}-{seq}.{format}.trace.json"))
    names = [os.path.relpath(os.path.join(folder, name), nginx.root)
             for folder, _, files in os.walk(nginx.root) for name in files
             if name.endswith("chrome.trace.json")]
    checks.ok("variables are filled in, {seq} never twice",
              len(names) == 2 and re.fullmatch(
        re.escape(socket.gethostname()) +
        r"/python3[.0-9]*-\d+-\d{8}T\d{6}\.\d{3}Z-\d+\.chrome\.trace\.json",
        names[0]), names)
    result = uploader.convert("--upload", url_of(nginx, "/x.nope/{tyme}"))
    checks.ok("unknown variable names the nearest one",
              result.returncode == 2 and "{time}" in result.stderr,
              result.stderr)


# ---- Strict servers --------------------------------------------------------

def signature_is_aws(checks, bench):
    """An independent verifier recomputes it."""
    uploader = Uploader(bench)
    keys = uploader.file("aws", "[default]\naws_access_key_id = AKIDEXAMPLE\n"
                         f"aws_secret_access_key = {CANARY}/+x\n")
    for name, service, ending in (("s3", "s3", "trace.json"),
                                  ("another service", "execute-api", "fgt")):
        server = SentryServer(fixed(200))
        result = uploader.send(
            f'url = "{url_of(server, "/bucket/a b/{name} {time}.")}{ending}"; '
            .replace("a b", "a%20b").replace(" {time}", "-{time}") +
            f'aws_keys_file = "{keys}"; aws_region = "eu-west-1"; '
            f'aws_service = "{service}";')
        why = sigv4.why_refused(server.requests[0], "AKIDEXAMPLE",
                                CANARY + "/+x", "eu-west-1", service) \
            if server.requests else result.stderr
        checks.ok(f"signature for {name} is right", why is None, why)
        server.close()
    token = uploader.file("aws-token",
                          "aws_access_key_id = AKIDEXAMPLE\n"
                          f"aws_secret_access_key = {CANARY}\n"
                          "aws_session_token = t0ken\n")
    server = SentryServer(fixed(200))
    uploader.send(f'url = "{url_of(server, "/b/x.fgt")}"; '
                  f'aws_keys_file = "{token}";')
    request = server.requests[0]
    checks.ok("session token is sent and signed",
              request.get("X-Amz-Security-Token") == "t0ken" and
              "x-amz-security-token" in request.get("Authorization") and
              sigv4.why_refused(request, "AKIDEXAMPLE", CANARY, "us-east-1",
                                "s3") is None, request.headers)
    request.body += b"x"
    checks.ok("verifier refuses a body that was changed", sigv4.why_refused(
        request, "AKIDEXAMPLE", CANARY, "us-east-1", "s3"))
    server.close()
    checks.ok("no key is printed", CANARY not in uploader.printed,
              uploader.printed)


def pyroscope_takes_both_ways(checks, bench):
    uploader = Uploader(bench)
    for name, path, check in (
            ("ingest", "/ingest", pyroscope.check_ingest),
            ("push", "/push.v1.PusherService/Push", pyroscope.check_push)):
        refusals = []
        server = SentryServer(pyroscope.script(check, refusals))
        result = uploader.convert("--upload", url_of(server, path))
        checks.ok(f"Pyroscope accepts {name}", result.returncode == 0 and
                  len(server.requests) == 1 and not refusals,
                  refusals or result.stderr)
        server.close()
    server = SentryServer(fixed(200))
    uploader.send(f'url = "{url_of(server, "/prefix")}"; kind = "pyroscope";')
    checks.ok("kind counts more than the path",
              server.requests and "name=" in server.requests[0].line,
              server.requests)
    server.close()


def otlp_is_sent_in_both_shapes(checks, bench):
    """The strict reader takes what arrives; by gzip, as receivers want it."""
    uploader = Uploader(bench)
    for shape in ("timestamps", "sum"):
        server = SentryServer(fixed(200))
        result = uploader.send(
            f'url = "{url_of(server, "/v1development/profiles")}"; '
            f'shape = "{shape}";')
        request = server.requests[0] if server.requests else None
        checks.ok(f"{shape}: request is OTLP's", request and request.line ==
                  "POST /v1development/profiles HTTP/1.1" and
                  request.get("Content-Type") == "application/x-protobuf" and
                  request.get("Content-Encoding") == "gzip", result.stderr)
        path = bench.path(shape + ".otlp")
        with open(path, "wb") as file:
            file.write(request.envelope())
        checker = run_checker("delivery.check_otlp", path)
        plain = bench.path(shape + "-plain.otlp")
        bench.run("convert", uploader.slice, "-o", plain, "--otlp-shape",
                  shape)
        with open(plain, "rb") as file:
            equal = file.read() == request.envelope()
        checks.ok(f"{shape}: strict reader takes it, as convert writes it",
                  checker.returncode == 0 and equal,
                  checker.stdout + checker.stderr)
        server.close()


def headers_are_sent(checks, bench):
    uploader = Uploader(bench)
    server = SentryServer(fixed(200))
    headers = uploader.file("headers", "# a comment\n"
                            f"Authorization: Bearer {CANARY}\n\n"
                            "X-Scope-OrgID: lab\n")
    entry = f'url = "{url_of(server, "/x")}"; headers_file = "{headers}"; '
    result = uploader.send(entry + 'method = "POST"; format = "folded";')
    request = server.requests[0] if server.requests else None
    checks.ok("headers of the file are sent", request and
              request.get("Authorization") == "Bearer " + CANARY and
              request.get("X-Scope-OrgID") == "lab" and
              request.line == "POST /x HTTP/1.1" and
              request.get("Content-Type", ).startswith("text/plain"),
              request and request.headers or result.stderr)
    os.chmod(headers, 0o644)
    result = uploader.send(entry)
    checks.ok("headers that every user can read are refused",
              result.returncode == 2 and "chmod 640 or 600" in result.stderr,
              result.stderr)
    uploader.file("headers", f"Content-Length: 5\nX: {CANARY}\n")
    result = uploader.send(entry)
    checks.ok("headers of the length are refused",
              result.returncode == 2 and "headers:1: not a header" in
              result.stderr, result.stderr)
    folder = bench.path("credentials")
    os.makedirs(folder, exist_ok=True)
    shutil.copy2(uploader.file("token", f"X-Token: {CANARY}\n"), folder)
    result = uploader.send(
        f'url = "{url_of(server, "/x")}"; headers_file = "token";',
        CREDENTIALS_DIRECTORY=folder)
    checks.ok("a name without a slash is one of the credentials",
              result.returncode == 0 and
              server.requests[-1].get("X-Token") == CANARY, result.stderr)
    result = bench.run("config", "show", "-c", bench.path("up.conf"))
    uploader.printed += result.stdout + result.stderr
    for argument in (f"https://user:{CANARY}@h/x", f"https://{KEY}@h/1",
                     f"https://h/x?sig={CANARY}", "ftp://h/" + CANARY):
        result = uploader.convert("--upload", argument)
        checks.ok("URL with a secret or of another scheme is refused",
                  result.returncode == 2, result.stderr)
    checks.ok("no secret is printed", CANARY not in uploader.printed and
              KEY not in uploader.printed, uploader.printed)
    server.close()


def directory_keeps_its_caps(checks, bench):
    uploader = Uploader(bench)
    folder = bench.path("kept")
    os.makedirs(folder)
    entry = f'directory = "{folder}"; format = "folded"; max_files = 2;'
    result = uploader.send(entry)
    written = re.search(r"^uploaded to (.*): \d+ bytes$", result.stderr, re.M)
    checks.ok("the file is named, which has its process",
              written and os.path.isfile(written[1]) and re.fullmatch(
                  r"python3[.\d]*-\d+-\d{8}T\d{6}\.\d{3}Z\.folded",
                  os.path.basename(written[1])), result.stderr)
    uploader.send(entry)
    checks.ok("the same slice again is the same file",
              os.listdir(folder) == [os.path.basename(written[1])],
              os.listdir(folder))
    for where in ("leaf", "no", "leaf"):
        result = uploader.send(entry, "--state-frames", where)
    names = os.listdir(folder)
    checks.ok("directory keeps max_files files of its format",
              result.returncode == 0 and len(names) == 2 and
              all(name.endswith(".folded") for name in names),
              (names, result.stderr))
    broken = [name for name in names if run_checker(
        "check_folded", os.path.join(folder, name)).returncode != 0]
    checks.ok("files of a directory are whole", not broken, broken)


# ---- Servers that misbehave ------------------------------------------------

def answers_are_judged(checks, bench):
    uploader = Uploader(bench)
    for status, words in ((401, "keys and headers"), (404, "path of the URL"),
                          (405, "takes PUT"), (413, "shorter range"),
                          (302, "not followed"), (500, "server's log"),
                          (503, "try again"), (429, "try again")):
        server = SentryServer(fixed(
            status, "Location: http://127.0.0.1:1/"))
        result = uploader.convert("--upload", url_of(server, "/x.fgt"))
        checks.ok(f"{status} is explained", result.returncode == 1 and
                  words in result.stderr and len(server.requests) == 1 and
                  "kept as" in result.stderr, result.stderr)
        server.close()
    for name in ("endless_body", "endless_headers", "many_interim",
                 "half_a_head", "no_answer", "not_http"):
        server = SentryServer(getattr(sentry_server, name))
        began = time.monotonic()
        result = uploader.convert("--upload", url_of(server, "/x.fgt"))
        checks.ok(f"{name} ends in an error", result.returncode == 1 and
                  time.monotonic() - began < 20, result.stderr)
        server.close()
    result = uploader.convert("--upload", "/tmp", "--dsn-file", "/x")
    checks.ok("two destinations are refused", result.returncode == 2 and
              "give one" in result.stderr, result.stderr)
    result = uploader.convert("--upload", "http://127.0.0.1:1/x.fgt")
    checks.ok("server that is down is named", result.returncode == 1 and
              "http://127.0.0.1:1/x.fgt" in result.stderr, result.stderr)


def a_proxy_is_configured(checks, bench):
    """Of a URL and of a DSN; no_proxy is for the environment's proxies."""
    uploader = Uploader(bench)
    direct, proxy = SentryServer(fixed(200)), SentryServer(fixed(200))
    dsn = uploader.file("proxy.dsn", f"http://{'a' * 32}@127.0.0.1:"
                        f"{direct.port}/1")
    key = f'proxy = "http://127.0.0.1:{proxy.port}";'
    for name, entry in (("URL", f'url = "{url_of(direct, "/x.fgt")}"; {key}'),
                        ("DSN", f'dsn_file = "{dsn}"; {key}')):
        before = proxy.connections
        uploader.send(entry, no_proxy="*", http_proxy=url_of(direct, ""))
        checks.ok(f"{name}: the configured proxy is used",
                  proxy.connections > before and not direct.connections,
                  (proxy.connections, direct.connections))
    result = uploader.send(f'url = "{url_of(direct, "/x.fgt")}"; '
                           'proxy = "http://me:s3cret@127.0.0.1:1";')
    checks.ok("a proxy with a password is refused", result.returncode == 2 and
              "s3cret" not in result.stderr, result.stderr)
    server = SentryServer(fixed(404))
    result = uploader.convert("--upload", url_of(server, "/ingest"))
    checks.ok("the method that was used is named",
              "takes POST" in result.stderr, result.stderr)
    for one in (direct, proxy, server):
        one.close()


def tls_fails_closed(checks, bench):
    uploader = Uploader(bench)
    authority = Authority(bench.path("ca"))
    rows = (
        ("right", authority.context("right"), True),
        ("expired", authority.context(
            "expired", dates=("20200101000000Z", "20200102000000Z")), False),
        ("wrong host", authority.context("elsewhere", "DNS:elsewhere.test"),
         False),
        ("self-signed", authority.self_signed("self"), False))
    for name, context, is_right in rows:
        server = SentryServer(fixed(200), tls=context)
        result = uploader.send(
            f'url = "{url_of(server, "/x.fgt", "https")}"; '
            f'ca_file = "{authority.certificate}";')
        checks.ok(f"certificate: {name}", (result.returncode == 0) == is_right
                  and len(server.requests) == is_right, result.stderr)
        server.close()
    context = authority.context("mutual")
    context.verify_mode = sentry_server.ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    authority.context("client")
    for name in ("client.pem", "client.key"):
        os.chmod(authority.path(name), 0o600)
    for is_given in (False, True):
        server = SentryServer(fixed(200), tls=context)
        entry = f'url = "{url_of(server, "/x.fgt", "https")}"; ' \
            f'ca_file = "{authority.certificate}";'
        if is_given:
            entry += f'client_cert_file = "{authority.path("client.pem")}"; ' \
                f'client_key_file = "{authority.path("client.key")}";'
        result = uploader.send(entry)
        checks.ok("client certificate is shown" if is_given else
                  "without a client certificate nothing is sent",
                  len(server.requests) == is_given and
                  (result.returncode == 0) == is_given, result.stderr)
        server.close()
    with open(authority.path("client.key")) as file:
        key = file.read().split("\n")[1]
    checks.ok("no key is printed", key not in uploader.printed)


if __name__ == "__main__":
    run_groups([trace_is_put_to_nginx, signature_is_aws,
                pyroscope_takes_both_ways, otlp_is_sent_in_both_shapes,
                headers_are_sent,
                directory_keeps_its_caps, answers_are_judged,
                a_proxy_is_configured, tls_fails_closed])

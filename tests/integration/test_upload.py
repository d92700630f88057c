# SPDX-License-Identifier: Apache-2.0
"""Uploads against a server that misbehaves in every known way.

usage: test_upload.py BUILD

The bytes of requests over http and https, and the outcome of each answer.
"""
import errno
import gzip
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import warnings

from kit import sentry_server
from kit.harness import Bench, Checks, run_checker
from kit.sentry_server import Authority, SentryServer, answer, fixed

KEY = "0123456789abcdef0123456789abcdef"
SECRET = "5ec2e75ec2e75ec2e75ec2e75ec2e75e"
PATIENCE_S = 25  # a run that takes longer hangs


class Uploader:
    """Runs upload_slice and keeps all of its output."""

    def __init__(self, bench):
        self.bench = bench
        self.printed = ""
        self.count = 0
        self.authorities = None  # a folder that replaces the system's certificates

    def dsn_file(self, dsn):
        self.count += 1
        path = self.bench.path(f"dsn-{self.count}")
        with open(path, "w") as file:
            file.write(dsn + "\n")
        os.chmod(path, 0o600)
        return path

    def elsewhere(self):
        if not self.authorities:
            return []
        return ["unshare", "--mount", "sh", "-c",
                'mount --bind "$0" /etc/ssl/certs && exec "$@"',
                self.authorities]

    def send(self, dsn, *arguments, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.lower().endswith("_proxy")}
        result = subprocess.run(
            [*self.elsewhere(), self.bench.program("upload_slice"),
             self.dsn_file(dsn), *arguments], capture_output=True, text=True, check=False,
            timeout=PATIENCE_S, env={**environment, **variables})
        self.printed += result.stdout + result.stderr
        outcome = dict(line.split("=", 1) for line in
                       result.stdout.split("\n") if "=" in line)
        outcome["returncode"] = result.returncode
        outcome["error"] = int(outcome.get("error", -9999))
        outcome["stderr"] = result.stderr
        return outcome


def dsn_of(server, host="127.0.0.1", scheme="http", prefix="", secret=""):
    return f"{scheme}://{KEY}{secret}@{host}:{server.port}{prefix}/42"


def check_request(checks, request, outcome):
    """The bytes on the wire, over http."""
    checks.ok("request line names the envelope endpoint",
              request.line == "POST /api/42/envelope/ HTTP/1.1", request.line)
    wanted = re.fullmatch(
        r"Sentry sentry_version=7, sentry_key=" + KEY +
        r", sentry_client=fgtrace/[0-9.]+", request.get("X-Sentry-Auth") or "")
    checks.ok("authentication header is Sentry's", wanted,
              str(request.headers))
    checks.ok("type and encoding are given once",
              request.get("Content-Type") == "application/x-sentry-envelope"
              and request.get("Content-Encoding") == "gzip",
              str(request.headers))
    checks.ok("agent names itself",
              re.fullmatch(r"fgtrace/[0-9.]+", request.get("User-Agent")
                           or ""), str(request.headers))
    checks.ok("nothing asks to wait or to compress the answer",
              not request.all("Expect") and
              not request.all("Accept-Encoding"), str(request.headers))
    checks.ok("credentials are given once",
              not request.all("Authorization") and
              request.head.count(KEY.encode()) == 1, str(request.headers))
    checks.ok("sizes are those of the wire",
              int(outcome["sent_bytes"]) == len(request.body) and
              int(outcome["plain_bytes"]) == len(request.envelope()),
              str(outcome))


def check_framing(checks, bench, request, name):
    """One gzip member, whose content is a well framed envelope."""
    path = bench.path(name + ".envelope")
    with open(path, "wb") as file:
        file.write(gzip.decompress(request.body))
    result = run_checker("check_sentry_envelope", path)
    checks.ok(f"envelope over {name} is well framed", result.returncode == 0,
              result.stdout[-300:] + result.stderr[-300:])
    first = request.envelope().split(b"\n", 1)[0]
    checks.ok(f"envelope over {name} names the DSN without secret",
              KEY.encode() in first and SECRET.encode() not in first,
              repr(first))


def check_accepted(checks, bench, uploader):
    server = SentryServer()
    outcome = uploader.send(dsn_of(server))
    checks.ok("upload over http is accepted", outcome["error"] == 0 and
              outcome["status"] == "200" and len(server.requests) == 1,
              str(outcome))
    if not server.requests:
        return
    request = server.requests[0]
    checks.ok("event id is the envelope's",
              outcome["event_id"] == request.event_id(), str(outcome))
    check_request(checks, request, outcome)
    check_framing(checks, bench, request, "http")
    uploader.send(dsn_of(server, prefix="/base/x", secret=":" + SECRET))
    checks.ok("legacy secret and path prefix are sent",
              server.requests[1].line.startswith("POST /base/x/api/42/") and
              ("sentry_secret=" + SECRET) in
              server.requests[1].get("X-Sentry-Auth"),
              server.requests[1].line)
    checks.ok("each upload has a different event id",
              server.requests[1].event_id() != request.event_id())
    check_framing(checks, bench, server.requests[1], "http with secret")
    server.close()


def hang_up(_request, connection):
    connection.close()
    return b""


def refuse_early(_request, _connection):
    return answer(413)


hang_up.is_early = True
refuse_early.is_early = True


def check_tls(checks, bench, uploader):
    """Fault N8."""
    authority = Authority(bench.path("ca"))
    trusted = "ca=" + authority.certificate
    good = SentryServer(tls=authority.context("good"))
    for host in ("127.0.0.1", "localhost"):
        outcome = uploader.send(dsn_of(good, host, "https"), trusted)
        checks.ok(f"upload over https to {host} is accepted",
                  outcome["error"] == 0, str(outcome))
    if good.requests:
        check_framing(checks, bench, good.requests[0], "https")
    old = authority.context("old")
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    refused = {
        "an unknown authority": (authority.context("unknown"), ()),
        "a self-signed certificate": (authority.self_signed("self"),
                                      (trusted,)),
        "an expired certificate": (authority.context(
            "expired", dates=("20200101000000Z", "20200201000000Z")),
            (trusted,)),
        "a certificate not yet valid": (authority.context(
            "early", dates=("20900101000000Z", "20910101000000Z")),
            (trusted,)),
        "a certificate of another host": (authority.context(
            "other", names="DNS:other.example"), (trusted,)),
        "TLS 1.1": (old, (trusted,)),
    }
    remedies = {"an unknown authority": "ca_file",
                "an expired certificate": "renew",
                "a certificate not yet valid": "clock",
                "a certificate of another host": "use a name in the URL"}
    for name, (context, arguments) in refused.items():
        server = SentryServer(tls=context)
        outcome = uploader.send(dsn_of(server, scheme="https",
                                       host="localhost"), *arguments)
        checks.ok(f"{name} is refused before a byte is sent",
                  outcome["error"] == -errno.EPROTO and
                  server.connections == 1 and not server.requests and
                  remedies.get(name, "") in outcome["why"], str(outcome))
        server.close()
    plain = SentryServer(refuse_early)
    outcome = uploader.send(dsn_of(plain, scheme="https"), trusted)
    checks.ok("plain http on the https port is refused",
              outcome["error"] == -errno.EPROTO and not outcome["status"]
              .strip("0"), str(outcome))
    plain.close()
    outcome = uploader.send(dsn_of(good, scheme="https"), "ca=/nonexistent")
    checks.ok("a missing ca_file is named",
              outcome["error"] == -errno.EPROTO and
              "ca_file" in outcome["why"], str(outcome))
    good.close()


def check_private_authority(checks, bench, uploader):
    """ca_file, a file or a directory, replaces the system's certificates."""
    system = Authority(bench.path("system"), "The system's")
    own = Authority(bench.path("own"), "One's own")
    uploader.authorities = bench.path("authorities")
    os.mkdir(uploader.authorities)
    shutil.copy(own.certificate, f"{uploader.authorities}/ca-certificates.crt")
    shutil.copy(system.certificate, f"{uploader.authorities}/system.pem")
    subprocess.run(["openssl", "rehash", uploader.authorities], check=True,
                   capture_output=True)
    server = SentryServer(tls=system.context("by-the-system"))
    for arguments, is_accepted in (((), True), (("ca=" + own.certificate,),
                                                False)):
        outcome = uploader.send(dsn_of(server, scheme="https"), *arguments)
        checks.ok("system's certificates count only without ca_file: "
                  f"{arguments}",
                  outcome["error"] == (0 if is_accepted else -errno.EPROTO) and
                  len(server.requests) == 1, str(outcome))
    server.close()
    uploader.authorities = None


ANSWERS = [
    # name, script, error, parts of why, retry_after_s
    ("401", fixed(401), errno.EACCES, "check key and project", "0"),
    ("403", fixed(403), errno.EACCES, "check key and project", "0"),
    ("404", fixed(404), errno.EREMOTEIO, "check host and path", "0"),
    ("400", fixed(400, "X-Sentry-Error: bad envelope"), errno.EREMOTEIO,
     "bad envelope", "0"),
    ("400 that repeats the key", fixed(
        400, "X-Sentry-Error: unknown key " + KEY.upper()), errno.EREMOTEIO,
     "unknown key ****", "0"),
    ("413", fixed(413), errno.EMSGSIZE, "shorter range", "0"),
    ("500", fixed(500, body=b"x" * 5000), errno.EREMOTEIO, "later", "0"),
    ("503", fixed(503), errno.EREMOTEIO, "later", "0"),
    ("429 without a word", fixed(429), errno.EBUSY, "in 60 s", "60"),
    ("429 with seconds", fixed(429, "Retry-After: 17"), errno.EBUSY,
     "in 17 s", "17"),
    ("429 with garbage", fixed(429, "Retry-After: soon"), errno.EBUSY, "",
     "60"),
    ("429 with a century", fixed(429, "Retry-After: 99999999999999999999"),
     errno.EBUSY, "", "86400"),
    ("429 with a date", fixed(
        429, "Retry-After: Fri, 01 Jan 2100 00:00:00 GMT"), errno.EBUSY, "",
     "86400"),
    ("429 with Sentry's own header", fixed(
        429, "X-Sentry-Rate-Limits: 5:error:org, 33:profile:org",
        "Retry-After: 5"), errno.EBUSY, "", "33"),
    ("429 with limits of categories that are not sent", fixed(
        429, "X-Sentry-Rate-Limits: 5:error:org, 7:monitor;span",
        "Retry-After: 21"), errno.EBUSY, "in 21 s", "21"),
    ("429 with such limits alone", fixed(
        429, "X-Sentry-Rate-Limits: 5:error:org"), errno.EBUSY, "in 60 s",
     "60"),
    ("200 with the id of another event", fixed(
        200, body=b'{"id":"ffffffffffffffffffffffffffffffff"}'),
     errno.EREMOTEIO, "another event", "0"),
    ("200 with a login page", fixed(200, body=b"<html>Please log in"),
     errno.EREMOTEIO, "login page", "0"),
    ("200 with a compressed answer", fixed(
        200, "Content-Encoding: gzip", body=gzip.compress(b" " * 9999999)),
     errno.EREMOTEIO, "", "0"),
    ("200 with an empty answer", fixed(200), 0, "", "0"),
    ("endless body", sentry_server.endless_body, errno.E2BIG, "", "0"),
    ("endless headers", sentry_server.endless_headers, errno.E2BIG, "", "0"),
    ("endless interim answers", sentry_server.many_interim, errno.E2BIG, "",
     "0"),
    ("half a head", sentry_server.half_a_head, errno.EPROTO, "", "0"),
    ("half a body", sentry_server.half_a_body, errno.EPROTO, "", "0"),
    ("no answer", sentry_server.no_answer, errno.EPROTO, "", "0"),
    ("something that is not HTTP", sentry_server.not_http, errno.EPROTO, "",
     "0"),
]


def check_answers(checks, uploader):
    """Faults N4, N5 and N7."""
    for name, script, error, part, retry_after_s in ANSWERS:
        server = SentryServer(script)
        outcome = uploader.send(dsn_of(server))
        checks.ok(f"{name}: error is reported", outcome["error"] == -error and
                  part in outcome["why"] and
                  outcome["retry_after_s"] == retry_after_s and
                  len(server.requests) == 1, str(outcome))
        server.close()


def check_redirect(checks, uploader):
    """Fault N6."""
    second = SentryServer()
    for status in (301, 302, 307, 308):
        first = SentryServer(fixed(
            status, f"Location: http://127.0.0.1:{second.port}/api/42/"))
        outcome = uploader.send(dsn_of(first))
        checks.ok(f"redirect {status} is not followed",
                  outcome["error"] == -errno.EREMOTEIO and
                  second.connections == 0 and len(first.requests) == 1,
                  str(outcome))
        first.close()
    second.close()


def check_time(checks, uploader):
    """Faults N1 and N2: each upload ends by itself; PATIENCE_S only ends a hang."""
    server = SentryServer(sentry_server.never)
    outcome = uploader.send(dsn_of(server), "total_ms=600")
    checks.ok("upload to a server that never answers ends",
              outcome["error"] == -errno.ETIMEDOUT, str(outcome))
    server.script = sentry_server.drip
    outcome = uploader.send(dsn_of(server), "total_ms=60000",
                            "low_speed_s=1")
    checks.ok("upload to a dripping server ends before the total time-out",
              outcome["error"] == -errno.ETIMEDOUT, str(outcome))
    server.close()
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = []
    for _ in range(4):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(full.getsockname())
        waiting.append(client)
    outcome = uploader.send(f"http://{KEY}@127.0.0.1:"
                            f"{full.getsockname()[1]}/42", "connect_ms=700")
    checks.ok("a connection that is never accepted is given up",
              outcome["error"] == -errno.ETIMEDOUT, str(outcome))
    for client in (full, *waiting):
        client.close()


def check_unreachable(checks, uploader):
    """Fault N1."""
    server = SentryServer()
    server.close()
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    outcome = uploader.send(
        f"http://{KEY}@127.0.0.1:{closed.getsockname()[1]}/42")
    checks.ok("a closed port is refused",
              outcome["error"] == -errno.ECONNREFUSED and
              "check that the server runs" in outcome["why"], str(outcome))
    closed.close()
    outcome = uploader.send(f"https://{KEY}@nonexistent.invalid/42",
                            "connect_ms=3000", "total_ms=4000")
    checks.ok("a name that does not exist is reported",
              outcome["error"] in (-errno.EHOSTUNREACH, -errno.ETIMEDOUT),
              str(outcome))
    outcome = uploader.send(f"http://{KEY}@192.0.2.1/42")
    checks.ok("plain http to another machine is refused",
              outcome["error"] == -errno.EINVAL, str(outcome))


def check_early(checks, bench, uploader):
    """Fault N13: servers that do not wait for the end of a big envelope."""
    authority = Authority(bench.path("ca2"))
    trusted = "ca=" + authority.certificate
    for scheme, context in (("http", None),
                            ("https", authority.context("early"))):
        for name, script, errors in (
                ("hangs up", hang_up, (errno.EPROTO,)),
                ("answers 413", refuse_early, (errno.EMSGSIZE, errno.EPROTO))):
            server = SentryServer(script, tls=context)
            outcome = uploader.send(dsn_of(server, scheme=scheme), trusted,
                                    "functions=9000")
            checks.ok(f"a server that {name} early over {scheme} is an "
                      "error without a signal", -outcome["error"] in errors and
                      outcome["returncode"] == 1, str(outcome))
            server.close()
    server = SentryServer()
    outcome = uploader.send(dsn_of(server), "functions=9000")
    checks.ok("a big envelope arrives whole", outcome["error"] == 0 and
              int(outcome["sent_bytes"]) > 1 << 20, str(outcome))
    outcome = uploader.send(dsn_of(server), "functions=82000")
    checks.ok("an envelope larger than Sentry takes is not sent",
              outcome["error"] == -errno.EMSGSIZE and
              len(server.requests) == 1, str(outcome))
    server.close()


def check_proxy(checks, uploader):
    proxy = SentryServer()
    direct = SentryServer()
    url = f"http://127.0.0.1:{proxy.port}"
    uploader.send(dsn_of(direct), http_proxy=url)
    checks.ok("http_proxy is used", proxy.connections == 1 and
              direct.connections == 0 and
              proxy.requests[0].line.startswith("POST http://127.0.0.1:"))
    uploader.send(dsn_of(direct), http_proxy=url, no_proxy="127.0.0.1")
    checks.ok("no_proxy is honoured", proxy.connections == 1 and
              direct.connections == 1)
    proxy.close()
    direct.close()


def main():
    checks = Checks()
    bench = Bench(sys.argv[1])
    uploader = Uploader(bench)
    try:
        check_accepted(checks, bench, uploader)
        check_tls(checks, bench, uploader)
        check_private_authority(checks, bench, uploader)
        check_answers(checks, uploader)
        check_redirect(checks, uploader)
        check_time(checks, uploader)
        check_unreachable(checks, uploader)
        check_early(checks, bench, uploader)
        check_proxy(checks, uploader)
        printed = uploader.printed.lower()
        checks.ok("no output has a key",
                  printed.count("error=") > 40 and KEY not in printed and
                  SECRET not in printed)
        checks.ok("addresses are shown without the key",
                  "http://***@127.0.0.1" in printed)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

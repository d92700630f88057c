# SPDX-License-Identifier: Apache-2.0
"""A Sentry server that records each request byte for byte; a script answers.

Written with plain sockets, because many of its answers must be wrong. Its
certificates are made with openssl when a test starts.
"""
import gzip
import json
import os
import socket
import ssl
import subprocess
import threading
import time

LIMIT = 64 << 20


class Request:
    """What one client sent: its head as received, its body decoded."""

    def __init__(self, head, body):
        self.head = head
        self.body = body
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:]
                        if ": " in line]

    def all(self, name):
        return [value for key, value in self.headers
                if key.lower() == name.lower()]

    def get(self, name):
        values = self.all(name)
        return values[0] if len(values) == 1 else None

    def envelope(self):
        if self.get("Content-Encoding") == "gzip":
            return gzip.decompress(self.body)
        return self.body

    def event_id(self):
        return json.loads(self.envelope().split(b"\n", 1)[0])["event_id"]

    def type(self):
        """Of the first item: "transaction", "profile_chunk"."""
        return json.loads(self.envelope().split(b"\n", 2)[1])["type"]


def answer(status, headers=(), body=b"", reason="Reason"):
    lines = [f"HTTP/1.1 {status} {reason}", f"Content-Length: {len(body)}",
             "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def accept(request, _connection):
    return answer(200, ["Content-Type: application/json"],
                  json.dumps({"id": request.event_id()}).encode())


def fixed(status, *headers, body=b""):
    """A script that always gives the same answer."""
    return lambda request, connection: answer(status, headers, body)


def pump(connection, first, again, pause=0.0):
    """Sends until the client closes the connection."""
    connection.sendall(first)
    for _ in range(100000):
        connection.sendall(again)
        if pause:
            time.sleep(pause)


def endless_body(_request, connection):
    pump(connection, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{",
         b"x" * 65536)


def endless_headers(_request, connection):
    pump(connection, b"HTTP/1.1 200 OK\r\n", b"X-Filler: " + b"x" * 80
         + b"\r\n")


def many_interim(_request, connection):
    pump(connection, b"", b"HTTP/1.1 103 Early\r\nX-A: " + b"b" * 50
         + b"\r\n\r\n")


def drip(_request, connection):
    pump(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n{",
         b" ", pause=0.5)


def half_a_head(_request, connection):
    connection.sendall(b"HTTP/1.1 200 O")
    return b""


def half_a_body(_request, connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"i")
    return b""


def no_answer(_request, _connection):
    return b""


def never(_request, connection):
    """Waits until the client gives up."""
    connection.settimeout(60)
    connection.recv(1)
    return b""


def not_http(_request, _connection):
    return b"220 mail.example.com ESMTP\r\n" * 40


class SentryServer:
    """Listens on a port of 127.0.0.1; script(request, connection) answers.

    script.is_early: called before the body is read, without a request.
    """

    def __init__(self, script=accept, tls=None):
        self.script = script
        self.tls = tls
        self.requests = []
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def transactions(self):
        """Without the chunks that follow them."""
        return [one for one in self.requests if one.type() == "transaction"]

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,),
                             daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(30)
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection,
                                                  server_side=True)
            self._talk(connection)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def _talk(self, connection):
        script = self.script
        if getattr(script, "is_early", False):
            connection.recv(1)
            connection.sendall(script(None, connection) or b"")
            return
        head, body = read_request(connection)
        request = Request(head, body)
        self.requests.append(request)
        reply = script(request, connection)
        if reply:
            connection.sendall(reply)

    def close(self):
        # It ends accept(): a thread that stays in it accepts for the next
        # socket of that number once a stop (SIGSTOP) restarts the call.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def read_request(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65536)
        if not chunk or len(received) > LIMIT:
            raise ValueError("no head")
        received += chunk
    head, body = received.split(b"\r\n\r\n", 1)
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length <= LIMIT:
        chunk = connection.recv(65536)
        if not chunk:
            raise ValueError("body ended early")
        body += chunk
    return head, body


class Authority:
    """The test's certificate authority, and the certificates that it signed."""

    def __init__(self, folder, name="Test authority"):
        self.folder = folder
        os.makedirs(os.path.join(folder, "new"), exist_ok=True)
        open(self.path("index"), "w").close()
        with open(self.path("serial"), "w") as file:
            file.write("01\n")
        with open(self.path("conf"), "w") as file:
            file.write(
                "[ca]\ndefault_ca=a\n[a]\ndatabase=%(f)s/index\n"
                "serial=%(f)s/serial\nnew_certs_dir=%(f)s/new\n"
                "default_md=sha256\npolicy=p\nunique_subject=no\n"
                "copy_extensions=copy\n[p]\ncommonName=supplied\n"
                % {"f": folder})
        self.certificate = self.path("ca.pem")
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes",
                      "-keyout", self.path("ca.key"), "-out",
                      self.certificate, "-subj", "/CN=" + name,
                      "-days", "2")

    def path(self, name):
        return os.path.join(self.folder, name)

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True,
                       capture_output=True)

    def _request(self, name, names):
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout",
                      self.path(name + ".key"), "-out",
                      self.path(name + ".csr"), "-subj", "/CN=" + name,
                      "-addext", "subjectAltName=" + names)

    def context(self, name, names="DNS:localhost,IP:127.0.0.1", dates=None):
        """A server context; dates: (start, end) as YYYYMMDDHHMMSSZ."""
        self._request(name, names)
        when = ["-startdate", dates[0], "-enddate", dates[1]] if dates \
            else ["-days", "2"]
        self._openssl("ca", "-batch", "-notext", "-config",
                      self.path("conf"), "-cert", self.certificate,
                      "-keyfile", self.path("ca.key"), "-in",
                      self.path(name + ".csr"), "-out",
                      self.path(name + ".pem"), *when)
        return self._load(name)

    def self_signed(self, name):
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes",
                      "-keyout", self.path(name + ".key"), "-out",
                      self.path(name + ".pem"), "-subj", "/CN=localhost",
                      "-days", "2", "-addext",
                      "subjectAltName=DNS:localhost,IP:127.0.0.1")
        return self._load(name)

    def _load(self, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(name + ".pem"),
                                self.path(name + ".key"))
        return context

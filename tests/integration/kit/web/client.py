# SPDX-License-Identifier: Apache-2.0
"""HTTP for tests: requests as bytes, answers taken apart strictly; Prometheus'
text format, read strictly."""
import base64
import hashlib
import os
import re
import socket
import struct
import time

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? '
                    r'(-?[0-9.]+(?:e[+-]?[0-9]+)?)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')


class Answer:
    """Status, headers (small letters) and body of one answer."""

    def __init__(self, data):
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.[01] (\d{3}) .*", lines[0])
        self.status = int(match.group(1)) if match else 0
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        if self.headers.get("transfer-encoding") == "chunked":
            body = dechunk(body)
        self.body = body
        self.text = body.decode(errors="replace")

    def __repr__(self):
        return f"{self.status} {self.text[:200]!r}"


def dechunk(data):
    """The body of chunks; None unless the last one has come."""
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        count = int(size, 16)
        if count == 0:
            return body
        body += data[:count]
        data = data[count + 2:]
    return None


def exchange(port, data, timeout=30):
    """Sends bytes and reads until the server closes; b"" if it just does."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        got = b""
        try:
            connection.sendall(data)
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                got += part
        except OSError:
            pass
        return got


def ask(port, target, *headers, method="GET", host=None, version="HTTP/1.1"):
    """One request with these further header lines."""
    lines = [f"{method} {target} {version}", f"Host: {host}" if host
             else f"Host: 127.0.0.1:{port}", *headers, "", ""]
    return Answer(exchange(port, "\r\n".join(lines).encode("latin-1")))


def read_metrics(text):
    """name → [(labels, value)]; raises where a rule of the format is broken:
    one HELP and TYPE before the samples of a metric, which stand together and
    have different labels."""
    samples, kinds, last = {}, {}, None
    if not text.endswith("\n"):
        raise ValueError("no line break at the end")
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in kinds or kind not in ("counter", "gauge"):
                raise ValueError(line)
            kinds[name] = kind
            continue
        match = SAMPLE.fullmatch(line)
        if not match:
            raise ValueError(line)
        name, labels, value = match.groups()
        pairs, at = [], 0
        while labels and at < len(labels):
            label = LABEL.match(labels, at)
            if not label:
                raise ValueError(line)
            pairs.append((label.group(1), label.group(2)))
            at = label.end()
        if name not in kinds or (name in samples and name != last):
            raise ValueError(f"{line}: out of place")
        if kinds[name] == "counter" and not name.endswith("_total"):
            raise ValueError(f"{name}: a counter without _total")
        known = samples.setdefault(name, [])
        if dict(pairs) in [one for one, _ in known]:
            raise ValueError(f"{line}: twice")
        known.append((dict(pairs), float(value)))
        last = name
    return samples


class WebSocket:
    """A client of RFC 6455: opcode and bytes of each frame."""

    def __init__(self, port, target):
        self.connection = socket.create_connection(("127.0.0.1", port), 30)
        key = base64.b64encode(os.urandom(16)).decode()
        self.send(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                  "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Key: {key}\r\n"
                  "Sec-WebSocket-Version: 13\r\n\r\n".encode())
        self.data = b""
        while b"\r\n\r\n" not in self.data:
            part = self.connection.recv(65536)
            if not part:
                break
            self.data += part
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        self.answer = Answer(head + b"\r\n\r\n")
        right = base64.b64encode(hashlib.sha1(
            (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode())
            .digest()).decode()
        self.is_open = self.answer.status == 101 and \
            self.answer.headers.get("sec-websocket-accept") == right

    def send(self, data):
        self.connection.sendall(data)

    def send_frame(self, opcode, data):
        mask = os.urandom(4)
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.send(bytes([0x80 | opcode, 0x80 | len(data)]) + mask + masked)

    def fill(self, count):
        while len(self.data) < count:
            part = self.connection.recv(65536)
            if not part:
                raise ConnectionError("closed")
            self.data += part

    def frame(self):
        self.fill(2)
        first, count = self.data[0], self.data[1]
        if first & 0x70 or not first & 0x80 or count & 0x80:
            raise ValueError(self.data[:2])
        at = 2
        if count == 126:
            self.fill(4)
            count, at = struct.unpack(">H", self.data[2:4])[0], 4
        elif count == 127:
            self.fill(10)
            count, at = struct.unpack(">Q", self.data[2:10])[0], 10
        self.fill(at + count)
        payload = self.data[at:at + count]
        self.data = self.data[at + count:]
        return first & 0x0f, payload

    def frames_until(self, opcode, seconds=15):
        """The frames up to one of that opcode."""
        end, frames = time.monotonic() + seconds, []
        while time.monotonic() < end:
            frames.append(self.frame())
            if frames[-1][0] == opcode:
                return frames
        raise TimeoutError(frames[-3:])

# SPDX-License-Identifier: Apache-2.0
"""HTTP for tests: requests as bytes, answers taken apart strictly; Prometheus'
text format, read strictly."""
import re
import socket

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

# SPDX-License-Identifier: Apache-2.0
"""Requests for the HTTP server, for its streams of events and its websockets,
and what a hostile client makes of them."""
import os
import struct

PATHS = ("/", "/debug/fgtrace", "/debug/fgprof", "/debug/pprof/profile",
         "/api/v1/slice", "/api/v1/targets", "/api/v1/threads", "/api/v1/live",
         "/api/v1/status", "/metrics", "/-/healthy", "/-/ready")
FORMATS = ("fgt", "chrome", "folded", "pprof", "speedscope", "json", "xml", "")
PARAMETERS = ("pid", "name", "children", "all", "thread", "state", "function",
              "running", "no_idle", "tid", "state_frames", "seconds", "wait",
              "hz", "from", "to", "last", "format", "token", "x")
EXTREMES = ("", "0", "-1", "1", "4294967296", "99999999999999999999", "nan",
            "inf", "1e308", "0x10", "%00", "%", "%zz", "%ff%fe", "+", "&", "=",
            "../" * 20, "a" * 300, "*", "[", "[a-", "\\", "%n%s", "1s", "-2s",
            "14:03:07", "true", "only", "%F0%9F%98%80")
HEADERS = ("Host: evil.example", "Host:", "Origin: null", "Accept-Encoding: "
           "gzip;q=0, gzip", "Content-Length: 5", "Content-Length: -1",
           "Transfer-Encoding: chunked", "Connection: keep-alive", "Expect: "
           "100-continue", "Authorization: Bearer", "Authorization: Basic eA==",
           "Upgrade: h2c", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: x",
           "Range: bytes=0-1", "X: " + "y" * 3000, " folded: line", ": empty",
           "Cookie: a=b", "Sec-Fetch-Site: cross-site")
BYTES = (b"\0", b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"%", b"?", b"#",
         b"\xff", b"\x80", b"HTTP/9.9", b"HTTP/1.0", b"\r\n\r\n")


def seed(random, port, token, pid):
    """A request that is right, as lines; whether it is for a websocket."""
    path = random.choice(PATHS)
    query = []
    if random.random() < 0.8:
        query.append(f"token={token}")
    if path in ("/debug/fgtrace", "/debug/fgprof", "/debug/pprof/profile"):
        query.append("seconds=1")
    elif path == "/api/v1/slice":
        query += ["last=1s", f"format={random.choice(FORMATS)}"]
    elif path == "/api/v1/live":
        query.append(f"format={random.choice(('json', 'chrome'))}")
    if path.startswith(("/debug", "/api/v1/live", "/api/v1/sl")) and \
            random.random() < 0.5:
        query.append(f"pid={pid}")
    lines = [f"GET {path}{'?' if query else ''}{'&'.join(query)} HTTP/1.1",
             f"Host: 127.0.0.1:{port}"]
    is_websocket = path == "/api/v1/live" and random.random() < 0.5
    if is_websocket:
        lines += ["Upgrade: websocket", "Connection: Upgrade",
                  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
                  "Sec-WebSocket-Version: 13"]
    return lines, is_websocket


def mutate_lines(random, lines):
    """Other parameters, headers, methods: still lines."""
    for _ in range(random.choice((1, 1, 2, 4))):
        how = random.randrange(6)
        if how <= 1:
            more = f"{random.choice(PARAMETERS)}={random.choice(EXTREMES)}"
            mark = "&" if "?" in lines[0] else "?"
            lines[0] = lines[0].replace(" HTTP/", f"{mark}{more} HTTP/", 1)
        elif how == 2:
            lines.insert(random.randrange(1, len(lines) + 1),
                         random.choice(HEADERS))
        elif how == 3:
            lines.insert(random.randrange(1, len(lines) + 1),
                         random.choice(lines[1:] or lines))
        elif how == 4 and len(lines) > 1:
            del lines[random.randrange(1, len(lines))]
        else:
            lines[0] = random.choice(("HEAD", "POST", "get", "", "A" * 200,
                                      "CONNECT")) + lines[0][3:]


def mutate_bytes(random, data):
    bytes_ = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(bytes_))
        how = random.randrange(4)
        if how == 0:
            bytes_[at] ^= 1 << random.randrange(8)
        elif how == 1:
            bytes_[at:at] = random.choice(BYTES)
        elif how == 2:
            del bytes_[at:at + random.choice((1, 4, 40))]
        else:
            bytes_[at:at] = random.randbytes(random.choice((1, 16, 5000)))
        bytes_ = bytes_ or bytearray(b"G")
    return bytes(bytes_)


def mutate(random, lines):
    """The bytes to send; some as they should be."""
    how = random.randrange(10)
    if 2 <= how <= 6:
        mutate_lines(random, lines)
    data = "\r\n".join([*lines, "", ""]).encode("latin-1")
    if how >= 7:
        data = mutate_bytes(random, data)
    if how == 9:
        data = data[:random.randrange(len(data)) + 1]
    return data


def frames(random):
    """What a client sends in a websocket: frames and what is none."""
    data = b""
    for _ in range(random.choice((1, 2, 5, 80))):
        length = random.choice((0, 1, 5, 125, 126, 127, 4096, 4097, 65535))
        head = bytes([random.choice((0x89, 0x89, 0x8a, 0x81, 0x82, 0x88, 0x01,
                                     0x80, 0x09, 0xf9, 0x8f))])
        if length < 126:
            head += bytes([0x80 | length])
        elif length < 65536:
            head += bytes([0xfe]) + struct.pack(">H", length)
        if random.random() < 0.05:
            head = head[:1] + b"\xff" + struct.pack(
                ">Q", random.choice((0, 2**31, 2**63, 2**64 - 1)))
        data += head + os.urandom(4 + min(length, 200 if length > 4097
                                          else length))
    return mutate_bytes(random, data) if random.random() < 0.5 else data

# SPDX-License-Identifier: Apache-2.0
"""The control protocol in Python, well-formed or not: requests to a daemon
without the command line."""
import os
import pickle
import socket
import struct
import threading
import time


VERSION = 2  # of the protocol: agent/protocol/protocol.h


def pack(value):
    """The part of msgpack that requests need."""
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if value < 0:
            return b"\xd3" + struct.pack(">q", value)
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xdb" + struct.pack(">I", len(text)) + text
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        return (b"\xdd" + struct.pack(">I", len(value)) +
                b"".join(map(pack, value)))
    if isinstance(value, dict):
        return (b"\xdf" + struct.pack(">I", len(value)) +
                b"".join(pack(k) + pack(v) for k, v in value.items()))
    raise TypeError(value)


class Unpacker:
    """The part of msgpack that replies need."""

    FIXED = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I",
             0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
    SIZED = {0xc4: ("B", "bin"), 0xc5: ("H", "bin"), 0xc6: ("I", "bin"),
             0xd9: ("B", "str"), 0xda: ("H", "str"), 0xdb: ("I", "str"),
             0xdc: ("H", "array"), 0xdd: ("I", "array"), 0xde: ("H", "map"),
             0xdf: ("I", "map")}

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def sized(self, kind, count):
        if kind == "bin":
            return self.take(count)
        if kind == "str":
            return self.take(count).decode(errors="replace")
        if kind == "array":
            return [self.value() for _ in range(count)]
        return {self.value(): self.value() for _ in range(count)}

    def value(self):
        tag = self.number(">B")
        if tag < 0x80:
            return tag
        if tag >= 0xe0:
            return tag - 256
        if tag < 0x90:
            return self.sized("map", tag & 15)
        if tag < 0xa0:
            return self.sized("array", tag & 15)
        if tag < 0xc0:
            return self.sized("str", tag & 31)
        if tag in (0xc0, 0xc2, 0xc3):
            return {0xc0: None, 0xc2: False, 0xc3: True}[tag]
        if tag in self.FIXED:
            return self.number(self.FIXED[tag])
        form, kind = self.SIZED[tag]
        return self.sized(kind, self.number(">" + form))


def frame(body):
    return struct.pack(">I", len(body)) + body


def request(verb, **arguments):
    return frame(pack({"v": VERSION, "verb": verb, **arguments}))


class Connection:
    def __init__(self, path, timeout=20):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        for _ in range(timeout * 100):
            try:
                self.socket.connect(path)
                return
            except BlockingIOError:  # the backlog is full
                time.sleep(0.01)
        raise TimeoutError("the backlog stays full")

    def send(self, data):
        self.socket.sendall(data)
        return self

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += part
        return data

    def receive(self):
        (length,) = struct.unpack(">I", self.read(4))
        return Unpacker(self.read(length)).value()

    def receive_slice(self):
        """The first reply and the bytes of the file; None for an error."""
        head = self.receive()
        if not head["ok"]:
            return head, None
        data = b""
        while True:
            part = self.receive()
            if "end" in part:
                if part["len"] != len(data):
                    raise ValueError("slice has not its announced length")
                return head, data
            data += part["data"]

    def close(self):
        self.socket.close()


class FakeAgent:
    """Listens on a socket and gives each request the same reply."""

    def __init__(self, path, reply):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(4)
        self.reply = frame(pack(reply))
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(self.reply)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def call(path, verb, timeout=20, **arguments):
    """One request, its first reply; slices with their bytes as "file"."""
    connection = Connection(path, timeout)
    try:
        try:
            connection.send(request(verb, **arguments))
        except BrokenPipeError:
            pass  # refused at once: the reply has the reason
        if verb != "slice":
            return connection.receive()
        head, data = connection.receive_slice()
        if data is not None:
            head["file"] = data
        return head
    finally:
        connection.close()


def as_user(uid, gid, function):
    """Runs function in a child with other ids; its result or exception."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        try:
            result = (True, function())
        except Exception as error:  # travels to the parent
            result = (False, repr(error))
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(result, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        is_ok, value = pickle.load(stream)
    os.waitpid(child, 0)
    if not is_ok:
        raise RuntimeError(value)
    return value

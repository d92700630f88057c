# SPDX-License-Identifier: Apache-2.0
"""Requests of every verb, well-formed, and what a hostile client makes of
them."""
import array
import fcntl
import os
import socket
import struct

from kit.daemon_client import VERSION, frame, pack

HTTP, NO_DESTINATION = "http://127.0.0.1:9/x", "nowhere"
F_ADD_SEALS, F_SEAL_SHRINK, MFD_HUGETLB = 1033, 2, 4
EXTREMES = (0, 1, -1, 2**31, 2**32, 2**63 - 1, -2**63, 2**64 - 1, "", "x",
            "self", "%n%s", "../" * 30, "a" * 255, "ü" * 200, "x" * 70000,
            True, False, [], {}, [[[[]]]], [{}] * 300, {"v": 2}, ["register"])
TAGS = bytes([0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xc4, 0xc6,
              0xc7, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd9, 0xdb, 0xdc, 0xdd, 0xde,
              0xdf, 0xe0, 0xff, 0x7f])
COUNTS = (0xffffffff, 0x7fffffff, 0x10000000, 0x100000, 0xffff, 1, 0)


def seeds(pid, now_ns):
    """Weight and arguments of well-formed requests."""
    deliver = {"verb": "deliver", "from_ns": now_ns - 10**9, "to_ns": now_ns}
    transaction = {
        "name": "GET /", "op": "http.server", "status": "ok", "level": "info",
        "event_id": "0" * 31 + "1", "trace_id": "0" * 31 + "2",
        "span_id": "0" * 15 + "3", "begin_ns": now_ns - 10**9,
        "end_ns": now_ns - 1, "active_tid": pid, "all_threads": True,
        "tags": [{"key": "a", "value": "b"}] * 3,
        "tids": [{"tid": pid, "from_ns": 0, "to_ns": 0}] * 2}
    return (
        (4, {"verb": "status"}), (4, {"verb": "targets"}),
        (6, {"verb": "attach", "pid": pid}),
        (2, {"verb": "attach", "pid": pid, "children": True}),
        (3, {"verb": "attach", "name": "no-such-name"}),
        (4, {"verb": "detach", "pid": pid}),
        (2, {"verb": "detach", "name": "no-such-name"}),
        (4, {"verb": "slice", "pid": pid, "last_ns": 10**8}),
        (2, {"verb": "slice", "self": True, "tid": pid}),
        (3, {"verb": "slice", "name": "python3", "from_ns": now_ns - 10**8,
             "to_ns": now_ns}),
        (2, {"verb": "slice", "from_wall_ns": 10**18, "to_wall_ns": 2**62}),
        (6, {"verb": "register", "mode": "agent", "release": "app@1",
             "environment": "test", "destination": NO_DESTINATION}),
        (4, {"verb": "register", "mode": "embedded", "spans": True}),
        (4, {"verb": "register", "mode": "agent", "spans": True,
             "ring": True}),
        (2, {"verb": "bye"}),
        (3, {**deliver, "destination": NO_DESTINATION}),
        (3, {**deliver, **transaction, "destination": NO_DESTINATION}),
    )


class Descriptors:
    """Of odd kinds, opened once. paths: further files to pass."""

    def __init__(self, folder, paths=(), contents=b""):
        fifo = os.path.join(folder, f"fifo-{os.getpid()}")
        os.mkfifo(fifo)
        self.fds = [os.open(fifo, os.O_RDWR), os.open("/", os.O_RDONLY),
                    os.open("/dev/zero", os.O_RDWR), os.open("/", os.O_PATH),
                    os.open("/etc/passwd", os.O_RDONLY),
                    socket.socket(socket.AF_UNIX).detach(), *os.pipe(),
                    os.eventfd(0), os.open("/proc/self/stat", os.O_RDONLY)]
        self.fds += [os.open(path, os.O_RDONLY) for path in paths]
        for flags, size in ((2, 0), (2, 4096), (2, 1 << 40), (2, 1 << 20),
                            (2 | MFD_HUGETLB, 2 << 20), (0, 4096)):
            for seals in (0, F_SEAL_SHRINK, 15):
                self.memory(flags, size, seals, b"")
        self.good = [self.memory(2, max(4096, len(contents)), F_SEAL_SHRINK,
                                 contents)]

    def memory(self, flags, size, seals, contents):
        try:
            fd = os.memfd_create("odd", os.MFD_CLOEXEC | flags)
        except OSError:  # no huge pages here
            return -1
        os.ftruncate(fd, size)
        if contents:
            os.pwrite(fd, contents, 0)
        if flags & 2:
            fcntl.fcntl(fd, F_ADD_SEALS, seals)
        self.fds.append(fd)
        return fd

    def scribble(self, random):
        """Over the good memory, which earlier requests have passed, too."""
        room = os.fstat(self.good[0]).st_size - 16
        at = random.choice((random.randrange(200), random.randrange(room)))
        os.pwrite(self.good[0], random.randbytes(random.choice((1, 8, 16))), at)

    def some(self, random):
        return random.choices(self.fds, k=random.choice((1, 1, 2, 2, 3, 30)))


def pack_pairs(pairs):
    return b"\xdf" + struct.pack(">I", len(pairs)) + \
        b"".join(pack(key) + pack(value) for key, value in pairs)


def mutate_values(random, request):
    """Still msgpack: values of other types and ranges, keys that are missing,
    repeated or unknown."""
    pairs = [("v", VERSION), *request.items()]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(pairs))
        how = random.randrange(5)
        if how <= 1:
            pairs[at] = (pairs[at][0], random.choice(EXTREMES))
        elif how == 2:
            pairs.insert(at, random.choice(pairs))
        elif how == 3 and len(pairs) > 1:
            del pairs[at]
        else:
            pairs.append((random.choice(("pid", "name", "tid", "self", "data",
                                         "to_ns", "tags", "tids", "", "k")),
                          random.choice(EXTREMES)))
    return frame(pack_pairs(pairs))


def mutate_bytes(random, data):
    """Of the frame: bits, tags, counts, lengths; shorter, longer, spliced."""
    bytes_ = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(bytes_))
        how = random.randrange(7)
        if how <= 1:
            bytes_[at] ^= 1 << random.randrange(8)
        elif how == 2:
            bytes_[at] = random.choice(TAGS)
        elif how == 3:
            bytes_[at:at + 4] = struct.pack(">I", random.choice(COUNTS))
        elif how == 4:
            bytes_[at:at] = random.randbytes(random.choice((1, 4, 200)))
        elif how == 5 and len(bytes_) > 8:
            del bytes_[at:at + random.choice((1, 4, 20))]
        else:
            bytes_[:4] = struct.pack(
                ">I", max(0, len(bytes_) - 4 + random.randrange(-3, 4)))
        if not bytes_:
            bytes_ = bytearray(data)
    if random.random() < 0.5:
        bytes_[:4] = struct.pack(">I", max(0, len(bytes_) - 4))
    return bytes(bytes_)


def mutate(random, request):
    """The bytes to send; some as they should be."""
    data = frame(pack_pairs([("v", VERSION), *request.items()]))
    how = random.randrange(10)
    if how <= 1:
        return data
    if how <= 6:
        data = mutate_values(random, request)
    else:
        data = mutate_bytes(random, data)
    if how == 9:
        data = data[:random.randrange(len(data))]
    return data


def send_with(connection, data, fds):
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                 array.array("i", fds))])

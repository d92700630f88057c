# SPDX-License-Identifier: Apache-2.0
"""Reads .fgt files, written from ringbuf/README.md alone.

usage: python3 -m kit.read_fgt FILE.fgt: prints its stacks as folded lines.

Raises BadSlice for everything that a reader must refuse.
"""
import math
import re
import struct
import sys

from kit.crc32c import is_as_written

MARKERS = {
    1: "[kernel]", 2: "[kernel: not permitted]",
    3: "[not sampled: last known stack]", 4: "[frames elided]",
    5: "[overflow: no room in the ring]", 6: "[truncated: no unwind rule]",
    7: "[truncated: bad unwind rule]",
    8: "[truncated: stack larger than its copy]",
    9: "[truncated: frame pointer unknown]",
    10: "[truncated: return address outside code]",
    11: "[truncated: stack pointer did not move]",
    12: "[truncated: thread moved meanwhile]", 13: "[truncated: not readable]",
    14: "[truncated: unwind rule not read yet]"}
TEXTS = {"name": 63, "exe": 511, "host": 64, "arch": 15, "os_release": 64,
         "title": 127}
SERVICE_TEXTS = ("name", "namespace", "version", "instance", "environment",
                 "unit", "container")
WAIT_KINDS, WAKE_CONTEXTS, CONDITION_BYTES = 15, 3, 48
LOCKS, NOTIFICATION, DESCRIPTOR, CHILD, JOIN = (1, 2, 3, 4), 4, 5, 7, 14
NOT_BLOCKED = (0, 3, 4)  # running, unknown, runnable
NESTING_MAX, STRING_MAX, SYMBOLS_MAX, DEPTH_MAX = 16, 4096, 64, 1032
PERIODS_MAX, SPAN_DEPTH_MAX = 2 ** 20 - 1, 64


class BadSlice(Exception):
    """The bytes are not a slice that a reader may use."""


def need(is_ok, what):
    if not is_ok:
        raise BadSlice(what)


# ---- msgpack ----------------------------------------------------------------

class Unpacker:
    """Str and bin become (kind, bytes), maps lists of pairs."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        need(length <= len(self.data) - self.at, "cut short")
        self.at += length
        return self.data[self.at - length:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def count(self, count, depth):
        """Each element takes a byte at least."""
        need(depth < NESTING_MAX, "nested too deep")
        need(count <= len(self.data) - self.at, "a count without bytes")
        return range(count)

    def array(self, count, depth):
        return [self.read(depth + 1) for _ in self.count(count, depth)]

    def map(self, count, depth):
        return ("map", [(self.read(depth + 1), self.read(depth + 1))
                        for _ in self.count(2 * count, depth)[::2]])

    def read(self, depth=0):
        head = self.number("B")
        if head < 0x80 or head >= 0xe0:
            return head if head < 0x80 else head - 256
        if head < 0x90:
            return self.map(head & 15, depth)
        if head < 0xa0:
            return self.array(head & 15, depth)
        if head < 0xc0:
            return ("str", self.take(head & 31))
        if head in (0xc0, 0xc2, 0xc3):
            return {0xc0: None, 0xc2: False, 0xc3: True}[head]
        need(head != 0xc1, "0xc1")
        if head in (0xca, 0xcb):
            return float(self.number("f" if head == 0xca else "d"))
        if 0xcc <= head <= 0xd3:
            return self.number("BHIQbhiq"[head - 0xcc])
        if 0xd4 <= head <= 0xd8:
            return ("ext", self.take(1 + (1 << (head - 0xd4))))
        if head in (0xc7, 0xc8, 0xc9):
            return ("ext", self.take(1 + self.number("BHI"[head - 0xc7])))
        size = self.number({0xc4: "B", 0xc5: "H", 0xc6: "I", 0xd9: "B",
                            0xda: "H", 0xdb: "I", 0xdc: "H", 0xdd: "I",
                            0xde: "H", 0xdf: "I"}[head])
        if head >= 0xde:
            return self.map(size, depth)
        if head >= 0xdc:
            return self.array(size, depth)
        return ("str" if head >= 0xd9 else "bin", self.take(size))


# ---- values -----------------------------------------------------------------

def integer(value, low, high):
    need(isinstance(value, int) and not isinstance(value, bool) and
         low <= value <= high, f"{value!r} is not in [{low}, {high}]")
    return value


def u32(value):
    return integer(value, 0, 2 ** 32 - 1)


def u64(value):
    return integer(value, 0, 2 ** 64 - 1)


def i32(value):
    return integer(value, -2 ** 31, 2 ** 31 - 1)


def double(value):
    need(isinstance(value, float), "not a float")
    return value


def blob(value, kind, most):
    need(isinstance(value, tuple) and value[0] == kind and
         len(value[1]) <= most, f"not a {kind} of {most} bytes at most")
    return value[1]


def text(value, most):
    found = blob(value, "str", most)
    need(0 not in found, "NUL in a text")
    return found


def members(value):
    need(isinstance(value, tuple) and value[0] == "map", "not a map")
    return [(blob(key, "str", 2 ** 32).decode("latin-1"), member)
            for key, member in value[1]]


def array(value, width):
    need(isinstance(value, list) and len(value) % width == 0,
         f"not an array of {width} fields a record")
    return value


# Fields: a reader, "d32"/"d64" differences, "thread" and "tick" as in runs.
TABLES = {
    "anchors": ("d64", "d64"), "ticks": ("d64",), "paces": ("d32", u32),
    "threads": (i32, u32, u64), "symbols": (u32, u32, u32, u32),
    "frames": (u64, u32, u32, u32, u32), "nodes": (u32, u32),
    "states": (u32, u32), "runs": ("thread", "tick", "length", u32, u32),
    "edges": ("thread", "tick", u32, u32),
    "tasks": ("d32", u64, u64, u64, u32, u32, i32),
    "spans": ("d32", u32, u64, u64, u64, u32, i32),
    "marks": ("d64", u32, i32), "counters": ("d32", u64, double),
    "labels": ("d32", u32, u32), "notes": (u32, u32),
    "waits": (u32, i32, u64, i32, u64, u32, u32), "run_waits": ("d32", u32),
    "wakers": (i32, i32, u32, u32, u32), "wakes": ("d32", "d64", u32, u32),
    "processes": (i32, u64, u32, u32, u32), "members": ("d32", u32)}
OPTIONAL = {"paces", "edges", "tasks", "spans", "marks", "counters", "labels",
            "notes", "waits", "run_waits", "wakers", "wakes", "processes",
            "members"}


def read_table(value, fields):
    values = array(value, len(fields))
    records, last, position = [], [0] * len(fields), 0
    for first in range(0, len(values), len(fields)):
        record = []
        for i, field in enumerate(fields):
            found = values[first + i]
            if field == "d64":
                record.append((last[i] + u64(found)) % 2 ** 64)
            elif field in ("d32", "thread"):
                record.append((last[i] + u32(found)) % 2 ** 32)
                if field == "thread" and found:
                    position = 0
            elif field == "tick":
                position = (position + u32(found)) % 2 ** 32
                record.append(position)
            elif field == "length":
                position = (position + u32(found)) % 2 ** 32
                record.append(found)
            else:
                record.append(field(found))
        records.append(tuple(record))
        last = record
    return records


# ---- the slice --------------------------------------------------------------

class Slice:
    """The tables as lists of tuples, in the order of the README."""
    without_file = b""  # shown in place of the file's name

    def __init__(self, data):
        need(data[:4] == b"FGT1", "not FGT1")
        need(is_as_written(data), "its checksum differs")
        unpacker = Unpacker(data[4:])
        pairs = members(unpacker.read())
        need(unpacker.at == len(unpacker.data), "bytes behind the map")
        need(pairs and pairs[0][0] == "version" and pairs[0][1] == 1,
             "another version")
        known = {key: value for key, value in pairs[1:]
                 if key in TABLES or hasattr(self, f"read_{key}")}
        need(len(known) == sum(key in known for key, _ in pairs[1:]),
             "a key stands twice")
        for key in ("process", "range", "period", "effective_hz", "lost",
                    "strings", "images"):
            need(key in known, f"no {key}")
            getattr(self, f"read_{key}")(known[key])
        self.read_service(known.get("service", ("map", [])))
        for key, fields in TABLES.items():
            need(key in known or key in OPTIONAL, f"no {key}")
            setattr(self, key, read_table(known.get(key, []), fields))
        self.check_times()
        self.check_stacks()
        self.check_runs()
        self.check_waits()
        self.check_processes()
        self.check_tasks()
        self.check_remarks()

    def read_process(self, value):
        self.process = {key: text(member, TEXTS[key]) if key in TEXTS else
                        {"pid": i32, "uid": u32, "start_time": u64}[key](member)
                        for key, member in members(value)
                        if key in TEXTS or key in ("pid", "uid", "start_time")}

    def read_service(self, value):
        self.service = {key: text(member, 255) for key, member in members(value)
                        if key in SERVICE_TEXTS}

    def read_range(self, value):
        need(isinstance(value, list) and len(value) == 2, "bad range")
        self.range = [u64(end) for end in value]

    def read_period(self, value):
        self.period = u64(value)

    def read_effective_hz(self, value):
        self.effective_hz = double(value)

    def read_lost(self, value):
        need(isinstance(value, list) and len(value) == 3, "bad lost")
        self.lost = [u64(count) for count in value]

    def read_strings(self, value):
        self.strings = [b""] + [text(each, STRING_MAX)
                                for each in array(value, 1)]
        need(len(set(self.strings)) == len(self.strings), "a string twice")

    def read_images(self, value):
        self.images = []
        for each in array(value, 1):
            image = dict(members(each))
            self.string(u32(image.get("path", 0)))
            blob(image.get("build_id", ("bin", b"")), "bin", 32)
            u32(image.get("is_deleted", 0))
            for key in ("bias", "start", "end", "dev", "ino"):
                u64(image.get(key, 0))
            self.images.append(image)

    def string(self, number):
        need(number < len(self.strings), "no such string")
        return self.strings[number]

    def thread_name(self, tid):
        return next((self.string(name) for number, name, _ in self.threads
                     if tid and number == tid), b"")

    def reason(self, wait):
        """What formats add to the name of a state; b"" if nothing."""
        kind, owner, _, _, _, text, name = wait
        text, name = (self.string(number).partition(b", held by ")[0]
                      for number in (text, name))
        if name == b"heap" or name.startswith(b"stack of ") or kind == JOIN:
            name = b""
        if kind == NOTIFICATION:
            offset = re.fullmatch(rb"(.*)\+(0x[0-9a-f]+)", name)
            if offset and int(offset[2], 16) < CONDITION_BYTES:
                name = offset[1]
        if kind in LOCKS or kind == JOIN:
            owner = self.thread_name(owner)
            return b" ".join(filter(None, (name, owner and "← ".encode() + owner)))
        if kind == DESCRIPTOR:
            plain = re.match(rb"anon_inode:\[?([^]]*)|(pipe|socket):\[", text)
            return name or (plain and (plain[1] or plain[2])) or text
        return text if kind == CHILD else b""

    def shown_state(self, run):
        """As all other formats show it."""
        names = dict(self.states)
        name = self.string(names[self.runs[run][4]]) or b"unknown"
        wait = self.wait_of_run.get(run, 0)
        reason = self.reason(self.waits[wait - 1]) if wait else b""
        return name + b" " + reason if reason else name

    def check_times(self):
        need(self.ticks and self.anchors, "no tick or no anchor")
        for before, after in zip(self.ticks, self.ticks[1:]):
            need(before < after, "ticks out of order")
        for before, after in zip(self.anchors, self.anchors[1:]):
            need(before[0] <= after[0], "anchors out of order")
        need(self.period and math.isfinite(self.effective_hz) and
             self.effective_hz >= 0 and self.range[0] <= self.range[1],
             "bad period, rate or range")
        for number, (tick, periods) in enumerate(self.paces):
            need(tick < len(self.ticks) and 1 <= periods <= PERIODS_MAX and
                 (not number or self.paces[number - 1][0] < tick), "bad pace")
        threads = [(tid, start) for tid, _, start in self.threads]
        need(threads == sorted(threads), "threads out of order")
        for _, name, _ in self.threads:
            self.string(name)

    def check_stacks(self):
        for function, file, _, reason in self.symbols:
            self.string(function)
            self.string(file)
            need(reason <= 5, "no such reason")
        for _, image, _, first, count in self.frames:
            need(image <= len(self.images) and count <= SYMBOLS_MAX and
                 first + count <= len(self.symbols), "bad frame")
        depths = []
        for number, (distance, frame) in enumerate(self.nodes):
            need(distance <= number and frame < len(self.frames), "bad node")
            depths.append(1 + (depths[number - distance] if distance else 0))
            need(depths[-1] <= DEPTH_MAX, "a stack is too deep")

    def check_runs(self):
        states = [state for state, _ in self.states]
        need(states == sorted(set(states)) and
             (not states or states[-1] <= 1022), "bad states")
        for _, name in self.states:
            self.string(name)
        last = (0, 0)
        for thread, tick, count, stack, state in self.runs:
            need(thread < len(self.threads) and count and
                 tick + count <= len(self.ticks) and
                 stack <= len(self.nodes) and state in states and
                 (thread, tick) >= last, "bad run")
            last = (thread, tick + count)
        edges = [(thread, tick, -max(us)) for thread, tick, *us in self.edges]
        need(edges == sorted(set(edges)), "edges out of order")
        need(all(thread < len(self.threads) and tick < len(self.ticks)
                 for thread, tick, _ in edges), "bad edge")

    def check_waits(self):
        for kind, _, _, _, _, words, name in self.waits:
            need(kind < WAIT_KINDS, "bad wait")
            self.string(words)
            self.string(name)
        for run, wait in self.run_waits:
            need(run < len(self.runs) and 0 < wait <= len(self.waits) and
                 self.runs[run][4] not in NOT_BLOCKED, "bad wait of a run")
        self.wait_of_run = dict(self.run_waits)
        need(len(self.wait_of_run) == len(self.run_waits), "two waits")
        for _, _, name, context, stack in self.wakers:
            self.string(name)
            need(context < WAKE_CONTEXTS and stack <= len(self.nodes),
                 "bad waker")
        for thread, at, waker, _ in self.wakes:
            need(thread < len(self.threads) and waker < len(self.wakers) and
                 at <= self.ticks[-1][0], "bad wake")
        order = [wake[:2] for wake in self.wakes]
        need(order == sorted(order), "wakes out of order")

    def check_processes(self):
        for _, _, *texts in self.processes:
            for number in texts:
                self.string(number)
        self.process_of = dict(self.members)
        need(all(thread < len(self.threads) and
                 process < max(1, len(self.processes))
                 for thread, process in self.members), "bad process")

    def check_tasks(self):
        last_track, last_end = 0, 0
        for track, _, begin, end, parent, name, _ in self.tasks:
            self.string(name)
            end = end or 2 ** 64 - 1
            need(begin <= end and parent <= len(self.tasks) and
                 track >= last_track, "bad task")
            need(not parent or self.tasks[parent - 1][2] < begin,
                 "a task before its parent")
            need(track > last_track or begin >= last_end, "tasks overlap")
            last_track, last_end = track, end
        around, last_task = [], 0
        for task, depth, _, begin, end, name, _ in self.spans:
            self.string(name)
            end = end or 2 ** 64 - 1
            need(last_task <= task < len(self.tasks) and begin <= end,
                 "bad span")
            if task > last_task:
                around, last_task = [], task
            need(depth < SPAN_DEPTH_MAX and depth <= len(around),
                 "a span is too deep")
            low, high = around[depth - 1] if depth else (
                self.tasks[task][2], self.tasks[task][3] or 2 ** 64 - 1)
            need(low <= begin and end <= high, "a span leaves its surroundings")
            need(depth == len(around) or begin >= around[depth][1],
                 "spans overlap")
            around[depth:] = [(begin, end)]

    def check_remarks(self):
        for _, name, _ in self.marks:
            self.string(name)
        times = [mark[0] for mark in self.marks]
        need(times == sorted(times), "marks out of order")
        for name, _, value in self.counters:
            self.string(name)
            need(math.isfinite(value), "a counter is not finite")
        order = [counter[:2] for counter in self.counters]
        need(order == sorted(order), "counters out of order")
        for span, key, value in self.labels:
            need(span < len(self.spans), "no such span")
            self.string(key)
            self.string(value)
        order = [label[:2] for label in self.labels]
        need(order == sorted(set(order)), "labels out of order")

    # ---- contents ------------------------------------------------------

    def weight(self, first, count):
        """Periods that these ticks stand for."""
        paces = [(0, 1)] + self.paces
        ends = [tick for tick, _ in paces[1:]] + [len(self.ticks)]
        return sum(periods * max(0, min(end, first + count) - max(tick, first))
                   for (tick, periods), end in zip(paces, ends))

    def totals(self):
        """Periods of each tid."""
        sums = {}
        for thread, tick, count, _, _ in self.runs:
            tid = self.threads[thread][0]
            sums[tid] = sums.get(tid, 0) + self.weight(tick, count)
        return sums

    def frame_names(self, number):
        address, image, flags, first, count = self.frames[number]
        if flags & 2:
            return [MARKERS.get(address, "[unknown marker]").encode()]
        if not count:
            path = self.string(self.images[image - 1]["path"]) if image else b""
            base = path.rsplit(b"/", 1)[-1] or self.without_file
            return [base + b"+" * bool(base) + b"0x%x" % address]
        return [self.string(self.symbols[first + i][0]) or b"[no name]"
                for i in range(count)]

    def stack_names(self, link):
        """Leaf first."""
        if not link:
            return [b"[stack unknown]"]
        names, node = [], link - 1
        while True:
            names += self.frame_names(self.nodes[node][1])
            if not self.nodes[node][0]:
                return names
            node -= self.nodes[node][0]

    def roots(self, thread):
        """The frame of the thread's process, of several."""
        if len(self.processes) < 2:
            return []
        pid, _, name, _, title = self.processes[self.process_of.get(thread, 0)]
        return [self.string(title or name) + b" (%d)" % pid]

    def folded(self):
        """Folded lines with the state as their leaf, as `convert` writes them."""
        sums, lines = {}, {}
        for run, (thread, tick, count, stack, _) in enumerate(self.runs):
            key = (thread, stack, self.shown_state(run))
            sums[key] = sums.get(key, 0) + self.weight(tick, count)
        for (thread, stack, state), weight in sums.items():
            names = [state] + self.stack_names(stack) + self.roots(thread)
            line = b";".join(clean(name) for name in reversed(names))
            lines[line] = lines.get(line, 0) + weight
        return sorted(b"%s %d\n" % pair for pair in lines.items())


def clean(name):
    """UTF-8 without the special characters of folded lines."""
    name = name.decode("utf-8", "replace")
    return "".join(":" if c == ";" else " " if ord(c) < 32 or ord(c) == 127
                   else c for c in name).encode()


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        sys.stdout.buffer.write(b"".join(Slice(file.read()).folded()))

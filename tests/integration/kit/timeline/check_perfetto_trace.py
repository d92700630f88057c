# SPDX-License-Identifier: Apache-2.0
"""check_perfetto_trace.py FILE: would Perfetto show it as it is meant?

Reads the packets by their published numbers, only the fields that fgtrace
writes, and checks what readers do not: every number that is used was defined
before, and once; samples of a thread follow each other without a gap that is
not marked; the track of its states agrees; slices nest; each arrow has two
ends. Exit 0, or 1 with the reason.
"""
import math
import struct
import zlib
from collections import Counter, defaultdict

from kit import strict
from kit.check_pprof import varint
from kit.strict import Wrong, demand

INT, TEXT, BYTES, DOUBLE, FIXED = "int", "text", "bytes", "double", "fixed"
# Field → (name, what it holds); a message is a table.
STRING = {1: ("iid", INT), 2: ("str", BYTES)}
COUNTER = {2: ("name", TEXT), 3: ("unit", INT)}
ENTRY = {6: ("string_value", TEXT), 10: ("name", TEXT)}
INTERNED = {
    2: ("event_names", {1: ("iid", INT), 2: ("str", TEXT)}),
    5: ("function_names", STRING),
    6: ("frames", {1: ("iid", INT), 2: ("function_name_id", INT),
                   3: ("mapping_id", INT), 4: ("rel_pc", INT),
                   5: ("source_path_iid", INT), 6: ("line_number", INT),
                   7: ("kind", INT)}),
    7: ("callstacks", {1: ("iid", INT), 2: ("frame_ids", INT)}),
    16: ("build_ids", STRING), 17: ("mapping_paths", STRING),
    18: ("source_paths", STRING),
    19: ("mappings", {1: ("iid", INT), 2: ("build_id", INT),
                      4: ("start", INT), 5: ("end", INT),
                      6: ("load_bias", INT), 7: ("path_string_ids", INT)}),
    48: ("task_contexts", {1: ("iid", INT), 2: ("pid", INT), 3: ("tid", INT)})}
PACKET = {
    6: ("clock_snapshot", {1: ("clocks", {1: ("clock_id", INT),
                                          2: ("timestamp", INT),
                                          4: ("unit_multiplier_ns", INT)}),
                           2: ("primary_trace_clock", INT)}),
    8: ("timestamp", INT), 10: ("sequence_id", INT),
    11: ("track_event", {4: ("debug_annotations",
                             {**ENTRY, 11: ("dict_entries", ENTRY)}),
                         9: ("type", INT), 10: ("name_iid", INT),
                         11: ("track_uuid", INT),
                         44: ("double_counter_value", DOUBLE),
                         47: ("flow_ids", FIXED),
                         48: ("terminating_flow_ids", FIXED)}),
    12: ("interned_data", INTERNED), 13: ("sequence_flags", INT),
    58: ("timestamp_clock_id", INT),
    59: ("defaults", {58: ("timestamp_clock_id", INT),
                      100: ("stack_sample_defaults",
                            {1: ("source", TEXT),
                             2: ("primary_descriptor", COUNTER)})}),
    60: ("track_descriptor",
         {1: ("uuid", INT), 2: ("name", TEXT),
          3: ("process", {1: ("pid", INT), 6: ("process_name", TEXT),
                          8: ("process_labels", TEXT)}),
          4: ("thread", {1: ("pid", INT), 2: ("tid", INT),
                         5: ("thread_name", TEXT)}),
          5: ("parent_uuid", INT), 8: ("counter", {}), 18: ("state", {})}),
    87: ("first_packet_on_sequence", INT),
    135: ("stack_sample", {2: ("task_context_iid", INT),
                           6: ("callstack_iid", INT),
                           11: ("primary_weight", INT)})}
TRACE = {1: ("packet", PACKET)}
COMPRESSED = b"\x92\x03"  # field 50 of a packet, bytes
WIRES = {INT: 0, DOUBLE: 1, FIXED: 1}
BEGIN, END, INSTANT, COUNT, STATE = range(1, 6)
MONOTONIC, REALTIME, US_CLOCK, NS_CLOCK = 3, 1, 64, 65
UNIT_NS = {US_CLOCK: 1000, NS_CLOCK: 1, MONOTONIC: 1, REALTIME: 1}
GAP = ("[gap: no samples]",)


def fixed(data, at, kind):
    demand(at + 8 <= len(data), f"byte {at}: breaks off")
    return struct.unpack_from("<d" if kind == DOUBLE else "<Q", data, at)[0]


def content(data, kind):
    if kind == BYTES:
        return bytes(data)
    if kind == TEXT:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Wrong(f"a text is not UTF-8: {error}") from error
    return message(data, kind)


def message(data, fields):
    """Name → list of values."""
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        demand(tag >> 3 in fields, f"byte {at}: unknown field {tag >> 3}")
        name, kind = fields[tag >> 3]
        wire = 2 if isinstance(kind, dict) else WIRES.get(kind, 2)
        demand(tag & 7 == wire, f"{name}: wire type {tag & 7}")
        if wire == 0:
            value, at = varint(data, at)
            demand(value < 2 ** 64, f"{name}: {value}")
        elif wire == 1:
            value, at = fixed(data, at, kind), at + 8
        else:
            length, at = varint(data, at)
            demand(at + length <= len(data), f"{name}: longer than the file")
            value, at = content(data[at:at + length], kind), at + length
        found.setdefault(name, []).append(value)
    return found


def one(found, name, default=None):
    values = found.get(name, [])
    demand(len(values) <= 1, f"{name} {len(values)} times")
    return values[0] if values else default


def plain(data):
    """The packets of a trace, out of the bundles that are compressed."""
    at, found = 0, []
    while at < len(data):
        begin = at
        tag, at = varint(data, at)
        demand(tag == 0x0a, f"byte {begin}: no packet")
        length, at = varint(data, at)
        demand(at + length <= len(data), f"byte {begin}: breaks off")
        packet, at = data[at:at + length], at + length
        if packet[:2] != COMPRESSED:
            found.append(data[begin:at])
            continue
        size, body = varint(packet, 2)
        demand(body + size == len(packet), "more than a bundle in a packet")
        try:
            found.append(zlib.decompress(packet[body:]))
        except zlib.error as error:
            raise Wrong(f"byte {begin}: {error}") from error
    return b"".join(found)


class Trace:
    """All packets, in order, each checked against those before it."""

    def __init__(self, data):
        self.interned = defaultdict(dict)
        self.tracks, self.threads = {}, {}
        self.samples = defaultdict(list)  # tid → [(ts, ns, stack)]
        self.states = defaultdict(list)  # uuid → [(ts, name)]
        self.open = defaultdict(list)
        self.last = Counter()  # uuid → ts
        self.slices, self.instants, self.counters = [], [], []
        self.flows = defaultdict(dict)
        self.facts = {}
        self.base_ns = None
        self.wall = []
        packets = message(data, TRACE).get("packet", [])
        demand(packets, "no packets")
        self.head(packets[0])
        for index, packet in enumerate(packets):
            try:
                self.packet(packet)
            except (Wrong, KeyError) as wrong:
                raise Wrong(f"packet {index}: {wrong!r}") from wrong
        self.count = len(packets)

    def head(self, packet):
        demand(one(packet, "sequence_flags") == 1 and
               one(packet, "first_packet_on_sequence") == 1,
               "the first packet does not begin its sequence")
        defaults = one(packet, "defaults", {})
        demand(one(defaults, "timestamp_clock_id") == US_CLOCK, "clock")
        sample = one(defaults, "stack_sample_defaults", {})
        demand(one(sample, "source") == "fgtrace", "source")
        counter = one(sample, "primary_descriptor", {})
        demand(one(counter, "unit") == 1 and one(counter, "name"),
               "samples do not weigh nanoseconds")
        clocks = self.clocks(one(packet, "clock_snapshot", {}))
        demand(set(clocks) == set(UNIT_NS), clocks)
        self.base_ns = {id: clocks[MONOTONIC] - clocks[id]
                        for id in (US_CLOCK, NS_CLOCK)}

    def clocks(self, snapshot):
        demand(one(snapshot, "primary_trace_clock") == MONOTONIC,
               "primary clock")
        clocks = {}
        for each in snapshot.get("clocks", []):
            clock = one(each, "clock_id")
            demand(one(each, "unit_multiplier_ns", 1) == UNIT_NS[clock],
                   f"unit of clock {clock}")
            clocks[clock] = one(each, "timestamp") * UNIT_NS[clock]
        demand(not self.wall or clocks[MONOTONIC] > self.wall[-1][0],
               "clock snapshots are not in order")
        self.wall.append((clocks[MONOTONIC], clocks[REALTIME]))
        return clocks

    def packet(self, packet):
        demand(one(packet, "sequence_id") == 1, "sequence")
        self.intern(one(packet, "interned_data", {}))
        if "clock_snapshot" in packet and "defaults" not in packet:
            self.clocks(one(packet, "clock_snapshot"))
        if "track_descriptor" in packet:
            self.track(one(packet, "track_descriptor"))
        timed = [key for key in ("track_event", "stack_sample")
                 if key in packet]
        demand(bool(timed) == ("timestamp" in packet), "timestamp")
        if timed:
            clock = one(packet, "timestamp_clock_id", US_CLOCK)
            ts = self.base_ns[clock] + \
                one(packet, "timestamp") * UNIT_NS[clock]
            demand(len(timed) == 1 and one(packet, "timestamp") > 0, timed)
            if timed[0] == "track_event":
                self.event(ts, one(packet, "track_event"))
            else:
                self.sample(ts, one(packet, "stack_sample"))

    # ---- Tables ----

    def intern(self, data):
        # Within a packet readers take all of it before they use any.
        for table, entries in data.items():
            for entry in entries:
                iid = one(entry, "iid", 0)
                demand(iid > 0 and iid not in self.interned[table],
                       f"{table}: number {iid} again, or 0")
                self.interned[table][iid] = entry
        for entry in data.get("mappings", []):
            self.mapping(entry)
        for entry in data.get("frames", []):
            self.frame(entry)
        for entry in data.get("callstacks", []):
            demand(entry.get("frame_ids"), "an empty callstack")
            demand(all(i in self.interned["frames"]
                       for i in entry["frame_ids"]), "frames")

    def mapping(self, entry):
        paths = entry.get("path_string_ids", [])
        demand(all(p in self.interned["mapping_paths"] for p in paths), "path")
        build_id = one(entry, "build_id", 0)
        demand(not build_id or build_id in self.interned["build_ids"],
               "build id")
        demand(not paths or one(entry, "start", 0) < one(entry, "end", 0),
               "an empty mapping")

    def frame(self, entry):
        name = self.interned["function_names"][one(entry, "function_name_id")]
        demand(one(name, "str").decode("utf-8"), "a function has no name")
        demand(one(entry, "mapping_id", 0) in self.interned["mappings"],
               "Perfetto drops stacks with a frame in no mapping")
        path = one(entry, "source_path_iid", 0)
        demand(not path or path in self.interned["source_paths"], "source")

    def stack(self, iid):
        frames = self.interned["frames"]
        names = self.interned["function_names"]
        return tuple(
            one(names[one(frames[i], "function_name_id")], "str").decode()
            for i in self.interned["callstacks"][iid]["frame_ids"])

    # ---- Tracks ----

    def track(self, track):
        uuid, parent = one(track, "uuid", 0), one(track, "parent_uuid", 0)
        demand(uuid > 0 and uuid not in self.tracks, f"track {uuid} again")
        demand(("process" in track) == (parent == 0), f"track {uuid}: parent")
        demand(not parent or parent in self.tracks, f"track {uuid}: parent")
        kinds = {"process", "thread", "counter", "state"} & set(track)
        demand(len(kinds) <= 1, f"track {uuid}: {kinds}")
        self.tracks[uuid] = track
        if "process" in track:
            demand(one(one(track, "process"), "process_name"), "process name")
        elif "thread" in track:
            thread = one(track, "thread")
            process = one(self.tracks[parent], "process")
            demand(one(thread, "pid") == one(process, "pid"), "pid of a thread")
            demand(one(thread, "thread_name"), "a thread has no name")
            tid = one(thread, "tid", 0)
            demand(tid > 0 and tid not in self.threads, f"thread {tid} again")
            self.threads[tid] = uuid
        else:
            demand(one(track, "name"), f"track {uuid} has no name")

    # ---- What happened ----

    def event(self, ts, event):
        kind, uuid = one(event, "type"), one(event, "track_uuid")
        track = self.tracks[uuid]
        name = None
        if "name_iid" in event:
            name = one(self.interned["event_names"][one(event, "name_iid")],
                       "str")
            demand(name, "an empty name")
        demand(ts >= self.last[uuid], f"track {uuid} goes back in time")
        self.last[uuid] = ts
        demand((kind == STATE) == ("state" in track), "kind of track")
        demand((kind == COUNT) == ("counter" in track), "kind of track")
        demand((name is None) == (kind in (END, COUNT)) or kind == STATE,
               f"name {name!r} of an event {kind}")
        if kind == STATE:
            self.state(ts, uuid, name)
        elif kind == BEGIN:
            self.open[uuid].append((ts, name, event))
        elif kind == END:
            begin, name, first = self.open[uuid].pop()
            demand(begin < ts, f"{name} has no duration")
            self.slices.append((uuid, name, begin, ts, len(self.open[uuid]),
                                self.arguments(first)))
        elif kind == INSTANT:
            self.instants.append((uuid, ts, name))
            if name == "fgtrace slice":
                self.facts = self.arguments(event)
        elif kind == COUNT:
            value = one(event, "double_counter_value")
            demand(math.isfinite(value), f"counter {value}")
            self.counters.append((one(track, "name"), ts, value))
        else:
            raise Wrong(f"event of type {kind}")
        for field, end in (("flow_ids", 0), ("terminating_flow_ids", 1)):
            for flow in event.get(field, []):
                demand(kind in (BEGIN, INSTANT) and
                       end not in self.flows[flow],
                       f"flow {flow}: two ends alike")
                self.flows[flow][end] = ts, uuid

    @staticmethod
    def arguments(event):
        found = {}
        for each in event.get("debug_annotations", []):
            key = one(each, "name")
            demand(key and key not in found, f"argument {key!r}")
            if "dict_entries" in each:
                found[key] = {one(entry, "name"): one(entry, "string_value")
                              for entry in each["dict_entries"]}
            else:
                found[key] = one(each, "string_value")
        return found

    def state(self, ts, uuid, name):
        before = self.states[uuid]
        demand(not before or before[-1][0] < ts and before[-1][1] != name,
               f"state {name} at {ts} changes nothing")
        before.append((ts, name))

    def sample(self, ts, sample):
        context = self.interned["task_contexts"][
            one(sample, "task_context_iid")]
        tid = one(context, "tid")
        demand(tid in self.threads, f"thread {tid} has no track")
        stack = self.stack(one(sample, "callstack_iid"))
        weight = one(sample, "primary_weight", 0)
        demand((weight == 0) == (stack == GAP), f"{stack} weighs {weight}")
        before = self.samples[tid]
        if before and before[-1][2] != GAP:
            demand(before[-1][0] + before[-1][1] == ts,
                   f"thread {tid}: the sample at {before[-1][0]} does not "
                   f"last until the next one at {ts}")
        demand(before or stack != GAP, f"thread {tid} begins with a gap")
        before.append((ts, weight, stack))

    # ---- In the end ----

    def state_of(self, tid):
        """[(ts, state)] of a thread, state None: not known."""
        for uuid, states in self.states.items():
            if one(self.tracks[uuid], "parent_uuid") == self.threads[tid]:
                return states
        raise Wrong(f"thread {tid} has no states")

    def check_thread(self, tid, samples):
        demand(samples[-1][2] == GAP, f"thread {tid} does not end")
        gaps = [ts for ts, _, stack in samples if stack == GAP]
        states = self.state_of(tid)
        idle = [ts for ts, name in states if name is None]
        demand(gaps == idle, f"thread {tid}: gaps {gaps}, idle {idle}")
        times = {ts for ts, _, _ in samples}
        demand(all(ts in times for ts, _ in states),
               f"thread {tid}: a state changes within a sample")

    def check(self):
        demand(not any(self.open.values()), "a slice does not end")
        for tid, samples in self.samples.items():
            self.check_thread(tid, samples)
        for flow, ends in self.flows.items():
            demand(len(ends) == 2 and ends[0][0] <= ends[1][0] and
                   ends[0][1] != ends[1][1], f"flow {flow}: {ends}")
        demand({"version", "effective_hz", "missed_ticks"} <= set(self.facts),
               f"facts {self.facts}")

    def stacks(self):
        """{tid: Counter({stack, root first: ns})}"""
        found = defaultdict(Counter)
        for tid, samples in self.samples.items():
            for _, weight, stack in samples:
                if stack != GAP:
                    found[tid][stack] += weight
        return found


def read(path):
    trace = Trace(plain(strict.read_bytes(path)))
    trace.check()
    return trace


def check(path):
    trace = read(path)
    samples = sum(len(each) for each in trace.samples.values())
    return (f"{trace.count} packets, {samples} samples of "
            f"{len(trace.samples)} threads, {len(trace.slices)} slices, "
            f"{len(trace.flows)} arrows")


if __name__ == "__main__":
    strict.main(check)

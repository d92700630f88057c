# SPDX-License-Identifier: Apache-2.0
"""check_chrome_trace.py FILE: would Perfetto and speedscope both read it?

Strict JSON, fields, and the nesting as each of the two viewers reconstructs it;
both must find the same stacks with the same times. Tasks are on tracks of a
separate process, and only there B and E may have args, both the same; each
arrow begins and ends in a slice that is open then. Exit 0, or 1 with the
reason.
"""
import json
from collections import defaultdict

from kit import strict
from kit.timeline.chrome_events import spread
from kit.strict import Wrong, demand, is_int, is_number

DEVTOOLS = {"CpuProfile", "Profile", "ProfileChunk"}
DEPTH_MAX = 512
TASKS_PID = 0x20000000  # above every pid of Linux
KEYS = {"B": {"ts", "args"}, "E": {"ts", "args"}, "M": {"ts", "args"},
        "X": {"ts", "dur"}, "i": {"ts", "s"}, "C": {"ts", "args"},
        "s": {"ts", "cat", "id"}, "f": {"ts", "cat", "id", "bp"}}


def check_fields(index, event):
    where = f"event {index}"
    demand(isinstance(event, dict), f"{where} is not an object")
    phase = event.get("ph")
    demand(phase in KEYS, f"{where}: phase {phase!r}")
    extra = set(event) - {"name", "ph", "pid", "tid"} - KEYS[phase]
    demand(not extra, f"{where}: {extra}")
    name = event.get("name")
    demand(isinstance(name, str) and name, f"{where}: no name")
    demand(name not in DEVTOOLS, f"{where}: {name} means DevTools")
    for key in ("pid", "tid"):
        demand(is_int(event.get(key)) and 0 < event[key] < 2 ** 32,
               f"{where}: {key} {event.get(key)!r}")
    ts = event.get("ts")
    if phase == "M":
        demand(isinstance(event.get("args"), dict) and event["args"],
               f"{where}: metadata without args")
        return
    demand(is_number(ts) and 0 <= ts < 2 ** 53, f"{where}: ts {ts!r}")
    demand("args" not in event or phase == "C" or event["pid"] >= TASKS_PID,
           f"{where}: args split speedscope's frames")
    if phase == "X":
        # One that is not a number makes Perfetto stop reading.
        demand(is_number(event.get("dur")) and event["dur"] >= 0,
               f"{where}: dur {event.get('dur')!r}")
    if event["pid"] >= TASKS_PID and phase in "BE":
        check_args(where, event.get("args"))
    if phase == "i":
        demand(event.get("s") == "t", f"{where}: scope {event.get('s')!r}")
    if phase == "C":
        value = event.get("args", {}).get("value")
        demand(is_number(value), f"{where}: counter {value!r}")


def check_args(where, args):
    """Arguments of a task or span: its id for log lines, and its labels."""
    demand(isinstance(args, dict) and set(args) <= {"id", "labels"} and
           isinstance(args.get("id"), str) and args["id"],
           f"{where}: args {args}")
    demand(all(isinstance(v, str) for v in args.get("labels", {}).values()),
           f"{where}: labels")


def check_metadata(events):
    names = {"process_name": set(), "thread_name": set()}
    for index, event in enumerate(events):
        key = (event["pid"],) if event["name"] == "process_name" else \
            (event["pid"], event["tid"])
        if event["ph"] == "M":
            if event["name"] in names:
                text = event["args"].get("name")
                demand(isinstance(text, str) and text,
                       f"event {index}: empty {event['name']}")
                names[event["name"]].add(key)
            if event["name"].endswith("_sort_index"):
                demand(is_int(event["args"].get("sort_index")),
                       f"event {index}: sort_index")
            continue
        demand((event["pid"],) in names["process_name"],
               f"event {index}: its process has no name yet")
        demand((event["pid"], event["tid"]) in names["thread_name"],
               f"event {index}: its thread has no name yet")


def identity(event):
    """Identity of the frame in speedscope: its args are a part of it."""
    if "args" not in event:
        return event["name"]
    return event["name"] + json.dumps(event["args"])


class Track:
    """Open slices of one thread and the time that each stack was on top."""

    def __init__(self):
        self.open = []
        self.last = None
        self.self_times = defaultdict(float)

    def spend(self, ts):
        if self.open and ts > self.last:
            self.self_times[tuple(self.open)] += ts - self.last
        self.last = ts

    def begin(self, event):
        self.spend(event["ts"])
        self.open.append(identity(event))
        demand(len(self.open) <= DEPTH_MAX, "deeper than Perfetto shows")

    def end(self, event, reader):
        self.spend(event["ts"])
        demand(self.open, f"{reader}: E {event['name']!r} at {event['ts']} "
               "with nothing open")
        demand(self.open[-1] == identity(event),
               f"{reader}: E {event['name']!r} at {event['ts']} while "
               f"{self.open[-1]!r} is innermost")
        self.open.pop()


def read_as_perfetto(events):
    """By ts, stably: the file's order breaks ties."""
    track = Track()
    for before, after in zip(events, events[1:]):
        demand(before["ts"] <= after["ts"],
               f"ts goes back from {before['ts']} to {after['ts']}")
    for event in sorted(events, key=lambda e: e["ts"]):
        if event["ph"] == "B":
            track.begin(event)
        else:
            track.end(event, "Perfetto")
    demand(not track.open, f"Perfetto: {track.open} stay open")
    return track.self_times


def read_as_speedscope(events):
    """Two queues; at equal ts E comes first unless both have one name."""
    track = Track()
    begins = [e for e in events if e["ph"] == "B"]
    ends = [e for e in events if e["ph"] == "E"]
    begins.sort(key=lambda e: e["ts"])
    ends.sort(key=lambda e: e["ts"])
    b = e = 0
    while b < len(begins) or e < len(ends):
        if e == len(ends):
            takes_begin = True
        elif b == len(begins):
            takes_begin = False
        elif begins[b]["ts"] != ends[e]["ts"]:
            takes_begin = begins[b]["ts"] < ends[e]["ts"]
        else:
            takes_begin = identity(begins[b]) == identity(ends[e])
        if takes_begin:
            track.begin(begins[b])
            b += 1
            continue
        # Of the E events of one instant the first that fits the innermost is
        # taken.
        for i in range(e + 1, len(ends)):
            if ends[i]["ts"] > ends[e]["ts"]:
                break
            if track.open and identity(ends[i]) == track.open[-1]:
                ends[e], ends[i] = ends[i], ends[e]
                break
        track.end(ends[e], "speedscope")
        e += 1
    demand(not track.open, f"speedscope: {track.open} stay open")
    return track.self_times


def check_track(name, events):
    try:
        perfetto = read_as_perfetto(events)
        speedscope = read_as_speedscope(events)
    except Wrong as wrong:
        raise Wrong(f"track {name}: {wrong}") from wrong
    for stack in perfetto.keys() | speedscope.keys():
        demand(abs(perfetto[stack] - speedscope[stack]) < 1,
               f"track {name}: {stack} takes {perfetto[stack]} µs in "
               f"Perfetto, {speedscope[stack]} µs in speedscope")


def check_leaves(events):
    """Perfetto takes an X before a B or an E of the same instant."""
    times = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] in "BE"}
    for index, event in enumerate(events):
        demand(event["ph"] != "X" or
               (event["pid"], event["tid"], event["ts"]) not in times,
               f"event {index}: an X at the instant of a B or an E")


def slices_of(events):
    """{(pid, tid): [(begin, end)]} of B and E, whose nesting was checked."""
    found = defaultdict(list)
    open_ones = defaultdict(list)
    for event in events:
        key = event["pid"], event["tid"]
        if event["ph"] == "B":
            open_ones[key].append(event["ts"])
        elif event["ph"] == "E":
            found[key].append((open_ones[key].pop(), event["ts"]))
    return found


def check_arrows(events):
    """Each s has its f, after it in the file; both lie in a slice."""
    slices, starts = slices_of(events), {}
    for index, event in enumerate(events):
        if event["ph"] not in ("s", "f"):
            continue
        where = f"event {index}"
        key = event.get("id"), event.get("cat"), event["name"]
        demand(is_int(key[0]) and key[0] > 0 and key[1], f"{where}: {key}")
        spans = slices[event["pid"], event["tid"]]
        demand(any(b <= event["ts"] < e for b, e in spans),
               f"{where}: no slice at {event['ts']} for the arrow")
        if event["ph"] == "s":
            demand(key not in starts, f"{where}: two arrows {key}")
            demand("bp" not in event, f"{where}: bp")
            starts[key] = event["ts"]
        else:
            demand(starts.get(key) == event["ts"], f"{where}: no start")
            demand(event.get("bp") == "e", f"{where}: binds to the next one")
            starts[key] = None
    demand(all(ts is None for ts in starts.values()), "arrows without end")
    return len(starts)


def check(path):
    data = strict.read_bytes(path)
    demand(data.lstrip()[:2] == b'{"', "Perfetto wants it to begin with {\"")
    trace = strict.parse_json(data)
    events = trace.get("traceEvents")
    demand(isinstance(events, list) and events, "no traceEvents")
    demand("stackFrames" not in trace and "samples" not in trace,
           "speedscope would ignore the events")
    demand(trace.get("displayTimeUnit") in ("ms", "ns"), "displayTimeUnit")
    other = trace.get("otherData")
    demand(isinstance(other, dict) and "version" in other, "otherData")
    for index, event in enumerate(events):
        check_fields(index, event)
    demand("cat" not in events[0], "the first event has a cat")
    rates = [e for e in events if e["ph"] == "M" and e["name"] == "hz"]
    demand(rates and is_number(rates[0]["args"].get("hz")), "no hz metadata")
    check_metadata(events)
    check_leaves(events)
    count = len(events)
    events = list(spread(events))
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] in ("B", "E"):
            tracks[event["pid"], event["tid"]].append(event)
    for name, track in tracks.items():
        check_track(name, track)
    arrows = check_arrows(events)
    return f"{count} events on {len(tracks)} tracks, {arrows} arrows"


if __name__ == "__main__":
    strict.main(check)

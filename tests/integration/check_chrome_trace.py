# SPDX-License-Identifier: Apache-2.0
"""check_chrome_trace.py FILE: would Perfetto and speedscope both read it?

The rules of formats/chrometrace.md §1 to §8: strict JSON, fields, and the
nesting as each of the two viewers reconstructs it; both must find the same
stacks with the same times. Exit 0, or 1 with the reason.
"""
from collections import defaultdict

import strict
from strict import Wrong, demand, is_int, is_number

DEVTOOLS = {"CpuProfile", "Profile", "ProfileChunk"}
DEPTH_MAX = 512


def check_fields(index, event):
    where = f"event {index}"
    demand(isinstance(event, dict), f"{where} is not an object")
    phase = event.get("ph")
    demand(phase in ("B", "E", "M"), f"{where}: phase {phase!r}")
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
    demand("args" not in event, f"{where}: args split speedscope's frames")


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
        self.open.append(event["name"])
        demand(len(self.open) <= DEPTH_MAX, "deeper than Perfetto shows")

    def end(self, event, reader):
        self.spend(event["ts"])
        demand(self.open, f"{reader}: E {event['name']!r} at {event['ts']} "
               "with nothing open")
        demand(self.open[-1] == event["name"],
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
            takes_begin = begins[b]["name"] == ends[e]["name"]
        if takes_begin:
            track.begin(begins[b])
            b += 1
            continue
        # A later E of the same instant that fits the innermost is preferred.
        for i in range(e + 1, len(ends)):
            if ends[i]["ts"] > ends[e]["ts"]:
                break
            if track.open and ends[i]["name"] == track.open[-1]:
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
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] != "M":
            tracks[event["pid"], event["tid"]].append(event)
    for name, track in tracks.items():
        check_track(name, track)
    return f"{len(events)} events on {len(tracks)} threads"


if __name__ == "__main__":
    strict.main(check)

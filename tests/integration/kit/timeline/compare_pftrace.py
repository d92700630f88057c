# SPDX-License-Identifier: Apache-2.0
"""compare_pftrace.py FILE < viewer_pftrace.mjs's line

The line is Perfetto's result for FILE as as_perf_samples.py rewrote it. Perfetto
must have found, without an error, what check_perfetto_trace.py reads in FILE by
its own code: the same threads, slices, arguments, arrows, instants, counters,
images and clock, and the same stack at each sample. Exit 0 or 1.
"""
import json
import sys
from collections import Counter

from kit import strict
from kit.timeline import check_perfetto_trace
from kit.timeline.check_perfetto_trace import one


def threads(trace):
    process = one(trace.tracks[1], "process")
    found = []
    for tid, uuid in trace.threads.items():
        name = one(one(trace.tracks[uuid], "thread"), "thread_name")
        found.append([tid, name, one(process, "pid"),
                      one(process, "process_name")])
    return found


def slices(trace):
    return [[one(trace.tracks[uuid], "name"), name, str(begin),
             str(end - begin), depth]
            for uuid, name, begin, end, depth, _ in trace.slices]


def flat(name, arguments):
    for key, value in arguments.items():
        if isinstance(value, dict):
            for inner, text in value.items():
                yield [name, f"debug.{key}.{inner}", text]
        else:
            yield [name, f"debug.{key}", value]


def arguments(trace):
    found = list(flat("fgtrace slice", trace.facts))
    for _, name, _, _, _, given in trace.slices:
        found += flat(name, given)
    return found


def arrows(trace):
    names = {(uuid, begin): name
             for uuid, name, begin, _, depth, _ in trace.slices if depth == 0}
    for flow in trace.flows.values():  # between instants: of wake-ups
        for ts, uuid in flow.values():
            names.setdefault((uuid, ts), next(
                (name for track, at, name in trace.instants
                 if (track, at) == (uuid, ts)), None))
    return [[names[a[1], a[0]], str(a[0]), names[b[1], b[0]], str(b[0])]
            for a, b in ((ends[0], ends[1]) for ends in trace.flows.values())]


def instants(trace):
    tids = {uuid: tid for tid, uuid in trace.threads.items()}
    return [[tids.get(uuid), str(ts), name]
            for uuid, ts, name in trace.instants]


def counters(trace):
    return [[name, str(ts), value] for name, ts, value in trace.counters]


def images(trace):
    found = []
    tables = trace.interned
    for entry in tables["mappings"].values():
        for path in entry.get("path_string_ids", []):
            text = one(tables["mapping_paths"][path], "str").decode()
            build_id = one(tables["build_ids"][one(entry, "build_id")], "str")
            found.append(("/" + text.lstrip("/"), build_id.hex()))
    return sorted(set(found))  # a file may be mapped twice


def samples(trace):
    return [[tid, str(ts), list(stack)]
            for tid, each in trace.samples.items() for ts, _, stack in each]


def differing(kind, seen, wanted):
    have, want = (Counter(json.dumps(each) for each in rows)
                  for rows in (seen, wanted))
    if have != want:
        more, less = list((have - want).items()), list((want - have).items())
        yield f"{kind}: {len(more)} more {more[:1]}, {len(less)} less {less[:1]}"


def faults(seen, trace):
    if seen["importedAs"] != "proto":
        yield f"taken for {seen['importedAs']}"
    yield from seen["warnings"][:3]
    if seen.get("threads") is None:
        return
    used = {path for path, _ in seen["images"]}
    for kind, wanted in (("threads", threads(trace)),
                         ("slices", slices(trace)), ("args", arguments(trace)),
                         ("arrows", arrows(trace)),
                         ("instants", instants(trace)),
                         ("samples", samples(trace)),
                         ("images", [each for each in images(trace)
                                     if each[0] in used])):
        yield from differing(kind, seen[kind], wanted)
    yield from differing("counters", [[name, ts, float(value)] for
                                      name, ts, value in seen["counters"]],
                         counters(trace))
    ts, wall = map(int, seen["wall"][0])
    if wall - ts != trace.wall[0][1] - trace.wall[0][0]:
        yield f"{ts} is {wall} by the wall clock"


def main():
    try:
        trace = check_perfetto_trace.read(sys.argv[1])
        found = list(faults(json.loads(sys.stdin.readline()), trace))
    except strict.Wrong as wrong:
        found = [wrong]
    for fault in found:
        print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

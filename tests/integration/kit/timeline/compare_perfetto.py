# SPDX-License-Identifier: Apache-2.0
"""compare_perfetto.py < viewer_perfetto.mjs's lines

Each line of standard input is Perfetto's result for one trace. Perfetto must
have recognised the format, reported no error, named every thread, and given
each stack of each thread the time that check_chrome_trace.py computes for
Perfetto. Every arrow must lead from a slice
of the parent's track to one of the child's, and marks, counters and labels
must have been found. Exit 0 or 1.
"""
import json
import sys
from collections import defaultdict

from kit import strict
from kit.check_chrome_trace import read_as_perfetto
from kit.timeline.chrome_events import spread


def read_threads(events):
    """{(pid, tid): (process, thread)} as the metadata names them."""
    names = {(e["name"], e["pid"], e["tid"]): e["args"].get("name")
             for e in events if e["ph"] == "M"}
    processes = {pid: name for (key, pid, _), name in names.items()
                 if key == "process_name"}
    return {(pid, tid): (processes[pid], name)
            for (key, pid, tid), name in names.items() if key == "thread_name"}


def read_stacks(events):
    """{(pid, tid): {stack: µs on top}}"""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] in ("B", "E"):
            tracks[event["pid"], event["tid"]].append(event)
    stacks = defaultdict(lambda: defaultdict(float))
    for key, track in tracks.items():
        for stack, spent in read_as_perfetto(track).items():
            # Perfetto's names are without args.
            stacks[key][";".join(n.split("{")[0] for n in stack)] += spent
    return stacks


def read_marks(events):
    """The program's arrows, marks, counters and labels, sorted."""
    tids = defaultdict(dict)
    for event in events:
        if event["ph"] in ("s", "f"):
            tids[event["id"]][event["ph"]] = event["tid"]
    labels = [[e["name"], key, value] for e in events if e["ph"] == "B"
              for key, value in e.get("args", {}).get("labels", {}).items()]
    return {"arrows": sorted([t["s"], t["f"]] for t in tids.values()),
            "marks": sorted([e["tid"], e["name"]] for e in events
                            if e["ph"] == "i"),
            "counters": sorted([e["name"], e["args"]["value"]]
                               for e in events if e["ph"] == "C"),
            "labels": sorted(labels)}


def faults(seen):
    if seen["importedAs"] != "Trace Event Format":
        yield f"taken for {seen['importedAs']}"
    if seen["warnings"]:
        yield from seen["warnings"][:3]
        return
    trace = strict.parse_json(strict.read_bytes(seen["file"]))
    events = list(spread(trace["traceEvents"]))
    found = {(p["pid"], p["tid"]): p for p in seen["profiles"] or []}
    threads = {key: (p["process"], p["name"]) for key, p in found.items()}
    if threads != read_threads(events):
        yield f"threads {threads}, not {read_threads(events)}"
        return
    for key, expected in read_stacks(events).items():
        stacks = found[key]["stacks"]
        for stack in expected.keys() | stacks.keys():
            spent, due = stacks.get(stack, 0), expected.get(stack, 0)
            if abs(spent - due) > 0.01:
                yield f"thread {key[1]}: {stack}: {spent} µs, not {due}"
    shown = read_marks(events)
    for kind, expected in shown.items():
        if seen["shown"][kind] != expected:
            yield f"{kind} {seen['shown'][kind]}, not {expected}"


def main():
    count = failed = 0
    for line in sys.stdin:
        seen = json.loads(line)
        count += 1
        try:
            found = list(faults(seen))
        except strict.Wrong as wrong:
            found = [wrong]
        for fault in found:
            print(f"{seen['file']}: {fault}", file=sys.stderr)
        failed += len(found)
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()

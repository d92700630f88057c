# SPDX-License-Identifier: Apache-2.0
"""compare_formats.py PREFIX: do all formats of one slice show the same?

Reads PREFIX.pb.gz and the files beside it in the other formats, written with
states as roots. The time of each thread, state of a thread and function of a
thread must be that of pprof's counts, within one tick for each 100 of the
thread that are begun: Sentry has no duration for a last sample, and Chrome
traces change between ticks. No thread may be missing. The time that is marked
as not sampled must be the same, too, of each state that samples show with one
stack; of others a Chrome trace may mark what lies between samples that differ.
Folded stacks know no threads: there the sums must be equal. .fgt and .otlp, in
both shapes, must have exactly the time of each stack of each thread that pprof
has, and OTLP the same time in spans of traces. Exit 0 or 1.
"""
import gzip
import re
import sys
from collections import Counter, defaultdict

from kit import strict
from kit.check_chrome_trace import read_as_perfetto
from kit.check_pprof import Profile, one
from kit.check_sentry_envelope import split_items
from kit.compare_pprof import as_folded
from kit.compare_viewer import read_folded
from kit.delivery import check_otlp
from kit.read_fgt import Slice
from kit.strict import Wrong, demand
from kit.timeline import check_perfetto_trace
from kit.timeline.chrome_events import spread

GAP = "[gap: no samples]"
# Sentry refuses a thread whose only sample is at the last tick.
LAST_TICK_THREADS = 1
# Chrome traces show with it what lies between two ticks whose samples differ,
# and the time of a state before its first sample and after its last: a tick each
# on average, exponentially distributed.
MARKED_ENDS = 10
BETWEEN = "[not sampled: last known stack]"


def read_pprof(path):
    """{tid: {stack: ns}}, as all of the readers below; the period; {(tid, trace
    id, span id): ns}."""
    with open(path, "rb") as file:
        profile = Profile(gzip.decompress(file.read()))
    functions = {number: profile.text(function, "name") for number, function
                 in profile.by_id("function").items()}
    locations = {number: [functions[one(line, "function_id")]
                          for line in location["line"]] for number, location
                 in profile.by_id("location").items()}
    threads, links = defaultdict(Counter), Counter()
    for sample in profile.raw["sample"]:
        labels = {profile.text(label, "key"): profile.text(label, "str") or
                  one(label, "num") for label in sample["label"]}
        tid = labels["thread_id"]
        if "span_id" in labels:
            links[tid, labels["trace_id"], labels["span_id"]] += \
                sample["value"][1]
        stack = [name for number in sample["location_id"]
                 for name in locations[number]]
        threads[tid][tuple(reversed(stack))] += sample["value"][1]
    return threads, one(profile.raw, "period"), links


def read_fgt(path):
    found = Slice(strict.read_bytes(path))
    threads, shown = defaultdict(Counter), {}
    waits = dict(found.run_waits)
    for run, (thread, tick, count, stack, state) in enumerate(found.runs):
        pair = state, waits.get(run, 0)
        if pair not in shown:
            shown[pair] = found.shown_state(run)
        names = [shown[pair], *reversed(found.stack_names(stack))]
        threads[found.threads[thread][0]][tuple(
            name.decode("utf-8", "replace") for name in names)] += \
            found.weight(tick, count) * found.period
    return threads


def read_speedscope(path):
    document = strict.parse_json(strict.read_bytes(path))
    frames = document["shared"]["frames"]
    threads = defaultdict(Counter)
    for profile in document["profiles"]:
        tid = int(re.search(r"\((\d+)\)$", profile["name"])[1])
        for stack, weight in zip(profile["samples"], profile["weights"]):
            if stack:
                threads[tid][tuple(frames[i]["name"] for i in stack)] += weight
    return threads


def read_sentry(path):
    """As Sentry counts: a sample lasts until the next one of its thread."""
    for item, body in split_items(strict.read_bytes(path))[1]:
        if item["type"] in ("profile", "profile_chunk"):
            profile = strict.parse_json(body)["profile"]
    names = [frame["function"] for frame in profile["frames"]]
    threads, last = defaultdict(Counter), {}
    for sample in profile["samples"]:
        if "timestamp" in sample:
            at_ns = round(sample["timestamp"] * 1e6) * 1000
        else:
            at_ns = int(sample["elapsed_since_start_ns"])
        tid = int(sample["thread_id"])
        stack = tuple(names[i] for i in
                      reversed(profile["stacks"][sample["stack_id"]]))
        if tid in last:
            threads[tid][last[tid][1]] += at_ns - last[tid][0]
        last[tid] = at_ns, stack
    for stacks in threads.values():
        stacks.pop((GAP,), None)
    return threads


def read_chrome(path):
    events = strict.parse_json(strict.read_bytes(path))["traceEvents"]
    tracks = defaultdict(list)
    for event in spread(events):
        if event["ph"] in ("B", "E") and event["pid"] == events[0]["pid"]:
            tracks[event["tid"]].append(event)
    return {tid: Counter({stack: round(us * 1000) for stack, us
                          in read_as_perfetto(track).items()})
            for tid, track in tracks.items()}


def read_perfetto(path):
    return check_perfetto_trace.read(path).stacks()


def unlike(chrome, perfetto):
    """Both draw the same, to the microsecond at each change."""
    for tid in chrome.keys() | perfetto.keys():
        left, right = chrome.get(tid, {}), perfetto.get(tid, {})
        for stack in left.keys() | right.keys():
            if abs(left.get(stack, 0) - right.get(stack, 0)) > 100000:
                yield (f"thread {tid}, {';'.join(stack)}: {left.get(stack)} "
                       f"ns as .trace.json, {right.get(stack)} as .pftrace")


def totals(stacks):
    """Time in all, by state and by function; a recursion counts once."""
    found = Counter()
    for stack, ns in stacks.items():
        state, *functions = [as_folded(name) for name in stack]
        keys = {("state", state)} | {("function", f) for f in functions
                                     if f != BETWEEN}
        for key in keys | {("all", "")}:
            found[key] += ns
    return found


def marked(stacks):
    """By state: the time below the marker."""
    found = Counter()
    for stack, ns in stacks.items():
        if BETWEEN in stack:
            found[stack[0]] += ns
    return found


def marked_faults(tid, wanted, found, period, allowed):
    """allowed: in ns, beside what Chrome marks at the ends."""
    want, have = marked(wanted), marked(found)
    kinds = Counter(stack[0] for stack in wanted)
    for state in kinds.keys() | have.keys():
        less = want[state] - have[state]
        if less > allowed or (kinds[state] < 2 and
                              -less > allowed + MARKED_ENDS * period):
            yield (f"thread {tid}, state {state}: {have[state] / period:.2f} "
                   f"ticks marked, not {want[state] / period:.2f}")


def faults(wanted, found, period, jitter):
    missing = sorted(wanted.keys() - found.keys())
    if len(missing) > LAST_TICK_THREADS:
        yield f"{len(missing)} threads are missing, {missing[0]} first"
    for tid in wanted.keys() | found.keys():
        want = totals(wanted.get(tid, {}))
        have = totals(found.get(tid, {}))
        ticks = want["all", ""] / period
        allowed = period * (max(1, -(-ticks // 100)) + jitter * ticks ** 0.5)
        yield from marked_faults(tid, wanted.get(tid, {}), found.get(tid, {}),
                                 period, allowed + 2000)
        for key in want.keys() | have.keys():
            # Times in microseconds are rounded.
            if abs(want[key] - have[key]) > allowed + 2000:
                yield (f"thread {tid}, {' '.join(key)}: "
                       f"{have[key] / period:.2f} ticks, not "
                       f"{want[key] / period:.2f}")


def differing(wanted, found):
    """The first stack that has another time."""
    for tid in wanted.keys() | found.keys():
        want, have = wanted.get(tid, {}), found.get(tid, {})
        for stack in want.keys() | have.keys():
            if want.get(stack) != have.get(stack):
                yield (f"thread {tid}, {';'.join(stack)}: {have.get(stack)} "
                       f"ns, not {want.get(stack)}")


def compare_exactly(prefix, wanted, links):
    """The formats that have sums of ticks, as pprof does."""
    wrong = list(differing(wanted, read_fgt(prefix + ".fgt")))
    demand(not wrong, f".fgt: {'; '.join(wrong[:3])}")
    for ending, has_times in ((".otlp", True), (".sum.otlp", False)):
        otlp = check_otlp.read(prefix + ending)
        demand(otlp.has_times == has_times, f"{ending}: another shape")
        wrong = list(differing(wanted, otlp.stacks()))
        demand(not wrong, f"{ending}: {'; '.join(wrong[:3])}")
        demand(otlp.links() == links, f"{ending}: other spans of traces")
        demand(all(facts["thread.state"] == names[-1] for facts, names, *_
                   in otlp.samples), f"{ending}: thread.state")


def compare(prefix, jitter=0):
    """jitter: how far a tick's distance to the next one is from a period, in
    periods; what adds up of it grows with the root."""
    wanted, period, links = read_pprof(prefix + ".pb.gz")
    demand(wanted, "no threads")
    compare_exactly(prefix, wanted, links)
    sums = Counter()
    for stacks in wanted.values():
        for stack, ns in stacks.items():
            sums[";".join(as_folded(name) for name in stack)] += ns // period
    demand(sums == read_folded(prefix + ".folded"), "folded differs")
    found = {}
    for ending, read in ((".speedscope.json", read_speedscope),
                         (".envelope", read_sentry),
                         (".chunk.envelope", read_sentry),
                         (".pftrace", read_perfetto),
                         (".trace.json", read_chrome)):
        found[ending] = read(prefix + ending)
        wrong = list(faults(wanted, found[ending], period, jitter))
        demand(not wrong, f"{ending}: {'; '.join(wrong[:3])}")
    wrong = list(unlike(found[".trace.json"], found[".pftrace"]))
    demand(not wrong, "; ".join(wrong[:3]))


def main():
    try:
        compare(sys.argv[1])
    except Wrong as wrong:
        print(f"{sys.argv[1]}: {wrong}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

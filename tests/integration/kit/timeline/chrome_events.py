# SPDX-License-Identifier: Apache-2.0
"""Events of Chrome traces, for the readers of all tests."""


def ended(open_ones, at):
    """Those that have ended by then, the innermost first, each as an E."""
    while open_ones and open_ones[-1]["ts"] + open_ones[-1]["dur"] <= at:
        last = open_ones.pop()
        yield {"name": last["name"], "ph": "E", "pid": last["pid"],
               "tid": last["tid"], "ts": last["ts"] + last["dur"]}


def spread(events):
    """The same events with each X as a B and an E. fgtrace writes an X at its
    end, before the X's within it, and only for a slice that has no others within
    it: all stand in order."""
    open_ones = []  # of one track: its X's follow each other
    for event in events:
        if open_ones and event["tid"] != open_ones[-1]["tid"]:
            yield from ended(open_ones, float("inf"))
        yield from ended(open_ones, event.get("ts", 0))
        if event.get("ph") != "X":
            yield event
            continue
        begin = {key: value for key, value in event.items() if key != "dur"}
        yield dict(begin, ph="B")
        open_ones.append(event)
    yield from ended(open_ones, float("inf"))

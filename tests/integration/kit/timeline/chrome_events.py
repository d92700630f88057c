# SPDX-License-Identifier: Apache-2.0
"""Events of Chrome traces, for the readers of all tests."""


def spread(events):
    """The same events with each X as a B and an E. fgtrace writes an X at its
    end, and only for a slice that has none within it: both stand in order."""
    for event in events:
        if event.get("ph") != "X":
            yield event
            continue
        begin = {key: value for key, value in event.items() if key != "dur"}
        yield dict(begin, ph="B")
        yield dict(begin, ph="E", ts=event["ts"] + event["dur"])

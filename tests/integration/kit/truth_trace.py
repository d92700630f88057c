# SPDX-License-Identifier: Apache-2.0
"""Compares a Chrome trace of a recording with what the truth program wrote down
about itself: where context switches are known it shows each block."""
import json

from kit.timeline.chrome_events import spread
from kit.truth_judge import Thread


def times(path):
    """{tid: {name of a function or state: µs that it is shown}}"""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    open_names, last, spent = {}, {}, {}
    for event in spread(events):
        if event["ph"] not in "BE":
            continue
        tid = event["tid"]
        stack = open_names.setdefault(tid, [])
        for name in set(stack):
            shares = spent.setdefault(tid, {})
            shares[name] = shares.get(name, 0) + event["ts"] - last[tid]
        last[tid] = event["ts"]
        if event["ph"] == "B":
            stack.append(event["name"])
        else:
            stack.pop()
    return spent


def error_of_trace(truth, recording, path):
    """The thread whose time on a CPU is shown furthest from the truth: (error
    in points of its wall time, text)."""
    fgt, worst = recording.slice, (0.0, "")
    spent = times(path)
    tids = {fgt.string(name).decode(): tid for tid, name, _ in fgt.threads}
    for line in truth["threads"]:
        thread = Thread(line, recording)
        window_us = (thread.end_ns - thread.begin_ns) / 1000
        ran_us = spent.get(tids.get(thread.name), {}).get("running", 0)
        error = 100 * (ran_us / window_us - thread.states()["running"])
        if abs(error) >= abs(worst[0]):
            worst = error, f"{thread.name} running: {error:+.1f} off"
    return worst

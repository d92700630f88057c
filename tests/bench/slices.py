# SPDX-License-Identifier: Apache-2.0
"""Time of slices and stacks through the command line, symbols cold and
warm."""
import os
import statistics
import time

from machine import NotRun

FORMS = ("fgt", "envelope", "chunk.envelope", "trace.json", "pb.gz", "folded",
         "speedscope.json", "otlp", "pftrace")
BLOCKED, DEPTH = 98, 20
CROWD, CROWD_DEPTH, HISTORY_S = 1000, 10, 11  # threads that `stacks` shows
NAP_MS = 50  # of those that wake often


def _time(agent, pid, out, ring_s):
    began = time.monotonic()
    result = agent.call("slice", "--last", f"{ring_s}s", "-p", str(pid), "-o",
                        out)
    if result.returncode != 0:
        raise NotRun(result.stderr.strip())
    return 1000 * (time.monotonic() - began)


def table(stage, agent, rounds, ring_s):
    """ring_s seconds of 100 threads in each format."""
    lines = [f"slices of {ring_s} s x {BLOCKED + 2} threads through the "
             "command line"]
    target = stage.crowd(BLOCKED, DEPTH)
    try:
        target.go_on()
        agent.start(target)
        time.sleep(ring_s)
        for form in FORMS:
            out = stage.path(f"slice.{form}")
            times = [_time(agent, target.pid, out, ring_s)
                     for _ in range(rounds + 1)]
            lines.append(
                f"  as {form:15s} first {times[0]:7.1f} ms, then "
                f"{statistics.median(times[1:]):7.1f} ms, "
                f"{os.path.getsize(out) / 1e6:.2f} MB")
    except NotRun as error:
        lines.append(f"  not run: {error}")
    finally:
        agent.close()
        target.close()
    return "\n".join(lines + [""])


def stacks_table(stage, agent, rounds):
    """What 1001 threads do now, with the ring's history of ten seconds."""
    return "\n".join(_stacks_lines(stage, agent, rounds, nap_ms)
                     for nap_ms in (None, NAP_MS)) + "\n"


def _stacks_lines(stage, agent, rounds, nap_ms):
    lines = []
    target = stage.crowd(CROWD, CROWD_DEPTH, busy=0, nap_ms=nap_ms)
    try:
        target.go_on()
        agent.start(target)
        time.sleep(HISTORY_S)
        for form in ("text", "json"):
            times = []
            for _ in range(10 * rounds + 1):
                began = time.monotonic()
                result = agent.call("stacks", "-p", str(target.pid), "-f",
                                    form)
                if result.returncode != 0:
                    raise NotRun(result.stderr.strip())
                times.append(1000 * (time.monotonic() - began))
            low, middle, high = statistics.quantiles(times[1:], n=4)
            lines.append(f"  as {form}: first {times[0]:.1f} ms, then "
                         f"{middle:.1f} ms ({low:.1f} to {high:.1f})")
        what = f"wake every {nap_ms} ms" if nap_ms else "sleep"
        lines.insert(0, f"stacks of {target.threads()} threads that {what} "
                     "(goal: 10 ms)")
    except NotRun as error:
        lines.append(f"stacks: not run: {error}")
    finally:
        agent.close()
        target.close()
    return "\n".join(lines)

# SPDX-License-Identifier: Apache-2.0
"""Programs with one planted cause each (tests/faults), and what `why` finds.

A cause is found if one of the first three that `why` names fits: the
expression is looked for in its text, that of its thread, and that of those
that waited for it.
"""
import json
import os
import re
import subprocess

CAUSES_READ = 3
QUIET_MS = 800

# What `why` has to name of each.
PLANTED = {
    "allocator_lock": r"build_reply",
    "child": r"convert_image",
    "config_reload": r"parse_config",
    "connect_blocked": r"open_session.*connect",
    "cpu_taken": r"waiting for a CPU",
    "deadlock": r"deadlock|(move|count)_stock",
    "disk_read": r"load_table",
    "dns": r"find_host",
    "file_lock": r"lock_session.*flock",
    "full_pipe": r"write_access_log.*write",
    "lock_asleep": r"throttle_eviction",
    "lock_convoy": r"rebuild_index",
    "noisy_thread": r"compress_archive",
    "page_faults": r"touch_buffer",
    "pool_exhausted": r"export_report|acquire_connection",
    "priority": r"scrubber.*waiting for a CPU|waiting for a CPU.*scrubber"
                r"|scrub_cache",
    "signal_storm": r"on_alarm",
    "sleep_left": r"debug_delay",
    "slow_code": r"scan_list",
    "slow_fsync": r"sync_wal|append_wal",
    "slow_peer": r"ask_inventory.*recv",
    "slow_producer": r"compute_plan",
    "thundering_herd": r"check_for_event|herd",
}


class Service:
    """One program, sampled by a daemon from its start to its end."""

    def __init__(self, bench, socket, name, before_s):
        self.bench, self.socket, self.name = bench, socket, name
        path = os.path.join(bench.build, "tests", "faults", f"fault-{name}")
        self.child = bench.start([path, str(before_s)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        result = bench.run("--socket", socket, "attach", str(self.child.pid))
        if result.returncode:
            raise RuntimeError(result.stderr)

    def wait(self):
        """Until the fault is over: its ends, in ns."""
        times = json.loads(self.child.stdout.readline())
        self.from_ns, self.to_ns = times["from"], times["to"]
        return self.from_ns, self.to_ns

    def ask(self, from_ns, to_ns, *more):
        return self.ask_with("--from", f"m:{from_ns}", "--to", f"m:{to_ns}",
                             *more)

    def ask_with(self, *flags):
        result = self.bench.run("--socket", self.socket, "why", "-p",
                                str(self.child.pid), *flags)
        if result.returncode:
            raise RuntimeError(result.stderr)
        return result.stdout

    def explain(self, from_ns, to_ns):
        return json.loads(self.ask(from_ns, to_ns, "--json"))

    def end(self):
        self.child.stdin.close()
        self.child.wait(10)


def describe(cause):
    """All that `why` names in one of its causes, in one line."""
    parts = [cause["thread"]["name"], cause["text"], *cause["stack"]]
    if cause["deadlock"]:
        parts.append("deadlock")
    if "waiter" in cause:
        parts += [cause["waiter"]["text"], *cause["waiter"]["stack"]]
    return " ".join(part or "" for part in parts)


def place_of(name, answer):
    """At which place the planted cause is, from 1 on; None: not found."""
    for place, cause in enumerate(answer["causes"][:CAUSES_READ], 1):
        if re.search(PLANTED[name], describe(cause)):
            return place
    return None


def quiet_windows(service, seconds):
    """Answers about each part of the quiet time before the range."""
    count = int(seconds * 1000 / QUIET_MS)
    length = QUIET_MS * 1000000
    return [service.explain(service.from_ns - (i + 1) * length,
                            service.from_ns - i * length - 1)
            for i in range(count)]

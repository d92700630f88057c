# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house: which folder may include and call which.

rooms.txt holds one line a room: the rooms that it may use. A use that is not
in the table, a line of the table without use, and a circle are errors.

usage: rooms.py BUILD: writes rooms.txt from the tree, unless the tree
has a circle.
"""
import collections
import json
import os
import re
import subprocess
import sys

from tree import HERE, ROOT, files, read

TABLE = os.path.join(HERE, "rooms.txt")
FOLDER_MAX = 32
TAG = re.compile(r"\b(?:struct|enum|union)\s+(\w+)\s*\{")
# Declarations of the kernel, which the BPF program repeats per machine.
FOREIGN_TAGS = {"pt_regs"}


def room(name):
    return os.path.dirname(name)


def include_arrows(sources):
    """(room, room) → the includes that make it."""
    known = set(sources)
    arrows = collections.defaultdict(set)
    for name in sources:
        for other in re.findall(r'^#include "([^"]+)"', read(name), re.M):
            if other in known and room(other) != room(name):
                arrows[room(name), room(other)].add(
                    f"{os.path.basename(name)} includes {other}")
    return arrows


def objects(build, sources):
    """room → its object files, as the build was configured last: older ones
    that lie beside them do not count."""
    found = collections.defaultdict(list)
    with open(os.path.join(build, "compile_commands.json"),
              encoding="utf-8") as file:
        for entry in json.load(file):
            name = os.path.relpath(entry["file"], ROOT)
            path = os.path.join(entry["directory"], re.search(
                r" -o (\S+)", entry["command"]).group(1))
            if name in sources and os.path.exists(path):
                found[room(name)].append(path)
    return found


def symbols(paths):
    """The global names that the objects define, and those that they use."""
    defined, used = set(), set()
    out = subprocess.run(["nm", "-g", "--format=posix", *paths],
                         capture_output=True, text=True, check=True).stdout
    for line in out.split("\n"):
        fields = line.split()
        if len(fields) > 1 and fields[0].startswith("fgt_"):
            (used if fields[1] in "UwW" else defined).add(fields[0])
    return defined, used - defined


def call_arrows(build, sources, includes):
    """(room, room) → the names that are called along it.

    A few names are defined in two rooms, in the library and below it: the one
    counts whose header is included.
    """
    by_room = {name: symbols(paths) for name, paths in
               objects(build, set(sources)).items()}
    owners = collections.defaultdict(set)
    for name, (defined, _) in by_room.items():
        for symbol in defined:
            owners[symbol].add(name)
    arrows = collections.defaultdict(set)
    for name, (_, used) in by_room.items():
        for symbol in used:
            near = [o for o in owners[symbol] if (name, o) in includes]
            for owner in near or owners[symbol]:
                arrows[name, owner].add(f"{name} calls {symbol}")
    return arrows


def circles(arrows):
    """The arrows from whose end their beginning can be reached."""
    below = collections.defaultdict(set)
    for start, end in arrows:
        below[start].add(end)

    def reached(start):
        seen, left = set(), [start]
        while left:
            for end in below[left.pop()] - seen:
                seen.add(end)
                left.append(end)
        return seen
    reach = {start: reached(start) for start in list(below)}
    return {(start, end) for start, end in arrows
            if start in reach.get(end, set())}


def read_table():
    arrows = set()
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                start, ends = line.split(":")
                arrows |= {(start, end) for end in ends.split()}
    return arrows


def write_table(arrows):
    below = collections.defaultdict(list)
    for start, end in sorted(arrows):
        below[start].append(end)
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("# ROOM: the rooms whose headers and functions it uses.\n")
        for start, ends in sorted(below.items()):
            file.write(f"{start}: {' '.join(ends)}\n")


def all_arrows(build, sources):
    arrows = include_arrows(sources)
    for arrow, names in call_arrows(build, sources, set(arrows)).items():
        arrows[arrow] |= names
    return arrows


def shown(arrows, some):
    return "; ".join(f"{a} → {b}: {sorted(arrows[a, b])[:3]}"
                     for a, b in sorted(some))


def check_arrows(checks, build, sources):
    arrows = all_arrows(build, sources)
    turned = circles(arrows)
    checks.ok("the rooms form a graph without circles", not turned,
              shown(arrows, turned))
    table = read_table()
    new = set(arrows) - table
    checks.ok("rooms use only the rooms that rooms.txt names", not new,
              shown(arrows, new) + f": run tests/lint/rooms.py {build} if "
              "the arrow is meant")
    stale = [f"{a} → {b}" for a, b in sorted(table - set(arrows))]
    checks.ok("rooms.txt names no room that is not used", not stale,
              "; ".join(stale) + f": run tests/lint/rooms.py {build}")


RING_HEADER = "ringbuf/ring/ring.h"
TICK_WRITER = "agent/capture/tick.c"


def check_ring_writers(checks, sources):
    """agent/capture/look returns verdicts; one file writes them to the ring."""
    changing = set(re.findall(r"\b(fgt_ring_\w+)\(struct fgt_ring \*",
                              read(RING_HEADER)))
    of_ticks = {name for name in changing if re.fullmatch(
        r"fgt_ring_(tick_\w+|set|set_(state|past|edge))", name)}
    wrong = []
    for name in sources:
        called = set(re.findall(r"\bfgt_ring_\w+", read(name)))
        if name.startswith("agent/capture/look/"):
            wrong += [f"{name}: {call}" for call in called & changing]
        elif name.startswith("agent/") and name != TICK_WRITER:
            wrong += [f"{name}: {call}" for call in called & of_ticks]
    checks.ok(f"only {TICK_WRITER} writes ticks to the ring, and look changes "
              "no ring", of_ticks and not wrong, str(wrong))


MESSAGES = re.compile(r"\bfgt_(message_\w+|facts_read)\(")
# The daemon's processes that have no rights when they decode.
DECODERS = ("agent/daemon/front/request_read.c",
            "agent/daemon/delivery/delivery_serve.c")


def check_decoders(checks, sources):
    """No msgpack of strangers is decoded where there are capabilities."""
    found = {name for name in sources if name.startswith("agent/daemon/")
             and MESSAGES.search(read(name))}
    checks.ok("only processes without rights decode messages in the daemon",
              found == set(DECODERS), str(sorted(found ^ set(DECODERS))))


# What programs write about themselves; the sampler itself where it is of that
# program, or has no rights.
PAYLOADS = re.compile(r"\bfgt_context_payload_read\(")
PAYLOAD_READERS = ("agent/context/payload.c", "agent/context/payload.h",
                   "agent/unwind/rows/row_serve.c",
                   "agent/capture/sampled_service.c")


def check_payloads(checks, sources):
    """Where the sampler may have rights, it asks a row server."""
    found = {name for name in sources if PAYLOADS.search(read(name))}
    asks = re.search(r"is_served\([^;]*\)\)\s*return hand_over",
                     read("agent/capture/sampled_service.c"))
    checks.ok("payloads of programs are read where there are no rights",
              asks and found == set(PAYLOAD_READERS),
              str(sorted(found ^ set(PAYLOAD_READERS))))


def check_folders(checks):
    count = collections.Counter(room(n) for n in files()
                                if not n.startswith("tests/fuzz/corpus/"))
    full = [f"{name} {n}" for name, n in sorted(count.items())
            if n > FOLDER_MAX]
    checks.ok(f"no folder of more than {FOLDER_MAX} files", not full,
              str(full))


def tags(sources):
    """tag → the files that define it, once for each definition."""
    found = collections.defaultdict(list)
    for name in sources:
        for tag in TAG.findall(read(name)):
            if tag not in FOREIGN_TAGS:
                found[tag].append(name)
    return found


def check_tags(checks, sources):
    twice = [f"{tag}: {' '.join(names)}" for tag, names in
             sorted(tags(sources).items()) if len(names) > 1]
    checks.ok("no struct, enum or union is defined twice", not twice,
              "; ".join(twice))


def main():
    sources = files("agent/*.[ch]", "ringbuf/*.[ch]", "upload/*.[ch]")
    arrows = all_arrows(sys.argv[1], sources)
    turned = circles(arrows)
    for start, end in sorted(turned):
        print(f"{start} → {end}: {'; '.join(sorted(arrows[start, end]))}")
    if not turned:
        write_table(arrows)
    return bool(turned)


if __name__ == "__main__":
    sys.exit(main())

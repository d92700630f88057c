# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house: which folder may include and call which.

rooms.txt holds one line a room: the rooms that it may use. A use that is not
in the table, a line of the table without use, and a circle are errors.

usage: rooms.py BUILD: writes rooms.txt from the tree, unless the tree
has a circle.
"""
import collections
import os
import re
import subprocess
import sys

from tree import HERE, Remaining, files, read

TABLE = os.path.join(HERE, "rooms.txt")
FOLDER_MAX = 32
TAG = re.compile(r"^[ \t]*(?:typedef )?(struct|enum|union) (\w+) \{", re.M)
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
    """room → its object files. One whose source is gone is left out."""
    found = collections.defaultdict(list)
    for folder, _, names in os.walk(build):
        made = re.search(r"^(.*)/CMakeFiles/[\w-]+\.dir(.*)$",
                         os.path.relpath(folder, build))
        if not made or "verify_interface" in folder:
            continue
        # A source of a folder below the library's keeps its path.
        name = os.path.normpath(
            made.group(1) + made.group(2).replace("/__", "/.."))
        found[name] += [os.path.join(folder, n) for n in names
                        if f"{name}/{n[:-2]}" in sources]
    return {name: paths for name, paths in found.items() if paths}


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
    if not os.path.exists(TABLE):
        return None
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


def check_arrows(checks, build, sources, remaining):
    arrows = all_arrows(build, sources)
    allowed = remaining.names("circle")
    turned = circles(arrows)
    bad = {a for a in turned if f"{a[0]} {a[1]}" not in allowed}
    if len(turned) <= len(allowed):
        bad = set()
    checks.ok("the rooms form a graph without circles", not bad, "; ".join(
        f"{a} → {b}: {sorted(arrows[a, b])[:3]}" for a, b in sorted(bad)))
    table = read_table()
    if table is None:
        return
    new = [f"{a} → {b}: {sorted(arrows[a, b])[:3]}"
           for a, b in sorted(set(arrows) - table)]
    checks.ok("rooms use only the rooms that rooms.txt names", not new,
              "; ".join(new))
    stale = [f"{a} → {b}" for a, b in sorted(table - set(arrows))]
    checks.ok("rooms.txt names no room that is not used", not stale,
              "; ".join(stale))
    turned = circles(table) if not allowed else set()
    checks.ok("rooms.txt has no circle", not turned, str(sorted(turned)))


def check_folders(checks, remaining):
    count = collections.Counter(room(n) for n in files()
                                if not n.startswith("tests/fuzz/corpus/"))
    full = [f"{name} {n}" for name, n in sorted(count.items())
            if n > max(FOLDER_MAX, remaining.count("folder", name))]
    checks.ok(f"no folder of more than {FOLDER_MAX} files", not full,
              str(full))


def tags(sources):
    """tag → the files that define it, once for each definition."""
    found = collections.defaultdict(list)
    for name in sources:
        for _, tag in TAG.findall(read(name)):
            if tag not in FOREIGN_TAGS:
                found[tag].append(name)
    return found


def check_tags(checks, sources, remaining):
    twice = [f"{tag}: {' '.join(names)}" for tag, names in
             sorted(tags(sources).items()) if len(names) > 1 and
             tag not in remaining.names("tag")]
    checks.ok("no struct, enum or union is defined twice", not twice,
              "; ".join(twice))


def main():
    sources = files("agent/*.[ch]", "ringbuf/*.[ch]", "upload/*.[ch]")
    arrows = all_arrows(sys.argv[1], sources)
    turned = circles(arrows)
    for start, end in sorted(turned):
        print(f"{start} → {end}: {'; '.join(sorted(arrows[start, end]))}")
    if not turned or sys.argv[2:] == ["--even-so"]:
        write_table(arrows)
    return bool(turned)


if __name__ == "__main__":
    sys.exit(main())

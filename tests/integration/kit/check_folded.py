# SPDX-License-Identifier: Apache-2.0
"""check_folded.py FILE: would flamegraph.pl and speedscope read it?

Lines `root;…;leaf COUNT`, each stack once, in byte order. Exit 0, or 1 with
the reason.
"""
import re

from kit import strict
from kit.strict import Wrong, demand


def check(path):
    data = strict.read_bytes(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Wrong(f"not UTF-8: {error}") from error
    demand(not text or text.endswith("\n"), "no newline at the end")
    lines = text.split("\n")[:-1]
    seen, ticks = set(), 0
    for number, line in enumerate(lines, 1):
        match = re.fullmatch(r"(.+) ([1-9][0-9]*)", line)
        demand(match, f"line {number}: {line!r}")
        stack, count = match.groups()
        demand(all(stack.split(";")), f"line {number}: an empty frame")
        demand(not re.search(r"[\x00-\x1f\x7f]", line),
               f"line {number}: control characters")
        demand(stack not in seen, f"line {number}: a stack twice")
        seen.add(stack)
        ticks += int(count)
    raw = data.split(b"\n")[:-1]
    demand(raw == sorted(raw), "not in byte order")
    return f"{len(lines)} stacks, {ticks} ticks"


if __name__ == "__main__":
    strict.main(check)

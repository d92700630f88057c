# SPDX-License-Identifier: Apache-2.0
"""The figures as plain text."""

COLUMNS = (  # heading, unit, figure, digits, with its spread
    ("CPU out-", "side ms/s", "outside_ms", 2, False),
    ("CPU in", "target ms/s", "inside_ms", 1, True),
    ("work", "lost %", "lost_percent", 1, True),
    ("at best", "lost %", "best_lost_percent", 1, False),
    ("memory", "MB", "memory_mb", 1, False),
    ("samples", "per s", "samples_per_s", 0, False),
    ("written", "kB/s", "bytes_per_s", 1, False),
    ("bytes a", "sample", "bytes_per_sample", 3, False),
    ("blocked", "seen %", "seen_percent", 0, False),
    ("stacks", "whole %", "complete_percent", 1, False),
)
WIDTH, SPREAD_WIDTH, NAME_WIDTH = 11, 15, 32

LEGEND = """\
Medians of the rounds, ± half the distance between their quartiles. Read the
ratios, not the digits; "no profiler" is a window without one, compared with
windows without one: differences as small as its ± are noise.
  CPU outside    of the profiler's own processes (10 ms/s: 1 % of a processor)
  CPU in target  what the target's processor time yields less in work
  work lost      by the wall clock, the profiler's share of processors too
  at best        the same of the fastest tenth of all tenths of a second: what
                 others do on the hardware meanwhile counts least there
  memory         resident, of the profiler's processes, fgtrace's ring too;
                 gperftools, fgprof: what the target has more
  samples        one thread at one instant; fgtrace: all threads, all ticks
  written        fgtrace: a slice of the window (.fgt, with symbols); perf:
                 perf.data, without symbols; gperftools, fgprof: only sums
  bytes a sample of that, without what is written once, as symbols, mappings
  blocked seen   share of the blocked threads with a stack in it
  stacks whole   that reach the function that their thread started in
All targets run as an ordinary user and are built without frame pointers."""


def cell(row, figure, digits, with_spread):
    if figure not in row.median:
        return "-"
    value = row.median[figure]
    if figure == "bytes_per_s":
        value /= 1000
    text = f"{value:.{digits}f}"
    if with_spread and figure in row.spread:
        text += f" ±{row.spread[figure]:.{digits}f}"
    return text


def heading(title):
    lines = [title, " " * NAME_WIDTH, " " * NAME_WIDTH]
    for first, second, *_, with_spread in COLUMNS:
        width = SPREAD_WIDTH if with_spread else WIDTH
        lines[1] += first.rjust(width)
        lines[2] += second.rjust(width)
    return lines


def of_rows(title, rows):
    lines = heading(title)
    notes = []
    for row in rows:
        line = row.profiler.ljust(NAME_WIDTH)
        if row.why and not row.rounds:
            lines.append(line + "  not run: " + row.why)
            continue
        lines.append(line + "".join(
            cell(row, *column[2:]).rjust(SPREAD_WIDTH if column[-1] else WIDTH)
            for column in COLUMNS).rstrip())
        if row.note:
            ring = row.median.get("ring_bytes_per_sample")
            notes.append(f"  {row.profiler}: {row.note}" + (
                f"; {ring:.2g} bytes of ring per sample" if ring else ""))
        if row.why:
            notes.append(f"  {row.profiler}: {row.rounds} rounds, then "
                         f"{row.why}")
    rounds = max((row.rounds for row in rows), default=0)
    return "\n".join(lines + notes + [f"  rounds: {rounds}", ""])

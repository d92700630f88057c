# SPDX-License-Identifier: Apache-2.0
"""The figures as one SVG picture, for the README.

Left: the profiler's CPU over the number of blocked threads, both axes
logarithmic. Right: bars of the figures that do not depend on it.
"""
import math
from xml.sax.saxutils import escape

import compare

WIDTH, HEIGHT = 1080, 640
INK, PALE, GRID = "#1b2733", "#66727e", "#e3e7eb"
DEPTH, BAR_BLOCKED = 10, 1000  # the section that is drawn, if it was measured
CPU_MIN, CPU_MAX = 0.02, 2000.0
STYLES = {  # colour, dash, short name
    "fgtrace, root, BPF": ("#0b57d0", "", "fgtrace, root"),
    "fgtrace, root, no BPF": ("#0b57d0", "6 3", "fgtrace, no BPF"),
    "fgtrace, ordinary user": ("#5b9bf3", "", "fgtrace, user"),
    "perf -F 101 --call-graph dwarf": ("#c2410c", "", "perf dwarf"),
    "perf -F 101 -g": ("#e08a3c", "6 3", "perf -g"),
    "gperftools": ("#6b7280", "2 3", "gperftools"),
    "fgprof (Go)": ("#2f855a", "", "fgprof (Go)"),
}
OTHERS = ("#8b5cf6", "#b83280", "#0f766e")  # variants without a line above


def style_of(name):
    if name in STYLES:
        return STYLES[name]
    return OTHERS[sum(map(ord, name)) % len(OTHERS)], "8 3", name


class Picture:
    """Writes SVG elements; the other functions choose the places."""

    def __init__(self):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']

    def text(self, x, y, text, size=12, fill=INK, anchor="start", weight="",
             turn=0):
        extra = f' font-weight="{weight}"' if weight else ""
        if turn:
            extra += f' transform="rotate({turn} {x:.1f} {y:.1f})"'
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" '
            f'fill="{fill}" text-anchor="{anchor}"{extra}>'
            f'{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, stroke=GRID, width=1.0):
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{stroke}" stroke-width="{width}"/>')

    def path(self, points, stroke, dash):
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{steps}" fill="none" stroke="{stroke}" '
            f'stroke-width="2.2"{extra}/>')

    def dot(self, x, y, colour):
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def bar(self, x, y, width, height, colour):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" '
            f'height="{height}" fill="{colour}"/>')

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join([*self.parts, "</svg>", ""]))


def log_position(value, low, high):
    """0 … 1 between two ends of a logarithmic axis."""
    value = min(max(value, low), high)
    return math.log(value / low) / math.log(high / low)


def short(value):
    if value >= 1000:
        return f"{value / 1000:.3g}k".replace("e+0", "e")
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def rows_of(figures, **keys):
    for section in figures["sections"]:
        if all(section.get(key) == value for key, value in keys.items()):
            return section["rows"]
    return []


# ---- Left: CPU over the number of blocked threads --------------------------

def cpu_of(row):
    return row["median"].get(
        "inside_ms" if row["is_inside"] else "outside_ms")


def noise_of(rows):
    """The work that a window without a profiler seems to lose."""
    for row in rows:
        if row["profiler"] == compare.NO_PROFILER:
            return max(abs(row["median"].get("inside_ms", 0.0)),
                       row["spread"].get("inside_ms", 0.0))
    return 0.0


def collect_lines(figures, depth):
    """name → [(blocked, ms per second, is within the noise)], and name →
    share of blocked threads seen."""
    lines, seen = {}, {}
    for section in figures["sections"]:
        if section.get("kind") != "crowd" or section["depth"] != depth:
            continue
        noise = noise_of(section["rows"])
        for row in section["rows"]:
            value = cpu_of(row)
            if row["profiler"] == compare.NO_PROFILER or value is None:
                continue
            lines.setdefault(row["profiler"], []).append(
                (section["blocked"], value,
                 row["is_inside"] and
                 value <= max(noise, row["spread"].get("inside_ms", 0.0))))
            seen[row["profiler"]] = row["median"].get("seen_percent")
    return {name: sorted(line) for name, line in lines.items()}, seen


def spread_labels(places, gap, low, high):
    """Moves labels apart; keeps their order."""
    placed = []
    for y, name in sorted(places):
        placed.append([max(y, placed[-1][0] + gap if placed else low), name])
    over = placed[-1][0] - high if placed else 0
    for index in range(len(placed) - 1, -1, -1):
        if over <= 0:
            break
        ceiling = high - gap * (len(placed) - 1 - index)
        placed[index][0] = min(placed[index][0], ceiling)
    return placed


def draw_axes(picture, box, counts):
    left, top, right, bottom = box
    for power in range(-1, 4):
        y = bottom - (bottom - top) * log_position(10 ** power, CPU_MIN,
                                                   CPU_MAX)
        picture.line(left, y, right, y)
        picture.text(left - 8, y + 4, f"{10.0 ** power:g}", fill=PALE,
                     anchor="end")
    for x, count in counts:
        picture.line(x, top, x, bottom)
        picture.text(x, bottom + 18, f"{count:,}".replace(",", " "),
                     fill=PALE, anchor="middle")
    picture.line(left, bottom, right, bottom, stroke=PALE)
    picture.text((left + right) / 2, bottom + 38,
                 "blocked threads, beside 2 busy ones (log)",
                 anchor="middle")
    picture.text(left - 46, (top + bottom) / 2,
                 "profiler's CPU, ms per second (log; 10 = 1 % of a CPU)",
                 anchor="middle", turn=-90)


def draw_lines(picture, figures, depth):
    box = left, top, right, bottom = 78, 96, 470, 560
    lines, seen = collect_lines(figures, depth)
    counts = sorted({point[0] for line in lines.values() for point in line})
    if not counts:
        return
    low, high = counts[0], max(counts[-1], counts[0] * 10)

    def place(point):
        return (left + 12 + (right - left - 24) * log_position(
                    point[0], low, high),
                bottom - (bottom - top) * log_position(point[1], CPU_MIN,
                                                       CPU_MAX))

    draw_axes(picture, box, [(place((count, 1))[0], count)
                             for count in counts])
    ends, values, at = [], {}, {}
    for name, line in lines.items():
        colour, dash, _ = style_of(name)
        clear = [point for point in line if not point[2]]
        points = [place(point) for point in clear]
        picture.path(points, colour, dash)
        for x, y in points:
            picture.dot(x, y, colour)
        is_clear = bool(clear) and clear[-1] == line[-1]
        values[name] = short(clear[-1][1]) if is_clear else "in the noise"
        if line[-1][0] < counts[-1]:  # did not run with more threads
            values[name] += f" at {line[-1][0]:,}".replace(",", " ")
        at[name] = points[-1] if is_clear else None
        ends.append((points[-1][1] if is_clear else bottom, name))
    for y, name in spread_labels(ends, 30, top + 8, bottom - 16):
        colour, _, label = style_of(name)
        if at[name]:
            picture.line(at[name][0] + 6, at[name][1], right + 14, y,
                         stroke=colour, width=0.8)
        picture.text(right + 18, y + 1, f"{label}  {values[name]}",
                     fill=colour, weight="bold")
        if seen.get(name) is not None:
            picture.text(right + 18, y + 14, f"sees {seen[name]:.0f} % of "
                         "the blocked", size=10.5, fill=PALE)


# ---- Right: bars ------------------------------------------------------------

def draw_bars(picture, top, title, bars, low, high, is_log):
    """bars: (name, value, text)."""
    left, label_width, width, step = 640, 104, 236, 19
    picture.text(left, top, title, size=13, weight="bold")
    for index, (name, value, text) in enumerate(bars):
        y = top + 12 + index * step
        colour, _, label = style_of(name)
        share = (log_position(max(value, low), low, high) if is_log
                 else min(max(value - low, 0) / (high - low), 1))
        picture.text(left + label_width - 6, y + 11, label, size=11.5,
                     anchor="end")
        picture.bar(left + label_width, y, width * share, 14, colour)
        picture.text(left + label_width + width * share + 6, y + 11, text,
                     size=11.5)
    return top + 12 + len(bars) * step + 34


def bars_of(rows, figure, form):
    return [(row["profiler"], row["median"][figure],
             form(row["median"][figure])) for row in rows
            if row["profiler"] != compare.NO_PROFILER and
            row["median"].get(figure) is not None]


def bytes_text(value):
    if value >= 1000:
        return f"{value / 1000:.1f} kB"
    return f"{value:.0f} B" if value >= 10 else f"{value:.2g} B"


def draw_right(picture, figures, blocked, depth):
    y = 96
    pair = bars_of(rows_of(figures, kind="pair"), "best_lost_percent",
                   lambda value: f"{value:.1f} %")
    if pair:
        y = draw_bars(picture, y, "Throughput lost by 2 threads that only "
                      "switch (no median: best tenth)", pair, 0, 100, False)
    crowd = rows_of(figures, kind="crowd", blocked=blocked, depth=depth)
    sizes = bars_of(crowd, "bytes_per_sample", bytes_text)
    if sizes:
        y = draw_bars(picture, y, "Bytes written per sample (log; thread × "
                      "instant)", sizes, 0.001, 100000, True)
    whole = bars_of(crowd, "complete_percent",
                    lambda value: f"{value:.1f} %")
    if whole:
        draw_bars(picture, y, "Stacks that reach their thread's start",
                  whole, 0, 100, False)


def nearest(values, wanted):
    values = list(values)
    return wanted if wanted in values or not values else max(values)


def draw(figures, path):
    crowds = [section for section in figures["sections"]
              if section.get("kind") == "crowd"]
    depth = nearest({section["depth"] for section in crowds}, DEPTH)
    blocked = nearest({section["blocked"] for section in crowds
                       if section["depth"] == depth}, BAR_BLOCKED)
    picture = Picture()
    picture.text(28, 34, "What a profiler at 101 Hz costs, and what it sees",
                 size=19, weight="bold")
    picture.text(28, 56, "Medians, side by side in alternation; frame "
                 f"pointers omitted, stacks {depth} frames deep; bars below "
                 f"the first: {blocked} blocked threads.", fill=PALE)
    picture.text(28, 74, "CPU: of the profiler's own processes; gperftools "
                 "and fgprof: what their target loses. Not drawn: losses that "
                 "are within the noise.", fill=PALE)
    draw_lines(picture, figures, depth)
    draw_right(picture, figures, blocked, depth)
    picture.text(28, HEIGHT - 14, figures["machine"], size=10.5, fill=PALE)
    picture.write(path)

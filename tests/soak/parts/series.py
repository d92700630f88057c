# SPDX-License-Identifier: Apache-2.0
"""What a daemon and its children use, as time goes by: it must not grow."""
import os
import statistics

GROWTH_MB = 6  # of the highest of a third, and a tenth of it: caches fill
GROWTH_COUNT = 8  # of the median of a third: those of a moment come and go


def processes(pid):
    """The daemon and its children."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [pid, *map(int, file.read().split())]


def look(pid):
    """Resident MB, descriptors and threads of the daemon; how many children it
    has, and the resident MB of the largest."""
    def resident(each):
        with open(f"/proc/{each}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    children, memory = 0, 0.0
    for each in processes(pid)[1:]:
        try:
            memory = max(memory, resident(each))
            children += 1
        except (OSError, IndexError):
            pass
    return {"MB": resident(pid),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task")),
            "children": children, "largest child's MB": memory}


def thirds(series, key, measure):
    """Of the second and of the last third."""
    values = [each[key] for each in series]
    begin, end = len(values) // 3, 2 * len(values) // 3
    return measure(values[begin:end] or values), measure(values[end:])


def check_series(checks, series):
    for key in series[0]:
        values = [each[key] for each in series]
        step = max(1, len(values) // 20)
        print(f"# {key}: " + " ".join(f"{value:.0f}"
                                      for value in values[::step]))
        is_memory = "MB" in key
        second, last = thirds(series, key,
                              max if is_memory else statistics.median)
        limit = GROWTH_MB + second / 10 if is_memory else GROWTH_COUNT
        checks.ok(f"{key}: {'at most' if is_memory else 'median'} "
                  f"{second:.0f} in the second third, {last:.0f} in the last",
                  last <= second + limit, (second, last))

# SPDX-License-Identifier: Apache-2.0
"""compare_pprof.py FOLDED PROFILE: pprof's own reading of a profile

Runs `go tool pprof -raw`, whose reader checks the profile, and demands the same
counts in the same stacks as the folded file of the same slice, times of count
× period, and the labels of each sample. Exit 0 or 1.
"""
import re
import subprocess
import sys
from collections import Counter

from kit.check_pprof import MORE
from kit.compare_viewer import read_folded
from kit.strict import Wrong, demand


def raw(path):
    result = subprocess.run(
        ["go", "tool", "pprof", "-symbolize=none", "-raw", path],
        capture_output=True, text=True)
    demand(result.returncode == 0, result.stderr[-300:])
    return result.stdout


def as_folded(name):
    """The name with the two special characters of folded lines replaced."""
    return re.sub(r"[\x00-\x1f\x7f]", " ", name.replace(";", ":"))


def read_locations(lines):
    """Id → functions, the outermost first."""
    locations, current = {}, None
    for line in lines:
        match = re.match(r" +(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*)$", line)
        if match:
            current = locations.setdefault(int(match[1]), [])
            line = match[2]
        name = re.fullmatch(r" *(.*) \S*:\d+(?::\d+)? s=-?\d+(?:\(\))?", line)
        demand(name and current is not None, f"location {line!r}")
        current.insert(0, as_folded(name[1]))
    return locations


def read_samples(lines):
    """(count, ns, ids leaf first, labels) of each."""
    samples = []
    for line in lines:
        match = re.match(r" +(\d+) +(\d+): ((?:\d+ )+)$", line + " "
                         if not line.endswith(" ") else line)
        if match:
            samples.append((int(match[1]), int(match[2]),
                            [int(i) for i in match[3].split()], []))
        else:
            demand(samples, f"sample {line!r}")
            samples[-1][3].extend(re.findall(r"(\w+):\[", line))
    return samples


def sections(text):
    """What stands before "Samples:", then each part's lines."""
    head, _, rest = text.partition("\nSamples:\n")
    samples, _, rest = rest.partition("\nLocations\n")
    locations, _, mappings = rest.partition("\nMappings\n")
    return head, samples.split("\n"), locations.split("\n"), mappings


def compare(folded, path):
    head, samples, locations, mappings = sections(raw(path))
    period = int(re.search(r"^Period: (\d+)$", head, re.M)[1])
    demand("PeriodType: wall nanoseconds" in head, head)
    demand(samples[0] == "samples/count wall/nanoseconds[dflt]", samples[0])
    demand(mappings.strip(), "no mapping")
    locations = read_locations(locations)
    found = Counter()
    for count, wall_ns, ids, labels in read_samples(samples[1:]):
        demand(wall_ns == count * period, f"{wall_ns} ns of {count}")
        demand(sorted(set(labels) - MORE) == ["state", "thread", "thread_id"],
               labels)
        found[";".join(name for i in reversed(ids)
                       for name in locations[i])] += count
    demand(found == folded, f"{found - folded} {folded - found}")


def main():
    try:
        compare(read_folded(sys.argv[1]), sys.argv[2])
    except Wrong as wrong:
        print(f"{sys.argv[2]}: {wrong}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

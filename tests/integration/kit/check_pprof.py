# SPDX-License-Identifier: Apache-2.0
"""check_pprof.py FILE: would pprof and Pyroscope read it?

Reads profile.proto by its published numbers and checks all of its rules, also
those that readers do not check. Exit 0, or 1 with the reason.
"""
import gzip
import re

from kit import strict
from kit.strict import Wrong, demand

TEXT, INTS, INT = "text", "ints", "int"
# field → (name, what it holds); lists in messages are fields of their own.
PROFILE = {1: ("sample_type", {1: ("type", INT), 2: ("unit", INT)}),
           2: ("sample", {1: ("location_id", INTS), 2: ("value", INTS),
                          3: ("label", {1: ("key", INT), 2: ("str", INT),
                                        3: ("num", INT),
                                        4: ("num_unit", INT)})}),
           3: ("mapping", {1: ("id", INT), 2: ("memory_start", INT),
                           3: ("memory_limit", INT), 4: ("file_offset", INT),
                           5: ("filename", INT), 6: ("build_id", INT),
                           7: ("has_functions", INT),
                           8: ("has_filenames", INT),
                           9: ("has_line_numbers", INT),
                           10: ("has_inline_frames", INT)}),
           4: ("location", {1: ("id", INT), 2: ("mapping_id", INT),
                            3: ("address", INT),
                            4: ("line", {1: ("function_id", INT),
                                         2: ("line", INT)})}),
           5: ("function", {1: ("id", INT), 2: ("name", INT),
                            4: ("filename", INT)}),
           6: ("string_table", TEXT), 9: ("time_nanos", INT),
           10: ("duration_nanos", INT),
           11: ("period_type", {1: ("type", INT), 2: ("unit", INT)}),
           12: ("period", INT), 13: ("comment", INTS),
           14: ("default_sample_type", INT)}
LABELS = {"thread": "str", "thread_id": "num", "state": "str"}
# … as far as it is known, of blocked threads, and of the service …
MORE = {"wait", "lock", "held_by", "descriptor",
        "service", "version", "environment"}
# … and of samples that belong to a span, for Pyroscope.
LINK = {"trace_id": "[0-9a-f]{32}", "span_id": "[0-9a-f]{16}"}


def varint(data, at):
    value = shift = 0
    while True:
        demand(at < len(data) and shift < 70, f"byte {at}: varint")
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def numbers(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def content(data, kind):
    if kind == TEXT:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Wrong(f"a string is not UTF-8: {error}") from error
    return numbers(data) if kind == INTS else message(data, kind)


def message(data, fields):
    """Name → list of values, packed numbers joined."""
    at, found = 0, {name: [] for name, _ in fields.values()}
    while at < len(data):
        tag, at = varint(data, at)
        demand(tag >> 3 in fields, f"byte {at}: unknown field {tag >> 3}")
        name, kind = fields[tag >> 3]
        if kind == INT:
            demand(tag & 7 == 0, f"{name}: wire type {tag & 7}")
            value, at = varint(data, at)
            found[name].append(value)
            continue
        demand(tag & 7 == 2, f"{name}: wire type {tag & 7}")
        length, at = varint(data, at)
        demand(at + length <= len(data), f"{name}: longer than the file")
        value = content(data[at:at + length], kind)
        found[name] += value if kind == INTS else [value]
        at += length
    return found


def one(found, name, default=0):
    demand(len(found[name]) <= 1, f"{name} {len(found[name])} times")
    return found[name][0] if found[name] else default


class Profile:
    """A profile whose numbers are looked up in its own tables."""

    def __init__(self, data):
        self.raw = message(data, PROFILE)
        self.strings = self.raw["string_table"]
        demand(self.strings and self.strings[0] == "", "string 0 is not empty")

    def text(self, found, name):
        index = one(found, name)
        demand(index < len(self.strings), f"{name}: string {index}")
        return self.strings[index]

    def by_id(self, table):
        entries = {one(entry, "id"): entry for entry in self.raw[table]}
        demand(0 not in entries and len(entries) == len(self.raw[table]),
               f"{table}: ids are not unique")
        return entries


def check_mappings(profile):
    mappings = profile.by_id("mapping")
    for number, mapping in mappings.items():
        where = f"mapping {number}"
        demand(one(mapping, "memory_start") < one(mapping, "memory_limit"),
               f"{where}: empty")
        demand(profile.text(mapping, "filename"), f"{where}: no name")
        demand(re.fullmatch("([0-9a-f]{2})*",
                            profile.text(mapping, "build_id")),
               f"{where}: build id")
    return mappings


def check_locations(profile, mappings, functions):
    """Which functions and mappings are used."""
    used_functions, used_mappings = set(), set()
    for number, location in profile.by_id("location").items():
        where = f"location {number}"
        inside, address = one(location, "mapping_id"), one(location, "address")
        if inside:
            demand(inside in mappings, f"{where}: mapping {inside}")
            mapping = mappings[inside]
            demand(one(mapping, "memory_start") <= address <
                   one(mapping, "memory_limit"), f"{where}: {address:#x} "
                   "is not in its mapping")
            used_mappings.add(inside)
        demand(location["line"], f"{where}: speedscope drops it")
        for line in location["line"]:
            demand(one(line, "function_id") in functions, f"{where}: function")
            used_functions.add(one(line, "function_id"))
    demand(used_functions == set(functions), "functions that no line names")
    demand(used_mappings == set(mappings), "mappings that no location names")


def check_sample(profile, sample, where, locations):
    demand(len(sample["value"]) == 2 and all(
        0 < value < 2 ** 63 for value in sample["value"]),
        f"{where}: values {sample['value']}")
    demand(sample["location_id"], f"{where}: no stack")
    demand(set(sample["location_id"]) <= locations, f"{where}: locations")
    labels = {}
    for label in sample["label"]:
        key = profile.text(label, "key")
        demand((key in LABELS or key in LINK or key in MORE) and
               key not in labels,
               f"{where}: label {key!r}")
        demand(one(label, LABELS.get(key, "str")), f"{where}: {key} is empty")
        demand(not one(label, "str") or not one(label, "num"),
               f"{where}: {key} is text and number")
        labels[key] = (profile.text(label, "str"), one(label, "num"))
    demand(labels.keys() - LINK.keys() - MORE == LABELS.keys(),
           f"{where}: labels {set(labels)}")
    linked = labels.keys() & LINK.keys()
    demand(not linked or all(key in linked and re.fullmatch(
        digits, labels[key][0]) for key, digits in LINK.items()),
           f"{where}: labels {labels}")
    return tuple(sample["location_id"]), tuple(sorted(labels.items()))


def check_samples(profile, period):
    locations = set(profile.by_id("location"))
    seen, used, ticks = set(), set(), 0
    for index, sample in enumerate(profile.raw["sample"]):
        key = check_sample(profile, sample, f"sample {index}", locations)
        demand(key not in seen, f"sample {index}: the same twice")
        demand(sample["value"][1] == sample["value"][0] * period,
               f"sample {index}: time is not count × period")
        seen.add(key)
        used |= set(key[0])
        ticks += sample["value"][0]
    demand(used == locations, "locations that no sample names")
    return ticks


def value_type(profile, found):
    return profile.text(found, "type"), profile.text(found, "unit")


def check(path):
    with open(path, "rb") as file:
        data = file.read()
    demand(data[:2] == b"\x1f\x8b", "not gzipped")
    profile = Profile(gzip.decompress(data))
    wall = ("wall", "nanoseconds")
    demand([value_type(profile, each) for each in profile.raw["sample_type"]]
           == [("samples", "count"), wall], "sample types")
    demand(value_type(profile, one(profile.raw, "period_type")) == wall,
           "period type")
    demand(profile.text(profile.raw, "default_sample_type") == "wall",
           "default sample type")
    demand(one(profile.raw, "time_nanos") > 1e18, "time_nanos")
    demand(one(profile.raw, "duration_nanos") > 0, "duration_nanos")
    demand(one(profile.raw, "period") > 0, "period")
    demand(all(profile.strings[index] for index in profile.raw["comment"]),
           "an empty comment")
    functions = profile.by_id("function")
    demand(all(profile.text(function, "name")
               for function in functions.values()), "a function has no name")
    check_locations(profile, check_mappings(profile), functions)
    ticks = check_samples(profile, one(profile.raw, "period"))
    return (f"{len(profile.raw['sample'])} samples, {ticks} ticks, "
            f"{len(functions)} functions")


if __name__ == "__main__":
    strict.main(check)

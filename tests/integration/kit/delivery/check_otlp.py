# SPDX-License-Identifier: Apache-2.0
"""check_otlp.py FILE: would OpenTelemetry's Collector and Pyroscope take it?

Reads an ExportProfilesServiceRequest by the published numbers (v1development
of 1.11) and checks all rules of profiles.proto, also those that readers do not
check: tables without duplicates and without entries that nothing names,
indices, samples of one shape with times within the profile. Exit 0, or 1 with
the reason.
"""
from collections import Counter, defaultdict

from kit import strict
from kit.check_pprof import varint
from kit.strict import Wrong, demand

TEXT, BYTES, INT, FIXED = "text", "bytes", "int", "fixed"
INTS, FIXEDS = "ints", "fixeds"
# The indices into the strings are for what is passed on: Pyroscope takes none.
VALUE = {1: ("string_value", TEXT), 3: ("int_value", INT),
         8: ("string_index", INT)}
KEY_VALUE = {1: ("key", TEXT), 2: ("value", VALUE), 3: ("key_index", INT)}
VALUE_TYPE = {1: ("type", INT), 2: ("unit", INT)}
SAMPLE = {1: ("stack", INT), 2: ("attributes", INTS), 3: ("link", INT),
          4: ("values", INTS), 5: ("timestamps", FIXEDS)}
PROFILE = {1: ("sample_type", VALUE_TYPE), 2: ("samples", SAMPLE),
           3: ("time", FIXED), 4: ("duration", INT),
           5: ("period_type", VALUE_TYPE), 6: ("period", INT),
           7: ("profile_id", BYTES),
           11: ("attributes", INTS)}
SCOPE = {1: ("name", TEXT), 2: ("version", TEXT)}
DICTIONARY = {
    1: ("mapping", {1: ("start", INT), 2: ("limit", INT), 3: ("offset", INT),
                    4: ("filename", INT), 5: ("attributes", INTS)}),
    2: ("location", {1: ("mapping", INT), 2: ("address", INT),
                     3: ("lines", {1: ("function", INT), 2: ("line", INT),
                                   3: ("column", INT)}),
                     4: ("attributes", INTS)}),
    3: ("function", {1: ("name", INT), 2: ("system_name", INT),
                     3: ("filename", INT), 4: ("start_line", INT)}),
    4: ("link", {1: ("trace_id", BYTES), 2: ("span_id", BYTES)}),
    5: ("string", TEXT),
    6: ("attribute", {1: ("key", INT), 2: ("value", VALUE), 3: ("unit", INT)}),
    7: ("stack", {1: ("locations", INTS)})}
SCOPE_PROFILES = {1: ("scope", SCOPE), 2: ("profiles", PROFILE)}
REQUEST = {
    1: ("resource_profiles", {
        1: ("resource", {1: ("attributes", KEY_VALUE)}),
        2: ("scope_profiles", SCOPE_PROFILES)}),
    2: ("dictionary", DICTIONARY)}
# What a Collector makes of an empty attribute.
EMPTY_VALUE = b"\x12\0"
TABLES = [name for name, _ in DICTIONARY.values()]
# Pyroscope makes a label of each, and takes 30.
RESOURCE_MAX = 12
BUILD_ID = "process.executable.build_id.gnu"
THREAD = {"thread.name": str, "thread.id": int, "thread.state": str}
LOST = {"fgtrace.ticks.missed", "fgtrace.ticks.evicted",
        "fgtrace.ticks.lapped"}


def integers(data, kind):
    if kind == FIXEDS:
        demand(len(data) % 8 == 0, "packed times of 8 bytes")
        return [int.from_bytes(data[i:i + 8], "little")
                for i in range(0, len(data), 8)]
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def content(data, kind):
    if kind == BYTES:
        return data
    if kind == TEXT:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Wrong(f"a string is not UTF-8: {error}") from error
    return message(data, kind)


def read_scalar(data, at, name, wire, kind):
    demand(wire == (1 if kind == FIXED else 0), f"{name}: wire type {wire}")
    if kind == FIXED:
        demand(at + 8 <= len(data), f"{name}: cut short")
        return int.from_bytes(data[at:at + 8], "little"), at + 8
    return varint(data, at)


def message(data, fields):
    """Name → list of values, packed numbers joined; "raw" has the bytes."""
    at, found = 0, {name: [] for name, _ in fields.values()}
    found["raw"] = data
    while at < len(data):
        tag, at = varint(data, at)
        demand(tag >> 3 in fields, f"byte {at}: unknown field {tag >> 3}")
        name, kind = fields[tag >> 3]
        if kind in (INT, FIXED):
            value, at = read_scalar(data, at, name, tag & 7, kind)
            found[name].append(value)
            continue
        demand(tag & 7 == 2, f"{name}: wire type {tag & 7}")
        length, at = varint(data, at)
        demand(at + length <= len(data), f"{name}: longer than what has it")
        part = data[at:at + length]
        at += length
        if kind in (INTS, FIXEDS):
            found[name] += integers(part, kind)
        else:
            found[name].append(content(part, kind))
    return found


def one(found, name, default=0):
    demand(len(found[name]) <= 1, f"{name} {len(found[name])} times")
    return found[name][0] if found[name] else default


def value_of(found, strings=None):
    """Of an AnyValue: exactly one of its fields; strings: may be an index."""
    values = found["string_value"] + found["int_value"]
    if strings and found["string_index"]:
        values.append(strings[one(found, "string_index")])
    demand(len(values) == 1, f"a value {values}")
    return values[0]


class Dictionary:
    """Tables; which of their entries were looked up is kept."""

    def __init__(self, found):
        self.tables = found
        self.used = {table: set() for table in TABLES}
        for table in TABLES:
            demand(found[table], f"table {table}: no element 0")
        self.check_zeros()
        for table in TABLES:
            raw = [each if table == "string" else each["raw"]
                   for each in found[table]]
            twice = [each for each, count in Counter(raw).items() if count > 1]
            demand(not twice, f"table {table}: {twice[:1]} twice")

    def check_zeros(self):
        for table in TABLES:
            first = self.tables[table][0]
            if table == "link":
                demand(not any(one(first, "trace_id", b"") +
                               one(first, "span_id", b"")), "link 0")
            else:
                demand((first if table == "string" else first["raw"]) in
                       ("", b"", EMPTY_VALUE), f"table {table}: element 0 is not zero")

    def look_up(self, table, index):
        """An index of 0 means that the field is not set: nothing."""
        demand(index < len(self.tables[table]),
               f"table {table} has no element {index}")
        self.used[table].add(index)
        return self.tables[table][index]

    def text(self, found, name):
        return self.look_up("string", one(found, name))

    def attributes(self, found):
        """Key → value; keys stand once."""
        values = {}
        for index in found["attributes"]:
            demand(index, "an attribute of index 0")
            entry = self.look_up("attribute", index)
            key = self.text(entry, "key")
            demand(key and key not in values, f"attribute {key!r} twice")
            demand(one(entry, "unit") == 0, f"{key}: unit")
            values[key] = value_of(one(entry, "value", None))
        return values

    def link(self, index):
        """(trace id, span id) in hex, or None."""
        if index == 0:
            return None
        link = self.look_up("link", index)
        ids = one(link, "trace_id", b""), one(link, "span_id", b"")
        demand([len(each) for each in ids] == [16, 8] and all(map(any, ids)),
               f"link {index}: {ids}")
        return ids[0].hex(), ids[1].hex()

    def mapping(self, index):
        mapping = self.look_up("mapping", index)
        where = f"mapping {index}"
        demand(one(mapping, "start") < one(mapping, "limit"),
               f"{where}: empty")
        demand(self.text(mapping, "filename"), f"{where}: no name")
        build_id = self.attributes(mapping)
        demand(build_id.keys() <= {BUILD_ID} and
               all(len(bytes.fromhex(text)) for text in build_id.values()),
               f"{where}: {build_id}")
        return mapping

    def functions(self, index):
        """Names at a location, the innermost call first."""
        demand(index, "a location of index 0")
        location = self.look_up("location", index)
        where, address = f"location {index}", one(location, "address")
        if one(location, "mapping"):
            mapping = self.mapping(one(location, "mapping"))
            demand(one(mapping, "start") <= address < one(mapping, "limit"),
                   f"{where}: {address:#x} is not in its mapping")
        demand(location["lines"], f"{where}: its mapping has no names then")
        names = []
        for line in location["lines"]:
            demand(one(line, "function"), f"{where}: function 0")
            function = self.look_up("function", one(line, "function"))
            names.append(self.text(function, "name"))
            self.text(function, "filename")
            demand(names[-1], f"{where}: a function has no name")
        return names

    def stack(self, index):
        """Names, the leaf first."""
        demand(index, "stack 0")
        locations = self.look_up("stack", index)["locations"]
        demand(locations, f"stack {index} is empty")
        return [name for location in locations
                for name in self.functions(location)]

    def check_orphans(self):
        for table in TABLES:
            unused = set(range(1, len(self.tables[table]))) - self.used[table]
            demand(not unused, f"table {table}: nothing names "
                   f"{[self.tables[table][i] for i in sorted(unused)[:2]]}")


class Samples:
    """The samples of the one profile; names of stacks are read once."""

    def __init__(self, dictionary, profile):
        self.dictionary, self.profile = dictionary, profile
        self.begin = one(profile, "time")
        self.end = self.begin + one(profile, "duration")
        self.stacks, self.seen = {}, set()

    def check_times(self, sample, where):
        times, values = sample["timestamps"], sample["values"]
        demand(values and all(0 < value < 2 ** 63 for value in values),
               f"{where}: values {values[:3]}")
        if not times:
            demand(len(values) == 1, f"{where}: Pyroscope takes one value")
            return
        demand(len(times) == len(values),
               f"{where}: {len(times)} times, {len(values)} values")
        demand(times == sorted(set(times)), f"{where}: times out of order")
        demand(self.begin <= times[0] and times[-1] < self.end,
               f"{where}: a time is outside of the profile")

    def read(self, index, sample):
        """(attributes, names leaf first, link, ns, has times)."""
        where = f"sample {index}"
        self.check_times(sample, where)
        stack = one(sample, "stack")
        if stack not in self.stacks:
            self.stacks[stack] = self.dictionary.stack(stack)
        link = self.dictionary.link(one(sample, "link"))
        facts = self.dictionary.attributes(sample)
        demand(facts.keys() == THREAD.keys() and
               all(isinstance(facts[key], kind) and facts[key]
                   for key, kind in THREAD.items()), f"{where}: {facts}")
        identity = (stack, link, frozenset(sample["attributes"]))
        demand(identity not in self.seen, f"{where}: the same twice")
        self.seen.add(identity)
        return (facts, self.stacks[stack], link, sum(sample["values"]),
                bool(sample["timestamps"]))

    def read_all(self):
        found = [self.read(index, sample) for index, sample
                 in enumerate(self.profile["samples"])]
        demand(len({sample[4] for sample in found}) <= 1,
               "samples of two shapes")
        return found


def check_resource(found, strings):
    """strings: those that keys and values may be indices of, or None."""
    attributes = {}
    for attribute in found["attributes"]:
        key = one(attribute, "key", "")
        if strings and attribute["key_index"]:
            key = strings[one(attribute, "key_index")]
        demand(key and key not in attributes, f"resource: {key!r} twice")
        attributes[key] = value_of(one(attribute, "value", None), strings)
    demand(attributes.get("service.name"), "resource: no service.name")
    demand(all(attributes.values()), f"resource: empty {attributes}")
    demand(len(attributes) <= RESOURCE_MAX,
           f"resource: {len(attributes)} attributes")
    return attributes


class Otlp:
    """A request that keeps all rules: resource, samples, shape. is_passed_on: a
    Collector wrote it, which adds strings of its resource to the dictionary."""

    def __init__(self, data, is_passed_on=False):
        request = message(data, REQUEST)
        around = one(request, "resource_profiles", None)
        demand(around is not None and request["dictionary"], "incomplete")
        strings = one(request, "dictionary")["string"]
        self.resource = check_resource(one(around, "resource", None),
                                       is_passed_on and strings)
        scope = one(around, "scope_profiles", None)
        demand(one(one(scope, "scope", None), "name", "") == "fgtrace",
               "scope")
        profile = one(scope, "profiles", None)
        dictionary = Dictionary(one(request, "dictionary"))
        for name in ("sample_type", "period_type"):
            found = one(profile, name, None)
            demand((dictionary.text(found, "type"),
                    dictionary.text(found, "unit")) == ("wall", "nanoseconds"),
                   name)
        self.period = one(profile, "period")
        demand(self.period > 0 and one(profile, "duration") > 0 and
               one(profile, "time") > 1e18, "period, duration or time")
        self.begin = one(profile, "time")
        self.end = self.begin + one(profile, "duration")
        self.lost = dictionary.attributes(profile)
        demand(self.lost.keys() <= LOST, f"profile: {self.lost}")
        self.samples = Samples(dictionary, profile).read_all()
        if not is_passed_on:
            dictionary.check_orphans()
        self.has_times = any(sample[4] for sample in self.samples)

    def stacks(self):
        """{tid: {stack, the root first: ns}}."""
        threads = defaultdict(Counter)
        for facts, names, _, ns, _ in self.samples:
            threads[facts["thread.id"]][tuple(reversed(names))] += ns
        return threads

    def links(self):
        """{(tid, trace id, span id): ns} of samples that have a link."""
        found = Counter()
        for facts, _, link, ns, _ in self.samples:
            if link:
                found[(facts["thread.id"], *link)] += ns
        return found


def read(path):
    return Otlp(strict.read_bytes(path))


def check(path):
    found = read(path)
    return (f"{len(found.samples)} samples, "
            f"{sum(sample[3] for sample in found.samples) / 1e9:.2f} s, "
            f"{'times' if found.has_times else 'sums'}, {found.resource}")


if __name__ == "__main__":
    strict.main(check)

# SPDX-License-Identifier: Apache-2.0
"""Other projects' own parsers read our files.

usage: test_readers.py BUILD WORK

OpenTelemetry's generated code (opentelemetry-proto of PyPI) parses OTLP,
Sentry's parser (vroomrs of PyPI) profiles of version 1 and chunks of version 2,
and `go tool pprof` pprof. Each must find what our own readers find.
"""
import json
import re
import shutil
import subprocess
from collections import Counter

import stand
from stand import ok
from kit import compare_formats, strict
from kit.check_sentry_envelope import split_items
from kit.delivery import check_otlp

# What Relay adds before Sentry's parser gets a profile.
ADDED = {"organization_id": 1, "project_id": 1, "received": 1767225600,
         "retention_days": 90, "sampled": True}


def parse_otlp(path):
    """{tid: {(state, function of the leaf): ns}} by the generated code."""
    from opentelemetry.proto.collector.profiles.v1development import (
        profiles_service_pb2)
    request = profiles_service_pb2.ExportProfilesServiceRequest()
    request.ParseFromString(strict.read_bytes(path))
    tables = request.dictionary
    profile = request.resource_profiles[0].scope_profiles[0].profiles[0]
    found = {}
    for sample in profile.samples:
        facts = {tables.string_table[tables.attribute_table[i].key_strindex]:
                 tables.attribute_table[i].value
                 for i in sample.attribute_indices}
        leaf = tables.location_table[
            tables.stack_table[sample.stack_index].location_indices[0]]
        name = tables.string_table[
            tables.function_table[leaf.lines[0].function_index].name_strindex]
        found.setdefault(facts["thread.id"].int_value, Counter())[
            facts["thread.state"].string_value, name] += sum(sample.values)
    resource = {each.key: each.value for each in
                request.resource_profiles[0].resource.attributes}
    return found, resource, not request.FindInitializationErrors()


def own_leaves(path):
    found = {}
    for facts, names, _, ns, _ in check_otlp.read(path).samples:
        found.setdefault(facts["thread.id"], Counter())[
            facts["thread.state"], names[0]] += ns
    return found


def test_otlp(bench, work, source):
    stand.bring_packages(work, "opentelemetry-proto==1.45.2")
    for ending, arguments in ((".otlp", ()), (".otlp.gz", ()),
                              (".sum.otlp", ("--otlp-shape", "sum"))):
        path = stand.convert(bench, source, ending, *arguments)
        found, resource, is_whole = parse_otlp(path)
        ok(f"opentelemetry-proto reads {ending} as we do",
           is_whole and found and found == own_leaves(path), found)
        ok(f"opentelemetry-proto finds service.name in {ending}",
           resource["service.name"].string_value == "truth-fp", resource)


def payload(path, kind):
    for item, body in split_items(strict.read_bytes(path))[1]:
        if item["type"] == kind:
            return {**json.loads(body), **ADDED}
    return None


def as_relay(profile, event):
    """Of version 1: Relay passes numbers on, also of texts, and adds the
    transaction's span."""
    transaction = profile["transaction"]
    transaction["segment_id"] = event["contexts"]["trace"]["span_id"]
    transaction["active_thread_id"] = int(transaction["active_thread_id"])
    for sample in profile["profile"]["samples"]:
        for key in ("thread_id", "elapsed_since_start_ns"):
            sample[key] = int(sample[key])
    return profile


def self_ns(functions):
    found = Counter()
    for function in functions:
        found[function.get_function()] += sum(function.get_self_times_ns())
    return found


def own_ns(path, tid):
    """By our own reader, of each function: as a leaf, and anywhere. tid None:
    of all threads."""
    leaves, anywhere = Counter(), Counter()
    for thread, stacks in compare_formats.read_sentry(path).items():
        for stack, ns in stacks.items():
            if tid in (None, thread):
                leaves[stack[-1]] += ns
                for name in set(stack):
                    anywhere[name] += ns
    return leaves, anywhere


def is_near(found, leaves, anywhere):
    """Each function that took 0.2 s or more as a leaf, within 2 %. The parser
    adds time in frames of the system to what called them."""
    large = {name: ns for name, ns in leaves.items() if ns >= 2e8}
    return large and all(
        0.98 * ns <= found[name] <= 1.02 * anywhere[name]
        for name, ns in large.items())


def test_sentry(bench, work, source):
    stand.bring_packages(work, "vroomrs==0.1.24")
    import vroomrs
    path = stand.convert(bench, source, ".envelope")
    profile = as_relay(payload(path, "profile"), payload(path, "transaction"))
    read = vroomrs.profile_from_json_str(json.dumps(profile), "native")
    read.normalize()
    found = self_ns(read.extract_functions_metrics(
        min_depth=0, filter_system_frames=False))
    active = int(profile["transaction"]["active_thread_id"])
    ok("vroomrs reads a profile of version 1 as we do",
       is_near(found, *own_ns(path, active)), (found, own_ns(path, active)))
    path = stand.convert(bench, source, ".chunk.envelope")
    chunk = payload(path, "profile_chunk")
    read = vroomrs.profile_chunk_from_json_str(json.dumps(chunk), "native")
    read.normalize()
    found = self_ns(read.extract_functions_metrics(
        min_depth=0, filter_system_frames=False))
    ok("vroomrs reads a chunk of version 2 as we do",
       is_near(found, *own_ns(path, None)), (found, own_ns(path, None)))
    ok("vroomrs finds the chunk's profiler",
       read.get_profiler_id() == chunk["profiler_id"],
       read.get_profiler_id())


def pprof(*arguments):
    result = subprocess.run(["go", "tool", "pprof", "-symbolize=none",
                             *arguments], text=True, capture_output=True)
    return result.stdout if result.returncode == 0 else result.stderr


def test_pprof(bench, work, source):
    if not shutil.which("go"):
        raise stand.Missing("go is not installed: apt-get install golang-go")
    print("#", subprocess.run(["go", "version"], text=True,
                              capture_output=True).stdout.strip())
    path = stand.convert(bench, source, ".pb.gz")
    threads, _, _ = compare_formats.read_pprof(path)
    leaves = Counter()
    for stacks in threads.values():
        for stack, ns in stacks.items():
            leaves[stack[-1]] += ns
    top, ns = leaves.most_common(1)[0]
    shown = pprof("-top", "-unit=ms", "-nodecount=1000", path)
    match = re.search(rf"^ *([\d.]+)ms .* {re.escape(top)}(?: |$)", shown,
                      re.M)
    ok("go tool pprof -top shows the function that took longest",
       match and abs(float(match[1]) * 1e6 - ns) < 1e6, (top, ns, shown[:600]))
    shown = pprof("-tags", path)
    ok("go tool pprof -tags shows threads and states",
       all(word in shown for word in ("thread_id", "state", "running")),
       shown[:600])


def run(bench, work):
    source = stand.record(bench)
    missing = []
    for test in (test_pprof, test_otlp, test_sentry):
        try:
            test(bench, work, source)
        except stand.Missing as reason:
            missing.append(f"{test.__name__}: {reason}")
    if missing:
        raise stand.Missing("; ".join(missing))


if __name__ == "__main__":
    stand.main(run)

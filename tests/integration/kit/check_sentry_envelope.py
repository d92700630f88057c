# SPDX-License-Identifier: Apache-2.0
"""check_sentry_envelope.py FILE: would Relay keep all of it?

Framing to the byte, and Relay's rules in its processing order: what Relay would
cut, drop or reject is wrong here. Exit 0, or 1 with the reason.
"""
import datetime
import re

from kit import strict
from kit.strict import Wrong, demand, is_int, is_number

DURATION_MAX_NS = 30_000_000_000
PROFILE_MAX = 50 << 20
TRANSACTION_MAX = 1 << 20
REPORT_MAX = 4096
REASONS = {"queue_overflow", "cache_overflow", "buffer_overflow",
           "ratelimit_backoff", "network_error", "sample_rate", "before_send",
           "event_processor", "send_error", "internal_sdk_error",
           "insufficient_data", "backpressure"}
CATEGORIES = {"transaction", "profile", "profile_chunk", "span"}
FRAME_STRINGS = ("function", "filename", "abs_path", "module", "package",
                 "instruction_addr")
SPANS_MAX = 1000
SPAN_KEYS = {"span_id", "parent_span_id", "trace_id", "op", "description",
             "status", "start_timestamp", "timestamp", "data"}
FRAME_KEYS = {*FRAME_STRINGS, "lineno", "colno", "in_app"}


def demand_id(value, length, what):
    demand(isinstance(value, str) and
           re.fullmatch(f"[0-9a-f]{{{length}}}", value) and
           set(value) != {"0"}, f"{what}: {value!r}")


def demand_text(value, what):
    demand(isinstance(value, str) and value, f"{what}: {value!r}")


def u64(value, what):
    """An integer or its decimal string: serde's leniency, no more."""
    if isinstance(value, str):
        demand(re.fullmatch(r"[0-9]+", value), f"{what}: {value!r}")
        value = int(value)
    demand(is_int(value) and 0 <= value < 2 ** 64, f"{what}: {value!r}")
    return value


def rfc3339(value, what):
    match = isinstance(value, str) and re.fullmatch(
        r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)",
        value)
    demand(match, f"{what}: {value!r}")
    base = datetime.datetime.fromisoformat(
        match.group(1) + match.group(3).replace("Z", "+00:00"))
    return base.timestamp() + float(match.group(2) or 0)


def instant(value, what):
    return value if is_number(value) else rfc3339(value, what)


def split_items(data):
    """Each header ends in exactly one newline; lengths are bytes."""
    end = data.find(b"\n")
    demand(end >= 0, "no newline after the envelope header")
    header, at, items = strict.parse_json(data[:end]), end + 1, []
    demand(data[:end].strip() == data[:end], "blanks around the header")
    while at < len(data):
        end = data.find(b"\n", at)
        demand(end >= 0, f"byte {at}: item header without newline")
        demand(data[at:end].strip() == data[at:end] and data[at:end],
               f"byte {at}: blanks around an item header")
        item = strict.parse_json(data[at:end])
        length = item.get("length")
        demand(is_int(length) and 0 <= length < 2 ** 32,
               f"byte {at}: length {length!r}")
        body = data[end + 1:end + 1 + length]
        demand(len(body) == length, f"byte {at}: unexpected end")
        at = end + 1 + length
        demand(at == len(data) or data[at:at + 1] == b"\n",
               f"byte {at}: missing newline after the payload")
        at += 1
        items.append((item, body))
    return header, items


def check_header(header):
    demand_id(header.get("event_id"), 32, "header event_id")
    known = {"event_id", "dsn", "sdk", "sent_at", "trace"}
    demand(set(header) <= known, f"invented keys: {set(header) - known}")
    rfc3339(header.get("sent_at"), "sent_at")
    for key in ("name", "version"):
        demand_text(header.get("sdk", {}).get(key), f"sdk.{key}")
    if "dsn" in header:
        demand(re.fullmatch(r"https?://[0-9a-f]{32}@[^/@]+(/[^?#]*)?/[0-9]+",
                            header["dsn"]), "dsn, or a secret in it")


def check_transaction(transaction, header):
    demand(transaction.get("type") == "transaction", "type")
    demand(transaction.get("event_id") == header["event_id"],
           "transaction.event_id is not the envelope's")
    demand_text(transaction.get("transaction"), "transaction name")
    start = instant(transaction.get("start_timestamp"), "start_timestamp")
    end = instant(transaction.get("timestamp"), "timestamp")
    demand(start <= end, "the transaction ends before it starts")
    trace = transaction.get("contexts", {}).get("trace", {})
    demand_id(trace.get("trace_id"), 32, "trace_id")
    demand_id(trace.get("span_id"), 16, "span_id")
    if "parent_span_id" in trace:
        demand_id(trace["parent_span_id"], 16, "parent_span_id")
    for key in ("op", "status"):
        demand_text(trace.get(key), f"contexts.trace.{key}")
    for key, value in transaction.get("tags", {}).items():
        demand(0 < len(key) <= 32 and isinstance(value, str) and
               len(value) <= 200, f"tag {key!r}")
    demand(transaction.get("level", "info") in
           ("fatal", "error", "warning", "info", "debug"), "level")
    for key in ("release", "environment", "dist"):
        demand(key not in transaction or transaction[key],
               f"{key} is null or empty")
    return start, end, trace["trace_id"]


def check_spans(transaction, trace_id):
    """Within the transaction, each below another of them or below it."""
    spans = transaction.get("spans")
    demand(isinstance(spans, list) and len(spans) <= SPANS_MAX, "spans")
    own = transaction["contexts"]["trace"]["span_id"]
    ids = {own} | {span.get("span_id") for span in spans}
    demand(len(ids) == len(spans) + 1, "two spans with one id")
    for index, span in enumerate(spans):
        where = f"span {index}"
        demand(set(span) == SPAN_KEYS, f"{where}: {set(span) ^ SPAN_KEYS}")
        demand_id(span["span_id"], 16, f"{where}.span_id")
        demand(span["trace_id"] == trace_id, f"{where}.trace_id")
        demand(span["parent_span_id"] in ids - {span["span_id"]},
               f"{where}: no parent {span['parent_span_id']!r}")
        for key in ("op", "description", "status"):
            demand_text(span[key], f"{where}.{key}")
        start, end = span["start_timestamp"], span["timestamp"]
        demand(is_number(start) and is_number(end) and
               transaction["start_timestamp"] <= start <= end <=
               transaction["timestamp"], f"{where}: {start} to {end}")
        demand(all(isinstance(v, str) for v in span["data"].values()),
               f"{where}.data")
        demand(re.fullmatch("[0-9]+", span["data"].get("thread.id", "")),
               f"{where}: thread.id")
    return len(spans)


def check_frame(index, frame):
    where = f"frame {index}"
    demand(isinstance(frame, dict), where)
    demand(set(frame) <= FRAME_KEYS,
           f"{where}: Relay drops {set(frame) - FRAME_KEYS}")
    demand(any(frame.get(k) for k in ("function", "filename",
                                      "instruction_addr")), f"{where}: empty")
    for key in FRAME_STRINGS:
        if key in frame:
            demand_text(frame[key], f"{where}.{key}")
    for key in ("lineno", "colno"):
        if key in frame:
            demand(is_int(frame[key]) and 0 <= frame[key] < 2 ** 32,
                   f"{where}.{key}")
    # Platform native: without in_app every frame is taken as the system's.
    demand(isinstance(frame.get("in_app"), bool), f"{where}: no in_app")
    if "instruction_addr" in frame:
        demand(re.fullmatch(r"0x[0-9a-f]{1,16}", frame["instruction_addr"]),
               f"{where}.instruction_addr")


def check_images(debug_meta):
    demand(isinstance(debug_meta.get("images"), list), "debug_meta.images")
    for index, image in enumerate(debug_meta["images"]):
        where = f"image {index}"
        demand(image.get("type") == "symbolic",
               f"{where}: type {image.get('type')!r} fails the profile")
        demand(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
                            image.get("debug_id", "")), f"{where}: debug_id")
        demand(not {"build_id", "uuid"} & set(image), f"{where}: build_id")
        for key in ("image_addr", "image_vmaddr"):
            demand(re.fullmatch(r"0x[0-9a-f]{1,16}", image.get(key, "")),
                   f"{where}.{key}")
        demand(is_int(image.get("image_size")) and image["image_size"] > 0,
               f"{where}.image_size")


def check_samples(profile, is_given):
    """Times, indices, and what Relay would cut; samples by thread. is_given:
    the program gave the begin, else it is the first sample."""
    stacks, frames = profile["stacks"], profile["frames"]
    last, threads = 0, {}
    for index, sample in enumerate(profile["samples"]):
        where = f"sample {index}"
        elapsed = u64(sample.get("elapsed_since_start_ns"), where)
        thread = u64(sample.get("thread_id"), where)
        stack = sample.get("stack_id")
        demand(is_int(stack) and 0 <= stack < len(stacks),
               f"{where}: stack_id {stack!r}")
        demand(elapsed >= last, f"{where}: goes back in time")
        demand(stacks[stack], f"{where}: an empty stack is idle")
        last = elapsed
        threads.setdefault(thread, []).append(elapsed)
    demand(threads, "no samples")
    demand(last <= DURATION_MAX_NS, f"{last} ns are longer than 30 s")
    demand(is_given or
           u64(profile["samples"][0]["elapsed_since_start_ns"], "first") == 0,
           "the first sample is not the zero point")
    check_tables(threads, stacks, frames)
    return threads, last


def check_tables(threads, stacks, frames):
    """References between threads, stacks and frames, in any version."""
    for thread, times in threads.items():
        demand(len(times) >= 2, f"thread {thread} has one sample")
    for index, stack in enumerate(stacks):
        demand(all(is_int(f) and 0 <= f < len(frames) for f in stack),
               f"stack {index}: frame out of range")
    demand({f for s in stacks for f in s} == set(range(len(frames))),
           "frames that no stack names")


def check_threads(metadata, threads):
    demand(set(threads) == set(metadata),
           "thread_metadata and samples name other threads")
    for thread, data in metadata.items():
        demand_text(data.get("name"), f"name of thread {thread}")
        demand("priority" not in data or data["priority"] >= 0, "priority")


def check_profile(profile, header, transaction):
    name, start, trace_id, is_given = transaction
    demand(profile.get("version") == "1", "version is not \"1\"")
    demand_id(profile.get("event_id"), 32, "profile event_id")
    demand(profile["event_id"] != header["event_id"],
           "profile and transaction share an id")
    demand("profile_id" not in profile, "event_id and its alias")
    demand(profile.get("platform") == "native", "platform")
    demand(abs(rfc3339(profile.get("timestamp"), "timestamp") - start) < 1e-5,
           "the profile does not start with its transaction")
    for group, keys in {"os": ("name", "version"),
                        "device": ("architecture",)}.items():
        for key in keys:
            demand_text(profile.get(group, {}).get(key), f"{group}.{key}")
    for key in ("release", "environment", "dist"):
        demand(key not in profile or profile[key], f"{key} is null or empty")
    for key in ("transaction_metadata", "transaction_tags"):
        demand(key not in profile, key)
    about = profile.get("transaction", {})
    demand(about.get("id") == header["event_id"], "transaction.id")
    demand(about.get("name") == name, "transaction.name")
    demand(about.get("trace_id") == trace_id, "transaction.trace_id")
    demand(not {"relative_start_ns", "relative_end_ns"} & set(about),
           "relative times cut samples")
    if "debug_meta" in profile:
        check_images(profile["debug_meta"])
    body = profile.get("profile")
    demand(isinstance(body, dict), "profile.profile")
    for key in ("samples", "stacks", "frames"):
        demand(isinstance(body.get(key), list), key)
    for index, frame in enumerate(body["frames"]):
        check_frame(index, frame)
    threads, last = check_samples(body, is_given)
    check_threads(body.get("thread_metadata", {}),
                  {str(thread) for thread in threads})
    demand(u64(about.get("active_thread_id"), "active_thread_id") in threads,
           "the active thread has no samples")
    return len(body["samples"]), len(threads), last


def check_times(transaction, last, is_given):
    """A slice is as long as its profile; the transaction of a program is at
    least as long."""
    start, end = transaction
    if abs(end - start - last / 1e9) > 1e-3 and \
            not (is_given and last / 1e9 < end - start):
        raise Wrong(f"transaction lasts {end - start} s, profile {last} ns")


def check_report(body):
    """Of what the client did not send."""
    demand(len(body) <= REPORT_MAX, "client report above 4 KiB")
    report = strict.parse_json(body)
    demand(set(report) == {"timestamp", "discarded_events"}, set(report))
    rfc3339(report["timestamp"], "timestamp of the report")
    demand(report["discarded_events"], "an empty report")
    for event in report["discarded_events"]:
        demand(set(event) == {"reason", "category", "quantity"}, set(event))
        demand(event["reason"] in REASONS, event["reason"])
        demand(event["category"] in CATEGORIES, event["category"])
        demand(is_int(event["quantity"]) and event["quantity"] > 0,
               event["quantity"])


def without_report(items):
    """What else there is; the report follows it."""
    reports = [body for item, body in items
               if item.get("type") == "client_report"]
    demand(len(reports) <= 1, "two client reports")
    for body in reports:
        demand(items[-1][0].get("type") == "client_report", "not the last one")
        check_report(body)
    return items[:len(items) - len(reports)]


def check(path):
    header, items = split_items(strict.read_bytes(path))
    check_header(header)
    items = without_report(items)
    types = [item.get("type") for item, _ in items]
    demand(types and types[0] == "transaction" and
           types[1:] in (["profile"], []), f"items {types}")
    first = items[0][1]
    demand(len(first) <= TRANSACTION_MAX, "transaction above 1 MiB")
    transaction = strict.parse_json(first)
    start, end, trace_id = check_transaction(transaction, header)
    spans = check_spans(transaction, trace_id)
    is_given = transaction["contexts"]["trace"]["op"] != "profile.slice"
    if len(items) == 1:
        demand("profile" in transaction["contexts"] or
               "no_profile" in transaction["extra"],
               "there is no profile, and no reason")
        if "profile" in transaction["contexts"]:
            demand_id(transaction["contexts"]["profile"].get("profiler_id"), 32,
                      "profiler_id")
            demand_text(transaction["contexts"]["trace"].get("data", {}).get(
                "thread.id"), "thread.id")
        return f"a transaction alone, {end - start:.3f} s, {spans} spans"
    demand(len(items[1][1]) <= PROFILE_MAX, "profile above 50 MiB")
    samples, threads, last = check_profile(
        strict.parse_json(items[1][1]), header,
        (transaction["transaction"], start, trace_id, is_given))
    check_times((start, end), last, is_given)
    return (f"{samples} samples of {threads} threads, {last / 1e9:.3f} s, "
            f"{spans} spans")


if __name__ == "__main__":
    strict.main(check)

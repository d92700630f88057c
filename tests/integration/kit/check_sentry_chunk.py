# SPDX-License-Identifier: Apache-2.0
"""check_sentry_chunk.py FILE: would Relay keep all of this profile chunk?

Framing to the byte, and Relay's rules: what Relay would cut, drop or reject is
wrong here. Exit 0, or 1 with the reason.
"""
import re

from kit import strict
from kit.check_sentry_envelope import (
    PROFILE_MAX, check_frame, check_header, check_images, check_tables,
    check_threads, demand_id, demand_text, split_items, without_report)
from kit.strict import demand, is_int, is_number

DURATION_MAX_S = 66
KEYS = {"version", "chunk_id", "profiler_id", "client_sdk", "platform",
        "release", "environment", "debug_meta", "measurements", "profile"}


def check_samples(profile, text):
    """Times in order, as seconds with all six decimals; samples by thread."""
    last, threads = 0, {}
    for index, sample in enumerate(profile["samples"]):
        where = f"sample {index}"
        at, thread = sample.get("timestamp"), sample.get("thread_id")
        stack = sample.get("stack_id")
        demand(is_number(at) and 1e9 < at < 1e10,
               f"{where}: timestamp {at!r} is not in seconds")
        demand(isinstance(thread, str) and re.fullmatch(r"[1-9][0-9]*", thread),
               f"{where}: thread_id {thread!r} must be text")
        demand(is_int(stack) and 0 <= stack < len(profile["stacks"]),
               f"{where}: stack_id {stack!r}")
        demand(profile["stacks"][stack], f"{where}: an empty stack is idle")
        demand(at >= last, f"{where}: goes back in time")
        last = at
        threads.setdefault(thread, []).append(at)
    demand(threads, "no samples")
    demand(len(re.findall(rb'"timestamp":[0-9]+\.[0-9]{6}[,}]', text)) ==
           len(profile["samples"]), "a timestamp without six decimals")
    span = last - profile["samples"][0]["timestamp"]
    demand(span <= DURATION_MAX_S, f"{span} s are longer than 66 s")
    check_tables(threads, profile["stacks"], profile["frames"])
    return threads, span


def check_chunk(chunk, text):
    demand(set(chunk) <= KEYS, f"unknown keys {set(chunk) - KEYS}")
    demand(chunk.get("version") == "2", "version is not \"2\"")
    demand_id(chunk.get("chunk_id"), 32, "chunk_id")
    demand_id(chunk.get("profiler_id"), 32, "profiler_id")
    demand(chunk["chunk_id"] != chunk["profiler_id"], "two things, one id")
    for key in ("name", "version"):
        demand_text(chunk.get("client_sdk", {}).get(key), f"client_sdk.{key}")
    for key in ("release", "environment"):
        demand(key not in chunk or chunk[key], f"{key} is null or empty")
    if "debug_meta" in chunk:
        check_images(chunk["debug_meta"])
    body = chunk.get("profile")
    demand(isinstance(body, dict), "profile")
    for key in ("samples", "stacks", "frames"):
        demand(isinstance(body.get(key), list), key)
    for index, frame in enumerate(body["frames"]):
        check_frame(index, frame)
    threads, span = check_samples(body, text)
    check_threads(body.get("thread_metadata", {}), threads)
    return len(body["samples"]), len(threads), span


def check(path):
    header, items = split_items(strict.read_bytes(path))
    check_header(header)
    items = without_report(items)
    demand(len(items) == 1, "one chunk is one envelope")
    item, text = items[0]
    demand(item.get("type") == "profile_chunk", f"type {item.get('type')!r}")
    demand(len(text) <= PROFILE_MAX, "profile above 50 MiB")
    chunk = strict.parse_json(text)
    demand(item.get("platform") == chunk.get("platform") == "native",
           "item and payload must name the same platform")
    samples, threads, span = check_chunk(chunk, text)
    return f"{samples} samples of {threads} threads, {span:.3f} s"


if __name__ == "__main__":
    strict.main(check)

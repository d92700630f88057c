# SPDX-License-Identifier: Apache-2.0
"""as_perf_samples.py FILE OUT: a .pftrace for readers before Perfetto v57.

Each StackSample becomes the PerfSample of those times: the same thread, time
and number of a callstack, so that an older trace processor looks all tables up
that samples use. States have no older form, and are left out. Every other byte
stays. A trace of compressed bundles becomes one of such bundles.
"""
import sys
import zlib

from kit import strict
from kit.timeline.check_perfetto_trace import (
    COMPRESSED, PACKET, STATE, message, plain)
from kit.check_pprof import varint

BUNDLE_BYTES = 65536
TRACK_EVENT, INTERNED, DESCRIPTOR, PERF_SAMPLE, STACK_SAMPLE = \
    11, 12, 60, 66, 135


def number(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes(encoded + bytes([value]))


def field(tag, payload):
    return number(tag << 3 | 2) + number(len(payload)) + payload


def fields(data):
    """(number, all bytes of the field, its payload); no wire type but two."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = varint(data, at)
        value, at = varint(data, at)
        payload = None
        if tag & 7 == 2:
            payload = data[at:at + value]
            at += value
        yield tag >> 3, data[begin:at], payload


def perf_sample(payload, contexts):
    values = {key: value for key, value, _ in
              ((tag, varint(whole, len(number(tag << 3)))[0], None)
               for tag, whole, _ in fields(payload))}
    pid, tid = contexts[values[2]]
    return field(PERF_SAMPLE, b"".join(
        number(tag << 3) + number(value)
        for tag, value in ((1, 0), (2, pid), (3, tid), (4, values[6]))))


def convert(data):
    contexts = {}
    for _, _, packet in fields(data):
        parsed = message(packet, PACKET)
        for interned in parsed.get("interned_data", []):
            for each in interned.get("task_contexts", []):
                contexts[each["iid"][0]] = each["pid"][0], each["tid"][0]
        out = []
        for tag, whole, payload in fields(packet):
            if tag == STACK_SAMPLE:
                whole = perf_sample(payload, contexts)
            elif tag == TRACK_EVENT and \
                    parsed["track_event"][0]["type"] == [STATE] or \
                    tag == DESCRIPTOR and \
                    "state" in parsed["track_descriptor"][0]:
                whole = b""
            out.append(whole)
        yield field(1, b"".join(out))


def bundles(packets):
    gathered = b""
    for packet in packets:
        gathered += packet
        if len(gathered) >= BUNDLE_BYTES:
            yield bundle(gathered)
            gathered = b""
    yield bundle(gathered)


def bundle(packets):
    packed = zlib.compress(packets)
    return field(1, COMPRESSED + number(len(packed)) + packed)


def main():
    data = strict.read_bytes(sys.argv[1])
    packets = plain(data)
    converted = convert(packets)
    with open(sys.argv[2], "wb") as file:
        file.writelines(converted if packets == data else bundles(converted))


if __name__ == "__main__":
    main()

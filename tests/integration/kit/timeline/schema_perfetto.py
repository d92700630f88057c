# SPDX-License-Identifier: Apache-2.0
"""schema_perfetto.py FILE: decodes a .pftrace with Perfetto's own descriptors.

They are in the PyPI package perfetto, which must be in PYTHONPATH. No field, and
no value of an enumeration, may be unknown to them; samples, states and their
names must be those that check_perfetto_trace.py reads. Exit 0 or 1.
"""
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from kit import strict
from kit.timeline import check_perfetto_trace
from kit.strict import demand


def check(path):
    data = strict.read_bytes(path)
    bundles = perfetto_trace_pb2.Trace()
    bundles.ParseFromString(data)
    packed = [packet.compressed_packets for packet in bundles.packet
              if packet.HasField("compressed_packets")]
    demand(len(packed) in (0, len(bundles.packet)), "bundles and packets")
    data = b"".join(map(zlib.decompress, packed)) or data
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)
    trace.DiscardUnknownFields()
    demand(trace.ByteSize() == len(data),
           f"{len(data) - trace.ByteSize()} bytes in unknown fields")
    mine = check_perfetto_trace.read(path)
    state = perfetto_trace_pb2.TrackEvent.TYPE_STATE
    samples = states = nanoseconds = 0
    for packet in trace.packet:
        if packet.HasField("stack_sample"):
            samples += 1
            nanoseconds += packet.stack_sample.primary_weight
        states += packet.track_event.type == state
    demand(samples == sum(map(len, mine.samples.values())), "samples")
    demand(states == sum(map(len, mine.states.values())), "states")
    demand(nanoseconds == sum(sum(stacks.values())
                              for stacks in mine.stacks().values()), "weights")
    defaults = trace.packet[0].trace_packet_defaults.stack_sample_defaults
    demand(defaults.source == "fgtrace" and defaults.primary_descriptor.unit ==
           perfetto_trace_pb2.StackSample.UNIT_NANOSECONDS, "defaults")
    return f"{samples} samples, {states} states"


if __name__ == "__main__":
    strict.main(check)

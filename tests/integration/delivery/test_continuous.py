# SPDX-License-Identifier: Apache-2.0
"""Continuous mode: chunks of the whole life of a real program arrive at a strict
server, without gap and overlap. test_continuous.py BUILD [GROUP…]"""
import collections
import gzip
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import check_pprof  # noqa: E402
from kit.daemon_bench import Daemon, run_groups, sleeper  # noqa: E402
from kit.delivery import pyroscope  # noqa: E402
from kit.real_programs import redis  # noqa: E402
from kit.sentry_server import SentryServer  # noqa: E402
from kit.transact import (  # noqa: E402
    Folder, check_wrong, dsn_of, received, until)

CHUNK_S = 3
PERIOD_S = 1 / 101


def dsn_file(bench, name, server):
    path = bench.path(name)
    with open(path, "w") as file:
        file.write(dsn_of(server) + "\n")
    os.chmod(path, 0o600)
    return path


def times_of(envelope):
    """{thread: its sample times, ordered}."""
    times = collections.defaultdict(list)
    for sample in envelope.chunk["profile"]["samples"]:
        times[sample["thread_id"]].append(sample["timestamp"])
    return {thread: sorted(found) for thread, found in times.items()}


def span_of(envelope):
    times = [one for found in times_of(envelope).values() for one in found]
    return min(times), max(times)


def by_time(envelopes):
    return sorted(envelopes, key=lambda one: span_of(one)[0])


def check_seams(checks, chunks, thread):
    """The last sample of each chunk is the first one of the next."""
    ends = [times_of(one)[thread] for one in chunks]
    seams = [after[0] - before[-1] for before, after in zip(ends, ends[1:])]
    checks.ok("chunks: each begins with the sample that the one before ends "
              "with", len(seams) >= 2 and all(abs(seam) < 1e-4
                                              for seam in seams), seams)
    merged = sorted({time for found in ends for time in found})
    gaps = [b - a for a, b in zip(merged, merged[1:])]
    checks.ok("chunks: no gap in all samples of a thread",
              max(gaps) < 20 * PERIOD_S, sorted(gaps)[-5:])
    return merged


def a_whole_life(checks, bench):
    """Redis under load from its attach to its end, in chunks of 3 s."""
    server, put = SentryServer(), SentryServer()
    folder = Folder(bench, "chunks")
    pid, load = redis(bench)
    path = dsn_file(bench, "chunks.dsn", server)
    began = time.time()
    daemon = Daemon(bench, "life", f"""
upload: {{ release = "app@1"; destinations = (
  {{ name = "sentry"; dsn_file = "{path}"; }},
  {{ name = "put"; url =
     "http://127.0.0.1:{put.port}/{{seq}}.chunk.envelope"; }} ); }};
targets = ( {{ pid = {pid}; continuous = true; continuous_s = {CHUNK_S};
  deliver = ( "sentry", "put", "{folder.path}" ); }} );""")
    until(lambda: len(server.requests) >= 3, 20)
    load.kill()
    os.kill(pid, 9)
    ended = time.time()
    until(lambda: span_of(by_time(received(bench, server))[-1])[1] >
          ended - 0.3, 10)
    time.sleep(3)  # the rest is there by then
    chunks = by_time(received(bench, server))
    check_wrong(checks, "chunks", chunks)
    checks.ok("chunks: one profiler id, a different id for each chunk",
              len({one.chunk["profiler_id"] for one in chunks}) == 1 and
              len({one.chunk["chunk_id"] for one in chunks}) == len(chunks),
              [one.chunk["chunk_id"] for one in chunks])
    checks.ok("chunks: each covers its seconds", all(
        abs(span_of(one)[1] - span_of(one)[0] - CHUNK_S) < 0.1
        for one in chunks[:-1]), [span_of(one) for one in chunks])
    merged = check_seams(checks, chunks, str(pid))
    checks.ok("chunks: the samples cover the whole life",
              merged[0] - began < 1.5 and abs(merged[-1] - ended) < 0.3,
              (merged[0] - began, merged[-1] - ended))
    checks.ok("chunks: the same in a directory",
              until(lambda: len(folder.names()) == len(chunks)),
              (folder.names(), len(chunks)))
    puts = received(bench, put)
    checks.ok("chunks: the same by PUT, under the same profiler id",
              sorted(map(span_of, puts)) == sorted(map(span_of, chunks)) and
              {one.chunk["profiler_id"] for one in puts} ==
              {one.chunk["profiler_id"] for one in chunks},
              [(span_of(one), one.chunk["profiler_id"]) for one in puts])
    time.sleep(2)  # another chunk would be there by then
    checks.ok("chunks: none follows the last one",
              len(server.requests) == len(chunks), len(server.requests))
    daemon.end()
    server.close()
    put.close()


def chunks_of_sums(checks, bench):
    """pprof for Pyroscope: chunks adjoin, and each tick counts once."""
    refusals = []
    server = SentryServer(pyroscope.script(pyroscope.check_ingest, refusals))
    folder = bench.path("sums")
    os.makedirs(folder)
    child = sleeper(bench)
    daemon = Daemon(bench, "sums", f"""
upload: {{ destinations = (
  {{ name = "lab"; url = "http://127.0.0.1:{server.port}/ingest"; }},
  {{ name = "files"; directory = "{folder}"; format = "pprof"; }} ); }};
targets = ( {{ pid = {child.pid}; continuous = true; continuous_s = 2; }} );""")
    until(lambda: len(server.requests) >= 3 and
          len(os.listdir(folder)) >= 3, 20)
    checks.ok("sums: Pyroscope accepts each chunk", len(server.requests) >= 3
              and not refusals, refusals[:3])
    chunks = []
    for name in os.listdir(folder):
        if name.endswith(".pb.gz"):
            with gzip.open(os.path.join(folder, name)) as file:
                chunks.append(check_pprof.Profile(file.read()))
    times = sorted((check_pprof.one(one.raw, "time_nanos"),
                    check_pprof.one(one.raw, "duration_nanos"))
                   for one in chunks)
    gaps = [(after[0] - before[0] - before[1]) / 1e9
            for before, after in zip(times, times[1:])]
    checks.ok("sums: each begins where the one before ends", len(gaps) >= 2
              and all(abs(gap) < 3 * PERIOD_S for gap in gaps), gaps)
    ticks = sum(sample["value"][0] for one in chunks
                for sample in one.raw["sample"])
    seconds = (times[-1][0] + times[-1][1] - times[0][0]) / 1e9
    checks.ok("sums: each tick counts once",
              abs(ticks - seconds / PERIOD_S) <= 0.02 * ticks,
              (ticks, seconds))
    daemon.end()
    server.close()


CROWD = """
import threading, time
def nap():
    while True:
        time.sleep(0.2)
for _ in range(300):
    threading.Thread(target=nap, daemon=True).start()
nap()
"""


def a_lowered_rate(checks, bench):
    """So many threads that a tick comes every few seconds only."""
    server = SentryServer()
    child = bench.start([sys.executable, "-c", CROWD])
    path = dsn_file(bench, "rare.dsn", server)
    daemon = Daemon(bench, "rare", f"""
sampling: {{ max_cpu_percent = 0.1; }}; ring: {{ seconds = 60; }};
upload: {{ destinations = ( {{ dsn_file = "{path}"; }} ); }};
targets = ( {{ pid = {child.pid}; continuous = true; continuous_s = 7; }} );""")
    until(lambda: len(server.requests) >= 5, 90)
    chunks = by_time(received(bench, server))
    check_wrong(checks, "rare", chunks)
    ends = [times_of(one)[str(child.pid)] for one in chunks]
    seams = [after[0] - before[-1] for before, after in zip(ends, ends[1:])]
    rate = daemon.status()["targets"][0]["rate_hz"]
    checks.ok("a lowered rate: it is less than 1 Hz", rate < 1, rate)
    checks.ok("a lowered rate: each chunk begins with the sample that the one "
              "before ends with", len(seams) >= 3 and
              all(abs(seam) < 1e-4 for seam in seams), seams)
    daemon.end()
    server.close()


def the_agent_ends(checks, bench):
    """SIGTERM: what has not been delivered leaves before the agent."""
    server = SentryServer()
    pid, load = redis(bench)
    path = dsn_file(bench, "leave.dsn", server)
    daemon = Daemon(bench, "leave", f"""
upload: {{ destinations = ( {{ dsn_file = "{path}"; }} ); }};
targets = ( {{ pid = {pid}; continuous = true; continuous_s = 20; }} );""")
    time.sleep(3)  # the chunk is far from complete
    ended = time.time()
    daemon.end()
    found = received(bench, server)
    checks.ok("leaving: the last chunk arrives, up to the end",
              len(found) == 1 and abs(span_of(found[0])[1] - ended) < 1,
              (len(found), daemon.log_text()[-400:]))
    load.kill()
    server.close()


def a_rule_is_removed(checks, bench):
    """A reload without the rule, or with other places: what has not been
    delivered goes to the former places, and the rest to the new ones."""
    server, folder = SentryServer(), Folder(bench, "moved")
    staying, leaving = sleeper(bench), sleeper(bench)
    path = dsn_file(bench, "moved.dsn", server)

    def config(destinations, *targets):
        return f"upload: {{ destinations = ( {destinations} ); }};\n" \
            f"targets = ( {', '.join(targets)} );"

    def rule(child, place):
        return f'{{ pid = {child.pid}; continuous = true; ' \
            f'continuous_s = 20; deliver = "{place}"; }}'

    daemon = Daemon(bench, "moved", config(
        f'{{ name = "sentry"; dsn_file = "{path}"; }}',
        rule(staying, "sentry"), rule(leaving, "sentry")))
    time.sleep(3)  # the chunks are far from complete
    daemon.write_config(config("", rule(staying, folder.path)))
    removed = time.time()
    daemon.child.send_signal(signal.SIGHUP)
    until(lambda: len(server.requests) == 2, 10)
    found = received(bench, server)
    check_wrong(checks, "removed", found)
    checks.ok("removed: the last chunks arrive, up to the reload, although "
              "their destination is removed with the rules",
              len(found) == 2 and all(abs(span_of(one)[1] - removed) < 1
                                      for one in found),
              (len(found), daemon.log_text()[-600:]))
    time.sleep(2)
    daemon.end()
    moved = folder.read()
    checks.ok("moved: the life goes on with another place, in one chunk",
              len(moved) == 1 and len(server.requests) == 2,
              (folder.names(), len(server.requests)))
    before = [one for one in found if moved and str(staying.pid) in
              times_of(one)]
    checks.ok("moved: … under the same profiler id, without a gap",
              len(before) == 1 and before[0].chunk["profiler_id"] ==
              moved[0].chunk["profiler_id"] and
              abs(span_of(before[0])[1] - span_of(moved[0])[0]) < 1e-4,
              [span_of(one) for one in before + moved])
    server.close()


if __name__ == "__main__":
    run_groups([a_whole_life, chunks_of_sums, a_lowered_rate, the_agent_ends,
                a_rule_is_removed])

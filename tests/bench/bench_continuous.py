# SPDX-License-Identifier: Apache-2.0
"""What continuous mode costs a host: CPU time of the agent and all its children
beside one busy target, sampled only and with its life delivered in chunks to a
server on this machine. By hand, as root:
bench_continuous.py BUILD [SECONDS [CHUNK_SECONDS]]"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "integration"))
from kit.daemon_bench import Daemon  # noqa: E402
from kit.harness import Bench  # noqa: E402
from kit.real_programs import redis  # noqa: E402
from kit.sentry_server import SentryServer  # noqa: E402
from kit.transact import dsn_of  # noqa: E402

TICKS_S = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def children_of(pid):
    found = []
    for name in os.listdir("/proc"):
        stat = stat_of(name) if name.isdigit() else None
        if stat and int(stat[1]) == pid:
            found.append(int(name))
    return found


def cpu_seconds(pid):
    """Of a process, what it has waited for, and its living children."""
    total = 0
    for one in [pid, *children_of(pid)]:
        stat = stat_of(one)
        if stat:
            total += sum(map(int, stat[11:15]))
    return total / TICKS_S


def row(bench, name, seconds, pid, server, keys):
    path = bench.path("bench.dsn")
    with open(path, "w") as file:
        file.write(dsn_of(server) + "\n")
    os.chmod(path, 0o600)
    daemon = Daemon(bench, name.replace(" ", "-"), f"""
upload: {{ destinations = ( {{ dsn_file = "{path}"; }} ); }};
targets = ( {{ pid = {pid}; {keys} }} );""")
    time.sleep(5)  # unwind rules and names are cached then
    before = cpu_seconds(daemon.child.pid)
    first, sent = len(server.requests), 0
    missed = daemon.status()["targets"][0]["missed_ticks"]
    time.sleep(seconds)
    used = cpu_seconds(daemon.child.pid) - before
    sent = sum(len(one.body) for one in server.requests[first:])
    status = daemon.status()
    print(f"{name:24s} {1000 * used / seconds:8.2f} CPU ms/s "
          f"{sent / seconds / 1000:8.2f} kB/s on the wire, "
          f"{len(server.requests) - first:3d} chunks, "
          f"{status['deliveries_failed']} failed, missed ticks "
          f"{status['targets'][0]['missed_ticks'] - missed}", flush=True)
    daemon.end()


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    chunk_s = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    bench, server = Bench(sys.argv[1]), SentryServer()
    try:
        pid, _ = redis(bench)
        for turn in (1, 2):
            row(bench, f"sampled {turn}", seconds, pid, server, "")
            row(bench, f"continuous {chunk_s} s {turn}", seconds, pid, server,
                f"continuous = true; continuous_s = {chunk_s};")
    finally:
        bench.close()
        server.close()


if __name__ == "__main__":
    main()

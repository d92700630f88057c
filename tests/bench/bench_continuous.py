# SPDX-License-Identifier: Apache-2.0
"""What continuous mode costs a host: CPU time of two agents, each with all its
children, beside one busy target at the same time; the one only samples it, the
other delivers its life in chunks to a server on this machine. As root:
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

TURNS = 2
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


class Side:
    """An agent of the pair; keys: of its target."""

    def __init__(self, bench, name, pid, keys):
        self.name, self.server = name, SentryServer()
        path = bench.path(f"{name}.dsn")
        with open(path, "w") as file:
            file.write(dsn_of(self.server) + "\n")
        os.chmod(path, 0o600)
        self.daemon = Daemon(bench, name, f"""
upload: {{ destinations = ( {{ dsn_file = "{path}"; }} ); }};
targets = ( {{ pid = {pid}; {keys} }} );""")

    def begin(self):
        self.used_s = cpu_seconds(self.daemon.child.pid)
        self.requests = len(self.server.requests)
        self.missed = self.daemon.status()["targets"][0]["missed_ticks"]

    def end(self, seconds):
        """CPU ms a second of the agent and all its children."""
        used_s = cpu_seconds(self.daemon.child.pid) - self.used_s
        requests = self.server.requests[self.requests:]
        status = self.daemon.status()
        missed = status["targets"][0]["missed_ticks"] - self.missed
        sent = sum(len(one.body) for one in requests)
        print(f"  {self.name:11s} {1000 * used_s / seconds:7.2f} CPU ms/s, "
              f"{sent * 60 / seconds / 1000:8.1f} kB a minute on the wire, "
              f"{len(requests):3d} chunks, {status['deliveries_failed']} "
              f"failed, missed ticks {missed}", flush=True)
        return 1000 * used_s / seconds

    def close(self):
        self.daemon.end()
        self.server.close()


def turn(sides, seconds):
    for side in sides:
        side.begin()
    time.sleep(seconds)
    without, with_it = [side.end(seconds) for side in sides]
    return with_it - without


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    chunk_s = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    bench, sides = Bench(sys.argv[1]), []
    try:
        pid, _ = redis(bench)
        print(f"continuous mode: two agents beside one busy redis-server, "
              f"{TURNS} windows of {seconds} s, chunks of {chunk_s} s")
        sides.append(Side(bench, "sampled", pid, ""))
        sides.append(Side(bench, "continuous", pid, "continuous = true; "
                          f"continuous_s = {chunk_s};"))
        time.sleep(chunk_s)  # unwind rules and names are cached then
        more = [turn(sides, seconds) for _ in range(TURNS)]
        print(f"  continuous mode costs {sum(more) / TURNS:.2f} CPU ms/s more "
              f"({', '.join(f'{each:.2f}' for each in more)})")
    finally:
        for side in sides:
            side.close()
        bench.close()


if __name__ == "__main__":
    main()

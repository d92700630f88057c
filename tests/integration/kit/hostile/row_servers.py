# SPDX-License-Identifier: Apache-2.0
"""Row servers (fault U6): one that does not answer, or dies, costs the stacks of
its user's programs until the next one, with a marker, and nothing else."""
import os
import signal
import subprocess
import time

from kit.daemon_bench import Daemon

LATE = "[truncated: unwind rule not read yet]"
PHASES = """
#include <stdio.h>
#include <unistd.h>
#define PHASE(n) \\
	__attribute__((noinline)) int phase##n(char *to) \\
	{ \\
		volatile char room[64 + 16 * n]; \\
		room[n] = 1; \\
		return (int)read(0, to, 1) + room[n]; \\
	}
PHASE(1) PHASE(2) PHASE(3) PHASE(4)
int main(void)
{
	char line;

	puts("ready");
	fflush(stdout);
	return phase1(&line) + phase2(&line) + phase3(&line) + phase4(&line);
}
"""


class Phased:
    """A program that is blocked in phase1 until the next phase is asked for."""

    def __init__(self, bench, daemon, path, **arguments):
        self.bench, self.daemon = bench, daemon
        self.child = bench.start([path], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, **arguments)
        self.child.stdout.readline()
        daemon.attach(self.child.pid)

    def go_on(self):
        self.child.stdin.write(b"x")
        self.child.stdin.flush()

    def stack(self, seconds=0.1):
        """The last one of that time."""
        run = self.bench.run("--socket", self.daemon.socket, "slice",
                             "--last", f"{int(seconds * 1000)}ms", "-p",
                             str(self.child.pid), "-f", "folded", "-o", "-")
        return run.stdout

    def is_in(self, phase):
        return self.daemon.until(lambda: f"main;{phase};" in self.stack() and
                                 "[" not in self.stack(), 15)

    def ticks(self):
        target, = (each for each in self.daemon_targets()
                   if each["pid"] == self.child.pid)
        return target["ticks"], target["missed_ticks"]

    def daemon_targets(self):
        from kit.daemon_client import call
        return call(self.daemon.socket, "targets")["targets"]


def servers(daemon):
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if name == "fgt-rows" and int(rest.split()[1]) == daemon.child.pid:
            found.add(int(pid))
    return found


def confinement_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file
                    if ":\t" in line)


def row_servers_cost_their_user_only(checks, bench, compile_text):
    daemon = Daemon(bench, "rows")
    path = compile_text(bench, "phased", PHASES)
    victim = Phased(bench, daemon, path, as_nobody=True)
    checks.ok("stacks come from a row server", victim.is_in("phase1") and
              len(servers(daemon)) == 1, (victim.stack(), servers(daemon)))
    server, = servers(daemon)
    status = confinement_of(server)
    uids = set(status["Uid"].split())
    checks.ok("… which has no rights",
              len(uids) == 1 and not uids & {"0", "65534"} and
              int(status["CapEff"], 16) == 0 and status["Seccomp"] == "2" and
              status["NoNewPrivs"] == "1", status)
    other = Phased(bench, daemon, path)
    checks.ok("root's program has another one", other.is_in("phase1") and
              len(servers(daemon)) == 2, servers(daemon))

    os.kill(server, signal.SIGSTOP)
    before, missed = other.ticks()
    began = time.monotonic()
    victim.go_on()
    other.go_on()
    checks.ok("root's program has its stack meanwhile",
              other.is_in("phase2"), other.stack())
    checks.ok("a thread that stays blocked has its stack from the next one",
              victim.is_in("phase2"), victim.stack())
    took = time.monotonic() - began
    now, missed_now = other.ticks()
    checks.ok("… until then it ended with a marker", LATE in
              victim.stack(time.monotonic() - began),
              victim.stack(time.monotonic() - began))
    checks.ok("root's program loses no tick meanwhile",
              missed_now - missed <= 2 and now - before > 90 * took,
              (now - before, missed_now - missed, took))
    checks.ok("the server that did not answer is gone",
              server not in servers(daemon), servers(daemon))

    for pid in servers(daemon):
        os.kill(pid, signal.SIGKILL)
    victim.go_on()
    other.go_on()
    checks.ok("killed servers are started again",
              victim.is_in("phase3") and other.is_in("phase3"),
              (victim.stack(), other.stack()))
    running = servers(daemon)
    daemon.end()
    checks.ok("servers end with the daemon", running and not any(
        os.path.exists(f"/proc/{pid}") for pid in running), running)

# SPDX-License-Identifier: Apache-2.0
"""Programs with a network and mounts of their own: what they deliver arrives
where they mean. The agent with mounts and rights of its service unit.
test_namespaces.py BUILD [GROUP…]"""
import ctypes
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

from kit import real_programs
from kit.daemon_bench import Daemon, run_groups, sleeper
from kit.harness import NOBODY, read_until
from kit.installed_service import Service, install
from kit.sentry_server import Authority, SentryServer
from kit.stage import Stage
from kit.stuck_fs import (
    process_that_is_stopped_does_not_hang, sampler_that_hangs_is_reported)
from kit.transact import (
    EVERY, Folder, Program, check_wrong, dsn_of, until)
from test_transactions import request

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
EXPOSURE_MAX = 4.0  # of 10; 3.6 by systemd 252
libc = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result:
        raise OSError(ctypes.get_errno(), "namespaces")


def new_network():
    """Of this thread; with a loopback device that is up."""
    must(libc.unshare(CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS,
                    struct.pack("16sH14x", b"lo", IFF_UP))


class OtherNetwork:
    """Of a thread, with a server in it."""

    def __init__(self):
        thread = threading.Thread(target=self._make)
        thread.start()
        thread.join()

    def _make(self):
        new_network()
        self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.server = SentryServer()

    def enter(self):
        must(libc.setns(self.fd, CLONE_NEWNET))

    def close(self):
        self.server.close()
        os.close(self.fd)


def posts_stay_in_the_programs_network(checks, bench):
    """127.0.0.1 of the program is not the daemon's."""
    daemon, network, here = Daemon(bench, "net"), OtherNetwork(), \
        SentryServer()
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(here), prepare=network.enter,
                      **EVERY)
    request(program, "nap 60")
    checks.ok("one in the daemon's network is not found", daemon.until(
        lambda: "delivery_retry" in daemon.log_text() or
        "undelivered" in daemon.log_text(), 20) and not here.requests,
        (here.requests, daemon.log_text()[-500:]))
    program.close()
    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=dsn_of(network.server),
                      prepare=network.enter, **EVERY)
    request(program, "nap 60")
    checks.ok("an envelope reaches the server in the program's network",
              daemon.until(lambda: network.server.requests, 20),
              daemon.log_text()[-500:])
    program.close()
    daemon.end()
    for each in (network, here):
        each.close()


def directories_are_the_programs(checks, bench):
    """A mount that only the program has, and a link that leads out of its
    root."""
    daemon = Daemon(bench, "mounts")
    folder = bench.path("out")
    os.makedirs(folder)

    def mount():
        must(libc.unshare(CLONE_NEWNS))
        must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        must(libc.mount(b"out", folder.encode(), b"tmpfs", 0, None))

    program = Program(bench, mode="agent", socket=daemon.socket,
                      destination=folder, prepare=mount, **EVERY)
    request(program, "nap 60")
    inside = f"/proc/{program.pid}/root{folder}"
    checks.ok("an envelope appears in the program's directory", daemon.until(
        lambda: any(name.endswith(".envelope")
                    for name in os.listdir(inside)), 20),
        daemon.log_text()[-500:])
    checks.ok("and not in the one that the daemon has by that name",
              not os.listdir(folder), os.listdir(folder))
    program.close()
    daemon.end()


# ---- The service unit, as it is installed ----------------------------------

def children_of(pid, name):
    found = []
    for child in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{child}/stat") as file:
                head, rest = file.read().rsplit(")", 1)
        except OSError:
            continue
        if head.endswith(f"({name}") and int(rest.split()[1]) == pid:
            found.append(int(child))
    return found


def busy_of_nobody(bench, stage, name):
    """A program with symbols; its pid."""
    child = bench.start([stage.program(name), "shares", "120"],
                        as_nobody=True, stdout=subprocess.PIPE, text=True)
    return int(read_until(child.stdout, "ready "))


def separate_symbols(stage, name, linked):
    """A copy of a program, of another build, that names a file with its symbols
    beside it, which the agent opens as the program's user."""
    section = ".note.gnu.build-id"
    path, debug, note = (stage.program(linked + ending)
                         for ending in ("", ".debug", ".note"))
    subprocess.run(["objcopy", "--dump-section", f"{section}={note}",
                    stage.program(name), path], check=True)
    with open(note, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    for words in (("--update-section", f"{section}={note}", path),
                  ("--only-keep-debug", path, debug),
                  ("--strip-all", f"--add-gnu-debuglink={debug}", path)):
        subprocess.run(["objcopy", *words], check=True)
    os.chmod(debug, 0o644)


def functions_of(checks, bench, service, pid, name):
    """Those of a slice of its last second."""
    out = bench.path(f"{name}.folded")
    result = bench.run("--socket", service.socket, "slice", "-p", str(pid),
                       "--last", "1s", "-o", out, timeout=60)
    if not checks.ok(f"{name}: a slice", result.returncode == 0,
                     result.stderr):
        return ""
    with open(out) as file:
        return file.read()


def service_sees(checks, bench, service, stage):
    """What it may use, and stacks with names of two users' programs."""
    outside = Daemon(bench, "outside")
    keys = [key for key in outside.status() if key.startswith("has_")]
    seen = [{key: daemon.status()[key] for key in keys}
            for daemon in (outside, service)]
    outside.end()
    checks.ok("service: samples with all that a daemon of root has",
              keys and seen[0] == seen[1], (seen, service.log_text()[-800:]))
    redis, _ = real_programs.redis(bench)
    separate_symbols(stage, "truth-fp", "truth-linked")
    programs = ((redis, "redis", "aeMain"),
                (busy_of_nobody(bench, stage, "truth-nofp"), "nobody", "burn_"),
                (busy_of_nobody(bench, stage, "truth-linked"), "linked",
                 "burn_"))
    for pid, _, _ in programs:
        service.attach(pid)
    time.sleep(1.5)
    for pid, name, function in programs:
        stacks = functions_of(checks, bench, service, pid, name)
        checks.ok(f"service: {name}: stacks have names", function in stacks,
                  stacks[:500])
    return redis


def service_ends_helpers(checks, bench, service, stage, pid):
    """Both need CAP_KILL: a helper that was stopped answers no alarm."""
    daemon = service.child.pid

    def helpers():
        return children_of(daemon, "fgt-symbols")

    for number, name in ((signal.SIGKILL, "killed"),
                         (signal.SIGSTOP, "stopped")):
        before = helpers()
        if not checks.ok(f"service: a helper runs before one is {name}",
                         before, service.log_text()[-300:]):
            return
        for helper in before:
            os.kill(helper, number)
        # Programs that it has no names of. A user's helper is asked for its
        # programs only, so both users have one.
        others = [busy_of_nobody(bench, stage, "truth-fp")] \
            if name == "killed" else \
            [bench.start(["openssl", "speed", "-seconds", "60", "sha256"],
                         as_nobody=as_nobody, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL).pid
             for as_nobody in (False, True)]
        for other in others:
            service.attach(other)
        time.sleep(1.5)
        for other in others:
            functions_of(checks, bench, service, other, f"{name}-{other}")
        functions_of(checks, bench, service, pid, f"{name}-later")
        left = set(before) & set(helpers())
        checks.ok(f"service: a helper that was {name} is gone", not left,
                  (before, helpers()))
        for helper in left:
            os.kill(helper, signal.SIGKILL)


def service_delivers(checks, bench, service, stage, server):
    """By https and to a directory, of root and of another user."""
    for as_nobody in (False, True):
        who = "nobody" if as_nobody else "root"
        folder = Folder(bench, f"service-{who}", NOBODY if as_nobody else None)
        for kind, destination in (
                ("https", dsn_of(server, "https", "localhost")),
                ("directory", folder.path)):
            count = len(server.requests)
            program = Program(bench, as_nobody, stage.program("transact"),
                              mode="agent", socket=service.socket,
                              destination=destination, **EVERY)
            request(program, "burn 300")
            checks.ok(f"service: {kind}: a delivery of {who} arrives", until(
                lambda: folder.names() if kind == "directory" else
                len(server.requests) > count),
                (program.log_text(), service.log_text()[-800:]))
            program.close()
        check_wrong(checks, f"service: {who}", folder.read())


def post_from_another_network(bench, service, network):
    program = Program(bench, mode="agent", socket=service.socket,
                      destination=dsn_of(network.server),
                      prepare=network.enter, **EVERY)
    request(program, "nap 60")
    return program


def service_refuses_networks(checks, bench, service):
    network = OtherNetwork()
    program = post_from_another_network(bench, service, network)
    checks.ok("service: a program with another network is refused, with the "
              "remedy", until(lambda: "RestrictNamespaces=net" in
                              service.log_text()), service.log_text()[-800:])
    checks.ok("service: nothing was posted", not network.server.requests)
    program.close()
    folder = Folder(bench, "service-network")
    program = Program(bench, mode="agent", socket=service.socket,
                      destination=folder.path, prepare=network.enter, **EVERY)
    request(program, "nap 60")
    checks.ok("service: a directory is the remedy, too", until(folder.names),
              service.log_text()[-800:])
    program.close()
    network.close()


def service_with_drop_in(checks, bench):
    """What the unit's comments name for programs with another network."""
    network = OtherNetwork()
    service = Service(bench, "drop-in", drop_in="RestrictNamespaces=net\n"
                      "CapabilityBoundingSet=CAP_SYS_ADMIN\n")
    try:
        program = post_from_another_network(bench, service, network)
        checks.ok("service: with the drop-in it posts in another network",
                  until(lambda: network.server.requests),
                  service.log_text()[-800:])
        program.close()
    finally:
        service.end()
        network.close()


def service_as_installed(checks, bench):
    """The unit's capabilities, mounts, limits and system calls leave the agent
    all that it needs."""
    authority = Authority(bench.path("authority"))
    os.chmod(authority.folder, 0o755)
    os.chmod(authority.certificate, 0o644)
    server = SentryServer(tls=authority.context("good"))
    stage = Stage(bench, ["transact"])
    config = f'upload: {{ ca_file = "{authority.certificate}"; }};\n'
    service = Service(bench, "service", config, "Group=nogroup\n")
    try:
        redis = service_sees(checks, bench, service, stage)
        service_delivers(checks, bench, service, stage, server)
        service_ends_helpers(checks, bench, service, stage, redis)
        service_refuses_networks(checks, bench, service)
        service.write_config(config + 'log: { level = "debug"; };\n')
        service.reload()
        checks.ok("service: reloads", until(
            lambda: service.status()["reloads"] == 1),
            service.log_text()[-300:])
    finally:
        took = service.end()
    if service.manager:
        lines = [line.split("=")[0] if line.startswith("MONOTONIC") else line
                 for line in service.manager.lines if line != "WATCHDOG=1"]
        checks.ok("service: its manager learns what it does", lines == [
            "READY=1", "STATUS=sampling", "RELOADING=1", "MONOTONIC_USEC",
            "READY=1", "STOPPING=1", "STATUS=leaving"], lines)
    checks.ok("service: stops within TimeoutStopSec=", took < float(
        service.unit.one("TimeoutStopSec")), took)
    server.close()


def service_is_watched(checks, bench):
    """By signs of life to the service manager."""
    service = Service(bench, "watched", drop_in="WatchdogSec=10s\n")
    target = sleeper(bench).pid
    try:
        service.attach(target)
        process_that_is_stopped_does_not_hang(checks, service, target)
        sampler_that_hangs_is_reported(checks, bench, service, target)
        if service.manager:
            checks.ok("service: sends signs of life",
                      service.manager.has("WATCHDOG=1", 6),
                      service.manager.lines)
    finally:
        service.end()


def unit_is_rated(checks, bench):
    """By systemd, of what it leaves to an intruder."""
    unit, _ = install(bench, "rated")
    text = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True, text=True).stdout
    found = re.search(r"Overall exposure level .*: ([\d.]+)", text)
    print(f"# exposure: {found and found.group(1)}")
    checks.ok(f"systemd rates the unit's exposure {EXPOSURE_MAX} at most",
              found and float(found.group(1)) <= EXPOSURE_MAX, text[-300:])

def main():
    if os.getuid() != 0:
        print("# skipped: only root makes namespaces")
        print("1..0")
        return
    run_groups((posts_stay_in_the_programs_network,
                directories_are_the_programs, service_as_installed,
                service_is_watched, service_with_drop_in, unit_is_rated))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A daemon as its service unit starts it: by systemd where that is the
machine's first process, else in kit/service_sandbox.py."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

from kit import service_sandbox
from kit.daemon_bench import Daemon
from kit.harness import KIT

SYSTEMD = "/run/systemd/system"  # exists where systemd runs
UNIT = "lib/systemd/system/fgtrace-agent.service"


def install(bench, name):
    """Paths of the unit and of the configuration that it names."""
    prefix = bench.path(name + "-prefix")
    subprocess.run(["cmake", "--install", bench.build, "--prefix", prefix],
                   check=True, capture_output=True)
    return (os.path.join(prefix, UNIT),
            os.path.join(prefix, "etc/fgtrace/fgtrace.conf"))


def write_drop_in(unit_path, text):
    os.makedirs(unit_path + ".d")
    with open(unit_path + ".d/drop-in.conf", "w") as file:
        file.write("[Service]\n" + text)


class Manager:
    """The socket of a service manager."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.lines = []

    def environment(self, watchdog_seconds):
        return {"NOTIFY_SOCKET": self.path,
                "WATCHDOG_USEC": str(int(watchdog_seconds * 10**6))}

    def read(self):
        """All lines so far."""
        while True:
            try:
                message = self.socket.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return self.lines
            self.lines += message.decode().split("\n")

    def has(self, line, seconds=5):
        end = time.monotonic() + seconds
        while line not in self.read() and time.monotonic() < end:
            time.sleep(0.05)
        return line in self.lines

    def close(self):
        self.socket.close()
        os.unlink(self.path)


def seconds_of(text):
    """Of a time as systemd.time(7) has it."""
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * {"": 1, "s": 1, "min": 60}[unit]


class Service(Daemon):
    """The unit's program; drop_in: lines of [Service]."""

    def __new__(cls, *_arguments, **_more):
        return super().__new__(SystemdService if os.path.isdir(SYSTEMD)
                               else SandboxedService)

    def __init__(self, bench, name, config="", drop_in=""):
        self.bench, self.name, self.folder = bench, name, bench.path(name)
        self.unit_path, self.config = install(bench, name)
        self.log = self.folder + ".log"
        self.write_config(config)
        self.drop_in = drop_in
        self.prepare()
        write_drop_in(self.unit_path, self.drop_in)
        self.unit = service_sandbox.Unit(self.unit_path)
        self.start()


class SandboxedService(Service):

    def prepare(self):
        for part in ("run", "lib"):
            os.makedirs(os.path.join(self.folder, part))
        os.chmod(self.folder, 0o755)
        os.chmod(os.path.join(self.folder, "run"), 0o750)
        self.socket = os.path.join(self.folder, "run", "agent.sock")
        # In the sandbox, folders of the test lie above these.
        self.manager = Manager(self.folder)
        self.made = [path for path in ("/run/fgtrace", "/var/lib/fgtrace")
                     if not os.path.isdir(path)]
        for path in self.made:
            os.mkdir(path, 0o750)

    def command(self):
        return [sys.executable, "-m", "kit.service_sandbox", self.unit_path,
                self.folder]

    def start(self):
        super().start(env={
            **os.environ, "PYTHONPATH": os.path.dirname(KIT),
            **self.manager.environment(seconds_of(
                self.unit.one("WatchdogSec")))})

    def reload(self):
        subprocess.run(self.unit.reload_command(self.child.pid), check=True)

    def end(self, number=signal.SIGTERM):
        try:
            return super().end(number)
        finally:
            self.manager.read()
            self.manager.close()
            for path in self.made:
                with contextlib.suppress(OSError):  # another one uses it
                    os.rmdir(path)


class SystemdChild:
    """What Daemon needs of a child."""

    def __init__(self, name):
        self.name = name
        self.pid = int(self.show("MainPID"))

    def show(self, key):
        return subprocess.run(["systemctl", "show", "-p", key, "--value",
                               self.name], capture_output=True, text=True,
                              check=True).stdout.strip()

    def poll(self):
        return None if self.show("ActiveState") == "active" else 1


class SystemdService(Service):
    """Under another name: the machine may have the service itself."""
    manager = None  # systemd

    def prepare(self):
        folder = f"fgtrace-test-{os.getpid()}-{self.name}"
        self.unit_name = folder + ".service"
        with open(self.unit_path) as file:
            text = file.read()
        self.unit_path = os.path.join(SYSTEMD, self.unit_name)
        text = re.sub(r"^(\w+Directory=)fgtrace$", rf"\1{folder}", text,
                      flags=re.M)
        with open(self.unit_path, "w") as file:
            file.write(text.replace("/run/fgtrace/", f"/run/{folder}/"))
        self.socket = f"/run/{folder}/agent.sock"
        self.drop_in += f"StandardError=append:{self.log}\n"

    def start(self):
        open(self.log, "a").close()
        for words in (["daemon-reload"], ["start", self.unit_name]):
            subprocess.run(["systemctl", *words], check=True)
        self.child = SystemdChild(self.unit_name)
        self.wait()

    def reload(self):
        subprocess.run(["systemctl", "reload", self.unit_name], check=True)

    def end(self, number=signal.SIGTERM):
        began = time.monotonic()
        subprocess.run(["systemctl", "stop", self.unit_name], check=True)
        took = time.monotonic() - began
        status = self.child.show("ExecMainStatus")
        os.remove(self.unit_path + ".d/drop-in.conf")
        os.rmdir(self.unit_path + ".d")
        os.remove(self.unit_path)
        subprocess.run(["systemctl", "daemon-reload"], check=True)
        if status != "0":
            raise RuntimeError(f"left with {status}: "
                               f"{self.log_text()[-2000:]}")
        return took

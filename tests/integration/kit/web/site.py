# SPDX-License-Identifier: Apache-2.0
"""A daemon that serves HTTP, and its target."""
import subprocess

from kit.daemon_bench import Daemon, sleeper
from kit.daemon_client import call
from kit.harness import as_user
from kit.web.client import ask

HTTP = 'http: { listen = "127.0.0.1:0"; };'


class Site:
    """A daemon with an HTTP server and one busy target."""

    def __init__(self, bench, name, config=HTTP, is_busy=True, **arguments):
        self.bench = bench
        self.daemon = Daemon(bench, name, config, **arguments)
        status = self.daemon.status()
        self.port = int(status["http_address"].rpartition(":")[2])
        self.url, _, self.token = status["http_url"].partition("?token=")
        self.url = self.url.rstrip("/")
        self.target = bench.start([bench.program("truth-fp"), "kinds", "600"],
                                  stdout=subprocess.DEVNULL) \
            if is_busy else sleeper(bench)
        self.daemon.attach(self.target.pid)

    def get(self, target, *headers, **more):
        return ask(self.port, target, f"Authorization: Bearer {self.token}",
                   *headers, **more)

    def wait_for_ticks(self, ticks=100):
        def has_ticks():
            targets = call(self.daemon.socket, "targets")["targets"]
            return any(t["ticks"] > ticks for t in targets)
        return self.daemon.until(has_ticks, 30)

    def curl(self, target, *flags, as_nobody=False):
        return subprocess.run(
            as_user(["curl", "-sS", "-m", "60", *flags, self.url + target],
                    as_nobody), capture_output=True, check=False)

    def process(self):
        """The pid of the HTTP process."""
        pid = self.daemon.child.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
        for child in children:
            try:
                with open(f"/proc/{child}/comm") as file:
                    if file.read() == "fgt-http\n":
                        return int(child)
            except OSError:
                pass
        return 0

    def close(self):
        self.target.kill()
        self.target.wait()
        self.daemon.end()

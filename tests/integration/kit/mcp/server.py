# SPDX-License-Identifier: Apache-2.0
"""`fgtrace-agent mcp`: by client libraries from npm, and by lines of bytes."""
import json
import os
import select
import subprocess
import time

from kit.harness import KIT, as_user

# Clients of the revision 2025-11-25, and of 2026-07-28, which needs node 20.
PACKAGES = {"legacy": "@modelcontextprotocol/sdk@1.32.2",
            "modern": "@modelcontextprotocol/client@2.4.0"}
WAIT_S = 40


def bring(bench):
    """npm installs the libraries below the build, once; (folder, why not)."""
    folder = os.path.join(bench.build, "mcp-clients")
    if not os.path.isdir(folder):
        result = subprocess.run(
            ["npm", "install", "--loglevel=error", "--ignore-scripts",
             "--no-audit", "--no-fund", "--prefix", folder + ".new",
             *PACKAGES.values()], text=True, capture_output=True, check=False)
        if result.returncode:
            return None, result.stderr[:500]
        os.rename(folder + ".new", folder)
    return folder, ""


def node_version():
    out = subprocess.run(["node", "--version"], text=True,
                         capture_output=True, check=False).stdout
    return int(out.lstrip("v").split(".")[0] or 0)


def by_library(bench, folder, era, socket, steps, **more):
    """What the server is, then each step's result."""
    result = subprocess.run(
        ["node", os.path.join(KIT, "mcp", "client.mjs"), folder, era,
         bench.agent, "mcp", "--socket", socket], input=json.dumps(steps),
        text=True, capture_output=True, timeout=300, check=False, **more)
    if result.returncode:
        raise RuntimeError(result.stderr[-2000:])
    return json.loads(result.stdout)


class Lines:
    """A server, and the lines that it writes."""

    def __init__(self, bench, socket, as_nobody=False, agent=None, **more):
        self.child = bench.start(
            as_user([agent or bench.agent, "mcp", "--socket", socket],
                    as_nobody),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **more)
        self.rest = b""

    def send(self, line):
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.child.stdin.write(data + b"\n")

    def read(self, wait_s=WAIT_S):
        """The next line as JSON; None: there was none in that time."""
        end = time.monotonic() + wait_s
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.child.stdout], [], [],
                                              left)[0]:
                return None
            data = os.read(self.child.stdout.fileno(), 65536)
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def ask(self, method, params=None, ident=1):
        self.send({"jsonrpc": "2.0", "id": ident, "method": method,
                   "params": params or {}})
        return self.read()

    def call(self, name, /, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def end(self):
        """Its exit status, once its input has ended."""
        self.child.stdin.close()
        return self.child.wait(10)

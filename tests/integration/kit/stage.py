# SPDX-License-Identifier: Apache-2.0
"""Programs that record themselves: LD_PRELOAD=libfgtrace.so FGTRACE_OUT=FILE."""
import os
import shutil
import subprocess

from kit.harness import Samples, as_user

LIBRARIES = ("libfgtrace.so.0", "fgtrace/libfgtrace-embed.so")


class Stage:
    """Libraries and programs where an ordinary user may use them. The libraries
    are those of FGTRACE_LIBRARIES, a build folder, if it is set."""

    def __init__(self, bench, programs):
        self.bench = bench
        self.folder = bench.copy_for_nobody()
        self.library = os.path.join(self.folder, "lib")
        os.makedirs(os.path.join(self.library, "fgtrace"), exist_ok=True)
        build = os.environ.get("FGTRACE_LIBRARIES", bench.build)
        for name in LIBRARIES:
            shutil.copy2(os.path.join(build, name),
                         os.path.join(self.library, name))
        for name in programs:
            if os.path.exists(bench.program(name)):
                shutil.copy2(bench.program(name), self.folder)
        self.out = bench.path("out")
        os.makedirs(self.out, exist_ok=True)
        os.chmod(self.out, 0o777)

    def program(self, name):
        return os.path.join(self.folder, name)

    def path(self, name):
        return os.path.join(self.out, name)

    def environment(self, out, hz=0):
        changed = {"FGTRACE_OUT": out,
                   "LD_PRELOAD": f"{self.library}/libfgtrace.so.0"}
        if hz:
            changed["FGTRACE_HZ"] = str(hz)
        return changed

    def run(self, command, out, as_nobody=False, hz=0, timeout=120, **more):
        """Runs the program; it is recorded, setpriv is not."""
        changed = [f"{name}={value}" for name, value
                   in self.environment(out, hz).items()]
        return subprocess.run(
            as_user(["env", *changed, *command], as_nobody), text=True,
            capture_output=True, timeout=timeout, check=False, **more)

    def start(self, command, out):
        return self.bench.start(
            command, env={**os.environ, **self.environment(out)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def samples(self, fgt):
        """A recording as samples with state frames at the root."""
        envelope = fgt[:-len(".fgt")] + ".envelope"
        result = self.bench.run("convert", fgt, "-o", envelope,
                                "--state-frames", "root")
        if result.returncode != 0:
            raise RuntimeError(f"convert: {result.stderr}")
        return Samples(envelope)

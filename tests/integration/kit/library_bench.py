# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the installed library: the installation, programs that
are built against it with other compiler flags, a program that obeys commands."""
import os
import subprocess

from kit.harness import ROOT, read_until

PROGRAMS = os.path.join(ROOT, "tests", "programs", "lib")


class Installation:
    """The project, installed under a separate prefix."""

    def __init__(self, bench):
        self.bench = bench
        self.prefix = bench.path("usr")
        subprocess.run(["cmake", "--install", bench.build, "--prefix",
                        self.prefix], check=True, capture_output=True)
        self.libdir = self.ask("--variable=libdir")[0]
        self.includedir = self.ask("--variable=includedir")[0]

    def ask(self, *arguments):
        """The words of pkg-config for fgtrace."""
        folders = [os.path.join(root, "pkgconfig")
                   for root, names, _ in os.walk(self.prefix)
                   if "pkgconfig" in names]
        result = subprocess.run(
            ["pkg-config", *arguments, "fgtrace"], text=True, check=True,
            capture_output=True,
            env=dict(os.environ, PKG_CONFIG_PATH=":".join(folders)))
        return result.stdout.split()

    def library(self, name):
        return os.path.join(self.libdir, name)

    def compile(self, source, name, compiler, *flags, is_static=False):
        """The program's path; None and the compiler's output if it fails."""
        path = self.bench.path(name)
        libraries = self.ask("--cflags", "--libs",
                             *(["--static"] if is_static else []))
        result = subprocess.run(
            [*compiler, *flags, "-O2", "-g", "-Wall", "-Wextra", "-Werror",
             os.path.join(PROGRAMS, source), "-o", path, *libraries,
             f"-Wl,-rpath,{self.libdir}", "-pthread"],
            text=True, capture_output=True)
        return (path if result.returncode == 0 else None), result.stderr


class Host:
    """tests/programs/lib/host.c: sends it lines and reads its answers."""

    def __init__(self, bench, path, as_nobody=False, **arguments):
        self.child = bench.start([path], as_nobody, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True,
                                 bufsize=1, **arguments)
        self.pid = int(read_until(self.child.stdout, "ready "))

    def ask(self, line):
        """The words of the answer, numbers as such; without the first."""
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        words = self.child.stdout.readline().split()
        return [int(word) if word.lstrip("-").isdigit() else word
                for word in words[1:]]

    def start(self, socket, mode="agent", timeout_ms=3000):
        return self.ask(f"start {mode} {socket} {timeout_ms}")[0]

    def slice(self, ms, path=""):
        """Result, ticks, threads, bytes, ns, tid."""
        return self.ask(f"slice {ms} {path}")

    def end(self):
        self.child.stdin.close()
        return self.child.wait(20)

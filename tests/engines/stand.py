# SPDX-License-Identifier: Apache-2.0
"""What the tests of engines share: a recorded slice in every format, what has
to be fetched first, and the reason why it cannot be.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
from kit.harness import Bench, Checks  # noqa: E402

FETCH_SECONDS = 1800
checks = Checks()
ok = checks.ok


class Missing(Exception):
    """A tool chain or a registry is missing; the text names it."""


def fetch(command, **more):
    """Runs what fetches or builds an engine."""
    try:
        result = subprocess.run(command, text=True, capture_output=True,
                                timeout=FETCH_SECONDS, **more)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    if result.returncode != 0:
        raise Missing(f"{' '.join(command[:3])}: "
                      f"{(result.stdout + result.stderr).strip()[-400:]}")
    return result.stdout


def bring_packages(work, *packages):
    """Packages of PyPI, in a folder that Python then imports from."""
    folder = os.path.abspath(os.path.join(work, "python"))
    mark = os.path.join(folder, "+".join(packages))
    if not os.path.exists(mark):
        fetch([sys.executable, "-m", "pip", "install", "-q", "--upgrade",
               "--target", folder, *packages])
        with open(mark, "w"):
            pass
    sys.path.insert(0, folder)


def record(bench):
    """Two threads that share their time, some that sleep; as .fgt."""
    path = bench.path("slice.fgt")
    result = bench.run("record", "-q", "-d", "3", "-o", path, "--",
                       bench.program("truth-fp"), "shares", "4")
    if result.returncode != 0:
        raise RuntimeError(f"record: {result.stderr}")
    return path


def convert(bench, source, ending, *arguments):
    path = source[:-len(".fgt")] + ending
    result = bench.run("convert", source, "-o", path, "--state-frames",
                       "root", "-q", *arguments)
    ok(f"the slice as {ending}", result.returncode == 0, result.stderr)
    return path


def main(run):
    """run(bench, work): a script's checks."""
    bench = Bench(sys.argv[1])
    name = os.path.basename(sys.argv[0])
    try:
        run(bench, sys.argv[2])
    except Missing as missing:
        print(f"skipped {name}: {missing}", flush=True)
        sys.exit(1 if checks.failed else 0)
    finally:
        bench.close()
    checks.finish()

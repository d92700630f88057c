# SPDX-License-Identifier: Apache-2.0
"""The files that a lint looks at."""
import functools
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def files(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT,
                            capture_output=True, text=True,
                            check=True).stdout.split("\n")
    return [name for name in listed
            if name and os.path.isfile(os.path.join(ROOT, name))]


@functools.lru_cache(maxsize=None)
def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()

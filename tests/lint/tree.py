# SPDX-License-Identifier: Apache-2.0
"""The files that a lint looks at, and what is still to be mended in them."""
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


class Remaining:
    """remaining.txt: KIND NAME… [COUNT], what older code is excused for.

    The list may only shrink; the lint passes without it when nothing is left.
    """

    def __init__(self):
        self.lines = []
        path = os.path.join(HERE, "remaining.txt")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.lines = [line.split() for line in file]

    def names(self, kind):
        return {" ".join(line[1:]) for line in self.lines if line[0] == kind}

    def count(self, kind, name):
        return sum(int(line[2]) for line in self.lines
                   if line[:2] == [kind, name])

    def total(self, kind):
        return sum(int(line[2]) for line in self.lines if line[0] == kind)

# SPDX-License-Identifier: Apache-2.0
"""A disk that is soon full."""
import contextlib
import os
import subprocess


def may_mount():
    if os.getuid() != 0:
        print("# skipped: only root may mount")
    return os.getuid() == 0


@contextlib.contextmanager
def small_disk(folder):
    """A file system of 64 KiB in this folder, which is made."""
    os.makedirs(folder, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none",
                    folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=False)

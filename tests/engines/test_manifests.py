# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own schemas accept the DaemonSet of etc/fleet.

usage: test_manifests.py BUILD WORK

kubernetes-validate of PyPI brings the schemas of each version. Strictly: no
property may be unknown. What is spoilt must be refused.
"""
import os
import subprocess
import sys

import stand
from stand import ok

MANIFEST = os.path.join(os.path.dirname(os.path.dirname(stand.HERE)),
                        "etc/fleet/daemonset.yaml")
VERSIONS = ("1.30", "1.37")  # from the oldest that the file names
# Each is wrong in another way: unknown, another type, missing.
SPOILT = (("an unknown property", "hostPID:", "hostsPID:"),
          ("a text for a truth value", "hostPID: true", 'hostPID: "yes"'),
          ("a container without a name", "- name: agent\n          image:",
           "- image:"))


def validate(work, path, version):
    return subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", "-k",
         version, path], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.path.abspath(
            os.path.join(work, "python"))})


def run(bench, work):
    stand.bring_packages(work, "kubernetes-validate==1.37.0")
    for version in VERSIONS:
        result = validate(work, MANIFEST, version)
        ok(f"Kubernetes {version} accepts the DaemonSet",
           result.returncode == 0, result.stdout + result.stderr)
    with open(MANIFEST, encoding="utf-8") as file:
        text = file.read()
    for name, whole, spoilt in SPOILT:
        path = bench.path("spoilt.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(whole, spoilt, 1))
        result = validate(work, path, VERSIONS[-1])
        output = result.stdout + result.stderr
        ok(f"and refuses {name}", result.returncode == 1 and
           "did not validate" in output, output)


stand.main(run)

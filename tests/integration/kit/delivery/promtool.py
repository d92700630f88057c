# SPDX-License-Identifier: Apache-2.0
"""What Prometheus' own tool thinks of metrics."""
import shutil
import subprocess


def no_objection(checks, name, text):
    if not shutil.which("promtool"):
        checks.ok(name, False, "no promtool: apt-get install prometheus")
        return
    result = subprocess.run(["promtool", "check", "metrics"], text=True,
                            input=text, capture_output=True, check=False)
    checks.ok(name, result.returncode == 0, result)

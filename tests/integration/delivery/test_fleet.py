# SPDX-License-Identifier: Apache-2.0
"""The examples of etc/fleet: configurations, drop-in, DaemonSet, image.
test_fleet.py BUILD"""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit import installed_service  # noqa: E402
from kit.harness import Bench, Checks  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
FLEET = os.path.join(ROOT, "etc/fleet")
# What the files of the examples hold, by the end of their name.
SECRETS = {"dsn": "https://0123456789abcdef@sentry.example.com/7\n",
           "pyroscope-headers": "Authorization: Bearer c4n4ry\n",
           "aws": "AKIAEXAMPLE c4n4rysecret\n"}


def read(name):
    with open(os.path.join(FLEET, name), encoding="utf-8") as file:
        return file.read()


def check_configurations(checks, bench):
    for name, text in SECRETS.items():
        with open(bench.path(name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(bench.path(name), 0o600)
    paths = glob.glob(os.path.join(FLEET, "*.conf"))
    paths = [path for path in paths if not path.endswith("service.d.conf")]
    for path in sorted(paths):
        name = os.path.basename(path)
        copy = bench.path(name)
        text = read(name).replace("/etc/fgtrace/", bench.path(""))
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text)
        result = bench.run("config", "check", "-c", copy)
        checks.ok(f"{name} is a configuration", result.returncode == 0,
                  result.stderr)
        # A name that does not exist would be found, too.
        spoilt = re.sub(r'deliver = "\w+"', 'deliver = "nowhere"', text)
        spoilt = re.sub(r'deliver = \( "\w+"', 'deliver = ( "nowhere"', spoilt)
        with open(copy, "w", encoding="utf-8") as file:
            file.write(spoilt)
        result = bench.run("config", "check", "-c", copy)
        checks.ok(f"{name} with an unknown destination is refused",
                  result.returncode == 2 and "nowhere" in result.stderr,
                  f"{result.returncode} {result.stderr}")


def check_drop_in(checks, bench):
    unit, _ = installed_service.install(bench, "fleet")
    os.makedirs(unit + ".d")
    with open(unit + ".d/fleet.conf", "w", encoding="utf-8") as file:
        file.write(read("fgtrace-agent.service.d.conf"))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
         unit], capture_output=True, text=True)
    about = [line for line in result.stderr.splitlines()
             if "fgtrace-agent" in line or "fleet.conf" in line]
    checks.ok("systemd accepts the drop-in", not about, "; ".join(about))
    with open(unit, encoding="utf-8") as file:
        return set(" ".join(re.findall(r"^CapabilityBoundingSet=(.*)",
                                       file.read(), re.M)).split())


def check_daemonset(checks, unit_capabilities):
    text = read("daemonset.yaml")
    added = set(re.findall(r"^ +- ([A-Z_]+)$", text, re.M))
    of_unit = {name.removeprefix("CAP_") for name in unit_capabilities}
    checks.ok("the DaemonSet has the capabilities of the unit",
              added == of_unit, f"{sorted(added ^ of_unit)}")
    checks.ok("the DaemonSet is not privileged, and sees the node's processes",
              "privileged: false" in text and "hostPID: true" in text)


def packages_of(path):
    """Of the libraries that a file is linked to."""
    out = subprocess.run(["readelf", "-dW", path], check=True,
                         capture_output=True, text=True).stdout
    for library in re.findall(r"NEEDED.*\[(.*)\]", out):
        found = subprocess.run(
            ["dpkg-query", "-S", f"*/x86_64-linux-gnu/{library}"],
            capture_output=True, text=True).stdout
        yield library, found.partition(":")[0]


def check_image(checks, bench):
    words = set(read("Containerfile").split())
    files = [bench.agent] + [
        path for path in glob.glob(os.path.join(bench.build, "**", "*.so*"),
                                   recursive=True)
        if os.path.basename(path).startswith("libfgtrace")]
    missing = {package for path in files
               for _, package in packages_of(path)
               if package and package not in words and package != "libc6"}
    checks.ok("the image has the packages of all libraries", not missing,
              str(sorted(missing)))


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    try:
        check_configurations(checks, bench)
        check_daemonset(checks, check_drop_in(checks, bench))
        check_image(checks, bench)
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

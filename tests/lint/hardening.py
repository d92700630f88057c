# SPDX-License-Identifier: Apache-2.0
"""What the programs that are installed take away from an intruder, read from
the files themselves: a flag that a linker ignores is no flag."""
import os
import re
import subprocess

PRODUCTS = ("fgtrace-agent", "libfgtrace.so", "fgtrace/libfgtrace-embed.so",
            "fgtrace/libfgtrace-http.so")


def _readelf(flags, path):
    return subprocess.run(["readelf", "-W", flags, path], text=True,
                          capture_output=True, check=True).stdout


def _cache(build):
    """CMake's variables of the build."""
    with open(os.path.join(build, "CMakeCache.txt")) as file:
        return dict(re.findall(r"^([^:#/\n]+):\w+=(.*)$", file.read(), re.M))


def _faults(path):
    head, dynamic = _readelf("-h", path), _readelf("-d", path)
    segments, symbols = _readelf("-l", path), _readelf("--dyn-syms", path)
    flags = re.findall(r"Flags: (.*)", dynamic)
    imported = set(re.findall(r" UND (\w+)", symbols))
    required = {
        "addresses are fixed": re.search(r"Type: +DYN", head) and (
            "INTERP" not in segments or
            any("PIE" in found.split() for found in flags)),
        "calls are bound late": any("NOW" in found.split()
                                    for found in flags),
        "no table becomes read-only": "GNU_RELRO" in segments,
        "its stack is executable": re.search(
            r"GNU_STACK( +0x\w+){5} +RW ", segments),
        "memory is writable and executable": not re.search(
            r"^ +LOAD( +0x\w+){5} +RWE", segments, re.M),
        "code is relocated": "TEXTREL" not in dynamic,
        "a folder of libraries is built in": not re.search(
            r"\((RPATH|RUNPATH)\)", dynamic),
        "frames have no canary": "__stack_chk_fail" in imported,
    }
    return [f"{os.path.basename(path)}: {fault}"
            for fault, is_kept in required.items() if not is_kept]


def _archives(build):
    """The project's own code: foreign libraries that are linked in have
    marks and checks of their own, or lack them."""
    return [os.path.join(folder, name)
            for folder, _, names in os.walk(build) for name in names
            if re.fullmatch(r"libfgt_\w+\.a", name) and
            os.path.relpath(folder, build).split(os.sep)[0] != "tests"]


def _unmarked(archives):
    """Objects whose functions may be entered anywhere."""
    parts = [part for path in archives for part in
             re.split(r"^File: ", _readelf("-n", path), flags=re.M)[1:]]
    found = [part.split("\n")[0] for part in parts
             if not re.search(r"x86 feature:.*IBT.*SHSTK", part)]
    return found if parts else ["no object"]


def _has_checked_copies(archives):
    return any(re.search(r" UND __\w+_chk$", _readelf("-s", path), re.M)
               for path in archives)


def check_products(checks, build):
    cache = _cache(build)
    if cache.get("FGT_SANITIZE"):
        print("# skipped: products with sanitizers are not installed")
        return
    faults = [fault for name in PRODUCTS
              for fault in _faults(os.path.join(build, name))]
    checks.ok("products are hardened", not faults, str(faults))
    archives = _archives(build)
    if cache.get("CMAKE_BUILD_TYPE") in ("Release", "RelWithDebInfo",
                                         "MinSizeRel"):
        checks.ok("copies into buffers are checked",
                  _has_checked_copies(archives))
    if cache.get("FGT_HAS_fcf_protection") == "1":
        unmarked = _unmarked(archives)
        checks.ok("functions are entered at their beginning only",
                  not unmarked, str(unmarked[:5]))

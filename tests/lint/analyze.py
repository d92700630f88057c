# SPDX-License-Identifier: Apache-2.0
"""gcc -fanalyzer, clang-tidy and cppcheck find nothing that is not explained.

usage: analyze.py [BUILD] [TOOL]

Part of tests/run --soak. .clang-tidy holds the checks of clang-tidy that are
taken out for the whole tree; analyze.txt holds single findings:
TOOL CHECK FILE: REASON. A line without its finding is an error too.
BUILD is not used: the preset "analyze" has its own folder.
"""
import collections
import json
import os
import re
import subprocess
import sys

from tree import HERE, ROOT, files

sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
from kit.harness import Checks  # noqa: E402

BUILD = os.path.join(ROOT, "build", "analyze")
PATTERNS = {
    "gcc": re.compile(r"^(\S+?):\d+:\d+: (?:warning|error): .*"
                      r"\[-W([a-z-]+)\]$", re.M),
    "clang-tidy": re.compile(r"^(\S+?):\d+:\d+: (?:warning|error): .*"
                             r"\[([a-z][\w.,-]+)\]$", re.M),
    "cppcheck": re.compile(r"^(\S+?):\d+: \w+ (\w+): .*$", re.M),
}


def run(*command):
    result = subprocess.run(["nice", *command], cwd=ROOT, text=True,
                            capture_output=True, check=False)
    return result.stdout + result.stderr


def sources():
    return [n for n in files("agent/*.c", "ringbuf/*.c", "upload/*.c")
            if not n.endswith(".bpf.c")]


def commands():
    """A compilation database without the flags that only gcc knows."""
    folder = os.path.join(BUILD, "commands")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entries = json.load(file)
    wanted = {os.path.join(ROOT, n) for n in sources()}
    kept = {}
    for entry in entries:
        entry["command"] = re.sub(r" -(fanalyzer|Wno-maybe-uninitialized)\b",
                                  "", entry["command"])
        if entry["file"] in wanted:
            kept.setdefault(entry["file"], entry)
    with open(os.path.join(folder, "compile_commands.json"), "w") as file:
        json.dump(list(kept.values()), file)
    return folder, sorted(kept)


def run_gcc():
    run("cmake", "--preset", "analyze")
    run("cmake", "--build", BUILD, "--target", "clean")
    return run("cmake", "--build", BUILD)


def run_clang_tidy():
    folder, names = commands()
    out = ""
    for start in range(0, len(names), 40):
        out += run("clang-tidy", "-p", folder, "--quiet",
                   *names[start:start + 40])
    return out


def run_cppcheck():
    folder, _ = commands()
    # It reads no headers of the system, but has to know the macros of lists.
    machine = run("gcc", "-print-multiarch").strip()
    queue = f"/usr/include/{machine}/sys/queue.h"
    return run("cppcheck", f"--project={folder}/compile_commands.json",
               f"--include={queue}",
               "--enable=warning,performance,portability", "--quiet",
               "-j2", "--library=bsd", "-D__x86_64__=1", "-U__aarch64__",
               "--template={file}:{line}: {severity} {id}: {message}")


TOOLS = {"gcc": run_gcc, "clang-tidy": run_clang_tidy,
         "cppcheck": run_cppcheck}


def read_explained():
    with open(os.path.join(HERE, "analyze.txt"), encoding="utf-8") as file:
        return {tuple(line.split(":")[0].split()) for line in file
                if line.strip() and not line.startswith("#")}


def findings(tool, text):
    """(tool, check, file) → the lines that report it."""
    found = collections.defaultdict(set)
    for match in PATTERNS[tool].finditer(text):
        name = os.path.relpath(os.path.join(BUILD, match.group(1)), ROOT)
        found[tool, match.group(2), name].add(match.group())
    return found


def check_tool(checks, tool, explained):
    text = TOOLS[tool]()
    with open(os.path.join(BUILD, f"{tool}.log"), "w") as log:
        log.write(text)
    found = findings(tool, text)
    for key in list(found):
        if (*key[:2], "*") in explained:
            found[*key[:2], "*"] |= found.pop(key)
    new = [line for key in sorted(set(found) - explained)
           for line in sorted(found[key])]
    checks.ok(f"{tool} finds nothing that is not explained", not new,
              "\n# ".join(new))
    stale = sorted(key for key in explained - set(found) if key[0] == tool)
    checks.ok(f"{tool}: what is explained is found", not stale, str(stale))


def main():
    checks = Checks()
    explained = read_explained()
    os.makedirs(BUILD, exist_ok=True)
    run("cmake", "--preset", "analyze")
    for tool in sys.argv[2:] or TOOLS:
        check_tool(checks, tool, explained)
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Rules of the house that a program can check.

usage: test_lint.py BUILD

Rooms and their arrows (rooms.py), words and citations (words.py), third-party
headers in one room each, names of what is not static, sizes of files and
functions, formatting, licence lines, that agent/README.md shows the rooms
that there are, and how the products were compiled (hardening.py).
"""
import os
import re
import subprocess
import sys

import hardening
import rooms
import words
from tree import ROOT, files, read

sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
from kit.harness import Checks  # noqa: E402

LAYERS = {"ringbuf": ("ringbuf/",), "upload": ("ringbuf/", "upload/"),
          "agent": ("ringbuf/", "upload/", "agent/")}
# header pattern → the only files that may include it
QUARANTINE = {
    r"curl/": {"upload/deliver/curl_functions.h"},
    r"libconfig\.h": {"agent/config/config_tree.c"},
    r"jansson\.h": {"agent/cli/mcp/message.c"},
    r"microhttpd\.h": {"agent/http/server.c"},
    r"libunwind": {"agent/unwind/"},
    r"(elfutils/|dwarf\.h|libelf|gelf\.h)": {"agent/unwind/",
                                             "agent/symbols/"},
    r"(libiberty/|demangle\.h)": {"agent/symbols/names/demangle.c"},
    r"zlib\.h": {"upload/format/parts/gzip.c", "agent/symbols/",
                 "agent/unwind/"},
    r"msgpack(\.h|/)": {"ringbuf/slice/slice_codec.c"},
    r"lzma(\.h|/)": {"agent/symbols/elf/symbol_image.c"},
    r"seccomp\.h": {"agent/children/syscall_filter.c"},
    r"linux/perf_event\.h": {"agent/capture/", "agent/unwind/arch/"},
    r"bpf/": {"agent/capture/who_ran/switches_bpf.c",
              "agent/capture/who_ran/switches_asked.c",
              "agent/capture/who_ran/socket.bpf.h",
              "agent/capture/who_ran/switch_maps.bpf.h",
              "agent/capture/who_ran/switches.bpf.c"},
    r"sys/ptrace\.h": {"agent/capture/running/running_ptrace.c",
                       "agent/unwind/arch/"},
}
SOFT_WORDS = re.compile(
    r"\b(todo|fixme|xxx|stub|placeholder|not implemented|for now)\b", re.I)
FUNCTION_MAX, FILE_MAX = 60, 500


def check_includes(checks, sources):
    backward, quarantine = [], []
    for name in sources:
        layer = name.split("/")[0]
        for line in read(name).split("\n"):
            match = re.match(r'#include "([^"]+)"', line)
            if match and layer in LAYERS and \
                    not match.group(1).startswith(LAYERS[layer]) and \
                    "/" in match.group(1):
                backward.append(f"{name}: {match.group(1)}")
            match = re.match(r"#include <([^>]+)>", line)
            if not match or layer not in LAYERS:
                continue
            for pattern, allowed in QUARANTINE.items():
                if re.match(pattern, match.group(1)) and \
                        not any(name.startswith(a) for a in allowed):
                    quarantine.append(f"{name}: {match.group(1)}")
    checks.ok("includes never point to a higher layer", not backward, str(backward))
    checks.ok("third-party headers stay in their rooms", not quarantine,
              str(quarantine))


def check_sizes(checks, sources):
    big = [f"{n} {len(read(n).splitlines())}" for n in sources
           if len(read(n).splitlines()) > FILE_MAX]
    checks.ok(f"no file over {FILE_MAX} lines", not big, str(big))
    out = subprocess.run(
        ["ctags", "-L", "-", "--languages=C", "--kinds-C=f", "--fields=+ne",
         "-f", "-"], cwd=ROOT, text=True, capture_output=True,
        input="\n".join(n for n in sources if n.endswith(".c"))).stdout
    lengths, long = [], []
    for line in out.split("\n"):
        match = re.search(r"^(\S+)\t(\S+)\t.*line:(\d+).*end:(\d+)", line)
        if not match:
            continue
        length = int(match.group(4)) - int(match.group(3)) + 1
        lengths.append(length)
        if length > FUNCTION_MAX:
            long.append(f"{match.group(2)} {match.group(1)} {length}")
    checks.ok(f"no function over {FUNCTION_MAX} lines",
              lengths and not long, str(long) if lengths else "no ctags")
    lengths.sort()
    if lengths:
        median = lengths[len(lengths) // 2]
        checks.ok("functions: median at most 20 lines, 90 % at most 50",
                  median <= 20 and lengths[len(lengths) * 9 // 10] <= 50,
                  f"median {median}")


def check_names(checks, build):
    """Names that are not static begin with fgt_, except main."""
    foreign = set()
    for folder, _, names in os.walk(build):
        for name in names:
            if not name.startswith("libfgt_") or not name.endswith(".a"):
                continue
            out = subprocess.run(
                ["nm", "--defined-only", "-g", "--format=posix",
                 os.path.join(folder, name)], capture_output=True,
                text=True).stdout
            foreign |= {line.split()[0] for line in out.split("\n")
                        if len(line.split()) > 2 and
                        not line.startswith(("fgt_", "main ", "__", "_"))}
    foreign -= {"otel_thread_ctx_v1"}  # of a specification
    checks.ok("public names begin with fgt_", not foreign,
              str(sorted(foreign)))


def check_handlers(checks, build):
    """Code of signal handlers calls no library and needs no TLS."""
    foreign, count = [], 0
    for folder, _, names in os.walk(build):
        for name in names:
            if not name.endswith("_sig.c.o"):
                continue
            count += 1
            out = subprocess.run(
                ["nm", "--format=sysv", os.path.join(folder, name)],
                capture_output=True, text=True).stdout
            for line in out.split("\n"):
                fields = [field.strip() for field in line.split("|")]
                if len(fields) > 3 and (fields[2] == "U" or
                                        fields[3] == "TLS") and \
                        fields[0] != "_GLOBAL_OFFSET_TABLE_":
                    foreign.append(f"{name}: {fields[0]}")
    checks.ok("signal handlers call no library and need no TLS",
              count and not foreign, str(foreign) if count else "no object")


def check_text(checks, sources):
    missing = [n for n in files("*.c", "*.h", "*.py", "*.sh", "*.cc", "*.rs")
               if "SPDX-License-Identifier: Apache-2.0" not in
               read(n)[:400]]
    checks.ok("every source names its licence", not missing, str(missing))
    soft = [f"{n}: {line.strip()}" for n in sources for line in
            read(n).split("\n") if SOFT_WORDS.search(line)]
    checks.ok("no words of unfinished work", not soft, str(soft))
    bare = [n for n in sources if "return -1;" in read(n)]
    checks.ok("errors are negative errno, never a bare -1", not bare,
              str(bare))
    asserting = [n for n in sources if "FGT_ASSERT(" in read(n) and
                 not n.startswith(("agent/daemon/", "agent/cli/"))]
    checks.ok("only daemon and command line assert", not asserting,
              str(asserting))
    vague = [n for n in sources if os.path.basename(n) in
             ("utils.c", "util.c", "common.h", "internal.h", "misc.c")]
    checks.ok("no file has a vague name", not vague, str(vague))


def check_format(checks):
    names = files("*.c", "*.h")
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *names],
                            cwd=ROOT, capture_output=True, text=True)
    wrong = sorted({line.split(":")[0] for line in
                    result.stderr.split("\n") if "error:" in line})
    checks.ok("clang-format changes no file", result.returncode == 0,
              str(wrong))


def check_readme(checks):
    text = read("README.md") + read("agent/README.md")
    rooms = {"/".join(n.split("/")[:2]) + "/" for n in
             files("agent/*", "upload/*") if n.count("/") >= 2}
    rooms |= {n.split("/")[0] + "/" for n in files() if "/" in n and
              not n.startswith(".")}
    absent = [room for room in sorted(rooms)
              if room.rstrip("/") not in text]
    checks.ok("agent/README.md shows every room", not absent,
              str(absent))
    top = {n.split("/")[0] for n in files()}
    extra = {n for n in top if not n.startswith(".")} - {
        "agent", "ringbuf", "upload", "etc", "tests", "CMakeLists.txt",
        "CMakePresets.json", "README.md", "LICENSE"}
    checks.ok("the top level is the five folders and four files", not extra,
              str(extra))


def check_scripts(checks):
    """A script that tests/run does not name would never run."""
    run = read("tests/run")
    names = [os.path.splitext(os.path.basename(n))[0]
             for n in files("tests/integration/test_*", "tests/soak/test_*")]
    left_out = [n for n in names if n not in run and
                not re.search(rf"\b{n.removeprefix('test_')}\b",
                              re.search(r"functional=\((.*?)\)", run,
                                        re.S).group(1))]
    checks.ok("tests/run names every script", not left_out, str(left_out))


def main():
    checks = Checks()
    sources = files("agent/*.c", "agent/*.h", "ringbuf/*.c", "ringbuf/*.h",
                    "upload/*.c", "upload/*.h")
    check_includes(checks, sources)
    check_sizes(checks, sources + files("tests/*.c", "tests/*.h", "tests/*.py",
                                        "tests/*.sh", "tests/run"))
    check_names(checks, sys.argv[1])
    check_handlers(checks, sys.argv[1])
    hardening.check_products(checks, sys.argv[1])
    check_text(checks, sources)
    check_format(checks)
    check_readme(checks)
    check_scripts(checks)
    rooms.check_arrows(checks, sys.argv[1], sources)
    rooms.check_ring_writers(checks, sources)
    rooms.check_decoders(checks, sources)
    rooms.check_payloads(checks, sources)
    rooms.check_folders(checks)
    rooms.check_tags(checks, sources)
    words.check_words(checks)
    words.check_paths(checks)
    checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The rows of an ELF file by readelf, in the format of print_rows."""
import re
import subprocess

HEAD = re.compile(r"^([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) "
                  r"(CIE \"(\S*)\"|FDE cie=([0-9a-f]+) "
                  r"pc=([0-9a-f]+)\.\.([0-9a-f]+))")
SAVED = re.compile(r"^c[+-]\d+$")
NOTHING = ("u", "s")


def is_same(address, row, theirs):
    """Compares a row with readelf's; for the expression of a PLT it has
    the value."""
    if theirs != "exp":
        return row == f"{address:x} {theirs}"
    plt = "sp+16 u c-8 -" if address % 16 >= 11 else "sp+8 u c-8 -"
    return row in (f"{address:x} complex", f"{address:x} {plt}")


def describe(columns, is_signal):
    """One row of readelf's table ({column: text})."""
    base = re.match(r"^(rsp|rbp)\+(\d+)$", columns["CFA"])
    fp, pc = columns.get("rbp", "u"), columns["ra"]
    if is_signal:
        return "complex"
    if pc == "u":
        return "root"
    if columns["CFA"] == "exp":
        return "exp"
    if not base or not SAVED.match(pc) or \
            columns.get("rsp", "u") not in NOTHING or \
            not (fp in NOTHING or SAVED.match(fp)):
        return "complex"
    others = [name for name, text in columns.items()
              if name not in ("CFA", "rbp", "rsp", "ra") and
              text not in NOTHING]
    return " ".join([
        {"rsp": "sp", "rbp": "fp"}[base.group(1)] + "+" + base.group(2),
        fp if SAVED.match(fp) else "u", pc, "others" if others else "-"])


def read(path):
    """(first address, last address, words) of every row of every function."""
    text = subprocess.run(["readelf", "-W", "--debug-dump=frames-interp",
                           path], capture_output=True, text=True,
                          check=False).stdout
    commons, found, names = {}, [], []
    rows = end = common = None

    def finish():
        for i, (address, words) in enumerate(rows or []):
            last = (rows[i + 1][0] if i + 1 < len(rows) else end) - 1
            if address <= last:
                found.append((address, last, words))

    for line in text.split("\n") + ["end"]:
        head = HEAD.match(line)
        fields = re.sub(r" \(\w+\)", "", line).split()  # "r8 (r8)"
        if line.startswith("Contents of"):
            commons = {}
        if head or not fields or line == "end":
            # A function without rows has those of its CIE.
            if rows == [] and end is not None and common["words"]:
                rows = [(common["start"], common["words"])]
            if end is not None:
                finish()
            rows = end = None
        if head and head.group(4) is not None:
            common = commons[head.group(1)] = {
                "is_signal": "S" in head.group(4), "words": None}
            rows = []
        elif head:
            common = commons[head.group(5)]
            common["start"] = int(head.group(6), 16)
            rows, end = [], int(head.group(7), 16)
        elif fields and fields[0] == "LOC":
            names = fields[1:]
        elif rows is not None and re.match(r"^[0-9a-f]{16} ", line):
            words = describe(dict(zip(names, fields[1:])),
                             common["is_signal"])
            if end is None:
                common["words"] = words
            else:
                rows.append((int(fields[0], 16), words))
    return found

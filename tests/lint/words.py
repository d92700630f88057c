# SPDX-License-Identifier: Apache-2.0
"""The words of comments, messages and manuals: plain; citations and faults exist.

usage: words.py: prints every place that must be changed, one a line.
"""
import collections
import os
import re
import sys

from tree import ROOT, files, read

# Words that a reader has to translate → what to write.
WORDS = {
    r"dear": "expensive",
    r"anew": "again",
    r"seldom": "a number",
    r"whoever": "every caller, process, …",
    r"nobody": "no thread, no process, …",
    r"somebody": "a thread, a process, …",
    r"told": "logged, returned, reported",
    r"of its own": "its, a separate",
    r"of our own": "the sampler's, the agent's",
    r"but for": "except",
    r"for good": "permanently, until …",
    r"a while": "a number",
    r"some dozens?": "a number",
    r"riddles?": "what is unknown",
    r"cries wolf": "warns without cause",
    r"sa(?:y|ys|id)": "print, report, write, mean",
    r"tells?": "log, report, show, distinguish",
    r"ours": "the sampler's, the agent's",
}
# Where a word is a name: the user "nobody", and its number in the tests.
NAMES = re.compile(r'as_nobody|_nobody\b|\bNOBODY\b|["\'`]nobody["\'`]'
                   r"|\buser nobody\b|User=nobody")
PATTERN = re.compile(r"\b(" + "|".join(
    w.replace(" ", r"(?:\s+(?:\*\s*|#\s*)?|_)") for w in WORDS) + r")\b", re.I)
# In names of functions the words are parts between underscores.
IDENTIFIER = re.compile(r"(?<![A-Za-z])(" + "|".join(
    w for w in WORDS if " " not in w) + r")(?![A-Za-z])", re.I)
CITATION = re.compile(r'(?<![\w./-])(\w[\w./-]*\.md)(?:, "([^"]+)")?')
# A path in backticks: in a folder of the repository, a folder, or a source.
PATH = re.compile(r"`((?:agent|ringbuf|upload|etc|tests)/[\w./-]+"
                  r"|\w[\w./-]*(?:/|\.(?:c|h|cc|py|sh|md|txt)))`")
READMES = ("README.md", "agent/README.md", "ringbuf/README.md")
OLD_CITATION = re.compile(r"\b(DESIGN|FAULTS|PEERS|STYLE|HOUSE)\b|§")
# Rows of the fault catalogue: "fault S8", "faults S2 to S5, C3 and X2a".
CATALOGUE = "agent/README.md"
ROW = re.compile(r"^\| ([A-Z]\d+[a-z]?) \|", re.M)
FAULTS = re.compile(r"\bfaults? ([A-Z]\d+[a-z]?"
                    r"(?:(?:,| and|, and| to) [A-Z]\d+[a-z]?)*)", re.I)


def written_files():
    return [n for n in files("*.c", "*.h", "*.cc", "*.rs", "*.py", "*.sh",
                             "*.mjs",
                             "*.md", "*.txt", "etc/*", "tests/run",
                             "tests/bench/run")
            if not n.startswith(("tests/lint/", "tests/fuzz/corpus/")) and
            not n.endswith((".png", ".svg"))]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def words(name):
    """(line, word) for each word of the list in the file."""
    text = NAMES.sub(lambda m: " " * len(m.group()), read(name))
    found = {(m.start(), m.group(1)) for m in PATTERN.finditer(text)}
    found |= {(m.start(), m.group(1)) for m in IDENTIFIER.finditer(text)}
    return sorted((line_of(text, at), " ".join(word.split()))
                  for at, word in found)


def headings(name):
    return {m.group(1).strip() for m in
            re.finditer(r"^#+ (.+)$", read(name), re.M)}


def joined(text):
    """The text with the line breaks of its comments taken out."""
    return re.sub(r"\n[ \t]*(?:\*|#|\.\\\")?[ \t]*", " ", text)


def citations(name):
    """Citations of the file that do not exist in the repository."""
    text = joined(read(name))
    bad = [m.group().strip() for m in OLD_CITATION.finditer(text)]
    for match in CITATION.finditer(text):
        target, heading = match.groups()
        if not os.path.exists(os.path.join(ROOT, target)):
            bad.append(match.group())
        elif heading and heading not in headings(target):
            bad.append(match.group())
    return bad


def faults(text, rows):
    """The rows that the text cites; a range is all rows between its ends."""
    found = set()
    for match in FAULTS.finditer(joined(text)):
        for part in re.split(r",? and |, ", match.group(1)):
            first, _, last = part.partition(" to ")
            found.add(first)
            if last:
                found.add(last)
                ends = [rows.index(row) for row in (first, last)
                        if row in rows]
                found |= set(rows[min(ends):max(ends)] if ends else ())
    return found


def check_faults(checks):
    """Each cited fault is in the catalogue, and each of these is cited."""
    rows = ROW.findall(read(CATALOGUE))
    cited = collections.defaultdict(list)
    for name in written_files():
        if name != CATALOGUE and name.startswith(
                ("agent/", "ringbuf/", "upload/", "tests/")):
            for row in faults(read(name), rows):
                cited[row].append(name)
    unknown = {row: cited[row] for row in sorted(set(cited) - set(rows))}
    absent = sorted(set(rows) - set(cited))
    checks.ok("cited faults are in the catalogue", not unknown, str(unknown))
    checks.ok("faults of the catalogue are cited", rows and not absent,
              str(absent))


def all_words():
    return [f"{n}:{line}: {word}" for n in written_files()
            for line, word in words(n)]


def all_citations():
    return [f"{n}: {text}" for n in written_files()
            if not n.endswith(".txt") for text in citations(n)]


def check_words(checks):
    found = all_words()
    checks.ok("plain words", not found, "; ".join(found))
    found = all_citations()
    checks.ok("citations name headings of the repository", not found,
              "; ".join(found))
    check_faults(checks)


def absent_paths(name):
    """What the file names in backticks and is no path, or end of a path."""
    known = set()
    for path in files():
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            known |= {"/".join(parts[start:end]) for start in range(end)}
    return [path for path in PATH.findall(read(name))
            if path.rstrip("/") not in known]


def check_paths(checks):
    absent = [f"{name}: {path}" for name in READMES
              for path in absent_paths(name)]
    checks.ok("paths of the manuals exist", not absent, str(absent))


def main():
    for text in all_words() + all_citations():
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Shared by the format checkers: strict JSON, files, the verdict."""
import gzip
import json
import re
import sys


class Wrong(Exception):
    """The file breaks a rule; the text has which and where."""


def demand(is_ok, text):
    if not is_ok:
        raise Wrong(text)


def read_bytes(path):
    with open(path, "rb") as file:
        data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _object(pairs):
    keys = [key for key, _ in pairs]
    demand(len(keys) == len(set(keys)), f"duplicate key among {keys}")
    return dict(pairs)


def _constant(text):
    raise Wrong(f"{text} is not JSON")


def parse_json(data):
    """UTF-8 without BOM, no NaN, no duplicate keys, no surrogate escapes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Wrong(f"not UTF-8: {error}") from error
    demand(not text.startswith("\ufeff"), "begins with a BOM")
    demand(not re.search(r"\\u[dD][89a-fA-F]", text),
           "surrogate escapes: Perfetto refuses them")
    try:
        return json.loads(text, object_pairs_hook=_object,
                          parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise Wrong(f"not JSON: {error}") from error


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_int(value) or isinstance(value, float)


def main(check):
    """check(path) raises Wrong or returns a line that sums the file up."""
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} FILE", file=sys.stderr)
        sys.exit(2)
    try:
        print(f"{sys.argv[1]}: {check(sys.argv[1])}")
    except Wrong as wrong:
        print(f"{sys.argv[1]}: {wrong}", file=sys.stderr)
        sys.exit(1)

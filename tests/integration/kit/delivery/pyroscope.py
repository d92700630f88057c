# SPDX-License-Identifier: Apache-2.0
"""Pyroscope's rules for what is pushed to it, as its source has them
(pkg/ingester/pyroscope, pkg/validation, api/push/v1), in a strict server's
script."""
import base64
import gzip
import json
import re
import time
import urllib.parse
import uuid

from kit.sentry_server import answer

PROFILE_MAX = 4 << 20  # uncompressed
APP = re.compile(r"([A-Za-z0-9._/ -]+)(\{([a-z_]+=[^,={}]+,?)*\})?")


def check_profile(data):
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if not plain:
        return 422, "empty profile"
    if len(plain) > PROFILE_MAX:
        return 413, "profile is larger than 4 MiB"
    if plain[0] != 0x0a:  # sample_type, field 1
        return 400, "not a pprof profile"
    return 200, ""


def check_ingest(request):
    method, target, _ = request.line.split(" ")
    path, _, query = target.partition("?")
    values = urllib.parse.parse_qs(query, strict_parsing=True)
    if method != "POST" or not path.endswith("/ingest"):
        return 404, target
    if any(len(value) != 1 for value in values.values()):
        return 400, "a parameter is given twice"
    if values.get("format") != ["pprof"]:
        return 400, "format is not pprof"
    if not APP.fullmatch(values["name"][0]):
        return 400, f"bad name {values['name'][0]}"
    begin, end = (int(values[key][0]) for key in ("from", "until"))
    if not time.time() - 3600 < begin <= end < time.time() + 600:
        return 422, f"time {begin} to {end}"
    if "sampleRate" in values and int(values["sampleRate"][0]) <= 0:
        return 400, "sampleRate"
    return check_profile(request.body)


def check_push(request):
    if request.line.split(" ")[0] != "POST":
        return 405, "POST only"
    if request.get("Content-Type") != "application/json":
        return 415, "content type"
    message = json.loads(request.body)
    if set(message) != {"series"} or not message["series"]:
        return 400, f"keys {set(message)}"
    for series in message["series"]:
        labels = {label["name"]: label["value"] for label in series["labels"]}
        if not {"__name__", "service_name"} <= set(labels) or len(labels) > 30:
            return 400, f"labels {labels}"
        for sample in series["samples"]:
            uuid.UUID(sample["ID"])
            status, why = check_profile(
                base64.b64decode(sample["rawProfile"], validate=True))
            if status != 200:
                return status, why
    return 200, ""


def script(check, refusals):
    """A server's script; refusals gets why a request was refused."""
    def judge(request, _connection):
        try:
            status, why = check(request)
        except (KeyError, ValueError, TypeError) as error:
            status, why = 400, repr(error)
        if status != 200:
            refusals.append(f"{status}: {why}")
        return answer(status, ["Content-Type: application/json"], b"{}")
    return judge

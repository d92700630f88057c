# SPDX-License-Identifier: Apache-2.0
"""Verifies AWS signatures, version 4, of requests as a server received them.

By the documentation of AWS ("Create a signed AWS API request"), apart from any
client library.
"""
import hashlib
import hmac
import re
import urllib.parse

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/,]+)/([^/,]+)/"
    r"aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})")


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def canonical_query(query):
    pairs = [part.partition("=")[::2] for part in query.split("&") if part]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def canonical_request(request, signed):
    method, target, _ = request.line.split(" ")
    path, _, query = target.partition("?")
    headers = ""
    for name in signed:
        values = request.all(name)
        if not values:
            raise ValueError(f"signed header {name} was not sent")
        headers += f"{name}:{','.join(' '.join(v.split()) for v in values)}\n"
    return "\n".join([
        method, urllib.parse.quote(path, safe="/-_.~%"),
        canonical_query(query), headers, ";".join(signed),
        hashlib.sha256(request.body).hexdigest()])


def why_refused(request, key_id, secret, region, service):
    """None if the signature is right, else why it is not."""
    given = AUTHORIZATION.fullmatch(request.get("Authorization") or "")
    if not given:
        return f"no signature: {request.headers}"
    name, day, its_region, its_service, signed, signature = given.groups()
    signed = signed.split(";")
    moment = request.get("X-Amz-Date") or ""
    if (name, its_region, its_service) != (key_id, region, service):
        return f"of {name} for {its_region} {its_service}"
    if not moment.startswith(day + "T"):
        return f"dates {moment} and {day} differ"
    for wanted in ("host", "x-amz-date"):
        if wanted not in signed:
            return f"{wanted} is not signed"
    digest = request.get("x-amz-content-sha256")
    if service == "s3" and digest != hashlib.sha256(request.body).hexdigest():
        return f"x-amz-content-sha256 is {digest}"
    try:
        hashed = hashlib.sha256(
            canonical_request(request, signed).encode()).hexdigest()
    except ValueError as error:
        return str(error)
    scope = f"{day}/{region}/{service}/aws4_request"
    key = ("AWS4" + secret).encode()
    for part in (day, region, service, "aws4_request"):
        key = sign(key, part)
    wanted = sign(key, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashed}").hex()
    return None if hmac.compare_digest(wanted, signature) else \
        f"signature {signature}, not {wanted}"

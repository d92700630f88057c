# SPDX-License-Identifier: Apache-2.0
"""A real S3-compatible server takes a slice that is signed for AWS.

usage: test_object_store.py BUILD WORK

Versity's gateway is built from the Go module proxy; it keeps objects as files,
and refuses requests whose signature is not right.
"""
import os
import socket
import time

import stand
from stand import ok

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
KEY, SECRET = "AKIDEXAMPLE", "s3cr3t/with+signs"
START_SECONDS = 60


def build(work):
    folder = os.path.abspath(os.path.join(work, f"versitygw-{VERSION}"))
    binary = os.path.join(folder, "versitygw")
    if not os.path.exists(binary):
        stand.fetch(["go", "install", f"{MODULE}@{VERSION}"],
                    env={**os.environ, "GOBIN": folder})
    return binary


def start(bench, binary, root):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    bench.start([binary, "--access", KEY, "--secret", SECRET, "--port",
                 f"127.0.0.1:{port}", "posix", root],
                stdout=open(bench.path("gateway.log"), "w"), stderr=-2,
                env={**os.environ, "HOME": bench.scratch})
    for _ in range(START_SECONDS * 10):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return port
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the gateway does not answer")


def send(bench, source, port, secret):
    keys = bench.path("keys")
    with open(keys, "w") as file:
        file.write(f"aws_access_key_id = {KEY}\n"
                   f"aws_secret_access_key = {secret}\n")
    os.chmod(keys, 0o600)
    config = bench.path("store.conf")
    with open(config, "w") as file:
        file.write('upload: { destinations = ( { name = "store"; url = '
                   f'"http://127.0.0.1:{port}/slices/a/{{name}}.trace.json";'
                   f' aws_keys_file = "{keys}"; }} ); }};')
    os.chmod(config, 0o644)
    return bench.run("convert", source, "--upload", "store", "-c", config,
                     cwd=bench.scratch)


def run(bench, work):
    binary = build(work)
    root = bench.path("objects")
    os.makedirs(os.path.join(root, "slices"))
    source = stand.record(bench)
    port = start(bench, binary, root)
    refused = send(bench, source, port, SECRET + "x")
    ok("a wrong key is refused", refused.returncode == 1 and
       "403" in refused.stderr, refused.stderr)
    result = send(bench, source, port, SECRET)
    ok("the store takes the slice", result.returncode == 0, result.stderr)
    plain = bench.path("plain.trace.json")
    bench.run("convert", source, "-o", plain)
    folder = os.path.join(root, "slices", "a")
    kept = os.listdir(folder) if os.path.isdir(folder) else []
    same = False
    if kept:
        with open(os.path.join(folder, kept[0]), "rb") as file, \
                open(plain, "rb") as other:
            same = file.read() == other.read()
    ok("the object is what convert writes", len(kept) == 1 and same, kept)


if __name__ == "__main__":
    stand.main(run)

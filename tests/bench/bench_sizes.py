#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes of a sample in each format.

usage: tests/bench/bench_sizes.py [--ring S] BUILD

Records redis-server under load for 5 s, as etc/quickstart does, and 200 threads
that wake 20 times a second each for S seconds (default: 30), and converts both
recordings. A sample is one thread at one tick. Prints the size of each file, of
it gzipped, and both for each sample. Nothing passes or fails.
"""
import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
REDIS_S, THREADS, START_S = 5, 200, 10
# Name of the file → further arguments.
FORMS = {"fgt": (), "pftrace": (), "trace.json": (),
         "root.trace.json": ("--state-frames", "root"), "pb.gz": (),
         "folded": (), "speedscope.json": (), "otlp": (), "envelope": (),
         "chunk.envelope": ()}


class NotRun(Exception):
    pass


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise NotRun(f"{command[0]}: {result.stderr.strip()}")
    return result.stdout


def start(children, *command):
    try:
        child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError as error:
        raise NotRun(str(error)) from error
    children.append(child)
    return child


def start_redis(scratch, children):
    path = f"{scratch}/redis.sock"
    server = start(children, "redis-server", "--port", "0", "--unixsocket",
                   path, "--save", "", "--dir", scratch)
    until = time.monotonic() + START_S
    while not os.path.exists(path):
        if server.poll() is not None or time.monotonic() > until:
            raise NotRun("redis-server does not start")
        time.sleep(0.05)
    start(children, "redis-benchmark", "-s", path, "-q", "-l", "-c", "20",
          "-t", "set,get,lpush,lrange_300")
    time.sleep(1)
    return server.pid


def start_storm(build, seconds, children):
    storm = start(children, f"{build}/tests/programs/storm", "wake",
                  str(THREADS), str(seconds + START_S),
                  str(seconds + START_S))
    pid = int(storm.stdout.readline().split()[1])
    time.sleep(1)
    return pid


def put_sizes(agent, title, source, scratch):
    summary = json.loads(run(agent, "convert", source, "--json"))
    samples = sum(thread["samples"] for thread in summary["threads"])
    print(f"{title}: {len(summary['threads'])} threads, {samples} samples")
    for form, more in FORMS.items():
        out = f"{scratch}/out.{form}"
        begin = time.monotonic()
        try:
            run(agent, "convert", source, "-q", "-o", out, *more)
        except NotRun as error:
            print(f"  as {form:16s} not run: {error}")
            continue
        took_ms = 1000 * (time.monotonic() - begin)
        with open(out, "rb") as file:
            content = file.read()
        packed = len(content if form == "pb.gz" else
                     gzip.compress(content, 6))
        print(f"  as {form:16s} {len(content) / 1e6:8.3f} MB, "
              f"{len(content) / samples:7.2f} bytes a sample; gzipped "
              f"{packed / 1e6:7.3f} MB, {packed / samples:6.2f}; "
              f"{took_ms:6.0f} ms", flush=True)


def measure(agent, title, begin, seconds):
    children = []
    scratch = tempfile.mkdtemp(prefix="fgtrace-sizes-")
    source = f"{scratch}/source.fgt"
    try:
        pid = begin(scratch, children)
        run(agent, "record", "-q", "-d", str(seconds), "-p", str(pid), "-o",
            source)
        for child in children:
            child.kill()
        put_sizes(agent, title, source, scratch)
    except NotRun as error:
        print(f"{title}: not run: {error}")
    finally:
        for child in children:
            child.kill()
            child.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default=f"{ROOT}/build/bench")
    parser.add_argument("--ring", type=int, default=30)
    arguments = parser.parse_args()
    agent = f"{arguments.build}/fgtrace-agent"
    print("bytes of a sample in each format")
    measure(agent, f"redis-server under load, {REDIS_S} s", start_redis,
            REDIS_S)
    measure(agent, f"{THREADS} threads that wake often, {arguments.ring} s",
            lambda _, children: start_storm(arguments.build, arguments.ring,
                                            children), arguments.ring)


if __name__ == "__main__":
    sys.exit(main())

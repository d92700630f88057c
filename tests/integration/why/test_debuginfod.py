# SPDX-License-Identifier: Apache-2.0
"""Names of a stripped program come from a debuginfod server, if the environment
names one. test_debuginfod.py BUILD"""
import fcntl
import os
import re
import shutil
import socket as sockets
import struct
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.harness import Bench, Checks, read_until  # noqa: E402

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
checks = Checks()
ok = checks.ok


def free_port():
    with sockets.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def strip(bench):
    """A program without names, and a folder with its debug file."""
    program = bench.path("stripped")
    folder = bench.path("debug")
    os.makedirs(folder)
    debug = os.path.join(folder, "stripped.debug")
    source = bench.program("traced-own")
    subprocess.run(["objcopy", "--only-keep-debug", source, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", source, program], check=True)
    notes = subprocess.run(["readelf", "-n", program], text=True, check=True,
                           capture_output=True).stdout
    return program, folder, re.search(r"Build ID: (\w+)", notes)[1]


def serve(bench, folder, build_id):
    """A server that has the debug file; its address."""
    port = free_port()
    with open(bench.path("debuginfod.log"), "w") as log:
        bench.start(["debuginfod", "-F", "-p", str(port), "-d", ":memory:",
                     folder], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{url}/buildid/{build_id}/debuginfo")
            return url
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("debuginfod does not have the file")


def environment(bench, url, cache="cache"):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("DEBUGINFOD")}
    env["DEBUGINFOD_CACHE_PATH"] = bench.path(cache)
    if url:
        env["DEBUGINFOD_URLS"] = url
    return env


def check(bench, name, command, url):
    result = bench.run(*command, "-f", "folded", "-o", "-",
                       env=environment(bench, url))
    ok(f"{name}: functions have names", "span_of_1" in result.stdout and
       "burn_ms" in result.stdout and "stripped!0x" not in result.stdout,
       result.stdout[:400] + result.stderr)
    ok(f"{name}: nothing else is asked for", "DEBUGINFOD" not in result.stderr,
       result.stderr)
    return result


def check_answers(bench, path, url):
    """A file without names is compared and explained with them."""
    for verb, rest in (("why", ("--last", "500ms")),
                       ("diff", ("--from", "-1s", "--to", "now",
                                 "--against-from", "-2s", "--against-to",
                                 "-1s"))):
        without, result = (bench.run(verb, path, *rest,
                                     env=environment(bench, at, "answers"))
                           for at in (None, url))
        ok(f"{verb}: functions have names", result.returncode == 0 and
           re.search("burn_ms|span_of_", result.stdout) and
           "stripped!0x" not in result.stdout, result.stdout + result.stderr)
        ok("… and none without a server", "stripped!0x" in without.stdout,
           without.stdout + without.stderr)


def check_without(bench, path):
    result = bench.run("convert", path, "-f", "folded", "-o",
                       bench.path("without"), env=environment(bench, None))
    text = open(bench.path("without")).read()
    ok("without the variable functions have no names",
       "stripped!0x" in text and "span_of_" not in text, text[:400])
    ok("… and the summary names it once",
       (result.stdout + result.stderr).count("DEBUGINFOD_URLS") == 1,
       result.stdout + result.stderr)
    ok("… and no cache is made", not os.path.exists(bench.path("cache")))


def check_failures(bench, path, folder, build_id):
    closed = f"http://127.0.0.1:{free_port()}"
    result = bench.run("convert", path, "-f", "folded", "-o", "-", "-q",
                       env=environment(bench, closed, "other"))
    ok("a server that is not there costs nothing", result.returncode == 0 and
       "stripped!0x" in result.stdout, result.stderr)
    with sockets.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        begin = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = bench.run("convert", path, "-f", "folded", "-o", "-", "-q",
                           env=environment(bench, url, "third"))
        took = time.monotonic() - begin
    ok("one that does not answer is given up after 10 s",
       result.returncode == 0 and "stripped!0x" in result.stdout and
       9 < took < 14, (took, result.stderr))
    other = os.path.join(bench.path("fourth"), build_id)
    os.makedirs(other)
    shutil.copy2(bench.program("blockers"), os.path.join(other, "debuginfo"))
    result = bench.run("convert", path, "-f", "folded", "-o", "-", "-q",
                       env=environment(bench, closed, "fourth"))
    ok("a file of another build id is not believed",
       result.returncode == 0 and "stripped!0x" in result.stdout,
       result.stdout[:400] + result.stderr)


def enter_own_network():
    """debuginfod listens on all addresses: here there is loopback alone."""
    if os.environ.get("FGT_OWN_NETWORK") or os.getuid() != 0:
        return
    os.environ["FGT_OWN_NETWORK"] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def bring_loopback_up():
    with sockets.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS,
                    struct.pack("16sh14x", b"lo", IFF_UP))


def main():
    enter_own_network()
    if os.getuid() == 0:
        bring_loopback_up()
    bench = Bench(sys.argv[1])
    try:
        if not shutil.which("debuginfod"):
            ok("a server", False, "apt-get install debuginfod")
            return
        program, folder, build_id = strip(bench)
        _, socket = bench.daemon("named")
        child = bench.start([program, "pointer"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
        pid = read_until(child.stdout, "ready ")
        bench.run("--socket", socket, "attach", pid)
        time.sleep(3)
        path = bench.path("nameless.fgt")
        sliced = ("--socket", socket, "slice", "-p", pid, "--last", "2s")
        bench.run(*sliced, "-q", "-o", path, env=environment(bench, None))
        check_without(bench, path)
        url = serve(bench, folder, build_id)
        check(bench, "slice", sliced, url)
        check(bench, "record", ("record", "-p", pid, "-d", "1s"), url)
        stacks = bench.run("--socket", socket, "stacks", "-p", pid,
                           env=environment(bench, url))
        ok("stacks: functions have names", "span_of_" in stacks.stdout,
           stacks.stdout + stacks.stderr)
        check_answers(bench, path, url)
        check_failures(bench, path, folder, build_id)
        child.stdin.close()
        child.wait(10)
    finally:
        bench.close()
        checks.finish()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Starts real programs under load, as targets of tests.

Each function returns (pid of the busy process, the child that drives it):
killing the child ends the load; Bench.close() ends the rest.
"""
import os
import pwd
import subprocess
import time

from kit.harness import read_until


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def redis(bench):
    socket = bench.path("redis.sock")
    server = bench.start(["redis-server", "--port", "0", "--unixsocket",
                          socket, "--save", "", "--dir", bench.scratch],
                         stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(socket))
    load = bench.start(["redis-benchmark", "-s", socket, "-q", "-l", "-t",
                        "set,lpush,lrange_300", "-c", "20"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return server.pid, load


def postgres_server(bench):
    """(the first process, the command of a client up to its statement, the
    folder in which it has to run)."""
    versions = sorted(os.listdir("/usr/lib/postgresql"))
    binaries = f"/usr/lib/postgresql/{versions[-1]}/bin"
    user = pwd.getpwnam("postgres")
    folder = bench.path("pg")
    os.makedirs(folder)
    os.chown(folder, user.pw_uid, user.pw_gid)
    as_postgres = ["setpriv", f"--reuid={user.pw_uid}",
                   f"--regid={user.pw_gid}", "--clear-groups"]
    subprocess.run([*as_postgres, f"{binaries}/initdb", "-D", folder + "/data",
                    "-A", "trust", "--no-sync"], check=True,
                   stdout=subprocess.DEVNULL, cwd=folder)
    server = bench.start(
        [*as_postgres, f"{binaries}/postgres", "-D", folder + "/data",
         "-k", folder, "-c", "listen_addresses=", "-F"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    psql = [*as_postgres, f"{binaries}/psql", "-h", folder, "-d", "postgres",
            "-At", "-c"]
    wait_for(lambda: subprocess.run([*psql, "select 1"], capture_output=True,
                                    cwd=folder).returncode == 0)
    return server, psql, folder


def postgres(bench):
    _, psql, folder = postgres_server(bench)
    query = ("select pg_backend_pid(); select count(*), sum(a*b) from "
             "generate_series(1,46000) a, generate_series(1,46000) b "
             "where a % 7 = b % 11")
    client = bench.start([*psql, "select pg_backend_pid()", "-c", query],
                         stdout=subprocess.PIPE, text=True, cwd=folder)
    backend = client.stdout.readline().strip()
    time.sleep(1)
    return int(backend), client


def python(bench, seconds):
    script = ("import os,time\nprint('ready', os.getpid(), flush=True)\n"
              "end=time.monotonic()+%d\n"
              "def work():\n return sorted(hash(str(i)) for i in range(5000))\n"
              "while time.monotonic()<end: work(); time.sleep(0.002)\n")
    child = bench.start(["/usr/bin/python3", "-c", script % seconds],
                        stdout=subprocess.PIPE, text=True)
    return int(read_until(child.stdout, "ready ")), child

# SPDX-License-Identifier: Apache-2.0
"""Real servers and languages, each recorded once under load.

usage: test_real_targets.py BUILD [SECONDS]

A function that the program is known to spend its time in must be in the
slice, with stacks that reach the thread's start.
"""
import os
import pwd
import re
import subprocess
import sys
import time

from harness import Bench, Checks, Samples, read_until


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def check_slice(bench, checks, name, pid, seconds, expected, minimum=0.98):
    """Records pid and looks for each pattern among its functions."""
    out = bench.path(name + ".fgt")
    result = bench.run("record", "-d", str(seconds), "-p", str(pid), "-o", out)
    if not checks.ok(f"{name}: recorded", result.returncode == 0,
                     result.stderr):
        return
    envelope = bench.path(name + ".envelope")
    result = bench.run("convert", out, "-o", envelope)
    if not checks.ok(f"{name}: converted", result.returncode == 0,
                     result.stderr):
        return
    samples = Samples(envelope)
    functions = samples.functions()
    for pattern in expected:
        checks.ok(f"{name}: {pattern} is in the slice",
                  any(re.search(pattern, f) for f in functions),
                  f"{len(functions)} functions: {sorted(functions)[:40]}")
    stacks = [s for t in samples.by_thread.values() for _, s in t]
    complete = sum(not any(f.startswith("[truncated") for f in s)
                   for s in stacks)
    checks.ok(f"{name}: {100 * minimum:.0f} % of {len(stacks)} stacks "
              "complete", complete >= minimum * len(stacks),
              f"{complete} complete")
    print(f"# {name}: {complete}/{len(stacks)} complete, "
          f"{len(functions)} functions")


def redis(bench, checks, seconds):
    socket = bench.path("redis.sock")
    server = bench.start(["redis-server", "--port", "0", "--unixsocket",
                          socket, "--save", "", "--dir", bench.scratch],
                         stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(socket))
    load = bench.start(["redis-benchmark", "-s", socket, "-q", "-l", "-t",
                        "set,lpush,lrange_300", "-c", "20"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check_slice(bench, checks, "redis-server", server.pid, seconds,
                ["aeProcessEvents|aeMain", "processCommand|call$|readQuery",
                 "^main$", "^epoll_wait$"])
    load.kill()


def nginx(bench, checks, seconds):
    folder = bench.path("nginx")
    os.makedirs(folder + "/html")
    with open(folder + "/html/page.html", "w") as file:
        file.write("<p>hello</p>" * 3000)
    port = 20000 + os.getpid() % 20000
    with open(folder + "/nginx.conf", "w") as file:
        file.write(f"""
daemon off; worker_processes 1; pid {folder}/nginx.pid;
error_log {folder}/error.log; user root;
events {{ worker_connections 256; }}
http {{ access_log off; gzip on; gzip_min_length 1; gzip_http_version 1.0;
 client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
 fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d;
 scgi_temp_path {folder}/e;
 server {{ listen 127.0.0.1:{port}; root {folder}/html; }} }}
""")
    server = bench.start(["nginx", "-c", folder + "/nginx.conf", "-e",
                          folder + "/error.log"])
    url = f"http://127.0.0.1:{port}/page.html"
    worker = []

    def has_worker():
        text = subprocess.run(["pgrep", "-P", str(server.pid)],
                              capture_output=True, text=True).stdout
        worker[:] = text.split()
        return bool(worker)
    wait_for(has_worker)
    load = bench.start(["ab", "-q", "-k", "-t", str(seconds + 10), "-n",
                        "100000000", "-c", "8", "-H",
                        "Accept-Encoding: gzip", url],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    check_slice(bench, checks, "nginx", worker[0], seconds,
                ["^ngx_", "^deflate"])
    load.kill()


def postgres(bench, checks, seconds):
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
    bench.start([*as_postgres, f"{binaries}/postgres", "-D", folder + "/data",
                 "-k", folder, "-c", "listen_addresses=", "-F"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                cwd=folder)
    psql = [*as_postgres, f"{binaries}/psql", "-h", folder, "-d", "postgres",
            "-At", "-c"]
    wait_for(lambda: subprocess.run([*psql, "select 1"], capture_output=True,
                                    cwd=folder).returncode == 0)
    query = ("select pg_backend_pid(); select count(*), sum(a*b) from "
             "generate_series(1,30000) a, generate_series(1,30000) b "
             "where a % 7 = b % 11")
    client = bench.start([*psql, "select pg_backend_pid()", "-c", query],
                         stdout=subprocess.PIPE, text=True, cwd=folder)
    backend = client.stdout.readline().strip()
    time.sleep(1)
    check_slice(bench, checks, "postgres", backend, seconds,
                ["^Exec", "^main$"])
    client.kill()


def python(bench, checks, seconds):
    script = ("import os,time\nprint('ready', os.getpid(), flush=True)\n"
              "end=time.monotonic()+%d\n"
              "def work():\n return sorted(hash(str(i)) for i in range(5000))\n"
              "while time.monotonic()<end: work(); time.sleep(0.002)\n")
    child = bench.start(["/usr/bin/python3", "-c", script % (seconds + 10)],
                        stdout=subprocess.PIPE, text=True)
    pid = read_until(child.stdout, "ready ")
    check_slice(bench, checks, "python3", pid, seconds,
                ["^_PyEval_EvalFrameDefault$", "^Py_"])


def compiled(bench, checks, seconds, name, expected):
    program = bench.program(name)
    if not os.path.exists(program):
        checks.ok(f"{name}: built", False, "its compiler is not installed")
        return
    child = bench.start([program, str(seconds + 3)], stdout=subprocess.PIPE,
                        text=True)
    pid = read_until(child.stdout, "ready ")
    check_slice(bench, checks, name, pid, seconds, expected, 0.995)


def main():
    bench, checks = Bench(sys.argv[1]), Checks()
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    try:
        for server in (redis, nginx, postgres, python):
            server(bench, checks, seconds)
        compiled(bench, checks, seconds, "orders",
                 [r"shop::price_order\(unsigned int\)", r"shop::serve_orders",
                  r"std::.*sort", r"^main$"])
        compiled(bench, checks, seconds, "words",
                 [r"words::Counter::count_words", r"words::main",
                  r"HashMap|hashbrown"])
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

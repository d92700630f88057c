# SPDX-License-Identifier: Apache-2.0
"""Real servers and languages, each recorded once under load.

usage: test_real_targets.py BUILD [SECONDS]

The function in which the program spends its time must be in the slice, with
stacks that reach the thread's start.
"""
import os
import re
import shutil
import subprocess
import sys
import time

from kit import real_programs
from kit.harness import Bench, Checks, Samples, read_until
from kit.real_programs import wait_for


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
    pid, load = real_programs.redis(bench)
    check_slice(bench, checks, "redis-server", pid, seconds,
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
    backend, client = real_programs.postgres(bench)
    check_slice(bench, checks, "postgres", backend, seconds,
                ["^Exec", "^main$"])
    client.kill()


def python(bench, checks, seconds):
    pid, _ = real_programs.python(bench, seconds + 10)
    check_slice(bench, checks, "python3", pid, seconds,
                ["^_PyEval_EvalFrameDefault$", "^Py_"])


GO_PROGRAM = """package main

import (
	"sync"
	"time"
)

var lock sync.Mutex
var sum int

func work() {
	for {
		lock.Lock()
		for i := 0; i < 1000000; i++ {
			sum += i
		}
		lock.Unlock()
		time.Sleep(time.Millisecond)
	}
}

func main() {
	for i := 0; i < 8; i++ {
		go work()
	}
	println("ready")
	select {}
}
"""


def go(bench, checks, seconds):
    """Threads that look for work are on stacks that begin at runtime.mcall."""
    if not shutil.which("go"):
        print("# go is not installed")
        return
    source, program = bench.path("work.go"), bench.path("gowork")
    with open(source, "w") as file:
        file.write(GO_PROGRAM)
    subprocess.run(["go", "build", "-o", program, source], check=True,
                   timeout=300, env=dict(os.environ, GO111MODULE="off",
                                         GOCACHE=bench.path("go-cache")))
    child = bench.start([program], stderr=subprocess.PIPE, text=True)
    read_until(child.stderr, "ready")
    check_slice(bench, checks, "gowork", child.pid, seconds,
                ["^main.work$", "^runtime.mcall$"], 0.95)


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
        for server in (redis, nginx, postgres, python, go):
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

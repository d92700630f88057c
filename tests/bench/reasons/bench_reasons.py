# SPDX-License-Identifier: Apache-2.0
"""Of how much blocked time is the reason known? Real programs under load.
bench_reasons.py BUILD [NAME…]

redis, PostgreSQL whose sessions wait for rows, nginx, and pools of
threads in C++, Rust, Go and Java, each recorded for some seconds; the C++ pool
also by an ordinary user, by schedstat and by itself. A program of which the
compiler or the run time is missing is left out, with that reason.
"""
import collections
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)),
                                "integration"))
from kit import real_programs  # noqa: E402
from kit.harness import Bench, as_user, read_until  # noqa: E402
from kit.read_fgt import NOT_BLOCKED, Slice  # noqa: E402

SECONDS = 5
KINDS = ("unknown", "mutex", "rwlock", "lock", "notification", "descriptor",
         "events", "child", "sleep", "page fault", "signal", "ipc", "stopped",
         "kernel", "join")


# A server that has something to do all the time is never blocked.
CLIENT = """
import http.client, time
connection = http.client.HTTPConnection("127.0.0.1", 18643)
while True:
    connection.request("GET", "/")
    connection.getresponse().read()
    time.sleep(0.003)
"""


class Missing(Exception):
    """What the machine lacks for a program."""


def tool(name):
    if not shutil.which(name):
        raise Missing(f"{name} is not installed")
    return name


def start_pool(bench, command, as_nobody=False, **more):
    child = bench.start([*command, str(SECONDS + 4)], as_nobody, text=True,
                        stdout=subprocess.PIPE, cwd=bench.scratch, **more)
    read_until(child.stdout, "ready")
    return child.pid


def build(bench, command):
    """The program that a compiler makes of the file beside this one."""
    path = bench.path("pool")
    subprocess.run([*command, "-o", path], check=True, cwd=HERE)
    os.chmod(path, 0o755)
    return [path]


def cpp(bench):
    return build(bench, [tool("g++"), "-O2", "-std=c++17", "-pthread",
                         f"{HERE}/pool.cc"])


def redis(bench):
    tool("redis-server")
    return [real_programs.redis(bench)[0]]


def postgres(bench):
    """The processes of sessions that change the same rows."""
    _, psql, folder = real_programs.postgres_server(bench)
    pgbench = [part.replace("/psql", "/pgbench") for part in psql[:5]]
    connect = ["-h", folder, "postgres"]
    subprocess.run([*pgbench, "-i", "-q", *connect], check=True, cwd=folder,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.start([*pgbench, "-c", "8", "-T", str(4 * SECONDS), *connect],
                cwd=folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
    real_programs.wait_for(lambda: False, 1)
    text = subprocess.run(
        [*psql, "select pid from pg_stat_activity where backend_type = "
         "'client backend' and pid <> pg_backend_pid()"], cwd=folder,
        capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in text.split()[:3]]


def nginx(bench):
    tool("nginx")
    folder = bench.path("nginx")
    os.makedirs(folder)
    conf = os.path.join(folder, "nginx.conf")
    with open(conf, "w") as file:
        file.write(f"""daemon off; worker_processes 1; user root;
pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{ access_log {folder}/access.log;
 server {{ listen 127.0.0.1:18643; location / {{ root /usr/share; autoindex on; }} }}
}}""")
    bench.start(["nginx", "-c", conf], stderr=subprocess.DEVNULL)
    real_programs.wait_for(lambda: os.path.exists(folder + "/pid") and
                           os.path.getsize(folder + "/pid") > 0)
    bench.start([sys.executable, "-c", CLIENT])
    with open(folder + "/pid") as file:
        master = file.read().strip()
    with open(f"/proc/{master}/task/{master}/children") as file:
        return [int(pid) for pid in file.read().split()]


def pool_cpp(bench):
    return [start_pool(bench, cpp(bench))]


def pool_rust(bench):
    return [start_pool(bench, build(bench, [tool("rustc"), "-O", "-g",
                                            f"{HERE}/pool.rs"]))]


def pool_go(bench):
    subprocess.run([tool("go"), "build", "-o", bench.path("pool"),
                    f"{HERE}/pool.go"], check=True, cwd=HERE,
                   env={**os.environ, "GOFLAGS": "-mod=mod",
                        "GOCACHE": bench.path("cache"), "GO111MODULE": "off"})
    return [start_pool(bench, [bench.path("pool")])]


def pool_java(bench):
    tool("java")
    subprocess.run([tool("javac"), "-d", bench.scratch, f"{HERE}/Pool.java"],
                   check=True)
    return [start_pool(bench, ["java", "-cp", bench.scratch, "Pool"])]


def record(bench, pid, as_nobody=False, **environment):
    path = bench.path(f"{pid}.fgt")
    result = subprocess.run(
        as_user([bench.agent, "record", "-q", "-d", str(SECONDS), "-p",
                 str(pid), "-o", path], as_nobody),
        env={**os.environ, **environment}, capture_output=True, text=True)
    if result.returncode:
        raise Missing(result.stderr.strip())
    return path


def record_as_nobody(bench):
    folder = bench.copy_for_nobody()
    os.chown(bench.scratch, 65534, 65534)
    pid = start_pool(bench, cpp(bench), True)
    bench.agent = os.path.join(folder, "fgtrace-agent")
    return [record(bench, pid, True)]


def record_by_schedstat(bench):
    pid = start_pool(bench, cpp(bench))
    return [record(bench, pid, FGTRACE_SAMPLING_WHO_RAN="schedstat")]


def record_itself(bench):
    path = bench.path("itself.fgt")
    library = os.path.join(bench.build, "libfgtrace.so.0")
    subprocess.run([*cpp(bench), str(SECONDS)], check=True,
                   stdout=subprocess.DEVNULL,
                   env={**os.environ, "LD_PRELOAD": library,
                        "FGTRACE_OUT": path})
    return [path]


def recorded(start):
    return lambda bench: [record(bench, pid) for pid in start(bench)]


PROGRAMS = {
    "redis": recorded(redis), "postgres": recorded(postgres),
    "nginx": recorded(nginx), "cpp": recorded(pool_cpp),
    "rust": recorded(pool_rust), "go": recorded(pool_go),
    "java": recorded(pool_java), "cpp-user": record_as_nobody,
    "cpp-schedstat": record_by_schedstat, "cpp-embedded": record_itself,
}


def count(path, blocked, nameless):
    """Adds periods by kind of wait, and by state those without a reason."""
    with open(path, "rb") as file:
        found = Slice(file.read())
    states = dict(found.states)
    for run, (_, tick, ticks, _, state) in enumerate(found.runs):
        if state in NOT_BLOCKED:
            continue
        wait = found.wait_of_run.get(run, 0)
        kind = found.waits[wait - 1][0] if wait else 0
        weight = found.weight(tick, ticks)
        blocked[KINDS[kind]] += weight
        if kind == 0:
            nameless[found.string(states[state]).decode()] += weight


def show(name, blocked, nameless):
    total = blocked.total() or 1
    kinds = ", ".join(f"{kind} {100 * part / total:.1f}"
                      for kind, part in blocked.most_common(5))
    print(f"{name:14} {100 - 100 * blocked['unknown'] / total:6.2f} %  of "
          f"{total:6} thread-ticks: {kinds}"
          + (f"; without: {dict(nameless.most_common(3))}" if nameless else ""),
          flush=True)


def main():
    names = sys.argv[2:] or list(PROGRAMS)
    for name in names:
        bench = Bench(sys.argv[1])
        blocked, nameless = collections.Counter(), collections.Counter()
        try:
            for path in PROGRAMS[name](bench):
                count(path, blocked, nameless)
            show(name, blocked, nameless)
        except (Missing, subprocess.CalledProcessError) as error:
            print(f"{name:14} not run: {error}", flush=True)
        finally:
            bench.close()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The installed libfgtrace, linked by programs with other compiler flags, with a
real agent.  test_library.py BUILD [GROUP…]"""
import errno
import os
import re
import signal
import subprocess
import time

from kit.daemon_bench import Daemon, run_groups
from kit.daemon_client import call
from kit.harness import ROOT
from kit.library_bench import Host, Installation

made = {}


def installation(bench):
    if "prefix" not in made:
        made["prefix"] = Installation(bench)
    return made["prefix"]


def host_program(bench):
    if "host" not in made:
        made["host"], why = installation(bench).compile(
            "host.c", "host", ["cc"], "-std=c99", "-pedantic")
        if not made["host"]:
            raise RuntimeError(why)
    return made["host"]


def functions_of(bench, path):
    """Names of functions in a .fgt file, as the command line shows them."""
    out = path + ".folded"
    result = bench.run("convert", path, "-o", out)
    if result.returncode != 0:
        return result.stderr
    with open(out) as file:
        return file.read()


def public_names():
    with open(os.path.join(ROOT, "agent", "lib",
                           "fgtrace.h")) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return set(re.findall(r"^(?:[a-z_0-9]+[ *]+)+(fgt_\w+)\(", text, re.M))


def names_of(path, *flags):
    out = subprocess.run(["nm", "--format=posix", *flags, path], text=True,
                         capture_output=True, check=True).stdout
    return {line.split()[0].split("@")[0] for line in out.split("\n")
            if len(line.split()) > 2 and line.split()[1] in "TDBRVW" and
            not line.split()[0].startswith("FGTRACE_")}


def libraries_show_the_public_names_only(checks, bench):
    place = installation(bench)
    # And the variable that a specification names.
    names = public_names() | {"otel_thread_ctx_v1"}
    shared = names_of(place.library("libfgtrace.so"), "-D",
                      "--defined-only")
    checks.ok("shared library exports the header's functions and a variable",
              len(names) > 25 and shared == names, shared ^ names)
    static = names_of(place.library("libfgtrace.a"), "-g", "--defined-only")
    checks.ok("static library exports the header's functions and a variable",
              static == names,
              static ^ names)
    dynamic = subprocess.run(
        ["readelf", "-dW", place.library("libfgtrace.so")], text=True,
        capture_output=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    checks.ok("shared library needs libc only", needed <= {"libc.so.6",
                                               "ld-linux-x86-64.so.2"} and
              "libc.so.6" in needed, needed)
    checks.ok("recording part needs no libm",
              "libm.so" not in subprocess.run(
                  ["readelf", "-dW",
                   place.library("fgtrace/libfgtrace-embed.so")],
                  text=True, capture_output=True, check=True).stdout)
    checks.ok("soname is libfgtrace.so.0", "[libfgtrace.so.0]" in dynamic,
              dynamic)
    checks.ok("shared library is never unloaded",
              "NODELETE" in dynamic, dynamic)
    segments = subprocess.run(
        ["readelf", "-lW", place.library("libfgtrace.so")], text=True,
        capture_output=True, check=True).stdout
    tls = re.search(r"TLS\s+\S+ \S+ \S+ \S+ (0x[0-9a-f]+)", segments)
    checks.ok("thread-local storage is small",
              tls is None or int(tls.group(1), 16) <= 256, tls)
    pages = os.path.join(place.prefix, "share", "man", "man3")
    missing = [name for name in public_names()
               if not os.path.exists(os.path.join(pages, name + ".3"))]
    checks.ok("every function has its man page", not missing, missing)
    for page in sorted(os.listdir(pages)):
        with open(os.path.join(pages, page)) as file:
            if file.read().startswith(".so "):
                continue
        result = subprocess.run(
            ["groff", "-man", "-wall", "-Tutf8", os.path.join(pages, page)],
            capture_output=True, text=True)
        checks.ok(f"{page} renders without warnings",
                  result.returncode == 0 and not result.stderr, result.stderr)


def header_is_clean(checks, bench):
    place = installation(bench)
    include = place.ask("--cflags")
    source = bench.path("only_header")
    for name, compiler in (("C99", ["cc", "-std=c99", "-xc"]),
                           ("C11", ["cc", "-std=c11", "-xc"]),
                           ("C++98", ["g++", "-std=c++98", "-xc++",
                                      "-Wno-long-long"]),
                           ("C++17", ["g++", "-std=c++17", "-xc++"]),
                           ("clang's C99", ["clang", "-std=c99", "-xc"])):
        with open(source, "w") as file:
            file.write("#include <fgtrace.h>\nint main(void) "
                       "{ return fgt_now() == 0; }\n")
        result = subprocess.run(
            [*compiler, "-pedantic", "-Wall", "-Wextra", "-Wconversion",
             "-Werror", "-fsyntax-only", source, *include], text=True,
            capture_output=True)
        checks.ok(f"header is clean {name}", result.returncode == 0,
                  result.stderr)


def slices_name_their_own_functions(checks, bench):
    daemon = Daemon(bench, "slices")
    host = Host(bench, host_program(bench))
    checks.ok("start", host.start(daemon.socket) == 0, daemon.log_text())
    targets = call(daemon.socket, "targets")["targets"]
    checks.ok("agent samples it: origin registered",
              [(t["pid"], t["origin"]) for t in targets] ==
              [(host.pid, "registered")], targets)
    checks.ok("status counts it", daemon.status()["registered"] == 1)
    result = host.ask("status")
    checks.ok("library's status agrees with the agent's",
              result[:4] == [0, 1, 1, "101.0"],
              result)
    host.ask("burn 1000")
    path = bench.path("own.fgt")
    result = host.slice(1000, path)
    checks.ok("slice of a second", result[0] == 0 and
              80 <= result[1] <= 110 and result[2] >= 4, result)
    text = functions_of(bench, path)
    checks.ok("slice shows the program's functions",
              "burn_in_host" in text and "sleep_in_host" in text,
              text[-1000:])
    result = host.ask("ahead 300")
    checks.ok("slice with a future end waits for it",
              result[0] == 0 and result[4] >= 300e6 and
              # Ticks are 13/16 to 19/16 of a period apart.
              25 <= result[1] <= 39, result)
    checks.ok("program ends with 0", host.end() == 0)
    checks.ok("no process is sampled after its end", daemon.until(
        lambda: call(daemon.socket, "targets")["targets"] == []),
        call(daemon.socket, "targets"))
    daemon.end()


def recorder_behaves_like_a_flight_recorder(checks, bench):
    """Go's FlightRecorder tests, G1 to G8."""
    daemon = Daemon(bench, "flight")
    host = Host(bench, host_program(bench))
    checks.ok("G3 slice before start fails",
              host.slice(10)[0] == -errno.ENOTCONN)
    checks.ok("G2 not recording before", host.ask("status")[2] == 0)
    threads, fds = host.ask("threads")[0], host.ask("fds")[0]
    checks.ok("start", host.start(daemon.socket) == 0)
    checks.ok("G1 second start fails",
              host.start(daemon.socket) == -errno.EALREADY)
    checks.ok("G2 recording during", host.ask("status")[2] == 1)
    host.ask("burn 300")
    results = host.ask("many 2 200")
    checks.ok("G4 two slices at once", results == [0, 0], results)
    results = host.ask("many 40 200")
    checks.ok("G4 each of forty is served or gets busy",
              len(results) == 40 and 0 in results and
              set(results) <= {0, -errno.EBUSY}, results)
    before = host.ask("fds")[0]
    for i in range(20):
        result = host.slice(50)
    checks.ok("slices leave no descriptors", host.ask("fds")[0] == before,
              (before, host.ask("fds")))
    path = bench.path("event.fgt")
    host.ask("burn 100")
    host.slice(100, path)
    checks.ok("G6 what happened just before is in it",
              "burn_in_host" in functions_of(bench, path))
    result = host.slice(3)
    checks.ok("G7 slice of less than two ticks fails",
              result[0] == -errno.ENODATA, result)
    other = bench.run("--socket", daemon.socket, "slice", "--last", "1s",
                      "-o", bench.path("other.fgt"))
    result = host.slice(100)
    checks.ok("G8 the command line slices it meanwhile",
              other.returncode == 0 and result[0] == 0 and
              result[3] < os.path.getsize(bench.path("other.fgt")),
              (other.stderr, result))
    checks.ok("stop", host.ask("stop") == [])
    checks.ok("G2 not recording after", host.ask("status")[2] == 0)
    checks.ok("G3 slice after stop fails",
              host.slice(10)[0] == -errno.ENOTCONN)
    rounds = []
    for i in range(5):
        started = host.start(daemon.socket)
        host.ask("burn 100")
        rounds.append((started, host.slice(80)[0]))
        host.ask("stop")
    checks.ok("G5 five rounds on one recorder", rounds == [(0, 0)] * 5,
              (rounds, daemon.log_text()[-2000:]))
    checks.ok("stop leaves neither thread nor descriptor",
              (host.ask("threads")[0], host.ask("fds")[0]) == (threads, fds))
    host.end()
    daemon.end()


def agent_dies_and_comes_back(checks, bench):
    daemon = Daemon(bench, "restart")
    host = Host(bench, host_program(bench))
    host.start(daemon.socket, timeout_ms=2000)
    host.ask("burn 200")
    for i in range(2):
        daemon.end(signal.SIGKILL)
        result = host.slice(100)
        checks.ok("slice without an agent fails at once",
                  result[0] == -errno.ENOTCONN and result[4] < 1e9, result)
        time.sleep(1.5)
        status = host.ask("status")
        checks.ok("status reports that there is no agent", status[2] == 0 and
                  "fgtrace-agent" in " ".join(map(str, status)), status)
        daemon.start()
        checks.ok("library finds the new agent",
                  daemon.until(lambda: host.ask("status")[2] == 1),
                  host.ask("status"))
        host.ask("burn 200")
        result = host.slice(150)
        checks.ok("slice succeeds with the new agent", result[0] == 0, result)
    os.kill(daemon.child.pid, signal.SIGSTOP)
    begun = time.monotonic()
    result = host.slice(100)
    took = time.monotonic() - begun
    checks.ok("slice from a hanging agent fails after the time-out",
              result[0] == -errno.ETIMEDOUT and 1.9 < took < 8,
              (result, took))
    os.kill(daemon.child.pid, signal.SIGCONT)
    checks.ok("agent that hung is used again", daemon.until(
        lambda: host.slice(100)[0] == 0), host.slice(100))
    host.end()
    daemon.end()


def lost_socket_is_logged(checks, bench):
    """The socket's path no longer works, as after chroot or setuid."""
    daemon = Daemon(bench, "way")
    way, aside = bench.path("folder"), bench.path("folder.aside")
    os.symlink(os.path.dirname(daemon.socket), way)
    host = Host(bench, host_program(bench))
    host.start(os.path.join(way, os.path.basename(daemon.socket)))
    host.ask("burn 200")
    result = host.slice(100)
    checks.ok("slice succeeds while the socket can be reached",
              result[0] == 0, result)
    os.rename(way, aside)
    result, status = host.slice(100), host.ask("status")
    checks.ok("slice without the socket fails, and status has the cause",
              result[0] == -errno.ENOTCONN and status[2] == 1 and
              "out of reach: No such file" in " ".join(map(str, status)),
              (result, status))
    os.rename(aside, way)
    result, status = host.slice(100), host.ask("status")
    checks.ok("slice succeeds when the socket is back, and status is clean",
              result[0] == 0 and status[2] == 1 and
              "out of reach" not in " ".join(map(str, status)),
              (result, status))
    host.end()
    daemon.end()


def fork_and_death_are_noticed(checks, bench):
    daemon = Daemon(bench, "fork")
    host = Host(bench, host_program(bench))
    host.start(daemon.socket)
    host.ask("burn 200")
    result = host.ask("fork")
    checks.ok("child of a fork: -ECHILD, then it starts for itself",
              result == [-errno.ECHILD, 0, 0], result)
    checks.ok("parent of a fork is still recorded", host.slice(100)[0] == 0)
    checks.ok("child's registration ends with the child", daemon.until(
        lambda: daemon.status()["registered"] == 1), daemon.status())
    host.child.stdin.write("crash\n")
    host.child.stdin.flush()
    host.child.wait(20)
    checks.ok("death without bye is noticed", daemon.until(
        lambda: daemon.status()["registered"] == 0 and
        "has ended without bye" in daemon.log_text()),
        daemon.log_text()[-500:])
    reply = call(daemon.socket, "slice", pid=host.pid)
    checks.ok("ring of the dead program is still there", reply["ok"], reply)
    daemon.end()


def other_peoples_programs_work(checks, bench):
    place = installation(bench)
    daemon = Daemon(bench, "others")
    path, why = place.compile("throws.cc", "throws", ["g++"], "-std=c++17",
                              "-pedantic")
    checks.ok("C++17 program builds", path is not None, why)
    static, why = place.compile("host.c", "host-static", ["cc"], "-std=c99",
                                "-static", is_static=True)
    checks.ok("static program builds", static is not None, why)
    signals, why = place.compile("own_signals.c", "own_signals", ["cc"],
                                 "-std=c11")
    checks.ok("program that uses signals builds", signals is not None,
              why)
    result = subprocess.run([path, "agent", daemon.socket, "2"], text=True,
                            capture_output=True, timeout=60)
    match = re.match(r"thrown (\d+) caught (\d+) destroyed (\d+) slice (-?\d+)"
                     r" ticks (\d+)", result.stdout)
    numbers = [int(text) for text in match.groups()] if match else [0] * 5
    checks.ok("recorded program catches all exceptions",
              numbers[0] > 1000 and numbers[0] == numbers[1] and
              numbers[2] == 11 * numbers[0] and numbers[3] == 0 and
              numbers[4] > 150, result)
    result = subprocess.run([signals, "agent", daemon.socket, "2"], text=True,
                            capture_output=True, timeout=60)
    match = re.match(r"prof (\d+) urg (\d+) (\d+) foreign (\d+) slice (-?\d+)",
                     result.stdout)
    numbers = [int(text) for text in match.groups()] if match else [0] * 5
    checks.ok("handlers of SIGPROF and SIGURG stay the program's",
              numbers[0] > 100 and numbers[1] > 100 and
              numbers[1] == numbers[2] and numbers[3:] == [0, 0], result)
    host = Host(bench, static)
    checks.ok("static program starts", host.start(daemon.socket) == 0)
    host.ask("burn 400")
    out = bench.path("static.fgt")
    result = host.slice(300, out)
    checks.ok("static program slices", result[0] == 0 and
              "burn_in_host" in functions_of(bench, out), result)
    checks.ok("static program forks", host.ask("fork") ==
              [-errno.ECHILD, 0, 0])
    host.end()
    daemon.end()


def ordinary_users_record_themselves(checks, bench):
    daemon = Daemon(bench, "users", "ring: { per_user = 4; };")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    for folder, _, names in os.walk(installation(bench).prefix):
        os.chmod(folder, 0o755)
    os.chmod(host_program(bench), 0o755)
    hosts = [Host(bench, host_program(bench), as_nobody=True)
             for _ in range(5)]
    results = [host.start(daemon.socket) for host in hosts]
    recording = [host.ask("status")[2] for host in hosts]
    checks.ok("ordinary user's processes are sampled up to ring.per_user",
              results == [0] * 5 and recording == [1] * 4 + [0],
              (results, recording, daemon.log_text()[-1000:]))
    checks.ok("process beyond the limit gets the name of the key",
              "ring.per_user" in " ".join(map(str, hosts[4].ask("status"))),
              hosts[4].ask("status"))
    hosts[0].ask("burn 300")
    result = hosts[0].slice(200)
    checks.ok("process of an ordinary user slices itself",
              result[0] == 0, result)
    for host in hosts:
        host.end()
    daemon.end()


def slices_without_a_rest(checks, bench):
    """A slice is not refused because of the thread's slice just before."""
    daemon = Daemon(bench, "rows")
    os.chmod(daemon.folder, 0o755)
    os.chmod(daemon.socket, 0o666)
    for folder, _, _ in os.walk(installation(bench).prefix):
        os.chmod(folder, 0o755)
    os.chmod(host_program(bench), 0o755)
    for as_nobody in (False, True) if os.getuid() == 0 else (False,):
        who = "an ordinary user" if as_nobody else "the agent's own user"
        host = Host(bench, host_program(bench), as_nobody=as_nobody)
        checks.ok(f"{who} is sampled",
                  host.start(daemon.socket, timeout_ms=10000) == 0, "")
        host.ask("burn 300")
        for threads, count in ((1, 200), (8, 40)):
            result = host.ask(f"rows {threads} {count} 200")
            checks.ok(f"{who}: {threads} times {count} slices in a row are "
                      "all served", result[0] == 0 and
                      len(result) == threads + 1, result)
        host.end()
    daemon.end()


def code_kib(pid, library):
    """How much of the library's code is resident in the process."""
    with open(f"/proc/{pid}/smaps") as file:
        return sum(int(kib) for kib in re.findall(
            rf" r-xp .*/{library}.*\n(?:.*\n)*?Rss: *(\d+)",
            file.read()))


def without_agent_it_records_itself(checks, bench):
    daemon = Daemon(bench, "embedded")
    nowhere = bench.path("absent.sock")
    out = bench.path("crashes")
    os.mkdir(out)
    host = Host(bench, host_program(bench),
                env=dict(os.environ, FGTRACE_DESTINATION=out))
    before = host.ask("threads")[0], host.ask("fds")[0]
    checks.ok("mode agent starts without an agent",
              host.start(nowhere, "agent", 200) == 0 and
              host.ask("status")[1:3] == [1, 0])
    host.ask("stop")
    checks.ok("mode auto without an agent is embedded",
              host.start(nowhere, "auto", 200) == 0 and
              host.ask("status")[1:3] == [2, 1], host.ask("status"))
    idle_kib = code_kib(host.pid, "libdw")
    host.ask("burn 300")
    path = bench.path("inside.fgt")
    result = host.slice(250, path)
    text = functions_of(bench, path)
    checks.ok("slice shows the program's functions", result[0] == 0 and
              "burn_in_host" in text and "sleep_in_host" in text,
              (result, text[-500:]))
    checks.ok("slice has no function of the library",
              "fgt_sampl" not in text, text)
    checks.ok("libdw takes no memory before names are needed",
              idle_kib == 0 and code_kib(host.pid, "libdw") > 0,
              (idle_kib, code_kib(host.pid, "libdw")))
    checks.ok("child of a fork starts for itself",
              host.ask("fork") == [-errno.ECHILD, 0, 0])
    result = host.ask(f"write 200 {bench.path('any')}")
    checks.ok("embedded slice is written in every format",
              result == [0] * 9 and all(
                  os.path.getsize(bench.path(f"any.{i}")) > 50
                  for i in range(8)), result)
    host.ask("stop")
    host.start(daemon.socket, "auto", 2000)
    checks.ok("mode auto with an agent uses the agent",
              host.ask("status")[1:3] == [1, 1], host.ask("status"))
    host.ask("burn 200")
    result = host.ask(f"write 150 {bench.path('any')}")
    checks.ok("agent's slice is written in every format",
              result == [0] * 9, result)
    host.ask("stop")
    checks.ok("agent keeps the ring of an embedded program",
              host.start(daemon.socket, "embedded", 2000) == 0 and
              daemon.until(lambda: daemon.status()["registered"] == 1) and
              daemon.status()["target_count"] == 0, daemon.status())
    host.ask("stop")
    for _ in range(3):
        host.start(nowhere, "embedded")
        host.ask("burn 50")
        host.ask("stop")
    after = host.ask("threads")[0], host.ask("fds")[0]
    checks.ok("after stop no thread is left, nor a descriptor but those of "
              "libunwind's pipe", after == (before[0], before[1] + 2),
              (before, after))
    checks.ok("agent notices that the program ended", daemon.until(
        lambda: daemon.status()["registered"] == 0))
    host.end()
    hidden = installation(bench).library("fgtrace")
    os.rename(hidden, hidden + ".away")
    host = Host(bench, host_program(bench))
    checks.ok("start without the recording part: -ENOENT, nothing left",
              host.start(nowhere, "embedded") == -errno.ENOENT and
              host.start(nowhere, "auto", 200) == -errno.ENOENT and
              (host.ask("threads")[0], host.ask("fds")[0]) == before)
    host.start(daemon.socket)
    host.ask("burn 200")
    result = host.ask(f"write 150 {bench.path('any')}")
    checks.ok("without the recording part slices are written as fgt only",
              result == [0, 0] + [-errno.ENOENT] * 7, result)
    host.end()
    os.rename(hidden + ".away", hidden)
    daemon.end()


def main():
    run_groups((libraries_show_the_public_names_only, header_is_clean,
                slices_name_their_own_functions,
                recorder_behaves_like_a_flight_recorder,
                slices_without_a_rest,
                agent_dies_and_comes_back, lost_socket_is_logged,
                fork_and_death_are_noticed,
                without_agent_it_records_itself,
                other_peoples_programs_work,
                ordinary_users_record_themselves))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""`why` names the cause that was planted in a service, and none where there is
none.
test_why.py BUILD [FAULT…]: with names, or with --all, prints a table of them.

In a soak, every program of tests/faults; else a few of them, side by side."""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from kit.faults import (  # noqa: E402
    PLANTED, Service, describe, place_of, quiet_windows)
from kit.harness import Bench, Checks  # noqa: E402

checks = Checks()
ok = checks.ok
IN_SHORT = ("sleep_left", "slow_code", "child")
BEFORE_S, APART_S, QUIET_S = 8, 2, 16
PRESSURE = "/proc/pressure/cpu"
HITS_LEAST, ALARMS_MOST = 0.9, 1
END_S, DEAD_S = 4, 0.6


def show(name, place, answer):
    causes = answer["causes"]
    first = describe(causes[0])[:60] if causes else "nothing unusual"
    print(f"# {name:16} {f'cause {place}' if place else 'not found'} of "
          f"{len(causes)}: {first}", flush=True)


def judge(service):
    answer = service.explain(*service.wait())
    place = place_of(service.name, answer)
    show(service.name, place, answer)
    return place


def test_one_by_one(bench, socket, names):
    found = 0
    for name in names:
        service = Service(bench, socket, name, BEFORE_S + APART_S)
        found += judge(service) is not None
        if name == "cpu_taken" and os.path.exists(PRESSURE):
            cpu = service.explain(service.from_ns, service.to_ns)["machine"]
            ok("the machine's threads waited unusually long for CPUs",
               cpu["cpu"]["unusual"], cpu)
        service.end()
    ok(f"the cause is among the first three of {len(names)} faults",
       found >= HITS_LEAST * len(names), f"{found} of {len(names)}")


def test_side_by_side(bench, socket):
    services = [Service(bench, socket, name, BEFORE_S + i * APART_S)
                for i, name in enumerate(IN_SHORT)]
    for service in services:
        ok(f"{service.name}: the cause is among the first three",
           judge(service) is not None)
    test_forms(services[0])
    for service in services:
        service.end()


def collect(part, key, handle, names):
    """{handle: texts that it stands for} of all objects below."""
    if isinstance(part, list):
        for each in part:
            collect(each, key, handle, names)
    elif isinstance(part, dict):
        if handle in part:
            names.setdefault(part[handle], set()).add(part[key])
        for each in part.values():
            collect(each, key, handle, names)
    return names


def test_handles(answer):
    """A handle is of one thread, or function, throughout an answer."""
    for key, handle, form in (("tid", "id", "t-"),
                              ("function", "function_id", "f-")):
        names = collect(answer, key, handle, {})
        values = {value for found in names.values() for value in found}
        ok(f"{handle}: one for each {key}, and no other", names and
           len(values) == len(names) and
           all(name.startswith(form) and len(found) == 1
               for name, found in names.items()), names)


def test_forms(service):
    """The same answer as text, markdown and JSON."""
    ends = service.from_ns, service.to_ns
    text = service.ask(*ends)
    ok("the text has at most 40 lines", len(text.splitlines()) <= 40, text)
    ok("it has no line without words at its end", not text.endswith("\n\n"))
    markdown = service.ask(*ends, "-f", "md")
    ok("markdown has a heading and a table",
       markdown.startswith("## ") and "| time | share |" in markdown, markdown)
    answer = service.explain(*ends)
    test_handles(answer)
    flags = re.search(r"^The same range: `(--from m:.*)`$", markdown, re.M)
    again = json.loads(service.ask_with("--json", *flags[1].split())) if flags \
        else {"range": {}, "thread": {}}
    # Another window may have passed since, and another thread differ most.
    ok("markdown ends with what asks for the same range and thread again",
       [again["range"].get(key) for key in ("from_ns", "to_ns")] ==
       [answer["range"][key] for key in ("from_ns", "to_ns")] and
       re.search(rf"^### .*\(tid {again['thread'].get('tid')}\)", markdown,
                 re.M),
       (flags, again["range"], again["thread"].get("tid"), answer["range"]))
    length = answer["range"]["ms"]
    times = [row["ms"] for row in answer["thread"]["time"]]
    ok("the rows of the thread add up to the range",
       abs(sum(times) - length) < 0.01 * length, (times, length))
    ok("causes name what text and markdown name",
       all(cause["function"] in text and cause["function"] in markdown
           for cause in answer["causes"][:3] if cause["function"]), text)
    ok("how long the machine's threads waited is known, where it is counted",
       "cpu" in answer["machine"] or not os.path.exists(PRESSURE),
       answer["machine"])
    one = json.loads(service.ask(*ends, "--json", "--tid",
                                 str(service.child.pid)))
    ok("--tid asks about that thread",
       one["thread"]["tid"] == service.child.pid and
       one["thread"]["is_chosen"], one["thread"])


def test_files(bench, service):
    """A slice that was written answers as the daemon does."""
    path = bench.path("slow.fgt")
    result = bench.run("--socket", service.socket, "slice", "-q", "-p",
                       str(service.child.pid), "--last", "60s", "-o", path)
    ok("the ring is written", result.returncode == 0, result.stderr)
    result = bench.run("why", path, "--from", f"m:{service.from_ns}", "--to",
                       f"m:{service.to_ns}", "--json")
    answer = json.loads(result.stdout)
    now = service.explain(service.from_ns, service.to_ns)
    ok("a file has the same causes",
       [cause["text"] for cause in answer["causes"]] ==
       [cause["text"] for cause in now["causes"]], answer["causes"])


def expect(bench, name, status, words, *arguments):
    result = bench.run("why", *arguments)
    ok(name, result.returncode == status and words in result.stderr and
       result.stderr.count("\n") == 1 and not result.stdout,
       f"{result.returncode}: {result.stderr}{result.stdout}")


def test_mistakes(bench, socket, service):
    target = ("--socket", socket, "-p", str(service.child.pid))
    expect(bench, "a range without ticks", 5, "no data in range", *target,
           "--from", "-3000s", "--to", "-2900s")
    expect(bench, "a thread that is not there", 5, "no thread 4194304",
           *target, "--last", "2s", "--tid", "4194304")
    expect(bench, "a span that is not there", 5, "no span or task", *target,
           "--span", "none")
    expect(bench, "a span in the last seconds", 5, "no span or task",
           *target, "--last", "2s", "--span", "none")
    expect(bench, "an unknown form", 2, "use text, md or json", *target, "-f",
           "xml")
    expect(bench, "ends that are swapped", 2, "--from lies", *target,
           "--from", "-1s", "--to", "-2s")
    expect(bench, "no agent", 3, "", "--socket", bench.path("none.sock"),
           "--last", "1s")
    expect(bench, "a file that is no slice", 1, "not an fgtrace slice",
           os.path.abspath(__file__))


def test_quiet(bench, socket):
    service = Service(bench, socket, "quiet", QUIET_S)
    service.wait()
    answers = quiet_windows(service, QUIET_S - 1)
    alarms = [describe(answer["causes"][0])[:70] for answer in answers
              if answer["causes"]]
    for alarm in alarms:
        print(f"# false alarm: {alarm}")
    ok(f"at most one false alarm in {len(answers)} quiet windows",
       len(alarms) <= ALARMS_MOST, alarms)
    return service


def test_end(bench, socket):
    """Of a target that has just ended, now is its end."""
    service = Service(bench, socket, "quiet", END_S)
    service.wait()
    service.child.kill()
    service.child.wait()
    time.sleep(DEAD_S)
    answer = json.loads(service.ask_with("--json", "--last", "1s"))
    ok("the last second is that before its end",
       answer["range"]["ms"] > 950 and answer["range"]["to"] == "now",
       answer["range"])
    for _ in range(20):  # the agent looks at most a second later
        result = bench.run("--socket", socket, "stacks", "-p",
                           str(service.child.pid))
        if "was ended by" in result.stderr:
            break
        time.sleep(0.2)
    ok("stacks are those of its end", "now\n" in result.stdout and
       "was ended by SIGKILL" in result.stderr, result.stdout + result.stderr)


def main():
    bench = Bench(sys.argv[1])
    names = sys.argv[2:]
    try:
        _, socket = bench.daemon("why")
        start = time.monotonic()
        if names or os.environ.get("FGT_TESTS_SOAK"):
            names = [name for name in names if name in PLANTED] or sorted(PLANTED)
            test_one_by_one(bench, socket, names)
        else:
            test_side_by_side(bench, socket)
        service = test_quiet(bench, socket)
        test_files(bench, service)
        test_mistakes(bench, socket, service)
        service.end()
        test_end(bench, socket)
        print(f"# {time.monotonic() - start:.0f} s")
    finally:
        bench.close()
    checks.finish()


if __name__ == "__main__":
    main()

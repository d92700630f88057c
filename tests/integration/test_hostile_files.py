# SPDX-License-Identifier: Apache-2.0
"""Files of hostile users: descriptors that they pass to the daemon, file systems
that do not answer. The daemon works on. test_hostile_files.py BUILD [GROUP…]"""
import fcntl
import functools
import os
import signal
import struct
import subprocess
import threading
import time

from kit import stuck_fs, trust_table
from kit.daemon_bench import Daemon, is_error, run_groups, sleeper
from kit.daemon_client import Connection, as_user, call, request
from kit.harness import NOBODY
from kit.hostile import lingering, row_servers, silent_files, unreadable
from kit.hostile.unreadable import go_on, waiting
from kit.stuck_fs import StuckFs
from test_registration import F_ADD_SEALS, F_SEAL_SHRINK, register, send_with

MFD_HUGETLB = 4
SECONDS = 1.5  # a reply takes milliseconds


def huge_memory():
    fd = os.memfd_create("huge", os.MFD_CLOEXEC | 2 | MFD_HUGETLB)
    os.ftruncate(fd, 2 << 20)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
    return fd


def answers(daemon):
    began = time.monotonic()
    return daemon.status()["pid"] == daemon.child.pid and \
        time.monotonic() - began < SECONDS


def memory_of_huge_pages_is_refused(checks, bench):
    daemon = Daemon(bench, "huge")
    try:
        fd = huge_memory()
    except OSError as error:
        print(f"# skipped: memory of huge pages: {error}")
        return
    connection, reply = register(daemon.socket, spans=True, fds=[fd])
    checks.ok("memory of huge pages is refused: its holes may have no page",
              is_error(reply, 22), reply)
    reply = call(daemon.socket, "slice", pid="self", last_ns=10**9)
    checks.ok("the daemon answers after it", answers(daemon), reply)
    connection.close()
    daemon.end()


def pass_as_nobody(daemon, path, data):
    """One descriptor of that file, beside data; True: it was sent."""
    def send():
        connection = Connection(daemon.socket)
        fd = os.open(path, os.O_RDONLY)
        send_with(connection, data, [fd])
        time.sleep(0.3)
        return True
    return as_user(NOBODY, NOBODY, send)


def files_that_cannot_be_closed(checks, bench):
    daemon = Daemon(bench, "unclosable")
    os.chmod(daemon.socket, 0o666)
    os.chmod(daemon.folder, 0o755)
    files = StuckFs(bench.path("stuck"), b"x" * 4096, user=0)
    try:
        files.stuck.add(stuck_fs.FLUSH)
        pass_as_nobody(daemon, files.path, b"x")
        checks.ok("a descriptor beside one byte is not taken",
                  answers(daemon) and
                  not open_files(daemon.child.pid, files.folder))
        pass_as_nobody(daemon, files.path,
                       request("register", mode="agent", spans=True))
        checks.ok("one that a registration passes is closed beside the loop",
                  daemon.until(lambda: files.asked) and answers(daemon),
                  files.asked)
        pass_as_nobody(daemon, files.path,
                       request("register", mode="agent", spans=True))
        checks.ok("no further one of that user is taken",
                  "descriptor_refused" in daemon.log_text(),
                  daemon.log_text())
        takes_over(checks, daemon)
    finally:
        files.close()
    daemon.end()


def open_files(pid, folder):
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += [os.readlink(f"/proc/{pid}/fd/{fd}")]
        except OSError:
            pass
    return [name for name in found if name.startswith(folder)]


def takes_over(checks, daemon):
    """The old one cannot end: one of its threads waits for the file system."""
    old = daemon.child
    old.send_signal(signal.SIGKILL)
    time.sleep(0.5)
    checks.ok("a killed daemon with such a file cannot end",
              old.poll() is None)
    daemon.start()
    checks.ok("the next one starts all the same", answers(daemon),
              daemon.log_text()[-500:])
    checks.ok("a third one does not", "runs on" in second_daemon(daemon))


def many_large_tables_are_all_used(checks, bench):
    """Fault T4: more rules than there are addresses for, which are found by a
    search table and need not be read."""
    caller = compile_text(bench, "caller", CALLER, "-ldl")
    libraries = [compile_text(bench, f"found{i}.so",
                              LINK.replace("NAME", f"link{i}"), "-shared",
                              "-fPIC") for i in range(14)]
    for path in libraries:
        enlarge_rules(path, 63 << 20)
    daemon = Daemon(bench, "many-tables")
    child = bench.start([caller, *libraries], stdout=subprocess.PIPE,
                        as_nobody=True)
    child.stdout.readline()
    daemon.attach(child.pid)
    time.sleep(3)
    stack = stack_of(bench, daemon, child.pid)
    checks.ok("a program of 14 files with 63 MiB of rules has whole stacks",
              ";".join(f"link{i}" for i in range(14)) in stack, stack)
    child.kill()
    daemon.end()


def second_daemon(daemon):
    return subprocess.run(daemon.command(), capture_output=True, text=True,
                          timeout=20).stderr


LINK = """
#include <unistd.h>
typedef int next_fn(void *const *rest);
__attribute__((noinline)) int NAME(void *const *rest)
{
	volatile char room[200];
	int r;

	room[0] = 1;
	if (rest[0])
		r = ((next_fn *)rest[0])(rest + 1);
	else
		r = usleep(20000);
	return r + room[0];
}
"""
CALLER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *chain[16] = { 0 };
	char name[16];

	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);

		snprintf(name, sizeof(name), "link%d", i - 1);
		chain[i - 1] = library ? dlsym(library, name) : 0;
		if (!chain[i - 1])
			return puts(dlerror()), 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		((int (*)(void *const *))chain[0])(chain + 1);
}
"""


def compile_text(bench, name, text, *flags):
    path = bench.path(name)
    with open(path + ".c", "w") as file:
        file.write(text)
    subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-o", path,
                    path + ".c", *flags], check=True, capture_output=True)
    os.chmod(path, 0o755)
    return path


def compile_chain(bench, name, count):
    return [compile_text(bench, f"{name}{i}.so",
                         LINK.replace("NAME", f"link{i}"), "-shared", "-fPIC",
                         "-Wl,--no-eh-frame-hdr")
            for i in range(count)]


def enlarge_rules(path, size):
    """Moves .eh_frame to the end of the file, and makes it that long by an
    entry that nothing needs; without a search table all of it is read."""
    with open(path, "r+b") as file:
        elf = file.read()
        table, = struct.unpack_from("<Q", elf, 0x28)
        count, names = struct.unpack_from("<HH", elf, 0x3c)
        sections = [list(struct.unpack_from("<IIQQQQ", elf, table + 64 * i))
                    for i in range(count)]
        at, section = next(
            (table + 64 * i, section) for i, section in enumerate(sections)
            if elf[sections[names][4] + section[0]:].startswith(
                b".eh_frame\0"))
        rules = elf[section[4]:section[4] + section[5]]
        while rules.endswith(b"\0\0\0\0"):
            rules = rules[:-4]
        rules += bytes(-len(rules) % 8)
        section[4:] = len(elf) + -len(elf) % 4096, size
        file.seek(at)
        file.write(struct.pack("<IIQQQQ", *section))
        file.seek(section[4])
        file.write(rules + struct.pack("<II5B", size - len(rules) - 4, 0,
                                       1, 0, 1, 0x78, 16))
        file.truncate(section[4] + size)


def stack_of(bench, daemon, pid):
    """The most frequent one of the last second."""
    run = bench.run("--socket", daemon.socket, "slice", "--last", "1s", "-p",
                    str(pid), "-f", "folded", "-o", "-")
    lines = [line.rsplit(" ", 1) for line in run.stdout.splitlines()]
    return max(lines, key=lambda line: int(line[1]))[0] if lines else run


def large_tables_leave_room_for_other_programs(checks, bench):
    """Fault T4: eight files of 63 MiB of rules in one user's program."""
    caller = compile_text(bench, "caller", CALLER, "-ldl")
    large = compile_chain(bench, "large", 8)
    for path in large:
        enlarge_rules(path, 63 << 20)
    small = compile_chain(bench, "small", 8)
    daemon = Daemon(bench, "tables")
    programs = []
    for libraries in large, small:
        child = bench.start([caller, *libraries], stdout=subprocess.PIPE,
                            as_nobody=libraries is large)
        child.stdout.readline()
        daemon.attach(child.pid)
        programs.append(child.pid)
        time.sleep(4)
    status = daemon.status()
    links = "link0;link1;link2;link3;link4;link5;link6;link7"
    stack = stack_of(bench, daemon, programs[1])
    checks.ok("another program has its stacks", links in stack, stack)
    checks.ok("unwind rules stay within 256 MiB",
              64 << 20 < status["image_bytes"] <= 256 << 20, status)
    checks.ok("what is refused is counted", status["image_rules_refused"] > 0,
              status)
    checks.ok("… logged once",
              daemon.log_text().count("images_refused") == 1,
              daemon.log_text())
    checks.ok("… and shown", "no room for unwind rules" in
              bench.run("--socket", daemon.socket, "status").stdout)
    daemon.end()


def link_debug_file(library, size):
    """Beside the library, of that size, with another checksum than it names."""
    debug = library + ".debug"
    subprocess.run(["objcopy", library, debug], check=True)
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id",
                    "--add-gnu-debuglink=" + debug, library], check=True,
                   stderr=subprocess.DEVNULL)
    os.truncate(debug, size)
    os.chmod(library, 0o755)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def large_debug_files_are_not_read_in_the_daemon(checks, bench):
    """Fault U7: sparse files that .gnu_debuglink names by their checksum."""
    caller = compile_text(bench, "caller", CALLER, "-ldl")
    for name, size, seconds in (("huge", 1 << 30, 3), ("sparse", 200 << 20, 6)):
        libraries = compile_chain(bench, name, 12)
        for library in libraries:
            link_debug_file(library, size)
        daemon = Daemon(bench, name + "-debug")
        child = bench.start([caller, *libraries], stdout=subprocess.PIPE,
                            as_nobody=True)
        child.stdout.readline()
        daemon.attach(child.pid)
        time.sleep(2)
        used, began = cpu_seconds(daemon.child.pid), time.monotonic()
        stack = stack_of(bench, daemon, child.pid)
        took = time.monotonic() - began
        used = cpu_seconds(daemon.child.pid) - used
        figures = f"{size >> 20} MiB: {took:.1f} s, {used:.2f} s of CPU"
        print("#", figures)
        checks.ok("large debug files do not delay a slice", took < seconds,
                  figures)
        checks.ok("… nor cost the daemon its CPU", used < 1, figures)
        checks.ok("… nor the other names", "usleep" in str(stack) or
                  "nanosleep" in str(stack), stack)
        child.kill()
        daemon.end()


HIDDEN = r"""
#include <stdio.h>
#include <unistd.h>
static __attribute__((noinline)) int hidden_name(void)
{
	return usleep(100000) + (int)getpid();
}
int main(void)
{
	puts("ready");
	fflush(stdout);
	for (;;)
		hidden_name();
}
"""


def files_that_a_user_may_not_read_give_no_names(checks, bench):
    """Fault U6: a debug link leads by a symbolic link to a file of root."""
    program = compile_text(bench, "hidden", HIDDEN)
    folder = bench.path("root-only")
    os.mkdir(folder)
    debug = os.path.join(folder, "debug")
    subprocess.run(["objcopy", program, debug], check=True)
    os.symlink(debug, program + ".debug")
    subprocess.run(["objcopy", "--strip-all",
                    "--add-gnu-debuglink=" + program + ".debug", program],
                   check=True)
    for file_mode, folder_mode, is_named in (
            (0o600, 0o711, False), (0o644, 0o700, False),
            (0o644, 0o711, True)):
        os.chmod(debug, file_mode)
        os.chmod(folder, folder_mode)
        daemon = Daemon(bench, f"hidden-{file_mode:o}-{folder_mode:o}")
        child = bench.start([program], stdout=subprocess.PIPE, as_nobody=True)
        child.stdout.readline()
        daemon.attach(child.pid)
        time.sleep(1)
        stack = str(stack_of(bench, daemon, child.pid))
        checks.ok(f"a debug file of mode {file_mode:o} in a folder of mode "
                  f"{folder_mode:o} gives {'' if is_named else 'no '}names",
                  "nanosleep" in stack and
                  ("hidden_name" in stack) == is_named, stack)
        child.kill()
        daemon.end()


def misplaced(bench, what, path):
    return waiting(bench, "misplaced", what, path)


def target(daemon, pid):
    found = [one for one in call(daemon.socket, "targets")["targets"]
             if one["pid"] == pid]
    return found[0] if found else {"ticks": 0, "limitation": ""}


def ticks_on(daemon, pid, seconds=1.5):
    """Ticks of another target meanwhile."""
    before = target(daemon, pid)["ticks"]
    time.sleep(seconds)
    return target(daemon, pid)["ticks"] - before


def attach_aside(daemon, pid):
    """Where attaching may never end."""
    replies = []
    thread = threading.Thread(
        target=lambda: replies.append(daemon.attach(pid)), daemon=True)
    thread.start()
    thread.join(3)
    return replies


def stacks_in_files_are_not_read(checks, bench):
    daemon = Daemon(bench, "stacks")
    files = StuckFs(bench.path("stacks-stuck"), b"\0" * (1 << 20))
    other = sleeper(bench)
    child = misplaced(bench, "stack", files.path)
    try:
        daemon.attach(other.pid)
        daemon.attach(child.pid)
        files.stuck.add(stuck_fs.READ)
        go_on(child)
        time.sleep(0.5)
        ticks = ticks_on(daemon, other.pid)
        checks.ok("a stack in a file that does not answer stops no ticks",
                  ticks > 50, f"{ticks} ticks; asked {files.asked}")
        text = slice_text(bench, daemon, child.pid) if ticks > 50 else ""
        checks.ok("it has a marker", "[truncated: not readable]" in text,
                  text[-300:])
    finally:
        end_stuck(files, daemon, child)


def code_in_files_is_not_opened(checks, bench):
    """Of root, too: a server that has gone is no malice."""
    if not silent_files.PAUSE:
        print(f"# skipped: code of a file on {os.uname().machine}")
        return
    daemon = Daemon(bench, "code")
    files = StuckFs(bench.path("code-stuck"),
                    silent_files.PAUSE.ljust(1 << 20, b"\0"))
    other = sleeper(bench)
    child = misplaced(bench, "code", files.path)
    try:
        daemon.attach(other.pid)
        files.stuck |= {stuck_fs.OPEN, stuck_fs.READ, stuck_fs.STATFS,
                        stuck_fs.GETATTR, stuck_fs.LOOKUP}
        go_on(child)
        checks.ok("a target whose code does not answer is attached",
                  attach_aside(daemon, child.pid), files.asked)
        ticks = ticks_on(daemon, other.pid)
        checks.ok("the ticks go on", ticks > 50,
                  f"{ticks} ticks; asked {files.asked}")
        daemon.until(lambda: "fuse" in daemon.log_text(), 3)
        began = time.monotonic()
        text = slice_text(bench, daemon, child.pid)
        checks.ok("its slice does not wait for names",
                  text and time.monotonic() - began < 5, text[-300:])
        lines = [line for line in daemon.log_text().splitlines()
                 if "(fuse) may not answer" in line and
                 "event=sampling" in line]
        checks.ok("one line of the log names the file and its file system",
                  len(lines) == 1 and files.path in lines[0],
                  daemon.log_text()[-500:])
    finally:
        end_stuck(files, daemon, child)


def slice_text(bench, daemon, pid):
    return subprocess.run(
        [bench.agent, "slice", "--socket", daemon.socket, "-p", str(pid),
         "--last", "1s", "-q", "-f", "folded", "-o", "-"],
        capture_output=True, text=True, timeout=20).stdout


def end_stuck(files, daemon, child):
    child.kill()
    files.close()
    daemon.end()


def has_stuck_files(bench):
    """May file systems in user space be mounted here?"""
    try:
        StuckFs(bench.path("probe"), b"").close()
        return True
    except OSError as error:
        print(f"# skipped: file systems that do not answer: {error}")
        return False


def row_servers_cost_their_user_only(checks, bench):
    row_servers.row_servers_cost_their_user_only(checks, bench, compile_text)


def only_with_stuck_files(group):
    @functools.wraps(group)
    def run(checks, bench):
        if has_stuck_files(bench):
            group(checks, bench)
    return run


def main():
    run_groups((memory_of_huge_pages_is_refused,
                lingering.sockets_that_linger,
                only_with_stuck_files(files_that_cannot_be_closed),
                large_tables_leave_room_for_other_programs,
                many_large_tables_are_all_used,
                large_debug_files_are_not_read_in_the_daemon,
                *((row_servers_cost_their_user_only,
                   files_that_a_user_may_not_read_give_no_names)
                  if os.getuid() == 0 else ()),
                only_with_stuck_files(stacks_in_files_are_not_read),
                only_with_stuck_files(code_in_files_is_not_opened),
                *map(only_with_stuck_files, silent_files.GROUPS),
                *map(only_with_stuck_files, unreadable.GROUPS),
                *(trust_table.GROUPS if os.getuid() == 0 else ())))


if __name__ == "__main__":
    main()

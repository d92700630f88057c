# SPDX-License-Identifier: Apache-2.0
"""Starts a service unit's program as systemd 252 would, where systemd does not
run: python3 -m kit.service_sandbox UNIT FOLDER

Reads the unit file itself and its drop-in, and refuses to run if there is a key in it that it
does not know. Needs root. FOLDER gets run/ and lib/, which are the service's
RuntimeDirectory= and StateDirectory= inside."""
import ctypes
import grp
import os
import re
import resource
import shlex
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)

MS_RDONLY, MS_NOSUID, MS_NOEXEC = 1, 2, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 32, 1 << 12, 1 << 14, 1 << 19
CLONE_NEWNS, CLONE_NEWUTS = 0x20000, 0x4000000
CLONE_NEW_ANY = 0x7e020000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SYS_MOUNT_SETATTR, AT_RECURSIVE, AT_FDCWD = 442, 0x8000, -100

CAPABILITIES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID
SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW
IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM
BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE""".split()
# What a switch takes away, also from CapabilityBoundingSet=, and the groups of
# system calls that it forbids.
TAKES = {"PrivateDevices": ("MKNOD SYS_RAWIO", "@raw-io"),
         "ProtectClock": ("SYS_TIME WAKE_ALARM", "@clock"),
         "ProtectHostname": ("", "sethostname setdomainname"),
         "ProtectKernelLogs": ("SYSLOG", "syslog"),
         "ProtectKernelModules": ("SYS_MODULE", "@module")}
# About the manager's work, or without effect on a process that it has started.
MANAGERS = """Type ExecReload Restart RestartSec TimeoutStopSec WatchdogSec
NotifyAccess RuntimeDirectoryMode ConfigurationDirectory StateDirectoryMode
ConfigurationDirectoryMode KeyringMode RemoveIPC DevicePolicy PrivateMounts
ProtectControlGroups""".split()
KNOWN = MANAGERS + list(TAKES) + """ExecStart OOMScoreAdjust LimitNOFILE
LimitCORE UMask Group RuntimeDirectory StateDirectory CapabilityBoundingSet
NoNewPrivileges ProtectSystem ProtectHome ProtectKernelTunables LockPersonality
MemoryDenyWriteExecute RestrictNamespaces RestrictSUIDSGID
SystemCallArchitectures SystemCallFilter SystemCallErrorNumber
RestrictAddressFamilies StandardError""".split()
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
DEFAULT_MEMLOCK = 8 << 20


class Unit:
    """[Service] of a unit file and of UNIT.d/drop-in.conf; one() is the last
    value of a key."""

    def __init__(self, path):
        self.values = {}
        for part in (path, path + ".d/drop-in.conf"):
            if os.path.exists(part):
                self._read(part)
        unknown = [key for key in self.values if key not in KNOWN]
        if unknown:
            raise ValueError(f"teach service_sandbox.py about {unknown}")

    def _read(self, path):
        with open(path) as file:
            body = file.read().split("[Service]\n")[1].split("\n[")[0]
        for line in body.replace("\\\n", " ").split("\n"):
            if line and line[0] not in "#;":
                key, value = line.split("=", 1)
                self.values.setdefault(key, []).append(value)

    def all(self, key):
        return self.values.get(key, [])

    def one(self, key, default=""):
        return (self.all(key) or [default])[-1]

    def is_on(self, key):
        return self.one(key) in ("yes", "true", "1", "on")

    def reload_command(self, pid):
        return shlex.split(self.one("ExecReload").replace("$MAINPID",
                                                          str(pid)))

    def capabilities(self):
        kept = {name.removeprefix("CAP_")
                for line in self.all("CapabilityBoundingSet")
                for name in line.split()}
        for key, (taken, _) in TAKES.items():
            if self.is_on(key):
                kept -= set(taken.split())
        return kept

    def system_calls(self):
        """(those that are allowed, those that a switch forbids)"""
        groups, allowed, forbidden = _call_groups(), set(), set()

        def expand(name):
            if name[0] != "@":
                return {name}
            return set().union(*map(expand, groups[name]))

        for line in self.all("SystemCallFilter"):
            names = set().union(*map(expand, line.lstrip("~").split()))
            allowed = allowed - names if line[0] == "~" else allowed | names
        for key, (_, taken) in TAKES.items():
            if self.is_on(key):
                forbidden |= set().union(*map(expand, taken.split()))
        return allowed | expand("@default"), forbidden


def _call_groups():
    """Those of systemd, as it lists them."""
    groups, current = {}, []
    out = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"],
                         capture_output=True, text=True, check=True).stdout
    for line in out.split("\n"):
        if line.startswith("@"):
            current = groups.setdefault(line.strip(), [])
        elif re.match(r"    [@a-z0-9_-]+$", line):
            current.append(line.strip())
    return groups


def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "a call of the sandbox")
    return result


# ---- Mounts ----------------------------------------------------------------

def mount(source, target, kind=None, flags=0, data=None):
    must(libc.mount(source.encode(), target.encode(),
                    kind and kind.encode(), flags, data and data.encode()))


def set_writable(path, is_writable, is_recursive=True):
    values = (0, MS_RDONLY) if is_writable else (MS_RDONLY, 0)
    attr = (ctypes.c_uint64 * 4)(*values, 0, 0)
    must(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(),
                      AT_RECURSIVE if is_recursive else 0, ctypes.byref(attr),
                      ctypes.c_size_t(32)))


def make_read_only(path):
    if os.path.exists(path):
        mount(path, path, flags=MS_BIND | MS_REC)
        set_writable(path, False)


def hide(path, scratch):
    if os.path.exists(path):
        mount(os.path.join(scratch, "nodir" if os.path.isdir(path) else "no"),
              os.path.realpath(path), flags=MS_BIND)


def new_devices(scratch):
    """PrivateDevices=: those without hardware."""
    folder = os.path.join(scratch, "dev")
    os.makedirs(folder, exist_ok=True)
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        number = os.stat("/dev/" + name).st_rdev
        os.mknod(os.path.join(folder, name), stat.S_IFCHR | 0o666, number)
        os.chmod(os.path.join(folder, name), 0o666)
    for name in ("pts", "shm", "mqueue"):
        if os.path.isdir("/dev/" + name):
            os.mkdir(os.path.join(folder, name))
            mount("/dev/" + name, os.path.join(folder, name),
                  flags=MS_BIND | MS_REC)
    mount(folder, "/dev", flags=MS_BIND | MS_REC)


def new_mounts(unit, folder):
    must(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS))
    mount("none", "/", flags=MS_REC | MS_SLAVE)
    os.makedirs(os.path.join(folder, "nodir"), 0, exist_ok=True)
    os.close(os.open(os.path.join(folder, "no"), os.O_CREAT, 0))
    places = []
    for key, parent, own in (("RuntimeDirectory", "/run", "run"),
                             ("StateDirectory", "/var/lib", "lib")):
        for name in unit.one(key).split():
            places.append(os.path.join(parent, name))
            if unit.all("Group"):
                group = grp.getgrnam(unit.one("Group")).gr_gid
                os.chown(os.path.join(folder, own), 0, group)
            mount(os.path.join(folder, own), places[-1], flags=MS_BIND)
    if unit.is_on("PrivateDevices"):
        new_devices(folder)
    if unit.one("ProtectSystem") == "strict":
        set_writable("/", False)
        for path in ("/proc", "/dev", "/sys", "/home", "/root", *places):
            if os.path.isdir(path):
                if not os.path.ismount(path):
                    mount(path, path, flags=MS_BIND)
                set_writable(path, True, is_recursive=path != "/sys")
    if unit.one("ProtectHome") == "read-only":
        for path in ("/home", "/root", "/run/user"):
            make_read_only(path)
    if unit.is_on("ProtectKernelTunables"):
        for name in ("acpi", "bus", "fs", "irq", "sys", "sysrq-trigger"):
            make_read_only("/proc/" + name)
        set_writable("/sys", False)
        for name in ("kallsyms", "kcore"):
            hide("/proc/" + name, folder)
    if unit.is_on("ProtectKernelLogs"):
        hide("/proc/kmsg", folder)
    if unit.is_on("ProtectKernelModules"):
        hide("/usr/lib/modules", folder)


# ---- System calls ----------------------------------------------------------

class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("op", ctypes.c_int),
                ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


ALLOW, EPERM, ENOSYS, EAFNOSUPPORT = 0x7fff0000, 1, 38, 97
NOT_EQUAL, EQUAL, MASKED_EQUAL, GREATER = 1, 4, 7, 6


def errno_action(number):
    return 0x00050000 | number


class Filter:
    """One seccomp filter, by libseccomp."""
    lib = None

    def __init__(self, action=ALLOW):
        if not Filter.lib:
            Filter.lib = ctypes.CDLL("libseccomp.so.2")
            Filter.lib.seccomp_init.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.seccomp_init(action))

    def add(self, action, name, *comparisons):
        """Comparisons are (argument, op, a, b). Calls of other processors
        are left out, as systemd does."""
        number = self.lib.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            array = (Comparison * max(1, len(comparisons)))(*comparisons)
            result = self.lib.seccomp_rule_add_array(
                self.context, ctypes.c_uint32(action), number,
                len(comparisons), array)
            if result < 0 and result != -17:  # it is there
                raise OSError(-result, name)

    def load(self):
        result = self.lib.seccomp_load(self.context)
        if result < 0:
            raise OSError(-result, "seccomp_load")


def restrict_families(unit):
    allowed = {FAMILIES[name] for name in
               unit.one("RestrictAddressFamilies").split()}
    filter_ = Filter()
    refuse = errno_action(EAFNOSUPPORT)
    for family in set(range(46)) - allowed:
        filter_.add(refuse, "socket", (0, EQUAL, family, 0))
    filter_.add(refuse, "socket", (0, GREATER, 45, 0))
    filter_.load()


def restrict_namespaces(unit):
    """yes, or a list of those that are allowed (of which net is known)."""
    allowed = {"net": 0x40000000}.get(unit.one("RestrictNamespaces"), 0)
    filter_ = Filter()
    refuse = errno_action(EPERM)
    filter_.add(errno_action(ENOSYS), "clone3")
    filter_.add(refuse, "setns", *([] if not allowed else
                                   [(1, EQUAL, 0, 0)]))
    flag = 0x80
    while flag <= CLONE_NEW_ANY:
        if flag & CLONE_NEW_ANY and flag != allowed:
            for name, place in (("unshare", 0), ("clone", 0), ("setns", 1)):
                if name != "setns" or allowed:
                    filter_.add(refuse, name,
                                (place, MASKED_EQUAL, flag, flag))
        flag <<= 1
    filter_.load()


def deny_write_execute():
    filter_ = Filter()
    refuse = errno_action(EPERM)
    filter_.add(refuse, "mmap", (2, MASKED_EQUAL, 6, 6))
    for name in ("mprotect", "pkey_mprotect"):
        filter_.add(refuse, name, (2, MASKED_EQUAL, 4, 4))
    filter_.add(refuse, "shmat", (2, MASKED_EQUAL, 0o100000, 0o100000))
    filter_.load()


def restrict_set_id_files():
    """systemd cannot look into the arguments of openat2() and forbids it."""
    filter_ = Filter()
    refuse = errno_action(EPERM)
    filter_.add(errno_action(ENOSYS), "openat2")
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for name, place in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2),
                            ("mkdir", 1), ("mkdirat", 2), ("mknod", 1),
                            ("mknodat", 2), ("creat", 1)):
            filter_.add(refuse, name, (place, MASKED_EQUAL, bit, bit))
        for name, place in (("open", 1), ("openat", 2)):
            filter_.add(refuse, name,
                        (place, MASKED_EQUAL, os.O_CREAT, os.O_CREAT),
                        (place + 1, MASKED_EQUAL, bit, bit))
    filter_.load()


def filter_calls(unit):
    allowed, forbidden = unit.system_calls()
    if unit.all("RestrictAddressFamilies"):
        restrict_families(unit)
    if unit.all("RestrictNamespaces"):
        restrict_namespaces(unit)
    if unit.is_on("MemoryDenyWriteExecute"):
        deny_write_execute()
    if unit.is_on("RestrictSUIDSGID"):
        restrict_set_id_files()
    filter_ = Filter()
    for name in forbidden:
        filter_.add(errno_action(EPERM), name)
    if unit.is_on("LockPersonality"):
        filter_.add(errno_action(EPERM), "personality", (0, NOT_EQUAL, 0, 0))
    filter_.load()
    filter_ = Filter(errno_action(EPERM))
    for name in allowed:
        filter_.add(ALLOW, name)
    filter_.load()


# ---- The rest --------------------------------------------------------------

def limit(what, value):
    """As far as this process may raise it."""
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, value))


def set_limits(unit):
    limit(resource.RLIMIT_NOFILE, int(unit.one("LimitNOFILE", "1024")))
    limit(resource.RLIMIT_CORE, int(unit.one("LimitCORE", "0")))
    limit(resource.RLIMIT_MEMLOCK, DEFAULT_MEMLOCK)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(unit.one("OOMScoreAdjust", "0"))
    os.umask(int(unit.one("UMask", "0022"), 8))


def drop_capabilities(unit):
    kept = unit.capabilities()
    for number, name in enumerate(CAPABILITIES):
        if name not in kept:
            must(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0))


def main():
    unit, folder = Unit(sys.argv[1]), sys.argv[2]
    arguments = shlex.split(unit.one("ExecStart"))
    set_limits(unit)
    new_mounts(unit, folder)
    os.chdir("/")
    if unit.all("Group"):
        os.setgid(grp.getgrnam(unit.one("Group")).gr_gid)
    os.setgroups([])
    drop_capabilities(unit)
    if unit.is_on("NoNewPrivileges"):
        must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Started by a service manager it has little more.
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:"
                           "/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
        if name in os.environ:
            environment[name] = os.environ[name]
    filter_calls(unit)
    os.execve(arguments[0], arguments, environment)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""host.py FILE [auto|agent|embedded]: libfgtrace in an interpreter.

The C interface by ctypes: records this very process, native frames and all,
and writes what its threads did during a second to FILE, for speedscope.app.
"""
import contextlib
import ctypes
import hashlib
import os
import sys
import threading
import time

fgtrace = ctypes.CDLL("libfgtrace.so.0")
MODES = {"auto": 0, "agent": 1, "embedded": 2}
FORMAT_SPEEDSCOPE = 6
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
DECIDE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Options(ctypes.Structure):
    """struct fgt_options; zero in all members except size means default."""
    _fields_ = [
        ("size", ctypes.c_size_t), ("mode", ctypes.c_int),
        ("socket", ctypes.c_char_p), ("timeout_ms", ctypes.c_uint),
        ("hz", ctypes.c_uint), ("ring_seconds", ctypes.c_uint),
        ("ring_bytes", ctypes.c_size_t), ("destination", ctypes.c_char_p),
        ("release", ctypes.c_char_p), ("environment", ctypes.c_char_p),
        ("sample_rate", ctypes.c_double), ("min_duration_ns", ctypes.c_uint64),
        ("keep_errors", ctypes.c_int), ("decide", DECIDE),
        ("min_gap_ns", ctypes.c_uint64), ("max_per_hour", ctypes.c_uint),
        ("threads", ctypes.c_int), ("log", LOG), ("context", ctypes.c_void_p)]


fgtrace.fgt_now.restype = ctypes.c_uint64
fgtrace.fgt_get_slice.argtypes = [ctypes.c_uint64, ctypes.c_uint64,
                                  ctypes.POINTER(ctypes.c_void_p)]
fgtrace.fgt_slice_write.argtypes = [ctypes.c_void_p, ctypes.c_int,
                                    ctypes.c_int]
fgtrace.fgt_slice_free.argtypes = [ctypes.c_void_p]
fgtrace.fgt_transaction_begin.restype = ctypes.c_void_p
fgtrace.fgt_transaction_begin.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
fgtrace.fgt_transaction_set_status.argtypes = [ctypes.c_void_p,
                                               ctypes.c_char_p]
fgtrace.fgt_transaction_finish.argtypes = [ctypes.c_void_p]


def check(result):
    """Negative errno becomes an exception."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


@LOG
def log(_context, line):
    print("fgtrace:", line.decode(), file=sys.stderr)


@contextlib.contextmanager
def transaction(name, operation):
    """An exception makes the transaction an error."""
    handle = fgtrace.fgt_transaction_begin(name.encode(), operation.encode())
    try:
        yield
    except BaseException:
        fgtrace.fgt_transaction_set_status(handle, b"internal_error")
        raise
    finally:
        fgtrace.fgt_transaction_finish(handle)


def write_slice(path, from_ns, to_ns):
    found = ctypes.c_void_p()
    check(fgtrace.fgt_get_slice(from_ns, to_ns, ctypes.byref(found)))
    try:
        with open(path, "wb") as file:
            check(fgtrace.fgt_slice_write(found, FORMAT_SPEEDSCOPE,
                                          file.fileno()))
    finally:
        fgtrace.fgt_slice_free(found)


def work(seconds):
    """One thread computes without the interpreter's lock, one waits."""
    end = time.monotonic() + seconds
    data = bytes(1 << 20)

    def compute():
        while time.monotonic() < end:
            hashlib.sha256(data).digest()

    threads = [threading.Thread(target=compute),
               threading.Thread(target=time.sleep, args=(seconds,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    mode = sys.argv[2] if len(sys.argv) > 2 else "auto"
    check(fgtrace.fgt_start(ctypes.byref(Options(
        size=ctypes.sizeof(Options), mode=MODES[mode], log=log,
        release=b"host.py@1.0"))))
    try:
        begin_ns = fgtrace.fgt_now()
        with transaction("hashes", "job"):
            work(1.0)
        write_slice(sys.argv[1], begin_ns, fgtrace.fgt_now())
        fgtrace.fgt_flush(5000)
    finally:
        fgtrace.fgt_stop()


if __name__ == "__main__":
    main()

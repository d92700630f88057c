# SPDX-License-Identifier: Apache-2.0
"""busy_program.py THREADS: a program that works and uploads slices of itself.

Each thread hashes for some 0.2 ms, then sleeps for 20 ms. Prints "ready PID"
once the agent records it. Each line "MS DESTINATION" on standard input uploads
its last MS milliseconds, while further lines are read; the answers are lines
"ERROR DESTINATION", 0 for none, in any order.
"""
import ctypes
import hashlib
import os
import sys
import threading
import time

NS_MS = 1000000

fgtrace = ctypes.CDLL("libfgtrace.so.0")
fgtrace.fgt_now.restype = ctypes.c_uint64
fgtrace.fgt_get_slice.argtypes = [ctypes.c_uint64, ctypes.c_uint64,
                                  ctypes.POINTER(ctypes.c_void_p)]
fgtrace.fgt_slice_upload.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
fgtrace.fgt_slice_free.argtypes = [ctypes.c_void_p]


def work():
    text = bytes(1 << 16)
    while True:
        hashlib.sha256(text).digest()
        time.sleep(0.02)


def get_slice(last_ms):
    """(error, slice)"""
    now, found = fgtrace.fgt_now(), ctypes.c_void_p()
    return fgtrace.fgt_get_slice(now - last_ms * NS_MS, now,
                                 ctypes.byref(found)), found


def upload(last_ms, destination):
    result, found = get_slice(last_ms)
    if result == 0:
        result = fgtrace.fgt_slice_upload(found, destination.encode())
    fgtrace.fgt_slice_free(found)
    sys.stdout.write(f"{result} {destination}\n")
    sys.stdout.flush()


def main():
    for _ in range(int(sys.argv[1])):
        threading.Thread(target=work, daemon=True).start()
    result = fgtrace.fgt_start(None)
    while result == 0 and get_slice(500)[0] != 0:
        time.sleep(0.1)
    print("ready" if result == 0 else "failed", os.getpid(), result,
          flush=True)
    for line in sys.stdin:
        last_ms, destination = line.split()
        threading.Thread(target=upload,
                         args=(int(last_ms), destination)).start()


if __name__ == "__main__":
    main()

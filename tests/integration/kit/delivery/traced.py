# SPDX-License-Identifier: Apache-2.0
"""traced.py PREFIX | -: a program whose spans know their trace.

Runs two requests on two threads, one after another, each in a span with the
labels trace_id and span_id; the first thread also works between them. Writes
its slice to PREFIX.fgt, .pb.gz and .otlp by the library. Prints, for each
request, "TID TRACE_ID SPAN_ID NS". With -, one transaction that goes to
$FGTRACE_DESTINATION instead; its ids are printed.
"""
import ctypes
import sys
import threading
import time

FORMATS = {".fgt": 0, ".pb.gz": 4, ".otlp": 7}
TRACE = "0af7651916cd43dd8448eb211c80319c"

fgtrace = ctypes.CDLL("libfgtrace.so.0")
fgtrace.fgt_now.restype = ctypes.c_uint64
fgtrace.fgt_get_slice.argtypes = [ctypes.c_uint64, ctypes.c_uint64,
                                  ctypes.POINTER(ctypes.c_void_p)]
fgtrace.fgt_slice_write.argtypes = [ctypes.c_void_p, ctypes.c_int,
                                    ctypes.c_int]
fgtrace.fgt_task_begin.argtypes = [ctypes.c_char_p, ctypes.c_uint64,
                                   ctypes.POINTER(ctypes.c_uint64)]
fgtrace.fgt_task_end.argtypes = [ctypes.c_uint64]
fgtrace.fgt_span_begin.argtypes = [ctypes.c_char_p, ctypes.c_uint64,
                                   ctypes.c_void_p]
fgtrace.fgt_span_end.argtypes = [ctypes.c_uint64]
fgtrace.fgt_transaction_begin.restype = ctypes.c_void_p
fgtrace.fgt_transaction_begin.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
fgtrace.fgt_transaction_get_trace.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
fgtrace.fgt_transaction_finish.argtypes = [ctypes.c_void_p]
fgtrace.fgt_label.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


def check(result):
    if result < 0:
        sys.exit(f"a call of the library failed: {result}")


def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def request(span_id, seconds):
    task = ctypes.c_uint64()
    check(fgtrace.fgt_task_begin(b"request", 0, ctypes.byref(task)))
    begin_ns = fgtrace.fgt_now()
    check(fgtrace.fgt_span_begin(b"GET /", 0, None))
    check(fgtrace.fgt_label(b"trace_id", TRACE.encode()))
    check(fgtrace.fgt_label(b"span_id", span_id.encode()))
    check(fgtrace.fgt_span_begin(b"inner", 0, None))
    burn(seconds / 2)
    check(fgtrace.fgt_span_end(0))
    time.sleep(seconds / 2)
    check(fgtrace.fgt_span_end(0))
    print(threading.get_native_id(), TRACE, span_id,
          fgtrace.fgt_now() - begin_ns, flush=True)
    check(fgtrace.fgt_task_end(task))


def transaction(seconds):
    handle = fgtrace.fgt_transaction_begin(b"GET /cart", b"http.server")
    text = ctypes.create_string_buffer(64)
    check(fgtrace.fgt_transaction_get_trace(handle, text, len(text)))
    begin_ns = fgtrace.fgt_now()
    burn(seconds)
    print(threading.get_native_id(), *text.value.decode().split("-"),
          fgtrace.fgt_now() - begin_ns, flush=True)
    check(fgtrace.fgt_transaction_finish(handle))
    check(fgtrace.fgt_flush(20000))


def main():
    check(fgtrace.fgt_start(None))
    begin_ns = fgtrace.fgt_now()
    if sys.argv[1] == "-":
        burn(0.2)
        transaction(0.5)
        fgtrace.fgt_stop()
        return
    request("b7ad6b7169203331", 1.0)
    burn(0.3)
    thread = threading.Thread(target=request, args=("00f067aa0ba902b7", 0.6))
    thread.start()
    thread.join()
    found = ctypes.c_void_p()
    check(fgtrace.fgt_get_slice(begin_ns, fgtrace.fgt_now(),
                                ctypes.byref(found)))
    for ending, number in FORMATS.items():
        with open(sys.argv[1] + ending, "wb") as file:
            check(fgtrace.fgt_slice_write(found, number, file.fileno()))
    fgtrace.fgt_stop()


if __name__ == "__main__":
    main()

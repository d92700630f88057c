# SPDX-License-Identifier: Apache-2.0
"""A file system in user space that does not answer some requests, as a hostile
user may mount one, and as one over a network is when its server is gone."""
import ctypes
import os
import struct
import threading

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = \
    1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = 27, 29, 34, 36, 42
WITHOUT_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
ENOENT, ENOSYS = 2, 38
MNT_FORCE, MNT_DETACH = 1, 2
REQUEST_MAX = 1 << 17
NAME = b"file"
libc = ctypes.CDLL(None, use_errno=True)


class StuckFs:
    """One file with these contents. stuck: numbers of requests that are not
    answered if that user (None: any) makes them; may be changed at any time.
    first_bytes_only: nor is any READ but that of the first bytes. asked: those that were not answered."""

    def __init__(self, folder, contents, user=None):
        self.folder, self.contents, self.user = folder, contents, user
        self.stuck, self.asked = set(), []
        self.first_bytes_only = False
        self.path = os.path.join(folder, NAME.decode())
        os.makedirs(folder, exist_ok=True)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40755,user_id=0,group_id=0," \
            "allow_other"
        if libc.mount(b"stuck", folder.encode(), b"fuse", 0,
                      options.encode()):
            raise OSError(ctypes.get_errno(), "mount fuse")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self):
        """All that wait get an error."""
        libc.umount2(self.folder.encode(), MNT_FORCE)
        libc.umount2(self.folder.encode(), MNT_DETACH)
        self.thread.join(5)
        os.close(self.device)

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, REQUEST_MAX)
            except OSError:
                return
            _, code, unique, node, user = struct.unpack_from("<IIQQI", request)
            is_stuck = code in self.stuck or (
                self.first_bytes_only and code == READ and
                struct.unpack_from("<QQ", request, 40)[1])
            if is_stuck and self.user in (None, user):
                self.asked.append(code)
                continue
            if code in WITHOUT_ANSWER:
                continue
            error, answer = self._answer(code, node, request[40:])
            head = struct.pack("<IiQ", 16 + len(answer), -error, unique)
            try:
                os.write(self.device, head + answer)
            except OSError:
                pass  # the process that asked has gone

    def _attributes(self, node):
        mode, size = (0o40755, 0) if node == 1 else \
            (0o100755, len(self.contents))
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0,
                           0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _answer(self, code, node, body):
        """errno, bytes."""
        if code == INIT:
            return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9,
                                  65536, 1, 0, 0, 0)
        if code == LOOKUP:
            if body.rstrip(b"\0") != NAME:
                return ENOENT, b""
            return 0, struct.pack("<QQQQII", 2, 1, 60, 60, 0, 0) + \
                self._attributes(2)
        if code == GETATTR:
            return 0, struct.pack("<QII", 60, 0, 0) + self._attributes(node)
        if code in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 1, 0, 0)
        if code == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return 0, self.contents[offset:offset + size]
        if code == STATFS:
            return 0, struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 0, 0)
        if code in (RELEASE, RELEASEDIR, FLUSH, ACCESS):
            return 0, b""
        return ENOSYS, b""

# SPDX-License-Identifier: MIT
"""A file system with one file that can hang: from then on whoever opens,
stats or reads it has no answer, as with a file server that is gone.

It speaks the kernel's FUSE protocol by itself, so that the kernel's own
waiting is what is tested.  A signal can end such a wait only until the
server has taken the request: a taken one lasts as long as the server does.
"""
import ctypes
import os
import select
import struct
import tempfile
import threading

import pytest

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, INTERRUPT, \
    BATCH_FORGET = 1, 2, 3, 14, 15, 17, 18, 26, 36, 42
KINDS = {"open": OPEN, "stat": GETATTR, "read": READ}
TOP, FILE = 1, 2                # the two nodes
DIRECT_IO = 1                   # each read is asked for
ENOSYS, ENOENT = 38, 2
MNT_DETACH = 2
REQUEST_MAX = 1 << 17
_libc = ctypes.CDLL(None, use_errno=True)


def _call(name, *args):
    if getattr(_libc, name)(*args) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class HungFile:
    """path is the file; it answers until hang(), and ends with abort()."""

    def __init__(self, name, data):
        self.name, self.data = os.fsencode(name), data
        self.hung, self.taking = None, True
        self.stuck = 0          # requests that wait, as far as it can see
        self.news = threading.Condition()
        self.wake = os.pipe()
        self.top = tempfile.mkdtemp(prefix="hung-")
        self.path = os.path.join(self.top, name)
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
            options = (f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,"
                       "allow_other")
            _call("mount", b"hung", os.fsencode(self.top), b"fuse",
                  ctypes.c_ulong(0), options.encode())
        except OSError as e:
            os.rmdir(self.top)
            pytest.skip(f"no file system of its own: {e}")
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def hang(self, what, taken):
        """From now on; taken: no signal ends the wait for what."""
        with self.news:
            self.hung, self.taking = KINDS[what], taken
        os.write(self.wake[1], b"x")

    def wait_stuck(self, number, seconds):
        """So many wait (when they are not taken: at least one)."""
        with self.news:
            assert self.news.wait_for(lambda: self.stuck >= number, seconds)

    def abort(self):
        """The server ends: whoever waits, and all others, have an error."""
        if self.fd is None:
            return
        self.fd, fd = None, self.fd
        os.write(self.wake[1], b"x")
        self.thread.join()
        os.close(fd)

    def close(self):
        self.abort()
        _call("umount2", os.fsencode(self.top), MNT_DETACH)
        for end in self.wake:
            os.close(end)
        os.rmdir(self.top)

    # ---- the server -------------------------------------------------------

    def serve(self):
        fd, poll = self.fd, select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(self.wake[0], select.POLLIN)
        while self.fd is not None:
            ready = dict(poll.poll())
            if self.wake[0] in ready:
                os.read(self.wake[0], 1)
            if fd not in ready:
                continue
            if self.hung is not None and not self.taking:
                with self.news:
                    self.stuck = 1
                    self.news.notify_all()
                poll.unregister(fd)
                continue
            try:
                request = os.read(fd, REQUEST_MAX)
            except OSError:     # it was interrupted, or is at its end
                continue
            self.take(fd, request)

    def take(self, fd, request):
        _, kind, unique, node, _, _, _, _ = struct.unpack_from(
            "=IIQQIIII", request)
        if kind in (FORGET, BATCH_FORGET, INTERRUPT):
            return              # these have no answer
        if kind == self.hung and node == FILE:
            with self.news:
                self.stuck += 1
                self.news.notify_all()
            return
        body = self.answer(kind, node, request[40:])
        error, body = (-body, b"") if isinstance(body, int) else (0, body)
        os.write(fd, struct.pack("=IiQ", 16 + len(body), error, unique) +
                 body)

    def attributes(self, node):
        mode, size = ((0o40755, 0) if node == TOP else
                      (0o100644, len(self.data)))
        return struct.pack("=6Q10I", node, size, 1, 0, 0, 0, 0, 0, 0, mode,
                           1, 0, 0, 0, 4096, 0)

    def answer(self, kind, node, body):
        """An answer's bytes, or an errno."""
        if kind == INIT:
            major, minor, ahead, _ = struct.unpack_from("=IIII", body)
            return struct.pack("=IIIIHHIIHHI28x", 7, min(minor, 31), ahead,
                               0, 0, 0, 65536, 1, 0, 0, 0)
        if kind == LOOKUP:
            if body.rstrip(b"\0") != self.name:
                return ENOENT
            return struct.pack("=QQQQII", FILE, 0, 3600, 0, 0, 0) + (
                self.attributes(FILE))
        if kind == GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self.attributes(node)
        if kind == OPEN:
            return struct.pack("=QII", 0, DIRECT_IO, 0)
        if kind == READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            return self.data[offset:offset + size]
        if kind == RELEASE:
            return b""
        if kind == STATFS:
            return struct.pack("=5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        return ENOSYS

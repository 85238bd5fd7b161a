# SPDX-License-Identifier: MIT
"""channel: runs `openshell sandbox exec` from Python, plainly or on a pty.

Shared by the fact tests and figures.py; standard library only.
"""
import os
import pty
import select
import signal
import subprocess
import time
import tty

READY = b"READY\n"


def pattern(start, size):
    """Bytes start..start+size of the stream that the probe checks."""
    return bytes((i * 7 + i // 251) & 0xFF for i in range(start, start + size))


def pattern_fast(size):
    """pattern(0, size) without a Python step a byte."""
    period = 251 * 256
    block = pattern(0, period)
    return (block * (size // period + 1))[:size]


class Channel:
    """A running `exec --tty`: stdin a raw pty, stdout and stderr pipes."""

    def __init__(self, argv, env=None):
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.proc = subprocess.Popen(
            argv, stdin=slave, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=env, close_fds=True)
        os.close(slave)
        self.out = self.proc.stdout.fileno()
        self.buf = b""

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(self.master, view[:65536]):]

    def read_some(self, timeout):
        """More bytes, b"" at the end of file, None after the timeout."""
        if not select.select([self.out], [], [], timeout)[0]:
            return None
        return os.read(self.out, 1 << 18)

    def read_until(self, mark, timeout=30):
        end = time.monotonic() + timeout
        while mark not in self.buf:
            data = self.read_some(max(0, end - time.monotonic()))
            if not data:
                raise TimeoutError(f"no {mark!r} in {self.buf[-200:]!r}")
            self.buf += data
        head, _, self.buf = self.buf.partition(mark)
        return head + mark

    def read_exact(self, size, timeout=60):
        end = time.monotonic() + timeout
        parts, have = [self.buf], len(self.buf)
        while have < size:
            data = self.read_some(max(0, end - time.monotonic()))
            if not data:
                raise TimeoutError(f"{have} of {size} bytes")
            parts.append(data)
            have += len(data)
        whole = b"".join(parts)
        self.buf = whole[size:]
        return whole[:size]

    def ready(self, timeout=30):
        return self.read_until(READY, timeout)

    def wait(self, timeout=30):
        return self.proc.wait(timeout)

    def kill(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGKILL)
            self.proc.wait()

    def close(self):
        self.kill()
        os.close(self.master)
        self.proc.stdout.close()
        self.proc.stderr.close()


def run(argv, data=b"", timeout=60, env=None):
    """A plain exec with this stdin: status, stdout, stderr."""
    done = subprocess.run(argv, input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout, env=env)
    return done.returncode, done.stdout, done.stderr

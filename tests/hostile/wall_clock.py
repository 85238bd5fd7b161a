# SPDX-License-Identifier: MIT
"""A wall clock that jumps, for one program and all below it.

A seccomp filter brings each look at a clock here.  Of the wall clock every
answer is another time, years away from the one before; the others pass.  The
program must not find the vDSO, or it would not ask the kernel: patched() is
a copy of one that was linked with musl and asks for it by another name.
"""
import ctypes
import fcntl
import os
import pathlib
import platform
import re
import socket
import struct
import sys
import threading

#: clock_gettime, gettimeofday, time, clock_nanosleep, timerfd_create,
#: timer_create; None: this machine has no such call.
CALLS = {"x86_64": (0xc000003e, 228, 96, 201, 230, 283, 222),
         "aarch64": (0xc00000b7, 113, 169, None, 115, 85, 107)}
WALL = (0, 5, 8, 11)            # REALTIME, its COARSE and ALARM, TAI
TIMES = (1, 1 << 31, 1 << 33, 1_000_000_000, 4_000_000_000)
ABSOLUTE = 1
CONTINUE = 1
NOTICE = struct.Struct("=QIIiIQ6Q")
ANSWER = struct.Struct("=QqiI")
RECEIVE, SEND = 0xc0502100, 0xc0182101
SECCOMP = {"x86_64": 317, "aarch64": 277}


def patched(program, copy):
    data, n = re.subn(rb"__(vdso|kernel)_clock_gettime\0",
                      rb"__\1_clock_gettimX\0",
                      pathlib.Path(program).read_bytes())
    assert n == 1, "it does not look for the vDSO as musl does"
    copy.write_bytes(data)
    copy.chmod(0o755)


def filter_calls():
    """The listener's descriptor; what this process is to become is seen."""
    arch, *calls = CALLS[platform.machine()]
    calls = [c for c in calls if c is not None]
    n = len(calls)
    code = [(0x20, 0, 0, 4), (0x15, 0, n + 1, arch), (0x20, 0, 0, 0)]
    code += [(0x15, n - i, 0, call) for i, call in enumerate(calls)]
    code += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x7fc00000)]
    packed = b"".join(struct.pack("=HBBI", *c) for c in code)
    buf = ctypes.create_string_buffer(packed)
    prog = struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buf))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    fd = libc.syscall(SECCOMP[platform.machine()], 1, 8, prog)
    if fd == -1:
        raise OSError(ctypes.get_errno(), "seccomp")
    return fd


class WallClock:
    """program is to be started in place of the one that is wrapped."""

    def __init__(self, program, top):
        self.jumps = 0          # answers that were another time
        self.programs = []      # whose they were, and of timers by it
        self.passed = {}        # pid: looks at other clocks
        self.patched = str(top / "sandmux-agent")
        patched(program, top / "sandmux-agent")
        self.program = top / "jumping"
        self.program.write_text(
            f"#!{sys.executable}\nimport sys\n"
            f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
            f"import wall_clock\nwall_clock.become({str(top)!r})\n")
        self.program.chmod(0o755)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(top / "socket"))
        self.socket.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        conn, _ = self.socket.accept()
        _, fds, _, _ = socket.recv_fds(conn, 1, 1)
        conn.close()
        while True:
            notice = bytearray(NOTICE.size)
            try:
                fcntl.ioctl(fds[0], RECEIVE, notice)
                answer = self.answer(*NOTICE.unpack(notice))
                fcntl.ioctl(fds[0], SEND, bytearray(answer))
            except FileNotFoundError:
                continue        # it was killed meanwhile
            except OSError:
                break           # all of them have ended
        os.close(fds[0])

    def answer(self, id, pid, _, call, arch, at, *args):
        _, gettime, gettimeofday, time, sleep, *_ = CALLS[platform.machine()]
        if call == sleep and not args[1] & ABSOLUTE:
            pass                # for so long, not until then
        elif call in (gettimeofday, time) or (call == gettime and
                                              args[0] in WALL):
            self.programs.append(os.readlink(f"/proc/{pid}/exe"))
            return self.jump(id, pid, call == time,
                             args[1] if call == gettime else args[0])
        elif args[0] in WALL:
            self.programs.append(os.readlink(f"/proc/{pid}/exe"))
        else:
            self.passed[pid] = self.passed.get(pid, 0) + 1
        return ANSWER.pack(id, 0, 0, CONTINUE)

    def jump(self, id, pid, short, where):
        self.jumps += 1
        now = TIMES[self.jumps % len(TIMES)]
        if where:
            with open(f"/proc/{pid}/mem", "r+b", buffering=0) as mem:
                mem.seek(where)
                mem.write(struct.pack("=qq", now, 0)[:8 if short else 16])
        return ANSWER.pack(id, now if short else 0, 0, 0)


def become(top):
    conn = socket.socket(socket.AF_UNIX)
    conn.connect(f"{top}/socket")
    listener = filter_calls()
    socket.send_fds(conn, [b"x"], [listener])
    os.close(listener)
    conn.close()
    os.execv(f"{top}/sandmux-agent", [f"{top}/sandmux-agent", *sys.argv[1:]])

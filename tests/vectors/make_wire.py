#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes wire.txt: frozen vectors of every message, by hand-set widths.

It knows PROTOCOL.md and nothing of wire.c.  A vector is `vector NAME`, a line
for each field in order, then the whole message.  The file is frozen: a
change of it is a change of the protocol."""
import pathlib
import struct


def u8(n):
    return n.to_bytes(1, "big")


def u16(n):
    return n.to_bytes(2, "big")


def u32(n):
    return n.to_bytes(4, "big")


def u64(n):
    return n.to_bytes(8, "big")


def i32(n):
    return n.to_bytes(4, "big", signed=True)


def f(data):
    return u32(len(data)) + data


def items(*data):
    return f(u32(len(data)) + b"".join(f(d) for d in data))


def rest(data):
    return data


MAX64 = 2 ** 64 - 1
RESULT = [("request", u32), ("outcome", u8), ("code", i32), ("step", u8),
          ("error", u32), ("in", u64), ("out", u64), ("err", u64),
          ("wall_us", u64), ("new_agent", u8), ("detached", u8), ("text", f),
          ("info", f)]
MESSAGES = {
    "ready": (1, [("version", u16), ("link", u32), ("uid", u32),
                  ("unlinked", u8), ("switches", u8), ("terminals", u8),
                  ("pad", rest)]),
    "resume": (2, [("next", u64), ("ping_ms", u32), ("dead_ms", u32),
                   ("linger_ms", u32)]),
    "ack": (3, [("next", u64)]),
    "ping": (4, [("id", u64)]),
    "pong": (5, [("id", u64), ("busy", u8)]),
    "handover": (34, [("count", u32)]),
    "live": (35, [("flags", u32), ("number", u32), ("last", u32),
                  ("next", u64), ("expected", u64), ("wait_s", u32),
                  ("session", f), ("secret", f), ("target", f), ("place", f),
                  ("env", None)]),
    "close": (6, [("session", u8), ("park_s", u32)]),
    "terminal": (7, [("error", u32)]),
    "open": (16, [("request", u32), ("kind", u8), ("body", u32),
                  ("out", u64), ("err", u64)]),
    "data": (17, [("request", u32), ("channel", u8), ("offset", u64),
                  ("bytes", rest)]),
    "credit": (18, [("request", u32), ("channel", u8), ("limit", u64)]),
    "eof": (19, [("request", u32), ("channel", u8), ("total", u64)]),
    "signal": (20, [("request", u32), ("signal", u8)]),
    "resize": (21, [("request", u32), ("rows", u16), ("columns", u16)]),
    "result": (22, RESULT),
    "cancel": (23, [("request", u32)]),
    "log": (24, [("level", u8), ("text", f)]),
    "hello": (32, [("min", u16), ("max", u16), ("flags", u32),
                   ("program", f), ("target", f), ("env", None)]),
    "welcome": (33, [("version", u16), ("pid", u32), ("busy", u32),
                     ("program", f)]),
    "exec": (64, [("flags", u32), ("timeout_ms", u64), ("grace_ms", u32),
                  ("rows", u16), ("columns", u16), ("umask", u32),
                  ("nice", i32), ("keep", u32), ("terminal", u32),
                  ("user", f),
                  ("cwd", f), ("argv", None), ("env", None),
                  ("unset", None), ("limits", None)]),
    "put": (65, [("flags", u32), ("mode", u32), ("uid", u32), ("gid", u32),
                 ("mtime", u64), ("user", f), ("path", f), ("name", f)]),
    "get": (66, [("flags", u32), ("offset", u64), ("length", u64),
                 ("have", u64), ("user", f), ("path", f), ("hash", f)]),
    "probe": (67, [("unused", u8)]),
    "echo": (68, [("unused", u8)]),
    "jobs": (69, [("unused", u8)]),
    "kill": (70, [("job", u32), ("signal", u8)]),
    "attach": (71, [("job", u32), ("flags", u32), ("out", u64),
                    ("err", u64)]),
    "tree_put": (76, [("flags", u32), ("user", f), ("path", f),
                      ("name", f)]),
    "tree_get": (77, [("flags", u32), ("user", f), ("path", f)]),
    "fs": (72, [("op", u8), ("flags", u32), ("mode", u32), ("user", f),
                ("path", f), ("second", f)]),
    "status": (80, [("json", u8)]),
    "stop": (81, [("unused", u8)]),
    "linkinfo": (82, [("unused", u8)]),
    "probe_info": (96, [("flags", u32), ("uid", u32), ("gid", u32),
                        ("caps", u64), ("bounding", u64), ("seccomp", u32),
                        ("landlock", u32), ("pid", u32), ("program", f),
                        ("arch", f), ("exe", f), ("cwd", f), ("hash", f),
                        ("dirs", None)]),
    "file_info": (97, [("flags", u32), ("size", u64), ("mode", u32),
                       ("uid", u32), ("gid", u32), ("mtime", u64),
                       ("blocks", u64), ("links", u32), ("hash", f),
                       ("name", f), ("link", f)]),
    "exec_info": (98, [("job", u32), ("flags", u32), ("uid", u32),
                       ("user_us", u64), ("system_us", u64),
                       ("read_blocks", u64), ("written_blocks", u64),
                       ("peak_kib", u64), ("out_from", u64),
                       ("err_from", u64), ("cwd", f), ("survivors", None)]),
    "job": (99, [("job", u32), ("state", u8), ("outcome", u8), ("code", i32),
                 ("uid", u32), ("pid", u32), ("processes", u32),
                 ("age_us", u64), ("cpu_us", u64), ("detached", u8),
                 ("terminal", u8), ("user", f), ("command", f)]),
    "tree_info": (104, [("entries", u64), ("files", u64), ("bytes", u64),
                        ("links", u64), ("skipped", u64)]),
    "entry": (112, [("kind", u8), ("mode", u32), ("uid", u32), ("gid", u32),
                    ("seconds", u64), ("nanoseconds", u32), ("name", f),
                    ("target", f)]),
    "chunk": (113, [("bytes", rest)]),
    "entry_end": (114, [("unused", u8)]),
    "skipped": (115, [("error", u32), ("path", f)]),
    "hole": (116, [("bytes", u64)]),
    "start": (100, [("flags", u32), ("from", u64), ("size", u64),
                    ("extents", f)]),
    "partial": (101, [("size", u64), ("hash", f)]),
}

# A list's items are given as a Python list.
VECTORS = [
    ("ready", [1, 1, 1000, 1, 0, 1, bytes(50)]),
    ("ready", [0xffff, 0xffffffff, 0xfffffffe, 255, 255, 255, bytes(50)]),
    ("resume", [0, 5000, 20000, 60000]),
    ("resume", [MAX64, 0, 0xffffffff, 0xfffffffe]),
    ("ack", [0x0102030405060708]),
    ("ping", [1]),
    ("pong", [MAX64, 1]),
    ("close", [0, 0xffffffff]),
    ("close", [1, 0]),
    ("handover", [0]),
    ("handover", [64]),
    ("live", [0, 1, 0, 0, 0, 0, b"0123456789abcdef" * 2, bytes(range(32)),
              b"local", b"local", []]),
    ("live", [127, 0xffffffff, 0xfffffffe, MAX64, MAX64 - 1, 0xffffffff,
              b"f" * 32, b"\xff" * 32, b"docker:box", b"c0ffee",
              [b"A=b", b"C="]]),
    ("terminal", [0]),
    ("terminal", [0xffffffff]),
    ("open", [7, 64, 33, 8192, 8192]),
    ("open", [0xffffffff, 255, 0x180000, 0, MAX64]),
    ("data", [7, 0, 0, b"@"]),
    ("data", [7, 3, 0x123456789abcdef0, bytes(range(256))]),
    ("credit", [7, 2, 16384]),
    ("credit", [7, 3, MAX64]),
    ("eof", [7, 1, 1 << 40]),
    ("signal", [7, 15]),
    ("resize", [7, 24, 80]),
    ("resize", [7, 0xffff, 0x8000]),
    ("result", [7, 0, 3, 0, 0, 5, 6, 7, 1234567, 0, 1, b"", b""]),
    ("result", [8, 4, -1, 7, 2, 0, 0, 0, 17, 1, 0,
                "no-such-prögram".encode(), b"\x61" + bytes(12)]),
    ("result", [0xffffffff, 255, -2 ** 31, 255, 0xffffffff, MAX64, MAX64,
                MAX64, MAX64, 255, 255, b"\x00\xff", b"\x00"]),
    ("cancel", [7]),
    ("log", [1, b"a warning"]),
    ("log", [0, b""]),
    ("hello", [1, 1, 0, b"0.1.0", b"docker:web", []]),
    ("hello", [1, 0xffff, 3, b"", b"",
               [b"DOCKER_HOST=unix:///x", b"", b"\xff\x00="]]),
    ("welcome", [1, 4242, 3, b"0.1.0"]),
    ("exec", [1, 0, 2000, 0, 0, 0, 0, 0, 0, b"", b"", [b"true"], [], [],
              []]),
    ("exec", [63, MAX64, 0, 24, 0x8050, 0o77, -20, 1 << 20, 0x80000001,
              b"agent:2000",
              b"/t\xc3\xa4st\n", [b"sh", b"-c", b"", b"\xff\n"],
              [b"A=", b"B=\xfe"], [b"PATH", b"HOME"],
              [b"\x07" + (64).to_bytes(8, "big") + b"\xff" * 8]]),
    ("put", [0, 0o644, 0, 0, 0, b"", b"/tmp", b"name"]),
    ("put", [127, 0xffffffff, 1000, 0xfffffffe, MAX64, b"1000:staff", b"",
             b""]),
    ("get", [0, 0, MAX64, 0, b"", b"/etc/passwd", b""]),
    ("get", [3, 1 << 40, 17, 1 << 33, b"root", b"x", bytes(range(32))]),
    ("probe", [0]),
    ("echo", [0]),
    ("jobs", [0]),
    ("kill", [7, 0]),
    ("kill", [0xffffffff, 64]),
    ("attach", [7, 9, 0, 1 << 33]),
    ("fs", [1, 4, 0, b"", b"/etc", b""]),
    ("fs", [255, 0xffffffff, 0o4755, b"agent", b"a\xff", b"0:staff"]),
    ("status", [1]),
    ("stop", [0]),
    ("linkinfo", [0]),
    ("probe_info", [3, 0, 0, 0x1ffffffffff, 1, 2, 4, 17, b"0.1.0", b"x86_64",
                    b"/tmp/.agent", b"/", bytes(range(32)),
                    [b"/tmp", b"/dev/shm"]]),
    ("file_info", [1, 1 << 33, 0o100755, 1000, 0xfffffffe, 1 << 60, 8, 2,
                   bytes(range(32)), b"", b""]),
    ("file_info", [0, 3, 0o120777, 0, 0, MAX64, 0, 1, b"", b"\xffn\n",
                   b"../x"]),
    ("exec_info", [7, 0, 1000, 1500, 700, 8, 16, 1024, 0, 0, b"", []]),
    ("exec_info", [0xffffffff, 3, 0, MAX64, MAX64, MAX64, MAX64, MAX64,
                   MAX64, 1 << 32, b"/home/a", [b"17 sleep", b"18 x\xff"]]),
    ("job", [7, 0, 0, 0, 1000, 17, 3, 5000000, 100, 1, 1, b"agent",
             b"sleep 60"]),
    ("job", [8, 3, 1, -9, 0xfffffffe, 0, 0, MAX64, MAX64, 0, 0, b"",
             b"\xff"]),
    ("tree_put", [7, b"agent", b"/data", b"src"]),
    ("tree_get", [1, b"", b"/data"]),
    ("tree_info", [MAX64, 1, 2, 3, 4]),
    ("entry", [2, 0o755, 1000, 1000, 1 << 30, 999999999, b"", b""]),
    ("entry", [3, 0o777, 0, 0xffffffff, MAX64, 0, b"a\n\xff", b"../b"]),
    ("chunk", [b"x"]),
    ("entry_end", [0]),
    ("skipped", [13, b"a/b"]),
    ("hole", [1 << 40]),
    ("start", [0, 0, 1 << 40, b""]),
    ("start", [1, 1 << 33, 1 << 34, (1 << 33).to_bytes(8, "big") +
               b"\xff" * 8]),
    ("partial", [1 << 33, bytes(range(32))]),
    ("partial", [0, b""]),
]


def build():
    out = ["# Frozen: see make_wire.py", ""]
    for name, values in VECTORS:
        kind, fields = MESSAGES[name]
        whole = u8(kind)
        out.append(f"vector {name}")
        assert len(fields) == len(values)
        for (field, width), value in zip(fields, values):
            data = items(*value) if width is None else width(value)
            whole += data
            out.append(f"[{name}.{field}] {data.hex()}")
        out += [f"message {whole.hex()}", ""]
    return "\n".join(out)


# ---- for tests that speak it ------------------------------------------------

_BY_TYPE = {kind: (name, fields)
            for name, (kind, fields) in MESSAGES.items()}
_NUMBERS = {u8: ">B", u16: ">H", u32: ">I", u64: ">Q", i32: ">i"}
_DEFAULTS = {f: b"", rest: b"", None: []}


def encode(message, **values):
    """A message's bytes; fields that are not given are 0 or empty."""
    kind, fields = MESSAGES[message]
    out = bytes([kind])
    for field, width in fields:
        value = values.pop(field, _DEFAULTS.get(width, 0))
        out += items(*value) if width is None else width(value)
    assert not values, values
    return out


def take_f(data, at):
    """(bytes, the place behind them) of f() in data."""
    (n,) = struct.unpack_from(">I", data, at)
    assert at + 4 + n <= len(data)
    return data[at + 4:at + 4 + n], at + 4 + n


def decode(data):
    """(name, fields) of a whole message."""
    name, fields = _BY_TYPE[data[0]]
    values, at = {}, 1
    for field, width in fields:
        if width in _NUMBERS:
            (values[field],) = struct.unpack_from(_NUMBERS[width], data, at)
            at += struct.calcsize(_NUMBERS[width])
        elif width is rest:
            values[field], at = data[at:], len(data)
        else:
            values[field], at = take_f(data, at)
            if width is None:
                whole, parts, i = values[field], [], 4
                while i < len(whole):
                    item, i = take_f(whole, i)
                    parts.append(item)
                values[field] = parts
    assert at == len(data), (name, data)
    return name, values


if __name__ == "__main__":
    (pathlib.Path(__file__).parent / "wire.txt").write_text(build())

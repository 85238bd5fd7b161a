# SPDX-License-Identifier: MIT
"""The protocol's messages as a table, and the one codec that it drives.

The table is common/wire.h's, in Python; common/PROTOCOL.md says what the
fields mean.  tests/inspect holds both against the frozen vectors and against
wire.h, so neither can change without the other.  Numbers are big-endian.
Nothing here does I/O.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

VERSION_MIN: Final = 1
"""Lowest version of the protocol spoken here."""
VERSION_MAX: Final = 1
"""Highest version of the protocol spoken here."""

# Limits of the format, in bytes.
FRAME_MAX: Final = 32739
DATA_HEADER: Final = 14
DATA_MAX: Final = FRAME_MAX - DATA_HEADER
INFO_MAX: Final = 16384
PATH_MAX: Final = 4096
WINDOW_MIN: Final = 8192
"""Bytes of a body or of IN that may be sent before any CREDIT."""
WINDOW_MAX: Final = 1048576
"""Bytes of a flow granted at once, at most."""
REQUESTS_MAX: Final = 256
"""Requests under way at once on one connection."""
MAX64: Final = 2**64 - 1
UNWANTED: Final = MAX64
"""CREDIT.limit: nobody reads, stop sending."""
TO_END: Final = MAX64
"""GET.length: up to the file's end."""


class Channel(enum.IntEnum):
    """A request's byte flows: the opener sends BODY and IN."""

    BODY = 0
    IN = 1
    OUT = 2
    ERR = 3


class Outcome(enum.IntEnum):
    """RESULT.outcome: how a request ended."""

    EXITED = 0
    SIGNALED = 1
    TIMED_OUT = 2
    CANCELLED = 3
    FAILED = 4


class Step(enum.IntEnum):
    """RESULT.step: what failed, where the outcome is FAILED."""

    NONE = 0
    USAGE = 1
    BUSY = 2
    FORK = 3
    PIPE = 4
    STDIO = 5
    CHDIR = 6
    EXEC = 7
    OPEN = 8
    READ = 9
    WRITE = 10
    RENAME = 11
    LINK = 12
    START = 13
    TARGET = 14
    PROTOCOL = 15
    UNTRUSTED = 16
    SHUTDOWN = 17
    WAIT = 18
    USER = 19
    SWITCH = 20
    LIMIT = 21
    PTY = 22
    JOB = 23
    STAT = 24
    LIST = 25
    MKDIR = 26
    REMOVE = 27
    MOVE = 28
    CHMOD = 29
    CHOWN = 30
    SYMLINK = 31
    PARTIAL = 32
    VERIFY = 33
    AGENT = 34
    SANDBOX = 35
    UNREACHABLE = 36
    LINGER = 37


class HelloFlags(enum.IntFlag):
    """HELLO.flags."""

    SAME_AGENT = 1
    STOP_IF_IDLE = 2
    HAND_OVER = 4


class ExecFlags(enum.IntFlag):
    """EXEC.flags."""

    STDIN = 1
    CLEAR_ENV = 2
    TTY = 4
    DETACH = 8
    KILL_BACKGROUND = 16
    UMASK = 32
    SHELL = 64


class ExecInfoFlags(enum.IntFlag):
    """EXEC_INFO.flags."""

    CWD_FELL_BACK = 1
    RUNNING = 2


class PutFlags(enum.IntFlag):
    """PUT.flags."""

    PARENTS = 1
    APPEND = 2
    RESUME = 4
    HASH = 8
    MODE = 16
    MTIME = 32
    OWNER = 64
    DISCARD = 128


class GetFlags(enum.IntFlag):
    """GET.flags."""

    RESUME = 1
    HASH = 2
    DENSE = 4


class FsOp(enum.IntEnum):
    """FS.op."""

    STAT = 1
    LIST = 2
    MKDIR = 3
    REMOVE = 4
    RENAME = 5
    CHMOD = 6
    CHOWN = 7
    SYMLINK = 8


class FsFlags(enum.IntFlag):
    """FS.flags."""

    PARENTS = 1
    TREE = 2
    FOLLOW = 4
    MODE = 8


# A message a line: its name, its type byte, its fields in order.  A field is
# a number of so many bits, `bytes` (a length, then so many bytes), `list`
# (bytes that hold a count, then each item as bytes) or `rest`, which is all
# that is left.
_TABLE = """
ready 1 version:u16 link:u32 uid:u32 unlinked:u8 switches:u8 terminals:u8 pad:rest
resume 2 next:u64 ping_ms:u32 dead_ms:u32 linger_ms:u32
ack 3 next:u64
ping 4 id:u64
pong 5 id:u64 busy:u8
close 6 session:u8 park_s:u32
terminal 7 error:u32
open 16 request:u32 kind:u8 body:u32 out:u64 err:u64
data 17 request:u32 channel:u8 offset:u64 bytes:rest
credit 18 request:u32 channel:u8 limit:u64
eof 19 request:u32 channel:u8 total:u64
signal 20 request:u32 signal:u8
resize 21 request:u32 rows:u16 columns:u16
result 22 request:u32 outcome:u8 code:i32 step:u8 error:u32 in:u64 out:u64 err:u64 \
wall_us:u64 new_agent:u8 detached:u8 text:bytes info:bytes
cancel 23 request:u32
log 24 level:u8 text:bytes
hello 32 min:u16 max:u16 flags:u32 program:bytes target:bytes env:list
welcome 33 version:u16 pid:u32 busy:u32 program:bytes
handover 34 count:u32
live 35 flags:u32 number:u32 last:u32 next:u64 expected:u64 wait_s:u32 session:bytes \
secret:bytes target:bytes place:bytes env:list
exec 64 flags:u32 timeout_ms:u64 grace_ms:u32 rows:u16 columns:u16 umask:u32 nice:i32 \
keep:u32 terminal:u32 user:bytes cwd:bytes argv:list env:list unset:list limits:list
put 65 flags:u32 mode:u32 uid:u32 gid:u32 mtime:u64 user:bytes path:bytes name:bytes
get 66 flags:u32 offset:u64 length:u64 have:u64 user:bytes path:bytes hash:bytes
probe 67 unused:u8
echo 68 unused:u8
jobs 69 unused:u8
kill 70 job:u32 signal:u8
attach 71 job:u32 flags:u32 out:u64 err:u64
fs 72 op:u8 flags:u32 mode:u32 user:bytes path:bytes second:bytes
tree_put 76 flags:u32 user:bytes path:bytes name:bytes
tree_get 77 flags:u32 user:bytes path:bytes
status 80 json:u8
stop 81 unused:u8
linkinfo 82 unused:u8
probe_info 96 flags:u32 uid:u32 gid:u32 caps:u64 bounding:u64 seccomp:u32 landlock:u32 \
pid:u32 program:bytes arch:bytes exe:bytes cwd:bytes hash:bytes dirs:list
file_info 97 flags:u32 size:u64 mode:u32 uid:u32 gid:u32 mtime:u64 blocks:u64 \
links:u32 hash:bytes name:bytes link:bytes
exec_info 98 job:u32 flags:u32 uid:u32 user_us:u64 system_us:u64 read_blocks:u64 \
written_blocks:u64 peak_kib:u64 out_from:u64 err_from:u64 cwd:bytes survivors:list
job 99 job:u32 state:u8 outcome:u8 code:i32 uid:u32 pid:u32 processes:u32 age_us:u64 \
cpu_us:u64 detached:u8 terminal:u8 user:bytes command:bytes
start 100 flags:u32 from:u64 size:u64 extents:bytes
partial 101 size:u64 hash:bytes
tree_info 104 entries:u64 files:u64 bytes:u64 links:u64 skipped:u64
entry 112 kind:u8 mode:u32 uid:u32 gid:u32 seconds:u64 nanoseconds:u32 name:bytes \
target:bytes
chunk 113 bytes:rest
entry_end 114 unused:u8
skipped 115 error:u32 path:bytes
hole 116 bytes:u64
"""

_NUMBERS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i"}
_LENGTH = struct.Struct(">I")


class WireError(ValueError):
    """Bytes that are no message of the protocol."""


class _Message(NamedTuple):
    name: str
    type: int
    fields: tuple[tuple[str, str], ...]
    head: struct.Struct
    """The type byte and the numbers that the message begins with."""
    numbers: tuple[str, ...]
    tail: tuple[tuple[str, str], ...]
    """The fields after them, none of which is a number."""


def _parse(table: str) -> dict[str, _Message]:
    found = {}
    for line in table.split("\n"):
        words = line.split()
        if not words:
            continue
        fields = []
        for word in words[2:]:
            name, _, kind = word.partition(":")
            fields.append((name, kind))
        numbers = tuple(name for name, kind in fields if kind in _NUMBERS)
        form = ">B" + "".join(_NUMBERS[kind] for _, kind in fields[: len(numbers)])
        tail = tuple(fields[len(numbers) :])
        assert all(kind not in _NUMBERS for _, kind in tail), line
        found[words[0]] = _Message(
            words[0],
            int(words[1]),
            tuple(fields),
            struct.Struct(form),
            numbers,
            tail,
        )
    return found


MESSAGES: Final[dict[str, _Message]] = _parse(_TABLE)
"""Every message by name."""
_BY_TYPE: Final[dict[int, _Message]] = {m.type: m for m in MESSAGES.values()}
TYPE: Final[dict[str, int]] = {m.name: m.type for m in MESSAGES.values()}
"""Every message's type byte by name."""


def framed(data: bytes) -> bytes:
    """f(data): its length in 4 bytes, then data."""
    return _LENGTH.pack(len(data)) + data


def _list(items: Any) -> bytes:
    parts = [_LENGTH.pack(len(items))]
    for item in items:
        parts.append(_LENGTH.pack(len(item)))
        parts.append(item)
    return b"".join(parts)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "bytes": framed,
    "list": lambda items: framed(_list(items)),
    "rest": bytes,
}
_EMPTY: dict[str, Any] = {"bytes": b"", "list": (), "rest": b""}


def encode(name: str, /, **values: Any) -> bytes:
    """A whole message.

    Args:
        name: as in the table.
        **values: its fields; one that is missing is 0 or empty.

    Raises:
        WireError: a number that its field cannot hold.
        KeyError: a message or field that is not in the table.
    """
    message = MESSAGES[name]
    try:
        parts = [
            message.head.pack(
                message.type, *(values.pop(field, 0) for field in message.numbers)
            )
        ]
    except struct.error as error:
        raise WireError(f"{name}: {error}") from None
    for field, kind in message.tail:
        parts.append(_ENCODERS[kind](values.pop(field, _EMPTY[kind])))
    if values:
        raise KeyError(f"{name} has no {', '.join(values)}")
    return b"".join(parts)


def take(data: bytes, at: int) -> tuple[bytes, int]:
    """The f(x) at data[at:]: x, and where it ends."""
    end = at + 4
    if end > len(data):
        raise WireError("a length is cut off")
    (size,) = _LENGTH.unpack_from(data, at)
    if size > len(data) - end:
        raise WireError(f"{size} bytes announced, {len(data) - end} are there")
    return data[end : end + size], end + size


def _items(data: bytes) -> list[bytes]:
    if len(data) < 4:
        raise WireError("a list without a count")
    (count,) = _LENGTH.unpack_from(data)
    items, at = [], 4
    for _ in range(count):
        item, at = take(data, at)
        items.append(item)
    if at != len(data):
        raise WireError("bytes after a list's last item")
    return items


def decode(data: bytes) -> tuple[str, dict[str, Any]]:
    """A whole message: its name and its fields.

    Raises:
        WireError: it is none, or is cut off, or goes on after its end.
    """
    message = _BY_TYPE.get(data[0]) if data else None
    if message is None:
        raise WireError(f"no message of type {data[0] if data else 'nothing'}")
    try:
        numbers = message.head.unpack_from(data)
    except struct.error:
        raise WireError(f"{message.name} is cut off") from None
    values: dict[str, Any] = dict(zip(message.numbers, numbers[1:], strict=True))
    at = message.head.size
    for field, kind in message.tail:
        if kind == "rest":
            values[field], at = data[at:], len(data)
        else:
            raw, at = take(data, at)
            values[field] = _items(raw) if kind == "list" else raw
    if at != len(data):
        raise WireError(f"{message.name}: {len(data) - at} bytes too many")
    return message.name, values

# SPDX-License-Identifier: MIT
"""Where the bytes of answers go, and what is told of files."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import _wire
from ._connection import Request
from ._errors import SandmuxError


@dataclass(frozen=True)
class FileInfo:
    """What stat() and listdir() tell.  Sizes are bytes.

    Attributes:
        name: an entry's name in its directory; "" from stat().
        mode: with the file's type, as os.stat_result.st_mode.
        mtime: seconds since 1970.
        link: what a symbolic link says, else "".
    """

    name: str
    size: int
    mode: int
    uid: int
    gid: int
    mtime: float
    links: int
    allocated: int
    link: str


class LimitExceededError(SandmuxError):
    """A file is larger than the caller takes; nothing of it is returned."""


class Tail:
    """A Sink that keeps the last bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self.pieces: deque[bytes] = deque()

    def __call__(self, data: memoryview) -> bool:
        self.pieces.append(bytes(data))
        self.size += len(data)
        while self.size - len(self.pieces[0]) >= self.most:
            self.size -= len(self.pieces.popleft())
            if not self.pieces:
                break
        return True

    def bytes(self) -> bytes:
        data = b"".join(self.pieces)
        return data[-self.most :] if self.most else b""


class FileSink:
    """A Sink for GET's OUT: f(START), then the bytes."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.started = False
        self.too_large = False
        self.failed: str | None = None
        self.request: Request | None = None
        self.head = b""
        # Unlike a list of pieces it is what is returned, without a copy.
        self.data = io.BytesIO()

    def __call__(self, data: memoryview) -> bool:
        if self.failed or self.too_large:
            return True
        if self.started:
            self.data.write(data)
        else:
            self.data.write(self._begin(self.head + bytes(data)))
        if self.most is not None and self.data.tell() > self.most:
            self._stop()
        return True

    def _stop(self) -> None:
        self.too_large = True
        self.data = io.BytesIO()
        if self.request is not None:
            self.request.wake()

    def _begin(self, data: bytes) -> bytes:
        self.head = data
        if len(data) < 4:
            return b""
        size = int.from_bytes(data[:4], "big")
        if size > _wire.INFO_MAX:
            self.failed = f"a START of {size} bytes"
            return b""
        if len(data) < 4 + size:
            return b""
        try:
            name, start = _wire.decode(data[4 : 4 + size])
        except _wire.WireError as error:
            self.failed = str(error)
            return b""
        if name != "start" or start["flags"] & 1:
            self.failed = "no START of plain bytes"
            return b""
        self.started, self.head = True, b""
        if self.most is not None and start["size"] - start["from"] > self.most:
            self._stop()
            return b""
        return data[4 + size :]


def file_info(info: dict[str, Any]) -> FileInfo:
    """FILE_INFO's fields."""
    mtime = info["mtime"]
    return FileInfo(
        name=os.fsdecode(info["name"]),
        size=info["size"],
        mode=info["mode"],
        uid=info["uid"],
        gid=info["gid"],
        mtime=(mtime - 2**64 if mtime >= 2**63 else mtime) / 1e9,
        links=info["links"],
        allocated=info["blocks"] * 512,
        link=os.fsdecode(info["link"]),
    )


def entries(data: bytes) -> Iterator[FileInfo]:
    """The entries of a list, each f(FILE_INFO).

    Raises:
        WireError: it is no such list.
    """
    at = 0
    while at < len(data):
        raw, at = _wire.take(data, at)
        name, info = _wire.decode(raw)
        if name != "file_info":
            raise _wire.WireError(f"{name} in a list")
        yield file_info(info)

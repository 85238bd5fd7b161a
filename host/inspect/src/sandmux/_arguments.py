# SPDX-License-Identifier: MIT
"""Arguments of the client's functions as the bytes that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from . import _wire

Text: TypeAlias = str | bytes
"""A word, path or value; str goes as utf-8 with surrogateescape."""


def utf8(value: Text) -> bytes:
    """Any text."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def plain_bytes(value: Text, what: str) -> bytes:
    """Any text without a NUL; what says which, for the error."""
    data = utf8(value)
    if b"\0" in data:
        raise ValueError(f"{what} has a NUL in it")
    return data


def path_bytes(value: Text) -> bytes:
    """A path."""
    data = plain_bytes(value, "a path")
    if len(data) > _wire.PATH_MAX:
        raise ValueError(f"a path of {len(data)} bytes; {_wire.PATH_MAX} are possible")
    return data


def environment(env: Mapping[str, str]) -> list[bytes]:
    """Each variable as NAME=VALUE."""
    items = []
    for name, value in env.items():
        if not name or "=" in name:
            raise ValueError(f"no name of an environment variable: {name!r}")
        items.append(plain_bytes(f"{name}={value}", f"the variable {name}"))
    return items

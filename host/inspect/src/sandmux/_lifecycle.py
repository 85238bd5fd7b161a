# SPDX-License-Identifier: MIT
"""Making and removing sandboxes, by `sandmux up`, `down` and `cleanup`.

The configuration's schema is the program's; here it is a file's name or, for
an object, JSON on the program's stdin.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from . import _launch
from ._errors import SandmuxError, quote
from ._wire import Step

STOP_SECONDS: Final = 120.0
"""For a program that was told to end to remove what it has made."""
DOWN_SECONDS: Final = 300.0
"""For sandboxes to be removed."""
SAID_MAX: Final = 1 << 20
"""Bytes of the program's answer that are taken."""


@dataclass(frozen=True)
class Sandbox:
    """A sandbox that `sandmux up` has made.

    Attributes:
        key: its name in the configuration.
        name: its own name, which is a target.
        transport: docker, openshell, ...
        container: the id that the transport's program knows it by, if any.
    """

    key: str
    name: str
    transport: str
    container: str | None


class LifecycleError(SandmuxError):
    """The program failed; the text is its own, which quotes the CLI's."""


async def _collect(stream: ByteReceiveStream, into: bytearray) -> None:
    async for piece in stream:
        into += piece[: SAID_MAX - len(into)]


async def _stop(process: Process, seconds: float) -> None:
    """Have it undo what it has begun, and wait for that."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.terminate()
        with anyio.move_on_after(seconds):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _run(
    words: Sequence[str], stdin: bytes | None = None
) -> tuple[int, bytes, bytes]:
    """Run the program: its status, stdout and stderr.  A cancelled call ends
    it with TERM, and waits.
    """
    out, err = bytearray(), bytearray()
    command = [_launch.program(), *words]
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise LifecycleError(Step.START, quote(command[0]), error.errno or 0) from None
    async with process:
        try:
            async with anyio.create_task_group() as group:
                assert process.stdout is not None and process.stderr is not None
                group.start_soon(_collect, process.stdout, out)
                group.start_soon(_collect, process.stderr, err)
                if stdin is not None:
                    assert process.stdin is not None
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await process.stdin.send(stdin)
                    await process.stdin.aclose()
                await process.wait()
        except BaseException:
            await _stop(process, STOP_SECONDS)
            raise
    assert process.returncode is not None
    return process.returncode, bytes(out), bytes(err)


def _said(words: Sequence[str], status: int, err: bytes) -> LifecycleError:
    lines = [quote(line) for line in err.split(b"\n") if line.strip()]
    text = "\n".join(lines) or f"`sandmux {words[0]}` ended with status {status}"
    return LifecycleError(Step.NONE, text)


async def _ask(
    words: Sequence[str], stdin: bytes | None = None, statuses: Sequence[int] = (0,)
) -> dict[str, Any]:
    status, out, err = await _run(words, stdin)
    if status not in statuses:
        raise _said(words, status, err)
    try:
        answer = json.loads(out)
    except ValueError:
        raise _said(words, status, err or out) from None
    if not isinstance(answer, dict):
        raise _said(words, status, out)
    return answer


def _configuration(
    config: str | dict[str, Any], base: str
) -> tuple[list[str], bytes | None]:
    """The words for it, and what goes to stdin."""
    if isinstance(config, str):
        return ["-f", config], None
    return ["-f", "-", "--base", base], json.dumps(config, ensure_ascii=False).encode()


async def prepare(config: str | dict[str, Any], base: str) -> list[dict[str, Any]]:
    """Check a configuration and run its builds; no sandbox is made.

    Args:
        config: a file's absolute name, or an object.
        base: what relative paths in an object are relative to.

    Returns:
        For each sandbox: key, transport, image, workdir, user, policy.

    Raises:
        LifecycleError: what is wrong, with file, line and column.
    """
    words, stdin = _configuration(config, base)
    answer = await _ask(["up", "--prepare", "--json", *words], stdin)
    return list(answer["sandboxes"])


async def up(config: str | dict[str, Any], base: str) -> list[Sandbox]:
    """Make a configuration's sandboxes, side by side; nothing is built.

    A cancelled call, or one that fails, leaves none.

    Raises:
        LifecycleError: the transport's own words are in it.
    """
    words, stdin = _configuration(config, base)
    answer = await _ask(["up", "--no-build", "--json", *words], stdin)
    return [
        Sandbox(one["key"], one["name"], one["transport"], one["container"])
        for one in answer["sandboxes"]
    ]


async def down(names: Sequence[str]) -> list[tuple[str, str]]:
    """Remove sandboxes; one that is not there is no failure.

    A call that has begun ends, cancelled or not.

    Returns:
        (name, why) of those that could not be removed.

    Raises:
        LifecycleError: it did not say.
    """
    try:
        with anyio.fail_after(DOWN_SECONDS, shield=True):
            answer = await _ask(["down", "--json", *names], statuses=(0, 1))
    except TimeoutError:
        raise LifecycleError(
            Step.NONE, f"`sandmux down` did not end within {DOWN_SECONDS:.0f} s"
        ) from None
    return [(one["name"], one["error"]) for one in answer["failed"]]


async def cleanup() -> tuple[list[str], list[tuple[str, str]]]:
    """Remove what of ours is left behind.

    Returns:
        The names removed, and (name, why) of those that are left.
    """
    answer = await _ask(["cleanup", "--json"], statuses=(0, 1))
    return (
        list(answer["removed"]),
        [(one["name"], one["error"]) for one in answer["failed"]],
    )

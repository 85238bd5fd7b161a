# SPDX-License-Identifier: MIT
"""Making and removing sandboxes, by `sandmux up`, `down` and `cleanup`.

The configuration's schema is the program's; here it is a file's name or, for
an object, JSON on the program's stdin.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from logging import getLogger
from tempfile import TemporaryFile
from typing import IO, Any, Final

import anyio
from anyio.abc import Process

from . import _launch
from ._errors import SandmuxError, quote
from ._wire import Step

logger = getLogger(__name__)

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


async def _stop(process: Process) -> None:
    """Have it undo what it has begun, and wait for that."""
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(STOP_SECONDS):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


async def _run(
    words: Sequence[str],
    stdin: bytes | None,
    undo: Callable[[bytes], Awaitable[None]] | None,
) -> tuple[int, bytes, bytes]:
    """Run the program: its status, stdout and stderr.

    A cancelled call ends it with TERM and waits; if it had done its work by
    then, undo(stdout) takes that back.
    """
    command = [_launch.program(), *words]
    # Files, not pipes: there is nothing to be read while it runs.
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin or b"")
        given.seek(0)

        def said(file: IO[bytes]) -> bytes:
            file.seek(0)
            return file.read(SAID_MAX)

        try:
            # Half a start could not be ended.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    command, stdin=given, stdout=out, stderr=err, start_new_session=True
                )
        except OSError as error:
            raise LifecycleError(
                Step.START, quote(command[0]), error.errno or 0
            ) from None
        try:
            # No other await follows: whoever gets the answer has all of it.
            await process.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _stop(process)
                if process.returncode == 0 and undo is not None:
                    await undo(said(out))
            raise
        assert process.returncode is not None
        return process.returncode, said(out), said(err)


def _said(words: Sequence[str], status: int, err: bytes) -> LifecycleError:
    lines = [quote(line) for line in err.split(b"\n") if line.strip()]
    text = "\n".join(lines) or f"`sandmux {words[0]}` ended with status {status}"
    return LifecycleError(Step.NONE, text)


async def _ask(
    words: Sequence[str],
    stdin: bytes | None = None,
    *,
    statuses: Sequence[int] = (0,),
    undo: Callable[[bytes], Awaitable[None]] | None = None,
) -> dict[str, Any]:
    status, out, err = await _run(words, stdin, undo)
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
    answer = await _ask(["up", "--no-build", "--json", *words], stdin, undo=_take_back)
    return [
        Sandbox(one["key"], one["name"], one["transport"], one["container"])
        for one in answer["sandboxes"]
    ]


async def _take_back(made: bytes) -> None:
    """Remove what `up` has made, if nobody is there to get it."""
    failed = await down([one["name"] for one in json.loads(made)["sandboxes"]])
    for name, why in failed:
        logger.warning("sandmux: cannot remove %s: %s; `sandmux cleanup` will", name, why)


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

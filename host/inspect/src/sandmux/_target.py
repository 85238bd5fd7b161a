# SPDX-License-Identifier: MIT
"""A target, and what can be done in it: commands, files, names.

Every method may be called from any number of tasks of one event loop; all of
them share one connection, which the first call makes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from typing_extensions import Unpack

from . import _launch, _wire
from ._arguments import Text, path_bytes, plain_bytes, utf8
from ._connect import connect
from ._connection import GRACE_SECONDS, Connection, Request, Sink, drop
from ._errors import (
    FileError,
    OutcomeUnknownError,
    ProtocolError,
    failure,
    quote,
)
from ._files import FileInfo, FileSink, LimitExceededError, Tail, entries, file_info
from ._job import (
    STREAM_WINDOW,
    Job,
    Options,
    Result,
    Starting,
    exec_body,
    info_of,
    result_of,
)
from ._wire import FsFlags, FsOp, GetFlags, Outcome, PutFlags, Step

OUTPUT_MAX: Final = 64 * 1024 * 1024
"""Bytes of each stream that exec() keeps, where the caller said nothing."""
NEW_FILE_MODE: Final = 0o666
"""Of a file that write() makes; the sandbox's umask counts."""


@asynccontextmanager
async def _ending(request: Request) -> AsyncIterator[None]:
    """Whatever leaves the block but its end, ends the request."""
    try:
        yield
    except BaseException:
        await request.cancel()
        raise


class Target:
    """A place where commands run, reached through the controller.

    Making one does nothing; the first call connects, and starts a controller
    if none runs.  Use it as an async context manager, or aclose() it.

    Args:
        name: `local`, `docker:CONTAINER`, `podman:CONTAINER`,
            `openshell:SANDBOX`, or the name of a sandbox that `sandmux up`
            has made.
        same_agent: refuse an agent that a job could have prepared, with
            UntrustedError, as `exec --require-same-agent` does.
    """

    def __init__(self, name: str, *, same_agent: bool = False) -> None:
        self.name = name
        self.same_agent = same_agent
        self._connection: Connection | None = None
        self._connecting = anyio.Lock()

    async def __aenter__(self) -> Target:
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection: what is under way on it is ended."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and connection.alive:
            return connection
        async with self._connecting:
            if self._connection is not None:
                if self._connection.alive:
                    return self._connection
                self._connection.close()
                self._connection = None
            self._connection = await connect(self.name, self.same_agent)
            return self._connection

    async def _open(
        self,
        body: bytes,
        out: Sink = drop,
        err: Sink = drop,
        *,
        window: int = _wire.WINDOW_MAX,
        grace: float = GRACE_SECONDS,
    ) -> Request:
        connection = await self._connected()
        return await connection.open(body, out, err, window=window, grace=grace)

    # ---- commands ---------------------------------------------------------

    async def exec(
        self,
        command: Sequence[Text],
        input: Text | None = None,
        *,
        max_output: int = OUTPUT_MAX,
        **options: Unpack[Options],
    ) -> Result:
        """Run a command to its end.

        A cancelled call ends the command and all its descendants first.

        Args:
            command: program and arguments; no shell is between.
            input: its stdin; without it that is /dev/null.
            max_output: bytes of each of stdout and stderr that are kept, the
                last ones; it runs on when there is more.
            **options: see Options.

        Raises:
            StartError: it was not started (number ENOENT: not found).
            UserUnsupportedError, UserNotFoundError: so it was not, either.
            BusyError, UntrustedError, UnavailableError, ControllerError:
                nothing was run.
            OutcomeUnknownError, ProtocolError: whether it ran is not known.
            ValueError: an argument that cannot be sent.
        """
        body = exec_body(command, input is not None, options)
        out, err = Tail(max_output), Tail(max_output)
        grace = options.get("grace", GRACE_SECONDS)
        request = await self._open(body, out, err, grace=grace)
        async with _ending(request):
            if input is not None:
                await request.send(utf8(input))
                await request.end()
            fields = await request.finish()
        return result_of(fields, out.bytes(), err.bytes())

    def stream(
        self,
        command: Sequence[Text],
        *,
        stdin: bool = False,
        **options: Unpack[Options],
    ) -> Starting:
        """Start a command and stay with it.

        ::

            async with target.stream(["cat"], stdin=True) as job:
                await job.write(b"x")
                await job.close_stdin()
                async for piece in job.stdout:
                    ...
                result = await job.wait()

        Leaving the block ends the command.  At most STREAM_WINDOW bytes of
        each output are held; one that is not read holds the command up.

        Args:
            command: program and arguments; no shell is between.
            stdin: it has one, for Job.write(); else it is /dev/null.
            **options: see Options.

        Raises:
            ValueError: an argument that cannot be sent.  The other errors are
                exec()'s; those of a start come from Job.wait().
        """
        body = exec_body(command, stdin, options)
        grace = options.get("grace", GRACE_SECONDS)

        async def begin() -> Job:
            job = Job()
            out, err = job.sinks
            job.begin(await self._open(body, out, err, window=STREAM_WINDOW, grace=grace))
            return job

        return Starting(begin)

    # ---- files ------------------------------------------------------------

    async def read(
        self,
        path: Text,
        *,
        user: str | None = None,
        offset: int = 0,
        length: int | None = None,
        max_size: int | None = None,
    ) -> bytes:
        """A file's bytes.

        Args:
            path: relative to the target's own directory.
            user: whose rights count; without it the target's own user's.
            offset: of the first byte wanted.
            length: bytes wanted, at most; without it all to the end.
            max_size: bytes taken at most; more is an error.

        Raises:
            FileError: it cannot be read; also a FileNotFoundError,
                PermissionError or IsADirectoryError, as may be.
            LimitExceededError: there are more than max_size bytes.
            Others: as exec().
        """
        body = _wire.encode(
            "get",
            flags=GetFlags.DENSE,
            offset=offset,
            length=_wire.TO_END if length is None else length,
            user=plain_bytes(user or "", "a user"),
            path=path_bytes(path),
        )
        sink = FileSink(max_size)
        request = await self._open(body, sink)
        sink.request = request
        async with _ending(request):
            while not request.over and not sink.too_large and not sink.failed:
                await request.connection.wait(request)
            if sink.too_large or sink.failed:
                await request.cancel()
            else:
                _raise(await request.finish(), path)
        if sink.too_large:
            raise LimitExceededError(
                Step.READ,
                f"{quote(path_bytes(path))}: it is larger than {max_size} bytes",
            )
        if sink.failed or not sink.started:
            raise ProtocolError(Step.PROTOCOL, f"the agent: {sink.failed or 'no START'}")
        return sink.data.getvalue()

    async def write(
        self,
        path: Text,
        data: Text,
        *,
        user: str | None = None,
        mode: int | None = None,
        append: bool = False,
        parents: bool = True,
    ) -> None:
        """Write a file; it appears under its name only when it is complete.

        Args:
            path: relative to the target's own directory.
            data: its bytes; str goes as utf-8.
            user: who writes it and owns what is new.
            mode: permission bits, for an existing file too; without it a new
                file has 0666 less the umask, and an old one keeps its own.
            append: add to the end of what is there.
            parents: make missing directories.

        Raises:
            FileError: it cannot be written; nothing is changed then, but for
                append.  Also an OSError's subclass, as may be.
            Others: as exec().
        """
        flags = PutFlags.PARENTS if parents else PutFlags(0)
        if append:
            flags |= PutFlags.APPEND
        if mode is not None:
            flags |= PutFlags.MODE
        body = _wire.encode(
            "put",
            flags=flags,
            mode=NEW_FILE_MODE if mode is None else mode,
            user=plain_bytes(user or "", "a user"),
            path=path_bytes(path),
        )
        raw = utf8(data)
        request = await self._open(body)
        async with _ending(request):
            await request.send(_wire.framed(_wire.encode("start", size=len(raw))))
            await request.send(raw)
            await request.end()
            fields = await request.finish()
        _raise(fields, path)

    async def copy(
        self,
        source: str,
        destination: str,
        *,
        user: str | None = None,
        recursive: bool = False,
        to_host: bool = False,
    ) -> None:
        """Copy between this machine and the target, as `sandmux cp` does.

        Memory does not grow with the size; a file's holes, mode and time are
        kept.  A cancelled copy leaves nothing under the destination's name.

        Args:
            source: a path of this machine's; with to_host, of the target's.
            destination: a path of the target's; with to_host, of this
                machine's.
            user: whose rights count in the target.
            recursive: a whole tree.
            to_host: from the target to this machine.

        Raises:
            FileError: `sandmux cp` failed; the text is its own.
            ControllerError: there is no `sandmux` program.
        """
        here, there = (destination, source) if to_host else (source, destination)
        if not here.startswith("/"):
            here = os.path.join(os.getcwd(), here)
        words = [_launch.program(), "cp"]
        words += ["-r"] if recursive else []
        words += ["-u", user] if user else []
        remote = f"{self.name}:{there}"
        words += ["--", remote, here] if to_host else ["--", here, remote]
        done = await anyio.run_process(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            raise FileError(Step.NONE, quote(done.stderr.strip()))

    # ---- names ------------------------------------------------------------

    async def _fs(
        self,
        op: FsOp,
        path: Text,
        *,
        user: str | None,
        flags: FsFlags | int = 0,
        mode: int = 0,
        second: Text = b"",
        out: Sink = drop,
    ) -> dict[str, Any]:
        body = _wire.encode(
            "fs",
            op=op,
            flags=flags,
            mode=mode,
            user=plain_bytes(user or "", "a user"),
            path=path_bytes(path),
            second=path_bytes(second),
        )
        return await self._ask(body, out, path)

    async def _ask(
        self, body: bytes, out: Sink = drop, path: Text | None = None
    ) -> dict[str, Any]:
        request = await self._open(body, out)
        async with _ending(request):
            fields = await request.finish()
        _raise(fields, path)
        return fields

    async def stat(
        self, path: Text, *, user: str | None = None, follow: bool = True
    ) -> FileInfo:
        """What a path is; follow: what a symbolic link leads to.

        Raises:
            FileError, and others as exec().
        """
        fields = await self._fs(
            FsOp.STAT, path, user=user, flags=FsFlags.FOLLOW if follow else FsFlags(0)
        )
        return file_info(info_of(fields, "file_info"))

    async def listdir(
        self, path: Text, *, user: str | None = None, max_size: int = OUTPUT_MAX
    ) -> list[FileInfo]:
        """A directory's entries, in no order.

        Args:
            max_size: bytes of the answer that are taken; more is an error.

        Raises:
            LimitExceededError, FileError, and others as exec().
        """
        tail = Tail(max_size)
        fields = await self._fs(FsOp.LIST, path, user=user, out=tail)
        data = tail.bytes()
        if len(data) < fields["out"]:
            raise LimitExceededError(
                Step.LIST, f"{quote(path_bytes(path))}: its list is over {max_size} bytes"
            )
        try:
            return list(entries(data))
        except _wire.WireError as error:
            raise ProtocolError(Step.PROTOCOL, f"the agent: {error}") from None

    async def mkdir(
        self,
        path: Text,
        *,
        user: str | None = None,
        mode: int | None = None,
        parents: bool = False,
    ) -> None:
        """Make a directory.

        Args:
            mode: permission bits, whatever the umask.
            parents: missing ones too; one that is there is no error then.

        Raises:
            FileError, and others as exec().
        """
        flags = FsFlags.PARENTS if parents else FsFlags(0)
        if mode is not None:
            flags |= FsFlags.MODE
        await self._fs(
            FsOp.MKDIR, path, user=user, flags=flags, mode=0o777 if mode is None else mode
        )

    async def remove(
        self, path: Text, *, user: str | None = None, recursive: bool = False
    ) -> None:
        """Remove a file, a link or a directory; recursive: all that is in it.

        Raises:
            FileError, and others as exec().
        """
        await self._fs(
            FsOp.REMOVE, path, user=user, flags=FsFlags.TREE if recursive else FsFlags(0)
        )

    async def rename(self, path: Text, to: Text, *, user: str | None = None) -> None:
        """Rename path to another name.

        Raises:
            FileError, and others as exec().
        """
        await self._fs(FsOp.RENAME, path, user=user, second=to)

    async def chmod(self, path: Text, mode: int, *, user: str | None = None) -> None:
        """Set permission bits.

        Raises:
            FileError, and others as exec().
        """
        await self._fs(FsOp.CHMOD, path, user=user, mode=mode)

    async def chown(self, path: Text, owner: str, *, user: str | None = None) -> None:
        """Set the owner: NAME|UID[:GROUP|GID], or :GROUP alone.

        Raises:
            FileError, and others as exec().
        """
        await self._fs(FsOp.CHOWN, path, user=user, second=owner)

    async def symlink(self, path: Text, to: Text, *, user: str | None = None) -> None:
        """Make path a symbolic link that says `to`.

        Raises:
            FileError, and others as exec().
        """
        await self._fs(FsOp.SYMLINK, path, user=user, second=to)

    # ---- about the target -------------------------------------------------

    async def link(self) -> dict[str, Any]:
        """What the controller knows of the link; started if need be.

        Raises:
            UnavailableError, and others as exec().
        """
        tail = Tail(OUTPUT_MAX)
        await self._ask(_wire.encode("linkinfo"), tail)
        try:
            found = json.loads(tail.bytes())
        except ValueError as error:
            raise ProtocolError(Step.PROTOCOL, f"the controller: {error}") from None
        if not isinstance(found, dict):
            raise ProtocolError(Step.PROTOCOL, "the controller: no JSON object")
        return found


def _raise(fields: dict[str, Any], path: Text | None) -> None:
    """The error of a request that starts no command, if it has one."""
    error = failure(fields, starts=False)
    if error is not None:
        raise error
    if fields["outcome"] != Outcome.EXITED:
        # Not by us: `sandmux kill`, or a controller that goes.
        what = quote(path_bytes(path)) if path is not None else "the request"
        raise OutcomeUnknownError(Step.LINK, f"{what}: it was cancelled")

# SPDX-License-Identifier: MIT
"""A command: what is asked for, how it goes on, and how it ended."""

from __future__ import annotations

import os
import resource
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypedDict

from . import _wire
from ._arguments import Text, environment, path_bytes, plain_bytes
from ._connection import GRACE_SECONDS, Request
from ._errors import ProtocolError, failure, quote
from ._wire import Channel, ExecFlags, ExecInfoFlags, Outcome, Step

STREAM_WINDOW: Final = 262144
"""Bytes of each stream that a Job holds unread, at most."""

_LIMIT = struct.Struct(">BQQ")


class Options(TypedDict, total=False):
    """What exec() and stream() take beside the command.

    Attributes:
        cwd: relative to the target's own directory, which is the default.
        env: variables added to the target's own.
        unset: variables removed.
        clear_env: start from an empty environment.
        user: NAME or UID, then maybe : and GROUP or GID; without it the
            target's own.
        timeout: seconds after which it is ended.
        grace: seconds from TERM to KILL, when it is ended.
        limits: as `{"nproc": 100}`: names of setrlimit(2), (soft, hard) or
            one number for both; -1 is unlimited.
        nice: added to the target's niceness.
        umask: in place of the target's own.
        kill_background: end what it leaves running, when it ends.
    """

    cwd: Text | None
    env: Mapping[str, str] | None
    unset: Sequence[str]
    clear_env: bool
    user: str | None
    timeout: float | None
    grace: float
    limits: Mapping[str, int | tuple[int, int]]
    nice: int
    umask: int | None
    kill_background: bool


def _limits(limits: Mapping[str, int | tuple[int, int]]) -> list[bytes]:
    items = []
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None:
            raise ValueError(f"no resource limit is called {name!r}")
        soft, hard = (value, value) if isinstance(value, int) else value
        # -1 is resource.RLIM_INFINITY, 2^64-1 the protocol's word for it.
        items.append(_LIMIT.pack(number, soft & _wire.MAX64, hard & _wire.MAX64))
    return items


def exec_body(command: Sequence[Text], stdin: bool, options: Options) -> bytes:
    """EXEC's body.

    Raises:
        ValueError: an argument that cannot be sent.
    """
    if not command:
        raise ValueError("no command")
    timeout, umask = options.get("timeout"), options.get("umask")
    if timeout is not None and timeout < 0:
        raise ValueError(f"a timeout of {timeout} seconds")
    flags = ExecFlags(0)
    for flag, wanted in (
        (ExecFlags.STDIN, stdin),
        (ExecFlags.CLEAR_ENV, options.get("clear_env")),
        (ExecFlags.KILL_BACKGROUND, options.get("kill_background")),
        (ExecFlags.UMASK, umask is not None),
    ):
        if wanted:
            flags |= flag
    return _wire.encode(
        "exec",
        flags=flags,
        timeout_ms=0 if timeout is None else max(1, round(timeout * 1000)),
        grace_ms=round(options.get("grace", GRACE_SECONDS) * 1000),
        umask=umask or 0,
        nice=options.get("nice", 0),
        user=plain_bytes(options.get("user") or "", "a user"),
        cwd=path_bytes(options.get("cwd") or ""),
        argv=[plain_bytes(w, f"argument {i}") for i, w in enumerate(command)],
        env=environment(options.get("env") or {}),
        unset=[
            plain_bytes(name, f"unset name {i}")
            for i, name in enumerate(options.get("unset", ()))
        ],
        limits=_limits(options.get("limits", {})),
    )


@dataclass(frozen=True)
class Result:
    """How a command ended.  Sizes are bytes, times are seconds.

    Attributes:
        outcome: EXITED, SIGNALED, TIMED_OUT, or CANCELLED (by somebody else:
            a cancelled caller gets no result).
        code: the exit status, or the signal's number.
        stdout: the last `max_output` bytes of it.
        stderr: the same of stderr.
        stdin_size: bytes of the input that were taken.
        stdout_size: all bytes of stdout, kept or not.
        stderr_size: the same of stderr.
        wall_time: from its start to its end.
        new_agent: the agent is one that a job could have prepared.
        detached: background processes still held its output when it ended.
        uid: whom it ran as.
        job: its number in the session.
        cwd: the directory it ran in, if the target's own could not be
            entered; else None.
        user_time: cpu time of it and its reaped descendants.
        system_time: the same, in the kernel.
        read_size: bytes they read from disks.
        written_size: bytes they wrote to disks.
        peak_rss: resident size of the largest of them.
        survivors: "PID NAME" of what could not be ended.
    """

    outcome: Outcome
    code: int
    stdout: bytes
    stderr: bytes
    stdin_size: int
    stdout_size: int
    stderr_size: int
    wall_time: float
    new_agent: bool
    detached: bool
    uid: int
    job: int
    cwd: str | None
    user_time: float
    system_time: float
    read_size: int
    written_size: int
    peak_rss: int
    survivors: tuple[str, ...]

    @property
    def returncode(self) -> int:
        """As a shell would say it: 128+N for signal N, 124 timed out."""
        if self.outcome == Outcome.EXITED:
            return self.code
        if self.outcome == Outcome.SIGNALED:
            return 128 + self.code
        return 124 if self.outcome == Outcome.TIMED_OUT else 130

    @property
    def timed_out(self) -> bool:
        """Whether its own timeout ended it."""
        return self.outcome == Outcome.TIMED_OUT

    @property
    def truncated(self) -> bool:
        """Whether the beginning of an output was dropped."""
        return len(self.stdout) < self.stdout_size or len(self.stderr) < self.stderr_size


class _Queue:
    """A Sink that holds bytes until they are asked for."""

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()

    def __call__(self, data: memoryview) -> bool:
        self.pieces.append(bytes(data))
        return False


class Stream:
    """stdout or stderr of a Job: iterate over it."""

    def __init__(self, queue: _Queue, channel: int) -> None:
        self._queue = queue
        self._channel = channel
        self._request: Request | None = None

    def _take(self) -> bytes | None:
        if not self._queue.pieces:
            return None
        assert self._request is not None
        data = self._queue.pieces.popleft()
        self._request.consume(self._channel, len(data))
        return data

    @property
    def _done(self) -> bool:
        assert self._request is not None
        return not self._queue.pieces and self._request.ended(self._channel)

    def _discard(self) -> None:
        assert self._request is not None
        while self._take() is not None:
            pass
        self._request.unwanted(self._channel)

    async def receive(self) -> bytes:
        """The next bytes, as they came; b"" at the end.

        Raises:
            OutcomeUnknownError: the link or the controller was lost.
        """
        assert self._request is not None
        while True:
            data = self._take()
            if data is not None:
                await self._request.connection.flush()
                return data
            if self._request.error is not None:
                await self._request.finish()
            if self._done:
                return b""
            await self._request.connection.wait(self._request)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self.receive()
        if not data:
            raise StopAsyncIteration
        return data


class Job:
    """A running command; an async context manager, which ends it.

    Attributes:
        stdout: its output; bytes not read hold the command up.
        stderr: the same.
    """

    def __init__(self) -> None:
        out, err = _Queue(), _Queue()
        self.sinks = (out, err)
        self.stdout = Stream(out, Channel.OUT)
        self.stderr = Stream(err, Channel.ERR)
        self._request: Request | None = None

    def begin(self, request: Request) -> None:
        """It has been asked for."""
        self._request = self.stdout._request = self.stderr._request = request

    @property
    def _running(self) -> Request:
        assert self._request is not None
        return self._request

    async def write(self, data: Text) -> bool:
        """Write to its stdin, as fast as it reads.

        Returns:
            False: it reads no more, or has ended.
        """
        raw = data.encode("utf-8") if isinstance(data, str) else data
        return await self._running.send(raw)

    async def close_stdin(self) -> None:
        """That was all of its input."""
        await self._running.end()

    async def signal(self, number: int) -> None:
        """Send a signal to its process group; 9 to its whole tree."""
        await self._running.signal(number)

    async def __aiter__(self) -> AsyncIterator[tuple[str, bytes]]:
        """("stdout" | "stderr", bytes) as they come, until both have ended."""
        streams = {"stdout": self.stdout, "stderr": self.stderr}
        while True:
            for name, stream in streams.items():
                data = stream._take()
                if data is not None:
                    yield name, data
                    break
            else:
                if self._running.error is not None:
                    await self._running.finish()
                if all(stream._done for stream in streams.values()):
                    return
                await self._running.connection.wait(self._running)

    async def wait(self) -> Result:
        """Wait for its end; output that is not read by then is dropped.

        Returns:
            The result, whose stdout and stderr are empty.

        Raises:
            SandmuxError: it did not start, or its end is not known.
        """
        self.stdout._discard()
        self.stderr._discard()
        await self._running.connection.flush()
        return result_of(await self._running.finish(), b"", b"")

    async def __aenter__(self) -> Job:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._running.over:
            await self._running.cancel()


class Starting:
    """stream()'s answer: a Job once it is entered."""

    def __init__(self, start: Callable[[], Awaitable[Job]]) -> None:
        self._start = start
        self._job: Job | None = None

    async def __aenter__(self) -> Job:
        self._job = await self._start()
        return self._job

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._job is not None
        await self._job.__aexit__(kind, error, trace)


def info_of(fields: dict[str, Any], want: str) -> dict[str, Any]:
    """What a RESULT carries; empty if it carries nothing."""
    if not fields["info"]:
        return {}
    try:
        name, info = _wire.decode(fields["info"])
    except _wire.WireError as error:
        raise ProtocolError(Step.PROTOCOL, f"the agent: {error}") from None
    if name != want:
        raise ProtocolError(Step.PROTOCOL, f"the agent: {name} instead of {want}")
    return info


def result_of(fields: dict[str, Any], stdout: bytes, stderr: bytes) -> Result:
    """A command's RESULT, or its error."""
    error = failure(fields, starts=True)
    if error is not None:
        raise error
    info = info_of(fields, "exec_info")
    try:
        outcome = Outcome(fields["outcome"])
    except ValueError:
        raise ProtocolError(
            Step.PROTOCOL, f"the agent: outcome {fields['outcome']}"
        ) from None
    fell_back = info.get("flags", 0) & ExecInfoFlags.CWD_FELL_BACK
    return Result(
        outcome=outcome,
        code=fields["code"],
        stdout=stdout,
        stderr=stderr,
        stdin_size=fields["in"],
        stdout_size=fields["out"],
        stderr_size=fields["err"],
        wall_time=fields["wall_us"] / 1e6,
        new_agent=bool(fields["new_agent"]),
        detached=bool(fields["detached"]),
        uid=info.get("uid", 0),
        job=info.get("job", 0),
        cwd=os.fsdecode(info["cwd"]) if fell_back else None,
        user_time=info.get("user_us", 0) / 1e6,
        system_time=info.get("system_us", 0) / 1e6,
        read_size=info.get("read_blocks", 0) * 512,
        written_size=info.get("written_blocks", 0) * 512,
        peak_rss=info.get("peak_kib", 0) * 1024,
        survivors=tuple(quote(item) for item in info.get("survivors", ())),
    )

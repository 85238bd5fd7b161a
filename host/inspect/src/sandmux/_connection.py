# SPDX-License-Identifier: MIT
"""One connection to the controller: frames, requests, credit.

It has no task of its own.  Whoever waits for something reads the socket for
everybody until it has what it waits for, and hands the reading on; so it
works the same on asyncio and trio, and nothing is left behind.  While nobody
waits nothing is read, and credit keeps what the controller may have sent
meanwhile small.

Not for use from several threads, nor from two event loops.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.lowlevel

from . import _wire
from ._errors import (
    ControllerError,
    OutcomeUnknownError,
    ProtocolError,
    SandmuxError,
    quote,
)
from ._version import VERSION
from ._wire import Channel, Step

IN_SIZE: Final = 262144
"""Bytes of the buffer that the socket is read into."""
BURST: Final = 8
"""DATA frames written before the socket is looked at again."""
WELCOME_SECONDS: Final = 20.0
"""For the controller to answer."""
GRACE_SECONDS: Final = 2.0
"""From TERM to KILL, where the caller said nothing."""
END_SECONDS: Final = 6.0
"""For an ended job's end to be told, beyond its grace: what it takes the
agent to kill level by level, and some."""

_LENGTH: Final = struct.Struct(">I")
_DATA: Final = struct.Struct(">BIBQ")
_CREDIT: Final = struct.Struct(">BIBQ")
_DATA_TYPE: Final = _wire.TYPE["data"]
_CREDIT_TYPE: Final = _wire.TYPE["credit"]
_FRAMED_DATA: Final = struct.Struct(">IBIBQ")
_FRAMED_CREDIT: Final = struct.Struct(">IBIBQ")

Sink = Callable[[memoryview], bool]
"""Takes a flow's next bytes, which are there during the call only.  True: they
are done with, and as many more may come.  False: the owner calls
Request.consume() later."""


def drop(data: memoryview) -> bool:
    """A Sink for what nobody reads."""
    return True


class Waiter:
    """Somebody who waits for news."""

    __slots__ = ("event", "news")

    def __init__(self) -> None:
        self.event: anyio.Event | None = None
        self.news = False

    def wake(self) -> None:
        """There are news for it."""
        self.news = True
        if self.event is not None:
            self.event.set()


class _Inflow:
    """A flow towards us."""

    __slots__ = ("consumed", "ended", "granted", "received", "sink", "window")

    def __init__(self, window: int, sink: Sink) -> None:
        self.received = self.consumed = 0
        self.granted = self.window = window
        self.sink = sink
        self.ended = False


class Request(Waiter):
    """One request, from its OPEN to its RESULT.

    Attributes:
        result: RESULT's fields; None before it.
        error: why the connection was lost before the RESULT.
    """

    __slots__ = (
        "_eof",
        "_grace",
        "_in",
        "_limits",
        "_sent",
        "connection",
        "error",
        "id",
        "result",
    )

    def __init__(
        self, connection: Connection, number: int, flows: dict[int, _Inflow], grace: float
    ) -> None:
        super().__init__()
        self.connection = connection
        self.id = number
        self.result: dict[str, Any] | None = None
        self.error: SandmuxError | None = None
        self._in = flows
        self._limits = [_wire.WINDOW_MIN, _wire.WINDOW_MIN]
        self._sent = [0, 0]
        self._eof = False
        self._grace = grace

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.result is not None or self.error is not None

    def ended(self, channel: int) -> bool:
        """Whether all bytes of OUT or ERR have arrived."""
        return self.over or self._in[channel].ended

    def consume(self, channel: int, count: int) -> None:
        """So many bytes are done with: as many more may come."""
        flow = self._in[channel]
        flow.consumed += count
        if (
            not self.over
            and not flow.ended
            and flow.granted - flow.consumed <= flow.window // 2
        ):
            flow.granted = flow.consumed + flow.window
            self.connection.queue_credit(self.id, channel, flow.granted)

    def unwanted(self, channel: int) -> None:
        """Nobody reads OUT or ERR any more: no more of it is sent."""
        flow = self._in[channel]
        flow.sink = drop
        if not self.over and not flow.ended and flow.granted != _wire.UNWANTED:
            flow.granted = _wire.UNWANTED
            self.connection.queue_credit(self.id, channel, _wire.UNWANTED)

    async def send(self, data: bytes | memoryview, channel: int = Channel.IN) -> bool:
        """Send bytes as credit allows.

        Returns:
            False: the other side takes no more, or the request is over.
        """
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            limit = self._limits[channel]
            if self.over or limit == _wire.UNWANTED:
                return False
            room = min(limit - self._sent[channel], len(view) - at)
            if room <= 0:
                await self.connection.wait(self)
                continue
            room = min(room, BURST * _wire.DATA_MAX)
            self.connection.queue_data(
                self.id, channel, self._sent[channel], view[at : at + room]
            )
            self._sent[channel] += room
            at += room
            await self.connection.flush()
        return not self.over

    async def end(self) -> None:
        """That was all of IN."""
        if not self._eof and not self.over:
            self._eof = True
            self.connection.queue(
                _wire.encode(
                    "eof",
                    request=self.id,
                    channel=Channel.IN,
                    total=self._sent[Channel.IN],
                )
            )
            await self.connection.flush()

    async def signal(self, number: int) -> None:
        """A signal for the job's process group; 9 for its whole tree."""
        if not self.over:
            self.connection.queue(_wire.encode("signal", request=self.id, signal=number))
            await self.connection.flush()

    async def finish(self) -> dict[str, Any]:
        """Wait for RESULT.

        Raises:
            OutcomeUnknownError: the connection was lost.
            ProtocolError: it broke the protocol.
        """
        while self.result is None:
            if self.error is not None:
                # Several requests may have the same one.
                raise type(self.error)(
                    self.error.step, self.error.text, self.error.number
                )
            await self.connection.wait(self)
        return self.result

    async def cancel(self) -> bool:
        """End it, and wait for its end, but not for ever.

        Runs to its end even where the caller is being cancelled.

        Returns:
            Whether it has ended.  If not, the controller goes on ending it.
        """
        with anyio.move_on_after(self._grace + END_SECONDS, shield=True):
            if not self.over:
                self.unwanted(Channel.OUT)
                self.unwanted(Channel.ERR)
                self._limits = [_wire.UNWANTED, _wire.UNWANTED]
                self.connection.queue(_wire.encode("cancel", request=self.id))
                await self.connection.flush()
            while not self.over:
                await self.connection.wait(self)
        return self.over

    # ---- called by the connection ----------------------------------------

    def take_data(self, channel: int, offset: int, data: memoryview) -> None:
        flow = self._in.get(channel)
        if flow is None or flow.ended or offset != flow.received:
            raise _wire.WireError(f"DATA out of order on channel {channel}")
        flow.received += len(data)
        if flow.received > flow.granted:
            raise _wire.WireError("DATA beyond its credit")
        if flow.sink(data):
            self.consume(channel, len(data))
        else:
            self.wake()

    def take_eof(self, channel: int, total: int) -> None:
        flow = self._in.get(channel)
        if flow is None or flow.ended or total != flow.received:
            raise _wire.WireError(f"EOF out of order on channel {channel}")
        flow.ended = True
        self.wake()

    def take_credit(self, channel: int, limit: int) -> None:
        if channel not in (Channel.BODY, Channel.IN):
            raise _wire.WireError(f"CREDIT on channel {channel}")
        if limit > self._limits[channel]:
            self._limits[channel] = limit
            self.wake()

    def take_result(self, fields: dict[str, Any]) -> None:
        for channel, name in ((Channel.OUT, "out"), (Channel.ERR, "err")):
            flow = self._in[channel]
            if fields[name] != flow.received:
                raise _wire.WireError(
                    f"{fields[name]} bytes of output announced, {flow.received} arrived"
                )
            flow.ended = True
        self.result = fields
        self.wake()

    def lost(self, error: SandmuxError) -> None:
        if self.result is None:
            self.error = error
        self.wake()


class Connection:
    """A greeted connection; close() it."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes over a connected, non-blocking socket."""
        self._sock = sock
        self._buffer = bytearray(IN_SIZE)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._out = bytearray()
        self._writing = anyio.Lock()
        self._reading = False
        self._followers: dict[Waiter, None] = {}
        self._requests: dict[int, Request] = {}
        self._last = 0
        self._slots = anyio.Semaphore(_wire.REQUESTS_MAX)
        self._broken: OSError | None = None
        self._error: SandmuxError | None = None
        self._welcome: dict[str, Any] | None = None
        self._greeter = Waiter()

    async def greet(self, target: str, flags: int, env: list[bytes]) -> dict[str, Any]:
        """Say HELLO.

        Returns:
            WELCOME's fields.

        Raises:
            ControllerError: no WELCOME came in time, or at all.
        """
        hello = _wire.encode(
            "hello",
            min=_wire.VERSION_MIN,
            max=_wire.VERSION_MAX,
            flags=flags,
            program=VERSION.encode(),
            target=target.encode("utf-8", "surrogateescape"),
            env=env,
        )
        if len(hello) > _wire.FRAME_MAX:
            raise ControllerError(
                Step.USAGE,
                "PATH and the other variables that reach a target are longer "
                f"than {_wire.INFO_MAX} bytes in all",
            )
        try:
            with anyio.fail_after(WELCOME_SECONDS):
                self.queue(hello)
                await self.flush()
                while self._welcome is None and self._error is None:
                    await self.wait(self._greeter)
        except TimeoutError:
            raise ControllerError(
                Step.START, "the controller does not answer; is it stopped?"
            ) from None
        if self._welcome is None:
            assert self._error is not None
            raise ControllerError(Step.START, f"the controller: {self._error.text}")
        return self._welcome

    @property
    def alive(self) -> bool:
        """Whether requests may be opened; looks at the socket if it is idle."""
        if self._error is None and not self._reading:
            self._receive()
        return self._error is None and self._broken is None

    async def open(
        self,
        body: bytes,
        out: Sink,
        err: Sink = drop,
        *,
        window: int = _wire.WINDOW_MAX,
        grace: float = GRACE_SECONDS,
    ) -> Request:
        """Open a request; waits while REQUESTS_MAX are under way.

        Args:
            body: the request, whose first byte is its kind.
            out: takes OUT's bytes.
            err: takes ERR's bytes.
            window: bytes of each of them that may be unconsumed at once.
            grace: seconds that its end may take, for Request.cancel().
        """
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            await self._slots.acquire()
        if self._error is not None:
            self._slots.release()
            raise ControllerError(Step.START, self._error.text)
        self._last += 1
        request = Request(
            self,
            self._last,
            {Channel.OUT: _Inflow(window, out), Channel.ERR: _Inflow(window, err)},
            grace,
        )
        self._requests[request.id] = request
        self.queue(
            _wire.encode(
                "open",
                request=request.id,
                kind=body[0],
                body=len(body),
                out=window,
                err=window,
            )
        )
        try:
            await request.send(body, Channel.BODY)
        except BaseException:
            await request.cancel()
            raise
        return request

    def close(self) -> None:
        """Close the socket: the controller ends what is under way on it."""
        if self._sock.fileno() >= 0:
            anyio.notify_closing(self._sock)
            self._sock.close()
        self._die(OutcomeUnknownError(Step.LINK, "the connection was closed here"))

    # ---- writing ----------------------------------------------------------

    def queue(self, frame: bytes) -> None:
        """A frame to be written with the next flush()."""
        self._out += _LENGTH.pack(len(frame))
        self._out += frame

    def queue_data(
        self, request: int, channel: int, offset: int, data: memoryview
    ) -> None:
        """DATA frames with all of data."""
        for at in range(0, len(data), _wire.DATA_MAX):
            piece = data[at : at + _wire.DATA_MAX]
            self._out += _FRAMED_DATA.pack(
                _wire.DATA_HEADER + len(piece), _DATA_TYPE, request, channel, offset + at
            )
            self._out += piece

    def queue_credit(self, request: int, channel: int, limit: int) -> None:
        """A CREDIT frame."""
        self._out += _FRAMED_CREDIT.pack(
            _CREDIT.size, _CREDIT_TYPE, request, channel, limit
        )

    def _push(self) -> bool:
        """Write what the socket takes; whether all of it is written."""
        while self._out and self._broken is None and self._error is None:
            try:
                count = self._sock.send(self._out)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                # What it said last may still be readable.
                self._broken = error
                break
            del self._out[:count]
        self._out.clear()
        return True

    async def flush(self) -> None:
        """Write everything.  What a cancellation leaves, the next one writes."""
        while not self._push():
            async with self._writing:
                if not self._push():
                    await self._ready(anyio.wait_writable)

    async def _ready(self, wait: Callable[[Any], Any]) -> None:
        try:
            await wait(self._sock)
        except (anyio.ClosedResourceError, ValueError, OSError):
            if self._sock.fileno() >= 0:
                raise

    # ---- reading ----------------------------------------------------------

    async def wait(self, waiter: Waiter) -> None:
        """Until there are news for waiter, or it has to look for itself."""
        waiter.news = False
        if self._error is not None:
            return
        if self._reading:
            waiter.event = anyio.Event()
            self._followers[waiter] = None
            try:
                await waiter.event.wait()
            finally:
                waiter.event = None
                del self._followers[waiter]
                self._hand_on()
            return
        self._reading = True
        try:
            while not waiter.news and self._error is None:
                await self._turn()
        finally:
            self._reading = False
            self._hand_on()

    def _hand_on(self) -> None:
        """Somebody must read while others wait."""
        if not self._reading:
            for follower in self._followers:
                if follower.event is not None:
                    follower.event.set()
                break

    async def _turn(self) -> None:
        await self.flush()
        if self._receive():
            # A flood must not keep the loop from everything else.
            await anyio.lowlevel.checkpoint()
        else:
            await self._ready(anyio.wait_readable)
            self._receive()

    def _receive(self) -> bool:
        """Read once and act on it; whether there was anything."""
        try:
            count = self._sock.recv_into(self._view[self._end :])
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._die(OutcomeUnknownError(Step.LINK, "the controller", error.errno or 0))
            return True
        if count == 0:
            self._die(OutcomeUnknownError(Step.LINK, "the controller closed the socket"))
            return True
        self._end += count
        try:
            self._parse()
        except _wire.WireError as error:
            self._die(ProtocolError(Step.PROTOCOL, f"the controller: {error}"))
        return True

    def _parse(self) -> None:
        view, at, end = self._view, self._start, self._end
        while end - at >= 4:
            (size,) = _LENGTH.unpack_from(view, at)
            if not 0 < size <= _wire.FRAME_MAX:
                raise _wire.WireError(f"a frame of {size} bytes")
            if end - at < 4 + size:
                break
            self._frame(view[at + 4 : at + 4 + size])
            at += 4 + size
        if at == end:
            at = end = 0
        elif at > 0 and IN_SIZE - end < 4 + _wire.FRAME_MAX:
            view[: end - at] = view[at:end]
            at, end = 0, end - at
        self._start, self._end = at, end

    def _frame(self, frame: memoryview) -> None:
        if frame[0] == _DATA_TYPE and len(frame) > _DATA.size and self._welcome:
            _, number, channel, offset = _DATA.unpack_from(frame)
            request = self._find(number)
            if request is not None:
                request.take_data(channel, offset, frame[_DATA.size :])
            return
        name, fields = _wire.decode(bytes(frame))
        if self._welcome is None:
            if name != "welcome":
                raise _wire.WireError("it did not begin with WELCOME")
            self._welcome = fields
            self._greeter.wake()
        elif name == "result":
            request = self._find(fields["request"])
            if request is not None:
                request.take_result(fields)
                del self._requests[request.id]
                self._slots.release()
        elif name == "credit":
            request = self._find(fields["request"])
            if request is not None:
                request.take_credit(fields["channel"], fields["limit"])
        elif name == "eof":
            request = self._find(fields["request"])
            if request is not None:
                request.take_eof(fields["channel"], fields["total"])
        elif name != "log":
            raise _wire.WireError(f"{name.upper()} is not a server's")

    def _find(self, number: int) -> Request | None:
        """The request of that id; None if it has ended."""
        request = self._requests.get(number)
        if request is None and not 0 < number <= self._last:
            raise _wire.WireError(f"a frame for request {number}, never opened")
        return request

    def _die(self, error: SandmuxError) -> None:
        if self._error is not None:
            return
        self._error = error
        self._out.clear()
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.lost(error)
            self._slots.release()
        self._greeter.wake()
        for follower in self._followers:
            if follower.event is not None:
                follower.event.set()


def described(welcome: dict[str, Any]) -> str:
    """The controller's version, for people."""
    return quote(welcome["program"]) or "?"

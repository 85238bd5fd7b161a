# SPDX-License-Identifier: MIT
"""A greeted connection for a target, by whatever it takes to get one."""

from __future__ import annotations

from typing import Final

import anyio

from . import _launch
from ._connection import Connection, described
from ._errors import ControllerError, quote
from ._version import VERSION
from ._wire import HelloFlags, Step

PATIENCE_SECONDS: Final = 10.0
"""With a controller that is just going."""
PAUSE_SECONDS: Final = 0.05


async def _hang_up(connection: Connection) -> None:
    """Wait, for a while, until the other side has closed."""
    with anyio.move_on_after(PATIENCE_SECONDS):
        while connection.alive:  # noqa: ASYNC110, nothing tells it
            await anyio.sleep(PAUSE_SECONDS)


async def _greeted(where: str, target: str, flags: int) -> Connection | None:
    """A connection to a controller of our version; None: try again."""
    sock = _launch.connect(where)
    if sock is None:
        return None
    connection = Connection(sock)
    try:
        welcome = await connection.greet(target, flags, _launch.transport_env())
        if flags & HelloFlags.STOP_IF_IDLE:
            await _hang_up(connection)
            connection.close()
            return None
        if welcome["version"] and welcome["program"] == VERSION.encode():
            return connection
    except ControllerError as error:
        connection.close()
        if error.number or "closed the socket" not in error.text:
            raise
        return None  # one that ends at this very moment
    except BaseException:
        connection.close()
        raise
    connection.close()
    if welcome["busy"]:
        raise ControllerError(
            Step.START,
            f"the controller (pid {welcome['pid']}) is version "
            f"{described(welcome)}, this is {VERSION}, and it has "
            f"{welcome['busy']} requests under way; wait for their end or run "
            "`sandmux stop`",
        )
    return await _greeted(where, "", HelloFlags.STOP_IF_IDLE)


async def connect(target: str, same_agent: bool) -> Connection:
    """A connection for a target; the controller is started if none runs.

    Raises:
        ControllerError: there is none, and none could be started.
    """
    flags = HelloFlags.SAME_AGENT if same_agent else HelloFlags(0)
    where = _launch.directory()
    deadline = None
    while True:
        connection = await _greeted(where, target, flags)
        if connection is not None:
            return connection
        if deadline is None:
            deadline = anyio.current_time() + PATIENCE_SECONDS
        elif anyio.current_time() >= deadline:
            raise ControllerError(
                Step.START, f"the controller in {quote(where)} hangs up; see its log"
            )
        else:
            await anyio.sleep(PAUSE_SECONDS)
        await _launch.start(where)

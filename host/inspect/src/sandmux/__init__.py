# SPDX-License-Identifier: MIT
"""Commands and files in sandboxes, over one sealed link for each.

    import sandmux

    async with sandmux.Target("docker:web") as web:
        result = await web.exec(["uname", "-a"], user="app", timeout=10)
        await web.write("/data/in.bin", b"...")

A client of the `sandmux` controller's socket, for asyncio and trio (anyio).
`sandmux.Target` is where to start.  For Inspect (inspect_ai) the package also
registers the sandbox provider `sandmux`, which is `sandmux.provider`.
"""

from ._errors import (
    BusyError,
    ControllerError,
    FileError,
    OutcomeUnknownError,
    ProtocolError,
    SandmuxError,
    StartError,
    UnavailableError,
    UntrustedError,
    UserNotFoundError,
    UserUnsupportedError,
)
from ._files import FileInfo, LimitExceededError
from ._job import Job, Options, Result, Stream
from ._target import Target
from ._version import VERSION as __version__
from ._wire import Outcome, Step

__all__ = [
    "BusyError",
    "ControllerError",
    "FileError",
    "FileInfo",
    "Job",
    "LimitExceededError",
    "Options",
    "Outcome",
    "OutcomeUnknownError",
    "ProtocolError",
    "Result",
    "SandmuxError",
    "StartError",
    "Step",
    "Stream",
    "Target",
    "UnavailableError",
    "UntrustedError",
    "UserNotFoundError",
    "UserUnsupportedError",
    "__version__",
]

# SPDX-License-Identifier: MIT
"""What can go wrong, as types, and the one place where it becomes words.

The words of a step are host/words.c's (a test holds them against it), so a
failure reads the same from `sandmux` and from here.  All text that came from
a sandbox or a controller is quoted: control bytes never reach a terminal.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

from ._wire import Outcome, Step

_WORDS: dict[Step, str] = {
    Step.NONE: "%s",
    Step.USAGE: "%s",
    Step.BUSY: "busy: %s",
    Step.FORK: "cannot start a process: %s",
    Step.PIPE: "cannot make the command's pipes: %s",
    Step.STDIO: "cannot set up the command's stdin, stdout and stderr: %s",
    Step.CHDIR: "cannot change to the directory %s",
    Step.EXEC: "cannot run %s",
    Step.OPEN: "cannot open %s",
    Step.READ: "cannot read %s",
    Step.WRITE: "cannot write %s",
    Step.RENAME: "cannot put the file in place as %s",
    Step.LINK: "link lost, outcome unknown: %s",
    Step.START: "cannot start: %s",
    Step.TARGET: "target %s",
    Step.PROTOCOL: "protocol broken: %s",
    Step.UNTRUSTED: "refused a new, unproven agent: %s",
    Step.SHUTDOWN: "stopped by `sandmux stop`: %s",
    Step.WAIT: "the command's end could not be learned, outcome unknown: %s",
    Step.USER: "%s",
    Step.SWITCH: "user unsupported: %s",
    Step.LIMIT: "cannot set %s",
    Step.PTY: "cannot make a terminal: %s",
    Step.JOB: "job %s",
    Step.STAT: "cannot look at %s",
    Step.LIST: "cannot list %s",
    Step.MKDIR: "cannot make the directory %s",
    Step.REMOVE: "cannot remove %s",
    Step.MOVE: "cannot rename %s",
    Step.CHMOD: "cannot change the mode of %s",
    Step.CHOWN: "cannot change the owner of %s",
    Step.SYMLINK: "cannot make the link %s",
    Step.PARTIAL: "cannot go on with the partial file %s",
    Step.VERIFY: "cannot verify %s",
    Step.AGENT: "agent gone, outcome unknown: %s",
    Step.SANDBOX: "sandbox gone, outcome unknown: %s",
    Step.UNREACHABLE: "target unreachable, outcome unknown: %s",
    Step.LINGER: "link lost for too long, outcome unknown: %s",
}


class SandmuxError(Exception):
    """Any failure of a request that is not a command's own.

    Attributes:
        step: what failed.
        number: the Linux errno, 0 where there is none.
        text: the thing that failed, as the other side named it, quoted.
    """

    def __init__(self, step: Step, text: str, number: int = 0) -> None:
        self.step = step
        self.number = number
        self.text = text
        super().__init__(words(step, text, number))


class ControllerError(SandmuxError):
    """The controller cannot be reached or started; nothing was run."""


class UnavailableError(SandmuxError):
    """The sandbox cannot be reached, or not be trusted; nothing was run."""


class BusyError(UnavailableError):
    """Too much is under way; nothing was run, later it may be."""


class UntrustedError(UnavailableError):
    """Its agent is a new, unproven one, and the caller asked for the same."""


class OutcomeUnknownError(UnavailableError):
    """The link or the controller was lost: it ran, or not, or in part."""


class ProtocolError(UnavailableError):
    """The agent or the controller broke the protocol; outcome unknown."""


class StartError(SandmuxError):
    """The command was not started: number is ENOENT if it was not found."""


class UserUnsupportedError(SandmuxError):
    """This sandbox's agent may not become that user."""


class UserNotFoundError(SandmuxError):
    """The sandbox has no such user or group."""


class FileError(SandmuxError, OSError):
    """A file operation failed.

    For an errno that has one it is also the OSError subclass that Python
    has for it, so `except FileNotFoundError` catches it.
    """

    def __init__(self, step: Step, text: str, number: int = 0) -> None:
        self.step = step
        self.number = number
        self.text = text
        OSError.__init__(self, number, words(step, text, number))

    def __str__(self) -> str:
        return words(self.step, self.text, self.number)


class _NotFound(FileError, FileNotFoundError):
    pass


class _Permission(FileError, PermissionError):
    pass


class _IsADirectory(FileError, IsADirectoryError):
    pass


class _NotADirectory(FileError, NotADirectoryError):
    pass


class _Exists(FileError, FileExistsError):
    pass


_FILE_ERRORS: dict[int, type[FileError]] = {
    errno.ENOENT: _NotFound,
    errno.EACCES: _Permission,
    errno.EPERM: _Permission,
    errno.EISDIR: _IsADirectory,
    errno.ENOTDIR: _NotADirectory,
    errno.EEXIST: _Exists,
}

# The steps before a command runs: its own fault, not the sandbox's.
_START_STEPS = {
    Step.USAGE,
    Step.FORK,
    Step.PIPE,
    Step.STDIO,
    Step.CHDIR,
    Step.EXEC,
    Step.LIMIT,
    Step.PTY,
}
_BY_STEP: dict[Step, type[SandmuxError]] = {
    Step.BUSY: BusyError,
    Step.LINK: OutcomeUnknownError,
    Step.AGENT: OutcomeUnknownError,
    Step.SANDBOX: OutcomeUnknownError,
    Step.UNREACHABLE: OutcomeUnknownError,
    Step.LINGER: OutcomeUnknownError,
    Step.WAIT: OutcomeUnknownError,
    Step.SHUTDOWN: OutcomeUnknownError,
    Step.START: UnavailableError,
    Step.TARGET: UnavailableError,
    Step.PROTOCOL: ProtocolError,
    Step.UNTRUSTED: UntrustedError,
    Step.USER: UserNotFoundError,
    Step.SWITCH: UserUnsupportedError,
    Step.JOB: SandmuxError,
}


def quote(data: bytes | str) -> str:
    """Text of the other side's, fit for a terminal and a log."""
    if isinstance(data, bytes):
        data = data.decode("utf-8", "backslashreplace")
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in data
    )


def words(step: Step, text: str, number: int = 0) -> str:
    """One line: what failed, and why."""
    line = _WORDS[step].replace("%s", text)
    if number:
        name = errno.errorcode.get(number)
        said = os.strerror(number)
        said = said[:1].lower() + said[1:]
        line += f": {said} ({name})" if name else f": error number {number}"
    return line


def failure(result: Mapping[str, Any], starts: bool) -> SandmuxError | None:
    """The error that a RESULT stands for.

    Args:
        result: RESULT's fields.
        starts: whether the request was to start a command: what fails before
            it runs is a StartError then, else a FileError.

    Returns:
        None unless its outcome is FAILED.
    """
    if result["outcome"] != Outcome.FAILED:
        return None
    text, number = quote(result["text"]), result["error"]
    try:
        step = Step(result["step"])
    except ValueError:
        return ProtocolError(
            Step.PROTOCOL, f"a step {result['step']} that is not known: {text}", number
        )
    kind = _BY_STEP.get(step)
    if kind is None and starts and step in _START_STEPS | {Step.OPEN}:
        kind = StartError
    if kind is None:
        kind = _FILE_ERRORS.get(number, FileError)
    return kind(step, text, number)

# SPDX-License-Identifier: MIT
"""Finding the program and the controller's socket, and starting a controller.

It looks where the program itself does (host/paths.c, host/launch.c): in
$SANDMUX_DIR, else $XDG_RUNTIME_DIR/sandmux, else /tmp/sandmux-UID.
"""

from __future__ import annotations

import errno
import functools
import importlib.metadata
import os
import shutil
import socket
import stat
import struct
import subprocess

import anyio

from ._errors import ControllerError, quote
from ._wire import Step

PROGRAM_VARIABLE = "SANDMUX_PROGRAM"
"""Names another `sandmux` than the one that this package carries."""
LAUNCH_SECONDS = 20.0
"""For a controller to get ready."""
SAID_MAX = 1024
"""Bytes of what it says when it does not."""

_ENV_NAMES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "KUBECONFIG",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "SSH_AUTH_SOCK",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINER_SSHKEY",
    "SANDMUX_AGENT_USER",
)
_ENV_PREFIXES = ("DOCKER_", "CONTAINERS_", "OPENSHELL_")


def _installed() -> str | None:
    """The program that came with this package, if it was a wheel."""
    try:
        files = importlib.metadata.files("inspect-sandmux") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "sandmux" and file.parent.name == "bin":
            return os.path.normpath(str(file.locate()))
    return None


@functools.cache
def _found() -> str | None:
    return _installed() or shutil.which("sandmux")


def program() -> str:
    """The path of the `sandmux` program.

    $SANDMUX_PROGRAM, else the one that came with this package, else the one
    in PATH.

    Raises:
        ControllerError: there is none.
    """
    found = os.environ.get(PROGRAM_VARIABLE) or _found()
    if not found:
        raise ControllerError(
            Step.START,
            "no `sandmux` program came with this package, and none is in PATH; "
            f"install the wheel of `make wheel`, or set {PROGRAM_VARIABLE}",
            errno.ENOENT,
        )
    return found


def transport_env() -> list[bytes]:
    """What of our environment selects a target and reaches its program."""
    return [
        name + b"=" + value
        for name, value in os.environb.items()
        if os.fsdecode(name) in _ENV_NAMES or os.fsdecode(name).startswith(_ENV_PREFIXES)
    ]


def _wrong(path: str, why: str) -> ControllerError:
    return ControllerError(
        Step.START, f"{quote(path)}: {why}; set SANDMUX_DIR to a directory of your own"
    )


def directory() -> str:
    """The runtime directory; it is made if it is missing.

    Raises:
        ControllerError: it is not ours alone, or cannot be made.
    """
    path = os.environ.get("SANDMUX_DIR")
    if not path:
        path = f"/tmp/sandmux-{os.geteuid()}"
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        try:
            if runtime.startswith("/") and os.stat(runtime).st_uid == os.geteuid():
                path = os.path.join(runtime, "sandmux")
        except OSError:
            pass
    path = os.path.abspath(path)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ControllerError(Step.START, quote(path), error.errno or 0) from None
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise _wrong(path, "it is not a directory")
    if info.st_uid != os.geteuid():
        raise _wrong(path, f"it belongs to uid {info.st_uid}")
    if info.st_mode & 0o077:
        raise _wrong(path, f"its mode {info.st_mode & 0o7777:04o} lets others in")
    return path


def connect(where: str) -> socket.socket | None:
    """A connection to the controller of a runtime directory.

    Does not wait: a full backlog counts as nobody.

    Returns:
        A non-blocking socket that the caller owns; None: nobody listens.

    Raises:
        ControllerError: what is there is not ours, or cannot be reached.
    """
    path = os.path.join(where, "socket")
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return None
    if info.st_uid != os.geteuid() or not stat.S_ISSOCK(info.st_mode):
        raise _wrong(path, "it is not a socket of this user")
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.setblocking(False)
        sock.connect(path)
        _, uid, _ = struct.unpack(
            "iii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
        if uid != os.geteuid():
            raise _wrong(path, f"its controller runs as uid {uid}")
    except OSError as error:
        sock.close()
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT, errno.EAGAIN):
            return None
        raise ControllerError(Step.START, quote(path), error.errno or 0) from None
    except BaseException:
        sock.close()
        raise
    return sock


async def start(where: str) -> None:
    """Start a controller in a runtime directory, and wait until it listens.

    One that is there already is none the worse for it.

    Raises:
        ControllerError: it did not get ready.
    """
    extra = os.environ.get("SANDMUX_SERVE_ARGS", "").split()
    command = [program(), "serve", "--daemon", "--dir", where, *extra]
    try:
        with anyio.fail_after(LAUNCH_SECONDS):
            done = await anyio.run_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
                start_new_session=True,
            )
    except TimeoutError:
        raise ControllerError(
            Step.START, "the controller: it does not get ready"
        ) from None
    except OSError as error:
        raise ControllerError(Step.START, quote(command[0]), error.errno or 0) from None
    if done.returncode != 0:
        said = quote(done.stderr[:SAID_MAX].strip()) or "it said nothing"
        raise ControllerError(Step.START, f"the controller: {said}")

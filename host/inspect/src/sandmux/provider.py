# SPDX-License-Identifier: MIT
"""The Inspect sandbox provider `sandmux`.

Sandboxes come from `sandmux up` with the task's sandmux.yaml or
openshell.yaml; commands and files go through sandmux.Target.  It has what
inspect_ai.util.SandboxEnvironment asks for and nothing that the program
behind it already does: working directory, default user, environment and
limits of a sandbox are applied by the controller.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable
from logging import getLogger
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, overload

import anyio
import yaml
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from . import _launch, _lifecycle
from ._errors import (
    BusyError,
    ControllerError,
    FileError,
    SandmuxError,
    StartError,
    UnavailableError,
    UserNotFoundError,
    UserUnsupportedError,
)
from ._files import LimitExceededError
from ._lifecycle import Sandbox
from ._target import Target
from ._wire import Outcome, Step

logger = getLogger(__name__)

T = TypeVar("T")

NOT_FOUND: Final = 127
"""Status of a command whose program is not there."""
NOT_STARTED: Final = 126
"""Status of a command that could not be started for another reason."""
BUSY_SECONDS: Final = 60.0
"""How long a request that found too much under way is tried again."""
BUSY_PAUSE: Final = 0.1
CONNECTION_SECONDS: Final = 30.0
"""For a sandbox to answer when connection() asks."""
POLLING_SECONDS: Final = 0.2

_DOCKER_FILES = ("dockerfile", "compose.yaml", "compose.yml")
_NOT_DOCKERS = (
    "the sandbox provider `sandmux` takes no Dockerfile and no compose file ({}); "
    "say it in sandmux.yaml: `transport: docker`, `image:` or `build: DIRECTORY` "
    "(of a Dockerfile), `workdir:`, `user:`, `env:`, `create_args:` (of `docker "
    "run`), and for several services the map `sandboxes:`, whose first is the "
    "default"
)
_VAR_TMP = (
    "sandmux: sandbox {!r}: OpenShell's policy does not let it write to /var/tmp, "
    "which Inspect's own tools need (exec_remote, bash_session, text_editor, "
    "sandbox_service, the agent bridge).  Add to {}:\n"
    "filesystem_policy:\n"
    "  read_write: [{}]"
)
_DEFAULT_WRITABLE = ("/sandbox", "/tmp", "/dev/null")


class SandmuxConfig(BaseModel):
    """A configuration as an object: sandmux.yaml's keys, which the program
    checks.  Relative paths in it are relative to the task's directory.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    def __init__(self, **keys: Any) -> None:
        super().__init__(**keys)

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


# What this process has made and not removed yet: name to configuration.
_live: dict[str, str] = {}
# The task's directory, where task_init was called, for each configuration.
_bases: dict[str, str] = {}


def _named(config: SandboxEnvironmentConfigType | None) -> str | dict[str, Any]:
    """A configuration as the program takes it.

    Raises:
        ValueError: it is Docker's.
    """
    if config is None:
        return {}
    if isinstance(config, str):
        name = Path(config).name.lower()
        if name in _DOCKER_FILES or name.endswith(
            ("dockerfile", "compose.yaml", "compose.yml")
        ):
            raise ValueError(_NOT_DOCKERS.format(config))
        return os.path.abspath(config)
    if type(config).__name__ == "ComposeConfig":
        raise ValueError(_NOT_DOCKERS.format("a ComposeConfig"))
    return config.model_dump(mode="json", exclude_unset=True)


def _key(config: str | dict[str, Any]) -> str:
    return config if isinstance(config, str) else json.dumps(config, sort_keys=True)


def _writable(policy: str | None) -> list[str]:
    """What OpenShell's policy lets a sandbox write to."""
    if policy is None:
        return list(_DEFAULT_WRITABLE)
    try:
        with open(policy, encoding="utf-8") as file:
            filesystem = (yaml.safe_load(file) or {}).get("filesystem_policy") or {}
            return [str(path) for path in filesystem.get("read_write") or []]
    except (OSError, AttributeError, TypeError, ValueError, yaml.YAMLError):
        # The gateway will say what is wrong with it.
        return ["/var/tmp"]


def _within(path: str, places: list[str]) -> bool:
    return any(
        path == place.rstrip("/") or path.startswith(place.rstrip("/") + "/")
        for place in places
    )


def _warn_of_policy(sandbox: dict[str, Any]) -> None:
    if sandbox["transport"] != "openshell":
        return
    writable = _writable(sandbox.get("policy"))
    if not _within("/var/tmp", writable):
        logger.warning(
            _VAR_TMP.format(
                sandbox["key"],
                sandbox.get("policy") or "a file, and name it in `policy:`",
                ", ".join([*writable, "/var/tmp"]),
            )
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _failed(status: int, error: SandmuxError) -> ExecResult[str]:
    return ExecResult(False, status, "", f"{error}\n")


@sandboxenv(name="sandmux")
class SandmuxSandboxEnvironment(SandboxEnvironment):
    """A sandbox of `sandmux up`, or any other target.

    Attributes:
        target: the client behind it, for what Inspect's interface lacks:
            `sandbox().as_type(SandmuxSandboxEnvironment).target`.
    """

    def __init__(self, target: Target, sandbox: Sandbox | None = None) -> None:
        super().__init__()
        self.target = target
        self._sandbox = sandbox

    # ---- life cycle -------------------------------------------------------

    @classmethod
    def config_files(cls) -> list[str]:
        """What is looked for beside the task, in this order."""
        return ["sandmux.yaml", "sandmux.yml", "openshell.yaml", "openshell.yml"]

    @classmethod
    def is_docker_compatible(cls) -> bool:
        """No Dockerfile, no compose.yaml."""
        return False

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """A configuration object from a log's."""
        return SandmuxConfig(**config)

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Sandboxes at once, where `max_sandboxes` is not given."""
        return 2 * len(os.sched_getaffinity(0))

    def default_polling_interval(self) -> float:
        """Seconds; a command costs a few milliseconds."""
        return POLLING_SECONDS

    @classmethod
    async def task_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None
    ) -> None:
        """Check the configuration, and build its images.

        Raises:
            ValueError: it is a Dockerfile or a compose file.
            LifecycleError: what is wrong with it; a build's own words.
        """
        named = _named(config)
        _bases[_key(named)] = os.getcwd()
        for sandbox in await _lifecycle.prepare(named, os.getcwd()):
            _warn_of_policy(sandbox)

    @classmethod
    async def task_init_environment(
        cls, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, str]:
        """None: a sample's metadata does not change its configuration."""
        return {}

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        """Make a sample's sandboxes, side by side.

        Raises:
            LifecycleError: none is left then.
        """
        named = _named(config)
        made = await _lifecycle.up(named, _bases.get(_key(named), os.getcwd()))
        for sandbox in made:
            _live[sandbox.name] = _key(named)
        return {
            sandbox.key: cls(Target(sandbox.name, same_agent=True), sandbox)
            for sandbox in made
        }

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Remove a sample's sandboxes, interrupted or not."""
        names = []
        for environment in environments.values():
            one = environment.as_type(SandmuxSandboxEnvironment)
            await one.target.aclose()
            if one._sandbox is not None:
                names.append(one._sandbox.name)
        await _remove(names)

    @classmethod
    async def task_cleanup(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool
    ) -> None:
        """Remove what is left, or say how to."""
        key = _key(_named(config))
        names = [name for name, of in _live.items() if of == key]
        if not names:
            return
        if cleanup:
            await _remove(names)
        else:
            print(
                f"\nSandboxes are left; remove them by:\n  sandmux down {' '.join(names)}"
            )

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """`inspect sandbox cleanup sandmux [NAME]`.

        Raises:
            LifecycleError: something is left; it is named.
        """
        if id is not None:
            removed, failed = [id], await _lifecycle.down([id])
        else:
            removed, failed = await _lifecycle.cleanup()
        if failed:
            raise _lifecycle.LifecycleError(
                Step.NONE, "; ".join(f"{name}: {why}" for name, why in failed)
            )
        print(f"Removed: {', '.join(removed) or 'nothing'}")

    # ---- commands ---------------------------------------------------------

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command to its end.

        Args:
            cmd: program and arguments, utf-8 with surrogateescape; the
                program is looked for in the command's own PATH.
            input: its stdin; without it /dev/null.
            cwd: relative to the sandbox's working directory.
            env: added to the sandbox's own environment.
            user: NAME or UID, then maybe : and GROUP or GID.
            timeout: seconds.
            timeout_retry: unused: a command is never run twice.
            concurrency: unused: there is no process of ours to a command.

        Returns:
            127 and a text on stderr if the program is not there, 126 if it
            could not be started for another reason.

        Raises:
            TimeoutError: with what came until then in `truncated_output`.
            PermissionError: the program may not be executed.
            OutputLimitExceededError: it has run to its end and printed more
                than Inspect's limit; the last of it is in it.
            SandboxUserUnsupportedError: this sandbox has no such switching.
            SandboxUnavailableError: the sandbox is gone, or its agent is a
                new, unproven one; whether the command ran is in the text.
            ValueError: a NUL in an argument.
        """
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        limit_str = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR
        try:
            result = await _served(
                lambda: self.target.exec(
                    cmd,
                    input,
                    cwd=cwd,
                    env=env,
                    user=user,
                    timeout=timeout,
                    max_output=limit,
                )
            )
        except StartError as error:
            if error.step == Step.EXEC and error.number == errno.EACCES:
                raise PermissionError(error.number, str(error)) from error
            missing = error.step == Step.EXEC and error.number == errno.ENOENT
            return _failed(NOT_FOUND if missing else NOT_STARTED, error)
        except UserNotFoundError as error:
            return _failed(NOT_STARTED, error)
        except UserUnsupportedError as error:
            raise SandboxUserUnsupportedError(str(error)) from error
        stdout, stderr = _text(result.stdout), _text(result.stderr)
        if result.timed_out:
            # Without one the sandbox's configuration has a bound of its own.
            seconds = round(result.wall_time) if timeout is None else timeout
            words = f"Command timed out after {seconds} seconds"
            if result.survivors:
                words += f"; these could not be ended: {', '.join(result.survivors)}"
            late = TimeoutError(words)
            late.truncated_output = stdout + stderr  # type: ignore[attr-defined]
            raise late
        if result.truncated:
            raise OutputLimitExceededError(limit_str, stdout + stderr)
        if result.outcome == Outcome.CANCELLED:
            stderr += "sandmux: it was ended from outside\n"
        return ExecResult(
            result.outcome == Outcome.EXITED and result.code == 0,
            result.returncode,
            stdout,
            stderr,
        )

    # ---- files ------------------------------------------------------------

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file; missing directories are made.

        Args:
            file: relative to the sandbox's working directory.
            contents: str goes as utf-8.

        Raises:
            PermissionError, IsADirectoryError: as may be; any other failure
                is an OSError.
            SandboxUnavailableError: as exec().
        """
        try:
            await _served(lambda: self.target.write(file, contents))
        except FileError as error:
            if error.number == errno.EROFS:
                raise PermissionError(error.number, str(error)) from error
            raise

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """A file's content; newlines stay what they are.

        Args:
            file: relative to the sandbox's working directory.
            text: decode it as utf-8.

        Raises:
            FileNotFoundError, PermissionError, IsADirectoryError: as may be;
                any other failure is an OSError.
            UnicodeDecodeError: it is not utf-8.
            OutputLimitExceededError: it is larger than Inspect's limit.
            SandboxUnavailableError: as exec().
        """
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        limit_str = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
        try:
            data = await _served(lambda: self.target.read(file, max_size=limit))
        except LimitExceededError:
            raise OutputLimitExceededError(limit_str, None) from None
        except NotADirectoryError as error:
            # A file where a directory should be: there is no such file.
            raise FileNotFoundError(errno.ENOENT, str(error)) from error
        return data.decode("utf-8") if text else data

    # ---- a person's way in ------------------------------------------------

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """How a person gets a shell in it.

        Raises:
            ConnectionError: it does not run.
        """
        try:
            with anyio.fail_after(CONNECTION_SECONDS):
                await self.target.link()
            where, program = _launch.directory(), _launch.program()
        except (SandmuxError, TimeoutError) as error:
            raise ConnectionError(f"{self.target.name}: {error}") from error
        words = ["env", f"SANDMUX_DIR={where}", program, "shell"]
        words += ["-u", user] if user else []
        container = _container(self._sandbox, self.target.name)
        return SandboxConnection(
            type="sandmux",
            command=shlex.join([*words, self.target.name]),
            container=container,
            ports=None if container is None else await _ports(container),
        )


def _container(sandbox: Sandbox | None, target: str) -> str | None:
    """Docker's name for it, if it is one of Docker's."""
    if sandbox is not None:
        return sandbox.container if sandbox.transport == "docker" else None
    scheme, _, name = target.partition(":")
    return name if scheme == "docker" else None


async def _ports(container: str) -> Any:
    """The ports that Docker forwards to it, as SandboxConnection has them."""
    try:
        done = await anyio.run_process(
            ["docker", "inspect", "-f", "{{json .NetworkSettings.Ports}}", container],
            stdin=subprocess.DEVNULL,
        )
        ports = json.loads(done.stdout) or {}
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise ConnectionError(f"docker inspect {container}: {error}") from error
    found = []
    for name, hosts in ports.items():
        number, _, protocol = name.partition("/")
        mappings = [
            {"host_ip": host["HostIp"], "host_port": int(host["HostPort"])}
            for host in hosts or []
        ]
        if mappings and protocol in ("tcp", "udp"):
            found.append(
                {
                    "container_port": int(number),
                    "protocol": protocol,
                    "mappings": mappings,
                }
            )
    return found or None


async def _served(call: Callable[[], Awaitable[T]]) -> T:
    """Call's answer, tried again while too much is under way.

    Raises:
        SandboxUnavailableError: the sandbox cannot be reached or trusted.
    """
    deadline = anyio.current_time() + BUSY_SECONDS
    while True:
        try:
            return await call()
        except BusyError as error:
            # It was not run, so it may be tried again.
            if anyio.current_time() >= deadline:
                raise SandboxUnavailableError(str(error)) from error
        except (UnavailableError, ControllerError) as error:
            raise SandboxUnavailableError(str(error)) from error
        await anyio.sleep(BUSY_PAUSE)


async def _remove(names: list[str]) -> None:
    if not names:
        return
    try:
        failed = dict(await _lifecycle.down(names))
    except SandmuxError as error:
        failed = dict.fromkeys(names, str(error))
    for name in names:
        if name not in failed:
            _live.pop(name, None)
    for name, why in failed.items():
        logger.warning("sandmux: cannot remove %s: %s; `sandmux cleanup` will", name, why)

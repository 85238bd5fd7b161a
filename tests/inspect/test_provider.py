# SPDX-License-Identifier: MIT
"""The provider against Inspect's interface: each fact that binds it."""
import ast
import contextlib
import inspect as introspect
import json
import logging
import os
import shlex
import signal
import subprocess
import time
import tracemalloc

import anyio
import places
import pytest
import spine
from inspect_ai.tool._sandbox_tools_utils.sandbox import resolve_root_access
from inspect_ai.util import (
    ComposeConfig,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.limits import (
    override_max_exec_output_size,
    override_max_read_file_size,
)
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from sandmux import _lifecycle, provider
from sandmux.provider import SandmuxConfig, SandmuxSandboxEnvironment

pytestmark = pytest.mark.anyio
KIB = 1024
MIB = 1 << 20


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def docker():
    async with places.sandbox("docker") as one:
        yield one


@pytest.fixture(scope="module")
async def openshell():
    async with places.sandbox("openshell") as one:
        yield one


@pytest.fixture(params=["docker", "openshell"])
async def either(request, anyio_backend, docker, openshell):
    yield {"docker": docker, "openshell": openshell}[request.param]


def containers():
    done = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], check=True,
                          capture_output=True, text=True)
    return set(done.stdout.split())


def listed():
    """What `sandmux ls` knows of: {name: state}."""
    done = subprocess.run([spine.SANDMUX, "ls", "--json"], check=True,
                          capture_output=True, timeout=60)
    return {one["name"]: one["state"]
            for one in json.loads(done.stdout)["sandboxes"]}


# ---- exec: its shape ---------------------------------------------------------

def test_exec_has_exactly_the_eight_parameters():
    """Inspect's proxy counts them, and drops `concurrency` otherwise."""
    ours = introspect.signature(SandmuxSandboxEnvironment.exec).parameters
    base = introspect.signature(SandboxEnvironment.exec).parameters
    assert list(ours) == list(base) and len(ours) == 9
    for name, one in ours.items():
        assert one.default == base[name].default, name


@pytest.mark.parametrize("name", [
    n for n, v in vars(SandboxEnvironment).items()
    if not n.startswith("_") and callable(getattr(SandboxEnvironment, n))
    and n in vars(SandmuxSandboxEnvironment)])
def test_every_method_takes_what_the_base_takes(name):
    ours = introspect.signature(getattr(SandmuxSandboxEnvironment, name))
    base = introspect.signature(getattr(SandboxEnvironment, name))
    assert list(ours.parameters) == list(base.parameters)


def test_exec_remote_is_the_bases():
    """The proxy inherits it from there: an override would be dead code."""
    assert "exec_remote" not in vars(SandmuxSandboxEnvironment)


async def test_the_proxy_passes_everything_on(docker):
    proxy = SandboxEnvironmentProxy(docker)
    with proxy.no_events():
        done = await proxy.exec(["cat"], input="x", concurrency=False)
    assert done.stdout == "x"
    assert proxy.as_type(SandmuxSandboxEnvironment).target is docker.target


async def test_a_command_is_never_run_twice(either):
    await either.exec(["sh", "-c", "rm -f /tmp/runs"])
    with pytest.raises(TimeoutError):
        await either.exec(["sh", "-c", "echo x >>/tmp/runs; sleep 60"],
                          timeout=1, timeout_retry=True)
    assert await either.read_file("/tmp/runs") == "x\n"


# ---- exec: how it ends ---------------------------------------------------------

async def test_timeout_has_what_came_until_then(either):
    start = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        await either.exec(
            ["sh", "-c", "echo early; echo oops >&2; sleep 60"], timeout=1)
    assert caught.value.truncated_output == "early\noops\n"
    assert 1 <= time.monotonic() - start < 30
    with pytest.raises(TimeoutError) as told:
        await SandboxEnvironmentProxy(either).exec(
            ["sh", "-c", "echo early; sleep 60"], timeout=1)
    assert told.value.truncated_output == "early\n"


async def test_the_configurations_own_bound_is_a_timeout_too():
    async with places.sandbox("docker", timeouts={"exec": "1s"}) as one:
        with pytest.raises(TimeoutError, match="after 1 seconds") as caught:
            await one.exec(["sh", "-c", "echo early; sleep 60"])
        assert caught.value.truncated_output == "early\n"


async def test_a_timeout_ends_the_whole_tree(either):
    mark = spine.marker()
    script = (f"sleep {mark} & setsid sh -c 'trap \"\" TERM; while :; do "
              f"sleep {mark}; done' & sleep 0.5; echo up; wait")
    seen = []

    async def look():
        while len(seen) < 3:
            seen[:] = spine.find(mark)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        with pytest.raises(TimeoutError):
            await either.exec(["sh", "-c", script], timeout=2)
        group.cancel_scope.cancel()
    assert len(seen) >= 3, "they were there"
    assert not spine.find(mark)


async def test_output_over_the_limit(either):
    limit = 64 * KIB
    for size, over in ((limit - 1, False), (limit, False), (limit + 1, True)):
        command = ["sh", "-c", f"yes | tr -d '\\n' | head -c {size} | tr y x; "
                               "touch /tmp/ran-on"]
        await either.exec(["rm", "-f", "/tmp/ran-on"])
        with override_max_exec_output_size(limit):
            if not over:
                assert (await either.exec(command)).stdout == "x" * size
            else:
                with pytest.raises(OutputLimitExceededError) as caught:
                    await either.exec(command)
                assert caught.value.truncated_output == "x" * limit
                assert caught.value.limit_str == "64 KiB"
        # It ran on to its end.
        assert (await either.exec(["ls", "/tmp/ran-on"])).success


async def test_memory_is_bounded_while_it_runs_on(docker):
    with override_max_exec_output_size(MIB):
        tracemalloc.start()
        try:
            with pytest.raises(OutputLimitExceededError) as caught:
                await docker.exec(["sh", "-c", "head -c 104857600 /dev/zero; "
                                               "echo end"])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert caught.value.truncated_output.endswith("end\n")
    assert peak < 10 * MIB


async def test_limits_are_read_at_each_call_in_its_own_context(docker):
    await docker.write_file("size", "x" * 5000)
    seen = {}

    async def one(name, limit):
        with override_max_exec_output_size(limit), \
                override_max_read_file_size(limit):
            for _ in range(3):
                try:
                    seen[name] = len((await docker.exec(["cat", "size"])).stdout)
                    seen[name] += len(await docker.read_file("size"))
                except OutputLimitExceededError as error:
                    seen[name] = error.limit_str

    async with anyio.create_task_group() as group:
        group.start_soon(one, "large", 1 << 20)
        group.start_soon(one, "small", 1000)
    assert seen == {"large": 10000, "small": "1000 bytes"}
    assert SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE == 10 * MIB


async def test_a_missing_program_is_127(either):
    for command in (["no-such-program"], ["/no/such/program"]):
        done = await either.exec(command)
        assert (done.success, done.returncode) == (False, 127)
        assert command[0] in done.stderr


async def test_a_program_that_may_not_run(either):
    await either.write_file("plain", "#!/bin/sh\n")
    for command in (["/etc/passwd"], ["./plain"], ["/etc"]):
        with pytest.raises(PermissionError):
            await either.exec(command)


async def test_any_other_start_failure_is_126(either):
    await either.write_file("nonsense", b"\x7fELF nonsense")
    await either.exec(["chmod", "+x", "nonsense"])
    for done in (await either.exec(["./nonsense"]),
                 await either.exec(["true"], cwd="/no/such/dir"),
                 await either.exec(["true"], cwd="/etc/passwd"),
                 await either.exec(["true", "x" * 200000])):
        assert (done.success, done.returncode) == (False, 126), done
        assert done.stderr.strip()


async def test_signals_and_statuses(either):
    for script, status in (("exit 0", 0), ("exit 70", 70), ("exit 300", 44),
                           ("kill -TERM $$", 143), ("kill -KILL $$", 137)):
        done = await either.exec(["sh", "-c", script], timeout=30)
        assert (done.returncode, done.success) == (status, status == 0)


async def test_path_is_the_jobs_own(docker):
    await docker.write_file("/tmp/bin/mine", "#!/bin/sh\necho mine\n")
    await docker.exec(["chmod", "+x", "/tmp/bin/mine"])
    assert (await docker.exec(["mine"])).returncode == 127
    done = await docker.exec(["mine"], env={"PATH": "/tmp/bin:/usr/bin:/bin"})
    assert done.stdout == "mine\n"
    done = await docker.exec(["sh", "-c", "echo $HOME"], user="root")
    assert done.stdout == "/root\n"


async def test_words_and_output_that_are_not_utf8(either):
    done = await either.exec(["printf", "%s", "é\udcff"])
    assert done.stdout == "é�"
    done = await either.exec(["sh", "-c", "printf '\\303\\050' >&2"])
    assert done.stderr == "�("
    for call in (lambda: either.exec(["a\0b"]),
                 lambda: either.exec(["true"], cwd="a\0b"),
                 lambda: either.exec(["true"], env={"A": "b\0"}),
                 lambda: either.write_file("a\0b", "")):
        with pytest.raises(ValueError):
            await call()


async def test_without_input_stdin_is_at_its_end(either):
    done = await either.exec(["sh", "-c", "read x; echo rc=$?"], timeout=30)
    assert done.stdout == "rc=1\n"


# ---- users -----------------------------------------------------------------

async def test_users_where_switching_works(docker):
    done = await docker.exec(["id", "-un"], user="root")
    assert done.stdout == "root\n"
    done = await docker.exec(["id"], user="1234:5")
    assert "uid=1234 gid=5" in done.stdout
    done = await docker.exec(["whoami"], user="nonexistent")
    assert (done.success, done.returncode) == (False, 126)
    assert "unable to find user nonexistent: no matching entries in passwd " \
        "file" in done.stderr


async def test_users_where_none_can_be(openshell):
    for user in ("root", "0", "nobody"):
        with pytest.raises(SandboxUserUnsupportedError):
            await openshell.exec(["true"], user=user)
    done = await openshell.exec(["id", "-un"], user="sandbox")
    assert done.stdout == "sandbox\n"


async def test_inspects_root_probe(docker, openshell):
    for one, state in ((docker, "usable"), (openshell, "unusable")):
        one._root_access = None
        access = await resolve_root_access(one)
        assert access.state == state, access


# ---- files -----------------------------------------------------------------

async def test_files_are_relative_to_the_workdir(either):
    await either.write_file("sub/dir/file", "täxt\r\n")
    assert await either.read_file("/sandbox/sub/dir/file") == "täxt\r\n"
    assert await either.read_file("sub/dir/file", text=False) == \
        "täxt\r\n".encode()
    done = await either.exec(["cat", "file"], cwd="sub/dir")
    assert done.stdout == "täxt\r\n"
    done = await either.exec(["pwd"])
    assert done.stdout == "/sandbox\n"


async def test_file_errors(either):
    await either.write_file("file", b"\xc3\x28")
    with pytest.raises(UnicodeDecodeError):
        await either.read_file("file")
    for path in ("none", "file/below"):
        with pytest.raises(FileNotFoundError, match=path):
            await either.read_file(path)
    with pytest.raises(IsADirectoryError):
        await either.read_file("/etc")
    with pytest.raises(PermissionError):
        await either.read_file("/etc/shadow")
    with pytest.raises(PermissionError):
        await either.write_file("/etc/new", "x")
    with pytest.raises(IsADirectoryError):
        await either.write_file("/tmp", "x")


@pytest.mark.parametrize("size, over", [(4095, 0), (4096, 0), (4097, 1)])
async def test_read_file_at_its_limit(either, size, over):
    await either.write_file("limit", b"x" * size)
    with override_max_read_file_size(4096):
        if not over:
            assert len(await either.read_file("limit")) == size
        else:
            with pytest.raises(OutputLimitExceededError) as caught:
                await either.read_file("limit", text=False)
            assert caught.value.truncated_output is None
            assert caught.value.limit_str == "4 KiB"


# ---- a sandbox that is gone, or not to be trusted --------------------------------

async def calls(one):
    """What exec, read_file and write_file raise."""
    found = []
    for call in (lambda: one.exec(["true"]), lambda: one.read_file("/etc/passwd"),
                 lambda: one.write_file("x", "x")):
        try:
            await call()
            found.append(None)
        except Exception as error:
            found.append(error)
    return found


@pytest.mark.parametrize("place", ["docker", "openshell"])
async def test_a_dead_sandbox_is_unavailable(place):
    async with places.sandbox(place) as one:
        assert (await one.exec(["true"])).success
        failures = []

        async def under_way():
            try:
                await one.exec(["sleep", "60"])
            except Exception as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(under_way)
            await anyio.sleep(0.5)
            if place == "docker":
                subprocess.run(["docker", "kill", one._sandbox.container],
                               check=True, capture_output=True)
            else:
                subprocess.run(["openshell", "sandbox", "delete",
                                one.target.name], check=True,
                               capture_output=True, stdin=subprocess.DEVNULL)
        failures += await calls(one)
        assert len(failures) == 4
        for failure in failures:
            assert isinstance(failure, SandboxUnavailableError), failure
        assert "outcome unknown" in str(failures[0])
        with pytest.raises(ConnectionError):
            await one.connection()


async def test_a_new_unproven_agent_is_unavailable():
    async with places.sandbox("openshell") as one:
        # A job has had the agent's uid, and then the agent dies.
        await one.exec(["true"])
        argv = spine.processes()[(await one.target.link())["pid"]][1]
        session = argv[argv.index(b"start") + 3]
        for pid in spine.agents(session):
            # One's end may be another's.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(60):
            while True:
                failures = await calls(one)
                if all(isinstance(f, SandboxUnavailableError)
                       for f in failures):
                    break
                await anyio.sleep(0.2)
        assert "unproven" in str(failures[-1])


async def test_a_killed_controller_is_unavailable_and_never_a_result(elsewhere):
    async with places.sandbox("docker") as one:
        mark, failures = spine.marker(), []

        async def under_way():
            try:
                failures.append(await one.exec(["sleep", mark]))
            except Exception as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(under_way)
            with anyio.fail_after(30):
                while not spine.find(mark):
                    await anyio.sleep(0.02)
            status = subprocess.run([spine.SANDMUX, "status", "--json"],
                                    check=True, capture_output=True)
            os.kill(json.loads(status.stdout)["pid"], signal.SIGKILL)
        assert isinstance(failures[0], SandboxUnavailableError)
        assert "outcome unknown" in str(failures[0])
        with anyio.fail_after(30):
            while spine.find(mark):
                await anyio.sleep(0.05)
    subprocess.run([spine.SANDMUX, "stop"], check=False, timeout=60)


# ---- connection ----------------------------------------------------------------

async def test_connection_is_a_line_that_works(either, monkeypatch):
    found = await either.connection()
    assert found.type == "sandmux"
    words = shlex.split(found.command)
    assert words[0] == "env" and words[1].startswith("SANDMUX_DIR=")
    where = words[1].partition("=")[2]
    # As somebody who has another runtime directory would run it.
    env = {k: v for k, v in os.environ.items() if k != "SANDMUX_DIR"}
    done = await anyio.to_thread.run_sync(lambda: subprocess.run(
        ["script", "-qec", found.command, "/dev/null"], input=b"id; exit\n",
        env=env, capture_output=True, timeout=60, check=False))
    assert b"uid=1000" in done.stdout, done
    assert os.path.exists(os.path.join(where, "socket"))


async def test_connection_with_a_user(docker):
    found = await docker.connection(user="root")
    assert shlex.split(found.command)[-3:] == ["-u", "root",
                                               docker.target.name]
    assert found.container == docker._sandbox.container


async def test_connection_tells_ports():
    async with places.sandbox(
            "docker", create_args=["-p", "127.0.0.1::8000"]) as one:
        found = await one.connection()
    assert [p.container_port for p in found.ports] == [8000]
    assert found.ports[0].protocol == "tcp"
    assert found.ports[0].mappings[0].host_ip == "127.0.0.1"
    assert found.ports[0].mappings[0].host_port > 0


async def test_connection_of_what_is_not_there_is_a_connection_error():
    from sandmux import Target
    for name in ("no-such-name", "docker:no-such-container"):
        one = SandmuxSandboxEnvironment(Target(name))
        with pytest.raises(ConnectionError):
            await one.connection()
        await one.target.aclose()


# ---- the class --------------------------------------------------------------------

def test_it_is_registered():
    assert registry_find_sandboxenv("sandmux") is SandmuxSandboxEnvironment


def test_config_files_and_the_rest():
    cls = SandmuxSandboxEnvironment
    assert cls.config_files() == ["sandmux.yaml", "sandmux.yml",
                                  "openshell.yaml", "openshell.yml"]
    assert cls.is_docker_compatible() is False
    assert cls.default_concurrency() == 2 * len(os.sched_getaffinity(0))
    assert 0 < cls.default_polling_interval(None) < 2


def test_a_configuration_object_survives_a_log():
    spec = SandboxEnvironmentSpec("sandmux", SandmuxConfig(
        transport="docker", image="x", sandboxes={"a": {"user": "b"}}))
    back = SandboxEnvironmentSpec.model_validate(
        json.loads(spec.model_dump_json()))
    assert isinstance(back.config, SandmuxConfig)
    assert provider._named(back.config) == provider._named(spec.config)
    assert hash(back.config) == hash(spec.config)
    assert isinstance(SandmuxSandboxEnvironment.config_deserialize(
        {"image": "x"}), SandmuxConfig)


@pytest.mark.parametrize("config", [
    "compose.yaml", "/x/Dockerfile", "docker-compose.yml", "dev.Dockerfile",
    ComposeConfig(services={})], ids=str)
async def test_dockers_configurations_are_refused_with_what_to_write(config):
    for call in (SandmuxSandboxEnvironment.task_init("t", config),
                 SandmuxSandboxEnvironment.sample_init("t", config, {})):
        with pytest.raises(ValueError) as caught:
            await call
        for key in ("transport: docker", "image:", "build:", "sandboxes:",
                    "workdir:", "sandmux.yaml"):
            assert key in str(caught.value)


def test_a_file_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert provider._named("sandmux.yaml") == str(tmp_path / "sandmux.yaml")


async def test_a_wrong_configuration_says_where(tmp_path):
    path = tmp_path / "sandmux.yaml"
    path.write_text("transport: docker\nimagee: x\n")
    for call in (SandmuxSandboxEnvironment.task_init,
                 lambda t, c: SandmuxSandboxEnvironment.sample_init(t, c, {})):
        with pytest.raises(_lifecycle.LifecycleError) as caught:
            await call("t", str(path))
        assert f"{path}:2:1" in str(caught.value)
        assert "image" in str(caught.value)
    with pytest.raises(_lifecycle.LifecycleError, match="<stdin>"):
        await SandmuxSandboxEnvironment.task_init(
            "t", SandmuxConfig(nonsense=1))


async def test_relative_paths_of_an_object_are_the_tasks(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    (tmp_path / "images/Dockerfile").write_text(
        f"FROM {places.image('inspect')}\nRUN echo made >/sandbox/made\n")
    config = SandmuxConfig(transport="docker", build="images",
                           image="sandmux-test-provider-build:1",
                           workdir="/sandbox")
    monkeypatch.chdir(tmp_path)
    await SandmuxSandboxEnvironment.task_init("t", config)
    monkeypatch.chdir("/")
    made = await SandmuxSandboxEnvironment.sample_init("t", config, {})
    try:
        assert await made["default"].read_file("made") == "made\n"
    finally:
        await SandmuxSandboxEnvironment.sample_cleanup("t", config, made, False)
        subprocess.run(["docker", "rmi", "-f", "sandmux-test-provider-build:1"],
                       check=False, capture_output=True)


@pytest.mark.parametrize("policy, warns", [
    (None, True), ("read_write: [/tmp, /sandbox]", True),
    ("read_write: [/tmp, /var/tmp]", False), ("read_write: [/var]", False),
    ("read_write: [/var/tmpfile]", True)])
async def test_a_policy_without_var_tmp_is_warned_of(tmp_path, caplog, policy,
                                                    warns):
    more = {}
    if policy is not None:
        path = tmp_path / "policy.yaml"
        path.write_text(f"version: 1\nfilesystem_policy:\n  {policy}\n")
        more["policy"] = str(path)
    config = SandmuxConfig(**places.config("openshell", **more))
    with caplog.at_level(logging.WARNING):
        await SandmuxSandboxEnvironment.task_init("t", config)
    assert ("/var/tmp" in caplog.text) == warns
    if warns:
        line = [x for x in caplog.text.splitlines() if "read_write:" in x][0]
        assert "/var/tmp" in ast.literal_eval(
            "['" + line.partition("[")[2].rstrip("]").replace(", ", "','")
            + "']")


async def test_docker_is_not_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        await SandmuxSandboxEnvironment.task_init(
            "t", SandmuxConfig(**places.config("docker")))
    assert not caplog.text


# ---- life cycle --------------------------------------------------------------------

async def test_several_sandboxes_side_by_side():
    image = places.image("inspect")
    config = SandmuxConfig(transport="docker", image=image, workdir="/sandbox",
                           sandboxes={"web": {}, "db": {"user": "root"},
                                      "default": {}})
    cls = SandmuxSandboxEnvironment
    made = await cls.sample_init("t", config, {})
    try:
        assert list(made) == ["web", "db", "default"]    # the first is it
        await made["web"].write_file("x", "web")
        assert not (await made["db"].exec(["ls", "x"])).success
        assert (await made["db"].exec(["id", "-un"])).stdout == "root\n"
        assert len({one._sandbox.container for one in made.values()}) == 3
    finally:
        await cls.sample_cleanup("t", config, made, False)
    assert not set(listed()) & {one.target.name for one in made.values()}


@pytest.mark.parametrize("interrupted", [False, True])
async def test_sample_cleanup_removes_it(interrupted):
    cls, config = SandmuxSandboxEnvironment, SandmuxConfig(
        **places.config("docker"))
    made = await cls.sample_init("t", config, {})
    one = made["default"]
    assert one._sandbox.container in containers()
    await one.exec(["true"])
    await cls.sample_cleanup("t", config, made, interrupted)
    assert one._sandbox.container not in containers()
    assert one.target.name not in listed()
    await cls.sample_cleanup("t", config, made, interrupted)    # twice is fine


async def test_task_cleanup_removes_what_is_left_or_says_how(capsys):
    # A configuration of its own: the others' sandboxes stay.
    cls, config = SandmuxSandboxEnvironment, SandmuxConfig(
        **places.config("docker", env={"CLEANUP": "task"}))
    made = await cls.sample_init("t", config, {})
    name = made["default"].target.name
    await made["default"].target.aclose()
    await cls.task_cleanup("t", config, False)
    assert f"sandmux down {name}" in capsys.readouterr().out
    assert name in listed()
    await cls.task_cleanup("t", config, True)
    assert name not in listed()
    await cls.task_cleanup("t", config, True)


async def test_cli_cleanup(capsys):
    cls, config = SandmuxSandboxEnvironment, SandmuxConfig(
        **places.config("docker"))
    made = await cls.sample_init("t", config, {})
    name = made["default"].target.name
    await made["default"].target.aclose()
    await cls.cli_cleanup(name)
    assert name in capsys.readouterr().out and name not in listed()
    provider._live.pop(name)


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.3, 0.7])
async def test_a_start_that_is_cancelled_leaves_nothing(delay):
    before = listed()
    cls, config = SandmuxSandboxEnvironment, SandmuxConfig(
        **places.config("docker"))
    with anyio.move_on_after(delay):
        made = await cls.sample_init("t", config, {})
        await cls.sample_cleanup("t", config, made, True)
    assert listed() == before       # which tells orphans too


async def test_a_start_that_has_ended_when_it_is_cancelled(monkeypatch):
    """`up` was done, but its caller is not there any more to be told."""
    from anyio.abc import Process
    before, ended = listed(), []
    real = anyio.open_process

    async def open_process(*command, **how):
        process = await real(*command, **how)

        class Slow(Process):
            """It is waited for until long after its end."""

            pid = stdin = stdout = stderr = None
            returncode = property(lambda self: process.returncode)
            aclose, kill, send_signal, terminate = (
                process.aclose, process.kill, process.send_signal,
                process.terminate)

            async def wait(self):
                status = await process.wait()
                if not ended:
                    ended.append(status)
                    await anyio.sleep(30)
                return status

        return Slow() if "up" in command[0] else process

    monkeypatch.setattr(anyio, "open_process", open_process)
    cls, config = SandmuxSandboxEnvironment, SandmuxConfig(
        **places.config("docker"))
    async with anyio.create_task_group() as group:
        group.start_soon(cls.sample_init, "t", config, {})
        with anyio.fail_after(60):
            while list(listed().values()).count("ready") <= len(before):
                await anyio.sleep(0.05)
            while not ended:
                await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert listed() == before


async def test_a_start_that_fails_has_the_clis_words():
    before = listed()
    with pytest.raises(_lifecycle.LifecycleError) as caught:
        await SandmuxSandboxEnvironment.sample_init("t", SandmuxConfig(
            transport="docker", image="sandmux-no-such-image:1"), {})
    assert "sandmux-no-such-image" in str(caught.value)
    assert listed() == before


async def test_the_client_is_within_reach(docker):
    async with docker.target.stream(["cat"], stdin=True) as job:
        await job.write("x")
        assert await job.stdout.receive() == b"x"
    assert (await docker.target.stat("/etc/passwd")).size > 0


async def test_two_users_in_one_container(docker):
    await docker.target.mkdir("/tmp/a", user="1234", mode=0o700)
    await docker.target.write("/tmp/a/secret", "s", user="1234", mode=0o600)
    with pytest.raises(PermissionError):
        await docker.target.read("/tmp/a/secret", user="4321")
    assert await docker.target.read("/tmp/a/secret", user="1234") == b"s"


async def test_nothing_is_left_over(docker, openshell):
    here = {docker.target.name, openshell.target.name}
    assert set(provider._live) == here
    assert set(listed()) == here

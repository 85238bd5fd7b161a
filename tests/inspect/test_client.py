# SPDX-License-Identifier: MIT
"""The client of the controller's socket on `local`, on asyncio and trio."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tracemalloc

import anyio
import places
import pytest
import sandmux
import spine
from sandmux import Outcome, Step, Target, _connection, provider

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
async def local():
    async with Target("local") as target:
        yield target


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def busy():
    """Requests that the controller has under way."""
    done = subprocess.run([spine.SANDMUX, "status", "--json"], check=True,
                          capture_output=True, timeout=60)
    return sum(link["requests"] for link in json.loads(done.stdout)["links"])


async def idle():
    """No request is left in the controller, within a while."""
    with anyio.fail_after(30):
        while await anyio.to_thread.run_sync(busy):
            await anyio.sleep(0.05)


async def gone(mark):
    with anyio.fail_after(30):
        while spine.find(mark):
            await anyio.sleep(0.05)


# ---- commands --------------------------------------------------------------

async def test_exec_gives_everything_that_the_result_carries(local):
    done = await local.exec(
        ["sh", "-c", "cat; echo err >&2; sleep 0.05; exit 7"], "in put\n")
    assert (done.outcome, done.code, done.returncode) == (Outcome.EXITED, 7, 7)
    assert (done.stdout, done.stderr) == (b"in put\n", b"err\n")
    assert (done.stdin_size, done.stdout_size, done.stderr_size) == (7, 7, 4)
    assert 0.05 <= done.wall_time < 60 and done.uid == os.geteuid()
    assert done.peak_rss > 100000 and done.job > 0
    assert not (done.truncated or done.detached or done.timed_out)
    assert done.survivors == () and done.cwd is None


async def test_words_are_bytes_and_no_shell_is_between(local):
    words = ["a b", "$HOME", "x'y", "", "two\nlines", "é\udcff", "*"]
    done = await local.exec(["printf", "%s|", *words, b"\xfe"])
    assert done.stdout == "".join(w + "|" for w in words).encode(
        "utf-8", "surrogateescape") + b"\xfe|"


async def test_directory_environment_limits_and_the_rest(local, tmp_path):
    done = await local.exec(
        ["sh", "-c", "pwd; echo \"$A\"; echo ${GONE-none}; umask; nice; "
                     "ulimit -n; ulimit -Hn"],
        cwd=str(tmp_path), env={"A": "l1\nl2"}, unset=["GONE"], umask=0o27,
        nice=3, limits={"nofile": (50, 60)})
    assert done.stdout.decode() == (
        f"{tmp_path}\nl1\nl2\nnone\n0027\n3\n50\n60\n")
    bare = await local.exec(["/usr/bin/env"], clear_env=True, env={"B": "1"})
    assert bare.stdout == b"B=1\n"


async def test_user(local):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    done = await local.exec(["id", "-u"], user="65534:65534")
    assert (done.stdout, done.uid) == (b"65534\n", 65534)
    with pytest.raises(sandmux.UserNotFoundError, match="no-such-user"):
        await local.exec(["true"], user="no-such-user")


async def test_a_signal_is_a_signal(local):
    done = await local.exec(["sh", "-c", "kill -TERM $$"])
    assert (done.outcome, done.code) == (Outcome.SIGNALED, 15)
    assert done.returncode == 143


async def test_a_timeout_keeps_what_came_and_ends_the_tree(local):
    mark = spine.marker()
    done = await local.exec(
        ["sh", "-c", f"echo early; echo late >&2; sleep {mark} & sleep {mark}"],
        timeout=1.0, grace=0.5)
    assert done.timed_out and done.returncode == 124
    assert (done.stdout, done.stderr) == (b"early\n", b"late\n")
    assert done.wall_time >= 1.0
    assert not spine.find(mark)


@pytest.mark.parametrize("command, number", [
    (["no-such-program"], 2), (["/etc"], 13), (["/etc/passwd"], 13)])
async def test_what_cannot_start(local, command, number):
    with pytest.raises(sandmux.StartError) as caught:
        await local.exec(command)
    assert (caught.value.step, caught.value.number) == (Step.EXEC, number)
    assert command[0] in str(caught.value)


async def test_arguments_that_cannot_be_sent(local):
    for call in (lambda: local.exec([]), lambda: local.exec(["a\0b"]),
                 lambda: local.exec(["true"], env={"A=B": "x"}),
                 lambda: local.exec(["true"], timeout=-1),
                 lambda: local.exec(["true"], limits={"nonsense": 1}),
                 lambda: local.read("x" * 4097)):
        with pytest.raises(ValueError):
            await call()
    with pytest.raises(ValueError) as caught:
        await local.exec(["true"], env={"TOKEN": "secret\0"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("options, what", [
    ({"command": ["a\0b"]}, "argument 0 has a NUL"),
    ({"command": ["true", "", "c", "\0"]}, "argument 3 has a NUL"),
    ({"unset": ["GOOD", "\0"]}, "unset name 1 has a NUL"),
    ({"env": {"GOOD": "x", "BAD": "a\0b"}}, "the variable BAD has a NUL"),
    ({"user": "\0"}, "a user has a NUL"), ({"cwd": "/\0"}, "a path has a NUL"),
])
async def test_a_nul_is_refused_with_its_place(local, options, what):
    with pytest.raises(ValueError, match=what):
        await local.exec(**{"command": ["true"], **options})


async def test_a_command_line_of_a_mebibyte(local):
    done = await local.exec(["printf", "%s", *["x" * 65536] * 15])
    assert done.stdout == b"x" * 65536 * 15
    with pytest.raises(sandmux.SandmuxError):
        await local.exec(["true", *["x" * 65536] * 40])


async def test_input_without_a_reader_is_no_failure(local):
    done = await local.exec(["sh", "-c", "echo bad >&2; exit 7"], bytes(32 * MIB))
    assert (done.code, done.stderr) == (7, b"bad\n")


async def test_output_before_input_is_read(local):
    done = await local.exec(
        ["sh", "-c", "head -c 8388608 /dev/zero; cat >/dev/null"], bytes(8 * MIB))
    assert (done.code, len(done.stdout), done.stdin_size) == (0, 8 * MIB, 8 * MIB)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 100000])
async def test_the_tail_is_kept(local, size):
    data = bytes(i % 251 for i in range(size))
    done = await local.exec(["cat"], data, max_output=4096)
    assert done.stdout == data[-4096:]
    assert done.stdout_size == size and done.truncated == (size > 4096)


async def test_nothing_is_kept_where_nothing_is_wanted(local):
    done = await local.exec(["echo", "x"], max_output=0)
    assert (done.stdout, done.stdout_size) == (b"", 2)


async def test_memory_is_bounded_while_a_flood_runs_on(local):
    await local.exec(["true"])
    tracemalloc.start()
    try:
        done = await local.exec(["head", "-c", str(100 * MIB), "/dev/zero"],
                                max_output=MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (done.code, done.stdout_size) == (0, 100 * MIB)
    assert len(done.stdout) == MIB and peak < 8 * MIB


async def test_many_at_once_on_one_connection(local):
    answers = {}

    async def one(i):
        answers[i] = (await local.exec(["echo", str(i)])).stdout

    before = None
    async with anyio.create_task_group() as group:
        for i in range(300):    # more than a session takes: some wait
            group.start_soon(one, i)
        await anyio.sleep(0.05)
        before = descriptors()
    assert answers == {i: b"%d\n" % i for i in range(300)}
    assert descriptors() <= before + 1


async def test_one_that_nobody_reads_holds_nobody_up(local):
    async with local.stream(["cat", "/dev/zero"]) as stalled:
        assert await stalled.stdout.receive()
        await anyio.sleep(0.2)
        for _ in range(20):
            assert (await local.exec(["echo", "x"])).stdout == b"x\n"
        held = sum(map(len, stalled.sinks[0].pieces))
        assert 0 < held <= sandmux._job.STREAM_WINDOW
    await idle()


# ---- streams ---------------------------------------------------------------

async def test_stream_talks_back_and_forth(local):
    async with local.stream(["cat"], stdin=True) as job:
        for i in range(20):
            assert await job.write(f"line {i}\n")
            got = b""
            while not got.endswith(b"\n"):
                got += await job.stdout.receive()
            assert got == b"line %d\n" % i
        await job.close_stdin()
        assert await job.stdout.receive() == b""
        done = await job.wait()
    assert (done.code, done.stdout_size) == (0, done.stdin_size)


async def test_stream_gives_both_outputs_as_they_come(local):
    async with local.stream(
            ["sh", "-c", "echo a; read x; echo b >&2; read x; echo c; exit 3"],
            stdin=True) as job:
        pieces = []
        async for piece in job:
            pieces.append(piece)
            await job.write("on\n")
        assert pieces == [
            ("stdout", b"a\n"), ("stderr", b"b\n"), ("stdout", b"c\n")]
        assert (await job.wait()).code == 3


async def test_stream_large_and_exact(local):
    size, got = 20 * MIB, 0
    async with local.stream(["head", "-c", str(size), "/dev/zero"]) as job:
        async for piece in job.stdout:
            got += len(piece)
        done = await job.wait()
    assert got == done.stdout_size == size


async def test_stream_that_does_not_start(local):
    async with local.stream(["no-such-program"]) as job:
        assert [piece async for piece in job] == []
        with pytest.raises(sandmux.StartError):
            await job.wait()


async def test_leaving_a_stream_ends_its_command(local):
    mark = spine.marker()
    async with local.stream(["sh", "-c", f"echo on; sleep {mark} & wait"]) as job:
        assert await job.stdout.receive() == b"on\n"
        assert spine.find(mark)
    assert not spine.find(mark)


async def test_signals_reach_a_stream(local):
    async with local.stream(
            ["sh", "-c", "trap 'echo got; exit 9' USR1; echo on; "
                         "while :; do sleep 0.05; done"]) as job:
        assert await job.stdout.receive() == b"on\n"
        await job.signal(10)
        assert await job.stdout.receive() == b"got\n"
        assert (await job.wait()).code == 9


async def test_a_child_that_holds_the_output(local):
    mark = spine.marker()
    start = time.monotonic()
    done = await local.exec(["sh", "-c", f"echo hi; sleep {mark} &"])
    assert (done.stdout, done.detached) == (b"hi\n", True)
    assert time.monotonic() - start < 30
    assert spine.find(mark)
    spine.kill_all(mark)
    mark = spine.marker()
    await local.exec(["sh", "-c", f"sleep {mark} &"], kill_background=True)
    await gone(mark)


# ---- cancellation ----------------------------------------------------------

@pytest.mark.parametrize("delay", [0, 0.001, 0.01, 0.1, 0.4])
async def test_cancel_ends_the_command(local, delay):
    await local.exec(["true"])
    mark = spine.marker()
    with anyio.move_on_after(delay):
        await local.exec(["sh", "-c", f"sleep {mark} & sleep {mark}"], grace=0.2)
    await gone(mark)
    await idle()
    assert (await local.exec(["echo", "on"])).stdout == b"on\n"


async def test_cancel_in_the_middle_of_bytes(local, tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.truncate(200 * MIB)
    for i in range(8):
        with anyio.move_on_after(0.01 * i):
            await local.exec(["cat"], bytes(64 * MIB))
        with anyio.move_on_after(0.01 * i):
            await local.write(str(tmp_path / "f"), bytes(64 * MIB))
        with anyio.move_on_after(0.01 * i):
            await local.read(str(big))
        with anyio.move_on_after(0.01 * i):
            await local.exec(["true", *["x" * 65536] * 14])
        assert (await local.exec(["echo", "on"])).stdout == b"on\n"
    await idle()
    assert {p.name for p in tmp_path.iterdir()} <= {"f", "big"}


async def test_cancel_of_some_among_many(local):
    mark = spine.marker()
    ended = []

    async def one(i):
        if i % 3:
            ended.append((await local.exec(["sh", "-c", f"exit {i}"])).code)
        else:
            with anyio.move_on_after(0.02 * (i % 7)):
                await local.exec(["sleep", mark], grace=0.2)

    async with anyio.create_task_group() as group:
        for i in range(60):
            group.start_soon(one, i)
    assert sorted(ended) == [i for i in range(60) if i % 3]
    await gone(mark)
    await idle()


async def test_closing_ends_what_is_under_way():
    mark = spine.marker()
    target = Target("local")

    async def one():
        with pytest.raises(sandmux.OutcomeUnknownError):
            await target.exec(["sleep", mark])

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        with anyio.fail_after(30):
            while not spine.find(mark):
                await anyio.sleep(0.02)
        await target.aclose()
    await gone(mark)
    assert (await target.exec(["echo", "again"])).stdout == b"again\n"
    await target.aclose()


async def test_no_descriptor_is_left(local):
    await local.exec(["true"])
    before = descriptors()
    for _ in range(10):
        async with Target("local") as other:
            await other.exec(["true"])
        with anyio.move_on_after(0.005):
            async with Target("local") as other:
                await other.exec(["sleep", "5"], grace=0.1)
    assert descriptors() == before


# ---- files -----------------------------------------------------------------

@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 32725, 32726, 3 * MIB + 7])
async def test_write_and_read(local, tmp_path, size):
    data = os.urandom(size)
    path = str(tmp_path / "new" / "dir" / "file")
    await local.write(path, data, mode=0o640)
    assert await local.read(path) == data
    info = await local.stat(path)
    assert (info.size, info.mode & 0o7777) == (size, 0o640)
    assert await local.read(path, offset=1, length=3) == data[1:4]
    await local.write(path, "é", append=True)
    assert (tmp_path / "new/dir/file").read_bytes() == data + "é".encode()


async def test_sparse_files_read_whole(local, tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(5 * MIB)
        file.seek(3 * MIB)
        file.write(b"x")
    assert await local.read(str(path)) == path.read_bytes()


async def test_read_at_its_limit(local, tmp_path):
    path = tmp_path / "file"
    for size, fits in ((999, True), (1000, True), (1001, False)):
        path.write_bytes(bytes(size))
        if fits:
            assert len(await local.read(str(path), max_size=1000)) == size
        else:
            with pytest.raises(sandmux.LimitExceededError, match="1000"):
                await local.read(str(path), max_size=1000)
    with pytest.raises(sandmux.LimitExceededError):
        await local.read("/proc/kallsyms", max_size=1000)  # says size 0
    await idle()


async def test_file_errors_are_pythons_too(local, tmp_path):
    (tmp_path / "file").write_text("x")
    for path, kind in ((str(tmp_path / "none"), FileNotFoundError),
                       (str(tmp_path), IsADirectoryError),
                       (str(tmp_path / "file" / "x"), NotADirectoryError)):
        with pytest.raises(kind) as caught:
            await local.read(path)
        assert isinstance(caught.value, sandmux.FileError)
        assert path in str(caught.value) and caught.value.errno
    with pytest.raises(IsADirectoryError):
        await local.write(str(tmp_path), b"x")
    with pytest.raises(FileExistsError):
        await local.mkdir(str(tmp_path))


async def test_files_as_another_user(local):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        await files_as_another_user(local, pathlib.Path(top))


async def files_as_another_user(local, tmp_path):
    mine = tmp_path / "theirs"
    mine.mkdir()
    os.chown(mine, 65534, 65534)
    await local.write(str(mine / "sub/f"), "x", user="65534:65534")
    for path in (mine / "sub", mine / "sub/f"):
        assert path.stat().st_uid == 65534
    (tmp_path / "secret").write_text("s")
    os.chmod(tmp_path / "secret", 0o600)
    with pytest.raises(PermissionError):
        await local.read(str(tmp_path / "secret"), user="65534:65534")
    with pytest.raises(PermissionError):
        await local.write(str(tmp_path / "x"), "x", user="65534:65534")


async def test_names(local, tmp_path):
    top = str(tmp_path / "t")
    await local.mkdir(top + "/a/b", parents=True, mode=0o750)
    await local.write(top + "/f", "x")
    await local.symlink(top + "/l", "f")
    await local.rename(top + "/f", top + "/g")
    await local.chmod(top + "/g", 0o600)
    if os.geteuid() == 0:
        await local.chown(top + "/g", "12:34")
        assert (await local.stat(top + "/g")).uid == 12
    found = {e.name: e for e in await local.listdir(top)}
    assert set(found) == {"a", "g", "l"}
    assert found["l"].link == "f" and found["g"].mode & 0o777 == 0o600
    assert (await local.stat(top + "/l", follow=False)).link == "f"
    with pytest.raises(FileNotFoundError):
        await local.stat(top + "/l")
    with pytest.raises(sandmux.FileError):
        await local.remove(top)
    await local.remove(top, recursive=True)
    assert not os.path.exists(top)
    with pytest.raises(sandmux.LimitExceededError):
        await local.listdir("/usr/bin", max_size=1000)


async def test_copy_both_ways(local, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/f").write_bytes(os.urandom(100000))
    (tree / "link").symlink_to("sub/f")
    await local.copy(str(tree), str(tmp_path / "there"), recursive=True)
    await local.copy(str(tmp_path / "there"), str(tmp_path / "back"),
                     recursive=True, to_host=True)
    assert (tmp_path / "back/sub/f").read_bytes() == (tree / "sub/f").read_bytes()
    assert os.readlink(tmp_path / "back/link") == "sub/f"
    with pytest.raises(sandmux.FileError, match="none"):
        await local.copy(str(tmp_path / "none"), "/tmp/x")


# ---- the provider, on both too ------------------------------------------------

async def test_the_provider_on_asyncio_and_trio():
    async with places.sandbox("docker", env={"ON": "here"}) as one:
        assert (await one.exec(["sh", "-c", "echo $ON"])).stdout == "here\n"
        await one.write_file("x", "y" * 100000)
        assert len(await one.read_file("x")) == 100000
        with pytest.raises(TimeoutError):
            await one.exec(["sleep", "60"], timeout=1)
        mark = spine.marker()
        with anyio.move_on_after(0.3):
            await one.exec(["sleep", mark])
        assert not spine.find(mark)
        assert (await one.connection()).container
    with anyio.move_on_after(0.2):
        async with places.sandbox("docker"):
            await anyio.sleep(60)
    assert not provider._live


# ---- the controller ---------------------------------------------------------

async def test_the_first_use_starts_a_controller(elsewhere):
    assert not (elsewhere / "socket").exists()
    async with Target("local") as target:
        assert (await target.exec(["echo", "x"])).stdout == b"x\n"
        assert (await target.link())["state"] == "up"
    subprocess.run([spine.SANDMUX, "stop"], check=True, timeout=60)


async def test_many_first_uses_at_once(elsewhere):
    async with contextlib.AsyncExitStack() as stack, \
            anyio.create_task_group() as group:
        for _ in range(8):
            target = await stack.enter_async_context(Target("local"))
            group.start_soon(target.exec, ["true"])
            group.start_soon(target.exec, ["true"])
    subprocess.run([spine.SANDMUX, "stop"], check=True, timeout=60)


async def test_a_controller_that_was_stopped_is_started_again(elsewhere):
    async with Target("local") as target:
        await target.exec(["true"])
        for _ in range(2):
            subprocess.run([spine.SANDMUX, "stop"], check=True, timeout=60)
            assert (await target.exec(["echo", "x"])).stdout == b"x\n"
    subprocess.run([spine.SANDMUX, "stop"], check=True, timeout=60)


async def test_a_controller_that_is_killed(elsewhere):
    mark = spine.marker()
    async with Target("local") as target, anyio.create_task_group() as group:
        await target.exec(["true"])
        pid = json.loads(subprocess.run(
            [spine.SANDMUX, "status", "--json"], check=True,
            capture_output=True).stdout)["pid"]
        failures = []

        async def one():
            try:
                await target.exec(["sleep", mark])
            except sandmux.OutcomeUnknownError as error:
                failures.append(str(error))

        for _ in range(5):
            group.start_soon(one)
        with anyio.fail_after(30):
            while len(spine.find(mark)) < 5:
                await anyio.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        with anyio.fail_after(30):
            while len(failures) < 5:
                await anyio.sleep(0.02)
        assert all("outcome unknown" in text for text in failures)
        await gone(mark)
        assert (await target.exec(["echo", "x"])).stdout == b"x\n"
    subprocess.run([spine.SANDMUX, "stop"], check=True, timeout=60)


@pytest.mark.parametrize("name", ["docker:no-such-container", "nonsense:x",
                                  "", "no-such-name"])
async def test_targets_that_are_not_there(name):
    async with Target(name) as target:
        with pytest.raises(sandmux.UnavailableError if name
                           else sandmux.SandmuxError) as caught:
            await target.exec(["true"])
        assert not isinstance(caught.value, sandmux.OutcomeUnknownError)


async def test_no_program(elsewhere, monkeypatch):
    monkeypatch.setenv("SANDMUX_PROGRAM", "/no/such/program")
    with pytest.raises(sandmux.ControllerError, match="/no/such/program"):
        await Target("local").exec(["true"])


@pytest.mark.parametrize("mode, text", [(0o755, "lets others in"),
                                        (None, "not a directory")])
async def test_a_runtime_directory_that_is_not_safe(elsewhere, monkeypatch,
                                                    mode, text):
    if mode is None:
        (elsewhere / "file").write_text("")
        monkeypatch.setenv("SANDMUX_DIR", str(elsewhere / "file"))
    else:
        elsewhere.chmod(mode)
    with pytest.raises(sandmux.ControllerError, match=text):
        await Target("local").exec(["true"])


def test_it_can_be_used_without_inspect():
    """The client alone imports nothing of inspect_ai."""
    done = subprocess.run(
        [sys.executable, "-c", "import sandmux, sys; "
         "sys.exit('inspect_ai' in sys.modules)"], timeout=60,
        env={**os.environ, "PYTHONPATH": str(
            spine.ROOT / "host/inspect/src")}, check=False)
    assert done.returncode == 0


assert _connection.END_SECONDS < 30

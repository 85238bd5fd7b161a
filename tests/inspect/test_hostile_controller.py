# SPDX-License-Identifier: MIT
"""The client against a controller of our own making, which breaks rules, is
of another version, says no credit, dies, or never answers."""
import os
import struct
import threading

import anyio
import fake_controller as fake
import pytest
import sandmux
from fake_controller import FakeController
from sandmux import Target, _connection, _wire

pytestmark = pytest.mark.anyio
VERSION = sandmux.__version__.encode()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
def controller(elsewhere):
    """controller(serve) serves each client by serve(hello, connection)."""
    made = []

    def make(serve, **greeting):
        def one(hello, connection):
            connection.say(fake.welcome(**{"program": VERSION, **greeting}))
            serve(connection)

        made.append(FakeController(str(elsewhere), one))
        return made[-1]

    yield make
    for one in made:
        one.close()


def result(request, **fields):
    return fake.result(request, **fields)


async def run(command=("true",), input=None, **how):
    async with Target("local") as target:
        with anyio.fail_after(30):
            return await target.exec(list(command), input, **how)


# ---- what it says ------------------------------------------------------------

async def test_hello_and_body(controller, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://host")
    monkeypatch.setenv("PASSWORD", "secret")
    bodies = []

    def serve(connection):
        number, body = connection.request()
        bodies.append(body)
        connection.say(result(number, info=fake.exec_info(uid=7)))
        connection.drain()

    one = controller(serve)
    async with Target("docker:web", same_agent=True) as target:
        done = await target.exec(
            ["a", b"\xff"], cwd="/d", env={"K": "V"}, unset=["U"], user="u:g",
            timeout=1.5, grace=0.25, limits={"nofile": (1, -1)}, umask=0o77,
            nice=-3, kill_background=True, clear_env=True)
    assert done.uid == 7
    hello, body = one.hellos[0], bodies[0]
    assert (hello.target, hello.program, hello.flags) == (b"docker:web", VERSION, 1)
    assert hello.env[b"DOCKER_HOST"] == b"tcp://host"
    assert b"PASSWORD" not in hello.env and b"SANDMUX_DIR" not in hello.env
    assert (body.argv, body.cwd, body.user) == ([b"a", b"\xff"], b"/d", b"u:g")
    assert (body.env, body.unset, body.umask) == ([b"K=V"], [b"U"], 0o77)
    assert (body.timeout_ms, body.grace_ms, body.nice) == (1500, 250, -3)
    assert body.limits == [struct.pack(">BQQ", 7, 1, fake.MAX64)]
    assert body.flags == 2 | 16 | 32


async def test_no_input_is_no_stdin_and_some_is(controller):
    flags = []

    def serve(connection):
        while True:
            number, body = connection.request()
            if number is None:
                return
            flags.append(body.flags & 1)
            connection.say(result(number, info=fake.exec_info()))

    controller(serve)
    async with Target("local") as target:
        await target.exec(["x"])
        await target.exec(["x"], "")
    assert flags == [0, 1]


# ---- credit -------------------------------------------------------------------

class Credits:
    """Grants step by step and counts what comes."""

    def __init__(self, step, total):
        self.step, self.total, self.beyond, self.got = step, total, 0, b""

    def __call__(self, connection):
        number, body = connection.request()
        limit = 8192
        for frame in connection.early:
            self.take(frame)
        while len(self.got) < self.total:
            while len(self.got) < min(limit, self.total):
                self.take(connection.read())
            self.beyond = max(self.beyond, len(self.got) - limit)
            limit += self.step
            connection.say(struct.pack(">BIBQ", fake.CREDIT, number, 1, limit))
        while connection.read()[0] != fake.EOF:
            pass
        connection.say(result(number, taken=self.total, info=fake.exec_info()))
        connection.drain()

    def take(self, frame):
        kind, _, channel, offset = struct.unpack(">BIBQ", frame[:14])
        assert (kind, channel, offset) == (fake.DATA, 1, len(self.got))
        self.got += frame[14:]


@pytest.mark.parametrize("step", [1, 1000, 8192, 100000, 1 << 20])
async def test_input_never_passes_its_credit(controller, step):
    total = 8192 + 20 if step == 1 else 300000
    data = os.urandom(total)
    credits = Credits(step, total)
    controller(credits)
    done = await run(input=data)
    assert done.stdin_size == total
    assert credits.got == data and credits.beyond <= 0


async def test_input_that_nobody_wants_any_more(controller):
    def serve(connection):
        number, _ = connection.request()
        connection.say(struct.pack(">BIBQ", fake.CREDIT, number, 1, fake.MAX64),
                       result(number, code=3, info=fake.exec_info()))
        connection.drain()

    controller(serve)
    assert (await run(input=bytes(1 << 20))).code == 3


async def test_a_long_body_waits_for_credit(controller):
    seen = []

    def serve(connection):
        number = connection.until_open()
        got = b""
        while len(got) < 8192:
            got += connection.read()[14:]
        seen.append(len(got))
        connection.say(struct.pack(">BIBQ", fake.CREDIT, number, 0, 1 << 20))
        while len(got) < 40000:
            got += connection.read()[14:]
        connection.say(result(number, info=fake.exec_info()))
        connection.drain()

    controller(serve)
    await run(["x" * 40000])
    assert seen == [8192]


async def test_output_gets_as_much_credit_as_was_read(controller):
    size, limits = 5 << 20, []

    def serve(connection):
        number, _ = connection.request()
        sent, limit = 0, _wire.WINDOW_MAX
        while sent < size:
            while sent < min(limit, size):
                piece = bytes(min(30000, limit - sent, size - sent))
                connection.say(fake.data(number, piece, offset=sent))
                sent += len(piece)
            if sent < size:
                frame = connection.read()
                assert frame[0] == fake.CREDIT
                limit, = struct.unpack(">Q", frame[6:14])
                limits.append(limit - sent)
        connection.say(result(number, out=size, info=fake.exec_info()))
        connection.drain()

    controller(serve)
    done = await run(max_output=1000)
    assert (done.stdout_size, len(done.stdout)) == (size, 1000)
    assert limits and max(limits) <= _wire.WINDOW_MAX


# ---- rules that are broken -----------------------------------------------------

BAD = {
    "a frame that is too long": lambda c, n: c.raw(b"\0\0\xff\xff" + bytes(9)),
    "an empty frame": lambda c, n: c.raw(bytes(4)),
    "an unknown type": lambda c, n: c.say(b"\xfe123"),
    "a frame cut off": lambda c, n: c.say(b"\x16\0\0"),
    "a hello": lambda c, n: c.say(_wire.encode("hello")),
    "another's request": lambda c, n: c.say(result(n + 1)),
    "request 0": lambda c, n: c.say(fake.data(0, b"x")),
    "a wrong offset": lambda c, n: c.say(fake.data(n, b"x", offset=1)),
    "a wrong channel": lambda c, n: c.say(fake.data(n, b"x", channel=1)),
    "no bytes": lambda c, n: c.say(fake.data(n, b"")),
    "a total that differs": lambda c, n: c.say(
        fake.data(n, b"abc"), result(n, out=2)),
    "an EOF that differs": lambda c, n: c.say(
        fake.data(n, b"abc"), struct.pack(">BIBQ", fake.EOF, n, 2, 4)),
    "data after EOF": lambda c, n: c.say(
        struct.pack(">BIBQ", fake.EOF, n, 2, 0), fake.data(n, b"x")),
    "data beyond credit": lambda c, n: [c.say(
        fake.data(n, bytes(30000), channel=3, offset=i * 30000))
        for i in range(300)],
    "credit for output": lambda c, n: c.say(
        struct.pack(">BIBQ", fake.CREDIT, n, 2, 1)),
    "an outcome unheard of": lambda c, n: c.say(result(n, outcome=99)),
    "an info of another kind": lambda c, n: c.say(
        result(n, info=fake.file_info(1, 2))),
    "an info that is none": lambda c, n: c.say(result(n, info=b"\xff\xff")),
}


@pytest.mark.parametrize("what", BAD)
async def test_broken_rules_are_protocol_errors(controller, what):
    def serve(connection):
        number, _ = connection.request()
        BAD[what](connection, number)
        connection.drain()

    controller(serve)
    if what == "data beyond credit":
        # A stream takes nothing until it is read.
        async with Target("local") as target:
            with anyio.fail_after(30):
                async with target.stream(["x"]) as job:
                    with pytest.raises(sandmux.ProtocolError):
                        await job.stdout.receive()
                        await job.wait()
        return
    with pytest.raises(sandmux.ProtocolError, match="protocol broken"):
        await run()


@pytest.mark.parametrize("head", [
    b"", fake.f(b""), fake.f(b"\xff"), fake.f(bytes(20000)),
    fake.f(_wire.encode("start", flags=1)), fake.f(_wire.encode("partial"))])
async def test_a_file_that_begins_wrong(controller, head):
    def serve(connection):
        number, _ = connection.request()
        sent = b"".join(head[i:i + 3] for i in range(0, len(head), 3))[:100]
        offset = 0
        for i in range(0, len(sent), 3):
            connection.say(fake.data(number, sent[i:i + 3], offset=offset))
            offset += len(sent[i:i + 3])
        connection.say(result(number, out=offset))
        connection.drain()

    controller(serve)
    async with Target("local") as target:
        with pytest.raises(sandmux.ProtocolError):
            await target.read("x")


async def test_a_file_without_end_is_bounded(controller):
    def serve(connection):
        number, _ = connection.request()
        sent = 0
        try:
            connection.say(fake.data(number, fake.START))
            sent += len(fake.START)
            while sent < _wire.WINDOW_MAX - 40000:
                connection.say(fake.data(number, bytes(32000), offset=sent))
                sent += 32000
            connection.drain()
        except OSError:
            pass

    controller(serve)
    async with Target("local") as target:
        request = target.read("x", max_size=100000)
        with anyio.fail_after(30), pytest.raises(sandmux.LimitExceededError):
            _connection.END_SECONDS, before = 0.2, _connection.END_SECONDS
            try:
                await request
            finally:
                _connection.END_SECONDS = before


async def test_text_of_the_other_side_is_quoted(controller):
    def serve(connection):
        number, _ = connection.request()
        connection.say(result(number, outcome=4, step=7, error=2,
                              text=b"a\x1b[2J\n\xff\0b"))
        connection.drain()

    controller(serve)
    with pytest.raises(sandmux.StartError) as caught:
        await run()
    assert str(caught.value).isprintable() and "\\x1b[2J" in str(caught.value)


# ---- connections that end --------------------------------------------------------

@pytest.mark.parametrize("when", ["before", "in the middle", "half a frame"])
async def test_a_lost_connection_is_an_unknown_outcome(controller, when):
    def serve(connection):
        number, _ = connection.request()
        if when != "before":
            connection.say(fake.data(number, b"some"))
        if when == "half a frame":
            connection.raw(fake.f(fake.data(number, b"more", offset=4))[:9])

    controller(serve)
    with pytest.raises(sandmux.OutcomeUnknownError, match="outcome unknown"):
        await run()


async def test_a_stream_has_what_came_before_the_end(controller):
    def serve(connection):
        number, _ = connection.request()
        connection.say(fake.data(number, b"some"))

    controller(serve)
    async with Target("local") as target, target.stream(["x"]) as job:
        assert await job.stdout.receive() == b"some"
        with pytest.raises(sandmux.OutcomeUnknownError):
            await job.stdout.receive()


async def test_all_that_waited_are_told(controller):
    def serve(connection):
        for _ in range(20):
            connection.request()

    controller(serve)
    failures = []

    async def one(target):
        try:
            await target.exec(["true"])
        except sandmux.OutcomeUnknownError as error:
            failures.append(error)

    async with Target("local") as target:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(one, target)
    assert len(failures) == 20 and len(set(map(id, failures))) == 20


async def test_a_cancel_that_is_never_answered_ends_in_time(controller,
                                                           monkeypatch):
    monkeypatch.setattr(_connection, "END_SECONDS", 0.5)
    cancels = []

    def serve(connection):
        number, _ = connection.request()
        while True:
            frame = connection.read()
            if frame is None:
                return
            if frame[0] == fake.CANCEL:
                cancels.append(number)
            elif frame[0] == fake.OPEN:
                again, = struct.unpack(">I", frame[1:5])
            elif frame[0] == fake.DATA:
                connection.say(result(again, info=fake.exec_info()))

    controller(serve)
    async with Target("local") as target:
        with anyio.fail_after(30):
            with anyio.move_on_after(0.2):
                await target.exec(["x"], grace=0.1)
            assert cancels == [1]
            # The connection serves on, and a late answer is no fault.
            assert (await target.exec(["y"])).code == 0


async def test_late_frames_of_what_has_ended_are_dropped(controller):
    def serve(connection):
        first, _ = connection.request()
        connection.say(result(first, info=fake.exec_info()))
        second, _ = connection.request()
        connection.say(struct.pack(">BIBQ", fake.CREDIT, first, 1, 99),
                       fake.data(first, b"late"),
                       result(second, code=5, info=fake.exec_info()))
        connection.drain()

    controller(serve)
    async with Target("local") as target:
        await target.exec(["x"])
        assert (await target.exec(["y"])).code == 5


# ---- versions ----------------------------------------------------------------------

async def test_a_busy_controller_of_another_version(controller):
    controller(lambda c: c.drain(), program=b"9.9.9\x1b", busy=3, pid=4242)
    with pytest.raises(sandmux.ControllerError) as caught:
        await run()
    for word in ("9.9.9\\x1b", sandmux.__version__, "4242", "3 requests",
                 "sandmux stop"):
        assert word in str(caught.value)


async def test_an_idle_controller_of_another_version_is_asked_to_go(
        controller, monkeypatch):
    from sandmux import _connect
    monkeypatch.setattr(_connect, "PATIENCE_SECONDS", 1.0)
    ended = threading.Event()
    one = controller(lambda c: ended.set() or c.drain(), program=b"0.0.9")
    with pytest.raises(sandmux.ControllerError):
        await run()         # it does not go
    assert [h.flags for h in one.hellos][:2] == [0, 2]
    assert one.hellos[1].target == b""


async def test_one_that_speaks_no_common_version(controller):
    controller(lambda c: c.drain(), version=0, busy=1)
    with pytest.raises(sandmux.ControllerError):
        await run()


async def test_one_that_never_says_welcome(elsewhere, monkeypatch):
    monkeypatch.setattr(_connection, "WELCOME_SECONDS", 0.5)
    one = FakeController(str(elsewhere), lambda hello, c: c.drain())
    try:
        with pytest.raises(sandmux.ControllerError, match="does not answer"):
            await run()
    finally:
        one.close()


async def test_one_that_begins_with_something_else(elsewhere):
    one = FakeController(str(elsewhere), lambda hello, c: (
        c.say(fake.data(1, b"x")), c.drain()))
    try:
        with pytest.raises(sandmux.ControllerError, match="WELCOME"):
            await run()
    finally:
        one.close()

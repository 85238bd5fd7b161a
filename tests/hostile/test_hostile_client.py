# SPDX-License-Identifier: MIT
"""Clients that lie: only their own connection ends, the others go on.

They speak to the controller's socket directly.
"""
import contextlib
import os
import pathlib
import shutil
import socket
import struct
import tempfile
import time

import pytest

import sealed
from conftest import BUILD, peak, wait_for
from sealed import (CANCEL, DATA, ECHO, EXEC, GET, HELLO_MSG, RESULT,
                    SIGNAL, STATUS, WELCOME, credit_frame, data_frame,
                    eof_frame, exec_body, f, items, open_frame, parse_result)
from test_hostile_agent import PROGRAMS, Controller

MIB = 1 << 20
LIMIT = 16 * MIB


def hello(target="local", env=(), low=1, high=1, flags=0):
    return (struct.pack(">BHHI", HELLO_MSG, low, high, flags) + f(b"9.9.9") +
            f(os.fsencode(target)) + items([os.fsencode(e) for e in env]))


class Client:
    """A connection that says what it is told to."""

    def __init__(self, controller, greet=True, target="local"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(controller.dir / "run" / "socket"))
        self.buffer = b""
        self.results = {}
        if greet:
            self.send(hello(target, [f"{k}={v}" for k, v in
                                     controller.env.items()]))
            assert self.receive()[0] == WELCOME

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, *frames):
        self.raw(b"".join(f(frame) for frame in frames))

    def receive(self, timeout=10):
        """The next frame; None at the end of the connection."""
        self.socket.settimeout(timeout)
        while (len(self.buffer) < 4 or len(self.buffer) < 4 +
               struct.unpack(">I", self.buffer[:4])[0]):
            try:
                data = self.socket.recv(1 << 20)
            except (ConnectionResetError, BrokenPipeError):
                return None
            if not data:
                return None
            self.buffer += data
        (n,) = struct.unpack(">I", self.buffer[:4])
        frame, self.buffer = self.buffer[4:4 + n], self.buffer[4 + n:]
        return frame

    def request(self, number, kind, body, out=1 << 40, err=1 << 40):
        self.send(open_frame(number, kind, len(body), out, err),
                  data_frame(number, 0, 0, body))

    def result(self, number, timeout=20):
        until = time.monotonic() + timeout
        while number not in self.results:
            frame = self.receive(until - time.monotonic())
            assert frame is not None, "the connection ended"
            if frame[0] == RESULT:
                result = parse_result(frame)
                self.results[result["request"]] = result
        return self.results[number]

    def ended(self, timeout=5):
        until = time.monotonic() + timeout
        while self.receive(until - time.monotonic()) is not None:
            pass
        return True

    def close(self):
        self.socket.close()


@pytest.fixture(scope="module", params=PROGRAMS)
def controller(request, agent_program, host_program):
    program = host_program
    if request.param == "asan":
        program = str(BUILD / "asan" / "sandmux")
        if not os.path.exists(program):
            pytest.skip("no build with sanitizers")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
    c = Controller(program, agent_program, directory)
    yield c
    try:
        c.close()
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def bystander(controller):
    """A command under way, another client's; it must not notice."""
    run = controller.begin("sh", "-c", "echo up; read x; echo $x; exit 3",
                           target="local", stdin=-1)
    assert run.stdout.readline() == b"up\n"
    yield run
    out, err = run.communicate(b"good\n", timeout=20)
    assert (run.returncode, out) == (3, b"good\n"), err
    assert controller.run("echo", "ok", target="local")[:2] == (0, b"ok\n")
    controller.check()


def small(controller):
    if "asan" not in controller.program:
        assert peak(controller.process.pid) < LIMIT


# ---- before WELCOME ------------------------------------------------------

FIRST = {
    "nothing, then the end": b"",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "garbage": os.urandom(4096),
    "length zero": bytes(4),
    "length huge": b"\xff\xff\xff\xff",
    "length over": struct.pack(">I", 32740) + bytes(32740),
    "half a hello": f(hello())[:20],
    "a welcome": f(bytes([WELCOME]) + bytes(14)),
    "an open": f(open_frame(1, EXEC, 10)),
    "a link frame": f(b"\x04" + bytes(8)),
    "trailing": f(hello() + b"x"),
    "a list that lies": f(hello()[:-4] + b"\x7f\xff\xff\xff"),
    "env without =": f(hello(env=["novalue"])),
    "env with a NUL": f(hello(env=["A=\0"])),
    "two hellos": f(hello()) * 2,
    "no common version": f(hello(low=7, high=9)),
    "versions reversed": f(hello(low=9, high=0)),
    "a long program": f(struct.pack(">BHHI", HELLO_MSG, 1, 1, 0) +
                        f(b"x" * 65) + f(b"local") + items([])),
}


@pytest.mark.parametrize("what", FIRST)
def test_greeting(controller, bystander, what):
    c = Client(controller, greet=False)
    with contextlib.suppress(ConnectionError):  # it may end while we speak
        c.raw(FIRST[what])
    if what in ("nothing, then the end", "half a hello"):
        c.socket.shutdown(socket.SHUT_WR)
    assert c.ended()
    c.close()


def test_bad_targets_are_answered(controller, bystander):
    for target in ("", "nowhere", "docker:", "docker:-x", "kubectl:x",
                   "docker:\x1b[31m", "x" * 4000, "local:x", "docker:a/../b "):
        c = Client(controller, target=target)
        c.request(1, EXEC, exec_body(["true"]))
        result = c.result(1)
        assert result["outcome"] == 4 and result["step"] in (1, 14), target
        c.close()


# ---- after it: these end the connection ----------------------------------

def flood(frame, n):
    return [frame] * n


ENDS = {
    "unknown type": [b"\x0e"],
    "a hello": [hello()],
    "RESULT": [sealed.result_frame(1)],
    "LOG": [b"\x18\1" + f(b"x")],
    "ACK": [b"\x03" + bytes(8)],
    "CLOSE": [b"\x06\1\0\0\0\0"],
    "a body as a frame": [exec_body(["true"])],
    "id zero": [open_frame(0, EXEC, 10)],
    "ids fall": [open_frame(5, EXEC, 10), open_frame(4, EXEC, 10)],
    "an id twice": [open_frame(5, EXEC, 10), open_frame(5, EXEC, 10)],
    "no body": [open_frame(1, EXEC, 0)],
    "a huge body": [open_frame(1, EXEC, 0xffffffff)],
    "body over its length": [open_frame(1, EXEC, 5),
                             data_frame(1, 0, 0, b"123456")],
    "two bodies beyond credit": [
        open_frame(1, EXEC, 100000), open_frame(2, EXEC, 100000),
        data_frame(2, 0, 0, bytes(8193))],
    "input beyond credit": [open_frame(1, EXEC, 100),
                            data_frame(1, 1, 0, bytes(8193))],
    "wrong offset": [open_frame(1, EXEC, 100), data_frame(1, 0, 3, b"x")],
    "wrong channel": [open_frame(1, EXEC, 100), data_frame(1, 2, 0, b"x")],
    "channel 9": [open_frame(1, EXEC, 100), data_frame(1, 9, 0, b"x")],
    "never opened": [data_frame(77, 0, 0, b"x")],
    "credit never opened": [credit_frame(77, 2, 1)],
    "signal 0": [open_frame(1, EXEC, 9), struct.pack(">BIB", SIGNAL, 1, 0)],
    "signal 255": [open_frame(1, EXEC, 9),
                   struct.pack(">BIB", SIGNAL, 1, 255)],
    "the body's end": [open_frame(1, EXEC, 9), eof_frame(1, 0, 0)],
    "a wrong total": [open_frame(1, EXEC, 9), data_frame(1, 1, 0, b"abc"),
                      eof_frame(1, 1, 4)],
    "data after the end": [
        open_frame(1, EXEC, 9), eof_frame(1, 1, 0),
        data_frame(1, 1, 0, b"x")],
    "two ends": [open_frame(1, EXEC, 9), eof_frame(1, 1, 0),
                 eof_frame(1, 1, 0)],
    "too many": [open_frame(i, EXEC, 9) for i in range(1, 258)],
    "trailing": [open_frame(1, EXEC, 9) + b"x"],
    "short": [open_frame(1, EXEC, 9)[:-1]],
    "empty data": [open_frame(1, EXEC, 9), data_frame(1, 0, 0, b"")],
}


@pytest.mark.parametrize("what", ENDS)
def test_the_connection_ends(controller, bystander, what):
    c = Client(controller)
    with contextlib.suppress(ConnectionError):
        c.send(*ENDS[what])
    assert c.ended()
    c.close()


# ---- and these do not ----------------------------------------------------

def test_wrong_bodies_are_answered(controller, bystander):
    c = Client(controller)
    bodies = [(EXEC, b"\x40"), (EXEC, os.urandom(50)), (EXEC, exec_body([])),
              (GET, exec_body(["true"])), (STATUS, b"\x50"), (200, b"\xc8"),
              (0, b"\0"), (96, b"\x60" + bytes(60)), (RESULT, b"\x16"),
              (HELLO_MSG, hello()), (EXEC, exec_body(["x\0y"])),
              (EXEC, exec_body(["true"], env=["="]))]
    for number, (kind, body) in enumerate(bodies, 1):
        c.request(number, kind, body)
        result = c.result(number)
        assert (result["outcome"], result["step"]) == (4, 1), (kind, result)
        assert result["text"]
    c.close()


@pytest.mark.parametrize("argv, more, text", [
    (["x\0y"], {}, "argument 0 contains a NUL byte"),
    (["true", "", "c", "\0"], {}, "argument 3 contains a NUL byte"),
    (["true"], {"env": ["A=1", "B=a\0b"]},
     "environment entry 1 contains a NUL byte")])
def test_a_nul_is_refused_with_its_index(controller, bystander, argv, more,
                                         text):
    c = Client(controller)
    c.request(1, EXEC, exec_body(argv, **more))
    result = c.result(1)
    assert (result["outcome"], result["step"]) == (4, 1), result
    assert text.encode() in result["text"], result
    c.request(2, EXEC, exec_body(["true"]))
    assert c.result(2)["outcome"] == 0
    c.close()


def test_frames_for_ended_requests_are_dropped(controller, bystander):
    c = Client(controller)
    c.request(1, EXEC, exec_body(["true"]))
    assert c.result(1)["outcome"] == 0
    c.send(credit_frame(1, 2, 1 << 50), struct.pack(">BI", CANCEL, 1),
           struct.pack(">BIB", SIGNAL, 1, 9))
    c.request(2, EXEC, exec_body(["true"]))
    assert c.result(2)["outcome"] == 0
    c.close()


def test_half_bodies_of_many(controller, bystander):
    """Opens without a body, and bodies that never end: others go on."""
    clients = [Client(controller) for _ in range(20)]
    for c in clients:
        c.send(*[open_frame(i, EXEC, 1400000) for i in range(1, 21)],
               *[data_frame(i, 0, 0, bytes(8000)) for i in range(1, 21)])
    size = 900000
    big = controller.begin("sh", "-c", "echo $#", "x",
                           *["y" * 100000] * (size // 100000),
                           target="local")
    # Bodies that stall hold no other client's long command for ever.
    assert controller.end(big, 60)[:2] == (0, b"9\n")
    small(controller)
    for c in clients:
        c.close()


def test_stalled_bodies(controller, bystander):
    """Bodies that stop in the middle: busy after a while, others go on."""
    clients = [Client(controller) for _ in range(3)]
    for c in clients:
        c.send(*[open_frame(i, EXEC, 1400000) for i in range(1, 5)],
               *[data_frame(i, 0, 0, bytes(8192)) for i in range(1, 5)])
    big = controller.begin("sh", "-c", "echo $#", "x", *["y" * 100000] * 9,
                           target="local")
    assert controller.end(big, 60)[:2] == (0, b"9\n")
    for c in clients:
        for number in range(1, 5):
            result = c.result(number)
            assert (result["outcome"], result["step"]) == (4, 2), result
        # The connection itself is as good as before.
        c.request(9, EXEC, exec_body(["true"]))
        assert c.result(9)["outcome"] == 0
        c.close()


def test_cancelled_bodies(controller, bystander):
    """Nearly whole bodies, cancelled, while no answer is read."""
    c = Client(controller)
    # Fill what the controller may write to us, so that RESULTs wait.
    c.request(1, EXEC, exec_body(["cat", "/dev/zero"]))
    time.sleep(0.3)
    size = 1400000
    sent = 0
    for number in range(2, 60):
        try:
            c.socket.settimeout(3)
            c.send(open_frame(number, EXEC, size))
            for at in range(0, size - 32000, 32000):
                c.send(data_frame(number, 0, at, bytes(32000)))
            c.send(struct.pack(">BI", CANCEL, number))
            sent += 1
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            break
    assert sent > 3
    small(controller)
    c.close()


def test_never_reads(controller, bystander):
    """Output without a reader stops at credit and socket; memory too."""
    clients = [Client(controller) for _ in range(8)]
    for c in clients:
        for number in range(1, 21):
            c.request(number, EXEC, exec_body(["cat", "/dev/zero"]))
    time.sleep(1)
    assert controller.run("echo", "ok", target="local")[:2] == (0, b"ok\n")
    small(controller)
    for c in clients:
        c.close()


def test_credit_games(controller, bystander):
    """Falling, huge and withdrawn credit: ignored, used, obeyed."""
    c = Client(controller)
    c.request(1, EXEC, exec_body(["sh", "-c", "head -c 300000 /dev/zero; "
                                  "true"]), out=0, err=0)
    limits = [5, 3, 0, 1 << 63, 7, 100]
    c.send(*[credit_frame(1, 2, n) for n in limits])
    c.send(credit_frame(1, 3, (1 << 64) - 1))
    result = c.result(1)
    assert result["outcome"] == 0 and result["out"] == 300000
    c.send(*flood(credit_frame(1, 2, 1), 20000))
    c.request(2, ECHO, b"\x44\0", out=0)
    c.send(data_frame(2, 1, 0, b"x" * 8192))
    c.send(credit_frame(2, 2, (1 << 64) - 1), eof_frame(2, 1, 8192))
    assert c.result(2)["outcome"] in (0, 3, 4)
    c.close()


def test_dripped(controller, bystander):
    c = Client(controller)
    body = exec_body(["echo", "hi"])
    for byte in (f(open_frame(1, EXEC, len(body), 1 << 20, 1 << 20)) +
                 f(data_frame(1, 0, 0, body))):
        c.raw(bytes([byte]))
    assert c.result(1)["out"] == 3
    c.close()


def test_hundreds_of_connections(controller, bystander):
    """200 that say nothing, 200 that greet, then none: all is as before."""
    before = len(os.listdir(f"/proc/{controller.process.pid}/fd"))
    silent = [Client(controller, greet=False) for _ in range(200)]
    greeted = [Client(controller) for _ in range(200)]
    assert controller.run("echo", "ok", target="local")[:2] == (0, b"ok\n")
    for c in greeted[::2]:
        c.request(1, EXEC, exec_body(["sleep", "300"]))
    for c in greeted[1::2]:
        c.send(open_frame(1, EXEC, 1000))
    time.sleep(0.5)
    assert controller.run("echo", "ok", target="local")[:2] == (0, b"ok\n")
    small(controller)
    for c in silent + greeted:
        c.close()
    assert wait_for(lambda: len(os.listdir(
        f"/proc/{controller.process.pid}/fd")) <= before + 2)


def test_more_than_it_serves(controller, bystander):
    """Over the limit of clients: told so, or closed; the others stay."""
    many = []
    try:
        for _ in range(600):
            try:
                many.append(Client(controller, greet=False))
            except OSError:
                break
        assert len(many) > 500
        time.sleep(0.5)
        controller.check()
    finally:
        for c in many:
            c.close()
    assert wait_for(lambda: controller.run("echo", "ok",
                                           target="local")[0] == 0)


def test_dies_in_the_middle(controller, bystander):
    """A client's end is the end of its jobs."""
    c = Client(controller)
    marker = "sandmux-hostile-client-" + os.urandom(6).hex()
    c.request(1, EXEC, exec_body(["sh", "-c", "echo up; sleep 300", marker]))
    while c.receive()[0] != DATA:
        pass

    def there():
        return [p for p in os.listdir("/proc") if p.isdigit() and marker in
                cmdline(p)]
    assert there()
    c.raw(f(open_frame(2, EXEC, 500))[:9])
    c.close()
    assert wait_for(lambda: not there())


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_floods_of_status(controller):
    """Each has an answer of its own, which nobody reads."""
    c = Client(controller, target="")
    for number in range(1, 200):
        c.request(number, STATUS, b"\x50\1", out=10)
    c.send(*[credit_frame(n, 2, (1 << 64) - 1) for n in range(1, 200)])
    assert c.result(199)["outcome"] == 0
    c.close()
    controller.check()

# SPDX-License-Identifier: MIT
"""Whoever has the agent's uid can connect to the session's socket: it costs
the session nothing, and only who knows S hands a terminal over."""
import array
import os
import pty
import random
import select
import signal
import socket
import struct
import subprocess
import time
import tty

import pytest

import sealed
from conftest import wait_for
from test_hostile_host import Started

TTY = 4


@pytest.fixture
def agent(agent_program):
    """An agent with an honest host whose session has begun."""
    one = Started(agent_program)
    one.program = agent_program
    one.host.begin()
    one.host.wanted(sealed.RESUME)
    assert one.host.run(1, ["true"])["code"] == 0
    yield one
    one.close()


def connect(agent):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(b"\0" + agent.host.terms[2])
    return s


def hand(s, words, fds):
    data = b"".join(w.encode() + b"\0" for w in words)
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                        array.array("i", fds))] if fds else [])


def closed(s, timeout=5):
    """The core has dropped this connection."""
    s.settimeout(timeout)
    try:
        return s.recv(10) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def files(agent):
    return len(os.listdir(f"/proc/{agent.core()}/fd"))


def settled(agent):
    """How many files the core has when nothing goes on."""
    seen = [files(agent)]
    while len(seen) < 6 or len(set(seen[-6:])) > 1:
        time.sleep(0.05)
        seen.append(files(agent))
    return seen[-1]


def resident(agent):
    text = open(f"/proc/{agent.core()}/statm").read()
    return int(text.split()[1]) * 4096


def works(agent, request):
    done = agent.host.run(request, ["echo", "still"])
    assert (done["outcome"], done["code"], done[2]) == (0, 0, b"still\n")


class Attached:
    """The agent's own `attach`, on a terminal whose other end is ours."""

    def __init__(self, agent, link=2, secret=None, own=True):
        self.host = sealed.Host(link, agent.host)
        if secret:
            self.host.secret = secret
        self.master, slave = pty.openpty()
        tty.setraw(slave)

        def lead():
            os.setsid()
            if own:
                import fcntl
                import termios
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(
            [agent.program, "attach", *self.host.words()], stdin=slave,
            stdout=slave, stderr=subprocess.PIPE, preexec_fn=lead)
        os.close(slave)
        self.host.fd_in = self.host.fd_out = self.master

    def hand_over(self):
        """TERMINAL, and the errno that is its answer."""
        self.host.raw(self.host.sealer.header + self.host.record(
            struct.pack(">BI", sealed.TERMINAL, 0)))
        _, frame = self.host.receive()
        assert frame[0] == sealed.TERMINAL and len(frame) == 5
        return struct.unpack(">I", frame[1:])[0]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.master)


@pytest.fixture
def attach(agent):
    made = []

    def make(**how):
        made.append(Attached(agent, **how))
        return made[-1]
    yield make
    for one in made:
        one.close()


# ---- who knows S ---------------------------------------------------------

def test_a_terminal_is_handed_over(agent, attach):
    one = attach()
    one.host.meet()
    assert one.hand_over() == 0
    agent.host.request(2, sealed.EXEC, sealed.exec_body(
        ["sh", "-c", "tty; read x; echo got $x; exit 7"], flags=TTY,
        terminal=2))
    got = b""
    while not got.endswith(b"\r\n"):
        got += os.read(one.master, 4096)
    assert got.startswith(b"/dev/pts/")
    os.write(one.master, b"what\r")
    result = sealed.parse_result(agent.host.wanted(sealed.RESULT, request=2))
    assert (result["outcome"], result["code"]) == (0, 7)
    assert (result["in"], result["out"], result["err"]) == (0, 0, 0)
    # Let go of: the stub ends well, with all that was written before.
    assert one.process.wait(10) == 0
    assert os.read(one.master, 4096) == b"what\r\ngot what\r\n"


def test_it_is_used_once(agent, attach):
    one = attach()
    one.host.meet()
    assert one.hand_over() == 0
    for request, status in ((2, 0), (3, None)):
        agent.host.request(request, sealed.EXEC, sealed.exec_body(
            ["true"], flags=TTY, terminal=2))
        result = sealed.parse_result(agent.host.wanted(
            sealed.RESULT, request=request))
        if status is None:
            assert (result["outcome"], result["step"]) == (4, 22)
        else:
            assert (result["outcome"], result["code"]) == (0, 0)
    works(agent, 4)


@pytest.mark.parametrize("flags", [0, TTY | 8])
def test_only_a_job_on_a_terminal_gets_one(agent, attach, flags):
    one = attach()
    one.host.meet()
    assert one.hand_over() == 0
    agent.host.request(2, sealed.EXEC, sealed.exec_body(
        ["true"], flags=flags, terminal=2))
    result = sealed.parse_result(agent.host.wanted(sealed.RESULT, request=2))
    assert (result["outcome"], result["step"]) == (4, 1)
    assert one.process.wait(10) == 0


def test_what_the_resume_of_link_1_said_is_refused_there(agent, attach):
    """A position that the store has left: no session goes on from it."""
    one = attach()
    one.host.meet()
    one.host.raw(one.host.sealer.header + one.host.record(
        sealed.resume_frame(0)))
    assert one.process.wait(10) == 1
    assert agent.process.wait(10) == 0


def test_nothing_may_follow_the_hosts_record(agent, attach):
    one = attach()
    one.host.meet()
    one.host.raw(one.host.sealer.header + one.host.record(
        struct.pack(">BI", sealed.TERMINAL, 0)) + b"x")
    assert one.process.wait(10) == 1
    works(agent, 2)


def test_another_secret_opens_nothing(agent, attach):
    one = attach(secret=bytes(32))
    with pytest.raises((sealed.Dead, AssertionError)):
        one.host.meet()
    works(agent, 2)


def test_a_terminal_that_nobody_takes_is_given_back(agent, attach):
    before = settled(agent)
    one = attach()
    one.host.meet()
    assert one.hand_over() == 0
    start = time.monotonic()
    assert one.process.wait(30) == 0
    assert 5 < time.monotonic() - start < 15
    assert settled(agent) == before


def test_not_more_than_eight_are_kept(agent, attach):
    errors = []
    for link in range(2, 12):
        one = attach(link=link)
        one.host.meet()
        errors.append(one.hand_over())
    assert errors == [0] * 8 + [16] * 2             # EBUSY
    works(agent, 2)


def test_a_stub_that_does_not_lead_its_session(agent, agent_program):
    """As under a login shell that did not exec it."""
    host = sealed.Host(2, agent.host)
    pid, master = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", '"$@"; exit $?', "sh",
                             agent_program, "attach", *host.words()])
    one = Attached.__new__(Attached)
    one.host, host.fd_in, host.fd_out = host, master, master
    host.meet()
    assert one.hand_over() == 16                    # EBUSY
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    os.close(master)
    works(agent, 2)


def test_a_killed_stub_takes_the_terminal_back(agent, attach):
    before = settled(agent)
    one = attach()
    one.host.meet()
    assert one.hand_over() == 0
    one.process.send_signal(signal.SIGKILL)
    assert wait_for(lambda: settled(agent) == before)
    agent.host.request(2, sealed.EXEC, sealed.exec_body(
        ["true"], flags=TTY, terminal=2))
    result = sealed.parse_result(agent.host.wanted(sealed.RESULT, request=2))
    assert (result["outcome"], result["step"]) == (4, 22)


# ---- a stranger ------------------------------------------------------------

def try_once(agent, kind, rng):
    """One connection that must come to nothing."""
    words = sealed.Host(rng.choice([1, 2, 2 ** 32 - 1]), agent.host).words()
    with connect(agent) as s, open("/etc/passwd", "rb") as f:
        a, b = os.pipe()
        try:
            if kind == 0:
                return
            if kind == 1:
                s.send(os.urandom(rng.choice([1, 100, 600])))
            elif kind == 2:
                hand(s, words, [f.fileno(), f.fileno()])
            elif kind == 3:
                hand(s, words, [a])
            elif kind == 4:
                hand(s, words, [a, b, a, b])
            elif kind == 5:
                hand(s, [], [a, b])
            elif kind == 6:
                words[rng.randrange(5)] = "x"
                hand(s, words, [a, b])
            elif kind == 7:
                words[2] = "0" * 32
                hand(s, words, [a, b])
            else:
                # A real attempt, of which nothing comes.
                hand(s, words, [a, b])
                os.write(b, os.urandom(100))
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            os.close(a)
            os.close(b)


def test_ten_thousand_strangers(agent):
    rng = random.Random(1)
    agent.job(2)
    job = wait_for(lambda: [
        p for p in agent.sleepers(1) if b"300" in
        open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")])
    assert job
    before = settled(agent)
    for i in range(10000):
        try_once(agent, i % 9, rng)
        if i == 1000:
            grown = resident(agent)
        if i % 1000 == 0:
            works(agent, 3 + i // 1000)
    assert wait_for(lambda: settled(agent) == before)
    assert resident(agent) < grown + (1 << 20)
    assert all(os.path.exists(f"/proc/{p}") for p in job)
    works(agent, 100)


def test_four_at_a_time_for_a_second(agent, attach):
    """Who takes all places up holds others back, and not for long."""
    before = settled(agent)
    start = time.monotonic()
    silent = [connect(agent) for _ in range(4)]
    assert wait_for(lambda: files(agent) == before + 4)
    one = attach()
    works(agent, 2)
    one.host.meet(timeout=20)
    assert 1 <= time.monotonic() - start < 9
    assert one.hand_over() == 0
    # The oldest made room; the others have their ten seconds.
    assert closed(silent[0])
    assert not select.select(silent[1:], [], [], 1)[0]
    assert all(closed(s, 12) for s in silent[1:])
    for s in silent:
        s.close()


def test_another_user_is_not_heard(agent):
    if os.getuid() != 0:
        pytest.skip("needs root")
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(12345)
            s = connect(agent)
            os._exit(0 if closed(s) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    works(agent, 2)

# SPDX-License-Identifier: MIT
"""A session moves to another link: each line of PROTOCOL.md's crash table
against the real agent, with a host of our own that dies, lies and is late."""
import array
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import pytest

import sealed
from conftest import alive, children, gone, wait_for
from test_hostile_host import Started

LINGER = 60000
NO_SESSION = 69


class Further:
    """`attach` on pipes, up to READY; the host of a further link."""

    def __init__(self, agent, link, secret=None, meet=True):
        self.host = sealed.Host(link, agent.host)
        if secret:
            self.host.secret = secret
        self.process = subprocess.Popen(
            [agent.program, "attach", *self.host.words()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0)
        self.host.fd_in = self.process.stdout.fileno()
        self.host.fd_out = self.process.stdin.fileno()
        if meet:
            self.host.meet()

    def cut(self):
        self.process.stdin.close()
        self.process.stdout.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout,
                    self.process.stderr):
            end.close()


@pytest.fixture
def begin(agent_program):
    """A function: an agent whose session has begun."""
    made = []

    def make(**times):
        one = Started(agent_program)
        one.program = agent_program
        made.append(one)
        one.host.begin(**{"linger_ms": LINGER, **times})
        one.host.wanted(sealed.RESUME)
        one.pids = [one.process.pid, one.core()]
        return one
    yield make
    for one in made:
        one.close()


@pytest.fixture
def further():
    made = []

    def make(agent, link, **how):
        made.append(Further(agent, link, **how))
        return made[-1]
    yield make
    for one in made:
        one.close()


def sleepers(agent):
    """A job's two processes, and nothing of the agent's own."""
    agent.job()
    found = wait_for(lambda: [
        p for p in children(agent.pids[1]) if alive(p) and b"300" in
        pathlib.Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")])
    assert found
    return found


def cut(agent):
    """Link 1's own end: end of file both ways."""
    agent.process.stdin.close()
    agent.process.stdout.close()


def counter(agent, host, request):
    """A job that says a line when it gets one, with how often it did."""
    host.request(request, sealed.EXEC, sealed.exec_body(
        ["sh", "-c", "n=0; while read x; do n=$((n+1)); echo $n $x; done; "
         "exit 7", agent.marker], flags=1))


class Told:
    """What a counter's job was told, and what of its answer came."""

    def __init__(self, request):
        self.request, self.given, self.got = request, 0, b""

    def say(self, host, word):
        line = word + b"\n"
        host.frame(sealed.data_frame(self.request, 1, self.given, line))
        self.given += len(line)

    def until(self, host, line):
        while not self.got.endswith(line + b"\n"):
            frame = host.wanted(sealed.DATA, request=self.request)
            assert struct.unpack_from(">Q", frame, 6)[0] == len(self.got)
            self.got += frame[14:]

    def end(self, host):
        host.frame(sealed.eof_frame(self.request, 1, self.given))
        result = sealed.parse_result(host.wanted(sealed.RESULT,
                                                 request=self.request))
        assert (result["outcome"], result["code"]) == (0, 7)
        assert (result["in"], result["out"]) == (self.given, len(self.got))


def over(host):
    """Its link ends, whatever it says before."""
    with pytest.raises(sealed.Dead):
        while True:
            host.receive()


def works(host, request):
    done = host.run(request, ["echo", "still"])
    assert (done["outcome"], done["code"], done[2]) == (0, 0, b"still\n")


def check_end(agent, host):
    """CLOSE ends it all, the first stub included."""
    host.frame(sealed.close_frame(1))
    assert agent.process.wait(10) == 0
    agent.check_gone(agent.pids)


def dropped(one, timeout=20):
    """The core has let this attempt or link go: its stub ends."""
    try:
        one.process.wait(timeout)
        return True
    except subprocess.TimeoutExpired:
        return False


# ---- it goes on ----------------------------------------------------------

def test_a_cut_link_heals(begin, further):
    agent = begin()
    counter(agent, agent.host, 1)
    told = Told(1)
    told.say(agent.host, b"one")
    told.until(agent.host, b"1 one")
    cut(agent)
    last = agent.host
    for link in range(2, 6):
        one = further(agent, link)
        one.host.resume(last)
        word = b"w%d" % link
        told.say(one.host, word)
        told.until(one.host, b"%d %s" % (link, word))
        one.cut()
        last = one.host
    one = further(agent, 6)
    one.host.resume(last)
    told.end(one.host)
    works(one.host, 2)
    check_end(agent, one.host)


def test_the_first_stub_holds_nothing_up(begin, further):
    """It stays, so that the core is no zombie, without link 1's ends."""
    agent = begin()
    ends = {os.readlink(f"/proc/{agent.process.pid}/fd/{fd}")
            for fd in range(3)}
    assert all(name.startswith("pipe:") for name in ends)
    agent.process.stdin.close()
    assert wait_for(lambda: all(os.readlink(
        f"/proc/{agent.process.pid}/fd/{fd}") == "/dev/null"
        for fd in range(3)))
    # Nobody else has them either.
    for pid in (agent.pids[1], *children(agent.pids[1])):
        names = {os.readlink(entry) for entry in
                 pathlib.Path(f"/proc/{pid}/fd").iterdir()}
        assert not names & ends
    assert agent.process.poll() is None
    one = further(agent, 2)
    one.host.resume(agent.host)
    check_end(agent, one.host)


def test_what_was_not_acknowledged_comes_again(begin, further):
    """Output that filled the pipe, the store and the credit."""
    agent = begin()
    size = 3 << 20
    agent.host.request(1, sealed.EXEC, sealed.exec_body(
        ["sh", "-c", f"yes 0123456 | head -c {size}"]))
    got, last, link = b"", agent.host, 1
    while len(got) < size:
        try:
            for _ in range(1 + link % 7):
                frame = last.wanted(sealed.DATA, timeout=2)
                assert struct.unpack_from(">Q", frame, 6)[0] == len(got)
                got += frame[14:]
                if len(got) == size:
                    break       # RESULT is next
        except TimeoutError:
            last.ack()          # the store is full
            continue
        if link < 12:
            link += 1
            one = further(agent, link)
            one.host.resume(last)
            last = one.host
        else:
            last.ack()
    last.ack()
    assert got == b"0123456\n" * (size // 8)
    assert sealed.parse_result(last.wanted(sealed.RESULT))["code"] == 0


def test_a_silent_link_is_given_up(begin, further):
    """No end of input ever comes, as on OpenShell."""
    agent = begin(ping_ms=200, dead_ms=2000)
    jobs = sleepers(agent)
    time.sleep(4)
    assert all(alive(p) for p in jobs)
    one = further(agent, 2)
    one.host.resume(agent.host)
    works(one.host, 2)
    check_end(agent, one.host)


@pytest.mark.parametrize("what", [b"\0\0\0\x40" + b"x" * 64, b"\xff" * 40,
                                  b"login: "])
def test_what_does_not_open_breaks_the_link_alone(begin, further, what):
    agent = begin()
    jobs = sleepers(agent)
    agent.host.raw(what)
    over(agent.host)
    one = further(agent, 2)
    one.host.resume(agent.host)
    works(one.host, 2)
    assert all(alive(p) for p in jobs)
    check_end(agent, one.host)


@pytest.mark.parametrize("frame", [
    bytes([99]), sealed.data_frame(9, 1, 0, b"x"), sealed.resume_frame(0),
    struct.pack(">BQ", sealed.ACK, 1 << 40)])
def test_what_breaks_the_session_is_not_mended(begin, further, frame):
    agent = begin()
    agent.job()
    agent.host.frame(frame)
    assert agent.process.wait(10) == 0
    agent.check_gone(agent.pids)
    assert further(agent, 2, meet=False).process.wait(10) == NO_SESSION


# ---- who commits -----------------------------------------------------------

def test_ready_is_lost(begin, further):
    agent = begin()
    cut(agent)
    one = further(agent, 2, meet=False)
    other = further(agent, 3)
    other.host.resume(agent.host)
    works(other.host, 1)
    assert one.process.poll() is None
    one.cut()
    assert dropped(one)
    works(other.host, 2)


def test_resume_is_lost_and_comes_late(begin, further):
    agent = begin()
    cut(agent)
    late = further(agent, 2)
    one = further(agent, 3)
    one.host.resume(agent.host)
    works(one.host, 1)
    # It opens, and its number is not above the one that committed.
    late.host.go_on(agent.host)
    late.host.begin(linger_ms=1)
    with pytest.raises(sealed.Dead):
        late.host.wanted(sealed.RESUME)
    assert dropped(late)
    works(one.host, 2)
    one.cut()
    time.sleep(0.3)             # its linger of 1 ms counts for nothing
    last = further(agent, 4)
    last.host.resume(one.host)
    works(last.host, 3)


def test_the_cores_resume_is_lost(begin, further):
    agent = begin()
    counter(agent, agent.host, 1)
    told = Told(1)
    told.say(agent.host, b"one")
    told.until(agent.host, b"1 one")
    one = further(agent, 2)
    one.host.go_on(agent.host)
    one.host.begin(linger_ms=LINGER)
    # Link 1 is over; what link 2 said is never read.
    over(agent.host)
    other = further(agent, 3)
    other.host.resume(agent.host)
    assert dropped(one)
    told.say(other.host, b"two")
    told.until(other.host, b"2 two")
    told.end(other.host)


def test_the_newest_wins_while_both_live(begin, further):
    """What was said on the old one and not read there is said again."""
    agent = begin()
    counter(agent, agent.host, 1)
    told = Told(1)
    last = agent.host
    for link in range(2, 8):
        one = further(agent, link)
        told.say(last, b"w%d" % link)
        one.host.resume(last)
        told.until(one.host, b"%d w%d" % (link - 1, link))
        over(last)
        last = one.host
    told.end(last)


@pytest.mark.parametrize("number", [2, 3])
def test_a_number_is_used_once(begin, further, number):
    """With S, and yet too late."""
    agent = begin()
    one = further(agent, 3)
    one.host.resume(agent.host)
    again = further(agent, number)
    again.host.go_on(one.host)
    again.host.begin(linger_ms=LINGER)
    with pytest.raises(sealed.Dead):
        again.host.wanted(sealed.RESUME)
    assert dropped(again)
    works(one.host, 1)


@pytest.mark.parametrize("number", [2, 3, 4, 2 ** 32 - 1])
def test_without_s_no_number_helps(begin, further, number):
    """Above, below, and the very one that has the session."""
    agent = begin()
    one = further(agent, 3)
    one.host.resume(agent.host)
    liar = further(agent, number, secret=bytes(32), meet=False)
    with pytest.raises((sealed.Dead, AssertionError)):
        liar.host.meet()
    # What it says opens nothing: raw bytes where RESUME is due.
    try:
        liar.host.raw(os.urandom(sealed.HEADER + 200))
    except sealed.Dead:
        pass
    assert dropped(liar)
    works(one.host, 1)
    check_end(agent, one.host)


@pytest.mark.parametrize("ahead", [-1, 1, 1 << 40])
def test_a_position_that_nobody_has(begin, further, ahead):
    agent = begin()
    works(agent.host, 1)
    time.sleep(0.1)             # the ACK is there
    one = further(agent, 2)
    one.host.go_on(agent.host)
    one.host.expected += ahead
    one.host.begin(linger_ms=LINGER)
    assert agent.process.wait(10) == 0
    agent.check_gone(agent.pids)


# ---- stubs that die ----------------------------------------------------------

def socket_of(agent):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(b"\0" + agent.host.terms[2])
    return s


def test_a_stub_that_dies_before_it_has_said_a_word(begin, further):
    agent = begin()
    cut(agent)
    for _ in range(10):
        socket_of(agent).close()
    one = further(agent, 2)
    one.host.resume(agent.host)
    works(one.host, 1)


def test_a_stub_that_dies_with_the_descriptors_handed_over(begin, further):
    """They are the core's own: the link works without it."""
    agent = begin()
    cut(agent)
    one = further(agent, 2)
    one.process.kill()
    one.process.wait()
    time.sleep(0.2)
    late = further(agent, 3)
    late.host.resume(agent.host)
    works(late.host, 1)


def test_a_stub_that_dies_while_its_link_is_up(begin, further):
    agent = begin()
    one = further(agent, 2)
    one.host.resume(agent.host)
    one.process.kill()
    one.process.wait()
    works(one.host, 1)
    other = further(agent, 3)
    other.host.resume(one.host)
    works(other.host, 2)


def test_the_first_stub_dies(begin, further):
    agent = begin()
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.process.wait()
    works(agent.host, 1)
    one = further(agent, 2)
    one.host.resume(agent.host)
    works(one.host, 2)
    one.host.frame(sealed.close_frame(1))
    assert not gone(agent.pids, 10)


def test_the_core_dies(begin, further):
    agent = begin()
    one = further(agent, 2)
    one.host.resume(agent.host)
    os.kill(agent.pids[1], signal.SIGKILL)
    assert dropped(one)
    over(one.host)
    assert agent.process.wait(10) != 0
    other = further(agent, 3, meet=False)
    assert other.process.wait(10) == NO_SESSION
    assert b"refused" in other.process.stderr.read()


# ---- how long it waits -------------------------------------------------------

def test_linger_passes(begin, further):
    agent = begin(linger_ms=4000)
    jobs = sleepers(agent)
    start = time.monotonic()
    cut(agent)
    time.sleep(1.2)
    assert all(alive(p) for p in jobs)
    assert agent.process.wait(20) == 0
    assert time.monotonic() - start >= 4
    agent.check_gone(agent.pids + jobs)
    assert further(agent, 2, meet=False).process.wait(10) == NO_SESSION


def test_an_attempt_is_no_link(begin, further):
    """READY alone does not lengthen the wait; RESUME sets a new one."""
    agent = begin(linger_ms=6000)
    start = time.monotonic()
    cut(agent)
    for link in range(2, 6):
        further(agent, link)
        last = time.monotonic()
        time.sleep(0.75)
    assert agent.process.wait(20) == 0
    # Seconds before it would have ended, had the last one counted.
    assert start + 6 <= time.monotonic() < last + 6


def test_each_link_says_how_long(begin, further):
    agent = begin(linger_ms=LINGER)
    one = further(agent, 2)
    one.host.resume(agent.host, linger_ms=500)
    one.cut()
    assert agent.process.wait(10) == 0


def test_a_stopped_core_does_not_wake_into_its_end(begin, further):
    agent = begin(linger_ms=10000)
    jobs = sleepers(agent)
    cut(agent)
    time.sleep(0.3)
    os.kill(agent.pids[1], signal.SIGSTOP)
    time.sleep(11)
    os.kill(agent.pids[1], signal.SIGCONT)
    one = further(agent, 2)
    one.host.resume(agent.host)
    works(one.host, 2)
    assert all(alive(p) for p in jobs)


def resident(pid):
    """Its own pages, in bytes: what is resident and not a file's."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024


def test_parked(begin, further):
    """CLOSE of the link alone: answered, then it waits as it was told."""
    agent = begin(linger_ms=1)
    works(agent.host, 1)
    # Busy once, so that there is memory to give back.
    agent.host.request(2, sealed.EXEC, sealed.exec_body(
        ["head", "-c", "8000000", "/dev/zero"]))
    got = 0
    while got < 8000000:
        got += len(agent.host.wanted(sealed.DATA)) - 14
        agent.host.ack()
    agent.host.wanted(sealed.RESULT)
    agent.host.ack()
    agent.host.frame(sealed.close_frame(0, 2 ** 32 - 1))
    answer = agent.host.wanted(sealed.CLOSE)
    assert answer == sealed.close_frame(0)
    over(agent.host)
    cut(agent)
    time.sleep(1.5)
    assert agent.process.poll() is None
    print("parked:", resident(agent.pids[1]), "bytes")
    assert resident(agent.pids[1]) < 1 << 20
    one = further(agent, 2)
    one.host.resume(agent.host, linger_ms=1)
    works(one.host, 3)
    start = time.monotonic()
    one.host.frame(sealed.close_frame(0, 1))
    one.host.wanted(sealed.CLOSE)
    assert dropped(one)
    assert agent.process.wait(20) == 0
    assert time.monotonic() - start >= 1


# ---- a stranger at the socket while the session has no link -------------------

def test_strangers_while_there_is_no_link(begin, further):
    agent = begin()
    jobs = sleepers(agent)
    cut(agent)
    time.sleep(0.2)
    before = len(os.listdir(f"/proc/{agent.pids[1]}/fd"))
    count = 10000 if os.environ.get("SANDMUX_LONG") else 300
    for i in range(count):
        words = sealed.Host(1 + i % 5, agent.host).words()
        a, b = os.pipe()
        with socket_of(agent) as s:
            data = b"".join(w.encode() + b"\0" for w in words)
            try:
                if i % 3:
                    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                        array.array("i", [a, b]))])
                    os.write(b, os.urandom(300))
            except (BrokenPipeError, ConnectionResetError):
                pass
        os.close(a)
        os.close(b)
    assert wait_for(lambda: len(os.listdir(
        f"/proc/{agent.pids[1]}/fd")) == before)
    assert all(alive(p) for p in jobs)
    one = further(agent, 9)
    one.host.resume(agent.host)
    works(one.host, 2)
    check_end(agent, one.host)

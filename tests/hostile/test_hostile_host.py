# SPDX-License-Identifier: MIT
"""A host that lies, babbles or falls silent: the agent ends, its jobs too."""
import contextlib
import os
import secrets
import signal
import struct
import subprocess
import time

import pytest

import sealed
from conftest import alive, children, gone, peak, processes, wait_for

MIB = 1 << 20
SOON = 4


class Started:
    """An agent on pipes and its honest host, up to READY."""

    def __init__(self, program, link=1, words=None, meet=True):
        self.marker = "sandmux-hostile-" + secrets.token_hex(8)
        self.host = sealed.Host(link)
        env = {**os.environ, "HOSTILE": self.marker}
        self.process = subprocess.Popen(
            [program, "start", *(words or self.host.words())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0, env=env)
        self.host.fd_in = self.process.stdout.fileno()
        self.host.fd_out = self.process.stdin.fileno()
        if meet:
            self.host.meet()

    def core(self):
        """The core is the stub's child that has a session of its own."""
        for pid in children(self.process.pid):
            if os.getsid(pid) == pid:
                return pid
        raise AssertionError("no core")

    def all(self):
        return set([self.process.pid, *children(self.process.pid),
                    *processes(self.marker)])

    def job(self, request=1):
        """A job with a child of its own; proven to be there."""
        body = sealed.exec_body(["sh", "-c", "trap '' TERM; sleep 300 & "
                                 "echo up; sleep 300", self.marker])
        self.host.request(request, sealed.EXEC, body)
        assert self.host.wanted(sealed.DATA)[14:] == b"up\n"
        jobs = wait_for(lambda: self.sleepers(2))
        assert len(jobs) >= 2, "the job is not there"
        return jobs

    def sleepers(self, least):
        """Processes of the job: below the core, found by the marker."""
        core = self.core()
        found = [p for p in children(core) if alive(p)]
        return found if len(found) >= least else []

    def check_gone(self, pids, timeout=SOON):
        left = gone(pids, timeout)
        assert not left, [open(f"/proc/{p}/cmdline").read() for p in left
                          if alive(p)]
        assert not [p for p in processes(self.marker) if alive(p)]

    def close(self):
        for pid in self.all():
            if pid != os.getpid() and alive(pid):
                os.kill(pid, signal.SIGKILL)
        for end in (self.process.stdin, self.process.stdout,
                    self.process.stderr):
            end.close()
        self.process.wait()


@pytest.fixture
def start(agent_program):
    made = []

    def make(**how):
        made.append(Started(agent_program, **how))
        return made[-1]
    yield make
    for one in made:
        one.close()


# ---- after RESUME: with a job under way --------------------------------

def flipped(host):
    record = bytearray(host.record(sealed.open_frame(2, sealed.EXEC, 10)))
    record[20] ^= 1
    host.raw(record)


def many_opens(host):
    for request in range(2, 300):
        host.frame(sealed.open_frame(request, sealed.EXEC, 10))


def replayed(host):
    host.frame(struct.pack(">BQ", sealed.PING, 7))
    host.raw(host.last)


def dropped(host):
    host.record(struct.pack(">BQ", sealed.PING, 7))
    host.frame(struct.pack(">BQ", sealed.PING, 8))


def reordered(host):
    first = host.record(struct.pack(">BQ", sealed.PING, 7))
    second = host.record(struct.pack(">BQ", sealed.PING, 8))
    host.raw(second + first)


def skipped_number(host):
    host.frame(sealed.open_frame(2, sealed.EXEC, 10), number=host.next + 1)


def repeated_number(host):
    host.frame(sealed.open_frame(2, sealed.EXEC, 10), number=host.next - 1)


def beyond_credit(host):
    """The first body has credit for all of it, the second waits its turn."""
    host.frame(sealed.open_frame(2, sealed.EXEC, 100000))
    host.frame(sealed.open_frame(3, sealed.EXEC, 100000))
    host.frame(sealed.data_frame(2, 0, 0, b"x" * 9000))
    host.frame(sealed.data_frame(3, 0, 0, b"x" * 8193))


def input_beyond_credit(host):
    host.request(2, sealed.ECHO, b"\x44\0", out=0)
    host.frame(sealed.data_frame(2, 1, 0, b"x" * 8193))


def body_too_long(host):
    host.frame(sealed.open_frame(2, sealed.EXEC, 10))
    host.frame(sealed.data_frame(2, 0, 0, b"x" * 11))


def wrong_total(host):
    host.request(2, sealed.ECHO, b"\x44\0")
    host.frame(sealed.data_frame(2, 1, 0, b"abc"))
    host.frame(sealed.eof_frame(2, 1, 2))


def after_end(host):
    host.request(2, sealed.ECHO, b"\x44\0", out=0)
    host.frame(sealed.data_frame(2, 1, 0, b"abc"))
    host.frame(sealed.eof_frame(2, 1, 3))
    host.frame(sealed.data_frame(2, 1, 3, b"d"))


ENDS = {
    "garbage": lambda h: h.raw(os.urandom(5000)),
    "text": lambda h: h.raw(b"-bash: no job control in this shell\n"),
    "flipped": flipped,
    "replayed": replayed,
    "dropped": dropped,
    "reordered": reordered,
    "length zero": lambda h: h.raw(bytes(4)),
    "length too small": lambda h: h.raw(struct.pack(">I", 25) + bytes(25)),
    "length too large": lambda h: h.raw(struct.pack(">I", 32765) +
                                        bytes(32765)),
    "length huge": lambda h: h.raw(b"\xff" * 4),
    "another length sealed": lambda h: h.frame(
        struct.pack(">BQ", sealed.PING, 7), length=27),
    "final tag": lambda h: h.frame(struct.pack(">BQ", sealed.PING, 7),
                                   tag=3),
    "unknown type": lambda h: h.frame(b"\x0f"),
    "unknown session type": lambda h: h.frame(b"\x2f", number=h.next),
    "client's type": lambda h: h.frame(b"\x21" + bytes(14)),
    "second RESUME": lambda h: h.frame(sealed.resume_frame()),
    "READY": lambda h: h.frame(bytes([sealed.READY]) + bytes(63)),
    "RESULT": lambda h: h.frame(sealed.result_frame(1)),
    "LOG": lambda h: h.frame(b"\x18\1" + sealed.f(b"hi")),
    "trailing": lambda h: h.frame(struct.pack(">BQ", sealed.PING, 7) +
                                  b"x"),
    "short": lambda h: h.frame(struct.pack(">BI", sealed.PING, 7)),
    "ACK ahead": lambda h: h.frame(struct.pack(">BQ", sealed.ACK, 1 << 40)),
    "ACK behind": lambda h: (h.ack(), h.frame(struct.pack(
        ">BQ", sealed.ACK, 0))),
    "skipped number": skipped_number,
    "repeated number": repeated_number,
    "ids fall": lambda h: h.frame(sealed.open_frame(1, sealed.EXEC, 10)),
    "no body": lambda h: h.frame(sealed.open_frame(2, sealed.EXEC, 0)),
    "body over limit": lambda h: h.frame(sealed.open_frame(
        2, sealed.EXEC, 0xffffffff)),
    "body too long": body_too_long,
    "beyond credit": beyond_credit,
    "input beyond credit": input_beyond_credit,
    "wrong offset": lambda h: (
        h.frame(sealed.open_frame(2, sealed.EXEC, 10)),
        h.frame(sealed.data_frame(2, 0, 1, b"x"))),
    "wrong channel": lambda h: h.frame(sealed.data_frame(1, 2, 0, b"x")),
    "channel 200": lambda h: h.frame(sealed.credit_frame(1, 200, 9)),
    "never opened": lambda h: h.frame(sealed.credit_frame(77, 2, 9)),
    "signal 0": lambda h: h.frame(struct.pack(">BIB", sealed.SIGNAL, 1, 0)),
    "signal 200": lambda h: h.frame(struct.pack(">BIB", sealed.SIGNAL, 1,
                                                200)),
    "end of the body": lambda h: h.frame(sealed.eof_frame(1, 0, 0)),
    "wrong total": wrong_total,
    "after the end": after_end,
    "too many requests": many_opens,
    "CLOSE": lambda h: h.frame(sealed.close_frame(1)),
    "CLOSE of the link": lambda h: h.frame(sealed.close_frame(0)),
    # The end itself is the test's to make: it has the agent's pipe.
    "half a record, then the end": lambda h: h.raw(
        h.record(struct.pack(">BQ", sealed.PING, 7))[:17]),
}


@pytest.mark.parametrize("act", ENDS)
def test_the_link_ends_and_nothing_is_left(start, act):
    agent = start()
    agent.host.begin()
    agent.job()
    everything = agent.all()
    assert len(everything) >= 4
    with contextlib.suppress(sealed.Dead):  # it may end while we speak
        ENDS[act](agent.host)
    if act.startswith("half"):
        agent.process.stdin.close()
    agent.check_gone(everything)


@pytest.mark.parametrize("closed", ["stdin", "stdout", "both"])
def test_closed_pipes(start, closed):
    agent = start()
    agent.host.begin(ping_ms=200, dead_ms=1000)
    agent.job()
    everything = agent.all()
    if closed != "stdout":
        agent.process.stdin.close()
    if closed != "stdin":
        agent.process.stdout.close()
    agent.check_gone(everything)


def test_silence(start):
    """No bytes, no end: dead after dead_ms, whatever the transport does."""
    agent = start()
    agent.host.begin(ping_ms=200, dead_ms=1000)
    agent.job()
    everything = agent.all()
    begun = time.monotonic()
    agent.check_gone(everything, 6)
    assert time.monotonic() - begun > 0.5


def test_half_a_record_and_silence(start):
    """Bytes that never become a record do not count as life."""
    agent = start()
    agent.host.begin(ping_ms=200, dead_ms=1000)
    agent.job()
    everything = agent.all()
    record = agent.host.record(sealed.data_frame(9, 1, 0, b"x" * 20000))
    begun = time.monotonic()
    for i in range(60):
        try:
            agent.host.raw(record[i:i + 1])
        except sealed.Dead:
            break
        time.sleep(0.05)
    agent.check_gone(everything, 4)
    assert time.monotonic() - begun < 8


def test_nothing_is_read(start):
    """A flood that nobody reads is held by credit and store, then dead."""
    agent = start()
    agent.host.begin(ping_ms=300, dead_ms=1500)
    core = agent.core()
    for request in range(1, 40):
        agent.host.request(request, sealed.EXEC, sealed.exec_body(
            ["sh", "-c", "exec cat /dev/zero", agent.marker]))
    assert wait_for(lambda: agent.sleepers(10))
    everything = agent.all()
    time.sleep(0.7)
    assert peak(core) < 16 * MIB
    agent.check_gone(everything, 8)


def test_dripped_bytes_still_work(start):
    agent = start()
    host = agent.host
    host.begin()
    record = host.record(sealed.open_frame(1, sealed.EXEC, len(
        sealed.exec_body(["echo", "hi"]))))
    record += host.record(sealed.data_frame(1, 0, 0, sealed.exec_body(
        ["echo", "hi"])))
    for byte in record:
        host.raw(bytes([byte]))
    assert host.wanted(sealed.DATA)[14:] == b"hi\n"
    result = sealed.parse_result(host.wanted(sealed.RESULT))
    assert (result["outcome"], result["code"]) == (0, 0)


def test_wrong_bodies_are_answered(start):
    """A body that cannot be read is one request's failure, not the link's."""
    agent = start()
    host = agent.host
    host.begin()
    bodies = [(sealed.EXEC, b"\x40"), (sealed.EXEC, os.urandom(64)),
              (sealed.EXEC, sealed.exec_body([])), (sealed.GET, b"\x42"),
              (sealed.PUT, b"\x41" + bytes(12)), (sealed.PROBE, b"\x44\0"),
              (sealed.STOP, b"\x51\0"), (200, b"\xc8"),
              (sealed.EXEC, sealed.exec_body(["a\0b"])),
              (sealed.EXEC, sealed.exec_body(["true"], env=["novalue"]))]
    for request, (kind, body) in enumerate(bodies, 1):
        host.request(request, kind, body)
        result = sealed.parse_result(host.wanted(sealed.RESULT))
        assert result["outcome"] == 4 and result["step"] == 1, (kind, body)
        assert result["text"]
    assert host.run(99, ["echo", "ok"])[2] == b"ok\n"


def test_bodies_never_completed(start):
    """256 half bodies, each as large as its credit lets it be."""
    agent = start()
    host = agent.host
    host.begin()
    core = agent.core()
    size = 1500000
    for request in range(1, 256):
        host.frame(sealed.open_frame(request, sealed.EXEC, size))
        host.frame(sealed.data_frame(request, 0, 0, bytes(8192)))
    credit = host.wanted(sealed.CREDIT)
    request, channel, limit = struct.unpack_from(">IBQ", credit, 1)
    assert channel == 0 and limit == size
    sent = 8192
    while sent < size - 1:
        n = min(30000, size - 1 - sent)
        host.frame(sealed.data_frame(request, 0, sent, bytes(n)))
        sent += n
    assert host.run(300, ["echo", "ok"])[2] == b"ok\n"
    assert peak(core) < 16 * MIB


def test_cancelled_bodies_take_no_memory(start):
    """Bodies all but complete, then cancelled: nothing is kept of them."""
    agent = start()
    host = agent.host
    host.begin()
    core = agent.core()
    size = 1500000
    for request in range(1, 30):
        host.frame(sealed.open_frame(request, sealed.EXEC, size))
        sent = 0
        while sent < size - 1:
            n = min(32000, size - 1 - sent)
            if sent == 0:
                n = 8192
            elif sent == 8192:
                host.wanted(sealed.CREDIT, request=request)
            host.frame(sealed.data_frame(request, 0, sent, bytes(n)))
            sent += n
        host.frame(struct.pack(">BI", sealed.CANCEL, request))
    assert host.run(300, ["echo", "ok"])[2] == b"ok\n"
    assert peak(core) < 16 * MIB


# ---- before RESUME -----------------------------------------------------

EARLY = {
    "garbage": lambda h: h.raw(os.urandom(200)),
    "a message before RESUME": lambda h: h.raw(
        h.sealer.header + h.record(struct.pack(">BQ", sealed.PING, 1))),
    "a session frame before RESUME": lambda h: h.raw(
        h.sealer.header + h.record(sealed.open_frame(1, sealed.EXEC, 10))),
    "a position that is not 0": lambda h: h.raw(
        h.sealer.header + h.record(sealed.resume_frame(7, 5000, 20000))),
    "an own hello": lambda h: h.raw(b"SANDMUX-HELLO 0001-0001 " +
                                    b"0" * 32 + b" " + b"0" * 64 + b"\n" +
                                    bytes(200)),
}


@pytest.mark.parametrize("act", EARLY)
def test_before_resume(start, act):
    agent = start()
    everything = agent.all()
    with contextlib.suppress(sealed.Dead):
        EARLY[act](agent.host)
    agent.check_gone(everything)


def test_no_resume_ever(start):
    """Ten seconds after READY the core ends by itself."""
    agents = [start(), start()]
    agents[1].host.raw(b"x" * 10)
    everything = [a.all() for a in agents]
    time.sleep(1)
    assert all(alive(p) for pids in everything for p in pids)
    for agent, pids in zip(agents, everything):
        agent.check_gone(pids, 13)


def test_a_zero_host_key(start):
    """X25519 refuses it: no READY, and the agent is gone."""
    host = sealed.Host()
    agent = start(words=[*host.words()[:4], "00" * 32], meet=False)
    agent.process.wait(timeout=15)
    assert b"SANDMUX-HELLO" not in agent.process.stdout.read()
    agent.check_gone(agent.all())


BAD_WORDS = {
    "versions": lambda w: ["0001-000g", *w[1:]],
    "token": lambda w: [w[0], w[1][:-1], *w[2:]],
    "upper case": lambda w: [w[0], w[1][:-1] + "A", *w[2:]],
    "session": lambda w: [*w[:2], "", *w[3:]],
    "link number": lambda w: [*w[:3], "00000000", w[4]],
    "host key": lambda w: [*w[:4], w[4] + "0"],
    "too few": lambda w: w[:4],
}


@pytest.mark.parametrize("what", BAD_WORDS)
def test_bad_words(start, what):
    agent = start(words=BAD_WORDS[what](sealed.Host().words()), meet=False)
    assert agent.process.wait(timeout=10) == 2
    assert agent.process.stdout.read() == b""
    assert agent.process.stderr.read()
    agent.check_gone(agent.all())


def test_unknown_options_are_ignored(start):
    host = sealed.Host()
    agent = start(words=[*host.words(), "later=thing", "more"], meet=False)
    host.fd_in = agent.process.stdout.fileno()
    host.fd_out = agent.process.stdin.fileno()
    assert host.meet() == b""
    host.begin()
    assert host.run(1, ["echo", "hi"])[2] == b"hi\n"

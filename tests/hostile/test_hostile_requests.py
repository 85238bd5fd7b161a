# SPDX-License-Identifier: MIT
"""Requests about jobs from a host that lies: fields out of every range, cut
and bent bodies, jobs that are not its own.  Each one is answered, the agent
stays small and goes on, and nothing is left in the end."""
import os
import pathlib
import random
import struct
import sys
import time

import pytest

import sealed
from conftest import BUILD, gone, peak, wait_for
from test_hostile_host import Started

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "vectors"))
import make_wire  # noqa: E402
from make_wire import MAX64, encode, items, u32  # noqa: E402

EXEC, ECHO, JOBS, KILL, ATTACH = 64, 68, 69, 70, 71
STDIN, CLEAR, TTY, DETACH, BACKGROUND, UMASK, SHELL = (
    1 << i for i in range(7))
FOLLOW, IN, QUIET, FORGET = 1, 2, 4, 8
MIB = 1 << 20
MOST = 2 ** 32 - 1
EXITED, FAILED = 0, 4
USAGE, BUSY, CHDIR, EXEC_STEP, USER, LIMIT, PTY, JOB = (
    1, 2, 6, 7, 19, 21, 22, 23)
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))


class Asker:
    """An agent, and requests to it one by one."""

    seconds = 30                # for one of them, on a busy machine

    def __init__(self, program):
        self.agent, self.number = Started(program), 0
        self.host = self.agent.host
        self.host.begin()
        self.core, self.plain = self.agent.core(), "asan" not in program

    def open(self, body, kind=None, out=1 << 40):
        self.number += 1
        self.host.request(self.number, body[0] if kind is None else kind,
                          body, out=out)
        return self.number

    def frames(self, number):
        """A request's frames, as they come; all is acknowledged, or the
        agent must keep it."""
        end, got = time.monotonic() + self.seconds, 0
        while True:
            _, frame = self.host.receive(end - time.monotonic())
            got += 1
            if got % 20 == 0:
                self.host.ack()
            if frame[0] == sealed.PING:
                self.host.frame(sealed.pong_frame(frame))
            elif frame[0] in (sealed.DATA, sealed.CREDIT, sealed.RESULT) and (
                    frame[1:5] == u32(number)):
                yield frame

    def result(self, number):
        self.host.ack()
        for frame in self.frames(number):
            if frame[0] == sealed.RESULT:
                return sealed.parse_result(frame)

    def ask(self, body, kind=None, **how):
        return self.result(self.open(body, kind, **how))

    def exec(self, **how):
        how.setdefault("argv", [b"/bin/true"])
        return encode("exec", **how)

    def detached(self, script, **how):
        """A detached job's number."""
        result = self.ask(self.exec(argv=[b"/bin/sh", b"-c", script],
                                    flags=DETACH, **how))
        assert result["outcome"] == EXITED, result
        return make_wire.decode(result["info"])[1]["job"]

    def listed(self):
        """JOBS: the fields of each."""
        number, whole = self.open(encode("jobs")), b""
        for frame in self.frames(number):
            if frame[0] == sealed.RESULT:
                break
            if frame[0] == sealed.DATA:
                whole += frame[14:]
        found, at = [], 0
        while at < len(whole):
            item, at = make_wire.take_f(whole, at)
            found.append(make_wire.decode(item)[1])
        return found

    def check(self):
        result = self.ask(self.exec(argv=[b"/bin/sh", b"-c", b"exit 5"]))
        assert (result["outcome"], result["code"]) == (EXITED, 5)
        if self.plain:
            assert peak(self.core) < 16 * MIB


@pytest.fixture(params=["plain", "asan"])
def asker(request, agent_program):
    program = agent_program
    if request.param == "asan":
        program = str(BUILD / "asan" / "agent" / "sandmux-agent")
        if not os.path.exists(program):
            pytest.skip("no build with sanitizers")
    one = Asker(program)
    try:
        yield one
        one.check()
        everything = one.agent.all()
        # An init that waits is all that may be there, and it goes too.
        one.agent.process.stdin.close()
        assert gone(everything, 8) == []
        assert one.agent.process.stderr.read() == b""
    finally:
        one.agent.close()


# ---- EXEC -----------------------------------------------------------------

LIMITED = struct.pack(">BQQ", 7, 64, 64)
# Fields at their ends; what is said of each: (outcome, step).
RANGES = [
    ({"flags": MOST & ~SHELL & ~TTY & ~DETACH & ~STDIN}, (EXITED, 0)),
    ({"flags": 1 << 31}, (EXITED, 0)),
    ({"flags": SHELL}, (FAILED, USAGE)),
    ({"timeout_ms": MAX64}, (EXITED, 0)),
    ({"timeout_ms": MAX64 // 1000}, (EXITED, 0)),
    ({"grace_ms": MOST}, (EXITED, 0)),
    ({"rows": 65535, "columns": 65535}, (EXITED, 0)),
    ({"flags": UMASK, "umask": MOST}, (EXITED, 0)),
    ({"nice": 2 ** 31 - 1}, (EXITED, 0)),
    ({"keep": MOST}, (EXITED, 0)),
    ({"terminal": MOST}, (FAILED, PTY)),
    ({"terminal": 1, "flags": TTY}, (FAILED, PTY)),
    ({"user": b"u" * 256}, (FAILED, USER)),
    ({"user": b"u" * 257}, (FAILED, USAGE)),
    ({"user": b"0\0"}, (FAILED, USAGE)),
    ({"user": b":" * 256}, (FAILED, USER)),
    ({"user": b"9" * 256}, (FAILED, USER)),
    ({"cwd": b"/" + b"d" * 4094}, (FAILED, CHDIR)),
    ({"cwd": b"/" + b"d" * 5000}, (FAILED, USAGE)),
    ({"cwd": b"/\0"}, (FAILED, USAGE)),
    ({"argv": []}, (FAILED, USAGE)),
    ({"argv": [b""]}, (FAILED, EXEC_STEP)),
    ({"argv": [b"/bin/true\0"]}, (FAILED, USAGE)),
    ({"argv": [b"x" * 5000]}, (FAILED, EXEC_STEP)),
    ({"argv": [b"/bin/true"] + [b""] * 20000}, (EXITED, 0)),
    ({"argv": [b"/bin/true"] + [b""] * 40000}, (FAILED, USAGE)),
    ({"argv": [b"/bin/true", b"x" * 200000]}, (FAILED, EXEC_STEP)),
    ({"env": [b"A=" + b"%d" % i for i in range(20000)]}, (EXITED, 0)),
    ({"env": [b"=" * 100]}, (FAILED, USAGE)),
    ({"env": [b""]}, (FAILED, USAGE)),
    ({"unset": [b"x" * 1000] * 100 + [b"", b"=", b"PATH"]}, (EXITED, 0)),
    ({"unset": [b"\0"]}, (FAILED, USAGE)),
    ({"limits": [LIMITED] * 16}, (EXITED, 0)),
    ({"limits": [LIMITED] * 17}, (FAILED, USAGE)),
    ({"limits": [LIMITED[:-1]]}, (FAILED, USAGE)),
    ({"limits": [LIMITED + b"x"]}, (FAILED, USAGE)),
    ({"limits": [b""]}, (FAILED, USAGE)),
    ({"limits": [struct.pack(">BQQ", 255, 1, 1)]}, (FAILED, LIMIT)),
    ({"limits": [struct.pack(">BQQ", 7, 65, 64)]}, (FAILED, LIMIT)),
    ({"limits": [struct.pack(">BQQ", 7, 0, 0)]}, (EXITED, 0)),
]


def test_every_field_of_exec(asker):
    for how, (outcome, step) in RANGES:
        body = asker.exec(**how)
        if len(body) > 8192:        # beyond the first credit
            result = big(asker, body)
        else:
            result = asker.ask(body)
        what = {k: str(v)[:60] for k, v in how.items()}
        assert (result["outcome"], result["step"]) == (outcome, step), (
            what, result)


def big(asker, body):
    asker.number += 1
    host, number, sent = asker.host, asker.number, 0
    host.frame(sealed.open_frame(number, EXEC, len(body), 1 << 40, 1 << 40))
    limit = 8192
    while sent < len(body):
        if sent == limit:
            credit = host.wanted(sealed.CREDIT, request=number)
            assert credit[5] == 0
            (limit,) = struct.unpack_from(">Q", credit, 6)
        n = min(30000, limit - sent, len(body) - sent)
        host.frame(sealed.data_frame(number, 0, sent, body[sent:sent + n]))
        sent += n
    return asker.result(number)


def test_cut_bodies(asker):
    """Every request about jobs, cut at every byte, and one byte longer."""
    for body in (asker.exec(argv=[b"/bin/false"], env=[b"A=b"], cwd=b"/",
                            limits=[LIMITED], unset=[b"C"]),
                 encode("jobs"), encode("kill", job=1),
                 encode("attach", job=1)):
        for bent in [body[:n] for n in range(1, len(body))] + [body + b"\0"]:
            result = asker.ask(bent)
            assert (result["outcome"], result["step"]) == (FAILED, USAGE), (
                bent, result)


def test_lists_that_lie(asker):
    good = asker.exec()
    argv = items(b"/bin/true")
    for bad in (u32(MOST) + argv[4:],
                argv[:4] + u32(2) + argv[8:],
                argv[:4] + u32(0) + argv[8:],
                argv[:4] + u32(MOST) + argv[8:],
                argv[:8] + u32(10) + argv[12:],
                argv[:8] + u32(MOST) + argv[12:],
                make_wire.f(u32(MOST)), make_wire.f(b""), make_wire.f(b"\0"),
                u32(0)):
        result = asker.ask(good.replace(argv, bad))
        assert (result["outcome"], result["step"]) == (FAILED, USAGE), bad


def test_bent_bodies(asker):
    """A random byte is another: each is answered, by whatever it is now."""
    print("SEED", SEED)
    rng = random.Random(SEED)
    job = asker.detached(b"exec sleep 300")
    for i in range(400):
        body = bytearray(rng.choice([
            asker.exec(limits=[LIMITED], env=[b"A=b"], timeout_ms=2000),
            encode("kill", job=job + 1000, signal=15),
            encode("attach", job=job + 1000, flags=FOLLOW, out=1, err=1)]))
        at = rng.randrange(len(body))
        body[at] = rng.randrange(256)
        number = asker.open(bytes(body), kind=body[0])
        # It may now wait for input, or follow that job.
        asker.host.frame(struct.pack(">BI", sealed.CANCEL, number))
        result = asker.result(number)
        assert result["outcome"] <= 4, (body, result)
    asker.ask(encode("kill", job=job, signal=9))


# ---- KILL, ATTACH, JOBS -----------------------------------------------------

def test_jobs_that_are_not_there(asker):
    other = Asker(asker.agent.process.args[0])
    try:
        foreign = other.detached(b"exec sleep 300")
        for _ in range(3):
            foreign = other.detached(b"exec sleep 300")
        for number in (0, foreign, 10 ** 6, MOST):
            for body in (encode("kill", job=number, signal=9),
                         encode("attach", job=number, flags=FORGET),
                         encode("attach", job=number, flags=MOST)):
                result = asker.ask(body)
                assert (result["outcome"], result["step"], result["error"]
                        ) == (FAILED, JOB, 3), (number, body, result)
        assert len(other.listed()) == 4
    finally:
        other.agent.close()


def test_signals_out_of_range(asker):
    job = asker.detached(b"exec sleep 300")
    for number in (65, 66, 127, 128, 255):
        result = asker.ask(encode("kill", job=job, signal=number))
        assert (result["outcome"], result["step"]) == (FAILED, USAGE), number
    for number in (28, 32, 33, 34, 64):     # WINCH; the last ones end it
        result = asker.ask(encode("kill", job=job, signal=number))
        assert result["outcome"] == EXITED or result["step"] == JOB, number
    asker.ask(encode("kill", job=job, signal=9))
    result = asker.ask(encode("attach", job=job, flags=FOLLOW | FORGET))
    assert result["outcome"] == 1, result
    # And what only a running command takes, to others and to nobody.
    for body in (encode("jobs"), encode("attach", job=MOST)):
        number = asker.open(body)
        for frame in (struct.pack(">BIB", sealed.SIGNAL, number, 9),
                      struct.pack(">BIHH", 21, number, 65535, 0),
                      struct.pack(">BI", sealed.CANCEL, number)):
            asker.host.frame(frame)
        asker.result(number)


def test_attach_at_every_offset(asker):
    job = asker.detached(b"printf 0123456789; exec sleep 300", keep=8)
    assert wait_for(lambda: asker.listed()[0]["state"] == 0)
    for at in (0, 1, 2, 9, 10, 11, MOST, 1 << 63, MAX64):
        for flags in (0, QUIET, IN, IN | QUIET, 1 << 31, MOST & ~FOLLOW &
                      ~FORGET):
            result = asker.ask(encode("attach", job=job, flags=flags, out=at,
                                      err=at))
            assert result["outcome"] == EXITED, (at, flags, result)
            assert result["out"] <= 8 and result["err"] == 0
            info = make_wire.decode(result["info"])[1]
            assert info["out_from"] <= 10 and info["err_from"] == 0
    # Whoever may not have it all the same does not.
    running = asker.open(asker.exec(argv=[b"/bin/sleep", b"300"]))
    result = asker.ask(encode("attach", job=running, flags=FORGET))
    assert (result["outcome"], result["step"]) == (FAILED, JOB), result
    for number in (job, running):
        asker.ask(encode("kill", job=number, signal=9))
    asker.result(running)


def test_many_readers_of_one_job(asker):
    """As many as there may be requests, all of which follow; then none."""
    job = asker.detached(b"while :; do echo x; sleep 0.01; done")
    numbers = [asker.open(encode("attach", job=job, flags=FOLLOW), out=100)
               for _ in range(200)]
    for number in numbers[::2]:
        asker.host.frame(struct.pack(">BI", sealed.CANCEL, number))
    for number in numbers[::2]:
        assert asker.result(number)["outcome"] == 3
    asker.ask(encode("kill", job=job, signal=9))
    for number in numbers[1::2]:
        asker.host.frame(sealed.credit_frame(number, 2, MAX64))
    asker.check()


def test_more_logs_than_are_kept(asker):
    """Each asks for the greatest ring: some have it, the others are told."""
    told = {}
    for _ in range(40):
        result = asker.ask(asker.exec(
            argv=[b"/bin/sh", b"-c", b"exec sleep 300"], flags=DETACH,
            keep=MOST))
        told[result["outcome"], result["step"]] = told.get(
            (result["outcome"], result["step"]), 0) + 1
    assert told == {(EXITED, 0): 2, (FAILED, BUSY): 38}, told
    for found in asker.listed():
        asker.ask(encode("kill", job=found["job"], signal=9))


def test_more_records_than_are_kept(asker):
    """Finished ones make room for new ones, whoever asks for how many."""
    for _ in range(700):
        asker.detached(b":", keep=1)
    assert len(asker.listed()) <= 512
    asker.check()

# SPDX-License-Identifier: MIT
"""A wall clock that jumps by years at each look: no time of the agent's
comes sooner or later for it."""
import os
import platform
import sys

import pytest

from sealed import DATA, RESULT, parse_result
from test_hostile_requests import EXITED, Asker, encode
from wall_clock import CALLS, WallClock

TIMED_OUT = 2
SECOND = 1_000_000              # of a result's times
LONG = 150 * SECOND             # a busy machine's; the jumps are longer
DAYS_MS = 30 * 86_400_000
LOOK = ("import ctypes, struct; libc = ctypes.CDLL(None)\n"
        "buf = ctypes.create_string_buffer(16)\n"
        "for i in range(5):\n"
        "    assert libc.syscall({}, 0, buf) == 0\n"
        "    print(struct.unpack('=qq', buf)[0])\n")


@pytest.fixture
def clock(agent_program, tmp_path):
    if os.geteuid() != 0 or platform.machine() not in CALLS:
        pytest.skip("only root can answer another's system calls, and only "
                    "where their numbers are known")
    return WallClock(agent_program, tmp_path)


def output(asker, number):
    """Its DATA, up to its RESULT, which says that all went well."""
    for frame in asker.frames(number):
        if frame[0] == RESULT:
            assert parse_result(frame)["outcome"] == EXITED
            return
        if frame[0] == DATA:
            yield frame


def test_a_wall_clock_that_jumps(clock):
    asker = Asker(str(clock.program))
    asker.seconds = 150         # each look at a clock takes its time here
    try:
        # So does whoever looks at it see it.
        number = asker.open(asker.exec(argv=[
            os.fsencode(sys.executable), b"-c", LOOK.format(
                CALLS[platform.machine()][1]).encode()]))
        seen = b"".join(frame[14:] for frame in output(asker, number))
        assert len(set(seen.split())) == 5, seen
        kept = asker.detached(b"echo kept")
        sleep, sh = b"/bin/sleep", b"/bin/sh"
        for argv, times in (
                ([sleep, b"300"], {"timeout_ms": 1500, "grace_ms": DAYS_MS}),
                ([sh, b"-c", b"trap '' TERM; while :; do sleep 1; done"],
                 {"timeout_ms": 700, "grace_ms": 800})):
            result = asker.ask(asker.exec(argv=argv, **times))
            assert result["outcome"] == TIMED_OUT, result
            assert 1.5 * SECOND <= result["wall_us"] < LONG, result
        result = asker.ask(asker.exec(argv=[sleep, b"3"], timeout_ms=DAYS_MS))
        assert (result["outcome"], result["code"]) == (EXITED, 0), result
        assert 3 * SECOND <= result["wall_us"] < LONG, result
        (job,) = asker.listed()
        assert job["job"] == kept and 0 < job["age_us"] < LONG, job
        asker.ask(encode("attach", job=kept, flags=8))
        asker.check()
        # The core asked the kernel for its times, and never for that one.
        assert clock.passed[asker.core] > 50
        assert clock.jumps >= 5 and clock.patched not in clock.programs
    finally:
        asker.agent.close()

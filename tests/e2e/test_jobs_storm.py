# SPDX-License-Identifier: MIT
"""Hundreds of mixed jobs at once, cancelled at random: every answer is right
and nothing is left, in the core, in the container or in /proc.

The seed is printed; SANDMUX_SEED runs it again.
"""
import os
import random
import signal
import threading
import time

import pytest
from jobs_client import (CANCELLED, EXITED, FAILED, KILL_BACKGROUND, SIGNALED,
                         STDIN, TIMED_OUT, broods, idle, place)  # noqa: F401
from spine import count, find, kill_all, marker, wait_for

AT_ONCE = 64
JOBS = count(500, 5000)


class Kind:
    """How to start one, and whether a result is right."""

    def __init__(self, start, outcome, code=0, out=None):
        self.start, self.outcome, self.code = start, outcome, code
        self.out = out

    def right(self, result, cancelled):
        if cancelled and result.outcome == CANCELLED:
            return True
        return (result.outcome, result.code) == (self.outcome, self.code) and (
            self.out is None or result.stdout == self.out)


def kinds(place, mark):  # noqa: F811
    jobs, brood = place.jobs, place.brood

    def stdin(rng):
        job = jobs.exec("cat", flags=STDIN)
        job.write(b"some words\n")
        job.end()
        return job

    def killed(rng):
        return jobs.sh(f"{brood} sleep {mark} & kill -9 $$", grace=100,
                       flags=KILL_BACKGROUND)

    return [
        Kind(lambda r: jobs.exec("echo", "x"), EXITED, out=b"x\n"),
        Kind(lambda r: jobs.sh("exit 41"), EXITED, 41),
        Kind(lambda r: jobs.sh("echo out; echo err >&2; exit 3"), EXITED, 3,
             b"out\n"),
        Kind(lambda r: jobs.sh("yes | head -c 200000"), EXITED,
             out=b"y\n" * 100_000),
        Kind(lambda r: jobs.sh(f"sleep 0.{r.randrange(1, 9)}; exit 6"),
             EXITED, 6),
        Kind(lambda r: jobs.sh("kill -TERM $$"), SIGNALED, signal.SIGTERM),
        Kind(killed, SIGNALED, signal.SIGKILL),
        Kind(lambda r: jobs.exec(brood, "ignore", mark, grace=50,
                                 timeout=r.randrange(1, 400)), TIMED_OUT,
             None),
        Kind(lambda r: jobs.sh(f"{brood} double {mark} & {brood} ignore "
                               f"{mark} & wait", grace=100,
                               timeout=r.randrange(100, 600)), TIMED_OUT,
             None),
        Kind(lambda r: jobs.sh(f"setsid {brood} ignore {mark} & exit 5",
                               flags=KILL_BACKGROUND, grace=20), EXITED, 5),
        Kind(lambda r: jobs.sh("sleep 0.2 & exit 0"), EXITED),
        Kind(lambda r: jobs.exec("/no/such/program"), FAILED),
        Kind(lambda r: jobs.exec("true", cwd="/no/such/place"), FAILED),
        Kind(stdin, EXITED, out=b"some words\n"),
    ]


def one(place, kind, rng, wrong):  # noqa: F811
    job = kind.start(rng)
    cancelled = rng.random() < 0.3
    if cancelled:
        time.sleep(rng.random() ** 2 * 0.5)
        job.cancel()
    result = job.wait()
    if kind.code is None:
        result["code"] = None
    if not kind.right(result, cancelled) or result.survivors:
        wrong.append((cancelled, result))


@pytest.mark.parametrize("place", ["local", "user", "docker", "docker-user",
                                   "openshell"], indirect=True)
def test_a_storm_of_jobs(place):  # noqa: F811
    seed = int(os.environ.get("SANDMUX_SEED") or time.time_ns() % 10 ** 9)
    print(f"SANDMUX_SEED={seed}")
    mark, wrong, failures = marker(), [], []
    choices = kinds(place, mark)
    core = place.core()
    files = len(os.listdir(f"/proc/{core}/fd"))
    turn = iter(range(JOBS))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                i = next(turn, None)
            if i is None or failures:
                return
            rng = random.Random(seed * JOBS + i)
            try:
                one(place, choices[i % len(choices)], rng, wrong)
            except BaseException as e:      # told below
                failures.append(e)
                return

    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    seen = 0
    while any(t.is_alive() for t in threads):
        seen = max(seen, len(broods(mark)))
        assert isinstance(place.jobs.jobs(), dict)
        time.sleep(0.05)
    for t in threads:
        t.join()
    try:
        assert not failures and not wrong, (failures[:1], wrong[:3])
        assert seen > 0             # there was something to end
        assert find(mark) == []
        wait_for("nothing is left below the core", lambda: idle(core))
        assert place.jobs.jobs() == {}
        wait_for("no descriptor is left", lambda: len(os.listdir(
            f"/proc/{core}/fd")) <= files)
        assert place.core() == core
    finally:
        kill_all(mark)

# SPDX-License-Identifier: MIT
"""Detached jobs: what they write is kept, with offsets, and so is how they
ended, until somebody has it.
"""
import signal
import time

import pytest
from jobs_client import (ATTACH_STDIN, BACKGROUND, CANCELLED, DETACH, ENDED,
                         EXITED, FAILED, FOLLOW, FORGET, QUIET, SIGNALED,
                         STDIN, STILL_RUNNING, TIMED_OUT, Jobs, born, gone,
                         place)  # noqa: F401
from spine import MIB, find, kill_all, marker, wait_for

WAIT = FOLLOW | QUIET | FORGET


@pytest.fixture
def mark():
    word = marker()
    yield word
    kill_all(word)


def ended(place, job):  # noqa: F811
    wait_for("its end", lambda: place.jobs.jobs()[job]["state"] == ENDED)


def forget(place, *jobs):  # noqa: F811
    for job in jobs:
        place.jobs.attach(job, WAIT).wait()
        assert job not in place.jobs.jobs()


def test_it_answers_at_once_and_keeps_all(place):  # noqa: F811
    start = time.monotonic()
    result = place.jobs.sh("echo one; sleep 1; echo two; echo err >&2; "
                           "exit 9", flags=DETACH).wait()
    assert result.outcome == EXITED and result["out"] == 0
    assert result.info["flags"] & STILL_RUNNING
    job = result.info["job"]
    assert time.monotonic() - start < 20
    found = place.jobs.jobs()[job]
    assert found["detached"] == 1
    followed = place.jobs.attach(job, FOLLOW).wait()
    assert (followed.status, followed.stdout, followed.stderr) == (
        9, b"one\ntwo\n", b"err\n")
    assert not followed.info["flags"] & STILL_RUNNING
    # Again, from the record.
    logs = place.jobs.logs(job)
    assert (logs.stdout, logs.stderr) == (b"one\ntwo\n", b"err\n")
    found = place.jobs.jobs()[job]
    assert (found["state"], found["outcome"], found["code"]) == (ENDED, 0, 9)
    waited = place.jobs.attach(job, WAIT).wait()
    assert waited.status == 9 and waited["out"] == 0
    assert job not in place.jobs.jobs()
    again = place.jobs.attach(job, WAIT).wait()
    assert (again.outcome, again.step_name) == (FAILED, "JOB")


def test_a_failed_start_is_told_at_once(place):  # noqa: F811
    result = place.jobs.exec("/no/such/program", flags=DETACH).wait()
    # The init may not know yet when it answers; then wait tells.
    if result.outcome != FAILED:
        result = place.jobs.attach(result.info["job"], WAIT).wait()
    assert (result.outcome, result.step_name, result.error) == (
        FAILED, "EXEC", 2), result
    wait_for("its record goes", lambda: place.jobs.jobs() == {})


def test_a_later_failure_is_kept(place):  # noqa: F811
    """The answer said that it runs: what came then is for wait."""
    job = place.jobs.sh("echo on; sleep 1; kill -9 $PPID; sleep 600",
                        flags=DETACH).job
    followed = place.jobs.attach(job, FOLLOW).wait()
    assert (followed.outcome, followed.step_name, followed.stdout) == (
        FAILED, "WAIT", b"on\n"), followed
    waited = place.jobs.attach(job, WAIT).wait()
    assert (waited.outcome, waited.step_name) == (FAILED, "WAIT"), waited
    assert job not in place.jobs.jobs()


def test_offsets_are_absolute(place):  # noqa: F811
    job = place.jobs.sh("echo 0123456789; echo abc >&2", flags=DETACH).job
    ended(place, job)
    logs = place.jobs.logs(job, out=4, err=1)
    assert (logs.stdout, logs.stderr) == (b"456789\n", b"bc\n")
    assert (logs.info["out_from"], logs.info["err_from"]) == (4, 1)
    logs = place.jobs.logs(job, out=11, err=1 << 40)
    assert (logs.stdout, logs.stderr) == (b"", b"")
    forget(place, job)


def test_what_was_dropped_is_said(place):  # noqa: F811
    job = place.jobs.sh("seq 100000; seq 5 >&2", flags=DETACH,
                        keep=5000).job
    ended(place, job)
    whole = b"".join(b"%d\n" % i for i in range(1, 100_001))
    logs = place.jobs.logs(job)
    assert logs.stdout == whole[-5000:] and logs.stderr == b"1\n2\n3\n4\n5\n"
    assert logs.info["out_from"] == len(whole) - 5000
    assert logs.info["err_from"] == 0
    forget(place, job)


def test_the_default_is_kept_of_more(place):  # noqa: F811
    job = place.jobs.sh("seq 300000", flags=DETACH).job
    ended(place, job)
    whole = b"".join(b"%d\n" % i for i in range(1, 300_001))
    logs = place.jobs.logs(job)
    assert len(logs.stdout) == 262_144 and whole.endswith(logs.stdout)
    assert logs.info["out_from"] == len(whole) - 262_144
    forget(place, job)


def test_a_slow_follower_does_not_hold_the_job(place):  # noqa: F811
    job = place.jobs.sh("seq 200000; exit 4", flags=DETACH, keep=20_000).job
    follower = place.jobs.attach(job, FOLLOW, window=100)
    ended(place, job)
    whole = b"".join(b"%d\n" % i for i in range(1, 200_001))
    follower.grant(2, 1 << 40)
    result = follower.wait()
    assert result.status == 4
    # It has the end; whatever it lacks lies before the first byte it tells.
    assert len(result.stdout) >= 20_000
    assert whole.endswith(result.stdout[-20_000:])
    forget(place, job)


def test_two_followers_see_the_same(place):  # noqa: F811
    job = place.jobs.sh("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; "
                        "kill -USR2 $$", flags=DETACH).job
    one = place.jobs.attach(job, FOLLOW)
    other = Jobs(place.host, place.target, place.uid)
    two = other.attach(job, FOLLOW)
    for result in (one.wait(), two.wait()):
        assert (result.outcome, result.code) == (SIGNALED, signal.SIGUSR2)
        assert result.stdout == b"1\n2\n3\n4\n5\n"
    other.close()
    forget(place, job)


def test_a_follower_that_goes_takes_nothing_along(place, mark):  # noqa: F811
    job = place.jobs.exec(place.brood, "sleep", mark, flags=DETACH).job
    (pid,) = born(mark, 1)
    other = Jobs(place.host, place.target, place.uid)
    other.attach(job, FOLLOW)
    other.close()
    follower = place.jobs.attach(job, FOLLOW)
    follower.cancel()
    assert follower.wait().outcome == CANCELLED
    time.sleep(0.2)
    assert find(mark) == [pid]
    assert place.jobs.kill(job, 0).outcome == EXITED
    result = place.jobs.attach(job, WAIT).wait()
    assert (result.outcome, result.code) == (SIGNALED, signal.SIGTERM)
    assert find(mark) == []


def test_the_starter_may_go(place, mark):  # noqa: F811
    other = Jobs(place.host, place.target, place.uid)
    job = other.sh(f"echo kept; exec {place.brood} sleep {mark}",
                   flags=DETACH).job
    other.close()
    (pid,) = born(mark, 1)
    time.sleep(0.2)
    assert find(mark) == [pid]
    assert place.jobs.logs(job).stdout == b"kept\n"
    follower = place.jobs.attach(job, FOLLOW)
    follower.until(b"kept\n")
    follower.signal(signal.SIGINT)
    result = follower.wait()
    assert (result.outcome, result.code) == (SIGNALED, signal.SIGINT)
    forget(place, job)


def test_stdin_by_attach(place):  # noqa: F811
    job = place.jobs.sh("while read x; do echo \"<$x>\"; done; echo end; "
                        "exit 2", flags=DETACH | STDIN).job
    first = place.jobs.attach(job, FOLLOW | ATTACH_STDIN)
    first.write(b"a\n")
    first.until(b"<a>\n")
    first.cancel()              # its end is not the job's end of input
    assert first.wait().outcome == CANCELLED
    second = place.jobs.attach(job, FOLLOW | ATTACH_STDIN)
    second.write(b"b\n")
    second.until(b"<b>\n")
    second.end()
    result = second.wait()
    assert result.status == 2 and result.stdout == b"<a>\n<b>\nend\n"
    forget(place, job)


def test_a_timeout_counts(place, mark):  # noqa: F811
    job = place.jobs.sh(f"echo early; setsid {place.brood} ignore {mark} & "
                        f"exec {place.brood} ignore {mark}", flags=DETACH,
                        timeout=1000, grace=200).job
    born(mark, 2)
    result = place.jobs.attach(job, FOLLOW).wait()
    assert result.outcome == TIMED_OUT and b"early\n" in result.stdout
    assert find(mark) == []
    forget(place, job)


def test_background_children_of_a_detached_one(place, mark):  # noqa: F811
    """A follower is answered though they go on writing without an end."""
    path = place.target.path("talk")
    job = place.jobs.sh(f"{place.brood} talk {path} {mark} & sleep 0.2; "
                        "exit 8", flags=DETACH).job
    start = time.monotonic()
    result = place.jobs.attach(job, FOLLOW).wait()
    assert result.status == 8 and time.monotonic() - start < 20
    born(mark, 1)
    assert place.jobs.jobs()[job]["state"] == BACKGROUND
    forget_result = place.jobs.attach(job, WAIT).wait()
    assert forget_result.status == 8
    # Its record may go; its child lives and can still be found and ended.
    seen = int(place.read(path).split()[-1])
    wait_for("more", lambda: int(place.read(path).split()[-1]) > seen + 400,
             60)
    assert b"errno" not in place.read(path)
    assert place.jobs.kill(job, 0).outcome == EXITED
    gone(mark)


def test_yes_behind_a_detached_one(place, mark):  # noqa: F811
    job = place.jobs.sh(f"sh -c 'while :; do echo {mark}; done' {mark} & "
                        "sleep 0.2; exit 8", flags=DETACH).job
    result = place.jobs.attach(job, FOLLOW).wait(60)
    assert result.status == 8
    place.jobs.kill(job, 0)
    gone(mark)
    forget(place, job)


def test_attach_is_for_detached_ones(place, mark):  # noqa: F811
    job = place.jobs.exec(place.brood, "sleep", mark)
    born(mark, 1)
    number = place.jobs.job_of(mark)["job"]
    result = place.jobs.attach(number, FOLLOW).wait()
    assert (result.outcome, result.step_name) == (FAILED, "JOB"), result
    job.cancel()
    job.wait()


def test_all_that_is_kept_is_bounded(place):  # noqa: F811
    """More than fits is refused as busy, and room comes back."""
    jobs, busy = [], None
    for _ in range(40):
        result = place.jobs.exec("true", flags=DETACH, keep=4 * MIB).wait()
        if result.outcome == FAILED:
            busy = result
            break
        jobs.append(result.info["job"])
    assert busy is not None and busy.step_name == "BUSY", busy
    assert len(jobs) >= 4
    forget(place, *jobs)
    job = place.jobs.exec("true", flags=DETACH, keep=4 * MIB).job
    forget(place, job)

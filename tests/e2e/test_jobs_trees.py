# SPDX-License-Identifier: MIT
"""A job's end is the end of its whole tree, whatever the tree does.

Each test sees its processes alive first, by a mark in their arguments, with
its own eyes on /proc, and then sees that they are gone.
"""
import os
import signal
import time

import pytest
from jobs_client import (BACKGROUND, CANCELLED, EXITED, FAILED,
                         KILL_BACKGROUND, SIGNALED, STDIN, TIMED_OUT, Place,
                         below, born, gone, idle, place, stat)  # noqa: F401
from spine import (Docker, find, kill_all, marker, new_host,  # noqa: F401
                   wait_for)

SHORT = 300                     # ms of grace where KILL is what counts
LIFE_S = 120                    # of brood's processes, as it has it

# What a job leaves running, and how many processes carry the mark.
TREES = {
    "background": ("{b} ignore {m} & {b} sleep {m} & wait", 2),
    "setsid": ("setsid {b} ignore {m} & setsid {b} sleep {m} & wait", 2),
    "double-fork": ("{b} double {m} & wait", 2),
    "subshells": ("( ( {b} ignore {m} & {b} sleep {m} & wait ) & wait ) & "
                  "wait", 2),
    "leader-gone": ("(setsid {b} ignore {m} &) & sleep 1; exec {b} ignore "
                    "{m}", 2),
}


@pytest.fixture
def mark():
    word = marker()
    yield word
    kill_all(word)


def script(place, tree, mark):  # noqa: F811
    text, number = TREES[tree]
    return text.format(b=place.brood, m=mark), number


@pytest.mark.parametrize("tree", TREES)
def test_a_cancel_ends_them_all(place, mark, tree):  # noqa: F811
    text, number = script(place, tree, mark)
    job = place.jobs.sh("echo early; " + text, grace=SHORT)
    born(mark, number)
    job.cancel()
    result = job.wait()
    assert result.outcome == CANCELLED and result.stdout.startswith(
        b"early\n"), result
    # The result says that they are gone: no time is left for stragglers.
    assert (find(mark), result.survivors) == ([], [])
    place.alive()


@pytest.mark.parametrize("tree", TREES)
def test_a_timeout_ends_them_all(place, mark, tree):  # noqa: F811
    text, number = script(place, tree, mark)
    job = place.jobs.sh("echo early; " + text, grace=SHORT, timeout=2500)
    born(mark, number)
    result = job.wait()
    assert result.outcome == TIMED_OUT and result.stdout.startswith(
        b"early\n"), result
    assert (find(mark), result.survivors) == ([], [])


def test_stopped_processes_are_ended(place, mark):  # noqa: F811
    job = place.jobs.sh(f"{place.brood} sleep {mark} & setsid {place.brood} "
                        f"term /dev/null {mark} & wait", grace=SHORT)
    pids = born(mark, 2)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    job.cancel()
    assert job.wait().outcome == CANCELLED
    assert find(mark) == []


def test_a_stopped_job_can_still_obey_term(place, mark):  # noqa: F811
    path = place.target.path("term")
    job = place.start("term", path, mark=mark, grace=60_000)
    job.until(b"ready\n")
    os.kill(born(mark, 1)[0], signal.SIGSTOP)
    start = time.monotonic()
    job.cancel()
    assert job.wait().outcome == CANCELLED
    assert time.monotonic() - start < 30
    assert place.read(path).startswith(b"15 ")


def test_term_reaches_those_that_left_the_session(place, mark):  # noqa: F811
    path = place.target.path("term")
    job = place.jobs.sh(
        f"for i in 1 2 3; do setsid {place.brood} term {path} {mark} & done;"
        f" (setsid sh -c '{place.brood} term {path} {mark} & wait' &) ;"
        f" exec {place.brood} term {path} {mark}", grace=60_000)
    born(mark, 5)
    wait_for("all of them listen", lambda: job.out.count(b"ready") == 5)
    start = time.monotonic()
    job.cancel()
    assert job.wait().outcome == CANCELLED
    # None waited for KILL: each wrote down that TERM came.
    assert time.monotonic() - start < 30
    lines = place.read(path).split(b"\n")[:-1]
    assert len(lines) == 5 and all(x.startswith(b"15 ") for x in lines)
    gone(mark, 1)


def test_grace_is_honoured(place, mark):  # noqa: F811
    job = place.jobs.sh("trap 'echo term; sleep 2; echo done; exit 5' TERM; "
                        f"{place.brood} sleep {mark} & echo ready; "
                        "while :; do wait; done", grace=60_000)
    job.until(b"ready\n")
    born(mark, 1)
    start = time.monotonic()
    job.cancel()
    result = job.wait()
    spent = time.monotonic() - start
    assert result.stdout.endswith(b"term\ndone\n") and 2 <= spent < 30, result
    assert find(mark) == []


def test_grace_ends(place, mark):  # noqa: F811
    job = place.start("ignore", mark=mark, grace=1500)
    job.until(b"ready\n")
    start = time.monotonic()
    job.cancel()
    assert job.wait().outcome == CANCELLED
    assert 1.5 <= time.monotonic() - start < 6
    assert find(mark) == []


def test_no_grace_at_all(place, mark):  # noqa: F811
    job = place.start("ignore", mark=mark, grace=0)
    job.until(b"ready\n")
    job.cancel()
    assert job.wait().outcome == CANCELLED
    assert find(mark) == []


def test_what_ends_by_itself_in_grace_is_not_waited_for(place, mark):  # noqa: F811
    job = place.start("sleep", mark=mark, grace=60_000)
    born(mark, 1)
    start = time.monotonic()
    job.cancel()
    job.wait()
    assert time.monotonic() - start < 30


# ---- storms -------------------------------------------------------------

@pytest.mark.parametrize("chains", [1, 4])
def test_chains_of_generations(place, mark, chains):  # noqa: F811
    core = place.core()
    job = place.start("chain", str(chains), mark=mark, grace=SHORT)
    job.until(b"ready\n")
    first = set(below(core))
    wait_for("another generation", lambda: set(below(core)) - first)
    job.cancel()
    result = job.wait()
    assert (result.outcome, result.survivors) == (CANCELLED, [])
    assert find(mark) == []
    place.alive()


def test_many_chains_in_a_limited_container(mark, new_host):  # noqa: F811
    """They and their zombies take all the numbers there are; no result, no
    survivor and no zombie of it is left."""
    one = Place("own", host=new_host(), target=Docker("debian",
                                                      "--pids-limit", "400"))
    core = one.core()
    job = one.start("chain", "30", mark=mark, grace=SHORT)
    job.until(b"ready\n")
    wait_for("many", lambda: len(below(core)) > 30)
    start = time.monotonic()
    job.cancel()
    result = job.wait()
    assert (result.outcome, result.survivors) == (CANCELLED, []), result
    assert time.monotonic() - start < 20
    assert find(mark) == []
    one.alive()
    wait_for("nothing is left", lambda: idle(core))


@pytest.mark.parametrize("kind", ["plain", "bomb"])
@pytest.mark.parametrize("where", ["local", "docker"])
def test_fork_bombs(mark, kind, where, request):
    """Within a limit of processes, for a user that nobody else is."""
    one = Place(where)
    if not one.target.root:
        pytest.skip("the limit is for other users than root")
    limit = [(6, 150, 150)]     # RLIMIT_NPROC
    job = one.start(kind, mark=mark, grace=SHORT, user="61237:61237",
                    limits=limit)
    job.until(b"ready\n")
    born(mark, 100)
    job.cancel()
    result = job.wait()
    assert (result.outcome, result.survivors) == (CANCELLED, []), result
    assert find(mark) == []
    one.alive()
    one.jobs.close()


@pytest.mark.parametrize("init", ["alive", "killed"])
@pytest.mark.parametrize("kind", ["plain", "bomb"])
def test_bombs_that_outnumber_us(mark, kind, init):
    """Each of hundreds waits for one to be killed, to fork again, and where
    the kernel shares the machine out by sessions each has as much of it as
    the agent.  With their init killed they are the core's."""
    one = Place("local")
    if not one.target.root:
        pytest.skip("the limit is for other users than root")
    core = one.core()
    job = one.jobs.sh(
        f"init=$PPID; exec 3<&0; (read go <&3; kill -9 $init) & "
        f"exec {one.brood} {kind} {mark}", grace=SHORT, user="61238:61238", flags=STDIN,
        limits=[(6, 600, 600)])
    job.until(b"ready\n")
    born(mark, 500)
    start = time.monotonic()
    if init == "killed":
        job.write(b"go\n")
    else:
        job.cancel()
    # The agent serves others meanwhile.
    for _ in range(3):
        one.jobs.jobs()
    result = job.wait()
    assert (result.outcome, result.survivors) == (
        FAILED if init == "killed" else CANCELLED, []), result
    assert find(mark) == []
    assert time.monotonic() - start < LIFE_S / 2, "they ended by themselves"
    wait_for("nothing is left", lambda: idle(core))
    assert one.core() == core
    one.jobs.close()


# ---- the background -----------------------------------------------------

def test_background_children_live_on(place, mark):  # noqa: F811
    path = place.target.path("talk")
    job = place.jobs.sh(f"echo before; {place.brood} talk {path} {mark} & "
                        "sleep 0.3; echo after; exit 7")
    start = time.monotonic()
    result = job.wait()
    assert time.monotonic() - start < 20
    assert result.status == 7 and result["detached"] == 1, result
    assert result.stdout.startswith(b"before\n")
    assert b"after\n" in result.stdout
    (pid,) = born(mark, 1)
    # It goes on writing far more than a pipe holds and never hears of it.
    seen = int(place.read(path).split()[-1])
    wait_for("more", lambda: int(place.read(path).split()[-1]) > seen + 600,
             60)
    assert b"errno" not in place.read(path)
    assert find(mark) == [pid]
    found = place.jobs.job_of(mark)
    assert (found["state"], found["code"]) == (BACKGROUND, 7), found
    assert found["processes"] >= 1
    assert place.jobs.kill(found["job"], 0).outcome == EXITED
    gone(mark)
    wait_for("its record goes",
             lambda: found["job"] not in place.jobs.jobs())


def test_a_result_comes_within_a_second_of_the_leader(place, mark):  # noqa: F811
    job = place.jobs.sh(f"{place.brood} sleep {mark} & echo hi; "
                        f"{place.brood} sleep {mark} >&2 & echo end >&2")
    started = time.monotonic()
    result = job.wait()
    assert (result.stdout, result.stderr) == (b"hi\n", b"end\n")
    assert result.status == 0 and result["detached"] == 1
    assert time.monotonic() - started < 10
    assert result.wall_us < 1_000_000 * 5
    born(mark, 2)
    place.jobs.kill(result.info["job"], signal.SIGKILL)
    gone(mark)


def test_endless_background_output_does_not_hold_the_result(place, mark):  # noqa: F811
    """It never falls silent, so silence cannot be what is waited for."""
    path = place.target.path("talk")
    job = place.jobs.sh(f"{place.brood} talk {path} {mark} & "
                        f"{place.brood} talk {path} {mark} >&2 & "
                        "sleep 0.2; echo last")
    start = time.monotonic()
    result = job.wait()
    assert time.monotonic() - start < 15
    assert result.status == 0 and b"last\n" in result.stdout
    born(mark, 2)
    place.jobs.kill(result.info["job"], signal.SIGKILL)
    gone(mark)


def test_yes_in_the_background(place, mark):  # noqa: F811
    job = place.jobs.sh(f"sh -c 'while :; do echo {mark}; done' {mark} & "
                        "sleep 0.2; echo last >&2")
    result = job.wait(60)
    assert result.status == 0 and result.stderr == b"last\n"
    assert len(find(mark)) == 1
    place.jobs.kill(result.info["job"], signal.SIGKILL)
    gone(mark)


def test_kill_background(place, mark):  # noqa: F811
    job = place.jobs.sh(
        f"setsid {place.brood} ignore {mark} & {place.brood} double {mark} & "
        f"{place.brood} sleep {mark} & sleep 0.5; echo out; exit 3",
        flags=KILL_BACKGROUND, grace=SHORT)
    born(mark, 3)
    result = job.wait()
    assert result.status == 3 and result.stdout.endswith(b"out\n"), result
    assert find(mark) == []
    assert result["detached"] == 0


def test_kill_background_is_the_jobs_own_only(place, mark):  # noqa: F811
    other = place.start("sleep", mark=mark)
    (pid,) = born(mark, 1)
    ends = place.jobs.sh(f"setsid {place.brood} ignore {mark}x & sleep 0.3",
                         flags=KILL_BACKGROUND, grace=SHORT)
    born(mark + "x", 1)
    assert ends.wait().status == 0
    assert find(mark) == [pid]
    other.cancel()
    assert other.wait().outcome == CANCELLED
    gone(mark)


def test_kill_background_with_a_signalled_leader(place, mark):  # noqa: F811
    result = place.jobs.sh(f"setsid {place.brood} ignore {mark} & sleep 0.3; "
                           "kill -USR1 $$", flags=KILL_BACKGROUND,
                           grace=SHORT).wait()
    assert (result.outcome, result.code) == (SIGNALED, signal.SIGUSR1)
    assert find(mark) == []


# ---- signals ------------------------------------------------------------

def test_a_signal_is_for_the_process_group(place, mark):  # noqa: F811
    job = place.jobs.sh(f"setsid {place.brood} sleep {mark} & "
                        f"{place.brood} sleep {mark} & "
                        "trap 'echo got; exit 4' INT; echo ready; "
                        "while :; do sleep 0.05; done")
    job.until(b"ready\n")
    born(mark, 2)
    job.signal(signal.SIGINT)
    result = job.wait()
    assert result.status == 4 and result.stdout == b"ready\ngot\n", result
    place.jobs.kill(result.info["job"], signal.SIGKILL)
    gone(mark)


def test_stop_and_continue(place, mark):  # noqa: F811
    job = place.start("sleep", mark=mark)
    born(mark, 1)
    number = place.jobs.job_of(mark)["job"]
    for sent, state in ((signal.SIGSTOP, 1), (signal.SIGCONT, 0)):
        assert place.jobs.kill(number, sent).outcome == EXITED
        wait_for("its state", lambda: place.jobs.job_of(mark)["state"] ==
                 state)
    assert place.jobs.kill(number, signal.SIGTERM).outcome == EXITED
    result = job.wait()
    assert (result.outcome, result.code) == (SIGNALED, signal.SIGTERM)


def test_a_background_tree_can_be_stopped(place, mark):  # noqa: F811
    result = place.jobs.sh(f"setsid {place.brood} sleep {mark} & exit 0"
                           ).wait()
    (pid,) = born(mark, 1)
    place.jobs.kill(result.info["job"], signal.SIGSTOP)
    wait_for("it is stopped", lambda: stat(pid)[0] == "T")
    time.sleep(0.3)
    assert stat(pid)[0] == "T"
    place.jobs.kill(result.info["job"], 0)
    gone(mark)


def test_kill_nine_is_for_the_tree(place, mark):  # noqa: F811
    job = place.jobs.sh(f"setsid {place.brood} ignore {mark} & "
                        f"{place.brood} ignore {mark} & wait", grace=60_000)
    born(mark, 2)
    job.signal(signal.SIGKILL)
    result = job.wait()
    assert (result.outcome, result.code) == (SIGNALED, signal.SIGKILL)
    assert find(mark) == []


def test_kill_knows_its_jobs(place):  # noqa: F811
    result = place.jobs.kill(4_000_000_000, 15)
    assert (result.outcome, result.step_name) == (FAILED, "JOB")
    assert b"4000000000" in result.text
    ended = place.jobs.run("true")
    result = place.jobs.kill(ended.info["job"], 15)
    assert (result.outcome, result.step_name) == (FAILED, "JOB")


# ---- no zombies ---------------------------------------------------------

def test_no_zombie_stays(place, mark):  # noqa: F811
    core = place.core()
    jobs = [place.jobs.sh("for i in 1 2 3 4 5; do (sleep 0.01 &) ; "
                          "sleep 0.01 & done; (exit 3) & exit 0")
            for _ in range(20)]
    for job in jobs:
        assert job.wait().status == 0
    wait_for("only the core is left", lambda: idle(core))

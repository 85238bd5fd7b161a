# SPDX-License-Identifier: MIT
"""Links that end without a cut: by stop, or because nobody uses them."""
import subprocess
import time

import pytest
from cuts import (HEALS, SERVE, UNLESS_QEMU, entry, kill_transport, noticed,
                  session_of)
from spine import (KINDS, LIMIT, agents, find, get_target,  # noqa: F401
                   marker, new_host, together, wait_for)

pytestmark = UNLESS_QEMU


@pytest.mark.parametrize("kind", KINDS)
def test_stop_ends_everything(new_host, kind):  # noqa: F811
    target = get_target(kind)
    host, mark, background = new_host(), marker(), marker()
    before = sorted(target.injected())
    assert host.sh(target, f"sleep {background} & :").status == 0
    job = host.start_job(target, mark)
    session, pids = host.session(target), host.controllers()
    assert find(background) and len(pids) == 1
    done = host.run("stop")
    assert done.status == 0, done
    assert job.wait(LIMIT) == 125 and b"sandmux stop" in job.stderr.read()
    assert not host.controllers()
    wait_for("the jobs' end", lambda: not find(mark) and not find(background))
    wait_for("the agent's end", lambda: not agents(session))
    wait_for("no file", lambda: sorted(target.injected()) == before)
    assert not (host.dir / "socket").exists()


@pytest.mark.parametrize("how", ["parked", "lost"])
def test_stop_ends_what_has_no_link(new_host, how):  # noqa: F811
    """A link for that alone, so that nobody has to wait."""
    target = get_target("docker")
    host = new_host(HEALS + (" --idle 1 --park 1000" if how == "parked"
                             else ""))
    if how == "lost":
        assert host.exec(target, "true").status == 0
        session = host.session(target)
        kill_transport(host, target)
    else:
        session = session_of(host, target)
    noticed(host, target, "parked")
    wait_for("no process", lambda: host.children() == [])
    assert agents(session)
    assert host.run("stop").status == 0
    wait_for("the agent's end", lambda: not agents(session))


def test_a_quiet_link_is_not_dead(new_host):  # noqa: F811
    """Silence of the job is not silence of the link."""
    host = new_host(SERVE)
    targets = [get_target(kind) for kind in KINDS]
    for done in together(len(targets), lambda i: host.sh(
            targets[i], "sleep 7; echo here")):
        assert (done.status, done.out) == (0, b"here\n"), done
    assert all(entry(host, t)["relinks"] == 0 for t in targets)


@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_link_closes_where_it_may(new_host, kind):  # noqa: F811
    target = get_target(kind)
    host = new_host("--idle 1")
    session = session_of(host, target)
    wait_for("the end of an idle link", lambda: host.status()["links"] == [])
    wait_for("the agent's end", lambda: not agents(session))
    assert host.children() == []
    assert host.exec(target, "echo", "again").out == b"again\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_parked_session(new_host, kind):  # noqa: F811
    """No process here, a small one there, and the next command goes on."""
    target = get_target(kind)
    host = new_host("--idle 1 --park 600 --linger 1")
    session = session_of(host, target)
    for i in range(1, 3):
        noticed(host, target, "parked")
        wait_for("no process", lambda: host.children() == [])
        time.sleep(1.5)             # longer than it lingers
        assert agents(session)
        job = host.popen("exec", "-i", str(target), "--", "sh", "-c",
                         "echo again; read x; exit 5",
                         stdin=subprocess.PIPE)
        assert job.stdout.readline() == b"again\n"
        assert host.session(target) == session
        assert entry(host, target)["relinks"] == i
        job.stdin.close()
        assert job.wait(LIMIT) == 5 and job.stderr.read() == b""


def test_a_parked_session_that_is_not_wanted(new_host):  # noqa: F811
    target = get_target("local")
    host = new_host("--idle 1 --park 5 --linger 1")
    session = session_of(host, target)
    noticed(host, target, "parked")
    wait_for("its end", lambda: host.status()["links"] == [])
    wait_for("the agent's end", lambda: not agents(session))
    assert host.exec(target, "echo", "new").out == b"new\n"

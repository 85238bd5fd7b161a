# SPDX-License-Identifier: MIT
"""A cut that does not heal: it is said why, and nothing is left."""
import os
import signal
import subprocess
import time

import pytest
from cuts import (CUTS, ENDS, HEALS, IDS, SERVE, SHORT, UNLESS_QEMU, freeze,
                  gate, is_new, kill_transport, noticed, told, transport)
from spine import (KINDS, LIMIT, LOST, MIB, Docker, agents,  # noqa: F401
                   find, get_target, kill_all, make_openshell,
                   marker, new_host, wait_for)

pytestmark = UNLESS_QEMU


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_controller(new_host, kind):  # noqa: F811
    """Its jobs wait for one that has the secret, and then end."""
    target = get_target(kind)
    host, mark = new_host(SERVE + " --linger 12"), marker()
    half, old = target.path("half"), target.path("old")
    target.sh(f"echo old >{old}")
    before = sorted(target.injected())
    job = host.start_job(target, mark)
    copies = [host.popen("cp", "-", f"{target}:{path}",
                         stdin=subprocess.PIPE) for path in (half, old)]
    for copy in copies:
        copy.stdin.write(b"x" * (2 * MIB))
        copy.stdin.flush()
    session, link = host.session(target), host.link(target)
    start = time.monotonic()
    for pid in host.controllers():
        os.kill(pid, signal.SIGKILL)
    assert job.wait(LIMIT) == 125 and LOST in job.stderr.read()
    for copy in copies:
        assert copy.wait(LIMIT) == 1 and LOST in copy.stderr.read()
    time.sleep(3)
    assert len(find(mark)) >= 3 and agents(session)
    wait_for("the jobs' end", lambda: not find(mark), ENDS)
    assert time.monotonic() - start > 12
    wait_for("the agent's end", lambda: not agents(session))
    assert not os.path.exists(f"/proc/{link['pid']}")
    assert target.sh(f"cat {old}; rm {old}; ls {half} 2>/dev/null || :"
                     ) == b"old\n"
    wait_for("no file of ours", lambda: sorted(target.injected()) == before)
    is_new(host, target, session)
    assert f"{target}: the controller before" in host.log()


def test_the_next_controller_says_what_it_found(new_host):  # noqa: F811
    host, mark = new_host(SERVE + " --linger 12"), marker()
    job = host.start_job("local", mark)
    assert (host.dir / "sessions").stat().st_mode & 0o777 == 0o600
    for pid in host.controllers():
        os.kill(pid, signal.SIGKILL)
    assert job.wait(LIMIT) == 125
    assert host.exec("local", "true").status == 0
    left, = host.status()["left_behind"]
    assert left["target"] == "local" and 0 <= left["ends_in_s"] <= 15
    assert b"local: left by a controller that was killed" in host.run(
        "status").out
    wait_for("the jobs' end", lambda: not find(mark), ENDS)
    wait_for("no more word of it", lambda: not host.status()["left_behind"])
    # One that ends in good order leaves nothing to say.
    assert host.run("stop").status == 0
    assert not (host.dir / "sessions").exists()
    assert host.exec("local", "true").status == 0
    assert host.status()["left_behind"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_agent(new_host, tmp_path, kind):  # noqa: F811
    """The core: whoever has its uid may do that, and no more."""
    target = get_target(kind)
    host, mark, report = new_host(HEALS), marker(), tmp_path / "json"
    job = host.start_job(target, mark, opts=["--json", str(report)])
    session = host.session(target)
    os.kill(agents(session)[1], signal.SIGKILL)
    told(job, report, "agent", b"agent gone")
    wait_for("the agent's end", lambda: not agents(session))
    is_new(host, target, session)
    kill_all(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_agent(new_host, tmp_path, kind):  # noqa: F811
    """Given up in time; it ends, and what it started, once it is thawed."""
    target = get_target(kind)
    host, mark, report = new_host(SHORT), marker(), tmp_path / "json"
    job = host.start_job(target, mark, opts=["--json", str(report)])
    session = host.session(target)
    core = agents(session)[1]
    os.kill(core, signal.SIGSTOP)
    try:
        err = told(job, report, "linger", b"--linger", b"tried for")
        assert b" times" in err
        is_new(host, target, session)
    finally:
        os.kill(core, signal.SIGCONT)
    wait_for("the jobs' end", lambda: not find(mark), ENDS)
    wait_for("the agent's end", lambda: not agents(session))


def test_a_container_that_is_gone(new_host, tmp_path):  # noqa: F811
    get_target("docker")
    target = Docker("busybox-baked")
    host, mark, report = new_host(HEALS), marker(), tmp_path / "json"
    job = host.start_job(target, mark, opts=["--json", str(report)])
    subprocess.run(["docker", "kill", target.box], check=True,
                   capture_output=True)
    told(job, report, "sandbox", b"sandbox gone", b"exited")
    job = subprocess.run(["docker", "start", target.box], check=True,
                         capture_output=True)
    job = host.start_job(target, mark, opts=["--json", str(report)])
    subprocess.run(["docker", "rm", "-f", target.box], check=True,
                   capture_output=True)
    told(job, report, "sandbox", b"sandbox gone")


def test_a_sandbox_that_is_gone(new_host, tmp_path):  # noqa: F811
    get_target("openshell")
    target = make_openshell()
    host, mark, report = new_host(HEALS), marker(), tmp_path / "json"
    job = host.start_job(target, mark, opts=["--json", str(report)])
    target.delete()
    told(job, report, "sandbox", b"no such sandbox")
    assert not find(mark)


@pytest.mark.parametrize("kind", ["docker", "openshell"])
def test_a_way_that_stays_away(new_host, tmp_path, kind):  # noqa: F811
    target = get_target(kind)
    host = new_host(SHORT, env=gate(tmp_path, kind))
    mark, report = marker(), tmp_path / "json"
    job = host.start_job(target, mark, opts=["--json", str(report)])
    session = host.session(target)
    (tmp_path / "says").write_text("down")
    kill_transport(host, target)
    # What is written before that has perhaps been read by somebody.
    noticed(host, target)
    # Who asks meanwhile waits, and is told what it is that is not there.
    late = host.popen("exec", str(target), "--", "true")
    err = told(job, report, "unreachable", b"target unreachable",
               b"tried for", b"Docker daemon")
    assert 9 <= int(err.split(b"tried for ")[1].split()[0]) <= 60
    assert late.wait(LIMIT) == 125
    assert b"outcome unknown" not in late.stderr.read()
    wait_for("the jobs' end", lambda: not find(mark), ENDS)
    (tmp_path / "says").unlink()
    is_new(host, target, session)


@pytest.mark.parametrize("kind, how", CUTS, ids=IDS)
def test_without_linger_it_is_as_it_was(new_host, tmp_path,  # noqa: F811
                                        kind, how):
    """With or without an end of file or a hang-up for the agent."""
    target = get_target(kind)
    host, mark, report = new_host(SERVE + " --linger 0"), marker(), \
        tmp_path / "json"
    before = sorted(target.injected())
    job = host.start_job(target, mark, opts=["--json", str(report)])
    session = host.session(target)
    how(host, target)
    told(job, report, "link", LOST)
    wait_for("the jobs' end", lambda: not find(mark), ENDS)
    wait_for("the agent's end", lambda: not agents(session), ENDS)
    if how is freeze:
        target.standin("thaw", target.box)
    wait_for("no file of ours", lambda: sorted(target.injected()) == before)
    is_new(host, target, session)


def test_a_request_that_waited_begins_anew(new_host):  # noqa: F811
    """It was never sent: nothing about it is unknown."""
    target = get_target("docker")
    host, mark = new_host(HEALS), marker()
    job = host.start_job(target, mark)
    core, pid = agents(host.session(target))[1], transport(host, target)
    os.kill(core, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    noticed(host, target)
    late = host.popen("exec", str(target), "--", "echo", "late")
    time.sleep(1)
    os.kill(core, signal.SIGKILL)
    assert late.stdout.read() == b"late\n" and late.wait(LIMIT) == 0
    assert late.stderr.read() == b""
    assert job.wait(LIMIT) == 125 and b"agent gone" in job.stderr.read()
    kill_all(mark)

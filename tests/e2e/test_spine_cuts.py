# SPDX-License-Identifier: MIT
"""A link that is cut: a typed error, nothing left, and a new link next."""
import json
import os
import signal
import subprocess

import pytest
from spine import (KINDS, LIMIT, LOST, MIB, QEMU, agents,  # noqa: F401
                   find, get_target, kill_all, marker, new_host, together,
                   wait_for)

# Short, but not so short that a busy machine looks dead.
SERVE = "--ping 400 --dead 3000"


def kill_transport(host, target):
    os.kill(host.link(target)["pid"], signal.SIGKILL)


def stop_transport(host, target):
    os.kill(host.link(target)["pid"], signal.SIGSTOP)


def kill_controller(host, target):
    for pid in host.controllers():
        os.kill(pid, signal.SIGKILL)


def cut(host, target):
    target.standin("cut", target.box)


def freeze(host, target):
    target.standin("freeze", target.box)


def restart_gateway(host, target):
    target.standin("restart-gateway")


# A stopped stub of `local` holds up nothing: the core has the pipes.
CUTS = [(kind, how) for how in (kill_transport, stop_transport,
                                kill_controller) for kind in KINDS
        if (kind, how) != ("local", stop_transport)] + [
    ("openshell", how) for how in (cut, freeze, restart_gateway)]


@pytest.mark.skipif(QEMU, reason="agents are not told from qemu")
@pytest.mark.parametrize("kind, how", CUTS,
                         ids=[f"{k}-{h.__name__}" for k, h in CUTS])
def test_a_cut_link(new_host, tmp_path, kind, how):  # noqa: F811
    target = get_target(kind)
    host, mark, report = new_host(SERVE), marker(), tmp_path / "json"
    half, old = target.path("half"), target.path("old")
    target.sh(f"echo old >{old}")
    before = sorted(target.injected())
    job = host.start_job(target, mark, opts=["--json", str(report)])
    copies = [host.popen("cp", "-", f"{target}:{path}",
                         stdin=subprocess.PIPE) for path in (half, old)]
    for copy in copies:
        copy.stdin.write(b"x" * (2 * MIB))
        copy.stdin.flush()
    session, link = host.session(target), host.link(target)
    everyone = agents(session)
    assert len(everyone) >= 2 and len(find(mark)) >= 3
    how(host, target)
    # Who waits is told, and no status is invented.
    assert job.wait(LIMIT) == 125
    err = job.stderr.read()
    assert LOST in err and err.count(b"\n") == 1, err
    told = json.loads(report.read_text())
    assert told["outcome"] == "failed" and told["code"] is None
    assert told["error"]["step"] == "link" and told["status"] == 125
    for copy in copies:
        assert copy.wait(LIMIT) == 1
        assert LOST in copy.stderr.read()
    if how is freeze:
        target.standin("thaw", target.box)
    # Nothing of it is left.
    wait_for("the jobs' end", lambda: not find(mark))
    wait_for("the agent's end", lambda: not agents(session))
    wait_for("the transport's end", lambda: not any(
        os.path.exists(f"/proc/{pid}") for pid in (link["pid"], *everyone)))
    assert target.sh(f"cat {old}; rm {old}; ls {half} 2>/dev/null || :"
                     ) == b"old\n"
    wait_for("no temporary file", lambda: sorted(
        target.injected()) == before)
    # The next one has a new link, and says what its agent is worth.
    done = host.exec(target, "echo", "back", opts=["--json", str(report)])
    assert (done.status, done.out) == (0, b"back\n"), done
    assert host.session(target) != session
    new_agent = target.kind != "local"
    assert json.loads(report.read_text())["new_agent"] is new_agent
    assert host.link(target)["trust"] == (
        "new-agent" if new_agent else "same-agent")
    assert len(host.children()) == 1


@pytest.mark.skipif(QEMU, reason="agents are not told from qemu")
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_agent(new_host, kind):  # noqa: F811
    """Given up in time; it ends, and what it started, once it is thawed."""
    target = get_target(kind)
    host, mark = new_host(SERVE), marker()
    job = host.start_job(target, mark)
    session = host.session(target)
    core = agents(session)[1]
    os.kill(core, signal.SIGSTOP)
    try:
        assert job.wait(LIMIT) == 125
        assert LOST in job.stderr.read()
        assert host.exec(target, "echo", "back").out == b"back\n"
        assert host.session(target) != session
    finally:
        os.kill(core, signal.SIGCONT)
    wait_for("the jobs' end", lambda: not find(mark))
    wait_for("the agent's end", lambda: not agents(session))


@pytest.mark.skipif(QEMU, reason="agents are not told from qemu")
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_agent(new_host, kind):  # noqa: F811
    """The core: whoever has its uid may do that, and no more."""
    target = get_target(kind)
    host, mark = new_host(SERVE), marker()
    job = host.start_job(target, mark)
    session = host.session(target)
    os.kill(agents(session)[1], signal.SIGKILL)
    assert job.wait(LIMIT) == 125
    assert LOST in job.stderr.read()
    wait_for("the agent's end", lambda: not agents(session))
    # The leader dies with the core; its group may be orphaned by KILL.
    assert host.exec(target, "echo", "back").out == b"back\n"
    kill_all(mark)


@pytest.mark.skipif(QEMU, reason="agents are not told from qemu")
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


@pytest.mark.parametrize("kind", KINDS)
def test_cut_again_and_again(new_host, kind):  # noqa: F811
    """Every command that is not cut is whole; every one cut is told so."""
    target = get_target(kind)
    host, seen = new_host(SERVE), set()
    for i in range(5):
        client = host.popen("exec", str(target), "--", "sh", "-c",
                            "while :; do echo line; done")
        assert client.stdout.read(5 * 20_000) == b"line\n" * 20_000
        link = host.link(target)
        seen.add(link["pid"])
        os.kill(link["pid"], signal.SIGKILL)
        out = client.stdout.read()
        assert (b"line\n" * (len(out) // 5 + 1))[:len(out)] == out
        assert client.wait(LIMIT) == 125 and LOST in client.stderr.read()
        done = host.sh(target, "cat; exit 4", input=b"z" * 100_000)
        assert (done.status, done.out) == (4, b"z" * 100_000), done
        assert len(host.children()) == 1
    assert len(seen) == 5


def test_a_quiet_link_is_not_dead(new_host):  # noqa: F811
    """Silence of the job is not silence of the link."""
    host = new_host("--ping 200 --dead 1500")
    targets = [get_target(kind) for kind in KINDS]
    for done in together(len(targets), lambda i: host.sh(
            targets[i], "sleep 4; echo here")):
        assert (done.status, done.out) == (0, b"here\n"), done


@pytest.mark.skipif(QEMU, reason="agents are not told from qemu")
@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_link_closes_where_it_may(new_host, kind):  # noqa: F811
    target = get_target(kind)
    host = new_host("--idle 1")
    assert host.exec(target, "true").status == 0
    session = host.session(target)
    wait_for("the end of an idle link", lambda: host.status()["links"] == [])
    wait_for("the agent's end", lambda: not agents(session))
    assert host.children() == []
    assert host.exec(target, "echo", "again").out == b"again\n"

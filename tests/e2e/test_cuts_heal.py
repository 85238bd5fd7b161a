# SPDX-License-Identifier: MIT
"""A link that is cut: the session goes on over the next one."""
import os
import signal
import subprocess
import threading
import time

import pytest
from cuts import (CUTS, HEALS, IDS, SHORT, UNLESS_QEMU, Talk, entry, freeze,
                  healed, kill_transport, noticed, session_of, transport)
from spine import (KINDS, LIMIT, MIB, agents, count, find,  # noqa: F401
                   get_target, kill_all, marker, new_host,
                   wait_for)

pytestmark = UNLESS_QEMU


@pytest.mark.parametrize("kind, how", CUTS, ids=IDS)
def test_one_cut_heals(new_host, kind, how):  # noqa: F811
    target = get_target(kind)
    host, mark = new_host(HEALS), marker()
    new, old, log = (target.path(x) for x in ("new", "old", "log"))
    target.sh(f"echo old >{old}")
    before = sorted(target.injected())
    job = host.start_job(target, mark)
    talk = Talk(host, target, log, 7)
    talk.turn()
    data = os.urandom(6 * MIB)
    copies = [host.popen("cp", "-", f"{target}:{path}",
                         stdin=subprocess.PIPE) for path in (new, old)]
    for copy in copies:
        copy.stdin.write(data[:2 * MIB])
        copy.stdin.flush()
    session, link = host.session(target), host.link(target)
    pids = sorted(find(mark))
    how(host, target)
    # Who waits sees a pause, and no more.
    feeds = [threading.Thread(target=lambda c=copy: (
        c.stdin.write(data[2 * MIB:]), c.stdin.close())) for copy in copies]
    for feed in feeds:
        feed.start()
    talk.turn()
    healed(host, target)
    if how is freeze:
        target.standin("thaw", target.box)
    for feed, copy in zip(feeds, copies):
        feed.join()
        assert copy.wait(LIMIT) == 0, copy.stderr.read()
    for path in (new, old):
        assert target.sh(f"cat {path}") == data
    talk.turn(300_000)
    talk.end()
    assert sorted(find(mark)) == pids and job.poll() is None
    # The same session, trusted as it was; the old transport is gone.
    assert host.session(target) == session
    now = host.link(target)
    assert (now["trust"], now["requests"]) == (link["trust"], 1)
    wait_for("the old one's end", lambda: not os.path.exists(
        f"/proc/{link['pid']}") and host.children() == [now["pid"]])
    assert target.sh(f"cat {log}; rm {log} {new} {old}") == b"7\n"
    wait_for("no file of ours", lambda: sorted(target.injected()) == before)
    kill_all(mark)
    assert job.wait(LIMIT) == 137 and job.stderr.read() == b""


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_while_nobody_waits(new_host, kind):  # noqa: F811
    """The next command goes on with the same agent."""
    target = get_target(kind)
    host = new_host(HEALS)
    assert host.exec(target, "echo", "hi").out == b"hi\n"
    session = host.session(target)
    kill_transport(host, target)
    noticed(host, target, "parked")
    wait_for("its end", lambda: host.children() == [])
    assert host.exec(target, "echo", "again").out == b"again\n"
    assert host.session(target) == session
    assert entry(host, target)["relinks"] == 1


def test_a_detached_job_holds_its_link(new_host):  # noqa: F811
    """Nobody waits, and yet something goes on there."""
    target, mark = get_target("docker"), marker()
    host = new_host(SHORT)
    assert host.exec(target, "sleep", mark, opts=["-d"]).status == 0
    wait_for("that it is known", lambda: find(mark))
    kill_transport(host, target)
    healed(host, target)
    time.sleep(7)
    assert find(mark)
    assert host.run("kill", str(target), "1").status == 0
    wait_for("the job's end", lambda: not find(mark))


def test_status_shows_a_lost_link(new_host):  # noqa: F811
    target = get_target("local")
    host, mark = new_host("--ping 400 --dead 3000 --linger 30"), marker()
    job = host.start_job(target, mark)
    agent = host.session(target)
    core, pid = agents(agent)[1], transport(host, target)
    os.kill(core, signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGKILL)
        noticed(host, target)
        assert entry(host, target)["lost_s"] < 30
        assert b"re-linking" in host.run("status").out
    finally:
        os.kill(core, signal.SIGCONT)
    healed(host, target)
    assert b"linked again 1 times" in host.run("status").out
    kill_all(mark)
    assert job.wait(LIMIT) == 137


def held(pid):
    """Its descriptors, and its own memory in KiB."""
    text = open(f"/proc/{pid}/status").read()
    return (len(os.listdir(f"/proc/{pid}/fd")),
            int(text.split("RssAnon:")[1].split()[0]))


@pytest.mark.timeout(1800)
def test_many_short_cuts_of_an_idle_link(new_host):  # noqa: F811
    """Neither end grows: the same descriptors and memory after any number."""
    target = get_target("local")
    host = new_host(HEALS)
    session = session_of(host, target)
    pids = host.controllers()[0], agents(session)[1]
    cuts = count(40, 1000)
    early = None
    for i in range(cuts):
        kill_transport(host, target)
        noticed(host, target, "parked")
        assert host.exec(target, "echo", "on").out == b"on\n"
        if i == cuts // 4:
            time.sleep(1)           # memory goes back when it is quiet
            early = [held(pid) for pid in pids]
    assert host.session(target) == session
    assert entry(host, target)["relinks"] == cuts
    wait_for("as few descriptors", lambda: [
        held(pid)[0] for pid in pids] == [x[0] for x in early])
    late = [held(pid) for pid in pids]
    print(cuts, early, late)
    for (_, before), (_, after) in zip(early, late):
        assert after <= before + 256, (early, late)

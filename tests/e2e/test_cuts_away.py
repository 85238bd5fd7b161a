# SPDX-License-Identifier: MIT
"""A link that is cut while the way to its target is shut, full or another: the
session goes on once there is one."""
import os
import signal
import subprocess

import pytest
from cuts import (ENDS, HEALS, SHORT, UNLESS_QEMU, Talk, entry, gate, healed,
                  is_new, kill_transport, noticed, told, transport)
from spine import (LIMIT, Docker, find, get_target, marker,  # noqa: F401
                   new_host, wait_for)

pytestmark = UNLESS_QEMU


@pytest.mark.parametrize("says", ["down", "full", "silent", "nospace"])
def test_a_way_that_comes_back(new_host, tmp_path, says):  # noqa: F811
    target = get_target("docker")
    if says == "nospace":
        target = Docker("busybox")          # its stub is copied in
    host = new_host(HEALS + " --hello 6000", env=gate(tmp_path))
    talk = Talk(host, target, "/dev/null", 3)
    talk.turn()
    (tmp_path / "says").write_text(says)
    kill_transport(host, target)
    wait_for("an attempt", lambda: entry(host, target)["link"] > 2 or
             entry(host, target)["lost_s"] > 2)
    (tmp_path / "says").unlink()
    talk.turn()
    talk.end()


def test_a_paused_container(new_host):  # noqa: F811
    get_target("docker")
    target = Docker("busybox-baked")
    host = new_host(HEALS)
    talk = Talk(host, target, "/dev/null", 3)
    talk.turn()
    pid = transport(host, target)
    subprocess.run(["docker", "pause", target.box], check=True,
                   capture_output=True)
    os.kill(pid, signal.SIGKILL)
    wait_for("some time", lambda: entry(host, target)["lost_s"] > 2)
    assert entry(host, target)["state"] == "re-linking"
    subprocess.run(["docker", "unpause", target.box], check=True,
                   capture_output=True)
    talk.turn()
    talk.end()


@pytest.mark.parametrize("image", ["busybox-baked", "busybox"])
def test_a_full_container(new_host, image):  # noqa: F811
    """It may have no process more: no stub can start, and the job goes on."""
    get_target("docker")
    target = Docker(image, "--pids-limit", "100")
    host = new_host(HEALS)
    talk = Talk(host, target, "/dev/null", 3)
    talk.turn()
    session = host.session(target)
    limit_pids(target, 1)
    if any(subprocess.run(["docker", "exec", target.box, "true"],
                          capture_output=True, check=False).returncode == 0
           for _ in range(5)):
        pytest.skip("this kernel does not hold a container to its pids")
    kill_transport(host, target)
    wait_for("some attempts", lambda: entry(host, target)["link"] > 3 or
             entry(host, target)["lost_s"] > 4)
    noticed(host, target)
    limit_pids(target, 100)
    talk.turn()
    talk.end()
    assert host.session(target) == session


def as_root(target, *words):
    subprocess.run(["docker", "exec", "-u", "0", target.box, *words],
                   check=True, capture_output=True)


def limit_pids(target, most):
    subprocess.run(["docker", "update", "--pids-limit", str(most),
                    target.box], check=True, capture_output=True)


def test_a_container_that_refuses_the_stub(new_host):  # noqa: F811
    """By the runtime's own word: the program may not be run."""
    get_target("docker")
    target = Docker("busybox-baked")
    host = new_host(HEALS)
    talk = Talk(host, target, "/dev/null", 3)
    talk.turn()
    session = host.session(target)
    as_root(target, "chmod", "0", "/usr/bin/sandmux-agent")
    kill_transport(host, target)
    wait_for("some attempts", lambda: entry(host, target)["link"] > 3, 90)
    noticed(host, target)
    as_root(target, "chmod", "755", "/usr/bin/sandmux-agent")
    talk.turn()
    talk.end()
    assert host.session(target) == session


# After `docker cp` of a stub somebody puts another program in its place, and
# the stub itself elsewhere.
SWAP = """swap:cp*)
    $real "$@" || exit
    $real exec -i -u 0 ${3%:/} sh -c 'for f in /.sandmux-*; do
        grep -q /tmp/argv $f && continue
        mv $f /real; cat >$f; chmod 755 $f; done' <"${0%/*}/fake"
    exit;;
"""
FAKES = {
    "noise": "head -c 5000 /dev/urandom; exec cat >>/tmp/in",
    "another agent": "shift; tee -a /tmp/in | exec /real start \"$@\"",
    "gone": "exec cat /no-such-file",
}
SWAPPED = """#!/bin/sh
echo "$@" >>/tmp/argv
%s
"""


@pytest.mark.parametrize("what", FAKES)
def test_a_swapped_file_is_no_stub(new_host, tmp_path, what):  # noqa: F811
    """It learns what is public, is told nothing, and harms nothing."""
    get_target("docker")
    target = Docker("busybox")
    host = new_host(HEALS + " --hello 8000", env=gate(tmp_path, more=SWAP))
    talk = Talk(host, target, "/dev/null", 3)
    talk.turn()
    session = host.session(target)
    (tmp_path / "fake").write_text(SWAPPED % FAKES[what])
    (tmp_path / "says").write_text("swap")
    kill_transport(host, target)
    wait_for("some attempts", lambda: entry(host, target)["link"] > 3, 90)
    noticed(host, target)
    (tmp_path / "says").unlink()
    talk.turn()
    talk.end()
    assert host.session(target) == session
    argv = target.sh("cat /tmp/argv").splitlines()
    said = {x for x in argv if x != b"remove"}
    assert said and all(x.startswith(b"attach ") for x in said), argv
    # Nothing is sent before READY has opened.
    assert target.sh("cat /tmp/in 2>/dev/null || :") == b""


def test_a_swapped_file_that_says_that_nobody_is_there(  # noqa: F811
        new_host, tmp_path):
    """It could as well kill the agent: that is what is said."""
    get_target("docker")
    target = Docker("busybox")
    host = new_host(SHORT, env=gate(tmp_path, more=SWAP))
    mark, report = marker(), tmp_path / "json"
    job = host.start_job(target, mark, opts=["--json", str(report)])
    session = host.session(target)
    (tmp_path / "fake").write_text(SWAPPED % "exit 69")
    (tmp_path / "says").write_text("swap")
    kill_transport(host, target)
    told(job, report, "agent", b"agent gone")
    (tmp_path / "says").unlink()
    is_new(host, target, session)
    wait_for("the jobs' end", lambda: not find(mark), ENDS)


def test_a_swapped_file_between(new_host, tmp_path):  # noqa: F811
    """It passes everything on: the session goes on, and it reads nothing."""
    get_target("docker")
    target = Docker("busybox")
    host = new_host(HEALS, env=gate(tmp_path, more=SWAP))
    word = os.urandom(16).hex().encode()
    job = host.popen("exec", "-i", str(target), "--", "sh", "-c",
                     "while read x; do echo $x; done; exit 7",
                     stdin=subprocess.PIPE)

    def turn():
        job.stdin.write(word + b"\n")
        job.stdin.flush()
        assert job.stdout.readline() == word + b"\n"
    turn()
    session = host.session(target)
    (tmp_path / "fake").write_text(SWAPPED % (
        'tee -a /tmp/in | /real "$@" | tee -a /tmp/out'))
    (tmp_path / "says").write_text("swap")
    kill_transport(host, target)
    healed(host, target)
    for _ in range(20):
        turn()
    job.stdin.close()
    assert job.wait(LIMIT) == 7 and job.stderr.read() == b""
    assert host.session(target) == session
    for name in ("in", "out"):
        seen = target.sh(f"cat /tmp/{name}")
        assert len(seen) > 20 * len(word) and word not in seen
    assert word not in target.sh("cat /tmp/argv")


def test_a_full_disk(new_host):  # noqa: F811
    """A stub that is in the image needs no room."""
    get_target("docker")
    target = Docker("busybox-baked", "--tmpfs", "/tmp:size=1m",
                    "--shm-size", "1m")
    host = new_host(HEALS)
    talk = Talk(host, target, "/dev/null", 3)
    talk.turn()
    session = host.session(target)
    done = host.sh(target, "cat /dev/zero >/tmp/all; cat /dev/zero "
                   ">/dev/shm/all; echo more >>/tmp/all")
    assert done.status == 1 and b"No space left" in done.err, done
    kill_transport(host, target)
    healed(host, target)
    talk.turn()
    talk.end()
    assert host.session(target) == session

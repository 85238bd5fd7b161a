# SPDX-License-Identifier: MIT
"""A link that is cut: the session goes on over the next one, or it is said
why it does not, and nothing is left."""
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest
from spine import (KINDS, LIMIT, LOST, MIB, QEMU, Docker,  # noqa: F401
                   agents, count, find, get_target, kill_all,
                   make_openshell, marker, new_host, openshell_bin,
                   together, wait_for)

# Short, but not so short that a busy machine looks dead.
SERVE = "--ping 400 --dead 3000"
HEALS = SERVE + " --linger 60"
SHORT = SERVE + " --linger 6"
ENDS = 20 + 12              # seconds: silence and linger, and then some

pytestmark = pytest.mark.skipif(QEMU, reason="agents are not told from qemu")


def transport(host, target):
    """The pid of the link's process, once there is one that is up."""
    return wait_for("a link that is up", lambda: entry(host, target).get(
        "state") == "up" and entry(host, target)["pid"])


def kill_transport(host, target):
    os.kill(transport(host, target), signal.SIGKILL)


def stop_transport(host, target):
    os.kill(transport(host, target), signal.SIGSTOP)


def noticed(host, target, state="re-linking"):
    """What is asked from here on goes into no link that is dead already."""
    wait_for("that it is noticed", lambda: entry(host, target).get(
        "state") == state)


def cut(host, target):
    target.standin("cut", target.box)


def freeze(host, target):
    target.standin("freeze", target.box)


def restart_gateway(host, target):
    target.standin("restart-gateway")


# A stopped stub of `local` holds up nothing: the core has the pipes.
CUTS = [(kind, how) for how in (kill_transport, stop_transport)
        for kind in KINDS if (kind, how) != ("local", stop_transport)] + [
    ("openshell", how) for how in (cut, freeze, restart_gateway)]
IDS = [f"{k}-{h.__name__}" for k, h in CUTS]


def entry(host, target):
    """The link's state in `status`, whatever it is; {}: there is none."""
    return next((x for x in host.status()["links"]
                 if x["target"] == str(target)), {})


def healed(host, target, times=1):
    def there():
        now = entry(host, target)
        return now.get("relinks", 0) >= times and now["state"] == "up"
    return wait_for("the next link", there, 90)


def session_of(host, target):
    """Its name, while a job keeps the link from being closed as idle."""
    mark = marker()
    job = host.start_job(target, mark)
    session = host.session(target)
    kill_all(mark)
    assert job.wait(LIMIT) == 137
    return session


class Talk:
    """A job that notes its start in a file, and says everything again."""

    def __init__(self, host, target, log, seed):
        self.rng, self.seed = random.Random(seed), seed
        self.client = host.popen(
            "exec", "-i", str(target), "--", "sh", "-c",
            'echo "$2" >>"$1"; cat; exit "$2"', "sh", log, str(seed),
            stdin=subprocess.PIPE)
        self.turns = 0

    def turn(self, size=20000):
        data = self.rng.randbytes(self.rng.randrange(1, size))
        feed = threading.Thread(target=self.feed, args=(data,))
        feed.start()
        got = self.client.stdout.read(len(data))
        feed.join()
        assert got == data, (len(got), len(data), self.client.stderr.read()
                             if len(got) < len(data) else "other bytes")
        self.turns += 1

    def feed(self, data):
        try:
            self.client.stdin.write(data)
            self.client.stdin.flush()
        except BrokenPipeError:
            pass

    def end(self):
        self.client.stdin.close()
        assert self.client.stdout.read() == b""
        assert self.client.wait(LIMIT) == self.seed
        assert self.client.stderr.read() == b""


# ---- it heals --------------------------------------------------------------

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


# ---- a way that is not there for a while -----------------------------------

def gate(tmp_path, program="docker", more=""):
    """A program that does what the file `says`: by default, what it does;
    `more` are further cases, with the real one as $real."""
    real = shutil.which(program, path=f"{openshell_bin()}:"
                        f"{os.environ['PATH']}")
    path = tmp_path / program
    path.write_text(
        f"#!/bin/sh\nreal={real}\n"
        f"case $(cat {tmp_path}/says 2>/dev/null):$1$2 in\n"
        "down:*) echo 'Cannot connect to the Docker daemon' >&2; exit 1;;\n"
        "full:exec*) echo 'OCI runtime exec failed: cannot fork' >&2; "
        "exit 126;;\n"
        "silent:exec*) exec sleep 1000;;\n"
        "nospace:cp*) cat >/dev/null; echo 'no space left on device' >&2; "
        "exit 1;;\n"
        f"{more}esac\nexec $real \"$@\"\n")
    path.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


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


# ---- it does not heal --------------------------------------------------------

def told(client, report, step, *words):
    """One line, no status invented, and which of the outcomes it was."""
    assert client.wait(LIMIT) == 125
    err = client.stderr.read()
    assert err.count(b"\n") == 1 and b"outcome unknown" in err, err
    for word in words:
        assert word in err, err
    said = json.loads(report.read_text())
    assert said["outcome"] == "failed" and said["code"] is None
    assert said["error"]["step"] == step, said
    return err


def is_new(host, target, session):
    """The next command has a new agent, and says what that one is worth."""
    done = host.exec(target, "echo", "back")
    assert (done.status, done.out) == (0, b"back\n"), done
    assert host.session(target) != session
    assert host.link(target)["trust"] == (
        "same-agent" if target.kind == "local" else "new-agent")
    wait_for("the old one's end", lambda: len(host.children()) == 1)


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


# ---- stop, and quiet links ----------------------------------------------------

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

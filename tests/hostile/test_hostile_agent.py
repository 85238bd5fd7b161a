# SPDX-License-Identifier: MIT
"""Agents that lie: the controller lives on, small, and says what happened.

The agent is hostile_agent.py, reached through a docker program of our own
that stands first on PATH.  After each lie the next command, with an honest
agent, works over a new link.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unicodedata

import pytest

import hostile_agent
from conftest import BUILD, alive, children, peak, wait_for
from test_secrets import places, wipes

MIB = 1 << 20
HERE = pathlib.Path(__file__).parent
PING, DEAD = 200, 3000          # ms; a busy machine is not dead
PROGRAMS = ["plain", "asan"] if os.environ.get("SANDMUX_LONG") else ["plain"]


class Controller:
    def __init__(self, program, agent, directory):
        self.dir = directory
        self.program = program
        self.runs = 0
        for name in ("bin", "run", "state", "home"):
            (directory / name).mkdir(mode=0o700)
        docker = directory / "bin" / "docker"
        docker.write_text(
            (HERE / "docker.in").read_text().replace("@AGENT@", agent)
            .replace("@PYTHON@", "/usr/bin/python3")
            .replace("@HOSTILE@", str(HERE / "hostile_agent.py")))
        docker.chmod(0o755)
        (directory / "id").write_text(directory.name)
        self.env = {
            "PATH": f"{directory}/bin:/usr/bin:/bin",
            "HOME": str(directory / "home"), "DOCKER_HOSTILE": str(directory),
            "SANDMUX_DIR": str(directory / "run"),
            "XDG_STATE_HOME": str(directory / "state"),
            "ASAN_OPTIONS": "detect_leaks=0:exitcode=99",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        self.process = subprocess.Popen(
            [program, "serve", "--ping", str(PING), "--dead", str(DEAD),
             "--hello", "2500", "--log-level", "debug", "--linger", "0"],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=open(directory / "stderr", "wb"))
        assert wait_for((directory / "run" / "socket").exists)

    def mode(self, mode):
        (self.dir / "mode").write_text(mode)

    def begin(self, *argv, target="docker:box", stdin=subprocess.DEVNULL):
        """A client; its report is read by end()."""
        self.runs += 1
        report = self.dir / f"report{self.runs}"
        process = subprocess.Popen(
            [self.program, "exec", "--json", str(report), "-i", target, "--",
             *argv], env=self.env, stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        process.report = report
        return process

    @staticmethod
    def end(process, timeout=20):
        out, err = process.communicate(timeout=timeout)
        report = (json.loads(process.report.read_text())
                  if process.report.exists() else None)
        return process.returncode, out, err, report

    def run(self, *argv, **how):
        return self.end(self.begin(*argv, **how))

    def check(self):
        assert self.process.poll() is None, self.stderr()
        assert self.stderr() == "", self.stderr()
        if "asan" not in self.program:
            assert peak(self.process.pid) < 16 * MIB

    def stderr(self):
        return (self.dir / "stderr").read_text(errors="replace")

    def log(self):
        return (self.dir / "run" / "log").read_bytes()

    def honest(self):
        self.mode("honest")
        status, out, err, _ = self.run("echo", "still here")
        assert (status, out) == (0, b"still here\n"), (err, self.log())

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        # Nothing of it stays, whatever the agents did.
        left = [p for p in children(self.process.pid) if alive(p)]
        assert (status, left) == (0, []), self.stderr()


def test_every_lie_is_tried():
    """A mode that no test here names would be a test nobody runs."""
    source = pathlib.Path(__file__).read_text()
    for act in hostile_agent.WITHIN:
        assert f'"{act.__name__}"' in source, act.__name__


@pytest.fixture(params=PROGRAMS)
def controller(request, agent_program, host_program):
    program = host_program
    if request.param == "asan":
        program = str(BUILD / "asan" / "sandmux")
        if not os.path.exists(program):
            pytest.skip("no build with sanitizers")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
    c = Controller(program, agent_program, directory)
    yield c
    try:
        c.close()
    finally:
        shutil.rmtree(directory)


def names(acts):
    return [act.__name__ for act in acts]


def is_safe(text):
    """What a terminal is given: UTF-8, no controls but line ends."""
    return all(c == "\n" or unicodedata.category(c) not in
               ("Cc", "Zl", "Zp") and c not in "\u202e\u2066"
               for c in text.decode("utf-8"))


@pytest.mark.parametrize("mode", names(hostile_agent.BEFORE))
def test_before_ready(controller, mode):
    if mode.startswith("replay"):
        controller.mode("recorded")
        assert controller.run("echo", "hi")[:2] == (0, b"hi\n")
        # The recorded link ends, so that the next one is new.
        os.kill(next(p for p in children(controller.process.pid)
                     if b"tee" in pathlib.Path(f"/proc/{p}/cmdline")
                     .read_bytes()), signal.SIGKILL)
        wait_for(lambda: b"link lost" in controller.log())
    controller.mode(mode)
    runs = [controller.begin("true") for _ in range(3)]
    for run in runs:
        status, out, err, report = controller.end(run, 30)
        assert (status, out) == (125, b""), err
        assert is_safe(err), err
        assert report["outcome"] == "failed"
        assert report["error"]["step"] == "start", report
        assert report["code"] is None
        if mode == "noise_and_exit":
            assert b"profile says" in err
        if mode == "other_versions":
            assert b"0007-0009" in err
    controller.check()
    controller.honest()
    controller.check()


@pytest.mark.parametrize("mode", names(hostile_agent.AFTER))
def test_after_ready(controller, mode):
    controller.mode(mode)
    begun = time.monotonic()
    runs = [controller.begin("true") for _ in range(3)]
    for run in runs:
        status, out, err, report = controller.end(run, 30)
        assert status == 125, (status, out, err)
        assert is_safe(err), err
        assert report["outcome"] == "failed" and report["code"] is None
        # A client that came after the end met a new link and the same lie.
        assert report["error"]["step"] == "link", report
        assert b"link lost, outcome unknown" in err
    assert time.monotonic() - begun < 3 * (DEAD / 1000 + 4)
    controller.check()
    controller.honest()
    controller.check()
    assert is_safe(controller.log())


@pytest.mark.parametrize("mode", ["never_answers", "talks_only"])
def test_never_answers(controller, mode):
    """It lives, so its request waits; the user may give up, others go on."""
    controller.mode(mode)
    run = controller.begin("true")
    time.sleep(2 * DEAD / 1000)
    assert run.poll() is None
    other = controller.run("echo", "ok", target="local")
    assert other[:2] == (0, b"ok\n")
    run.send_signal(signal.SIGINT)
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)
    assert controller.end(run)[0] != 0
    controller.check()


def test_stops_reading(controller):
    """Credit for everything, and then it reads none of it: the pipe to it is
    full, the client waits, nothing grows; when its process ends the request
    does, and the next command has a new link."""
    controller.mode("stops_reading")
    run = controller.begin("cat", stdin=subprocess.PIPE)
    os.set_blocking(run.stdin.fileno(), False)
    taken, block = 0, b"x" * 65536

    def pushed():
        nonlocal taken
        try:
            while taken < 32 * MIB:
                taken += os.write(run.stdin.fileno(), block)
        except BlockingIOError:
            pass
        return taken
    # More than the pipe into the client: it has gone further.
    assert wait_for(lambda: pushed() > MIB // 4, 60), taken
    until = time.monotonic() + 2 * DEAD / 1000
    while time.monotonic() < until:
        assert pushed() < 16 * MIB, "somebody keeps what nobody reads"
        other = controller.run("echo", "ok", target="local")
        assert other[:2] == (0, b"ok\n")
    assert run.poll() is None, "it talked: the link was alive"
    controller.check()
    agent = [p for p in children(controller.process.pid) if b"stops_reading"
             in pathlib.Path(f"/proc/{p}/cmdline").read_bytes()]
    assert len(agent) == 1
    os.kill(agent[0], signal.SIGKILL)
    # communicate() would wait for room in its stdin.
    assert run.wait(30) == 125
    run.stdin.close()
    run.stdin = None
    status, _, err, report = controller.end(run)
    assert report["error"]["step"] == "link", report
    assert b"link lost, outcome unknown" in err, err
    controller.honest()
    controller.check()


def test_body_without_credit(controller):
    """Large commands wait for an agent that takes none: bounded, typed."""
    controller.mode("waits_for_body")
    big = ["x" * 100000] * 9
    runs = [controller.begin("true", *big) for _ in range(12)]
    busy = wait_for(lambda: [r for r in runs if r.poll() is not None], 20)
    assert busy, "all of them wait: nothing bounds that"
    for run in busy:
        report = controller.end(run)[3]
        assert report["error"]["step"] == "busy", report
    assert controller.run("echo", "ok", target="local")[:2] == (0, b"ok\n")
    controller.check()
    for run in runs:
        run.kill()
        run.communicate()
    controller.mode("honest")
    assert controller.run("echo", "ok", target="docker:other")[0] == 0
    controller.check()


def test_floods_log(controller):
    controller.mode("floods_log")
    status, _, err, _ = controller.run("true")
    assert status == 9, err
    assert is_safe(controller.log())
    controller.check()


def test_floods_control(controller):
    controller.mode("floods_control")
    runs = [controller.begin("true") for _ in range(4)]
    assert controller.run("echo", "ok", target="local")[:2] == (0, b"ok\n")
    for run in runs:
        status, _, err, _ = controller.end(run, 60)
        assert status == 9, err
    controller.check()


def test_answers_with_escapes(controller):
    controller.mode("answers_with_escapes")
    status, out, err, report = controller.run("true")
    assert status != 0 and out == b"" and is_safe(err)
    assert report["error"]["step"] == "open"
    assert is_safe(controller.log())
    controller.check()


def test_answers_nonsense(controller, tmp_path):
    controller.mode("answers_nonsense")
    for _ in range(6):
        status, out, err, report = controller.run("true")
        assert out == b"" and is_safe(err), err
        assert report is not None
        assert 0 <= status <= 255
    for argv in (["doctor", "docker:box"], ["doctor", "--json", "docker:box"],
                 ["cp", "docker:box:/etc/passwd", str(tmp_path / "x")]):
        done = subprocess.run([controller.program, *argv],
                              env=controller.env, capture_output=True,
                              timeout=30)
        assert done.returncode not in (0, 99) and done.returncode > 0
        assert is_safe(done.stderr), done.stderr
        assert is_safe(done.stdout), done.stdout
    assert not (tmp_path / "x").exists()
    controller.check()


def test_answers_as_controller(controller):
    """A caller must not take an agent's word for "it never ran"."""
    controller.mode("answers_as_controller")
    for _ in range(5):
        status, out, err, report = controller.run("true")
        assert status == 125 and out == b"", err
        assert report["error"]["step"] == "protocol", report
    controller.check()


def test_drips(controller):
    controller.mode("drips")
    assert controller.run("true")[:2] == (0, b"slow\n")
    controller.check()


def test_forgets_requests(controller):
    controller.mode("forgets_requests")
    for _ in range(5):
        assert controller.run("true")[:2] == (0, b"")
    assert (controller.dir / "starts").read_text() == "x\n"
    controller.check()


@pytest.mark.skipif(os.geteuid() != 0, reason="reads others' memory")
def test_secret_is_the_controllers_alone(controller):
    """S: in the controller on pages that forks do not get, else nowhere."""
    if not wipes():
        pytest.skip("this kernel has no MADV_WIPEONFORK")
    if "asan" in controller.program:
        pytest.skip("a sanitizer's shadow is terabytes to search")
    controller.mode("keeps_secret")
    assert controller.run("true")[0] == 0
    secret = bytes.fromhex((controller.dir / "secret").read_text())
    agent = set(children(controller.process.pid))
    # A helper that is a fork of the controller, at its blocking work.
    (controller.dir / "slow").touch()
    slow = controller.begin("true", target="docker:slow")
    controller.mode("honest")
    # Transports that were started while S is there.
    job = controller.begin("sleep", "300", target="docker:other")
    local = controller.begin("sleep", "300", target="local")

    def others():
        pids = [p for p in children(controller.process.pid)
                if p not in agent]
        words = []
        for p in pids:
            with contextlib.suppress(OSError):      # it has ended meanwhile
                words.append(pathlib.Path(f"/proc/{p}/cmdline").read_bytes())
        forks = [w for w in words if b"serve" in w]
        jobs = [w for w in words if w.startswith(b"sleep\x00300")]
        return pids if forks and len(jobs) == 2 else []
    pids = wait_for(others, 60)     # a bound, no measure
    assert pids, "the helper and the jobs are not there"
    found = places(controller.process.pid, secret)
    assert found, "S is not in the controller: the search is no proof"
    for flags in found:
        assert "wf" in flags and "dd" in flags, flags
    for pid in pids:
        assert not places(pid, secret)
    for run in (slow, job, local):
        run.kill()
        run.communicate()

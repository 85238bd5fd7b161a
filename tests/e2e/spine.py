# SPDX-License-Identifier: MIT
"""What the test_spine_* files share: controllers of their own, the three
kinds of targets, and eyes on processes that go round the program under test.

A Host is a runtime directory with its controller; a Target is a place where
commands run.  Targets are made once and live until the tests end.
"""
import atexit
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest
from docker_fixture import ROOT, docker_program, image, skip
from docker_fixture import remove as docker_remove
from docker_fixture import start as docker_start

BUILD = pathlib.Path(os.environ.get("SANDMUX_BUILD") or ROOT / "build")
SANDMUX = str(BUILD / "host/sandmux")
LONG = bool(os.environ.get("SANDMUX_LONG"))
QEMU = bool(os.environ.get("SANDMUX_QEMU"))
LIMIT = 600 if LONG else 150        # seconds for anything; never a measure
KINDS = ("local", "docker", "openshell")
LOST = b"link lost, outcome unknown"
MIB = 1 << 20


def count(small, full):
    """How many: `make check` or `make check-long`."""
    return full if LONG else small


# What is to go when the tests end, the last one first.  Before a worker says
# that it is done: from then on it has only seconds.
_ends = contextlib.ExitStack()
at_end = _ends.callback
end_all = _ends.close
atexit.register(end_all)

_serial = [os.getpid() * 1000]
_lock = threading.Lock()


def marker():
    """Seconds to sleep that no other process sleeps: a mark in its argv."""
    with _lock:
        _serial[0] += 1
        return str(1_000_000_000 + _serial[0] % 1_000_000_000)


def wait_for(what, condition, seconds=30):
    """Until condition() is true; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


# ---- processes ----------------------------------------------------------

OURS = ("sandmux", "docker", "openshell", "bash", "sh")
AGENT = re.compile(rb"(^|/)(\.sandmux-[0-9a-f]+|sandmux-agent|agent-[0-9a-f]+)$")


def processes():
    """{pid: (ppid, argv)} of everything alive, containers included."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                argv = f.read().split(b"\0")[:-1]
            with open(f"/proc/{entry}/stat", "rb") as f:
                rest = f.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if argv and rest[0] not in (b"Z", b"X"):
            found[int(entry)] = int(rest[1]), argv
    return found


def find(mark):
    """Processes of jobs that carry the mark; not the clients that ask."""
    mark = mark.encode()
    return [pid for pid, (_, argv) in processes().items()
            if any(mark in word for word in argv) and pid != os.getpid()
            and os.path.basename(argv[0]) not in (b"sandmux", b"docker",
                                                  b"openshell")]


def kill_all(mark):
    for pid in find(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def agents(session):
    """[stub, core, workers...] of a session, wherever it runs."""
    everything = processes()
    found = {pid: ppid for pid, (ppid, argv) in everything.items()
             if session in argv and any(AGENT.search(w) for w in argv) and
             os.path.basename(argv[0]).decode("latin-1") not in OURS}
    stubs = [p for p in found if found[p] not in found]
    cores = [p for p in found if found[p] in stubs]
    return stubs + cores + [p for p in found if p not in stubs + cores]


def hwm(pid):
    """Greatest resident size so far, in KiB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text).group(1))


# ---- the program under test ---------------------------------------------

class Done:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return f"<{self.status} {self.out[-300:]!r} {self.err[-900:]!r}>"


_hosts = []


class Host:
    """A runtime directory of its own, its controller and its clients."""

    def __init__(self, serve="", env=(), program=SANDMUX):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="spine-"))
        self.dir = self.top / "run"
        self.program = str(program)
        self.clients = []
        self.env = {**os.environ, "SANDMUX_DIR": str(self.dir),
                    "XDG_STATE_HOME": str(self.top / "state"),
                    "SANDMUX_SERVE_ARGS": serve}
        self.env["PATH"] = f"{openshell_bin()}:{self.env['PATH']}"
        self.env.update(env)
        _hosts.append(self)

    def run(self, *args, input=None, env=None, timeout=LIMIT):
        how = {"stdin": subprocess.DEVNULL} if input is None else {
            "input": input}
        done = subprocess.run([self.program, *args], env={**self.env,
                              **(env or {})}, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False, **how)
        return Done(done.returncode, done.stdout, done.stderr)

    def exec(self, target, *command, opts=(), input=None, **kw):
        """Run a command; input, if any, goes to it by -i."""
        stdin = () if input is None else ("-i",)
        return self.run("exec", *stdin, *opts, str(target), "--", *command,
                        input=input, **kw)

    def sh(self, target, script, *args, **kw):
        return self.exec(target, "sh", "-c", script, *args, **kw)

    def popen(self, *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
              stderr=subprocess.PIPE, env=None, under=()):
        client = subprocess.Popen([*under, self.program, *args], stdin=stdin,
                                  stdout=stdout, stderr=stderr,
                                  env={**self.env, **(env or {})})
        self.clients.append(client)
        return client

    def start_job(self, target, mark, opts=()):
        """A client whose job has a child; both sleep and carry the mark."""
        client = self.popen("exec", *opts, str(target), "--", "sh", "-c",
                            f"sleep {mark} & echo ready; sleep {mark}; :")
        line = client.stdout.readline()
        assert line == b"ready\n", (line, client.stderr.read())
        wait_for("the job's processes", lambda: len(find(mark)) >= 3)
        return client

    def status(self):
        done = self.run("status", "--json")
        assert done.status == 0, done
        return json.loads(done.out)

    def link(self, target):
        """The state of the one link to a target that is up."""
        links = [x for x in self.status()["links"]
                 if x["target"] == str(target) and x["state"] == "up"]
        assert len(links) == 1, links
        return links[0]

    def session(self, target):
        """The session's name, from the argv of the transport's process."""
        argv = processes()[self.link(target)["pid"]][1]
        word = b"start" if b"start" in argv else b"attach"
        return argv[argv.index(word) + 3]

    def controllers(self):
        word = str(self.dir).encode()
        return [pid for pid, (_, argv) in processes().items()
                if word in argv and b"serve" in argv]

    def children(self):
        """The controller's own processes: transports, starters."""
        pids = self.controllers()
        return [pid for pid, (ppid, _) in processes().items()
                if ppid in pids]

    def log(self):
        path = self.dir / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self):
        for client in self.clients:
            if client.poll() is None:
                client.kill()
            client.wait()
            for stream in (client.stdin, client.stdout, client.stderr):
                if stream:
                    try:
                        stream.close()
                    except OSError:
                        pass
        try:
            if self.controllers():
                self.run("stop", timeout=30)
        except subprocess.TimeoutExpired:
            pass
        for pid in self.controllers():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.top, ignore_errors=True)
        if self in _hosts:
            _hosts.remove(self)


def together(number, work):
    """work(0) ... work(number - 1) at once; their answers in order."""
    answers, failures = [None] * number, []

    def one(i):
        try:
            answers[i] = work(i)
        except BaseException as e:      # told by the caller's thread
            failures.append(e)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(number)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    return answers


# ---- targets ------------------------------------------------------------

class Target:
    """kind, name as sandmux has it, a directory to write in, and a shell
    that does not go through sandmux."""

    root = True         # its jobs are root there

    def __init__(self, kind, name, tmp):
        self.kind, self.name, self.tmp = kind, name, tmp

    def __str__(self):
        return self.name

    def argv(self, script):
        return ["sh", "-c", script]

    def sh(self, script, data=b"", check=True):
        """Output of a script of one line; data is its stdin."""
        done = subprocess.run(self.argv(script), input=data, timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        assert not check or done.returncode == 0, (script, done)
        return done.stdout

    def path(self, name):
        return f"{self.tmp}/{name}-{marker()}"

    def injected(self):
        """Files of injected agents that lie about."""
        return []


class Local(Target):
    root = os.geteuid() == 0

    def __init__(self):
        super().__init__("local", "local", tempfile.mkdtemp(prefix="spine-t"))
        at_end(shutil.rmtree, self.tmp, True)


class Docker(Target):
    def __init__(self, name, *options, tmp="/tmp", root=True):
        self.box = docker_start(name, *options)
        at_end(docker_remove, self.box)
        self.root = root
        super().__init__("docker", f"docker:{self.box}", tmp)

    def argv(self, script):
        return [docker_program(), "exec", "-i", self.box, "sh", "-c", script]

    def injected(self):
        """Works without a shell in the image."""
        diff = subprocess.run([docker_program(), "diff", self.box],
                              capture_output=True, text=True, check=True)
        return [x for x in diff.stdout.splitlines() if ".sandmux-" in x]


class Openshell(Target):
    root = False
    _serial = 0

    def __init__(self, image=None):
        Openshell._serial += 1
        self.cli = f"{openshell_bin()}/openshell"
        self.box = f"sp{os.getpid() % 1000000}x{Openshell._serial}"
        done = subprocess.run(
            [self.cli, "sandbox", "create", "--name", self.box, "--from",
             image or openshell_image(), "--detach", "--", "sleep", "infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300, check=False)
        if done.returncode != 0:
            skip(f"no openshell sandbox: {done.stdout.decode()[-300:]}")
        at_end(self.delete)
        super().__init__("openshell", f"openshell:{self.box}", "/tmp")

    def argv(self, script):
        return [self.cli, "sandbox", "exec", "-n", self.box, "--", "sh",
                "-c", script]

    def delete(self):
        subprocess.run([self.cli, "sandbox", "delete", self.box],
                       stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=60, check=False)

    def injected(self):
        return self.sh("ls -a /tmp /dev/shm /var/tmp . ~ 2>/dev/null | "
                       "grep '[.]sandmux-' || :").decode().split()

    def standin(self, *args):
        """cut, freeze, thaw, restart-gateway: of the stand-in only."""
        if os.environ.get("OPENSHELL"):
            pytest.skip("a real gateway is not cut on demand")
        subprocess.run([self.cli, "standin", *args], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=60)


_once = {}


def once(key, make):
    """make()'s value, made once; a skip is remembered too."""
    if key not in _once:
        try:
            _once[key] = make(), None
        except pytest.skip.Exception as e:
            _once[key] = None, e
    value, skipped = _once[key]
    if skipped:
        raise skipped
    return value


def openshell_bin():
    """A directory with `openshell`: the stand-in, or what OPENSHELL says."""
    def make():
        bins = pathlib.Path(tempfile.mkdtemp(prefix="spine-bin"))
        at_end(shutil.rmtree, bins, True)
        real = os.environ.get("OPENSHELL")
        if real:
            (bins / "openshell").symlink_to(os.path.abspath(real))
            return bins
        # The controller passes none of the stand-in's variables on.
        wrap = bins / "openshell"
        wrap.write_text(f"#!/bin/sh\nSTANDIN_DIR={bins}/state\n"
                        "export STANDIN_DIR\n"
                        f"exec {BUILD}/tests/openshell/openshell \"$@\"\n")
        wrap.chmod(0o755)
        at_end(lambda: subprocess.run(
            [str(wrap), "standin", "stop"], stdin=subprocess.DEVNULL,
            capture_output=True, timeout=120, check=False))
        return bins
    return once("bin", make)


def openshell_image():
    def make():
        named = os.environ.get("OPENSHELL_IMAGE", "osbox:1")
        if subprocess.run([docker_program(), "image", "inspect", named],
                          capture_output=True, check=False).returncode == 0:
            return named
        base = image("debian")
        text = (f"FROM {base}\nRUN useradd -u 1000 -m sandbox && mkdir -p "
                "/sandbox && chown 1000:1000 /sandbox\nUSER sandbox\n"
                "WORKDIR /sandbox\n")
        done = subprocess.run([docker_program(), "build", "-q", "--network",
                               "none", "-t", "sandmux-spine-openshell:1",
                               "-"], input=text.encode(), check=False,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            skip(f"no openshell image: {done.stdout.decode()[-300:]}")
        return "sandmux-spine-openshell:1"
    return once("image", make)


def make_openshell(image=None):     # any of openshell's own if not named
    docker_program()
    if not os.environ.get("OPENSHELL") and not (
            BUILD / "tests/openshell/openshell").exists():
        skip("the stand-in openshell is not built (make test-programs)")
    return Openshell(image)


def get_target(kind):
    """The target of its kind that most tests share."""
    if kind != "local" and QEMU:
        pytest.skip("under qemu only the local target is tested")
    return once(kind, {
        "local": Local,
        # Injected, as root; a libc and tools.
        "docker": lambda: Docker("debian"),
        # Baked, unprivileged, busybox.
        "docker-user": lambda: Docker("busybox-baked", root=False),
        "openshell": make_openshell,
    }[kind])


@pytest.fixture(params=KINDS)
def target(request):
    return get_target(request.param)


@pytest.fixture(scope="session")
def shared_host():
    return once("host", Host)


@pytest.fixture
def host(shared_host):
    """The controller that most tests share."""
    return shared_host


@pytest.fixture
def new_host():
    """A function that makes controllers of the test's own."""
    made = []

    def make(*args, **kw):
        made.append(Host(*args, **kw))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _close_hosts():
    for one in list(_hosts):
        one.close()


at_end(_close_hosts)


def _terminated(number, frame):
    # `timeout` ends a suite so; containers and controllers must go too.
    pytest.exit("terminated", 128 + number)


if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, _terminated)

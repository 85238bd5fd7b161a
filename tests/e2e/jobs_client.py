# SPDX-License-Identifier: MIT
"""A client of the controller's socket, for tests that need exact control of
jobs: their flags, signals, cancels at any moment, JOBS, KILL and ATTACH.

Messages come from the table in tests/vectors/make_wire.py.
"""
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

import pytest
from spine import (BUILD, LIMIT, ROOT, SANDMUX, Host, Target, agents, at_end,
                   find, get_target, kill_all, once, processes, wait_for)

sys.path.insert(0, str(ROOT / "tests/vectors"))
import make_wire  # noqa: E402
from make_wire import decode, encode, take_f  # noqa: E402

EXITED, SIGNALED, TIMED_OUT, CANCELLED, FAILED = range(5)
STDIN, CLEAR_ENV, TTY, DETACH, KILL_BACKGROUND, UMASK, SHELL = (
    1 << i for i in range(7))
FOLLOW, ATTACH_STDIN, QUIET, FORGET = 1, 2, 4, 8
RUNNING, STOPPED, BACKGROUND, ENDED = range(4)
FELL_BACK, STILL_RUNNING = 1, 2
UNLIMITED = 2 ** 64 - 1
STEPS = ("NONE USAGE BUSY FORK PIPE STDIO CHDIR EXEC OPEN READ WRITE RENAME "
         "LINK START TARGET PROTOCOL UNTRUSTED SHUTDOWN WAIT USER SWITCH "
         "LIMIT PTY JOB").split()
WINDOW = 1 << 40                # of an output that is always read
CHUNK = 16384


def words(argv):
    return [os.fsencode(w) for w in argv]


class Result(dict):
    """RESULT's fields, its info's under info, and the streams' bytes."""

    __getattr__ = dict.__getitem__

    @property
    def status(self):
        """What the command itself said, if it ended by itself."""
        assert self.outcome == EXITED, self
        return self.code

    @property
    def step_name(self):
        return STEPS[self.step]

    @property
    def survivors(self):
        return self.info["survivors"] if self.info else []


class Request:
    """One request; wait() is its Result."""

    def __init__(self, client, number, out, err):
        self.client, self.id = client, number
        self.data = {2: bytearray(), 3: bytearray()}
        self.window = {2: out, 3: err}
        self.ends = {}
        self.raw = None
        self.limit, self.sent = 8192, 0

    @property
    def out(self):
        return bytes(self.data[2])

    @property
    def err(self):
        return bytes(self.data[3])

    def wait(self, timeout=LIMIT):
        self.client.until(lambda: self.raw is not None, timeout,
                          lambda: f"no result: {self.out[-200:]!r}")
        raw = self.raw
        assert (raw["out"], raw["err"]) == (len(self.out), len(self.err)), raw
        info = decode(raw["info"])[1] if raw["info"] else None
        return Result(raw, info=info, stdout=self.out, stderr=self.err)

    def until(self, text, timeout=LIMIT):
        """Until its stdout has the text."""
        self.client.until(lambda: text in self.data[2] or self.raw, timeout,
                          lambda: f"no {text!r}: {self.out[-200:]!r}")
        assert text in self.data[2], (self.raw, self.out, self.err)

    def write(self, data, timeout=LIMIT):
        while data and self.raw is None:
            self.client.until(lambda: self.limit > self.sent or self.raw,
                              timeout, lambda: "no credit")
            if self.limit == UNLIMITED:
                return          # nobody reads it: no byte more may come
            room = min(len(data), CHUNK, max(0, self.limit - self.sent))
            if self.raw is None:
                self.client.send(encode("data", request=self.id, channel=1,
                                        offset=self.sent, bytes=data[:room]))
            self.sent += room
            data = data[room:]

    def end(self):
        self.client.send(encode("eof", request=self.id, channel=1,
                                total=self.sent))

    def grant(self, channel, limit):
        self.window[channel] = limit
        self.client.send(encode("credit", request=self.id, channel=channel,
                                limit=limit))

    def unwant(self, channel):
        self.grant(channel, UNLIMITED)

    def signal(self, number):
        self.client.send(encode("signal", request=self.id, signal=number))

    def resize(self, rows, columns):
        self.client.send(encode("resize", request=self.id, rows=rows,
                                columns=columns))

    def cancel(self):
        self.client.send(encode("cancel", request=self.id))

    @property
    def job(self):
        """A detached job's number, once it is known."""
        return self.wait().info["job"]


class Jobs:
    """A connection to a Host's controller, for one target."""

    def __init__(self, host, target, uid=None):
        self.target = target
        self.lock = threading.Lock()
        self.news = threading.Condition(self.lock)
        self.requests, self.number, self.dead = {}, 0, None
        self.socket = socket.socket(socket.AF_UNIX)
        path = str(host.dir / "socket")
        if not os.path.exists(path):
            host.exec(target, "true")   # starts the controller
        # Whose socket it is counts when it connects.
        if uid is None:
            self.socket.connect(path)
        else:
            os.seteuid(uid)
            try:
                self.socket.connect(path)
            finally:
                os.seteuid(0)
        env = [os.fsencode(f"{k}={v}") for k, v in host.env.items()]
        self.send(encode("hello", min=1, max=1, program=b"test",
                         target=os.fsencode(str(target)), env=env))
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def send(self, *frames):
        data = b"".join(make_wire.f(frame) for frame in frames)
        with self.lock:
            self.socket.sendall(data)

    def read(self):
        buffer = bytearray()
        try:
            while True:
                data = self.socket.recv(1 << 18)
                if not data:
                    break
                buffer += data
                at = 0
                with self.lock:
                    while len(buffer) - at >= 4:
                        (n,) = struct.unpack_from(">I", buffer, at)
                        if len(buffer) - at < 4 + n:
                            break
                        self.take(bytes(buffer[at + 4:at + 4 + n]))
                        at += 4 + n
                    self.news.notify_all()
                del buffer[:at]
        except Exception as e:      # told by whoever waits
            self.dead = e
        with self.lock:
            self.dead = self.dead or "the connection ended"
            self.news.notify_all()

    def take(self, frame):
        name, m = decode(frame)
        req = self.requests.get(m.get("request"))
        if req is None:
            assert name in ("welcome", "log", "credit"), (name, m)
        elif name == "data":
            stream = req.data[m["channel"]]
            assert req.raw is None and m["channel"] not in req.ends
            assert m["offset"] == len(stream), m
            stream += m["bytes"]
            assert len(stream) <= req.window[m["channel"]], m
        elif name == "eof":
            assert m["total"] == len(req.data[m["channel"]])
            req.ends[m["channel"]] = time.monotonic()
        elif name == "credit":
            assert m["channel"] in (0, 1)
            if m["channel"] == 1:
                req.limit = max(req.limit, m["limit"])
        elif name == "result":
            assert req.raw is None
            req.raw = m
        else:
            raise AssertionError((name, m))

    def until(self, condition, timeout, words_for_failure):
        end = time.monotonic() + timeout
        with self.news:
            while not condition():
                assert self.dead is None, self.dead
                left = end - time.monotonic()
                assert left > 0, words_for_failure()
                self.news.wait(left)

    def open(self, body, out, err):
        assert len(body) <= 8192, "the first credit; the CLI takes more"
        with self.lock:
            self.number += 1
            req = Request(self, self.number, out, err)
            self.requests[req.id] = req
            self.socket.sendall(b"".join(make_wire.f(x) for x in (
                encode("open", request=req.id, kind=body[0], body=len(body),
                       out=out, err=err),
                encode("data", request=req.id, channel=0, bytes=body))))
        return req

    def request(self, kind, window=WINDOW, **body):
        return self.open(encode(kind, **body), window, window)

    def exec(self, *argv, env=(), limits=(), timeout=0, grace=1000, user="",
             cwd="", unset=(), flags=0, out=WINDOW, err=WINDOW, **more):
        """timeout and grace are in ms; limits are (number, soft, hard)."""
        packed = [struct.pack(">BQQ", *x) for x in limits]
        return self.open(encode(
            "exec", flags=flags, timeout_ms=timeout, grace_ms=grace,
            user=os.fsencode(user), cwd=os.fsencode(cwd), argv=words(argv),
            env=words(env), unset=words(unset), limits=packed, **more),
            out, err)

    def sh(self, script, *args, **how):
        return self.exec("sh", "-c", script, "sh", *args, **how)

    def run(self, *argv, **how):
        return self.exec(*argv, **how).wait()

    def jobs(self):
        """{number: JOB's fields} as the agent tells it now."""
        req = self.request("jobs")
        result = req.wait()
        assert result.outcome == EXITED, result
        found, at = {}, 0
        while at < len(req.out):
            item, at = take_f(req.out, at)
            name, fields = decode(item)
            assert name == "job"
            found[fields["job"]] = fields
        return found

    def job_of(self, mark):
        """The JOB whose command has the mark."""
        found = [j for j in self.jobs().values()
                 if os.fsencode(mark) in j["command"]]
        assert len(found) == 1, found
        return found[0]

    def kill(self, job, number=0):
        return self.request("kill", job=job, signal=number).wait()

    def attach(self, job, flags=0, out=0, err=0, window=WINDOW):
        """out and err are offsets."""
        return self.open(encode("attach", job=job, flags=flags, out=out,
                                err=err), window, window)

    def logs(self, job, **how):
        return self.attach(job, **how).wait()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)      # wakes the reader
        self.thread.join()
        self.socket.close()


# ---- places: a connection, a target, and the program brood in it ---------

# local as root and as nobody special; docker with a root's agent and root's
# or a user's jobs; the cage.
PLACES = ("local", "user", "docker", "docker-user", "openshell")
UID = 61234                     # of "user": nobody else's


class UserTarget(Target):
    """local, with a controller that is not root's."""

    root = False

    def __init__(self):
        super().__init__("user", "local", tempfile.mkdtemp(prefix="spine-u"))
        os.chmod(self.tmp, 0o777)
        at_end(shutil.rmtree, self.tmp, True)


def user_host(uid=UID, serve=""):
    """A Host whose programs run as uid; its Jobs need uid=."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    host = Host(serve=serve)
    host.top.chmod(0o755)
    for name in ("run", "state"):
        (host.top / name).mkdir(mode=0o700)
        os.chown(host.top / name, uid, uid)
    program = host.top / "program"
    shutil.copy(SANDMUX, program)
    wrap = host.top / "sandmux"
    wrap.write_text(f"#!/bin/sh\nexec setpriv --reuid={uid} --regid={uid} "
                    f"--clear-groups {program} \"$@\"\n")
    wrap.chmod(0o755)
    host.program = str(wrap)
    host.env["HOME"] = str(host.top)
    return host


class Place:
    def __init__(self, kind, host=None, target=None, uid=None):
        self.kind = kind
        self.target = target or (once("user-target", UserTarget)
                                 if kind == "user" else get_target(kind))
        self.host = host or once(
            "user-host" if kind == "user" else "host",
            user_host if kind == "user" else Host)
        self.uid = UID if kind == "user" else uid
        self.jobs = Jobs(self.host, self.target, self.uid)
        key = f"brood-{self.target.kind}-{self.target.name}"
        self.brood = once(key, self.install)

    def install(self):
        path = self.target.path("brood")
        data = (BUILD / "tests/tools/brood").read_bytes()
        self.target.sh(f"cat >{path}; chmod 755 {path}", data)
        if self.target.kind == "local":
            os.chmod(self.target.tmp, 0o755)
        return path

    def start(self, what, *args, mark, **how):
        return self.jobs.exec(self.brood, what, *args, mark, **how)

    def setuid_brood(self):
        """brood, but whoever runs it is root by it."""
        path = self.target.path("rootbrood")
        self.target.sh(f"cp {self.brood} {path}; chmod 4755 {path}")
        return path

    def core(self):
        """The core's pid, as the test sees it."""
        self.alive()            # the link is up
        return agents(self.host.session(self.target))[1]

    def read(self, path):
        return self.target.sh(f"cat {path} 2>/dev/null || :")

    def alive(self):
        """The agent still serves, by the same core."""
        assert self.jobs.run("echo", "alive").stdout == b"alive\n"


def stat(pid):
    """(state, ppid) of a process; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            rest = f.read().rpartition(b")")[2].split()
        return rest[0].decode(), int(rest[1])
    except OSError:
        return None


def below(pid):
    """{pid: state} of all descendants, zombies too."""
    everything = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            found = stat(entry)
            if found:
                everything[int(entry)] = found
    tree, before = {pid}, 0
    while len(tree) > before:
        before = len(tree)
        tree |= {p for p, (_, parent) in everything.items() if parent in tree}
    return {p: everything[p][0] for p in tree if p != pid and p in everything}


def gone(mark, seconds=15):
    """Every process with the mark is gone, or the test fails."""
    end = time.monotonic() + seconds
    while True:
        left = find(mark)
        if not left:
            return
        if time.monotonic() > end:
            kill_all(mark)
            raise AssertionError(f"left: {left}")
        time.sleep(0.02)


def idle(core):
    """Nothing lives below the core, but an init that waits for its job."""
    left = below(core)
    everything = processes()
    return not left or (len(left) == 1 and not set(left.values()) & {"Z"} and
                        all(b"start" in everything.get(p, (0, []))[1]
                            for p in left))


def broods(mark):
    """Those of brood's processes that have this very mark."""
    mark = mark.encode()
    return [pid for pid, (_, argv) in processes().items()
            if argv[-1] == mark and b"brood" in argv[0]]


def born(mark, number, seconds=30):
    """At least so many of brood's processes live: they are there."""
    return wait_for(f"{number} processes", lambda: (
        lambda f: f if len(f) >= number else None)(broods(mark)), seconds)


@pytest.fixture(params=PLACES)
def place(request):
    one = Place(request.param)
    yield one
    one.jobs.close()

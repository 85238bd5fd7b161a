# SPDX-License-Identifier: MIT
"""The client's side of the socket: finding, starting and replacing the
controller, and not believing what it says."""
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading

import pytest
from conftest import Sandmux, processes_with, program, wait_until
from fake_controller import (START, FakeController, data, f, file_info,
                             result, welcome)

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0,
                               reason="needs root for another owner")


def version():
    out = subprocess.run([program(), "version"], stdout=subprocess.PIPE)
    return out.stdout.split()[1]


def serving(one):
    return [p for p, argv in processes_with(one.dir).items()
            if b"serve" in argv]


@pytest.fixture
def fake(fresh):
    """fake(serve) puts a controller of the test's own in place."""
    made = []

    def make(serve):
        made.append(FakeController(fresh.dir, serve))
        return made[-1]
    yield make
    for one in made:
        one.close()
        os.unlink(one.path) if os.path.exists(one.path) else None


# ---- start ---------------------------------------------------------------

def test_first_start_in_a_substitution(fresh):
    done = subprocess.run(
        ["sh", "-c", 'x=$("$0" exec local -- echo hi 2>&1); echo "got $x"',
         program()], env=fresh.env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60)
    assert done.stdout == b"got hi\n"
    assert len(serving(fresh)) == 1


def test_daemon_keeps_nothing_of_ours(fresh):
    read, write = os.pipe()
    assert fresh("exec", "local", "true", pass_fds=[write]).returncode == 0
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
    pid, = serving(fresh)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert {os.readlink(f"/proc/{pid}/fd/{n}") for n in range(3)} == {
        "/dev/null"}
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1]
    assert int(stat.split()[3]) in (pid, int(stat.split()[2]))
    assert int(stat.split()[4]) == 0        # no terminal


def test_daemon_has_default_signals(fresh):
    def odd():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM,
                                                  signal.SIGCHLD})
    assert fresh("exec", "local", "true", preexec_fn=odd).returncode == 0
    pid, = serving(fresh)
    os.kill(pid, signal.SIGTERM)
    wait_until("its end", lambda: not serving(fresh))


def test_twenty_first_commands_at_once(fresh):
    jobs = [fresh.start("exec", "local", "sh", "-c", f"echo {i}; exit {i}")
            for i in range(20)]
    for i, job in enumerate(jobs):
        out, err = job.communicate(timeout=60)
        assert (job.returncode, out) == (i, b"%d\n" % i), err
    assert len(serving(fresh)) == 1
    links = json.loads(fresh("status", "--json").stdout)["links"]
    assert len(links) == 1


def test_two_serve_at_once(fresh):
    os.mkdir(fresh.dir, 0o700)
    jobs = [fresh.start("serve", "--daemon", "--dir", fresh.dir)
            for _ in range(4)]
    for job in jobs:
        _, err = job.communicate(timeout=30)
        assert job.returncode == 0, err
    wait_until("one of them", lambda: len(serving(fresh)) == 1)
    assert fresh("exec", "local", "true").returncode == 0


def test_serve_args_reach_the_controller(fresh, tmp_path):
    log = tmp_path / "the-log"
    done = fresh("exec", "local", "true", env={
        "SANDMUX_SERVE_ARGS": f" --log-level debug  --log {log} "})
    assert done.returncode == 0, done.stderr
    assert log.exists()


def test_bad_serve_args_are_said(fresh):
    done = fresh("exec", "local", "true",
                 env={"SANDMUX_SERVE_ARGS": "--nonsense"})
    assert done.returncode == 125
    assert b"--nonsense" in done.stderr and done.stderr.count(b"\n") == 1


def test_status_and_stop_start_nothing(fresh):
    done = fresh("status")
    assert done.returncode == 0 and b"no controller" in done.stdout
    done = fresh("status", "--json")
    assert json.loads(done.stdout) == {"running": False}
    assert fresh("stop").returncode == 0
    assert serving(fresh) == []


def test_stop(fresh):
    assert fresh("exec", "local", "true").returncode == 0
    assert fresh("stop").returncode == 0
    assert fresh("status", "--json").stdout == b'{"running": false}\n'
    wait_until("its end", lambda: not processes_with(fresh.dir))


def test_status_is_text_and_json(sandmux):
    sandmux("exec", "local", "true")
    assert b"local" in sandmux("status").stdout
    links = json.loads(sandmux("status", "--json").stdout)["links"]
    assert [x["target"] for x in links] == ["local"]


# ---- the runtime directory -----------------------------------------------

def test_stale_socket_is_replaced(fresh):
    os.mkdir(fresh.dir, 0o700)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.path.join(fresh.dir, "socket"))
    assert fresh("status", "--json").stdout == b'{"running": false}\n'
    assert fresh("exec", "local", "echo", "x").stdout == b"x\n"


def test_file_in_the_sockets_place(fresh):
    os.mkdir(fresh.dir, 0o700)
    path = os.path.join(fresh.dir, "socket")
    pathlib.Path(path).write_text("precious")
    done = fresh("exec", "local", "true")
    assert done.returncode == 125
    assert path.encode() in done.stderr and b"not a socket" in done.stderr
    assert pathlib.Path(path).read_text() == "precious"
    os.unlink(path)


@ROOT_ONLY
def test_foreign_socket_is_refused(fresh):
    os.mkdir(fresh.dir, 0o700)
    path = os.path.join(fresh.dir, "socket")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        os.chown(path, 4711, 4711)
        done = fresh("exec", "local", "true")
    assert done.returncode == 125
    assert path.encode() in done.stderr and b"4711" in done.stderr
    os.unlink(path)


@ROOT_ONLY
def test_foreign_directory_is_refused(fresh):
    os.mkdir(fresh.dir, 0o700)
    os.chown(fresh.dir, 4711, 4711)
    done = fresh("exec", "local", "true")
    assert done.returncode == 125
    assert fresh.dir.encode() in done.stderr and b"4711" in done.stderr
    os.chown(fresh.dir, 0, 0)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707, 0o1777])
def test_open_directory_is_refused(fresh, mode):
    os.mkdir(fresh.dir)
    os.chmod(fresh.dir, mode)
    done = fresh("exec", "local", "true")
    assert done.returncode == 125
    assert b"chmod 700" in done.stderr
    os.chmod(fresh.dir, 0o700)


def test_link_as_directory_is_refused(fresh, tmp_path):
    os.symlink(tmp_path, fresh.dir)
    for path in (fresh.dir, fresh.dir + "/"):
        done = fresh("exec", "local", "true", env={"SANDMUX_DIR": path})
        assert done.returncode == 125 and b"ENOTDIR" in done.stderr
    os.unlink(fresh.dir)


def test_long_directory_is_refused(fresh):
    done = fresh("exec", "local", "true",
                 env={"SANDMUX_DIR": "/tmp/" + "x" * 120})
    assert done.returncode == 125
    assert b"SANDMUX_DIR" in done.stderr


def test_relative_directory(fresh):
    top, name = os.path.split(fresh.dir)
    done = fresh("exec", "local", "echo", "x", cwd=top,
                 env={"SANDMUX_DIR": name})
    assert done.stdout == b"x\n"
    assert fresh("exec", "local", "echo", "y").stdout == b"y\n"
    assert len(serving(fresh)) == 1


def test_xdg_runtime_dir(fresh):
    top = os.path.dirname(fresh.dir)
    one = Sandmux(os.path.join(top, "sandmux"))
    del one.env["SANDMUX_DIR"]
    one.env["XDG_RUNTIME_DIR"] = top
    assert one("exec", "local", "echo", "x").stdout == b"x\n"
    assert stat_mode(one.dir) == 0o700
    one.close()


def stat_mode(path):
    return os.stat(path).st_mode & 0o7777


# ---- versions ------------------------------------------------------------

def test_busy_controller_of_another_version(fresh, fake):
    fake(lambda hello, c: (c.say(welcome(busy=3, program=b"9.9.9")),
                           c.drain()))
    done = fresh("exec", "local", "true")
    assert done.returncode == 125
    assert b"9.9.9" in done.stderr and version() in done.stderr
    assert b"3 requests" in done.stderr and b"sandmux stop" in done.stderr


def test_idle_controller_of_another_version_is_replaced(fresh, fake):
    def serve(hello, c):
        c.say(welcome(program=b"0.0.1"))
        if hello.flags & 2:
            old.close()
            return
        c.drain()
    old = fake(serve)
    done = fresh("exec", "local", "echo", "new")
    assert (done.returncode, done.stdout) == (0, b"new\n"), done.stderr
    assert len(serving(fresh)) == 1
    assert any(h.flags & 2 for h in old.hellos)


def test_controller_without_a_common_version(fresh, fake):
    def serve(hello, c):
        c.say(welcome(version=0, program=b"77.0"))
        if hello.flags & 2:
            old.close()
            return
        c.drain()
    old = fake(serve)
    done = fresh("status")
    assert done.returncode == 1 and b"77.0" in done.stderr
    assert fresh("exec", "local", "echo", "new").stdout == b"new\n"


def test_old_controller_that_does_not_go(fresh, fake):
    fake(lambda hello, c: c.say(welcome(program=b"0.0.1")))
    done = fresh("exec", "local", "true", timeout=120)
    assert done.returncode == 125, done
    assert b"0.0.1" in done.stderr and version() in done.stderr
    assert b"does not make way" in done.stderr


# ---- what is sent --------------------------------------------------------

def test_hello(fresh, fake):
    seen = []

    def serve(hello, c):
        seen.append(hello)
        c.say(welcome(program=version()))
        c.say(result(c.until_open()))
    fake(serve)
    env = {"DOCKER_HOST": "tcp://x", "KUBECONFIG": "/k", "SECRET": "s",
           "OPENSHELL_GATEWAY": "g", "SSH_AUTH_SOCK": "/a", "LANG": "C",
           "AWS_TOKEN": "t", "XDG_CONFIG_HOME": "/c",
           "CONTAINER_HOST": "h", "CONTAINERS_CONF": "/cc",
           "CONTAINERS_STORAGE_CONF": "/sc", "CONTAINER_REGISTRY_TOKEN": "t"}
    assert fresh("exec", "--require-same-agent", "docker:x", "true",
                 env=env).returncode == 0
    hello, = seen
    assert (hello.target, hello.flags, hello.program) == (
        b"docker:x", 1, version())
    assert hello.min <= hello.max
    assert hello.env[b"DOCKER_HOST"] == b"tcp://x"
    for name in (b"KUBECONFIG", b"OPENSHELL_GATEWAY", b"SSH_AUTH_SOCK",
                 b"LANG", b"XDG_CONFIG_HOME", b"PATH", b"CONTAINER_HOST",
                 b"CONTAINERS_CONF", b"CONTAINERS_STORAGE_CONF"):
        assert name in hello.env
    for name in (b"SECRET", b"AWS_TOKEN", b"SANDMUX_DIR",
                 b"CONTAINER_REGISTRY_TOKEN"):
        assert name not in hello.env


def test_environment_that_is_too_long(fresh):
    done = fresh("exec", "local", "true",
                 env={"PATH": os.environ["PATH"] + ":/x" * 8000})
    assert done.returncode == 125
    assert b"PATH" in done.stderr and b"16384" in done.stderr


# ---- a hostile or broken controller --------------------------------------

HOSTILE = {
    "nothing": lambda c, r: None,
    "length 0": lambda c, r: c.raw(bytes(4)),
    "length 2 GiB": lambda c, r: c.raw(b"\x7f\xff\xff\xff" + bytes(99)),
    "unknown type": lambda c, r: c.say(b"\xfe" + bytes(40)),
    "half a frame": lambda c, r: c.raw(b"\0\0\x01\0half"),
    "noise": lambda c, r: c.raw(bytes(range(256)) * 4096),
    "a link frame": lambda c, r: c.say(struct.pack(">BQ", 3, 1)),
    "OPEN": lambda c, r: c.say(struct.pack(">BIBIQQ", 16, 9, 64, 1, 0, 0)),
    "a second WELCOME": lambda c, r: c.say(welcome()),
    "another request": lambda c, r: c.say(data(r + 1, b"x")),
    "the wrong channel": lambda c, r: c.say(data(r, b"x", channel=1)),
    "the wrong offset": lambda c, r: c.say(data(r, b"x", offset=5)),
    "too much": lambda c, r: c.say(
        *[data(r, b"x" * 30000, offset=30000 * i, channel=3)
          for i in range(400)]),
    "a wrong total": lambda c, r: c.say(result(r, out=5)),
    "huge totals": lambda c, r: c.say(result(r, out=2**64 - 1)),
    "an unknown outcome": lambda c, r: c.say(result(r, outcome=99)),
    "a long text": lambda c, r: c.say(result(r, text=b"x" * 5000)),
    "a short RESULT": lambda c, r: c.say(result(r)[:-3]),
    "a long RESULT": lambda c, r: c.say(result(r) + b"x"),
    "two RESULTs": lambda c, r: c.say(result(r, out=1), result(r)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_controller(fresh, fake, name):
    def serve(hello, c):
        c.say(welcome(program=version()))
        request = c.until_open()
        if request is not None:
            HOSTILE[name](c, request)
    fake(serve)
    for words in (["exec", "local", "true"],
                  ["cp", "local:/x", os.path.dirname(fresh.dir) + "/out"],
                  ["doctor", "local"], ["status"], ["doctor", "--json",
                                                    "local"]):
        done = fresh(*words)
        assert done.returncode in (1, 125), (words, done)
        assert done.stderr.startswith(b"sandmux: " + words[0].encode())
        assert done.stderr.count(b"\n") == 1
    assert not os.path.exists(os.path.dirname(fresh.dir) + "/out")


@pytest.mark.parametrize("greeting", [
    b"", b"\0\0\0\0", b"\xff\xff\xff\xff", b"HTTP/1.1 400 Bad Request\r\n\r\n",
    f(b"\x21"), f(welcome()[:-1]), f(welcome() + b"x"), f(result(1)),
    f(struct.pack(">BHHI", 32, 1, 1, 0) + f(b"x") + f(b"") + f(bytes(4)))],
    ids=range(9))
def test_hostile_greeting(fresh, fake, greeting):
    """One that closes at once might be about to end: tried, within bounds."""
    fake(lambda hello, c: c.raw(greeting))
    done = fresh("exec", "local", "true", timeout=120)
    assert done.returncode == 125, done
    assert done.stderr.count(b"\n") == 1


def test_remote_words_are_quoted(fresh, fake):
    def serve(hello, c):
        c.say(welcome(program=version()))
        c.say(result(c.until_open(), outcome=4, step=13, text=b"\x1b]0;x\x07"
                     b"\n\r\xff \xe2\x80\xae \xc2\x9b end"))
    fake(serve)
    done = fresh("exec", "local", "true")
    assert done.returncode == 125
    assert re.search(rb"[\x00-\x09\x0b-\x1f\x7f-\xff]", done.stderr) is None
    assert b"\\x1b]0;x\\x07\\n\\r\\xff" in done.stderr and b"end" in \
        done.stderr


def test_status_that_is_no_json(fresh, fake):
    def serve(hello, c):
        c.say(welcome(program=version()))
        r = c.until_open()
        text = b'{"a": "\x1b[2J"}'
        c.say(data(r, text), result(r, out=len(text)))
    fake(serve)
    assert fresh("status", "--json").returncode == 1
    done = fresh("status")
    assert done.returncode == 0 and b"\x1b" not in done.stdout


def test_answer_without_end(fresh, fake):
    """STATUS that never stops is given up; memory stays small."""
    def serve(hello, c):
        c.say(welcome(program=version()))
        r, offset = c.until_open(), 0
        limit = 8192
        while True:
            while offset + 8000 <= limit:
                c.say(data(r, b"x" * 8000, offset=offset))
                offset += 8000
            frame = c.read()
            if frame is None:
                return
            if frame[0] == 18:
                limit = struct.unpack(">Q", frame[6:14])[0]
    fake(serve)
    done = fresh("status")
    assert done.returncode == 1 and b"EFBIG" in done.stderr


def test_unknown_steps_and_errnos_have_words(fresh, fake):
    def serve(hello, c):
        c.say(welcome(program=version()))
        c.say(result(c.until_open(), outcome=4, step=200, error=4000000000,
                     text=b"x"))
    fake(serve)
    done = fresh("exec", "local", "true")
    assert done.returncode == 125 and b"error number" in done.stderr


@pytest.mark.parametrize("step, error, status", [
    (1, 0, 125), (2, 0, 125), (3, 11, 126), (4, 24, 126), (5, 0, 126),
    (6, 2, 126), (7, 2, 127), (7, 13, 126), (7, 8, 126), (7, 0, 126),
    (12, 0, 125), (13, 0, 125), (14, 0, 125), (15, 0, 125), (16, 0, 125),
    (17, 0, 125), (18, 0, 125)])
def test_status_of_each_step(fresh, fake, step, error, status):
    def serve(hello, c):
        c.say(welcome(program=version()))
        c.say(result(c.until_open(), outcome=4, step=step, error=error,
                     text=b"thing"))
    fake(serve)
    done = fresh("exec", "local", "true")
    assert done.returncode == status
    assert b"thing" in done.stderr


def test_get_without_all_bytes_is_no_file(fresh, fake, tmp_path):
    def serve(hello, c):
        c.say(welcome(program=version()))
        r = c.until_open()
        c.say(data(r, START + b"half of it"))
    fake(serve)
    done = fresh("cp", "local:/x", str(tmp_path / "out"))
    assert done.returncode == 1
    assert b"link lost, outcome unknown" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [0o4755, 0o100644, 0o7777, 0xffffffff])
def test_hostile_mode_is_cut(fresh, fake, tmp_path, mode):
    def serve(hello, c):
        c.say(welcome(program=version()))
        r = c.until_open()
        c.say(data(r, START + b"x"), result(
            r, out=len(START) + 1, info=file_info(1, mode)))
    fake(serve)
    assert fresh("cp", "local:/x", str(tmp_path / "out"),
                 umask=0o022).returncode == 0
    assert stat_mode(tmp_path / "out") & ~0o755 == 0


def test_controller_killed_in_the_middle(fresh):
    job = fresh.start("exec", "local", "sh", "-c", "echo ready; sleep 60")
    assert job.stdout.readline() == b"ready\n"
    pid, = serving(fresh)
    os.kill(pid, signal.SIGKILL)
    _, err = job.communicate(timeout=30)
    assert job.returncode == 125
    assert b"link lost, outcome unknown" in err
    assert fresh("exec", "local", "echo", "next").stdout == b"next\n"


def test_output_before_the_loss_is_delivered(fresh, fake):
    """A slow stdout gets all that came before the connection was lost."""
    def serve(hello, c):
        c.say(welcome(program=version()))
        r = c.until_open()
        limit = offset = 0
        while offset < 400000:
            frame = c.read() if limit < offset + 30000 else None
            if frame is not None and frame[0] == 18:
                limit = struct.unpack(">Q", frame[6:14])[0]
            elif limit == 0:
                limit = 8192
            n = min(30000, limit - offset)
            if n > 0:
                c.say(data(r, b"x" * n, offset=offset))
                offset += n
    fake(serve)
    job = fresh.start("exec", "local", "true")
    got = b""
    while piece := os.read(job.stdout.fileno(), 4096):
        got += piece
    assert job.wait(30) == 125
    assert len(got) >= 400000
    assert b"link lost" in job.stderr.read()
    job.stdout.close()
    job.stderr.close()


def test_upload_to_a_controller_that_dies(fresh):
    """Writing to its socket must not look like a broken stdout."""
    fresh("exec", "local", "true")
    job = fresh.start("exec", "-i", "local", "sh", "-c",
                      "echo ready; cat >/dev/null", stdin=subprocess.PIPE)
    assert job.stdout.readline() == b"ready\n"
    feed = threading.Thread(target=pour, args=(job.stdin,))
    feed.start()
    pid, = serving(fresh)
    os.kill(pid, signal.SIGKILL)
    assert job.wait(30) == 125
    feed.join()
    assert b"link lost" in job.stderr.read()
    job.stdout.close()
    job.stderr.close()


def pour(pipe):
    try:
        while True:
            pipe.write(b"x" * 65536)
    except OSError:
        pass
    try:
        pipe.close()
    except OSError:
        pass


# ---- doctor --------------------------------------------------------------

def test_doctor(sandmux):
    done = sandmux("doctor", "local")
    assert done.returncode == 0, done.stderr
    for word in (b"agent version", b"agent came", b"capabilities", b"no_new_privs",
                 b"landlock", b"seccomp", b"round trip", b"MB/s",
                 b"default user", b"default directory", b"can run"):
        assert word in done.stdout


def test_doctor_json(sandmux):
    done = sandmux("doctor", "--json", "local")
    got = json.loads(done.stdout)
    assert done.returncode == 0 and got["ok"] is True
    assert got["target"] == "local" and got["probe"]["uid"] == os.getuid()
    assert got["round_trip_us"] > 0 and got["mb_s"] > 0
    assert got["link"]["agent"] and "error" not in got


def test_doctor_of_an_unreached_target(sandmux):
    done = sandmux("doctor", "docker:x", env={"PATH": "/nowhere"})
    assert done.returncode == 1
    assert b"docker" in done.stderr and b"cannot run" in done.stdout
    done = sandmux("doctor", "--json", "docker:x", env={"PATH": "/nowhere"})
    assert done.returncode == 1
    assert json.loads(done.stdout)["ok"] is False

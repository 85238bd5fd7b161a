# SPDX-License-Identifier: MIT
"""The controller: how it starts, whose it is, and how it is replaced."""
import os
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
from spine import (LIMIT, LONG, MIB, SANDMUX, Done, Host,  # noqa: F401
                   find, kill_all, marker, new_host, target, together, wait_for)

OTHER = 12345                   # somebody else's uid


def other_program(tmp_path):
    """The same program under another version."""
    version = subprocess.run([SANDMUX, "version"], capture_output=True,
                             check=True).stdout.split()[1]
    # Its end may be shared with another string's, like that of uid 0.
    older = (b"9" if version[:1] != b"9" else b"8") + version[1:]
    path = tmp_path / "sandmux"
    with open(SANDMUX, "rb") as f:
        path.write_bytes(f.read().replace(version + b"\0", older + b"\0"))
    path.chmod(0o755)
    told = subprocess.run([path, "version"], capture_output=True, check=True)
    assert told.stdout.split()[1] == older
    return path, older, version


def test_command_substitution_returns(new_host, target):  # noqa: F811
    """The controller that a command starts holds none of its pipes."""
    host = new_host()
    for script in ('x=$("$1" exec "$2" -- echo hi); echo "got $x"',
                   '"$1" exec "$2" -- echo got hi 2>&1 | cat'):
        done = subprocess.run(["sh", "-c", script, "sh", host.program,
                               str(target)], env=host.env, timeout=LIMIT,
                              capture_output=True, check=False)
        assert done.stdout == b"got hi\n" and done.stderr == b"", done
        assert len(host.controllers()) == 1
        assert host.run("stop").status == 0
        assert host.controllers() == []


def test_its_descriptors_and_directory(new_host):
    host = new_host()
    ends = os.pipe()
    subprocess.run([host.program, "exec", "local", "--", "true"],
                   env=host.env, check=True, pass_fds=ends, timeout=LIMIT)
    pid, = host.controllers()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    for fd in "012":
        assert os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/null"
    names = {os.readlink(f"/proc/{pid}/fd/{fd}")
             for fd in os.listdir(f"/proc/{pid}/fd")}
    assert f"pipe:[{os.fstat(ends[0]).st_ino}]" not in names
    assert os.getsid(pid) == pid
    for end in ends:
        os.close(end)
    for name in ("", "socket", "log"):
        assert (host.dir / name).stat().st_mode & 0o077 == 0, name


def test_stop_and_status_without_one(new_host):
    host = new_host()
    for command in ("stop", "status"):
        done = host.run(command)
        assert done.err.count(b"\n") <= 1 and done.status in (0, 1), done
    assert host.controllers() == []


def test_two_start_at_once(new_host):
    host = new_host()
    both = [host.popen("serve", "--dir", str(host.dir)) for _ in range(2)]
    wait_for("a controller", lambda: host.run("status").status == 0)
    wait_for("the other's end", lambda: sum(
        c.poll() is None for c in both) == 1)
    for done in together(10, lambda i: host.exec("local", "echo", "hi")):
        assert (done.status, done.out) == (0, b"hi\n"), done
    assert len(host.controllers()) == 1


def test_many_first_clients(new_host):
    for _ in range(3):
        host = new_host()
        for done in together(20, lambda i, h=host: h.exec("local", "echo",
                                                         "hi")):
            assert (done.status, done.out) == (0, b"hi\n"), done
        assert len(host.controllers()) == 1
        host.close()


def test_a_stale_socket_is_replaced(new_host):
    host = new_host()
    host.dir.mkdir(mode=0o700)
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(host.dir / "socket"))
    stale.listen()
    stale.close()
    assert host.exec("local", "echo", "hi").out == b"hi\n"
    for pid in host.controllers():
        os.kill(pid, signal.SIGKILL)
    wait_for("its end", lambda: not host.controllers())
    assert (host.dir / "socket").exists()
    assert host.exec("local", "echo", "hi").out == b"hi\n"


def refused(host, *words):
    done = host.exec("local", "true")
    assert done.status == 125 and done.err.count(b"\n") == 1, done
    for word in words:
        assert word.encode() in done.err, done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make them")
def test_another_ones_directory(new_host):
    host = new_host()
    host.dir.mkdir(mode=0o700)
    os.chown(host.dir, OTHER, OTHER)
    refused(host, str(host.dir), f"belongs to uid {OTHER}", "SANDMUX_DIR")
    os.chown(host.dir, 0, 0)
    assert host.exec("local", "echo", "hi").out == b"hi\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make them")
@pytest.mark.parametrize("listens", [False, True])
def test_another_ones_socket(new_host, listens):
    host = new_host()
    host.dir.mkdir(mode=0o700)
    foreign = socket.socket(socket.AF_UNIX)
    foreign.bind(str(host.dir / "socket"))
    if listens:
        foreign.listen()
    os.chown(host.dir / "socket", OTHER, OTHER)
    refused(host, str(host.dir / "socket"), f"belongs to uid {OTHER}")
    foreign.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make them")
def test_another_ones_controller(new_host):
    """The file is ours, who answers is not."""
    host = new_host()
    host.dir.mkdir(mode=0o700)
    script = ("import os, socket, sys, time\n"
              "s = socket.socket(socket.AF_UNIX)\n"
              f"s.bind({str(host.dir / 'socket')!r})\n"
              f"os.setresuid({OTHER}, {OTHER}, {OTHER})\n"
              "s.listen()\nprint('on', flush=True)\ntime.sleep(600)\n")
    with subprocess.Popen(["/usr/bin/python3", "-c", script],
                          stdout=subprocess.PIPE) as foreign:
        assert foreign.stdout.readline() == b"on\n"
        try:
            refused(host, "controller", f"uid {OTHER}", str(foreign.pid))
        finally:
            foreign.kill()


def test_a_directory_that_lets_others_in(new_host):
    host = new_host()
    host.dir.mkdir()
    host.dir.chmod(0o755)
    refused(host, str(host.dir), "0755", "chmod 700")
    host.dir.rmdir()
    host.dir.symlink_to("/tmp")
    refused(host, str(host.dir))


def test_what_is_no_socket(new_host):
    host = new_host()
    host.dir.mkdir(mode=0o700)
    (host.dir / "socket").write_text("mine")
    refused(host, "is not a socket")
    assert (host.dir / "socket").read_text() == "mine"


@pytest.mark.skipif(not LONG, reason="the client waits 20 s for an answer")
def test_a_stopped_controller_is_told(new_host):
    host = new_host()
    assert host.exec("local", "true").status == 0
    pid, = host.controllers()
    os.kill(pid, signal.SIGSTOP)
    try:
        refused(host, "does not answer", "stopped")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert host.exec("local", "true").status == 0


# ---- versions -----------------------------------------------------------

def test_an_older_controller_that_is_idle(new_host, tmp_path):
    program, older, _ = other_program(tmp_path)
    host = new_host()
    old = Host(program=program)
    shutil.rmtree(old.top)
    old.env, old.dir, old.top = host.env, host.dir, host.top / "none"
    assert old.exec("local", "echo", "old").out == b"old\n"
    pid, = host.controllers()
    assert older in old.run("status").out
    for done in together(5, lambda i: host.exec("local", "echo", "new")):
        assert (done.status, done.out, done.err) == (0, b"new\n", b""), done
    wait_for("the old one's end", lambda: pid not in host.controllers())
    assert len(host.controllers()) == 1


def test_an_older_controller_that_is_busy(new_host, tmp_path):
    """A job that nobody can wait for: all is as it was, but for a pause."""
    program, older, version = other_program(tmp_path)
    host, mark = new_host(), marker()
    old = Host(program=program)
    shutil.rmtree(old.top)
    old.env, old.dir, old.top = host.env, host.dir, host.top / "none"
    job = old.start_job("local", mark)
    client = host.popen("exec", "local", "--", "true")
    wait_for("the one that wants its place", lambda: len(
        host.controllers()) > 1)
    # Who comes meanwhile is served in the end, by whom it may be.
    assert old.exec("local", "echo", "still").out == b"still\n"
    done = Done(client.wait(LIMIT), b"", client.stderr.read())
    assert done.status == 125 and done.err.count(b"\n") == 1, done
    assert older in done.err and version in done.err
    assert b"sandmux stop" in done.err
    assert job.poll() is None and len(find(mark)) >= 3
    # `stop` of any version ends it, and its job.
    assert host.run("stop").status == 0
    assert job.wait(LIMIT) == 125
    wait_for("the job's end", lambda: not find(mark))
    assert host.exec("local", "echo", "new").out == b"new\n"


def older(new_host, tmp_path):
    """A host, and the same one as an older program sees it."""
    program, _, _ = other_program(tmp_path)
    host = new_host()
    old = Host(program=program)
    shutil.rmtree(old.top)
    old.env, old.dir, old.top = host.env, host.dir, host.top / "none"
    return host, old


def test_a_detached_job_is_handed_over(new_host, tmp_path, target):
    """The new controller goes on with its session: same agent, same job."""
    host, old = older(new_host, tmp_path)
    mark = marker()
    done = old.run("exec", "-d", str(target), "--", "sh", "-c",
                   f"echo out; sleep {mark}; :")
    assert done.status == 0, done
    wait_for("the shell and its child", lambda: len(find(mark)) == 2)
    pid, = host.controllers()
    session = host.session(target)
    job = sorted(find(mark))
    for done in together(5, lambda i: host.exec(target, "echo", "new")):
        assert (done.status, done.out, done.err) == (0, b"new\n", b""), done
    wait_for("the old one's end", lambda: pid not in host.controllers())
    assert len(host.controllers()) == 1
    assert host.session(target) == session, host.log()
    assert sorted(find(mark)) == job
    assert host.status()["left_behind"] == []
    assert host.run("logs", str(target), "1").out == b"out\n"
    assert host.run("kill", str(target), "1").status == 0
    assert host.run("wait", str(target), "1").status == 143
    assert not find(mark)
    assert len(host.children()) == 1
    # There and back again.
    assert old.exec(target, "echo", "old").out == b"old\n"
    assert host.session(target) == session


def test_requests_under_way_are_waited_for(new_host, tmp_path, target):
    """A job and a copy end with the one that has them; then it goes."""
    host, old = older(new_host, tmp_path)
    path, mark = target.path("copy"), marker()
    assert old.run("exec", "-d", str(target), "--", "sleep", mark
                   ).status == 0
    wait_for("the job", lambda: find(mark))
    pid, = host.controllers()
    session, data = host.session(target), os.urandom(3 * MIB)
    job = old.popen("exec", "-i", str(target), "--", "sh", "-c",
                    "echo here; cat; exit 7", stdin=subprocess.PIPE)
    copy = old.popen("cp", "-", f"{target}:{path}", stdin=subprocess.PIPE)
    assert job.stdout.readline() == b"here\n"
    copy.stdin.write(data[:2 * MIB])
    copy.stdin.flush()
    client = host.popen("exec", str(target), "--", "echo", "new")
    wait_for("the one that wants its place", lambda: len(
        host.controllers()) > 1)
    assert pid in host.controllers()
    copy.stdin.write(data[2 * MIB:])
    copy.stdin.close()
    job.stdin.write(b"to the end")
    job.stdin.close()
    assert job.stdout.read() == b"to the end" and job.wait(LIMIT) == 7
    assert copy.wait(LIMIT) == 0, copy.stderr.read()
    assert client.stdout.read() == b"new\n" and client.wait(LIMIT) == 0
    assert b"" == client.stderr.read() == job.stderr.read()
    wait_for("the old one's end", lambda: pid not in host.controllers())
    assert host.session(target) == session, host.log()
    assert find(mark) and len(host.children()) == 1
    assert target.sh(f"cat {path}; rm {path}") == data
    assert host.run("kill", str(target), "1").status == 0
    wait_for("the job's end", lambda: not find(mark))


def greeting(s, host, flags):
    """A client's HELLO, by hand."""
    hello = struct.pack(">BHHI", 32, 1, 1, flags) + 2 * struct.pack(
        ">I", 0) + struct.pack(">II", 4, 0)
    s.connect(str(host.dir / "socket"))
    s.settimeout(LIMIT)
    s.sendall(struct.pack(">I", len(hello)) + hello)


def test_a_successor_that_goes_while_it_waits(new_host):
    """Clients are served again at once; a second one gets nothing."""
    host, mark = new_host(), marker()
    job = host.start_job("local", mark)
    pid, = host.controllers()
    with socket.socket(socket.AF_UNIX) as first, \
            socket.socket(socket.AF_UNIX) as second:
        # Connected both before it knows what either wants.
        os.kill(pid, signal.SIGSTOP)
        greeting(first, host, 6)
        greeting(second, host, 6)
        os.kill(pid, signal.SIGCONT)
        got = b""
        while True:
            more, fds, _, _ = socket.recv_fds(second, 1000, 2)
            assert not fds
            if not more:
                break
            got += more
        assert got[4] == 33 and int.from_bytes(got[11:15], "big") == 0
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as s:
            greeting(s, host, 6)
        assert host.exec("local", "echo", "hi").out == b"hi\n"
    assert host.controllers() == [pid] and job.poll() is None
    kill_all(mark)
    assert job.wait(LIMIT) == 137


def test_a_successor_that_cannot_start_takes_nothing(new_host, tmp_path):
    """Its log is opened before it asks for anything."""
    host = new_host()
    assert host.exec("local", "true").status == 0
    pid, = host.controllers()
    session = host.session("local")
    done = host.run("serve", "--take-over", "0", "--log",
                    str(tmp_path / "none" / "log"))
    assert done.status != 0 and b"the log" in done.err, done
    assert host.exec("local", "true").status == 0
    assert host.controllers() == [pid]
    assert host.session("local") == session


def test_sessions_are_handed_over_parked(new_host, tmp_path):
    host, old = older(new_host, tmp_path)
    old.env["SANDMUX_SERVE_ARGS"] = "--idle 1 --park 600 --linger 1"
    assert old.exec("local", "true").status == 0
    session = old.session("local")
    wait_for("that", lambda: old.status()["links"][0]["state"] == "parked")
    time.sleep(1.5)
    assert host.run("stop", "--help").status == 0
    host.env["SANDMUX_SERVE_ARGS"] = "--linger 1"
    assert host.exec("local", "echo", "hi").out == b"hi\n"
    assert host.session("local") == session


def test_a_handover_that_fails_changes_nothing(new_host, tmp_path):
    """Who asks for it and does not take it gets nothing."""
    host, mark = new_host(), marker()
    assert host.run("exec", "-d", "local", "--", "sleep", mark).status == 0
    wait_for("the job", lambda: find(mark))
    pid, = host.controllers()
    session = host.session("local")
    for say in (b"", b"\0\0\0\5\x22\0\0\0\1"[:7], b"\0\0\0\1x"):
        with socket.socket(socket.AF_UNIX) as s:
            greeting(s, host, 6)
            got, fds, _, _ = socket.recv_fds(s, 1000, 2)
            while b"local" not in got:
                more, new, _, _ = socket.recv_fds(s, 100000, 2)
                got, fds = got + more, fds + new
            assert got[4] == 33 and len(fds) == 2
            s.sendall(say)
        for fd in fds:
            os.close(fd)
        assert host.exec("local", "echo", "hi").out == b"hi\n"
    assert host.controllers() == [pid]
    assert host.session("local") == session and find(mark)
    kill_all(mark)


def test_a_removed_socket_ends_the_controller(new_host):
    host = new_host()
    assert host.exec("local", "true").status == 0
    pid, = host.controllers()
    (host.dir / "socket").unlink()
    assert host.exec("local", "echo", "hi").out == b"hi\n"
    wait_for("the lost one's end", lambda: pid not in host.controllers())
    assert len(host.controllers()) == 1

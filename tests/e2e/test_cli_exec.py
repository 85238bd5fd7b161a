# SPDX-License-Identifier: MIT
"""exec on `local`: stdio, signals, results, whatever the descriptors are."""
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import processes_with, wait_until

MIB = 1 << 20
_serial = [0]


def mark():
    """Seconds to sleep that nobody else sleeps."""
    _serial[0] += 1
    return str(500_000_000 + os.getpid() * 100 + _serial[0])


def sleepers(word):
    return [p for p, argv in processes_with(word).items()
            if os.path.basename(argv[0]) == b"sleep"]


# ---- stdin ---------------------------------------------------------------

def test_without_i_stdin_is_empty(local):
    done = local("sh", "-c", "read x; echo rc=$?; cat", stdin=b"unread\n")
    assert done.stdout == b"rc=1\n"


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65536, 65537, 3 * MIB])
@pytest.mark.parametrize("kind", ["pipe", "file", "socket"])
def test_stdin(local, tmp_path, size, kind):
    data = os.urandom(size)
    want = hashlib.sha256(data).hexdigest().encode()
    if kind == "file":
        (tmp_path / "in").write_bytes(data)
        with open(tmp_path / "in", "rb") as f:
            done = local("sha256sum", opts=("-i",), stdin=f)
    elif kind == "pipe":
        done = local("sha256sum", opts=("-i",), stdin=data)
    else:
        import socket
        import threading
        a, b = socket.socketpair()
        feed = threading.Thread(target=lambda: (a.sendall(data), a.close()))
        feed.start()
        done = local("sha256sum", opts=("-i",), stdin=b)
        feed.join()
        b.close()
    assert done.stdout.split()[0] == want, done


def test_stdin_starts_where_the_file_is(local, tmp_path):
    (tmp_path / "in").write_bytes(b"first\nsecond\n")
    with open(tmp_path / "in", "rb", buffering=0) as f:
        f.read(6)
        assert local("cat", opts=("-i",), stdin=f).stdout == b"second\n"


def test_output_file_is_appended_where_it_is(local, tmp_path):
    with open(tmp_path / "out", "ab", buffering=0) as f:
        f.write(b"before\n")
        local("echo", "after", stdout=f)
    assert (tmp_path / "out").read_bytes() == b"before\nafter\n"


def test_stdin_that_is_a_directory(local, tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    done = local("cat", opts=("-i",), stdin=fd)
    os.close(fd)
    assert done.returncode == 125
    assert b"stdin" in done.stderr and b"EISDIR" in done.stderr


def test_closed_stdio(local):
    """Missing descriptors are not given to sockets."""
    def shut():
        os.close(0)
        os.close(1)
    done = local("cat", opts=("-i",), stdin=None, stdout=None,
                 preexec_fn=shut)
    assert done.returncode == 0, done.stderr


def test_job_that_reads_no_stdin(local):
    done = local("sh", "-c", "echo bad >&2; exit 7", opts=("-i",),
                 stdin=b"x" * (8 * MIB))
    assert (done.returncode, done.stderr) == (7, b"bad\n")


def test_job_that_writes_before_it_reads(local):
    done = local("sh", "-c", "head -c 8388608 /dev/zero; cat >/dev/null",
                 opts=("-i",), stdin=b"x" * (8 * MIB))
    assert (done.returncode, len(done.stdout)) == (0, 8 * MIB)


def test_job_ends_while_stdin_stays_open(sandmux):
    read, write = os.pipe()
    done = sandmux("exec", "-i", "local", "true", stdin=read, timeout=20)
    os.close(read)
    os.close(write)
    assert done.returncode == 0


def test_bytes_go_through_one_by_one(sandmux):
    job = sandmux.start("exec", "-i", "local", "cat", stdin=subprocess.PIPE)
    for i in range(256):
        job.stdin.write(bytes([i]))
        job.stdin.flush()
        assert job.stdout.read(1) == bytes([i])
    job.stdin.close()
    assert job.wait(20) == 0
    job.stdout.close()
    job.stderr.close()


# ---- stdout and stderr ---------------------------------------------------

def test_both_streams_in_full(local):
    done = local("sh", "-c", "head -c 5000001 /dev/zero & "
                 "head -c 5000003 /dev/zero >&2; wait")
    assert (len(done.stdout), len(done.stderr)) == (5000001, 5000003)


def test_reader_that_goes_ends_the_job(sandmux):
    word = mark()
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -n 1; exit ${PIPESTATUS:-0}', "sh",
         *sandmux_argv(sandmux), "exec", "local", "--", "sh", "-c",
         f"sleep {word} & yes"], env=sandmux.env, stdout=subprocess.PIPE,
        timeout=30)
    assert done.stdout == b"y\n"
    wait_until("the job's end", lambda: not sleepers(word))


def sandmux_argv(sandmux):
    from conftest import program
    return [program()]


def test_broken_pipe_is_sigpipe(sandmux):
    job = sandmux.start("exec", "local", "yes")
    job.stdout.close()
    assert job.wait(30) == -signal.SIGPIPE
    job.stderr.close()


def test_broken_pipe_when_ignored(sandmux):
    """Python ignores SIGPIPE; a child of such a program says EPIPE."""
    job = sandmux.start("exec", "local", "yes", restore_signals=False)
    job.stdout.close()
    assert job.wait(30) == 125
    assert b"EPIPE" in job.stderr.read()
    job.stderr.close()


def test_full_device(local):
    with open("/dev/full", "wb") as full:
        done = local("echo", "x", stdout=full)
    assert done.returncode == 125
    assert b"stdout" in done.stderr and b"ENOSPC" in done.stderr


def test_stopped_stdout_does_not_stop_stderr(sandmux):
    job = sandmux.start("exec", "local", "sh", "-c",
                        "yes >&1 & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1;"
                        " echo $i >&2; done; kill $!; wait")
    assert job.stderr.read(18) == b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    assert job.poll() is None       # stdout is still full
    assert set(job.stdout.read()) == set(b"y\n")
    assert job.wait(20) in (0, 143)
    job.stdout.close()
    job.stderr.close()


def test_slow_reader_gets_every_byte(sandmux):
    job = sandmux.start("exec", "local", "seq", "1", "200000")
    got = b""
    while True:
        piece = os.read(job.stdout.fileno(), 65536)
        if not piece:
            break
        got += piece
        time.sleep(0.01)
    assert job.wait(20) == 0
    assert got == b"".join(b"%d\n" % i for i in range(1, 200001))
    job.stdout.close()
    job.stderr.close()


def test_inherited_descriptors_stay_blocking(sandmux):
    ends = [os.pipe() for _ in range(3)]
    os.close(ends[0][1])
    done = sandmux("exec", "-i", "local", "echo", "x", stdin=ends[0][0],
                   stdout=ends[1][1], stderr=ends[2][1])
    assert done.returncode == 0
    for fd in (ends[0][0], ends[1][1], ends[2][1]):
        assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
        os.close(fd)
    os.close(ends[1][0])
    os.close(ends[2][0])


def test_on_a_terminal(sandmux):
    """stdin, stdout and stderr are one terminal; its modes stay."""
    import pty
    import termios
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    job = sandmux.start("exec", "-i", "local", "sh", "-c",
                        "read x; echo got $x; head -c 100000 /dev/zero | "
                        "tr '\\0' z; echo end >&2",
                        stdin=slave, stdout=slave, stderr=slave)
    os.write(master, b"line\n")
    got = b""
    while b"end" not in got or got.count(b"z") < 100000:
        got += os.read(master, 65536)
    assert job.wait(20) == 0
    assert b"got line" in got and got.count(b"z") == 100000
    assert termios.tcgetattr(slave) == before
    assert not fcntl.fcntl(slave, fcntl.F_GETFL) & os.O_NONBLOCK
    os.close(master)
    os.close(slave)


def test_background_child_does_not_hold_us(local):
    word = mark()
    start = time.monotonic()
    done = local("sh", "-c", f"echo hi; sleep {word} &")
    assert (done.returncode, done.stdout) == (0, b"hi\n")
    assert time.monotonic() - start < 20
    for pid in sleepers(word):
        os.kill(pid, signal.SIGKILL)


# ---- signals -------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM,
                                    signal.SIGHUP])
def test_signal_cancels(sandmux, number):
    word = mark()
    job = sandmux.start("exec", "local", "sh", "-c",
                        f"echo ready; sleep {word}; :")
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(number)
    out, err = job.communicate(timeout=30)
    assert (job.returncode, err) == (128 + number, b"")
    assert not sleepers(word)


def test_second_signal_leaves_at_once(sandmux):
    word = mark()
    job = sandmux.start("exec", "local", "sh", "-c",
                        f"trap '' TERM; echo ready; sleep {word} & "
                        "while :; do wait; done")
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert job.poll() is None       # TERM is ignored, KILL comes later
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)
    assert job.returncode == 130
    wait_until("the job's end", lambda: not sleepers(word))


def test_ignored_sigint_stays_ignored(sandmux):
    job = sandmux.start("exec", "local", "sh", "-c", "echo ready; sleep 1",
                        preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                         signal.SIG_IGN))
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=30)
    assert job.returncode == 0


def test_killed_client_ends_its_job(sandmux):
    word = mark()
    job = sandmux.start("exec", "local", "sh", "-c",
                        f"echo ready; sleep {word}; :")
    assert job.stdout.readline() == b"ready\n"
    job.kill()
    job.communicate(timeout=30)
    wait_until("the job's end", lambda: not sleepers(word))


def test_output_before_cancel_is_kept(sandmux):
    job = sandmux.start("exec", "local", "sh", "-c",
                        "trap 'echo last; exit 9' TERM; echo first; "
                        "while :; do sleep 0.05; done")
    assert job.stdout.readline() == b"first\n"
    job.send_signal(signal.SIGINT)
    out, _ = job.communicate(timeout=30)
    assert (job.returncode, out) == (130, b"last\n")


# ---- --json --------------------------------------------------------------

def result(sandmux, tmp_path, *words, opts=(), **kw):
    path = tmp_path / "result"
    done = sandmux("exec", "--json", str(path), *opts, "local", *words, **kw)
    assert os.listdir(tmp_path) == ["result"]
    return done, json.loads(path.read_text())


def test_json_exited(sandmux, tmp_path):
    done, r = result(sandmux, tmp_path, "sh", "-c",
                     "cat; echo e >&2; exit 3", opts=("-i",), stdin=b"12345")
    assert done.returncode == 3
    assert r["outcome"] == "exited" and r["code"] == r["status"] == 3
    assert r["signal"] is None and r["error"] is None
    assert r["timed_out"] is r["detached"] is False
    assert r["bytes"] == {"stdin": 5, "stdout": 5, "stderr": 2}
    assert r["wall_ms"] > 0


def test_json_signaled(sandmux, tmp_path):
    done, r = result(sandmux, tmp_path, "sh", "-c", "kill -TERM $$")
    assert done.returncode == r["status"] == 143
    assert (r["outcome"], r["code"], r["signal"]) == ("signaled", None, 15)


def test_json_timed_out(sandmux, tmp_path):
    done, r = result(sandmux, tmp_path, "sleep", "60",
                     opts=("--timeout", "0.2s"))
    assert done.returncode == r["status"] == 124
    assert r["outcome"] == "timed-out" and r["timed_out"] is True
    assert r["wall_ms"] >= 200


def test_json_failed(sandmux, tmp_path):
    done, r = result(sandmux, tmp_path, "/nowhere/\udcff\x1b")
    assert done.returncode == r["status"] == 127
    assert r["outcome"] == "failed" and r["code"] is None
    assert r["error"]["step"] == "exec" and r["error"]["errno"] == 2
    assert r["error"]["errno_name"] == "ENOENT"
    assert r["error"]["text"] == "/nowhere/\udcff\x1b"
    assert "\x1b" not in r["error"]["message"]


def test_json_background(sandmux, tmp_path):
    word = mark()
    _, r = result(sandmux, tmp_path, "sh", "-c", f"sleep {word} &")
    assert r["detached"] is True
    for pid in sleepers(word):
        os.kill(pid, signal.SIGKILL)


def test_json_cancelled(sandmux, tmp_path):
    path = tmp_path / "result"
    job = sandmux.start("exec", "--json", str(path), "local", "sh", "-c",
                        "echo ready; sleep 60")
    assert job.stdout.readline() == b"ready\n"
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=30)
    r = json.loads(path.read_text())
    assert (r["outcome"], r["status"]) == ("cancelled", 130)


def test_json_into_a_descriptor(sandmux):
    read, write = os.pipe()
    sandmux("exec", "--json", f"/dev/fd/{write}", "local", "true",
            pass_fds=[write])
    os.close(write)
    with os.fdopen(read, "rb") as f:
        assert json.loads(f.read())["outcome"] == "exited"


def test_json_replaces_whole(sandmux, tmp_path):
    path = tmp_path / "result"
    path.write_text("x" * 100000)
    inode = path.stat().st_ino
    result(sandmux, tmp_path, "true")
    assert path.stat().st_ino != inode


def test_json_is_checked_before_anything_runs(sandmux, tmp_path):
    ran = tmp_path / "ran"
    done = sandmux("exec", "--json", str(tmp_path / "no" / "x"), "local",
                   "touch", str(ran))
    assert done.returncode == 125 and not ran.exists()


def test_json_of_an_unreached_target(sandmux, tmp_path):
    path = tmp_path / "result"
    done = sandmux("exec", "--json", str(path), "docker:x", "true",
                   env={"PATH": "/nowhere"})
    r = json.loads(path.read_text())
    assert done.returncode == r["status"] == 125
    assert r["outcome"] == "failed" and r["error"]["message"]

# SPDX-License-Identifier: MIT
"""One link for everything: many at once, stalls, and clients that die."""
import hashlib
import os
import signal
import subprocess
import threading

import pytest
from spine import (KINDS, LIMIT, MIB, QEMU, agents, count,  # noqa: F401
                   find, get_target, host, hwm, kill_all, marker, new_host,
                   shared_host, target, together, wait_for)

BOUND = 16 * 1024               # KiB, of the controller and of the agent


def one_command(host, target, i):  # noqa: F811
    """A command with its own input, output, error output and status."""
    data = hashlib.shake_256(b"%d" % i).digest(1000 + 977 * i % 50_000)
    done = host.sh(target, "cat; echo error $1 >&2; exit $1", "sh",
                   str(i % 256), input=data)
    assert done.out == data and done.status == i % 256, (i, done)
    assert done.err == b"error %d\n" % (i % 256), (i, done)


def check_memory(host, session, what):  # noqa: F811
    if QEMU:
        return
    controllers, core = host.controllers(), agents(session)[:2]
    assert len(controllers) == 1 and len(core) == 2, "nothing to look at"
    for pid in controllers:
        assert hwm(pid) < BOUND, f"controller, {what}"
    for pid in core:
        assert hwm(pid) < BOUND, f"agent, {what}"


def check_alive(host, target):  # noqa: F811
    """The link works, and it is still the one."""
    for i in range(count(5, 20)):
        one_command(host, target, i)


# ---- many at once -------------------------------------------------------

TAIL = 64 * MIB         # of a file down; half of it cannot be on its way


class Mover(threading.Thread):
    """One end of a copy, a pipe: `size` bytes as fast as they go, then drop
    by drop until finish()."""

    def __init__(self, pipe, size):
        super().__init__(daemon=True)
        self.pipe, self.size, self.enough = pipe, size, threading.Event()
        self.digest, self.moved = hashlib.sha256(), 0
        self.start()

    def drop(self):
        """False once the test has had its rounds."""
        return not self.enough.wait(0 if self.moved < self.size else 0.02)

    def count(self, data):
        self.digest.update(data)
        self.moved += len(data)

    def finish(self):
        self.enough.set()
        self.join(LIMIT)
        assert not self.is_alive()


class Feed(Mover):
    def run(self):
        block = os.urandom(MIB // 4)
        try:
            while self.drop():
                self.pipe.write(block)
                self.count(block)
                block = block[1:] + block[:1]
            self.pipe.close()
        except OSError:
            pass        # the copy's own status says it


class Drain(Mover):
    def run(self):
        while self.drop():
            if self.moved < self.size + TAIL // 2:
                self.count(self.pipe.read1(MIB))
        while data := self.pipe.read1(MIB):
            self.count(data)


def test_commands_beside_a_file_each_way(new_host, target):  # noqa: F811
    """The files end only when whole rounds of 50 commands have."""
    host = new_host()  # noqa: F811
    size = count(24, 1024) * MIB
    there, source = target.path("large"), target.path("source")
    target.sh(f"head -c {size + TAIL} /dev/urandom >{source}")
    try:
        one_command(host, target, 1)
        pid = host.link(target)["pid"]
        copies = [host.popen("cp", "-", f"{target}:{there}",
                             stdin=subprocess.PIPE),
                  host.popen("cp", f"{target}:{source}", "-")]
        moving = [Feed(copies[0].stdin, size), Drain(copies[1].stdout, size)]
        rounds = 0
        while rounds == 0 or any(m.moved < size for m in moving):
            together(50, lambda i: one_command(host, target, i))
            assert [c.poll() for c in copies] == [None, None]
            assert host.children() == [pid]
            rounds += 1
        check_memory(host, host.session(target), "two copies")
        for m in moving:
            m.finish()
        for c in copies:
            assert c.wait(LIMIT) == 0, c.stderr.read()
        assert moving[1].moved == size + TAIL
        for m, path in zip(moving, (there, source)):
            assert target.sh(f"sha256sum <{path}").split()[0].decode() == \
                m.digest.hexdigest()
        assert host.link(target)["pid"] == pid
    finally:
        target.sh(f"rm -f {there} {source}")


def test_first_commands_at_once(new_host, target):  # noqa: F811
    host = new_host()  # noqa: F811
    together(20, lambda i: one_command(host, target, i))
    assert len(host.controllers()) == 1
    assert len(host.status()["links"]) == 1
    link = host.link(target)
    assert host.children() == [link["pid"]]
    if not QEMU:
        # A stub, a core and the next job's init: no other agent anywhere.
        wait_for("three processes", lambda: len(agents(
            host.session(target))) == 3)
    assert link["requests_total"] >= 20
    starts = [line for line in host.log().splitlines() if "up after" in line]
    assert len(starts) == 1, host.log()


def test_more_targets_at_once(new_host):  # noqa: F811
    host = new_host()  # noqa: F811
    targets = [get_target(k) for k in KINDS]
    together(30, lambda i: one_command(host, targets[i % 3], i))
    assert len(host.status()["links"]) == 3
    assert len(host.children()) == 3


# ---- clients that die ---------------------------------------------------

def test_a_killed_client_ends_its_job(host, target):  # noqa: F811
    mark, other = marker(), marker()
    bystander = host.start_job(target, other)
    echo = host.popen("exec", "-i", str(target), "--", "cat",
                      stdin=subprocess.PIPE)
    for number in (signal.SIGKILL, signal.SIGTERM):
        client = host.start_job(target, mark)
        client.send_signal(number)
        client.wait(LIMIT)
        wait_for("the job's end", lambda: not find(mark))
    echo.stdin.write(b"still here\n")
    echo.stdin.close()
    assert echo.stdout.read() == b"still here\n" and echo.wait(LIMIT) == 0
    assert bystander.poll() is None and len(find(other)) >= 3
    bystander.kill()
    bystander.wait()
    wait_for("the bystander's end", lambda: not find(other))


def test_clients_killed_all_the_time(host, target):  # noqa: F811
    marks = [marker() for _ in range(count(10, 100))]

    def die(i):
        client = host.popen("exec", str(target), "--", "sh", "-c",
                            f"yes & sleep {marks[i]}; :")
        client.stdout.read(1 + i * 5000)
        client.kill()
        client.wait()

    for at in range(0, len(marks), 10):
        together(10, lambda i, at=at: die(at + i))
        check_alive(host, target)
    for mark in marks:
        wait_for("all jobs' ends", lambda mark=mark: not find(mark))
    wait_for("no request left", lambda: host.link(target)["requests"] == 0)


# ---- stalls -------------------------------------------------------------

def test_a_stopped_client(new_host, target):  # noqa: F811
    host = new_host()  # noqa: F811
    flood = host.popen("exec", str(target), "--", "yes")
    flood.stdout.read(100_000)
    flood.send_signal(signal.SIGSTOP)
    feeder = host.popen("exec", "-i", str(target), "--", "cat",
                        stdin=subprocess.PIPE)
    feeder.send_signal(signal.SIGSTOP)
    check_alive(host, target)
    check_memory(host, host.session(target), "a stopped client")
    flood.send_signal(signal.SIGCONT)
    assert flood.stdout.read(4_000_000) == b"y\n" * 2_000_000
    feeder.send_signal(signal.SIGCONT)
    feeder.stdin.write(b"x" * 1000)
    feeder.stdin.close()
    assert feeder.stdout.read() == b"x" * 1000


def test_a_job_that_never_reads(new_host, target):  # noqa: F811
    host, mark = new_host(), marker()  # noqa: F811
    client = host.popen("exec", "-i", str(target), "--", "sleep", mark,
                        stdin=subprocess.PIPE)

    def feed():
        try:
            client.stdin.write(b"x" * (32 * MIB))
        except BrokenPipeError:
            pass

    feeder = threading.Thread(target=feed)
    feeder.start()
    wait_for("the job", lambda: find(mark))
    check_alive(host, target)
    check_memory(host, host.session(target), "a job that never reads")
    kill_all(mark)
    assert client.wait(LIMIT) == 137
    feeder.join()


def test_many_stalled_streams(new_host, target):  # noqa: F811
    """Two streams each: nobody reads stdout, nobody reads stderr."""
    host = new_host()  # noqa: F811
    one_command(host, target, 1)
    session, pid = host.session(target), host.link(target)["pid"]
    number = count(100, 110)
    clients = [host.popen("exec", str(target), "--", "sh", "-c",
                          "echo on; yes & exec yes >&2")
               for _ in range(number)]
    for c in clients:
        assert os.read(c.stdout.fileno(), 3) == b"on\n"
    check_alive(host, target)
    assert host.link(target)["requests"] == number
    assert host.link(target)["pid"] == pid
    check_memory(host, session, f"{2 * number} stalled streams")
    # Each goes on where it stood.
    for c in clients[::20]:
        assert c.stdout.read(300_000) == b"y\n" * 150_000
    check_memory(host, session, "some of them read")
    for c in clients:
        c.kill()
    for c in clients:
        c.wait()
    wait_for("no request left", lambda: host.link(target)["requests"] == 0)
    check_alive(host, target)


def test_over_the_limit_is_busy(new_host, tmp_path):  # noqa: F811
    """257 requests of one session: the last one is told so, and when some
    have ended there is room again."""
    host, mark = new_host(), marker()  # noqa: F811
    clients = [host.popen("exec", "local", "--", "sleep", mark,
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) for _ in range(256)]
    wait_for("256 jobs", lambda: len(find(mark)) == 256)
    report = tmp_path / "json"
    done = host.exec("local", "true", opts=["--json", str(report)])
    assert done.status == 125 and b"busy" in done.err, done
    assert b'"step": "busy"' in report.read_bytes().replace(
        b'"step":"busy"', b'"step": "busy"')
    check_memory(host, host.session("local"), "256 jobs")
    clients[0].kill()
    wait_for("room", lambda: host.exec("local", "true").status == 0)
    kill_all(mark)
    for c in clients[1:]:
        assert c.wait(LIMIT) == 137


def test_a_flood_of_errors_does_not_grow(new_host, target):  # noqa: F811
    host = new_host()  # noqa: F811
    for _ in range(count(5, 50)):
        together(10, lambda i: host.exec(target, f"no-such-{i}"))
    check_memory(host, host.session(target), "errors")


@pytest.mark.skipif(QEMU, reason="sizes of qemu are not the agent's")
def test_large_arguments_at_once_stay_bounded(new_host, target):  # noqa: F811
    host = new_host()  # noqa: F811
    args = ["x" * 120_000] * 8
    statuses = together(10, lambda i: host.exec(target, "true", *args))
    assert {d.status for d in statuses} <= {0, 125}, statuses
    for d in statuses:
        assert d.status == 0 or b"busy" in d.err, d
    assert any(d.status == 0 for d in statuses)
    check_memory(host, host.session(target), "large arguments")

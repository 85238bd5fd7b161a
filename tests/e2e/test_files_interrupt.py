# SPDX-License-Identifier: MIT
"""Ctrl-C at every phase of cp, also in those that would take hours: status
130 at once, no half file, nothing under a temporary name on either side."""
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from jobs_client import CANCELLED, Jobs, encode, make_wire
from spine import (MIB, agents, host, shared_host, target,  # noqa: F401
                   wait_for)

HUGE = 1 << 42                  # bytes of hole that take hours to hash
END = 2 ** 64 - 1
PART = ".partial-f"
HASH, RESUME = 8, 4             # PUT's flags
GET_RESUME = 1
HERE = pytest.mark.parametrize("target", ["local"], indirect=True)
CALLS = {"x86_64": {"ftruncate": 77, "fallocate": 285, "sendto": 44},
         "aarch64": {"ftruncate": 46, "fallocate": 47, "sendto": 206}}


def hole(path, mode=0o644):
    """A file that is all hole."""
    with open(path, "wb") as f:
        try:
            f.truncate(HUGE)
        except OSError as e:
            pytest.skip(f"the file system takes no such file: {e}")
    os.chmod(path, mode)


@pytest.fixture
def place(target):  # noqa: F811
    path = target.path("interrupt")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"rm -rf {path}")


def hole_there(target, path):  # noqa: F811
    done = target.sh(f"truncate -s {HUGE} {path} && chmod 600 {path} && "
                     "echo made || :")
    if done != b"made\n":
        pytest.skip("the target's file system takes no such file")


def there(target, place):  # noqa: F811
    return target.sh(f"ls -A {place}").decode().split()


def worked(pid, ticks=20):
    """Whether a process has used so much CPU time."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) > ticks


def a_worker_works(host, target):  # noqa: F811
    session = host.session(target)
    return lambda: any(worked(pid) for pid in agents(session)[2:])


def interrupt(client):
    """A second signal would leave without waiting for the far end."""
    assert client.poll() is None, client.stderr.read()
    client.send_signal(signal.SIGINT)
    status = client.wait(60)
    # Before there is anything to take back it dies like other programs.
    assert status in (130, -signal.SIGINT), client.stderr.read()
    return status


def good(host, target):  # noqa: F811
    """The link serves on, and nobody works for what was left."""
    works = a_worker_works(host, target)
    wait_for("the worker's end", lambda: not works())
    assert host.exec(target, "echo", "on").out == b"on\n"


# ---- hashes that take hours --------------------------------------------------

def test_up_while_the_source_is_hashed(host, target, place,  # noqa: F811
                                       tmp_path):
    """--verify of a file that is all hole: not a byte is read or sent."""
    hole(tmp_path / "f")
    target.sh(f"echo old >{place}/f")
    client = host.popen("cp", "--verify", str(tmp_path / "f"),
                        f"{target}:{place}/f")
    wait_for("its place, and work", lambda: client.poll() is not None or (
        len(there(target, place)) == 2 and worked(client.pid)))
    assert interrupt(client) == 130
    assert there(target, place) == ["f"]
    assert target.sh(f"cat {place}/f") == b"old\n"
    good(host, target)


def test_up_while_the_partial_file_is_hashed(host, target,  # noqa: F811
                                             place, tmp_path):
    (tmp_path / "f").write_bytes(b"new")
    hole_there(target, f"{place}/{PART}")
    host.exec(target, "true")
    client = host.popen("cp", "--resume", str(tmp_path / "f"),
                        f"{target}:{place}/f")
    wait_for("the agent's hash", a_worker_works(host, target))
    assert interrupt(client) == 130
    assert there(target, place) == [PART]
    assert target.sh(f"stat -c %s {place}/{PART}").split() == [
        b"%d" % HUGE]
    good(host, target)


def test_up_while_it_is_read_back(host, target, place):  # noqa: F811
    """The agent has all of it, and reads it again before the rename."""
    target.sh(f"echo old >{place}/f")
    jobs = Jobs(host, target)
    start = encode("start", flags=1, size=HUGE, extents=(
        HUGE.to_bytes(8, "big") + END.to_bytes(8, "big")))
    req = jobs.request("put", flags=HASH, mode=0o644,
                       path=f"{place}/f".encode())
    req.write(make_wire.f(start) + bytes(32))
    req.end()

    def works():
        assert req.raw is None, req.raw
        return a_worker_works(host, target)()

    wait_for("it is read back", works)
    req.cancel()
    assert req.wait().outcome == CANCELLED
    jobs.close()
    assert there(target, place) == ["f"]
    assert target.sh(f"cat {place}/f") == b"old\n"
    good(host, target)


def test_down_while_the_source_is_hashed(host, target, place,  # noqa: F811
                                         tmp_path):
    hole_there(target, f"{place}/f")
    (tmp_path / "f").write_bytes(b"old")
    host.exec(target, "true")
    client = host.popen("cp", "--verify", f"{target}:{place}/f",
                        str(tmp_path / "f"))
    wait_for("the agent's hash", a_worker_works(host, target))
    assert interrupt(client) == 130
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"
    good(host, target)


def test_down_while_its_beginning_is_hashed(host, target,  # noqa: F811
                                            place):
    """The agent compares what we have already."""
    hole_there(target, f"{place}/f")
    jobs = Jobs(host, target)
    req = jobs.request("get", flags=GET_RESUME, length=END, have=HUGE,
                       hash=bytes(32), path=f"{place}/f".encode())
    wait_for("the agent's hash", a_worker_works(host, target))
    req.cancel()
    assert req.wait().outcome == CANCELLED
    jobs.close()
    good(host, target)


def test_down_while_the_partial_file_is_hashed(host, target,  # noqa: F811
                                               place, tmp_path):
    target.sh(f"echo new >{place}/f")
    hole(tmp_path / PART, 0o600)
    host.exec(target, "true")
    client = host.popen("cp", "--resume", f"{target}:{place}/f",
                        str(tmp_path / "f"))
    wait_for("our hash", lambda: client.poll() is not None or
             worked(client.pid))
    interrupt(client)
    assert os.listdir(tmp_path) == [PART]
    assert (tmp_path / PART).stat().st_size == HUGE
    good(host, target)


# ---- the last moments --------------------------------------------------------

@pytest.fixture
def slow():
    """A function that makes a call of a process and its children slow."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    made = []

    def attach(call, how, *pids):
        tracer = subprocess.Popen(
            ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
             f"inject={call}:{how}", *(f"-p{pid}" for pid in pids)],
            stderr=subprocess.PIPE)
        made.append(tracer)
        for _ in pids:
            line = tracer.stderr.readline()
            if b"attached" not in line:
                pytest.skip(f"strace: {line.decode()}")

    yield attach
    for tracer in made:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(10)
        tracer.stderr.close()


def is_in(pid, call):
    """Whether a process is in that system call now."""
    try:
        words = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
    except OSError:
        return False
    return words[0] == str(CALLS[os.uname().machine][call])


WAIT = "delay_enter=3000000"


def under(call, how=WAIT, *more):
    return ("strace", "-D", *more, "-o", "/dev/null", "-e", f"trace={call}",
            "-e", f"inject={call}:{how}")


def test_down_before_the_rename(host, tmp_path):  # noqa: F811
    """All has arrived, its end is set: it does not appear any more."""
    (tmp_path / "src").write_bytes(b"new")
    (tmp_path / "dst").mkdir()
    for old in (False, True):
        if old:
            (tmp_path / "dst/f").write_bytes(b"old")
        client = host.popen("cp", f"local:{tmp_path}/src",
                            str(tmp_path / "dst/f"), under=under("ftruncate"))
        wait_for("its last call but one", lambda: client.poll() is not None or
                 is_in(client.pid, "ftruncate"))
        assert interrupt(client) == 130
        assert os.listdir(tmp_path / "dst") == ["f"] * old
    assert (tmp_path / "dst/f").read_bytes() == b"old"


def test_up_before_the_rename(host, slow, tmp_path):  # noqa: F811
    (tmp_path / "src").write_bytes(b"new")
    (tmp_path / "dst").mkdir()
    host.exec("local", "true")
    session = host.session("local")
    slow("ftruncate", WAIT, *agents(session)[:2])
    for old in (False, True):
        if old:
            (tmp_path / "dst/f").write_bytes(b"old")
        client = host.popen("cp", str(tmp_path / "src"),
                            f"local:{tmp_path}/dst/f")
        wait_for("its last call but one", lambda: any(
            is_in(pid, "ftruncate") for pid in agents(session)[2:]))
        assert interrupt(client) == 130
        assert os.listdir(tmp_path / "dst") == ["f"] * old
    assert (tmp_path / "dst/f").read_bytes() == b"old"


def test_a_tree_down_before_the_rename(host, tmp_path):  # noqa: F811
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a").write_bytes(b"new")
    (tmp_path / "dst").mkdir()
    client = host.popen("cp", "-r", f"local:{tmp_path}/src",
                        str(tmp_path / "dst/new"),
                        under=under("sendto", WAIT, "-f"))
    task = pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children")

    def asks():
        """The helper says that its stream is complete; one that is under
        strace may say hello to the controller with the same call."""
        return client.poll() is not None or any(
            is_in(pid, "sendto") for pid in task.read_text().split())

    wait_for("the helper's question", asks)
    assert interrupt(client) == 130
    assert os.listdir(tmp_path / "dst") == []


# ---- in place ----------------------------------------------------------------

@pytest.mark.parametrize("call, how, new", [
    ("fallocate", WAIT, False),     # before the old content goes
    # The file is empty now.  The first one set the length of what came.
    ("ftruncate", "delay_exit=3000000:when=2", True)])
@pytest.mark.parametrize("words", [(), ("--append",), ("--verify",)],
                         ids=["", "append", "verify"])
def test_up_in_place(host, slow, tmp_path, call, how, new,  # noqa: F811
                     words):
    """Of a file with other names: it has the old content or the new one."""
    if words == ("--append",) and new:
        pytest.skip("it cuts nothing off")
    place = tmp_path / "dst"
    place.mkdir()
    data = os.urandom(3 * MIB)
    (tmp_path / "src").write_bytes(data)
    (place / "f").write_bytes(b"old")
    (place / "g").hardlink_to(place / "f")
    host.exec("local", "true")
    session = host.session("local")
    slow(call, how, *agents(session)[:2])
    client = host.popen("cp", *words, str(tmp_path / "src"),
                        f"local:{place}/f")

    def now():
        assert client.poll() is None, client.stderr.read()
        if not new:
            return any(is_in(pid, call) for pid in agents(session)[2:])
        return (place / "f").stat().st_size == 0

    wait_for("the moment", now)
    assert interrupt(client) == 130
    assert (place / "f").read_bytes() == (data if new else b"old")
    assert sorted(os.listdir(place)) == ["f", "g"]


def test_down_in_place(host, tmp_path):  # noqa: F811
    """Once the old content has gone it is copied to its end."""
    place = tmp_path / "dst"
    place.mkdir()
    data = os.urandom(3 * MIB)
    (tmp_path / "src").write_bytes(data)
    (place / "f").write_bytes(b"old")
    (place / "g").hardlink_to(place / "f")
    client = host.popen(
        "cp", f"local:{tmp_path}/src", str(place / "f"),
        under=under("ftruncate", "delay_exit=3000000:when=2"))
    wait_for("the moment", lambda: client.poll() is not None or
             (place / "f").stat().st_size == 0)
    client.send_signal(signal.SIGINT)
    assert client.wait(60) == 0         # it is what was asked for
    assert (place / "g").read_bytes() == data
    assert sorted(os.listdir(place)) == ["f", "g"]


# ---- trees -------------------------------------------------------------------

def test_a_tree_up_whose_source_hangs(host, tmp_path):  # noqa: F811
    """A file system that does not answer holds nobody up."""
    (tmp_path / "src").mkdir()
    (tmp_path / "dst").mkdir()
    with open(tmp_path / "src/big", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, 1 << 30)
    client = host.popen("cp", "-r", str(tmp_path / "src"),
                        f"local:{tmp_path}/dst/new")
    task = pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children")
    wait_for("the temporary name", lambda: os.listdir(tmp_path / "dst"))
    helper = int(task.read_text().split()[0])
    os.kill(helper, signal.SIGSTOP)
    try:
        assert interrupt(client) == 130
    finally:
        if client.poll() is None:
            os.kill(helper, signal.SIGCONT)
    wait_for("nothing to be left", lambda: not os.listdir(tmp_path / "dst"))

# SPDX-License-Identifier: MIT
"""cleanup finds the partial files that cp --resume has left, on both sides,
and removes them: only those, and no more once they are something else."""
import json
import os
import signal
import subprocess

import pytest
from docker_fixture import docker_program, remove
from jobs_client import FAILED, Jobs
from spine import (MIB, QEMU, Docker, Host, get_target, once,  # noqa: F401
                   target, wait_for)
from test_files_resume import NAME, SLOWLY

RESUME, DISCARD = 4, 128


@pytest.fixture
def host():
    """A state directory of these tests' own."""
    one = once("cleanup", Host)
    yield one
    left = records(one)
    for name in left:
        (one.top / "state/sandmux/partials" / name).unlink()
    assert left == []


def records(host):
    top = host.top / "state/sandmux/partials"
    return sorted(os.listdir(top)) if top.exists() else []


@pytest.fixture
def place(target):  # noqa: F811
    path = target.path("cleanup")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"rm -rf {path}")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/f").write_bytes(os.urandom(4 * MIB))
    return tmp_path / "src/f"


def names(target, place):  # noqa: F811
    return target.sh(f"ls -A {place}").decode().splitlines()


def cut(host, how, words, begun, **kw):
    """A copy that a signal ends once it has begun."""
    client = host.popen("cp", "--resume", *map(str, words), under=SLOWLY,
                        **kw)
    wait_for("a partial file", lambda: begun() or client.poll() is not None)
    client.send_signal(how)
    assert client.wait(60) in (130, -how), client.stderr.read()
    assert len(records(host)) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_there(host, target, place, source, how):  # noqa: F811
    target.sh(f"cd {place}; umask 077; echo old >f; echo x >.partial-g; "
              "echo x >.part-0")
    before = set(names(target, place))
    cut(host, how, [source, f"{target}:{place}/f"],
        lambda: NAME in names(target, place))
    assert set(names(target, place)) == before | {NAME}
    done = host.run("cleanup")
    assert (done.status, done.err) == (0, b""), done
    assert done.out.decode() == f"{target}:{place}/f\n"
    assert set(names(target, place)) == before
    assert target.sh(f"cat {place}/f") == b"old\n"
    done = host.run("cleanup")
    assert (done.status, done.out, done.err) == (0, b"", b"")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_here(host, tmp_path, source, how):
    """From another directory than it was begun in, too."""
    place = tmp_path / "dst"
    place.mkdir()
    for name in ("f", ".partial-g", ".part-0"):
        (place / name).write_text("old")
        (place / name).chmod(0o600)
    os.truncate(source, 1 << 30)        # a hole: long enough
    with open(source, "r+b") as f:
        os.posix_fallocate(f.fileno(), 0, 1 << 30)
    client = subprocess.Popen(
        [host.program, "cp", "--resume", f"local:{source}", "dst"],
        env=host.env, cwd=tmp_path, stdin=subprocess.DEVNULL)
    wait_for("some of it", lambda: (place / NAME).exists() and
             (place / NAME).stat().st_size > 0)
    client.send_signal(how)
    assert client.wait(60) in (130, -how)
    assert (place / NAME).exists() and len(records(host)) == 1
    done = host.run("cleanup", "--json")
    assert done.status == 0, done
    assert json.loads(done.out) == {"removed": [], "failed": [],
                                    "partial_files": [f"{place}"]}
    assert sorted(os.listdir(place)) == [".part-0", ".partial-g", "f"]
    assert (place / "f").read_text() == "old"


def test_a_complete_copy_is_on_no_record(host, target, place,  # noqa: F811
                                         source, tmp_path):
    for words in ([source, f"{target}:{place}/f"],
                  [f"{target}:{place}/f", tmp_path / "g"]):
        done = host.run("cp", "--resume", *map(str, words))
        assert done.status == 0, done
        assert records(host) == []


def test_one_that_made_none(host, target, place, source):  # noqa: F811
    """Nothing is there to be removed, or no directory where it could be."""
    done = host.run("cp", "--resume", str(source), f"{target}:{place}/no/f")
    assert done.status == 1 and len(records(host)) == 1
    done = host.run("cp", "--resume", str(source), f"{target}:{place}/no/")
    assert done.status == 1 and len(records(host)) == 2
    done = host.run("cp", "--resume", f"{target}:{place}/no",
                    str(source.parent / "no/f"))
    assert done.status == 1 and len(records(host)) == 3
    done = host.run("cleanup")
    assert (done.status, done.out, done.err) == (0, b"", b""), done


def test_in_use(host, target, place, source):  # noqa: F811
    client = host.popen("cp", "--resume", str(source), f"{target}:{place}/f",
                        under=SLOWLY)
    wait_for("it has begun", lambda: NAME in names(target, place) or
             client.poll() is not None)
    client.send_signal(signal.SIGSTOP)
    try:
        done = host.run("cleanup")
        assert done.status == 1 and b"another copy" in done.err, done
        assert names(target, place) == [NAME]
    finally:
        client.send_signal(signal.SIGCONT)
    assert client.wait(60) == 0
    assert names(target, place) == ["f"] and records(host) == []


PLANTED = ["ln -s keep {n}", "ln keep {n}", "echo x >{n}; chmod 644 {n}",
           "mkfifo -m 600 {n}", "mkdir {n}"]


@pytest.mark.parametrize("make", PLANTED)
def test_what_is_not_ours_any_more(host, target, place,  # noqa: F811
                                   source, make):
    """Something else has its name by now: it stays, and is named."""
    cut(host, signal.SIGINT, [source, f"{target}:{place}/f"],
        lambda: NAME in names(target, place))
    make = make.replace("{n}", NAME)
    target.sh(f"cd {place}; umask 077; rm {NAME}; echo mine >keep; {make}")
    done = host.run("cleanup")
    assert done.status == 1 and b"partial file" in done.err, done
    assert names(target, place) == [NAME, "keep"]
    assert target.sh(f"cat {place}/keep") == b"mine\n"
    assert len(records(host)) == 1
    target.sh(f"rm -r {place}/{NAME}")
    assert host.run("cleanup").status == 0


@pytest.mark.parametrize("make", PLANTED)
def test_what_is_not_ours_any_more_here(host, tmp_path, source, make):
    place = tmp_path / "dst"
    place.mkdir()
    done = host.run("cp", "--resume", f"local:{tmp_path}/no",
                    str(place / "f"))
    assert done.status == 1 and os.listdir(place) == [NAME]
    make = make.replace("{n}", NAME)
    subprocess.run(["sh", "-c", f"cd {place}; umask 077; rm {NAME}; "
                    f"echo mine >keep; {make}"], check=True)
    done = host.run("cleanup", "--json")
    assert done.status == 1 and b"partial file" in done.err, done
    (failed,) = json.loads(done.out)["failed"]
    assert failed["name"] == f"{place}/f"
    assert sorted(os.listdir(place)) == [NAME, "keep"]
    assert (place / "keep").read_text() == "mine\n"
    subprocess.run(["rm", "-r", place / NAME], check=True)
    assert host.run("cleanup").status == 0


def test_names_that_are_hard(host, target, place, source):  # noqa: F811
    """A directory as destination, and a name that a terminal would obey."""
    bad = source.parent / "x\x1b[2J\nsandmux: y"
    source.rename(bad)
    cut(host, signal.SIGINT, [bad, f"{target}:{place}/"],
        lambda: names(target, place))
    done = host.run("cleanup")
    assert done.status == 0 and names(target, place) == [], done
    cut(host, signal.SIGINT, [bad, f"{target}:{place}/\x1b[2J\nroot"],
        lambda: names(target, place))
    done = host.run("cleanup")
    assert done.status == 0 and names(target, place) == [], done
    assert b"\x1b" not in done.out and done.out.count(b"\n") == 1


def test_as_its_user(host, source):
    box = get_target("docker")
    place = box.path("cleanup")
    box.sh(f"mkdir {place}; chmod 777 {place}")
    cut(host, signal.SIGINT, ["-u", "1000:1001", source, f"{box}:{place}/f"],
        lambda: NAME in names(box, place))
    assert box.sh(f"stat -c %u:%g {place}/{NAME}") == b"1000:1001\n"
    done = host.run("cleanup")
    assert done.status == 0 and names(box, place) == [], done


def test_a_container_that_is_stopped_or_gone(host, source):
    if QEMU:
        pytest.skip("under qemu only the local target is tested")
    box = Docker("debian")
    cut(host, signal.SIGINT, [source, f"{box}:/tmp/f"],
        lambda: NAME in names(box, "/tmp"))
    subprocess.run([docker_program(), "kill", box.box], capture_output=True,
                   check=True)
    done = host.run("cleanup")
    assert done.status == 1 and b"not running" in done.err, done
    assert len(records(host)) == 1
    remove(box.box)
    done = host.run("cleanup")
    assert (done.status, done.out, done.err) == (0, b"", b""), done


def test_in_a_sandbox(host, source):
    """It goes with its sandbox; in one that stays it goes alone."""
    conf = b'{"transport": "local"}'
    done = host.run("up", "-f", "-", input=conf)
    assert done.status == 0, done
    name = done.out.decode().strip()
    where = host.exec(name, "pwd").out.decode().strip()
    cut(host, signal.SIGINT, [source, f"{name}:f"],
        lambda: os.path.exists(f"{where}/{NAME}"))
    done = host.run("cleanup")
    assert (done.status, done.out.decode()) == (0, f"{name}\n"), done
    assert not os.path.exists(where)


def test_a_record_whose_writer_died(host):
    done = host.run("cp", "--resume", "/etc/hostname", "local:/no/such/f")
    assert done.status == 1
    (name,) = records(host)
    path = host.top / "state/sandmux/partials" / name
    whole = path.read_bytes()
    assert whole == b"local\0\0/no/such/f\0hostname\0"
    assert path.stat().st_mode & 0o777 == 0o600
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        if n % 4 == 0:
            assert host.run("cleanup").status == 0
            assert records(host) == []
    path.write_bytes(whole + b"x")
    (path.parent / "another").write_bytes(whole)
    assert host.run("cleanup").status == 0
    assert records(host) == ["another"]
    (path.parent / "another").unlink()


@pytest.mark.parametrize("flags", [DISCARD, DISCARD | 1 | RESUME,
                                   DISCARD | 2, DISCARD | 8 | RESUME])
def test_what_discard_is_not_for(host, target, place, flags):  # noqa: F811
    target.sh(f"cd {place}; umask 077; echo old >f; echo x >{NAME}")
    jobs = Jobs(host, target)
    req = jobs.request("put", flags=flags, path=f"{place}/f".encode())
    req.end()
    assert req.wait().outcome == FAILED
    jobs.close()
    assert names(target, place) == [NAME, "f"]

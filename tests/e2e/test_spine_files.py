# SPDX-License-Identifier: MIT
"""cp: single files both ways, and what must be left when it fails."""
import hashlib
import os
import signal
import subprocess

import pytest
from spine import (LIMIT, LONG, MIB, Docker, get_target, host,  # noqa: F401
                   once, shared_host, target, wait_for)

SIZES = [0, 1, 8191, 8192, 8193, 32724, 32725, 32726, 65536, MIB]


def data_of(size):
    return os.urandom(size)


def sha(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def remote_sha(target, path):  # noqa: F811
    return target.sh(f"sha256sum {path}").split()[0].decode()


def parts(target, directory):  # noqa: F811
    """Temporary files of copies in a directory there."""
    return [x for x in target.sh(f"ls -a {directory}").decode().split()
            if x.startswith(".part")]


@pytest.fixture
def place(target):  # noqa: F811
    """An empty directory there, whose files jobs may write."""
    path = target.path("place")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"chmod -R 700 {path}; rm -rf {path}")


# ---- bytes --------------------------------------------------------------

@pytest.mark.parametrize("size", SIZES)
def test_both_ways(host, target, place, tmp_path, size):  # noqa: F811
    data = data_of(size)
    (tmp_path / "up").write_bytes(data)
    done = host.run("cp", str(tmp_path / "up"), f"{target}:{place}/f")
    assert (done.status, done.out, done.err) == (0, b"", b""), done
    assert remote_sha(target, f"{place}/f") == hashlib.sha256(
        data).hexdigest()
    assert parts(target, place) == []
    done = host.run("cp", f"{target}:{place}/f", str(tmp_path / "down"))
    assert (done.status, done.out, done.err) == (0, b"", b""), done
    assert (tmp_path / "down").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["down", "up"]


@pytest.mark.parametrize("size", [64 * MIB] + [1 << 30] * LONG)
def test_large_both_ways(host, target, place, tmp_path, size):  # noqa: F811
    block = os.urandom(MIB + 13)
    with open(tmp_path / "up", "wb") as f:
        for _ in range(size // MIB):
            f.write(block[:MIB])
            block = block[1:] + block[:1]
    done = host.run("cp", str(tmp_path / "up"), f"{target}:{place}/f")
    assert done.status == 0, done
    want = sha(tmp_path / "up")
    assert remote_sha(target, f"{place}/f") == want
    done = host.run("cp", f"{target}:{place}/f", str(tmp_path / "down"))
    assert done.status == 0, done
    assert sha(tmp_path / "down") == want


@pytest.mark.parametrize("size", [0, 1, 100_003])
def test_by_stdin_and_stdout(host, target, place, size):  # noqa: F811
    data = data_of(size)
    done = host.run("cp", "-", f"{target}:{place}/f", input=data)
    assert done.status == 0, done
    done = host.run("cp", f"{target}:{place}/f", "-")
    assert done.status == 0 and done.out == data


def test_names(host, target, place, tmp_path):  # noqa: F811
    for name in ("a b", "two\nlines", "-n", "*", "é", "a:b", "'\"$HOME"):
        (tmp_path / "up").write_bytes(os.fsencode(name))
        done = host.run("cp", str(tmp_path / "up"),
                        f"{target}:{place}/{name}")
        assert done.status == 0, done
        done = host.run("cp", f"{target}:{place}/{name}", "-")
        assert done.out == os.fsencode(name), done
    assert target.sh(f"ls -A {place} | wc -l").split() == [b"8"]


def test_relative_paths_begin_at_the_default_directory(  # noqa: F811
        host, target):
    name = target.path("relative").rpartition("/")[2]
    assert host.run("cp", "-", f"{target}:{name}", input=b"x").status == 0
    done = host.exec(target, "cat", name)
    assert done.out == b"x", done
    assert host.run("cp", f"{target}:{name}", "-").out == b"x"
    host.exec(target, "rm", name)


def test_from_proc_whose_size_is_not_known(host, target):  # noqa: F811
    done = host.run("cp", f"{target}:/proc/version", "-")
    assert done.status == 0 and done.out.startswith(b"Linux"), done


# ---- modes --------------------------------------------------------------

@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_comes_with_the_file(host, target, place,  # noqa: F811
                                      tmp_path, mode):
    (tmp_path / "up").write_bytes(b"x")
    (tmp_path / "up").chmod(mode)
    host.run("cp", str(tmp_path / "up"), f"{target}:{place}/f")
    got = int(target.sh(f"stat -c %a {place}/f"), 8)
    assert got == mode & ~0o022 or got == mode
    host.run("cp", f"{target}:{place}/f", str(tmp_path / "down"))
    assert (tmp_path / "down").stat().st_mode & 0o777 == got


def test_the_mode_of_an_existing_file_is_kept(host, target,  # noqa: F811
                                              place, tmp_path):
    (tmp_path / "up").write_bytes(b"new")
    target.sh(f"echo old >{place}/f && chmod 751 {place}/f")
    assert host.run("cp", str(tmp_path / "up"),
                    f"{target}:{place}/f").status == 0
    assert target.sh(f"cat {place}/f; stat -c %a {place}/f") == b"new751\n"
    (tmp_path / "down").write_bytes(b"old")
    (tmp_path / "down").chmod(0o704)
    assert host.run("cp", f"{target}:{place}/f",
                    str(tmp_path / "down")).status == 0
    assert (tmp_path / "down").read_bytes() == b"new"
    assert (tmp_path / "down").stat().st_mode & 0o777 == 0o704


def test_a_link_is_written_through(host, target, place):  # noqa: F811
    target.sh(f"cd {place} && echo old >real && ln -s real link")
    assert host.run("cp", "-", f"{target}:{place}/link",
                    input=b"new").status == 0
    assert target.sh(f"cd {place} && cat real && readlink link"
                     ) == b"newlink\n".replace(b"link", b"real")


# ---- directories --------------------------------------------------------

def test_into_a_directory(host, target, place, tmp_path):  # noqa: F811
    (tmp_path / "name").write_bytes(b"up")
    for slash in ("", "/"):
        target.sh(f"rm -f {place}/name")
        done = host.run("cp", str(tmp_path / "name"),
                        f"{target}:{place}{slash}")
        assert done.status == 0, done
        assert target.sh(f"cat {place}/name") == b"up"
    (tmp_path / "dir").mkdir()
    assert host.run("cp", f"{target}:{place}/name",
                    str(tmp_path / "dir")).status == 0
    assert (tmp_path / "dir/name").read_bytes() == b"up"


def test_into_a_directory_without_a_name(host, target, place):  # noqa: F811
    for slash in ("", "/"):
        done = host.run("cp", "-", f"{target}:{place}{slash}", input=b"x")
        assert done.status in (1, 2), done
        assert done.err.count(b"\n") == 1
    assert target.sh(f"ls -A {place}") == b""


def test_from_a_directory(host, target, place, tmp_path):  # noqa: F811
    done = host.run("cp", f"{target}:{place}", str(tmp_path / "f"))
    assert done.status == 1 and b"EISDIR" in done.err, done
    assert os.listdir(tmp_path) == []


def test_missing_parents(host, target, place, tmp_path):  # noqa: F811
    (tmp_path / "up").write_bytes(b"x")
    done = host.run("cp", str(tmp_path / "up"), f"{target}:{place}/no/f")
    assert done.status == 1 and b"ENOENT" in done.err, done
    assert f"{place}/no/f".encode() in done.err
    done = host.run("cp", f"{target}:{place}/f", str(tmp_path / "g"))
    assert done.status == 1 and b"ENOENT" in done.err, done
    target.sh(f"echo x >{place}/f")
    done = host.run("cp", f"{target}:{place}/f", str(tmp_path / "no/g"))
    assert done.status == 1 and b"ENOENT" in done.err, done
    done = host.run("cp", str(tmp_path / "none"), f"{target}:{place}/f")
    assert done.status == 1 and b"ENOENT" in done.err, done
    assert target.sh(f"cat {place}/f") == b"x\n"


# ---- failures -----------------------------------------------------------

@pytest.mark.parametrize("kind", ["docker-user", "openshell"])
def test_where_it_may_not_write(host, kind):  # noqa: F811
    box = get_target(kind)
    done = host.run("cp", "-", f"{box}:/usr/f", input=b"x")
    assert done.status == 1 and b"EACCES" in done.err, done
    path = box.path("shut")
    box.sh(f"mkdir {path} && echo old >{path}/f && chmod 400 {path}/f")
    done = host.run("cp", "-", f"{box}:{path}/f", input=b"new")
    assert done.status == 1 and b"EACCES" in done.err, done
    assert box.sh(f"cat {path}/f; ls -A {path}") == b"old\nf\n"
    box.sh(f"chmod 0 {path}/f")
    done = host.run("cp", f"{box}:{path}/f", "-")
    assert done.status == 1 and b"EACCES" in done.err, done
    box.sh(f"rm -rf {path}")


def test_a_full_disk(host, tmp_path):  # noqa: F811
    get_target("docker")                # skips where there is none
    box = once("tiny", lambda: Docker("debian", "--tmpfs",
                                      "/tiny:size=1m,mode=1777"))
    box.sh("echo old >/tiny/f")
    (tmp_path / "up").write_bytes(data_of(8 * MIB))
    done = host.run("cp", str(tmp_path / "up"), f"{box}:/tiny/f")
    assert done.status == 1 and b"ENOSPC" in done.err, done
    assert b"/tiny/f" in done.err and b"free space" in done.err
    assert box.sh("cat /tiny/f; ls -A /tiny") == b"old\nf\n"
    # There is room again.
    assert host.run("cp", "-", f"{box}:/tiny/f", input=b"x" * 900_000
                    ).status == 0


def test_a_full_local_disk(host, target):  # noqa: F811
    with open("/dev/full", "wb") as full:
        done = subprocess.run([host.program, "cp", f"{target}:/proc/version",
                               "-"], env=host.env, stdout=full,
                              stderr=subprocess.PIPE, timeout=LIMIT,
                              check=False)
    assert done.returncode == 1 and b"ENOSPC" in done.stderr, done


def half_sent(host, target, path):  # noqa: F811
    """A client in the middle of an upload from a pipe that stays open."""
    client = host.popen("cp", "-", f"{target}:{path}", stdin=subprocess.PIPE)
    client.stdin.write(data_of(3 * MIB))
    client.stdin.flush()
    directory = path.rpartition("/")[0]
    wait_for("half a file there", lambda: parts(target, directory))
    return client


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_upload(host, target, place, number):  # noqa: F811
    target.sh(f"echo old >{place}/f")
    client = half_sent(host, target, f"{place}/f")
    client.send_signal(number)
    assert client.wait(LIMIT) == (130 if number == signal.SIGINT else -9)
    wait_for("no half file", lambda: parts(target, place) == [])
    assert target.sh(f"cat {place}/f; ls -A {place}") == b"old\nf\n"
    client = half_sent(host, target, f"{place}/new")
    client.send_signal(number)
    client.wait(LIMIT)
    wait_for("no half file", lambda: parts(target, place) == [])
    assert target.sh(f"ls -A {place}") == b"f\n"


def written(pid):
    """Bytes that a process has written so far."""
    with open(f"/proc/{pid}/io", "rb") as f:
        return int(f.read().split(b"wchar:")[1].split()[0])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download(host, target, place, tmp_path,  # noqa: F811
                           number):
    # It has no holes and takes long enough to be killed on its way.
    target.sh(f"fallocate -l {1 << 30} {place}/f || "
              f"head -c {1 << 30} /dev/zero >{place}/f")
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        client = host.popen("cp", f"{target}:{place}/f",
                            str(tmp_path / name))
        wait_for("some bytes here", lambda: written(client.pid) > MIB)
        client.send_signal(number)
        client.wait(LIMIT)
        for x in tmp_path.iterdir():    # KILL leaves what it may not remove
            assert number == signal.SIGKILL or x.name == "old"
            if x.name not in ("old", "new"):
                x.unlink()
    assert (tmp_path / "old").read_bytes() == b"old"
    assert not (tmp_path / "new").exists()
    assert host.exec(target, "echo", "on").out == b"on\n"


def test_a_source_that_breaks(host, target, place, tmp_path):  # noqa: F811
    """A file that cannot be read to its end is no shorter file."""
    done = host.run("cp", "/proc/self/mem", f"{target}:{place}/f")
    assert done.status == 1, done
    assert target.sh(f"ls -A {place}") == b""


# ---- operands -----------------------------------------------------------

@pytest.mark.parametrize("args, words", [
    (["a", "b"], b"both operands are local"),
    (["local:/a", "local:/b"], b"both operands are in targets"),
    (["local:", "b"], b"path is empty"), (["local", "b"], b"local"),
    (["x", "No:/a"], b"no such target"), (["-"], b"two operands"),
    (["", "local:/a"], b"empty"),
])
def test_operands(host, args, words):  # noqa: F811
    done = host.run("cp", *args)
    assert done.status == 2 and words in done.err, done

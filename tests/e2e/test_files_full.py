# SPDX-License-Identifier: MIT
"""Copies that find no room, up and down, for each real cause: a full file
system, a quota, a limit on a file's size.  The error says which, the old file
is whole, and nothing lies beside it."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from spine import (MIB, Host, agents, at_end, host, once,  # noqa: F401
                   shared_host)

ROOM = 2 * MIB
CAUSES = {"ENOSPC": "tmpfs", "EDQUOT": "btrfs", "EFBIG": "limit"}
OLD = b"old content\n"


def run(*words):
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{words[0]}: {done.stderr.decode()[-200:]}")


def mounted(*words):
    """A directory with something mounted on it until the tests end."""
    top = tempfile.mkdtemp(prefix="spine-full")
    at_end(shutil.rmtree, top, True)
    run("mount", *words, top)
    at_end(subprocess.run, ["umount", "-l", top], check=False)
    return pathlib.Path(top)


def full():
    return mounted("-t", "tmpfs", "-o", f"size={ROOM}", "none")


def quota():
    """Of the file systems that this may run on, btrfs has one of its own."""
    if "btrfs" not in pathlib.Path("/proc/filesystems").read_text():
        pytest.skip("the kernel has no btrfs")
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as image:
        image.truncate(256 * MIB)
        run("mkfs.btrfs", "-q", image.name)
        top = mounted("-o", "loop", image.name)
    run("btrfs", "quota", "enable", str(top))
    run("btrfs", "subvolume", "create", str(top / "sub"))
    run("btrfs", "qgroup", "limit", str(ROOM), str(top / "sub"))
    return top / "sub"


def limited():
    """A client whose files, and its agent's, can have only so many bytes."""
    one = Host()
    # Not what starts it: with sanitizers it is larger than that itself.
    assert one.exec("local", "true").status == 0
    run("prlimit", f"--fsize={ROOM}", "--pid",
        str(agents(one.session("local"))[1]))
    wrap = one.top / "sandmux"
    wrap.write_text(f"#!/bin/sh\nexec prlimit --fsize={ROOM} {one.program} "
                    "\"$@\"\n")
    wrap.chmod(0o755)
    one.program = str(wrap)
    return one


@pytest.fixture(params=CAUSES)
def cause(request):
    return request.param


@pytest.fixture
def there(cause, tmp_path):
    """An empty directory with little room."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    if cause == "EFBIG":
        path = tmp_path / "there"
    else:
        top = once(cause, full if cause == "ENOSPC" else quota)
        path = top / "there"
    path.mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["up", "down"])
def cp(request, cause, host, tmp_path):  # noqa: F811
    """Copy into that directory; the status and the last event."""
    client = once("limited", limited) if cause == "EFBIG" else host

    def copy(source, path, *words):
        source, path = str(source), str(path)
        if request.param == "up":
            path = f"local:{path}"
        else:
            source = f"local:{source}"
        events = tmp_path / "events"
        done = client.run("cp", "--json", str(events), *words, source, path)
        return done, json.loads(events.read_text().splitlines()[-1])

    return copy


def check(done, end, cause):
    assert done.status == 1, done
    assert cause.encode() in done.err, done
    assert end["error"]["errno_name"] == cause and not end["ok"], end


def names(path):
    return sorted(os.listdir(path))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "src"
    path.write_bytes(os.urandom(3 * ROOM))
    return path


@pytest.mark.parametrize("words", [(), ("--verify",)])
def test_a_new_file(cp, cause, there, source, words):
    check(*cp(source, there / "f", *words), cause)
    assert names(there) == []


@pytest.mark.parametrize("words", [(), ("--verify",), ("--append",)])
@pytest.mark.parametrize("other", [False, True], ids=["renamed", "in place"])
def test_over_an_old_file(cp, cause, there, source, words, other):
    (there / "f").write_bytes(OLD)
    if other:
        (there / "g").hardlink_to(there / "f")
    before = (there / "f").stat()
    check(*cp(source, there / "f", *words), cause)
    assert (there / "f").read_bytes() == OLD
    after = (there / "f").stat()
    assert (before.st_ino, before.st_mode, before.st_mtime_ns) == (
        after.st_ino, after.st_mode, after.st_mtime_ns)
    assert names(there) == ["f", "g"][:1 + other]


@pytest.mark.parametrize("words", [(), ("--append",)])
def test_room_for_one_but_not_for_two(cp, cause, there, tmp_path, words):
    """In place: the new bytes are complete when there is no room for them
    where they belong; the old ones are still there then."""
    old = os.urandom(ROOM // 8)
    (there / "f").write_bytes(old)
    (there / "g").hardlink_to(there / "f")
    new = tmp_path / "new"
    # The limit counts for each file: only what is added to can pass it.
    new.write_bytes(os.urandom(ROOM // 8 * (
        7 if cause != "EFBIG" else 8 if words else 9)))
    check(*cp(new, there / "f", *words), cause)
    assert (there / "g").read_bytes() == old
    assert names(there) == ["f", "g"]


def test_resume_keeps_what_there_was_room_for(cp, cause, there, source):
    """Its one partial file, and goes on with it when there is room."""
    (there / "f").write_bytes(OLD)
    (there / "ballast").write_bytes(os.urandom(ROOM // 4))
    check(*cp(source, there / "f", "--resume"), cause)
    part = there / ".partial-f"
    assert names(there) == [part.name, "ballast", "f"]
    assert (there / "f").read_bytes() == OLD
    size = part.stat().st_size
    assert 0 < size <= ROOM
    assert part.read_bytes() == source.read_bytes()[:size]
    # Now there is more, and it needs less.
    (there / "ballast").unlink()
    os.sync()
    if cause == "EFBIG":
        os.truncate(source, size)
    else:
        os.truncate(source, size + ROOM // 8)
    done, end = cp(source, there / "f", "--resume")
    assert done.status == 0 and end["resumed_from"] == size, (done, end)
    assert (there / "f").read_bytes() == source.read_bytes()
    assert names(there) == ["f"]


def make_tree(top):
    for i in range(3):
        (top / f"d{i}").mkdir(parents=True)
        (top / f"d{i}" / "small").write_bytes(b"new")
        (top / f"d{i}" / "z").write_bytes(os.urandom(ROOM + 1))


def test_a_new_tree(cp, cause, there, tmp_path):
    make_tree(tmp_path / "tree")
    check(*cp(tmp_path / "tree", there / "t", "-r"), cause)
    assert names(there) == []


def test_a_tree_into_a_directory(cp, cause, there, tmp_path):
    """Each file is the old or the new one."""
    make_tree(tmp_path / "tree")
    (there / "tree/d0").mkdir(parents=True)
    for name in ("small", "z", "other"):
        (there / "tree/d0" / name).write_bytes(OLD)
    check(*cp(tmp_path / "tree", there, "-r"), cause)
    left = {str(p.relative_to(there)): p.read_bytes()
            for p in there.rglob("*") if p.is_file()}
    assert not any(word in name for name in left
                   for word in (".sandmux", ".part")), left
    assert left.pop("tree/d0/other") == OLD
    assert left.pop("tree/d0/z") == OLD
    assert set(left.values()) <= {OLD, b"new"}, left

# SPDX-License-Identifier: MIT
"""cp on `local`: grammar, whole files or none, modes, - and devices."""
import hashlib
import os
import re
import signal
import stat
import subprocess
import time

import pytest
from conftest import LIMIT, wait_until

MIB = 1 << 20
SIZES = [0, 1, 8191, 8192, 8193, 32753, 32754, 32755, 65536, 5 * MIB + 7]


def tmp_files(directory):
    return [n for n in os.listdir(directory) if n.endswith(".tmp")]


@pytest.fixture
def box(tmp_path):
    """Two directories: ours, and the one that `local:` names."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    yield tmp_path / "here", tmp_path / "there"
    assert tmp_files(tmp_path / "here") == tmp_files(tmp_path / "there") == []


@pytest.mark.parametrize("size", SIZES)
def test_both_ways(sandmux, box, size):
    here, there = box
    data = os.urandom(size)
    (here / "a").write_bytes(data)
    assert sandmux("cp", str(here / "a"), f"local:{there}/b").returncode == 0
    assert (there / "b").read_bytes() == data
    done = sandmux("cp", f"local:{there}/b", str(here / "c"))
    assert done.returncode == 0, done.stderr
    assert (here / "c").read_bytes() == data
    assert done.stdout == done.stderr == b""


@pytest.mark.parametrize("size", [0, 1, 3 * MIB])
def test_stdin_and_stdout(sandmux, box, size):
    _, there = box
    data = os.urandom(size)
    done = sandmux("cp", "-", f"local:{there}/x", stdin=data)
    assert done.returncode == 0, done.stderr
    done = sandmux("cp", f"local:{there}/x", "-")
    assert (done.returncode, done.stdout) == (0, data)


def test_names_that_are_hard(sandmux, box):
    here, there = box
    for i, name in enumerate([b"a b", b"\xff\xfe", b"new\nline", b"-x",
                              b"q'\"$", b"x:y", b"\x1b[2J"]):
        (here / os.fsdecode(name)).write_bytes(b"%d" % i)
        source = os.fsencode(here) + b"/" + name
        assert sandmux("cp", source, b"local:" + os.fsencode(there) +
                       b"/").returncode == 0
        assert (there / os.fsdecode(name)).read_bytes() == b"%d" % i
        done = sandmux("cp", b"local:" + os.fsencode(there) + b"/" + name,
                       source + b"2")
        assert done.returncode == 0, done.stderr
    done = sandmux("cp", b"local:/nowhere\x1b[2J", "-")
    assert done.returncode == 1 and b"\x1b" not in done.stderr


def test_local_file_with_a_colon(sandmux, box):
    here, there = box
    (here / "docker:x:y").write_text("colon")
    assert sandmux("cp", "./docker:x:y", f"local:{there}/z",
                   cwd=here).returncode == 0
    assert (there / "z").read_text() == "colon"


def test_relative_names(sandmux, box):
    here, there = box
    (here / "a").write_text("relative")
    assert sandmux("cp", "a", f"local:{there}/a", cwd=here).returncode == 0
    assert sandmux("cp", f"local:{there}/a", "b", cwd=here).returncode == 0
    assert (here / "b").read_text() == "relative"
    assert sandmux("cp", f"local:{there}/a", "../here/c",
                   cwd=here).returncode == 0
    assert (here / "c").read_text() == "relative"


@pytest.mark.parametrize("dst", ["", "/", "/x"])
def test_remote_directory(sandmux, box, dst):
    here, there = box
    (here / "x").write_text("x")
    assert sandmux("cp", str(here / "x"), f"local:{there}{dst}").returncode \
        == 0
    assert (there / "x").read_text() == "x"


@pytest.mark.parametrize("dst", ["", "/", "/x"])
def test_local_directory(sandmux, box, dst):
    here, there = box
    (there / "x").write_text("x")
    assert sandmux("cp", f"local:{there}/x", f"{here}{dst}").returncode == 0
    assert (here / "x").read_text() == "x"


def test_large_file_into_a_remote_directory(sandmux, box):
    here, there = box
    data = os.urandom(4 * MIB)
    (here / "x").write_bytes(data)
    assert sandmux("cp", str(here / "x"), f"local:{there}").returncode == 0
    assert (there / "x").read_bytes() == data


def test_stdin_into_a_directory(sandmux, box):
    _, there = box
    for dst in (there, f"{there}/"):
        done = sandmux("cp", "-", f"local:{dst}", stdin=b"x")
        assert done.returncode in (1, 2), done
    assert os.listdir(there) == []


@pytest.mark.parametrize("words, status, text", [
    ([], 2, "two operands"), (["a"], 2, "two operands"),
    (["a", "b", "c"], 2, "two operands"), (["a", "b"], 2, "both"),
    (["-", "-"], 2, "both"), (["local:/a", "local:/b"], 2, "both"),
    (["", "local:/b"], 2, "empty"), (["local:", "b"], 2, "path is empty"),
    (["docker:x", "b"], 2, "TARGET:PATH"),
    (["docker:x:", "b"], 2, "path is empty"),
    (["nosuch:x", "b"], 1, "no sandbox of this name"),
    (["C:/x", "b"], 2, "no such target"), (["C:/x", "b"], 2, "./NAME"),
    (["kubectl:x:/y", "b"], 2, "not reached"),
    (["-r", "-", "local:/b"], 2, "a tree"),
    (["--skip-unreadable", "a", "local:/b"], 2, "add -r"),
    (["-u", "", "a", "local:/b"], 2, "-u"),
    (["/nowhere/a", "local:/tmp/b"], 1, "/nowhere/a"),
    (["/", "local:/tmp/b"], 1, "EISDIR"),
    (["local:/nowhere/a", "/tmp/sandmux-no"], 1, "/nowhere/a"),
    (["local:/", "/tmp/sandmux-no"], 1, "EISDIR"),
    (["local:/etc/hostname", "/nowhere/x"], 1, "/nowhere/x"),
    (["local:/etc/hostname", "/nowhere/"], 1, "/nowhere/"),
    (["local:/etc/..", "/tmp"], 1, ""),
])
def test_errors(sandmux, words, status, text):
    done = sandmux("cp", *words)
    assert done.returncode == status, done
    err = done.stderr.decode()
    assert err.startswith("sandmux: cp: ") and err.count("\n") == 1
    assert text in err
    assert not os.path.exists("/tmp/sandmux-no")


# ---- modes ---------------------------------------------------------------

@pytest.mark.parametrize("mode", [0o600, 0o755, 0o640, 0o444, 0o4755])
def test_mode_of_a_new_file(sandmux, box, mode):
    here, there = box
    (here / "a").write_text("x")
    (here / "a").chmod(mode)
    assert sandmux("cp", str(here / "a"), f"local:{there}/b",
                   umask=0o022).returncode == 0
    assert stat.S_IMODE((there / "b").stat().st_mode) & 0o4700 == mode & 0o700
    assert sandmux("cp", f"local:{there}/b", str(here / "c"),
                   umask=0o022).returncode == 0
    got = stat.S_IMODE((here / "c").stat().st_mode)
    assert got & ~0o777 == 0 and got & 0o700 == mode & 0o700


def test_umask_counts(sandmux, box):
    here, there = box
    (there / "a").write_text("x")
    (there / "a").chmod(0o666)
    assert sandmux("cp", f"local:{there}/a", str(here / "b"),
                   umask=0o077).returncode == 0
    assert stat.S_IMODE((here / "b").stat().st_mode) == 0o600


def test_mode_of_an_existing_file_is_kept(sandmux, box):
    here, there = box
    (there / "a").write_text("new")
    (here / "b").write_text("old")
    (here / "b").chmod(0o751)
    os.chown(here / "b", os.getuid(), os.getgid())
    assert sandmux("cp", f"local:{there}/a", str(here / "b")).returncode == 0
    assert (here / "b").read_text() == "new"
    assert stat.S_IMODE((here / "b").stat().st_mode) == 0o751


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for another owner")
def test_owner_of_an_existing_file_is_kept(sandmux, box):
    here, there = box
    (there / "a").write_text("new")
    (here / "b").write_text("old")
    os.chown(here / "b", 12345, 23456)
    assert sandmux("cp", f"local:{there}/a", str(here / "b")).returncode == 0
    st = (here / "b").stat()
    assert (st.st_uid, st.st_gid) == (12345, 23456)


# ---- links, pipes, devices -----------------------------------------------

def test_link_as_destination(sandmux, box):
    here, there = box
    (there / "a").write_text("new")
    (here / "real").write_text("old")
    (here / "link").symlink_to("real")
    assert sandmux("cp", f"local:{there}/a",
                   str(here / "link")).returncode == 0
    assert (here / "link").is_symlink()
    assert (here / "real").read_text() == "new"


def test_dangling_link_as_destination(sandmux, box):
    here, there = box
    (there / "a").write_text("new")
    (here / "link").symlink_to("nowhere")
    done = sandmux("cp", f"local:{there}/a", str(here / "link"))
    assert done.returncode == 1 and os.listdir(here) == ["link"]


def test_devices(sandmux, box):
    _, there = box
    (there / "a").write_bytes(b"x" * MIB)
    assert sandmux("cp", f"local:{there}/a", "/dev/null").returncode == 0
    done = sandmux("cp", f"local:{there}/a", "/dev/full")
    assert done.returncode == 1 and b"ENOSPC" in done.stderr
    assert sandmux("cp", "/dev/null", f"local:{there}/empty").returncode == 0
    assert (there / "empty").read_bytes() == b""


def test_fifo_as_destination_and_source(sandmux, box):
    here, there = box
    data = os.urandom(MIB)
    (there / "a").write_bytes(data)
    os.mkfifo(here / "fifo")
    job = sandmux.start("cp", f"local:{there}/a", str(here / "fifo"))
    assert (here / "fifo").read_bytes() == data
    assert job.wait(30) == 0
    job.communicate()
    job = sandmux.start("cp", str(here / "fifo"), f"local:{there}/b")
    (here / "fifo").write_bytes(data)
    assert job.wait(30) == 0
    job.communicate()
    assert (there / "b").read_bytes() == data


def test_reader_that_goes(sandmux, box):
    _, there = box
    (there / "a").write_bytes(b"x" * (4 * MIB))
    job = sandmux.start("cp", f"local:{there}/a", "-")
    job.stdout.close()
    assert job.wait(30) == -signal.SIGPIPE
    job.stderr.close()


# ---- all or nothing ------------------------------------------------------

@pytest.mark.skipif(os.getuid() == 0, reason="root may write anything")
def test_read_only_destination(sandmux, box):
    here, there = box
    (there / "a").write_text("new")
    (here / "b").write_text("old")
    (here / "b").chmod(0o444)
    assert sandmux("cp", f"local:{there}/a", str(here / "b")).returncode == 1
    assert (here / "b").read_text() == "old"


def test_failure_keeps_the_old_file(sandmux, box):
    here, there = box
    (here / "b").write_text("old")
    assert sandmux("cp", f"local:{there}/no", str(here / "b")).returncode == 1
    assert (here / "b").read_text() == "old"
    assert sandmux("cp", f"local:{there}/no", str(here / "c")).returncode == 1
    assert os.listdir(here) == ["b"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM,
                                    signal.SIGHUP, signal.SIGKILL])
def test_signal_leaves_nothing_here(sandmux, box, number):
    here, there = box
    (here / "b").write_text("old")
    source = there / "big"
    source.write_bytes(b"x" * (64 * MIB))
    job = sandmux.start("cp", f"local:{source}", str(here / "b"))
    job.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    job.send_signal(number)
    job.send_signal(signal.SIGCONT)
    job.communicate(timeout=30)
    if job.returncode == 0:         # it was faster than the signal
        assert (here / "b").stat().st_size == 64 * MIB
    else:
        assert job.returncode in (128 + number, -number)
        assert (here / "b").read_text() == "old"
    assert os.listdir(here) == ["b"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM,
                                    signal.SIGKILL])
def test_signal_leaves_nothing_there(sandmux, box, number):
    _, there = box
    (there / "b").write_text("old")
    job = sandmux.start("cp", "-", f"local:{there}/b", stdin=subprocess.PIPE)
    job.stdin.write(b"x" * MIB)
    job.stdin.flush()
    wait_until("bytes on their way", lambda: any(
        (there / n).stat().st_size > 100000 for n in os.listdir(there)), 20)
    job.send_signal(number)
    assert job.wait(30) in (128 + number, -number)
    job.stdin.close()
    job.stdout.close()
    job.stderr.close()
    wait_until("the worker's end", lambda: os.listdir(there) == ["b"])
    assert (there / "b").read_text() == "old"


def test_short_stdin_is_what_it_is(sandmux, box):
    """A pipe that ends early is a complete, shorter file."""
    _, there = box
    with subprocess.Popen(["head", "-c", "100001", "/dev/zero"],
                          stdout=subprocess.PIPE) as source:
        done = sandmux("cp", "-", f"local:{there}/x", stdin=source.stdout)
    assert done.returncode == 0
    assert (there / "x").stat().st_size == 100001


def test_disk_full_here(sandmux, box):
    if os.getuid() != 0:
        pytest.skip("needs root for a small tmpfs")
    here, there = box
    (there / "a").write_bytes(b"x" * (2 * MIB))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none",
                       here]).returncode != 0:
        pytest.skip("no right to mount a tmpfs")
    try:
        (here / "b").write_text("old")
        done = sandmux("cp", f"local:{there}/a", str(here / "b"))
        assert done.returncode == 1 and b"ENOSPC" in done.stderr
        assert (here / "b").read_text() == "old"
        assert os.listdir(here) == ["b"]
    finally:
        subprocess.run(["umount", here], check=True)


# ---- progress ------------------------------------------------------------

def test_progress_on_a_terminal(sandmux, box):
    import pty
    here, there = box
    (here / "a\x1b[2J").write_bytes(b"x" * MIB)
    master, slave = pty.openpty()
    done = sandmux("cp", str(here / "a\x1b[2J"), f"local:{there}/b",
                   stderr=slave)
    os.close(slave)
    shown = os.read(master, 65536)
    os.close(master)
    assert done.returncode == 0
    assert b"1.0 MiB" in shown and b"100%" in shown and b"MB/s" in shown
    assert b"\x1b[2J" not in shown


class Screen:
    """A terminal for stderr, read until its other end is closed."""

    def __enter__(self):
        import pty
        self.master, self.slave = pty.openpty()
        self.shown = b""
        return self

    def __exit__(self, *_):
        os.close(self.master)

    def close(self):
        """The test's own end of it; the program keeps its own."""
        os.close(self.slave)

    def until(self, words):
        """Read on until the words stand there; the screen so far."""
        while words not in self.shown:
            try:
                got = os.read(self.master, 65536)
            except OSError:     # no other end any more
                got = b""
            assert got, self.shown
            self.shown += got
        return self.shown

    def end(self):
        """All of it, once the program has ended."""
        try:
            while True:
                self.shown += os.read(self.master, 65536)
        except OSError:
            return self.shown


PERCENT = re.compile(rb"(\d[^ ]* [KM]iB) of ([^ ]+ MiB), (\d+)%")


@pytest.mark.parametrize("way", ["up", "down"])
def test_progress_of_a_slow_copy(sandmux, box, way):
    """A line below 100 % while the other side is slow, and then the whole."""
    import pty
    import tty
    here, _ = box
    size = 64 * MIB
    (here / "a").write_bytes(b"x" * size)
    with Screen() as screen:
        if way == "up":
            # A device that takes no more than is read at its other end.
            master, slave = pty.openpty()
            tty.setraw(slave)
            copy = sandmux.start("cp", str(here / "a"),
                                 f"local:{os.ttyname(slave)}",
                                 stderr=screen.slave)
            out = open(master, "rb", buffering=0)
        else:
            copy = sandmux.start("cp", f"local:{here}/a", "-",
                                 stderr=screen.slave, stdout=subprocess.PIPE,
                                 bufsize=0)
            out = copy.stdout
        screen.close()
        with out:
            got = len(out.read(65536))
            screen.until(b"%")
            while got < size:
                got += len(out.read(MIB))
            if way == "up":
                os.close(slave)
        assert copy.wait(LIMIT) == 0 and got == size
        lines = PERCENT.findall(screen.end())
    assert int(lines[0][2]) < 100 and lines[-1] == (
        b"64.0 MiB", b"64.0 MiB", b"100"), lines
    done = [float(line[2]) for line in lines]
    assert done == sorted(done), lines


def test_progress_of_a_slow_source(sandmux, box):
    """Of a size that nobody knows: bytes, and no part of a whole."""
    here, there = box
    with Screen() as screen:
        copy = sandmux.start("cp", "-", f"local:{there}/b",
                             stderr=screen.slave, stdin=subprocess.PIPE)
        screen.close()
        copy.stdin.write(b"x" * (2 * MIB))
        copy.stdin.flush()
        screen.until(b"  2.0 MiB, ")
        assert copy.poll() is None
        copy.stdin.write(b"x" * (2 * MIB))
        copy.stdin.close()
        assert copy.wait(LIMIT) == 0
        assert b"  4.0 MiB, " in screen.end() and b"%" not in screen.shown
    assert (there / "b").stat().st_size == 4 * MIB


def test_hash_of_a_large_file(sandmux, box):
    here, there = box
    digest = hashlib.sha256()
    with open(here / "a", "wb") as f:
        for _ in range(64):
            piece = os.urandom(MIB)
            digest.update(piece)
            f.write(piece)
    assert sandmux("cp", str(here / "a"), f"local:{there}/b").returncode == 0
    assert sandmux("cp", f"local:{there}/b", str(here / "c")).returncode == 0
    with open(here / "c", "rb") as f:
        assert hashlib.file_digest(f, "sha256").digest() == digest.digest()

# SPDX-License-Identifier: MIT
"""Trees from an agent that lies, and beside a process that swaps files for
links while they are written: nothing outside the destination changes."""
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import pytest

from conftest import children, peak, wait_for
from sealed import (DIR, FILE, HARDLINK, SYMLINK, chunk, entry, entry_end,
                    f, skipped, tree_info)
# pylint: disable=unused-import
from test_hostile_agent import controller, is_safe       # noqa: F401

MIB = 1 << 20
ESCAPE = b"\x1b[2J\nsandmux: all is well\x9b\xff"
END = entry_end()


def a_file(name, data=b"x"):
    return entry(FILE, name) + chunk(data) + END


class Place:
    """A destination with something outside it, and eyes on both."""

    def __init__(self, top):
        self.top = top
        self.dst = top / "dst"
        for name in ("dst", "outside", "outside/sub"):
            (top / name).mkdir()
        (top / "outside" / "canary").write_text("alive")
        (top / "outside" / "sub" / "canary").write_text("alive")
        self.before = self.picture("outside")

    def picture(self, name):
        found = {}
        for directory, dirs, files in os.walk(self.top / name):
            for n in ["."] + dirs + files:
                path = os.path.join(directory, n)
                st = os.lstat(path)
                content = b""
                if os.path.isfile(path) and not os.path.islink(path):
                    content = pathlib.Path(path).read_bytes()
                found[os.path.relpath(path, self.top)] = (
                    st.st_mode, st.st_ino, st.st_nlink, st.st_uid,
                    st.st_mtime_ns, hashlib.sha256(content).hexdigest())
        return found

    def check(self):
        assert self.picture("outside") == self.before
        left = [n for _, dirs, files in os.walk(self.top)
                for n in dirs + files if n.startswith((".sandmux", ".part"))]
        assert left == []


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def copy(controller, *words, **how):
    done = subprocess.run([controller.program, "cp", "-r", *words],
                          env=controller.env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False, **how)
    assert is_safe(done.stderr), done
    return done


def serve(controller, stream, info=b"", mode="sends_tree"):
    (controller.dir / "tree").write_bytes(stream)
    (controller.dir / "info").write_bytes(info)
    controller.mode(mode)


def tree(content, *counts):
    """A whole stream of a directory, and its info."""
    info = tree_info(*counts)
    return entry(DIR) + content + END + f(info), info


OUT = b"../outside"
LIES = {
    "dotdot": tree(a_file(b"../outside/canary"), 2, 1, 1, 0, 0),
    "dotdot alone": tree(entry(DIR, b"..") + a_file(b"canary") + END,
                         3, 1, 1, 0, 0),
    "absolute": tree(a_file(b"/etc/sandmux-test"), 2, 1, 1, 0, 0),
    "dot": tree(a_file(b"."), 2, 1, 1, 0, 0),
    "slash at the end": tree(a_file(b"a/"), 2, 1, 1, 0, 0),
    "nul": tree(a_file(b"a\0b"), 2, 1, 1, 0, 0),
    "empty": tree(a_file(b""), 2, 1, 1, 0, 0),
    "long": tree(a_file(b"n" * 256), 2, 1, 1, 0, 0),
    "through a link": tree(
        entry(SYMLINK, b"a", b"../../outside") + entry(DIR, b"a") +
        a_file(b"canary") + END, 4, 1, 1, 0, 0),
    "file over a link": tree(
        entry(SYMLINK, b"a", b"../../outside/canary") + a_file(b"a"),
        3, 1, 1, 0, 0),
    "two links": tree(
        entry(SYMLINK, b"a", b"b") + entry(SYMLINK, b"b", b"../..") +
        entry(DIR, b"a") + entry(DIR, b"outside") + a_file(b"x") + END + END,
        6, 1, 1, 0, 0),
    "hard link to outside": tree(
        entry(HARDLINK, b"a", b"../outside/canary"), 2, 0, 0, 1, 0),
    "hard link to /etc/passwd": tree(
        entry(HARDLINK, b"a", b"/etc/passwd"), 2, 0, 0, 1, 0),
    "hard link through a link": tree(
        entry(SYMLINK, b"a", b"../../outside") +
        entry(HARDLINK, b"b", b"a/canary"), 3, 0, 0, 1, 0),
    "hard link to a link": tree(
        entry(SYMLINK, b"a", b"../../outside/canary") +
        entry(HARDLINK, b"b", b"a"), 3, 0, 0, 1, 0),
    "the same twice": tree(a_file(b"a") + a_file(b"a"), 3, 2, 2, 0, 0),
    "device": tree(entry(5, b"a") + END, 2, 0, 0, 0, 0),
    "fifo": tree(entry(6, b"a") + END, 2, 0, 0, 0, 0),
    "kind 255": tree(entry(255, b"a") + END, 2, 0, 0, 0, 0),
    "time that is none": tree(
        entry(FILE, b"a", nanoseconds=(1 << 30) - 2) + END, 2, 1, 0, 0, 0),
    "4 GiB": (entry(DIR) + entry(FILE, b"a") + b"\xff\xff\xff\xff\x71" +
              bytes(10000), tree_info(2, 1, 10000, 0, 0)),
    "4 GiB counted": tree(a_file(b"a"), 2, 1, 1 << 32, 0, 0),
    "more entries than came": tree(a_file(b"a"), 3, 1, 1, 0, 0),
    "cut": (tree(a_file(b"a"), 2, 1, 1, 0, 0)[0][:-20],
            tree_info(2, 1, 1, 0, 0)),
    "nothing": (b"", tree_info(0, 0, 0, 0, 0)),
    "garbage": (os.urandom(5000), b""),
    "behind its end": (tree(b"", 1, 0, 0, 0, 0)[0] + END,
                       tree_info(1, 0, 0, 0, 0)),
    "skipped all": (skipped(ESCAPE) + f(tree_info(0, 0, 0, 0, 1)),
                    tree_info(0, 0, 0, 0, 1)),
    "another info": (tree(a_file(b"a"), 2, 1, 1, 0, 0)[0],
                     tree_info(2, 1, 2, 0, 0)),
    "no info": (tree(a_file(b"a"), 2, 1, 1, 0, 0)[0], b""),
    "info of another kind": (tree(a_file(b"a"), 2, 1, 1, 0, 0)[0],
                             b"\x61" + bytes(12)),
}


def test_lies(controller, place):
    for name, (stream, info) in LIES.items():
        serve(controller, stream, info)
        for dst, kept in ((place.dst / "new", []), (place.dst, ["kept"])):
            for n in kept:
                (place.dst / "x").mkdir()
                (place.dst / "x" / n).write_text("kept")
                (place.dst / "x" / "a").symlink_to("../../outside")
            done = copy(controller, "docker:box:/x", str(dst))
            # Where something is, the last of two of one name wins.
            assert done.returncode == 1 or kept, (name, done)
            assert done.stderr.startswith(b"sandmux: cp: ") == (
                done.returncode == 1), (name, done)
            place.check()
            if kept:
                assert (place.dst / "x" / "kept").read_text() == "kept"
                shutil.rmtree(place.dst / "x")
            assert os.listdir(place.dst) == [], name
    assert not os.path.exists("/etc/sandmux-test")


def test_good_names_that_are_hard(controller, place):
    """They are written as they are, and quoted where they are shown."""
    content = (a_file(ESCAPE.replace(b"/", b"")) + skipped(b"b/" + ESCAPE) +
               skipped(b"\0" * 50) + entry(SYMLINK, b"l", ESCAPE))
    serve(controller, *tree(content, 3, 1, 1, 0, 2))
    done = copy(controller, "--skip-unreadable", "docker:box:/x",
                str(place.dst / "new"))
    assert done.returncode == 1 and b"2 skipped" in done.stderr, done
    assert done.stderr.count(b"\n") == 3, done
    assert sorted(os.listdir(os.fsencode(place.dst / "new"))) == sorted(
        [ESCAPE, b"l"])
    assert os.readlink(os.fsencode(place.dst / "new" / "l")) == ESCAPE
    place.check()


def test_skipped_though_not_asked(controller, place):
    """What a strict copy never says still counts as a failure."""
    serve(controller, *tree(skipped(b"b"), 1, 0, 0, 0, 1))
    done = copy(controller, "docker:box:/x", str(place.dst / "new"))
    assert done.returncode == 1 and b"skipped" in done.stderr, done


@pytest.mark.parametrize("mode", ["sends_tree_and_fails",
                                  "sends_tree_and_dies"])
def test_whole_stream_but_no_good_end(controller, place, mode):
    stream, info = tree(a_file(b"a"), 2, 1, 1, 0, 0)
    serve(controller, stream, info, mode)
    done = copy(controller, "docker:box:/x", str(place.dst / "new"))
    assert done.returncode == 1, done
    assert (b"link lost" if "dies" in mode else b"EIO") in done.stderr, done
    assert os.listdir(place.dst) == []
    place.check()


def test_no_end_of_depth(controller, place):
    (controller.dir / "again").write_bytes(
        entry(DIR, b"d12345678").replace(b"d12345678", b"d%08d"))
    serve(controller, entry(DIR), mode="sends_tree_without_end")
    done = copy(controller, "docker:box:/x", str(place.dst / "new"))
    assert done.returncode == 1 and b"too many directories" in done.stderr
    assert os.listdir(place.dst) == []
    place.check()


def test_no_end_of_entries(controller, place):
    """They are bounded in number (a unit test has that); memory is bounded
    before, and Ctrl-C removes them all."""
    link = entry(SYMLINK, b"123456789", b"x")
    assert link.count(b"123456789") == 1
    (controller.dir / "again").write_bytes(
        link.replace(b"123456789", b"%09d"))
    serve(controller, entry(DIR), mode="sends_tree_without_end")
    client = subprocess.Popen(
        [controller.program, "cp", "-r", "docker:box:/x",
         str(place.dst / "new")], env=controller.env,
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert wait_for(lambda: any(len(os.listdir(p)) > 5000
                                for p in place.dst.iterdir()), 60)
    if "asan" not in controller.program:
        for pid in [client.pid, *children(client.pid)]:
            assert peak(pid) < 16 * MIB
    client.send_signal(signal.SIGINT)
    assert client.wait(60) == 130, client.stderr.read()
    assert os.listdir(place.dst) == []
    place.check()


# ---- a process that swaps -------------------------------------------------------

class Swapper(threading.Thread):
    """Puts links to outside in the place of directories and files, and back,
    as fast as it can."""

    def __init__(self, paths, outside):
        super().__init__()
        self.paths, self.outside = paths, outside
        self.over, self.swaps = False, 0
        self.start()

    def run(self):
        while not self.over:
            for path in self.paths:
                aside = f"{path}.aside"
                try:
                    os.rename(path, aside)
                except OSError:
                    continue
                try:
                    os.symlink(self.outside, path)
                    self.swaps += 1
                    os.unlink(path)
                except OSError:
                    pass
                try:
                    os.rename(aside, path)
                except OSError:
                    pass

    def stop(self):
        self.over = True
        self.join()
        assert self.swaps > 10


COUNT = 30
SLOW = ["strace", "-f", "-o", "/dev/null", "-e", "trace=openat", "-e",
        "inject=openat:delay_enter=4000"]


class Slowly:
    """Both ends think for 4 ms before they open anything: time to swap what
    they have just looked at or made."""

    def __init__(self, controller):
        subprocess.run([controller.program, "exec", "local", "--", "true"],
                       env=controller.env, check=True)
        agents = children(controller.process.pid)[:2]   # stub, core
        self.tracer = subprocess.Popen(
            [*SLOW, *(f"-p{pid}" for pid in agents)], stderr=subprocess.PIPE)
        for _ in agents:
            assert b"attached" in self.tracer.stderr.readline()
        self.controller = controller

    def copy(self, *words):
        done = subprocess.run(
            [*SLOW, self.controller.program, "cp", "-r", *words],
            env=self.controller.env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60, check=False)
        assert is_safe(done.stderr), done
        return done

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.wait(10)
        self.tracer.stderr.close()


@pytest.mark.parametrize("way", ["up", "down"])
def test_swapped_while_written(controller, place, way):
    """Into directories that exist: each may be a link the next moment."""
    source = place.top / "src"
    for i in range(20):
        (source / f"d{i}" / "sub").mkdir(parents=True)
        (source / f"d{i}" / "canary").write_text("overwritten")
        (source / f"d{i}" / "sub" / "canary").write_text("overwritten")
    words = [f"{source}/.", str(place.dst)]
    words[way == "up"] = f"local:{words[way == 'up']}"
    subprocess.run(["cp", "-r", f"{source}/.", place.dst], check=True)
    swapper = Swapper([place.dst / f"d{i}{sub}" for sub in ("", "/sub")
                       for i in range(20)], place.top / "outside")
    results = set()
    try:
        for _ in range(25):
            results.add(copy(controller, *words).returncode)
    finally:
        swapper.stop()
    assert results <= {0, 1}
    place.check()


@pytest.mark.parametrize("way", ["up", "down"])
def test_swapped_under_its_temporary_name(controller, place, way):
    """What we made ourselves is swapped before we enter it."""
    source = place.top / "src"
    for i in range(COUNT):
        (source / f"d{i}").mkdir(parents=True)
        (source / f"d{i}" / "canary").write_text("overwritten")
    words = [str(source), str(place.dst / "new")]
    words[way == "up"] = f"local:{words[way == 'up']}"

    class Eager(Swapper):
        def run(self):
            while not self.over:
                for part in place.dst.glob(".part-*"):
                    self.paths = [part / f"d{i}" for i in range(COUNT)]
                    self.swap_all()

        def swap_all(self):
            for path in self.paths:
                try:
                    os.rename(path, f"{path}.aside")
                    os.symlink(self.outside, path)
                    self.swaps += 1
                except OSError:
                    pass

    swapper = Eager([], place.top / "outside")
    said = b""
    try:
        with Slowly(controller) as slowly:
            for _ in range(60):         # one that is caught ends a copy
                said += slowly.copy(*words).stderr
                shutil.rmtree(place.dst / "new", ignore_errors=True)
                if swapper.swaps > 20:
                    break
    finally:
        swapper.stop()
    # It may win the race against the removal, too; that is said.
    for left in place.dst.glob(".part-*"):
        assert left.name.encode() in said
        shutil.rmtree(left)
    place.check()


@pytest.mark.parametrize("way", ["up", "down"])
def test_swapped_while_read(controller, place, way):
    """Nothing is read through a link: no secret comes along."""
    (place.top / "outside" / "canary").write_text("secret")
    (place.top / "outside" / "sub" / "canary").write_text("secret")
    place.before = place.picture("outside")
    source = place.top / "src"
    for i in range(6):
        (source / f"d{i}" / "sub").mkdir(parents=True)
        (source / f"f{i}").write_text("mine")
        (source / f"d{i}" / "canary").write_text("mine")
        (source / f"d{i}" / "sub" / "canary").write_text("mine")
    swapper = Swapper([source / f"d{i}{sub}" for sub in ("", "/sub")
                       for i in range(6)], place.top / "outside")
    files = Swapper([source / f"f{i}" for i in range(6)],
                    place.top / "outside" / "canary")
    words = [str(source), str(place.dst / "new")]
    words[way == "up"] = f"local:{words[way == 'up']}"
    copied = 0
    try:
        with Slowly(controller) as slowly:
            for _ in range(20):
                slowly.copy("--skip-unreadable", *words)
                for path in place.dst.rglob("*"):
                    if path.is_file() and not path.is_symlink():
                        assert path.read_text() == "mine"
                        copied += 1
                shutil.rmtree(place.dst / "new", ignore_errors=True)
    finally:
        swapper.stop()
        files.stop()
    assert copied > 0
    place.check()

# SPDX-License-Identifier: MIT
"""One file's copy against an agent that lies in START, PARTIAL, FILE_INFO and
RESULT: an error that says so, the old file whole, nothing left beside it."""
import hashlib
import os
import signal
import stat
import struct
import subprocess
import time

import pytest

from conftest import wait_for
from sealed import (TO_END, f, file_info, partial, start, tree_info)
# pylint: disable=unused-import
from test_hostile_agent import controller, is_safe       # noqa: F401
from test_hostile_trees import ESCAPE, place, serve      # noqa: F401

MIB = 1 << 20
OLD = b"old content"
MAX = (1 << 63) - 1


def blake(data):
    return hashlib.blake2b(data, digest_size=32).digest()


def cp(controller, *words, **how):  # noqa: F811
    done = subprocess.run(
        [controller.program, "cp", *map(str, words)], env=controller.env,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False, **how)
    assert is_safe(done.stderr), done
    return done


def sparse(*extents, size=9, begin=0):
    return f(start(1, begin, size, extents))


# name: (OUT's bytes, FILE_INFO, options); each must fail.
DOWN = {
    "nothing": (b"", file_info(0), ()),
    "half a length": (b"\0\0", file_info(0), ()),
    "a length alone": (struct.pack(">I", 25), file_info(0), ()),
    "length 0": (struct.pack(">I", 0) + b"abc", file_info(3), ()),
    "length 2^32-1": (b"\xff" * 4 + bytes(70000), file_info(0), ()),
    "one more than START can be": (
        struct.pack(">I", 25 + 16385) + bytes(25 + 16385), file_info(0), ()),
    "half a START": (f(start())[:-3], file_info(0), ()),
    "START and a byte": (f(start() + b"x"), file_info(0), ()),
    "PARTIAL": (f(partial(0, bytes(32))) + b"abc", file_info(3), ()),
    "TREE_INFO": (f(tree_info(0, 0, 0, 0, 0)), file_info(0), ()),
    "no type": (f(b"\xff" + bytes(24)), file_info(0), ()),
    "its extents' length lies": (
        f(start()[:-4] + struct.pack(">I", 2 ** 31)), file_info(0), ()),
    "from 1": (f(start(begin=1)) + b"abc", file_info(4), ()),
    "from 2^63": (f(start(begin=1 << 63)), file_info(1 << 63), ()),
    "from 2^64-1": (f(start(begin=TO_END)), file_info(TO_END), ()),
    "from below the offset": (f(start()) + b"abc", file_info(3),
                              ("--offset", "2")),
    "from beyond the offset": (f(start(begin=3)) + b"abc", file_info(6),
                               ("--offset", "2")),
    "more than the length": (f(start()) + b"abc", file_info(3),
                             ("--length", "2")),
    "far more than the length": (f(start()) + bytes(MIB), file_info(MIB),
                                 ("--length", "2")),
    "no extents": (f(start(1)), file_info(0), ()),
    "no last extent": (sparse((0, 3)) + b"abc", file_info(3), ()),
    "two last extents": (sparse((0, TO_END), (5, TO_END)) + b"abc",
                         file_info(3), ()),
    "extents that overlap": (sparse((0, 5), (4, TO_END)) + bytes(9),
                             file_info(8), ()),
    "extents that go back": (sparse((6, 3), (0, TO_END)) + bytes(9),
                             file_info(6), ()),
    "an empty extent": (sparse((0, 0), (5, TO_END)) + bytes(9),
                        file_info(14), ()),
    "an extent beyond 2^63": (sparse((1, MAX), (MAX, TO_END)) + bytes(9),
                              file_info(10), ()),
    "an extent round to 0": (sparse((8, TO_END - 8), (9, TO_END)),
                             file_info(9), ()),
    "extents before from": (sparse((0, 3), (5, TO_END), begin=1),
                            file_info(5), ()),
    "half an extent": (f(start(1, 0, 9, [(0, 3), (5, TO_END)])[:21] +
                         f(bytes(24))), file_info(5), ()),
    "1025 extents": (
        sparse(*[(10 * i, 5) for i in range(1024)], (20000, TO_END)),
        file_info(20000), ()),
    "sparse though ranged": (sparse((2, TO_END), begin=2) + b"abc",
                             file_info(5), ("--offset", "2")),
    "it ends inside an extent": (sparse((0, 100), (200, TO_END)) + b"abc",
                                 file_info(200), ()),
    "it says so": (sparse((0, 100), (200, TO_END)) + b"abc", file_info(3), ()),
    "an end that is not": (f(start()) + b"abc", file_info(4), ()),
    "an end of 2^64-1": (f(start()) + b"abc", file_info(TO_END), ()),
    "no info": (f(start()) + b"abc", b"", ()),
    "half an info": (f(start()) + b"abc", file_info(3)[:-1], ()),
    "another info": (f(start()) + b"abc", tree_info(1, 1, 3, 0, 0), ()),
    "info and a byte": (f(start()) + b"abc", file_info(3) + b"x", ()),
    "a file of 2^63-1": (sparse((MAX, TO_END), size=MAX), file_info(MAX), ()),
    "a byte at 2^63-1": (sparse((MAX, TO_END), size=MAX) + b"x",
                         file_info(MAX), ()),
    "another hash": (f(start()) + b"abc", file_info(3, digest=blake(b"abd")),
                     ("--verify",)),
    "no hash": (f(start()) + b"abc", file_info(3), ("--verify",)),
    "a hash's first byte": (f(start()) + b"abc", file_info(
        3, digest=blake(b"abc")[:1]), ("--verify",)),
    "a hash too long": (f(start()) + b"abc", file_info(
        3, digest=blake(b"abc") + b"x"), ("--verify",)),
}


@pytest.mark.parametrize("to", ["new", "old", "stdout"])
def test_down(controller, place, to):  # noqa: F811
    for name, (stream, info, words) in DOWN.items():
        serve(controller, stream, info)
        if to == "old":
            (place.dst / "f").write_bytes(OLD)
        where = "-" if to == "stdout" else place.dst / "f"
        done = cp(controller, *words, "docker:box:/x", where)
        if to == "stdout" and name in ("a file of 2^63-1",):
            assert b"makes no sense" in done.stderr, (name, done)
        assert done.returncode == 1, (name, done)
        assert done.stderr.startswith(b"sandmux: cp: "), (name, done)
        assert done.stderr.count(b"\n") == 1, (name, done)
        assert sorted(os.listdir(place.dst)) == (
            ["f"] if to == "old" else []), name
        if to == "old":
            assert (place.dst / "f").read_bytes() == OLD, name
        place.check()
    controller.check()


@pytest.mark.parametrize("begin", [1, 4, 6, 1 << 62, TO_END])
def test_resume_from_where_nothing_is(controller, place, begin):  # noqa: F811
    """We have five bytes: 0 and 5 are all that it may begin at."""
    part = place.dst / ".partial-f"
    for good, at in ((True, 5), (True, 0), (False, begin)):
        part.write_bytes(b"01234")
        part.chmod(0o600)
        serve(controller, f(start(begin=at)) + b"abc",
              file_info((at + 3) & TO_END))
        done = cp(controller, "--resume", "docker:box:/x", place.dst / "f")
        assert (done.returncode == 0) is good, done
        if good:
            assert (place.dst / "f").read_bytes() == b"01234"[:at] + b"abc"
            (place.dst / "f").unlink()
            assert not part.exists()
    assert os.listdir(place.dst) == [part.name]
    assert part.read_bytes() == b"01234"


def test_what_is_for_show_alone(controller, place):  # noqa: F811
    """A size that is none, modes and times that nobody asked for."""
    for size in (1, 2, 4, 1 << 40, TO_END):
        serve(controller, f(start(size=size)) + b"abc", file_info(
            3, mode=0o107777, mtime=1 << 63))
        done = cp(controller, "docker:box:/x", place.dst / "f")
        assert done.returncode == 0, done
        st = (place.dst / "f").stat()
        assert (place.dst / "f").read_bytes() == b"abc"
        assert stat.S_IMODE(st.st_mode) & ~0o777 == 0
        assert time.time() - st.st_mtime < 100
        (place.dst / "f").unlink()


def test_a_huge_hole_can_be_left(controller, place):  # noqa: F811
    """A file of 8 TiB that is all hole, to be verified: its hash takes an
    hour, Ctrl-C a moment."""
    size = 1 << 43
    serve(controller, sparse((0, 4096), (size, TO_END), size=size) +
          bytes(4096), file_info(size, digest=bytes(32)))
    (place.dst / "f").write_bytes(OLD)
    client = subprocess.Popen(
        [controller.program, "cp", "--verify", "docker:box:/x",
         str(place.dst / "f")], env=controller.env,
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert wait_for(lambda: client.poll() is not None or any(
        "deleted" in os.readlink(fd) and os.stat(fd).st_size == size
        for fd in descriptors(client.pid)), 20)
    if client.poll() is not None:
        assert b"EFBIG" in client.stderr.read()
        pytest.skip("the file system takes no such file")
    time.sleep(0.5)
    client.send_signal(signal.SIGINT)
    assert client.wait(20) == 130, client.stderr.read()
    assert (place.dst / "f").read_bytes() == OLD
    place.check()


def descriptors(pid):
    top = f"/proc/{pid}/fd"
    try:
        return [f"{top}/{n}" for n in os.listdir(top)
                if os.path.exists(f"{top}/{n}")]
    except OSError:
        return []


# ---- up ------------------------------------------------------------------

DATA = os.urandom(300000)
HASH = blake(DATA)
# name: (how IN is taken, OUT's bytes, FILE_INFO, options)
UP = {
    "it has taken nothing": ("nothing", b"", file_info(len(DATA)), ()),
    "it has taken half": ("half", b"", file_info(len(DATA)), ()),
    "a byte more": ("a byte more", b"", file_info(len(DATA)), ()),
    "a byte less": ("a byte less", b"", file_info(len(DATA)), ()),
    "no info": ("whole", b"", b"", ()),
    "half an info": ("whole", b"", file_info(9)[:-1], ()),
    "another info": ("whole", b"", tree_info(1, 1, 3, 0, 0), ()),
    "PARTIAL though not asked": ("whole", f(partial(0, blake(b""))),
                                 file_info(len(DATA)), ()),
    "a byte though not asked": ("whole", b"x", file_info(len(DATA)), ()),
    "no hash": ("whole", b"", file_info(len(DATA)), ("--verify",)),
    "another hash": ("whole", b"", file_info(
        len(DATA), digest=blake(b"x")), ("--verify",)),
    "half a hash": ("whole", b"", file_info(
        len(DATA), digest=HASH[:16]), ("--verify",)),
    "it verifies nothing": ("nothing", b"", file_info(
        len(DATA), digest=HASH), ("--verify",)),
    "no PARTIAL": ("nothing", b"", file_info(len(DATA)), ("--resume",)),
    "half a PARTIAL": ("nothing", f(partial(5, bytes(32)))[:9],
                       file_info(len(DATA)), ("--resume",)),
    "PARTIAL of length 0": ("whole", bytes(4), file_info(len(DATA)),
                            ("--resume",)),
    "PARTIAL of 2^32-1": ("whole", b"\xff" * 4 + bytes(40000),
                          file_info(len(DATA)), ("--resume",)),
    "PARTIAL and a byte in it": ("whole", f(
        partial(5, bytes(32)) + b"x"), file_info(len(DATA)), ("--resume",)),
    "PARTIAL and a byte behind": ("whole", f(
        partial(5, bytes(32))) + b"x", file_info(len(DATA)), ("--resume",)),
    "PARTIAL twice": ("whole", 2 * f(partial(5, bytes(32))),
                      file_info(len(DATA)), ("--resume",)),
    "START": ("whole", f(start()), file_info(len(DATA)), ("--resume",)),
    "PARTIAL without hash": ("whole", f(partial(5, b"")),
                             file_info(len(DATA)), ("--resume",)),
    "PARTIAL with half of one": ("whole", f(partial(5, bytes(31))),
                                 file_info(len(DATA)), ("--resume",)),
}


def take(controller, how, out, info):  # noqa: F811
    (controller.dir / "how").write_text(how)
    serve(controller, out, info, "takes_file")


def test_up(controller, place):  # noqa: F811
    source = place.dst / "src"
    source.write_bytes(DATA)
    for name, (how, out, info, words) in UP.items():
        take(controller, how, out, info)
        done = cp(controller, *words, source, "docker:box:/x")
        assert done.returncode == 1, (name, done)
        assert done.stderr.startswith(b"sandmux: cp: "), (name, done)
        assert done.stderr.count(b"\n") == 1, (name, done)
    # The same agent, for once without a lie.
    take(controller, "whole", b"", file_info(len(DATA), digest=HASH))
    done = cp(controller, "--verify", source, "docker:box:/x")
    assert done.returncode == 0, done
    controller.check()


@pytest.mark.parametrize("size", [1, 299999, 300000, 300001, 1 << 40, 1 << 63,
                                  TO_END])
def test_a_partial_file_that_is_none(controller, place, size):  # noqa: F811
    """Whatever it claims to have, with another hash all is sent again."""
    source = place.dst / "src"
    source.write_bytes(DATA)
    events = place.dst / "events"
    take(controller, "whole", f(partial(size, blake(b"?"))),
         file_info(len(DATA)))
    done = cp(controller, "--resume", "--json", events, source,
              "docker:box:/x")
    assert done.returncode == 0, done
    assert b'"resumed_from": 0,' in events.read_bytes()


def test_a_name_in_an_error(controller, place):  # noqa: F811
    """Words of the agent's reach a terminal as text alone."""
    serve(controller, b"", b"", "sends_tree_and_fails")
    done = cp(controller, "docker:box:/x" + ESCAPE.decode("latin-1"),
              place.dst / "f")
    assert done.returncode == 1, done
    assert os.listdir(place.dst) == []

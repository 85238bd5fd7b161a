# SPDX-License-Identifier: MIT
"""Uploads that end after 0 bytes, one, half, all but one, or all of them but
without their end: the old file is whole, nothing else is there."""
import hashlib
import struct

import pytest
from jobs_client import CANCELLED, Jobs, encode, make_wire
from spine import host, shared_host, target, wait_for  # noqa: F401

DATA = bytes(range(256)) * 1200
HEAD = make_wire.f(encode("start", extents=b""))
CUTS = {"nothing": 0, "one byte of START": 1, "half of START": 12,
        "START": len(HEAD), "one byte": len(HEAD) + 1,
        "half": len(HEAD) + len(DATA) // 2,
        "all but one": len(HEAD) + len(DATA) - 1,
        "all, but no end": len(HEAD) + len(DATA)}
RESUME, HASH = 4, 8


@pytest.fixture
def place(target):  # noqa: F811
    path = target.path("cut")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"rm -rf {path}")


def look(target, place):  # noqa: F811
    return target.sh(f"cd {place}; ls -A; cat f 2>/dev/null || :")


@pytest.mark.parametrize("how", ["cancelled", "client gone"])
@pytest.mark.parametrize("old", [b"old\n", b""], ids=["over", "new"])
def test_cut(host, target, place, old, how):  # noqa: F811
    if old:
        target.sh(f"echo old >{place}/f")
    before = look(target, place)
    for name, cut in CUTS.items():
        jobs = Jobs(host, target)
        req = jobs.request("put", mode=0o644, path=f"{place}/f".encode())
        req.write((HEAD + DATA)[:cut])
        if cut > len(HEAD):
            wait_for("a temporary file", lambda: b".part" in
                     look(target, place))
        if how == "cancelled":
            req.cancel()
            assert req.wait().outcome == CANCELLED, name
            assert look(target, place) == before, name
        jobs.close()
        wait_for(f"{name}: all is as it was",
                 lambda: look(target, place) == before)


def test_an_end_that_comes_too_early(host, target, place):  # noqa: F811
    """EOF in the middle of START, or with extents that are not full."""
    target.sh(f"echo old >{place}/f")
    before = look(target, place)
    sparse = make_wire.f(encode("start", flags=1, size=9, extents=struct.pack(
        ">QQQQ", 0, 100, 200, 2 ** 64 - 1)))
    jobs = Jobs(host, target)
    for data in (b"", HEAD[:1], HEAD[:-1], sparse, sparse + b"x" * 99):
        req = jobs.request("put", mode=0o644, path=f"{place}/f".encode())
        req.write(data)
        req.end()
        result = req.wait()
        assert result.outcome != 0, (data, result)
        assert look(target, place) == before, data
    req = jobs.request("put", mode=0o644, path=f"{place}/f".encode())
    req.write(sparse + b"x" * 100)
    req.end()
    assert req.wait().status == 0
    assert target.sh(f"cat {place}/f") == b"x" * 100 + bytes(100)
    jobs.close()


LIES = {
    "START of another kind": make_wire.f(encode(
        "partial", size=0, hash=hashlib.blake2b(b"", digest_size=32)
        .digest())),
    "START that is too long": struct.pack(">I", 70000) + bytes(70000),
    "length 2^32-1": b"\xff" * 4 + bytes(1000),
    "from 1": make_wire.f(encode("start", **{"from": 1}, extents=b"")) + b"x",
    "from 2^64-1": make_wire.f(encode("start", **{"from": 2 ** 64 - 1},
                                      extents=b"")) + b"x",
    "no extents": make_wire.f(encode("start", flags=1, extents=b"")) + b"x",
    "extents that overlap": make_wire.f(encode(
        "start", flags=1, extents=struct.pack(
            ">QQQQ", 0, 5, 4, 2 ** 64 - 1))) + bytes(9),
    "an extent beyond 2^63": make_wire.f(encode(
        "start", flags=1, extents=struct.pack(
            ">QQ", 1 << 63, 2 ** 64 - 1))) + bytes(9),
    "a file of 2^63": make_wire.f(encode(
        "start", flags=1, extents=struct.pack(
            ">QQ", (1 << 63) - 1, 2 ** 64 - 1))) + bytes(9),
}


@pytest.mark.parametrize("flags", [0, RESUME, HASH, RESUME | HASH])
def test_a_sender_that_lies(host, target, place, flags):  # noqa: F811
    """The agent's side of what tests/hostile does to the host's."""
    target.sh(f"echo old >{place}/f")
    jobs = Jobs(host, target)
    for name, data in LIES.items():
        req = jobs.request("put", flags=flags, mode=0o644,
                           path=f"{place}/f".encode())
        req.write(data + bytes(32))
        req.end()
        result = req.wait()
        assert result.outcome == 4, (name, result)
        names = target.sh(f"cd {place}; cat f; ls -A | grep -v partial")
        assert names == b"old\nf\n", name
    jobs.close()

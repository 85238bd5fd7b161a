# SPDX-License-Identifier: MIT
"""cp --verify into a target: what is read back there is compared with the
sender's hash before it takes the old file's place."""
import hashlib
import json
import os

import pytest
from jobs_client import FAILED, Jobs, encode, make_wire
from spine import (MIB, get_target, host, shared_host,  # noqa: F401
                   target, wait_for)

VERIFY, USAGE = 33, 1           # wire.h's steps
RESUME, HASH, APPEND = 4, 8, 2  # of put.flags
EBADMSG, EPROTO = 74, 71
TEMP = "ls -A {} | grep -F .part || :"


@pytest.fixture
def place(target):  # noqa: F811
    path = target.path("verify")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"rm -rf {path}")


def put(jobs, path, flags, start, *pieces):
    """The RESULT of a PUT whose IN is what is given."""
    req = jobs.request("put", flags=flags, mode=0o644, path=path.encode())
    req.write(make_wire.f(start))
    for piece in pieces:
        req.write(piece)
    req.end()
    return req.wait()


def start(**fields):
    return encode("start", **{"extents": b"", **fields})


def blake(data):
    return hashlib.blake2b(data, digest_size=32).digest()


DATA = b"new" * 50_000
ONE_BIT = bytearray(blake(DATA))
ONE_BIT[31] ^= 1
WRONG = {
    "one bit": (DATA, bytes(ONE_BIT)),
    "of other bytes": (DATA, blake(b"old")),
    "of one byte less": (DATA, blake(DATA[:-1])),
    "nothing there": (b"", bytes(32)),
    "only the hash's end is missing": (DATA, blake(DATA)[:31]),
    "too short for one": (b"", bytes(31)),
    "none at all": (b"", b""),
}


@pytest.mark.parametrize("old", ["", "echo old >f", "echo old >f; ln f g"],
                         ids=["new", "old", "other names"])
def test_a_wrong_hash_changes_nothing(host, target, place, old):  # noqa: F811
    target.sh(f"cd {place}; {old or ':'}")
    before = target.sh(f"cd {place}; ls -Ali; cat f 2>&1 || :")
    jobs = Jobs(host, target)
    for name, (data, tail) in WRONG.items():
        result = put(jobs, f"{place}/f", HASH, start(), data, tail)
        assert result.outcome == FAILED, (name, result)
        want = (USAGE, EPROTO) if len(data) + len(tail) < 32 else \
            (VERIFY, EBADMSG)
        assert (result.step, result.error) == want, (name, result)
        assert target.sh(f"cd {place}; ls -Ali; cat f 2>&1 || :") == before, \
            name
    # And the right one does; however its pieces are cut.
    tail = blake(DATA)
    for pieces in ((DATA, tail), (DATA + tail,), (DATA, tail[:1], tail[1:]),
                   tuple((DATA + tail)[i:i + 16000] for i in range(
                       0, len(DATA) + 32, 16000))):
        result = put(jobs, f"{place}/f", HASH, start(), *pieces)
        assert result.status == 0, result
        assert result.info["hash"] == tail
        assert target.sh(f"cat {place}/f") == DATA
    assert put(jobs, f"{place}/f", HASH, start(),
               blake(b"")).info["hash"] == blake(b"")
    assert target.sh(f"cat {place}/f; " + TEMP.format(place)) == b""
    jobs.close()


def test_holes_count_as_zeros(host, target, place):  # noqa: F811
    """An extent, a hole, the end's hole."""
    extents = b"".join(n.to_bytes(8, "big") for n in (
        4096, 4096, 1 << 20, 2 ** 64 - 1))
    whole = bytes(4096) + b"a" * 4096 + bytes((1 << 20) - 8192) + b"b" * 10
    jobs = Jobs(host, target)
    sparse = start(flags=1, size=len(whole), extents=extents)
    data = b"a" * 4096 + b"b" * 10
    for good, tail in ((False, blake(data)), (True, blake(whole))):
        result = put(jobs, f"{place}/f", HASH, sparse, data, tail)
        assert (result.outcome == FAILED) is not good, result
    assert result.info["hash"] == blake(whole)
    assert target.sh(f"stat -c %s {place}/f") == b"%d\n" % len(whole)
    jobs.close()


@pytest.mark.parametrize("old", ["echo old >f", "echo old >f; ln f g"],
                         ids=["renamed", "in place"])
def test_a_byte_that_flips_on_the_disk(host, target, place,  # noqa: F811
                                       tmp_path, old):
    """In the temporary file, once it has been written there."""
    target.sh(f"cd {place}; {old}")
    before = target.sh(f"cd {place}; ls -li")
    events = tmp_path / "events"
    reader, writer = os.pipe()
    client = host.popen("cp", "--verify", "--json", str(events), "-",
                        f"{target}:{place}/f", stdin=reader)
    os.close(reader)
    data = os.urandom(MIB)
    os.write(writer, data[:60000])
    find = f"cd {place}; find . -name '.part-*' -size +40k"
    name = wait_for("half of it is there",
                    lambda: target.sh(find)).decode().strip()
    target.sh(f"cd {place}; dd of={name} bs=1 seek=30000 count=1 "
              "conv=notrunc 2>/dev/null", bytes([data[30000] ^ 1]))
    with os.fdopen(writer, "wb") as f:
        f.write(data[60000:])
    out, err = client.communicate(timeout=60)
    assert client.returncode == 1 and out == b"", (out, err)
    assert b"cannot verify" in err and b"differ" in err, err
    end = json.loads(events.read_text().splitlines()[-1])
    assert end["error"]["step"] == "verify" and not end["ok"], end
    assert target.sh(f"cd {place}; ls -li; cat f; " + TEMP.format(".")) == \
        before + b"old\n"


def test_a_device_cannot_be_read_back(host, tmp_path):  # noqa: F811
    box = get_target("docker")
    (tmp_path / "src").write_bytes(b"new")
    done = host.run("cp", "--verify", str(tmp_path / "src"),
                    f"{box}:/dev/null")
    assert done.status == 1 and b"cannot be read back" in done.err, done


def test_with_resume_the_next_one_begins_again(host, target,  # noqa: F811
                                               place, tmp_path):
    """A partial file that is as long but not the same is no beginning."""
    jobs = Jobs(host, target)
    req = jobs.request("put", flags=RESUME | HASH, mode=0o644,
                       path=f"{place}/f".encode())
    req.write(make_wire.f(start()) + DATA + bytes(ONE_BIT))
    req.end()
    result = req.wait()
    assert (result.outcome, result.step) == (FAILED, VERIFY), result
    assert target.sh(f"ls -A {place}") == b".partial-f\n"
    jobs.close()
    (tmp_path / "f").write_bytes(DATA[:-1] + b"x")
    done = host.run("cp", "--verify", "--resume", str(tmp_path / "f"),
                    f"{target}:{place}/f")
    assert done.status == 0, done
    assert target.sh(f"cat {place}/f; ls -A {place}") == \
        DATA[:-1] + b"xf\n"

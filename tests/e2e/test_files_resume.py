# SPDX-License-Identifier: MIT
"""cp --resume: one partial file, gone on with only where it is the same."""
import json
import os
import signal

import pytest
from spine import MIB, host, shared_host, target, wait_for  # noqa: F401

SIZE = 8 * MIB
# A source that gives 32 KiB in 20 ms; the tracer is not the parent, so that
# signals are for the client.
SLOWLY = ("strace", "-D", "-o", "/dev/null", "-e", "trace=pread64", "-e",
          "inject=pread64:delay_enter=20000")
NAME = ".partial-f"


@pytest.fixture
def place(target):  # noqa: F811
    path = target.path("resume")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"rm -rf {path}")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "src").mkdir()
    with open(tmp_path / "src/f", "wb") as f:
        for _ in range(SIZE // MIB):
            f.write(os.urandom(MIB))
    return tmp_path / "src/f"


def copy(host, tmp_path, *words):  # noqa: F811
    events = tmp_path / "events"
    done = host.run("cp", "--resume", "--json", str(events), *words)
    return done, json.loads(events.read_text().splitlines()[-1])


def there(target, path):  # noqa: F811
    """{name: size} of what lies in a directory there."""
    out = target.sh(f"cd {path} && for i in .[!.]* *; do "
                    "[ ! -e \"$i\" ] || stat -c '%n %s %a' \"$i\"; done")
    return {a: (int(b), c) for a, b, c in (
        line.split() for line in out.decode().splitlines())}


def cut_upload(host, target, place, source):  # noqa: F811
    """What an interrupted copy leaves: the size of its partial file."""
    client = host.popen("cp", "--resume", str(source), f"{target}:{place}/f",
                        under=SLOWLY)
    wait_for("some of it there", lambda: there(target, place).get(
        NAME, (0,))[0] > MIB or client.poll() is not None)
    client.send_signal(signal.SIGINT)
    assert client.wait(60) == 130
    got = there(target, place)
    assert list(got) == [NAME] and got[NAME][1] == "600", got
    return got[NAME][0]


def same(target, path, source):  # noqa: F811
    return target.sh(f"sha256sum <{path}").split()[0] == os.popen(
        f"sha256sum <{source}").read().split()[0].encode()


def test_up(host, target, place, source, tmp_path):  # noqa: F811
    size = cut_upload(host, target, place, source)
    done, end = copy(host, tmp_path, "--verify", str(source),
                     f"{target}:{place}/f")
    assert done.status == 0, done
    assert MIB < end["resumed_from"] == size
    assert end["bytes"] == SIZE and end["atomic"]
    assert list(there(target, place)) == ["f"]
    assert same(target, f"{place}/f", source)


def test_up_of_another_file(host, target, place, source,  # noqa: F811
                            tmp_path):
    """One byte at its beginning has changed: nothing is taken over."""
    cut_upload(host, target, place, source)
    with open(source, "r+b") as f:
        byte = f.read(1)
        f.seek(0)
        f.write(bytes([byte[0] ^ 1]))
    done, end = copy(host, tmp_path, str(source), f"{target}:{place}/f")
    assert done.status == 0 and end["resumed_from"] == 0, done
    assert same(target, f"{place}/f", source)
    assert list(there(target, place)) == ["f"]


def test_up_of_a_shorter_file(host, target, place, source,  # noqa: F811
                              tmp_path):
    size = cut_upload(host, target, place, source)
    os.truncate(source, size - 1)
    done, end = copy(host, tmp_path, str(source), f"{target}:{place}/f")
    assert done.status == 0 and end["resumed_from"] == 0, done
    assert there(target, place)["f"][0] == size - 1
    assert same(target, f"{place}/f", source)


@pytest.mark.parametrize("cut", [0, 1, 4097, SIZE - 1, SIZE])
def test_down(host, target, place, source, tmp_path, cut):  # noqa: F811
    assert host.run("cp", str(source), f"{target}:{place}/f").status == 0
    part = tmp_path / NAME
    part.write_bytes(source.read_bytes()[:cut])
    part.chmod(0o600)
    done, end = copy(host, tmp_path, "--verify", f"{target}:{place}/f",
                     str(tmp_path / "f"))
    assert done.status == 0 and end["resumed_from"] == cut, done
    assert (tmp_path / "f").read_bytes() == source.read_bytes()
    assert not part.exists()


def test_down_of_another_file(host, target, place, source,  # noqa: F811
                              tmp_path):
    assert host.run("cp", str(source), f"{target}:{place}/f").status == 0
    part = tmp_path / NAME
    part.write_bytes(b"x" * 5000)
    part.chmod(0o600)
    done, end = copy(host, tmp_path, f"{target}:{place}/f",
                     str(tmp_path / "f"))
    assert done.status == 0 and end["resumed_from"] == 0, done
    assert (tmp_path / "f").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("make", [
    "echo mine >keep; ln -s keep {n}", "echo mine >keep; ln keep {n}",
    "echo mine >keep; echo x >{n}; chmod 644 {n}", "echo mine >keep; "
    "mkfifo -m 600 {n}"])
def test_a_planted_partial_file(host, target, place, make,  # noqa: F811
                                tmp_path):
    """A link to something else, a file that others may read, a fifo."""
    (tmp_path / "f").write_bytes(b"new")
    target.sh(f"cd {place}; umask 077; " + make.replace("{n}", NAME))
    done = host.run("cp", "--resume", str(tmp_path / "f"),
                    f"{target}:{place}/f", timeout=30)
    assert done.status == 1 and b"partial file" in done.err, done
    assert target.sh(f"cat {place}/keep; ls {place}") == b"mine\nkeep\n"


def test_two_at_once(host, target, place, source):  # noqa: F811
    client = host.popen("cp", "--resume", str(source), f"{target}:{place}/f",
                        under=SLOWLY)
    wait_for("it has begun", lambda: NAME in there(target, place) or
             client.poll() is not None)
    client.send_signal(signal.SIGSTOP)
    try:
        assert NAME in there(target, place)
        done = host.run("cp", "--resume", str(source),
                        f"{target}:{place}/f")
        assert done.status == 1 and b"another copy" in done.err, done
    finally:
        client.send_signal(signal.SIGCONT)
    assert client.wait(60) == 0
    assert same(target, f"{place}/f", source)


def test_long_names(host, target, place, tmp_path):  # noqa: F811
    # Docker's fuse-overlayfs takes no longer ones.
    name = "n" * (255 if target.kind == "local" else 240)
    (tmp_path / name).write_bytes(b"new")
    done = host.run("cp", "--resume", str(tmp_path / name),
                    f"{target}:{place}/")
    assert done.status == 0, done
    assert target.sh(f"cat {place}/{name}") == b"new"


@pytest.mark.parametrize("words", [
    ("-", "local:/x"), ("local:/x", "-"), ("--append", "a", "local:/x"),
    ("--offset", "1", "a", "local:/x"), ("--length", "1", "local:/x", "a")])
def test_what_it_is_not_for(host, words):  # noqa: F811
    done = host.run("cp", "--resume", *words)
    assert done.status == 2 and b"--resume" in done.err

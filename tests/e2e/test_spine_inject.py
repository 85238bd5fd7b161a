# SPDX-License-Identifier: MIT
"""An agent's file that does not arrive whole: the command fails with the
reason, and the file is taken back or, where nothing can, named."""
import hashlib
import os
import shutil
import signal
import subprocess

import pytest
from spine import (BUILD, LIMIT, QEMU, ROOT, Docker,  # noqa: F401
                   get_target, image, make_openshell, marker, new_host, once,
                   openshell_bin, wait_for)

pytestmark = pytest.mark.skipif(QEMU, reason="under qemu there is only local")

BLOCK = 512         # of tar: the file's header


def damage(tmp_path):
    """A docker whose `cp -` does to the stream what `says` says, each time
    or once."""
    path = tmp_path / "docker"
    real = shutil.which("docker")
    path.write_text(f"""#!/bin/sh
says={tmp_path}/says
[ "$1 $2" = "cp -" ] && [ -e $says ] || exec {real} "$@"
read -r how at times <$says
[ "$times" = once ] && rm $says
echo >>{tmp_path}/cuts
case $how in
cut) head -c $at | {real} "$@" ;;
flip) {{ head -c $at; head -c 1 | tr '\\000-\\377' '\\001-\\377\\000'; cat; }} |
    {real} "$@" ;;
killed) {{ head -c $at; sleep 1000; }} | {real} "$@" &
    sleep 2; kill -9 $!; exit 137 ;;
esac
""")
    path.chmod(0o755)
    return {"PATH": f"{tmp_path}:{openshell_bin()}:{os.environ['PATH']}"}


def fails(host, box):
    """One line that says why; its text."""
    done = host.exec(box, "/pause", "echo", "hi")
    assert done.status == 125 and done.out == b"", done
    assert done.err.startswith(b"sandmux: exec: "), done
    assert done.err.count(b"\n") == 1, done
    return done.err.decode()


def works(host, box):
    done = host.exec(box, *(["/pause"] if box.bare else []), "echo", "hi")
    assert (done.status, done.out) == (0, b"hi\n"), done


@pytest.fixture
def box(request):
    made = Docker(request.param)
    made.bare = request.param == "scratch"
    return made


WAYS = [("cut", 300), ("cut", BLOCK + 10), ("cut", 100_000), ("flip", 9),
        ("flip", BLOCK), ("flip", 150_000), ("killed", 100_000)]


@pytest.mark.parametrize("box", ["debian", "scratch"], indirect=True)
@pytest.mark.parametrize("how, at", WAYS)
def test_nothing_is_left_of_it(new_host, tmp_path, box, how,  # noqa: F811
                               at):
    """Not in an image without any program either."""
    host = new_host(env=damage(tmp_path))
    (tmp_path / "says").write_text(f"{how} {at} once\n")
    said = fails(host, box)
    assert (tmp_path / "cuts").exists() and "be removed" not in said, said
    assert box.injected() == []
    works(host, box)
    wait_for("no file of ours", lambda: box.injected() == [])


@pytest.mark.parametrize("box", ["debian", "scratch"], indirect=True)
@pytest.mark.parametrize("how, at", [("cut", 100_000), ("flip", BLOCK)])
def test_no_file_arrives_whole(new_host, tmp_path, box, how,  # noqa: F811
                               at):
    """As on a full disk: the image's own program removes it, and without one
    the person is told what is left."""
    host = new_host(env=damage(tmp_path))
    (tmp_path / "says").write_text(f"{how} {at} always\n")
    said, left = fails(host, box), box.injected()
    if not box.bare:
        assert left == []
    else:
        assert len(left) == 1
        assert left[0].split()[1] in said and "cannot be removed" in said
    (tmp_path / "says").unlink()
    works(host, box)
    wait_for("no other file", lambda: box.injected() == left)


@pytest.mark.parametrize("box", ["debian", "scratch"], indirect=True)
def test_no_file_arrives_while_it_links_again(new_host, tmp_path,  # noqa: F811
                                              box):
    """Each attempt needs a file: in the end there is none, and never more
    than the one that could not be removed."""
    host = new_host("--ping 400 --dead 3000 --linger 90",
                    env=damage(tmp_path))
    job = host.popen("exec", "-i", str(box), "--", *(
        ["/pause"] if box.bare else []), "cat", stdin=subprocess.PIPE)
    job.stdin.write(b"before\n")
    job.stdin.flush()
    assert job.stdout.readline() == b"before\n"
    wait_for("no file of ours", lambda: box.injected() == [])
    (tmp_path / "says").write_text("cut 100000 always\n")
    os.kill(host.link(box)["pid"], signal.SIGKILL)
    cuts = 3 * (2 if box.bare else 1)
    wait_for("three attempts", lambda: (tmp_path / "cuts").exists() and len(
        (tmp_path / "cuts").read_text()) > cuts, LIMIT)
    assert len(box.injected()) <= 1
    (tmp_path / "says").unlink()
    job.stdin.write(b"after\n")
    job.stdin.close()
    assert job.stdout.read() == b"after\n" and job.wait(LIMIT) == 0
    wait_for("no file of ours", lambda: box.injected() == [])


# ---- its own word for it ----------------------------------------------------

def agent_copy(tmp_path, change=None):
    """A file as it is injected, with the byte there changed; its hash as it
    should be."""
    data = (BUILD / "agent/sandmux-agent").read_bytes()
    digest = hashlib.blake2b(data, digest_size=32).hexdigest()
    path = tmp_path / ".sandmux-0123456789abcdef"
    if change is not None:
        data = (data[:change] + bytes([data[change] ^ 1]) +
                data[change + 1:])
    path.write_bytes(data)
    path.chmod(0o755)
    return path, digest


def check(path, *words):
    return subprocess.run([path, *words], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=LIMIT, check=False)


def test_self_check(tmp_path):
    path, digest = agent_copy(tmp_path)
    done = check(path, "--self-check", digest)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    for other in (digest[:-1] + "%x" % (int(digest[-1], 16) ^ 1), "0" * 64):
        done = check(path, "--self-check", other)
        assert done.returncode == 1 and b"is damaged" in done.stderr
        assert str(path).encode() in done.stderr
    for bad in ("", digest[1:], digest + "0", digest.upper(), "x" * 64):
        done = check(path, "--self-check", bad)
        assert done.returncode == 2 and b"64 lower-case hex" in done.stderr
    assert check(path, "--self-check").returncode == 2


@pytest.mark.parametrize("change", ["last", "middle", "version"])
def test_self_check_of_what_is_damaged(tmp_path, change):
    """Wherever a byte is another, as long as it runs at all."""
    data = (BUILD / "agent/sandmux-agent").read_bytes()
    at = {"last": len(data) - 1, "middle": len(data) // 2,
          "version": data.index(b"usage: sandmux-agent")}[change]
    path, digest = agent_copy(tmp_path, at)
    assert check(path, "--self-check", digest).returncode == 1
    # And `start` does the same before anything else.
    done = check(path, "start", "0001-0001", "0" * 32, "0" * 32, "00000001",
                 "ab" * 32, f"hash={digest}", "unlink")
    assert done.returncode == 1 and b"is damaged" in done.stderr, done
    assert done.stdout == b""
    assert check(path, "remove").returncode == 0 and not path.exists()


# ---- in pieces ----------------------------------------------------------------

PIECE = 65536


def in_pieces():
    """A program whose pieces are so small that an agent is more than one."""
    def make():
        into = BUILD / "tests/pieces"
        version = subprocess.run([str(BUILD / "host/sandmux"), "version"],
                                 capture_output=True, text=True,
                                 check=True).stdout.split()[1]
        defs = (f"-D_GNU_SOURCE -DSANDMUX_VERSION='\"{version}\"' "
                f"-DTRANSPORT_PIECE={PIECE}u")
        subprocess.run(["make", "-s", "-C", str(ROOT), "host", f"B={into}",
                        f"DEFS={defs}"], check=True, timeout=LIMIT,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return into / "host/sandmux"
    return once("pieces", make)


def pieces_between(box, tmp_path):
    """An openshell that counts the pieces, and does with the one that `says`
    names what it says."""
    path = tmp_path / "openshell"
    path.write_text(f"""#!/bin/sh
dir={tmp_path}
case " $* " in *" --tty "*) ;; *"cat >"*)
    n=$(($(cat $dir/count) + 1)); echo $n >$dir/count
    read -r at how <$dir/says
    [ $at = $n ] && case $how in
    cut) head -c 10000 | {box.cli} "$@"; exit ;;
    flip) {{ head -c 10000; head -c 1 | tr '\\000-\\377' '\\001-\\377\\000'
        cat; }} | {box.cli} "$@"; exit ;;
    magic) {{ head -c 1 | tr '\\177' x; cat; }} | {box.cli} "$@"; exit ;;
    gone) exit 1 ;;
    after) {box.cli} "$@" >/dev/null; exit 1 ;;
    esac ;;
esac
exec {box.cli} "$@"
""")
    path.chmod(0o755)
    (tmp_path / "count").write_text("0\n")
    (tmp_path / "says").write_text("0 nothing\n")
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_an_agent_in_pieces(new_host, tmp_path):  # noqa: F811
    box = make_openshell()
    host = new_host(program=in_pieces(), env=pieces_between(box, tmp_path))
    size = os.path.getsize(BUILD / "tests/pieces/agent/sandmux-agent")
    assert size > 2 * PIECE
    done = host.exec(box, "echo", "hi")
    assert (done.status, done.out) == (0, b"hi\n"), done
    assert int((tmp_path / "count").read_text()) == -(-size // PIECE)
    assert b'"agent_source":"injected"' in host.run(
        "doctor", "--json", str(box)).out.replace(b" ", b"")
    wait_for("no file of ours", lambda: box.injected() == [])


@pytest.mark.parametrize("how, at", [
    (how, at) for how in ("cut", "gone", "after", "flip")
    for at in (1, 2, 4, "last")] + [("magic", 1)])
def test_a_piece_that_is_not_whole(new_host, tmp_path, at, how):  # noqa: F811
    box = get_target("openshell")
    host = new_host(program=in_pieces(), env=pieces_between(box, tmp_path))
    size = os.path.getsize(BUILD / "tests/pieces/agent/sandmux-agent")
    before = sorted(box.injected())
    (tmp_path / "says").write_text(
        f"{-(-size // PIECE) if at == 'last' else at} {how}\n")
    done = host.exec(box, "echo", "hi")
    assert done.status == 125 and done.out == b"", done
    assert done.err.count(b"\n") == 1 and b"be removed" not in done.err, done
    assert sorted(box.injected()) == before
    (tmp_path / "says").write_text("0 nothing\n")
    assert host.exec(box, "echo", "hi").out == b"hi\n"

# SPDX-License-Identifier: MIT
"""exec: what goes in and comes out, ends, and time-outs."""
import hashlib
import json
import os
import subprocess
import time

import pytest
from spine import (LIMIT, LOST, MIB, QEMU, count, find,  # noqa: F401
                   get_target, host, kill_all, marker, shared_host, target,
                   wait_for)

EVERY = bytes(range(256))
OCTAL = "".join(f"\\{i:03o}" for i in range(256))


def big(size):
    """Bytes that show any shift or loss."""
    block = hashlib.shake_256(b"sandmux").digest(MIB + 17)
    return (block * (size // len(block) + 1))[:size]


# ---- in -----------------------------------------------------------------

def test_without_stdin_there_is_an_end_at_once(host, target):  # noqa: F811
    assert host.exec(target, "cat").out == b""
    done = host.sh(target, "read x; echo rc=$?")
    assert done.out == b"rc=1\n", done


def test_the_clients_stdin_is_left_alone(host, target, tmp_path):  # noqa: F811
    """Without -i not one byte of it is taken, as in a `while read` loop."""
    lines = tmp_path / "lines"
    lines.write_text("1\n2\n3\n")
    script = ('while read -r n; do "$1" exec "$2" -- echo "got $n"; done '
              f"<{lines}")
    done = subprocess.run(["sh", "-c", script, "sh", host.program,
                           str(target)], env=host.env, timeout=LIMIT,
                          stdout=subprocess.PIPE, check=False)
    assert done.stdout == b"got 1\ngot 2\ngot 3\n"


def test_an_empty_stdin(host, target):  # noqa: F811
    assert host.exec(target, "wc", "-c", input=b"").out.split() == [b"0"]


def test_a_closed_stdin(host, target):  # noqa: F811
    done = subprocess.run(
        ["sh", "-c", 'exec "$1" exec -i "$2" -- wc -c <&-', "sh",
         host.program, str(target)], env=host.env, timeout=LIMIT,
        capture_output=True, check=False)
    assert done.stdout.split() == [b"0"], done


@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 65536, 1_048_577])
def test_in_and_out_again(host, target, size):  # noqa: F811
    done = host.exec(target, "cat", input=big(size))
    assert done.status == 0 and done.out == big(size), done.status


def test_fifty_mebibytes_in(host, target):  # noqa: F811
    data = big(50 * MIB)
    done = host.exec(target, "wc", "-c", input=data)
    assert done.out.split() == [str(len(data)).encode()], done
    done = host.exec(target, "sha256sum", input=data)
    assert done.out.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_job_that_does_not_read_its_stdin(host, target):  # noqa: F811
    done = host.sh(target, "echo bad >&2; exit 7", input=big(32 * MIB))
    assert (done.status, done.out, done.err) == (7, b"", b"bad\n"), done


def test_a_job_that_stops_reading(host, target):  # noqa: F811
    done = host.sh(target, "head -c 1000 | wc -c; exec 0<&-; echo on; exit 5",
                   input=big(32 * MIB))
    assert done.status == 5 and done.out.split() == [b"1000", b"on"], done


def test_much_out_before_anything_is_read(host, target):  # noqa: F811
    size = 8 * MIB
    source = "/dev/urandom" if target.kind == "openshell" else "/dev/zero"
    done = host.sh(target, f"head -c {size} {source}; cat >/dev/null",
                   input=big(size))
    assert done.status == 0 and len(done.out) == size, done.status


def test_interactive_both_ways(host, target):  # noqa: F811
    client = host.popen("exec", "-i", str(target), "--", "cat",
                        stdin=subprocess.PIPE)
    for i in range(count(20, 200)):
        client.stdin.write(b"line %d\n" % i)
        client.stdin.flush()
        assert client.stdout.readline() == b"line %d\n" % i
    client.stdin.close()
    assert client.wait(LIMIT) == 0


# ---- out ----------------------------------------------------------------

def test_stdout_and_stderr_are_apart(host, target):  # noqa: F811
    done = host.sh(target, f"cat; printf '{OCTAL}' >&2; exit 9",
                   input=EVERY * 3)
    assert (done.status, done.out, done.err) == (9, EVERY * 3, EVERY), done


def test_both_at_once(host, target):  # noqa: F811
    done = host.sh(target, "seq 1 60000 & seq 100001 160000 >&2; wait")
    assert done.out == b"".join(b"%d\n" % i for i in range(1, 60001))
    assert done.err == b"".join(b"%d\n" % i for i in range(100001, 160001))


def test_the_tail_is_never_lost(host, target):  # noqa: F811
    """The job ends while nearly all of its output is still on its way."""
    last = count(300_000, 2_000_000)
    want = hashlib.sha256(subprocess.run(
        ["seq", "1", str(last)], stdout=subprocess.PIPE, check=True).stdout)
    for _ in range(count(3, 50)):
        client = host.popen("exec", str(target), "--", "seq", "1", str(last),
                            stderr=None)
        got, n = hashlib.sha256(), 0
        while True:
            data = os.read(client.stdout.fileno(), 65536)
            if not data:
                break
            got.update(data)
            n += 1
            if n % 8 == 0:
                time.sleep(0.01)
        assert client.wait(LIMIT) == 0
        assert got.digest() == want.digest()


def test_look_alikes_are_only_bytes(host, target):  # noqa: F811
    like = (b"SANDMUX-HELLO 0001-0001 " + b"0" * 32 + b" " + b"a" * 64 +
            b"\n\0\0\0\x1a" + b"\x81" * 26 + b"\r\n\x1b[0m\x03\x04"
            b"+exit 0\r\n{\"status\":0}no newline at the end")
    done = host.sh(target, "cat; exit 3", input=like)
    assert (done.status, done.out) == (3, like), done


def test_descriptors_of_a_job(host, target):  # noqa: F811
    """0 to 2 and nothing else, with and without stdin."""
    script = "ls /proc/$$/fd; exit 0"       # bash may have a 255
    for more in ({}, {"input": b"x"}):
        done = host.sh(target, script, **more)
        assert set(done.out.split()) - {b"255"} == {b"0", b"1", b"2"}, done


def test_a_reader_that_goes_away(host, target):  # noqa: F811
    """`sandmux exec ... | head`: the client ends, and its job too."""
    mark = marker()
    client = host.popen("exec", str(target), "--", "sh", "-c",
                        f"sleep {mark} & while echo {mark}; do :; done")
    assert client.stdout.readline().strip() == mark.encode()
    assert find(mark)
    client.stdout.close()
    assert client.wait(LIMIT) != 0
    wait_for("the job's end", lambda: not find(mark))


def test_full_local_disk(host, target):  # noqa: F811
    with open("/dev/full", "wb") as full:
        done = subprocess.run([host.program, "exec", str(target), "--",
                               "echo", "x"], env=host.env, stdout=full,
                              stderr=subprocess.PIPE, timeout=LIMIT,
                              check=False)
    assert done.returncode == 125 and b"ENOSPC" in done.stderr, done


# ---- background children ------------------------------------------------

def test_a_background_child_holds_stdout(host, target, tmp_path):  # noqa: F811
    mark, report = marker(), tmp_path / "json"
    done = host.sh(target, f"echo hi; sleep {mark} &",
                   opts=["--json", str(report)])
    assert (done.status, done.out) == (0, b"hi\n"), done
    assert json.loads(report.read_text())["detached"] is True
    assert len(find(mark)) == 1         # it lives on
    # It may even write: nobody reads, and nothing breaks.
    kill_all(mark)


def test_a_background_child_that_writes(host, target):  # noqa: F811
    mark, path = marker(), target.path("wrote")
    done = host.sh(target, f"(sleep 1; seq 1 100000; echo $? >{path}; "
                   f"exec sleep {mark}) & echo hi")
    assert (done.status, done.out) == (0, b"hi\n"), done
    wait_for("the child's word", lambda: target.sh(
        f"cat {path} 2>/dev/null || :"))
    assert target.sh(f"cat {path}") == b"0\n"   # no SIGPIPE
    wait_for("the child", lambda: find(mark))
    kill_all(mark)
    target.sh(f"rm {path}")


# ---- time-outs ----------------------------------------------------------

@pytest.mark.parametrize("deaf", [False, True])
def test_timeout_kills_the_group(host, target, tmp_path, deaf):  # noqa: F811
    mark, report = marker(), tmp_path / "json"
    proof = target.path("proof")
    trap = "trap '' TERM;" if deaf else ""
    script = (f"{trap} echo early; echo late >&2; sleep {mark} & "
              f"sleep {mark} & kill -0 $! && echo two >{proof}; "
              "while :; do sleep 1; done")
    done = host.sh(target, script, opts=["--timeout", "1.5s", "--json",
                                         str(report)])
    assert done.status == 124, done
    assert done.out == b"early\n" and done.err.startswith(b"late\n")
    assert b"timed out" in done.err
    assert target.sh(f"cat {proof}; rm {proof}") == b"two\n"
    wait_for("the group's end", lambda: not find(mark))
    told = json.loads(report.read_text())
    assert told["timed_out"] is True and told["outcome"] == "timed-out"
    assert told["code"] is None and told["signal"] is None
    assert told["bytes"]["stdout"] == 6


def test_timeout_of_a_flood(host, target):  # noqa: F811
    done = host.exec(target, "yes", opts=["--timeout", "1"])
    assert done.status == 124
    assert done.out and done.out == (b"y\n" * (len(done.out) // 2 + 1))[
        :len(done.out)]


def test_a_timeout_not_reached(host, target):  # noqa: F811
    done = host.sh(target, "exit 6", opts=["--timeout", "100s"])
    assert (done.status, done.err) == (6, b""), done


# ---- signals to the client ----------------------------------------------

@pytest.mark.parametrize("number", [2, 15, 1])
def test_a_signal_ends_the_job(host, target, number):  # noqa: F811
    mark = marker()
    client = host.start_job(target, mark)
    client.send_signal(number)
    assert client.wait(LIMIT) == 128 + number
    assert LOST not in client.stderr.read()
    wait_for("the job's end", lambda: not find(mark))


@pytest.mark.skipif(QEMU, reason="no such target under qemu")
def test_an_image_made_from_nothing(host):  # noqa: F811
    """Neither shell nor libc: the test's own program is all there is."""
    from spine import Docker, once
    box = once("scratch", lambda: Docker("scratch", tmp="/"))
    data = big(300_000)
    assert host.exec(box, "/pause", "cat", input=data).out == data
    assert host.exec(box, "/pause", "exit", "77").status == 77
    assert host.exec(box, "/pause", "echo", "a", "b").out == b"a b\n"
    assert host.exec(box, "sh", "-c", "true").status == 127
    wait_for("no injected file", lambda: box.injected() == [])

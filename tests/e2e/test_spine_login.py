# SPDX-License-Identifier: MIT
"""Login files of an openshell sandbox that print, lie, wait or end it.

Each is put into ~/.bash_profile of a sandbox of its own.  A link works in
spite of it, or fails with what it printed quoted.
"""
import json
import os
import re

import pytest
from spine import (LIMIT, QEMU, find, kill_all, make_openshell,  # noqa: F401
                   marker, new_host, wait_for)

pytestmark = pytest.mark.skipif(QEMU, reason="under qemu there is only local")

# Our token and the other words of the agent's argv, as any login file sees
# them: bash shows its -c string.
ARGV = "set -- ${BASH_EXECUTION_STRING##* start }; "
ONLY_START = 'case "$BASH_EXECUTION_STRING" in *" start "*) '
HELLO = 'SANDMUX-HELLO %s %s %s\\n'
KEY = "ab" * 32


def sandbox(profile, raw=b""):
    """A sandbox with this login file; raw goes beside it as ~/noise."""
    box = make_openshell()
    box.sh("cat >~/noise", data=raw)
    box.sh("cat >~/.bash_profile", data=profile.encode() + b"\n")
    return box


def works(host, box):
    for i in range(3):
        done = host.sh(box, "cat; echo $1 >&2; exit $1", "sh", str(i),
                       input=b"x" * 100_000)
        assert done.status == i and done.out == b"x" * 100_000, done
        assert done.err == b"%d\n" % i


# A child that ignores SIGTTOU and prints for as long as a start may take.
PRINTS = ("(trap '' TTOU; sleep 1; for i in $(seq 300); do echo rogue; "
          "sleep 0.2; done) &\n")
ROGUE = re.compile(r'went on with "[^"]*rogue')


def works_or_quotes(host, box, words):
    """Either; which one is the answer."""
    done = host.exec(box, "echo", "fine")
    if done.status == 0:
        assert done.out == b"fine\n"
        works(host, box)
        return True
    assert done.status == 125 and done.out == b"", done
    assert done.err.count(b"\n") == 1 and b"\x1b" not in done.err
    assert words in done.err, done
    return False


HEAD, TAIL = b"HEAD-OF-NOISE", b"TAIL-OF-NOISE"


def noise():
    """Binary, with control bytes and broken UTF-8, and no NUL for bash."""
    return bytes(1 + b % 255 for b in os.urandom(200 * 1024))


@pytest.mark.parametrize("where", ["", ">&2"])
def test_binary_noise(new_host, where):  # noqa: F811
    data = HEAD + noise() + TAIL
    box = sandbox(f"cat ~/noise {where}; printf '\\033]0;title\\007\\r' "
                  f"{where}", data)
    host = new_host()
    works(host, box)
    done = host.run("doctor", "--json", str(box))
    assert done.status == 0 and b"\x1b" not in done.out, done
    told = json.loads(done.out)["link"]
    # The terminal may have made more of it, of line ends, but not less.
    assert len(data) <= told["noise_bytes"] < 2 * len(data)
    assert told["noise"].startswith(HEAD.decode())
    assert TAIL.decode() in told["noise"]
    assert told["noise"].endswith("\x1b]0;title\x07\r")
    text = host.run("doctor", str(box)).out
    assert b"\x1b" not in text and b"\x07" not in text
    shown = re.search(rb"^login noise  +(.*)$", text, re.M).group(1)
    assert shown.startswith(HEAD) and TAIL in shown
    assert shown.endswith(rb"\x1b]0;title\x07\r")
    size = re.search(rb"^login noise \(bytes\) +(\d+)$", text, re.M)
    assert int(size.group(1)) == told["noise_bytes"]


def test_noise_that_never_ends(new_host):  # noqa: F811
    mark = marker()
    # Without an end as far as any link sees: nobody stops it there.
    box = sandbox(f"{ONLY_START}while [ $SECONDS -lt 15 ]; do "
                  f"echo flood-{mark}; done;; esac")
    done = new_host("--hello 8000").exec(box, "true")
    assert done.status == 125 and f"flood-{mark}".encode() in done.err, done
    assert done.err.count(b"\n") == 1


@pytest.mark.parametrize("what", [
    # A whole hello, with our token; another's token; the first half.
    f'printf "{HELLO}" $1 $2 {KEY}', f'printf "{HELLO}" $1 {"0" * 32} {KEY}',
    'printf "SANDMUX-HELLO %s %s " $1 $2', 'printf "SANDMUX-HEL"',
    # Without any end, so that the real one comes right behind it.
    f'printf "SANDMUX-HELLO %s %s {KEY[:63]}" $1 $2',
    # One with what may look like the beginning of READY.
    f'printf "{HELLO}" $1 $2 {KEY}; head -c 200 ~/noise',
    # Keys that X25519 refuses.
    f'printf "{HELLO}" $1 $2 {"0" * 64}',
])
def test_false_hellos(new_host, what):  # noqa: F811
    box = sandbox(f"{ONLY_START}{ARGV}{what};; esac", noise())
    works(new_host(), box)


@pytest.mark.parametrize("token", ["$2", "0" * 32])
def test_a_hundred_hellos(new_host, token):  # noqa: F811
    box = sandbox(f"{ONLY_START}{ARGV}for i in $(seq 100); do printf "
                  f'"{HELLO}" $1 {token} {KEY}; done;; esac')
    assert works_or_quotes(new_host(), box, b"SANDMUX-HELLO") or \
        token == "$2"


def test_a_hello_of_another_version(new_host):  # noqa: F811
    box = sandbox(f'{ONLY_START}{ARGV}printf "{HELLO}" 0007-0009 $2 {KEY};; '
                  "esac")
    works_or_quotes(new_host(), box, b"0007-0009")


@pytest.mark.parametrize("end", ["exec true", "exec cat /dev/null", "exit 0",
                                 "exit 3", "kill -9 $$"])
def test_a_login_file_that_ends_it(new_host, end):  # noqa: F811
    box = sandbox(f"{ONLY_START}echo before-the-end; {end};; esac")
    host = new_host()
    assert not works_or_quotes(host, box, b"before-the-end")
    wait_for("no transport left", lambda: host.children() == [])


def test_a_login_file_that_always_ends_it(new_host):  # noqa: F811
    """Not even injection gets through."""
    box = sandbox("echo before-the-end; exec true")
    assert not works_or_quotes(new_host(), box, b"before-the-end")


def test_a_login_file_that_waits(new_host):  # noqa: F811
    mark = marker()
    box = sandbox(f"{ONLY_START}echo waiting; sleep {mark};; esac")
    done = new_host("--hello 2000").exec(box, "true")
    assert done.status == 125 and b"waiting" in done.err, done
    assert b"no hello" in done.err
    # The gateway tells nobody: it is the sandbox's own.
    kill_all(mark)


def test_a_login_file_that_reads_its_terminal(new_host):  # noqa: F811
    box = sandbox(f"{ONLY_START}read -t 1 -n 1 x; stty echo;; esac")
    works(new_host(), box)


@pytest.mark.parametrize("child", [
    "for i in $(seq 100); do echo leftover; sleep 0.1; done",
    "sleep 1; for i in $(seq 100); do echo leftover >&2; sleep 0.1; done",
    "sleep 1; cat ~/noise; sleep 1; cat ~/noise"])
def test_a_leftover_child_that_prints_later(new_host, child):  # noqa: F811
    mark = marker()
    box = sandbox(f"{ONLY_START}({child}; : {mark}) & ;; esac".replace(
        "& ;;", "&\n;;"), noise())
    host = new_host()
    works(host, box)
    done = host.sh(box, "sleep 3; echo whole")
    assert (done.status, done.out) == (0, b"whole\n"), done
    works(host, box)


def test_a_leftover_child_that_ignores_the_rules(new_host):  # noqa: F811
    """It can cut the link, never forge: whole answers or typed errors."""
    box = sandbox(f"{ONLY_START}{PRINTS};; esac")
    host = new_host()
    for i in range(6):
        done = host.sh(box, "sleep 1; cat; exit 5", input=b"y" * 10_000)
        if done.status == 5:
            assert done.out == b"y" * 10_000 and done.err == b"", done
        else:
            assert done.status == 125, done
            assert (b"y" * 10_000).startswith(done.out), done
            assert done.err.startswith(b"sandmux: exec: "), done
            assert done.err.count(b"\n") == 1
    # It did cut one, and its words are in the log; the next link is whole.
    assert "link lost: " in host.log() and ROGUE.search(host.log())
    assert host.link(box)["relinks"] >= 1
    works(host, box)


def test_a_leftover_child_at_each_link(new_host, tmp_path):  # noqa: F811
    """The next links come ever more slowly, and there is an end to it."""
    mark, report = marker(), tmp_path / "json"
    box = sandbox('case "$BASH_EXECUTION_STRING" in *" start "*|*" attach "*) '
                  f"{PRINTS};; esac")
    host = new_host("--ping 400 --dead 3000 --linger 15")
    job = host.popen("exec", "--json", str(report), str(box), "--", "sh",
                     "-c", f"sleep {mark}; :")
    wait_for("the job", lambda: find(mark))
    assert job.wait(LIMIT) == 125
    err = job.stderr.read()
    assert err.count(b"\n") == 1 and b"\x1b" not in err, err
    assert b"tried for" in err and b"outcome unknown" in err, err
    assert ROGUE.search(err.decode()), err
    said = json.loads(report.read_text())
    assert said["outcome"] == "failed" and said["code"] is None
    assert said["error"]["step"] == "linger", said
    # Each link after the first kept at least twice as long a distance; the
    # least that it may be, so that a slow machine says the same.
    gaps = [int(ms) for ms in re.findall(r"linked again after (\d+) ms",
                                         host.log())]
    assert len(gaps) >= 3, host.log()
    for i, gap in enumerate(gaps[1:7]):
        assert gap >= min(100 << i, 5000), gaps
    assert len(ROGUE.findall(host.log())) >= len(gaps)
    wait_for("no transport left", lambda: host.children() == [])
    wait_for("the job's end", lambda: not find(mark), 60)


def test_no_login_shell_is_used_where_it_is_listed(new_host,  # noqa: F811
                                                   tmp_path):
    if os.environ.get("OPENSHELL"):
        pytest.skip("only the stand-in chooses its version")
    box = sandbox("echo noise-of-login; exec true")
    newer = tmp_path / "openshell"
    newer.write_text("#!/bin/sh\nSTANDIN_NO_LOGIN_SHELL=1\n"
                     "export STANDIN_NO_LOGIN_SHELL\n"
                     f'exec {box.cli} "$@"\n')
    newer.chmod(0o755)
    host = new_host()
    host.env["PATH"] = f"{tmp_path}:{host.env['PATH']}"
    works(host, box)
    done = host.run("doctor", "--json", str(box))
    assert done.status == 0 and b'"noise_bytes": 0' in done.out.replace(
        b'"noise_bytes":0', b'"noise_bytes": 0'), done
    assert b"login files run" not in done.out

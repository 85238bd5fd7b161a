# SPDX-License-Identifier: MIT
"""fs: what can be done to files by name, on `local` and in a container."""
import json
import os

import pytest
from spine import (get_target, host, once, shared_host, target,  # noqa: F401
                   Docker)


@pytest.fixture
def place(target):  # noqa: F811
    path = target.path("fs")
    target.sh(f"mkdir {path}")
    yield path
    target.sh(f"chmod -R 700 {path}; rm -rf {path}")


def fails(done, *words):
    assert done.status == 1 and done.err.count(b"\n") == 1, done
    for word in words:
        assert os.fsencode(word) in done.err, done
    return True


def test_stat(host, target, place):  # noqa: F811
    target.sh(f"cd {place} && echo hello >f && chmod 640 f && ln f g && "
              "ln -s f link && touch -d '2001-02-03 04:05:06 UTC' f")
    done = host.run("fs", "stat", "--json", f"{target}:{place}/f")
    assert done.status == 0, done
    got = json.loads(done.out)
    want = dict(type="file", mode="0640", size=6, links=2, link=None,
                mtime=981173106)
    assert {k: got[k] for k in want} == want
    ids = target.sh(f"stat -c '%u %g' {place}/f").split()
    assert [got["uid"], got["gid"]] == [int(x) for x in ids]
    got = json.loads(host.run("fs", "stat", "--json",
                              f"{target}:{place}/link").out)
    assert got["type"] == "symlink" and got["link"] == "f"
    got = json.loads(host.run("fs", "stat", "-L", "--json",
                              f"{target}:{place}/link").out)
    assert got["type"] == "file" and got["size"] == 6
    done = host.run("fs", "stat", f"{target}:{place}/f")
    assert done.out.startswith(b"-rw-r-----   2 ") and \
        b"2001-02-03T04:05:06Z" in done.out
    fails(host.run("fs", "stat", f"{target}:{place}/no"), "ENOENT",
          f"{place}/no", "look at")


def test_readlink(host, target, place):  # noqa: F811
    name = os.fsdecode(b"../a b\xff")
    assert host.run("fs", "symlink", f"{target}:{place}/l",
                    name).status == 0
    done = host.run("fs", "readlink", f"{target}:{place}/l")
    assert done.status == 0 and done.out == b"../a b\xff\n", done
    fails(host.run("fs", "readlink", f"{target}:{place}"), "EINVAL")
    fails(host.run("fs", "symlink", f"{target}:{place}/l", "x"), "EEXIST")


def test_list(host, target, place):  # noqa: F811
    target.sh(f"cd {place} && touch a 'b c' .hidden && mkdir d && mkfifo p "
              "&& ln -s nowhere l && i=0; while [ $i -lt 500 ]; do "
              "echo >n$i; i=$((i+1)); done")
    done = host.run("fs", "ls", "--json", f"{target}:{place}")
    assert done.status == 0, done
    got = {e["name"]: e["type"] for e in json.loads(done.out)["entries"]}
    want = {f"n{i}": "file" for i in range(500)}
    want.update({"a": "file", "b c": "file", ".hidden": "file",
                 "d": "directory", "p": "fifo", "l": "symlink"})
    assert got == want
    done = host.run("fs", "ls", f"{target}:{place}/d")
    assert (done.status, done.out) == (0, b"")
    done = host.run("fs", "ls", "--json", f"{target}:{place}/d")
    assert json.loads(done.out) == {"entries": []}
    fails(host.run("fs", "ls", f"{target}:{place}/a"), "ENOTDIR", "list")


def test_hostile_names_are_quoted(host, target, place):  # noqa: F811
    target.sh(f"cd {place} && touch \"$(printf 'x\\033[2J\\ny')\"")
    done = host.run("fs", "ls", f"{target}:{place}")
    assert done.out.count(b"\n") == 1 and b"\x1b" not in done.out
    got = json.loads(host.run("fs", "ls", "--json",
                              f"{target}:{place}").out)
    assert got["entries"][0]["name"] == "x\x1b[2J\ny"


def test_mkdir(host, target, place):  # noqa: F811
    at = f"{target}:{place}"
    assert host.run("fs", "mkdir", f"{at}/d").status == 0
    fails(host.run("fs", "mkdir", f"{at}/d"), "EEXIST")
    fails(host.run("fs", "mkdir", f"{at}/x/y"), "ENOENT", "make the dir")
    assert host.run("fs", "mkdir", "-p", "--mode", "2750",
                    f"{at}/x/y/z").status == 0
    assert host.run("fs", "mkdir", "-p", f"{at}/x/y/z/").status == 0
    got = target.sh(f"stat -c %a {place}/x/y/z")
    assert got == b"2750\n"
    target.sh(f"touch {place}/f")
    fails(host.run("fs", "mkdir", "-p", f"{at}/f"), "EEXIST")
    fails(host.run("fs", "mkdir", "-p", f"{at}/f/g"), "ENOTDIR")


def test_remove(host, target, place):  # noqa: F811
    at = f"{target}:{place}"
    target.sh(f"cd {place} && mkdir -p d/e/f out && touch d/a d/e/b out/keep "
              "&& ln -s ../out d/link && mkdir empty && ln -s out l2")
    fails(host.run("fs", "rm", f"{at}/d"), "ENOTEMPTY")
    assert host.run("fs", "rm", f"{at}/empty").status == 0
    assert host.run("fs", "rm", "-r", f"{at}/l2").status == 0
    assert host.run("fs", "rm", "-r", f"{at}/d").status == 0
    assert target.sh(f"cd {place} && find . | sort") == \
        b".\n./out\n./out/keep\n"
    fails(host.run("fs", "rm", "-r", f"{at}/d"), "ENOENT", f"{place}/d")


def test_remove_names_what_it_cannot(host):  # noqa: F811
    box = once("fs-user", lambda: Docker("debian"))
    box.sh("rm -rf /x; mkdir -p /x/a/b && touch /x/a/b/f && chmod 777 /x /x/a")
    fails(host.run("fs", "rm", "-r", "-u", "1000", f"{box}:/x/a"), "EACCES",
          "/x/a/b/f")
    assert box.sh("ls /x/a/b") == b"f\n"
    # And a tree deeper than the descriptors reach is no crash.
    box.sh("cd /x && i=0; while [ $i -lt 400 ]; do mkdir d && cd d; "
           "i=$((i+1)); done")
    assert host.run("fs", "rm", "-r", f"{box}:/x").status == 0


def test_rename(host, target, place):  # noqa: F811
    at = f"{target}:{place}"
    target.sh(f"cd {place} && echo 1 >a && echo 2 >b && mkdir d")
    assert host.run("fs", "mv", f"{at}/a", f"{place}/b").status == 0
    assert target.sh(f"cat {place}/b; ls {place}") == b"1\nb\nd\n"
    fails(host.run("fs", "mv", f"{at}/b", f"{place}/d"), "EISDIR",
          "rename")


def test_chmod(host, target, place):  # noqa: F811
    target.sh(f"touch {place}/f")
    for mode in ("600", "4755", "0"):
        assert host.run("fs", "chmod", f"{target}:{place}/f",
                        mode).status == 0
        assert target.sh(f"stat -c %a {place}/f").decode() == mode + "\n"


def test_as_a_user(host):  # noqa: F811
    box = once("fs-user", lambda: Docker("debian"))
    box.sh("grep -q ^agent: /etc/passwd || echo "
           "agent:x:1000:1000::/:/bin/sh >>/etc/passwd; grep -q ^staff2: "
           "/etc/group || echo staff2:x:2000: >>/etc/group; "
           "rm -rf /u; mkdir -m 777 /u; touch /u/root; ln -s root /u/l")
    assert host.run("fs", "mkdir", "-u", "agent", f"{box}:/u/d").status == 0
    assert box.sh("stat -c '%u %g' /u/d") == b"1000 1000\n"
    fails(host.run("fs", "chmod", "-u", "agent", f"{box}:/u/root", "777"),
          "EPERM", "mode of /u/root")
    fails(host.run("fs", "chown", "-u", "agent", f"{box}:/u/root", "agent"),
          "EPERM", "owner of /u/root")
    fails(host.run("fs", "stat", "-u", "nobody-here", f"{box}:/u"),
          "unable to find user")
    for owner, want in (("agent", "1000 0"), ("0:staff2", "0 2000"),
                        (":1000", "0 1000"), ("12:34", "12 34")):
        assert host.run("fs", "chown", f"{box}:/u/root", owner).status == 0
        assert box.sh("stat -c '%u %g' /u/root").decode() == want + "\n"
    assert host.run("fs", "chown", f"{box}:/u/l", "7:7").status == 0
    assert box.sh("stat -c %u /u/l /u/root") == b"7\n12\n"
    assert host.run("fs", "chown", "-L", f"{box}:/u/l", "8:8").status == 0
    assert box.sh("stat -c %u /u/l /u/root") == b"7\n8\n"
    fails(host.run("fs", "chown", f"{box}:/u/root", "no-such"),
          "unable to find user no-such")


@pytest.mark.parametrize("words, text", [
    ([], "operation"), (["nosuch", "local:/x"], "operation"),
    (["stat"], "one TARGET:PATH"), (["stat", "/x"], "names no target"),
    (["stat", "local:/x", "y"], "one TARGET:PATH"),
    (["mv", "local:/x"], "NEWPATH"), (["chmod", "local:/x", "999"], "mode"),
    (["chmod", "local:/x", "77777"], "mode"), (["stat", "-r", "local:/x"],
                                               "not for stat"),
    (["rm", "--mode", "7", "local:/x"], "not for rm"),
    (["stat", "local:"], "empty"),
])
def test_usage(host, words, text):  # noqa: F811
    done = host.run("fs", *words)
    assert done.status == 2 and os.fsencode(text) in done.err, done
    assert done.err.count(b"\n") == 1


def test_help(host):  # noqa: F811
    done = host.run("fs", "--help")
    assert done.status == 0 and b"readlink" in done.out

# SPDX-License-Identifier: MIT
"""cp's rules, a line each as in the manual, and `docker cp` beside them.

A line prepares an empty directory D in a container, copies a file "src" that
says "new" to a destination, and says what is there then."""
import json
import os
import signal
import subprocess

import pytest
from docker_fixture import docker_program
from spine import (Docker, LIMIT, get_target, host, once,  # noqa: F401
                   shared_host, wait_for)

SAME = "docker cp does the same"
# name, preparation in D, destination, options, error or (file, its content),
# atomic, docker cp.
RULES = [
    ("missing", "", "f", (), ("f", "new"), True, SAME),
    ("a file", "echo old >f", "f", (), ("f", "new"), True, SAME),
    ("a directory", "mkdir d", "d", (), ("d/src", "new"), True, SAME),
    ("a directory and /", "mkdir d", "d/", (), ("d/src", "new"), True, SAME),
    ("missing and /", "", "d/", (), "ENOENT", None, SAME),
    ("missing, /, -p", "", "d/", ("-p",), ("d/src", "new"), True,
     "has no -p"),
    ("a file and /", "echo old >f", "f/", (), "ENOTDIR", None, SAME),
    ("missing parent", "", "a/b/f", (), "ENOENT", None, SAME),
    ("missing parent, -p", "", "a/b/f", ("-p",), ("a/b/f", "new"), True,
     "has no -p"),
    ("parent is a file", "echo old >a", "a/f", ("-p",), "ENOTDIR", None,
     "has no -p"),
    ("link to a file", "echo old >r; ln -s r f", "f", (), ("r", "new"), True,
     SAME),
    ("dangling link", "ln -s no f", "f", (), "ENOENT", None,
     "makes what the link names"),
    ("link to a directory", "mkdir d; ln -s d f", "f", (),
     ("d/src", "new"), True, SAME),
    ("link loop", "ln -s f f", "f", (), "ELOOP", None, "replaces the loop"),
    ("other names", "echo old >f; ln f g", "f", (), ("g", "new"), False,
     "breaks the link"),
    ("another's, we are root", "echo old >f; chown 7:8 f; chmod 4640 f", "f",
     (), ("f", "new"), True, "makes it root's"),
    ("another's, we are not", "echo old >f; chown 7:8 f; chmod 666 f; "
     "chmod 777 .", "f", ("-u", "1000"), ("f", "new"), False, "is root"),
    ("another's, sticky", "echo old >f; chown 7:8 f; chmod 666 f; "
     "chmod 1777 .; chown 7 .", "f", ("-u", "1000"), ("f", "new"), False,
     "is root"),
    ("ours, sticky", "echo old >f; chown 1000:0 f; chmod 1777 .", "f",
     ("-u", "1000:0"), ("f", "new"), True, "is root"),
    ("read-only directory", "echo old >f; chown 1000:0 f; chmod 755 .", "f",
     ("-u", "1000:0"), ("f", "new"), False, "is root"),
    ("not to be written", "echo old >f; chmod 444 f; chmod 777 .", "f",
     ("-u", "1000"), "EACCES", None, "is root"),
    ("directory not to be written", "chmod 755 .", "f", ("-u", "1000"),
     "EACCES", None, "is root"),
    ("a fifo", "mkfifo f", "f", (), "EINVAL", None, "replaces it"),
    ("--append", "printf old >f", "f", ("--append",), ("f", "oldnew"), False,
     "has no --append"),
    ("--append, missing", "", "f", ("--append",), ("f", "new"), True,
     "has no --append"),
    ("--append, other names", "printf old >f; ln f g", "f", ("--append",),
     ("g", "oldnew"), False, "has no --append"),
    ("--append, read-only directory", "printf old >f; chown 1000:0 f; "
     "chmod 755 .", "f", ("--append", "-u", "1000:0"), ("f", "oldnew"), False,
     "has no --append"),
]


@pytest.fixture
def box():
    get_target("docker")
    return once("rules", lambda: Docker("debian", "--tmpfs",
                                        "/tiny:size=1m,mode=1777"))


@pytest.fixture
def source(tmp_path):
    (tmp_path / "src").write_bytes(b"new")
    (tmp_path / "src").chmod(0o644)
    return str(tmp_path / "src")


def prepare(box, script):
    path = box.path("rule")
    box.sh(f"mkdir {path} && cd {path} && {script or ':'}")
    return path


def tree(box, path):
    """Everything there but contents: names, types, modes, owners."""
    return box.sh(f"cd {path} && find . -printf '%p %y %m %U:%G %l\\n' | "
                  "sort")


def cp(host, source, box, path, *options):  # noqa: F811
    """The copy, and its last event."""
    events = source + ".events"
    done = host.run("cp", "--json", events, *options, source,
                    f"{box}:{path}")
    with open(events, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert lines[0]["event"] == "start" and lines[-1]["event"] == "end"
    assert lines[-1]["status"] == done.status
    return done, lines[-1]


@pytest.mark.parametrize("rule", RULES, ids=[r[0] for r in RULES])
def test_rule(host, box, source, rule):  # noqa: F811
    _, script, to, options, want, atomic, _ = rule
    path = prepare(box, script)
    before = tree(box, path)
    done, end = cp(host, source, box, f"{path}/{to}", *options)
    if isinstance(want, str):
        assert done.status == 1 and want.encode() in done.err, done
        assert end["error"]["errno_name"] == want
        assert tree(box, path) == before
        return
    assert done.status == 0 and done.err == b"", done
    assert box.sh(f"cat {path}/{want[0]}").decode() == want[1]
    assert end["atomic"] is atomic
    after = tree(box, path)
    assert b".part" not in after and b".sandmux-" not in after
    # What was there has kept its type, mode, owner and other names.
    if b"./f f " in before:
        line = [x for x in before.split(b"\n") if x.startswith(b"./f ")]
        assert line[0] in after.split(b"\n")


class Here:
    """As a box: this side's file system."""

    def __init__(self, top):
        self.top = top

    def path(self, name):
        return str(self.top / name)

    def sh(self, script):
        return subprocess.run(["sh", "-c", script], capture_output=True,
                              check=True).stdout


@pytest.mark.parametrize("rule", [r for r in RULES if "-u" not in r[3] and
                                  r[0] != "a fifo"], ids=lambda r: r[0])
def test_rule_here(host, box, tmp_path, rule):  # noqa: F811
    """The same on this side, where nobody else's rights can be asked for."""
    name, script, to, options, want, atomic, _ = rule
    if os.getuid() != 0 and "another" in name:
        pytest.skip("only root can make another's file")
    here = Here(tmp_path)
    path = prepare(here, script)
    box.sh("mkdir -p /from; printf new >/from/src; chmod 644 /from/src")
    before = tree(here, path)
    events = tmp_path / "events"
    done = host.run("cp", "--json", str(events), *options, f"{box}:/from/src",
                    f"{path}/{to}")
    end = json.loads(events.read_text().splitlines()[-1])
    if isinstance(want, str):
        assert done.status == 1 and want.encode() in done.err, done
        assert end["error"]["errno_name"] == want
        assert tree(here, path) == before
        return
    assert done.status == 0 and done.err == b"", done
    assert here.sh(f"cat {path}/{want[0]}").decode() == want[1]
    assert end["atomic"] is atomic
    after = tree(here, path)
    assert b".part" not in after and b".sandmux-" not in after
    if b"./f f " in before:
        line = [x for x in before.split(b"\n") if x.startswith(b"./f ")][0]
        # What comes out of a sandbox is not setuid here unless asked for.
        line = line.replace(b" 4640 ", b" 640 ")
        assert line in after.split(b"\n")


def test_a_stopped_container(host, box, source):  # noqa: F811
    """docker cp reaches its files; we need a process in it."""
    stopped = Docker("debian")
    subprocess.run([docker_program(), "kill", stopped.box],
                   capture_output=True, check=True)
    done = host.run("cp", source, f"{stopped}:/tmp/f")
    assert done.status == 1 and b"not running" in done.err, done
    done = host.run("cp", f"{stopped}:/etc/passwd", "-")
    assert done.status == 1 and b"not running" in done.err, done
    done = subprocess.run([docker_program(), "cp", "-q", source,
                           f"{stopped.box}:/tmp/f"], capture_output=True,
                          check=False)
    assert done.returncode == 0, done


def test_made_by_the_user_and_for_it(host, box, source):  # noqa: F811
    """Parents and file are the user's from the start, and it can use them."""
    path = prepare(box, "chmod 777 .")
    done = host.run("cp", "-p", "-u", "1000:1001", "--mode", "755", source,
                    f"{box}:{path}/a/b/f")
    assert done.status == 0, done
    assert box.sh(f"cd {path}; stat -c '%u:%g %a' a a/b a/b/f") == (
        b"1000:1001 755\n" * 3)
    done = host.run("exec", "-u", "1000:1001", str(box), "--", "chmod", "700",
                    f"{path}/a/b/f")
    assert done.status == 0, done


@pytest.mark.parametrize("rule", [r for r in RULES if not r[3] and
                                  r[0] != "a fifo"],
                         ids=lambda r: r[0])
def test_docker_beside_it(box, source, rule):
    """The column on `docker cp`, by doing it."""
    _, script, to, _, want, _, docker = rule
    path = prepare(box, script)
    done = subprocess.run([docker_program(), "cp", "-q", source,
                           f"{box.box}:{path}/{to}"], capture_output=True,
                          timeout=LIMIT, check=False)
    works = not isinstance(want, str)
    if docker == SAME:
        assert (done.returncode == 0) == works, done
        assert not works or box.sh(f"cat {path}/{want[0]}").decode() == \
            want[1]
    elif docker == "makes what the link names":
        assert done.returncode == 0 and box.sh(f"cat {path}/no") == b"new"
    elif docker == "replaces the loop":
        assert done.returncode == 0 and box.sh(f"cat {path}/f") == b"new"
    elif docker == "breaks the link":
        assert box.sh(f"cat {path}/f {path}/g") == b"newold\n"
    else:
        assert box.sh(f"stat -c %u:%g {path}/f").split()[0] != b"7:8"


def test_a_mount_point(host, box, source):  # noqa: F811
    before = box.sh("grep -c ' /etc/hosts ' /proc/self/mounts; "
                    "stat -c '%i %a %u' /etc/hosts")
    assert before.startswith(b"1\n")
    done, end = cp(host, source, box, "/etc/hosts")
    assert done.status == 0 and end["atomic"] is False, done
    assert box.sh("cat /etc/hosts; ls -A /etc | grep sandmux || :") == b"new"
    assert before == box.sh("grep -c ' /etc/hosts ' /proc/self/mounts; "
                            "stat -c '%i %a %u' /etc/hosts")


def test_devices(host, box, source):  # noqa: F811
    done, end = cp(host, source, box, "/dev/null")
    assert done.status == 0 and end["atomic"] is False
    assert box.sh("stat -c %F /dev/null") == b"character special file\n"
    done, end = cp(host, source, box, "/dev/full")
    assert done.status == 1 and end["error"]["errno_name"] == "ENOSPC"
    # As a source one may have no end.
    done = host.run("cp", f"{box}:/dev/zero", "-")
    assert done.status == 1 and b"EINVAL" in done.err, done
    done = host.run("cp", "--length", "70000", f"{box}:/dev/zero", "-")
    assert done.status == 0 and done.out == bytes(70000)


def opens(pid):
    """The path that a process is blocked in openat() of, None: it is not."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as f:
        words = f.read().split()
    if words[0] != {"x86_64": "257", "aarch64": "56"}[os.uname().machine]:
        return None
    with open(f"/proc/{pid}/mem", "rb") as f:
        f.seek(int(words[2], 16))
        return f.read(100).partition(b"\0")[0]


def test_fifos_do_not_block(host, box, source, tmp_path):  # noqa: F811
    path = prepare(box, "mkfifo f")
    done = host.run("cp", f"{box}:{path}/f", "-", timeout=20)
    assert done.status == 1 and b"EINVAL" in done.err, done
    # Here one waits for its reader, and can be left.
    fifo = tmp_path / "p"
    os.mkfifo(fifo)

    def waiting():
        client = host.popen("cp", f"{box}:/etc/passwd", str(fifo))
        # The system call that it is in, and the name that it opens.
        wait_for("it waits for a reader", lambda: client.poll() is not None or
                 opens(client.pid) == b"p")
        assert client.poll() is None, client.stderr.read()
        return client

    client = waiting()
    client.send_signal(signal.SIGTERM)
    assert client.wait(20) in (-signal.SIGTERM, 128 + signal.SIGTERM)
    client = waiting()
    with open(fifo, "rb") as f:
        assert f.read() == box.sh("cat /etc/passwd")
    assert client.wait(20) == 0


@pytest.mark.parametrize("size", [600_000, 3 << 20])
@pytest.mark.parametrize("before", ["echo old >f", "echo old >f; ln f g"])
def test_no_space(host, box, source, tmp_path, before, size):  # noqa: F811
    """The old file survives, also where it is written in place: then both
    copies are there for a while, and there is not room for two."""
    box.sh(f"cd /tiny; rm -rf f g; {before}")
    (tmp_path / "src").write_bytes(os.urandom(size))
    done, end = cp(host, source, box, "/tiny/f")
    if size < 1 << 20 and "ln" not in before:
        assert done.status == 0
        return
    assert done.status == 1 and end["error"]["errno_name"] == "ENOSPC"
    assert box.sh("cd /tiny; cat f; ls -A | grep sandmux || :") == b"old\n"


def test_file_size_limit(host, source, tmp_path):  # noqa: F811
    """EFBIG, from a limit of the agent's; no SIGXFSZ."""
    get_target("docker")
    box = once("small", lambda: Docker("debian", "--ulimit",
                                       "fsize=1048576:1048576"))
    box.sh("echo old >/tmp/f")
    (tmp_path / "src").write_bytes(bytes(1) + os.urandom(3 << 20))
    done, end = cp(host, source, box, "/tmp/f")
    assert done.status == 1 and end["error"]["errno_name"] == "EFBIG", done
    assert box.sh("cat /tmp/f; ls -A /tmp | grep sandmux || :") == b"old\n"


def test_modes_times_and_owners(host, box, source, tmp_path):  # noqa: F811
    path = prepare(box, "echo old >f; chmod 600 f")
    os.chmod(source, 0o4755)
    os.utime(source, ns=(0, 981173106_123456789))
    cp(host, source, box, f"{path}/new")
    assert box.sh(f"stat -c %a {path}/new") == b"755\n"
    cp(host, source, box, f"{path}/f", "--mode", "4711")
    assert box.sh(f"stat -c %a {path}/f") == b"4711\n"
    cp(host, source, box, f"{path}/a", "-a")
    want = f"4755 {os.getuid()}:{os.getgid()} 981173106\n"
    assert box.sh(f"stat -c '%a %u:%g %Y' {path}/a").decode() == want
    box.sh(f"chown 7:8 {path}/a; chmod 2750 {path}/a; "
           f"touch -d @-1.5 {path}/a")
    done = host.run("cp", "-a", f"{box}:{path}/a", str(tmp_path / "d"))
    assert done.status == 0, done
    st = (tmp_path / "d").stat()
    assert st.st_mode & 0o777 == 0o750 and st.st_mtime_ns == -1_500_000_000
    if os.getuid() == 0:
        assert (st.st_uid, st.st_gid, st.st_mode & 0o7777) == (7, 8, 0o2750)


def test_ranges(host, box, tmp_path):  # noqa: F811
    path = prepare(box, "printf 0123456789 >f")
    for words, want in ((("--offset", "3"), b"3456789"),
                        (("--length", "2"), b"01"),
                        (("--offset", "4", "--length", "3"), b"456"),
                        (("--offset", "8", "--length", "30"), b"89"),
                        (("--offset", "10"), b""), (("--offset", "99"), b""),
                        (("--length", "0"), b"")):
        done = host.run("cp", *words, f"{box}:{path}/f", "-")
        assert (done.status, done.out) == (0, want), (words, done)
        (tmp_path / "f").write_bytes(b"0123456789")
        done = host.run("cp", *words, str(tmp_path / "f"),
                        f"{box}:{path}/up")
        assert done.status == 0, (words, done)
        assert box.sh(f"cat {path}/up") == want


def test_proc_is_read_to_its_end(host, box, tmp_path):  # noqa: F811
    done = host.run("cp", f"{box}:/proc/self/status", str(tmp_path / "s"))
    assert done.status == 0 and b"VmRSS" in (tmp_path / "s").read_bytes()
    done = host.run("cp", "/proc/self/status", f"{box}:/tmp/s")
    assert done.status == 0 and b"VmRSS" in box.sh("cat /tmp/s")


@pytest.mark.parametrize("words", [(), ("--verify",), ("--resume",),
                                   ("--resume", "--verify")])
def test_holes_stay(host, box, tmp_path, words):  # noqa: F811
    path = prepare(box, "")
    with open(tmp_path / "f", "wb") as f:
        for at in (1 << 20, 5 << 20, 50 << 20, 1 << 27):
            f.seek(at)
            f.write(os.urandom(5000))
        f.truncate((1 << 27) + (1 << 26))
    here = tmp_path / "f"
    done = host.run("cp", *words, str(here), f"{box}:{path}/f")
    assert done.status == 0, done
    size, blocks = map(int, box.sh(f"stat -c '%s %b' {path}/f").split())
    assert size == here.stat().st_size and blocks < 1000
    done = host.run("cp", *words, f"{box}:{path}/f", str(tmp_path / "g"))
    assert done.status == 0, done
    st = (tmp_path / "g").stat()
    assert st.st_size == size and st.st_blocks < 1000
    with open(here, "rb") as f, open(tmp_path / "g", "rb") as g:
        for at in (0, 1 << 20, 5 << 20, 50 << 20, 1 << 27, (1 << 27) + 4096):
            f.seek(at)
            g.seek(at)
            assert f.read(8192) == g.read(8192), at
    box.sh(f"rm {path}/f")


def test_verify_prints_both(host, box, source, tmp_path):  # noqa: F811
    want = subprocess.run(["b2sum", "-l", "256", source],
                          capture_output=True, check=True).stdout.split()[0]
    done = host.run("cp", "--verify", source, f"{box}:/tmp/v")
    lines = [x.split(b"  ") for x in done.out.splitlines()]
    assert done.status == 0 and lines == [
        [want, source.encode()], [want, f"{box}:/tmp/v".encode()]]
    done = host.run("cp", "--verify", f"{box}:/tmp/v", str(tmp_path / "d"))
    assert [x.split()[0] for x in done.out.splitlines()] == [want, want]
    done = host.run("cp", "--verify", f"{box}:/tmp/v", "-")
    assert done.out == b"new" and done.err.count(want) == 2


# ---- what the table does not hold, with docker cp beside it ------------------

def docker_cp(*words):
    return subprocess.run([docker_program(), "cp", "-q", *map(str, words)],
                          capture_output=True, timeout=LIMIT, check=False)


SPECIAL = {
    # what is there: who makes it, our errno, what docker cp does
    "a fifo": ("mkfifo f", "EINVAL", "replaces it"),
    "a socket": ("perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); "
                 "bind(S, sockaddr_un(\"f\")) or die'", "EINVAL",
                 "replaces it"),
    "a device": ("mknod f c 1 3", None, "refuses it"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_in_the_way(host, box, source, kind):  # noqa: F811
    script, errno, docker = SPECIAL[kind]
    path = prepare(box, script if errno else "")
    if errno is None:           # elsewhere it may not be opened
        path = path.replace("/tmp", "/dev")
        box.sh(f"mkdir {path} && cd {path} && {script}")
    before = tree(box, path)
    done, end = cp(host, source, box, f"{path}/f")
    if errno is None:
        assert done.status == 0 and end["atomic"] is False, done
    else:
        assert done.status == 1 and end["error"]["errno_name"] == errno
    assert tree(box, path) == before
    done = docker_cp(source, f"{box.box}:{path}/f")
    if docker == "refuses it":
        assert done.returncode != 0 and tree(box, path) == before
    else:
        assert done.returncode == 0 and box.sh(f"cat {path}/f") == b"new"


def test_docker_refuses_a_mount_point(box, source):
    """Where we write into it (test_a_mount_point)."""
    before = box.sh("cat /etc/hosts")
    assert docker_cp(source, f"{box.box}:/etc/hosts").returncode != 0
    assert box.sh("cat /etc/hosts") == before


def test_a_mount_point_here(host, box, tmp_path):  # noqa: F811
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    box.sh("mkdir -p /from; printf new >/from/src")
    real, point = tmp_path / "real", tmp_path / "point"
    for path in (real, point):
        path.write_text("old")
        path.chmod(0o640)
    done = subprocess.run(["mount", "--bind", real, point],
                          capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount: {done.stderr.decode()}")
    events = tmp_path / "events"
    try:
        done = host.run("cp", "--json", str(events), f"{box}:/from/src",
                        str(point))
        assert done.status == 0 and os.path.samefile(real, point), done
    finally:
        subprocess.run(["umount", point], check=True)
    end = json.loads(events.read_text().splitlines()[-1])
    assert end["atomic"] is False
    assert real.read_text() == "new" and point.read_text() == "old"
    assert real.stat().st_mode & 0o7777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["events", "point", "real"]


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_link_as_source(host, box, tmp_path, way):  # noqa: F811
    """docker cp copies the link, and what it leads to with -L; we the file,
    and with -r the link, and with -rL what it leads to."""
    path = prepare(box, "printf new >src; ln -s src l; ln -s no dangling")
    here = tmp_path / "here"
    here.mkdir()
    (here / "src").write_bytes(b"new")
    (here / "l").symlink_to("src")
    (here / "dangling").symlink_to("no")
    ours, theirs = f"{box}:{path}", f"{box.box}:{path}"

    def where(far, name, to):
        pair = [f"{here}/{name}", f"{far}/{to}"] if way == "up" else \
            [f"{far}/{name}", f"{here}/{to}"]
        return pair

    def is_link(to):
        if way == "up":
            return box.sh(f"test -L {path}/{to} && echo y || :") == b"y\n"
        return (here / to).is_symlink()

    for run, words, far, links in (
            (host.run, ("cp",), ours, False),
            (host.run, ("cp", "-r"), ours, True),
            (host.run, ("cp", "-rL"), ours, False),
            (docker_cp, (), theirs, True), (docker_cp, ("-L",), theirs,
                                            False)):
        to = "to" + "".join(words).replace("-", "") + ("d" if far == theirs
                                                       else "s")
        done = run(*words, *where(far, "l", to))
        status = done.status if run == host.run else done.returncode
        assert status == 0 and is_link(to) is links, (words, done)
    done = host.run("cp", *where(ours, "dangling", "no2"))
    assert done.status == 1 and b"ENOENT" in done.err, done


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_directory_takes_r(host, box, tmp_path, way):  # noqa: F811
    """docker cp copies one without being asked."""
    path = prepare(box, "mkdir d; printf new >d/f")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"new")
    for src in ("d", "d/", "d/."):
        pair = [f"{tmp_path}/{src}", f"{path}/to"]
        pair[way == "up"] = f"{box}:{pair[way == 'up']}"
        if way == "down":
            pair = [f"{box}:{path}/{src}", f"{tmp_path}/to"]
        done = host.run("cp", *pair)
        assert done.status == 1 and b"EISDIR" in done.err, done
        assert b"to" not in box.sh(f"ls {path}").split()
        assert not (tmp_path / "to").exists()
        done = docker_cp(*(x.removeprefix("docker:") for x in pair))
        assert done.returncode == 0, done
        box.sh(f"rm -rf {path}/to")
        subprocess.run(["rm", "-rf", tmp_path / "to"], check=True)


def test_a_keeps_what_docker_keeps(host, box, tmp_path):  # noqa: F811
    """docker cp keeps mode and time without -a, and makes it root's; here
    that, and more, takes -a, and it belongs to whoever writes it."""
    path = prepare(box, "chmod 777 .; printf new >f; chown 7:8 f; "
                   "chmod 4751 f; touch -d @1000 f")
    sent = tmp_path / "f"
    sent.write_bytes(b"new")
    sent.chmod(0o751)
    os.utime(sent, (1000, 1000))
    far = f"{box}:{path}"
    assert docker_cp(sent, f"{box.box}:{path}/docker").returncode == 0
    for words in (("-u", "1000:1001", sent, f"{far}/plain"),
                  ("-u", "1000:1001", "-a", sent, f"{far}/kept")):
        done = host.run("cp", *map(str, words))
        assert done.status == 0, done
    assert box.sh(f"cd {path}; stat -c '%n %a %u:%g' docker plain kept") == (
        b"docker 751 0:0\nplain 751 1000:1001\nkept 751 1000:1001\n")
    assert box.sh(f"cd {path}; stat -c %Y docker kept") == b"1000\n1000\n"
    assert box.sh(f"cd {path}; stat -c %Y plain") != b"1000\n"
    assert docker_cp("-a", f"{box.box}:{path}/f",
                     tmp_path / "docker").returncode == 0
    done = host.run("cp", "-a", f"{far}/f", str(tmp_path / "kept"))
    assert done.status == 0, done
    theirs, ours = ((tmp_path / n).stat() for n in ("docker", "kept"))
    assert theirs.st_mtime == ours.st_mtime == 1000
    assert theirs.st_mode & 0o777 == ours.st_mode & 0o777 == 0o751
    if os.getuid() == 0:
        assert (ours.st_uid, ours.st_gid) == (7, 8)

# SPDX-License-Identifier: MIT
"""cp -r: trees arrive exact, or nothing does; docker cp's rules; what is
skipped is said; nothing stays under a temporary name."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess

import pytest
from docker_fixture import docker_program, remove, start
from spine import MIB, QEMU, get_target, wait_for
# pylint: disable=unused-import
from spine import host, new_host, shared_host, target       # noqa: F401

ROOT = os.geteuid() == 0
SIZES = (0, 1, 65535, 65536, 65537, 131072, MIB + 3)
NAMES = (b"a b", b"new\nline", b"\xff\xfe", b"-rf", b".hidden", b"x:y",
         b"\x1b[2J", b"'\"$`\\", b"n" * 240)      # fuse-overlayfs has no 255


def build(top):
    """A tree with everything that is hard about trees."""
    top.mkdir()
    for i, size in enumerate(SIZES):
        (top / f"size{i}").write_bytes(os.urandom(size))
    for i, name in enumerate(NAMES):
        path = os.fsencode(top) + b"/" + name
        with open(path, "wb") as f:
            f.write(b"%d" % i)
        inside = os.fsencode(top) + b"/" + name[:200] + b" d"
        os.mkdir(inside)
        with open(inside + b"/" + name, "wb") as f:
            f.write(name)
    (top / "empty").mkdir()
    (top / "deep").mkdir()
    (top / "deep" / "er").mkdir()
    for name, text in (("relative", "../size1"), ("absolute", "/etc/passwd"),
                       ("dangling", "nowhere/at all"), ("dir", "deep"),
                       ("out", "../../../../etc"), ("long", "l" * 4000)):
        (top / f"link-{name}").symlink_to(text)
    os.link(top / "size1", top / "deep" / "twin")
    os.link(top / "size1", top / "deep" / "er" / "triplet")
    os.link(top / "size6", top / "deep" / "big-twin")
    for mode in (0o400, 0o755, 0o4755, 0o2711, 0o600):
        path = top / f"mode{mode:o}"
        path.write_text("x")
        path.chmod(mode)
    for mode in (0o555, 0o700, 0o1777, 0o2755):
        path = top / f"dirmode{mode:o}"
        path.mkdir()
        (path / "in").write_text("in")
        path.chmod(mode)
    for directory, _, names in os.walk(os.fsencode(top), topdown=False):
        for i, name in enumerate(names):
            when = 1_000_000_000 * (500_000_000 + i) + 123_456_789
            os.utime(directory + b"/" + name, ns=(when, when),
                     follow_symlinks=False)
        os.utime(directory, ns=(10 ** 18 + 7, 10 ** 18 + 7))
    return top


def picture(top, setid=False):
    """{path: all that is to be kept}, and the sets of hard-linked paths."""
    top, found, twins = os.fsencode(top), {}, {}
    mask = 0o7777 if setid else 0o1777
    for directory, dirs, files in os.walk(top):
        for name in [b"."] + dirs + files:
            path = directory + b"/" + name
            st = os.lstat(path)
            key = os.path.relpath(path, top)
            what = b""
            if stat.S_ISLNK(st.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    what = hashlib.sha256(f.read()).digest()
                if st.st_nlink > 1:
                    twins.setdefault(st.st_ino, set()).add(key)
            found[key] = (stat.S_IFMT(st.st_mode), st.st_mode & mask
                          if not stat.S_ISLNK(st.st_mode) else 0,
                          st.st_mtime_ns, what)
    return found, sorted(map(sorted, twins.values()))


def events(path):
    """The last one; the first says what is copied."""
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    assert lines[0]["event"] == "start" and lines[0]["tree"] is True
    assert [x["event"] for x in lines[1:-1]] == ["progress"] * (
        len(lines) - 2)
    assert lines[-1]["event"] == "end"
    assert lines[-1]["ok"] == (lines[-1]["status"] == 0)
    return lines[-1]


def parts(directory):
    return [n for _, dirs, files in os.walk(directory)
            for n in dirs + files if n.startswith((".sandmux-", ".part"))]


def parts_in(target, directory):
    return target.sh(f"find {directory} -name '.part*' || :").split()


@pytest.fixture
def here(tmp_path):
    yield tmp_path
    assert parts(tmp_path) == []
    subprocess.run(["chmod", "-R", "u+rwx", tmp_path], check=True)


# ---- exact -----------------------------------------------------------------

def test_both_ways(host, target, here):
    source = build(here / "src")
    there = target.path("tree")
    done = host.run("cp", "-r", str(source), f"{target}:{there}")
    assert (done.status, done.err) == (0, b""), done
    done = host.run("cp", "-r", "--json", str(here / "j"),
                    f"{target}:{there}", str(here / "back"))
    assert (done.status, done.err) == (0, b""), done
    assert picture(here / "back") == picture(source)
    assert stat.S_IMODE((here / "back/mode4755").stat().st_mode) == 0o755
    said = events(here / "j")
    every = [os.lstat(os.path.join(d, n)) for d, dirs, files in
             os.walk(os.fsencode(source)) for n in dirs + files]
    sizes = {st.st_ino: st.st_size for st in every if stat.S_ISREG(st.st_mode)}
    assert said["entries"] == len(every) + 1 and said["hard_links"] == 3
    assert said["files"] == len(sizes) and said["bytes"] == sum(
        sizes.values())
    assert said["skipped"] == [] and said["error"] is None
    target.sh(f"chmod -R u+rwx {there}; rm -r {there}")
    assert parts_in(target, target.tmp) == []


@pytest.mark.skipif(not ROOT or QEMU, reason="needs root")
def test_setuid_and_owner_when_asked(host, here):
    source = build(here / "src")
    os.chown(source / "size2", 1234, 4321)
    os.lchown(source / "link-dir", 1234, 4321)
    for up, down in (("a", "b"), ("c", "d")):
        kept = ("--keep-setuid", "--keep-owner") if up == "c" else ()
        assert host.run("cp", "-r", *kept, str(source),
                        f"local:{here / up}").status == 0
        assert host.run("cp", "-r", *kept, f"local:{here / up}",
                        str(here / down)).status == 0
        assert picture(here / down, up == "c") == (
            picture(source, True) if up == "c" else picture(source))
        for name in ("size2", "link-dir"):
            st = (here / down / name).lstat()
            assert (st.st_uid, st.st_gid) == (
                (1234, 4321) if up == "c" else (0, os.getegid()))
        assert bool((here / down / "mode4755").stat().st_mode & 0o4000) == (
            up == "c")


def test_image_without_anything(host, here):
    if QEMU:
        pytest.skip("under qemu only the local target is tested")
    docker_program()
    box = start("scratch-baked")
    try:
        source = build(here / "src")
        done = host.run("cp", "-r", str(source), f"docker:{box}:/t")
        assert done.status == 0, done
        done = host.run("cp", "-r", f"docker:{box}:/t", str(here / "back"))
        assert done.status == 0, done
        assert picture(here / "back") == picture(source)
    finally:
        remove(box)


def test_source_may_be_a_file_or_a_link(host, here):
    (here / "f").write_text("text")
    (here / "l").symlink_to("f")
    (here / "there").mkdir()
    for name in ("f", "l"):
        for dst in (f"as-{name}", ""):
            done = host.run("cp", "-r", str(here / name),
                            f"local:{here}/there/{dst}")
            assert done.status == 0, done
            at = here / "there" / (dst or name)
            assert at.is_symlink() == (name == "l")
            done = host.run("cp", "-r", f"local:{at}", str(here / "back"))
            assert done.status == 0, done
            assert (here / "back").is_symlink() == (name == "l")
            os.unlink(here / "back")


def test_a_link_is_followed_and_parents_made_when_asked(host, here):
    source = build(here / "src")
    (here / "link").symlink_to("src")
    for up in (True, False):
        words = [str(here / "link"), str(here / f"no{up}/such/dst")]
        words[up] = f"local:{words[up]}"
        done = host.run("cp", "-r", *words)
        assert done.status == 1 and b"ENOENT" in done.err, done
        assert host.run("cp", "-r", "-Lp", *words).status == 0
        assert picture(here / f"no{up}/such/dst") == picture(source)


def test_a_user_of_its_own(host, here):
    box = get_target("docker")
    source = build(here / "src")
    top = box.path("owned")
    box.sh(f"mkdir {top} && chown 4242:4243 {top}")
    done = host.run("cp", "-r", "-u", "4242:4243", str(source),
                    f"{box}:{top}/")
    assert done.status == 0, done
    # also what was hard-linked, made and renamed
    assert box.sh(f"find {top} -not -user 4242 -o -not -group 4243") == b""
    assert b"src" in box.sh(f"ls {top}")
    done = host.run("cp", "-r", "-u", "4242", str(source), f"{box}:/root/x")
    assert done.status == 1 and b"EACCES" in done.err, done


# ---- docker cp's rules -------------------------------------------------------

SOURCES = ("src", "src/", "src/.")
TARGETS = ("missing", "missing/", "dir", "dir/", "dir/.", "file", "file/",
           "link-to-dir", "link-to-dir/", "no-parent/x", "other")
# docker takes a local link to a directory for none here, but not without the
# slash; sandmux does the same with both.
DOCKER_FAILS = [("down", "src/.", "link-to-dir/")]
PREPARE = ("mkdir dir other other/src && echo old >file && "
           "ln -s dir link-to-dir && echo kept >other/src/kept && "
           "echo old >other/src/a && mkdir other/src/sub")


def make_source(top):
    (top / "sub").mkdir(parents=True)
    (top / "a").write_text("a")
    (top / "sub" / "b").write_text("b")
    (top / "l").symlink_to("a")


def listing(directory):
    found = {}
    for p in sorted(pathlib.Path(directory).rglob("*")):
        found[str(p.relative_to(directory))] = (
            os.readlink(p) if p.is_symlink() else
            p.read_text() if p.is_file() else None)
    return found


CASES = [(s, d) for s in SOURCES for d in TARGETS]
SOURCE = "mkdir -p src/sub && printf a >src/a && printf b >src/sub/b && " \
    "ln -s a src/l"


@pytest.mark.parametrize("way", ["up", "down"])
def test_rules_are_docker_cps(host, here, way):
    """Each case twice, by docker cp and by sandmux cp -r, side by side."""
    box = get_target("docker")
    there = box.path("rules")
    far, near = (PREPARE, SOURCE) if way == "up" else (SOURCE, PREPARE)
    dirs = " ".join(f"{p}{n}" for p in "ds" for n in range(len(CASES)))
    for run, top, script in ((box.sh, there, far), (lambda script: (
            subprocess.run(script, shell=True, check=True)), here, near)):
        run(f"mkdir -p {top} && cd {top} && for d in {dirs}; do mkdir $d && "
            f"cd $d && {script} && cd .. || exit 1; done")

    status = {}

    def one(i):
        """With docker first, then sandmux: d and s and the number."""
        n, (src, dst) = i // 2, CASES[i // 2]
        case = f"{'ds'[i % 2]}{n}"
        words = ([f"{here}/{case}/{src}", f"{box}:{there}/{case}/{dst}"]
                 if way == "up" else
                 [f"{box}:{there}/{case}/{src}", f"{here}/{case}/{dst}"])
        if i % 2 == 0:
            words = [w.removeprefix("docker:") for w in words]
            status[case] = subprocess.run(
                [docker_program(), "cp", *words], capture_output=True,
                check=False).returncode
        else:
            status[case] = host.run("cp", "-r", *words).status

    for i in range(2 * len(CASES)):
        one(i)
    seen = here
    if way == "up":
        seen = here / "seen"
        subprocess.run([docker_program(), "cp", f"{box.box}:{there}", seen],
                       check=True, capture_output=True)
    box.sh(f"rm -r {there}")
    for n, (src, dst) in enumerate(CASES):
        if (way, src, dst) in DOCKER_FAILS:
            assert status[f"d{n}"] != 0 and status[f"s{n}"] == 0
            continue
        theirs, ours = ((status[f"{p}{n}"] == 0, listing(seen / f"{p}{n}"))
                        for p in "ds")
        assert theirs == ours, (src, dst)


def test_what_is_in_the_way(host, here):
    """Of another kind: an error that names it, and it stays."""
    source, there = here / "src", here / "there"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "x").write_text("new")
    for make in (lambda p: p.write_text("old"), os.mkfifo,
                 lambda p: p.symlink_to("/tmp")):
        (there / "src").mkdir(parents=True)
        make(there / "src" / "sub")
        before = (there / "src" / "sub").lstat()
        done = host.run("cp", "-r", str(source), f"local:{there}")
        assert done.status == 1 and b"src/sub" in done.err.replace(
            b"there/sub", b"src/sub"), done
        after = (there / "src" / "sub").lstat()
        assert (before.st_ino, before.st_mode) == (after.st_ino,
                                                   after.st_mode)
        shutil.rmtree(there)
    (there / "src" / "sub" / "x").mkdir(parents=True)
    done = host.run("cp", "-r", str(source), f"local:{there}")
    assert done.status == 1 and b"EISDIR" in done.err, done
    shutil.rmtree(there)
    (there / "src" / "sub").mkdir(parents=True)
    os.mkfifo(there / "src" / "sub" / "x")
    done = host.run("cp", "-r", str(source), f"local:{there}")
    assert done.status == 1 and b"EEXIST" in done.err, done
    assert stat.S_ISFIFO((there / "src" / "sub" / "x").stat().st_mode)
    # A link in the way of a file is replaced, not followed.
    os.unlink(there / "src" / "sub" / "x")
    (here / "aside").write_text("aside")
    (there / "src" / "sub" / "x").symlink_to(here / "aside")
    done = host.run("cp", "-r", str(source), f"local:{there}")
    assert done.status == 0, done
    assert not (there / "src" / "sub" / "x").is_symlink()
    assert (here / "aside").read_text() == "aside"


def test_an_existing_directory_keeps_what_it_has(host, here):
    source, there = here / "src", here / "there"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "x").write_text("new")
    (source / "new").mkdir(mode=0o711)
    (there / "sub").mkdir(parents=True)
    (there / "sub" / "y").write_text("kept")
    there.chmod(0o1777)
    (there / "sub").chmod(0o750)
    assert host.run("cp", "-r", f"{source}/.", f"local:{there}").status == 0
    assert stat.S_IMODE(there.stat().st_mode) == 0o1777
    assert stat.S_IMODE((there / "sub").stat().st_mode) == 0o750
    assert listing(there) == {"sub": None, "sub/x": "new", "sub/y": "kept",
                              "new": None}


def test_a_file_that_may_not_be_written_stays(host, here):
    """Although its directory may: nothing is replaced behind its back."""
    box = get_target("docker")
    top = box.path("readonly")
    box.sh(f"mkdir -p {top}/src; echo old >{top}/src/b; chmod 444 "
           f"{top}/src/b; chown -R 4242 {top}")
    (here / "src").mkdir()
    (here / "src" / "b").write_text("new")
    done = host.run("cp", "-r", "-u", "4242", str(here / "src"),
                    f"{box}:{top}")
    assert done.status == 1 and b"EACCES" in done.err, done
    assert box.sh(f"cat {top}/src/b") == b"old\n"
    assert parts_in(box, top) == []


# ---- what cannot be read -------------------------------------------------------

@pytest.mark.parametrize("way", ["up", "down"])
def test_special_files(host, here, way):
    source = here / "src"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "x").write_text("x")
    os.mkfifo(source / "sub" / "pi\npe")
    os.mkfifo(source / "z")
    words = [str(source), str(here / "dst")]
    words[way == "up"] = f"local:{words[way == 'up']}"
    done = host.run("cp", "-r", *words)
    assert done.status == 1 and b"EOPNOTSUPP" in done.err, done
    assert done.err.count(b"\n") == 1 and (
        b"pi\\npe" in done.err or b"src/z" in done.err), done
    assert not (here / "dst").exists()
    done = host.run("cp", "-r", "--skip-unreadable", "--json",
                    str(here / "j"), *words)
    assert done.status == 1, done
    assert b"sub/pi\\npe" in done.err and b"2 skipped" in done.err, done
    assert listing(here / "dst") == {"sub": None, "sub/x": "x"}
    said = events(here / "j")
    assert sorted(s["path"] for s in said["skipped"]) == ["sub/pi\npe", "z"]
    assert said["status"] == 1 and said["skipped_count"] == 2


def test_unreadable_down(host, here):
    box = get_target("docker")
    top = box.path("secret")
    box.sh(f"mkdir -p {top}/closed {top}/open; echo x >{top}/open/x; "
           f"echo s >{top}/open/secret; chmod 600 {top}/open/secret; "
           f"chmod 700 {top}/closed")
    words = ["-u", "4242", f"{box}:{top}", str(here / "dst")]
    done = host.run("cp", "-r", *words)
    assert done.status == 1 and b"EACCES" in done.err, done
    assert b"/secret" in done.err or b"/closed" in done.err, done
    assert not (here / "dst").exists()
    done = host.run("cp", "-r", "--skip-unreadable", *words)
    assert done.status == 1 and b"2 skipped" in done.err, done
    assert listing(here / "dst") == {"open": None, "open/x": "x\n"}


@pytest.mark.parametrize("words", [
    ["/nowhere/a", "local:/tmp/sandmux-no"],
    ["local:/nowhere/a", "/tmp/sandmux-no"],
    ["/etc", "local:/nowhere/x/y"], ["local:/etc/alternatives",
                                     "/nowhere/x/y"],
    ["/dev/null", "local:/tmp/sandmux-no"],
    ["local:/dev/null", "/tmp/sandmux-no"],
    ["/etc/hostname", "local:/dev/null"],
    ["local:/etc/hostname", "/dev/null"]])
def test_errors(host, words):
    done = host.run("cp", "-r", *words)
    assert done.status == 1 and done.err.count(b"\n") == 1, done
    assert done.err.startswith(b"sandmux: cp: cannot "), done
    assert not os.path.lexists("/tmp/sandmux-no")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# ---- cut off -----------------------------------------------------------------

def big_tree(top):
    """Slow enough to be interrupted: much of it, and files before it."""
    (top / "d").mkdir(parents=True)
    for i in range(300):
        (top / "d" / f"f{i}").write_text("x")
    with open(top / "big", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, 2 << 30)      # not a hole
    return top


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_upload_cut_off(host, target, here, how):
    source = big_tree(here / "src")
    top = target.path("cut")
    target.sh(f"mkdir {top}")
    client = host.popen("cp", "-r", str(source), f"{target}:{top}/new")
    wait_for("the temporary name", lambda: parts_in(target, top))
    client.send_signal(how)
    status = client.wait(timeout=60)
    assert status == (130 if how == signal.SIGINT else -9)
    wait_for("nothing to be left", lambda: target.sh(f"ls -A {top}") == b"")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_download_cut_off(host, here, how):
    source = big_tree(here / "src")
    (here / "dst").mkdir()
    client = host.popen("cp", "-r", f"local:{source}", str(here / "dst/new"))
    wait_for("the temporary name", lambda: os.listdir(here / "dst"))
    client.send_signal(how)
    status = client.wait(timeout=60)
    assert status == (130 if how == signal.SIGINT else -9)
    wait_for("nothing to be left", lambda: not os.listdir(here / "dst"))


def test_the_controller_dies(new_host, here):
    source = big_tree(here / "src")
    (here / "dst").mkdir()
    one = new_host("--linger 1")
    client = one.popen("cp", "-r", str(source), f"local:{here}/dst/new")
    wait_for("the temporary name", lambda: os.listdir(here / "dst"))
    os.kill(one.controllers()[0], signal.SIGKILL)
    assert client.wait(timeout=60) == 1
    wait_for("nothing to be left", lambda: not os.listdir(here / "dst"))


@pytest.mark.parametrize("way", ["up", "down"])
def test_no_space(host, here, way):
    """A full disk in the middle: nothing new stays, old files are whole."""
    if not ROOT or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "none",
             here], check=False, capture_output=True).returncode != 0:
        pytest.skip("no tmpfs to be mounted here")
    source = pathlib.Path(f"{here}-src")
    try:
        (source / "d").mkdir(parents=True)
        for i in range(30):
            (source / "d" / f"f{i}").write_bytes(b"n" * 65536)
        (here / "dst" / "d").mkdir(parents=True)
        (here / "dst" / "d" / "f7").write_text("old")
        for dst in ("new", "dst"):
            words = [f"{source}/.", f"{here}/{dst}"]
            words[way == "up"] = f"local:{words[way == 'up']}"
            done = host.run("cp", "-r", *words)
            assert done.status == 1 and b"ENOSPC" in done.err, done
            assert parts(here) == []
        assert os.listdir(here) == ["dst"]
        for path in (here / "dst" / "d").iterdir():
            assert path.read_bytes() in (b"old", b"n" * 65536)
    finally:
        shutil.rmtree(source, ignore_errors=True)
        subprocess.run(["umount", here], check=True)


@pytest.mark.parametrize("way", ["up", "down"])
def test_the_helper_is_killed(host, tmp_path, way):  # noqa: F811
    """The process that reads or writes the files here: it is named."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/big").write_bytes(os.urandom(32 << 20))
    words = [str(tmp_path / "src"), str(tmp_path / "dst")]
    words[way == "up"] = f"local:{words[way == 'up']}"
    client = host.popen("cp", "-r", *words)
    task = pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children")
    helper = int(wait_for("the helper", lambda: client.poll() is None and
                          task.read_text()).split()[0])
    os.kill(helper, signal.SIGKILL)
    assert client.wait(60) == 1
    assert b"the helper process died" in client.stderr.read()
    assert not (tmp_path / "dst").exists()

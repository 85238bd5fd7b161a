# SPDX-License-Identifier: MIT
"""Jobs as other users: what docker exec does is what we do, and what one
user has is out of another's reach.

The containers have the users alice, bob and homeless; root is in a group
too, so that it would show where root's groups leak.
"""
import hashlib
import json
import os
import pathlib
import pwd
import subprocess
import time

import pytest
import spine
from docker_fixture import docker_program
from jobs_client import CANCELLED, TTY, Jobs
from spine import (QEMU, SANDMUX, Docker, find, get_target,
                   host, marker, new_host, once,  # noqa: F401
                   shared_host, wait_for)  # noqa: F401

SET_UP = r"""
printf '%s\n' alice:x:1001:1001::/home/alice:/bin/bash \
    bob:x:1002:1002::/home/bob:/bin/sh 'homeless:x:1003:1003::/nowhere:' \
    4243:x:1004:1004::/:/bin/sh malformed:x:::: >>/etc/passwd
printf '%s\n' alice:x:1001: bob:x:1002: team:x:2001:alice,root,bob \
    onlya:x:2002:alice nobodys:x:2003:alicea,,xalice >>/etc/group
mkdir -p /home/alice /home/bob /private /alices /open
chown 1001:1001 /home/alice /alices
chown 1002:1002 /home/bob
chmod 0700 /home/alice /home/bob /private /alices
chmod 0777 /open
"""

pytestmark = pytest.mark.skipif(QEMU, reason="needs containers")


class Box(Docker):
    def __init__(self, *options):
        super().__init__("debian", *options)
        self.admin(SET_UP)

    def admin(self, script):
        done = subprocess.run(
            [docker_program(), "exec", "-u", "0", "-w", "/", self.box, "sh",
             "-ec", script], capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    def docker(self, *args):
        """What docker exec says: status, stdout."""
        done = subprocess.run([docker_program(), "exec", *args],
                              capture_output=True, check=False, timeout=60)
        return done.returncode, done.stdout


def box(*options):
    """A container that the tests share."""
    return once(("users", *options), lambda: Box(*options))


def user(host, where, who, script, *more, **kw):  # noqa: F811
    return host.exec(where, "sh", "-c", script, *more, opts=("-u", who), **kw)


IDS = "id -u; id -g; id -G; grep -E '^(Uid|Gid|Groups|Cap)' /proc/self/status"


# ---- as docker exec -------------------------------------------------------

@pytest.mark.parametrize("who", [
    "root", "0", "0:0", "0:5", "root:team", "alice", "1001", "+1001", "01001",
    "1001:1002", "alice:team", "alice:2002", "alice:4242", "alice:", "bob",
    "4242", "4242:4343", "4242:team", "4243", "homeless", "1003", "65534",
    "nobody", "2147483647", "2147483647:2147483647", ":team", ":4242"])
def test_ids_are_dockers(host, who):  # noqa: F811
    where = box()
    status, said = where.docker("-u", who, where.box, "sh", "-c", IDS)
    assert status == 0
    done = user(host, where, who, IDS)
    assert (done.status, done.out) == (0, said), done


ADDED = ("--group-add", "2001", "--group-add", "audio", "--group-add",
         "4242")


@pytest.mark.parametrize("who", [
    None, "root", "0:5", "alice", "alice:team", "4242", "1001:1002", ":team",
    "homeless"])
def test_added_groups_are_dockers(host, who):  # noqa: F811
    """docker run --group-add: every user of the container has them."""
    where = box(*ADDED)
    opts = () if who is None else ("-u", who)
    status, said = where.docker(*opts, where.box, "sh", "-c", IDS)
    assert status == 0 and {b"29", b"2001", b"4242"} <= set(
        said.split(b"\n")[2].split())
    done = host.exec(where, "sh", "-c", IDS, opts=opts)
    assert (done.status, done.out) == (0, said), done


def test_added_groups_open_files(host, tmp_path):  # noqa: F811
    where, mine = box(*ADDED), tmp_path / "f"
    where.admin("mkdir -p /audios; chmod 0770 /audios; chgrp audio /audios")
    mine.write_bytes(b"hello")
    assert host.run("cp", "-u", "bob", str(mine),
                    f"{where}:/audios/f").status == 0
    assert host.run("cp", "-u", "bob", f"{where}:/audios/f", "-").out == (
        b"hello")
    assert host.run("fs", "ls", "-u", "bob", f"{where}:/audios").status == 0


def test_root_groups_do_not_leak(host):  # noqa: F811
    where = box()
    assert user(host, where, "root", "id -G").out == b"0 2001\n"
    assert user(host, where, "4242", "id -G").out == b"0\n"
    assert user(host, where, "homeless", "id -G").out == b"1003\n"


@pytest.mark.parametrize("who, text", [
    ("mallory", "unable to find user mallory: no matching entries in passwd "
     "file"),
    ("mallory:team", "unable to find user mallory: no matching entries in "
     "passwd file"),
    ("malformed", "unable to find user malformed: no matching entries in "
     "passwd file"),
    ("alice:nogroup-x", "unable to find group nogroup-x: no matching entries "
     "in group file"),
    ("4242:nogroup-x", "unable to find group nogroup-x: no matching entries "
     "in group file"),
    ("4294967295", "uids and gids must be in range 0-2147483647"),
    ("2147483648", "uids and gids must be in range 0-2147483647"),
    ("-1", "uids and gids must be in range 0-2147483647"),
    ("alice:4294967295", "uids and gids must be in range 0-2147483647")])
def test_unknown(host, who, text):  # noqa: F811
    where = box()
    done = user(host, where, who, "echo it ran")
    assert done.status == 126 and done.out == b"", done
    assert text in done.err.decode() and done.err.count(b"\n") == 1, done


def test_files_are_read_at_that_moment(host):  # noqa: F811
    where = box()
    assert user(host, where, "late", ":").status == 126
    where.admin("echo late:x:1010:1010::/:/bin/sh >>/etc/passwd")
    assert user(host, where, "late", "id -u").out == b"1010\n"
    where.admin("sed -i s/late:x:1010/late:x:1011/ /etc/passwd")
    assert user(host, where, "late", "id -u").out == b"1011\n"


def test_bad_passwd_stalls_only_its_own(new_host):  # noqa: F811
    """A fifo, a device, nothing: said at once, and all else goes on.  (Not
    by docker exec: a fifo there hangs Docker itself.)"""
    where, host = Box(), new_host()  # noqa: F811
    assert user(host, where, "alice", "id -u").out == b"1001\n"
    for make in ("mkfifo /etc/passwd", "ln -s /dev/zero /etc/passwd",
                 "mkdir /etc/passwd"):
        done = host.sh(where, "mv /etc/passwd /etc/kept; " + make)
        assert done.status == 0, done
        done = user(host, where, "alice", ":")
        assert done.status == 126, done
        assert b"/etc/passwd is not a regular file" in done.err, done
        done = host.sh(where, "rm -rf /etc/passwd; mv /etc/kept /etc/passwd")
        assert done.status == 0, done
    assert host.sh(where, "rm /etc/passwd /etc/group").status == 0
    assert user(host, where, "4242:4343", "id -u; id -g").out == (
        b"4242\n4343\n")
    assert user(host, where, "alice", ":").status == 126


# ---- environment, directory, stdio ------------------------------------------

ENV = "env | grep -E '^(HOME|USER|LOGNAME|SHELL)=' | sort"


def test_environment(host):  # noqa: F811
    where = box()
    assert user(host, where, "alice", ENV).out.split() == [
        b"HOME=/home/alice", b"LOGNAME=alice", b"SHELL=/bin/bash",
        b"USER=alice"]
    # What no entry tells is not set, and never root's own.
    for at in (where, *(["local"] if os.geteuid() == 0 else [])):
        assert user(host, at, "424242", ENV).out == b"HOME=/\n"
    given = host.exec(where, "sh", "-c", ENV, opts=(
        "-u", "alice", "-e", "HOME=/h", "-e", "USER=u", "--unset", "SHELL"))
    assert given.out.split() == [b"HOME=/h", b"LOGNAME=alice", b"USER=u"]
    # Nobody asked for: as docker exec.
    assert host.sh(where, ENV).out == b"HOME=/root\n"


@pytest.mark.parametrize("options", [
    ("--user", "1001"), ("--user", "alice"), ("--user", "alice:team"),
    ("--user", "4242"), ("--user", "0:5"), ("--user", "root"), ADDED,
    ("--user", "alice", *ADDED), ("--user", "4242", *ADDED),
    ("--user", "alice", "-e", "HOME=/elsewhere"),
    ("--user", "alice", "-e", "HOME="),
    ("--user", "bob", "-w", "/open", "-e", "A=b")],
    ids=" ".join)
@pytest.mark.parametrize("caps", [(), ("--cap-drop", "ALL")],
                         ids=["caps", "no-caps"])
def test_default_user_is_dockers(new_host, options, caps):  # noqa: F811
    """Ids, environment and directory; the container starts before its
    users exist, so its own command must not need them."""
    where, host = late_box(*options, *caps), new_host()  # noqa: F811
    script = IDS + "; env | grep -v ^_= | sort; pwd; umask"
    status, said = where.docker(where.box, "sh", "-c", script)
    assert status == 0
    done = host.sh(where, script)
    assert (done.status, done.out) == (0, said), done
    wait_for("the agent's file to go", lambda: where.injected() == [])


def late_box(*options):
    """--user NAME needs the name in the image: commit one with our users."""
    def make():
        base, tag = box(), f"sandmux-test-users-{os.getpid()}:1"
        subprocess.run([docker_program(), "commit", base.box, tag],
                       check=True, capture_output=True)
        return tag
    tag = once("users-image", make)

    def start():
        name = f"sandmux-test-late-{os.getpid()}-{marker()}"
        subprocess.run([docker_program(), "run", "-d", "--name", name,
                        "--network", "none", *options, tag, "sleep",
                        "2147483647"], check=True, capture_output=True)
        late = Box.__new__(Box)
        late.box = name
        late.kind, late.name, late.tmp = "docker", f"docker:{name}", "/tmp"
        return late
    return once(("late", *options), start)


@pytest.fixture(scope="module", autouse=True)
def clean_up():
    yield
    for key, (value, _) in list(spine._once.items()):
        if key[0] == "late" and value is not None:
            subprocess.run([docker_program(), "rm", "-f", value.box],
                           capture_output=True, check=False)
    tag = spine._once.get("users-image", (None, None))[0]
    if tag:
        subprocess.run([docker_program(), "rmi", "-f", tag],
                       capture_output=True, check=False)


def test_directory(new_host, tmp_path):  # noqa: F811
    where, host = late_box("-w", "/private"), new_host()  # noqa: F811
    report = tmp_path / "r"

    def at(who, *opts):
        return host.exec(where, "pwd", opts=(
            "-u", who, "--json", str(report), *opts))
    assert at("root").out == b"/private\n"
    # Absent: the user's home, else /; and it is said.
    assert at("alice").out == b"/home/alice\n"
    assert "/home/alice" in report.read_text()
    assert at("homeless").out == b"/\n"
    assert at("4242").out == b"/\n"
    # Given: that or nothing.
    for bad in ("/private", "/nowhere", "relative"):
        done = at("alice", "-w", bad)
        assert done.status == 126 and done.out == b"", done
    assert at("alice", "-w", "/open").out == b"/open\n"
    where = late_box("-w", "/open")
    where.admin("mkdir -p /open/below")
    assert at("alice").out == b"/open\n"
    assert at("alice", "-w", "below").out == b"/open/below\n"


@pytest.mark.parametrize("who", ["root", "alice", "4242"])
def test_stdio_by_name(host, who):  # noqa: F811
    where = box()
    done = user(host, where, who, "echo o >/dev/stdout; "
                "echo e >/dev/stderr; cat /dev/stdin", input=b"in\n")
    assert (done.status, done.out, done.err) == (0, b"o\nin\n", b"e\n")


# ---- files ------------------------------------------------------------------

def test_copies_have_the_users_rights(host, tmp_path):  # noqa: F811
    where, mine = box(), tmp_path / "f"
    mine.write_bytes(b"hello")
    os.chmod(mine, 0o640)

    def cp(who, source, to):
        return host.run("cp", "-u", who, str(source), str(to))

    def stat(path):
        return where.admin(f"stat -c '%u:%g %a' {path}").decode().strip()
    assert cp("alice", mine, f"{where}:/home/alice/f").status == 0
    assert stat("/home/alice/f") == "1001:1001 640"
    assert cp("alice:team", mine, f"{where}:/home/alice/g").status == 0
    assert stat("/home/alice/g") == "1001:2001 640"
    done = cp("bob", mine, f"{where}:/home/alice/h")
    assert done.status == 1 and b"ermission denied" in done.err, done
    done = cp("bob", f"{where}:/home/alice/f", "-")
    assert done.status == 1 and done.out == b"", done
    assert cp("alice", f"{where}:/home/alice/f", "-").out == b"hello"
    # A file that is there is replaced only by who may write it.
    where.admin("cp /home/alice/f /open/roots; chmod 600 /open/roots")
    assert cp("alice", mine, f"{where}:/open/roots").status == 1
    assert cp("alice", f"{where}:/open/roots", "-").status == 1
    done = cp("mallory", mine, f"{where}:/open/x")
    assert b"unable to find user mallory: no matching entries in passwd " \
        b"file" in done.err and done.status == 1, done
    assert set(where.admin("ls -A /open").split()) <= {b"roots", b"below"}
    # Who is not asked for is the container's own user.
    late = late_box("--user", "alice")
    assert host.run("cp", str(mine), f"{late}:/home/alice/own").status == 0
    assert late.admin("stat -c '%u:%g %a' /home/alice/own") == (
        b"1001:1001 640\n")


# ---- privilege ----------------------------------------------------------------

def link_of(host, where):  # noqa: F811
    done = host.run("doctor", "--json", str(where))
    assert done.status == 0, done
    return json.loads(done.out)["link"]


def test_no_capability(new_host):  # noqa: F811
    """The image's user is enough for itself, and says what it lacks."""
    where = late_box("--user", "alice", "--cap-drop", "ALL")
    host = new_host()  # noqa: F811
    assert host.sh(where, "id -u").out == b"1001\n"
    told = link_of(host, where)
    assert (told["uid"], told["switches"]) == (1001, False)
    assert "root cannot become other users" in host.log()
    for own in ("alice", "1001", "1001:1001"):
        assert user(host, where, own, "id -u").out == b"1001\n", own
    for other in ("bob", "root", "0", "4242", "alice:team"):
        done = user(host, where, other, "echo it ran")
        assert done.status == 125 and done.out == b"", done
        assert b"CAP_SETUID and CAP_SETGID" in done.err, done
    done = host.run("doctor", str(where))
    assert b"can switch users        false" in done.out, done


def test_a_directory_that_root_cannot_enter(new_host):  # noqa: F811
    """runc enters it before anything of ours runs."""
    where = late_box("--user", "alice", "--cap-drop", "ALL", "-w", "/alices")
    assert new_host().exec(where, "pwd").out == b"/alices\n"


def test_root_alone_without_capability(new_host):  # noqa: F811
    where = late_box("--cap-drop", "ALL")
    host = new_host()  # noqa: F811
    assert host.sh(where, "id -u").out == b"0\n"
    assert user(host, where, "root", "id -u").out == b"0\n"
    assert user(host, where, "alice", ":").status == 125


@pytest.mark.parametrize("end", ["timeout", "client"])
def test_switch_without_kill(new_host, end):  # noqa: F811
    """No KILL, no CHOWN: the whole tree ends all the same."""
    where = late_box("--user", "alice", "--cap-drop", "ALL", "--cap-add",
                     "SETUID", "--cap-add", "SETGID")
    host, mark = new_host(), marker()  # noqa: F811
    script = (f"trap '' TERM; setsid sleep {mark} & (sleep {mark} &) ; "
              f"echo ready; sleep {mark}; sleep {mark}")
    assert host.sh(where, "id -u").out == b"1001\n"
    assert link_of(host, where)["uid"] == 0
    for who in ("alice", "bob"):
        if end == "timeout":
            done = host.exec(where, "sh", "-c", script, opts=(
                "-u", who, "--timeout", "300ms"))
            assert done.status == 124 and done.out == b"ready\n", done
        else:
            client = host.popen("exec", "-u", who, str(where), "--", "sh",
                                "-c", script)
            assert client.stdout.readline() == b"ready\n"
            client.kill()
            client.wait()
        wait_for("the tree's end", lambda: find(mark) == [], 15)
    assert host.sh(where, "echo on").out == b"on\n"


def test_no_new_privileges(new_host):  # noqa: F811
    where = late_box("--security-opt", "no-new-privileges")
    script = "id -u; grep NoNewPrivs /proc/self/status"
    done = user(new_host(), where, "alice", script)
    assert done.out.split() == [b"1001", b"NoNewPrivs:", b"1"]


def test_agent_user(new_host):  # noqa: F811
    where, host = late_box("--user", "alice"), new_host()  # noqa: F811
    image = {"SANDMUX_AGENT_USER": "image"}
    assert host.sh(where, "id -u", env=image).out == b"1001\n"
    done = user(host, where, "bob", ":", env=image)
    assert done.status == 125 and b"CAP_SETUID" in done.err, done
    # Another link: that one's agent is another.
    root = {"SANDMUX_AGENT_USER": "root"}
    assert user(host, where, "bob", "id -u", env=root).out == b"1002\n"
    assert host.sh(where, "id -u", env=root).out == b"1001\n"
    assert len(host.status()["links"]) == 2
    done = host.sh(where, ":", env={"SANDMUX_AGENT_USER": "Root"})
    assert done.status == 125, done
    assert b"SANDMUX_AGENT_USER" in done.err and b"root or image" in done.err
    # Forced, it stays root, and says what it cannot do.
    where = late_box("--user", "alice", "--cap-drop", "ALL")
    done = host.sh(where, ":", env=root)
    assert done.status == 125 and b"runs as uid 0" in done.err, done
    assert user(host, where, "0", "id -u", env=root).out == b"0\n"


def test_image_agent_is_removed(new_host):  # noqa: F811
    """Its own user cannot remove it from /: root's helper does."""
    where, host = late_box("--user", "alice"), new_host()  # noqa: F811
    env = {"SANDMUX_AGENT_USER": "image"}
    assert host.sh(where, ":", env=env).status == 0
    wait_for("the agent's file to go", lambda: where.injected() == [])


# ---- two users in one container ---------------------------------------------

def test_users_are_apart(new_host):  # noqa: F811
    where, host, mark = late_box(), new_host(), marker()  # noqa: F811
    client = host.popen("exec", "-u", "alice", "-e", "SECRET=s3cret",
                        str(where), "--", "sh", "-c",
                        "umask 077; echo mine >/open/secret; echo $$; "
                        f"sleep {mark}; :")
    pid = int(client.stdout.readline())
    session = host.session(where).decode()
    script = (
        f"cat /open/secret; cat /proc/{pid}/environ; ls /proc/{pid}/fd/; "
        f"kill -0 {pid}; kill -9 {pid}; kill -9 -{pid}; "
        f"echo x >/proc/{pid}/fd/1; "
        "for p in $(grep -la " + session + " /proc/[0-9]*/cmdline); do "
        "p=${p%/cmdline}; [ $p = /proc/$$ ] && continue; echo agent; "
        "cat $p/environ; ls $p/fd/; cat $p/maps; echo x >$p/fd/0; "
        # (Its own init it may kill; that is another test.)
        "grep -q \"^Uid:.$(id -u)\" $p/status || kill -9 ${p#/proc/}; "
        "done; exit 0")
    for who in ("bob", "4242", "alice"):
        if who == "alice":      # herself: only what is the agent's
            script = script[script.index("for p"):]
        done = user(host, where, who, script)
        assert done.status == 0 and b"s3cret" not in done.out, done
        # The stub, the core and two inits, and not a word of theirs.
        assert set(done.out.split()) == {b"agent"}, done
    assert user(host, where, "alice", f"cat /open/secret; kill -0 {pid}").out \
        == b"mine\n"
    assert client.poll() is None and find(mark) != []
    assert host.sh(where, "rm /open/secret").status == 0


@pytest.mark.parametrize("who", ["alice", "4242", "root"])
def test_terminals_are_apart(new_host, who):  # noqa: F811
    """A job's terminal is its user's: by name too, and nobody else's."""
    where, host = box(), new_host()  # noqa: F811
    jobs = Jobs(host, where)
    job = jobs.sh("tty; echo out >/dev/stdout; echo err >/dev/stderr; "
                  "echo tty >/dev/tty; sleep 60", user=who, flags=TTY)
    job.until(b"\r\ntty\r\n")
    path, *said = job.out.decode().split()
    assert path.startswith("/dev/pts/") and said == ["out", "err", "tty"]
    owner = "0" if who == "root" else who.replace("alice", "1001")
    assert where.admin(f"stat -c %u {path}").decode().strip() == owner
    for other in ("bob", "4343"):
        tried = jobs.sh(f"(exec 3<{path}) && echo read; (exec 3>{path}) && "
                        f"echo written; (exec 3<>{path}) && echo both; :",
                        user=other).wait()
        assert (tried.status, tried.stdout) == (0, b""), tried
        assert tried.stderr.count(b"ermission denied") == 3, tried
    job.cancel()
    assert job.wait().outcome == CANCELLED
    jobs.close()


# ---- the record of who ran what -----------------------------------------------

def record(host, where):  # noqa: F811
    full = subprocess.run(
        [docker_program(), "inspect", "--format={{.Id}}", where.box],
        check=True, capture_output=True, text=True).stdout.strip()
    name = hashlib.blake2b(full.encode(), digest_size=32).hexdigest()[:32]
    return (host.top / "state/sandmux/trust" / f"docker-{name}"), full


@pytest.mark.parametrize("options, harmless, telling", [
    ((), ("-u", "4242"), ()), ((), ("-u", "4242:0"), ("-u", "0")),
    ((), ("-u", "1001"), ("-u", "alice")),
    (("--user", "1001"), (), ("-u", "00")),
    (("--user", "1001:1001"), (), ("-u", "root")),
    (("--user", "alice"), ("-u", "1001"), ())])
def test_trust(new_host, options, harmless, telling):  # noqa: F811
    """A job that cannot be the agent's uid does not make its start less
    trusted; all others do."""
    where, host = late_box(*options), new_host()  # noqa: F811
    path, full = record(host, where)
    path.parent.mkdir(parents=True)
    path.write_text(f"fresh\ndocker:{full}\n")
    assert host.exec(where, "id", opts=(*harmless, "--require-same-agent")
                     ).status == 0
    assert path.read_text().startswith("fresh\n")
    assert host.run("stop").status == 0
    assert host.exec(where, "id", opts=(*harmless, "--require-same-agent")
                     ).status == 0
    assert path.read_text().startswith("fresh\n")
    assert host.exec(where, "id", opts=telling).status == 0
    assert path.read_text().startswith("used\n")
    assert host.run("stop").status == 0
    done = host.exec(where, "id", opts=(*harmless, "--require-same-agent"))
    assert done.status == 125, done


# ---- local ------------------------------------------------------------------

@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_local(host):  # noqa: F811
    daemon = pwd.getpwnam("daemon")
    groups = {daemon.pw_gid, *os.getgrouplist("daemon", daemon.pw_gid)}
    done = user(host, "local", "daemon", "id -u; id -g; id -G; echo $HOME $USER")
    uid, gid, all_groups, names = done.out.decode().splitlines()
    assert (int(uid), int(gid)) == (daemon.pw_uid, daemon.pw_gid)
    assert set(map(int, all_groups.split())) == groups
    assert names == f"{daemon.pw_dir} daemon"
    assert user(host, "local", "424242:434343", "id -u; id -G").out == (
        b"424242\n434343\n")
    assert user(host, "local", "no-such-user", ":").status == 126
    secret = pathlib.Path(get_target("local").tmp) / marker()
    secret.write_text("x")
    os.chmod(secret, 0o600)
    done = user(host, "local", "daemon", f"cat {secret}; kill -0 {os.getpid()}")
    assert done.out == b"" and done.status != 0
    # The client's own user, by all of its names, is nothing to switch to.
    assert user(host, "local", "0", "id -u").out == b"0\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be nobody")
def test_local_unprivileged():
    """A controller that is nobody's: itself, and nobody else."""
    top = pathlib.Path("/tmp") / f"users-{marker()}"
    top.mkdir(mode=0o755)
    nobody = pwd.getpwnam("nobody")
    for name in ("run", "state", "home"):
        (top / name).mkdir(mode=0o700)
        os.chown(top / name, nobody.pw_uid, nobody.pw_gid)
    program = top / "sandmux"
    program.write_bytes(pathlib.Path(SANDMUX).read_bytes())
    program.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "HOME": str(top / "home"),
           "SANDMUX_DIR": str(top / "run"),
           "XDG_STATE_HOME": str(top / "state")}

    def run(*args):
        return subprocess.run([str(program), *args], env=env,
                              cwd="/", user=nobody.pw_uid,
                              group=nobody.pw_gid, extra_groups=[],
                              capture_output=True, timeout=60, check=False)
    try:
        for own in ("nobody", str(nobody.pw_uid),
                    f"{nobody.pw_uid}:{nobody.pw_gid}"):
            done = run("exec", "-u", own, "local", "--", "id", "-u")
            assert done.stdout == b"%d\n" % nobody.pw_uid, done
        for other in ("root", "daemon", "4242", "nobody:daemon"):
            done = run("exec", "-u", other, "local", "--", "id", "-u")
            assert done.returncode == 125 and done.stdout == b"", done
            assert b"has no CAP_SETUID and CAP_SETGID" in done.stderr, done
        assert run("exec", "-u", "nonono", "local", "--",
                   "id").returncode == 126
    finally:
        run("stop")
        time.sleep(0.2)
        subprocess.run(["rm", "-rf", str(top)], check=False)

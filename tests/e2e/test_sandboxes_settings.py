# SPDX-License-Identifier: MIT
"""A sandbox's settings hold for whatever a client asks of it, and a job sees
nothing that names sandmux but the agent, whose name can be chosen."""
import json
import pathlib
import re
import subprocess

import pytest
from sandboxes import boxes, config, kind, remote  # noqa: F401
from spine import (docker_program, find, image, marker, processes,
                   wait_for)


def test_workdir(boxes, kind, tmp_path):  # noqa: F811
    """Made if missing; relative paths and no path begin there."""
    where = {"local": "a/b", "docker": "/work/a/b", "podman": "/work/a/b",
             "openshell": "/sandbox/a/b"}[kind]
    one = boxes.up(config(kind, workdir=where))[0]
    name, full = one["name"], one["workdir"]
    assert full.endswith(where)
    assert boxes.exec(name, "pwd").out.decode() == full + "\n"
    boxes.sh(name, "mkdir sub; echo 1 >sub/f")
    assert boxes.exec(name, "pwd", opts=("-w", "sub")).out.decode() == \
        f"{full}/sub\n"
    assert boxes.exec(name, "pwd", opts=("-w", "/")).out == b"/\n"
    local = tmp_path / "up"
    local.write_bytes(b"bytes")
    assert boxes.run("cp", str(local), f"{name}:sub/g").status == 0
    assert boxes.run("cp", f"{name}:sub/g", "-").out == b"bytes"
    assert boxes.run("cp", f"{name}:{full}/sub/g", "-").out == b"bytes"
    tree = tmp_path / "tree"
    (tree / "x").mkdir(parents=True)
    (tree / "x/y").write_text("deep")
    assert boxes.run("cp", "-r", str(tree), f"{name}:sub/t").status == 0
    assert boxes.run("cp", "-r", f"{name}:sub/t",
                     str(tmp_path / "back")).status == 0
    assert (tmp_path / "back/x/y").read_text() == "deep"
    done = boxes.run("fs", "mv", f"{name}:sub/g", "sub/h")
    assert done.status == 0, done
    done = boxes.run("fs", "ls", "--json", f"{name}:sub")
    assert {e["name"] for e in json.loads(done.out)["entries"]} == {
        "f", "h", "t"}


def test_a_workdir_that_cannot_be(boxes, remote):  # noqa: F811
    done = boxes.try_up(config(remote, workdir="/proc/here"))
    assert done.status == 1 and b"/proc/here" in done.err, done
    assert boxes.there(remote) == [] and boxes.records() == []


def test_environment(boxes, kind):  # noqa: F811
    conf = config(kind, env={"A": "1", "B": "a 'b' \"c\" $d", "FROM": None,
                             "E": ""}, hide_env=["HIDE", "HOME"])
    if kind != "local":
        conf["exec_args"] = ["--env", "X=x", "--env=A=never"]
    name = boxes.up(conf, env={"FROM": "here"})[0]["name"]

    def env(*opts):
        out = boxes.exec(name, "env", opts=opts).out.decode()
        return dict(x.split("=", 1) for x in out.splitlines())
    has = env()
    assert (has["A"], has["B"], has["FROM"], has["E"]) == (
        "1", "a 'b' \"c\" $d", "here", "")
    assert "HOME" not in has and "HIDE" not in has
    if kind != "local":
        assert has["X"] == "x"
    # A request's own value goes over it, of a hidden one too.
    has = env("-e", "A=2", "-e", "HIDE=3")
    assert (has["A"], has["HIDE"]) == ("2", "3")
    # Secrets are in no argument list.
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"$d" not in path.read_bytes()
        except OSError:
            pass


def test_openshell_sandbox_is_hidden_by_default(boxes):  # noqa: F811
    conf = config("openshell")
    name = boxes.up(conf)[0]["name"]
    out = boxes.exec(name, "env").out
    assert b"OPENSHELL_SANDBOX" not in out and b"PATH=" in out
    shown = boxes.up({**conf, "hide_env": []})[0]["name"]
    assert b"OPENSHELL_SANDBOX=1" in boxes.exec(shown, "env").out


def test_user(boxes):  # noqa: F811
    conf = config("docker", user="4321:8765", workdir="/made/for")
    name = boxes.up(conf)[0]["name"]
    # Only root could make that, and it is the user's.
    assert boxes.sh(name, "id -u; id -g; echo x >f; stat -c %u f").out == \
        b"4321\n8765\n4321\n"
    assert boxes.exec(name, "id", "-u", opts=("-u", "0")).out == b"0\n"
    boxes.run("cp", "-", f"{name}:g", input=b"x")
    told = json.loads(boxes.run("fs", "stat", "--json", f"{name}:g").out)
    assert (told["uid"], told["gid"]) == (4321, 8765)
    assert boxes.ls()[name]["user"] == "4321:8765"


@pytest.mark.parametrize("who", ["root", "image"])
def test_whose_the_agent_is(boxes, who):  # noqa: F811
    """By the sandbox's own settings, whatever a client's variable says."""
    conf = config("docker", agent_user=who)
    conf["create_args"] += ["--user", "4321:8765"]
    name = boxes.up(conf)[0]["name"]
    for said in ("root", "image", ""):
        env = {"SANDMUX_AGENT_USER": said} if said else {}
        assert boxes.exec(name, "id", "-u", env=env).out == b"4321\n"
        done = boxes.exec(name, "id", "-u", opts=("-u", "99"), env=env)
        if who == "root":
            assert done.out == b"99\n", done
        else:
            assert done.status == 125 and b"CAP_SETUID" in done.err, done
    assert len(boxes.status()["links"]) == 1
    done = boxes.try_up(config("docker", agent_user="nobody"))
    assert done.status == 2 and b"agent_user is root or image" in done.err


def test_a_user_that_cannot_be(boxes, remote):  # noqa: F811
    done = boxes.try_up(config(remote, user="nobody-like-this"))
    assert done.status == 1, done
    assert b"nobody-like-this" in done.err or b"user" in done.err
    assert boxes.there(remote) == [] and boxes.records() == []


def test_limits_are_bounds(boxes, kind):  # noqa: F811
    name = boxes.up(config(kind, limits={"nofile": "100:200",
                                         "core": 0}))[0]["name"]
    ask = "ulimit -Sn; ulimit -Hn; ulimit -c"
    assert boxes.sh(name, ask).out == b"100\n200\n0\n"
    done = boxes.sh(name, ask, opts=("--limit", "nofile=50:60"))
    assert done.out == b"50\n60\n0\n"
    done = boxes.sh(name, ask, opts=("--limit", "nofile=150:9999", "--limit",
                                     "core=unlimited"))
    assert done.out == b"100\n200\n0\n"


def test_the_longest_time(boxes, kind):  # noqa: F811
    name = boxes.up(config(kind, timeouts={"exec": "1s"}))[0]["name"]
    mark = marker()
    assert boxes.exec(name, "sleep", mark).status == 124
    assert boxes.exec(name, "sleep", mark, opts=(
        "--timeout", "1h")).status == 124
    wait_for("no job", lambda: not find(mark), 10)
    assert boxes.exec(name, "sleep", "0.1").status == 0


def test_exec_args_reach_the_link(boxes, remote):  # noqa: F811
    """A flag is in the argv of the link's process; a bad one is an error in
    the CLI's words."""
    flag = {"docker": "--detach-keys=ctrl-x,x",
            "podman": "--detach-keys=ctrl-x,x",
            "openshell": "--workdir=/tmp"}[remote]
    name = boxes.up(config(remote, exec_args=[flag]))[0]["name"]
    links = [x for x in boxes.status()["links"] if x["state"] == "up"]
    assert flag.encode() in processes()[links[0]["pid"]][1]
    assert boxes.exec(name, "echo", "hi").out == b"hi\n"
    if remote != "openshell":
        bad = boxes.try_up(config(remote, exec_args=["--no-such-flag"]))
        assert bad.status == 1 and b"--no-such-flag" in bad.err, bad
        assert boxes.records() == [name]


def test_other_places(boxes):  # noqa: F811
    """Where it is was kept: another DOCKER_HOST in a terminal is nothing to
    a sandbox by its name."""
    name = boxes.up(config("docker"))[0]["name"]
    away = {"DOCKER_HOST": "unix:///nonexistent"}
    assert boxes.exec(name, "echo", "hi", env=away).out == b"hi\n"
    assert boxes.exec(f"docker:{name}", "true", env=away).status == 125
    # One link and one agent, from whatever terminal.
    other = {"SSH_AUTH_SOCK": "/x", "KUBECONFIG": "/y", "DOCKER_Z": "1"}
    assert boxes.exec(name, "echo", "hi", env=other).out == b"hi\n"
    assert len([x for x in boxes.status()["links"]
                if name in x["target"]]) == 1
    assert boxes.run("down", name, env=away).status == 0
    assert boxes.containers() == []


def test_a_container_of_its_name_that_is_another(boxes):  # noqa: F811
    name = boxes.up(config("docker"))[0]["name"]
    assert boxes.exec(name, "true").status == 0
    docker = docker_program()
    boxes.run("stop")
    subprocess.run([docker, "rm", "-f", name], check=True,
                   capture_output=True)
    subprocess.run([docker, "run", "-d", "--name", name, image("busybox")],
                   check=True, capture_output=True)
    try:
        done = boxes.exec(name, "true")
        assert done.status == 125 and b"another container" in done.err, done
        assert boxes.run("down", name).status == 0
        assert subprocess.run([docker, "inspect", name],
                              capture_output=True).returncode == 0
    finally:
        subprocess.run([docker, "rm", "-f", name], capture_output=True)


def test_trust(boxes, remote):  # noqa: F811
    """One that up has just made is proven to strict clients, as long as its
    session lasts."""
    name = boxes.up(config(remote))[0]["name"]
    strict = ("--require-same-agent",)
    for _ in range(3):
        assert boxes.exec(name, "true", opts=strict).status == 0
    boxes.run("stop")
    done = boxes.exec(name, "true", opts=strict)
    if remote == "openshell":   # its jobs have the agent's uid
        assert done.status == 125 and name.encode() in done.err
    assert boxes.run("down", name).status == 0
    trust = boxes.top / "state/sandmux/trust"
    assert list(trust.iterdir()) == []


NAMES = r"""
cat /proc/[0-9]*/comm /proc/[0-9]*/cmdline /proc/[0-9]*/environ \
    /proc/net/unix /proc/self/mountinfo 2>/dev/null | tr '\0' '\n'
env
find / -xdev 2>/dev/null
"""


@pytest.mark.parametrize("mode", [None, "inject"])
def test_nothing_names_sandmux(boxes, remote, mode):  # noqa: F811
    conf = config(remote, agent_name="helper")
    if mode:
        conf["agent"] = mode
    if remote == "docker":
        conf["image"] = image("debian")
    elif remote == "openshell" and not mode:
        # The image of these tests has none of its own, so it is injected.
        conf["agent"] = "inject"
    name = boxes.up(conf)[0]["name"]
    assert boxes.exec(name, "true").status == 0
    seen = boxes.sh(name, NAMES).out.decode(errors="replace").splitlines()
    assert any("helper" in x for x in seen)
    assert [x for x in seen if re.search("(?i)sandmux", x)] == []


@pytest.mark.parametrize("agent, works", [
    ("/usr/bin/sandmux-agent", True), ("never", True),
    ("/usr/bin/none", False)])
def test_baked(boxes, agent, works):  # noqa: F811
    conf = config("docker", agent=agent, image=image("busybox-baked"))
    conf["create_args"].append("--read-only")
    done = boxes.try_up(conf)
    if not works:
        assert done.status == 1 and b"/usr/bin/none" in done.err, done
        assert boxes.containers() == []
        return
    assert done.status == 0, done
    name = done.out.decode().strip()
    assert boxes.exec(name, "echo", "hi").out == b"hi\n"


def test_never_and_not_there(boxes, remote):  # noqa: F811
    done = boxes.try_up(config(remote, agent="never"))
    assert done.status == 1 and b"sandmux-agent" in done.err, done
    assert boxes.there(remote) == [] and boxes.records() == []


def test_broken_records(boxes):  # noqa: F811
    """One that cannot be read is an error of its own; the rest go on."""
    good = boxes.up(config("local"))[0]["name"]
    bad = boxes.store / "broken"
    for text in (b"", b"{", b"\xff", b"[]", b'{"name": "other"}', b"x" * 99999,
                 b'{"transport": "none", "name": "broken"}'):
        bad.write_bytes(text)
        done = boxes.exec("broken", "true")
        assert done.status == 125 and b"broken" in done.err, (text, done)
        done = boxes.run("ls")
        assert good.encode() in done.out and b"broken" in done.err, text
        assert boxes.exec(good, "true").status == 0
        assert boxes.run("cleanup").status == 1
        good = boxes.up(config("local"))[0]["name"]
    bad.unlink()

# SPDX-License-Identifier: MIT
"""up, ls, down, cleanup and smoke on each transport."""
import json
import os
import re
import signal
import subprocess

import pytest
from sandboxes import (Between, Sandboxes, boxes, config,  # noqa: F401
                       kind, remote)
from spine import (find, image, marker, docker_program,  # noqa: F401
                   openshell_image, together, wait_for)

NAME = re.compile(r"smx-[a-z2-7]{13}$")


def test_a_life(boxes, kind):  # noqa: F811
    made = boxes.up(config(kind))
    assert len(made) == 1
    one = made[0]
    name = one["name"]
    assert set(one) == {"key", "name", "target", "transport", "container",
                        "workdir", "user"}
    assert NAME.match(name) and len(name) <= 19
    assert (one["key"], one["target"], one["transport"], one["user"]) == \
        ("default", name, kind, None)
    assert one["workdir"].startswith("/")
    if kind in ("docker", "podman"):
        assert re.match("[0-9a-f]{64}$", one["container"])
    elif kind == "local":
        assert one["container"] is None
    assert len(boxes.there(kind)) == 1
    listed = boxes.ls()
    assert set(listed) == {name}
    assert listed[name] == {**one, "state": "ready",
                            "created": listed[name]["created"]}
    assert boxes.exec(name, "pwd").out.decode().strip() == one["workdir"]
    mark = marker()
    boxes.exec(name, "sleep", mark, opts=("-d",))
    wait_for("the job", lambda: find(mark))
    done = boxes.run("down", name)
    assert (done.status, done.out) == (0, name.encode() + b"\n"), done
    assert boxes.there(kind) == [] and boxes.records() == []
    wait_for("no job", lambda: not find(mark), 10)
    # Twice is fine, and says that nothing was removed.
    again = boxes.run("down", "--json", name)
    assert again.status == 0 and again.err == b""
    assert json.loads(again.out) == {"removed": [], "failed": []}
    assert boxes.ls() == {}
    gone = boxes.exec(name, "true")
    assert gone.status == 125 and name.encode() in gone.err and \
        b"no sandbox of this name" in gone.err


def test_no_client_program(boxes, remote):  # noqa: F811
    """Nothing was made, so nothing is left to list."""
    done = boxes.try_up(config(remote), env={"PATH": "/nowhere"})
    assert done.status == 1 and b"not on your PATH" in done.err, done
    assert b"cleanup" not in done.err and boxes.records() == []


def test_a_name(boxes, kind):  # noqa: F811
    name = f"box-{os.getpid()}"
    assert boxes.up(config(kind), name)[0]["name"] == name
    taken = boxes.try_up(config(kind), name)
    assert taken.status == 1 and b"already" in taken.err
    # The one that has the name is untouched.
    assert boxes.exec(name, "echo", "hi").out == b"hi\n"
    assert boxes.run("down", name).status == 0
    assert boxes.up(config(kind), name)[0]["name"] == name


@pytest.mark.parametrize("name", ["docker", "local", "podman", "ssh", "A",
                                  "a_b", "-a", "a-", "a--b", "x" * 20, ""])
def test_names_that_cannot_be(boxes, name):  # noqa: F811
    for args in (("up", "-f", "-", "--", name), ("down", "--", name)):
        done = boxes.run(*args, input=b"transport: local")
        assert done.status == 2 and b"name" in done.err, done
    assert not boxes.store.exists() or boxes.records() == []


def test_a_name_that_somebody_else_has(boxes, remote):  # noqa: F811
    """Theirs is neither used nor removed."""
    name = f"their-{os.getpid()}"
    if remote in ("docker", "podman"):
        make = [remote, "run", "-d", "--name", name,
                config(remote)["image"]]
        remove = [remote, "rm", "-f", name]
    else:
        cli = f"{boxes.env['PATH'].split(':')[0]}/openshell"
        config("openshell")
        make = [cli, "sandbox", "create", "--name", name, "--from",
                openshell_image(), "--detach", "--", "sleep", "infinity"]
        remove = [cli, "sandbox", "delete", name]
    subprocess.run(make, check=True, capture_output=True, env=boxes.env,
                   stdin=subprocess.DEVNULL)
    try:
        done = boxes.try_up(config(remote), name)
        assert done.status == 1 and name.encode() in done.err, done
        assert b"already" in done.err       # the CLI's own words
        assert boxes.records() == []
        assert boxes.exec(f"{remote}:{name}", "true").status == 0
        assert boxes.run("cleanup").status == 0
        assert boxes.exec(f"{remote}:{name}", "true").status == 0
    finally:
        subprocess.run(remove, check=True, capture_output=True,
                       env=boxes.env, stdin=subprocess.DEVNULL)


def test_scratch(boxes):  # noqa: F811
    """Nothing in the image keeps it alive, and nothing has to."""
    made = boxes.up(config("docker", image=image("scratch"),
                           workdir="/some/where"))[0]
    assert boxes.exec(made["name"], "/pause", "echo", "hi").out == b"hi\n"
    done = boxes.run("fs", "stat", "--json", f"{made['name']}:/some/where")
    assert done.status == 0 and json.loads(done.out)["type"] == "directory"


def test_a_job_cannot_end_the_sandbox_by_signals(boxes):  # noqa: F811
    name = boxes.up(config("docker"))[0]["name"]
    for signal in ("TERM", "INT", "HUP", "KILL"):
        boxes.sh(name, f"kill -{signal} 1; kill -{signal} -1")
        assert boxes.exec(name, "echo", "here").out == b"here\n", signal


def test_its_orphans_are_reaped(boxes):  # noqa: F811
    """The main process takes up what others leave."""
    name = boxes.up(config("docker"))[0]["name"]
    subprocess.run([docker_program(), "exec", name, "sh", "-c",
                    "(sleep 0.2 &) ; :"], check=True)
    wait_for("no zombie", lambda: b"Z" not in boxes.sh(
        name, "cut -d ' ' -f 3 /proc/[0-9]*/stat").out, 10)


def test_command(boxes):  # noqa: F811
    conf = config("docker", command=["sh", "-c", "touch /work/ran; sleep 99"])
    name = boxes.up(conf)[0]["name"]
    wait_for("it ran", lambda: boxes.exec(
        name, "test", "-e", "/work/ran").status == 0)
    ended = boxes.try_up(config("docker", command=["echo", "\x1b[31mbye"]))
    assert ended.status == 1, ended
    assert b"ended at once" in ended.err and b"bye" in ended.err
    assert b"\x1b" not in ended.err
    assert list(boxes.ls()) == [name]


@pytest.mark.parametrize("remote, args, said", [
    ("docker", ["--no-such-flag"], b"no-such-flag"),
    ("podman", ["--no-such-flag"], b"no-such-flag"),
    ("openshell", ["--no-such-flag"], b"no-such-flag"),
    ("docker", ["--memory", "lots"], b"memory"),
])
def test_the_clis_own_words(boxes, remote, args, said):  # noqa: F811
    done = boxes.try_up(config(remote, create_args=args))
    assert done.status == 1 and done.out == b"", done
    assert said in done.err and done.err.count(b"\n") == 1
    assert boxes.records() == [] and boxes.there(remote) == []


def test_an_image_that_is_not_there(boxes, remote):  # noqa: F811
    done = boxes.try_up(config(remote, image="no-such-image-here:1"))
    assert done.status == 1 and b"no-such-image-here" in done.err, done
    assert boxes.records() == [] and boxes.there(remote) == []


def test_a_cli_that_is_not_there(boxes, remote):  # noqa: F811
    conf = config(remote)
    done = boxes.try_up(conf, env={"PATH": "/nonexistent"})
    assert done.status == 1 and b"PATH" in done.err, done
    assert remote.encode() in done.err
    # It may have been killed in the middle: its record is kept until a CLI
    # can say that there is nothing.
    assert boxes.run("cleanup").status == 0
    assert boxes.records() == []


def test_several(boxes, kind, tmp_path):  # noqa: F811
    """Side by side: all are begun before one is ready."""
    between = Between(tmp_path / "bin")
    between.at("all", "slow")
    conf = config(kind, env={"A": "top", "B": "top"})
    third = "a key: like \"no\" label\n\u00e9"
    conf["sandboxes"] = {"web": {"env": {"B": "web"}}, "second": None,
                         third: {}}
    made = boxes.up(conf, env=between.path(boxes.env))
    assert [s["key"] for s in made] == ["web", "second", third]
    assert len({s["name"] for s in made}) == 3
    assert len(boxes.there(kind)) == 3
    listed = boxes.ls()
    assert {(n, s["key"], s["state"]) for n, s in listed.items()} == {
        (s["name"], s["key"], "ready") for s in made}
    if kind != "local":
        creates = [x.split()[0] for x in between.log()
                   if " create " in f" {x} "]
        assert creates[:3] == ["begin"] * 3, between.log()
    said = [boxes.sh(s["name"], "echo $A $B").out for s in made]
    assert said == [b"top web\n", b"top top\n", b"top top\n"]
    # Each is a place of its own.
    boxes.sh(made[0]["name"], "echo x >here")
    assert boxes.exec(made[1]["name"], "test", "-e", "here").status == 1
    done = boxes.run("down", "--json", *(s["name"] for s in made))
    assert sorted(json.loads(done.out)["removed"]) == sorted(
        s["name"] for s in made)
    assert boxes.there(kind) == []


def test_all_or_none(boxes):  # noqa: F811
    conf = config("docker")
    conf["sandboxes"] = {"good": {}, "bad": {"image": "no-such-image:1"}}
    done = boxes.try_up(conf)
    assert done.status == 1 and b"(bad)" in done.err, done
    assert boxes.containers() == [] and boxes.records() == []


def test_build(boxes, tmp_path):  # noqa: F811
    config("docker")            # or a skip
    (tmp_path / "img").mkdir()
    (tmp_path / "img/Dockerfile").write_text(
        f"FROM {image('busybox')}\nCOPY mark /mark\n")
    (tmp_path / "img/mark").write_text("built")
    tag = f"sandmux-test-built-{os.getpid()}:1"
    (tmp_path / "sandmux.yaml").write_text(
        f"transport: docker\nimage: {tag}\nbuild: img\n"
        "create_args: [--network, none]\n")
    file = str(tmp_path / "sandmux.yaml")
    try:
        none = boxes.run("up", "-f", file, "--no-build")
        assert none.status == 1 and tag.encode() in none.err, none
        done = boxes.run("up", "-f", file, "--prepare", "--json")
        assert json.loads(done.out) == {"sandboxes": [
            {"key": "default", "transport": "docker", "image": tag,
             "workdir": None, "user": None, "policy": None}]}, done
        assert boxes.records() == []
        done = boxes.run("up", "-f", file, "--no-build")
        name = done.out.decode().strip()
        assert boxes.exec(name, "cat", "/mark").out == b"built"
        (tmp_path / "img/Dockerfile").write_text("FROM nothing-like-this:9\n")
        bad = boxes.run("up", "-f", file)
        assert bad.status == 1 and b"docker build" in bad.err and \
            b"nothing-like-this" in bad.err, bad
        assert boxes.records() == [name]
    finally:
        boxes.run("cleanup")
        subprocess.run([docker_program(), "rmi", "-f", tag],
                       capture_output=True, check=False)


def test_a_build_is_where_the_sandbox_is(boxes, tmp_path):  # noqa: F811
    """What says where docker's daemon is counts for its build, too."""
    conf = config("docker", image="sandmux-test-nowhere:1", build="img")
    (tmp_path / "img").mkdir()
    (tmp_path / "img/Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "sandmux.yaml").write_text(json.dumps(conf))
    done = boxes.run("up", "-f", str(tmp_path / "sandmux.yaml"),
                     env={"DOCKER_HOST": "unix:///nonexistent"})
    assert done.status == 1 and b"`docker build` failed" in done.err and \
        b"/nonexistent" in done.err, done
    assert boxes.records() == []


def test_default_files(boxes, tmp_path):  # noqa: F811
    """The first of four names; paths are relative to the file."""
    def up(*args, cwd=tmp_path):
        return subprocess.run([boxes.program, "up", "--prepare", "--json",
                               *args], cwd=cwd, env=boxes.env, check=False,
                              capture_output=True, stdin=subprocess.DEVNULL)
    (tmp_path / "pol.yaml").write_text("")
    assert b'"python:3.12-slim"' in up().stdout
    order = ["openshell.yml", "openshell.yaml", "sandmux.yml", "sandmux.yaml"]
    for name in order:
        (tmp_path / name).write_text(f"image: {name}\npolicy: pol.yaml\n")
        done = up()
        assert done.returncode == 0, done
        told = json.loads(done.stdout)["sandboxes"][0]
        assert told["image"] == name
        assert told["policy"] == str(tmp_path / "pol.yaml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for args in (("-f", "../sandmux.yaml"), ("--base", str(tmp_path)),
                 ("-f", str(tmp_path / "sandmux.yaml"))):
        told = json.loads(up(*args, cwd=elsewhere).stdout)["sandboxes"][0]
        assert told["policy"] == str(tmp_path / "pol.yaml"), args


def test_errors_have_positions(boxes, tmp_path):  # noqa: F811
    file = tmp_path / "sandmux.yaml"
    file.write_text("image: x\nworkdirr: /x\n")
    done = boxes.run("up", "-f", str(file))
    assert done.status == 2 and done.out == b""
    assert done.err.decode() == (
        f"sandmux: up: {file}:2:1: unknown key \"workdirr\"; did you mean "
        "workdir?\n")
    done = boxes.run("up", "-f", "-", input=b"transport: local\nimage: x")
    assert done.err == (b"sandmux: up: <stdin>:2:8: image means nothing with "
                        b"transport local\n") and done.status == 2
    done = boxes.run("up", "-f", str(tmp_path / "none.yaml"))
    assert done.status == 2 and b"none.yaml" in done.err
    assert not boxes.store.exists()


def test_cleanup_takes_ours_alone(boxes, kind):  # noqa: F811
    other = Sandboxes()
    try:
        theirs = other.up(config(kind))[0]["name"]
        mine = [boxes.up(config(kind))[0]["name"] for _ in range(2)]
        assert set(boxes.ls()) == set(mine)
        done = boxes.run("cleanup", "--json")
        assert done.status == 0, done
        told = json.loads(done.out)
        assert sorted(told["removed"]) == sorted(mine)
        assert told["failed"] == []
        assert boxes.there(kind) == [] and boxes.records() == []
        assert other.exec(theirs, "echo", "hi").out == b"hi\n"
        again = boxes.run("cleanup")
        assert (again.status, again.out, again.err) == (0, b"", b"")
    finally:
        other.close()


def test_what_cannot_be_removed_is_named(boxes, remote):  # noqa: F811
    name = boxes.up(config(remote))[0]["name"]
    for command in (("down", name), ("cleanup",)):
        done = boxes.run(*command, env={"PATH": "/nonexistent"})
        assert done.status == 1 and name.encode() in done.err, done
        assert name in boxes.ls()
    assert boxes.run("cleanup").status == 0
    assert boxes.there(remote) == []


def test_ls_states(boxes):  # noqa: F811
    name = boxes.up(config("docker"))[0]["name"]
    docker = docker_program()
    subprocess.run([docker, "kill", name], check=True, capture_output=True)
    wait_for("stopped", lambda: boxes.ls()[name]["state"] == "stopped")
    done = boxes.run("ls", "--json", env={"DOCKER_HOST": "unix:///none"})
    assert json.loads(done.out)["sandboxes"][0]["state"] == "stopped"
    subprocess.run([docker, "rm", name], check=True, capture_output=True)
    assert boxes.ls()[name]["state"] == "gone"
    assert boxes.run("cleanup").status == 0
    assert boxes.ls() == {}


def test_orphans_are_listed_and_removed(boxes, remote):  # noqa: F811
    """A record that is lost loses nothing."""
    made = boxes.up(config(remote))[0]
    (boxes.store / made["name"]).unlink()
    listed = boxes.ls()[made["name"]]
    assert listed["state"] == "orphan"
    assert listed["container"] == made["container"]
    assert boxes.run("cleanup").out.decode().split() == [made["name"]]
    assert boxes.there(remote) == []


def test_local_removal_follows_no_link(boxes, tmp_path):  # noqa: F811
    made = boxes.up(config("local"))[0]
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / "file").write_text("here")
    boxes.sh(made["name"], f"ln -s {keep} a; mkdir -p d/e/f; ln -s {keep} "
             "d/e/b; touch d/e/f/g; chmod 0 d/e/f; chmod 500 d")
    assert boxes.run("down", made["name"]).status == 0
    assert (keep / "file").read_text() == "here"
    assert boxes.there("local") == []


def test_smoke(boxes, kind, tmp_path):  # noqa: F811
    file = tmp_path / "sandmux.yaml"
    file.write_text(json.dumps(config(kind)))
    done = boxes.run("smoke", "-f", str(file))
    assert done.status == 0 and done.err == b"", done
    lines = done.out.decode().splitlines()
    assert [x.split()[0] for x in lines] == ["ok"] * 5, lines
    assert boxes.there(kind) == [] and boxes.records() == []


def test_smoke_fails(boxes, tmp_path):  # noqa: F811
    file = tmp_path / "sandmux.yaml"
    file.write_text(json.dumps(config("docker", image="no-such-thing:1")))
    done = boxes.run("smoke", "-f", str(file))
    assert done.status == 1 and b"FAILED" in done.out and \
        b"no-such-thing" in done.err, done
    # A step in the middle: what was made is removed all the same.
    file.write_text(json.dumps(config(
        "docker", create_args=["--network", "none", "--read-only"],
        workdir="/")))
    done = boxes.run("smoke", "-f", str(file))
    assert done.status == 1 and b"FAILED" in done.out, done
    assert boxes.containers() == [] and boxes.records() == []


def test_down_from_several(boxes, kind):  # noqa: F811
    """Each of them ends with the sandbox gone, and with 0."""
    name = boxes.up(config(kind))[0]["name"]
    downs = together(4, lambda i: boxes.run("down", name))
    assert [d.status for d in downs] == [0] * 4, downs
    assert [d.out for d in downs].count(name.encode() + b"\n") == 1, downs
    assert boxes.there(kind) == [] and boxes.records() == []


def test_a_create_that_takes_too_long(boxes, remote, tmp_path):  # noqa: F811
    between = Between(tmp_path / "bin")
    between.at("all", "slow")
    done = boxes.try_up(config(remote, timeouts={"create": "300ms"}),
                        env=between.path(boxes.env))
    assert done.status == 1 and b"did not end in time" in done.err, done
    assert boxes.there(remote) == [] and boxes.records() == []


@pytest.mark.parametrize("opts", [(), ("--json",)])
def test_names_that_nobody_gets(boxes, opts):  # noqa: F811
    """Where the names cannot be written the sandboxes go again."""
    with open("/dev/full", "wb") as full:
        client = boxes.popen("up", "-f", "-", *opts, stdout=full,
                             stdin=subprocess.PIPE)
        _, err = client.communicate(b"transport: local", timeout=60)
    assert client.returncode == 1 and b"stdout" in err, err
    assert boxes.there("local") == [] and boxes.records() == []


def test_a_controller_that_hangs(boxes):  # noqa: F811
    """down does not: a container goes all the same."""
    name = boxes.up(config("docker"))[0]["name"]
    pids = boxes.controllers()
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert boxes.run("down", name).status == 0
        assert boxes.containers() == [] and boxes.records() == []
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_an_older_openshell(boxes, tmp_path):  # noqa: F811
    """One without --detach: its sandboxes outlive their command."""
    if os.environ.get("OPENSHELL"):
        pytest.skip("only the stand-in chooses its version")
    conf = config("openshell")
    cli = tmp_path / "openshell"
    cli.write_text(
        "#!/bin/sh\nexport STANDIN_DETACH=0\n"
        f"case \" $* \" in *' create '*) echo \"$*\" >>{tmp_path}/log ;; "
        f"esac\nexec {boxes.env['PATH'].split(':')[0]}/openshell \"$@\"\n")
    cli.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{boxes.env['PATH']}"}
    name = boxes.up(conf, env=path)[0]["name"]
    assert boxes.exec(name, "echo", "hi").out == b"hi\n"
    words = (tmp_path / "log").read_text().split()
    assert "--detach" not in words and words[-2:] == ["--", "true"]
    assert boxes.run("down", name).status == 0


def test_many_at_once(boxes):  # noqa: F811
    """Programs of their own, as an evaluation runs them."""
    made = together(8, lambda i: boxes.up(config("docker"))[0]["name"])
    assert len(set(made)) == 8 and set(boxes.ls()) == set(made)
    said = together(8, lambda i: boxes.exec(made[i], "echo", str(i)).out)
    assert said == [b"%d\n" % i for i in range(8)]
    downs = together(8, lambda i: boxes.run("down", made[i]).status)
    assert downs == [0] * 8 and boxes.containers() == []

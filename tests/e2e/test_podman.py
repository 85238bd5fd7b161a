# SPDX-License-Identifier: MIT
"""Podman as a transport: commands, files, users and ends; what its command
line does otherwise than Docker's.  test_sandboxes_* have its life cycle."""
import json
import os
import signal

import pytest
from podman_fixture import (podman, podman_env, podman_image, podman_program,
                            podman_remove, podman_start)
from sandboxes import boxes, config  # noqa: F401
from spine import (MIB, QEMU, Host, Target, at_end, find, marker, once,
                   processes, wait_for)

pytestmark = pytest.mark.skipif(QEMU, reason="under qemu there is only local")
BYTES = bytes(range(256)) * (2 * MIB // 256)


class Podman(Target):
    def __init__(self, name, *options):
        self.box = podman_start(name, *options)
        at_end(podman_remove, self.box)
        super().__init__("podman", f"podman:{self.box}", "/tmp")

    def argv(self, script):
        raise NotImplementedError

    def ask(self, *command, user="0"):
        """What podman itself says to a command."""
        return podman("exec", "-u", user, self.box, *command,
                      check=False).stdout.encode()


@pytest.fixture
def box():
    """One that most tests share: busybox, user 1000, an injected agent."""
    podman_program()
    return once("podman", lambda: Podman("busybox"))


@pytest.fixture
def host():
    def make():
        one = Host(env=podman_env())
        at_end(one.close)
        return one
    podman_program()
    return once("podman-host", make)


def test_commands(host, box):
    done = host.sh(box, "pwd; id -u; echo $FROM_IMAGE; echo e >&2; exit 7")
    assert (done.status, done.out, done.err) == \
        (7, b"/work\n1000\nyes\n", b"e\n")
    assert host.sh(box, "kill -9 $$").status == 137
    assert host.exec(box, "no-such-program").status == 127
    assert host.exec(box, "/etc").status == 126


def test_users(host, box):
    """As podman itself has them."""
    ids = "id -u; id -G"
    for user in ("0", "1000", "user", "55", "0:7"):
        said = box.ask("sh", "-c", ids, user=user)
        assert host.sh(box, ids, opts=("-u", user)).out == said, user
    assert host.sh(box, ids).out == box.ask("sh", "-c", ids, user="1000:1000")
    more = Podman("busybox", "--group-add", "7", "--group-add", "1234")
    said = podman("exec", more.box, "sh", "-c", ids).stdout
    assert said == "1000\n1000 7 1234\n"
    assert host.sh(more, ids).out.decode() == said
    done = host.exec(box, "true", opts=("-u", "nosuch"))
    assert done.status == 126 and b"nosuch" in done.err


@pytest.mark.parametrize("options", [
    (), ("-e", "HOME=/set"), ("--env=HOME=/set",), ("-e", "HOME=/root")],
    ids=str)
@pytest.mark.parametrize("of_image", [False, True])
def test_home(host, options, of_image):
    """What podman itself says, whether the image or an option sets it."""
    image = podman_image("busybox")
    if of_image:
        image = f"sandmux-test-home-{os.getpid()}:1"
        podman("build", "-q", "--network", "none", "-t", image, "-",
               stdin=None, input=f"FROM {podman_image('busybox')}\n"
               "ENV HOME=/of/image\n")
    box = f"sandmux-test-home-{os.getpid()}"
    try:
        podman("run", "-d", "--name", box, "--stop-timeout", "0", *options,
               image)
        said = podman("exec", box, "sh", "-c", "echo $HOME").stdout
        done = host.sh(f"podman:{box}", "echo $HOME")
        assert done.out == said.encode(), (said, done)
        # A user that is named has a home of its own, as everywhere.
        done = host.sh(f"podman:{box}", "echo $HOME", opts=("-u", "0"))
        assert done.out == b"/root\n"
    finally:
        podman_remove(box)
        if of_image:
            podman("rmi", "-f", image, check=False)


def test_bytes(host, box, tmp_path):
    """Every byte in and out, by a pipe and as files, up and down."""
    done = host.exec(box, "cat", input=BYTES)
    assert done.status == 0 and done.out == BYTES
    there = box.path("file")
    local = tmp_path / "up"
    local.write_bytes(BYTES)
    assert host.run("cp", str(local), f"{box}:{there}").status == 0
    assert box.ask("stat", "-c", "%u %s", there) == b"1000 %d\n" % len(BYTES)
    back = tmp_path / "back"
    assert host.run("cp", f"{box}:{there}", str(back)).status == 0
    assert back.read_bytes() == BYTES


def test_doctor(host, box):
    done = host.run("doctor", "--json", str(box))
    told = json.loads(done.out)
    assert done.status == 0 and told["ok"] is True, done
    link = told["link"]
    assert link["agent_source"] == "injected" and link["uid"] == 0
    assert link["switches"] is True
    assert link["default_user"] == "1000:1000"
    assert told["probe"]["directory"] == "/work"
    # Nothing of it is seen.
    wait_for("the file's end", lambda: ".sandmux-" not in podman(
        "diff", box.box).stdout)


@pytest.mark.parametrize("name, source", [("scratch", "injected"),
                                          ("scratch-baked", "image")])
def test_no_shell(host, name, source):
    box = Podman(name)
    assert host.exec(box, "/pause", "echo", "hi").out == b"hi\n"
    told = json.loads(host.run("doctor", "--json", str(box)).out)
    assert told["link"]["agent_source"] == source


def test_a_read_only_root(host):
    box = Podman("busybox", "--read-only")
    done = host.exec(box, "true")
    assert done.status == 125 and done.err.count(b"\n") == 1, done
    assert b"read-only" in done.err and b"bake" in done.err


def test_the_agent_is_roots(boxes):  # noqa: F811
    """podman cp makes what it copies the container's user's by itself."""
    made = boxes.up(config("podman"))[0]
    said = podman("exec", "-u", "0", made["name"], "stat", "-c", "%u:%g %a",
                  "/usr/bin/sandmux-agent").stdout
    assert said == "0:0 711\n"
    assert boxes.sh(made["name"], "cat /usr/bin/sandmux-agent; id -u").out \
        == b"1000\n"


def test_a_timeout_ends_all(host, box):
    mark = marker()
    done = host.sh(box, f"sleep {mark} & setsid sleep {mark} & sleep {mark}",
                   opts=("--timeout", "1s", "--grace", "100ms"))
    assert done.status == 124, done
    assert find(mark) == []


def test_a_cut_is_mended(host, box):
    """The client program is killed; the job and its output are not."""
    mark = marker()
    client = host.start_job(box, mark)
    pid = host.link(box)["pid"]
    assert any(b"podman" in word for word in processes()[pid][1])
    os.kill(pid, signal.SIGKILL)
    wait_for("another link", lambda: any(
        x["target"] == str(box) and x["state"] == "up" and x["pid"] != pid
        for x in host.status()["links"]), 60)
    assert len(find(mark)) >= 3 and client.poll() is None
    assert host.exec(box, "echo", "hi").out == b"hi\n"
    client.send_signal(signal.SIGINT)
    assert client.wait(60) == 130
    wait_for("no job", lambda: not find(mark))


@pytest.mark.parametrize("end", ["kill", "rm"])
def test_a_container_that_ends(host, end):
    """Who waits is told that the sandbox is gone; the next one, how."""
    box = Podman("busybox")
    client = host.start_job(box, marker())
    if end == "kill":
        podman("kill", box.box)
    else:
        podman_remove(box.box)
    assert client.wait(60) == 125
    said = client.stderr.read()
    assert b"sandbox gone, outcome unknown" in said, said
    done = host.exec(box, "true")
    assert done.status == 125 and str(box).encode() in done.err, done
    assert (f"try `podman start {box.box}`" if end == "kill" else
            "no such container; `podman ps -a`").encode() in done.err, done


def test_what_is_not_there(host, box):
    done = host.exec("podman:no-such-one", "true")
    assert done.status == 125 and b"podman:no-such-one: there is no such " \
        b"container; `podman ps -a`" in done.err, done
    done = host.exec(box, "true", env={"PATH": "/nonexistent"})
    assert done.status == 125 and b"the program podman is not on your PATH; " \
        b"install podman" in done.err, done
    done = host.exec(box, "true", env={
        "CONTAINER_HOST": "unix:///nonexistent/socket"})
    assert done.status == 125 and b"CONTAINER_HOST" in done.err, done


def test_build(boxes, tmp_path):  # noqa: F811
    """By podman, into podman's store; its own words where it fails."""
    base, tag = podman_image("busybox"), f"sandmux-test-pb-{os.getpid()}:1"
    conf = config("podman", image=tag, build="img")
    (tmp_path / "img").mkdir()
    (tmp_path / "img/mark").write_text("built")
    (tmp_path / "img/Dockerfile").write_text(
        f"FROM {base}\nCOPY mark /mark\n")
    file = tmp_path / "sandmux.yaml"
    file.write_text(json.dumps(conf))
    try:
        done = boxes.run("up", "-f", str(file))
        name = done.out.decode().strip()
        assert done.status == 0, done
        assert boxes.exec(name, "cat", "/mark").out == b"built"
        (tmp_path / "img/Dockerfile").write_text(
            f"FROM {base}\nCOPY nothing /mark\n")
        done = boxes.run("up", "-f", str(file))
        assert done.status == 1 and b"`podman build` failed" in done.err
        assert b"COPY nothing" in done.err, done
        assert boxes.records() == [name]
    finally:
        boxes.run("cleanup")
        podman("rmi", "-f", tag, check=False)


def test_the_store_is_remembered(boxes):  # noqa: F811
    """What selects Podman's store is kept as it was at `up`."""
    name = boxes.up(config("podman"))[0]["name"]
    plain = {"CONTAINERS_STORAGE_CONF": "/nonexistent/storage.conf"}
    assert boxes.exec(name, "echo", "hi", env=plain).out == b"hi\n"
    done = boxes.run("down", name, env=plain)
    assert done.status == 0 and boxes.in_podman() == [], done


def test_states(boxes):  # noqa: F811
    name = boxes.up(config("podman"))[0]["name"]
    assert boxes.ls()[name]["state"] == "ready"
    podman("kill", name)
    wait_for("stopped", lambda: boxes.ls()[name]["state"] == "stopped")
    podman("rm", name)
    assert boxes.ls()[name]["state"] == "gone"
    assert boxes.run("cleanup").status == 0 and boxes.ls() == {}


def test_options_that_are_ours(boxes):  # noqa: F811
    """--replace would remove somebody else's container of that name."""
    for key, word in (("create_args", "--replace"), ("create_args", "--name"),
                      ("exec_args", "--latest"), ("exec_args", "-l")):
        done = boxes.try_up(config("podman", **{key: [word]}))
        assert done.status == 2 and word.encode() in done.err, done
        assert not boxes.store.exists() or boxes.records() == []

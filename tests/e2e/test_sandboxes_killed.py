# SPDX-License-Identifier: MIT
"""`up` and `down` ended at every step: nothing is left that is not listed,
and cleanup removes it.

The transport's CLI is one of the test's that kills `up` before, after or
while the real one does what it was called for; the records' own steps are
met by strace.
"""
import os
import shutil
import signal
import subprocess
import time

import pytest
from sandboxes import Between, boxes, config, kind, remote  # noqa: F401
from spine import LIMIT, SANDMUX, count, skip, wait_for


def assert_all_listed(boxes, where):  # noqa: F811
    """Whatever is there is in ls; records may be ahead of what is there."""
    there = boxes.there(where)
    listed = boxes.ls()
    if where == "local":
        assert len(there) <= len(listed), (there, listed)
    else:
        assert set(there) <= set(listed), (there, listed)
    return listed


def assert_cleanup_leaves_nothing(boxes, where):  # noqa: F811
    done = boxes.run("cleanup")
    assert done.status == 0 and done.err == b"", done
    assert boxes.there(where) == [] and boxes.records() == []
    assert boxes.ls() == {}
    assert [p.name for p in boxes.store.iterdir()] == [".owner"]


@pytest.mark.parametrize("what", count(["after", "aside"],
                                       ["before", "after", "aside"]))
def test_up_killed_at_each_call(boxes, remote, what, tmp_path):  # noqa: F811
    between = Between(tmp_path / "bin")
    path = between.path(boxes.env)
    killed = 0
    for at in range(1, 20):
        between.at(at, what)
        done = boxes.try_up(config(remote), env=path)
        if between.count() < at:
            assert done.status == 0, done
            break
        assert done.status == -signal.SIGKILL, done
        killed += 1
        listed = assert_all_listed(boxes, remote)
        # The record is there before the first call.
        assert len(listed) == 1 and all(
            s["state"] == "creating" for s in listed.values()), listed
        if what == "aside":
            time.sleep(1)       # the gateway's or daemon's work goes on
            assert_all_listed(boxes, remote)
        assert_cleanup_leaves_nothing(boxes, remote)
    # create, image inspect, cp, start, inspect and of podman's image too;
    # create, get
    assert killed == {"docker": 5, "podman": 6, "openshell": 2}[remote]


def test_cleanup_before_the_create_has_ended(boxes, remote,  # noqa: F811
                                             tmp_path):
    """The client is dead, its create is not yet done: cleanup waits."""
    between = Between(tmp_path / "bin")
    between.at(1, "aside")      # the create
    done = boxes.try_up(config(remote), env=between.path(boxes.env))
    assert done.status == -signal.SIGKILL
    assert boxes.run("cleanup").status == 0     # at once
    time.sleep(1.5)
    assert_all_listed(boxes, remote)
    assert_cleanup_leaves_nothing(boxes, remote)


@pytest.mark.parametrize("what", ["before", "after"])
def test_down_killed_at_each_call(boxes, remote, what, tmp_path):  # noqa: F811
    between = Between(tmp_path / "bin")
    path = between.path(boxes.env)
    killed = 0
    for at in range(1, 10):
        name = boxes.up(config(remote))[0]["name"]
        between.at(at, what)
        done = boxes.run("down", name, env=path)
        if between.count() < at:
            assert done.status == 0, done
            break
        assert done.status == -signal.SIGKILL, done
        killed += 1
        assert_all_listed(boxes, remote)
        assert name in boxes.ls()
        assert boxes.run("down", name).status == 0
        assert boxes.there(remote) == [] and boxes.records() == []
    assert killed >= 1


@pytest.mark.parametrize("call", ["mkdir", "fsync", "rename", "unlink",
                                  "flock"])
def test_killed_at_each_step_of_the_records(boxes, call, tmp_path):  # noqa: F811,E501
    strace = shutil.which("strace")
    if strace is None:
        skip("strace is not installed")
    assert boxes.exec("local", "true").status == 0  # a controller runs
    file = tmp_path / "sandmux.yaml"
    file.write_text("transport: local\n")
    killed = 0
    for at in range(1, 30):
        done = subprocess.run(
            [strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
             "-e", f"inject={call}:signal=KILL:when={at}",
             SANDMUX, "up", "-f", str(file)], env=boxes.env, timeout=LIMIT,
            capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            break
        killed += 1
        if boxes.store.exists():
            assert_all_listed(boxes, "local")
            assert_cleanup_leaves_nothing(boxes, "local")
    else:
        pytest.fail("it never came through")
    assert killed >= 1, done
    assert_cleanup_leaves_nothing(boxes, "local")


@pytest.mark.parametrize("call", ["mkdir", "fsync", "rename", "unlink",
                                  "flock"])
def test_told_to_end_at_each_step_of_the_records(boxes, call,  # noqa: F811
                                                 tmp_path):
    """Nothing is built, so nothing has waited for signals before."""
    strace = shutil.which("strace")
    if strace is None:
        skip("strace is not installed")
    assert boxes.exec("local", "true").status == 0  # a controller runs
    assert boxes.ls() == {}                         # and there is a store
    file = tmp_path / "sandmux.yaml"
    file.write_text("transport: local\n")
    ended, log = 0, tmp_path / "strace"
    for at in range(1, 30):
        # Not -f: a worker that is killed leaves what cleanup is for.
        done = subprocess.run(
            [strace, "-qq", "-o", log, "-e", f"trace={call}",
             "-e", f"inject={call}:signal=TERM:when={at}",
             SANDMUX, "up", "--no-build", "-f", str(file)], env=boxes.env,
            timeout=LIMIT, capture_output=True, stdin=subprocess.DEVNULL,
            check=False)
        if "SIGTERM" not in log.read_text():
            assert done.returncode == 0, done
            break
        ended += 1
        if done.returncode == 0:        # it was done by then
            name = done.stdout.decode().strip()
            assert boxes.run("down", name).status == 0
        else:
            assert done.returncode in (-signal.SIGTERM,
                                       128 + signal.SIGTERM), done
        assert boxes.records() == [] and boxes.there("local") == []
    else:
        pytest.fail("it never came through")
    assert ended >= 1, done
    assert_cleanup_leaves_nothing(boxes, "local")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(boxes, remote, number, tmp_path):  # noqa: F811
    """What was made goes again before it ends."""
    between = Between(tmp_path / "bin")
    between.at("all", "slow")
    file = tmp_path / "sandmux.yaml"
    file.write_text(str(config(remote)).replace("'", '"'))
    for calls in (1, 2):
        between.at("all", "slow")
        client = boxes.popen("up", "-f", str(file),
                             env=between.path(boxes.env))
        wait_for("under way", lambda: between.count() >= calls)
        client.send_signal(number)
        out, err = client.communicate(timeout=LIMIT)
        assert client.returncode == 128 + number, (out, err)
        assert out == b"" and err == b""
        assert boxes.records() == [] and boxes.there(remote) == []


def test_hands_off_what_another_makes(boxes, tmp_path):  # noqa: F811
    between = Between(tmp_path / "bin")
    between.at("all", "slow")
    file = tmp_path / "sandmux.yaml"
    file.write_text(str(config("docker")).replace("'", '"'))
    client = boxes.popen("up", "-f", str(file), "slowly",
                         env=between.path(boxes.env))
    wait_for("under way", lambda: between.count() >= 1)
    for command in (("down", "slowly"), ("cleanup",)):
        done = boxes.run(*command)
        assert done.status == 1 and b"slowly" in done.err, done
        assert b"another process" in done.err
    assert boxes.ls()["slowly"]["state"] == "creating"
    assert client.wait(LIMIT) == 0
    assert boxes.exec("slowly", "echo", "hi").out == b"hi\n"


def test_controller_killed(boxes, kind):  # noqa: F811
    """Sandboxes outlive it, are used by the next, and go."""
    name = boxes.up(config(kind))[0]["name"]
    boxes.sh(name, "echo kept >file")
    for pid in boxes.controllers():
        os.kill(pid, signal.SIGKILL)
    assert boxes.exec(name, "cat", "file").out == b"kept\n"
    for pid in boxes.controllers():
        os.kill(pid, signal.SIGKILL)
    assert boxes.run("down", name).status == 0
    assert boxes.there(kind) == []

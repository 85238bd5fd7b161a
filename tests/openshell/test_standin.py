# SPDX-License-Identifier: MIT
"""What only the stand-in can do: be cut, frozen and restarted on demand."""
import time

import pytest

from openshell_box import Box, Shell, docker, write_until_it_blocks


@pytest.fixture(autouse=True)
def only_the_stand_in(shell):
    if shell.real:
        pytest.skip("a real gateway is not cut or restarted on demand")


def test_cut_now(box):
    ch = box.probe("echo")
    ch.write(b"one")
    assert ch.read_exact(3) == b"one"
    assert box.shell.standin("cut", box.name) == b"1\n"
    assert ch.read_some(10) == b""
    assert ch.wait() == 1
    assert b"Error" in ch.proc.stderr.read()
    ch.close()


@pytest.mark.parametrize("after", [1, 4096, 10000, 1 << 20])
def test_cut_after_so_many_bytes(box, after):
    ch = box.probe("echo")
    box.shell.standin("cut", box.name, str(2 * after))
    ch.write(b"z" * after)
    got = len(ch.read_exact(after - 1)) + len(ch.buf)
    while True:
        data = ch.read_some(10)
        if not data:
            break
        got += len(data)
    assert got == after     # as much up as down, and then nothing
    ch.close()


def test_freeze_and_thaw(box):
    ch = box.probe("echo")
    box.shell.standin("freeze", box.name)
    ch.write(b"held")
    assert ch.read_some(1) is None
    assert ch.proc.poll() is None
    box.shell.standin("thaw", box.name)
    assert ch.read_exact(4) == b"held"
    ch.close()


def test_a_cli_without_a_gateway_fails_when_told_not_to_start_one(box):
    box.shell.standin("kill-gateway")
    status, _, err = box.exec("true", env={"STANDIN_NO_START": "1"})
    assert status == 1 and b"gateway" in err
    assert box.exec("true")[0] == 0


def test_orphans_are_kept_over_a_restart(box):
    ch = box.probe("echo")
    box.shell.standin("restart-gateway")
    ch.wait()
    time.sleep(0.5)
    assert "probe" in box.sh("ps ax")
    box.sh("pkill -9 -x probe")
    ch.close()


@pytest.fixture
def own_gateway(box, tmp_path):
    """Makes a sandbox behind a gateway with settings of its own."""
    shell = Shell(box.shell.cli, box.shell.image, tmp_path)

    def start(**settings):
        shell.env.update(settings)
        status, out, err = shell.create("own")
        assert status == 0, out + err
        return Box(shell, "own")

    yield start
    shell.run("standin", "stop")


def test_bytes_swallowed_upwards(own_gateway):
    """10 MiB in front of a relay that hardly moves."""
    ch = own_gateway(STANDIN_MBS="0.01", STANDIN_BOTH_MBS="0.01").tty(
        "bash", "-c", "stty raw -echo; echo READY; cat >/dev/null")
    ch.ready()
    assert 8 << 20 < write_until_it_blocks(ch, 64 << 20) < 13 << 20
    ch.close()


def test_a_paused_sandbox_loses_its_links(own_gateway, tmp_path):
    """[read] Keepalives: 15 s x 4; here 0.2 s."""
    other = own_gateway(STANDIN_KEEPALIVE_S="0.2")
    ch = other.tty("cat")
    time.sleep(3)
    assert ch.proc.poll() is None       # silence alone ends nothing
    name = docker("ps", "-q", "--filter",
                  f"label=openshell.standin={tmp_path}"
                  ).stdout.decode().strip()
    assert docker("pause", name).returncode == 0
    try:
        assert ch.wait(30) == 1
    finally:
        docker("unpause", name)
    assert other.sh("pgrep -x cat")
    ch.close()


@pytest.mark.parametrize("lists, may", [
    ("  read_write: [/tmp, /var/tmp]\n", {"/tmp", "/var/tmp", "workdir"}),
    ("  read_write:\n    - /tmp\n    - \"/var/tmp\"\n",
     {"/tmp", "/var/tmp", "workdir"}),
    ("  read_write: [/tmp]\n", {"/tmp", "workdir"}),
    ("  include_workdir: false\n  read_write: [/var/tmp]\n", {"/var/tmp"}),
    (None, {"/tmp", "workdir"})])
def test_the_file_system_lists_of_a_policy(shell, tmp_path, lists, may):
    extra = []
    if lists is not None:
        policy = tmp_path / "policy.yaml"
        policy.write_text("version: 1\nfilesystem_policy:\n" + lists +
                          "network_policies: {}\n")
        extra = ["--policy", str(policy)]
    name = f"pol{time.monotonic_ns() % 10**9}"
    status, out, err = shell.create(name, extra=extra)
    assert status == 0, (out, err)
    try:
        found = Box(shell, name).sh(
            "for d in /tmp /var/tmp $PWD; do touch $d/x && "
            "echo $d; done; pwd")
        *written, workdir = found.split()
        assert {"workdir" if d == workdir else d for d in written} == may
    finally:
        shell.delete(name)

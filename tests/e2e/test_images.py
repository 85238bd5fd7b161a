# SPDX-License-Identifier: MIT
"""images/bake: the agent in any base is root's, 0711, and starts."""
import os
import subprocess

import pytest
from docker_fixture import container, docker, image  # noqa: F401

AGENT = "/usr/bin/sandmux-agent"
pytestmark = pytest.mark.skipif(bool(os.environ.get("SANDMUX_QEMU")),
                                reason="the agent runs under qemu, outside")


def run(*argv):
    return subprocess.run(argv, capture_output=True, timeout=120)


@pytest.mark.parametrize("base", ["scratch", "busybox", "debian"])
def test_baked_owner_and_mode(docker, container, base):  # noqa: F811
    box = container(f"{base}-baked")
    tar = run(docker, "cp", f"{box}:{AGENT}", "-").stdout
    assert int(tar[100:107], 8) & 0o7777 == 0o711
    assert int(tar[108:115], 8) == 0 and int(tar[116:123], 8) == 0


@pytest.mark.parametrize("base", ["scratch", "busybox", "debian"])
def test_baked_agent_starts(docker, container, base):  # noqa: F811
    box = container(f"{base}-baked", "--read-only")
    done = run(docker, "exec", "-u", "12345:12345", box, AGENT, "version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_base_keeps_user_and_environment(docker):  # noqa: F811
    name = image("busybox-baked")
    done = run(docker, "run", "--rm", "--network", "none", name, "sh", "-c",
               "id -u; pwd; echo $FROM_IMAGE; test ! -r " + AGENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [b"1000", b"/work", b"yes"]

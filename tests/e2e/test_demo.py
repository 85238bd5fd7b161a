# SPDX-License-Identifier: MIT
"""`make demo`'s script, in small: what it shows is so, and nothing stays."""
import os
import re
import subprocess

import pytest
from docker_fixture import docker_program
from spine import BUILD, LIMIT, QEMU, ROOT, processes

pytestmark = pytest.mark.skipif(QEMU, reason="its commands are the host's")
COMMANDS = 20


def demo(tmp_path, **env):
    """Its output, once it is known to have left nothing."""
    place = tmp_path / "t"
    place.mkdir()
    with subprocess.Popen(
            ["sh", str(ROOT / "tests/demo.sh")], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "B": str(BUILD), "TMPDIR": str(place),
                 "DEMO_MIB": "4", "DEMO_COMMANDS": str(COMMANDS),
                 **env}) as child:
        out = child.communicate(timeout=LIMIT)[0]
    assert child.returncode == 0, out
    assert out.rstrip().endswith("done\x1b[0m"), out
    assert list(place.iterdir()) == []
    left = [argv for _, argv in processes().values()
            if any(str(place).encode() in word for word in argv)]
    assert left == []
    return child.pid, out


def check_part(text, start):
    """One target: a command, a status, a file there and back, a loop."""
    assert "hello from " in text
    assert text.count("exit status 7\n") == 1
    sent = re.findall(r"^sent     ([0-9a-f]{64})$", text, re.M)
    back = re.findall(r"^returned ([0-9a-f]{64})$", text, re.M)
    assert len(sent) == 1 and sent == back
    assert re.search(r"^4 MiB there: \d+ MB/s, back: \d+ MB/s$", text, re.M)
    figures = re.search(rf"^{COMMANDS} commands: (\d+) us each as `sandmux "
                        rf"exec`, (\d+) us each as {start}", text, re.M)
    assert figures and all(int(n) > 0 for n in figures.groups()), text
    return sent[0]


def test_demo_without_docker(tmp_path):
    bins = tmp_path / "bin"
    bins.mkdir()
    (bins / "docker").write_text("#!/bin/sh\nexit 1\n")
    (bins / "docker").chmod(0o755)
    _, out = demo(tmp_path, PATH=f"{bins}:{os.environ['PATH']}")
    local, docker = out.split("docker: ")
    check_part(local, "a plain process")
    assert docker.startswith("no server answers, left out"), out


@pytest.mark.skipif(bool(os.environ.get("SANDMUX_SANITIZE")),
                    reason="an agent with sanitizers is not static")
def test_demo_with_docker(tmp_path):
    docker = docker_program()
    pid, out = demo(tmp_path)
    local, rest = out.split("docker: a container of two static programs")
    # One file to both.
    assert check_part(local, "a plain process") == check_part(
        rest, "`docker exec`")
    assert "hello from nothing\n" in rest
    named = subprocess.run([docker, "ps", "-aq", "--filter",
                            f"name=sandmux-demo-{pid}"], check=True,
                           capture_output=True, text=True)
    assert named.stdout == ""

# SPDX-License-Identifier: MIT
"""Fixtures of the openshell fact tests.

By default they run against the stand-in; OPENSHELL=/path/to/openshell runs
them against that CLI.  OPENSHELL_IMAGE names the image (osbox:1).
"""
import os
import shutil
import subprocess

import pytest

from openshell_box import (BUILD, TOP, Box, Shell, docker, find_image,
                           skip_or_fail, upload_probe)


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    if shutil.which("docker") is None or docker("info").returncode != 0:
        skip_or_fail("Docker is not there")
    subprocess.run(["make", "-s", "-f", "tests/tools/openshell/standin.mk",
                    f"BUILD={BUILD}"], cwd=TOP, check=True)
    real = os.environ.get("OPENSHELL")
    if real:
        yield Shell(real, find_image(), None)
        return
    state = tmp_path_factory.mktemp("standin")
    sh = Shell(str(BUILD / "tests/openshell/openshell"), find_image(),
               state)
    yield sh
    sh.run("standin", "stop")


@pytest.fixture(scope="session")
def box(shell):
    name = f"facts-{os.getpid() % 100000}"
    status, out, err = shell.create(name)
    assert status == 0, (out, err)
    b = Box(shell, name)
    upload_probe(b)
    yield b
    shell.delete(name)


@pytest.fixture(scope="session")
def calls(box):
    """errno by name of what the probe tried, 0 where it was allowed."""
    lines = box.sh("/tmp/probe calls").split("\n")
    return {k: int(v) for k, v in (x.split() for x in lines if x)}


@pytest.fixture
def fresh(shell):
    """Names for sandboxes of one test, deleted after it."""
    made = []

    def name(tag):
        made.append(f"f{tag}-{os.getpid() % 100000}"[:19])
        return made[-1]

    yield name
    for n in made:
        shell.delete(n)

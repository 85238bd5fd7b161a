# SPDX-License-Identifier: MIT
"""Docker for tests: fixtures that give a running container, or say why not.

    from docker_fixture import docker, container      # noqa: F401

    def test_it(container):
        box = container("busybox")          # a running container's name

Where Docker is missing, a test that asks for it is skipped with the reason;
with CI set that is a failure.  Images come from tests/images.sh.
"""
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
_state = {}


def skip(reason):
    """Skip this test; under CI, where nothing may be missing, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"CI may not skip this: {reason}", pytrace=False)
    pytest.skip(reason)


def docker_program():
    """The path of a docker client whose server answers, or skip."""
    if "program" not in _state:
        program, reason = shutil.which("docker"), None
        if program is None:
            reason = "docker is not installed"
        else:
            try:
                done = subprocess.run([program, "version"], timeout=60,
                                      capture_output=True, text=True)
                if done.returncode != 0:
                    reason = "docker does not answer: " + (
                        done.stderr.strip().splitlines() or ["?"])[-1]
            except subprocess.TimeoutExpired:
                reason = "docker does not answer within 60 s"
        _state["program"] = program, reason
    program, reason = _state["program"]
    if reason:
        skip(reason)
    return program


def image(name):
    """Make sure of an image of tests/images.sh; returns its full name."""
    docker_program()
    if os.environ.get("SANDMUX_SANITIZE") and not name.startswith("debian"):
        pytest.skip("the sanitizers' agent needs a glibc in the image")
    if name not in _state:
        done = subprocess.run(["sh", str(ROOT / "tests/images.sh"), name],
                              capture_output=True, text=True, cwd=ROOT)
        _state[name] = done.stderr.strip() if done.returncode else None
    if _state[name]:
        skip(f"image {name}: {_state[name]}")
    return f"sandmux-test-{name}:1"


@pytest.fixture(scope="session")
def docker():
    """The docker client's path."""
    return docker_program()


def start(name, *options, command=None):
    """Start a container of image(name); remove() it in the end."""
    full = image(name)
    box = "sandmux-test-" + uuid.uuid4().hex[:12]
    if command is None:
        command = [] if name.startswith("scratch") else ["sleep", "2147483647"]
    subprocess.run([docker_program(), "run", "-d", "--name", box,
                    "--network", "none", *options, full, *command],
                   check=True, capture_output=True, text=True)
    return box


def remove(box):
    subprocess.run([docker_program(), "rm", "-f", "-v", box],
                   capture_output=True)


@pytest.fixture
def container(docker):
    """A function that starts a container; it is removed after the test."""
    boxes = []

    def make(name, *options, command=None):
        boxes.append(start(name, *options, command=command))
        return boxes[-1]

    yield make
    for box in boxes:
        remove(box)

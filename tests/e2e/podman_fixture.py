# SPDX-License-Identifier: MIT
"""Podman for tests: a configuration of its own, with images and containers
apart from the person's, and a program that is known to run containers here.

Where it cannot, a test that asks for it is skipped with the reason; with CI
set that is a failure.  The images are Docker's, as tests/images.sh makes
them.  CONTAINERS_CONF is how a user, too, says which runtime it is to be.
"""
import os
import pathlib
import shutil
import subprocess
import uuid

from docker_fixture import docker_program, image, skip

# Kept from one run to the next: an image of Debian takes a while to copy.
STORE = pathlib.Path(f"/var/tmp/smx-podman-{os.getuid()}")
CONTAINERS = """[containers]
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_state = {}


def write(path, text):
    """Whole or not at all: several processes write the same."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.rename(path)


def podman_env():
    """The variables that select the tests' own store."""
    if "env" not in _state:
        STORE.mkdir(mode=0o700, exist_ok=True)
        runc = 'runtime = "runc"\n' if shutil.which("runc") else ""
        write(STORE / "containers.conf", CONTAINERS + runc)
        write(STORE / "storage.conf",
              f'[storage]\ndriver = "overlay"\nrunroot = "{STORE}/run"\n'
              f'graphroot = "{STORE}/graph"\n')
        _state["env"] = {
            "CONTAINERS_CONF": str(STORE / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(STORE / "storage.conf")}
    return _state["env"]


def podman(*args, check=True, **kw):
    """Run it to its end; what subprocess.run gives, in text."""
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [podman_program(), *args], env={**os.environ, **podman_env()},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=300, check=check, **kw)


def podman_program():
    """The path of a podman that runs containers here, or skip."""
    if "program" not in _state:
        program = shutil.which("podman")
        _state["program"] = program, None if program else \
            "podman is not installed"
        if program:
            box = "sandmux-test-" + uuid.uuid4().hex[:12]
            done = podman("run", "--rm", "--name", box,
                          podman_image("scratch"), "/pause", "echo", "hi",
                          check=False)
            if (done.returncode, done.stdout) != (0, "hi\n"):
                _state["program"] = program, "podman runs no containers: " + \
                    (done.stderr.strip().splitlines() or ["?"])[-1]
    program, reason = _state["program"]
    if reason:
        skip(reason)
    return program


def podman_image(name):
    """An image of tests/images.sh in Podman's store; its full name."""
    full = image(name)
    if full in _state:
        return full
    docker = docker_program()
    wanted = subprocess.run([docker, "image", "inspect", "-f", "{{.Id}}",
                             full], capture_output=True, text=True,
                            check=True).stdout.strip()
    # By its id: a newer one of that name is another image.
    there = podman("image", "inspect", "--format", "{{.Id}}", full,
                   check=False).stdout.strip()
    if not wanted.endswith(there or "?"):
        with subprocess.Popen([docker, "save", full],
                              stdout=subprocess.PIPE) as save:
            podman("load", "-q", stdin=save.stdout)
    _state[full] = True
    return full


def podman_start(name, *options, command=None):
    """Start a container of podman_image(name); podman_remove() it."""
    box = "sandmux-test-" + uuid.uuid4().hex[:12]
    if command is None:
        command = [] if name.startswith("scratch") else ["sleep", "2147483647"]
    podman("run", "-d", "--name", box, "--stop-timeout", "0", *options,
           podman_image(name), *command)
    return box


def podman_remove(box):
    podman("rm", "-f", "-v", box, check=False)

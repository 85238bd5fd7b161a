# SPDX-License-Identifier: MIT
"""Where the tests make the provider's sandboxes, each from a configuration
as a user would write it: docker with a root agent and without one, with root
as the default user, the openshell stand-in in its cage, and local.

`local` as root is no place for Inspect's checks, which add users: that one
runs the controller inside a throw-away container (`local-root`).
"""
import contextlib
import os
import subprocess
import tempfile

import anyio
import spine
from docker_fixture import docker_program, image, remove
from sandmux import Target
from sandmux.provider import SandmuxConfig, SandmuxSandboxEnvironment

PLACES = ("docker", "docker-no-root", "docker-root", "openshell", "local-root")
# The checks of Inspect's that a root cannot pass without faking mode bits.
ROOT_CANNOT = {"test_read_file_not_allowed",
               "test_write_text_file_without_permissions",
               "test_write_binary_file_without_permissions"}
POLICY = """version: 1
filesystem_policy:
  include_workdir: true
  read_only: [/usr, /lib, /lib64, /etc, /app, /var/log, /proc, /dev/urandom]
  read_write: [/sandbox, /tmp, /dev/null, /var/tmp]
"""


def config(place, **more):
    """The configuration of a place, as sandmux.yaml's keys."""
    if place == "local":
        return {"transport": "local", **more}
    found = {"transport": "docker", "image": image("inspect"),
             "workdir": "/sandbox"}
    if place == "docker-no-root":
        found["create_args"] = ["--cap-drop", "ALL"]
    elif place == "docker-root":
        found["create_args"] = ["--user", "0"]
    elif place == "openshell":
        need_openshell()
        found["transport"] = "openshell"
    return {**found, **more}


def need_openshell():
    """The stand-in, or a real one; else skip."""
    docker_program()
    if not os.environ.get("OPENSHELL") and not (
            spine.BUILD / "tests/openshell/gateway").exists():
        spine.skip("the stand-in openshell is not built (make test-programs)")
    spine.openshell_bin()


def policy_file(directory):
    """A policy that has /var/tmp, for Inspect's own tools."""
    path = directory / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


@contextlib.asynccontextmanager
async def sandboxes(place, **more):
    """A sample's sandboxes at a place, by name; removed in the end."""
    if place == "local-root":
        async with local_root() as one:
            yield {"default": one}
        return
    settings = SandmuxConfig(**config(place, **more))
    cls = SandmuxSandboxEnvironment
    made = await cls.sample_init("test", settings, {})
    try:
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await cls.sample_cleanup("test", settings, made, False)


@contextlib.asynccontextmanager
async def sandbox(place, **more):
    """The only sandbox of a sample at a place."""
    async with sandboxes(place, **more) as made:
        yield made["default"]


@contextlib.asynccontextmanager
async def local_root():
    """`local`, of a controller that runs as root in a container."""
    static = spine.BUILD / "static/sandmux"
    if os.geteuid() != 0 or not static.exists():
        spine.skip("it takes root, and `make static`")
    box = "sandmux-test-local-" + spine.marker()
    before = os.environ["SANDMUX_DIR"]
    with tempfile.TemporaryDirectory(prefix="smx") as top:
        run = os.path.join(top, "run")
        os.mkdir(run, 0o700)
        subprocess.run(
            [docker_program(), "run", "-d", "--name", box, "--network", "none",
             "--user", "0", "-v", f"{top}:{top}", "-v",
             f"{static}:/usr/bin/sandmux:ro", "-e", "HOME=/root",
             image("inspect"), "sandmux", "serve", "--dir", run],
            check=True, capture_output=True)
        os.environ["SANDMUX_DIR"] = run
        try:
            spine.wait_for("the controller", lambda: os.path.exists(
                os.path.join(run, "socket")))
            async with Target("local") as target:
                yield SandmuxSandboxEnvironment(target)
        finally:
            os.environ["SANDMUX_DIR"] = before
            remove(box)

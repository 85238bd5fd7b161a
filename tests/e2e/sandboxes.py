# SPDX-License-Identifier: MIT
"""What the test_sandboxes_* files share: configurations of each transport,
a Host whose sandboxes are removed in the end, and a CLI in between that can
be slow or kill `up` at a call of the test's choice."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from podman_fixture import podman, podman_env, podman_image, podman_program
from spine import (KINDS, QEMU, Host, docker_program, image,
                   make_openshell, openshell_bin, openshell_image)


def config(kind, **more):
    """A configuration of that transport, as a dictionary."""
    if QEMU and kind != "local":
        pytest.skip("under qemu only the local target is tested")
    if kind == "docker":
        base = {"transport": "docker", "image": image("busybox"),
                "create_args": ["--network", "none"]}
    elif kind == "podman":
        podman_program()        # or a skip
        base = {"transport": "podman", "image": podman_image("busybox")}
    elif kind == "openshell":
        make_openshell()        # or a skip
        base = {"transport": "openshell", "image": openshell_image()}
    else:
        base = {"transport": "local"}
    return {**base, **more}


class Sandboxes(Host):
    """A Host with the commands of sandboxes."""

    def up(self, conf, *args, **kw):
        """`up --json` of a dictionary; the sandboxes."""
        done = self.try_up(conf, "--json", *args, **kw)
        assert done.status == 0 and done.err == b"", done
        return json.loads(done.out)["sandboxes"]

    def try_up(self, conf, *args, **kw):
        text = json.dumps(conf, ensure_ascii=False).encode()
        return self.run("up", "-f", "-", *args, input=text, **kw)

    def ls(self):
        """{name: what `ls --json` says of it}."""
        done = self.run("ls", "--json")
        assert done.status == 0, done
        return {s["name"]: s for s in json.loads(done.out)["sandboxes"]}

    @property
    def store(self):
        return self.top / "state/sandmux/sandboxes"

    def records(self):
        return sorted(p.name for p in self.store.iterdir()
                      if p.name != ".owner")

    def owner(self):
        return (self.store / ".owner").read_text()

    def containers(self):
        """Names of all containers with our label, seen without sandmux."""
        done = subprocess.run(
            [docker_program(), "ps", "-a", "--filter",
             f"label=sandmux.owner={self.owner()}", "--format",
             "{{.Names}}"], capture_output=True, text=True, check=True)
        return sorted(done.stdout.split())

    def in_podman(self):
        """Likewise, of Podman's."""
        done = podman("ps", "-a", "--filter",
                      f"label=sandmux.owner={self.owner()}", "--format",
                      "{{.Names}}")
        return sorted(done.stdout.split())

    def in_gateway(self):
        """Names of all sandboxes with our label, likewise."""
        done = subprocess.run(
            [f"{openshell_bin()}/openshell", "sandbox", "list", "-o",
             "json"], capture_output=True, text=True, check=True,
            stdin=subprocess.DEVNULL)
        return sorted(s["name"] for s in json.loads(done.stdout)
                      if s["labels"].get("sandmux.owner") == self.owner())

    def there(self, kind):
        """What is there of ours, by the transport's own word."""
        if kind == "docker":
            return self.containers()
        if kind == "podman":
            return self.in_podman()
        if kind == "openshell":
            return self.in_gateway()
        return sorted(p.name for p in self.tmp.iterdir())

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.tmp = self.top / "tmp"
        self.tmp.mkdir()
        self.env["TMPDIR"] = str(self.tmp)
        self.env.update(podman_env())

    def close(self):
        self.run("cleanup")
        super().close()


class Between:
    """A directory for PATH with docker, podman and openshell in it.  Each call is
    counted, but for the controller's; the one that `at` names is slow, or
    kills `up`."""

    SCRIPT = """#!/bin/sh
    dir=%s
    case " $* " in *" --help "*) exec %s "$@" ;; esac
    up=$(cut -d ' ' -f 4 /proc/$PPID/stat)
    case $(cat /proc/$PPID/cmdline /proc/$up/cmdline | tr '\\0' ' ') in
    *" serve "*) exec %s "$@" ;; esac
    n=$(cat $dir/count); n=$((n + 1)); echo $n >$dir/count
    read -r at what <$dir/at
    echo "begin $*" >>$dir/log
    if [ "$at" = $n ] || [ "$at" = all ]; then case $what in
    slow) sleep 1 ;;
    before) kill -9 $up; sleep 30 ;;
    after) %s "$@"; kill -9 $up; sleep 30 ;;
    aside) setsid sh -c 'sleep 0.3; exec "$@"' sh %s "$@" </dev/null \\
        >/dev/null 2>&1 & sleep 0.1; kill -9 $up; sleep 30 ;;
    esac; fi
    %s "$@"; status=$?
    echo "end $*" >>$dir/log
    exit $status
    """

    def __init__(self, top):
        self.dir = pathlib.Path(top)
        self.dir.mkdir(exist_ok=True)
        self.at("0", "none")
        for real in (shutil.which("docker"), shutil.which("podman"),
                     f"{openshell_bin()}/openshell"):
            if real is None:
                continue
            name = os.path.basename(real)
            path = self.dir / name
            path.write_text("\n".join(
                line.strip() for line in (self.SCRIPT % (
                    (self.dir,) + (real,) * 5)).splitlines()) + "\n")
            path.chmod(0o755)

    def at(self, number, what):
        (self.dir / "at").write_text(f"{number} {what}\n")
        (self.dir / "count").write_text("0\n")
        (self.dir / "log").write_text("")

    def count(self):
        return int((self.dir / "count").read_text() or 0)

    def log(self):
        return (self.dir / "log").read_text().splitlines()

    def path(self, env):
        return {"PATH": f"{self.dir}:{env['PATH']}"}


@pytest.fixture
def boxes():
    """A controller of the test's own; all its sandboxes go in the end."""
    one = Sandboxes()
    yield one
    one.close()


@pytest.fixture(params=(*KINDS, "podman"))
def kind(request):
    if QEMU and request.param != "local":
        pytest.skip("under qemu only the local target is tested")
    return request.param


@pytest.fixture(params=("docker", "podman", "openshell"))
def remote(request):
    if QEMU:
        pytest.skip("under qemu only the local target is tested")
    return request.param

# SPDX-License-Identifier: MIT
"""openshell_box: an openshell CLI and a sandbox of it, for the fact tests."""
import json
import os
import pathlib
import select
import subprocess
import sys
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get("BUILD", "build")
sys.path.insert(0, str(TOP / "tests/tools/openshell"))
from channel import Channel, pattern_fast, run  # noqa: E402,F401


def skip_or_fail(reason):
    """With CI set a skip for lack of Docker is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def docker(*args, data=None):
    return subprocess.run(["docker", *args], input=data, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)


def derive(tag, text):
    """An image made from a Dockerfile without any network."""
    done = docker("build", "-q", "--network", "none", "-t", tag, "-",
                  data=text.encode())
    assert done.returncode == 0, done.stdout.decode()
    return tag


def find_image():
    named = os.environ.get("OPENSHELL_IMAGE")
    if named:
        return named
    done = subprocess.run(["sh", str(TOP / "tests/images.sh"), "inspect"],
                          cwd=TOP, capture_output=True, text=True)
    if done.returncode:
        skip_or_fail("no image: " + done.stderr.strip())
    return "sandmux-test-inspect:1"


class Shell:
    """One openshell CLI, the stand-in or a real one."""

    def __init__(self, cli, image, state):
        self.cli = cli
        self.image = image
        self.state = state      # of the stand-in, else None
        self.env = dict(os.environ)
        if state:
            self.env["STANDIN_DIR"] = str(state)
            for name in ("STANDIN_NO_LOGIN_SHELL", "STANDIN_DETACH"):
                self.env.pop(name, None)

    @property
    def real(self):
        return self.state is None

    def run(self, *args, data=b"", timeout=60, env=None):
        return run([self.cli, *args], data, timeout, {**self.env,
                                                      **(env or {})})

    def standin(self, *args):
        if self.real:
            pytest.skip("a real gateway is not cut or restarted on demand")
        status, out, err = self.run("standin", *args)
        assert status == 0, err
        return out

    def create(self, name, image=None, main=("sleep", "infinity"), extra=()):
        return self.run("sandbox", "create", "--name", name, "--from",
                        image or self.image, *extra, "--detach", "--", *main,
                        timeout=330)

    def delete(self, name):
        return self.run("sandbox", "delete", name)


class Box:
    """A sandbox with the probe in it."""

    def __init__(self, shell, name):
        self.shell = shell
        self.name = name

    def argv(self, *cmd, flags=()):
        return [self.shell.cli, "sandbox", "exec", "-n", self.name, *flags,
                "--", *cmd]

    def exec(self, *cmd, data=b"", flags=(), timeout=60, env=None):
        return self.shell.run(*self.argv(*cmd, flags=flags)[1:], data=data,
                              timeout=timeout, env=env)

    def sh(self, script, **kw):
        """Output of a script that must succeed."""
        status, out, err = self.exec("bash", "-c", script, **kw)
        assert status == 0, (status, out, err)
        return out.decode()

    def tty(self, *cmd, flags=()):
        return Channel(self.argv(*cmd, flags=["--tty", *flags]),
                       self.shell.env)

    def probe(self, *cmd):
        ch = self.tty("/tmp/probe", *cmd)
        ch.ready()
        return ch

    def alive(self, pidfile):
        return self.sh(f"kill -0 $(cat {pidfile}) && echo yes || echo no"
                       ).strip() == "yes"

    def wait_for(self, script, seconds=20):
        """Until the script prints something; that text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.sh(script).strip()
            if text:
                return text
            time.sleep(0.1)
        raise TimeoutError(script)


def upload_probe(box):
    probe = BUILD / "tests/openshell/probe"
    box.sh("cat >/tmp/probe && chmod 755 /tmp/probe",
           data=probe.read_bytes())


def phases(shell):
    status, out, err = shell.run("sandbox", "list", "-o", "json")
    assert status == 0, err
    return {s["name"]: s["phase"] for s in json.loads(out)}


def write_until_it_blocks(ch, limit):
    """Bytes taken before 2 s pass without room, at most the limit."""
    os.set_blocking(ch.master, False)
    total = 0
    while total < limit and select.select([], [ch.master], [], 2)[1]:
        try:
            total += os.write(ch.master, b"y" * 4096)
        except BlockingIOError:
            time.sleep(0.001)
    return total

# SPDX-License-Identifier: MIT
"""Fixtures of the command-line tests: `sandmux` runs the program against a
controller of this test session alone, `local` runs commands on `local`."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

# What qemu-user cannot do for the arm64 agent.
ORPHANS = "it has no PR_SET_CHILD_SUBREAPER: orphans leave the agent's tree"
DOCKER = "containers have none"
UNDER_QEMU = {
    "test_jobs_trees": ORPHANS, "test_jobs_life": ORPHANS,
    "test_jobs_storm": ORPHANS,
    "test_a_timeout_counts": ORPHANS,
    "test_background_children_of_a_detached_one": ORPHANS,
    "test_yes_behind_a_detached_one": ORPHANS,
    "test_reader_that_goes_ends_the_job": ORPHANS,
    "test_a_reader_that_goes_away": ORPHANS,
    "test_remove_names_what_it_cannot": DOCKER, "test_as_a_user": DOCKER,
    "test_signal_is_128_and_it[34]": "it needs two of the signals itself",
    "test_signal_is_128_and_it[64]": "likewise",
    "test_signals_have_their_defaults": "it leaves its own signal ignored",
}

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 60          # seconds for anything; never a measure


def program():
    """The binary under test."""
    build = os.environ.get("SANDMUX_BUILD") or ROOT / "build"
    return os.environ.get("SANDMUX") or str(
        pathlib.Path(build) / "host/sandmux")


def processes_with(word):
    """{pid: argv} of every process that has word in its arguments."""
    word, found = os.fsencode(word), {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                argv = f.read()
        except OSError:
            continue
        if word in argv:
            found[int(entry)] = argv.split(b"\0")
    return found


def wait_until(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


class Sandmux:
    """One runtime directory and the program run against it."""

    def __init__(self, directory):
        self.dir = str(directory)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("SANDMUX")}
        self.env["SANDMUX_DIR"] = self.dir
        self.env["XDG_STATE_HOME"] = self.dir + ".state"
        # If the tests are killed, what they started ends by itself.
        self.env["SANDMUX_SERVE_ARGS"] = ("--idle 120 --idle-exit 60 "
                                          "--linger 5")

    def __call__(self, *args, stdin=b"", env=None, **kw):
        """Run it to its end; bytes in and out."""
        kw.setdefault("timeout", LIMIT)
        if isinstance(stdin, bytes):
            kw["input"] = stdin
        else:
            kw["stdin"] = stdin
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        return subprocess.run([program(), *args], check=False,
                              env={**self.env, **(env or {})}, **kw)

    def start(self, *args, env=None, **kw):
        """Start it; the caller waits for it."""
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([program(), *args],
                                env={**self.env, **(env or {})}, **kw)

    def close(self):
        done = self("stop")
        left = {}

        def gone():
            left.clear()
            left.update(processes_with(self.dir))
            return not left
        try:
            wait_until("all processes gone", gone, 15)
        finally:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert done.returncode == 0, done


@pytest.fixture(scope="session")
def sandmux(tmp_path_factory):
    """The program and its controller; at the end no process is left."""
    # Short: a socket's path has 108 bytes.
    with tempfile.TemporaryDirectory(prefix="smx") as top:
        one = Sandmux(os.path.join(top, "run"))
        yield one
        one.close()


@pytest.fixture
def fresh():
    """Another one, for tests that need a controller of their own."""
    with tempfile.TemporaryDirectory(prefix="smx") as top:
        one = Sandmux(os.path.join(top, "run"))
        yield one
        one.close()


@pytest.fixture
def local(sandmux):
    """local("cat", "-n", opts=("-i",), stdin=b"x") runs on `local`."""
    def run(*command, opts=(), **kw):
        return sandmux("exec", *opts, "local", "--", *command, **kw)
    return run


def pytest_collection_modifyitems(items):
    if not os.environ.get("SANDMUX_QEMU"):
        return
    for item in items:
        for name in (item.name, item.originalname, item.module.__name__):
            if name in UNDER_QEMU:
                item.add_marker(pytest.mark.skip(
                    reason="qemu-user: " + UNDER_QEMU[name]))


def pytest_sessionfinish():
    if "spine" in sys.modules:
        sys.modules["spine"].end_all()

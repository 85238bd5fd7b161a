# SPDX-License-Identifier: MIT
"""`make install`: what lies where, that it works there, and goes over itself."""
import os
import pathlib
import stat
import subprocess

import pytest
from spine import BUILD, QEMU, ROOT, Host

PREFIX = "/opt/of-a-test"
# Everything that is installed, with its mode.
WANTED = {"bin": 0o755, "bin/sandmux": 0o755,
          "lib": 0o755, "lib/sandmux": 0o755,
          "lib/sandmux/sandmux-agent": 0o755,
          "share": 0o755, "share/man": 0o755, "share/man/man1": 0o755,
          "share/man/man1/sandmux.1": 0o644}

pytestmark = pytest.mark.skipif(
    QEMU or bool(os.environ.get("SANDMUX_SANITIZE")),
    reason="installs what `make` builds, not a variant")


def install(destination):
    """As a user would: a make of its own, not a part of one that runs us."""
    env = {k: v for k, v in os.environ.items()
           if k not in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "B")}
    old = os.umask(0o022)
    try:
        return subprocess.run(
            ["make", f"B={os.path.relpath(BUILD, ROOT)}",
             f"DESTDIR={destination}", f"PREFIX={PREFIX}", "install"],
            cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    finally:
        os.umask(old)


def found(top):
    return {str(p.relative_to(top)): stat.S_IMODE(p.lstat().st_mode)
            for p in top.rglob("*")}


def test_install(tmp_path):
    done = install(tmp_path)
    assert done.returncode == 0, done
    top = tmp_path / PREFIX[1:]
    assert found(top) == WANTED
    assert [p.name for p in tmp_path.iterdir()] == ["opt"]
    assert [p.name for p in (tmp_path / "opt").iterdir()] == ["of-a-test"]
    for name, source in (("share/man/man1/sandmux.1",
                          ROOT / "host/sandmux.1"),
                         ("lib/sandmux/sandmux-agent",
                          BUILD / "agent/sandmux-agent"),
                         ("bin/sandmux", BUILD / "host/sandmux")):
        assert (top / name).read_bytes() == source.read_bytes(), name
    # It is all that is needed: nothing of the build directory is.
    host = Host(program=top / "bin/sandmux")
    try:
        done = host.sh("local", "cat; exit 7", input=b"over the link")
        assert (done.status, done.out) == (7, b"over the link"), done
        [pid] = host.controllers()
        assert os.readlink(f"/proc/{pid}/exe") == str(top / "bin/sandmux")
        before = (top / "bin/sandmux").stat().st_ino
        # Over a program that runs.
        done = install(tmp_path)
        assert done.returncode == 0, done
        assert found(top) == WANTED
        assert (top / "bin/sandmux").stat().st_ino != before
        done = host.exec("local", "echo", "again")
        assert (done.status, done.out) == (0, b"again\n"), done
    finally:
        host.close()


def test_a_failed_install_says_so(tmp_path):
    (tmp_path / "opt").write_text("a file where a directory is to be")
    done = install(tmp_path)
    assert done.returncode != 0
    assert [p.name for p in tmp_path.iterdir()] == ["opt"]


def test_installed_agent_answers(tmp_path):
    assert install(tmp_path).returncode == 0
    agent = tmp_path / PREFIX[1:] / "lib/sandmux/sandmux-agent"
    done = subprocess.run([agent, "version"], capture_output=True, text=True,
                          check=False)
    ours = subprocess.run([tmp_path / PREFIX[1:] / "bin/sandmux", "version"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, ours.returncode) == (0, 0), (done, ours)
    assert done.stdout.split()[:1] == ["sandmux-agent"]
    # Programs that belong together say one version.
    assert done.stdout.split()[1] == ours.stdout.split()[1], (done, ours)

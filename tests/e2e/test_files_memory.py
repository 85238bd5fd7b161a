# SPDX-License-Identifier: MIT
"""What a copy takes of memory, whatever its size: the client, its helper, the
controller, the agent and its worker stay below one bound."""
import os
import pathlib

import pytest
from spine import LONG, MIB, agents, host, hwm, shared_host  # noqa: F401

BOUND = 16 * 1024               # KiB, each
SIZE = (4 << 30) if LONG else 192 * MIB
ENTRIES = 100_000 if LONG else 5000
SANITIZED = b"__asan_init" in pathlib.Path(
    os.environ.get("SANDMUX_BUILD", "build"), "host/sandmux").read_bytes()

pytestmark = pytest.mark.skipif(
    SANITIZED, reason="a sanitizer's memory is not ours")


def children(pid):
    try:
        return [int(x) for x in pathlib.Path(
            f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def watch(host, *words):  # noqa: F811
    """The copy; the most that each kind of process has had, in KiB."""
    session = host.session("local")
    (controller,) = host.controllers()
    client = host.popen("cp", *map(str, words))
    most = {}
    while client.poll() is None:
        core, workers = agents(session)[1], agents(session)[2:]
        for kind, pids in (("controller", [controller]), ("agent", [core]),
                           ("worker", workers), ("client", [client.pid]),
                           ("helper", children(client.pid))):
            for pid in pids:
                try:
                    most[kind] = max(most.get(kind, 0), hwm(pid))
                except (OSError, AttributeError):   # it has ended by now
                    pass
    assert client.returncode == 0, client.stderr.read()
    assert {"controller", "agent", "worker", "client"} <= most.keys(), most
    assert all(kib < BOUND for kib in most.values()), most


@pytest.mark.parametrize("words", [
    ("/dev/zero", "local:/dev/null"), ("local:/dev/zero", "/dev/null")],
    ids=["up", "down"])
def test_a_file(host, words):  # noqa: F811
    host.exec("local", "true")
    watch(host, "--length", SIZE, *words)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_tree(host, tmp_path, way):  # noqa: F811
    host.exec("local", "true")
    for i in range(ENTRIES):
        if i % 1000 == 0:
            inside = tmp_path / "src" / f"d{i}"
            inside.mkdir(parents=True)
        (inside / f"f{i}").write_bytes(b"x" * 100)
    os.link(inside / f"f{i}", tmp_path / "src/twin")
    words = [str(tmp_path / "src"), str(tmp_path / "dst")]
    words[way == "up"] = f"local:{words[way == 'up']}"
    watch(host, "-r", *words)

# SPDX-License-Identifier: MIT
"""What the hostile tests share: processes to look at, and their limits."""
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

BUILD = pathlib.Path(os.environ.get("SANDMUX_BUILD",
                                    pathlib.Path(__file__).parents[2] /
                                    "build"))


def processes(marker):
    """Pids of live processes with the marker in argv or environment."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        for name in ("cmdline", "environ"):
            try:
                data = pathlib.Path("/proc", entry, name).read_bytes()
            except OSError:
                continue
            if marker.encode() in data:
                found.append(int(entry))
                break
    return found


def children(pid):
    """The whole tree below pid."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            text = pathlib.Path(f"/proc/{pid}/task/{task}/children")
            for child in text.read_text().split():
                found += [int(child), *children(int(child))]
    except OSError:
        pass
    return found


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(
            ")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids, timeout):
    """Wait for the end of all of these; those that are left."""
    until = time.monotonic() + timeout
    while True:
        left = [pid for pid in pids if alive(pid)]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.02)


def wait_for(what, timeout=10):
    until = time.monotonic() + timeout
    while True:
        value = what()
        if value or time.monotonic() > until:
            return value
        time.sleep(0.02)


def peak(pid):
    """The most resident memory it ever had, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.fixture(scope="session")
def agent_program():
    path = BUILD / "agent" / "sandmux-agent"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return str(path)


@pytest.fixture(scope="session")
def host_program():
    path = BUILD / "host" / "sandmux"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return str(path)

# SPDX-License-Identifier: MIT
"""What the tests of the Python package share: the package as it is in the
tree, a controller of this session's own, and what tests/e2e/spine.py has.

Async tests run on anyio's plugin, on asyncio and on trio where `backend` is
asked for.
"""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "host/inspect/src"), str(ROOT / "host/inspect/examples"),
                str(ROOT / "tests/e2e")]

import spine  # noqa: E402

# The client reads the environment, as the program does.
_host = spine.Host(serve="--idle 300 --idle-exit 300 --linger 5")
for _name in ("SANDMUX_DIR", "XDG_STATE_HOME", "SANDMUX_SERVE_ARGS", "PATH"):
    os.environ[_name] = _host.env[_name]
os.environ["SANDMUX_PROGRAM"] = spine.SANDMUX
os.environ["INSPECT_DISPLAY"] = "none"
for _name in ("XDG_RUNTIME_DIR", "SANDMUX_AGENT_USER"):
    os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def host():
    """This session's runtime directory and its controller."""
    return _host


def pytest_sessionfinish():
    _host.close()
    spine.end_all()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def elsewhere(tmp_path_factory, monkeypatch):
    """A runtime directory without a controller, for this test alone."""
    directory = tmp_path_factory.mktemp("run", numbered=True)
    directory.chmod(0o700)
    monkeypatch.setenv("SANDMUX_DIR", str(directory))
    return directory

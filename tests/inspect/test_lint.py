# SPDX-License-Identifier: MIT
"""Types and style of the package, as its pyproject.toml asks for them."""
import subprocess
import sys
import tempfile

import pytest
from conftest import ROOT

PACKAGE = ROOT / "host/inspect"
CHECKS = {
    "mypy": ["mypy", "src", "examples", "--cache-dir", tempfile.gettempdir() +
             "/sandmux-mypy"],
    "ruff": ["ruff", "check", "--no-cache", "."],
    "format": ["ruff", "format", "--no-cache", "--check", "."],
}


@pytest.mark.parametrize("name", CHECKS)
def test_clean(name):
    done = subprocess.run([sys.executable, "-m", *CHECKS[name]], cwd=PACKAGE,
                          capture_output=True, text=True, timeout=170,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_says_that_it_is_typed():
    assert (PACKAGE / "src/sandmux/py.typed").exists()


@pytest.mark.parametrize("path", sorted(
    p for top in ("src", "examples") for p in (PACKAGE / top).rglob("*.py")),
    ids=lambda p: p.name)
def test_spdx_comes_first(path):
    assert path.read_text().startswith("# SPDX-License-Identifier: MIT\n")

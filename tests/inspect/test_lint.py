# SPDX-License-Identifier: MIT
"""Types and style of the package, as its pyproject.toml asks for them."""
import subprocess
import sys

import pytest
from conftest import ROOT

PACKAGE = ROOT / "host/inspect"


@pytest.mark.parametrize("command", [
    ["mypy", "src", "examples"], ["ruff", "check", "--no-cache", "."],
    ["ruff", "format", "--no-cache", "--check", "."]], ids=lambda c: "-".join(c[:2]))
def test_clean(command, tmp_path):
    more = ["--cache-dir", str(tmp_path)] if command[0] == "mypy" else []
    done = subprocess.run([sys.executable, "-m", *command, *more],
                          cwd=PACKAGE, capture_output=True, text=True,
                          timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_says_that_it_is_typed():
    assert (PACKAGE / "src/sandmux/py.typed").exists()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")),
                         ids=lambda p: p.name)
def test_spdx_comes_first(path):
    assert path.read_text().startswith("# SPDX-License-Identifier: MIT\n")

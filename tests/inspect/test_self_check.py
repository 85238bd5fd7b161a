# SPDX-License-Identifier: MIT
"""Inspect's 44 checks of a provider at every place, and exactly what fails.

Docker with a root agent and an unprivileged default user: nothing.  Where no
agent can be root: test_exec_as_user, by SandboxUserUnsupportedError.  Where
the default user is root: the three that no root can pass.
"""
import atexit
import os
import pathlib
import shutil
import sys
import tempfile
import xml.etree.ElementTree as tree

import places
import pytest
from conftest import Early
from inspect_ai.util._sandbox import self_check

HERE = pathlib.Path(__file__).parent
CHECKS = sorted(self_check.__all__)


class Outcome:
    """A run of all checks at one place."""

    def __init__(self, place, directory):
        self.report = pathlib.Path(directory) / f"{place}.xml"
        self.run = Early(
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "--timeout=170", f"--junitxml={self.report}",
            str(HERE / "self_check_place.py"),
            env={**os.environ, "PLACE": place})
        self.cases = None

    def get(self, check):
        """None, or how it failed; skips where its place is skipped."""
        if self.cases is None:
            _, text = self.run.wait()
            assert self.report.exists(), text
            self.cases = {case.get("name"): case for case in
                          tree.parse(self.report).iter("testcase")}
        case = self.cases[check]
        skipped = case.find("skipped")
        if skipped is not None:
            places.spine.skip(skipped.get("message"))
        for kind in ("failure", "error"):
            if case.find(kind) is not None:
                return case.find(kind).get("message") + case.find(kind).text
        return None


_outcomes = {}


def begin():
    try:
        places.image("inspect")     # else each of them would make it
    except pytest.skip.Exception:
        pass
    directory = tempfile.mkdtemp(prefix="self-check-")
    atexit.register(shutil.rmtree, directory, True)
    for place in places.PLACES:
        _outcomes[place] = Outcome(place, directory)


def test_there_are_as_many_checks_as_ever():
    assert len(CHECKS) == 44


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("place", places.PLACES)
def test_self_check(place, check):
    failure = _outcomes[place].get(check)
    if place in ("docker-root", "local-root") and check in places.ROOT_CANNOT:
        assert failure is not None and "Expected exception PermissionError " \
            "but no exception was raised" in failure
    elif place in ("docker-no-root", "openshell") and \
            check == "test_exec_as_user":
        assert failure is not None and "SandboxUserUnsupportedError" in failure
    else:
        assert failure is None, failure

# SPDX-License-Identifier: MIT
"""Inspect's 44 checks of a provider at every place, and exactly what fails.

Docker with a root agent and an unprivileged default user: nothing.  Where no
agent can be root: test_exec_as_user, by SandboxUserUnsupportedError.  Where
the default user is root: the three that no root can pass.
"""
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as tree

import places
import pytest
from inspect_ai.util._sandbox import self_check

HERE = pathlib.Path(__file__).parent
CHECKS = sorted(self_check.__all__)


class Outcome:
    """A run of all checks at one place."""

    def __init__(self, place, directory):
        self.report = directory / f"{place}.xml"
        self.log = open(directory / f"{place}.log", "w+b")
        self.child = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-p", "no:xdist", "--timeout=170", f"--junitxml={self.report}",
             str(HERE / "self_check_place.py")],
            env={**os.environ, "PLACE": place}, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=subprocess.STDOUT)
        self.cases = None

    def get(self, check):
        """None, or how it failed; skips where its place is skipped."""
        if self.cases is None:
            self.child.wait(timeout=175)
            self.log.seek(0)
            text = self.log.read().decode(errors="replace")
            assert self.report.exists(), text
            self.cases = {case.get("name"): case for case in
                          tree.parse(self.report).iter("testcase")}
            assert set(CHECKS) <= set(self.cases), text
        case = self.cases[check]
        skipped = case.find("skipped")
        if skipped is not None:
            places.spine.skip(skipped.get("message"))
        for kind in ("failure", "error"):
            if case.find(kind) is not None:
                return case.find(kind).get("message") + case.find(kind).text
        return None


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    places.image("inspect")     # else each of them would make it
    directory = tmp_path_factory.mktemp("self_check")
    found = {place: Outcome(place, directory) for place in places.PLACES}
    yield found
    for one in found.values():
        if one.child.poll() is None:
            one.child.kill()
            one.child.wait()
        one.log.close()


def test_there_are_as_many_checks_as_ever():
    assert len(CHECKS) == 44


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("place", places.PLACES)
def test_self_check(outcomes, place, check):
    failure = outcomes[place].get(check)
    if place in ("docker-root", "local-root") and check in places.ROOT_CANNOT:
        assert failure is not None and "Expected exception PermissionError " \
            "but no exception was raised" in failure
    elif place in ("docker-no-root", "openshell") and \
            check == "test_exec_as_user":
        assert failure is not None and "SandboxUserUnsupportedError" in failure
    else:
        assert failure is None, failure

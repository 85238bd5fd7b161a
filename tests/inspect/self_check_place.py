# SPDX-License-Identifier: MIT
"""Inspect's own checks at the place that $PLACE names.

Not collected by itself: test_self_check.py runs it once for each place, all
of them at once, since the checks mostly wait.
"""
import os

import places
import pytest
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def one():
    async with places.sandbox(os.environ["PLACE"]) as made:
        # Two of the checks pass in vain without it.
        done = await made.exec(["ps", "aux"])
        assert done.success and "ps aux" in done.stdout, done
        yield made


@pytest.fixture
async def sandbox_env(one):
    yield one

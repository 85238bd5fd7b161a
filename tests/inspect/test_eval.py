# SPDX-License-Identifier: MIT
"""Evaluations with mockllm/model: Inspect's own tools, many samples at once,
a controller that is killed in the middle, samples that are cancelled."""
import json
import os
import random
import signal
import subprocess
import threading
import time

import anyio
import places
import pytest
import spine
import tasks
from inspect_ai.util import SandboxEnvironmentSpec
from sandmux.provider import SandmuxConfig, SandmuxSandboxEnvironment

MIB = 1 << 20


def spec(place, **more):
    return SandboxEnvironmentSpec("sandmux", SandmuxConfig(
        **places.config(place, **more)))


def ls():
    done = subprocess.run([spine.SANDMUX, "ls", "--json"], check=True,
                          capture_output=True, timeout=60)
    return [(s["name"], s["state"])
            for s in json.loads(done.stdout)["sandboxes"]]


def containers():
    """Those that carry our label."""
    done = subprocess.run(["docker", "ps", "-a", "--format",
                           "{{.Names}}"], check=True, capture_output=True,
                          text=True)
    return {name for name in done.stdout.split() if name.startswith("smx-")}


@pytest.fixture
def alone(elsewhere, monkeypatch, tmp_path):
    """A controller and records of this test alone; nothing may be left."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    subprocess.run([spine.SANDMUX, "cleanup"], check=False, timeout=120,
                   capture_output=True)
    subprocess.run([spine.SANDMUX, "stop"], check=False, timeout=60,
                   capture_output=True)


@pytest.mark.parametrize("place", ["docker", "openshell"])
def test_inspects_own_tools(place, alone, tmp_path):
    """exec_remote, sandbox_service and text_editor, all of which need a
    writable /var/tmp."""
    more = {}
    if place == "openshell":
        more["policy"] = places.policy_file(tmp_path)
    log = tasks.run(tasks.own_tools("sandbox"), spec(place, **more), tmp_path,
                    model=tasks.edit())
    assert log.status == "success", log.error
    assert tasks.scores(log) == [(1, "ok")]
    assert ls() == []


@pytest.mark.parametrize("place", ["docker", "openshell"])
def test_many_samples_at_once(place, alone, tmp_path):
    samples = spine.count(8, 32)
    if place == "openshell":
        samples //= 2
    log = tasks.run(tasks.load(samples, 20, 20 * MIB), spec(place), tmp_path,
                    max_samples=samples, max_sandboxes=samples)
    assert log.status == "success", log.error
    assert tasks.scores(log) == [(1, "ok")] * samples
    assert ls() == []


def test_the_controller_is_killed_in_the_middle(alone, tmp_path):
    """Every sample ends, right or with a clear error, and cleanup works."""
    killed = []

    def kill():
        with_links = time.monotonic() + 60
        while time.monotonic() < with_links:
            done = subprocess.run([spine.SANDMUX, "status", "--json"],
                                  capture_output=True, check=False)
            if done.returncode == 0:
                status = json.loads(done.stdout)
                if sum(x["requests"] for x in status.get("links", [])) >= 4:
                    os.kill(status["pid"], signal.SIGKILL)
                    killed.append(time.monotonic())
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    log = tasks.run(tasks.load(8, 20, MIB, pause=0.3), spec("docker"), tmp_path,
                    max_samples=8, max_sandboxes=8)
    thread.join()
    assert killed and time.monotonic() - killed[0] < 90
    ends = tasks.scores(log)
    assert len(ends) == 8
    for value, text in ends:
        assert value == 1 or "outcome unknown" in text or \
            "unproven" in text, text
    assert any(value != 1 for value, _ in ends), "nobody was under way"
    subprocess.run([spine.SANDMUX, "cleanup"], check=True, timeout=120)
    assert ls() == []


@pytest.mark.anyio
async def test_cancelling_at_random_times_leaves_nothing(alone):
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    print(f"SEED={seed}")
    dice = random.Random(seed)
    config = SandmuxConfig(**places.config("docker"))
    cls, mark = SandmuxSandboxEnvironment, spine.marker()
    before = len(os.listdir("/proc/self/fd"))
    kept = await cls.sample_init("t", config, {})
    one = kept["default"]
    await one.exec(["true"])
    held = len(os.listdir("/proc/self/fd"))

    async def work(sandbox):
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.exec, ["sh", "-c", f"sleep {mark} & sleep {mark}"])
            group.start_soon(sandbox.write_file, "big", bytes(8 * MIB))
            group.start_soon(sandbox.exec, ["cat"], bytes(8 * MIB))

    async def sample():
        made = {}
        try:
            made = await cls.sample_init("t", config, {})
            await work(made["default"])
        finally:
            with anyio.CancelScope(shield=True):
                await cls.sample_cleanup("t", config, made, True)

    for i in range(spine.count(20, 200)):
        # Most of them in the middle of work, some in the life cycle.
        if i % 5:
            with anyio.move_on_after(dice.random() * 0.3):
                await work(one)
        else:
            with anyio.move_on_after(dice.random() * 1.5):
                await sample()
    with anyio.fail_after(30):
        while spine.find(mark):
            await anyio.sleep(0.05)
    link = await one.target.link()
    assert link["requests"] == 0, link
    assert len(os.listdir("/proc/self/fd")) == held
    jobs = await anyio.to_thread.run_sync(lambda: subprocess.run(
        [spine.SANDMUX, "ps", one.target.name], capture_output=True,
        check=True, timeout=60).stdout)
    assert mark.encode() not in jobs
    await cls.sample_cleanup("t", config, kept, False)
    assert ls() == []
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_the_example_of_two_users(alone, tmp_path):
    log = example(tmp_path)
    score = log.samples[0].scores["apart"]
    assert (score.value, score.explanation) == (1, "apart, both ways")


def test_the_example_fails_where_there_is_no_wall(alone, tmp_path, monkeypatch):
    """Its scorer can fail: with one user for both it does."""
    import two_users
    monkeypatch.setattr(two_users, "OVERSEER", two_users.Party(
        "overseer", two_users.AGENT.user, "the same user's"))
    log = example(tmp_path)
    score = log.samples[0].scores["apart"]
    assert score.value == 0
    for what in ("read", "list", "environ", "signal"):
        assert f"agent could {what} overseer's" in score.explanation
        assert f"overseer could {what} agent's" in score.explanation


def example(directory):
    import two_users
    [log] = tasks.evaluate(
        two_users.two_users(image=places.image("inspect")),
        model="mockllm/model", log_dir=str(directory), display="none")
    assert log.status == "success", log.error
    return log

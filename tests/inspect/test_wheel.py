# SPDX-License-Identifier: MIT
"""The wheel: `make wheel`, a clean environment, one evaluation with it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

import places
import pytest
import spine
from conftest import ROOT

WORK = pathlib.Path(tempfile.mkdtemp(prefix="sandmux-wheel-"))
# Where no cross compiler is to be had, the wheel is made without that agent.
ARM64 = shutil.which("aarch64-linux-gnu-gcc") is not None
TASK = """
import tasks, sys
from inspect_ai import task

@task
def work():
    return tasks.load(2, 3, 1 << 20)
"""


@pytest.fixture(scope="module")
def wheel():
    # A make of its own, not a part of one that runs this.
    env = {k: v for k, v in os.environ.items()
           if k not in ("B", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}
    done = subprocess.run(
        ["make", "-C", str(ROOT), "wheel", f"B={spine.BUILD}",
         *([] if ARM64 else ["WHEEL_ARM64=no"])], env=env,
        capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = (spine.BUILD / "wheel").glob("*.whl")
    yield found
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.fixture(scope="module")
def clean(wheel):
    """A new environment with the wheel, and the Python in it.

    Inspect itself is this environment's, by a path file: to install it again
    takes minutes.  Nothing of the tree is in its path.
    """
    venv.create(WORK / "venv", with_pip=False)
    python = WORK / "venv/bin/python"
    site = next((WORK / "venv/lib").glob("python*/site-packages"))
    ours = next(p for p in map(pathlib.Path, sys.path)
                if (p / "inspect_ai").is_dir())
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python),
                    "install", "-q", "--no-deps", "--no-index",
                    "--disable-pip-version-check", str(wheel)],
                   check=True, timeout=120)
    (site / "inspect.pth").write_text(f"{ours}\n")
    return python


def test_what_is_in_it(wheel):
    assert wheel.name.startswith("inspect_sandmux-")
    assert "-py3-none-manylinux" in wheel.name and "musllinux" in wheel.name
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        [program] = [n for n in names if n.endswith(".data/scripts/sandmux")]
        metadata = file.read(next(n for n in names
                                  if n.endswith("METADATA"))).decode()
        data = file.read(program)
    assert {n for n in names if n.startswith("sandmux/")} == {
        f"sandmux/{p.name}" for p in
        (ROOT / "host/inspect/src/sandmux").iterdir() if p.is_file()}
    assert [line for line in metadata.splitlines()
            if line.startswith("Requires-Dist")] == [
                "Requires-Dist: inspect-ai>=0.3.285"]
    # Both agents are in the program, as they are.
    agents = ["agent"] + ["agent-arm64"] * ARM64
    for name in agents:
        assert (spine.BUILD / name / "sandmux-agent").read_bytes() in data


def test_the_program_needs_nothing_of_the_system(clean):
    program = clean.with_name("sandmux")
    done = subprocess.run(["readelf", "-lW", str(program)], check=True,
                          capture_output=True, text=True)
    assert "INTERP" not in done.stdout
    box = places.image("busybox")       # musl or glibc, neither is there
    done = subprocess.run(
        ["docker", "run", "--rm", "--network", "none", "-v",
         f"{program}:/sandmux:ro", box, "/sandmux", "version"],
        capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("sandmux "), done


def test_one_evaluation(clean, tmp_path, elsewhere):
    (tmp_path / "work.py").write_text(TASK)
    shutil.copy(pathlib.Path(__file__).with_name("tasks.py"), tmp_path)
    (tmp_path / "sandmux.yaml").write_text(json.dumps(
        places.config("docker")))
    env = {k: v for k, v in os.environ.items()
           if k not in ("PYTHONPATH", "SANDMUX_PROGRAM")}
    env["XDG_STATE_HOME"] = str(tmp_path / "state")
    env["PYTHONNOUSERSITE"] = "1"
    done = subprocess.run(
        [str(clean), "-m", "inspect_ai", "eval", "work.py", "--model",
         "mockllm/model", "--sandbox", "sandmux", "--log-dir", "logs",
         "--display", "plain", "--log-format", "json"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150,
        check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [log] = (tmp_path / "logs").glob("*.json")
    log = json.loads(log.read_text())
    assert log["status"] == "success", log.get("error")
    assert [s["scores"]["all_of"]["value"] for s in log["samples"]] == [1, 1]
    program = str(clean.with_name("sandmux"))
    listed = subprocess.run([program, "ls", "--json"], env=env, check=True,
                            capture_output=True, timeout=60)
    assert json.loads(listed.stdout) == {"sandboxes": []}
    # It was the wheel's own program that did it.
    status = subprocess.run([program, "status", "--json"], env=env,
                            check=True, capture_output=True, timeout=60)
    pid = json.loads(status.stdout)["pid"]
    assert os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program)
    subprocess.run([program, "stop"], env=env, check=True, timeout=60)

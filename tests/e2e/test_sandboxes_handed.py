# SPDX-License-Identifier: MIT
"""Sandboxes that `up` made, when another controller takes over: the sessions
of bare names go along, with their settings, jobs and trust."""
import os
import shutil

import pytest
from sandboxes import boxes, config, kind           # noqa: F401 (fixtures)
from spine import Host, find, marker, wait_for
from test_spine_controller import other_program


@pytest.fixture
def old(boxes, tmp_path):                           # noqa: F811
    """The same host as an older program sees it."""
    program, _, _ = other_program(tmp_path)
    one = Host(program=program)
    shutil.rmtree(one.top)
    one.env, one.dir, one.top = boxes.env, boxes.dir, boxes.top / "none"
    return one


def entry(host):
    link, = host.status()["links"]
    return link


def test_a_bare_name_is_handed_over(boxes, old, kind):      # noqa: F811
    box, = boxes.up(config(kind, env={"SAID": "by its settings"}))
    name, mark = box["name"], marker()
    boxes.run("stop")
    done = old.run("exec", "-d", name, "--", "sh", "-c",
                   f"echo $SAID; sleep {mark}; :")
    assert done.status == 0, done
    wait_for("the job", lambda: len(find(mark)) == 2)
    pid, = boxes.controllers()
    before, job = entry(boxes), sorted(find(mark))
    session = boxes.session(before["target"])
    done = boxes.exec(name, "sh", "-c", "echo $SAID")
    assert (done.status, done.out, done.err) == (
        0, b"by its settings\n", b""), done
    wait_for("the old one's end", lambda: pid not in boxes.controllers())
    now = entry(boxes)
    assert boxes.session(now["target"]) == session, boxes.log()
    assert (now["trust"], now["target"]) == (
        before["trust"], before["target"])
    assert now["link"] > before["link"] and sorted(find(mark)) == job
    assert boxes.run("logs", name, "1").out == b"by its settings\n"
    # And back, with nothing asked in between; then `down` finds it.
    assert old.exec(name, "true").status == 0
    assert boxes.session(before["target"]) == session
    done = boxes.run("down", name)
    assert done.status == 0, done
    assert boxes.there(kind) == []
    wait_for("the job's end", lambda: not find(mark))
    assert boxes.status()["links"] == []


def test_another_sandbox_of_that_name_by_now(boxes, old):   # noqa: F811
    """Its record is gone when the successor looks: nothing is mixed up."""
    box, = boxes.up(config("local"))
    name, mark = box["name"], marker()
    boxes.run("stop")
    assert old.run("exec", "-d", name, "--", "sleep", mark).status == 0
    wait_for("the job", lambda: find(mark))
    record = boxes.store / name
    aside = boxes.top / "aside"
    assert record.exists(), os.listdir(boxes.store)
    record.rename(aside)
    done = boxes.exec("local", "echo", "hi")
    assert (done.status, done.out) == (0, b"hi\n"), done
    assert "that was handed over is lost" in boxes.log()
    assert name in boxes.log().split("is lost: ")[1].splitlines()[0]
    aside.rename(record)
    done = boxes.exec(name, "echo", "new")
    assert (done.status, done.out) == (0, b"new\n"), done

# SPDX-License-Identifier: MIT
"""Trust is not lost with a link, and never given to who stands in its way."""
import hashlib
import os
import signal

import pytest
from spine import (QEMU, agents, find, kill_all,  # noqa: F401
                   make_openshell, marker, new_host, wait_for)

pytestmark = pytest.mark.skipif(QEMU, reason="under qemu there is only local")

SERVE = "--ping 400 --dead 3000"
STRICT = ["--require-same-agent"]


def fresh(host, box):
    """What `up` notes of a sandbox that it has just made."""
    name = hashlib.blake2b(box.box.encode(), digest_size=32).hexdigest()[:32]
    trust = host.top / "state" / "sandmux" / "trust"
    trust.mkdir(parents=True, exist_ok=True)
    (trust / f"openshell-{name}").write_text(f"fresh\nopenshell:{box.box}\n")


def entry(host, box):
    return next((x for x in host.status()["links"]
                 if x["target"] == str(box)), {})


def cut(host, box):
    os.kill(host.link(box)["pid"], signal.SIGKILL)


def strict(host, box, word):
    done = host.exec(box, "echo", word, opts=STRICT)
    assert (done.status, done.out) == (0, word.encode() + b"\n"), done


def refused(host, box, **how):
    done = host.exec(box, "touch", "/tmp/strict-ran", opts=STRICT, **how)
    assert done.status == 125 and b"unproven agent" in done.err, done
    assert box.sh("ls /tmp/strict-ran 2>/dev/null || :") == b""


def test_it_goes_on_over_any_number_of_links(new_host):  # noqa: F811
    box = make_openshell()
    host = new_host(SERVE)
    fresh(host, box)
    strict(host, box, "one")
    session = host.session(box)
    assert host.link(box)["trust"] == "same-agent"
    for i in range(1, 4):
        # Nobody waits: it is linked again for what it is worth.
        cut(host, box)
        wait_for("the next link", lambda n=i: entry(host, box)[
            "relinks"] == n and entry(host, box)["state"] == "up")
        strict(host, box, "more")
    assert host.session(box) == session


def test_it_is_parked_with_its_session(new_host):  # noqa: F811
    box = make_openshell()
    host = new_host(SERVE + " --idle 1 --linger 1")
    fresh(host, box)
    strict(host, box, "one")
    session = host.session(box)
    for _ in range(2):
        wait_for("that", lambda: entry(host, box)["state"] == "parked")
        wait_for("no process", lambda: host.children() == [])
        strict(host, box, "more")
        assert host.session(box) == session


def test_where_it_is_lost_a_link_stays_without_parking(
        new_host):  # noqa: F811
    box = make_openshell()
    host = new_host(SERVE + " --idle 1 --park 0")
    fresh(host, box)
    strict(host, box, "one")
    wait_for("some time", lambda: entry(host, box)["idle_s"] >= 3)
    assert entry(host, box)["state"] == "up"


def test_a_planted_login_file(new_host):  # noqa: F811
    """It gets every later start, and nothing from whoever is strict."""
    box, mark = make_openshell(), marker()
    host = new_host(SERVE + " --linger 3 --hello 2000")
    fresh(host, box)
    job = host.start_job(box, mark)
    strict(host, box, "one")
    # For a further link it listens; for a start it has an agent of its own,
    # and a note that it was asked.
    planted = ('case "$BASH_EXECUTION_STRING" in\n'
               '*" attach "*) echo x >>~/attached; stty raw -echo; '
               'printf "SANDMUX-HELLO "; exec cat >>~/heard;;\n'
               '*" start "*) echo x >>~/started;;\nesac\n')
    assert host.sh(box, "cat >~/.bash_profile", input=planted.encode()
                   ).status == 0
    session = host.session(box)
    cut(host, box)
    waiting = host.popen("exec", *STRICT, str(box), "--", "touch",
                         "/tmp/strict-ran")
    assert job.wait(60) == 125
    assert b"outcome unknown" in job.stderr.read()
    # The one that waited was promised the old agent.
    assert waiting.wait(60) == 125
    assert b"unproven agent" in waiting.stderr.read()
    look = "cat ~/heard 2>/dev/null | wc -c; wc -l <~/attached"
    heard, attached = map(int, box.sh(look).split())
    assert heard == 0 and attached >= 2
    refused(host, box)
    done = host.exec(box, "echo", "hi")
    assert (done.status, done.out) == (0, b"hi\n")
    assert host.link(box)["trust"] == "new-agent"
    wait_for("the old agent's end", lambda: not agents(session), 60)
    assert not find(mark)
    # Another controller, another client's variables: it is known there too.
    for pid in host.controllers():
        os.kill(pid, signal.SIGKILL)
    wait_for("its end", lambda: not host.controllers())
    more = {"OPENSHELL_GATEWAY_NOTE": "other"}
    refused(host, box, env=more)
    assert host.exec(box, "echo", "hi", env=more).out == b"hi\n"
    assert host.link(box)["trust"] == "new-agent"
    kill_all(mark)

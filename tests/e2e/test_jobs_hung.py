# SPDX-License-Identifier: MIT
"""Files that never answer: whoever needs one waits, and can be ended; all
others go on, and nothing stays when the file server does."""
import errno
import os
import signal

import pytest
from hung_file import HungFile
from jobs_client import (CANCELLED, DETACH, ENDED, FAILED, STDIN, TIMED_OUT,
                         Place, below, idle, stat)
from spine import (Docker, Local, get_target, new_host,  # noqa: F401
                   once, wait_for)

SHORT = 300
PASSWD = b"root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/:/bin/sh\n"
WRAP = """#!/bin/sh
# Its own /etc/passwd, as long as there is one.
exec unshare -m sh -c '[ ! -e {path} ] || mount --bind {path} /etc/passwd
exec {program} "$@"' sh "$@"
"""


def local(host, path):
    """local, with a controller and agents whose /etc/passwd is path."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    wrap = host.top / "sandmux"
    wrap.write_text(WRAP.format(path=path, program=host.program))
    wrap.chmod(0o755)
    host.program = str(wrap)
    return once("local-hung", Local)


def in_docker(host, path):
    get_target("docker")        # or a skip
    return Docker("debian", "-v", f"{path}:/etc/passwd")


WHERE = {"local": local, "docker": in_docker}


@pytest.fixture
def hung_place(request, new_host):  # noqa: F811
    """(a Place, its /etc/passwd)"""
    host = new_host()
    hung = HungFile("passwd", PASSWD)
    try:
        one = Place("own", host=host, target=WHERE[request.param](
            host, hung.path))
        yield one, hung
        one.jobs.close()
    finally:
        hung.close()


def end(one, requests, taken):
    """They are cancelled, or their time is over: that is what they say, and
    who could not be ended."""
    for job in requests:
        if job is not requests[0]:
            job.cancel()
    for job in requests:
        result = job.wait()
        assert result.outcome == (TIMED_OUT if job is requests[0] else
                                  CANCELLED), result
        left = [s.split()[1] for s in result.survivors]
        assert left == ([b"init"] if taken else []), result


@pytest.mark.parametrize("taken", [False, True], ids=["waits", "taken"])
@pytest.mark.parametrize("hung_place, what", [
    ("local", "open"), ("local", "stat"), ("local", "read"),
    ("docker", "read")], indirect=["hung_place"])
def test_a_hung_passwd_stalls_only_its_own(hung_place, what, taken):
    one, hung = hung_place
    core = one.core()
    keeper = one.jobs.exec("cat", flags=STDIN, user="61234:61235")
    keeper.write(b"before\n")
    keeper.until(b"before\n")
    hung.hang(what, taken)
    stuck = [one.jobs.exec("true", user=who, **how) for who, how in (
        ("daemon", {"timeout": 700, "grace": SHORT}),
        ("daemon", {"grace": SHORT}), ("61234", {"grace": SHORT}),
        ("daemon", {"flags": DETACH, "grace": 0}))]
    get = one.jobs.request("get", user=b"daemon", path=b"/etc/hostname")
    hung.wait_stuck(5 if taken else 1, 60)
    for _ in range(20):
        one.alive()
    keeper.write(b"meanwhile\n")
    keeper.until(b"meanwhile\n")
    assert len(one.jobs.jobs()) >= 4
    assert all(r.raw is None for r in (*stuck[1:], get))
    get.cancel()
    end(one, stuck, taken)
    result = get.wait()
    if taken:
        assert (result.outcome, result.step_name) == (FAILED, "WAIT"), result
    else:
        assert result.outcome == CANCELLED, result
    # The agent is as it was, and so is whoever it serves.
    keeper.write(b"after\n")
    keeper.end()
    assert keeper.wait().stdout == b"before\nmeanwhile\nafter\n"
    one.alive()
    hung.abort()
    wait_for("nothing is left", lambda: idle(core))
    result = one.jobs.run("true", user="daemon")
    assert (result.outcome, result.step_name, result.error) == (
        FAILED, "USER", errno.ENOTCONN), result
    assert all(j["detached"] and j["state"] == ENDED  # kept, as others are
               for j in one.jobs.jobs().values())
    assert one.core() == core


@pytest.mark.parametrize("taken", [False, True], ids=["waits", "taken"])
@pytest.mark.parametrize("hung_place", ["local", "docker"], indirect=True)
def test_a_stop_does_not_wait_for_it(hung_place, taken):
    """Nor is anything left once the file server has gone."""
    one, hung = hung_place
    core = one.core()
    hung.hang("read", taken)
    one.jobs.exec("true", user="daemon")
    one.jobs.request("get", user=b"daemon", path=b"/etc/hostname")
    hung.wait_stuck(2 if taken else 1, 60)
    wait_for("both are there", lambda: len(below(core)) >= 2)
    held = below(core)
    (controller,) = one.host.controllers()
    os.kill(controller, signal.SIGTERM)
    wait_for("the core has gone", lambda: stat(core) is None)
    hung.abort()
    # But for the dead, which a container's first process may not reap.
    wait_for("nothing is left", lambda: not any(
        (stat(pid) or "Z")[0] != "Z" for pid in held))

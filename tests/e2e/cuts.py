# SPDX-License-Identifier: MIT
"""What the test_cuts_* files share: ways to cut a link, a job that notices, and
a CLI in between that can be away."""
import json
import os
import random
import shutil
import signal
import subprocess
import threading

import pytest
from spine import KINDS, LIMIT, QEMU, kill_all, marker, openshell_bin, wait_for

# Short, but not so short that a busy machine looks dead.
SERVE = "--ping 400 --dead 3000"
HEALS = SERVE + " --linger 60"
SHORT = SERVE + " --linger 6"
ENDS = 20 + 12              # seconds: silence and linger, and then some

UNLESS_QEMU = pytest.mark.skipif(QEMU, reason="agents are not told from qemu")


def transport(host, target):
    """The pid of the link's process, once there is one that is up."""
    return wait_for("a link that is up", lambda: entry(host, target).get(
        "state") == "up" and entry(host, target)["pid"])


def kill_transport(host, target):
    os.kill(transport(host, target), signal.SIGKILL)


def stop_transport(host, target):
    os.kill(transport(host, target), signal.SIGSTOP)


def noticed(host, target, state="re-linking"):
    """What is asked from here on goes into no link that is dead already."""
    wait_for("that it is noticed", lambda: entry(host, target).get(
        "state") == state)


def cut(host, target):
    target.standin("cut", target.box)


def freeze(host, target):
    target.standin("freeze", target.box)


def restart_gateway(host, target):
    target.standin("restart-gateway")


# A stopped stub of `local` holds up nothing: the core has the pipes.
CUTS = [(kind, how) for how in (kill_transport, stop_transport)
        for kind in KINDS if (kind, how) != ("local", stop_transport)] + [
    ("openshell", how) for how in (cut, freeze, restart_gateway)]
IDS = [f"{k}-{h.__name__}" for k, h in CUTS]


def entry(host, target):
    """The link's state in `status`, whatever it is; {}: there is none."""
    return next((x for x in host.status()["links"]
                 if x["target"] == str(target)), {})


def healed(host, target, times=1):
    def there():
        now = entry(host, target)
        return now.get("relinks", 0) >= times and now["state"] == "up"
    return wait_for("the next link", there, 90)


def session_of(host, target):
    """Its name, while a job keeps the link from being closed as idle."""
    mark = marker()
    job = host.start_job(target, mark)
    session = host.session(target)
    kill_all(mark)
    assert job.wait(LIMIT) == 137
    return session


class Talk:
    """A job that notes its start in a file, and says everything again."""

    def __init__(self, host, target, log, seed):
        self.rng, self.seed = random.Random(seed), seed
        self.client = host.popen(
            "exec", "-i", str(target), "--", "sh", "-c",
            'echo "$2" >>"$1"; cat; exit "$2"', "sh", log, str(seed),
            stdin=subprocess.PIPE)
        self.turns = 0

    def turn(self, size=20000):
        data = self.rng.randbytes(self.rng.randrange(1, size))
        feed = threading.Thread(target=self.feed, args=(data,))
        feed.start()
        got = self.client.stdout.read(len(data))
        feed.join()
        assert got == data, (len(got), len(data), self.client.stderr.read()
                             if len(got) < len(data) else "other bytes")
        self.turns += 1

    def feed(self, data):
        try:
            self.client.stdin.write(data)
            self.client.stdin.flush()
        except BrokenPipeError:
            pass

    def end(self):
        self.client.stdin.close()
        assert self.client.stdout.read() == b""
        assert self.client.wait(LIMIT) == self.seed
        assert self.client.stderr.read() == b""


def gate(tmp_path, program="docker", more=""):
    """A program that does what the file `says`: by default, what it does;
    `more` are further cases, with the real one as $real."""
    real = shutil.which(program, path=f"{openshell_bin()}:"
                        f"{os.environ['PATH']}")
    path = tmp_path / program
    path.write_text(
        f"#!/bin/sh\nreal={real}\n"
        f"case $(cat {tmp_path}/says 2>/dev/null):$1$2 in\n"
        "down:*) echo 'Cannot connect to the Docker daemon' >&2; exit 1;;\n"
        "full:exec*) echo 'OCI runtime exec failed: cannot fork' >&2; "
        "exit 126;;\n"
        "silent:exec*) exec sleep 1000;;\n"
        "nospace:cp*) cat >/dev/null; echo 'no space left on device' >&2; "
        "exit 1;;\n"
        f"{more}esac\nexec $real \"$@\"\n")
    path.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def told(client, report, step, *words):
    """One line, no status invented, and which of the outcomes it was."""
    assert client.wait(LIMIT) == 125
    err = client.stderr.read()
    assert err.count(b"\n") == 1 and b"outcome unknown" in err, err
    for word in words:
        assert word in err, err
    said = json.loads(report.read_text())
    assert said["outcome"] == "failed" and said["code"] is None
    assert said["error"]["step"] == step, said
    return err


def is_new(host, target, session):
    """The next command has a new agent, and says what that one is worth."""
    done = host.exec(target, "echo", "back")
    assert (done.status, done.out) == (0, b"back\n"), done
    assert host.session(target) != session
    assert host.link(target)["trust"] == (
        "same-agent" if target.kind == "local" else "new-agent")
    wait_for("the old one's end", lambda: len(host.children()) == 1)

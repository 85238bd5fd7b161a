# SPDX-License-Identifier: MIT
"""Links that are cut again and again under talking jobs and copies: every
byte arrives, everything happens once."""
import os
import random
import subprocess
import threading
import time

import pytest
from cuts import (HEALS, UNLESS_QEMU, Talk, cut, entry, healed,
                  kill_transport, restart_gateway, transport)
from spine import (KINDS, LIMIT, MIB, count, get_target,  # noqa: F401
                   new_host, wait_for)

pytestmark = UNLESS_QEMU


class Load:
    """Talks and copies that go on until stop()."""

    def __init__(self, host, target, talks):
        self.host, self.target = host, target
        self.log, self.file = target.path("log"), target.path("copy")
        self.data = random.Random(5).randbytes(3 * MIB)
        done = host.run("cp", "-", f"{target}:{self.file}",
                        input=self.data)
        assert done.status == 0, done
        self.over, self.failures, self.copies = False, [], 0
        self.talks = [Talk(host, target, self.log, i + 1)
                      for i in range(talks)]
        work = [self.talk(t) for t in self.talks] + [self.up, self.down]
        self.threads = [threading.Thread(target=self.one, args=(w,))
                        for w in work]
        for t in self.threads:
            t.start()

    def one(self, work):
        try:
            while not self.over and not self.failures:
                work()
        except BaseException as e:
            self.failures.append(e)

    def talk(self, talk):
        def turn():
            talk.turn(60000)
            time.sleep(0.02)
        return turn

    def up(self):
        path = f"{self.file}-up"
        copy = self.host.popen("cp", "-", f"{self.target}:{path}",
                               stdin=subprocess.PIPE)
        _, err = copy.communicate(self.data, timeout=LIMIT)
        assert copy.returncode == 0, err
        done = self.host.run("cp", f"{self.target}:{path}", "-")
        assert done.status == 0 and done.out == self.data, done
        self.copies += 1

    def down(self):
        done = self.host.run("cp", f"{self.target}:{self.file}", "-")
        assert done.status == 0 and done.out == self.data, done
        self.copies += 1

    def stop(self):
        self.over = True
        for t in self.threads:
            t.join()
        if self.failures:
            raise self.failures[0]
        for t in self.talks:
            t.end()
            assert t.turns > 0
        begun = self.target.sh(f"cat {self.log}; rm -f {self.log} "
                               f"{self.file}*").split()
        # Each began once.
        assert sorted(map(int, begun)) == list(
            range(1, len(self.talks) + 1))
        assert self.copies >= 2


def many_cuts(host, target, hows, cuts):
    seed = int(os.environ.get("SANDMUX_SEED", time.time()))
    rng = random.Random(seed)
    print("SANDMUX_SEED", seed)
    assert host.exec(target, "true").status == 0
    session = host.session(target)
    before = sorted(target.injected())
    load = Load(host, target, 20)
    try:
        for i in range(cuts):
            healed(host, target, i)
            time.sleep(rng.random() * 0.4)
            rng.choice(hows)(host, target)
            healed(host, target, i + 1)
            assert not load.failures, load.failures[0]
    finally:
        load.stop()
    transport(host, target)
    assert host.session(target) == session
    wait_for("the old ones' end", lambda: len(host.children()) == 1)
    wait_for("no request left", lambda: entry(host, target)["requests"] == 0)
    wait_for("no file of ours", lambda: sorted(target.injected()) == before)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_cuts(new_host, kind):  # noqa: F811
    target = get_target(kind)
    hows = [kill_transport] if kind != "openshell" else [
        kill_transport, cut, restart_gateway]
    many_cuts(new_host(HEALS), target, hows, count(17, 334))

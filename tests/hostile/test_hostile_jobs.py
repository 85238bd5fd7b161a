# SPDX-License-Identifier: MIT
"""Jobs from an agent that lies: in results, lists, logs, offsets and names.
Each command says something true about it, or that it is not understood."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from conftest import peak
from hostile_agent import ESCAPES
# pylint: disable=unused-import
from test_hostile_agent import controller, is_safe       # noqa: F401

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "vectors"))
import make_wire  # noqa: E402
from make_wire import MAX64, encode  # noqa: E402

EXEC, JOBS, KILL, ATTACH = 64, 69, 70, 71
MIB = 1 << 20
MOST = 2 ** 32 - 1
LONG = b"x" * 300


def info(**how):
    return encode("exec_info", **how)


def job(**how):
    return make_wire.f(encode("job", **how))


GOOD = job(job=3, uid=1000, pid=77, processes=1, user=b"me",
           command=b"sleep 9")
ALL = {"job": MOST, "flags": MOST, "uid": MOST, "user_us": MAX64,
       "system_us": MAX64, "read_blocks": MAX64, "written_blocks": MAX64,
       "peak_kib": MAX64, "out_from": MAX64, "err_from": MAX64}
WHOLE = info(job=3, cwd=b"/", survivors=[b"12 sh", b"13 cat"])

# Infos of an EXEC or ATTACH: what a program may read, and what none may.
INFOS = {
    "all at most": info(**ALL),
    "names of a terminal's": info(job=1, flags=1, cwd=ESCAPES, survivors=[
        ESCAPES, b"", b"\n", b"-1 init\0x"]),
    "a long directory": info(flags=1, cwd=b"/" + b"d" * 4095),
    "many survivors": info(survivors=[b"1 a"] * 1500),
    "long survivors": info(survivors=[b"s" * 5000] * 3),
    "offsets behind the end": info(out_from=1 << 63, err_from=7),
}
NO_INFOS = {
    "empty but for its type": bytes([98]),
    "of another kind": encode("file_info", size=MAX64),
    "of a request's kind": encode("exec", argv=[b"true"]),
    "of no kind": b"\xff" * 50,
    "cut": WHOLE[:-1],
    "cut in its numbers": WHOLE[:20],
    "longer": WHOLE + b"x",
    "a list that counts wrong": info().replace(
        make_wire.items(), make_wire.f(make_wire.u32(MOST))),
    "a list longer than all": info()[:-8] + make_wire.u32(MOST) + bytes(4),
    "an item longer than its list": info()[:-8] + make_wire.f(
        make_wire.u32(1) + make_wire.u32(MOST)),
    "a directory longer than all": WHOLE.replace(
        make_wire.f(b"/"), make_wire.u32(MOST) + b"/"),
    "random": bytes(range(7, 256)) * 60,
}
LISTS = {
    "all at most": job(job=MOST, state=255, outcome=255, code=-2 ** 31,
                       uid=MOST, pid=MOST, processes=MOST, age_us=MAX64,
                       cpu_us=MAX64, detached=255, terminal=255),
    "names of a terminal's": job(user=ESCAPES, command=ESCAPES),
    "the same again and again": GOOD * 2000,
    "nothing": b"",
}
NO_LISTS = {
    "cut": GOOD[:-1],
    "a length of all": b"\xff" * 4 + GOOD,
    "a length of none": bytes(4) + GOOD,
    "of another kind": make_wire.f(WHOLE),
    "longer inside": make_wire.f(encode("job") + b"x"),
    "a user too long": job(user=b"u" * 257),
    "a command too long": job(command=LONG),
    "one good and one not": GOOD + GOOD[:30],
    "random": os.urandom(3000),
}
COMMANDS = [["ps"], ["ps", "--json"], ["exec"], ["exec", "-d"], ["wait"],
            ["logs"], ["attach", "--no-stdin"], ["kill"]]


class Teller:
    def __init__(self, controller, tmp_path):  # noqa: F811
        self.controller, self.report = controller, tmp_path / "report"
        controller.mode("tells")

    def lie(self, **kinds):
        """kinds: a request's name and its RESULT, bytes as they are."""
        def plain(how):
            return {k: v.hex() if isinstance(v, bytes) else v
                    for k, v in how.items()}
        names = {"other": "0", "exec": str(EXEC), "jobs": str(JOBS),
                 "kill": str(KILL), "attach": str(ATTACH)}
        kinds.setdefault("other", {})
        new = self.controller.dir / "lie.new"
        new.write_text(json.dumps({names[k]: plain(v)
                                   for k, v in kinds.items()}))
        new.rename(self.controller.dir / "lie")

    def run(self, *words):
        """status, stdout, stderr, report; none of it harms."""
        name, *more = words
        self.report.unlink(missing_ok=True)
        if name in ("exec", "wait", "attach"):
            more += ["--json", str(self.report)]
        more += {"exec": ["docker:box", "--", "true"],
                 "ps": ["docker:box"]}.get(name, ["docker:box", "3"])
        done = subprocess.run(
            [self.controller.program, name, *more], capture_output=True,
            env=self.controller.env, stdin=subprocess.DEVNULL, timeout=60,
            check=False)
        assert 0 <= done.returncode < 256 and done.returncode != 99, done
        assert is_safe(done.stderr) and len(done.stderr) < 16384, done
        # What a job is said to have written is the user's, as it came.
        assert name in ("logs", "attach", "exec", "wait") or is_safe(done.stdout)
        # Only a list and its notes are of several lines.
        assert done.stderr.count(b"\n") <= 3, done
        report = None
        if self.report.exists():
            report = json.loads(self.report.read_text())
            assert len(self.report.read_text()) < 65536
        return done.returncode, done.stdout, done.stderr, report


@pytest.fixture
def teller(controller, tmp_path):  # noqa: F811
    yield Teller(controller, tmp_path)
    controller.check()
    controller.mode("honest")       # of a link that is still to come
    assert controller.run("echo", "ok", target="docker:other")[:2] == (
        0, b"ok\n")
    controller.check()


def test_infos_within_the_form(teller):
    for what, bytes_ in INFOS.items():
        teller.lie(other={"info": bytes_}, exec={"info": bytes_, "code": 3},
                   attach={"info": bytes_, "code": 3})
        for words in COMMANDS[2:]:
            status, _, err, report = teller.run(*words)
            assert status in (0, 3, 125), (what, words, err)
            if report is not None:
                assert report["outcome"] in ("exited", "running"), (
                    what, words, report)


def test_infos_that_are_none(teller):
    for what, bytes_ in NO_INFOS.items():
        teller.lie(exec={"info": bytes_, "code": 3},
                   attach={"info": bytes_, "code": 3})
        for words in COMMANDS[2:]:
            status, _, err, report = teller.run(*words)
            # The outcome is a field of its own and stands.
            assert status in (0, 3, 1, 125), (what, words, err)
            if report is not None:
                assert not report.get("survivors"), (what, words, report)


def test_lists_within_the_form(teller):
    for what, data in LISTS.items():
        teller.lie(jobs={"data": data})
        status, out, err, _ = teller.run("ps")
        assert (status, err) == (0, b""), (what, err)
        number = 2000 if "again" in what else int(data != b"")
        assert out.count(b"\n") == 1 + number, what
        status, out, err, _ = teller.run("ps", "--json")
        assert len(json.loads(out)["jobs"]) == number, what


def test_lists_that_are_none(teller):
    for what, data in NO_LISTS.items():
        teller.lie(jobs={"data": data})
        for words in COMMANDS[:2]:
            status, out, err, _ = teller.run(*words)
            assert (status, out) == (1, b""), (what, err)
            assert b"not understood" in err, (what, err)


def test_totals_that_are_none(teller):
    """More or less than came: the link's end, and no list, no log."""
    for kind, words in (("jobs", ["ps"]), ("attach", ["logs"]),
                        ("attach", ["wait"]), ("exec", ["exec"])):
        for out in (0, len(GOOD) - 1, len(GOOD) + 1, MAX64):
            teller.lie(**{kind: {"data": GOOD, "out": out}})
            status, out, err, _ = teller.run(*words)
            assert status in (1, 125), (words, err)
            assert words != ["ps"] or out == b""
            assert b"outcome unknown" in err, (words, err)


def test_answers_of_other_kinds(teller):
    """Outcomes, steps and errnos that this request cannot have."""
    for how in ({"outcome": 1, "code": 9}, {"outcome": 1, "code": 2 ** 31 - 1},
                {"outcome": 1, "code": -1}, {"code": -2 ** 31},
                {"code": 2 ** 31 - 1}, {"outcome": 2}, {"outcome": 3},
                {"outcome": 4}, {"outcome": 4, "step": 255, "error": MOST},
                {"outcome": 4, "step": 23, "error": 3, "text": ESCAPES},
                {"outcome": 4, "step": 0, "text": b"a\nb" * 300},
                {"outcome": 4, "step": 7, "error": 2, "text": b""}):
        teller.lie(other=how)
        for words in COMMANDS:
            status, out, err, report = teller.run(*words)
            if words[0] in ("ps", "kill") and how.get("outcome"):
                assert status == 1 and out == b"", (how, words, err)
            if how.get("outcome") == 4:
                assert status != 0 and err, (how, words)
                assert report is None or report["outcome"] == "failed", how


@pytest.mark.parametrize("words, data", [
    (["ps"], GOOD), (["ps", "--json"], GOOD), (["ps"], b"\xff" * 1000)],
    ids=["ps", "ps --json", "ps of nonsense"])
def test_lists_without_end(teller, words, data):
    teller.controller.mode("tells_without_end")
    (teller.controller.dir / "lie").write_bytes(data * 1000)
    status, out, err, _ = teller.run(*words)
    assert (status, out) == (1, b""), err
    assert b"too large" in err or b"not understood" in err, err


def test_logs_without_end(teller):
    """They go on as long as somebody reads; nothing of them is kept."""
    teller.controller.mode("tells_without_end")
    (teller.controller.dir / "lie").write_bytes(b"x" * 30000)
    client = subprocess.Popen(
        [teller.controller.program, "logs", "docker:box", "3"],
        env=teller.controller.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end, size = time.monotonic() + 3, 0
    while time.monotonic() < end:
        size += len(os.read(client.stdout.fileno(), 1 << 16))
    if "asan" not in teller.controller.program:
        assert peak(client.pid) < 16 * MIB
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=20)
    assert size > MIB

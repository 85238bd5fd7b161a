# SPDX-License-Identifier: MIT
"""What exec, shell, cp, ps, kill, wait, logs and attach ask for, and what
they make of the answers: against a controller of the tests' own."""
import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios

import pytest
from conftest import program, wait_until
from fake_controller import (CANCEL, DATA, EOF, EXEC, GET, JOBS, KILL, MAX64,
                             PUT, ATTACH, RESIZE, FakeController, data,
                             exec_info, job, result, welcome)

STDIN, CLEAR, TTY, DETACH, BACKGROUND, UMASK = 1, 2, 4, 8, 16, 32
FOLLOW, IN, QUIET, FORGET = 1, 2, 4, 8
FELL_BACK, RUNNING = 1, 2
EXITED, SIGNALED, TIMED_OUT, CANCELLED, FAILED = range(5)
USER, SWITCH, LIMIT, PTY, NO_JOB = range(19, 24)


@pytest.fixture
def fake(fresh):
    """fake(answer) serves requests: answer(connection, id, body) for each;
    returns the list of their bodies."""
    made = []
    version = subprocess.run([program(), "version"],
                             stdout=subprocess.PIPE).stdout.split()[1]

    def make(answer):
        bodies = []

        def serve(hello, connection):
            connection.say(welcome(program=version))
            while True:
                number, body = connection.request()
                if body is None:
                    return
                bodies.append(body)
                answer(connection, number, body)
        made.append(FakeController(fresh.dir, serve))
        return bodies
    yield make
    for one in made:
        one.close()
        os.unlink(one.path) if os.path.exists(one.path) else None


def ends(**kw):
    """An answer that is a result and nothing more."""
    return lambda c, number, body: c.say(result(number, **kw))


def line(done, *words):
    """stderr is one line with these words."""
    text = done.stderr.decode()
    assert text.startswith("sandmux: ") and text.count("\n") == 1, text
    for word in words:
        assert word in text, text


# ---- exec: what is asked for ----------------------------------------------

def asked(fresh, fake, *words, **kw):
    bodies = fake(ends(info=exec_info()))
    done = fresh("exec", *words, "local", "prog", **kw)
    assert done.returncode == 0, done
    body, = bodies
    assert body.kind == EXEC and body.argv == [b"prog"]
    return body


def test_nothing_asked_for(fresh, fake):
    body = asked(fresh, fake)
    assert (body.flags, body.timeout_ms, body.rows, body.columns, body.umask,
            body.nice, body.keep, body.user, body.cwd, body.limits) == (
        0, 0, 0, 0, 0, 0, 0, b"", b"", [])
    assert body.grace_ms == 2000


@pytest.mark.parametrize("words", [
    ["-u", "app:staff"], ["-uapp:staff"], ["--user", "app:staff"],
    ["--user=app:staff"]])
def test_user(fresh, fake, words):
    assert asked(fresh, fake, *words).user == b"app:staff"


@pytest.mark.parametrize("words, flags", [
    (["-i"], STDIN), (["--interactive"], STDIN), (["-t"], TTY),
    (["--tty"], TTY), (["--kill-background"], BACKGROUND),
    (["--clear-env"], CLEAR)])
def test_flags(fresh, fake, words, flags):
    assert asked(fresh, fake, *words).flags == flags


@pytest.mark.parametrize("value, ms", [("0", 0), ("1.5s", 1500),
                                       ("250ms", 250), ("1h", 3600000)])
def test_grace(fresh, fake, value, ms):
    assert asked(fresh, fake, "--grace", value).grace_ms == ms


@pytest.mark.parametrize("value, number", [("5", 5), ("-20", -20), ("0", 0),
                                           ("-40", -40), ("40", 40)])
def test_nice(fresh, fake, value, number):
    assert asked(fresh, fake, "--nice", value).nice == number


@pytest.mark.parametrize("value, mask", [("0", 0), ("022", 0o22),
                                         ("0777", 0o777)])
def test_umask(fresh, fake, value, mask):
    body = asked(fresh, fake, "--umask", value)
    assert (body.flags, body.umask) == (UMASK, mask)


LIMITS = ["cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile",
          "memlock", "as", "locks", "sigpending", "msgqueue", "nice",
          "rtprio", "rttime"]


def test_every_limit(fresh, fake):
    words = [w for i, name in enumerate(LIMITS)
             for w in ("--limit", f"{name}={i}:{i + 1}")]
    assert asked(fresh, fake, *words).limits == [
        struct.pack(">BQQ", i, i, i + 1) for i in range(16)]


@pytest.mark.parametrize("value, soft, hard", [
    ("5", 5, 5), ("5:7", 5, 7), ("64K", 65536, 65536), ("0:0", 0, 0),
    ("1m:2G", 1 << 20, 2 << 30), ("unlimited", MAX64, MAX64),
    ("-1", MAX64, MAX64), ("3:unlimited", 3, MAX64), ("3:-1", 3, MAX64)])
def test_limit_values(fresh, fake, value, soft, hard):
    body = asked(fresh, fake, "--limit", "cpu=1", "--limit", "cpu=" + value)
    assert body.limits == [struct.pack(">BQQ", 0, soft, hard)]


@pytest.mark.parametrize("words, texts", [
    (["-u", ""], ["-u"]), (["-u", "x" * 257], ["-u"]),
    (["--limit", "nofile"], ["--limit", "NAME=SOFT"]),
    (["--limit", "files=1"], ["files", "nofile"]),
    (["--limit", "=1"], ["no limit"]), (["--limit", "cpu="], ["cpu"]),
    (["--limit", "cpu=x"], ["cpu", "unlimited"]),
    (["--limit", "cpu=1:"], ["cpu"]), (["--limit", "cpu=1:2:3"], ["cpu"]),
    (["--limit", "cpu=2:1"], ["above"]),
    (["--limit", "cpu=unlimited:1"], ["above"]),
    (["--limit", "cpu=18446744073709551616"], ["cpu"]),
    (["--limit", "cpu=99999999999G"], ["cpu"]),
    (["--nice", "41"], ["--nice"]), (["--nice", "x"], ["--nice"]),
    (["--nice", "--5"], ["--nice"]), (["--nice", ""], ["--nice"]),
    (["--umask", "8"], ["--umask"]), (["--umask", "1000"], ["--umask"]),
    (["--umask", ""], ["--umask"]), (["--umask", "-1"], ["--umask"]),
    (["--grace", "x"], ["--grace", "1.5s"]), (["--grace", "2000h"], ["49"]),
    (["--max-output", "x"], ["--max-output", "64K"]),
    (["--max-output", "1T"], ["--max-output"]),
    (["--max-output", "K"], ["--max-output"]),
    (["--max-output", "9", "--keep", "all"], ["head, tail or both"]),
    (["--max-output", "9", "--on-limit", "x"], ["continue or kill"]),
    (["--max-output", "2G", "--keep", "tail"], ["1G"]),
    (["--keep", "tail"], ["--max-output"]),
    (["--on-limit", "kill"], ["--max-output"]),
    (["-d", "--max-output", "9"], ["--log-size"]),
    (["--log-size", "9"], ["-d"]), (["-d", "--log-size", "0"], ["1 byte"]),
    (["-d", "--log-size", "16385K"], ["16M"]),
    (["-it"], ["the input device is not a TTY", "-t"]),
    (["--privileged"], ["--privileged", "capabilities"]),
    (["--detach-keys", "ctrl-x"], ["--detach-keys", "Ctrl-]"]),
    (["--detach-keys=ctrl-x"], ["--detach-keys", "Ctrl-]"]),
])
def test_exec_refuses(sandmux, words, texts):
    done = sandmux("exec", *words, "local", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    line(done, *texts)


def test_an_empty_command_is_no_shell(sandmux):
    done = sandmux("exec", "local", "")
    assert done.returncode == 127
    line(done, "ENOENT")


# ---- exec -t and TERM -----------------------------------------------------

@pytest.mark.parametrize("env, words, want", [
    ({"TERM": "screen"}, [], [b"TERM=screen"]),
    ({"TERM": ""}, [], [b"TERM=xterm"]),
    ({"TERM": "screen"}, ["-e", "TERM=vt100"], [b"TERM=vt100"]),
    ({"TERM": "screen"}, ["--unset", "TERM"], []),
    ({"TERM": "screen"}, ["-e", "TERMINFO=x"],
     [b"TERM=screen", b"TERMINFO=x"]),
])
def test_term(fresh, fake, env, words, want):
    assert asked(fresh, fake, "-t", *words, env=env).env == want


def test_no_term_without_a_terminal(fresh, fake):
    assert asked(fresh, fake, env={"TERM": "screen"}).env == []


# ---- exec -d ----------------------------------------------------------------

def test_detach(fresh, fake):
    bodies = fake(ends(info=exec_info(job=4711, flags=RUNNING)))
    done = fresh("exec", "-di", "--log-size", "64K", "local", "x",
                 stdin=b"not read")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"4711\n", b"")
    assert bodies[0].flags == DETACH | STDIN and bodies[0].keep == 65536


def test_detach_json(fresh, fake, tmp_path):
    fake(ends(info=exec_info(job=5, flags=RUNNING)))
    fresh("exec", "-d", "--json", str(tmp_path / "r"), "local", "x")
    r = json.loads((tmp_path / "r").read_text())
    assert (r["outcome"], r["code"], r["job"]) == ("running", None, 5)


def test_detach_of_a_quick_one(fresh, fake, tmp_path):
    """Its end is wait's to tell, even if it comes with the answer."""
    fake(ends(code=7, info=exec_info(job=5)))
    done = fresh("exec", "-d", "--json", str(tmp_path / "r"), "local", "x")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"5\n", b"")
    r = json.loads((tmp_path / "r").read_text())
    assert (r["outcome"], r["code"], r["status"]) == ("exited", 7, 0)


def test_detach_that_does_not_start(fresh, fake):
    fake(ends(outcome=FAILED, step=7, error=2, text=b"frob"))
    done = fresh("exec", "-d", "local", "frob")
    assert (done.returncode, done.stdout) == (127, b"")
    line(done, "cannot run frob")


def test_detach_without_a_job(fresh, fake):
    fake(ends())
    done = fresh("exec", "-d", "local", "x")
    assert (done.returncode, done.stdout) == (125, b"")
    line(done, "which job")


# ---- statuses and words ----------------------------------------------------

@pytest.mark.parametrize("step, error, text, status, words", [
    (USER, 0, b"unable to find user x: no matching entries in passwd file",
     126, "sandmux: exec: unable to find user x: no matching entries in "
     "passwd file\n"),
    (SWITCH, 1, b"CAP_SETUID is missing", 125, "user unsupported: CAP_SETUID "
     "is missing: operation not permitted (EPERM); leave -u out"),
    (LIMIT, 1, b"a resource limit", 126, "cannot set a resource limit: "),
    (PTY, 28, b"/dev/ptmx", 126, "cannot make a terminal: /dev/ptmx"),
])
def test_steps(fresh, fake, step, error, text, status, words):
    fake(ends(outcome=FAILED, step=step, error=error, text=text))
    done = fresh("exec", "local", "x")
    assert done.returncode == status
    line(done, words)


@pytest.mark.parametrize("name", ["kill", "wait", "logs"])
def test_no_such_job(fresh, fake, name):
    fake(ends(outcome=FAILED, step=NO_JOB, error=3, text=b"7"))
    done = fresh(name, "local", "7")
    assert done.returncode == 1
    line(done, "job 7: no such process", "sandmux ps")


def test_notes(fresh, fake):
    fake(ends(code=3, info=exec_info(
        flags=FELL_BACK, cwd=b"/home/\x1b[x",
        survivors=[b"17 slee\x1bp", b"18 sh"])))
    done = fresh("exec", "local", "x")
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == [
        "sandmux: exec: the target's working directory cannot be entered, "
        r"it ran in /home/\x1b[x",
        r"sandmux: exec: 2 processes could not be ended: 17 slee\x1bp, "
        "18 sh"]


def test_many_survivors_are_one_line(fresh, fake):
    fake(ends(info=exec_info(survivors=[b"%d x" % i for i in range(300)])))
    done = fresh("exec", "local", "x")
    line(done, "300 processes", " 15 x, ...")
    assert len(done.stderr) < 400


def test_json_has_what_it_used(fresh, fake, tmp_path):
    fake(ends(info=exec_info(
        job=9, flags=FELL_BACK, uid=1000, user_us=1500000, system_us=250000,
        read=3, written=MAX64, peak=2048, cwd=b"/\xff",
        survivors=[b"17 x"])))
    fresh("exec", "--json", str(tmp_path / "r"), "local", "x")
    r = json.loads((tmp_path / "r").read_text())
    assert (r["job"], r["uid"], r["user_seconds"], r["system_seconds"]) == (
        9, 1000, 1.5, 0.25)
    assert (r["read_bytes"], r["written_bytes"], r["peak_rss_bytes"]) == (
        1536, MAX64, 2 << 20)
    assert (r["cwd"], r["survivors"]) == ("/\udcff", ["17 x"])


def test_json_without_info(fresh, fake, tmp_path):
    fake(ends(info=b"\x62nonsense"))
    done = fresh("exec", "--json", str(tmp_path / "r"), "local", "x")
    r = json.loads((tmp_path / "r").read_text())
    assert done.returncode == 0
    assert r["job"] is r["uid"] is r["peak_rss_bytes"] is r["cwd"] is None


# ---- --max-output ------------------------------------------------------------

def writes(*pieces, err=()):
    def answer(c, number, body):
        at = [0, 0]
        for channel, some in ((2, pieces), (3, err)):
            for piece in some:
                c.say(data(number, piece, channel, at[channel - 2]))
                at[channel - 2] += len(piece)
        c.say(result(number, out=at[0], err=at[1], info=exec_info()))
    return answer


TEXT = bytes(range(48, 118)) * 100


@pytest.mark.parametrize("split", [1, 7, 1000, 7000])
@pytest.mark.parametrize("keep", ["head", "tail", "both"])
@pytest.mark.parametrize("limit", [0, 1, 2, 99, 6999, 7000, 7001])
def test_max_output(fresh, fake, tmp_path, keep, limit, split):
    fake(writes(*[TEXT[i:i + split] for i in range(0, 7000, split)],
                err=[b"e\n"]))
    done = fresh("exec", "--max-output", str(limit), "--keep", keep,
                 "--json", str(tmp_path / "r"), "local", "x")
    head = {"head": limit, "tail": 0, "both": limit - limit // 2}[keep]
    tail = limit - head
    want = TEXT if limit >= 7000 else TEXT[:head] + TEXT[7000 - tail:]
    assert done.stdout == want
    r = json.loads((tmp_path / "r").read_text())
    assert r["stdout"] == {"bytes": 7000, "shown": len(want),
                           "truncated": limit < 7000}
    assert r["bytes"]["stdout"] == 7000 and r["over_limit"] is False
    notes = re.findall("sandmux: exec: stdout: .*", done.stderr.decode())
    if limit >= 7000:
        assert notes == []
        return
    parts = [f"the {end} {n}" for end, n in (("first", head), ("last", tail))
             if n > 0]
    assert notes == ["sandmux: exec: stdout: " + (" and ".join(parts) or
                     "none") + " of 7000 bytes are shown"]


def test_max_output_counts_each_stream(fresh, fake):
    fake(writes(b"x" * 30, err=[b"y" * 40]))
    done = fresh("exec", "--max-output", "35", "local", "x")
    assert done.stdout == b"x" * 30
    assert done.stderr == (b"y" * 35 + b"sandmux: exec: stderr: the first 35 "
                           b"of 40 bytes are shown\n")


def test_on_limit_kill(sandmux, tmp_path):
    """The real thing: the command ends, and what came is counted."""
    done = sandmux("exec", "--max-output", "10", "--on-limit", "kill",
                   "--json", str(tmp_path / "r"), "local", "yes")
    assert (done.returncode, done.stdout) == (153, b"y\n" * 5)
    r = json.loads((tmp_path / "r").read_text())
    assert (r["outcome"], r["status"], r["over_limit"]) == (
        "cancelled", 153, True)
    assert r["stdout"]["bytes"] == r["bytes"]["stdout"] > 10


def test_on_limit_kill_below_it(sandmux):
    done = sandmux("exec", "--max-output", "2", "--on-limit", "kill",
                   "local", "sh", "-c", "echo x; exit 4")
    assert (done.returncode, done.stdout, done.stderr) == (4, b"x\n", b"")


def test_continue_is_the_default(sandmux):
    done = sandmux("exec", "--max-output", "4", "--keep", "tail", "local",
                   "sh", "-c", "seq 1 200000; exit 4")
    assert (done.returncode, done.stdout) == (4, b"000\n")


def test_memory_of_a_tail_is_bounded(sandmux):
    word = ["exec", "--max-output", "1M", "--keep", "tail", "local", "head",
            "-c", "100000000", "/dev/zero"]
    job = sandmux.start(*word)
    out, _ = job.communicate(timeout=60)
    assert (job.returncode, out) == (0, bytes(1 << 20))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert usage.ru_maxrss < 200000         # of all children so far, KiB


def test_reader_of_a_tail_that_goes(sandmux):
    job = sandmux.start("exec", "--max-output", "1M", "--keep", "tail",
                        "local", "head", "-c", "3000000", "/dev/zero")
    job.stdout.close()
    assert job.wait(30) == -signal.SIGPIPE
    job.stderr.close()


# ---- cp -u ---------------------------------------------------------------------

def test_cp_up_as_user(fresh, fake, tmp_path):
    def answer(c, number, body):
        c.say(result(number, taken=3))
    bodies = fake(answer)
    (tmp_path / "f").write_bytes(b"abc")
    fresh("cp", "-u", "app", str(tmp_path / "f"), "local:/x")
    assert (bodies[0].kind, bodies[0].user, bodies[0].path) == (
        PUT, b"app", b"/x")


def test_cp_down_as_user(fresh, fake):
    bodies = fake(ends())
    fresh("cp", "--user=1:2", "local:/x", "-")
    assert (bodies[0].kind, bodies[0].user, bodies[0].path) == (
        GET, b"1:2", b"/x")


# ---- ps --------------------------------------------------------------------------

LIST = [
    job(1, uid=1000, age_us=59_999_999, cpu_us=1_234_567),
    job(2, state=1, user=b"app:staff", age_us=200_000_000, processes=3),
    job(3, state=2, outcome=EXITED, code=3, age_us=7_320_000_000),
    job(4, state=3, outcome=EXITED, code=7, processes=0, detached=1,
        age_us=97_200_000_000),
    job(5, state=3, outcome=SIGNALED, code=9, terminal=1),
    job(6, state=3, outcome=SIGNALED, code=40),
    job(7, state=3, outcome=TIMED_OUT),
    job(8, state=9, user=b"\x1b[2J", command=b"sh -c \n\xff\x07"),
    job(9, age_us=MAX64, cpu_us=MAX64, processes=0xffffffff),
]


def lists(jobs):
    whole = b"".join(jobs)

    def answer(c, number, body):
        if body.kind == JOBS and whole:
            c.say(data(number, whole[:100]))
            if whole[100:]:
                c.say(data(number, whole[100:], 2, 100))
        c.say(result(number, out=len(whole) if body.kind == JOBS else 0))
    return answer


def test_ps(fresh, fake):
    fake(lists(LIST))
    done = fresh("ps", "local")
    assert done.returncode == 0, done
    rows = done.stdout.decode().splitlines()
    assert rows[0].split() == ["JOB", "USER", "STATE", "AGE", "CPU", "PROCS",
                               "COMMAND"]
    got = [r.split(None, 5) for r in rows[1:]]
    assert got[0] == ["1", "1000", "running", "59s", "1.23s", "1 sleep 9"]
    assert got[1][:4] == ["2", "app:staff", "stopped", "3m20s"]
    assert got[2][:4] == ["3", "0", "background", "2h02m"]
    assert got[3][:5] == ["4", "0", "exited", "7", "1d03h"]
    assert [g[2] for g in got[4:7]] == ["SIGKILL", "signal", "timed-out"]
    assert rows[8].split()[:3] == ["8", r"\x1b[2J", "unknown"]
    assert rows[8].endswith(r"sh -c \n\xff\x07")
    assert len(rows) == 10 and "\x1b" not in done.stdout.decode()


def test_ps_json(fresh, fake):
    fake(lists(LIST))
    done = fresh("ps", "--json", "local")
    jobs = json.loads(done.stdout)["jobs"]
    assert [j["job"] for j in jobs] == list(range(1, 10))
    assert jobs[0] == {
        "job": 1, "user": "", "uid": 1000, "pid": 1, "state": "running",
        "outcome": None, "code": None, "signal": None, "processes": 1,
        "age_seconds": 60.0, "cpu_seconds": 1.235, "detached": False,
        "terminal": False, "command": "sleep 9"}
    assert (jobs[2]["state"], jobs[2]["outcome"], jobs[2]["code"]) == (
        "background", "exited", 3)
    assert jobs[3]["detached"] is True and jobs[4]["terminal"] is True
    assert (jobs[4]["outcome"], jobs[4]["code"], jobs[4]["signal"]) == (
        "signaled", None, 9)
    assert jobs[7]["command"] == "sh -c \n\udcff\x07"


@pytest.mark.parametrize("words, want", [
    (["ps", "local"], b"JOB "), (["ps", "--json", "local"], b'{"jobs": []}')])
def test_ps_of_none(fresh, fake, words, want):
    fake(lists([]))
    done = fresh(*words)
    assert done.returncode == 0 and done.stdout.startswith(want)
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize("answer", [
    LIST[0][:-1], LIST[0] + b"\0\0", b"\xff\xff\xff\xff" + LIST[0][4:],
    LIST[0] + b"\0\0\0\1\x61", b"\0\0\0\0", LIST[0] + LIST[1][:9]])
def test_ps_of_a_liar(fresh, fake, answer):
    fake(lists([answer]))
    done = fresh("ps", "local")
    assert (done.returncode, done.stdout) == (1, b"")
    line(done, "not understood")


# ---- kill --------------------------------------------------------------------------

@pytest.mark.parametrize("words, number", [
    ([], 0), (["-s", "TERM"], 15), (["-s", "SIGKILL"], 9), (["-sint"], 2),
    (["--signal=sigusr1"], 10), (["-s", "64"], 64), (["-s", "1"], 1)])
def test_kill(fresh, fake, words, number):
    bodies = fake(ends())
    done = fresh("kill", *words, "local", "12")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (bodies[0].kind, bodies[0].job, bodies[0].signal) == (
        KILL, 12, number)


@pytest.mark.parametrize("words", [
    ["-s", "0", "local", "1"], ["-s", "65", "local", "1"],
    ["-s", "", "local", "1"], ["-s", "SIG", "local", "1"],
    ["-s", "-1", "local", "1"], ["-s", "TERMX", "local", "1"],
    ["local"], [], ["local", "1", "2"], ["local", "x"], ["local", ""],
    ["local", "4294967296"], ["Nosuch", "1"]])
def test_kill_usage(sandmux, words):
    done = sandmux("kill", *words)
    assert done.returncode == 2
    line(done, "kill")


# ---- wait, logs, attach ------------------------------------------------------------

@pytest.mark.parametrize("name, status", [("wait", 125), ("attach", 125),
                                          ("logs", 2), ("shell", 125),
                                          ("ps", 2)])
def test_usage_statuses(sandmux, name, status):
    done = sandmux(name)
    assert done.returncode == status
    line(done, name)


@pytest.mark.parametrize("kw, status", [
    (dict(code=7), 7), (dict(outcome=SIGNALED, code=9), 137),
    (dict(outcome=TIMED_OUT), 124), (dict(outcome=CANCELLED), 125)])
def test_wait(fresh, fake, tmp_path, kw, status):
    bodies = fake(ends(info=exec_info(job=3), **kw))
    done = fresh("wait", "--json", str(tmp_path / "r"), "local", "3")
    assert (done.returncode, done.stdout) == (status, b"")
    assert (bodies[0].kind, bodies[0].job, bodies[0].flags) == (
        ATTACH, 3, FOLLOW | QUIET | FORGET)
    r = json.loads((tmp_path / "r").read_text())
    assert (r["status"], r["job"]) == (status, 3)


@pytest.mark.parametrize("words, flags", [([], 0), (["-f"], FOLLOW),
                                          (["--follow"], FOLLOW)])
def test_logs(fresh, fake, words, flags):
    def answer(c, number, body):
        c.say(data(number, b"out\n"), data(number, b"err\n", 3),
              result(number, outcome=SIGNALED, code=9, out=4, err=4,
                     info=exec_info(out_from=100, err_from=0)))
    bodies = fake(answer)
    done = fresh("logs", *words, "local", "3")
    assert (done.returncode, done.stdout) == (0, b"out\n")
    assert done.stderr == (b"err\nsandmux: logs: stdout: the first 100 bytes "
                           b"are gone (--log-size)\n")
    assert (bodies[0].job, bodies[0].flags, bodies[0].out) == (3, flags, 0)


def test_logs_of_a_lost_controller(fresh, fake):
    fake(lambda c, number, body: c.sock.close())
    done = fresh("logs", "local", "3")
    assert done.returncode == 1
    line(done, "logs")


def attaches(seen, **kw):
    """Say "ready", then read the request's frames into seen until EOF."""
    def answer(c, number, body):
        if body.kind == JOBS:
            whole = job(3, terminal=kw.get("terminal", 0))
            c.say(data(number, whole), result(number, out=len(whole)))
            return
        seen.extend(c.early)
        c.say(data(number, b"ready\n"))
        while True:
            frame = c.read()
            if frame is None:
                seen.append(None)
                return
            seen.append(frame)
            if frame[0] == EOF:
                break
        c.say(result(number, code=5, out=6, info=exec_info(job=3)))
    return answer


def test_attach(fresh, fake):
    seen = []
    bodies = fake(attaches(seen))
    done = fresh("attach", "local", "3", stdin=b"words")
    assert (done.returncode, done.stdout) == (5, b"ready\n")
    assert (bodies[1].kind, bodies[1].job, bodies[1].flags) == (
        ATTACH, 3, FOLLOW | IN)
    assert b"".join(s[14:] for s in seen if s[0] == DATA) == b"words"


@pytest.mark.parametrize("words", [["attach", "--no-stdin"], ["wait"],
                                   ["logs", "-f"]])
def test_ctrl_c_leaves_the_job(fresh, fake, words):
    """The connection ends; nothing is cancelled."""
    seen = []
    fake(attaches(seen))
    client = fresh.start(*words, "local", "3")
    assert client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=20)
    assert (client.returncode, out, err) == (130, b"", b"")
    while None not in seen:
        pass
    assert [s for s in seen if s and s[0] in (CANCEL, EOF)] == []


def test_attach_to_a_terminal_needs_one(fresh, fake):
    bodies = fake(attaches([], terminal=1))
    done = fresh("attach", "local", "3", stdin=b"")
    assert done.returncode == 125
    line(done, "--no-stdin")
    assert [b.kind for b in bodies] == [JOBS]


def test_attach_to_a_terminal(fresh, fake):
    """Raw mode, and the size at once; Ctrl-] three times leaves."""
    seen = []
    fake(attaches(seen, terminal=1))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 33, 77, 0, 0))
    before = termios.tcgetattr(slave)
    client = fresh.start("attach", "local", "3", stdin=slave, stdout=slave)
    assert os.read(master, 100) == b"ready\n"       # no CR: it is raw
    os.write(master, b"\x03x\x1d\x1d\x1d")
    assert client.wait(20) == 130
    client.stderr.close()
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
    while None not in seen:
        pass
    sizes = [s for s in seen if s and s[0] == RESIZE]
    assert struct.unpack(">HH", sizes[0][5:]) == (33, 77)
    assert b"".join(s[14:] for s in seen if s and s[0] == DATA
                    )[:2] == b"\x03x"


# ---- the whole of it, on `local` -----------------------------------------------

def detached(sandmux, *words, opts=()):
    done = sandmux("exec", "-d", *opts, "local", *words)
    assert done.returncode == 0, done
    return done.stdout.decode().strip()


def test_detached_logs_wait(sandmux, tmp_path):
    number = detached(sandmux, "sh", "-c", "echo o; echo e >&2; exit 6")
    done = sandmux("logs", "-f", "local", number)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"o\n", b"e\n")
    done = sandmux("wait", "--json", str(tmp_path / "r"), "local", number)
    assert (done.returncode, done.stdout, done.stderr) == (6, b"", b"")
    r = json.loads((tmp_path / "r").read_text())
    assert (r["outcome"], r["code"], r["job"]) == ("exited", 6, int(number))
    done = sandmux("wait", "local", number)     # nothing is kept of it
    assert done.returncode == 1
    line(done, f"job {number}: no such process")


def test_detached_outlives_its_client(sandmux):
    number = detached(sandmux, "sh", "-c", "sleep 0.5; echo late")
    assert sandmux("logs", "local", number).stdout == b""
    assert sandmux("logs", "-f", "local", number).stdout == b"late\n"
    assert sandmux("wait", "local", number).returncode == 0


def test_what_is_gone_is_said(sandmux):
    number = detached(sandmux, "seq", "1", "20000", opts=["--log-size", "64K"])

    def ended():
        jobs = json.loads(sandmux("ps", "--json", "local").stdout)["jobs"]
        return [j["state"] for j in jobs if j["job"] == int(number)] == [
            "ended"]
    wait_until("its end", ended)
    done = sandmux("logs", "-f", "local", number)
    whole = b"".join(b"%d\n" % i for i in range(1, 20001))
    gone = len(whole) - len(done.stdout)
    assert gone > 0 and whole.endswith(done.stdout)
    line(done, f"stdout: the first {gone} bytes are gone")
    assert sandmux("wait", "local", number).returncode == 0


@pytest.mark.parametrize("words, status", [([], 143), (["-s", "KILL"], 137),
                                           (["-s", "USR1"], 138)])
def test_kill_a_detached_one(sandmux, words, status):
    number = detached(sandmux, "sleep", "600")
    assert sandmux("kill", *words, "local", number).returncode == 0
    assert sandmux("wait", "local", number).returncode == status


def test_ctrl_c_while_waiting(sandmux):
    number = detached(sandmux, "sleep", "600")
    waiting = sandmux.start("wait", "local", number)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.5)
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    jobs = json.loads(sandmux("ps", "--json", "local").stdout)["jobs"]
    one, = [j for j in jobs if j["job"] == int(number)]
    assert (one["state"], one["command"]) == ("running", "sleep 600")
    assert sandmux("kill", "local", number).returncode == 0
    sandmux("wait", "local", number)


def test_limits_arrive(sandmux):
    done = sandmux("exec", "--limit", "nofile=77:99", "--nice", "3",
                   "--umask", "027", "local", "sh", "-c",
                   "ulimit -Sn; ulimit -Hn; nice; umask")
    # Nice adds to what the controller has.
    assert done.stdout.split() == [b"77", b"99", b"%d" % (os.nice(0) + 3),
                                   b"0027"]

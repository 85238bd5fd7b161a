# SPDX-License-Identifier: MIT
"""Terminals where the sandbox can open none: a second process of the
transport brings one, and a job on it is like any other on a terminal."""
import json
import os
import signal
import subprocess
import time

import pytest
from spine import find, get_target, hwm, marker, processes, together, wait_for
from spine import host, new_host, shared_host       # noqa: F401 (fixtures)
from test_cli_tty import Terminal


@pytest.fixture(scope="module")
def box():
    return get_target("openshell")


@pytest.fixture
def on(host, box):                                  # noqa: F811
    """on("-it", ..., script) runs a script there on a terminal."""
    made = []

    def make(*words, to=host, rows=24, columns=80, command="exec"):
        made.append(Terminal(to, command, *words, rows=rows, columns=columns))
        return made[-1]
    yield make
    for one in made:
        one.close()


def sh(box, script):
    return ["-it", str(box), "sh", "-c", script]


def attached(host):                                 # noqa: F811
    """The transports' processes that brought terminals."""
    found = processes()
    return [pid for pid in host.children()
            if pid in found and b"attach" in found[pid][1]]


def test_all_three_are_the_terminal(on, box):
    t = on(*sh(box, "tty; test -t 0 -a -t 1 -a -t 2 && echo err >&2; exit 7"))
    t.until(b"/dev/pts/")
    t.until(b"err\r\n")
    assert t.status() == 7


def test_modes_are_those_of_a_new_one(on, box):
    t = on(*sh(box, "stty -a"))
    assert t.status() == 0
    words = t.got.replace(b";", b" ").split()
    for mode in (b"icanon", b"echo", b"isig", b"iexten", b"icrnl", b"ixon",
                 b"opost", b"onlcr", b"-tostop", b"-inlcr"):
        assert mode in words, (mode, t.got)


def test_size_and_resize(on, box):
    t = on(*sh(box, "stty size; trap 'stty size; exit 3' WINCH; echo set; "
               "while :; do sleep 0.1; done"), rows=31, columns=117)
    t.until(b"31 117\r\n")
    t.until(b"set\r\n")
    t.size(44, 133)
    t.until(b"44 133\r\n")
    assert t.status() == 3


def test_keys_are_signals(on, box):
    t = on(*sh(box, "trap 'echo caught; exit 9' INT; echo set; "
               "while :; do sleep 0.1; done"))
    t.until(b"set\r\n")
    t.send(b"\x03")
    t.until(b"caught")
    assert t.status() == 9
    t = on(*sh(box, "echo up; exec cat"))
    t.until(b"up\r\n")
    t.send(b"line\r")
    t.until(b"line\r\nline\r\n")
    t.send(b"\x1c")
    assert t.status() == 128 + signal.SIGQUIT
    t = on(*sh(box, "echo up; exec cat"))
    t.until(b"up\r\n")
    t.send(b"\x04")
    assert t.status() == 0


def test_job_control(on, box):
    mark = marker()
    t = on("-it", str(box), "bash", "--norc", "-i")
    t.send(b"PS1='>'; echo on $((40+2))\r")
    t.until(b"on 42\r\n")
    t.send(f"sleep {mark}\r".encode())
    wait_for("the job", lambda: find(mark))
    time.sleep(0.2)                 # until it has the foreground
    t.send(b"\x1a")
    t.until(b"Stopped")
    t.send(b"bg; jobs; kill %1; wait; exit 5\r")
    t.until(b"Running")
    assert t.status() == 5
    assert not find(mark)


@pytest.mark.parametrize("script,status", [
    ("exit 0", 0), ("exit 255", 255), ("kill -TERM $$", 143),
    ("kill -KILL $$", 137), ("exec no-such-program", 127)])
def test_status(on, box, script, status):
    t = on(*sh(box, script))
    assert t.status() == status


def test_start_failures(on, box):
    t = on("-it", str(box), "/no/such/program")
    assert t.status() == 127
    t = on("-it", "-w", "/no/such/directory", str(box), "true")
    assert t.status() == 126
    t.until(b"/no/such/directory")


def test_timeout_and_signal(on, box):
    mark = marker()
    t = on("-it", "--timeout", "1", str(box), "sleep", mark)
    assert t.status() == 124
    assert not find(mark)


def test_output_is_whole(on, box):
    t = on(*sh(box, "seq 1 60000; echo the-end; exit 4"))
    assert t.status() == 4
    assert t.got == b"".join(b"%d\r\n" % i for i in
                             range(1, 60001)) + b"the-end\r\n"


def test_bytes_go_through(on, box):
    data = bytes(range(256)) * 400
    t = on(*sh(box, "stty raw -echo; echo set; head -c %d | cksum" %
               len(data)))
    t.until(b"set\n")
    at = 0
    while at < len(data):
        at += os.write(t.master, data[at:at + 4096])
        t.take(0)
    assert t.status() == 0
    want = subprocess.run(["cksum"], input=data, stdout=subprocess.PIPE,
                          check=True).stdout.split()
    assert t.got.split()[:2] == want[:2]


def test_json_counts_what_went(host, on, box, tmp_path):    # noqa: F811
    path = tmp_path / "report"
    t = on("-it", "--json", str(path), str(box), "sh", "-c",
           "echo up; read x; echo got $x")
    t.until(b"up\r\n")
    t.send(b"word\r")
    assert t.status() == 0
    told = json.loads(path.read_text())
    assert told["bytes"] == {"stdin": 5, "stdout": 20, "stderr": 0}
    assert b"got word\r\n" in t.got


def test_two_at_once(on, box):
    a, b = (on(*sh(box, "tty; while read x; do echo $x$x; done"))
            for _ in range(2))
    names = []
    for t in (a, b):
        t.until(b"/dev/pts/")
        names.append(t.until(b"\r\n"))
    assert names[0] != names[1]
    for word in (b"one", b"two"):
        a.send(word + b"\r")
        b.send(word.upper() + b"\r")
        a.until(word + word + b"\r\n")
        b.until(word.upper() * 2 + b"\r\n")
    a.send(b"\x04")
    b.send(b"\x04")
    assert (a.status(), b.status()) == (0, 0)
    assert b"ONE" not in a.got and b"one" not in b.got


def test_many_at_once(on, box):
    def one(i):
        t = on(*sh(box, f"echo this is {i}; exit {i}"))
        t.until(b"this is %d\r\n" % i)
        return t.status()
    assert together(10, one) == list(range(10))


def test_shell(on, box):
    t = on(str(box), command="shell")
    t.send(b"PS1=; echo $((6*7))-$PPID; exit 6\r")
    t.until(b"42-")
    assert t.status() == 6


def test_t_alone(host, box):                        # noqa: F811
    """Without -i there is no keyboard; stdout need not be a terminal."""
    done = host.exec(box, "sh", "-c", "tty; exit 3", opts=["-t"])
    assert done.status == 3 and done.out.startswith(b"/dev/pts/"), done


def test_background_children_do_not_hold_the_end(on, box):
    mark = marker()
    t = on(*sh(box, f"trap '' HUP; sleep {mark} & echo started; exit 2"))
    start = time.monotonic()
    assert t.status() == 2
    assert b"started\r\n" in t.got
    assert time.monotonic() - start < 20
    assert find(mark)
    for pid in find(mark):
        os.kill(pid, signal.SIGKILL)


def test_nothing_stays(host, on, box):              # noqa: F811
    t = on(*sh(box, "echo up; cat"))
    t.until(b"up\r\n")
    assert len(attached(host)) == 1
    t.send(b"\x04")
    assert t.status() == 0
    wait_for("its process to end", lambda: not attached(host))
    assert box.injected() == []


def test_a_lost_process_hangs_up(host, on, box):    # noqa: F811
    mark = marker()
    t = on(*sh(box, f"echo up; sleep {mark}"))
    t.until(b"up\r\n")
    os.kill(attached(host)[0], signal.SIGKILL)
    assert t.status() == 125
    t.until(b"the terminal was lost")
    wait_for("the job's end", lambda: not find(mark))
    assert host.sh(box, "exit 3").status == 3       # the link is as it was


def test_one_that_ignores_the_hang_up(host, on, box):       # noqa: F811
    mark = marker()
    t = on(*sh(box, f"trap '' HUP; echo up; sleep {mark}"))
    t.until(b"up\r\n")
    os.kill(attached(host)[0], signal.SIGKILL)
    assert t.status() == 125
    wait_for("the job's end", lambda: not find(mark))


def test_a_vanished_client_ends_the_job(host, on, box):     # noqa: F811
    mark = marker()
    t = on(*sh(box, f"echo up; sleep {mark}"))
    t.until(b"up\r\n")
    t.job.kill()
    wait_for("the job's end", lambda: not find(mark))
    wait_for("its process to end", lambda: not attached(host))


def test_a_lost_link_leaves_the_terminal(new_host, on, box):  # noqa: F811
    """The job's end waits for the next link; its bytes do not."""
    own = new_host()
    t = on(*sh(box, "echo up; read x; echo got $x; exit 6"), to=own)
    t.until(b"up\r\n")
    os.kill(own.link(box)["pid"], signal.SIGKILL)
    wait_for("the next link", lambda: own.status()["links"][0]["relinks"])
    t.send(b"what\r")
    t.until(b"got what\r\n")
    assert t.status() == 6
    wait_for("its process to end", lambda: set(attached(own)) <= {
        own.link(box)["pid"]})


def test_detached_on_a_terminal_is_refused(host, box):      # noqa: F811
    done = host.exec(box, "true", opts=["-d", "-t"])
    assert done.status == 126 and b"/dev/ptmx" in done.err, done


def test_a_login_shell_that_stays_is_named(new_host, on, box):    # noqa: F811
    own = new_host()
    assert own.sh(box, "echo \"trap : EXIT\" >~/.bash_profile").status == 0
    try:
        t = on("-it", str(box), "true", to=own)
        assert t.status() == 126
        t.until(b"login file")
    finally:
        assert own.sh(box, "rm ~/.bash_profile").status == 0


def test_doctor_says_so(host, box):                 # noqa: F811
    done = host.run("doctor", str(box))
    line = [x for x in done.out.splitlines() if x.startswith(b"terminals")]
    assert len(line) == 1 and b"not sealed" in line[0], done


def test_a_frozen_process_does_not_hold_the_result(host, on, box):  # noqa: F811
    mark = marker()
    t = on("-it", "--timeout", "2", str(box), "sh", "-c",
           f"echo up; sleep {mark}")
    t.until(b"up\r\n")
    pid = attached(host)[0]
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    assert t.status() == 124
    assert time.monotonic() - start < 30
    wait_for("its end", lambda: pid not in processes())
    assert not find(mark)


def test_one_that_nobody_reads(host, on, box):      # noqa: F811
    """It stops its own job and nothing else, and costs no memory."""
    t = on(*sh(box, "echo up; while :; do seq 1 9999; done"))
    t.until(b"up\r\n")
    os.kill(t.job.pid, signal.SIGSTOP)
    time.sleep(3)
    before = hwm(host.controllers()[0])
    assert host.sh(box, "exit 4").status == 4
    time.sleep(3)
    assert hwm(host.controllers()[0]) < before + 1024
    os.kill(t.job.pid, signal.SIGCONT)
    t.send(b"\x03")
    assert t.status() == 130


def test_clients_that_vanish_at_any_time(host, on, box):    # noqa: F811
    mark = marker()
    for i in range(16):
        t = on(*sh(box, f"echo up; sleep {mark}"))
        time.sleep(i * 0.02)
        t.job.kill()
        t.job.wait()
    wait_for("all to end", lambda: not attached(host) and not find(mark))
    assert host.sh(box, "exit 4").status == 4
    wait_for("all files to go", lambda: box.injected() == [])
    t = on(*sh(box, "exit 5"))
    assert t.status() == 5


def test_stop(new_host, on, box):                   # noqa: F811
    own = new_host()
    mark = marker()
    t = on(*sh(box, f"echo up; sleep {mark}"), to=own)
    t.until(b"up\r\n")
    pids = own.children()
    assert own.run("stop").status == 0
    assert t.status() == 125
    wait_for("all to end", lambda: not find(mark) and
             not set(pids) & set(processes()))

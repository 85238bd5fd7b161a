# SPDX-License-Identifier: MIT
"""Terminals: exec -t, shell and attach on a pseudo-terminal of the tests',
whose modes are the same afterwards, however it ended."""
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest
from conftest import LIMIT, program, wait_until
from fake_controller import (DATA, EXEC, HELLO, OPEN, RESIZE, RESULT,
                             Connection, f, items)

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


class Terminal:
    """The program in a session of its own, on a terminal of its own."""

    def __init__(self, sandmux, *words, rows=24, columns=80, env=None, **kw):
        self.master, self.slave = pty.openpty()
        self.size(rows, columns)
        self.before = self.modes()
        self.got = b""
        fds = {n: kw.get(n, self.slave) for n in ("stdin", "stdout",
                                                  "stderr")}

        def own():
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        self.job = subprocess.Popen(
            [program(), *words], env={**sandmux.env, **(env or {})},
            start_new_session=True, preexec_fn=own, **fds)

    def modes(self):
        return termios.tcgetattr(self.slave)

    def raw(self):
        return self.modes()[3] & (termios.ECHO | termios.ICANON |
                                  termios.ISIG) == 0

    def size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ,
                    struct.pack("4H", rows, columns, 0, 0))

    def send(self, data):
        os.write(self.master, data)

    def take(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.got += os.read(self.master, 65536)
            return True
        return False

    def until(self, text, seconds=LIMIT):
        """Read up to text, which must come; returns what was before it."""
        end = time.monotonic() + seconds
        while text not in self.got:
            assert time.monotonic() < end, (text, self.got)
            self.take(0.1)
        before, _, self.got = self.got.partition(text)
        return before

    def status(self):
        """The client's exit status; the terminal is as it was."""
        end = time.monotonic() + LIMIT
        while self.job.poll() is None:
            assert time.monotonic() < end, self.got
            self.take(0.02)
        while self.take(0):
            pass
        assert self.modes() == self.before
        return self.job.returncode

    def close(self):
        if self.job.poll() is None:
            self.job.kill()
        self.job.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def on(sandmux):
    """on("exec", "-it", "local", ...) starts the program on a terminal."""
    made = []

    def make(*words, sandmux=sandmux, **kw):
        made.append(Terminal(sandmux, *words, **kw))
        return made[-1]
    yield make
    for one in made:
        one.close()


def sh(script):
    return ["exec", "-it", "local", "sh", "-c", script]


# ---- what the job has ------------------------------------------------------

def test_all_three_are_the_terminal(on):
    t = on(*sh("tty; test -t 0 -a -t 1 -a -t 2 && echo err >&2; exit 7"))
    t.until(b"/dev/pts/")
    t.until(b"err\r\n")
    assert t.status() == 7


def test_size(on):
    t = on(*sh("stty size"), rows=33, columns=101)
    t.until(b"33 101")
    assert t.status() == 0


def test_size_without_one_here(sandmux):
    done = sandmux("exec", "-t", "local", "stty", "size")
    assert re.fullmatch(rb"\d+ \d+\r\n", done.stdout), done


def test_resize(on):
    t = on(*sh("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; "
               "done"))
    t.until(b"ready")
    t.size(50, 132)
    t.until(b"50 132")
    t.size(10, 20)
    t.until(b"10 20")
    t.job.send_signal(signal.SIGTERM)
    assert t.status() == 143


@pytest.mark.parametrize("words, env, want", [
    ([], {"TERM": "screen-256color"}, b"screen-256color"),
    ([], {"TERM": ""}, b"xterm"),
    (["-e", "TERM=dumb"], {"TERM": "screen"}, b"dumb"),
])
def test_term(on, words, env, want):
    t = on("exec", "-it", *words, "local", "sh", "-c", "echo [$TERM]",
           env=env)
    t.until(b"[" + want + b"]\r\n")
    assert t.status() == 0


# ---- keys ------------------------------------------------------------------

def test_raw_while_it_runs(on):
    """What is typed is echoed once: by the job's terminal."""
    t = on("exec", "-it", "local", "cat")
    wait_until("raw mode", t.raw)
    t.send(b"one\r")
    assert t.until(b"one\r\none\r\n") == b""
    t.send(b"\x04")
    assert t.status() == 0
    assert t.got == b""


def test_ctrl_c_is_the_jobs(on):
    # A trap ends dash's read.
    t = on(*sh("trap 'echo caught' INT; echo ready; read x || read x; "
               "echo [$x]"))
    t.until(b"ready\r\n")
    t.send(b"\x03")
    t.until(b"caught")
    t.send(b"on\r")
    t.until(b"[on]")
    assert t.status() == 0


def test_ctrl_c_ends_a_job_by_its_signal(on):
    t = on(*sh("echo ready; exec sleep 60"))
    t.until(b"ready")
    t.send(b"\x03")
    assert t.status() == 128 + signal.SIGINT


def test_ctrl_backslash(on):
    t = on(*sh("ulimit -c 0; echo ready; exec sleep 60"))
    t.until(b"ready")
    t.send(b"\x1c")
    assert t.status() == 128 + signal.SIGQUIT


def test_every_byte_goes_through(on):
    t = on(*sh("stty raw -echo; echo ready; head -c 256 | od -An -v -tu1 | "
               "tr -s ' \\n' ' '; echo end"))
    t.until(b"ready")
    t.send(bytes(range(256)))
    text = t.until(b"end")
    assert [int(n) for n in text.split()] == list(range(256))
    assert t.status() == 0


def test_much_output(on):
    t = on(*sh("seq 1 50000; echo end"))
    text = t.until(b"end")
    assert text == b"".join(b"%d\r\n" % n for n in range(1, 50001))
    assert t.status() == 0


def test_job_control(on):
    t = on("exec", "-it", "-e", "PS1=$ ", "local", "bash", "--norc", "-i")
    t.until(b"$ ")
    t.send(b"sleep 100\r")
    time.sleep(0.3)
    t.send(b"\x1a")
    t.until(b"Stopped")
    t.send(b"jobs; kill %1; fg; echo st=$?; exit 4\r")
    t.until(b"st=143")
    assert t.status() == 4


def test_leaving_ends_the_command(on, sandmux):
    t = on("exec", "-it", "local", "sh", "-c", "echo ready; sleep 54321")
    t.until(b"ready")
    t.send(b"\x1d\x1d")
    time.sleep(1.2)
    t.send(b"\x1d")
    time.sleep(0.1)
    assert t.job.poll() is None         # that was too slow
    t.send(b"\x1d\x1d")
    assert t.status() == 130
    wait_until("its end", lambda: b"54321" not in sandmux(
        "ps", "local").stdout)


# ---- ways out ---------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT,
                                    signal.SIGHUP, signal.SIGQUIT])
def test_signal_to_the_client(on, sandmux, number):
    t = on("exec", "-it", "local", "sh", "-c", "echo ready; sleep 65432; :")
    t.until(b"ready")
    assert t.raw()
    t.job.send_signal(number)
    assert t.status() == 128 + number
    assert b"65432" not in sandmux("ps", "local").stdout


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGSEGV,
                                    signal.SIGALRM, signal.SIGABRT])
def test_signal_that_kills_the_client(on, number):
    t = on(*sh("echo ready; sleep 60"))
    t.until(b"ready")
    t.job.send_signal(number)
    assert t.status() == -number


def test_lost_controller(on, fresh):
    t = on(*sh("echo ready; sleep 60"), sandmux=fresh)
    t.until(b"ready")
    assert fresh("stop").returncode == 0
    assert t.status() == 125
    assert re.fullmatch(rb"\r\nsandmux: exec: [^\r\n]*\r\n", t.got)


def test_error_is_said_on_a_good_terminal(on):
    t = on("exec", "-it", "local", "/nowhere/prog")
    assert t.status() == 127
    assert re.fullmatch(rb"sandmux: exec: cannot run [^\r\n]*\r\n", t.got)


def test_stop_and_continue(on):
    """SIGTSTP from outside: the terminal is good while it is stopped."""
    t = on(*sh("echo ready; read x; stty size; echo [$x]"))
    t.until(b"ready")
    assert t.raw()
    t.job.send_signal(signal.SIGTSTP)
    wait_until("it is stopped", lambda: os.waitid(
        os.P_PID, t.job.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
    assert t.modes() == t.before
    t.size(40, 50)
    t.job.send_signal(signal.SIGCONT)
    wait_until("raw mode", t.raw)
    t.send(b"on\r")
    t.until(b"40 50")
    t.until(b"[on]")
    assert t.status() == 0


def test_kill_stop_and_continue(on):
    """SIGSTOP cannot be caught; whoever continues it finds it raw again."""
    t = on(*sh("echo ready; read x; echo [$x]"))
    t.until(b"ready")
    t.job.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: os.waitid(
        os.P_PID, t.job.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
    termios.tcsetattr(t.slave, termios.TCSANOW, t.before)   # as a shell does
    t.job.send_signal(signal.SIGCONT)
    wait_until("raw mode", t.raw)
    t.send(b"on\r")
    t.until(b"[on]")
    assert t.status() == 0


def test_broken_pipe(on):
    read, write = os.pipe()
    t = on("exec", "-it", "local", "yes", stdout=write)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    assert t.status() in (-signal.SIGPIPE, 125)


def test_t_without_i_stays_as_it_is(on):
    t = on("exec", "-t", "local", "sh", "-c", "echo ready; sleep 60")
    t.until(b"ready")
    assert t.modes() == t.before
    t.send(b"\x03")                     # SIGINT, from the terminal here
    assert t.status() == 130


# ---- shell --------------------------------------------------------------------

def test_shell(on):
    t = on("shell", "-e", "PS1=$ ", "-w", "/tmp", "local")
    t.send(b"echo [$0] $(pwd) $((6 * 7)); exit 5\r")
    t.until(b" /tmp 42\r\n")
    assert t.status() == 5


def test_shell_without_a_terminal(sandmux):
    done = sandmux("shell", "local")
    assert done.returncode == 125
    assert b"exec -i TARGET sh" in done.stderr


def test_shell_takes_no_command(sandmux):
    done = sandmux("shell", "local", "ls")
    assert done.returncode == 125 and b"exec -it" in done.stderr


@ROOT_ONLY
def test_shell_of_another_user(on):
    t = on("shell", "-u", "nobody", "-w", "/", "local")
    # Debian's nobody has /usr/sbin/nologin for a shell.
    assert t.status() != 0
    t = on("shell", "-u", "12345:23456", "-w", "/", "local")
    t.send(b"id; ls -ln $(tty); exit 6\r")
    t.until(b"uid=12345 gid=23456")
    assert re.search(rb" 12345 +", t.until(b"/dev/pts/"))
    assert t.status() == 6


# ---- attach ---------------------------------------------------------------------

def test_attach_to_a_detached_terminal(on, sandmux):
    job = sandmux("exec", "-dit", "local", "sh", "-c",
                  "echo first; read x; echo [$x]; stty size; exit 8"
                  ).stdout.decode().strip()
    t = on("attach", "local", job, rows=44, columns=66)
    t.until(b"first")
    wait_until("raw mode", t.raw)
    time.sleep(0.2)
    t.send(b"words\r")
    t.until(b"[words]")
    t.until(b"44 66")
    assert t.status() == 8
    assert sandmux("wait", "local", job).returncode == 8


def test_leaving_an_attached_one(on, sandmux):
    job = sandmux("exec", "-dit", "local", "sh", "-c",
                  "echo first; read x; echo [$x]; exit 8"
                  ).stdout.decode().strip()
    for _ in range(2):
        t = on("attach", "local", job)
        t.until(b"first")
        t.send(b"\x1d\x1d\x1d")
        assert t.status() == 130
    assert b" running " in sandmux("ps", "local").stdout
    t = on("attach", "local", job)
    t.until(b"first")
    t.send(b"x\r")
    assert t.status() == 8
    assert sandmux("wait", "local", job).returncode == 8


# ---- before the link is up ---------------------------------------------------------

def test_size_comes_early(fresh):
    """What a client says in one breath with its request is not lost while
    the controller starts the agent."""
    os.mkdir(fresh.dir, 0o700)
    assert fresh("serve", "--daemon", "--dir", fresh.dir).returncode == 0
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(LIMIT)
    sock.connect(os.path.join(fresh.dir, "socket"))
    one = Connection(sock)
    env = [b"PATH=" + os.environb[b"PATH"]]
    one.say(struct.pack(">BHHI", HELLO, 1, 1, 0) + f(b"9") + f(b"local") +
            items(env))
    assert one.read() is not None
    script = b"sleep 0.5; stty size; exit 3"
    body = struct.pack(">BIQIHHIiII", EXEC, 4, 0, 1000, 24, 80, 0, 0, 0,
                       0) + \
        f(b"") + f(b"") + items([b"sh", b"-c", script]) + \
        items([]) + items([]) + items([])
    one.say(struct.pack(">BIBIQQ", OPEN, 1, EXEC, len(body), 1 << 20, 1 << 20),
            struct.pack(">BIBQ", DATA, 1, 0, 0) + body,
            struct.pack(">BIHH", RESIZE, 1, 50, 132))
    out = b""
    while True:
        frame = one.read()
        assert frame is not None
        if frame[0] == DATA:
            out += frame[14:]
        elif frame[0] == RESULT:
            break
    sock.close()
    assert out == b"50 132\r\n"
    assert struct.unpack(">BiB", frame[5:11])[:2] == (0, 3)

# SPDX-License-Identifier: MIT
"""What `openshell sandbox exec` really does, one test a fact.

The stand-in must pass all of them, and the real one too: whoever changes
the stand-in holds it against the real thing by OPENSHELL=/path.

Left out: the way in by ssh (`sandbox ssh-config`, `ssh-proxy`) and what goes
by it (`upload`, `download`), since nothing here uses it and the stand-in has
none.  Speeds and what is queued at full speed are figures, `make bench` has
them: here is only what holds on a busy machine too.
"""
import os
import pty
import signal
import socket
import subprocess
import termios
import threading
import time

import pytest

from openshell_box import Channel, pattern_fast, write_until_it_blocks

EOF_BOUND = 10      # seconds; the fact is 0.03


def start_piped(box, *cmd, flags=()):
    """An exec whose stdin is a pipe that stays open."""
    return subprocess.Popen(box.argv(*cmd, flags=flags), env=box.shell.env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


# --- stdin ---------------------------------------------------------------

@pytest.mark.parametrize("flags", [(), ("--tty",)])
def test_piped_stdin_is_read_to_its_end_before_the_start(box, flags):
    box.sh("rm -f /tmp/started")
    p = start_piped(box, "touch", "/tmp/started", flags=flags)
    p.stdin.write(b"some")
    p.stdin.flush()
    time.sleep(1.5)
    assert box.sh("ls /tmp/started 2>/dev/null || true") == ""
    assert p.poll() is None
    p.communicate(timeout=30)
    assert p.returncode == 0
    assert box.sh("ls /tmp/started") == "/tmp/started\n"


def test_stdin_of_a_file_arrives(box, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(bytes(range(256)) * 100)
    with open(path, "rb") as f:
        out = subprocess.run(box.argv("cat"), stdin=f, env=box.shell.env,
                             stdout=subprocess.PIPE, timeout=60, check=True)
    assert out.stdout == path.read_bytes()


def test_stdin_up_to_the_gateways_limit(box):
    assert box.exec("wc", "-c", data=b"x" * 1_040_000)[:2] == (
        0, b"1040000\n")


def test_stdin_over_the_gateways_limit(box):
    status, _, err = box.exec("wc", "-c", data=b"x" * 1_100_000)
    assert status == 1
    words = " ".join(err.decode().replace("\u2502", " ").split())
    assert ("decoded message length too large: found 1100050 bytes, "
            "the limit is: 1048576 bytes") in words


def test_stdin_over_the_clis_limit(box):
    status, _, err = box.exec("wc", "-c", data=b"x" * ((4 << 20) + 1))
    assert status == 1
    assert b"4194304" in err


# --- the terminal --------------------------------------------------------

def test_full_duplex_by_tty(box):
    size = 16 << 20
    data = pattern_fast(size)
    ch = box.probe("both", str(size))
    th = threading.Thread(target=ch.write, args=(data,))
    th.start()
    assert ch.read_exact(size, 120) == data
    assert ch.read_until(b"\n", 120) == b"GOT %d\n" % size
    th.join()
    assert ch.wait() == 0
    ch.close()


def test_every_byte_passes_both_ways(box):
    ch = box.probe("echo")
    data = bytes(range(256)) * 3
    ch.write(data)
    assert ch.read_exact(len(data)) == data
    ch.close()


def test_the_cli_makes_its_terminal_raw(box):
    master, slave = pty.openpty()       # cooked
    p = subprocess.Popen(box.argv("/tmp/probe", "echo", flags=["--tty"]),
                         stdin=slave, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=box.shell.env)
    assert p.stdout.read(6) == b"READY\n"
    lflag = termios.tcgetattr(slave)[3]
    assert lflag & (termios.ICANON | termios.ECHO | termios.ISIG) == 0
    keys = b"\x03\x04\r\n\x11\x13"
    os.write(master, keys)
    got = b""
    while len(got) < len(keys):
        got += os.read(p.stdout.fileno(), len(keys) - len(got))
    assert got == keys
    p.kill()
    p.wait()
    os.close(master)
    os.close(slave)


def test_stderr_is_merged_by_tty(box):
    ch = box.tty("bash", "-c", "echo out; echo err >&2")
    assert ch.wait() == 0
    assert ch.read_exact(10) == b"out\r\nerr\r\n"
    assert ch.proc.stderr.read() == b""
    ch.close()


def test_stderr_is_apart_without_tty(box):
    assert box.exec("bash", "-c", "echo out; echo err >&2") == (
        0, b"out\n", b"err\n")


def test_the_clis_own_errors_are_on_its_stderr(box):
    status, out, err = box.shell.run("sandbox", "exec", "-n", "no-such-box",
                                     "--tty", "--", "true")
    assert status == 1 and out == b"" and b"not found" in err


def test_it_is_a_login_shell(box):
    box.sh("echo 'echo from-the-login-file' >~/.bash_profile")
    try:
        out = box.exec("echo", "done")[1]
        ch = box.tty("echo", "done")
        tty_out = ch.read_until(b"done")
        ch.close()
    finally:
        box.exec("rm", "-f", "/sandbox/.bash_profile")
        box.exec("bash", "-c", "rm -f ~/.bash_profile")
    assert out == b"from-the-login-file\ndone\n"
    assert tty_out == b"from-the-login-file\r\ndone"


def test_the_remote_terminal_starts_cooked(box):
    ch = box.tty("cat")
    time.sleep(1)
    ch.write(b"abc\n")
    assert ch.read_exact(10) == b"abc\r\nabc\r\n"
    ch.close()


def test_lines_of_the_cooked_terminal_are_cut_at_4095(box):
    ch = box.tty("bash", "-c", "stty -echo; echo READY; head -n 1 | wc -c")
    ch.read_until(b"READY\r\n")
    ch.write(b"x" * 9000 + b"\n")
    assert ch.read_until(b"\r\n").split() == [b"4096"]
    ch.close()


def test_pieces_of_4096_bytes(box):
    """[read] A packet socket as stdout shows the size of each write."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    p = subprocess.Popen(box.argv("head", "-c", "300000", "/usr/bin/bash"),
                         stdin=subprocess.DEVNULL, stdout=theirs,
                         env=box.shell.env)
    theirs.close()
    sizes = []
    while sum(sizes) < 300000:
        packet = ours.recv(1 << 20)
        if not packet:
            break
        sizes.append(len(packet))
    assert p.wait() == 0
    assert sum(sizes) == 300000 and max(sizes) <= 4096


# --- the exit status -----------------------------------------------------

@pytest.mark.parametrize("flags", [(), ("--tty",)])
@pytest.mark.parametrize("script, status", [
    ("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 1),
    ("kill -TERM $$", 1), ("exec /no/such/program", 127),
])
def test_exit_status(box, flags, script, status):
    if flags:
        ch = box.tty("bash", "-c", script)
        assert ch.wait() == status
        ch.close()
    else:
        assert box.exec("bash", "-c", script)[0] == status


def test_not_found_is_127(box):
    assert box.exec("no-such-program")[0] == 127


def test_unknown_sandbox_is_1(shell):
    assert shell.run("sandbox", "exec", "-n", "no-such-box", "--",
                     "true")[0] == 1


def test_bad_usage_is_2(box):
    assert box.shell.run("sandbox", "exec", "-n", box.name)[0] == 2
    assert box.exec("true", flags=["--timeout", "x"])[0] == 2
    assert box.shell.run("sandbox", "no-such-command")[0] == 2


@pytest.mark.parametrize("tty", [False, True])
def test_timeout_is_124_and_the_command_lives_on(box, tty):
    cmd = ("bash", "-c", "echo $$ >/tmp/late; sleep 60")
    if tty:
        ch = box.tty(*cmd, flags=["--timeout", "1"])
        assert ch.wait() == 124
        ch.close()
    else:
        assert box.exec(*cmd, flags=["--timeout", "1"])[0] == 124
    assert box.alive("/tmp/late")
    box.sh("kill $(cat /tmp/late)")


# --- the end of a link ---------------------------------------------------

# Notes what a lost link tells it: nothing is the fact.
WITNESS = """rm -f /tmp/told.$1
trap 'echo HUP >>/tmp/told.$1' HUP
echo $$ >/tmp/pid.$1
echo READY
while :; do
    if read -r line; then echo "$line" >>/tmp/told.$1
    else echo EOF >>/tmp/told.$1; sleep 1; fi
done"""


def start_witness(box, tag):
    ch = box.tty("bash", "-c", WITNESS, "w", tag)
    ch.read_until(b"READY\r\n")
    return ch


def check_witness(box, tag):
    time.sleep(1)
    assert box.alive(f"/tmp/pid.{tag}")
    assert box.sh(f"cat /tmp/told.{tag} 2>/dev/null || true") == ""
    box.sh(f"kill -9 $(cat /tmp/pid.{tag})")


def test_a_killed_cli_tells_the_command_nothing(box):
    ch = start_witness(box, "cli")
    ch.proc.send_signal(signal.SIGKILL)
    assert ch.read_some(EOF_BOUND) == b""
    check_witness(box, "cli")
    ch.close()


def test_closing_the_clis_terminal_tells_the_command_nothing(box):
    ch = start_witness(box, "hup")
    os.close(ch.master)
    ch.master = os.open(os.devnull, os.O_RDONLY)
    check_witness(box, "hup")
    ch.close()


def test_output_of_a_lost_link_is_thrown_away(box):
    """Nobody blocks on it: a command cannot see that its link is gone."""
    ch = box.tty("bash", "-c", "rm -f /tmp/wrote; echo $$ >/tmp/pid.out;"
                 " echo READY; sleep 2; head -c 4000000 /usr/bin/perl;"
                 " echo done >/tmp/wrote; sleep 300")
    ch.read_until(b"READY\r\n")
    ch.kill()
    assert box.wait_for("cat /tmp/wrote 2>/dev/null || true") == "done"
    assert box.alive("/tmp/pid.out")
    box.sh("kill $(cat /tmp/pid.out)")
    ch.close()


def test_a_killed_gateway_ends_the_link_and_tells_nothing(box):
    ch = start_witness(box, "gw")
    box.shell.standin("kill-gateway")
    assert ch.read_some(EOF_BOUND) == b""
    assert ch.wait() == 1
    box.shell.standin("start")
    check_witness(box, "gw")
    ch.close()


def test_the_sandbox_is_reachable_after_a_gateway_restart(box):
    box.shell.standin("restart-gateway")
    assert box.exec("echo", "back")[1] == b"back\n"


def test_many_lost_links_stay_alive(box):
    links = [start_witness(box, f"m{i}") for i in range(20)]
    for ch in links:
        ch.close()
    time.sleep(1)
    for i in range(20):
        assert box.alive(f"/tmp/pid.m{i}")
    box.sh("for f in /tmp/pid.m*; do kill -9 $(cat $f); done")


def test_twenty_links_at_once(box):
    links = [box.probe("echo") for _ in range(20)]
    for i, ch in enumerate(links):
        ch.write(b"link %02d" % i * 1000)
    for i, ch in enumerate(links):
        assert ch.read_exact(7000) == b"link %02d" % i * 1000
        ch.close()


def test_a_background_child_does_not_hold_the_exec(box):
    """Not for ever: 3 s where it holds the pipes (measured)."""
    start = time.monotonic()
    status, out, _ = box.exec("bash", "-c", "echo hi; sleep 30 &")
    assert (status, out) == (0, b"hi\n")
    assert time.monotonic() - start < 20


def test_a_background_child_does_not_hold_the_tty_exec(box):
    start = time.monotonic()
    ch = box.tty("bash", "-c", "echo hi; sleep 30 &")
    assert ch.wait(20) == 0
    assert time.monotonic() - start < 20
    ch.close()


def test_output_that_nobody_took_is_lost_at_exit(box):
    """[read] The drain is 2 + 1 s, then what is left is thrown away."""
    box.sh("rm -f /tmp/flood")
    ch = box.probe("flood", "/tmp/flood")
    box.shell.standin("freeze", box.name)
    time.sleep(4)
    box.shell.standin("thaw", box.name)
    got = len(ch.buf)
    while True:
        data = ch.read_some(20)
        if not data:
            break
        got += len(data)
    assert ch.wait() == 0
    assert got < int(box.wait_for("cat /tmp/flood"))
    ch.close()


# --- flags ---------------------------------------------------------------

def test_an_unknown_flag_is_taken_as_the_command(box):
    status, _, err = box.exec("true", flags=["--no-such-flag"])
    assert status == 2
    assert b"invalid option" in err and b"bash" in err


def test_help_tells_whether_there_is_no_login_shell(box):
    status, out, _ = box.shell.run("sandbox", "exec", "--help")
    assert status == 0 and b"--tty" in out and b"--timeout" in out
    box.sh("echo 'echo noise' >~/.bash_profile")
    status, text, _ = box.exec("echo", "x", flags=["--no-login-shell"])
    box.exec("rm", "-f", "/sandbox/.bash_profile")
    if b"--no-login-shell" in out:
        assert (status, text) == (0, b"x\n")
    else:
        assert status == 2


def test_the_stand_in_can_have_no_login_shell(box):
    if box.shell.real:
        pytest.skip("only the stand-in chooses its version")
    newer = {"STANDIN_NO_LOGIN_SHELL": "1"}
    out = box.shell.run("sandbox", "exec", "--help", env=newer)[1]
    assert b"--no-login-shell" in out
    box.sh("echo 'echo noise' >~/.bash_profile")
    got = box.exec("echo", "x", flags=["--no-login-shell"], env=newer)
    box.exec("rm", "-f", "/sandbox/.bash_profile")
    assert got == (0, b"x\n", b"")


def test_workdir_and_env(box):
    status, out, _ = box.exec(
        "bash", "-c", 'pwd; echo "$A|$B"',
        flags=["--workdir", "/usr/lib", "--env", "A=a b'c", "--env", "B="])
    assert (status, out) == (0, b"/usr/lib\na b'c|\n")


def test_arguments_arrive_as_they_are(box):
    args = ["a b", "$HOME", "x'y", "", "two\nlines", "*", "é", "-n", "\\"]
    out = box.exec("printf", "%s|", *args)[1]
    assert out.decode() == "".join(a + "|" for a in args)


# --- buffers, silence and limits -----------------------------------------

def test_bytes_queued_upwards_at_full_speed(box):
    """At most about 10 MiB: less where the writer is no faster."""
    size = 48 << 20
    ch = box.probe("sink", str(size))
    data = pattern_fast(size)
    start = time.monotonic()
    ch.write(data)
    written = time.monotonic()
    assert ch.read_until(b"\n", 120) == b"GOT %d\n" % size
    end = time.monotonic()
    ch.close()
    queued = (end - written) * size / (end - start)
    assert queued < 40 << 20


def test_input_that_is_never_read_meets_no_back_pressure(box):
    """Measured: the real one took 256 MiB and would have gone on."""
    ch = box.probe("stall")
    assert write_until_it_blocks(ch, 64 << 20) >= 64 << 20
    ch.close()


def test_the_stand_in_can_have_back_pressure(box):
    if box.shell.real:
        pytest.skip("only the stand-in chooses")
    ch = Channel(box.argv("/tmp/probe", "stall", flags=["--tty"]),
                 {**box.shell.env, "STANDIN_STALLED": "bounded"})
    ch.ready()
    assert 5 << 20 < write_until_it_blocks(ch, 64 << 20) < 20 << 20
    ch.close()


def test_output_that_is_never_read_meets_back_pressure(box):
    """About 2 MiB downwards."""
    box.exec("pkill", "-9", "-x", "probe")
    ch = box.probe("source", str(64 << 20))
    time.sleep(3)
    assert box.sh("pgrep -n -x probe").strip()   # it cannot be done yet
    assert ch.read_exact(64 << 20) == pattern_fast(64 << 20)
    ch.close()


def test_an_idle_link_still_answers(box):
    """FACTS_IDLE=900 for the measured time."""
    ch = box.probe("echo")
    time.sleep(float(os.environ.get("FACTS_IDLE", "3")))
    ch.write(b"still there")
    assert ch.read_exact(11) == b"still there"
    ch.close()


def test_number_and_size_of_arguments(box):
    assert box.exec("true", *["a"] * 1023)[0] == 0
    assert box.exec("true", *["a"] * 1024)[0] == 1
    assert box.exec("true", "a" * 32768)[0] == 0
    assert box.exec("true", "a" * 32769)[0] == 1
    assert box.exec("true", *["a" * 30000] * 4)[0] == 0
    assert box.exec("true", *["a" * 30000] * 9)[0] == 1


def test_environment_and_workdir_limits(box):
    for flags in (["--env", "A=x\ny"], ["--env", "1A=x"], ["--env", "A"],
                  ["--env", "OPENSHELL_X=1"], ["--env", "A;B=x"],
                  ["--env", "A=" + "x" * 32769], ["--workdir", "/tmp\n"]):
        assert box.exec("true", flags=flags)[0] == 1, flags


def test_the_log_has_the_first_120_characters(box):
    if box.shell.real:
        pytest.skip("the log of a real gateway is elsewhere")
    box.exec("echo", "q" * 200)
    log = (box.shell.state / "gateway.log").read_text()
    assert "echo " + "q" * 115 + "\n" in log and "q" * 116 not in log


def test_memory_of_a_running_cli(box):
    ch = box.probe("echo")
    with open(f"/proc/{ch.proc.pid}/statm") as f:
        pages = int(f.read().split()[1])
    ch.close()
    # The fact is 14 MiB; a process that has ended has none.
    assert 0 < pages * os.sysconf("SC_PAGE_SIZE") < 20 << 20

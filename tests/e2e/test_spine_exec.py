# SPDX-License-Identifier: MIT
"""exec: arguments, environment, directory, exit status, errors, --json."""
import json
import os
import signal

import pytest
from spine import (LONG, MIB, get_target, host, shared_host,  # noqa: F401
                   target, together)

# A shell that stays and shows its own argv or environment, byte for byte.
SHOW_ARGV = ["sh", "-c", "cat /proc/$$/cmdline; exit 0", "sh"]
SHOW_ENV = ["sh", "-c", "cat /proc/$$/environ; exit 0", "sh"]
ARGS_MAX = MIB                  # arguments and environment in all
ITEM = 4                        # what an item costs beside its bytes


def vector(*words):
    return b"".join(os.fsencode(w) + b"\0" for w in words)


def environ(out):
    return dict(e.split(b"=", 1) for e in out.split(b"\0") if b"=" in e)


def fill(room):
    """Arguments of room bytes in all, none over the kernel's 128 KiB."""
    args = []
    while room > 0:
        size = min(room, 130_000)
        args.append("x" * max(size - ITEM, 0))
        room -= size
    return args


# ---- arguments ----------------------------------------------------------

ODD = ["a b", "", "$HOME", "`id`", "x'y", '"', "two\nlines\n", "\t", "*",
       "~", "\\", "-n", "--", "=", "é", b"\xff\xfe\x80", "\x01\x1b[31m\x7f",
       "", "end "]


def test_arguments_are_exact(host, target):  # noqa: F811
    done = host.exec(target, *SHOW_ARGV, *ODD)
    assert done.status == 0, done
    assert done.out == vector(*SHOW_ARGV, *ODD)


def test_no_shell_is_between(host, target):  # noqa: F811
    done = host.exec(target, "printf", "%s|", *ODD)
    assert done.out == b"".join(os.fsencode(w) + b"|" for w in ODD), done


def test_only_the_first_dashes_are_dropped(host, target):  # noqa: F811
    done = host.exec(target, "echo", "--", "-e", "--timeout", "1")
    assert done.out == b"-- -e --timeout 1\n", done


def test_a_mebibyte_of_arguments(host, target):  # noqa: F811
    spent = sum(len(w) + ITEM for w in SHOW_ARGV)
    args = fill(ARGS_MAX - spent)
    done = host.exec(target, *SHOW_ARGV, *args)
    assert done.status == 0, done
    assert done.out == vector(*SHOW_ARGV, *args)


def test_more_than_a_mebibyte_is_refused(host, target):  # noqa: F811
    done = host.exec(target, "true", *fill(ARGS_MAX + 1024))
    assert done.status == 125
    assert b"longer than 1048576 bytes" in done.err, done


def test_many_arguments(host, target):  # noqa: F811
    args = [str(i) for i in range(30_000)]
    done = host.exec(target, *SHOW_ARGV, *args)
    assert done.out == vector(*SHOW_ARGV, *args), done.status


def test_an_argument_over_the_kernels_limit(host, target):  # noqa: F811
    # 128 KiB is the host's kernel's limit too: by a file of variables.
    path = host.top / "big.env"
    path.write_bytes(b"BIG=" + b"v" * 200_000 + b"\n")
    done = host.exec(target, "true", opts=["--env-file", str(path)])
    assert done.status == 126, done
    assert b"E2BIG" in done.err


def test_a_script_of_lines(host, target):  # noqa: F811
    done = host.sh(target, "for i in 1 2; do\n\techo \"<$i>\"\ndone\nexit 4")
    assert (done.status, done.out) == (4, b"<1>\n<2>\n"), done


# ---- environment --------------------------------------------------------

VALUES = {"A": "l1\nl2\n", "B": "", "C": "=x=", "D": "é", "E_1": " $HOME ",
          "F": b"\xff\xfe"}


def pairs(values):
    return [o for k, v in values.items()
            for o in ("-e", os.fsencode(k) + b"=" + os.fsencode(v))]


def test_values_are_exact(host, target):  # noqa: F811
    got = environ(host.exec(target, *SHOW_ENV, opts=pairs(VALUES)).out)
    for key, value in VALUES.items():
        assert got[os.fsencode(key)] == os.fsencode(value)


def test_the_inherited_environment_is_kept(host):  # noqa: F811
    got = host.sh("local", "echo $PATH", opts=["-e", "MORE=1"])
    assert got.out.decode() == host.env["PATH"] + "\n"


def test_the_images_environment_is_kept(host):  # noqa: F811
    box = get_target("docker-user")
    done = host.sh(box, "echo $FROM_IMAGE $MORE", opts=["-e", "MORE=1"])
    assert done.out == b"yes 1\n", done


def test_the_sandboxs_environment_is_kept(host):  # noqa: F811
    box = get_target("openshell")
    got = environ(host.exec(box, *SHOW_ENV, opts=["-e", "MORE=1"]).out)
    want = environ(box.sh("cat /proc/$$/environ; exit 0"))
    assert got[b"OPENSHELL_SANDBOX"] == b"1"
    for key in want:
        if key not in (b"TERM", b"_", b"SHLVL", b"OLDPWD", b"PWD"):
            assert got.get(key) == want[key], key


def test_a_name_alone_passes_the_clients_value(host, target):  # noqa: F811
    done = host.sh(target, "echo \"$FROM_CLIENT\"; echo ${NOT_THERE-unset}",
                   opts=["-e", "FROM_CLIENT", "-e", "NOT_THERE"],
                   env={"FROM_CLIENT": "of the\nclient"})
    assert done.out == b"of the\nclient\nunset\n", done


def test_unset_and_override(host, target):  # noqa: F811
    opts = ["-e", "PATH=/usr/bin:/bin:/x", "--unset", "HOME", "-e", "A=1",
            "-e", "A=2"]
    done = host.sh(target, "echo $PATH ${HOME-none} $A", opts=opts)
    assert done.out == b"/usr/bin:/bin:/x none 2\n", done


def test_the_environment_does_not_name_us(host, target):  # noqa: F811
    """openshell's shell leaves the agent's path in `_`."""
    names = [x.split(b"=")[0] for x in
             host.exec(target, "env").out.splitlines()]
    assert b"PATH" in names and b"_" not in names
    if target.kind != "local":
        assert b"sandmux" not in host.exec(target, "env").out.lower()


def test_clear_env_leaves_only_what_is_set(host, target):  # noqa: F811
    done = host.exec(target, "cat", "/proc/self/environ",
                     opts=["--clear-env", "-e", "ONLY=1"])
    assert (done.status, done.out) == (0, b"ONLY=1\0"), done


def test_env_file(host, target, tmp_path):  # noqa: F811
    path = tmp_path / "env"
    path.write_bytes(b"# a remark\n\nONE=1 # no remark\n  TWO= x \n"
                     b"FROM_CLIENT\nTHREE=of the file\nFOUR=last")
    done = host.exec(target, *SHOW_ENV, opts=[
        "--env-file", str(path), "-e", "THREE=over it"],
        env={"FROM_CLIENT": "yes"})
    got = environ(done.out)
    assert got[b"ONE"] == b"1 # no remark" and got[b"TWO"] == b" x "
    assert got[b"FROM_CLIENT"] == b"yes" and got[b"FOUR"] == b"last"
    assert got[b"THREE"] == b"over it"


def test_a_mebibyte_of_environment(host, target):  # noqa: F811
    names = {f"BIG_{i}": bytes([65 + i]) * 120_000 for i in range(8)}
    done = host.exec(target, *SHOW_ENV, opts=pairs(names))
    assert done.status == 0, done
    got = environ(done.out)
    assert all(got[os.fsencode(k)] == v for k, v in names.items())


@pytest.mark.parametrize("opts, words", [
    (["-e", "=v"], b"name of a variable is empty"),
    (["-e", ""], b"name of a variable is empty"),
    (["-e", "A B=1"], b"white space"),
    (["-e", "A; id #\n=1"], b"white space"),
    (["--unset", "A=1"], b"a name alone"),
    (["--env-file", "/no/such/file"], b"ENOENT"),
])
def test_bad_variables_are_refused(host, opts, words):  # noqa: F811
    done = host.exec("local", "true", opts=opts)
    assert done.status == 125 and words in done.err, done


def test_nul_is_refused_with_its_place(host, target, tmp_path):  # noqa: F811
    path = tmp_path / "env"
    path.write_bytes(b"GOOD=1\nBAD=a\0b\n")
    done = host.exec(target, "true", opts=["--env-file", str(path)])
    assert done.status == 125, done
    assert b"line 2" in done.err and b"NUL" in done.err


# ---- directory ----------------------------------------------------------

def test_directories(host, target):  # noqa: F811
    base = host.exec(target, "pwd").out.rstrip(b"\n")
    assert base.startswith(b"/")
    assert host.exec(target, "pwd", opts=["-w", "/usr"]).out == b"/usr\n"
    # Relative to the target's own.
    name = target.path("dir").rpartition("/")[2]
    where = base.rstrip(b"/") + b"/" + name.encode()
    assert host.exec(target, "mkdir", name).status == 0
    try:
        done = host.exec(target, "pwd", opts=["-w", name])
        assert done.out == where + b"\n", done
    finally:
        assert host.exec(target, "rmdir", name).status == 0


def test_the_default_directory(host):  # noqa: F811
    home = host.env["HOME"]
    assert host.exec("local", "pwd").out.decode() == os.path.realpath(
        home) + "\n"
    assert host.exec(get_target("docker-user"), "pwd").out == b"/work\n"
    box = get_target("openshell")
    assert host.exec(box, "pwd").out == box.sh("pwd")


@pytest.mark.parametrize("where, name", [
    ("/no/such/dir", b"ENOENT"), ("/etc/passwd", b"ENOTDIR"),
    ("no-such-relative", b"ENOENT"),
])
def test_a_bad_directory_is_named(host, target, where, name):  # noqa: F811
    done = host.exec(target, "true", opts=["-w", where])
    assert done.status == 126, done
    assert where.encode() in done.err and name in done.err
    assert done.err.count(b"\n") == 1


@pytest.mark.parametrize("kind", ["docker-user", "openshell"])
def test_a_directory_without_permission(host, kind):  # noqa: F811
    box = get_target(kind)
    where = "/root"
    if kind == "docker-user":
        where = "/proc/1/cwd" if not box.root else "/root"
        host.exec(box, "sh", "-c", "mkdir -p /tmp/shut; chmod 0 /tmp/shut")
        where = "/tmp/shut"
    done = host.exec(box, "true", opts=["-w", where])
    assert done.status == 126, done
    assert where.encode() in done.err and b"EACCES" in done.err


# ---- exit status --------------------------------------------------------

def test_statuses(host, target):  # noqa: F811
    some = list(range(256)) if LONG else [
        0, 1, 2, 7, 44, 99, 124, 125, 126, 127, 128, 130, 137, 254, 255]
    got = []
    for at in range(0, len(some), 8):
        part = some[at:at + 8]
        got += together(len(part), lambda i, part=part: host.sh(
            target, f"exit {part[i]}"))
    assert [d.status for d in got] == some
    assert all(d.err == b"" for d in got)
    assert host.sh(target, "exit 300").status == 44


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "INT", "PIPE",
                                  "HUP", "ABRT", "USR1", "ALRM"])
def test_signals(host, target, tmp_path, name):  # noqa: F811
    number = getattr(signal, "SIG" + name).value
    report = tmp_path / "json"
    done = host.sh(target, f"echo before; kill -{name} $$; echo after",
                   opts=["--json", str(report)])
    assert (done.status, done.out) == (128 + number, b"before\n"), done
    told = json.loads(report.read_text())
    assert told["outcome"] == "signaled" and told["signal"] == number
    assert told["code"] is None and told["timed_out"] is False


def test_signals_have_their_defaults(host, target):  # noqa: F811
    """Nothing that the agent ignores or blocks is passed on."""
    lines = host.exec(target, "cat", "/proc/self/status").out.splitlines()
    values = [int(line.split()[1], 16) for line in lines
              if line[:6] in (b"SigBlk", b"SigIgn", b"SigCgt")]
    assert values == [0, 0, 0], lines


@pytest.mark.parametrize("command", ["no-such-program", "/no/such/program",
                                     "./no-such-program", "/etc/passwd/x"])
def test_a_missing_program_is_127(host, target, command):  # noqa: F811
    done = host.exec(target, command)
    wanted = 126 if command == "/etc/passwd/x" else 127
    assert done.status == wanted, done
    assert command.encode() in done.err and done.err.count(b"\n") == 1


@pytest.mark.parametrize("command, name", [
    ("/usr", b"EACCES"), ("/etc/passwd", b"EACCES")])
def test_what_cannot_be_run_is_126(host, target, command,  # noqa: F811
                                   name):
    done = host.exec(target, command)
    assert done.status == 126, done
    assert command.encode() in done.err and name in done.err


@pytest.mark.parametrize("content", [
    b"#!/no/such/interpreter\n", b"just text\n", b"\x7fELF\x02\x01\x01"])
def test_a_bad_interpreter_is_126(host, target, content):  # noqa: F811
    path = target.path("prog")
    target.sh(f"cat >{path} && chmod 755 {path}", data=content)
    done = host.exec(target, path)
    assert done.status == 126, done
    assert path.encode() in done.err
    target.sh(f"rm {path}")


def test_an_empty_program_name(host, target):  # noqa: F811
    done = host.exec(target, "")
    assert done.status == 127 and done.err.count(b"\n") == 1, done


@pytest.mark.parametrize("args, words", [
    ([], b"TARGET is missing"), (["local"], b"COMMAND is missing"),
    (["local", "--"], b"COMMAND is missing"),
    (["--no-such-option", "local", "true"], b"--no-such-option"),
    (["--timeout", "x", "local", "true"], b"--timeout"),
    (["--timeout", "-1", "local", "true"], b"--timeout"),
    (["-w", "", "local", "true"], b"-w"),
    (["-it", "local", "true"], b"not a TTY"),
    (["--json", "/no/such/dir/x", "local", "true"], b"--json"),
])
def test_usage_is_125(host, args, words):  # noqa: F811
    done = host.run("exec", *args)
    assert done.status == 125 and words in done.err, done
    assert done.err.startswith(b"sandmux: exec: ")


# ---- --json -------------------------------------------------------------

def test_json_of_an_exit(host, target, tmp_path):  # noqa: F811
    report = tmp_path / "json"
    done = host.exec(target, "sh", "-c", "cat; echo err >&2; exit 3",
                     opts=["--json", str(report)], input=b"x" * 70_000)
    assert done.status == 3
    told = json.loads(report.read_text())
    assert told["outcome"] == "exited" and told["code"] == 3
    assert told["status"] == 3 and told["signal"] is None
    assert told["error"] is None and told["detached"] is False
    assert told["bytes"] == {"stdin": 70_000, "stdout": 70_000, "stderr": 4}
    assert told["wall_ms"] > 0
    # An unknown history counts as used, where jobs have the agent's uid.
    assert told["new_agent"] is (target.kind != "local")
    assert os.listdir(tmp_path) == ["json"]


@pytest.mark.parametrize("command, opts, step, errno, status", [
    ("no-such-program", [], "exec", "ENOENT", 127),
    ("/usr", [], "exec", "EACCES", 126),
    ("true", ["-w", "/no/such"], "chdir", "ENOENT", 126),
])
def test_json_of_a_failed_start(host, target, tmp_path, command,  # noqa: F811
                                opts, step, errno, status):
    report = tmp_path / "json"
    done = host.exec(target, command, opts=[*opts, "--json", str(report)])
    told = json.loads(report.read_text())
    assert told["outcome"] == "failed" and told["status"] == status
    assert done.status == status and told["code"] is None
    assert told["error"]["step"] == step
    assert told["error"]["errno_name"] == errno
    assert told["error"]["message"].encode() in done.err


def test_json_replaces_a_file_and_writes_into_a_device(host,  # noqa: F811
                                                       tmp_path):
    report = tmp_path / "json"
    report.write_text("old" * 1000)
    assert host.exec("local", "true", opts=["--json", str(report)]
                     ).status == 0
    assert json.loads(report.read_text())["code"] == 0
    done = host.exec("local", "true", opts=["--json", "/dev/stderr"])
    assert json.loads(done.err)["code"] == 0


def test_require_same_agent(host, target, tmp_path):  # noqa: F811
    report = tmp_path / "json"
    done = host.exec(target, "echo", "ran", opts=[
        "--require-same-agent", "--json", str(report)])
    if target.kind == "local":
        assert (done.status, done.out) == (0, b"ran\n"), done
        return
    assert (done.status, done.out) == (125, b""), done
    told = json.loads(report.read_text())
    assert told["error"]["step"] == "untrusted"

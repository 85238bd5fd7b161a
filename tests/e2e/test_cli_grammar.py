# SPDX-License-Identifier: MIT
"""The command line: grammar and exit statuses, on `local`."""
import os
import pathlib
import re
import subprocess

import pytest
from conftest import ROOT


def one_line(done, *words):
    """An error is one line on stderr that says these words."""
    text = done.stderr.decode()
    assert text.startswith("sandmux: ") and text.count("\n") == 1, text
    assert text.endswith("\n")
    for word in words:
        assert word in text, text
    return text


# ---- exec: the words -----------------------------------------------------

def test_exec_output_and_status(local):
    done = local("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (
        3, b"out\n", b"err\n")


@pytest.mark.parametrize("words", [
    ["exec", "local", "echo", "x"],
    ["exec", "local", "--", "echo", "x"],
    ["exec", "--", "local", "echo", "x"],
    ["exec", "-i", "local", "echo", "x"],
    ["exec", "--interactive", "local", "echo", "x"],
    ["exec", "-iw", "/", "local", "echo", "x"],
    ["exec", "-iw/", "local", "echo", "x"],
    ["exec", "--workdir=/", "local", "echo", "x"],
])
def test_exec_words(sandmux, words):
    assert sandmux(*words).stdout == b"x\n"


def test_options_end_at_target(local, sandmux):
    done = sandmux("exec", "local", "echo", "-i", "--workdir", "/x", "--")
    assert done.stdout == b"-i --workdir /x --\n"


def test_only_one_pair_of_dashes_is_taken(local):
    assert local("printf", "%s,", "--", "a").stdout == b"--,a,"


def test_second_dashes_are_the_command(sandmux):
    done = sandmux("exec", "local", "--", "--", "x")
    # EACCES where PATH has a directory that we may not search.
    assert done.returncode in (126, 127)
    one_line(done, "cannot run --:")


@pytest.mark.parametrize("value", ["-w/tmp", "-w=/tmp", "--workdir=/tmp"])
def test_workdir(sandmux, value):
    assert sandmux("exec", value, "local", "pwd").stdout == b"/tmp\n"


@pytest.mark.parametrize("option, near", [
    ("--tiemout", "--timeout"), ("--enviroment", "--env"),
    ("--work-dir", "--workdir"), ("--unsett", "--unset"),
    ("--require-agent", "--require-same-agent"), ("-W", "-w"),
    ("-clear-env", "--clear-env"), ("--jason=x", "--json"),
])
def test_exec_unknown_option_names_the_nearest(sandmux, option, near):
    done = sandmux("exec", option, "local", "true")
    assert done.returncode == 125
    one_line(done, "unknown option " + option.partition("=")[0], near)


@pytest.mark.parametrize("words, text", [
    ([], "TARGET"), (["local"], "COMMAND"), (["local", "--"], "COMMAND"),
    (["-w"], "-w"), (["--timeout"], "--timeout"),
    (["--clear-env=1", "local", "true"], "no value"),
    (["-w", "", "local", "true"], "-w"),
    (["-e", "", "local", "true"], "empty"),
    (["-e", "=x", "local", "true"], "empty"),
    (["-e", "A B=x", "local", "true"], "white space"),
    (["-e", "A; id #=x", "local", "true"], "white space"),
    (["--unset", "A=B", "local", "true"], "name"),
    (["--unset", "", "local", "true"], "empty"),
    (["--env-file", "/nowhere", "local", "true"], "/nowhere"),
    (["--env-file", "/", "local", "true"], "EISDIR"),
    (["--json", "/nowhere/x", "local", "true"], "/nowhere/x"),
    (["--json", "/", "local", "true"], "EISDIR"),
])
def test_exec_usage(sandmux, words, text):
    done = sandmux("exec", *words)
    assert done.returncode == 125
    one_line(done, text)


@pytest.mark.parametrize("value", [
    "", "x", "1x", "-1", "1.5.2", "1e3", "s", ".", "1234567890123", " 1",
    "1 s", "0x10", "1.s.", "ms",
])
def test_bad_timeout(sandmux, value):
    done = sandmux("exec", "--timeout", value, "local", "true")
    assert done.returncode == 125
    one_line(done, "--timeout", "1.5s")


@pytest.mark.parametrize("value", [
    "10", "10s", "9.5s", "1m", "0.5h", "60000ms", ".9m", "0"])
def test_good_timeout(sandmux, value):
    done = sandmux("exec", "--timeout", value, "local", "true")
    assert done.returncode == 0, done.stderr


# ---- exec: targets -------------------------------------------------------

@pytest.mark.parametrize("target, text", [
    ("", "empty"), ("Nosuch", "no such target"), ("nosuch", "no sandbox of this name"), ("local:", "more behind"),
    ("local:x", "more behind"), ("docker", "docker:CONTAINER"),
    ("docker:", "docker:CONTAINER"), ("docker:-x", "begins with"),
    ("docker:a b", "characters"), ("docker:a:b", "more behind"),
    ("podman:a b", "characters"), ("kubectl:a/b", "not reached"),
    ("ssh:host", "not reached"), ("DOCKER:x", "no such target"),
    ("docker:" + "x" * 300, "too long"), ("\x1b[2J", "\\x1b[2J"),
])
def test_bad_target(sandmux, target, text):
    done = sandmux("exec", target, "true")
    assert done.returncode == 125
    one_line(done, text)


# ---- exec: how commands end ----------------------------------------------

@pytest.mark.parametrize("status", [0, 1, 2, 63, 124, 125, 126, 127, 128,
                                    130, 137, 254, 255])
def test_status_is_the_commands(local, status):
    done = local("sh", "-c", f"exit {status}")
    assert (done.returncode, done.stderr) == (status, b"")


def test_status_300_is_44(local):
    done = local("python3", "-c", "import os; os._exit(300)")
    assert done.returncode == 44


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 15, 24, 34, 64])
def test_signal_is_128_and_it(local, number):
    done = local("sh", "-c", f"kill -{number} $$")
    assert (done.returncode, done.stderr) == (128 + number, b"")


def test_missing_program(local):
    done = local("/nowhere/prog")
    assert done.returncode == 127
    one_line(done, "/nowhere/prog", "ENOENT", "installed")


@pytest.mark.parametrize("path", ["/", "/etc/passwd"])
def test_program_that_cannot_run(local, path):
    done = local(path)
    assert done.returncode == 126
    one_line(done, path, "EACCES")


def test_bad_interpreter_is_named(local, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    done = local(str(script))
    assert done.returncode in (126, 127)
    one_line(done, str(script))


def test_no_program_format(local, tmp_path):
    script = tmp_path / "data"
    script.write_bytes(b"\x00\x01nothing")
    script.chmod(0o755)
    done = local(str(script))
    assert done.returncode == 126
    one_line(done, str(script), "ENOEXEC")


@pytest.mark.parametrize("path, name", [("/nowhere/dir", "ENOENT"),
                                        ("/etc/passwd", "ENOTDIR")])
def test_bad_workdir(local, path, name):
    done = local("true", opts=("-w", path))
    assert done.returncode == 126
    one_line(done, path, name)


def test_timeout_is_124_with_output(local):
    done = local("sh", "-c", "echo early; sleep 60",
                 opts=("--timeout", "300ms"))
    assert (done.returncode, done.stdout) == (124, b"early\n")
    one_line(done, "timed out")


# ---- exec: arguments and environment -------------------------------------

def test_arguments_are_exact(local):
    args = [b"a b", b"$HOME", b"x'y", b"", b"two\nlines", b"\t\xff\xfe", b"*",
            "é".encode(), b"-n", b"--", b"\\", b"%s"]
    done = local("python3", "-c", "import os,sys; os.write(1, "
                 "b'\\0'.join(map(os.fsencode, sys.argv[1:])))", *args)
    assert done.stdout.split(b"\0") == args


def test_one_mebibyte_of_arguments(local):
    script = "import sys; print(sum(map(len, sys.argv[1:])))"
    room = (1 << 20) - len("python3") - len("-c") - len(script)
    args = ["x" * 100000] * (room // 100000)
    args.append("y" * (room - sum(map(len, args))))
    done = local("python3", "-c", script, *args)
    assert done.stdout == b"%d\n" % room, done.stderr
    args[-1] += "z"
    done = local("python3", "-c", script, *args)
    assert done.returncode == 125
    one_line(done, "1048576")


def show_env(local, *opts, env=None):
    done = local("env", "-0", opts=opts, env=env)
    assert done.returncode == 0, done.stderr
    return dict(e.split(b"=", 1) for e in done.stdout.split(b"\0") if e)


def test_env_values_are_exact(local):
    values = {b"A": b"l1\nl2", b"B": b"", b"C": b"=x", b"D": "é".encode(),
              b"E_x.y-z%": b"\xff $HOME 'q'"}
    opts = [w for k, v in values.items() for w in (b"-e", k + b"=" + v)]
    got = show_env(local, *opts)
    assert {k: got[k] for k in values} == values
    assert b"PATH" in got


def test_env_taken_from_here(local):
    got = show_env(local, "-e", "SMX_HERE", env={"SMX_HERE": "a=b\n"})
    assert got[b"SMX_HERE"] == b"a=b\n"


def test_env_not_set_here_is_unset_there(local):
    # PATH reaches `local` whatever the client's is.
    assert b"PATH" in show_env(local)
    done = local("/usr/bin/env", opts=("-e", "SMX_NOT_SET"))
    assert done.returncode == 0 and b"SMX_NOT_SET" not in done.stdout


def test_last_value_wins(local):
    assert show_env(local, "-e", "A=1", "-e", "A=2")[b"A"] == b"2"


def test_unset(local):
    assert b"PATH" in show_env(local)
    done = local("/usr/bin/env", opts=("--unset", "PATH"))
    assert b"PATH=" not in done.stdout


def test_clear_env(local):
    done = local("/usr/bin/env", opts=("--clear-env", "-e", "A=1"))
    assert done.stdout == b"A=1\n"


def test_env_file(local, tmp_path):
    path = tmp_path / "env"
    path.write_bytes(b"\xef\xbb\xbf# comment\n\n  A=1 # not a comment\n"
                     b"B=x\r\nSMX_HERE\nSMX_NOT_HERE\nC==\nA2=\xff")
    got = show_env(local, "--env-file", str(path), "-e", "B=over",
                   env={"SMX_HERE": "here"})
    assert got[b"A"] == b"1 # not a comment"
    assert got[b"B"] == b"over"
    assert got[b"SMX_HERE"] == b"here"
    assert b"SMX_NOT_HERE" not in got
    assert got[b"C"] == b"=" and got[b"A2"] == b"\xff"


@pytest.mark.parametrize("text, where", [
    (b"A=1\nB=x\0y\n", "line 2"), (b"\nA B=1\n", "line 2"),
    (b"=x\n", "line 1"), (b"A=1\n\n#\nB C\n", "line 4"),
])
def test_env_file_errors_name_the_line(sandmux, tmp_path, text, where):
    path = tmp_path / "env"
    path.write_bytes(text)
    done = sandmux("exec", "--env-file", str(path), "local", "true")
    assert done.returncode == 125
    one_line(done, where)


def test_env_file_from_a_pipe(sandmux):
    read, write = os.pipe()
    os.write(write, b"A=piped\n")
    os.close(write)
    done = sandmux("exec", "--env-file", f"/dev/fd/{read}", "local", "sh",
                   "-c", "echo $A", pass_fds=[read])
    os.close(read)
    assert done.stdout == b"piped\n"


def test_env_over_one_mebibyte(sandmux, tmp_path):
    path = tmp_path / "env"
    path.write_bytes(b"".join(b"K%d=%s\n" % (i, b"v" * 90000)
                              for i in range(12)))
    done = sandmux("exec", "--env-file", str(path), "local", "true")
    assert done.returncode == 125
    one_line(done, "1048576")


# ---- the other commands --------------------------------------------------

def test_no_command(sandmux):
    done = sandmux()
    assert done.returncode == 2 and b"usage:" in done.stderr


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help(sandmux, word):
    done = sandmux(word)
    assert done.returncode == 0 and b"exec" in done.stdout


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_version(sandmux, words):
    done = sandmux(*words)
    assert done.returncode == 0
    assert re.fullmatch(rb"sandmux \d+\.\d+\.\d+ \(protocol \d+-\d+\)\n",
                        done.stdout)


def test_unknown_command(sandmux):
    done = sandmux("exce")
    assert done.returncode == 2
    one_line(done, "did you mean exec")


@pytest.mark.parametrize("name", ["bench"])
def test_commands_of_later_versions(sandmux, name):
    done = sandmux(name)
    assert done.returncode == 2
    one_line(done, name, "not in this version")


COMMANDS = ["exec", "shell", "cp", "fs", "ps", "kill", "wait", "logs", "attach",
            "up", "down", "ls", "cleanup", "smoke", "status", "doctor",
            "stop", "serve", "version"]
# Those whose file has another's name.
FILES = {"cleanup": "down"}
# Their statuses are a job's; a failure before that is 125.
AS_A_JOB = ["exec", "shell", "wait", "attach"]


@pytest.mark.parametrize("name", COMMANDS)
def test_command_help(sandmux, name):
    done = sandmux(name, "--help")
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout.startswith(b"usage: sandmux " + name.encode())
    assert max(map(len, done.stdout.splitlines())) < 80


@pytest.mark.parametrize("name", [c for c in COMMANDS if c not in AS_A_JOB])
def test_usage_is_2(sandmux, name):
    done = sandmux(name, *(["ls"] if name == "fs" else []), "--nonsense")
    assert done.returncode == 2
    one_line(done, name, "--nonsense")


@pytest.mark.parametrize("name", AS_A_JOB)
def test_usage_of_a_job_is_125(sandmux, name):
    done = sandmux(name, "--nonsense")
    assert done.returncode == 125
    one_line(done, name, "--nonsense")


@pytest.mark.parametrize("words", [
    ["status", "x"], ["stop", "x"], ["version", "x"], ["serve", "x"],
    ["doctor"], ["doctor", "local", "x"], ["doctor", "Nosuch"],
    ["up", "a", "b"], ["up", "-f", "/nonexistent"], ["down"], ["ls", "x"],
    ["cleanup", "x"], ["smoke", "x"],
    ["serve", "--idle", "x"], ["serve", "--idle", "-1"], ["serve", "--ping"],
    ["serve", "--ping", "99999999999999999999"],
    ["serve", "--ping", "100", "--dead", "50"],
    ["serve", "--log-level", "loud"],
])
def test_usage_of_other_commands(sandmux, words):
    done = sandmux(*words)
    assert done.returncode == 2
    one_line(done, words[0])


def test_output_that_cannot_be_written(sandmux):
    with open("/dev/full", "wb") as full:
        assert sandmux("version", stdout=full).returncode == 1
        assert sandmux("help", stdout=full).returncode == 1


# ---- the manual page -----------------------------------------------------

def page():
    return (ROOT / "host/sandmux.1").read_text()


def help_options(sandmux, name):
    text = sandmux(name, "--help").stdout.decode()
    found = set()
    for line in text.splitlines():
        match = re.match(r"\s+((?:-\w, )?--[\w-]+)", line)
        if match:
            found.update(re.findall(r"--?[\w-]+", match.group(1)))
    return found


def page_options(name):
    part = re.search(rf"^\.Ss {name}\n(.*?)(?=^\.S[sh] )", page() + "\n.Sh ",
                     re.S | re.M)
    assert part, f"no section {name}"
    found = set()
    for line in part.group(1).splitlines():
        if line.startswith(".It Fl"):
            for word in re.findall(r"Fl (\S+)", line):
                found.add(word if word.startswith("--") else "-" + word)
    return {w.replace("\\-", "-") for w in found}


@pytest.mark.parametrize("name", COMMANDS)
def test_page_has_the_options(sandmux, name):
    assert page_options(name) == help_options(sandmux, name)


def test_page_is_well_formed():
    try:
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning",
                               ROOT / "host/sandmux.1"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("mandoc is not installed")
    assert done.returncode == 0, done.stdout.decode()


def test_page_has_what_fs_can_do(sandmux):
    """Each of its operations with that one's options."""
    text = sandmux("fs", "--help").stdout.decode()
    told = {op: set(re.findall(r"\[(--?[\w-]+)", rest)) for op, rest in
            re.findall(r"^  ([a-z]+) (.*TARGET:PATH)", text, re.M)}
    part = re.search(r"^\.Ss fs\n(.*?)(?=^\.Ss )", page(), re.S | re.M)
    on_page = {op: {"-" + o for o in re.findall(r"Fl (\S+)", rest)}
               for op, rest in re.findall(r"^\.It Cm ([a-z]+) (.*)$",
                                          part.group(1), re.M)}
    assert len(told) == 9 and told == on_page
    # What it takes it tells, by the long name or the short one.
    told = set(re.findall(r"(?<![\w-])--?[\w-]+", text))
    table = re.findall(r'\{ (?:\'(\w)\'|\w+), "([\w-]+)", OPTIONS_',
                       (ROOT / "host/cmd_fs.c").read_text())
    assert len(table) > 4
    assert [pair for pair in table if pair[1] != "help" and not
            told & {f"--{pair[1]}", f"-{pair[0] or '-'}"}] == []


def test_all_say_the_same_of_signals(sandmux):
    """Which commands that are no job's a signal ends with 128+N: README, the
    page and each command's own help."""
    helps = {c for c in COMMANDS if c not in AS_A_JOB and
             b"128+N" in sandmux(c, "--help").stdout}
    status = page().split(".Sh EXIT STATUS")[1].split(".Sh EXAMPLES")[0]
    others = status.split("Of the other commands:")[1]
    assert "128+N" in others
    on_page = set(re.findall(r"^\.Cm (\w+)", others, re.M))
    readme = (ROOT / "README.md").read_text()
    [named] = re.findall(r"128\+N if a signal ended (.*?)\.", readme)
    assert helps == on_page == set(re.findall(r"`(\w+)`", named))


@pytest.mark.parametrize("name", [c for c in COMMANDS if c != "fs"])
def test_help_has_the_options_of_the_table(sandmux, name):
    source = (pathlib.Path(ROOT) / 
              f"host/cmd_{FILES.get(name, name)}.c").read_text()
    table = set(re.findall(r'\{ (?:\'\w\'|\w+), "([\w-]+)", '
                           r'OPTIONS_(?:FLAG|VALUE) \}', source)) - {"help"}
    assert {"--" + n for n in table} == {
        o for o in help_options(sandmux, name) if o.startswith("--")}

# SPDX-License-Identifier: MIT
"""What create, delete and list do, and what is allowed inside a sandbox."""
import errno
import json
import time

import pytest

from openshell_box import Box, derive, phases, upload_probe


def make(shell, fresh, tag, **kw):
    name = fresh(tag)
    status, out, err = shell.create(name, **kw)
    return name, status, out + err


# --- create, delete, list ------------------------------------------------

def test_create_is_ready_when_it_returns(shell, fresh):
    name, status, text = make(shell, fresh, "new")
    assert status == 0, text
    assert phases(shell)[name] == "Ready"
    assert Box(shell, name).sh("echo up") == "up\n"
    names = shell.run("sandbox", "list", "--names")[1].decode().split()
    assert name in names
    assert name.encode() in shell.run("sandbox", "get", name)[1]


def test_create_help_lists_detach(shell):
    status, out, _ = shell.run("sandbox", "create", "--help")
    assert status == 0 and b"--detach" in out and b"--from" in out


def test_the_stand_in_can_be_without_detach(shell):
    if shell.real:
        pytest.skip("only the stand-in chooses its version")
    older = {"STANDIN_DETACH": "0"}
    assert b"--detach" not in shell.run("sandbox", "create", "--help",
                                        env=older)[1]
    assert shell.run("sandbox", "create", "--detach", "--name", "x",
                     env=older)[0] == 2


@pytest.mark.parametrize("name", [
    "a" * 20, "UPPER", "under_score", "a--b", "-a", "a-", "dot.ted",
])
def test_names_that_are_refused(shell, name):
    status, _, _ = shell.run("sandbox", "create", f"--name={name}", "--from",
                             shell.image, "--detach", "--", "sleep", "9")
    assert status == 1
    assert name not in phases(shell)


def test_a_name_of_19_characters(shell, fresh):
    name, status, text = make(shell, fresh, "a" * 30)
    assert len(name) == 19
    assert status == 0, text


def test_a_name_that_is_taken(shell, box):
    status, _, err = shell.create(box.name)
    assert status == 1 and b"exists" in err


def test_an_image_of_root_is_refused(shell, fresh):
    image = derive("sandmux-openshell-root:1",
                   f"FROM {shell.image}\nUSER root\n")
    name, status, _ = make(shell, fresh, "root", image=image)
    assert status == 1
    assert phases(shell).get(name) != "Ready"
    assert Box(shell, name).exec("true")[0] == 1


def test_workdir_becomes_the_workspace(shell, fresh):
    image = derive("sandmux-openshell-work:1", f"""FROM {shell.image}
USER 0
RUN mkdir -p /work/here && chown 1000:1000 /work /work/here
USER sandbox
WORKDIR /work/here
""")
    name, status, text = make(shell, fresh, "work", image=image)
    assert status == 0, text
    assert Box(shell, name).sh("pwd; echo $HOME; touch x && ls"
                               ) == "/work/here\n/work/here\nx\n"


def test_an_image_without_bash_cannot_exec(shell, fresh):
    image = derive("sandmux-openshell-nobash:1", f"""FROM {shell.image}
USER 0
RUN rm -f /usr/bin/bash /bin/bash
USER sandbox
""")
    name, status, _ = make(shell, fresh, "nobash", image=image)
    if status == 0:
        assert Box(shell, name).exec("true")[0] == 1


def test_create_env_reaches_commands(shell, fresh):
    name, status, text = make(shell, fresh, "env",
                              extra=["--env", "COLOUR=blue green"])
    assert status == 0, text
    assert Box(shell, name).sh('echo "$COLOUR"') == "blue green\n"


def test_labels_are_kept(shell, fresh):
    """[read] get and list tell them as JSON; one without has none."""
    plain, status, text = make(shell, fresh, "plain")
    assert status == 0, text
    name, status, text = make(shell, fresh, "label", extra=[
        "--label", "a.b/c=d-1", "--label", "e="])
    assert status == 0, text
    labels = {"a.b/c": "d-1", "e": ""}
    got = json.loads(shell.run("sandbox", "get", name, "-o", "json")[1])
    assert got["labels"] == labels and got["name"] == name and got["id"]
    listed = {s["name"]: s for s in json.loads(
        shell.run("sandbox", "list", "-o", "json")[1])}
    assert listed[name]["labels"] == labels
    assert listed[name]["id"] == got["id"]
    assert listed[plain]["labels"] == {}
    for bad in ("none", "a=b c", "a=-b", "a=b/c", "a=" + "x" * 64):
        assert shell.run("sandbox", "create", "--name", fresh("bad"),
                         "--from", shell.image, "--label", bad, "--detach",
                         "--", "sleep", "9")[0] != 0, bad


def test_what_is_not_there_is_not_found(shell, fresh):
    status, _, err = shell.run("sandbox", "get", fresh("none"), "-o", "json")
    assert status == 1 and b"not found" in err.lower()


def test_in_an_older_version_it_outlives_its_command(shell, fresh):
    if shell.real:
        pytest.skip("only the stand-in chooses its version")
    name = fresh("old")
    status, _, err = shell.run(
        "sandbox", "create", "--name", name, "--from", shell.image, "--",
        "true", env={"STANDIN_DETACH": "0"})
    assert status == 0, err
    time.sleep(1)
    assert Box(shell, name).sh("echo up") == "up\n"


def test_the_sandbox_ends_with_its_main_command(shell, fresh):
    """[read] of newer versions."""
    if shell.real:
        pytest.skip("depends on the version")
    name, status, text = make(shell, fresh, "main", main=("sleep", "1"))
    assert status == 0, text
    for _ in range(100):
        if phases(shell)[name] != "Ready":
            break
        time.sleep(0.1)
    status, _, err = Box(shell, name).exec("true")
    assert status == 1 and b"not ready" in err


def test_delete(shell, fresh):
    name, status, text = make(shell, fresh, "del")
    assert status == 0, text
    assert shell.delete(name)[0] == 0
    # A gateway that has much to do still lists it for a while.
    for _ in range(100):
        if name not in phases(shell):
            break
        assert phases(shell).get(name, "Deleting") == "Deleting"
        time.sleep(0.1)
    else:
        pytest.fail("it stays")
    assert Box(shell, name).exec("true")[0] == 1
    status, out, err = shell.delete(name)
    assert status != 0 or b"not found" in out + err


def test_the_name_is_free_after_delete(shell, fresh):
    name, status, text = make(shell, fresh, "again")
    assert status == 0, text
    assert shell.delete(name)[0] == 0
    status, out, err = shell.create(name)
    assert status == 0, out + err


# --- inside --------------------------------------------------------------

def test_identity(box):
    assert box.sh("id -u; id -G").split()[0] == "1000"
    status = dict(line.split(":\t", 1)
                  for line in box.sh("cat /proc/self/status").split("\n")
                  if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_there_is_no_way_to_another_user(calls):
    assert calls["setuid"] == errno.EPERM
    assert calls["setgid"] == errno.EPERM


@pytest.mark.parametrize("path", [
    "/dev", "/dev/pts", "/sys/fs/cgroup", "/opt", "/root", "/",
])
def test_paths_that_cannot_be_listed(box, path):
    assert box.exec("ls", path)[0] != 0


def test_no_pty_can_be_opened(calls):
    for name in ("ptmx", "devpts", "dev", "cgroup"):
        assert calls[name] == errno.EACCES, name


def test_the_clis_own_terminal_works(box):
    ch = box.tty("bash", "-c", "test -t 0 && test -t 1 && echo terminal")
    assert ch.wait() == 0
    assert ch.read_until(b"\r\n") == b"terminal\r\n"
    ch.close()


def test_writable_paths(box):
    box.sh('touch /tmp/w "$HOME/w" && echo x >/dev/null && rm /tmp/w ~/w')
    for path in ("/usr/w", "/etc/w", "/var/log/w", "/w", "/dev/w",
                 "/var/tmp/w"):
        assert box.exec("touch", path)[0] != 0, path


def test_readable_and_executable_paths(box):
    box.sh("ls /usr /lib/ /etc /var/log /proc >/dev/null &&"
           " head -c 1 /dev/urandom >/dev/null && /usr/bin/true")
    box.sh("cp /usr/bin/true /tmp/true && /tmp/true")
    assert box.exec("head", "-c", "1", "/dev/zero")[0] != 0


@pytest.mark.parametrize("name", [
    "memfd_create", "pidfd_open", "pidfd_send_signal", "pidfd_getfd",
    "ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup",
    "mount", "umount2", "pivot_root", "fsopen", "move_mount", "open_tree",
    "setns", "bpf", "userfaultfd", "execveat_empty", "unshare_user",
    "clone_user", "seccomp_filter",
])
def test_calls_that_answer_eperm(calls, name):
    assert calls[name] == errno.EPERM


def test_clone3_answers_enosys(calls):
    assert calls["clone3"] == errno.ENOSYS


@pytest.mark.parametrize("name", [
    "subreaper", "dumpable", "socketpair", "abstract", "landlock_abi",
    "no_new_privs", "seccomp_mode",
])
def test_what_works(calls, name):
    assert calls[name] == 0


def test_a_daemon_outlives_its_exec(box):
    box.sh("setsid bash -c 'echo $$ >/tmp/daemon; exec sleep 300'"
           " </dev/null >/dev/null 2>&1 &")
    box.wait_for("cat /tmp/daemon 2>/dev/null || true")
    assert box.alive("/tmp/daemon")
    box.sh("kill $(cat /tmp/daemon)")


def test_a_nested_domain_hides_files_and_processes(box):
    box.sh("mkdir -p /tmp/other && echo s >/tmp/other/secret")
    lines = box.sh("sleep 60 & p=$!; /tmp/probe nested /tmp/other $p;"
                   " kill $p").split("\n")
    got = {k: int(v) for k, v in (x.split() for x in lines if x)}
    if got["ruleset"] == errno.EINVAL:
        pytest.skip("this kernel's Landlock has no scopes")
    for name in ("file_before", "signal_before", "ruleset", "restrict"):
        assert got[name] == 0, name
    for name in ("file", "environ", "ptmx"):
        assert got[name] == errno.EACCES, name
    assert got["signal"] == errno.EPERM


def test_environment(box):
    env = dict(line.split("=", 1)
               for line in box.sh("env").split("\n") if "=" in line)
    assert env["OPENSHELL_SANDBOX"] == "1"
    for name in ("HOME", "USER", "SHELL", "PATH", "TERM"):
        assert env[name], name
    proxies = [n for n in env if n.lower().endswith("_proxy")]
    certs = [n for n in env if "CERT" in n or "CA_" in n or "CAINFO" in n]
    assert len(proxies) >= 7 and len(certs) >= 5


def test_two_sandboxes_are_apart(shell, box, fresh):
    name, status, text = make(shell, fresh, "two")
    assert status == 0, text
    other = Box(shell, name)
    upload_probe(other)
    box.sh("touch /tmp/only-here")
    assert other.exec("ls", "/tmp/only-here")[0] != 0

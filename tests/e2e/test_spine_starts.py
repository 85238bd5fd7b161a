# SPDX-License-Identifier: MIT
"""How a link starts: where the agent is found, and what is said if not."""
import hashlib
import json
import os
import pathlib
import re
import subprocess

import pytest
from spine import (BUILD, LIMIT, QEMU, ROOT, Docker, agents,  # noqa: F401
                   get_target, host, image, make_openshell, new_host, once,
                   shared_host, target, wait_for)


def doctor(host, target):  # noqa: F811
    done = host.run("doctor", "--json", str(target))
    assert done.status == 0, done
    return json.loads(done.out)


def other_agent():
    """An agent that speaks versions 9 to 9 only, built by this Makefile."""
    def make():
        into = BUILD / "tests/agent9"
        version = subprocess.run([str(BUILD / "host/sandmux"), "version"],
                                 capture_output=True, text=True,
                                 check=True).stdout.split()[1]
        defs = (f"-D_GNU_SOURCE -DSANDMUX_VERSION='\"{version}\"' "
                "-DWIRE_VERSION_MIN=9 -DWIRE_VERSION_MAX=9")
        subprocess.run(["make", "-s", "-C", str(ROOT), "agent", f"B={into}",
                        f"DEFS={defs}"], check=True, timeout=LIMIT,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return into / "agent/sandmux-agent"
    return once("agent9", make)


# ---- where the agent is -------------------------------------------------

@pytest.mark.skipif(QEMU, reason="under qemu there is only local")
@pytest.mark.parametrize("name, user, source", [
    ("scratch", 0, "injected"), ("scratch-baked", 0, "image"),
    ("busybox", 1000, "injected"), ("busybox-baked", 1000, "image"),
    ("debian", 0, "injected"), ("debian-baked", 0, "image")])
def test_images(new_host, name, user, source):  # noqa: F811
    image(name)
    box, host = Docker(name), new_host()  # noqa: F811
    if name.startswith("scratch"):
        assert host.exec(box, "/pause", "echo", "hi").out == b"hi\n"
    else:
        assert host.exec(box, "id", "-u").out == b"%d\n" % user
    told = doctor(host, box)
    assert told["ok"] is True and told["link"]["agent_source"] == source
    # The agent is root wherever root can become the job's user.
    assert told["probe"]["uid"] == told["link"]["uid"] == 0
    assert told["link"]["switches"] is True
    assert told["link"]["default_user"].split(":")[0] == str(user)
    assert told["round_trip_us"] > 0 and told["mb_s"] > 0
    if source == "image":
        assert told["link"]["agent"] == "/usr/bin/sandmux-agent"
        assert told["probe"]["hash"] != ""
    # Nothing of it is seen, while it runs and afterwards.
    wait_for("the file's end", lambda: box.injected() == [])
    session = host.session(box)
    assert host.run("stop").status == 0
    wait_for("the agent's end", lambda: not agents(session))
    assert box.injected() == []


def check_injected(host, where):  # noqa: F811
    """What the image has does not do: it is said, and ours is put there."""
    assert host.exec(where, "echo", "hi").out == b"hi\n"
    told = doctor(host, where)["link"]
    assert told["agent_source"] == "injected"
    assert "0009-0009" in told["image_agent"]
    assert "0009-0009" in host.log()
    return told


@pytest.mark.skipif(QEMU, reason="under qemu there is only local")
@pytest.mark.parametrize("what", ["baked", "agent9"])
def test_images_of_openshell(new_host, what):  # noqa: F811
    base, tag = image("inspect"), "sandmux-test-inspect-baked:1"
    if what == "baked":
        image("inspect-baked")
    else:
        tag = f"sandmux-spine-agent9-openshell-{os.getpid()}:1"
        subprocess.run(["sh", str(ROOT / "images/bake.sh"), base, tag,
                        str(other_agent())], check=True, timeout=LIMIT)
    try:
        box, host = make_openshell(tag), new_host()  # noqa: F811
        try:
            before = sorted(box.injected())
            if what == "agent9":
                told = check_injected(host, box)
                assert told["agent"].startswith("/")
                assert os.path.basename(told["agent"]).startswith(".sandmux-")
            else:
                assert host.exec(box, "id", "-u").out == b"1000\n"
                told = doctor(host, box)
                assert told["link"]["agent_source"] == "image"
                assert told["link"]["agent"] == "/usr/bin/sandmux-agent"
                assert told["link"]["image_agent"] == ""
                assert told["probe"]["path"] == told["link"]["agent"]
                # Who may not read it cannot hash it: 0711.
                assert told["probe"]["hash"] == ""
            wait_for("no file", lambda: sorted(box.injected()) == before)
        finally:
            host.close()
            box.delete()
    finally:
        if what == "agent9":
            subprocess.run(["docker", "rmi", "-f", tag], capture_output=True,
                           check=False)


@pytest.mark.skipif(QEMU, reason="under qemu there is only local")
def test_a_baked_agent_of_another_version(new_host):  # noqa: F811
    base, tag = image("busybox"), "sandmux-spine-agent9:1"
    subprocess.run(["sh", str(ROOT / "images/bake.sh"), base, tag,
                    str(other_agent())], check=True, timeout=LIMIT)
    box = "sandmux-spine-agent9"
    subprocess.run(["docker", "rm", "-f", box], capture_output=True,
                   check=False)
    subprocess.run(["docker", "run", "-d", "--network", "none", "--name",
                    box, tag], check=True, capture_output=True)
    try:
        check_injected(new_host(), f"docker:{box}")
    finally:
        subprocess.run(["docker", "rm", "-f", box], capture_output=True,
                       check=False)
        subprocess.run(["docker", "rmi", tag], capture_output=True,
                       check=False)


@pytest.mark.skipif(QEMU, reason="under qemu there is only local")
def test_a_read_only_root(new_host):  # noqa: F811
    get_target("docker")
    host = new_host()  # noqa: F811
    bare, baked = Docker("busybox", "--read-only"), Docker(
        "busybox-baked", "--read-only")
    done = host.exec(bare, "true")
    assert done.status == 125, done
    assert b"read-only" in done.err and b"bake" in done.err
    assert done.err.count(b"\n") == 1 and str(bare).encode() in done.err
    assert host.run("doctor", str(bare)).status == 1
    assert host.exec(baked, "echo", "hi").out == b"hi\n"
    # With a place that may be written the bare one still has no way in by
    # `docker cp`; it must not hang or hurt the other.
    assert host.exec(bare, "true").status == 125
    assert host.exec(baked, "echo", "hi").out == b"hi\n"


def test_doctor(host, target):  # noqa: F811
    told = doctor(host, target)
    link, probe = told["link"], told["probe"]
    assert told["ok"] is True and "error" not in told
    assert probe["version"] and probe["arch"] and probe["pid"] > 0
    where = host.exec(target, "pwd").out.decode().rstrip("\n")
    assert probe["directory"] == where
    assert str(probe["uid"]).encode() == host.exec(
        target, "id", "-u").out.strip()
    dirs = probe["writable_executable"]
    assert dirs and len(set(dirs)) == len(dirs)
    for where in dirs:
        there = f"{where}/.probe-{os.getpid()}"
        done = host.sh(target, 'echo "#!/bin/sh" >$1 && chmod 755 $1 && $1 '
                       '&& rm $1', "sh", there)
        assert done.status == 0, done
    assert link["pty"] is (target.kind == "openshell")
    if target.kind == "openshell" and not os.environ.get("OPENSHELL"):
        assert "--no-login-shell" in link["warning"]
    if target.kind == "openshell":
        assert probe["no_new_privs"] is True and probe["seccomp"] == 2
        assert probe["capabilities"] == []
        assert "/tmp" in probe["writable_executable"]
    text = host.run("doctor", str(target))
    assert text.status == 0 and b"can run" in text.out


LANDLOCK = ("import ctypes; print(max(0, ctypes.CDLL(None, use_errno=True)"
            ".syscall(444, None, 0, 1)))")      # its version; x86, arm64


def capabilities(mask):
    """The names of a mask's bits, as the kernel's header has them."""
    names = {int(bit): name for name, bit in re.findall(
        r"^#define CAP_(\w+)\s+(\d+)$", pathlib.Path(
            "/usr/include/linux/capability.h").read_text(), re.M)}
    return [names.get(bit, str(bit)) for bit in range(64) if mask >> bit & 1]


@pytest.mark.skipif(QEMU, reason="qemu's own process is what the kernel sees")
def test_the_probe_is_what_the_kernel_says(host, target):  # noqa: F811
    told = doctor(host, target)
    probe, core = told["probe"], agents(host.session(target))[1]
    status = dict(line.split(":\t", 1) for line in pathlib.Path(
        f"/proc/{core}/status").read_text().splitlines() if ":\t" in line)
    assert probe["capabilities"] == capabilities(int(status["CapEff"], 16))
    assert probe["bounding"] == capabilities(int(status["CapBnd"], 16))
    assert probe["no_new_privs"] is (status["NoNewPrivs"] == "1")
    assert probe["seccomp"] == int(status["Seccomp"])
    assert probe["uid"] == int(status["Uid"].split()[1])
    assert probe["gid"] == int(status["Gid"].split()[1])
    assert probe["pid"] == int(status["NSpid"].split()[-1])
    # The kinds differ in it, so that a constant would not do.
    assert (probe["bounding"] == []) is (target.kind == "openshell")
    # What was sent there is what runs there.
    digest = hashlib.blake2b((BUILD / "agent/sandmux-agent").read_bytes(),
                             digest_size=32).hexdigest()
    assert probe["hash"] == digest
    assert probe["terminal"] is told["link"]["pty"]
    assert os.uname().machine == probe["arch"]
    # A job asks the kernel the same question under the same rules.
    done = host.exec(target, "python3", "-c", LANDLOCK)
    if done.status != 127:
        assert done.status == 0, done
        assert probe["landlock"] == int(done.out), (probe, done)
    text = host.run("doctor", str(target)).out.decode()
    for name, value in (
            ("landlock", probe["landlock"]),
            ("seccomp", "filter" if probe["seccomp"] else "none"),
            ("no_new_privs", "yes" if probe["no_new_privs"] else "no"),
            ("terminal", "yes" if probe["terminal"] else "no"),
            ("capabilities", " ".join(probe["capabilities"]) or "none"),
            ("bounding", " ".join(probe["bounding"]) or "none")):
        assert re.search(rf"^{name} +{value} *$", text, re.M), (name, text)


# ---- targets that are not there -----------------------------------------

def fails(host, where, *words, env=None):  # noqa: F811
    done = host.exec(where, "true", env=env)
    assert done.status == 125, done
    assert done.err.startswith(b"sandmux: exec: ")
    assert done.err.count(b"\n") == 1, done.err
    for word in words:
        assert word.encode() in done.err, (word, done.err)
    done = host.run("cp", "/etc/hostname", f"{where}:/tmp/x", env=env)
    assert done.status in (1, 2), done
    return done


@pytest.mark.parametrize("where, words", [
    ("dcoker:x", ["dcoker", "no such target", "docker:CONTAINER"]),
    ("docker:", ["name is missing", "docker:CONTAINER"]),
    ("docker", ["name is missing"]), ("openshell:", ["name is missing"]),
    ("kubectl:x", ["not reached by this version"]),
    ("docker:-x", ["begins with -"]), ("docker:a b", ["characters"]),
    ("local:x", ["local"]), ("", ["empty"]),
    ("docker:\x1b[31m", ["characters"])])
def test_bad_targets(host, where, words):  # noqa: F811
    fails(host, where, *words)
    assert b"\x1b" not in host.exec(where, "true").err


def test_containers_that_do_not_run(host):  # noqa: F811
    get_target("docker")
    fails(host, "docker:no-such-box", "docker:no-such-box",
          "no such container", "docker ps -a")
    box = Docker("busybox")
    subprocess.run(["docker", "pause", box.box], check=True,
                   capture_output=True)
    fails(host, box, "paused", "docker unpause")
    subprocess.run(["docker", "unpause", box.box], check=True,
                   capture_output=True)
    subprocess.run(["docker", "kill", box.box], check=True,
                   capture_output=True)
    fails(host, box, "exited", "docker start")
    # And when it comes back, so does the target.
    subprocess.run(["docker", "start", box.box], check=True,
                   capture_output=True)
    assert host.exec(box, "echo", "hi").out == b"hi\n"


def test_a_container_that_dies_under_the_link(host):  # noqa: F811
    get_target("docker")
    box = Docker("busybox-baked")
    client = host.popen("exec", str(box), "--", "sh", "-c",
                        "echo on; sleep 1000000")
    assert client.stdout.readline() == b"on\n"
    subprocess.run(["docker", "kill", box.box], check=True,
                   capture_output=True)
    assert client.wait(LIMIT) == 125
    assert b"sandbox gone, outcome unknown" in client.stderr.read()
    fails(host, box, "exited")


def test_a_sandbox_that_is_not_there(host):  # noqa: F811
    get_target("openshell")
    fails(host, "openshell:no-such-box", "no-such-box", "not found")


@pytest.mark.parametrize("program", ["docker", "openshell"])
def test_a_program_that_is_not_on_path(host, tmp_path, program):  # noqa: F811
    fails(host, f"{program}:x", program, "PATH", "install",
          env={"PATH": str(tmp_path)})
    # A file of that name that nobody may run is none.
    (tmp_path / program).write_text("#!/bin/sh\n")
    fails(host, f"{program}:x", program, "PATH", env={"PATH": str(tmp_path)})


def test_a_docker_daemon_that_is_not_there(host, tmp_path):  # noqa: F811
    get_target("docker")
    fails(host, "docker:x", "daemon", "DOCKER_HOST",
          env={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})


@pytest.mark.parametrize("body, words", [
    ("echo 'OCI runtime exec failed: nonsense'; exit 126",
     ["OCI runtime exec failed"]),
    ("echo no way >&2; exit 1", ["no way"]), ("exit 0", ["docker"]),
    ("printf '\\033[31mred\\n' >&2; exit 3", ["red"])])
def test_a_transport_that_only_talks(new_host, tmp_path, body,  # noqa: F811
                                     words):
    """What the program says is quoted, harmless, in one line."""
    fake = tmp_path / "docker"
    fake.write_text("#!/bin/sh\nif [ \"$1\" = inspect ]; then printf '%s\\n' "
                    f"c0ffee running image user '' '' /; exit 0; fi\n{body}\n")
    fake.chmod(0o755)
    host = new_host()  # noqa: F811
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = fails(host, "docker:x", *words, env=env)
    assert b"\x1b" not in done.err


def test_a_transport_that_swallows_stdin(new_host, tmp_path):  # noqa: F811
    fake = tmp_path / "docker"
    fake.write_text("#!/bin/sh\nif [ \"$1\" = inspect ]; then printf '%s\\n' "
                    "c0ffee running image user '' '' /; exit 0; fi\ncat >/dev/null\n"
                    "exec sleep 1000000\n")
    fake.chmod(0o755)
    host = new_host("--hello 1000")  # noqa: F811
    fails(host, "docker:x", "no hello from the agent within 1 s",
          "buffers stdin", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    wait_for("the transport's end", lambda: host.children() == [])


# ---- one or two links ---------------------------------------------------

def test_two_docker_hosts_are_two_links(new_host, tmp_path):  # noqa: F811
    box = get_target("docker")
    if os.environ.get("DOCKER_HOST") or not os.path.exists(
            "/var/run/docker.sock"):
        pytest.skip("docker is not reached by /var/run/docker.sock")
    (tmp_path / "d.sock").symlink_to("/var/run/docker.sock")
    host = new_host()  # noqa: F811
    env = {"DOCKER_HOST": f"unix://{tmp_path}/d.sock"}
    for _ in range(2):
        assert host.exec(box, "echo", "1").out == b"1\n"
        assert host.exec(box, "echo", "2", env=env).out == b"2\n"
    assert len(host.status()["links"]) == 2
    assert len(host.children()) == 2


def test_two_paths_are_one_link(new_host, target, tmp_path):  # noqa: F811
    host = new_host()  # noqa: F811
    path = host.env["PATH"]
    for more in ("", f":{tmp_path}", ":/nowhere"):
        done = host.exec(target, "echo", "hi", env={"PATH": path + more})
        assert done.out == b"hi\n", done
    assert len(host.status()["links"]) == 1
    assert len(host.children()) == 1


def test_name_and_id_are_one_link(new_host):  # noqa: F811
    box = get_target("docker")
    host = new_host()  # noqa: F811
    full = subprocess.run(["docker", "inspect", "--format={{.Id}}", box.box],
                          capture_output=True, text=True,
                          check=True).stdout.strip()
    for name in (box.box, full, full[:12]):
        assert host.exec(f"docker:{name}", "true").status == 0
    assert len(host.status()["links"]) == 1

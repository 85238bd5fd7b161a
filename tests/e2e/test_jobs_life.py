# SPDX-License-Identifier: MIT
"""Jobs that fight their own init, agents that die, machines that are broken:
what is told is true, and what can still work does.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest
from docker_fixture import docker_program
from jobs_client import (CANCELLED, EXITED, FAILED, SIGNALED, STDIN,
                         TIMED_OUT, UMASK, UNLIMITED, Jobs, Place, below,
                         born, broods, encode, gone, idle, make_wire, place, stat,
                         user_host)  # noqa: F401
from spine import (Docker, Local, count, find, get_target, kill_all, marker,
                   new_host, once, wait_for)  # noqa: F401

SHORT = 300
NPROC, NOFILE, CORE, CPU, FSIZE = 6, 7, 4, 0, 1     # Linux's numbers


@pytest.fixture
def mark():
    word = marker()
    yield word
    kill_all(word)


def own(host, target):
    """A Place whose controller ends with the test."""
    return Place("own", host=host, target=target)


def failed(result, step, number=None):
    assert (result.outcome, result.step_name) == (FAILED, step), result
    assert number is None or result.error == number, result
    return result.text


# ---- a job against its init ---------------------------------------------

def own_children(core):
    try:
        with open(f"/proc/{core}/task/{core}/children") as f:
            return [int(pid) for pid in f.read().split()]
    except OSError:
        return []


def test_a_job_that_kills_its_init(place, mark):  # noqa: F811
    job = place.jobs.sh(f"setsid {place.brood} ignore {mark} & "
                        f"{place.brood} double {mark} & "
                        f"{place.brood} ignore {mark} & sleep 1; "
                        "echo now; kill -9 $PPID; wait")
    born(mark, 3)
    result = job.wait()
    assert b"init" in failed(result, "WAIT")
    assert result.stdout.endswith(b"now\n"), result
    gone(mark, 8)
    place.alive()


def test_an_init_killed_after_its_leaders_end(place, mark):  # noqa: F811
    result = place.jobs.sh(f"setsid {place.brood} ignore {mark} & "
                           "echo $PPID").wait()
    assert result.status == 0
    (pid,) = born(mark, 1)
    os.kill(stat(pid)[1], signal.SIGKILL)
    gone(mark, 8)
    place.alive()
    wait_for("its record goes",
             lambda: result.info["job"] not in place.jobs.jobs())


def test_other_jobs_survive_an_inits_death(place, mark):  # noqa: F811
    other = place.jobs.sh(f"setsid {place.brood} sleep {mark} & "
                          f"{place.brood} sleep {mark}")
    pids = born(mark, 2)
    failed(place.jobs.sh(f"{place.brood} ignore {mark}x & kill -9 $PPID; "
                         "wait").wait(), "WAIT")
    gone(mark + "x", 8)
    time.sleep(0.2)
    assert sorted(broods(mark)) == sorted(pids)
    other.cancel()
    assert other.wait().outcome == CANCELLED
    assert find(mark) == []


def test_a_job_that_stops_its_init(place, mark):  # noqa: F811
    job = place.jobs.sh(f"setsid {place.brood} ignore {mark} & echo ready; "
                        "while :; do kill -STOP $PPID; done", grace=SHORT)
    job.until(b"ready\n")
    born(mark, 1)
    start = time.monotonic()
    job.cancel()
    assert job.wait().outcome == CANCELLED
    assert time.monotonic() - start < 20
    gone(mark, 8)
    place.alive()


def test_a_job_against_the_waiting_init(place, mark):  # noqa: F811
    """One init waits for the next job; where it is the job's own user's,
    that job can stop or kill it.  The next one runs all the same, once."""
    core, path = place.core(), place.target.path("runs")
    place.jobs.run("touch", path)
    times = count(80, 200)
    for i in range(times):
        wait_for("an init waits", lambda: len(below(core)) == 1)
        (spare,) = below(core)
        os.kill(spare, signal.SIGSTOP if i % 20 == 0 else signal.SIGKILL)
        # From at once to a while after it is reaped and has a successor.
        time.sleep(i % 5 * 0.0005)
        result = place.jobs.sh(f"echo {i} >>{path}; exit 3").wait()
        assert (result.outcome, result.code) == (EXITED, 3), (i, result)
    assert place.read(path).split() == [b"%d" % i for i in range(times)]
    wait_for("nothing is left", lambda: idle(core))


def test_inits_that_are_hunted(place):  # noqa: F811
    """Each is killed as soon as it is there: before it has its job, while
    it prepares it, after it has started it.  No job runs twice, and one that
    is told as not started has not run."""
    core, path = place.core(), place.target.path("runs")
    place.jobs.run("touch", path)
    told, hunting = {}, threading.Event()

    def hunt():
        while not hunting.is_set():
            for pid in own_children(core):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.0002)
    hunter = threading.Thread(target=hunt)
    hunter.start()
    try:
        for i in range(count(150, 1000)):
            told[b"%d" % i] = place.jobs.sh(
                f"echo {i} >>{path}; exit 3").wait()
    finally:
        hunting.set()
        hunter.join()
    ran = place.read(path).split()
    assert len(ran) == len(set(ran)), "one ran twice"
    for i, result in told.items():
        if result.outcome == EXITED:
            assert result.code == 3 and i in ran, (i, result)
        else:
            failed(result, "WAIT")
            assert i not in ran or b"before it had" not in result.text
    place.alive()
    wait_for("nothing is left", lambda: idle(core))


def test_a_signal_that_comes_at_the_end(place):  # noqa: F811
    """The init ends with it unread: what it said before is not lost."""
    jobs = []
    for i in range(count(300, 3000)):
        job = place.jobs.exec("sh", "-c", "echo out; exit 7")
        time.sleep(i % 12 * 0.0003)
        job.signal(signal.SIGWINCH)
        jobs.append(job.wait())
    told = {(r.outcome, r.code, r.stdout) for r in jobs}
    assert told == {(EXITED, 7, b"out\n")}, told
    place.alive()


def test_a_job_that_stops_a_worker(place):  # noqa: F811
    """Whatever moves a file may be the job's own user's, too."""
    path = place.target.path("big")
    place.jobs.sh(f"yes | head -c 3000000 >{path}").wait()
    core = place.core()
    wait_for("an init waits", lambda: len(below(core)) == 1)
    before = set(below(core))
    get = place.jobs.request("get", window=8192, path=path.encode(),
                             length=UNLIMITED)
    wait_for("a worker", lambda: set(below(core)) - before)
    (worker,) = set(below(core)) - before
    os.kill(worker, signal.SIGSTOP)
    place.alive()
    get.grant(2, 1 << 40)
    result = get.wait()
    assert result.outcome == EXITED and (
        result.stdout.endswith(b"y\n" * 1_500_000))
    wait_for("nothing is left", lambda: idle(core))


def test_kill_everyone(mark, new_host):  # noqa: F811
    """kill -9 -1 as a user who is not the agent's: only that user's die."""
    box = once("debian-root", lambda: Docker("debian"))
    one = own(new_host(), box)
    core = one.core()
    bystander = one.start("sleep", mark=mark + "b")
    same = one.jobs.exec(one.brood, "sleep", mark + "s", user="4321")
    born(mark + "b", 1)
    born(mark + "s", 1)
    result = one.jobs.sh(f"setsid {one.brood} ignore {mark}k & sleep 0.5; "
                         "kill -9 -1; wait", user="4321").wait()
    assert (result.outcome, result.code) == (SIGNALED, 9) or (
        failed(result, "WAIT")), result
    gone(mark + "k", 8)
    # The other job of that user is told as one that was killed, too.
    result = same.wait()
    assert (result.outcome, result.code) == (SIGNALED, 9) or (
        failed(result, "WAIT")), result
    assert one.core() == core and len(find(mark + "b")) == 1
    one.alive()
    bystander.cancel()
    assert bystander.wait().outcome == CANCELLED
    wait_for("nothing is left", lambda: idle(core))


# ---- the core dies ------------------------------------------------------

@pytest.mark.parametrize("kind", ["local", "docker", "docker-user",
                                  "openshell"])
def test_a_killed_core_leaves_nothing(kind, mark, new_host):  # noqa: F811
    target = get_target(kind)
    one = own(new_host(), target)
    core = one.core()
    one.jobs.sh(f"setsid {one.brood} ignore {mark} & {one.brood} double "
                f"{mark} & {one.brood} ignore {mark} & wait")
    one.start("chain", "3", mark=mark)
    # The background of a job that has ended counts as well.
    one.jobs.sh(f"setsid {one.brood} ignore {mark} &").wait()
    born(mark, 5)
    tree = list(below(core))
    os.kill(core, signal.SIGKILL)
    gone(mark, 15)
    # A container's first process may leave zombies: they are not ours.
    wait_for("no process of the agent is left",
             lambda: [p for p in tree if (stat(p) or "Z")[0] != "Z"] == [])
    if kind != "local":
        wait_for("its file is gone", lambda: target.injected() == [])


@pytest.mark.parametrize("where", ["local", "without KILL"])
def test_a_stopped_init_outlives_no_core(mark, where, new_host):  # noqa: F811
    one = own(new_host(), once("local-own", Local) if where == "local" else
              Docker("debian", "--cap-drop", "ALL", "--cap-add", "SETUID",
                     "--cap-add", "SETGID"))
    core = one.core()
    one.start("ignore", mark=mark, user="" if where == "local" else "4321")
    (pid,) = born(mark, 1)
    init = stat(pid)[1]
    os.kill(core, signal.SIGSTOP)       # else it would wake the init
    os.kill(init, signal.SIGSTOP)
    wait_for("both are stopped", lambda: stat(init)[0] == "T" ==
             stat(core)[0])
    os.kill(core, signal.SIGKILL)
    gone(mark, 8)
    # Its new parent, `sleep` in the container, reaps nothing.
    wait_for("the init is gone", lambda: (stat(init) or "Z")[0] == "Z")


@pytest.mark.parametrize("what", ["put", "get", "tree", "remove"])
def test_a_stopped_worker_outlives_no_core(what, new_host):  # noqa: F811
    one = own(new_host(), once("local-own", Local))
    core, top = one.core(), one.target.path("worker")
    wait_for("an init waits", lambda: len(below(core)) == 1)
    before = set(own_children(core))
    os.mkdir(top)
    if what == "put":
        job = one.jobs.request("put", path=f"{top}/f".encode(), mode=0o600)
        job.write(make_wire.f(encode("start")) + b"x" * 3000)
    elif what == "get":
        pathlib.Path(top, "f").write_bytes(bytes(3_000_000))
        one.jobs.request("get", path=f"{top}/f".encode(), window=8192,
                         length=UNLIMITED)
    elif what == "tree":
        job = one.jobs.request("tree_put", path=f"{top}/t".encode())
        job.write(make_wire.f(encode("entry", kind=2, mode=0o700)))
    else:
        for i in range(60000):
            open(f"{top}/{i}", "w").close()
        one.jobs.request("fs", op=4, flags=2, path=top.encode())
    (worker,) = wait_for("a worker", lambda: set(own_children(core)) - before)
    wait_for("it has begun", lambda: os.getpgid(worker) == worker)
    os.kill(core, signal.SIGSTOP)       # else it would wake the worker
    os.kill(worker, signal.SIGSTOP)
    wait_for("both are stopped", lambda: stat(worker)[0] == "T" ==
             stat(core)[0])
    os.kill(core, signal.SIGKILL)
    wait_for("the worker is gone", lambda: stat(worker) is None, 8)
    if what in ("put", "tree"):
        assert os.listdir(top) == []    # it has tidied up
    shutil.rmtree(top, ignore_errors=True)


def test_a_stop_ends_them(mark, new_host):  # noqa: F811
    host = new_host()
    one = own(host, once("local-own", Local))
    core = one.core()
    one.jobs.sh(f"setsid {one.brood} ignore {mark} & {one.brood} ignore "
                f"{mark} & wait")
    born(mark, 2)
    assert host.run("stop").status == 0
    gone(mark, 10)
    wait_for("the core is gone", lambda: stat(core) is None)


# ---- without /proc ------------------------------------------------------

def test_without_proc(mark, new_host):  # noqa: F811
    if os.geteuid() != 0:
        pytest.skip("only root can hide a container's /proc")
    box = Docker("debian")
    one = own(new_host(), box)
    assert one.core()
    pid = subprocess.run([docker_program(), "inspect", "-f",
                          "{{.State.Pid}}", box.box], check=True,
                         capture_output=True, text=True).stdout.strip()
    subprocess.run(["nsenter", "-t", pid, "-m", "mount", "-t", "tmpfs",
                    "none", "/proc"], check=True)
    assert one.jobs.run("ls", "/proc").stdout == b""
    job = one.jobs.sh(f"setsid {one.brood} ignore {mark} & {one.brood} double"
                      f" {mark} & {one.brood} ignore {mark}", grace=SHORT)
    born(mark, 3)
    job.cancel()
    result = job.wait()
    assert (result.outcome, result.survivors) == (CANCELLED, []), result
    assert find(mark) == []
    job = one.start("chain", "3", mark=mark, grace=SHORT)
    job.until(b"ready\n")
    job.cancel()
    result = job.wait()
    assert (result.outcome, result.survivors) == (CANCELLED, []), result
    assert find(mark) == []
    job = one.jobs.sh(f"setsid {one.brood} ignore {mark} & {one.brood} double"
                      f" {mark} & sleep 0.5; kill -9 $PPID; wait")
    born(mark, 2)
    failed(job.wait(), "WAIT")
    gone(mark, 8)
    one.alive()


# ---- children who change their user -------------------------------------

@pytest.mark.parametrize("drop", [[], ["--cap-drop", "KILL"]])
@pytest.mark.parametrize("become", ["0", "4444"])
def test_children_by_sudo(drop, become, mark, new_host):  # noqa: F811
    """The init may not kill them, the agent may; without CAP_KILL by a
    helper of their user."""
    one = own(new_host(), Docker("debian", *drop))
    path = one.setuid_brood()
    job = one.jobs.sh(f"setsid {path} become {become} {mark} & "
                      f"{path} become {become} {mark} & "
                      f"{one.brood} ignore {mark}", user="1000:1000",
                      grace=SHORT)
    pids = born(mark, 3)
    wait_for("they have changed", lambda: job.out.count(b"ready") == 3)
    owners = sorted(os.stat(f"/proc/{p}").st_uid for p in pids)
    assert owners == sorted([int(become)] * 2 + [1000])
    start = time.monotonic()
    job.cancel()
    result = job.wait()
    assert (result.outcome, result.survivors) == (CANCELLED, []), result
    assert find(mark) == [] and time.monotonic() - start < 4
    one.alive()


def test_survivors_are_named(mark, new_host):  # noqa: F811
    """An agent that is nobody special cannot end what root started."""
    host = user_host()
    try:
        place = Place("user", host=host)  # noqa: F811
        path = place.setuid_brood()
        job = place.jobs.sh(f"setsid {path} become 0 {mark} & "
                            f"{place.brood} ignore {mark} & wait",
                            grace=SHORT)
        job.until(b"ready\nready\n")
        pids = born(mark, 2)
        (left,) = [p for p in pids if os.stat(f"/proc/{p}").st_uid == 0]
        start = time.monotonic()
        job.cancel()
        result = job.wait()
        assert result.outcome == CANCELLED
        name = os.path.basename(path)[:15].encode()
        assert result.survivors == [b"%d %s" % (left, name)], result
        assert find(mark) == [left]
        assert time.monotonic() - start < 20
        place.alive()
        os.kill(left, signal.SIGKILL)
        wait_for("no zombie of it stays", lambda: idle(place.core()))
        place.jobs.close()
    finally:
        host.close()


def test_a_leader_that_cannot_be_ended(mark):
    """It is not told as ended by a signal, and not as exited."""
    host = user_host()
    try:
        one = Place("user", host=host)
        job = one.jobs.exec(one.setuid_brood(), "become", "0", mark)
        job.until(b"ready\n")
        (left,) = born(mark, 1)
        job.signal(signal.SIGKILL)
        result = job.wait()
        assert b"could not be ended" in failed(result, "WAIT")
        assert [x.split()[0] for x in result.survivors] == [b"%d" % left]
        os.kill(left, signal.SIGKILL)
        one.jobs.close()
    finally:
        host.close()


# ---- nothing is left behind in the core ---------------------------------

def resident(pid):
    text = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    return int(text[1]) * 4


def test_the_core_does_not_grow(place):  # noqa: F811
    def some(number):
        jobs = []
        for i in range(number):
            how = {"timeout": 40} if i % 10 == 5 else {}
            jobs.append(place.jobs.sh(
                ("echo x", "sleep 0.05 &", "exit 3", "sleep 5",
                 "echo y >&2")[i % 5 if how or i % 5 != 3 else 0],
                grace=50, **how))
            if len(jobs) == 32:
                for job in jobs:
                    job.wait()
                jobs = []
        for job in jobs:
            job.wait()
        wait_for("the background is over", lambda: idle(core))

    core = place.core()
    some(100)
    files = len(os.listdir(f"/proc/{core}/fd"))
    memory = resident(core)
    some(count(500, 2000))
    assert len(os.listdir(f"/proc/{core}/fd")) == files
    assert resident(core) <= memory + 256
    assert place.jobs.jobs() == {}


# ---- limits -------------------------------------------------------------

def test_limits_nice_and_umask(place):  # noqa: F811
    base = int(place.jobs.run("nice").stdout) if place.kind in (
        "local", "docker", "user") else None
    result = place.jobs.sh(
        "ulimit -n; ulimit -c; ulimit -t; umask; cat /proc/self/stat",
        limits=[(NOFILE, 64, 65), (CORE, 0, 0), (CPU, 100, 200)],
        umask=0o27, nice=5, flags=UMASK)
    got = result.wait()
    lines = got.stdout.split(b"\n")
    assert lines[:4] == [b"64", b"0", b"100", b"0027"], got
    nice = int(lines[4].rpartition(b")")[2].split()[16])
    assert nice == (base or 0) + 5


def test_unlimited_and_refused_limits(place):  # noqa: F811
    result = place.jobs.sh("ulimit -t", limits=[(CPU, UNLIMITED,
                                                 UNLIMITED)]).wait()
    assert result.stdout == b"unlimited\n", result
    result = place.jobs.sh(":", limits=[(NOFILE, 100, 10)]).wait()
    failed(result, "LIMIT", 22)
    result = place.jobs.sh(":", limits=[(200, 1, 1)]).wait()
    failed(result, "LIMIT", 22)


def test_a_cpu_limit_is_a_signal(place, mark):  # noqa: F811
    result = place.start("burn", "20000", mark=mark,
                         limits=[(CPU, 1, 1)]).wait()
    assert result.outcome == SIGNALED and result.code in (9, 24), result


def test_a_higher_priority_needs_privilege():
    one = Place("user")
    failed(one.jobs.run("true", nice=-5), "LIMIT")
    one.jobs.close()


def test_a_file_limit_is_not_the_agents(place):  # noqa: F811
    """A limit of none at all: exec itself needs no descriptor."""
    result = place.start("burn", "1", mark="x",
                         limits=[(NOFILE, 3, 3), (FSIZE, 0, 0)]).wait()
    assert result.status == 0, result


# ---- broken machines ----------------------------------------------------

def test_a_job_that_cannot_fork(mark, new_host):  # noqa: F811
    one = own(new_host(), once("local-own", Local))
    os.chmod(one.target.tmp, 0o755)
    result = one.jobs.sh("(:) ; echo rc $?", user="61239:61239",
                         limits=[(NPROC, 1, 1)]).wait()
    assert result.outcome == EXITED and b"rc 0" not in result.stdout, result
    one.alive()


def test_a_container_that_is_full_of_processes(mark, new_host):  # noqa: F811
    one = own(new_host(), Docker("debian", "--pids-limit", "60"))
    core = one.core()
    jobs = [one.start("sleep", mark=mark, grace=0) for _ in range(40)]
    wait_for("it is full", lambda: sum(j.raw is not None for j in jobs) +
             len(broods(mark)) == 40)
    left = [j for j in jobs if j.raw is None]
    assert 20 <= len(left) < 40
    for job in jobs:
        if job not in left:
            assert failed(job.wait(), "FORK", 11) == b"a new process"
    # What needs no process still works: a signal, an end.
    left[0].signal(signal.SIGUSR1)
    result = left.pop(0).wait()
    assert (result.outcome, result.code) == (SIGNALED, signal.SIGUSR1)
    for job in left:
        job.cancel()
        assert job.wait().outcome == CANCELLED
    gone(mark)
    one.alive()
    assert one.core() == core


def test_bin_is_gone(mark, new_host):  # noqa: F811
    one = own(new_host(), Docker("debian"))
    assert one.core()
    for name in ("/bin", "/usr/bin"):
        one.target.sh(f"[ -L {name} ] || /usr/bin/mv {name} {name}.away"
                      if name == "/usr/bin" else ":")
    assert b"true" in failed(one.jobs.run("true"), "EXEC", 2)
    assert b"/bin/sh" in failed(one.jobs.run("/bin/sh"), "EXEC", 2)
    result = one.jobs.run(one.brood, "burn", "1", mark)
    assert result.status == 0, result


def test_a_full_disk(new_host):  # noqa: F811
    box = Docker("debian", "--tmpfs", "/full:size=64k")
    host = new_host()
    one = own(host, box)
    result = one.jobs.sh("head -c 100000 /dev/zero >/full/x; echo rc $?"
                         ).wait()
    assert b"rc 1" in result.stdout and b"No space" in result.stderr
    done = host.run("cp", "-", f"{box}:/full/y", input=b"z" * 4096)
    assert done.status != 0 and b"ENOSPC" in done.err, done
    assert one.jobs.sh("pwd", cwd="/full").wait().stdout == b"/full\n"


def test_odd_passwd_files_stall_only_their_own(new_host):  # noqa: F811
    box = Docker("debian")
    one = own(new_host(), box)
    # Docker's own exec would hang on these.
    one.jobs.run("cp", "/etc/passwd", "/etc/passwd.good")
    keeper = one.jobs.exec("sh", flags=STDIN)
    for make in ("mkfifo /etc/passwd", "ln -s /dev/zero /etc/passwd",
                 "truncate -s 8G /etc/passwd", "mkdir /etc/passwd"):
        keeper.write(f"rm -rf /etc/passwd; {make}; echo {make}\n".encode())
        keeper.until(make.encode())
        failed(one.jobs.run("true", user="daemon", timeout=20_000), "USER")
        # Reads no such file: it is not looked up, or it is root's.
        assert one.jobs.jobs()
    keeper.write(b"rm -rf /etc/passwd; mv /etc/passwd.good /etc/passwd\n")
    keeper.end()
    assert keeper.wait().status == 0
    assert one.jobs.run("id", "-un", user="daemon").stdout == b"daemon\n"


# ---- time ---------------------------------------------------------------

def test_timeouts_of_a_millisecond_and_of_ages(place, mark):  # noqa: F811
    for ms in (1, 2, 5, 20):
        result = place.start("ignore", mark=mark, timeout=ms,
                             grace=SHORT).wait()
        assert result.outcome == TIMED_OUT, result
        assert find(mark) == []
    for ms in (86_400_000 * 30, 2 ** 40, 2 ** 63, 2 ** 64 - 1):
        assert place.jobs.run("true", timeout=ms).status == 0


def test_output_before_a_timeout_is_kept(place):  # noqa: F811
    job = place.jobs.sh("echo early; echo oops >&2; yes | head -c 300000;"
                        " sleep 60", timeout=1500, grace=SHORT)
    result = job.wait()
    assert result.outcome == TIMED_OUT
    assert result.stdout == b"early\n" + b"y\n" * 150_000
    assert result.stderr == b"oops\n"


def test_a_timeout_while_nobody_reads(place, mark):  # noqa: F811
    job = place.jobs.sh(f"yes {mark}", timeout=1000, grace=SHORT, out=8192)
    wait_for("its window is full", lambda: len(job.out) == 8192)
    time.sleep(1.5)
    assert find(mark) == []
    job.grant(2, 1 << 40)
    result = job.wait()
    assert result.outcome == TIMED_OUT and len(result.stdout) >= 8192


# ---- what was used ------------------------------------------------------

def test_usage_is_of_all_descendants(place, mark):  # noqa: F811
    result = place.jobs.sh(f"{place.brood} burn 300 {mark} & {place.brood} "
                           f"eat 60 {mark} & wait").wait()
    info = result.info
    assert result.status == 0, result
    assert 250_000 < info["user_us"] + info["system_us"] < 60_000_000, info
    assert 59 << 10 <= info["peak_kib"] < 1 << 20, info
    little = place.jobs.run("true").info
    assert little["peak_kib"] < 40 << 10
    assert little["user_us"] + little["system_us"] < 250_000


def test_wall_time(place):  # noqa: F811
    result = place.jobs.run("sleep", "0.5")
    assert 500_000 <= result.wall_us < 20_000_000


# ---- stdin --------------------------------------------------------------

def test_no_stdin_is_an_immediate_end(place):  # noqa: F811
    assert place.jobs.sh("cat; echo rc $?").wait().stdout == b"rc 0\n"


def test_an_empty_stdin_is_an_immediate_end(place):  # noqa: F811
    job = place.jobs.sh("cat; echo rc $?", flags=STDIN)
    job.end()
    assert job.wait().stdout == b"rc 0\n"


def test_stdin_streams_and_ends(place):  # noqa: F811
    job = place.jobs.exec("cat", flags=STDIN)
    for i in range(5):
        word = f"line {i}\n".encode()
        job.write(word)
        job.until(word)
    job.write(b"z" * 700_000)
    job.end()
    result = job.wait()
    assert result.status == 0 and result.stdout.endswith(b"z" * 700_000)
    assert result["in"] == len(result.stdout)


def test_a_reader_that_ends_early_is_no_error(place):  # noqa: F811
    job = place.jobs.sh("echo bad >&2; exit 7", flags=STDIN)
    job.write(b"y" * 2_000_000)
    if job.raw is None:
        job.end()
    result = job.wait()
    assert result.status == 7 and result.stderr == b"bad\n", result


def test_stdin_of_a_cancelled_job(place, mark):  # noqa: F811
    job = place.start("ignore", mark=mark, flags=STDIN, grace=SHORT)
    job.until(b"ready\n")
    job.write(b"x" * 5000)
    job.cancel()
    assert job.wait().outcome == CANCELLED
    assert find(mark) == []


# ---- a client that goes -------------------------------------------------

def test_a_clients_end_is_its_jobs(place, mark):  # noqa: F811
    other = Jobs(place.host, place.target, place.uid)
    other.sh(f"setsid {place.brood} ignore {mark} & {place.brood} sleep "
             f"{mark} & wait", grace=SHORT)
    born(mark, 2)
    other.close()
    gone(mark)
    place.alive()


def test_cancels_at_any_moment(place, mark):  # noqa: F811
    core = place.core()
    for i in range(count(40, 200)):
        job = place.jobs.sh(f"setsid {place.brood} ignore {mark} & "
                            f"{place.brood} sleep {mark}", grace=0)
        time.sleep((i % 20) * 0.002)
        job.cancel()
        result = job.wait()
        assert result.outcome == CANCELLED, result
        assert find(mark) == []
    wait_for("nothing is left", lambda: idle(core))


# ---- ps -----------------------------------------------------------------

def test_jobs_tells_states(place, mark):  # noqa: F811
    running = place.start("sleep", mark=mark + "r")
    stopped = place.start("sleep", mark=mark + "s")
    born(mark + "r", 1)
    (pid,) = born(mark + "s", 1)
    os.kill(pid, signal.SIGSTOP)
    background = place.jobs.sh(f"setsid {place.brood} sleep {mark}b & "
                               "exit 9").wait()
    wait_for("it is stopped", lambda: stat(pid)[0] == "T")
    found = place.jobs.jobs()
    by_mark = {tag: [j for j in found.values()
                     if (mark + tag).encode() in j["command"]]
               for tag in "rsb"}
    (r,), (s,), (b,) = (by_mark[tag] for tag in "rsb")
    assert (r["state"], s["state"], b["state"]) == (0, 1, 2)
    assert (b["outcome"], b["code"]) == (EXITED, 9)
    assert (r["processes"], s["processes"], b["processes"]) == (1, 1, 1)
    assert r["age_us"] > 0 and not r["detached"] and not r["terminal"]
    assert r["command"].startswith(place.brood.encode() + b" sleep ")
    assert b["job"] == background.info["job"]
    for job in (running, stopped):
        job.cancel()
        assert job.wait().outcome == CANCELLED
    place.jobs.kill(b["job"], 0)
    gone(mark)


def test_jobs_tells_cpu_time(place, mark):  # noqa: F811
    job = place.jobs.sh(f"{place.brood} burn 300 {mark}; {place.brood} burn "
                        f"60000 {mark}")
    wait_for("its time", lambda: place.jobs.job_of(mark)["cpu_us"] > 600_000)
    job.cancel()
    assert job.wait().outcome == CANCELLED

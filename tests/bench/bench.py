#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""bench.py: the figures of sandmux as ratios; `make bench` calls it.

Each figure is held against its floor in the same run, the two measured in
turn, round after round; only the ratios of the rounds count, and their
median is what is printed.  A table goes to stdout, all of it as JSON to
B/bench.json.  What could not be measured misses its mark.  Exits 1 if a
figure does and STRICT=1 is set.

Environment: B build directory; BASE a commit to build and measure beside
this one; BENCH_ONLY a list of local,docker,openshell; BENCH_MIB the size of
the copies (1024); BENCH_ROUNDS rounds of commands (7); BENCH_COPIES rounds of
copies (3); OPENSHELL a real CLI instead of the stand-in.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("B") or "build")
BUILD = BUILD if BUILD.is_absolute() else ROOT / BUILD
TOOLS = BUILD / "bench"
MIB = int(os.environ.get("BENCH_MIB") or 1024)
ROUNDS = int(os.environ.get("BENCH_ROUNDS") or 7)
COPIES = int(os.environ.get("BENCH_COPIES") or 3)
COMMANDS = int(os.environ.get("BENCH_COMMANDS") or 60)
ONLY = (os.environ.get("BENCH_ONLY") or "local,docker,openshell").split(",")


def note(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(*argv, **options):
    done = subprocess.run([str(a) for a in argv], capture_output=True,
                          text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{argv}: status {done.returncode}\n"
                           f"{done.stdout}{done.stderr}")
    return done.stdout


class Loop:
    """A program that answers each line with a number."""

    def __init__(self, *argv, env=None):
        self.argv = [str(a) for a in argv]
        self.child = subprocess.Popen(self.argv, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True,
                                      env=env)
        if self.child.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self.argv}: did not start")

    def __call__(self, *words):
        self.child.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.argv}: ended at {words}")
        return float(line)

    def close(self):
        self.child.stdin.close()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Ours:
    """One build of sandmux with a controller of its own."""

    def __init__(self, name, build, work, env):
        self.name = name
        self.program = pathlib.Path(build) / "host/sandmux"
        self.agent = pathlib.Path(build) / "agent/sandmux-agent"
        self.loop_program = pathlib.Path(build) / "bench/client_loop"
        directory = work / f"run-{name}"
        directory.mkdir(mode=0o700)
        self.env = dict(env, SANDMUX_DIR=str(directory),
                        XDG_STATE_HOME=str(work / f"state-{name}"))

    def __call__(self, *argv):
        return run(self.program, *argv, env=self.env)

    def timed(self, *argv):
        start = time.perf_counter()
        self(*argv)
        return time.perf_counter() - start

    def loop(self, target, *command):
        self("exec", target, "--", *command)
        return Loop(self.loop_program, target, *command, env=self.env)

    def controller(self):
        """The pid of the controller: the one whose socket this is."""
        for pid in pids():
            environ = proc(pid, "cmdline")
            if self.env["SANDMUX_DIR"].encode() in environ and \
                    b"serve" in environ.split(b"\0"):
                return pid
        return None

    def stop(self):
        subprocess.run([self.program, "stop"], env=self.env,
                       capture_output=True)


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def proc(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def parents():
    table = {}
    for pid in pids():
        stat = proc(pid, "stat").rpartition(b")")[2].split()
        if len(stat) > 1:
            table[pid] = int(stat[1])
    return table


WORDS = re.compile(rb"[0-9a-f]{4}-[0-9a-f]{4}[\0 ][0-9a-f]{32}[\0 ]"
                   rb"([0-9a-f]{32})")


def agents(controller):
    """The agent's processes of this controller, wherever they run: those
    with the session's name among their words, and with the agent's own."""
    table = parents()
    sessions = set()
    for pid in table:
        above = table.get(pid)
        while above and above != controller:
            above = table.get(above)
        if above:
            sessions.update(WORDS.findall(proc(pid, "cmdline")))
    found = []
    for pid in table:
        text = proc(pid, "cmdline")
        name = os.path.basename(text.split(b"\0")[0])
        if (b"agent" in name or name.startswith(b".sandmux-")) and \
                sessions & set(WORDS.findall(text)):
            found.append(pid)
    return found


def memory(pid, field):
    for line in proc(pid, "smaps_rollup").splitlines():
        if line.startswith(field.encode() + b":"):
            return int(line.split()[1])
    return 0


def total(all_pids, field):
    return sum(memory(pid, field) for pid in all_pids)


class Local:
    name, pty = "local", False

    def __init__(self, work, env):
        self.target, self.work, self.env = "local", work, env
        self.tools = TOOLS
        self.directory = work / "far"
        self.directory.mkdir()

    def inside(self, *argv):
        return [str(a) for a in argv]

    def once(self, *argv):
        return run(*argv)

    def close(self):
        pass


class Docker:
    name, pty = "docker", False

    def __init__(self, work, env):
        self.docker = shutil.which("docker")
        if self.docker is None:
            raise RuntimeError("docker is not installed")
        # Not baked: BASE would find this tree's agent there.
        run("sh", ROOT / "tests/images.sh", "debian",
            env=dict(os.environ, B=str(BUILD)))
        self.box = "sandmux-bench-" + uuid.uuid4().hex[:8]
        run(self.docker, "run", "-d", "--name", self.box, "--network", "none",
            "--tmpfs", "/far:exec,mode=1777,size=6g",
            "sandmux-test-debian:1", "sleep", "2147483647")
        self.target = "docker:" + self.box
        self.tools = pathlib.Path("/usr/local/bin")
        self.directory = pathlib.Path("/far")
        for tool in ("rawlink", "nullpipe", "spawnloop"):
            run(self.docker, "cp", TOOLS / tool, f"{self.box}:/usr/local/bin/")

    def inside(self, *argv):
        return [self.docker, "exec", "-i", self.box] + [str(a) for a in argv]

    def once(self, *argv):
        return run(self.docker, "exec", self.box, *argv)

    def close(self):
        subprocess.run([self.docker, "rm", "-f", "-v", self.box],
                       capture_output=True)


class Openshell:
    """The stand-in, or OPENSHELL; a sandbox whose image has the tools."""

    name, pty = "openshell", True

    def __init__(self, work, env):
        docker = shutil.which("docker")
        if docker is None:
            raise RuntimeError("docker is not installed")
        self.cli, self.env = os.environ.get("OPENSHELL"), env
        self.real = bool(self.cli)
        if not self.real:
            self.cli = str(BUILD / "tests/openshell/openshell")
            if not os.path.exists(self.cli):
                raise RuntimeError(f"{self.cli}: not built")
            env["STANDIN_DIR"] = str(work / "standin")
        bins = work / "bin"
        bins.mkdir()
        # sandmux hands on only what selects a target, so not STANDIN_DIR.
        wrapper = bins / "openshell"
        wrapper.write_text(f"#!/bin/sh\nexport STANDIN_DIR='{work}/standin'\n"
                           f"exec '{self.cli}' \"$@\"\n")
        wrapper.chmod(0o755)
        env["PATH"] = f"{bins}:{env['PATH']}"
        # Not baked: BASE would find this tree's agent there.
        run("sh", ROOT / "tests/images.sh", "debian",
            env=dict(os.environ, B=str(BUILD)))
        context = work / "openshell-image"
        context.mkdir()
        for tool in ("rawlink", "nullpipe", "spawnloop"):
            shutil.copy(TOOLS / tool, context / tool)
        # The real one wants more in its image than the stand-in does.
        base = os.environ.get("OPENSHELL_IMAGE", "osbox:1") if self.real \
            else "sandmux-test-debian:1"
        (context / "Dockerfile").write_text(
            f"FROM {base}\nUSER root\n"
            "RUN id sandbox 2>/dev/null || useradd -m -u 1000 -s /bin/bash sandbox && "
            "mkdir -p /sandbox && chown 1000:1000 /sandbox\n"
            "COPY rawlink nullpipe spawnloop /usr/bin/\n"
            "USER sandbox\nWORKDIR /sandbox\n")
        run(docker, "build", "-q", "-t", "sandmux-bench-openshell:1", context)
        self.box = "bench-" + uuid.uuid4().hex[:8]
        self.target = "openshell:" + self.box
        self.directory = pathlib.Path("/tmp")
        self.tools = pathlib.Path("/usr/bin")
        run(self.cli, "sandbox", "create", "--name", self.box, "--from",
            "sandmux-bench-openshell:1", "--detach", "--", "sleep",
            "infinity", env=env, stdin=subprocess.DEVNULL)

    def inside(self, *argv):
        return [self.cli, "sandbox", "exec", "-n", self.box, "--tty", "--"] + \
            [str(a) for a in argv]

    def once(self, *argv):
        return run(self.cli, "sandbox", "exec", "-n", self.box, "--no-tty",
                   "--", *argv, env=self.env, stdin=subprocess.DEVNULL)

    def close(self):
        subprocess.run([self.cli, "sandbox", "delete", self.box],
                       env=self.env, capture_output=True)
        if not self.real:
            subprocess.run([self.cli, "standin", "stop"], env=self.env,
                           capture_output=True)


class Table:
    def __init__(self):
        self.rows, self.missed = [], 0

    def add(self, what, value, unit, mark=None, least=True, detail=None):
        """A figure; mark: the least (or greatest) it may be."""
        good = None if mark is None else (
            value >= mark if least else value <= mark)
        self.missed += good is False
        self.rows.append(dict(what=what, value=value, unit=unit, mark=mark,
                              at="least" if least else "most", good=good,
                              detail=detail or {}))
        sign = "" if mark is None else (">= " if least else "<= ") + str(mark)
        word = {True: "ok", False: "MISSED", None: ""}[good]
        print(f"{what:<58} {value:>9.2f} {unit:<4} {sign:<9} {word:<6} "
              + " ".join(f"{k}={v:.5g}" for k, v in (detail or {}).items()),
              flush=True)


    def add_memory(self, what, kib, mark):
        """Of processes that are surely there: 0 is no figure."""
        if kib > 0:
            self.add(what, kib, "KiB", mark, False)
        else:
            self.miss(what, "nothing was found to look at")

    def miss(self, what, why):
        """A figure that could not be had."""
        self.missed += 1
        self.rows.append(dict(what=what, value=None, unit="", mark=None,
                              at="", good=False, detail=dict(why=why)))
        print(f"{what:<58} {'none':>9} {'':<4} {'':<9} MISSED {why}",
              flush=True)


def median(values):
    return statistics.median(values) if values else float("nan")


def commands(table, place, ours, base):
    """exec through a held connection against the floor, and BASE's."""
    raw = Loop(TOOLS / "rawlink", "host", *(["-t"] if place.pty else []),
               *place.inside(place.tools / "rawlink", "peer"), env=place.env)
    held = ours.loop(place.target, "/bin/true")
    other = base.loop(place.target, "/bin/true") if base else None
    floors, us, ratios, bases = [], [], [], []
    for turn in range(ROUNDS):
        rtt = raw("rtt", 300)
        spawn = float(place.once(place.tools / "spawnloop", COMMANDS,
                                 "/bin/true"))
        # Neither of the two always comes first.
        theirs = other("run", COMMANDS) if other and turn % 2 else None
        mine = held("run", COMMANDS)
        if other:
            bases.append(mine / (theirs or other("run", COMMANDS)))
        floors.append(rtt + spawn)
        us.append(mine)
        ratios.append(mine / (rtt + spawn))
    raw.close()
    table.add(f"{place.name}: exec true / floor", median(ratios), "x", 1.5,
              False, dict(us=median(us), floor_us=median(floors),
                          worst=max(ratios)))
    if other:
        table.add(f"{place.name}: exec true / the same of BASE",
                  median(bases), "x", 1.25, False)
        other.close()
    return held


def many(table, place, held):
    """Commands a second with 64 at once, against bare spawns likewise."""
    ratios = []
    for _ in range(max(ROUNDS // 2, 3)):
        bare = float(place.once(place.tools / "spawnloop", "-64", 2000,
                                "/bin/true"))
        ratios.append(held("many", 2000) / bare)
    table.add(f"{place.name}: commands a second, 64 at once / bare spawns",
              median(ratios), "x", 0.6 if place.name == "local" else None)


def per_job(table, place, ours):
    """What the agent's side takes for each job that runs."""
    before = total(agents(ours.controller()), "Pss")
    jobs = [subprocess.Popen([str(ours.program), "exec", place.target, "--",
                              "sleep", "60"], env=ours.env)
            for _ in range(20)]
    time.sleep(2)
    after = total(agents(ours.controller()), "Pss")
    for job in jobs:
        job.terminate()
    for job in jobs:
        job.wait()
    table.add_memory(f"{place.name}: agent's PSS for each running job",
                     (after - before) / len(jobs), 250)


def docker_rows(table, place, ours, held):
    """Against docker exec itself: one at a time, and 100 at once."""
    one, many = [], []
    # Both are started and waited for by the same small program.
    for _ in range(ROUNDS):
        theirs = run(TOOLS / "spawnloop", 5, place.docker, "exec", place.box,
                     "true", env=ours.env)
        mine = run(TOOLS / "spawnloop", 25, ours.program, "exec",
                   place.target, "--", "true", env=ours.env)
        one.append(float(theirs) / float(mine))
    table.add("docker exec true / sandmux exec true, whole processes",
              median(one), "x", 15)

    def at_once(*argv):
        start = time.perf_counter()
        children = [subprocess.Popen(
            [str(a) for a in argv], env=ours.env, stdin=subprocess.DEVNULL)
            for _ in range(100)]
        if any([child.wait() for child in children]):
            raise RuntimeError(f"{argv} failed among 100")
        return time.perf_counter() - start

    whole = []
    for _ in range(3):
        theirs = at_once(place.docker, "exec", place.box, "true")
        many.append(theirs * 1000 / held("once", 100))
        whole.append(theirs / at_once(ours.program, "exec", place.target,
                                      "--", "true"))
    table.add("100 docker exec at once / 100 through held connections",
              median(many), "x", 20)
    table.add("100 docker exec at once / 100 sandmux exec, whole processes",
              median(whole), "x", 20)


def beside(table, place, ours, work):
    """One command at a time while a big file moves each way."""
    held = ours.loop(place.target, "/bin/true")
    source, far = work / "source", place.directory / "copy"
    ours("cp", source, f"{place.target}:{far}")
    what = f"{place.name}: exec true beside two copies / alone"
    idle, busy = [], []
    # A round counts if both copies outlast the commands.
    for _ in range(4 * COPIES):
        if len(busy) == COPIES:
            break
        alone = held("run", COMMANDS)
        moving = [subprocess.Popen(
            [str(ours.program), "cp", *map(str, pair)], env=ours.env)
            for pair in ((source, f"{place.target}:{far}2"),
                         (f"{place.target}:{far}", work / "back"))]
        time.sleep(0.2)
        took = held("run", max(COMMANDS // 2, 10))
        if all(child.poll() is None for child in moving):
            idle.append(alone)
            busy.append(took)
        if any([child.wait() for child in moving]):
            raise RuntimeError("a copy failed")
    held.close()
    if len(busy) < COPIES:
        table.miss(what, f"in {len(busy)} of {4 * COPIES} rounds both copies "
                   "outlasted the commands")
        return
    table.add(what, median([b / i for b, i in zip(busy, idle)]), "x",
              5 if place.pty else 3, False,
              dict(busy_us=median(busy), idle_us=median(idle)))


def provider(place, ours, kind, name):
    """A loop through an Inspect provider, by the environment that has it."""
    python = BUILD / "inspect/venv/bin/python"
    if not python.exists():
        raise RuntimeError(f"{python}: `make inspect-venv` makes it")
    env = dict(ours.env, PYTHONPATH=str(ROOT / "host/inspect/src"),
               SANDMUX_PROGRAM=str(ours.program),
               # The other one always passes that option.
               STANDIN_NO_LOGIN_SHELL="1")
    return Loop(python, ROOT / "tests/bench/provider_loop.py", kind, name,
                env=env)


def provider_rows(table, place, ours, held, work):
    """The Inspect provider against the C client and the other provider."""
    mine = provider(place, ours, "sandmux", place.target)
    ratios = []
    for turn in range(ROUNDS):
        theirs = held("run", COMMANDS) if turn % 2 else None
        us = mine("run", COMMANDS)
        ratios.append(us / (theirs or held("run", COMMANDS)))
    table.add(f"{place.name}: exec true, provider / C client's held connection",
              median(ratios), "x", 1.5, False)
    small, size = work / "fifty", 50 << 20
    far = place.directory / "fifty"
    small.write_bytes(os.urandom(size))
    ups, downs = [], []
    for _ in range(COPIES):
        cp = size / ours.timed("cp", small, f"{place.target}:{far}") / 1e6
        ups.append(mine("write", far, size) / cp)
        cp = size / ours.timed("cp", f"{place.target}:{far}", work / "got") / 1e6
        downs.append(mine("read", far) / cp)
    for way, found in (("write", ups), ("read", downs)):
        table.add(f"{place.name}: {way} of 50 MiB, provider / sandmux cp",
                  median(found), "x", 0.6)
    if place.name == "openshell":
        other = provider(place, ours, "openshell", place.box)
        for verb, number, least, what in (
                ("run", max(COMMANDS // 4, 5), 5, "exec true"),
                ("once", 100, 15, "100 at once")):
            found = [other(verb, number) / mine(verb, number)
                     for _ in range(3)]
            table.add(f"{place.name}: {what}, inspect-openshell-sandbox / "
                      "provider", median(found), "x", least)
        other.close()
    mine.close()


UNSEALED = {"local": (0.5, 0.5), "docker": (0.5, 0.6),
            "openshell": (0.85, 0.85)}


class Watch:
    """The memory of agent, controller and client while something runs."""

    def __init__(self, ours, seconds=0.5):
        self.ours, self.seconds = ours, seconds
        self.agent = self.controller = self.client = 0
        self.most = 0       # of the agent's processes at a time

    def run(self, *argv, **options):
        pid = self.ours.controller()
        start = time.perf_counter()
        child = subprocess.Popen([str(self.ours.program), *map(str, argv)],
                                 env=self.ours.env, **options)
        while child.poll() is None:
            # Looked at rarely: smaps_rollup costs the process its lock.
            try:
                child.wait(self.seconds)
            except subprocess.TimeoutExpired:
                for each in [child.pid] + [p for p, above in
                                           parents().items()
                                           if above == child.pid]:
                    self.client = max(self.client, memory(each, "Rss"))
                found = agents(pid)
                self.most = max(self.most, len(found))
                self.agent = max(self.agent, total(found, "Pss"))
                self.controller = max(self.controller, memory(pid, "Rss"))
        if child.returncode != 0:
            raise RuntimeError(f"{argv}: status {child.returncode}")
        return time.perf_counter() - start

    def agents(self, table, what, mark):
        """Of stub, core and a worker at the least."""
        if self.most < 3:
            table.miss(what, f"{self.most} processes at most were seen")
        else:
            table.add_memory(what, self.agent, mark)

    def rows(self, table, what):
        self.agents(table, f"{what}: agent and worker, PSS", 16384)
        for who, value in (("controller, RSS", self.controller),
                           ("client or its helper, RSS", self.client)):
            table.add_memory(f"{what}: {who}", value, 16384)


def copies(table, place, ours, base, work, watch):
    """A big file each way: raw link, null pipeline, sandmux, BASE."""
    flag = ["-t"] if place.pty else []
    raw = Loop(TOOLS / "rawlink", "host", *flag,
               *place.inside(place.tools / "rawlink", "peer"), env=place.env)
    null = Loop(TOOLS / "nullpipe", "host", *flag,
                *place.inside(place.tools / "nullpipe", "peer"),
                env=place.env)
    size = MIB * 1048576
    source, back = work / "source", work / "back"
    far, copy = place.directory / "null", place.directory / "copy"
    results = {}

    def mark(name, value):
        results.setdefault(name, []).append(value)

    for _ in range(COPIES):
        for way in ("up", "down"):
            mark(f"raw {way}", raw(way, size))
            # Not a mark, only to tell the price of sealing.
            mark(f"open {way}", null(*(("UP", source, far) if way == "up"
                                       else ("DOWN", far, back))))
            if way == "up":
                mark("null up", null("up", source, far))
                seconds = ours.timed("cp", source, f"{place.target}:{copy}")
            else:
                mark("null down", null("down", far, back))
                seconds = ours.timed("cp", f"{place.target}:{copy}", back)
            mark(f"cp {way}", size / seconds / 1e6)
            if base:
                argv = (source, f"{place.target}:{copy}") if way == "up" else \
                    (f"{place.target}:{copy}", back)
                mark(f"base {way}", size / base.timed("cp", *argv) / 1e6)
        same = subprocess.run(["cmp", source, back]).returncode == 0
        if not same:
            raise RuntimeError("the file came back changed")
    raw.close()
    null.close()
    for way, least in zip(("up", "down"), UNSEALED[place.name]):
        nearly = 0.9 if place.name == "docker" else 0.95
        for other, wanted in (("null", nearly), ("raw", least),
                              ("open", None)):
            ratios = [a / b for a, b in zip(results[f"cp {way}"],
                                            results[f"{other} {way}"])]
            table.add(f"{place.name}: cp of {MIB} MiB {way} / "
                      + {"null": "null pipeline", "raw": "raw link",
                         "open": "unsealed pipeline"}[other],
                      median(ratios), "x", wanted, True,
                      {"MB/s": median(results[f"cp {way}"]),
                       other: median(results[f"{other} {way}"])})
        if base:
            table.add(f"{place.name}: cp {way} / the same of BASE",
                      median([a / b for a, b in zip(
                          results[f"cp {way}"], results[f"base {way}"])]),
                      "x")
    # A copy that ends before it is looked at shows nothing.
    for _ in range(5):
        watch.run("cp", source, f"{place.target}:{copy}")
        watch.run("cp", f"{place.target}:{copy}", back)
        if watch.most >= 3:
            break
    back.unlink()


def standin_rows(table, place):
    """The stand-in's relay against what the real one was measured at."""
    sys.path.insert(0, str(ROOT / "tests/tools/openshell"))
    import figures
    relay = figures.Bench(shutil.which("openshell", path=place.env["PATH"]),
                          str(BUILD / "tests/openshell/probe"),
                          "sandmux-bench-openshell:1")
    try:
        for what, real, here in figures.rows(relay):
            table.add(f"openshell stand-in: {what}, away from the real one",
                      abs(here / real - 1), "x", 0.2, False,
                      dict(here=here, real=real))
    finally:
        relay.delete()


def make_tree(top, files, size):
    for i in range(files):
        if i % 100 == 0:
            directory = top / f"d{i // 100}"
            directory.mkdir(parents=True)
        (directory / f"f{i}").write_bytes(os.urandom(size))


def trees(table, place, ours, work):
    """cp -r against tar through docker exec, and the memory of large ones."""
    source, back, far = work / "tree", work / "tree-back", place.directory
    make_tree(source, 10000, 1024)
    pipes = {
        "up": f"tar c -C {source} . | {place.docker} exec -i {place.box} "
              f"tar x -C {far}/tar",
        "down": f"{place.docker} exec -i {place.box} tar c -C {far}/tree . | "
                f"tar x -C {back}"}

    def tar(way):
        place.once("sh", "-c", f"rm -rf {far}/tar && mkdir {far}/tar")
        shutil.rmtree(back, ignore_errors=True)
        back.mkdir()
        start = time.perf_counter()
        run("sh", "-c", pipes[way])
        return time.perf_counter() - start

    def mine(way):
        shutil.rmtree(back, ignore_errors=True)
        if way == "down":
            return ours.timed("cp", "-r", f"{place.target}:{far}/tree", back)
        place.once("rm", "-rf", f"{far}/tree")
        return ours.timed("cp", "-r", source, f"{place.target}:{far}/tree")

    for way in ("up", "down"):
        ratios, seconds = [], []
        for turn in range(ROUNDS):
            theirs = tar(way) if turn % 2 else None
            seconds.append(mine(way))
            ratios.append(seconds[-1] / (theirs or tar(way)))
            if way == "down" and turn % 2:
                run("diff", "-r", source, back)
        table.add(f"{place.name}: tree of 10,000 files {way} / tar through "
                  "docker exec", median(ratios), "x", 1.1, False,
                  dict(s=median(seconds), best=min(ratios),
                       worst=max(ratios)))
    shutil.rmtree(source)
    make_tree(source, 99000, 0)
    place.once("rm", "-rf", f"{far}/tree")
    watch = Watch(ours, 0.1)
    watch.run("cp", "-r", source, f"{place.target}:{far}/tree")
    watch.run("cp", "-r", f"{place.target}:{far}/tree", back / "new")
    watch.rows(table, f"{place.name}: tree of 100,000 entries")
    shutil.rmtree(source)
    shutil.rmtree(back)


def docker_copies(table, place, ours, work):
    """cp against `docker cp` and the null pipeline, all three to and from the
    container's own file system: docker cp does not see a tmpfs in there."""
    null = Loop(TOOLS / "nullpipe", "host",
                *place.inside(place.tools / "nullpipe", "peer"),
                env=place.env)
    size = MIB * 1048576
    source, back = work / "source", work / "back"
    for way, share in (("up", 1), ("down", 0.85)):
        ratios, rates = [], []

        def ends(name, way=way):
            far = f"{place.box}:/root/{name}" if name == "peer" else \
                f"{place.target}:/root/{name}"
            return (source, far) if way == "up" else (far, back)

        for _ in range(COPIES):
            start = time.perf_counter()
            run(place.docker, "cp", "-q", *ends("peer"))
            theirs = size / (time.perf_counter() - start) / 1e6
            mine = size / ours.timed("cp", *ends("mine")) / 1e6
            sealed = null(way, *((source, "/root/null") if way == "up" else
                                 ("/root/null", back)))
            ratios.append(mine / min(theirs * share, sealed * 0.95))
            rates.append((mine, theirs, sealed))
        table.add(f"docker: cp of {MIB} MiB {way} / the lower of "
                  f"{share} x docker cp and 0.95 x null pipeline",
                  median(ratios), "x", 1, True, dict(zip(
                      ("MB/s", "docker cp", "null"),
                      map(median, zip(*rates)))))
    null.close()
    place.once("rm", "-f", "/root/peer", "/root/mine", "/root/null")
    back.unlink()


def large(table, place, ours):
    """The memory of 4 GiB each way, from and to where they take no room."""
    watch = Watch(ours)
    with subprocess.Popen(["head", "-c", "4G", "/dev/zero"],
                          stdout=subprocess.PIPE) as zeros:
        watch.run("cp", "-", f"{place.target}:/dev/null", stdin=zeros.stdout)
    watch.run("cp", "--length", "4G", f"{place.target}:/dev/zero",
              "/dev/null")
    watch.rows(table, f"{place.name}: 4 GiB each way")


def build_base(commit, work):
    """BASE's programs, with this tree's client loop where it still fits."""
    tree = work / "base"
    run("git", "-C", ROOT, "worktree", "add", "--detach", tree, commit)
    # A make of its own, not a part of the one that runs this.
    env = {k: v for k, v in os.environ.items()
           if k not in ("B", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}
    run("make", "-C", tree, "all", "build/bench/client_loop", env=env)
    return tree


def measure(table, work, env, base_tree):
    ours = Ours("ours", BUILD, work, env)
    base = Ours("base", base_tree / "build", work, env) if base_tree else None
    table.add("agent: size of the program", ours.agent.stat().st_size / 1024,
              "KiB", 300, False)
    with open(work / "source", "wb") as out:
        for _ in range(MIB):
            out.write(os.urandom(1048576))
    try:
        for kind in (Local, Docker, Openshell):
            if kind.name not in ONLY:
                continue
            try:
                place = kind(work, env)
            except RuntimeError as why:
                note(f"{kind.name} left out: {why}")
                continue
            note(kind.name)
            ours.env.update({k: env[k] for k in ("PATH", "STANDIN_DIR")
                             if k in env})
            if base:
                base.env.update(ours.env, SANDMUX_DIR=base.env["SANDMUX_DIR"],
                                XDG_STATE_HOME=base.env["XDG_STATE_HOME"])
            try:
                one_place(table, place, ours, base, work)
            except RuntimeError as why:
                note(f"{kind.name} FAILED: {why}")
                table.missed += 1
            finally:
                ours.stop()
                if base:
                    base.stop()
                place.close()
    finally:
        ours.stop()
        if base:
            base.stop()


def one_place(table, place, ours, base, work):
    place.env = ours.env
    watch = Watch(ours)
    held = commands(table, place, ours, base)
    if place.name == "docker":
        docker_rows(table, place, ours, held)
        trees(table, place, ours, work)
        docker_copies(table, place, ours, work)
        large(table, place, ours)
    many(table, place, held)
    provider_rows(table, place, ours, held, work)
    held.close()
    per_job(table, place, ours)
    # Fresh processes: what they take when nothing has happened yet.
    ours.stop()
    ours("exec", place.target, "--", "/bin/true")
    time.sleep(1)
    found = agents(ours.controller())
    # The stub and the core, that is, and the next job's init.
    what = f"{place.name}: agent idle, PSS of {len(found)} processes"
    if len(found) < 2:
        table.miss(what, "stub and core are not both there")
    else:
        table.add_memory(what, total(found, "Pss"), 1024)
    table.add_memory(f"{place.name}: controller idle, RSS",
                     memory(ours.controller(), "Rss"), 6144)
    beside(table, place, ours, work)
    copies(table, place, ours, base, work, watch)
    watch.agents(table, f"{place.name}: agent and workers during a copy, PSS",
                 8192)
    table.add_memory(f"{place.name}: controller during a copy, RSS",
                     watch.controller, 16384)
    if place.pty and not place.real:
        standin_rows(table, place)


def main():
    # Whoever ends it early finds nothing left either.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    # The big files are in memory where there is enough of it.
    shm = pathlib.Path("/dev/shm")
    free = shutil.disk_usage(shm).free if shm.is_dir() else 0
    roomy = free > 8 * MIB * 1048576
    work = pathlib.Path(tempfile.mkdtemp(prefix="sandmux-bench-",
                                         dir=shm if roomy else None))
    env = dict(os.environ)
    for name in ("BASH_ENV", "ENV"):
        env.pop(name, None)
    table = Table()
    commit = os.environ.get("BASE")
    base_tree = None
    print(f"{os.cpu_count()} cores, {MIB} MiB, {ROUNDS} rounds of {COMMANDS} "
          f"commands, {COPIES} copies each way; medians of ratios")
    try:
        base_tree = build_base(commit, work) if commit else None
        measure(table, work, env, base_tree)
    finally:
        if commit:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove",
                            "--force", work / "base"], capture_output=True)
        shutil.rmtree(work, ignore_errors=True)
        head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"],
                              capture_output=True, text=True).stdout.strip()
        (BUILD / "bench.json").write_text(json.dumps(
            dict(commit=head, base=commit or None, cores=os.cpu_count(),
                 mib=MIB, rounds=ROUNDS, commands=COMMANDS, copies=COPIES,
                 missed=table.missed, rows=table.rows), indent=1) + "\n")
    print(f"{table.missed} missed; {BUILD / 'bench.json'}")
    return 1 if table.missed and os.environ.get("STRICT") else 0


if __name__ == "__main__":
    sys.exit(main())

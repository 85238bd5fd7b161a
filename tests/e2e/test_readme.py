# SPDX-License-Identifier: MIT
"""README's file map is the tree: each entry is there, each file is in it."""
import fnmatch
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def entries():
    """The map's patterns, relative to the root; directories end in '/'."""
    block = re.search(r"## Where things are\n.*?```\n(.*?)```",
                      (ROOT / "README.md").read_text(), re.S).group(1)
    found, directory = [], ""
    for line in block.splitlines():
        words = re.split(r"\s{3,}", line.strip())[0].split()
        if not line.startswith(" "):
            directory = words[0] if words[0].endswith("/") else ""
            found += words
            continue
        for word in words:
            # The description begins at the first word without a file's form.
            if not re.search(r"[./*]", word):
                break
            found.append(directory + word)
    return found


def tracked():
    if shutil.which("git") and (ROOT / ".git").exists():
        done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"],
                              cwd=ROOT, check=True, capture_output=True,
                              text=True)
        return [f for f in done.stdout.splitlines() if (ROOT / f).exists()]
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
            if p.is_file() and p.parts[len(ROOT.parts)] not in
            ("build", ".git") and "__pycache__" not in p.parts]


def matches(entry, name):
    if entry.endswith("/"):
        return name.startswith(entry)
    return fnmatch.fnmatchcase(name, entry) and \
        entry.count("/") == name.count("/")


def test_every_entry_exists():
    files = tracked()
    assert [e for e in entries()
            if not any(matches(e, f) for f in files)] == []


def test_every_file_is_in_the_map():
    files = tracked()
    # A directory of C, or all of its files, is no answer to "where does it
    # go": the map has to name each, so that a new one needs its line.
    wanted = [e for e in entries() if not re.fullmatch(
        r"(agent|common|host)/(\*\.(\w|\[\w+\]))?", e)]
    assert [f for f in files
            if not any(matches(e, f) for e in wanted)] == []


def test_a_new_file_is_missed():
    """The map has no entry that takes whatever comes."""
    new = [f"{d}/{n}.{e}" for d in ("agent", "common", "host")
           for n in ("new", "other") for e in "ch"]
    assert [(e, f) for e in entries() for f in new
            if matches(e, f) and not e.endswith("/")] == []


def test_each_goal_is_in_the_list():
    """Every goal of the Makefile's that a person would call."""
    make = (ROOT / "Makefile").read_text()
    goals = {g for line in re.findall(r"^\.PHONY: (.*)$", make, re.M)
             for g in line.split() if "$" not in g}
    assert len(goals) > 15
    text = (ROOT / "README.md").read_text()
    named = {w for line in re.findall(r"^    make( [a-z0-9 -]*?)(?:  |$)",
                                      text, re.M) for w in line.split()}
    named |= set(re.findall(r"`make ([a-z0-9-]+)`", text))
    # Steps of others; `make` alone is the first two.
    steps = {"all", "agent", "host", "test-programs", "inspect-venv"}
    assert goals - steps - named == set()


def test_commands_named_exist():
    text = (ROOT / "README.md").read_text()
    make = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", make, re.M))
    for line in re.findall(r"^    make( [a-z0-9 -]*?)(?:  |$)", text, re.M):
        assert set(line.split()) <= targets, line


def test_what_the_program_names_is_there():
    """Paths of the repository in the texts that people read."""
    tops = {f.split("/")[0] for f in tracked() if "/" in f}
    path = re.compile(r"(?<![\w./-])(?:%s)/[\w./-]*\w" % "|".join(tops))
    found = {name for f in tracked()
             if re.fullmatch(r"(host|agent|common)/[^/]*\.[ch1]", f)
             for text in re.findall(r'"(?:[^"\\\n]|\\.)*"',
                                    (ROOT / f).read_text())
             for name in path.findall(text)}
    assert "images/bake.sh" in found
    assert [name for name in found if not (ROOT / name).exists()] == []

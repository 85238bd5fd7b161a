# SPDX-License-Identifier: MIT
"""What every C file has in common: it begins with its licence, its name and
what it owns; its lines are at most 80 columns; the version stands once."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = "/* SPDX-License-Identifier: MIT */\n"
FILES = sorted(str(p.relative_to(ROOT))
               for top in ("agent", "common", "host", "tests")
               for end in ("c", "h", "S") for p in (ROOT / top).rglob(
                   f"*.{end}"))


def begins(text, name):
    """Whether that is how a file of this name may begin."""
    if not text.startswith(SPDX):
        return False
    rest = re.sub(r"^/\*\n \* ", "/* ", text[len(SPDX):])
    return re.match(rf"/\* {re.escape(name)} - [^*]*\w", rest) is not None


def test_files_were_found():
    assert len(FILES) > 250
    assert {pathlib.PurePath(f).parts[0] for f in FILES} == {
        "agent", "common", "host", "tests"}


@pytest.mark.parametrize("wrong", [
    SPDX + '#include "x.h"\n', "/* x.c - what. */\n", SPDX + "/* x.h - a. */",
    SPDX + "/* x: what it owns. */\n", SPDX + "/* x.c - */\n",
    SPDX + "\n/* x.c - what. */\n"])
def test_a_wrong_beginning_is_seen(wrong):
    assert not begins(wrong, "x.c")


def test_files_say_what_they_own():
    assert [f for f in FILES if not begins(
        (ROOT / f).read_text(), pathlib.PurePath(f).name)] == []


def too_wide(text):
    return [line for line in text.expandtabs(8).splitlines()
            if len(line) > 80]


def test_lines_fit():
    assert too_wide("\t" * 9 + "12345678\n" + "\t" * 9 + "123456789") == [
        " " * 72 + "123456789"]
    wide = {f: too_wide((ROOT / f).read_text()) for f in FILES
            if f.startswith(("agent/", "common/"))}
    assert {f: lines for f, lines in wide.items() if lines} == {}


def test_the_version_stands_once():
    """In the Makefile, which hands it to every file; the Python package,
    which is built alone, says the same."""
    version = re.search(r"^VERSION := (\S+)$",
                        (ROOT / "Makefile").read_text(), re.M).group(1)
    package = (ROOT / "host/inspect/src/sandmux/_version.py").read_text()
    assert re.findall(r'^VERSION = "(.*)"$', package, re.M) == [version]
    assert [f for f in FILES if not f.startswith("tests/") and
            f'"{version}"' in (ROOT / f).read_text()] == []

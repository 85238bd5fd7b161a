# SPDX-License-Identifier: MIT
"""Every C file begins alike: its licence, then its name and what it owns."""
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

# SPDX-License-Identifier: MIT
"""The Python table of messages against the frozen vectors, and everything
that the package repeats of the C program against the C program."""
import errno
import os
import re
import sys

import pytest
from conftest import ROOT

import sandmux
from sandmux import _errors, _launch, _wire

sys.path.insert(0, str(ROOT / "tests/vectors"))
import make_wire  # noqa: E402

WIRE_H = (ROOT / "common/wire.h").read_text()
VECTORS = re.findall(r"^vector (\w+)\n((?:\[.*\n)*)message ([0-9a-f]+)$",
                     (ROOT / "tests/vectors/wire.txt").read_text(), re.M)
KINDS = {make_wire.u8: "u8", make_wire.u16: "u16", make_wire.u32: "u32",
         make_wire.u64: "u64", make_wire.i32: "i32", make_wire.f: "bytes",
         None: "list", make_wire.rest: "rest"}


def test_the_table_is_the_one_of_the_vectors():
    theirs = {name: (kind, tuple((field, KINDS[width])
                                 for field, width in fields))
              for name, (kind, fields) in make_wire.MESSAGES.items()}
    ours = {m.name: (m.type, m.fields) for m in _wire.MESSAGES.values()}
    assert ours == theirs


@pytest.mark.parametrize("name, lines, message", VECTORS,
                         ids=[f"{i}-{v[0]}" for i, v in enumerate(VECTORS)])
def test_every_vector_decodes_and_encodes(name, lines, message):
    raw = bytes.fromhex(message)
    found, fields = _wire.decode(raw)
    assert found == name
    assert list(fields) == re.findall(rf"^\[{name}\.(\w+)\]", lines, re.M)
    assert _wire.encode(name, **fields) == raw


def test_there_are_vectors_of_all_messages():
    assert {name for name, _, _ in VECTORS} == set(_wire.MESSAGES)


@pytest.mark.parametrize("name, lines, message", VECTORS,
                         ids=[f"{i}-{v[0]}" for i, v in enumerate(VECTORS)])
def test_what_is_cut_off_or_goes_on_is_no_message(name, lines, message):
    raw = bytes.fromhex(message)
    rest = _wire.MESSAGES[name].fields[-1][1] == "rest"
    if not rest:
        with pytest.raises(_wire.WireError):
            _wire.decode(raw + b"\0")
    least = _wire.MESSAGES[name].head.size if rest else len(raw)
    for size in {0, 1, least // 2, least - 1}:
        if size < least:
            with pytest.raises(_wire.WireError):
                _wire.decode(raw[:size])


def test_lengths_and_counts_that_lie_are_refused():
    hello = _wire.encode("hello", env=[b"A=B"])
    for at in range(9, len(hello) - 3):
        bad = hello[:at] + b"\xff\xff\xff\xff" + hello[at + 4:]
        with pytest.raises(_wire.WireError):
            _wire.decode(bad)


def enum_of(prefix):
    """{NAME: value} of the constants of wire.h that begin with prefix."""
    return {name: int(value, 0) for name, value in re.findall(
        rf"\b{prefix}(\w+) = (\d+)\b", WIRE_H)}


@pytest.mark.parametrize("ours, prefix", [
    (_wire.Step, "WIRE_STEP_"), (_wire.HelloFlags, "WIRE_HELLO_"),
    (_wire.ExecFlags, "WIRE_EXEC_"), (_wire.PutFlags, "WIRE_PUT_"),
    (_wire.GetFlags, "WIRE_GET_"), (_wire.Channel, "WIRE_CH_")],
    ids=lambda x: getattr(x, "__name__", x))
def test_numbers_are_those_of_wire_h(ours, prefix):
    theirs = enum_of(prefix)
    for skipped in ("CWD_FELL_BACK", "RUNNING", "INFO"):
        theirs.pop(skipped, None)
    # Message types share two of the prefixes.
    for name in {n.upper() for n in _wire.MESSAGES}:
        if prefix + name in {f"WIRE_{n.upper()}" for n in _wire.MESSAGES}:
            theirs.pop(name, None)
    assert {x.name: x.value for x in ours} == theirs


def test_numbers_without_a_prefix_of_their_own():
    for name in _wire.Outcome:
        assert re.search(rf"WIRE_{name.name} = {name.value}\b", WIRE_H), name
    for name in _wire.FsOp:
        assert re.search(rf"WIRE_FS_{name.name} = {name.value}\b", WIRE_H)
    for name in _wire.FsFlags:
        assert re.search(rf"WIRE_FS_{name.name} = {name.value}\b", WIRE_H)
    for name in _wire.ExecInfoFlags:
        assert re.search(rf"WIRE_EXEC_{name.name} = {name.value}\b", WIRE_H)


def test_limits_are_those_of_wire_h():
    def number(name, text=WIRE_H):
        return int(re.search(rf"#define {name} (\d+)", text).group(1))

    session = (ROOT / "common/session.h").read_text()
    assert _wire.FRAME_MAX == number("WIRE_RECORD_PLAIN") - 8
    assert _wire.DATA_HEADER == number("WIRE_DATA_HEADER")
    assert _wire.INFO_MAX == number("WIRE_INFO_MAX")
    assert _wire.PATH_MAX == number("WIRE_PATH_MAX")
    assert _wire.VERSION_MIN == number("WIRE_VERSION_MIN")
    assert _wire.VERSION_MAX == number("WIRE_VERSION_MAX")
    assert _wire.WINDOW_MIN == number("SESSION_WINDOW_MIN", session)
    assert _wire.WINDOW_MAX == number("SESSION_WINDOW_MAX", session)
    assert _wire.REQUESTS_MAX == number("SESSION_REQUESTS", session)


def test_the_words_of_steps_are_the_programs():
    text = (ROOT / "host/words.c").read_text()
    table = text[text.index("[WIRE_STEP_NONE]"):text.index("/* What to try")]
    theirs = {}
    for name, strings in re.findall(
            r"\[WIRE_STEP_(\w+)\] = \{ \"\w+\", ((?:\"[^\"]*\"\s*)+)\}",
            table):
        theirs[name] = "".join(re.findall(r"\"([^\"]*)\"", strings))
    assert theirs == {s.name: w for s, w in _errors._WORDS.items()}


def test_the_words_of_errnos_are_the_programs():
    text = (ROOT / "host/words.c").read_text()
    for number, name, words in re.findall(
            r"\[(\d+)\] = \{ \"(\w+)\",\s+\"([^\"]+)\" \}", text):
        if int(number) in errno.errorcode and number in ("2", "13", "20",
                                                         "21", "28", "30"):
            assert _errors.words(_wire.Step.USAGE, "x", int(number)) == \
                f"x: {words} ({name})"


def test_what_reaches_the_controller_is_what_the_program_sends(monkeypatch):
    text = (ROOT / "host/client.c").read_text()
    names = text[text.index("names[] = {"):text.index("static bool\nwanted")]
    first, second = names.split("prefixes[]")
    assert re.findall(r'"(\w+)"', first) == list(_launch._ENV_NAMES)
    assert re.findall(r'"(\w+)"', second) == list(_launch._ENV_PREFIXES)
    monkeypatch.setenv("DOCKER_HOST", "tcp://x\udcff")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    sent = _launch.transport_env()
    assert b"DOCKER_HOST=tcp://x\xff" in sent
    assert os.fsencode(f"PATH={os.environ['PATH']}") in sent
    assert not any(b"hidden" in item for item in sent)


def test_the_version_is_the_programs():
    makefile = (ROOT / "Makefile").read_text()
    assert sandmux.__version__ == re.search(
        r"^VERSION := (\S+)", makefile, re.M).group(1)


@pytest.mark.parametrize("step", list(_wire.Step))
@pytest.mark.parametrize("starts", [True, False])
def test_every_step_is_an_error_of_ours(step, starts):
    error = _errors.failure(
        {"outcome": 4, "step": step, "error": 2, "text": b"thing\x1b[31m"},
        starts)
    assert isinstance(error, sandmux.SandmuxError)
    assert "thing" in str(error) and "\x1b" not in str(error)


def test_a_step_that_is_not_known_yet():
    error = _errors.failure({"outcome": 4, "step": 255, "error": 70000,
                             "text": b"new"}, True)
    assert isinstance(error, sandmux.ProtocolError) and "255" in str(error)

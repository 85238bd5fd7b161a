# SPDX-License-Identifier: MIT
"""Each field of each message is the same in PROTOCOL.md, wire.h, wire.c and
the frozen vectors: same tags, same order, same widths."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"K_U8": "u8", "K_U16": "u16", "K_U32": "u32", "K_U64": "u64",
         "K_I32": "i32", "K_BYTES": "f", "K_LIST": "list", "K_REST": "rest",
         "K_PAD": "zeros"}
# Messages whose struct in wire.h has another's name.
SAME = {"probe": "empty", "echo": "empty", "stop": "empty",
        "linkinfo": "empty", "jobs": "empty"}


def read(name):
    return (ROOT / name).read_text()


def documented():
    """{message: [(field, width)]} as PROTOCOL.md has it."""
    found = {}
    for message, field, kind in re.findall(
            r"\[([a-z_]+)\.([a-z_]+)\]\s+(\w+)", read("common/PROTOCOL.md")):
        found.setdefault(message, []).append((field, kind))
    return found


def in_table():
    """The same from wire.c's tables."""
    text, found = read("common/wire.c"), {}
    pattern = re.compile(
        r"\b[NB]\((K_\w+),\s*([a-z_]+),\s*([a-z_]+)"
        r'|\{\s*"\[([a-z_]+)\.([a-z_]+)\]",\s*(K_\w+)'
        r"|^EMPTY\(([a-z_]+)\)", re.M)
    for match in pattern.finditer(text):
        a, b, c, d, e, f, empty = match.groups()
        if empty:
            found.setdefault(empty, []).append(("unused", "u8"))
        else:
            message, field, kind = (b, c, a) if a else (d, e, f)
            found.setdefault(message, []).append((field, KINDS[kind]))
    return found


def in_header():
    """{struct: [field]} of wire.h."""
    found = {}
    for name, body in re.findall(r"struct wire_(\w+) \{[^\n]*\n(.*?)\n\};",
                                 read("common/wire.h"), re.S):
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        found[name] = [word.strip() for line in re.findall(
            r"(?:u?int\w+_t|struct \w+)\s+([\w, ]+);", body)
            for word in line.split(",")]
    return found


TAGS = sorted(f"[{m}.{f}]" for m, fields in documented().items()
              for f, _ in fields)


def test_protocol_and_table_agree():
    assert len(TAGS) > 80
    assert documented() == in_table()


def test_header_has_every_field():
    header = in_header()
    for message, fields in documented().items():
        struct = header[SAME.get(message, message)]
        assert [f for f, _ in fields] == struct, message


def test_vectors_have_every_field():
    texts = "".join(p.read_text(errors="replace")
                    for p in (ROOT / "tests/vectors").rglob("*")
                    if p.is_file())
    assert [tag for tag in TAGS if tag not in texts] == []

# SPDX-License-Identifier: MIT
"""The sealed link, spoken from PROTOCOL.md alone: both ends, honest or not.

It shares no code with common/*.c but libsodium, so that a test which passes
with it also says that the page describes the programs.
"""
import ctypes
import ctypes.util
import hashlib
import os
import select
import struct
import time

_sodium = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
if _sodium.sodium_init() < 0:
    raise RuntimeError("libsodium")

VERSIONS = "0001-0001"
OVERHEAD, HEADER, HELLO, READY_PLAIN = 17, 24, 122, 72
READY, RESUME, ACK, PING, PONG, CLOSE, TERMINAL = 1, 2, 3, 4, 5, 6, 7
OPEN, DATA, CREDIT, EOF, SIGNAL, RESIZE, RESULT, CANCEL, LOG = range(16, 25)
HELLO_MSG, WELCOME = 32, 33
EXEC, PUT, GET, PROBE, ECHO = 64, 65, 66, 67, 68
STATUS, STOP, LINKINFO = 80, 81, 82
TREE_INFO, ENTRY, CHUNK, ENTRY_END, SKIPPED = 104, 112, 113, 114, 115
FILE_INFO, START, PARTIAL = 97, 100, 101
TO_END = 2 ** 64 - 1
FILE, DIR, SYMLINK, HARDLINK = 1, 2, 3, 4


def f(data):
    return struct.pack(">I", len(data)) + data


def items(values):
    return f(struct.pack(">I", len(values)) + b"".join(f(v) for v in values))


def exec_body(argv, env=(), cwd=b"", flags=0, timeout_ms=0, grace_ms=1000,
              terminal=0):
    return (struct.pack(">BIQIHHIiII", EXEC, flags, timeout_ms, grace_ms, 0, 0,
                        0, 0, 0, terminal) + f(b"") + f(cwd) +
            items([os.fsencode(a) for a in argv]) +
            items([os.fsencode(e) for e in env]) + items([]) + items([]))


def entry(kind, name=b"", target=b"", mode=None, nanoseconds=0):
    """One message of a tree's stream, as the others here."""
    mode = mode if mode is not None else 0o755 if kind == DIR else 0o644
    return f(struct.pack(">BBIIIQI", ENTRY, kind, mode, 0, 0, 10 ** 9,
                         nanoseconds) + f(name) + f(target))


def chunk(data):
    return f(bytes([CHUNK]) + data)


def entry_end():
    return f(bytes([ENTRY_END, 0]))


def skipped(path, error=13):
    return f(struct.pack(">BI", SKIPPED, error) + f(path))


def tree_info(*counts):
    """entries, files, bytes, links, skipped"""
    return struct.pack(">BQQQQQ", TREE_INFO, *counts)


def start(flags=0, begin=0, size=0, extents=()):
    """What comes before a file's bytes; extents are (offset, length)."""
    return struct.pack(">BIQQ", START, flags, begin, size) + f(
        b"".join(struct.pack(">QQ", *e) for e in extents))


def partial(size, digest):
    return struct.pack(">BQ", PARTIAL, size) + f(digest)


def file_info(size=0, flags=1, mode=0o100644, digest=b"", mtime=10 ** 18):
    return struct.pack(">BIQIIIQQI", FILE_INFO, flags, size, mode, 0, 0,
                       mtime, 8, 1) + f(digest) + f(b"") + f(b"")


def open_frame(request, kind, body_len, out=1 << 40, err=1 << 40):
    return struct.pack(">BIBIQQ", OPEN, request, kind, body_len, out, err)


def data_frame(request, channel, offset, data):
    return struct.pack(">BIBQ", DATA, request, channel, offset) + data


def credit_frame(request, channel, limit):
    return struct.pack(">BIBQ", CREDIT, request, channel, limit)


def eof_frame(request, channel, total):
    return struct.pack(">BIBQ", EOF, request, channel, total)


def result_frame(request, outcome=0, code=0, step=0, error=0, taken=0, out=0,
                 err=0, text=b"", info=b""):
    return struct.pack(">BIBiBIQQQQBB", RESULT, request, outcome, code, step,
                       error, taken, out, err, 1, 0, 0) + f(text) + f(info)


def parse_result(frame):
    fields = struct.unpack_from(">IBiBIQQQQBB", frame, 1)
    names = ("request outcome code step error in out err wall_us new_agent "
             "detached").split()
    result = dict(zip(names, fields))
    at = 1 + struct.calcsize(">IBiBIQQQQBB")
    for name in ("text", "info"):
        (n,) = struct.unpack_from(">I", frame, at)
        result[name] = frame[at + 4:at + 4 + n]
        at += 4 + n
    assert at == len(frame)
    return result


def pong_frame(ping, busy=0):
    return bytes([PONG]) + ping[1:9] + bytes([busy])


def resume_frame(next_number=0, ping_ms=0, dead_ms=0, linger_ms=0):
    return struct.pack(">BQIII", RESUME, next_number, ping_ms, dead_ms,
                       linger_ms)


def close_frame(session, park_s=0):
    return struct.pack(">BBI", CLOSE, session, park_s)


# ---- keys and records --------------------------------------------------

def key_pair():
    public, secret = (ctypes.create_string_buffer(32) for _ in range(2))
    assert _sodium.crypto_kx_keypair(public, secret) == 0
    return public.raw, secret.raw


def _blake(key, *parts):
    return hashlib.blake2b(b"".join(parts), key=key, digest_size=32).digest()


class Keys:
    """One link's keys: role "host" or "core"; secret is S, zeros on link 1."""

    def __init__(self, role, pair, peer, terms, hello, secret=bytes(32)):
        versions, token, session, link, host_key = terms
        rx, tx = (ctypes.create_string_buffer(32) for _ in range(2))
        derive = (_sodium.crypto_kx_client_session_keys if role == "host"
                  else _sodium.crypto_kx_server_session_keys)
        assert derive(rx, tx, pair[0], pair[1], peer) == 0
        k_ha, k_ah = ((tx.raw, rx.raw) if role == "host"
                      else (rx.raw, tx.raw))
        t = hashlib.blake2b(
            f(b"sandmux-link-1") + f(versions) + f(token) + f(session) +
            f(struct.pack(">I", link)) + f(host_key) + f(hello),
            digest_size=32).digest()
        ha = _blake(k_ha, b"H", t, secret)
        ah = _blake(k_ah, b"A", t, secret)
        self.send_key, self.open_key = (ha, ah) if role == "host" else (ah,
                                                                        ha)
        self.secret = (_blake(k_ha, b"S", t, k_ah) if link == 1 else secret)


_STATE = _sodium.crypto_secretstream_xchacha20poly1305_statebytes()


class Sealer:
    def __init__(self, key):
        self.state = ctypes.create_string_buffer(_STATE)
        header = ctypes.create_string_buffer(HEADER)
        assert _sodium.crypto_secretstream_xchacha20poly1305_init_push(
            self.state, header, key) == 0
        self.header = header.raw

    def seal(self, plain, tag=0, length=None):
        """The record; length: what its length field says instead."""
        n = struct.pack(">I", len(plain) + OVERHEAD if length is None
                        else length)
        out = ctypes.create_string_buffer(len(plain) + OVERHEAD)
        assert _sodium.crypto_secretstream_xchacha20poly1305_push(
            self.state, out, None, plain, ctypes.c_ulonglong(len(plain)), n,
            ctypes.c_ulonglong(4), ctypes.c_ubyte(tag)) == 0
        return n + out.raw


class Opener:
    def __init__(self, key, header):
        self.state = ctypes.create_string_buffer(_STATE)
        assert _sodium.crypto_secretstream_xchacha20poly1305_init_pull(
            self.state, header, key) == 0

    def open(self, record):
        n, sealed = record[:4], record[4:]
        out = ctypes.create_string_buffer(max(1, len(sealed) - OVERHEAD))
        if _sodium.crypto_secretstream_xchacha20poly1305_pull(
                self.state, out, None, None, sealed,
                ctypes.c_ulonglong(len(sealed)), n, ctypes.c_ulonglong(4)):
            return None
        return out.raw[:len(sealed) - OVERHEAD]


# ---- ends --------------------------------------------------------------

class Dead(Exception):
    """The far end is gone, or what it says does not open."""


class End:
    """Records over two descriptors; frames are numbered by itself."""

    def __init__(self, fd_in, fd_out):
        self.fd_in, self.fd_out = fd_in, fd_out
        self.buffer = b""
        self.next = self.expected = 0
        self.sealer = self.opener = None
        self.last = b""         # the last record sent
        self.sent = {}          # session frames by number

    def raw(self, data):
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.fd_out, view):]
            except BlockingIOError:
                select.select([], [self.fd_out], [], 1)
            except OSError as e:
                raise Dead(str(e)) from e

    def frame(self, frame, number=None, **how):
        """Seal and send; link frames get number 0."""
        self.raw(self.record(frame, number, **how))

    def record(self, frame, number=None, **how):
        if number is None and frame[0] >= OPEN:
            number, self.next = self.next, self.next + 1
            self.sent[number] = frame
        self.last = self.sealer.seal(struct.pack(">Q", number or 0) + frame,
                                     **how)
        return self.last

    def more(self, timeout):
        if not select.select([self.fd_in], [], [], max(0, timeout))[0]:
            raise TimeoutError
        try:
            data = os.read(self.fd_in, 1 << 20)
        except OSError as e:
            raise Dead(str(e)) from e
        if not data:
            raise Dead("end of input")
        self.buffer += data

    def take(self, n, until):
        while len(self.buffer) < n:
            self.more(until - time.monotonic())
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def receive(self, timeout=10):
        """The next (number, frame); raises Dead or TimeoutError."""
        until = time.monotonic() + timeout
        while len(self.buffer) < 4:
            self.more(until - time.monotonic())
        (n,) = struct.unpack(">I", self.buffer[:4])
        plain = self.opener.open(self.take(4 + n, until))
        if plain is None:
            raise Dead("a record does not open")
        (number,) = struct.unpack(">Q", plain[:8])
        frame = plain[8:]
        if frame[0] >= OPEN:
            assert number == self.expected
            self.expected += 1
        return number, frame

    def wanted(self, kind, timeout=10, request=None):
        """The next frame of that type (for that request)."""
        until = time.monotonic() + timeout
        while True:
            _, frame = self.receive(until - time.monotonic())
            if frame[0] == PING:
                self.frame(pong_frame(frame))
            if frame[0] == kind and (request is None or request ==
                                     struct.unpack_from(">I", frame, 1)[0]):
                return frame

    def ack(self):
        self.frame(struct.pack(">BQ", ACK, self.expected))


class Host(End):
    """The controller's end; words() is argv for the agent.  first: the host
    of link 1, whose session this one belongs to."""

    def __init__(self, link=1, first=None):
        super().__init__(-1, -1)
        self.pair = key_pair()
        session = first.terms[2] if first else os.urandom(16).hex().encode()
        self.secret = first.keys.secret if first else bytes(32)
        self.terms = (VERSIONS.encode(), os.urandom(16).hex().encode(),
                      session, link, self.pair[0])
        self.keys = None

    def words(self):
        versions, token, session, link, key = self.terms
        return [versions.decode(), token.decode(), session.decode(),
                f"{link:08x}", key.hex()]

    def meet(self, timeout=10):
        """Read hello and READY; what came before is returned."""
        until = time.monotonic() + timeout
        token = self.terms[1]
        while True:
            at = self.buffer.find(b"SANDMUX-HELLO ")
            if (at >= 0 and len(self.buffer) >= at + HELLO + HEADER + 4 +
                    READY_PLAIN + OVERHEAD):
                break
            self.more(until - time.monotonic())
        noise, self.buffer = self.buffer[:at], self.buffer[at:]
        hello = self.take(HELLO, until)
        assert hello.split()[2] == token
        self.keys = Keys("host", self.pair, bytes.fromhex(
            hello.split()[3].decode()), self.terms, hello, self.secret)
        self.opener = Opener(self.keys.open_key, self.take(HEADER, until))
        number, ready = self.receive()
        assert number == 0 and ready[0] == READY and len(ready) == 64
        assert struct.unpack_from(">HI", ready, 1) == (1, self.terms[3])
        self.sealer = Sealer(self.keys.send_key)
        return noise

    def begin(self, ping_ms=5000, dead_ms=20000, linger_ms=0):
        """RESUME; on a later link from where the one before has come."""
        self.raw(self.sealer.header + self.record(
            resume_frame(self.expected, ping_ms, dead_ms, linger_ms)))

    def go_on(self, last):
        """The session that link `last` had: its numbers, its frames."""
        self.next, self.expected = last.next, last.expected
        self.sent = last.sent

    def resume(self, last, **times):
        """Take the session over from link `last`, after meet()."""
        self.go_on(last)
        self.begin(**{"linger_ms": 60000, **times})
        self.again(self.wanted(RESUME))

    def again(self, answer):
        """Send again what the core's RESUME says is missing."""
        for number in range(struct.unpack_from(">Q", answer, 1)[0],
                            self.next):
            self.frame(self.sent[number], number)

    def request(self, request, kind, body, out=1 << 40, err=1 << 40):
        self.frame(open_frame(request, kind, len(body), out, err))
        self.frame(data_frame(request, 0, 0, body))

    def run(self, request, argv, timeout=20, **how):
        """EXEC: its result, with what came on channels 2 and 3."""
        self.request(request, EXEC, exec_body(argv, **how))
        out = {2: b"", 3: b""}
        until = time.monotonic() + timeout
        while True:
            _, frame = self.receive(until - time.monotonic())
            if frame[0] == DATA and frame[1:5] == struct.pack(">I", request):
                out[frame[5]] += frame[14:]
            elif frame[0] == PING:
                self.frame(pong_frame(frame))
            elif frame[0] == RESULT and frame[1:5] == struct.pack(">I",
                                                                 request):
                self.ack()
                return {**parse_result(frame), 2: out[2], 3: out[3]}


class Agent(End):
    """The core's end for argv's five words."""

    def __init__(self, words, fd_in=0, fd_out=1):
        super().__init__(fd_in, fd_out)
        versions, token, session, link, key = words
        self.terms = (versions.encode(), token.encode(), session.encode(),
                      int(link, 16), bytes.fromhex(key))
        self.pair = key_pair()
        self.hello = (f"SANDMUX-HELLO {VERSIONS} {token} "
                      f"{self.pair[0].hex()}\n").encode()
        self.keys = Keys("core", self.pair, self.terms[4], self.terms,
                         self.hello)
        self.sealer = Sealer(self.keys.send_key)

    def ready(self, version=1, link=None, pad=b""):
        body = struct.pack(">BHIIB", READY, version,
                           self.terms[3] if link is None else link,
                           os.getuid(), 0) + pad
        return self.record(body.ljust(64, b"\0"))

    def preamble(self):
        return self.hello + self.sealer.header + self.ready()

    def begin(self, timeout=20):
        """Hello, READY, and the host's RESUME answered."""
        self.raw(self.preamble())
        until = time.monotonic() + timeout
        self.opener = Opener(self.keys.open_key, self.take(HEADER, until))
        _, frame = self.receive(until - time.monotonic())
        assert frame[0] == RESUME
        self.frame(resume_frame(0))

    def opened(self, timeout=20):
        """The next OPEN: (request, kind)."""
        frame = self.wanted(OPEN, timeout)
        return struct.unpack_from(">IB", frame, 1)

# SPDX-License-Identifier: MIT
"""A controller of our own making on the client socket: for versions that do
not exist yet, and for everything a hostile one could say."""
import fcntl
import os
import socket
import struct
import threading

OPEN, DATA, CREDIT, EOF, RESULT, CANCEL, LOG = 16, 17, 18, 19, 22, 23, 24
SIGNAL, RESIZE = 20, 21
HELLO, WELCOME = 32, 33
EXEC, PUT, GET, JOBS, KILL, ATTACH = 64, 65, 66, 69, 70, 71
EXEC_INFO, JOB = 98, 99
MAX64 = (1 << 64) - 1


def f(data):
    return struct.pack(">I", len(data)) + data


def welcome(version=1, busy=0, program=b"0.0.1", pid=None):
    return struct.pack(">BHII", WELCOME, version, pid or os.getpid(),
                       busy) + f(program)


def data(request, payload, channel=2, offset=0):
    return struct.pack(">BIBQ", DATA, request, channel, offset) + payload


def result(request, outcome=0, code=0, step=0, error=0, out=0, err=0,
           text=b"", info=b"", taken=0):
    return struct.pack(">BIBiBIQQQQBB", RESULT, request, outcome, code, step,
                       error, taken, out, err, 1000, 0, 0) + f(text) + f(info)


# What a file's bytes follow: from its first one, size unknown, no holes.
START = f(struct.pack(">BIQQ", 100, 0, 0, 0) + f(b""))


def file_info(size, mode):
    return struct.pack(">BIQIIIQQI", 97, 0, size, mode, 0, 0, 0, 0, 1) + \
        f(b"") + f(b"") + f(b"")


def exec_info(job=1, flags=0, uid=0, user_us=0, system_us=0, read=0,
              written=0, peak=0, out_from=0, err_from=0, cwd=b"",
              survivors=()):
    return struct.pack(">BIIIQQQQQQQ", EXEC_INFO, job, flags, uid, user_us,
                       system_us, read, written, peak, out_from,
                       err_from) + f(cwd) + items(survivors)


def job(number=1, state=0, outcome=0, code=0, uid=0, pid=1, processes=1,
        age_us=0, cpu_us=0, detached=0, terminal=0, user=b"",
        command=b"sleep 9"):
    """As it stands in JOBS' answer."""
    return f(struct.pack(">BIBBiIIIQQBB", JOB, number, state, outcome, code,
                         uid, pid, processes, age_us, cpu_us, detached,
                         terminal) + f(user) + f(command))


def items(things):
    things = list(things)
    return f(struct.pack(">I", len(things)) + b"".join(map(f, things)))


class Body:
    """A request's body, field by field."""

    def __init__(self, raw):
        self.rest = raw
        self.kind, = self.take(">B")
        fields = {
            EXEC: [("flags", ">I"), ("timeout_ms", ">Q"), ("grace_ms", ">I"),
                   ("rows", ">H"), ("columns", ">H"), ("umask", ">I"),
                   ("nice", ">i"), ("keep", ">I"), ("terminal", ">I"),
                   ("user", f), ("cwd", f),
                   ("argv", items), ("env", items), ("unset", items),
                   ("limits", items)],
            PUT: [("flags", ">I"), ("mode", ">I"), ("uid", ">I"),
                  ("gid", ">I"), ("mtime", ">Q"), ("user", f), ("path", f),
                  ("name", f)],
            GET: [("flags", ">I"), ("offset", ">Q"), ("length", ">Q"),
                  ("have", ">Q"), ("user", f), ("path", f), ("hash", f)],
            JOBS: [("unused", ">B")],
            KILL: [("job", ">I"), ("signal", ">B")],
            ATTACH: [("job", ">I"), ("flags", ">I"), ("out", ">Q"),
                     ("err", ">Q")],
        }[self.kind]
        for name, form in fields:
            setattr(self, name, self.bytes() if form is f else
                    self.list() if form is items else self.take(form)[0])
        assert self.rest == b""

    def take(self, form):
        n = struct.calcsize(form)
        head, self.rest = self.rest[:n], self.rest[n:]
        return struct.unpack(form, head)

    def bytes(self):
        n, = self.take(">I")
        head, self.rest = self.rest[:n], self.rest[n:]
        return head

    def list(self):
        inner = Body.__new__(Body)
        inner.rest = self.bytes()
        count, = inner.take(">I")
        found = [inner.bytes() for _ in range(count)]
        assert inner.rest == b""
        return found


class Hello:
    def __init__(self, frame):
        (kind, self.min, self.max, self.flags) = struct.unpack(
            ">BHHI", frame[:9])
        assert kind == HELLO
        self.program, rest = self.take(frame[9:])
        self.target, rest = self.take(rest)
        items, rest = self.take(rest)
        assert rest == b""
        count, = struct.unpack(">I", items[:4])
        items, self.env = items[4:], {}
        for _ in range(count):
            item, items = self.take(items)
            name, _, value = item.partition(b"=")
            self.env[name] = value

    @staticmethod
    def take(rest):
        n, = struct.unpack(">I", rest[:4])
        return rest[4:4 + n], rest[4 + n:]


class Connection:
    def __init__(self, sock):
        self.sock = sock

    def read(self):
        """The next frame; None at the end."""
        head = self.exactly(4)
        return None if head is None else self.exactly(
            struct.unpack(">I", head)[0])

    def exactly(self, n):
        got = b""
        while len(got) < n:
            piece = self.sock.recv(n - len(got))
            if not piece:
                return None
            got += piece
        return got

    def say(self, *frames):
        self.sock.sendall(b"".join(f(x) for x in frames))

    def raw(self, data):
        self.sock.sendall(data)

    def until_open(self):
        """Read up to an OPEN; its request id."""
        while True:
            frame = self.read()
            if frame is None or frame[0] == OPEN:
                return struct.unpack(">I", frame[1:5])[0] if frame else None

    def request(self):
        """The next request: its id and its Body.  What came before the
        body was complete is in self.early."""
        number, size, got = None, 0, b""
        self.early = []
        while number is None or len(got) < size:
            frame = self.read()
            if frame is None:
                return None, None
            if frame[0] == OPEN:
                number, _, size = struct.unpack(">IBI", frame[1:10])
            elif frame[0] == DATA and frame[5] == 0:
                got += frame[14:]
            else:
                self.early.append(frame)
        return number, Body(got)

    def drain(self):
        try:
            while self.sock.recv(65536):
                pass
        except OSError:
            pass


class FakeController:
    """Serves directory/socket; serve(hello, connection) for each client."""

    def __init__(self, directory, serve):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.path = os.path.join(directory, "socket")
        # A real one would take the place of one that does not hold this.
        self.lock = open(os.path.join(directory, "lock"), "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.serve = serve
        self.hellos = []
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(sock,),
                             daemon=True).start()

    def one(self, sock):
        with sock:
            connection = Connection(sock)
            frame = connection.read()
            if frame is None:
                return
            hello = Hello(frame)
            self.hellos.append(hello)
            try:
                self.serve(hello, connection)
            except OSError:
                pass

    def close(self):
        """Stop listening; the socket's file stays, stale."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.lock.close()

#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""An agent that lies: `hostile_agent.py MODE start WORDS...` on stdio.

Started by the stand-in docker program of test_hostile_agent.py in place of
the real one.  Each mode is one function: those of BEFORE act before READY,
those of AFTER when a request is open (its number is given).  FALLS_SILENT
and the like stay until they are killed.
"""
import json
import os
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sealed  # noqa: E402
from sealed import (ACK, EXEC, LOG, OPEN, PING, READY,  # noqa: E402
                    Agent, credit_frame, data_frame, eof_frame,
                    result_frame, resume_frame)

ESCAPES = b"\x1b]0;owned\x07\x1b[2J\r\nsandmux: all is well\x9b1m\xff\x00x"


def sleep():
    time.sleep(600)


# ---- before READY --------------------------------------------------------

def exits_at_once(a):
    sys.exit(3)


def dies_at_once(a):
    os.kill(os.getpid(), 9)


def noise_and_exit(a):
    a.raw((b"profile says \x00\xff\x1b[31m" * 15000)[:204800])
    sys.exit(7)


def noise_for_ever(a):
    while True:
        a.raw(os.urandom(65536))


def silent(a):
    sleep()


def half_a_hello(a):
    a.raw(a.hello[:61])
    sleep()


def hello_alone(a):
    a.raw(a.hello)
    sleep()


def copies(a):
    """What argv shows is all that is needed for a hello; READY is not."""
    for _ in range(70):
        a.raw(a.hello + os.urandom(117))
    sleep()


def another_token(a):
    a.raw(a.hello.replace(a.terms[1], b"f" * 32) + a.sealer.header +
          a.ready())
    sleep()


def changed_ready(a):
    data = bytearray(a.preamble())
    data[-1] ^= 1
    a.raw(bytes(data))
    sleep()


def wrong_link_number(a):
    a.raw(a.hello + a.sealer.header + a.ready(link=2))
    sleep()


def wrong_version_in_ready(a):
    a.raw(a.hello + a.sealer.header + a.ready(version=2))
    sleep()


def padded_ready(a):
    a.raw(a.hello + a.sealer.header + a.ready(pad=b"\0\0\1"))
    sleep()


def not_ready(a):
    a.raw(a.hello + a.sealer.header + a.record(b"\x04" + bytes(63)))
    sleep()


def other_versions(a):
    a.raw(a.hello.replace(b" 0001-0001 ", b" 0007-0009 "))
    sys.exit(0)


def zero_key(a):
    a.raw(a.hello[:58] + b"0" * 64 + b"\n" + bytes(200))
    sleep()


def replay(a):
    """A recorded link, behind the token of today."""
    old = pathlib.Path(os.environ["DOCKER_HOSTILE"], "recorded").read_bytes()
    at = old.index(b"SANDMUX-HELLO ")
    a.raw(old + old[:at + 24] + a.terms[1] + old[at + 56:])
    sleep()


def replay_as_it_was(a):
    a.raw(pathlib.Path(os.environ["DOCKER_HOSTILE"],
                       "recorded").read_bytes())
    sleep()


BEFORE = [exits_at_once, dies_at_once, noise_and_exit, noise_for_ever,
          silent, half_a_hello, hello_alone, copies, another_token,
          changed_ready, wrong_link_number, wrong_version_in_ready,
          padded_ready, not_ready, other_versions, zero_key, replay,
          replay_as_it_was]


# ---- after READY: the link must end -------------------------------------

def exits_in_the_middle(a, request):
    sys.exit(0)


def dies_in_the_middle(a, request):
    os.kill(os.getpid(), 9)


def says_it_is_exited(a, request):
    """No RESULT, only an exit status that looks like success."""
    a.frame(data_frame(request, 2, 0, b"all done\n"))
    sys.exit(0)


def falls_silent(a, request):
    sleep()


def garbage(a, request):
    a.raw(os.urandom(100000))
    sleep()


def text(a, request):
    a.raw(b"bash: " + ESCAPES * 10 + b"\n")
    sleep()


def length_zero(a, request):
    a.raw(bytes(4))
    sleep()


def length_huge(a, request):
    a.raw(b"\xff\xff\xff\xff" + bytes(100000))
    sleep()


def length_over(a, request):
    a.raw(struct.pack(">I", 32765) + bytes(32765))
    sleep()


def truncated(a, request):
    a.raw(a.record(data_frame(request, 2, 0, b"x" * 1000))[:500])
    sys.exit(0)


def truncated_and_silent(a, request):
    a.raw(a.record(data_frame(request, 2, 0, b"x" * 1000))[:500])
    sleep()


def flipped(a, request):
    record = bytearray(a.record(data_frame(request, 2, 0, b"x" * 100)))
    record[60] ^= 64
    a.raw(bytes(record))
    sleep()


def replayed(a, request):
    a.frame(data_frame(request, 2, 0, b"x"))
    a.raw(a.last)
    sleep()


def dropped(a, request):
    a.record(data_frame(request, 2, 0, b"x"))
    a.frame(data_frame(request, 2, 1, b"y"))
    sleep()


def reordered(a, request):
    one = a.record(data_frame(request, 2, 0, b"x"))
    a.raw(a.record(data_frame(request, 2, 1, b"y")) + one)
    sleep()


def final_tag(a, request):
    a.frame(data_frame(request, 2, 0, b"x"), tag=3)
    sleep()


def unknown_type(a, request):
    a.frame(b"\x0e")
    sleep()


def unknown_session_type(a, request):
    a.frame(b"\x30" + bytes(8), number=a.next)
    sleep()


def skipped_number(a, request):
    a.frame(data_frame(request, 2, 0, b"x"), number=a.next + 1)
    sleep()


def numbered_for_ever(a, request):
    a.frame(data_frame(request, 2, 0, b"x"), number=2 ** 64 - 1)
    sleep()


def opens(a, request):
    a.frame(sealed.open_frame(1000, EXEC, 10))
    sleep()


def cancels(a, request):
    a.frame(struct.pack(">BI", sealed.CANCEL, request))
    sleep()


def signals(a, request):
    a.frame(struct.pack(">BIB", sealed.SIGNAL, request, 9))
    sleep()


def ready_again(a, request):
    a.frame(bytes([READY]) + bytes(63))
    sleep()


def resume_again(a, request):
    a.frame(resume_frame())
    sleep()


def hello_frame(a, request):
    a.frame(b"\x20" + bytes(24), number=a.next)
    sleep()


def body_frame(a, request):
    a.frame(b"\x43\0", number=a.next)
    sleep()


def ack_ahead(a, request):
    a.frame(struct.pack(">BQ", ACK, 1 << 60))
    sleep()


def beyond_credit(a, request):
    a.frame(data_frame(request, 2, 0, bytes(8193)))
    sleep()


def far_beyond_credit(a, request):
    sent = 0
    while True:
        a.frame(data_frame(request, 2, sent, bytes(32000)))
        sent += 32000


def wrong_offset(a, request):
    a.frame(data_frame(request, 2, 1 << 62, b"x"))
    sleep()


def wrong_channel(a, request):
    a.frame(data_frame(request, 0, 0, b"x"))
    sleep()


def channel_77(a, request):
    a.frame(data_frame(request, 77, 0, b"x"))
    sleep()


def empty_data(a, request):
    a.frame(data_frame(request, 2, 0, b""))
    sleep()


def data_after_end(a, request):
    a.frame(data_frame(request, 2, 0, b"x"))
    a.frame(eof_frame(request, 2, 1))
    a.frame(data_frame(request, 2, 1, b"y"))
    sleep()


def end_twice(a, request):
    a.frame(eof_frame(request, 2, 0))
    a.frame(eof_frame(request, 2, 0))
    sleep()


def wrong_total(a, request):
    a.frame(eof_frame(request, 2, 1 << 40))
    sleep()


def result_of_nobody(a, request):
    a.frame(result_frame(4000))
    sleep()


def result_of_zero(a, request):
    a.frame(result_frame(0))
    sleep()


def result_too_much(a, request):
    """It says that there was output; none came."""
    a.frame(result_frame(request, out=1000))
    sleep()


def result_too_little(a, request):
    a.frame(data_frame(request, 2, 0, b"x" * 10))
    a.frame(result_frame(request, out=5))
    sleep()


def unknown_outcome(a, request):
    a.frame(result_frame(request, outcome=99))
    sleep()


def long_text(a, request):
    a.frame(result_frame(request, outcome=4, step=1, text=b"x" * 1025))
    sleep()


def list_lies(a, request):
    frame = result_frame(request)
    a.frame(frame[:-8] + b"\x7f\xff\xff\xff" + frame[-4:])
    sleep()


def closes_session(a, request):
    a.frame(sealed.close_frame(1))
    sleep()


def closes_link(a, request):
    a.frame(sealed.close_frame(0, 7))
    sleep()


AFTER = [exits_in_the_middle, dies_in_the_middle, says_it_is_exited,
         falls_silent, garbage, text, length_zero,
         length_huge, length_over, truncated, truncated_and_silent, flipped,
         replayed, dropped, reordered, final_tag, unknown_type,
         unknown_session_type, skipped_number, numbered_for_ever, opens,
         cancels, signals, ready_again, resume_again, hello_frame,
         body_frame, ack_ahead, beyond_credit, far_beyond_credit,
         wrong_offset, wrong_channel, channel_77, empty_data,
         data_after_end, end_twice, wrong_total, result_of_nobody,
         result_of_zero, result_too_much, result_too_little,
         unknown_outcome, long_text, list_lies, closes_session, closes_link]


# ---- lies within the rules: the link stays -------------------------------

def serve(a, act):
    """Answer keepalive; call act(request, kind) for each OPEN."""
    while True:
        _, frame = a.receive(600)
        if frame[0] == PING:
            a.frame(sealed.pong_frame(frame))
        elif frame[0] == OPEN:
            act(*struct.unpack_from(">IB", frame, 1))
            a.ack()


def never_answers(a):
    serve(a, lambda request, kind: None)


def floods_log(a):
    def act(request, kind):
        for i in range(3000):
            a.frame(bytes([LOG, i % 4]) + sealed.f(ESCAPES + b"x" * 900))
        a.frame(result_frame(request, code=9))
    serve(a, act)


def floods_control(a):
    """Pings and credit by the ten thousand, then the answer."""
    def act(request, kind):
        for i in range(20000):
            a.frame(struct.pack(">BQ", PING, i))
            a.frame(credit_frame(request, 1, i))
        a.frame(credit_frame(request, 1, (1 << 64) - 1))
        a.frame(result_frame(request, code=9))
    serve(a, act)


def answers_with_escapes(a):
    serve(a, lambda request, kind: a.frame(result_frame(
        request, outcome=4, step=8, error=2, text=ESCAPES)))


def answers_nonsense(a):
    """Codes, steps, errnos and infos that no agent would send."""
    serve(a, lambda request, kind: a.frame(result_frame(
        request, outcome=request % 5, code=-2 ** 31 + request,
        step=200 + request % 50, error=0xffffffff, taken=2 ** 64 - 1,
        text=bytes(range(256)) * 4, info=os.urandom(16000))))


def answers_as_controller(a):
    """Failures that only a controller may report: link, start, target, ..."""
    steps = [12, 13, 14, 16, 17, 34, 35, 36, 37]
    serve(a, lambda request, kind: a.frame(result_frame(
        request, outcome=4, step=steps[request % len(steps)],
        text=b"run it again")))


def drips(a):
    """All of it byte by byte, the end as it should be."""
    def act(request, kind):
        for frame in (data_frame(request, 2, 0, b"slow\n"),
                      result_frame(request, out=5)):
            for byte in a.record(frame):
                a.raw(bytes([byte]))
                time.sleep(0.002)
    serve(a, act)


def forgets_requests(a):
    """Frames for requests that are over are dropped, not an error."""
    def act(request, kind):
        a.frame(result_frame(request))
        a.frame(data_frame(request, 2, 0, b"late"))
        a.frame(credit_frame(request, 0, 1 << 40))
        a.frame(result_frame(request, code=77))
    serve(a, act)


def waits_for_body(a):
    """No credit for the body, ever."""
    never_answers(a)


def talks_only(a):
    """It asks for answers for ever and reads none of them."""
    a.opened(60)
    for i in range(1000000):
        a.frame(struct.pack(">BQ", PING, i))
        if i > 20000:
            time.sleep(0.05)


def stops_reading(a):
    """It talks, so it lives; it takes all of a request's input, it says, and
    then reads nothing more."""
    request, _ = a.opened(60)
    for channel in (0, 1):
        a.frame(credit_frame(request, channel, 1 << 40))
    for i in range(1000000):
        a.frame(struct.pack(">BQ", PING, i))
        time.sleep(0.05)


WITHIN = [never_answers, talks_only, stops_reading, floods_log, floods_control,
          answers_with_escapes, answers_nonsense,
          answers_as_controller, drips, forgets_requests,
          waits_for_body]


# ---- copies: a flow as the test has written it ----------------------------

class Flow:
    """OUT of a request, within its credit."""

    def __init__(self, a, frame):
        self.a, self.sent = a, 0
        self.request, _, _, self.limit, _ = struct.unpack(">IBIQQ", frame[1:])

    def send(self, data):
        """False: nobody wants it any more."""
        while data:
            n = min(self.limit - self.sent, len(data), 32000)
            if n > 0:
                self.a.frame(data_frame(self.request, 2, self.sent, data[:n]))
                self.sent += n
                data = data[n:]
                continue
            frame = self.a.receive(600)[1]
            if frame[0] == PING:
                self.a.frame(sealed.pong_frame(frame))
            elif frame[0] == sealed.CANCEL:
                return False
            elif frame[0] == sealed.CREDIT and frame[1:6] == struct.pack(
                    ">IB", self.request, 2):
                self.limit = struct.unpack_from(">Q", frame, 6)[0]
                self.a.ack()
        return True


def told(name):
    return pathlib.Path(os.environ["DOCKER_HOSTILE"], name).read_bytes()


def tree_served(a, after):
    """The stream of the file `tree`; after(flow, sent whole)."""
    while True:
        flow = Flow(a, a.wanted(OPEN, 600))
        after(flow, flow.send(told("tree")))
        a.ack()


def sends_tree(a):
    """And a RESULT whose TREE_INFO is the file `info`."""
    tree_served(a, lambda flow, whole: a.frame(result_frame(
        flow.request, outcome=0 if whole else 3, out=flow.sent,
        info=told("info"))))


def sends_tree_and_fails(a):
    tree_served(a, lambda flow, whole: a.frame(result_frame(
        flow.request, outcome=4, step=9, error=5, out=flow.sent,
        text=ESCAPES)))


def sends_tree_and_dies(a):
    tree_served(a, lambda flow, whole: os.kill(os.getpid(), 9))


def sends_tree_without_end(a):
    """The file `again`, numbered, behind it for ever."""
    def after(flow, whole):
        tail, n = told("again"), 0
        while whole:
            whole = flow.send(b"".join(tail % (n + i) for i in range(100)))
            n += 100
        a.frame(result_frame(flow.request, outcome=3, out=flow.sent))
    tree_served(a, after)


# ---- PUT: OUT is the file `tree`, IN is taken as the file `how` says --------

# When IN is enough (its bytes so far, all of them), what is told of it.
HOW = {
    b"whole": (lambda n, whole: whole, 0),
    b"nothing": (lambda n, whole: True, 0),
    b"half": (lambda n, whole: n > 100000, 0),
    b"a byte more": (lambda n, whole: whole, 1),
    b"a byte less": (lambda n, whole: whole, -1),
}


def takes_file(a):
    """A RESULT of success with the file `info`."""
    while True:
        flow = Flow(a, a.wanted(OPEN, 600))
        outcome = 0 if flow.send(told("tree")) else 3
        enough, lie = HOW[told("how")]
        a.frame(credit_frame(flow.request, 1, 1 << 40))
        n, whole = 0, False
        while outcome == 0 and not enough(n, whole):
            frame = a.receive(600)[1]
            if frame[0] == PING:
                a.frame(sealed.pong_frame(frame))
            elif frame[0] == sealed.CANCEL:
                outcome = 3
            elif frame[0] in (sealed.DATA, sealed.EOF) and frame[5] == 1:
                whole = frame[0] == sealed.EOF
                n += 0 if whole else len(frame) - 14
                a.ack()
        a.frame(result_frame(flow.request, outcome=outcome, taken=n + lie,
                             out=flow.sent, info=told("info")))
        a.ack()


# ---- answers about jobs, as the test has written them ---------------------

def tells(a):
    """The file `lie`: for each kind of request, or "0" for all others, what
    goes to OUT and what RESULT says, bytes as hex."""
    while True:
        frame = a.wanted(OPEN, 600)
        flow = Flow(a, frame)
        lies = json.loads(told("lie"))
        lie = dict(lies.get(str(frame[5]), lies["0"]))
        flow.send(bytes.fromhex(lie.pop("data", "")))
        for name in ("text", "info"):
            lie[name] = bytes.fromhex(lie.get(name, ""))
        a.frame(result_frame(flow.request, **{"out": flow.sent, **lie}))
        a.ack()


def tells_without_end(a):
    """The file `lie` on OUT, again and again."""
    while True:
        flow, lie = Flow(a, a.wanted(OPEN, 600)), told("lie")
        while flow.send(lie):
            pass
        a.frame(result_frame(flow.request, outcome=3, out=flow.sent))
        a.ack()


# ---- good manners, for what is needed beside ----------------------------

def keeps_secret(a):
    """Tell the test what S is, then answer everything with success."""
    def act(request, kind):
        a.frame(result_frame(request))
    pathlib.Path(os.environ["DOCKER_HOSTILE"], "secret").write_text(
        a.keys.secret.hex())
    serve(a, act)


def main():
    mode, words = sys.argv[1], sys.argv[3:8]
    act = globals()[mode]
    a = Agent(words)
    if act in BEFORE:
        act(a)
        return
    a.begin()
    if act in AFTER:
        request, _ = a.opened(60)
        time.sleep(0.2)     # others get in, too
        act(a, request)
    else:
        act(a)


if __name__ == "__main__":
    try:
        main()
    except (sealed.Dead, TimeoutError):
        sys.exit(1)

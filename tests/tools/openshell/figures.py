#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""figures: what the relay of an openshell CLI does, beside the real one's.

usage: figures.py OPENSHELL PROBE [IMAGE]

Makes a sandbox of its own and deletes it.  The figures of the real one were
measured on another machine: only their order of size can be compared.
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from channel import Channel, pattern_fast, run  # noqa: E402

SIZE = 64 << 20


class Bench:
    def __init__(self, cli, probe, image):
        self.cli = cli
        self.name = f"fig-{os.getpid()}"
        start = time.monotonic()
        status, _, err = run([cli, "sandbox", "create", "--name", self.name,
                              "--from", image, "--detach", "--", "sleep",
                              "infinity"])
        self.create_s = time.monotonic() - start
        if status != 0:
            raise SystemExit(err.decode())
        with open(probe, "rb") as f:
            status, _, err = run(
                self.argv("bash", "-c",
                          "cat >/tmp/probe && chmod 755 /tmp/probe"),
                f.read())
        if status != 0:
            raise SystemExit(err.decode())

    def argv(self, *cmd, flags=()):
        return [self.cli, "sandbox", "exec", "-n", self.name, *flags, "--",
                *cmd]

    def channel(self, *cmd):
        ch = Channel(self.argv("/tmp/probe", *cmd, flags=["--tty"]))
        ch.ready()
        return ch

    def delete(self):
        run([self.cli, "sandbox", "delete", self.name])

    def exec_ms(self):
        times = []
        for _ in range(20):
            start = time.monotonic()
            run(self.argv("true"))
            times.append(time.monotonic() - start)
        return sorted(times)[10] * 1e3

    def round_trip_ms(self):
        ch = self.channel("echo")
        times = []
        for _ in range(1000):
            start = time.monotonic()
            ch.write(b"x" * 64)
            ch.read_exact(64)
            times.append(time.monotonic() - start)
        ch.close()
        times.sort()
        return times[0] * 1e3, times[len(times) // 2] * 1e3

    def up(self):
        ch = self.channel("sink", str(SIZE))
        data = pattern_fast(SIZE)
        start = time.monotonic()
        ch.write(data)
        assert ch.read_until(b"\n") == b"GOT %d\n" % SIZE
        took = time.monotonic() - start
        ch.close()
        return SIZE / 1e6 / took

    def down(self):
        ch = self.channel("source", str(SIZE))
        start = time.monotonic()
        assert ch.read_exact(SIZE) == pattern_fast(SIZE)
        took = time.monotonic() - start
        ch.close()
        return SIZE / 1e6 / took

    def both(self):
        ch = self.channel("both", str(SIZE))
        data = pattern_fast(SIZE)
        start = time.monotonic()
        th = threading.Thread(target=ch.write, args=(data,))
        th.start()
        assert ch.read_exact(SIZE) == data
        assert ch.read_until(b"\n") == b"GOT %d\n" % SIZE
        took = time.monotonic() - start
        th.join()
        ch.close()
        return SIZE / 1e6 / took

    def queued(self):
        """What waits between a fast writer and a fast reader."""
        ch = self.channel("sink", str(SIZE))
        data = pattern_fast(SIZE)
        start = time.monotonic()
        ch.write(data)
        written = time.monotonic()
        ch.read_until(b"\n")
        end = time.monotonic()
        ch.close()
        return (end - written) * SIZE / (end - start) / (1 << 20)

    def cpu(self):
        """Seconds of the machine's CPUs that one second of relay takes."""
        def busy():
            with open("/proc/stat") as f:
                v = [int(x) for x in f.readline().split()[1:8]]
            return (sum(v) - v[3] - v[4]) / os.sysconf("SC_CLK_TCK")
        before, start = busy(), time.monotonic()
        self.down()
        return (busy() - before) / (time.monotonic() - start)


def rows(b):
    """(what, the real one's figure, what b has) of each that is compared."""
    low, median = b.round_trip_ms()
    yield "exec true, ms", 25.4, b.exec_ms()
    yield "round trip of 64 bytes, least, ms", 0.54, low
    yield "round trip of 64 bytes, median, ms", 0.74, median
    yield "up, MB/s", 78, b.up()
    yield "down, MB/s", 80, b.down()
    yield "each way at once, MB/s", 28, b.both()
    yield "queued upwards at full speed, MiB", 10, b.queued()


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    image = sys.argv[3] if len(sys.argv) > 3 else "osbox:1"
    b = Bench(sys.argv[1], sys.argv[2], image)
    try:
        found = [("create, s", 0.6, b.create_s), *rows(b),
                 ("CPUs busy while down (no figure)", 0, b.cpu())]
    finally:
        b.delete()
    print(f"{'what':38} {'real':>7} {'here':>7} {'ratio':>6}")
    for what, real, here in found:
        ratio = f"{here / real:6.2f}" if real else ""
        print(f"{what:38} {real:7.2f} {here:7.2f} {ratio}")


if __name__ == "__main__":
    main()

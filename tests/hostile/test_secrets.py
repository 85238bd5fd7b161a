# SPDX-License-Identifier: MIT
"""The session secret and the streams' keys: in the core and the controller
alone, on pages that children do not get.

Each test first finds them where they must be, so that the search is proven,
then in no process where they must not be.  Needs root, to look into others'
memory.
"""
import ctypes
import os
import pathlib
import struct
import time

import pytest

import sealed
from conftest import alive, children, wait_for
from test_hostile_host import start  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(os.geteuid() != 0,
                                reason="reads others' memory: needs root")


def mappings(pid):
    """(start, end, name, VmFlags) of each readable mapping."""
    found, now = [], None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        word = line.split()[0]
        if not word.endswith(":"):
            first, last = (int(x, 16) for x in word.split("-"))
            now = [first, last, line.split()[1], line.split()[5:], ()]
            found.append(now)
        elif word == "VmFlags:":
            now[4] = line.split()[1:]
    return [m for m in found if m[2][0] == "r" and m[3] not in (
        ["[vvar]"], ["[vsyscall]"], ["[vdso]"])]


def places(pid, secret):
    """Where the secret stands: a list of VmFlags; proves that it looked."""
    found, read = [], 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for first, last, _, _, flags in mappings(pid):
            try:
                mem.seek(first)
                data = mem.read(last - first)
            except (OSError, ValueError, OverflowError):
                continue
            read += len(data)
            found += [flags] * data.count(secret)
    assert read > 65536, f"nothing could be read of process {pid}"
    return found


def stream_key(stream):
    """The key inside a secretstream state: its first 32 bytes."""
    return ctypes.string_at(stream.state, 32)


def holds(pid, path):
    """Whether a process has a file open whose path begins so."""
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(fd).startswith(str(path)):
                return True
        except OSError:
            pass        # closed meanwhile
    return False


def wipes():
    """Whether this kernel has MADV_WIPEONFORK at all."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [
        ctypes.c_int] * 3 + [ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page = libc.mmap(None, 4096, 3, 0x22, -1, 0)
    return libc.madvise(page, 4096, 18) == 0


@pytest.mark.skipif(os.environ.get("SANDMUX_QEMU"),
                    reason="qemu-user has no MADV_WIPEONFORK")
def test_agent(start, tmp_path):  # noqa: F811
    if not wipes():
        pytest.skip("this kernel has no MADV_WIPEONFORK")
    agent = start()
    host = agent.host
    host.begin()
    host.request(1, sealed.EXEC, sealed.exec_body(
        ["sh", "-c", "sleep 300 & echo up; sleep 300", agent.marker]))
    assert host.wanted(sealed.DATA)[14:] == b"up\n"
    # File workers: one waits for the rest of its bytes, one for credit.
    host.request(2, sealed.PUT, b"\x41" + bytes([0, 0, 0, 0, 0, 0, 1, 0xa4]) + bytes(16) +
                 sealed.f(b"") + sealed.f(os.fsencode(tmp_path / "file")) +
                 sealed.f(b""))
    start = b"\x64" + bytes(20) + sealed.f(b"")
    host.frame(sealed.data_frame(2, 1, 0, sealed.f(start) + b"some"))
    source = tmp_path / "source"
    source.write_bytes(bytes(4 << 20))
    host.request(3, sealed.GET, struct.pack(">BIQQQ", sealed.GET, 0, 0,
                                            sealed.TO_END, 0) +
                 sealed.f(b"") + sealed.f(os.fsencode(source)) +
                 sealed.f(b""), out=8192)
    core = agent.core()

    def there():
        """Everything below the core, once all that is to be searched is
        there: two workers by what they hold, a job by what it runs."""
        pids = [p for p in children(core) if alive(p)]
        words = [pathlib.Path(f"/proc/{p}/cmdline").read_bytes()
                 for p in pids]
        return pids if (
            any(holds(p, tmp_path / ".part-") for p in pids) and
            any(holds(p, source) for p in pids) and
            words.count(b"sleep\x00300\x00") == 2 and
            any(b"sh\x00-c\x00sleep 300" in w for w in words)) else []
    jobs = wait_for(there, 60)      # a bound, no measure
    assert jobs, "a job with two children and two workers are not all there"

    secrets = {"S": host.keys.secret, "K_HA": stream_key(host.sealer),
               "K_AH": stream_key(host.opener)}
    for name, secret in secrets.items():
        found = places(core, secret)
        assert found, f"{name} is not in the core: the search is no proof"
        for flags in found:
            assert "wf" in flags and "dd" in flags, (name, flags)
    raw = {"k_HA": host.keys.send_key, "k_AH": host.keys.open_key,
           "the host's secret key": host.pair[1], **secrets}
    for pid in [agent.process.pid, *jobs]:
        for name, secret in raw.items():
            assert not places(pid, secret), (name, pid, pathlib.Path(
                f"/proc/{pid}/cmdline").read_text())
    # What made the keys is wiped where it was made.
    assert not places(core, host.keys.send_key)


def test_agent_is_not_dumpable(start):  # noqa: F811
    """Its /proc files belong to root, so its own user cannot read them."""
    agent = start()
    agent.host.begin()
    assert agent.host.run(1, ["true"])["outcome"] == 0
    core = agent.core()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            libc = ctypes.CDLL(None)
            libc.prctl(24, 19, 0, 0, 0)     # PR_CAPBSET_DROP SYS_PTRACE
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            try:
                open(f"/proc/{core}/mem", "rb")
            except PermissionError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_nothing_of_a_request_is_in_the_next_job(start):  # noqa: F811
    """One request's bytes: not in the memory of a job started beside it."""
    agent = start()
    host = agent.host
    host.begin()
    word = b"not-for-others-" + os.urandom(8).hex().encode()
    host.request(1, sealed.ECHO, b"\x44\0", out=0)
    host.frame(sealed.data_frame(1, 1, 0, word * 100))
    host.request(2, sealed.EXEC, sealed.exec_body(
        ["sh", "-c", "echo up; sleep 300; :", agent.marker]))
    host.wanted(sealed.DATA, request=2)
    core = agent.core()
    assert places(core, word), "the search is no proof"
    time.sleep(0.1)
    for pid in [agent.process.pid, *children(core)]:
        assert not places(pid, word)

# SPDX-License-Identifier: MIT
"""Commands and files through an Inspect sandbox provider.

    provider_loop.py sandmux TARGET | openshell SANDBOX

Takes lines on its stdin and answers each with one number: "run N": median
microseconds of N commands one after the other, "once N": milliseconds of N
at once, "write FILE SIZE" and "read FILE": MB/s.  `openshell` is the provider
of inspect-openshell-sandbox, `sandmux` this tree's.  A controller must be
running.
"""
import os
import statistics
import sys
import time

import anyio


def provider(kind, name):
    if kind == "sandmux":
        from sandmux import Target
        from sandmux.provider import SandmuxSandboxEnvironment
        return SandmuxSandboxEnvironment(Target(name))
    from inspect_openshell._sandbox import (OpenShellConfig,
                                            OpenShellSandboxEnvironment)
    return OpenShellSandboxEnvironment(name, OpenShellConfig())


async def one(sandbox):
    done = await sandbox.exec(["/bin/true"])
    if not done.success:
        raise RuntimeError(f"true: {done}")


async def run(sandbox, number):
    times = []
    for _ in range(int(number)):
        start = time.perf_counter()
        await one(sandbox)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


async def once(sandbox, number):
    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(int(number)):
            group.start_soon(one, sandbox)
    return (time.perf_counter() - start) * 1e3


async def write(sandbox, file, size):
    data = os.urandom(int(size))
    start = time.perf_counter()
    await sandbox.write_file(file, data)
    return len(data) / (time.perf_counter() - start) / 1e6


async def read(sandbox, file):
    start = time.perf_counter()
    data = await sandbox.read_file(file, text=False)
    return len(data) / (time.perf_counter() - start) / 1e6


async def main():
    sandbox = provider(*sys.argv[1:])
    await one(sandbox)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        print(await globals()[verb](sandbox, *words), flush=True)


anyio.run(main)

# SPDX-License-Identifier: MIT
"""Tasks that the evaluation tests run with the model mockllm/model."""
import hashlib
import os

import anyio
from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import text_editor
from inspect_ai.util import sandbox, sandbox_service, store

MIB = 1 << 20
CALLER = """
import sys
sys.path.append("/var/tmp/sandbox-services/calc")
import calc
print(calc.call_calc("double", x=21))
"""


@solver
def remote():
    """exec_remote, both ways, and a sandbox_service that a program calls."""
    async def solve(state, generate):
        one = sandbox()
        done = await one.exec_remote(
            ["sh", "-c", "echo remote; id -un"], stream=False)
        store().set("remote", [done.returncode, done.stdout])
        process = await one.exec_remote(["sh", "-c", "echo out; exit 3"])
        events = [event async for event in process]
        store().set("stream", [str(getattr(e, "data", getattr(
            e, "exit_code", None))) for e in events])

        async def double(x: int) -> int:
            return 2 * x

        ended, ready = [], anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: sandbox_service(
                "calc", [double], lambda: bool(ended), one, started=ready))
            await ready.wait()
            called = await one.exec(["python3", "-c", CALLER], timeout=60)
            ended.append(True)
        store().set("service", called.stdout + called.stderr)
        return state

    return solve


@scorer(metrics=[accuracy()])
def all_of(*checks):
    """1 if all checks, async functions of the state, say nothing."""
    async def score(state, target):
        said = [text for check in checks if (text := await check(state))]
        return Score(value=0 if said else 1, explanation="; ".join(said) or "ok")

    return score


def expect(what, have, want):
    return None if have == want else f"{what}: {have!r} instead of {want!r}"


def own_tools(user):
    """exec_remote, sandbox_service and text_editor; user: whose commands."""
    async def told(state):
        return expect("remote", state.store.get("remote"),
                      [0, f"remote\n{user}\n"]) or expect(
            "stream", state.store.get("stream"), ["out\n", "3"]) or expect(
            "service", state.store.get("service"), "42\n")

    async def edited(state):
        return expect("file", await sandbox().read_file("/sandbox/made.txt"),
                      "edited\n") or expect(
            "setup", await sandbox().read_file("setup.txt"), "set up\n") or \
            expect("sample file", await sandbox().read_file("given/f"), "given")

    return Task(
        dataset=[Sample(input="x", files={"given/f": "given"},
                        setup="echo set up >/sandbox/setup.txt")],
        solver=[remote(), use_tools(text_editor()), generate()],
        scorer=all_of(told, edited))


def edit():
    """A model that edits a file and says that it is done."""
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "text_editor", {
            "command": "create", "path": "/sandbox/made.txt",
            "file_text": "edited\n"}),
        ModelOutput.from_content("mockllm/model", "done")]
    for output in outputs:
        # Else they are counted, by a table that has to be downloaded.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1,
                                  total_tokens=2)
    return get_model("mockllm/model", custom_outputs=outputs)


@solver
def busy(commands, size, pause=0.0):
    """So many commands, and a file of size bytes written and read."""
    async def solve(state, generate):
        one, wrong = sandbox(), []
        for i in range(commands):
            done = await one.exec(
                ["sh", "-c", f"sleep {pause}; cat given; echo {i} >&2"], timeout=60)
            if (done.stdout, done.stderr) != (str(state.input), f"{i}\n"):
                wrong.append(repr(done))
        data = os.urandom(size)
        await one.write_file("sub/big", data)
        if await one.read_file("sub/big", text=False) != data:
            wrong.append("read is not what was written")
        done = await one.exec(["sha256sum", "sub/big"])
        if done.stdout.split()[0] != hashlib.sha256(data).hexdigest():
            wrong.append("another sum")
        store().set("wrong", wrong)
        return state

    return solve


def load(samples, commands, size, pause=0.0):
    """So many samples at once, each with a file, commands, a large file."""
    async def right(state):
        return "; ".join(state.store.get("wrong", ["it did not end"])) or None

    return Task(
        dataset=[Sample(input=f"content {i}", files={"given": f"content {i}"})
                 for i in range(samples)],
        solver=[busy(commands, size, pause)], scorer=all_of(right))


def run(task, sandbox, directory, **more):
    """The log of an evaluation of a task."""
    more.setdefault("model", "mockllm/model")
    [log] = evaluate(task, sandbox=sandbox, log_dir=str(directory),
                     display="none", fail_on_error=False, **more)
    return log


def scores(log):
    """(value, explanation or error) of each sample."""
    return [(s.scores["all_of"].value, s.scores["all_of"].explanation)
            if s.scores else (None, s.error.message if s.error else "?")
            for s in log.samples]

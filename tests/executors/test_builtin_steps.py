"""The built-in executors as steps of real runs, with what the settings allow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import NotAllowed, RunFailed, Stepfast, workflow
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.steps import ask_durably, operation_of
from tests.executors.servers import answer, serving
from tests.support.apps import QUICK


async def perform(executor: Executor, given: dict[str, Any], config: dict[str, Any] | None = None) -> Any:
    """Call an executor from a run, as a graph does."""
    loop, bound = asyncio.get_running_loop(), executor.arguments_of(given, config)
    assert isinstance(loop, RunLoop)
    return await ask_durably(loop, operation_of(executor.body, bound.args, bound.kwargs))


async def outcome_of(database: str, name: str, given: dict[str, Any], config: dict[str, Any] | None = None) -> Any:
    """What comes of an executor's call in a run of its own."""
    app = Stepfast(database, workflows=[], worker=QUICK)
    executor = app.executors.get(name)

    @workflow(name="builtin_caller")
    async def caller() -> Any:
        return await perform(executor, given, config)

    async with app:
        run = await app.start(caller)
        value = await run.result(timeout="30s")
        assert [step.call.name for step in await run.steps()] == [name]
        return value


async def test_a_program_is_a_step(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_COMMANDS", "sh, cat")
    value = await outcome_of(database, "command.run", {"args": ["cat"], "input": "a\0b"}, {"max_output_bytes": 2})
    assert value == {"code": 0, "stdout": "a\0", "stderr": "", "truncated": True}


async def test_a_request_is_a_step(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_HTTP_PRIVATE", "127.0.0.0/8")
    async with serving({"/": answer(b'{"a": 1}', Content_Type="application/json")}) as server:
        value = await outcome_of(database, "http.call", {"url": server.url()}, {"timeout": 20})
    assert value["json"] == {"a": 1}


async def test_a_function_is_a_step(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_CALL_MODULES", "tests.executors.*")
    given = {"target": "tests.executors.shop:add", "arguments": {"first": 2}}
    assert await outcome_of(database, "python.call", given) == 3


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("command.run", {"args": ["true"]}),
        ("http.call", {"url": "http://127.0.0.1:1/"}),
        ("python.call", {"target": "os:getcwd"}),
    ],
)
async def test_what_nobody_has_allowed_fails_at_once_with_a_code(database, name, given):
    with pytest.raises(RunFailed) as failed:
        await outcome_of(database, name, given)
    assert isinstance(failed.value.__cause__, NotAllowed)


async def test_a_refusal_of_a_server_is_not_tried_again_and_keeps_its_status(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_HTTP_PRIVATE", "*")
    async with serving({"/": answer(b"no", 404)}) as server:
        with pytest.raises(RunFailed) as failed:
            await outcome_of(database, "http.call", {"url": server.url()})
    cause: Any = failed.value.__cause__
    assert (cause.code, cause.status, len(server.requests)) == ("E-EXE-005", 404, 1)

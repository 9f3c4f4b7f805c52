"""Policies that cannot answer: whatever comes of a check but a clear yes lets nothing through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import PolicyConflict, RunFailed, RunState
from tests.policies.harness import CALLS, CITING, WORLD, begun, read_and_written, template

PLACES = {
    "read": "before: read",
    "write": "before: write",
    "output": "on: [cite]",
}
NO_ANSWERS: list[Any] = [None, True, "ok", {}, {"ok": 1}, {"ok": "yes"}, [{"ok": True}], ValueError("the list is gone")]


def guarded(where: str, rest: str = "") -> str:
    return template(CITING, f"  - {{id: odd, check: policy.odd, {PLACES[where]}{rest}}}")


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=str)
@pytest.mark.parametrize("where", PLACES)
async def test_what_is_no_clear_yes_fails_the_step_and_nothing_is_written(memory, where, answer):
    WORLD["answer"] = answer
    await memory.app.assets.put("text", "source")
    run = await begun(memory, guarded(where))
    with pytest.raises(RunFailed, match="Policy odd refuses"):
        await memory.result(run)
    read, written = await read_and_written(memory, run)
    assert (CALLS["cite"], read, written) == ((0, [], []) if where == "read" else (1, ["source@1"], []))


async def test_a_check_that_raises_is_the_cause(memory):
    WORLD["answer"] = ValueError("the list is gone")
    await memory.app.assets.put("text", "source")
    run = await begun(memory, guarded("read"))
    with pytest.raises(RunFailed) as failed:
        await memory.result(run)
    conflict = failed.value.__cause__
    assert isinstance(conflict, PolicyConflict)
    assert "it could not be checked: ValueError: the list is gone" in str(conflict)
    assert isinstance(conflict.__cause__, ValueError)


@pytest.mark.parametrize("answer", [{"ok": False, "reason": "a\0b"}, ValueError("a\0b")], ids=str)
async def test_people_are_asked_whatever_characters_a_check_answers_with(opened, answer):
    WORLD["answer"] = answer
    await opened.app.assets.put("text", "source")
    run = await begun(opened, guarded("read", ", conflict: review"))
    (question,) = await opened.reviews(run)
    assert question.title.endswith("a\ufffdb")


@pytest.mark.parametrize("where", PLACES)
async def test_people_are_asked_where_a_check_cannot_be_made(memory, where):
    WORLD["answer"] = ValueError("the list is gone")
    await memory.app.assets.put("text", "source")
    run = await begun(memory, guarded(where, ", conflict: review"))
    (question,) = await memory.reviews(run)
    assert "it could not be checked: ValueError: the list is gone" in question.title
    assert (await read_and_written(memory, run))[1] == []
    await memory.decide(question, "continue", actor="ann")
    assert await memory.result(run) == "text"


async def test_a_retry_of_the_run_makes_a_check_again_that_raised(memory):
    WORLD["answer"] = ValueError("the list is gone")
    await memory.app.assets.put("text", "source")
    run = await begun(memory, guarded("write"))
    WORLD["answer"] = {"ok": True}
    await run.retry()
    assert await memory.result(run) == "text"
    assert (CALLS["odd"], CALLS["cite"]) == (2, 1)


async def test_a_check_that_does_not_come_to_its_end_is_no_yes(memory):
    text = template(CITING, "  - {id: slow, check: policy.slow, before: read, timeout: 30s}")
    WORLD["begun"] = asyncio.Event()
    await memory.app.assets.put("text", "source")
    await memory.app.register(text)
    run = await memory.start("flow")
    working = asyncio.create_task(memory.run_until_idle())
    await WORLD["begun"].wait()
    memory.clock.advance("30s")
    await working
    with pytest.raises(RunFailed, match=r"it could not be checked: StepTimeout: "):
        await memory.result(run)
    assert CALLS["cite"] == 0


async def test_a_run_waits_for_a_check_that_no_worker_has(memory):
    await memory.app.assets.put("text", "source")
    WORLD["answer"] = {"ok": True}
    await memory.app.register(guarded("read"))
    memory.app.executors.unregister("policy.odd")
    run = await memory.start("flow")
    await memory.run_until_idle()
    assert (await memory.info(run)).state not in (RunState.COMPLETED, RunState.FAILED)
    assert (CALLS["cite"], await read_and_written(memory, run)) == (0, ([], []))


async def test_a_condition_that_has_no_value_is_no_yes(memory):
    text = template(CITING, '  - {id: odd, check: policy.odd, before: read, when: "${ assets[0].metadata.pages > 3 }"}')
    await memory.app.assets.put("text", "source")
    run = await begun(memory, text)
    with pytest.raises(RunFailed, match=r"Policy odd refuses .* EvaluationFailed"):
        await memory.result(run)
    assert CALLS == {}

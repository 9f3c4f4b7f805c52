"""All that is known of a run, in one call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import NotFound, Retry, RunState, StepState, receive, reconstructing, review, step, workflow
from stepfast import sync as blocking
from stepfast.kernel import rebuilding
from stepfast.kernel.states import TaskState
from stepfast.testing import Engine, engine
from tests.reconstruction.lives import EXECUTORS, WORKFLOWS, eventful
from tests.reconstruction.watching import Watch
from tests.support.sql import tamper

BROKEN: set[str] = set()


@step(retry=Retry(attempts=2, base="5s", jitter=0))
async def price(name: str) -> str:
    if name in BROKEN:
        raise ConnectionError(name)
    return name.upper()


@workflow
async def child(name: str) -> str:
    return await price(name)


@workflow
async def order(name: str) -> list[str]:
    answer = await review("Sell it?", show={"name": name})
    return [await child(name), answer.verdict, await receive("paid", str)]


@workflow
async def bulky(size: int) -> str:
    return "x" * size


@pytest.fixture(autouse=True)
def broken() -> None:
    BROKEN.clear()


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    async with engine(database=database, workflows=[order, child, bulky]) as opened:
        yield opened


async def sold(opened: Engine) -> Any:
    run = await opened.start(order, "tea", actor="bob")
    await opened.run_until_idle()
    await opened.decide(run, "continue", actor="ann", note="fine")
    await opened.run_until_idle()
    return run


async def test_it_has_the_run_with_steps_reviews_children_and_what_was_said(opened):
    run = await sold(opened)
    found = await run.reconstruct()
    (asked,) = found.reviews
    assert (found.run.state, found.state.state, found.run.actor) == (RunState.WAITING, RunState.WAITING, "bob")
    assert [each.workflow for each in found.children] == ["child"]
    assert (json.loads(asked.shown), asked.said[0].actor, asked.said[0].note) == ({"name": "tea"}, "ann", "fine")
    assert [step.call.name for step in found.steps if step.state is StepState.COMPLETED] == ["ask", "review", "child"]
    assert [event.seq for event in found.events] == list(range(1, len(found.events) + 1))
    assert (found.differences, found.cut, found.is_settled) == ((), (), True)


async def test_it_has_every_generation_with_who_opened_it(opened):
    run = await sold(opened)
    await opened.signal(run, "paid", "yes")
    await opened.run_until_idle()
    await run.rerun("child", actor="ann", reason="new price")
    first, second = (await run.reconstruct()).generations
    assert (first.state, first.cause, second.state) == (RunState.COMPLETED, None, None)
    assert (second.cause, second.actor, second.reason) == ("rerun_from", "ann", "new price")


async def test_it_has_the_item_and_the_letter_of_a_run_that_failed(opened):
    BROKEN.add("tea")
    run = await opened.start(child, "tea")
    with pytest.raises(Exception, match="tea"):
        await opened.result(run)
    found = await run.reconstruct()
    assert [letter.error_type for letter in found.dead_letters] == ["builtins:ConnectionError"]
    assert [(item.kind, item.resolved_at) for item in found.exceptions] == [("failed", None)]
    assert [(step.attempt, step.state) for step in found.steps] == [(1, StepState.PENDING), (2, StepState.FAILED)]
    assert found.state.error == "ConnectionError: tea"


async def test_large_values_are_read_along(opened):
    run = await opened.start(bulky, 100_000)
    await opened.run_until_idle()
    found = await run.reconstruct()
    assert (found.run.value, found.large) == (json.dumps("x" * 100_000), ())


async def test_a_value_beyond_the_bound_is_named_by_digest_and_size(opened):
    run = await opened.start(bulky, 2_000_000)
    await opened.run_until_idle()
    found = await run.reconstruct()
    assert {(each.place, each.size) for each in found.large} == {
        ("result", 2_000_002),
        ("result of generation 1", 2_000_002),
    }
    assert found.plain()["run"]["value"] == {"digest": found.large[0].digest, "size": 2_000_002}


async def test_no_token_and_no_hash_of_one_is_in_it(opened):
    run = await opened.start(order, "tea")
    await opened.run_until_idle()
    (asked,) = await opened.reviews(run)
    found = await run.reconstruct()
    assert all(each.tokens == () for each in found.reviews)
    assert asked.review_id in found.to_json()


async def test_as_json_it_has_values_and_not_texts(opened):
    found = json.loads((await (await sold(opened)).reconstruct()).to_json())
    assert found["reviews"][0]["shown"] == {"name": "tea"}
    assert found["run"]["input"] == {"name": "tea"}
    assert (found["state"]["state"], found["steps"][0]["call"]) == ("waiting", "ask#1")


async def test_a_run_of_another_tenant_is_not_found(opened):
    run = await sold(opened)
    foreign = opened.app.get(run.id, tenant="globex")
    for ask in (foreign.reconstruct, lambda: foreign.at(1), lambda: foreign.rollback("waiting")):
        with pytest.raises(NotFound, match="not found"):
            await ask()


async def test_rows_that_somebody_has_changed_are_told_apart_from_what_the_events_say(opened, database):
    run = await sold(opened)
    await tamper(database, "update stepfast.step set state = 'failed' where name = 'child'")
    (found,) = (await run.reconstruct()).differences
    assert found.startswith("step child#1 is failed")


async def test_an_event_that_somebody_has_taken_out_is_missed(opened, database):
    run = await sold(opened)
    await tamper(database, "delete from stepfast.event where seq = 3")
    found = await run.reconstruct()
    assert found.is_settled
    assert found.differences[0] == "event 3 is missing, and event 4 is there"


async def test_a_list_that_is_cut_leaves_what_differs_in_sight(opened, database, monkeypatch):
    BROKEN.add("tea")
    run = await opened.start(child, "tea")
    with pytest.raises(Exception, match="tea"):
        await opened.result(run)
    await tamper(database, "update stepfast.step set state = 'completed' where name = 'price'")
    monkeypatch.setattr(reconstructing, "MAX_LISTED", 0)
    found = await run.reconstruct()
    assert (found.cut, bool(found.differences)) == (("dead letters: there are more than 0",), True)


async def test_data_that_is_no_json_is_shown_as_damaged(opened, database):
    run = await sold(opened)
    await tamper(database, "update stepfast.event set data = '{' where seq = 2")
    found = await run.reconstruct()
    assert (found.state.damaged, found.plain()["events"][1]["data"]) == ((2,), {"damaged": "{"})
    assert (await run.at(2)).state.state is RunState.RUNNING


async def test_a_run_that_goes_on_is_read_until_it_stands_still(opened):
    run = await sold(opened)
    store = opened.app.parts.store
    read, interrupted = store.generations, list[bool]()

    async def generations(run_id: Any) -> Any:
        if not interrupted:
            interrupted.append(True)
            await opened.signal(run, "sent", 1)
        return await read(run_id)

    store.generations = generations
    found = await run.reconstruct()
    assert (found.is_settled, found.events[-1].type) == (True, "signalled")


def test_blocking_code_has_the_same(tmp_path):
    with blocking.Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[child]) as app:
        run = app.start(child, "tea")
        assert run.result(timeout="30s") == "TEA"
        assert run.reconstruct().state.state is RunState.COMPLETED
        assert run.at(1).state.state is RunState.PENDING


async def test_the_broken_twin_that_takes_a_wake_for_nothing_is_found_out(database, monkeypatch):
    def asleep(self: rebuilding.Rebuilding) -> None:
        """What comes wakes nobody."""

    monkeypatch.setattr(rebuilding.Rebuilding, "_wake", asleep)
    assert await differences_of_a_life(database)


async def test_the_broken_twin_that_keeps_what_is_superseded_is_found_out(database, monkeypatch):
    monkeypatch.setattr(rebuilding.Rebuilding, "_supersede", lambda self, told: None)
    assert await differences_of_a_life(database)


async def test_the_broken_twin_that_overlooks_a_lost_holder_is_found_out(database, monkeypatch):
    def hold_on(self: rebuilding.Rebuilding, task: TaskState) -> None:
        """Whoever had it has it still."""

    monkeypatch.setattr(rebuilding.Rebuilding, "_release", hold_on)
    assert await differences_of_a_life(database)


async def test_an_eventful_life_agrees_with_its_events(database):
    assert await differences_of_a_life(database) == []


async def differences_of_a_life(database: str) -> list[str]:
    watch = Watch()
    async with engine(database=database, workflows=WORKFLOWS, executors=EXECUTORS, around=watch.around) as opened:
        await eventful(opened)
        assert opened.crashes == 1
    return watch.found

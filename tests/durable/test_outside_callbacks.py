"""Steps that are called back: the token is all that the other side has, and the first end counts."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import (
    CallbackExpired,
    CallbackForeign,
    CallbackUsed,
    Outside,
    Pending,
    Retry,
    RunFailed,
    StepFailed,
    StepTimeout,
    WrongCall,
    callback_token,
    race,
    sleep,
    step,
    step_key,
    workflow,
)
from stepfast.testing import Engine, engine
from tests.support.asking import KEYS

TOKENS: list[str] = []
EARLY: list[Engine] = []


@step
async def order_print(pages: int) -> int | Outside[int]:
    TOKENS.append(await callback_token())
    if EARLY:
        await EARLY[-1].app.callbacks.complete(TOKENS[-1], pages)
    return Outside({"pages": pages}, callback=True, deadline="1h")


@step
def order_in_a_thread() -> Outside[int]:
    TOKENS.append(callback_token.sync(expires="10m"))
    return Outside("thread", callback=True)


@step
async def look_at_print(handle: str) -> Pending | int:
    return Pending() if len(TOKENS) == 1 else 2


@step
async def order_both() -> Outside[int]:
    TOKENS.append(await callback_token())
    return Outside("both", poll=look_at_print, every="1m", callback=True)


@step(retry=Retry(attempts=2, base="1m", jitter=0))
async def order_clumsily() -> Outside[int]:
    TOKENS.append(await callback_token())
    if len(TOKENS) == 1:
        raise ConnectionError("ordered, and fallen over")
    return Outside("clumsy", callback=True)


@workflow
async def publish(pages: int) -> int:
    return await order_print(pages)  # type: ignore[return-value]


@workflow
async def publish_in_a_thread() -> int:
    return await order_in_a_thread.aio()  # type: ignore[return-value]


@workflow
async def publish_either_way() -> int:
    return await order_both()  # type: ignore[return-value]


@workflow
async def publish_clumsily() -> int:
    return await order_clumsily()  # type: ignore[return-value]


@workflow
async def publish_in_time() -> str:
    name, _ = await race(printed=order_print(1), late=sleep("5m"))
    return name


@workflow
async def publish_wrongly() -> None:
    await callback_token()


@workflow
async def publish_under_a_key() -> str:
    return step_key()


WORKFLOWS: list[Any] = [
    publish,
    publish_in_a_thread,
    publish_either_way,
    publish_clumsily,
    publish_in_time,
    publish_wrongly,
    publish_under_a_key,
]


@pytest.fixture
async def hand(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    TOKENS.clear()
    async with engine(database=database, workflows=WORKFLOWS) as hand:
        yield hand


async def waiting(hand: Engine, workflow, *args):
    run = await hand.start(workflow, *args)
    await hand.run_until_idle()
    return run


async def outcomes(hand: Engine, run) -> list[str | None]:
    return [event.data for event in await hand.events(run) if event.type == "callback_submitted"]


async def test_whoever_has_the_token_completes_the_step(hand):
    run = await waiting(hand, publish, 7)
    await hand.app.callbacks.complete(TOKENS[0], 7, actor="printer")
    assert await hand.result(run) == 7
    assert await outcomes(hand, run) == ['{"outcome": "complete"}']


async def test_whoever_has_the_token_fails_the_step(hand):
    run = await waiting(hand, publish, 7)
    await hand.app.callbacks.fail(TOKENS[0], "PaperJam", "tray 2")
    with pytest.raises(RunFailed, match="tray 2") as failed:
        await hand.result(run)
    assert isinstance(failed.value.__cause__, StepFailed)
    assert failed.value.__cause__.type_name == "PaperJam"


async def test_steps_in_threads_have_tokens_too(hand):
    run = await waiting(hand, publish_in_a_thread)
    await hand.app.callbacks.complete(TOKENS[0], 3)
    assert await hand.result(run) == 3


async def test_progress_is_told_and_leaves_the_token_good(hand):
    run = await waiting(hand, publish, 7)
    await hand.app.callbacks.progress(TOKENS[0], 3, 7, "tray 2")
    told = [event for event in await hand.events(run) if event.type == "step_progress"]
    assert [(event.step, event.data) for event in told] == [
        ("order_print#1", '{"done": 3, "total": 7, "note": "tray 2"}')
    ]
    await hand.app.callbacks.complete(TOKENS[0], 7)
    assert await hand.result(run) == 7


async def test_a_call_back_that_comes_before_the_handle_is_recorded_is_kept(hand):
    EARLY.append(hand)
    try:
        run = await waiting(hand, publish, 7)
    finally:
        EARLY.pop()
    assert await hand.result(run) == 7
    assert [each.state for each in await hand.steps(run)] == ["waiting", "completed"]


async def test_a_token_of_an_attempt_that_fell_over_is_good_for_the_next(hand):
    run = await waiting(hand, publish_clumsily)
    await hand.app.callbacks.complete(TOKENS[0], 5)
    assert await hand.result(run) == 5


async def test_of_a_call_back_and_a_poll_the_first_counts(hand):
    called = await waiting(hand, publish_either_way)
    await hand.app.callbacks.complete(TOKENS[0], 1)
    assert await hand.result(called) == 1
    asked = await waiting(hand, publish_either_way)
    assert await hand.result(asked) == 2
    with pytest.raises(CallbackUsed):
        await hand.app.callbacks.complete(TOKENS[1], 1)


async def test_a_second_call_back_is_refused_before_and_after_the_step_has_ended(hand):
    run = await waiting(hand, publish, 7)
    await hand.app.callbacks.complete(TOKENS[0], 7)
    with pytest.raises(CallbackUsed):
        await hand.app.callbacks.fail(TOKENS[0], "TooLate")
    assert await hand.result(run) == 7
    with pytest.raises(CallbackUsed):
        await hand.app.callbacks.complete(TOKENS[0], 8)
    assert (await outcomes(hand, run))[1:] == ['{"outcome": "E-CALL-003"}'] * 2


async def test_a_value_that_does_not_fit_the_step_fails_it(hand):
    run = await waiting(hand, publish, 7)
    await hand.app.callbacks.complete(TOKENS[0], "seven")
    with pytest.raises(RunFailed, match="cannot be read"):
        await hand.result(run)


async def test_a_large_value_comes_whole(hand):
    run = await waiting(hand, publish_clumsily)
    value = list(range(200_000))
    await hand.app.callbacks.complete(TOKENS[0], value)
    with pytest.raises(RunFailed, match="cannot be read"):
        await hand.result(run)


async def test_after_the_deadline_the_step_has_failed_and_the_token_is_expired(hand):
    run = await waiting(hand, publish, 7)
    hand.clock.advance("1h")
    with pytest.raises(CallbackExpired):
        await hand.app.callbacks.complete(TOKENS[0], 7)
    with pytest.raises(RunFailed) as failed:
        await hand.result(run)
    assert isinstance(failed.value.__cause__, StepTimeout)


async def test_a_call_back_in_time_counts_though_the_run_was_woken_by_its_deadline(hand):
    run = await waiting(hand, publish, 7)
    await hand.app.callbacks.complete(TOKENS[0], 7)
    hand.clock.advance("1h")
    assert await hand.result(run) == 7


async def test_a_token_works_no_longer_than_it_was_made_for(hand):
    await waiting(hand, publish_in_a_thread)
    hand.clock.advance("10m")
    with pytest.raises(CallbackExpired):
        await hand.app.callbacks.complete(TOKENS[0], 3)


async def test_a_run_that_begins_anew_refuses_the_tokens_of_its_earlier_life(hand):
    run = await waiting(hand, publish, 7)
    await run.cancel()
    with pytest.raises(CallbackExpired):
        await hand.app.callbacks.complete(TOKENS[0], 7)
    await run.rerun()
    await hand.run_until_idle()
    with pytest.raises(CallbackForeign):
        await hand.app.callbacks.complete(TOKENS[0], 7)
    await hand.app.callbacks.complete(TOKENS[1], 8)
    assert await hand.result(run) == 8


async def test_a_paused_run_takes_the_call_back_when_it_is_resumed(hand):
    run = await waiting(hand, publish, 7)
    await run.pause()
    await hand.app.callbacks.complete(TOKENS[0], 7)
    await hand.run_until_idle()
    assert (await hand.info(run)).state == "paused"
    await run.resume()
    assert await hand.result(run) == 7


async def test_while_nobody_was_there_what_came_first_wins(hand):
    late = await waiting(hand, publish_in_time)
    hand.clock.advance("6m")
    await hand.app.callbacks.complete(TOKENS[0], 1)
    assert await hand.result(late) == "late"
    early = await waiting(hand, publish_in_time)
    await hand.app.callbacks.complete(TOKENS[1], 1)
    hand.clock.advance("6m")
    assert await hand.result(early) == "printed"


async def test_tokens_and_keys_belong_to_the_bodies_of_steps(hand):
    for wrong in (publish_wrongly, publish_under_a_key):
        with pytest.raises(RunFailed) as failed:
            await hand.run(wrong)
        assert isinstance(failed.value.__cause__, WrongCall)

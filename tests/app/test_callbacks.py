"""Callback tokens: all that the other side needs to end a step, once, in time, and for nothing else."""

from __future__ import annotations

import json
import traceback

import pytest

from stepfast import (
    CallbackForeign,
    CallbackWrong,
    Invalid,
    Outside,
    StepfastError,
    callback_token,
    step,
    workflow,
)
from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.review_views import NO_RUN
from stepfast.sync import Stepfast as BlockingStepfast
from stepfast.testing import engine
from stepfast.tokens import Secret, fresh_keys, new_callback, read_keys, shown_callback
from tests.support.asking import KEYS, store_of
from tests.support.dumps import dump
from tests.support.review_promises import places_with_secrets

NOWHERE = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
ORDERED = CallId("1.2", "order_tiles", 3)
TOKENS: list[str] = []


@step
async def order_tiles() -> Outside[int]:
    TOKENS.append(await callback_token())
    return Outside("tiles", callback=True)


@workflow
async def tile() -> int:
    return await order_tiles()  # type: ignore[return-value]


@pytest.fixture
async def hand(database, token_keys):
    TOKENS.clear()
    async with engine(database=database, workflows=[tile]) as hand:
        yield hand


@pytest.fixture
async def run(hand):
    run = await hand.start(tile, tenant="acme")
    await hand.run_until_idle()
    return run


async def outcomes(hand, run_id: str) -> list[str]:
    events = await store_of(hand.app).events(RunId(run_id))
    return [json.loads(event.data or "{}")["outcome"] for event in events if event.type == "callback_submitted"]


def changed_bits(token: str) -> list[str]:
    """The token with one bit of each of its characters changed."""
    return [token[:at] + chr(ord(token[at]) ^ 1) + token[at + 1 :] for at in range(len(token))]


def test_a_token_names_its_run_generation_and_call_and_proves_it():
    keys = fresh_keys()
    shown = shown_callback(new_callback(NOWHERE, 2, ORDERED, Instant(7), keys[0]))
    assert shown is not None
    assert (shown.run_id, shown.generation, shown.call, shown.expires_at) == (NOWHERE, 2, ORDERED, 7)
    assert keys.proves(shown)
    assert not fresh_keys().proves(shown)
    assert "tiles" not in repr(shown)


def test_a_token_with_any_bit_changed_proves_nothing():
    keys = fresh_keys()
    token = new_callback(NOWHERE, 2, ORDERED, Instant(7), keys[0])
    for changed in [*changed_bits(token), token + "=", token + "A", token[:-1], "", "sfc_"]:
        shown = shown_callback(changed)
        assert shown is None or not keys.proves(shown)


def test_a_token_of_an_earlier_key_is_known_as_long_as_the_key_is():
    old = read_keys(KEYS[1])
    token = shown_callback(new_callback(NOWHERE, 1, ORDERED, Instant(7), old[0]))
    assert token is not None
    assert read_keys(f"{KEYS[2]},{KEYS[1]}").proves(token)
    assert not read_keys(KEYS[2]).proves(token)


@pytest.mark.parametrize("shown", ["", "sfc_nonsense", "sfr_AAAA", None, 7, Secret("sfc_AAAA")])
async def test_what_is_no_token_is_wrong_and_told_beside_all_runs(hand, shown):
    with pytest.raises(CallbackWrong):
        await hand.app.callbacks.complete(shown, 7)
    assert await outcomes(hand, NO_RUN) == ["E-CALL-001"]


async def test_a_token_that_was_never_handed_out_is_wrong(hand, run):
    made_up = new_callback(run.id, 1, CallId("", "order_tiles", 1), Instant(2**45), fresh_keys()[0])
    with pytest.raises(CallbackWrong):
        await hand.app.callbacks.complete(made_up, 7)
    assert await outcomes(hand, run.id) == []


async def test_a_token_for_a_run_that_does_not_exist_is_wrong(hand):
    token = new_callback(NOWHERE, 1, ORDERED, Instant(2**45), read_keys(KEYS[1])[0])
    with pytest.raises(CallbackWrong):
        await hand.app.callbacks.fail(token, "Gone")


async def test_a_token_shown_for_another_tenant_is_foreign(hand, run):
    with pytest.raises(CallbackForeign):
        await hand.app.callbacks.complete(TOKENS[0], 7, tenant="other")
    await hand.app.callbacks.complete(TOKENS[0], 7, tenant="acme")
    assert await outcomes(hand, run.id) == ["E-CALL-004", "complete"]


async def test_what_cannot_be_stored_is_refused_and_leaves_the_token_good(hand, run):
    with pytest.raises(StepfastError):
        await hand.app.callbacks.complete(TOKENS[0], object())
    with pytest.raises(Invalid):
        await hand.app.callbacks.fail(TOKENS[0], "")
    with pytest.raises(Invalid):
        await hand.app.callbacks.progress(TOKENS[0], "half")
    await hand.app.callbacks.complete(TOKENS[0], 7)
    assert await hand.result(run) == 7


async def test_no_token_is_written_down_or_in_a_traceback(hand, run, caplog):
    wrong = TOKENS[0][:-2] + ("A" if TOKENS[0][-2] != "A" else "B") + TOKENS[0][-1]
    told = ""
    for token, tenant in ((wrong, None), (TOKENS[0], "other")):
        try:
            await hand.app.callbacks.complete(token, 7, tenant=tenant)
        except StepfastError as error:
            frames = traceback.TracebackException.from_exception(error, capture_locals=True)
            own = [frame for frame in frames.stack if "/stepfast/" in frame.filename]
            told += repr([(frame.name, frame.locals) for frame in own]) + repr(error) + str(error)
    await hand.app.callbacks.complete(TOKENS[0], 7)
    await hand.result(run)
    places = await dump(hand.app.database) | {"the log": caplog.text.encode(), "an error": told.encode()}
    assert places_with_secrets([wrong, *TOKENS], places) == []


async def test_the_blocking_app_takes_call_backs_too(hand, run):
    import asyncio

    def call_back() -> None:
        with BlockingStepfast(hand.app.database, workflows=[tile], worker=False) as app:
            app.callbacks.progress(TOKENS[0], 1, 2)
            app.callbacks.complete(TOKENS[0], 7)

    await asyncio.to_thread(call_back)
    assert await hand.result(run) == 7

"""Recordings: whether today's code still makes the calls of a run, without running anything."""

from __future__ import annotations

import asyncio
import json

import pytest

from stepfast import Invalid, RunFailed, current_run, emit, race, receive, sleep, step, workflow
from stepfast import durable as durably
from stepfast.testing import Verdict, engine, record, replay
from tests.support.apps import Bodies

BODIES = Bodies()


@step
async def charge(amount: int) -> str:
    BODIES.ran("charge")
    return f"receipt over {amount}"


@step
def mail(text: str) -> None:
    BODIES.ran("mail")


@step
async def audit(text: str) -> None:
    BODIES.ran("audit")


def defined(function, **options):
    """A function as the workflow `order`, whatever its own name is."""
    return workflow(name="order", **options)(function)


async def as_recorded(amount: int) -> str:
    receipt = await charge(amount)
    await mail.aio(receipt)
    await asyncio.gather(emit("sold", {"amount": amount}), emit("counted"))
    word = await receive("word", str)
    await sleep("1h")
    return f"{receipt}, {word}, {durably.random():.3f}"


async def without_mail(amount: int) -> str:
    receipt = await charge(amount)
    return f"{receipt}, {await receive('word', str)}"


async def other_amount(amount: int) -> str:
    receipt = await charge(amount + 1)
    await mail.aio(receipt)
    return receipt


async def with_audit_first(amount: int) -> str:
    await audit("about to charge")
    return await as_recorded(amount)


async def with_audit_last(amount: int) -> str:
    result = await as_recorded(amount)
    await audit(result)
    return result


async def other_result(amount: int) -> str:
    return f"{await as_recorded(amount)}!"


async def other_end(amount: int) -> str:
    await as_recorded(amount)
    raise ValueError("sold out")


async def renamed_parameter(cents: int) -> str:
    return await as_recorded(cents)


async def impatient(amount: int) -> str:
    await charge(amount)
    async with asyncio.timeout(1):
        return await receive("word", str)


async def recordings(function, **options):
    """What a run is recorded as while it waits for a word, and after its end; as text and back, as kept in a file."""
    order = defined(function, **options)
    async with engine(workflows=[order]) as opened:
        run = await opened.start(order, 49)
        await opened.run_until_idle()
        waiting = await record(run)
        await opened.signal(run, "word", "go")
        await opened.result(run)
        return json.loads(json.dumps(waiting)), json.loads(json.dumps(await record(run)))


async def test_the_code_that_made_a_recording_fits_it_and_no_body_runs_again():
    waiting, ended = await recordings(as_recorded)
    ran = dict(BODIES)
    for recording in (waiting, ended):
        fit = await replay(defined(as_recorded), recording)
        assert (fit.verdict, fit.step) == (Verdict.FITS, None)
    assert ran == BODIES


CHANGES = {
    "a call that was left out": (without_mail, Verdict.MISMATCH, "mail#1"),
    "other arguments": (other_amount, Verdict.MISMATCH, "charge#1"),
    "a step that was added before recorded ones": (with_audit_first, Verdict.ADDED_STEP, "audit#1"),
    "an input that no longer fits": (renamed_parameter, Verdict.MISMATCH, None),
    "a timer of asyncio": (impatient, Verdict.MISMATCH, "charge#1"),
}


@pytest.mark.parametrize(("changed", "verdict", "step"), CHANGES.values(), ids=CHANGES)
async def test_changed_code_is_told_where_it_parts_from_an_open_run(changed, verdict, step):
    waiting, _ = await recordings(as_recorded)
    fit = await replay(defined(changed), waiting)
    assert (fit.verdict, fit.step) == (verdict, step)
    assert fit.detail


async def test_a_step_behind_everything_that_was_recorded_is_no_change_for_an_open_run():
    waiting, ended = await recordings(as_recorded)
    assert (await replay(defined(with_audit_last), waiting)).verdict is Verdict.FITS
    assert (await replay(defined(other_result), waiting)).verdict is Verdict.FITS
    assert (await replay(defined(other_result), ended)).verdict is Verdict.MISMATCH


async def test_the_one_step_behind_all_records_is_not_begun_by_a_replay():
    async def charged(amount: int) -> str:
        return await charge(amount)

    async def charged_and_audited(amount: int) -> str:
        receipt = await charge(amount)
        await audit(receipt)
        return receipt

    async with engine(workflows=[defined(charged)]) as opened:
        run = await opened.start("order", 49)
        await opened.run_until_idle()
        ended = await record(run)
    ran = dict(BODIES)
    fit = await replay(defined(charged_and_audited), ended)
    assert ran == BODIES
    assert "tried to use" not in fit.detail


@pytest.mark.parametrize("changed", [other_result, other_end])
async def test_an_ended_run_must_come_to_the_same_end(changed):
    _, ended = await recordings(as_recorded)
    fit = await replay(defined(changed), ended)
    assert (fit.verdict, fit.step) == (Verdict.MISMATCH, None)
    assert "recorded as completed" in fit.detail


async def test_a_recording_of_another_version_is_unknown():
    waiting, _ = await recordings(as_recorded)
    fit = await replay(defined(as_recorded, version=2), waiting)
    assert fit.verdict is Verdict.UNKNOWN_CODE
    assert not fit.is_good


async def test_a_def_workflow_is_replayed_in_a_thread():
    def blocking(amount: int) -> str:
        mail(charge.sync(amount))
        receive("word", str)
        return current_run().workflow

    def without_mail_blocking(amount: int) -> str:
        charge.sync(amount)
        return str(receive("word", str))

    waiting, ended = await recordings(blocking)
    assert (await replay(defined(blocking), waiting)).verdict is Verdict.FITS
    assert (await replay(defined(blocking), ended)).verdict is Verdict.FITS
    assert (await replay(defined(without_mail_blocking), waiting)).step == "mail#1"


async def test_a_failed_run_is_replayed_to_its_failure():
    @step
    async def refuse() -> None:
        raise ValueError("no")

    async def refused(amount: int) -> None:
        await refuse()

    order = defined(refused)
    async with engine(workflows=[order]) as opened:
        run = await opened.start(order, 1)
        with pytest.raises(RunFailed):
            await opened.result(run)
        recording = await record(run)
    assert (await replay(order, recording)).verdict is Verdict.FITS


async def test_large_values_are_part_of_a_recording():
    @step
    async def print_book(pages: int) -> str:
        return "word " * pages

    async def publish(pages: int) -> int:
        book = await print_book(pages)
        await receive("word", str)
        return len(book)

    order = defined(publish)
    async with engine(workflows=[order]) as opened:
        run = await opened.start(order, 200_000)
        await opened.run_until_idle()
        recording = json.loads(json.dumps(await record(run)))
        assert (await opened.app.check()).verdicts == {Verdict.FITS: 1}
    assert len(recording["records"][0]["value"]) > 1_000_000
    assert (await replay(order, recording)).verdict is Verdict.FITS


async def test_a_race_of_a_def_workflow_that_was_won_at_once_is_replayed():
    async def at_once() -> int:
        return 1

    def order(amount: int) -> str:
        race.sync(now=at_once, later=lambda: sleep("1h"))
        return charge.sync(amount)

    flow = defined(order)
    async with engine(workflows=[flow]) as opened:
        run = await opened.start(flow, 3)
        await opened.result(run)
        recording = await record(run)
    assert (await replay(flow, recording)).verdict is Verdict.FITS


@pytest.mark.parametrize("given", [{}, [], {"run": {}, "records": []}, {"run": None, "records": []}])
async def test_what_is_no_recording_is_refused_as_such(given):
    with pytest.raises(Invalid, match="no recording"):
        await replay(defined(as_recorded), given)


async def test_a_recording_that_lost_a_field_of_a_record_is_refused_as_such():
    async with engine(workflows=[defined(as_recorded)]) as opened:
        run = await opened.start("order", 7)
        await opened.run_until_idle()
        recording = await record(run)
    del recording["records"][0]["input"]
    with pytest.raises(Invalid, match=r"no recording \(KeyError: 'input'\)"):
        await replay(defined(as_recorded), recording)

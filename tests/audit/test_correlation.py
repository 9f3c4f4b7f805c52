"""What an event belongs to is its run's to say, and sealed with the run's first event: nobody moves it elsewhere."""

from __future__ import annotations

import json

import pytest

from stepfast import workflow
from stepfast.kernel.auditing import Fault
from stepfast.signing import KeyedSigner
from stepfast.testing import engine
from stepfast.trail_files import verify_lines
from tests.audit.test_verify import KEYS
from tests.support.sql import fetch, tamper
from tests.support.workflows import say

SIGNER = KeyedSigner(KEYS)


@workflow(name="correlated_parent")
async def parent(words: str) -> str:
    return await say(words)


@pytest.fixture
async def opened(database):
    """A run of a case with its child, and one of none, all sealed."""
    async with engine(database=database, workflows=[say, parent]) as opened:
        opened.app.signer = SIGNER
        await opened.run(parent, "one", correlation_id='case "7"')
        await opened.run(say, "two")
        await opened.app.audit.seal()
        yield opened


async def exported(opened) -> list[str]:
    return [line async for line in opened.app.audit.export()]


async def test_the_first_event_of_a_run_says_what_it_belongs_to(opened):
    queued = [event for event in await opened.app.parts.store.sealed_events(0, 2**62, 100) if event.type == "queued"]
    told = [json.loads(event.data).get("correlation_id") for event in queued]
    assert told == ['case "7"', 'case "7"', None]


async def test_runs_that_belong_to_something_are_sound(opened):
    assert (await opened.app.audit.verify()).findings == ()
    assert verify_lines(await exported(opened), SIGNER).findings == ()


@pytest.mark.parametrize("value", ["'case 8'", "null"])
@pytest.mark.parametrize("of", ["=", "<>"])
async def test_a_run_that_was_moved_elsewhere_is_found(opened, database, of, value):
    given = f"where coalesce(correlation_id, 'none') {of} 'case \"7\"'"
    moved = await fetch(database, f"select run_id from stepfast.run {given}")
    await tamper(database, f"update stepfast.run set correlation_id = {value} {given}")
    is_other = (of, value) != ("<>", "null")
    wanted = {(Fault.CHANGED, str(run_id)) for (run_id,) in moved if is_other}
    assert {(found.fault, found.run_id) for found in (await opened.app.audit.verify()).findings} == wanted
    assert {(found.fault, found.run_id) for found in verify_lines(await exported(opened), SIGNER).findings} == wanted


async def test_a_single_event_that_was_moved_elsewhere_in_a_file_is_found(opened):
    lines = await exported(opened)
    at = next(n for n, line in enumerate(lines) if '"type":"completed"' in line)
    told = json.loads(lines[at])
    lines[at] = json.dumps({**told, "correlation_id": "case 8"}) + "\n"
    (found,) = verify_lines(lines, SIGNER).findings
    assert (found.fault, found.run_id, "case 8" in found.message) == (Fault.CHANGED, told["run_id"], True)


async def test_a_report_says_that_a_run_was_moved_elsewhere(opened, database):
    (run, *_) = await opened.app.runs(workflow="correlated_parent")
    assert "fit their seals" in await opened.app.audit.report(run.run_id)
    await tamper(database, "update stepfast.run set correlation_id = 'case 8' where workflow = 'correlated_parent'")
    page = await opened.app.audit.report(run.run_id)
    assert ("do not fit the events" in page, "fit their seals" in page) == (True, False)

"""The audit trail of an app: sealed as it grows, and verified against everything that somebody may do to its rows."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stepfast import Invalid, Stepfast
from stepfast.kernel.auditing import Fault
from stepfast.kernel.seals import sealed
from stepfast.seal_files import SealFile
from stepfast.signing import KeyedSigner
from stepfast.testing import engine
from stepfast.tokens import fresh_keys
from tests.support.apps import QUICK
from tests.support.sql import fetch, tamper
from tests.support.workflows import say

KEYS = fresh_keys()


@asynccontextmanager
async def sealing(database: str, copies: Path | None = None):
    async with engine(database=database, workflows=[say]) as opened:
        opened.app.signer = KeyedSigner(KEYS)
        opened.app.seal_copies = None if copies is None else SealFile(copies)
        yield opened


@pytest.fixture
def copies(tmp_path):
    return tmp_path / "outside" / "seals.jsonl"


@pytest.fixture
async def opened(database, copies):
    """Three runs of two seals, and one behind them."""
    async with sealing(database, copies) as opened:
        for words in ("one", "two"):
            await opened.run(say, words)
        await opened.app.audit.seal()
        await opened.run(say, "three")
        await opened.app.audit.seal()
        await opened.run(say, "four")
        yield opened


async def faults(opened) -> list[str]:
    return [finding.fault for finding in (await opened.app.audit.verify()).findings]


async def test_an_untouched_trail_is_sound(opened):
    report = await opened.app.audit.verify()
    assert report.findings == ()
    assert (report.seals, report.events > 10, report.unsealed > 0) == (2, True, True)


async def test_what_is_sealed_is_not_sealed_again(opened):
    assert await opened.app.audit.seal() > 0
    assert await opened.app.audit.seal() == 0
    assert (await opened.app.audit.verify()).unsealed == 0


TAMPERING = {
    "an event's data": ("update stepfast.event set data = '{}' where position = 3", Fault.CHANGED),
    "an event's moment": ("update stepfast.event set at = at - 1 where position = 3", Fault.CHANGED),
    "an event is removed": ("delete from stepfast.event where position = 3", Fault.REMOVED),
    "a leaf": ("update stepfast.leaf set digest = 'aa' where number = 1 and n = 1", Fault.SEAL_CHANGED),
    "a leaf is removed": ("delete from stepfast.leaf where number = 1 and n = 1", Fault.SEAL_CHANGED),
    "a seal's root": ("update stepfast.seal set root = 'aa' where number = 1", Fault.SEAL_UNSIGNED),
    "a seal is removed": ("delete from stepfast.seal where number = 1", Fault.SEAL_REMOVED),
    "the last seal is removed": ("delete from stepfast.seal where number = 2", Fault.SEAL_REMOVED),
}


@pytest.mark.parametrize(("statement", "fault"), TAMPERING.values(), ids=TAMPERING)
async def test_whatever_is_done_to_a_sealed_row_is_found(opened, database, statement, fault):
    await tamper(database, statement)
    assert fault in await faults(opened)


INSERT = """
insert into stepfast.event (position, run_id, seq, tenant, generation, type, at, token)
select e.position - 1, e.run_id, 99, e.tenant, 1, 'completed', e.at, 0
  from stepfast.event e
 where e.position = {below}
"""


async def test_an_event_that_is_inserted_among_sealed_ones_is_found(opened, database):
    # A position that was rolled back stays free for ever, and nobody but a forger would use it.
    ((below,),) = await fetch(database, "select min(position) from stepfast.event where seq = 1 and position > 1")
    await tamper(database, f"update stepfast.event set position = -position where position = {below} - 1")
    await tamper(database, INSERT.format(below=below))
    assert {Fault.INSERTED, Fault.CHANGED} <= set(await faults(opened))


async def test_unsealed_events_that_are_removed_are_found(opened, database):
    ((position,),) = await fetch(
        database, "select max(position) - 1 from stepfast.event where type = 'step_completed' or type = 'completed'"
    )
    await tamper(database, f"delete from stepfast.event where position = {position}")
    assert Fault.REMOVED in await faults(opened)


async def test_the_end_of_a_run_that_is_removed_before_it_was_sealed_is_found(opened, database):
    ((position,),) = await fetch(database, "select max(position) from stepfast.event where type = 'completed'")
    await tamper(database, f"delete from stepfast.event where position = {position}")
    assert Fault.REMOVED in await faults(opened)


INSERT_70 = """
insert into stepfast.event (position, run_id, seq, tenant, generation, type, at, token)
select -position, run_id, 70, tenant, generation, 'claimed', at, token from stepfast.event where seq = 2 and {first}
"""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("delete from stepfast.event where seq = 3 and {first}", "these are gone: 3."),
        ("delete from stepfast.event where seq in (2, 3, 5) and {first}", "these are gone: 2 to 3, 5."),
        (INSERT_70, "were not there when the seal was made: 70."),
        ("delete from stepfast.event where seq between 2 and 4 and {last}", "These events of it are gone: 2 to 4."),
    ],
)
async def test_a_finding_says_which_events_it_is_about(opened, database, statement, told):
    first, last = (
        f"position >= (select {which}(position) from stepfast.event where seq = 1)" for which in ("min", "max")
    )
    nth = f"run_id = (select run_id from stepfast.event where seq = 1 order by position limit 1) and {first}"
    await tamper(database, statement.format(first=nth, last=last))
    (found,) = (await opened.app.audit.verify()).findings
    assert told in found.message


@pytest.mark.parametrize("moved", [[0, 0, 1], [1, 0]])
async def test_copies_that_stand_twice_or_in_another_order_accuse_no_seal_of_being_gone(opened, copies, moved):
    lines = copies.read_text().splitlines(keepends=True)
    copies.write_text("".join(lines[each] for each in moved))
    found = {finding.fault for finding in (await opened.app.audit.verify()).findings}
    assert (Fault.COPY_DIFFERS in found, Fault.SEAL_REMOVED in found) == (True, False)


async def test_a_trail_that_was_cut_short_is_found_by_its_copies(opened, database):
    await tamper(database, "delete from stepfast.leaf where number = 2")
    await tamper(database, "delete from stepfast.seal where number = 2")
    assert Fault.SEAL_REMOVED in await faults(opened)


async def test_a_copy_that_was_changed_is_found(opened, copies):
    copies.write_text(copies.read_text().replace('"events": ', '"events": 1'))
    assert Fault.COPY_DIFFERS in await faults(opened)


async def test_copies_that_are_gone_are_found(opened, copies):
    copies.unlink()
    assert await faults(opened) == [Fault.COPY_MISSING]


async def test_a_seal_whose_maker_died_before_it_copied_it_is_copied_by_the_next(opened, copies):
    lines = copies.read_text().splitlines(keepends=True)
    copies.write_text(lines[0] + lines[1][:20])
    await opened.app.audit.seal()
    assert await faults(opened) == []


class SignsNothing(KeyedSigner):
    """The broken twin: a signature that anybody can make."""

    def sign(self, text: bytes) -> tuple[str, str]:
        return "1", "signed"

    def proves(self, text: bytes, key: str, signature: str) -> bool | None:
        return signature == "signed"


async def forged(opened, database) -> None:
    """Change an event, and make leaf, root and seal anew as far as one can without the key."""
    store = opened.app.parts.store
    await tamper(database, "delete from stepfast.leaf where number = 2")
    await tamper(database, "delete from stepfast.seal where number = 2")
    (first,) = await store.seals(0, 1)
    await tamper(database, f"update stepfast.event set actor = 'eve' where position = {first.body.upto + 1}")
    page = await store.trail(first.body.upto, 100)
    seal, leaves = sealed(first, page.events, page.reached, first.body.sealed_at, SignsNothing(KEYS))
    assert await store.put_seal(seal, leaves)


async def test_a_seal_that_was_made_anew_without_the_key_is_found(database):
    async with sealing(database) as opened:
        await sealed_twice(opened)
        await forged(opened, database)
        assert Fault.SEAL_UNSIGNED in await faults(opened)


async def test_the_broken_twin_that_signs_nothing_lets_a_forger_seal_anew(database):
    async with sealing(database) as opened:
        opened.app.signer = SignsNothing(KEYS)
        await sealed_twice(opened)
        await forged(opened, database)
        assert await faults(opened) == []


async def sealed_twice(opened) -> None:
    for words in ("one", "two"):
        await opened.run(say, words)
        await opened.app.audit.seal()


async def test_without_a_key_nothing_is_sealed_and_that_is_said(database):
    async with engine(database=database, workflows=[say]) as opened:
        with pytest.raises(Invalid, match="STEPFAST_SEAL_KEYS"):
            await opened.app.audit.seal()


async def test_two_processes_that_seal_at_once_make_one_seal_of_each_number(database):
    async with sealing(database) as opened:
        for number in range(20):
            await opened.run(say, str(number))
        counts = await asyncio.gather(*(opened.app.audit.seal() for _ in range(5)))
        report = await opened.app.audit.verify()
    assert (report.findings, report.unsealed, sum(counts)) == ((), 0, report.events)


async def test_a_worker_seals_by_itself(database):
    settings = replace(QUICK, seal_every_ms=100)
    app = Stepfast(database, workflows=[say], worker=settings)
    app.signer = KeyedSigner(KEYS)
    async with app:
        await (await app.start(say, "sealed")).result(timeout="30s")
        while (await app.audit.verify()).unsealed:
            pass
        assert (await app.audit.verify()).is_sound

"""A dead letter is written with the end of its run: a row that is refused in between leaves nothing of it."""

from __future__ import annotations

import pytest

from stepfast.kernel.errors import RowsRefused
from stepfast.kernel.exchange import Saving
from tests.faults.test_dead_letters import LETTER, told_after, told_first
from tests.stores.harness import Harness, fail
from tests.support.guards import url_of

REFUSED = {
    "dlq_recorded": ("event", "new.type = 'dlq_recorded'"),
    "failed": ("event", "new.type = 'failed'"),
    "the outcome": ("outcome", "true"),
    "the letter": ("dead_letter", "true"),
    "the exception item": ("exception_item", "true"),
}
ON_SQLITE = "create trigger refuse before insert on {} when {} begin select raise(abort, 'no'); end"
BY_WHOM = """
create function stepfast.refuse() returns trigger language plpgsql as
$$ begin raise exception using errcode = 'check_violation', message = 'no'; end $$
"""
ON_POSTGRES = (
    "create trigger refuse before insert on stepfast.{} for each row when ({}) execute function stepfast.refuse()"
)


async def refuse(harness: Harness, table: str, condition: str) -> None:
    """Let a row be refused from here on."""
    if url_of(harness) is None:
        await harness.sql(ON_SQLITE.format(table, condition))
    else:
        await harness.sql(BY_WHOM)
        await harness.sql(ON_POSTGRES.format(table, condition))


async def allow(harness: Harness, table: str) -> None:
    await harness.sql("drop trigger refuse" if url_of(harness) is None else f"drop trigger refuse on stepfast.{table}")


@pytest.mark.parametrize("row", REFUSED)
async def test_a_letter_of_which_a_row_is_refused_leaves_nothing_and_is_whole_the_next_time(harness, row):
    table, condition = REFUSED[row]
    run = await harness.held()
    ending = fail(run)
    before = await harness.contents()
    await refuse(harness, table, condition)
    with pytest.raises(RowsRefused):
        await harness.save(ending)
    assert await harness.contents() == before
    await allow(harness, table)
    assert await harness.save(ending) == [Saving.SAVED]
    assert (await harness.event_types(run.run_id))[-3:] == LETTER


@pytest.mark.parametrize("row", REFUSED)
async def test_the_broken_twin_that_writes_it_in_two_commits_leaves_the_first(harness, row):
    run = await harness.held()
    ending = fail(run)
    await refuse(harness, *REFUSED[row])
    await harness.save(told_first(ending))
    with pytest.raises(RowsRefused):
        await harness.save(told_after(ending))
    assert (await harness.event_types(run.run_id))[-1] == "dlq_pending"

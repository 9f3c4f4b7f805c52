"""What somebody has put into a SQLite file by other means than text is found, named, and no riddle."""

from __future__ import annotations

import pytest

from stepfast.kernel.errors import StoreUnusable
from stepfast.stores.sqlite import reading
from stepfast.testing import engine
from stepfast.trail_files import verify_lines
from tests.audit.trails import SIGNER, VERIFIER, run_sql
from tests.publishing.harness import Place, published, publisher
from tests.support.workflows import say

NO_UTF8 = "cast(x'ff80' as text)"


@pytest.fixture
def database(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'app.db'}"


@pytest.fixture
async def opened(database):
    async with engine(database=database, workflows=[say]) as opened:
        opened.app.signer = SIGNER
        yield opened


@pytest.fixture
async def runs(opened) -> list[str]:
    """Two runs, each in a seal of its own."""
    made = []
    for word in ("one", "two"):
        made.append((await opened.start(say, word)).id)
        await opened.run_until_idle()
        await opened.app.audit.seal()
    return made


@pytest.mark.parametrize("column", ["actor", "data", "type", "tenant", "step", "causation_id"])
async def test_an_event_with_bytes_that_are_no_text_is_found_and_named(opened, runs, database, column):
    await run_sql(database, [f"update event set {column} = {NO_UTF8} where run_id = '{runs[0]}' and seq = 1"])
    report = await opened.app.audit.verify()
    assert [(found.fault, found.run_id) for found in report.findings] == [("changed", runs[0])]


async def test_the_broken_twin_that_reads_texts_alone_verifies_nothing(opened, runs, database, monkeypatch):
    monkeypatch.setattr(reading, "SHOWN", frozenset[str]())
    await run_sql(database, [f"update event set actor = {NO_UTF8} where run_id = '{runs[0]}' and seq = 1"])
    with pytest.raises(StoreUnusable, match="no UTF-8"):
        await opened.app.audit.verify()


@pytest.mark.parametrize(("table", "column"), [("seal", "signature"), ("seal", "root"), ("leaf", "digest")])
async def test_seals_and_leaves_with_such_bytes_are_found(opened, runs, database, table, column):
    await run_sql(database, [f"update {table} set {column} = {NO_UTF8} where number = 1"])
    assert {found.seal for found in (await opened.app.audit.verify()).findings} >= {1}


async def test_the_run_of_such_an_event_can_still_be_read_reported_and_exported(opened, runs, database):
    await run_sql(database, [f"update event set actor = {NO_UTF8} where run_id = '{runs[0]}' and seq = 1"])
    run = opened.app.get(runs[0])
    assert [event.seq for event in await run.history()][:2] == [1, 2]
    for form in ("md", "html"):
        (await opened.app.audit.report(run.id, form)).encode()
    report = verify_lines([line async for line in opened.app.audit.export(run_id=run.id)], VERIFIER)
    assert [found.fault for found in report.findings] == ["changed"]


async def test_a_run_with_such_bytes_is_shown_as_it_stands_and_its_report_is_an_error_with_a_code(
    opened, runs, database
):
    await run_sql(database, [f"update run set actor = {NO_UTF8} where run_id = '{runs[0]}'"])
    assert (await opened.app.get(runs[0]).info()).actor == "\udcff\udc80"
    assert {view.run_id for view in await opened.app.runs()} >= set(runs)
    with pytest.raises(StoreUnusable, match="no UTF-8"):
        await opened.app.audit.report(runs[0], "md")


@pytest.mark.parametrize("table", ["seal", "event"])
async def test_a_table_that_was_taken_away_is_an_error_with_a_code(opened, runs, database, table):
    await run_sql(database, [f"drop table {table}"])
    with pytest.raises(StoreUnusable, match=f"no such table: {table}"):
        await opened.app.audit.verify()


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_an_event_whose_run_is_named_by_such_bytes_is_found(opened, runs, database, is_sealed):
    await opened.app.get(runs[0]).annotate("checked", True)
    if is_sealed:
        await opened.app.audit.seal()
    await run_sql(database, [f"update event set run_id = {NO_UTF8} where type = 'annotated'"])
    assert "removed" in [found.fault for found in (await opened.app.audit.verify()).findings]


async def test_a_damaged_event_stands_in_lists_of_the_trail(opened, runs, database):
    await run_sql(database, [f"update event set actor = {NO_UTF8} where run_id = '{runs[0]}' and seq = 1"])
    (first,) = [event for event in await opened.app.audit.list() if (event.run_id, event.seq) == (runs[0], 1)]
    assert first.actor == "\udcff\udc80"
    assert await opened.app.audit.get(first.position) == first


class Encoding(Place):
    """Sends what it gets as bytes, as every sink does that leaves the process."""

    async def deliver(self, events):
        for event in events:
            event.type.encode()
        await super().deliver(events)


async def test_a_sink_gets_past_an_event_with_such_bytes(opened, runs, database):
    await run_sql(database, [f"update event set type = {NO_UTF8} where run_id = '{runs[0]}' and seq = 2"])
    place = Encoding()
    await published(opened, publisher(opened, place))
    assert len(place.of(opened.app.get(runs[1]))) > 2
    (letter,) = await opened.app.sinks.letters("place")
    assert (letter.letter.run_id, letter.letter.seq, letter.letter.type) == (runs[0], 2, "\\udcff\\udc80")

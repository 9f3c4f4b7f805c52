"""Whatever is done to a trail by SQL, or to its copies, is found and located; what nobody touched is never accused."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from stepfast import verifying
from stepfast.kernel.auditing import AuditReport
from tests.audit.trails import Trail, literal, run_sql, sealed_anew, trail_of
from tests.support.sql import fetch

EXAMPLES = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture
async def trail(database, tmp_path):
    async with trail_of(database, tmp_path / "outside" / "seals.jsonl") as trail:
        report = await trail.verify()
        assert (report.findings, report.seals > 3, report.unsealed > 0, report.uncopied) == ((), True, True, 0)
        await trail.save()
        yield trail


class Place(NamedTuple):
    """Where a finding may point to: it names the run, or the seal."""

    runs: frozenset[str] = frozenset()
    seals: frozenset[int] = frozenset()
    is_file: bool = False

    def is_named_by(self, report: AuditReport) -> bool:
        if self.is_file:
            return not report.is_sound
        return any(found.run_id in self.runs or found.seal in self.seals for found in report.findings)


class Row(NamedTuple):
    """An event that was sealed."""

    position: int
    run_id: str
    seq: int
    seal: int

    @property
    def place(self) -> Place:
        return Place(frozenset({self.run_id}), frozenset({self.seal}))

    @property
    def chosen(self) -> str:
        return f"run_id = '{self.run_id}' and seq = {self.seq}"


async def sealed_rows(trail: Trail) -> list[Row]:
    seals = await trail.seals()
    found = await fetch(trail.database, "select position, run_id, seq from stepfast.event order by position")
    numbered = [
        (position, str(run), seq, next((s.body.number for s in seals if position <= s.body.upto), 0))
        for position, run, seq in found
    ]
    return [Row(*row) for row in numbered if row[3]]


def other_value(column: str, value: Any) -> Any:
    """A value of the same kind that is not this one."""
    if column == "run_id":
        return UUID(int=UUID(str(value)).int ^ 1 << 120)
    if column == "data":
        return '{"forged": true}'
    if column in ("attempt", "token", "generation", "at", "seq", "position"):
        return 1_000 + (value or 0)
    return f"{value or ''}x"


async def change_a_column(trail: Trail, draw: st.DataObject) -> Place:
    row = draw.draw(st.sampled_from(await sealed_rows(trail)))
    column = draw.draw(st.sampled_from(await trail.columns("event")))
    ((value,),) = await fetch(trail.database, f"select {column} from stepfast.event where {row.chosen}")
    other = literal(other_value(column, value))
    await run_sql(trail.database, [f"update stepfast.event set {column} = {other} where {row.chosen}"])
    return row.place


async def empty_a_column(trail: Trail, draw: st.DataObject) -> Place:
    row = draw.draw(st.sampled_from(await sealed_rows(trail)))
    column = draw.draw(st.sampled_from(["step", "attempt", "actor", "causation_id", "data"]))
    ((value,),) = await fetch(trail.database, f"select {column} from stepfast.event where {row.chosen}")
    assume(value is not None)
    await run_sql(trail.database, [f"update stepfast.event set {column} = null where {row.chosen}"])
    return row.place


async def remove_an_event(trail: Trail, draw: st.DataObject) -> Place:
    row = draw.draw(st.sampled_from(await sealed_rows(trail)))
    await run_sql(trail.database, [f"delete from stepfast.event where {row.chosen}"])
    return row.place


async def remove_a_run(trail: Trail, draw: st.DataObject) -> Place:
    row = draw.draw(st.sampled_from(await sealed_rows(trail)))
    tables = ["event", "run", "outcome", "generation", "step"]
    await run_sql(trail.database, [f"delete from stepfast.{each} where run_id = '{row.run_id}'" for each in tables])
    return row.place


async def insert_an_event(trail: Trail, draw: st.DataObject) -> Place:
    """In front of all others, or where a position was given back; on PostgreSQL also beside another."""
    rows = await sealed_rows(trail)
    row, last = draw.draw(st.sampled_from(rows)), max(row.position for row in rows)
    used = {row.position for row in rows}
    free = [-1, 0, *(position for position in range(1, last) if position not in used)]
    if trail.database.startswith("postgres"):
        free.append(row.position)
    position = draw.draw(st.sampled_from(free))
    insert = f"""
        insert into stepfast.event (position, run_id, seq, tenant, generation, type, at, token)
        select {position}, run_id, max(seq) + 1, tenant, 1, 'paused', max(at), 0
          from stepfast.event where run_id = '{row.run_id}' group by run_id, tenant
    """
    await run_sql(trail.database, [insert])
    return Place(frozenset({row.run_id}))


async def swap_two(trail: Trail, draw: st.DataObject) -> Place:
    one, two = draw.draw(st.lists(st.sampled_from(await sealed_rows(trail)), min_size=2, max_size=2, unique=True))
    column = draw.draw(st.sampled_from(["position", "type", "at", "data", "seq"]))
    assume(column != "seq" or one.run_id == two.run_id)
    ((first,),) = await fetch(trail.database, f"select {column} from stepfast.event where {one.chosen}")
    ((second,),) = await fetch(trail.database, f"select {column} from stepfast.event where {two.chosen}")
    assume(first != second)
    here, there = f"run_id = '{one.run_id}' and seq = 999999", two.chosen
    statements = [
        f"update stepfast.event set seq = 999999, position = -99 where {one.chosen}",
        f"update stepfast.event set {column} = {literal(first)} where {there}",
        f"update stepfast.event set seq = {one.seq}, position = {one.position} where {here}",
        f"update stepfast.event set {column} = {literal(second)} where {one.chosen}",
    ]
    if column == "seq":
        statements[1:] = [
            f"update stepfast.event set seq = {one.seq} where {there}",
            f"update stepfast.event set seq = {two.seq}, position = {one.position} where {here}",
        ]
    if column == "position":
        statements[2:] = [f"update stepfast.event set seq = {one.seq}, position = {two.position} where {here}"]
    await run_sql(trail.database, statements)
    return Place(frozenset({one.run_id, two.run_id}), frozenset({one.seal, two.seal}))


async def seal_anew(trail: Trail, draw: st.DataObject) -> Place:
    """Change an event, and make all that follows from it anew, but for the key."""
    row = draw.draw(st.sampled_from(await sealed_rows(trail)))
    await run_sql(trail.database, [f"update stepfast.event set actor = 'eve' where {row.chosen}"])
    await run_sql(trail.database, await sealed_anew(trail, row.seal))
    return Place(seals=frozenset({row.seal}))


async def renumber(trail: Trail, draw: st.DataObject) -> Place:
    """Remove an event, close the gap in the numbers of its run, and make all that follows anew, but for the key."""
    row = draw.draw(st.sampled_from(await sealed_rows(trail)))
    behind = f"run_id = '{row.run_id}' and seq > "
    statements = [
        f"delete from stepfast.event where {row.chosen}",
        f"update stepfast.event set seq = -seq where {behind}{row.seq}",
        f"update stepfast.event set seq = -seq - 1 where run_id = '{row.run_id}' and seq < 0",
    ]
    await run_sql(trail.database, statements)
    await run_sql(trail.database, await sealed_anew(trail, row.seal))
    return Place(seals=frozenset({row.seal}))


async def change_a_seal(trail: Trail, draw: st.DataObject) -> Place:
    seals = await trail.seals()
    number = draw.draw(st.sampled_from([seal.body.number for seal in seals]))
    column = draw.draw(st.sampled_from(await trail.columns("seal")))
    is_text = column in ("root", "previous", "key", "signature")
    other = f"{column} || 'x'" if is_text else f"{column} + 1000"
    await run_sql(trail.database, [f"update stepfast.seal set {column} = {other} where number = {number}"])
    return Place(seals=frozenset({number, number + 1, number + 1_000}))


async def change_a_leaf(trail: Trail, draw: st.DataObject) -> Place:
    leaves = await fetch(trail.database, "select number, n, run_id from stepfast.leaf order by number, n")
    number, n, run_id = draw.draw(st.sampled_from(leaves))
    what = draw.draw(
        st.sampled_from(
            [
                "update stepfast.leaf set digest = 'aa'",
                "update stepfast.leaf set first_seq = first_seq + 1",
                "update stepfast.leaf set last_seq = last_seq + 1",
                "update stepfast.leaf set tenant = tenant || 'x'",
                "update stepfast.leaf set number = number + 1000",
                "delete from stepfast.leaf",
            ]
        )
    )
    await run_sql(trail.database, [f"{what} where number = {number} and n = {n}"])
    return Place(frozenset({str(run_id)}), frozenset({number}))


async def cut_the_end(trail: Trail, draw: st.DataObject) -> Place:
    """Remove the last seals, with or without what they sealed: nothing but the copies tells of it."""
    seals = await trail.seals()
    kept = draw.draw(st.sampled_from(seals[:-1]))
    statements = [f"delete from stepfast.{each} where number > {kept.body.number}" for each in ("seal", "leaf")]
    if draw.draw(st.booleans()):
        statements.append(f"delete from stepfast.event where position > {kept.body.upto}")
        statements += [
            f"delete from stepfast.{each} where run_id not in (select run_id from stepfast.event)"
            for each in ("run", "outcome")
        ]
    await run_sql(trail.database, statements)
    return Place(seals=frozenset({seals[-1].body.number}))


async def remove_a_seal(trail: Trail, draw: st.DataObject) -> Place:
    number = draw.draw(st.sampled_from([seal.body.number for seal in await trail.seals()]))
    await run_sql(trail.database, [f"delete from stepfast.{each} where number = {number}" for each in ("seal", "leaf")])
    return Place(seals=frozenset({number, number + 1}))


async def change_the_copies(trail: Trail, draw: st.DataObject) -> Place:
    lines = trail.kept.splitlines(keepends=True)
    index = draw.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[index])
    where = line.index(b'"root": "') + 9 + draw.draw(st.integers(0, 63))
    line[where] = ord("0") if line[where] != ord("0") else ord("1")
    trail.copies.write_bytes(b"".join([*lines[:index], bytes(line), *lines[index + 1 :]]))
    return Place(seals=frozenset({index + 1}))


async def remove_a_copy(trail: Trail, draw: st.DataObject) -> Place:
    lines = trail.kept.splitlines(keepends=True)
    index = draw.draw(st.integers(0, len(lines) - 2))
    trail.copies.write_bytes(b"".join([*lines[:index], *lines[index + 1 :]]))
    return Place(seals=frozenset({index + 1}))


async def put_an_older_file_of_copies_back(trail: Trail, draw: st.DataObject) -> Place:
    lines = trail.kept.splitlines(keepends=True)
    kept = draw.draw(st.integers(0, len(lines) - 2))
    trail.copies.write_bytes(b"".join(lines[:kept]))
    return Place(seals=frozenset({kept + 1}))


WAYS = [
    change_a_column,
    empty_a_column,
    remove_an_event,
    remove_a_run,
    insert_an_event,
    swap_two,
    seal_anew,
    renumber,
    change_a_seal,
    change_a_leaf,
    cut_the_end,
    remove_a_seal,
    change_the_copies,
    remove_a_copy,
    put_an_older_file_of_copies_back,
]


@EXAMPLES
@given(data=st.data())
async def test_whatever_is_done_to_a_trail_is_found_and_located(trail, data):
    way = data.draw(st.sampled_from(WAYS), label="way")
    await trail.restore()
    place = await way(trail, data)
    report = await trail.verify()
    assert place.is_named_by(report), (way.__name__, place, report.findings)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@settings(EXAMPLES, max_examples=2)
@given(data=st.data())
async def test_each_way_is_found(trail, way, data):
    await trail.restore()
    place = await way(trail, data)
    assert place.is_named_by(await trail.verify())


async def test_what_was_put_back_as_it_was_is_sound(trail):
    await run_sql(trail.database, ["delete from stepfast.event", "delete from stepfast.seal"])
    assert not (await trail.verify()).is_sound
    await trail.restore()
    assert (await trail.verify()).findings == ()


async def seal_the_last_anew(trail: Trail) -> None:
    last = (await trail.seals())[-1].body
    await run_sql(trail.database, [f"update stepfast.event set actor = 'eve' where position = {last.upto}"])
    await run_sql(trail.database, await sealed_anew(trail, last.number))


async def cut_the_last(trail: Trail) -> None:
    last = (await trail.seals())[-1].body
    await run_sql(
        trail.database, [f"delete from stepfast.{each} where number = {last.number}" for each in ("seal", "leaf")]
    )


async def remove_what_is_not_sealed(trail: Trail) -> None:
    last = (await trail.seals())[-1].body.upto
    await run_sql(trail.database, [f"delete from stepfast.event where position = {last + 2}"])


async def test_without_a_copy_a_seal_that_was_made_anew_is_found_by_its_signature(trail):
    await seal_the_last_anew(trail)
    assert not (await trail.verify(has_copies=False)).is_sound


async def test_the_broken_twin_that_looks_at_no_signature_misses_a_seal_that_was_made_anew(trail, monkeypatch):
    monkeypatch.setattr(verifying, "check_signature", lambda seal, signer: iter(()))
    await seal_the_last_anew(trail)
    assert (await trail.verify(has_copies=False)).is_sound


async def test_a_trail_that_was_cut_is_found(trail):
    await cut_the_last(trail)
    assert not (await trail.verify()).is_sound


async def test_the_broken_twin_without_copies_misses_that_a_trail_was_cut(trail):
    await cut_the_last(trail)
    assert (await trail.verify(has_copies=False)).is_sound


async def test_an_event_that_was_removed_before_it_was_sealed_is_found(trail):
    await remove_what_is_not_sealed(trail)
    assert not (await trail.verify()).is_sound


async def test_the_broken_twin_that_looks_for_no_gaps_misses_what_was_removed_before_it_was_sealed(trail, monkeypatch):
    async def none(after: int, limit: int) -> list[Any]:
        return []

    monkeypatch.setattr(trail.app._open_parts().store, "gaps", none)
    await remove_what_is_not_sealed(trail)
    assert (await trail.verify()).is_sound

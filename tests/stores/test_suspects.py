"""Runs whose worker died: they wait apart, and are tried again in smaller and smaller company."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.decisions import Park, Wait
from stepfast.kernel.events import EventType
from stepfast.kernel.states import RunState, WaitKind
from stepfast.kernel.suspects import company, room_beside, suspect_rooms
from tests.stores.harness import decide, record


async def crashed(harness, count: int, times: int = 1) -> None:
    """So many runs whose worker died so often."""
    await harness.start_many(count)
    for number in range(times):
        worker = f"victim-{next(harness.counter)}"
        await harness.enrol(worker)
        await harness.claim(worker=worker, suspects=None if number == 0 else [count] * 8)
        await harness.bury(worker)


async def test_an_ordinary_claim_gets_no_suspects_but_hears_of_them(harness):
    await crashed(harness, 3)
    await harness.enrol()
    claimed = await harness.ask()
    assert (claimed.runs, claimed.suspects_wait) == ([], True)


async def test_a_claim_hears_when_no_suspects_wait(harness):
    await harness.held()
    assert (await harness.ask()).suspects_wait is False


async def test_a_claim_for_suspects_takes_as_many_as_their_level_allows(harness):
    await crashed(harness, 5)
    await harness.enrol()
    assert len(await harness.claim(suspects=[2, 1])) == 2


async def test_a_claim_for_suspects_takes_the_least_suspicious_first(harness):
    await crashed(harness, 2, times=2)
    await crashed(harness, 2)
    await harness.enrol()
    assert {run.crashes for run in await harness.claim(suspects=[10, 10])} == {1}


async def test_a_suspect_beyond_the_last_level_has_the_last_levels_room(harness):
    await crashed(harness, 2, times=4)
    await harness.enrol()
    assert len(await harness.claim(suspects=[9, 1])) == 1


async def test_suspects_of_code_the_worker_lacks_are_left_alone(harness):
    await crashed(harness, 1)
    await harness.enrol()
    claimed = await harness.ask(codes=["other@1"], suspects=[9])
    assert (claimed.runs, claimed.suspects_wait) == ([], False)


async def test_suspects_of_tenants_the_worker_does_not_serve_are_left_alone(harness):
    await crashed(harness, 1)
    await harness.enrol()
    assert await harness.claim(tenants=["other"], suspects=[9]) == []


async def test_a_suspect_that_parks_is_a_suspect_no_more(harness):
    await crashed(harness, 1)
    await harness.enrol()
    (run,) = await harness.claim(suspects=[1])
    wait = Wait(1, WaitKind.SIGNAL, "go", record().call)
    await harness.save(decide(run, EventType.WAITING, opened=(wait,), release=Park(run.wakes)))
    assert await harness.sql("select crashes, strikes from stepfast.task") == [(0, 0)]


async def test_a_run_that_waits_for_code_is_woken_by_a_worker_that_has_it(harness):
    run = await harness.held()
    wait = Wait(-1, WaitKind.CODE, "order@1", record().call)
    await harness.save(decide(run, EventType.WAITING, opened=(wait,), release=Park(run.wakes)))
    assert await harness.state(run.run_id) is RunState.WAITING
    await harness.enrol("other", codes=("other@1",))
    assert await harness.state(run.run_id) is RunState.WAITING
    await harness.enrol("w2")
    assert [again.run_id for again in await harness.claim(worker="w2")] == [run.run_id]
    assert await harness.sql("select count(*) from stepfast.wait") == [(0,)]


@given(concurrency=st.integers(1, 10_000), held=st.lists(st.integers(0, 20), max_size=50))
def test_a_worker_never_holds_more_than_its_most_suspicious_run_allows(concurrency, held):
    room = room_beside(held, len(held), concurrency)
    assert room == 0 or len(held) + room <= min(
        (company(crashes, concurrency) for crashes in held), default=concurrency
    )


@given(concurrency=st.integers(1, 10_000), held=st.lists(st.integers(0, 20), max_size=50))
def test_no_suspect_is_taken_into_larger_company_than_its_own(concurrency, held):
    for level, room in enumerate(suspect_rooms(held, len(held), concurrency), start=1):
        assert room == 0 or len(held) + room <= company(level, concurrency)


@given(concurrency=st.integers(1, 10_000))
def test_enough_crashes_leave_a_run_alone(concurrency):
    assert company(8, concurrency) == 1

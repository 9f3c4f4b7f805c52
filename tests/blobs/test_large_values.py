"""Values of megabytes on every way that a value can take: through blobs, over parks and restarts."""

from __future__ import annotations

from stepfast import RunState, Start, continue_as, each, receive, step, workflow
from stepfast.kernel.blobs import BlobFilter, is_reference
from stepfast.kernel.ids import RunId
from tests.blobs.places import BIG, app_with
from tests.support.apps import Bodies
from tests.support.following import state_of

ran = Bodies()


@step
async def make(size: int) -> str:
    ran.ran("make")
    return "x" * size


@step
async def measure(text: str) -> int:
    return len(text)


@workflow
async def make_and_wait(size: int) -> int:
    text = await make(size)
    await receive("go")
    return await measure(text)


@workflow
async def give_back(text: str) -> str:
    return text


@workflow
async def take_signal() -> int:
    first = await receive("text", str)
    await receive("go")
    return len(first)


@workflow
async def send_to_child(size: int) -> list[str]:
    child = await take_signal.start()
    await child.signal("text", "x" * size)
    await child.signal("go")
    return [child.id, str(await child)]


@workflow
async def ask_children(size: int) -> list[int]:
    texts = await each(give_back, ["x" * size, "y" * (size + 1), "z"])
    return [len(text) for text in texts]


@workflow
async def twice(text: str, rounds: int) -> int:
    if rounds:
        continue_as(text + "x", rounds - 1)
    return len(text)


@workflow
async def fails_late(text: str) -> int:
    if not ran["mended"]:
        raise ValueError("not yet")
    return len(text)


async def rows_of(app, run_id: str) -> list[str]:
    """Every text of a run that may be large, as its rows hold it."""
    run = app.get(run_id)
    info, steps = await run.info(), await run.steps()
    return [text for text in (info.input, info.value, *(t for s in steps for t in (s.input, s.value))) if text]


async def test_a_step_s_result_survives_a_park_and_another_process(database, place):
    ran.clear()
    async with app_with(database, [make_and_wait], place) as app:
        run = await app.start(make_and_wait, BIG)
        await state_of(run, RunState.WAITING)
    async with app_with(database, [make_and_wait], place) as app:
        await app.get(run.id).signal("go")
        assert await app.get(run.id).result(timeout="30s") == BIG
        assert max(len(text) for text in await rows_of(app, run.id)) < 200
    assert ran == {"make": 1}


async def test_an_input_and_an_outcome_reach_other_processes(database, place):
    async with app_with(database, [give_back], place, worker=False) as client:
        run = await client.start(give_back, "x" * BIG, key="once")
        again = await client.start(give_back, "x" * BIG, key="once")
        assert again.id == run.id
        assert is_reference((await run.info()).input)
    async with app_with(database, [give_back], place) as app:
        await app.get(run.id).result(timeout="30s")
    async with app_with(database, [give_back], place, worker=False) as client:
        assert await client.get(run.id).result() == "x" * BIG
        info = await client.get(run.id).info()
        assert is_reference(info.value)
        assert await client.get(run.id).read(info.value) == '"' + "x" * BIG + '"'


async def test_a_run_born_leased_gets_its_input(database, place):
    async with app_with(database, [give_back], place) as app:
        assert await (await app.start(give_back, "x" * BIG)).result(timeout="30s") == "x" * BIG


async def test_many_starts_at_once(database, place):
    async with app_with(database, [give_back], place) as app:
        answers = await app.start_many(Start(give_back, letter * 200_000) for letter in "abc")
        found = [await answer.run.result(timeout="30s") for answer in answers if answer.run]
        assert found == [letter * 200_000 for letter in "abc"]


async def test_a_signal_is_kept_until_it_is_taken_and_after(database, place):
    async with app_with(database, [take_signal], place, worker=False) as client:
        run = await client.start(take_signal)
        await run.signal("text", "x" * BIG, key="a")
        await run.signal("text", "x" * BIG, key="a")
    async with app_with(database, [take_signal], place) as app:
        await state_of(app.get(run.id), RunState.WAITING)
    async with app_with(database, [take_signal], place) as app:
        await app.get(run.id).signal("go")
        assert await app.get(run.id).result(timeout="30s") == BIG
        assert max(len(text) for text in await rows_of(app, run.id)) < 200


async def test_a_signal_to_a_run_under_way(database, place):
    async with app_with(database, [take_signal], place) as app:
        run = await app.start(take_signal)
        await state_of(run, RunState.WAITING)
        await run.signal("text", "x" * BIG)
        await run.signal("go")
        assert await run.result(timeout="30s") == BIG


async def test_a_signal_through_the_handle_of_a_child(database, place):
    async with app_with(database, [send_to_child, take_signal], place) as app:
        run = await app.start(send_to_child, BIG)
        child, length = await run.result(timeout="30s")
        rows = await rows_of(app, child) + await rows_of(app, run.id)
    assert length == str(BIG)
    assert max(map(len, rows)) < 200


async def test_a_signal_that_a_child_has_not_taken_is_a_reference_in_its_inbox(database, place):
    @workflow
    async def send() -> str:
        child = await make_and_wait.start(1, on_parent_end="leave")
        await child.signal("text", "x" * BIG)
        return child.id

    async with app_with(database, [send, make_and_wait], place) as app:
        child = await (await app.start(send)).result(timeout="30s")
        look = await app._open_parts().store.look(RunId(child))
    assert look is not None
    assert [is_reference(message.value) for message in look.inbox] == [True]


async def test_inputs_and_results_of_children(database, place):
    async with app_with(database, [ask_children, give_back], place) as app:
        run = await app.start(ask_children, 300_000)
        assert await run.result(timeout="30s") == [300_000, 300_001, 1]
        children = [view for view in await app.runs("give_back") if view.parent_id == run.id]
        assert sorted(is_reference(child.input) for child in children) == [False, True, True]
        assert max(len(text) for text in await rows_of(app, run.id)) < 200


async def test_a_run_that_starts_over_with_a_large_input(database, place):
    async with app_with(database, [twice], place) as app:
        run = await app.start(twice, "x" * 200_000, 3)
        assert await run.result(timeout="30s") == 200_003
        assert is_reference((await run.info()).input)


async def test_a_generation_that_is_opened_again_has_its_input(database, place):
    ran.clear()
    async with app_with(database, [fails_late], place) as app:
        run = await app.start(fails_late, "x" * 200_000)
        await state_of(run, RunState.FAILED)
        ran.ran("mended")
        await run.retry()
        assert await run.result(timeout="30s") == 200_000


async def test_small_values_leave_the_blob_store_alone(database, place):
    async with app_with(database, [ask_children, give_back], place) as app:
        assert await (await app.start(ask_children, 10_000)).result(timeout="30s") == [10_000, 10_001, 1]
        assert await app._open_parts().values.blobs.list(BlobFilter()) == []


async def test_the_threshold_is_a_setting(database, place, monkeypatch):
    monkeypatch.setenv("STEPFAST_BLOB_THRESHOLD", "2000")
    async with app_with(database, [give_back], place) as app:
        small, large = await app.start(give_back, "x" * 1_900), await app.start(give_back, "x" * 2_000)
        assert await small.result(timeout="30s") == "x" * 1_900
        assert await large.result(timeout="30s") == "x" * 2_000
        assert not is_reference((await small.info()).value)
        assert is_reference((await large.info()).value)


async def test_the_place_is_a_setting(database, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPFAST_BLOBS", f"file://{tmp_path}/elsewhere")
    async with app_with(database, [give_back], None) as app:
        assert await (await app.start(give_back, "x" * BIG)).result(timeout="30s") == "x" * BIG
    assert len(list((tmp_path / "elsewhere" / "default").glob("*/sha256-*"))) == 2

"""Handles of children: started now, joined later, told and cancelled durably."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import (
    Retry,
    Run,
    RunFailed,
    RunState,
    WrongCall,
    race,
    receive,
    sleep,
    step,
    workflow,
)
from stepfast.testing import Engine, engine
from stepfast.testing.worker import Stuck
from stepfast.workflows import started_children
from stepfast.workflows.started_children import StartedChild
from tests.durable.test_waiting import until
from tests.support.apps import Bodies, app_on
from tests.support.virtual_time import timed_app


@workflow
async def echo_later(word: str) -> str:
    return word + await receive("go", str)


@workflow
async def shout(word: str) -> str:
    return word.upper()


@workflow
async def stumble() -> None:
    raise ValueError("stumbled")


@workflow
async def stumble_later() -> None:
    await receive("go")
    raise ValueError("stumbled")


STUMBLES = Bodies()


@workflow
async def stumble_once() -> str:
    STUMBLES.ran("stumble")
    if STUMBLES["stumble"] == 1:
        raise ValueError("stumbled once")
    return "steady"


async def children_of(app, run):
    return [view for view in await app.runs() if view.parent_id == run.id]


async def test_a_started_child_is_joined_later_and_gives_its_result_as_often_as_asked(database):
    bodies = Bodies()

    @step
    async def between() -> None:
        bodies.ran("between")

    @workflow
    async def parent() -> list[str]:
        child = await shout.start("hello")
        await between()
        await sleep("20ms")
        return [await child, await child.result(), child.id]

    async with timed_app(database, parent, shout) as (app, time):
        run = await app.start(parent)
        *words, child_id = await time.result(run)
        (child,) = await children_of(app, run)
    assert words == ["HELLO", "HELLO"]
    assert child.run_id == child_id
    assert bodies["between"] == 1


async def test_a_def_workflow_starts_children_too(database):
    @workflow
    def parent() -> list[str]:
        first, second = shout.start.sync("a"), shout.start.sync(word="b")
        sleep("20ms")
        return [second.result(), first.result(), first.result()]

    async with timed_app(database, parent, shout) as (app, time):
        run = await app.start(parent)
        assert await time.result(run) == ["B", "A", "A"]
        assert len(await children_of(app, run)) == 2


async def test_two_branches_may_await_the_same_child(database):
    @workflow
    async def parent() -> list[str]:
        child = await echo_later.start("x")
        await child.signal("go", "y")
        return list(await asyncio.gather(child.result(), child.result()))

    async with app_on(database, [parent, echo_later]) as app:
        assert await (await app.start(parent)) == ["xy", "xy"]


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_child_is_signalled_once_however_often_its_parent_is_replayed(database, kind):
    @workflow
    async def listener() -> list[int]:
        return [await receive("n", int), await receive("n", int)]

    @workflow
    async def in_async() -> list[int]:
        child = await listener.start()
        await child.signal("n", 1)
        await sleep("20ms")
        await child.signal("n", 2)
        return await child

    @workflow
    def in_def() -> list[int]:
        child = listener.start.sync()
        child.signal("n", 1)
        sleep("20ms")
        child.signal("n", 2)
        return child.result()

    parent = in_async if kind == "async" else in_def
    async with timed_app(database, parent, listener) as (app, time):
        assert await time.result(await app.start(parent)) == [1, 2]


async def test_a_failed_child_raises_where_it_is_awaited_each_time(database):
    @workflow
    async def parent() -> list[str]:
        child = await stumble.start()
        caught = []
        for _ in range(2):
            try:
                await child
            except RunFailed as error:
                caught.append(str(error.__cause__))
        return caught

    async with app_on(database, [parent, stumble]) as app:
        assert await (await app.start(parent)) == ["stumbled", "stumbled"]


async def test_an_await_that_loses_a_race_lets_the_child_go_on_to_be_joined_later(database):
    @workflow
    async def parent() -> list[str]:
        child = await echo_later.start("x")
        name, _ = await race(done=child.result(), late=sleep("20ms"))
        await receive("now")
        return [name, await child]

    async with timed_app(database, parent, echo_later) as (app, time):
        run = await app.start(parent)
        while "cancelled" not in [record.state for record in await run.steps()]:
            await time.advance("1ms")
        (child,) = await children_of(app, run)
        await app.get(child.run_id).signal("go", "y")
        await until(app, child.run_id, RunState.COMPLETED)
        await run.signal("now")
        assert await run == ["late", "xy"]


FORMS = {"handle": lambda child: child, "result": lambda child: child.result()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", ["child", "timer"])
async def test_a_child_of_a_def_workflow_races_and_gives_its_result_afterwards(database, ends, form):
    span = "1h" if ends == "child" else "1ms"

    @workflow
    def parent() -> list[str]:
        child = echo_later.start.sync("x")
        if ends == "child":
            child.signal("go", "y")
        name, _ = race.sync(child=lambda: FORMS[form](child), timer=lambda: sleep(span))
        if ends == "timer":
            child.signal("go", "y")
        return [name, child.result(), child.result()]

    async with timed_app(database, parent, echo_later) as (app, time):
        assert await time.result(await app.start(parent)) == [ends, "xy", "xy"]


async def test_a_child_of_a_def_workflow_is_told_and_cancelled_by_what_a_race_calls(database):
    @workflow
    def parent() -> list[str]:
        told: Any = echo_later.start.sync("x")
        cancelled: Any = echo_later.start.sync("z")

        async def tell() -> Any:
            await told.signal("go", "y")
            await cancelled.cancel()
            return await told

        _, value = race.sync(telling=tell)
        return [value, told.result()]

    async with app_on(database, [parent, echo_later]) as app:
        run = await app.start(parent)
        assert await run == ["xy", "xy"]
        assert {child.state for child in await children_of(app, run)} == {RunState.COMPLETED, RunState.CANCELLED}


@pytest.mark.parametrize("ends", ["cancel", "leave"])
async def test_a_child_that_nobody_awaited_is_cancelled_or_left_when_its_parent_ends(database, ends):
    @workflow
    async def parent() -> str:
        return (await echo_later.start("x", on_parent_end=ends)).id

    async with app_on(database, [parent, echo_later]) as app:
        run = await app.start(parent)
        child_id = await run
        if ends == "cancel":
            await until(app, child_id, RunState.CANCELLED)
        else:
            await app.get(child_id).signal("go", "y")
            assert await app.get(child_id).result() == "xy"


async def letters_of(app) -> list[str]:
    return [letter.run_id for letter in await app.dead_letters.list()]


@pytest.mark.parametrize("when", ["before its parent ends", "after its parent has ended"])
async def test_a_failed_child_that_may_outlive_its_parent_is_a_dead_letter_when_nobody_awaits_it(database, when):
    @workflow
    async def parent() -> str:
        child = await stumble_later.start(on_parent_end="leave")
        if when == "before its parent ends":
            await child.signal("go")
            await receive("end")
        return child.id

    async with app_on(database, [parent, stumble_later]) as app:
        run = await app.start(parent)
        while not (children := await children_of(app, run)):
            pass
        child = app.get(children[0].run_id)
        if when == "before its parent ends":
            await until(app, child.id, RunState.FAILED)
            await run.signal("end")
        await run
        if when == "after its parent has ended":
            await child.signal("go")
        with pytest.raises(RunFailed, match="stumbled"):
            await child.result()
        types = [event.type for event in await child.history()]
        assert await letters_of(app) == [child.id]
    assert types[-3:] == ["dlq_pending", "dlq_recorded", "failed"]


async def test_a_failed_child_whose_failure_its_parent_hears_is_no_open_letter(database):
    @workflow
    async def parent() -> str:
        child = await stumble.start(on_parent_end="leave")
        try:
            await child
        except RunFailed as error:
            return str(error.__cause__)
        return "not reached"

    async with app_on(database, [parent, stumble]) as app:
        assert await (await app.start(parent)) == "stumbled"
        while await letters_of(app):
            pass
        (letter,) = await app.dead_letters.list(resolved=True)
    assert letter.resolution == "discarded"


async def test_a_letter_of_a_child_is_replayed_once_its_parent_has_ended(database):
    @workflow
    async def parent() -> str:
        return (await stumble_once.start(on_parent_end="leave")).id

    async with app_on(database, [parent, stumble_once]) as app:
        STUMBLES.clear()
        child = app.get(await (await app.start(parent)))
        with pytest.raises(RunFailed, match="stumbled once"):
            await child.result()
        await app.dead_letters.replay(child.id)
        assert await child.result() == "steady"
        assert await letters_of(app) == []


async def test_a_failed_child_that_is_its_parents_own_is_no_dead_letter(database):
    @workflow
    async def parent() -> None:
        await stumble.start()
        await receive("end")

    async with app_on(database, [parent, stumble]) as app:
        run = await app.start(parent)
        while not (children := await children_of(app, run)):
            pass
        await until(app, children[0].run_id, RunState.FAILED)
        await run.signal("end")
        await run
        assert await letters_of(app) == []


async def test_a_parent_cancels_its_child(database):
    @workflow
    async def parent() -> str:
        child = await echo_later.start("x")
        await child.cancel("not needed")
        await sleep("20ms")
        return child.id

    async with timed_app(database, parent, echo_later) as (app, time):
        child_id = await time.result(await app.start(parent))
        history = await app.get(child_id).history()
        assert (await app.get(child_id).info()).state is RunState.CANCELLED
    assert [event.type for event in history].count("cancelled") == 1


async def test_the_child_exists_once_when_the_parent_moves_to_another_worker(database):
    reached, let_go = asyncio.Event(), asyncio.Event()

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    @workflow
    async def parent() -> list[str]:
        child = await shout.start("hello")
        await hold()
        return [child.id, await child]

    async with app_on(database, [parent, shout]) as app:
        run = await app.start(parent)
        await reached.wait()
    let_go.set()
    async with app_on(database, [parent, shout]) as app:
        child_id, word = await app.get(run.id).result()
        children = await children_of(app, run)
    assert word == "HELLO"
    assert [view.run_id for view in children] == [child_id]


async def test_start_is_refused_outside_a_workflow_and_names_the_form_to_use(database):
    with pytest.raises(WrongCall, match=r"app\.start\(shout"):
        await shout.start("x")
    with pytest.raises(WrongCall, match=r"app\.start\(shout"):
        shout.start.sync("x")

    @workflow
    def in_def() -> str:
        try:
            _ = shout.start("x")
        except WrongCall as error:
            return str(error)
        return ""

    @workflow
    async def in_async() -> str:
        try:
            shout.start.sync("x")
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [in_def, in_async, shout]) as app:
        assert "shout.start.sync(...)" in await (await app.start(in_def))
        assert "await shout.start(...)" in await (await app.start(in_async))


@pytest.mark.parametrize("how", ["handle", "call"])
async def test_a_retried_parent_starts_a_failed_child_anew(database, how):
    bodies = Bodies()

    @step(retry=Retry(attempts=1))
    async def shaky() -> str:
        bodies.ran("shaky")
        if bodies["shaky"] == 1:
            raise ConnectionError("away")
        return "there"

    @workflow
    async def shaky_child() -> str:
        return await shaky()

    @workflow
    async def parent() -> list[str]:
        done = await shout.start("x")
        child = await shaky_child.start() if how == "handle" else shaky_child()
        return [await child, await done]

    async with app_on(database, [parent, shaky_child, shout]) as app:
        run = await app.start(parent)
        with pytest.raises(RunFailed, match="away"):
            await run
        await run.retry()
        assert await run == ["there", "X"]
        assert bodies["shaky"] == 2


BROKEN = asyncio.Event()


@step(retry=Retry(attempts=1))
async def break_down() -> None:
    if BROKEN.is_set():
        raise ConnectionError("away")


@workflow
async def leaves_a_child() -> list[str]:
    child = await echo_later.start("x", on_parent_end="leave")
    await break_down()
    name, _ = await race(child=child.result(), late=sleep("1h"))
    await child.signal("go", "y")
    return [name, await child]


@workflow
def leaves_a_child_of_def() -> list[str]:
    child = echo_later.start.sync("x", on_parent_end="leave")
    break_down.sync()
    name, _ = race.sync(child=lambda: child, late=lambda: sleep("1h"))
    child.signal("go", "y")
    return [name, child.result()]


async def retried_with_a_child_that_goes_on(opened: Engine, flow: Any) -> Run[Any]:
    """A parent that has failed and is retried, while the child that it left waits for a word."""
    BROKEN.set()
    run = await opened.start(flow)
    await opened.run_until_idle()
    assert (await run.info()).state is RunState.FAILED
    BROKEN.clear()
    await opened.insist(lambda: run.retry(key=f"retry-{run.id}"))
    return run


@pytest.mark.parametrize("flow", [leaves_a_child, leaves_a_child_of_def])
async def test_a_retried_parent_waits_for_the_child_that_it_left(database, flow):
    async with engine(database=database, workflows=[flow, echo_later]) as opened:
        run = await retried_with_a_child_that_goes_on(opened, flow)
        assert await opened.result(run) == ["late", "xy"]
        (child,) = await children_of(opened.app, run)
        assert (child.state, child.generation) == (RunState.COMPLETED, 1)
        assert await opened.app.findings() == []


async def test_twin_that_starts_another_beside_the_child_that_goes_on_waits_for_ever(database, monkeypatch):
    monkeypatch.setattr(started_children, "ENDED", frozenset(RunState))
    monkeypatch.setattr(StartedChild, "become", lambda *new: None)
    with pytest.raises(Stuck, match="1 of 1 children of echo_later@1"):
        await test_a_retried_parent_waits_for_the_child_that_it_left(database, leaves_a_child)


@pytest.mark.parametrize("ends", ["before it waits", "while it waits"])
async def test_a_retried_parent_hears_how_the_child_ended_that_it_left(database, ends):
    async with engine(database=database, workflows=[leaves_a_child, echo_later]) as opened:
        run = await retried_with_a_child_that_goes_on(opened, leaves_a_child)
        (child,) = await children_of(opened.app, run)
        if ends == "while it waits":
            await opened.run_until_idle()
        else:
            await run.pause()
        await opened.signal(child.run_id, "go", "z")
        await opened.run_until_idle()
        if ends == "before it waits":
            await run.resume()
        with pytest.raises(RunFailed, match="cannot be signalled"):
            await opened.result(run)
        assert ("join:echo_later", "completed") in [(each.call.name, each.state) for each in await run.steps()]
        assert len(await children_of(opened.app, run)) == 1


async def test_a_parent_that_waits_again_for_the_child_that_it_left_may_die_anywhere(database):
    async with engine(database=database, workflows=[leaves_a_child, echo_later]) as opened:
        for point in range(1, 200):
            run = await retried_with_a_child_that_goes_on(opened, leaves_a_child)
            crashes = opened.crashes
            opened.crash_after(point)
            assert await opened.result(run) == ["late", "xy"]
            assert len(await children_of(opened.app, run)) == 1
            if opened.crashes == crashes:
                assert point > 10
                return


@workflow
async def naps_after_its_child() -> str:
    child = await echo_later.start("x", on_parent_end="leave")
    await break_down()
    answer = await child
    await sleep("1h")
    return answer


@pytest.mark.parametrize("is_paused", [False, True], ids=["parked", "paused"])
async def test_a_group_that_was_opened_again_is_closed_with_its_join(database, is_paused):
    async with engine(database=database, workflows=[naps_after_its_child, echo_later]) as opened:
        run = await retried_with_a_child_that_goes_on(opened, naps_after_its_child)
        await opened.run_until_idle()
        (child,) = await children_of(opened.app, run)
        if is_paused:
            await run.pause()
            await opened.run_until_idle()
        await opened.signal(child.run_id, "go", "y")
        await opened.run_until_idle()
        if is_paused:
            await run.resume()
            await opened.run_until_idle()
        assert [reason.kind for reason in (await run.why()).reasons] == ["time"]
        assert await opened.result(run) == "xy"


@workflow
async def races_its_child() -> str:
    child = await echo_later.start("x", on_parent_end="leave")
    await break_down()
    name, _ = await race(child=child.result(), late=sleep("1h"))
    return name


@pytest.mark.parametrize("first", ["child", "late"])
async def test_a_child_that_is_waited_for_again_counts_at_its_moment_however_late_that_is_seen(database, first):
    async with engine(database=database, workflows=[races_its_child, echo_later]) as opened:
        run = await retried_with_a_child_that_goes_on(opened, races_its_child)
        await opened.run_until_idle()
        (child,) = await children_of(opened.app, run)
        await run.pause()
        await opened.run_until_idle()
        opened.clock.advance("2h" if first == "late" else 0)
        await opened.signal(child.run_id, "go", "y")
        await opened.run_until_idle()
        opened.clock.advance("2h")
        await run.resume()
        assert await opened.result(run) == first


@workflow
async def looks_at_its_child() -> list[str]:
    child = await echo_later.start("x")
    await break_down()
    name, _ = await race(child=child.result(), late=sleep("1h"))
    await child.signal("go", "y")
    return [name, await child]


@workflow
def looks_at_its_child_of_def() -> list[str]:
    child = echo_later.start.sync("x")
    break_down.sync()
    name, _ = race.sync(child=lambda: child, late=lambda: sleep("1h"))
    child.signal("go", "y")
    return [name, child.result()]


@pytest.mark.parametrize("flow", [looks_at_its_child, looks_at_its_child_of_def])
async def test_a_child_that_was_started_anew_goes_on_when_its_join_loses_a_race(database, flow):
    async with engine(database=database, workflows=[flow, echo_later]) as opened:
        run = await retried_with_a_child_that_goes_on(opened, flow)
        assert await opened.result(run) == ["late", "xy"]
        states = sorted(child.state for child in await children_of(opened.app, run))
        assert states == [RunState.CANCELLED, RunState.COMPLETED]
        assert await opened.app.findings() == []


async def test_twin_whose_handle_stays_that_of_the_old_child_signals_that(database, monkeypatch):
    monkeypatch.setattr(StartedChild, "become", lambda *new: None)
    with pytest.raises(RunFailed, match="is cancelled, so it cannot be signalled"):
        await test_a_child_that_was_started_anew_goes_on_when_its_join_loses_a_race(database, looks_at_its_child)


async def test_a_parent_that_has_started_its_child_anew_may_die_anywhere(database):
    async with engine(database=database, workflows=[looks_at_its_child, echo_later]) as opened:
        for point in range(1, 200):
            run = await retried_with_a_child_that_goes_on(opened, looks_at_its_child)
            crashes = opened.crashes
            opened.crash_after(point)
            assert await opened.result(run) == ["late", "xy"]
            assert len(await children_of(opened.app, run)) == 2
            if opened.crashes == crashes:
                assert point > 10
                return


@workflow
async def joins_twice_in_a_breath() -> list[str]:
    child = await echo_later.start("x")
    await break_down()
    name, _ = await race(child=child.result(), word=receive("word"))
    return [name, await child]


async def test_a_join_waits_for_the_child_that_another_is_just_starting_anew(database):
    async with engine(database=database, workflows=[joins_twice_in_a_breath, echo_later]) as opened:
        run = await retried_with_a_child_that_goes_on(opened, joins_twice_in_a_breath)
        await opened.signal(run, "word")
        await opened.run_until_idle()
        (child,) = [each for each in await children_of(opened.app, run) if each.state is RunState.WAITING]
        await opened.signal(child.run_id, "go", "y")
        assert await opened.result(run) == ["word", "xy"]
        assert len(await children_of(opened.app, run)) == 2


@workflow
async def listens_the_second_time() -> str:
    STUMBLES.ran("listens")
    if STUMBLES["listens"] == 1:
        raise ValueError("stumbled once")
    return await receive("go", str)


@workflow
async def leaves_the_second() -> str:
    child = await listens_the_second_time.start(on_parent_end="leave")
    await sleep("1m")
    await break_down()
    name, _ = await race(child=child.result(), late=sleep("1h"))
    return name


async def test_a_child_that_was_started_anew_is_left_as_the_one_before(database):
    STUMBLES.clear()
    async with engine(database=database, workflows=[leaves_the_second, listens_the_second_time]) as opened:
        BROKEN.set()
        run = await opened.start(leaves_the_second)
        with pytest.raises(RunFailed, match="away"):
            await opened.result(run)
        BROKEN.clear()
        await run.retry()
        assert await opened.result(run) == "late"
        (child,) = [each for each in await children_of(opened.app, run) if each.state is RunState.WAITING]
        await opened.signal(child.run_id, "go", "on")
        assert await opened.result(opened.app.get(child.run_id)) == "on"

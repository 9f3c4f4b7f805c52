"""Pause, resume and cancel as the worker that holds the run sees them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from stepfast import RunCancelled, RunState, receive, sleep, step, workflow
from tests.support.apps import PATIENT, QUICK, Bodies, app_on
from tests.support.virtual_time import event_types, timed_app, until_ran, until_state


class Gate:
    """A step's body that waits in the middle until the test lets it go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.freed = asyncio.Event()

    async def pass_through(self) -> None:
        self.begun.set()
        await self.freed.wait()


def two_steps(bodies: Bodies, gate: Gate):
    @step
    async def first() -> None:
        bodies.ran("first")
        await gate.pass_through()

    @step
    async def second() -> None:
        bodies.ran("second")

    @workflow
    async def flow() -> str:
        await first()
        await second()
        return "done"

    return flow


async def test_a_pause_lets_the_step_under_way_be_recorded_and_begins_no_other(database):
    bodies, gate = Bodies(), Gate()
    flow = two_steps(bodies, gate)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await gate.begun.wait()
        assert (await run.pause(actor="ann", reason="look first")).state is RunState.RUNNING
        gate.freed.set()
        await until_state(run, RunState.PAUSED)
        assert (await run.info()).worker_id is None
        assert [record.state for record in await run.steps()] == ["completed"]
        assert bodies == {"first": 1}
        await run.resume(actor="ben")
        assert await run == "done"
        history = await run.history()
    assert bodies == {"first": 1, "second": 1}
    told = [(event.type, event.actor) for event in history if event.type in ("step_completed", "paused", "resumed")]
    assert told == [("step_completed", None), ("paused", "ann"), ("resumed", "ben"), ("step_completed", None)]
    assert "look first" in next(event.data or "" for event in history if event.type == "paused")


async def test_a_run_paused_in_its_last_step_does_not_end_before_it_is_resumed(database):
    gate = Gate()

    @step
    async def only() -> str:
        await gate.pass_through()
        return "done"

    @workflow
    async def flow() -> str:
        return await only()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await gate.begun.wait()
        await run.pause()
        gate.freed.set()
        await until_state(run, RunState.PAUSED)
        await run.resume()
        assert await run == "done"
        types = await event_types(run)
    assert types == [
        "queued",
        "claimed",
        "started",
        "step_started",
        "step_completed",
        "handed_back",
        "paused",
        "resumed",
        "claimed",
        "completed",
    ]


async def test_a_def_workflow_pauses_between_its_steps(database):
    begun, freed = threading.Event(), threading.Event()
    bodies = Bodies()

    @step
    def first() -> None:
        bodies.ran("first")
        begun.set()
        freed.wait()

    @step
    def second() -> None:
        bodies.ran("second")

    @workflow
    def flow() -> str:
        first()
        second()
        return "done"

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await asyncio.to_thread(begun.wait)
        await run.pause()
        freed.set()
        await until_state(run, RunState.PAUSED)
        assert bodies == {"first": 1}
        await run.resume()
        assert await run == "done"
    assert bodies == {"first": 1, "second": 1}


async def test_pause_and_resume_in_quick_succession_lose_nothing(database):
    bodies, gate = Bodies(), Gate()
    flow = two_steps(bodies, gate)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await gate.begun.wait()
        for number in range(5):
            await run.pause(actor=f"ann{number}")
            await run.resume(actor=f"ben{number}")
        gate.freed.set()
        assert await run == "done"
        told = [event for event in await run.history() if event.type in ("paused", "resumed")]
    assert [event.actor for event in told] == [f"{who}{number}" for number in range(5) for who in ("ann", "ben")]
    assert bodies == {"first": 1, "second": 1}


async def test_a_pause_and_a_resume_while_every_step_waits_at_the_gate_go_either_way_and_end(database):
    bodies, gate = Bodies(), Gate()
    flow = two_steps(bodies, gate)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await gate.begun.wait()
        await run.pause()
        gate.freed.set()
        await run.resume()
        assert await run == "done"
        types = [name for name in await event_types(run) if name in ("paused", "resumed")]
    assert types == ["paused", "resumed"]
    assert bodies == {"first": 1, "second": 1}


async def test_commands_never_reach_a_receive(database):
    gate = Gate()

    @step
    async def first() -> None:
        await gate.pass_through()

    @workflow
    async def flow() -> list[str]:
        await first()
        return [await receive("paused", str), await receive("resumed", str)]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await gate.begun.wait()
        await run.pause()
        await run.resume()
        gate.freed.set()
        await until_state(run, RunState.WAITING)
        await run.signal("paused", "mine")
        await run.signal("resumed", "too")
        assert await run == ["mine", "too"]


async def test_a_waiting_run_keeps_its_waits_and_messages_over_a_pause(database):
    @workflow
    async def flow() -> str:
        await sleep("50ms")
        return await receive("word", str)

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await run.pause()
        await until_state(run, RunState.PAUSED)
        await run.signal("word", "kept")
        assert (await run.info()).state is RunState.PAUSED
        await run.resume()
        await until_state(run, RunState.WAITING)
        await time.advance("50ms")
        assert await time.result(run) == "kept"


def looked_at(app) -> asyncio.Event:
    """Set when a holder in this app has looked at what has come for its run."""
    store, looked = app._open_parts().store, asyncio.Event()
    look = store.look

    async def look_and_tell(run_id):
        answer = await look(run_id)
        looked.set()
        return answer

    store.look = look_and_tell
    return looked


async def test_a_pause_from_another_process_reaches_the_holder_by_its_heartbeat(database):
    bodies, gate = Bodies(), Gate()
    flow = two_steps(bodies, gate)
    quick_beat = replace(QUICK, heartbeat_ms=100)
    async with app_on(database, [flow], quick_beat) as app, app_on(database, [flow], worker=False) as client:
        looked = looked_at(app)
        run = await app.start(flow)
        await gate.begun.wait()
        await client.get(run.id).pause()
        await looked.wait()
        gate.freed.set()
        await until_state(run, RunState.PAUSED)
        assert bodies == {"first": 1}
        await client.get(run.id).resume()
        assert await run == "done"


async def test_a_worker_that_stops_hands_a_paused_run_back_as_paused(database):
    bodies, gate = Bodies(), Gate()
    flow = two_steps(bodies, gate)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await gate.begun.wait()
        await run.pause(actor="ann")
    async with app_on(database, [flow]) as app:
        again = app.get(run.id)
        assert (await again.info()).state is RunState.PAUSED
        gate.freed.set()
        await again.resume(actor="ben")
        assert await again == "done"
        told = [(event.type, event.actor) for event in await again.history() if event.type in ("paused", "resumed")]
    assert told == [("paused", "ann"), ("resumed", "ben")]


async def test_a_cancel_stops_the_body_at_once_and_nothing_follows(database):
    bodies, begun = Bodies(), asyncio.Event()
    cancelled = asyncio.Event()

    @step
    async def first() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @step
    async def second() -> None:
        bodies.ran("second")

    @workflow
    async def flow() -> None:
        try:
            await first()
        finally:
            await second()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await begun.wait()
        await run.cancel(actor="ann", reason="no longer wanted")
        await cancelled.wait()
        with pytest.raises(RunCancelled):
            await run
        assert (await event_types(run))[-1] == "cancelled"
        assert await run.steps() == []
    assert bodies["second"] == 0


async def test_the_late_result_of_a_cancelled_thread_is_written_nowhere(database):
    begun, freed = threading.Event(), threading.Event()
    bodies = Bodies()

    @step
    def first() -> None:
        begun.set()
        freed.wait()
        bodies.ran("first")

    @workflow
    def flow() -> None:
        first()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await asyncio.to_thread(begun.wait)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run
        freed.set()
        await until_ran(run, bodies, "first")
        assert await run.steps() == []
        assert (await event_types(run))[-1] == "cancelled"


async def test_what_upkeep_ends_is_told_to_those_who_wait(database):
    @workflow
    async def child() -> None:
        await receive("never")

    @workflow
    async def parent() -> str:
        calls = [asyncio.ensure_future(child()), asyncio.ensure_future(receive("go"))]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in calls:
            call.cancel()
        return "gone on"

    async with app_on(database, [parent, child], replace(PATIENT, upkeep_ms=50)) as app:
        run = await app.start(parent)
        await until_state(run, RunState.WAITING)
        (below,) = [view for view in await app.runs() if view.parent_id == run.id]
        await run.signal("go")
        assert await run == "gone on"
        with pytest.raises(RunCancelled):
            await app.get(below.run_id)
        ended = (await app.get(below.run_id).history())[-1]
    assert (ended.type, ended.actor) == ("cancelled", "stepfast")
    assert "Its parent has ended" in (ended.data or "")


async def test_an_error_beside_the_code_stops_the_run_instead_of_hanging_it(database, monkeypatch):
    gate, bodies = Gate(), Bodies()
    flow = two_steps(bodies, gate)
    async with app_on(database, [flow]) as app:
        look, looks = type(app._open_parts().store).look, Bodies()

        async def broken_once(store, run_id):
            looks.ran("look")
            if looks["look"] == 1:
                raise ZeroDivisionError("foreign")
            return await look(store, run_id)

        monkeypatch.setattr(type(app._open_parts().store), "look", broken_once)
        run = await app.start(flow)
        await gate.begun.wait()
        await run.signal("anything")
        while "handed_back" not in await event_types(run):
            pass
        (handed_back,) = [event for event in await run.history() if event.type == "handed_back"]
    assert "ZeroDivisionError: foreign" in (handed_back.data or "")


async def test_a_pause_that_came_between_claim_and_begin_is_seen(database):
    bodies = Bodies()

    @step
    async def act() -> None:
        bodies.ran("act")

    @workflow
    async def flow() -> str:
        await receive("go")
        await act()
        return "done"

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        store: Any = app._open_parts().store
        histories = store.histories

        async def paused_meanwhile(run_ids):
            store.histories = histories
            await run.pause(actor="ann")
            return await histories(run_ids)

        store.histories = paused_meanwhile
        await run.signal("go")
        await until_state(run, RunState.PAUSED)
        assert bodies["act"] == 0
        await run.resume()
        assert await run == "done"

"""Sinks of an app: workers publish to them by themselves, one at a time, and people see how far they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import Invalid, NotFound, Stepfast
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import EventView
from stepfast.sinks import CallbackSink, KafkaSink, LogSink
from tests.support.apps import QUICK, app_on
from tests.support.workflows import say


class Heard:
    """What a callback was called with, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[EventView] = []
        self._came = asyncio.Event()

    async def hear(self, event: EventView) -> None:
        self.events.append(event)
        self._came.set()

    async def until(self, run_id: str, type_: str) -> list[str]:
        """The types that were heard of a run, once this one was."""
        while not any((event.run_id, event.type) == (run_id, type_) for event in self.events):
            self._came.clear()
            await self._came.wait()
        return [event.type for event in self.events if event.run_id == run_id]


QUEUED = EventView(1, 1, RunId("a-run"), "acme", 1, "queued", Instant(0), None, None, 0, None, None)


def app_with(database: str, *sinks) -> Stepfast:
    return Stepfast(database, workflows=[say], worker=QUICK, sinks=sinks)


async def test_sinks_may_be_none(database):
    async with Stepfast(database, workflows=[say], worker=False, sinks=None) as app:
        assert await app.sinks.list() == []


async def test_a_worker_publishes_what_happens(database):
    heard = Heard()
    async with app_with(database, CallbackSink("ear", heard.hear)) as app:
        run = await app.start(say, "hello")
        types = await heard.until(run.id, "completed")
        assert types == [event.type for event in await run.history()]


async def test_a_worker_that_stops_while_it_takes_a_sink_leaves_it_to_others(database, monkeypatch):
    sink, is_taken, may_go_on = CallbackSink("ear", Heard().hear), asyncio.Event(), asyncio.Event()
    async with Stepfast(database, workflows=[say], worker=False, sinks=[sink]) as app:
        store = app._open_parts().store
        take = store.take_sink

        async def take_slowly(*given):
            taken = await take(*given)
            is_taken.set()
            await may_go_on.wait()
            return taken

        monkeypatch.setattr(store, "take_sink", take_slowly)
        worker = app.worker()
        await worker.start()
        await is_taken.wait()
        # Its runs do not wait for the sink: how long they may still take counts from the signal on.
        inner, is_winding_down = worker._started(), asyncio.Event()
        finish = inner._finish

        async def note(grace_ms):
            is_winding_down.set()
            await finish(grace_ms)

        monkeypatch.setattr(inner, "_finish", note)
        stopping = asyncio.create_task(worker.stop())
        try:
            async with asyncio.timeout(60):
                await is_winding_down.wait()
        finally:
            may_go_on.set()
            await stopping
        assert await take("ear", "another", 60_000, True) is not None


async def test_a_sink_hears_of_what_other_processes_do(database):
    heard = Heard()
    async with app_with(database, CallbackSink("ear", heard.hear)), app_with(database) as other:
        run = await other.start(say, "hello")
        assert (await heard.until(run.id, "completed"))[-1] == "completed"


async def test_what_happened_while_nobody_published_comes_later(database):
    heard = Heard()
    async with app_with(database, CallbackSink("ear", heard.hear)) as app:
        first = await app.start(say, "hello")
        await heard.until(first.id, "completed")
    async with app_with(database) as silent:
        missed = await silent.start(say, "missed")
        await missed.result(timeout="30s")
    async with app_with(database, CallbackSink("ear", heard.hear)):
        assert (await heard.until(missed.id, "completed"))[0] == "queued"


async def test_two_apps_with_one_sink_deliver_each_event_once(database):
    heard = Heard()
    ear = CallbackSink("ear", heard.hear)
    async with app_with(database, ear) as one, app_with(database, CallbackSink("ear", heard.hear)) as two:
        runs = [await app.start(say, str(number)) for number, app in enumerate([one, two] * 5)]
        for run in runs:
            await heard.until(run.id, "completed")
    positions = [event.position for event in heard.events]
    assert len(positions) == len(set(positions))


async def test_only_the_types_and_tenants_that_are_wanted_are_published(database):
    heard = Heard()
    async with app_with(database, CallbackSink("ear", heard.hear, types=["completed"], tenants=["acme"])) as app:
        await (await app.start(say, "one")).result(timeout="30s")
        wanted = await app.start(say, "two", tenant="acme")
        assert await heard.until(wanted.id, "completed") == ["completed"]
        assert {event.tenant for event in heard.events} == {"acme"}


async def test_people_see_how_far_a_sink_is(database):
    heard = Heard()
    async with app_with(database, CallbackSink("ear", heard.hear)) as app:
        run = await app.start(say, "hello")
        await heard.until(run.id, "completed")
        while (view := await app.sinks.get("ear")).behind:
            pass
        assert (view.held, view.letters, view.error) == (0, 0, None)
        with pytest.raises(NotFound, match="'nose'"):
            await app.sinks.get("nose")


def test_two_sinks_of_one_name_are_refused(tmp_path):
    with pytest.raises(Invalid, match="named 'log'"):
        app_with(f"sqlite:///{tmp_path}/app.db", LogSink("log"), LogSink("log"))


def test_types_that_are_a_text_are_refused():
    with pytest.raises(Invalid, match=r"give several, as in \['completed'\]"):
        LogSink("log", types="completed")


@pytest.mark.parametrize("call", [None, "bill", 7])
def test_a_callback_that_nobody_can_call_is_refused(call):
    with pytest.raises(Invalid, match="give a function"):
        CallbackSink("ear", call)


def test_a_sink_for_kafka_without_brokers_is_refused():
    with pytest.raises(Invalid, match="no brokers"):
        KafkaSink("to-kafka", [], "events")


async def test_the_log_has_a_line_for_each_event(caplog):
    with caplog.at_level("INFO", "stepfast.events"):
        await LogSink("log").deliver([QUEUED])
    assert "run_id=a-run" in caplog.text
    assert "type=queued" in caplog.text


async def test_dead_letters_that_are_not_there_are_not_found(database):
    async with app_on(database, [], worker=False) as app:
        with pytest.raises(NotFound, match="'place'"):
            await app.sinks.replay("place", dry_run=True)
        await app._open_parts().store.take_sink("place", "a-worker", 60_000, True)
        for dry_run in (True, False):
            with pytest.raises(NotFound, match="no open dead letter"):
                await app.sinks.replay("place", [4711], dry_run=dry_run)


async def test_what_is_no_position_is_refused(database):
    async with app_on(database, [], worker=False) as app:
        wrongs: list[Any] = ["7", 0, -1, True, 2**70]
        for wrong in wrongs:
            with pytest.raises(Invalid, match="position"):
                await app.sinks.replay("place", [wrong])
        with pytest.raises(Invalid, match="after"):
            await app.sinks.letters("place", after=-1)

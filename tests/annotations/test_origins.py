"""What every event belongs to and what brought it about, wherever it is read."""

from __future__ import annotations

import json

import pytest

from stepfast import RunEvent, receive, workflow
from stepfast.engine.publishing import Publisher
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.origins import causation_of, shown, stored
from stepfast.kernel.sinks import Backoff
from stepfast.kernel.views import EventView
from stepfast.signing import KeyedSigner, read_seal_keys
from stepfast.sinks import CallbackSink
from stepfast.testing import engine
from stepfast.trail_files import Chosen, exported
from tests.support.apps import app_on
from tests.support.asking import KEYS
from tests.support.holding import Hold
from tests.support.tour import ACTOR, WORKFLOWS, asking, repeating, selling, tour

# Of runs that are gone, and of no run at all; they have tests of their own.
NOT_OF_RUNS = {EventType.RETENTION_CHANGED, EventType.PRUNED, EventType.SINK_REMOVED}
EVENT = EventView(7, 3, RunId("a-run"), "acme", 1, "paused", Instant(0), None, None, 1, None, None)


@pytest.fixture
async def opened(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        yield opened


async def published(opened) -> list[EventView]:
    """Everything that was ever written, as a sink gets it."""
    got: list[EventView] = []
    sink = CallbackSink("all", got.append)
    publisher = Publisher(opened.app.parts.store, opened.clock, sink, "me", Backoff(tries=3), from_start=True)
    while await publisher.make_pass():
        pass
    return got


async def test_every_type_of_event_says_what_it_belongs_to_and_what_brought_it_about(opened):
    await tour(opened, "acme", "walnut")
    got = await published(opened)
    assert set(EventType) - {event.type for event in got} == NOT_OF_RUNS
    assert [event for event in got if not event.correlation_id or not event.causation_id] == []


async def test_a_history_an_export_and_a_sink_tell_the_same_of_a_run(opened):
    toured = await tour(opened, "acme", "walnut")
    got = await published(opened)
    lines = [json.loads(line) async for line in exported(opened.app.parts.store, Chosen())]
    told = {(line["run_id"], line["seq"]): line for line in lines if line["kind"] == "event"}
    for run in toured.runs.values():
        history = await run.history()
        assert history == [event for event in got if event.run_id == run.id]
        for event in history:
            line = told[event.run_id, event.seq]
            assert (line["correlation_id"], line["causation_id"]) == (event.correlation_id, event.causation_id)


async def test_a_run_without_a_correlation_id_is_its_own(opened):
    run = await opened.start(repeating, "walnut")
    await opened.run_until_idle()
    history = await run.history()
    assert {event.correlation_id for event in history} == {event.causation_id for event in history} == {run.id}


async def test_a_child_belongs_to_what_its_parent_does_and_was_brought_about_by_it(opened):
    toured = await tour(opened, "acme", "walnut")
    parent = toured.runs["sold"]
    *_, child = await opened.app.runs("helper")
    queued, *rest = await opened.app.get(child.run_id).history()
    assert (queued.correlation_id, queued.causation_id) == ("case-walnut", parent.id)
    assert {(event.correlation_id, event.causation_id) for event in rest} == {("case-walnut", child.run_id)}


async def test_the_events_of_a_command_name_its_key_also_when_the_holder_tells_them(database):
    held = Hold()

    @workflow
    async def flow() -> None:
        await held.step()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await held.reached.wait()
        await run.annotate("seen", 1, key="while held")
        held.let_go.set()
        await run
        await run.annotate("seen", 2, key="afterwards")
        causes = [event.causation_id for event in await run.history() if event.type == "annotated"]
    assert causes == ["while held", "afterwards"]


async def test_a_signal_names_its_key_also_when_the_holder_tells_of_it(database):
    held = Hold()

    @workflow
    async def flow() -> None:
        await held.step()
        for _ in range(3):
            await receive("paid")

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await held.reached.wait()
        await run.signal("paid", key="while held")
        held.let_go.set()
        await run.signal("paid")
        await run.signal("paid", key="at last", reason="it came")
        await run
        causes = [event.causation_id for event in await run.history() if event.type == "signalled"]
    assert causes == ["while held", run.id, "at last"]


async def test_a_run_that_was_started_with_a_key_names_that_as_what_brought_it_about(opened):
    run = await opened.start(repeating, "walnut", key="order-7")
    await opened.run_until_idle()
    queued, *rest = await run.history()
    assert queued.causation_id == "order-7"
    assert {event.causation_id for event in rest} == {run.id}


async def test_a_signal_to_a_run_that_waits_names_its_key(opened):
    run = await opened.start(selling, "walnut")
    await opened.run_until_idle()
    await opened.signal(run, "go", "now", key="the bell")
    await opened.run_until_idle()
    (signalled,) = [event for event in await run.history() if event.type == "signalled"]
    assert (signalled.causation_id, json.loads(signalled.data)["name"]) == ("the bell", "go")


async def test_a_child_that_is_signalled_names_the_run_and_the_call_that_did_so(database):
    @workflow
    async def ringing() -> str:
        return await receive("go", str)

    @workflow
    async def parent() -> str:
        child = await ringing.start()
        await child.signal("go", "now")
        return await child

    async with app_on(database, [ringing, parent]) as app:
        run = await app.start(parent)
        assert await run == "now"
        (child,) = await app.runs("ringing")
        (cause,) = [each.causation_id for each in await app.get(child.run_id).history() if each.type == "signalled"]
    assert cause == f"{run.id}:1:signal:go#1"


async def test_a_callback_in_the_process_hears_both(opened):
    heard: list[RunEvent] = []
    opened.app.on("queued", "completed", "cancelled")(heard.append)
    run = await opened.start(repeating, "walnut", correlation_id="case-7")
    await opened.run_until_idle()
    other = await opened.start(asking, "walnut", correlation_id="case-8", actor=ACTOR)
    await opened.run_until_idle()
    await other.cancel(key="enough")
    await opened.app.parts._listeners.close()
    assert [(event.run_id, event.type, event.correlation_id, event.causation_id) for event in heard] == [
        (run.id, "queued", "case-7", run.id),
        (run.id, "completed", "case-7", run.id),
        (other.id, "queued", "case-8", other.id),
        (other.id, "cancelled", "case-8", "enough"),
    ]


async def test_what_is_shown_is_not_what_is_sealed(opened, monkeypatch):
    opened.app.signer = KeyedSigner(read_seal_keys(KEYS[1]))
    await tour(opened, "acme", "walnut")
    await opened.app.audit.seal()
    lines = [line async for line in opened.app.audit.export()]
    assert opened.app.audit.verify_lines(lines).findings == ()
    forged = [line.replace('"causation_id":"cancel-walnut"', '"causation_id":"somebody"') for line in lines]
    assert forged != lines
    assert opened.app.audit.verify_lines(forged).findings != ()


ORIGINS = {
    "its own": (None, None, "a-run"),
    "as it is stored": ("order-7", '{"causation_id": "k"}', "order-7"),
    "the key of a command": (None, '{"causation_id": "k"}', "k"),
    "no object": (None, '["causation_id", "causation_id"]', "a-run"),
    "no text": (None, '{"causation_id": 7}', "a-run"),
    "no JSON": (None, '"causation_id" {', "a-run"),
}


@pytest.mark.parametrize(("kept", "data", "cause"), ORIGINS.values(), ids=ORIGINS)
def test_what_brought_an_event_about_is_found_in_what_it_says(kept, data, cause):
    assert causation_of("a-run", kept, data) == cause


def test_the_stored_form_of_what_is_shown_is_found_again():
    assert stored(shown(EVENT))._replace(correlation_id=None) == EVENT
    forged = shown(EVENT)._replace(causation_id="somebody")
    assert stored(forged) == forged

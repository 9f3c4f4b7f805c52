"""`stepfast sinks`: how far sinks have got, and their dead letters."""

from __future__ import annotations

import pytest

from stepfast import outbox
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkStep


async def published(client) -> None:
    """A sink that did not take two events."""
    store = client._open_parts().store
    taken = await store.take_sink("billing", "a-worker", 60_000, True)
    run = RunId("01977420-dc00-7000-8000-000000000001")
    letters = tuple(SinkLetter(position, run, position, "default", "queued", 10, "too bitter") for position in (1, 2))
    await store.advance_sink(taken, SinkStep(2, letters=letters), 60_000)


async def test_sinks_are_listed_with_what_they_did_not_take(client, office):
    await published(client)
    listed = await office.json("sinks", "list")
    assert [(item["name"], item["letters"]) for item in listed["items"]] == [("billing", 2)]
    done = await office("sinks", "list")
    assert done.out.splitlines()[1].split()[:4] == ["billing", "0", "0", "2"]


async def test_no_sinks_are_a_word_on_stderr(office):
    done = await office("sinks", "list")
    assert (done.out, done.err) == ("", "Nothing was published so far.\n")


async def test_a_sink_is_shown_with_its_dead_letters(client, office):
    await published(client)
    shown = await office.json("sinks", "show", "billing")
    assert [item["position"] for item in shown["dead_letters"]] == [1, 2]
    assert "too bitter" in (await office("sinks", "show", "billing")).out


async def test_a_sink_is_shown_with_the_runs_that_wait_for_it_and_why(client, office):
    store = client._open_parts().store
    run = RunId("01977420-dc00-7000-8000-000000000001")
    held = HeldBack(run, 6, 5, Instant(1_000), "answered 422")
    await store.advance_sink(
        await store.take_sink("billing", "a-worker", 60_000, True), SinkStep(0, held=(held,)), 60_000
    )
    assert (await office.json("sinks", "show", "billing"))["held_runs"] == [held._asdict()]
    shown = (await office("sinks", "show", "billing")).out
    assert all(word in shown for word in (run, "answered 422", "1970-01-01"))


@pytest.mark.parametrize("options", [[], ["--dry-run"]], ids=["for good", "dry run"])
async def test_a_dead_letter_that_is_not_there_is_not_said_to_be_replayed(client, office, options):
    await published(client)
    done = await office("sinks", "replay", "billing", "4711", *options)
    assert (done.code, "no open dead letter" in done.err) == (3, True)


async def test_a_dry_run_finds_positions_behind_any_number_of_others(client, office, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_PAGE", 1)
    await published(client)
    assert await client.sinks.replay("billing", [1, 2], limit=1, dry_run=True) == 1
    assert (await office.json("sinks", "replay", "billing", "2", "2", "--limit", "1", "--dry-run"))["replayed"] == 1
    assert [view.replay_at for view in await client.sinks.letters("billing", limit=1)] == [None]


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "for good"])
async def test_positions_without_an_open_letter_do_not_count_towards_the_limit(client, dry_run):
    await published(client)
    store = client._open_parts().store
    taken = await store.take_sink("billing", "a-worker", 60_000, True)
    await store.advance_sink(taken, SinkStep(2, resolved=(1,)), 60_000)
    assert await client.sinks.replay("billing", [1, 2], limit=1, dry_run=dry_run) == 1


async def test_dead_letters_are_replayed_by_position_or_all(client, office):
    await published(client)
    assert (await office.json("sinks", "replay", "billing", "--dry-run"))["replayed"] == 2
    assert (await office.json("sinks", "replay", "billing", "2"))["replayed"] == 1
    waiting = [view.letter.position for view in await client.sinks.letters("billing") if view.replay_at is not None]
    assert waiting == [2]


async def test_a_sink_that_is_not_there_is_named(office):
    done = await office("sinks", "show", "nose")
    assert (done.code, "'nose'" in done.err) == (3, True)


async def test_a_sink_that_nobody_publishes_to_is_removed_and_told_of(client, office):
    store = client._open_parts().store
    await store.release_sink(await store.take_sink("billing", "a-worker", 60_000, True))
    assert await office.json("sinks", "remove", "billing", "--reason", "sold") == {"removed": True}
    assert await client.sinks.list() == []
    (event,) = (await store.trail(0, 10)).events
    assert (event.type, '"sold"' in event.data) == ("sink_removed", True)


async def test_a_sink_that_somebody_publishes_to_is_not_removed(client, office):
    await published(client)
    done = await office("sinks", "remove", "billing")
    assert (done.code, "a-worker" in done.err) == (2, True)

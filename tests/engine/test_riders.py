"""Riders: events that go along with the next commit of their run, or in a short while by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stepfast.engine.committer import RIDER_DELAY_S, Committer
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Saving
from tests.engine.test_review_committer import held


class Store:
    """Saves everything."""

    def __init__(self) -> None:
        self.saved: list[Decision] = []

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        self.saved += decisions
        return [Saving.SAVED] * len(decisions)


class Timers:
    """A loop whose timers ring when they are told to."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        self.set.append((delay_s, callback))
        return self

    def cancel(self) -> None:
        self.set.clear()

    def ring(self) -> float:
        delay_s, callback = self.set.pop()
        callback()
        return delay_s


@pytest.fixture
async def riding(monkeypatch) -> tuple[Committer, Timers, Any]:
    store: Any = Store()
    committer, timers = Committer(store), Timers()
    committer.start()
    monkeypatch.setattr(committer, "_home", timers)
    return committer, timers, store


def ride(committer: Committer, name: str) -> HeldRun:
    run = held()
    committer.ride(run, Event(name, Instant(1)))
    return run


async def told(committer: Committer, store: Store) -> list[str]:
    await committer.close()
    return [str(event.type) for decision in store.saved for event in decision.events]


async def test_a_rider_goes_by_itself_when_its_time_is_over(riding):
    committer, timers, store = riding
    ride(committer, "progress")
    assert timers.ring() + timers.ring() == RIDER_DELAY_S
    assert await told(committer, store) == ["progress"]
    assert timers.set == []


async def test_what_has_only_just_begun_to_ride_does_not_go_with_what_has_ridden_for_long(riding):
    committer, timers, store = riding
    ride(committer, "long")
    timers.ring()
    ride(committer, "short")
    timers.ring()
    assert await told(committer, store) == ["long"]

"""What a run waits for, asks and leaves to people, by its events, while these are looked at one after the other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from stepfast.kernel.durations import Instant
from stepfast.kernel.event_data import text_in
from stepfast.kernel.events import EventType
from stepfast.kernel.numbers import written
from stepfast.kernel.rebuilt import RebuiltItem, RebuiltWait
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.states import PENDING_WAITS, WaitKind
from stepfast.kernel.views import EventView

Key = tuple[str, str | int | None]


class Waits:
    """Waits by their steps (None: the whole run waits), the reviews among them, and exception items by their causes."""

    def __init__(self) -> None:
        self._waits: dict[str | None, RebuiltWait] = {}
        self._reviews: dict[str, None] = {}
        self._items: dict[Key, RebuiltItem] = {}

    def open(self) -> tuple[RebuiltWait, ...]:
        return tuple(self._waits.values())

    def reviews(self) -> tuple[str, ...]:
        return tuple(self._reviews)

    def items(self) -> tuple[RebuiltItem, ...]:
        return tuple(self._items.values())

    def has(self, kind: WaitKind, name: str | None = None) -> bool:
        """Whether something of a kind, and of a name if one is given, is waited for."""
        return any(wait.kind == kind and name in (None, wait.name) for wait in self._waits.values())

    def has_due(self, now: Instant) -> bool:
        return any(wait.due_at is not None and wait.due_at <= now for wait in self._waits.values())

    @property
    def is_of_run(self) -> bool:
        """Whether the whole run waits."""
        return None in self._waits

    @property
    def is_put_off(self) -> bool:
        """Whether nothing is waited for but a later moment."""
        return all(wait.kind in PENDING_WAITS for wait in self._waits.values())

    def wait(self, event: EventView, step: str | None, kind: str, name: str | None, due_at: int | None) -> None:
        due = None if due_at is None else Instant(due_at)
        self._waits[step] = RebuiltWait(step, kind, name or "", event.at, due)

    def end(self, step: str | None) -> None:
        self._waits.pop(step, None)

    def step_ended(self, event: EventView, step: str, told: dict[str, Any]) -> None:
        """A step waits no more; one that has started a child leaves it to be waited for by another."""
        self.end(step)
        if text_in(told, "kind") == WaitKind.CHILDREN:
            self.wait(event, step, WaitKind.CHILDREN, text_in(told, "name"), None)
        elif "review_id" in told:
            self._withdraw(step)
        elif event.type != EventType.STEP_CANCELLED:
            self._join(step)

    def _join(self, address: str) -> None:
        """A child that was started before is heard of; which of several of a kind it is makes no difference."""
        name = address.rpartition("/")[2]
        if name.startswith("join:"):
            started = name.replace("join:", "start:", 1).rpartition("#")[0]
            mine = [step for step in self._waits if step and step.rpartition("/")[2].rpartition("#")[0] == started]
            self.end(next(iter(mine), address))

    def ask(self, event: EventView, title: str | None) -> None:
        """A person is asked by a step."""
        if event.step is not None:
            self._reviews[event.step] = None
            self.wait(event, event.step, WaitKind.REVIEW, title, None)

    def _withdraw(self, address: str) -> None:
        """A review that the code no longer wants, called off by the step that opened it or by the one that waits."""
        path, _, name = address.rpartition("/")
        inside = [asked for asked in self._reviews if asked.rpartition("/")[0] == path]
        same = [asked for asked in inside if asked.rpartition("#")[2] == name.rpartition("#")[2]]
        self.end_review(address if address in self._reviews else next(iter(same or inside), address))

    def end_review(self, address: str) -> None:
        if address in self._reviews:
            del self._reviews[address]
            self.end(address)
        self._items.pop(("review", address), None)

    def open_item(self, event: EventView, told: dict[str, Any]) -> None:
        """A person should look at something; of a failure that is borne, `borne_by` names the record that says so."""
        kind = text_in(told, "kind") or ""
        cause, where = _cause(kind, text_in(told, "borne_by"), event)
        self._items[cause, where] = RebuiltItem(cause, kind, event.step, event.generation, event.at)

    def resolve_item(self, event: EventView, told: dict[str, Any]) -> str:
        """Somebody has looked, or there is nothing to look at any more; answers with what had opened it."""
        name, _, number = (text_in(told, "cause") or "review:").partition(":")
        if name in ("failed", "blocked"):
            self._items.pop((name, written(number)), None)
        else:
            self._forget(
                [key for key, item in self._items.items() if key[0] == name and event.step in (key[1], item.step)]
            )
        return name

    def leave(self, steps: Collection[str]) -> None:
        """Some steps count no more, nor does what they wait for, ask, or go on from."""
        for address in steps:
            self.end(address)
            self.end_review(address)
        self._forget([key for key in self._items if key[0] == "step" and key[1] in steps])

    def clear(self) -> None:
        """The run has ended, or begins its next life: it waits for nothing and asks nobody."""
        self._waits.clear()
        for address in list(self._reviews):
            self.end_review(address)
        self._forget([key for key in self._items if key[0] == "blocked"])

    def _forget(self, keys: list[Key]) -> None:
        for key in keys:
            del self._items[key]


def _cause(kind: str, borne_by: str | None, event: EventView) -> Key:
    """What opened an item, and where: a run that failed or lacks code has one in each generation."""
    if borne_by is not None:
        return "step", borne_by
    if kind == ItemKind.BLOCKED:
        return "blocked", event.generation
    if kind == ItemKind.FAILED and event.step is None:
        return "failed", event.generation
    return "review", event.step

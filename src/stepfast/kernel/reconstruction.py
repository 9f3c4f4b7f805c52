"""All that is known of one run, read together: what a person asks for who was not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from stepfast.kernel.annotations import is_by_code
from stepfast.kernel.artifacts import ArtifactView
from stepfast.kernel.assets import LineageView
from stepfast.kernel.blobs import is_reference, parse_reference
from stepfast.kernel.decisions import CallId
from stepfast.kernel.definitions import DefinitionView
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.event_data import object_in, text_in
from stepfast.kernel.generations import GenerationView
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import ItemView
from stepfast.kernel.rebuilt import Rebuilt
from stepfast.kernel.review_views import WholeReview
from stepfast.kernel.transformations import TransformationView
from stepfast.kernel.views import EventView, LetterView, RunView, StepView

ANNOTATED = "annotated"


class Annotation(NamedTuple):
    """A fact that was noted of a run, or of a step; `value` is JSON."""

    key: str
    value: str
    scope: str | None
    step: str | None
    attempt: int | None
    actor: str | None
    at: Instant
    event: int
    """The number of the event that it is."""
    by_code: bool = False
    """Whether the run's own code has noted it; its actor is then whoever asked for the run."""


class LargeValue(NamedTuple):
    """A value that was too large to be read along: where it is, by which digest, and how many bytes it has."""

    place: str
    digest: str
    size: int


class Reconstruction(NamedTuple):
    """One run whole, as of its event number `state.event`.

    Texts that hold JSON (`input`, `value`, `error`, `data`, `shown`) are as they were stored, large ones in full unless
    `large` names them. Of reviews it has what was shown, and who said what and when, and no token.
    """

    run: RunView
    definition: DefinitionView | None
    generations: tuple[GenerationView, ...]
    events: tuple[EventView, ...]
    steps: tuple[StepView, ...]
    """Every record, superseded ones too: several of one step are its attempts."""
    reviews: tuple[WholeReview, ...]
    exceptions: tuple[ItemView, ...]
    dead_letters: tuple[LetterView, ...]
    children: tuple[RunView, ...]
    lineage: tuple[LineageView, ...]
    artifacts: tuple[ArtifactView, ...]
    state: Rebuilt
    """What the events come to."""
    transformations: tuple[TransformationView, ...] = ()
    """Those of its children that have made assets of assets, with what came of them."""
    differences: tuple[str, ...] = ()
    """Where that is not what rows say: somebody has changed rows or events by other means."""
    large: tuple[LargeValue, ...] = ()
    cut: tuple[str, ...] = ()
    """What there is more of than was read, in words."""
    is_settled: bool = True
    """False: the run went on while it was read, faster than it could be; parts may be of different moments."""

    @property
    def annotations(self) -> tuple[Annotation, ...]:
        """The facts that were noted, in order."""
        return tuple(_annotations(self.events))

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it; the names are those of the fields."""
        found = {name: plain(value) for name, value in self._asdict().items()}
        found["annotations"] = [plain(each) for each in self.annotations]
        found["state"] = plain_state(self.state)
        return found

    def to_json(self, indent: int | None = None) -> str:
        """The same as text."""
        return json.dumps(self.plain(), indent=indent, ensure_ascii=False)


def _annotations(events: tuple[EventView, ...]) -> Iterator[Annotation]:
    for event in events:
        told = object_in(event.data) if event.type == ANNOTATED else None
        if told is None:
            continue
        key, value = text_in(told, "key") or "", json.dumps(told.get("value"))
        yield Annotation(
            *(key, value, text_in(told, "scope"), event.step, event.attempt, event.actor, event.at, event.seq),
            by_code=is_by_code(event.attempt, told),
        )


_JSON_TEXTS = frozenset({"input", "value", "error", "metadata", "data", "content", "shown", "schema"})


def plain(value: Any) -> Any:
    """A view as JSON has it: by its fields, with texts that hold JSON as what they hold."""
    if isinstance(value, CallId):
        return value.address
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _field(name, each) for name, each in zip(value._fields, value, strict=True)}
    if is_dataclass(value):
        return {each.name: _field(each.name, getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def _field(name: str, value: Any) -> Any:
    return parsed(value) if name in _JSON_TEXTS and isinstance(value, str) else plain(value)


def parsed(text: str) -> Any:
    """What a JSON text holds; a large value that was not read is named, and what is no JSON is shown as damaged."""
    if is_reference(text):
        return _named(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"damaged": text}


def _named(text: str) -> dict[str, Any]:
    try:
        reference = parse_reference(text, RunId(""))
    except StepfastError:
        return {"damaged": text}
    return {"digest": reference.digest, "size": reference.size}


def plain_state(state: Rebuilt) -> dict[str, Any]:
    """A rebuilt state as JSON has it."""
    return {name: plain(value) for name, value in state._asdict().items()}

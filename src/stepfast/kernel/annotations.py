"""Annotations: facts that code and people note of a run or one of its steps. Each is an event, and nothing besides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.texts import MAX_NAME

MAX_VALUE = 65_536
"""Characters of JSON: events stay in their rows, and whoever reads a history reads them all."""
MAX_OF_ATTEMPT = 200
SHOWN_NEAREST = 3
BY_CODE = "by_code"
"""In what is told of a fact that the run's own code has noted, whoever asked for the run."""


@dataclass(frozen=True, slots=True)
class Annotate:
    """Note a fact of a run, or of one of its steps, from outside."""

    label: str
    value: str
    """JSON."""
    scope: str | None = None
    step: str | None = None
    name: ClassVar[str] = "annotate"

    @property
    def needs_steps(self) -> bool:
        return self.step is not None


class AnnotationView(NamedTuple):
    """A fact that was noted; `value` is JSON."""

    position: int
    seq: int
    run_id: RunId
    tenant: str
    generation: int
    at: Instant
    step: str | None
    """Its address; None for a fact of the whole run."""
    attempt: int | None
    actor: str | None
    name: str
    value: str
    scope: str | None = None
    reason: str | None = None


class AnnotationFilter(NamedTuple):
    """Which annotations a list holds, newest first; `before` is the position that the page before ended with."""

    tenant: str | None = None
    run_id: RunId | None = None
    name: str | None = None
    digest: str | None = None
    """That of a name and a value."""
    step: str | None = None
    """An address."""
    step_name: str | None = None
    actor: str | None = None
    before: int | None = None
    limit: int = 100


class AnnotationReads(Protocol):
    """What a store reads of annotations."""

    async def annotations(self, where: AnnotationFilter) -> list[AnnotationView]:
        """A page of annotations, newest first."""
        ...


def digest_of(name: str, value: str) -> str:
    """What equal values of one name have in common, however their JSON is written."""
    same = json.dumps([name, json.loads(value)], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(same.encode(), digest_size=16).hexdigest()


def annotated(
    name: str,
    value: str,
    scope: str | None,
    now: Instant,
    *,
    step: str | None = None,
    attempt: int | None = None,
    actor: str | None = None,
    reason: str | None = None,
    by_code: bool = False,
) -> Event:
    """The event of an annotation; its digest is what it is found by."""
    facts: dict[str, Any] = {"key": name, "value": json.loads(value), "digest": digest_of(name, value)}
    facts |= {BY_CODE: True} if by_code else {}
    facts |= {name: given for name, given in (("scope", scope), ("reason", reason)) if given is not None}
    return Event(EventType.ANNOTATED, now, step, attempt, actor, json.dumps(facts))


def is_by_code(attempt: int | None, told: Mapping[str, Any]) -> bool:
    """Whether the code of a run or of one of its steps has noted a fact, and nobody from outside."""
    return attempt is not None or told.get(BY_CODE) is True


def note(run: HeldRun, record: Record, name: str, value: str, scope: str | None) -> Decision:
    """The code of a run notes a fact of the run; its record makes sure that this happens once."""
    event = annotated(name, value, scope, record.ended_at, actor=run.actor, by_code=True)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,))


def nearest_steps(wanted: str, addresses: list[str]) -> list[str]:
    """The addresses that look most like what was asked for."""
    # Only whoever errs needs it, and it takes long to import.
    import difflib

    by_name = {address.rpartition("/")[2].partition("#")[0]: address for address in reversed(addresses)}
    names = difflib.get_close_matches(wanted[:MAX_NAME], [*by_name, *addresses], SHOWN_NEAREST, cutoff=0.0)
    return list(dict.fromkeys(by_name.get(name, name) for name in names))

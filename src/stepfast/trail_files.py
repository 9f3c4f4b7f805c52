"""The trail as a file that proves itself: seals, leaves and events as lines of JSON, checked without a database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from stepfast.kernel.auditing import (
    AuditFinding,
    AuditReport,
    check_chain,
    check_events,
    check_leaves,
    check_signature,
    check_way,
)
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Store
from stepfast.kernel.seals import MAX_EVENTS, Leaf, Seal, Signer, way_up
from stepfast.kernel.views import EventView
from stepfast.seal_files import seal_object, seal_of_object

SEALS_AT_ONCE = 100
EVENTS_AT_ONCE = 1_000


class Chosen(NamedTuple):
    """What of the trail is wanted; without anything chosen, all of it."""

    tenant: str | None = None
    run_id: str | None = None

    def has(self, whose: Leaf | EventView) -> bool:
        return self.tenant in (None, whose.tenant) and self.run_id in (None, whose.run_id)

    @property
    def is_all(self) -> bool:
        return self == Chosen()


async def exported(store: Store, chosen: Chosen) -> AsyncIterator[str]:
    """The lines of a file: each seal with its leaves and their events, then what is not sealed yet.

    Of a part of the trail every seal is there, with the chosen leaves and what leads from each to the seal's root.
    """
    number = upto = 0
    while page := await store.seals(number, SEALS_AT_ONCE):
        for seal in page:
            async for line in _lines_of(store, seal, chosen):
                yield line
        number, upto = page[-1].body.number, page[-1].body.upto
    while events := (await store.trail(upto, EVENTS_AT_ONCE)).events:
        for event in filter(chosen.has, events):
            yield _line("event", _event_object(event))
        upto = events[-1].position


async def _lines_of(store: Store, seal: Seal, chosen: Chosen) -> AsyncIterator[str]:
    yield _line("seal", {**seal_object(seal), "whole": chosen.is_all})
    leaves = await store.leaves(seal.body.number)
    for index, leaf in enumerate(leaves):
        if chosen.has(leaf):
            way = None if chosen.is_all else way_up(leaves, index)
            yield _line("leaf", {**leaf._asdict(), "way": way})
    for event in await store.sealed_events(seal.body.after, seal.body.upto, MAX_EVENTS + 1):
        if chosen.has(event):
            yield _line("event", _event_object(event))


def _line(kind: str, given: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **given}, ensure_ascii=True, separators=(",", ":")) + "\n"


def _event_object(event: EventView) -> dict[str, Any]:
    return {name: value for name, value in event._asdict().items() if value is not None}


class Block(NamedTuple):
    """What a file has of one seal; the last block of a file is what is not sealed."""

    seal: Seal | None
    is_whole: bool
    leaves: list[tuple[Leaf, list[str] | None]]
    events: list[EventView]


def verify_lines(lines: Iterable[str], signer: Signer, most: int = 1_000) -> AuditReport:
    """Check a file by its own lines and the keys: nothing else is needed."""
    findings: list[AuditFinding] = []
    last: Seal | None = None
    seals = events = unsealed = 0
    for block in _blocks(lines):
        if block.seal is None:
            unsealed += len(block.events)
            continue
        findings += list(_check_block(last, block, signer))[: most - len(findings)]
        last, seals, events = block.seal, seals + 1, events + len(block.events)
    return AuditReport(seals, events, unsealed, tuple(findings))


def _check_block(last: Seal | None, block: Block, signer: Signer) -> Iterator[AuditFinding]:
    assert block.seal is not None
    seal, leaves = block.seal, [leaf for leaf, _ in block.leaves]
    ways = (check_way(seal, leaf, way or []) for leaf, way in block.leaves)
    rooted = check_leaves(seal, leaves) if block.is_whole else chain.from_iterable(ways)
    return chain(
        check_chain(last, seal), check_signature(seal, signer), rooted, check_events(seal, leaves, block.events)
    )


def _blocks(lines: Iterable[str]) -> Iterator[Block]:
    """The blocks of a file: events behind the last position of a seal are not sealed by it."""
    block = Block(None, True, [], [])
    unsealed = Block(None, True, [], [])
    for number, line in enumerate(lines, 1):
        kind, given = _read(number, line)
        try:
            if kind == "seal":
                if block.seal is not None:
                    yield block
                block = Block(seal_of_object(given), bool(given["whole"]), [], [])
            elif kind == "leaf":
                way = given.pop("way")
                block.leaves.append((Leaf(**given), way))
            else:
                event = EventView(**{**dict.fromkeys(EventView._fields), **given})
                is_sealed = block.seal is not None and event.position <= block.seal.body.upto
                (block if is_sealed else unsealed).events.append(event._replace(run_id=RunId(event.run_id)))
        except (KeyError, TypeError):
            raise Invalid(f"Line {number} of the trail is no {kind} as `stepfast audit export` writes them.") from None
    if block.seal is not None:
        yield block
    yield unsealed


def _read(number: int, line: str) -> tuple[str, dict[str, Any]]:
    try:
        given = json.loads(line)
        kind = given.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError):
        kind, given = None, {}
    if kind not in ("seal", "leaf", "event"):
        raise Invalid(f"Line {number} of the trail cannot be read. Have it written anew with `stepfast audit export`.")
    return kind, given

"""The trail as a file that proves itself: seals, leaves and events as lines of JSON, checked without a database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from stepfast.kernel.auditing import (
    AuditFinding,
    AuditReport,
    Fault,
    check_chain,
    check_correlation,
    check_events,
    check_leaves,
    check_policies,
    check_pruned,
    check_signature,
    check_way,
    count_pruned,
)
from stepfast.kernel.errors import Invalid, StoreUnavailable
from stepfast.kernel.events import EventType
from stepfast.kernel.origins import shown, stored, told_correlation
from stepfast.kernel.ports import Store
from stepfast.kernel.retention import ToldPolicies, proof_of
from stepfast.kernel.seals import MAX_EVENTS, Leaf, Seal, Signer, levels_of, way_up
from stepfast.kernel.trail import HIGHEST
from stepfast.kernel.views import EventView
from stepfast.seal_files import seal_object, seal_of_object
from stepfast.verifying import proofs_of_pruned

SEALS_AT_ONCE = 100
EVENTS_AT_ONCE = 1_000
# Larger values are no part of an event; whoever reads a file holds a line of it in memory.
LONGEST_LINE = 64_000_000
END = "end"
# An event again, in the seal of the runs of which it proves that they were pruned.
PROOF = "pruned"


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
    while events := await store.sealed_events(upto, HIGHEST, EVENTS_AT_ONCE):
        for event in filter(chosen.has, events):
            yield _line("event", _event_object(event))
        upto = events[-1].position
    yield _line(END, {})


async def _lines_of(store: Store, seal: Seal, chosen: Chosen) -> AsyncIterator[str]:
    yield _line("seal", {**seal_object(seal), "whole": chosen.is_all})
    leaves = await store.leaves(seal.body.number)
    levels = [] if chosen.is_all or not any(map(chosen.has, leaves)) else levels_of(leaves)
    for index, leaf in enumerate(leaves):
        if chosen.has(leaf):
            way = None if chosen.is_all else way_up(levels, index)
            yield _line("leaf", {**leaf._asdict(), "way": way})
    events = await store.sealed_events(seal.body.after, seal.body.upto, MAX_EVENTS + 1)
    told: EventView | None = None
    async for leaf, _, event in proofs_of_pruned(store, seal, leaves, events):
        if chosen.has(leaf) and event is not None and event is not told:
            told = event
            yield _line(PROOF, _event_object(event))
    for event in filter(chosen.has, events):
        yield _line("event", _event_object(event))


def _line(kind: str, given: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **given}, ensure_ascii=True, separators=(",", ":")) + "\n"


def _event_object(event: EventView) -> dict[str, Any]:
    # Whose cause follows from the rest says so: what is proved is what was stored.
    given = shown(event)._asdict() | {"follows": True if event.causation_id is None else None}
    return {name: value for name, value in given.items() if value is not None}


class Block(NamedTuple):
    """What a file has of one seal; the last blocks of a file are what is not sealed."""

    seal: Seal | None
    is_whole: bool
    leaves: list[tuple[Leaf, list[str] | None]]
    events: list[EventView]
    proofs: list[EventView]


def verify_lines(lines: Iterable[str], signer: Signer, most: int = 1_000) -> AuditReport:
    """Check a file by its own lines and the keys: nothing else is needed."""
    findings: list[AuditFinding] = []
    last: Seal | None = None
    reached: dict[str, int] = {}
    belongs: dict[str, str] = {}
    policies = ToldPolicies()
    seals = events = unsealed = pruned = 0
    for block in _blocks(lines):
        flaws = _flaws(block, signer)
        if block.seal is None:
            unsealed += len(block.events)
            found = _check_gaps(None, ((event.run_id, event.seq, event.seq) for event in block.events), reached)
        else:
            spans = ((leaf.run_id, leaf.first_seq, leaf.last_seq) for leaf, _ in block.leaves)
            found = chain(_check_block(last, block, signer, flaws), _check_gaps(block.seal, spans, reached))
            # Who set a policy for all is not in the part of one tenant.
            if block.is_whole:
                found = chain(found, check_policies(block.seal, block.events, policies))
            last, seals, events = block.seal, seals + 1, events + len(block.events)
            pruned += count_pruned((leaf for leaf, _ in block.leaves), flaws)
        found = chain(found, _check_correlations(block, belongs))
        findings += islice(found, most - len(findings))
    return AuditReport(seals, events, unsealed, tuple(findings), pruned)


def _check_block(
    last: Seal | None, block: Block, signer: Signer, flaws: dict[str, str | None]
) -> Iterator[AuditFinding]:
    assert block.seal is not None
    seal, leaves = block.seal, [leaf for leaf, _ in block.leaves]
    ways = (check_way(seal, leaf, way or []) for leaf, way in block.leaves)
    rooted = check_leaves(seal, leaves) if block.is_whole else chain.from_iterable(ways)
    return chain(
        check_chain(last, seal),
        check_signature(seal, signer),
        rooted,
        check_pruned(seal, flaws),
        check_events(seal, leaves, block.events, flaws),
    )


def _flaws(block: Block, signer: Signer) -> dict[str, str | None]:
    """The runs of a block that were pruned by what it has of that, each with why it is not proved; None when it is."""
    stand = {event.run_id for event in block.events}
    proofs = [proof_of(event, signer) for event in block.proofs]
    said = {run_id: (proof, last_seq) for proof in proofs for run_id, last_seq in proof.runs.items()}
    gone = [leaf for leaf, _ in block.leaves if leaf.run_id not in stand and leaf.run_id in said]
    return {leaf.run_id: said[leaf.run_id][0].flaw_for(leaf, said[leaf.run_id][1]) for leaf in gone}


def _check_gaps(
    seal: Seal | None, spans: Iterable[tuple[str, int, int]], reached: dict[str, int]
) -> Iterator[AuditFinding]:
    """The numbers of a run's events follow upon each other: in a part of the trail nothing else tells what it lacks."""
    for run_id, first, last in spans:
        begins = reached.get(run_id, 0) + 1
        if first > begins:
            words = f"Its events {begins} to {first - 1} are not in the file."
            yield AuditFinding(Fault.REMOVED, None if seal is None else seal.body.number, run_id, words)
        reached[run_id] = last


def _check_correlations(block: Block, belongs: dict[str, str]) -> Iterator[AuditFinding]:
    """Each line says for itself what its event belongs to; the first event of a run says it for all of them."""
    for event in block.events:
        if event.type == EventType.QUEUED and (told := told_correlation(event)) != event.run_id:
            belongs[event.run_id] = told
        yield from check_correlation(block.seal, event, belongs.get(event.run_id, event.run_id))


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, whatever is in it."""
    try:
        file = path.open("rb")
    except OSError as problem:
        raise _away(str(path), problem) from problem
    with file:
        yield from lines_in(file, str(path))


def lines_in(file: BinaryIO, name: str) -> Iterator[str]:
    """The lines of an open file."""
    try:
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            if len(line) > LONGEST_LINE:
                raise _unread(number, f"It is longer than {LONGEST_LINE:,} bytes.")
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise _unread(number, "It is not UTF-8.") from None
    except OSError as problem:
        raise _away(name, problem) from problem


def _away(name: str, problem: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"The trail in {name} cannot be read: {problem.strerror}.")


def _whole(lines: Iterable[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The lines up to that which ends a file, each with its number, its kind and what it says."""
    number, has_end = 0, False
    for number, line in enumerate(lines, 1):
        if has_end:
            raise _unread(number, "It stands behind the end.")
        kind, given = _read(number, line)
        has_end = kind == END
        if not has_end:
            yield number, kind, given
    if not has_end:
        raise _unread(number + 1, "The file ends before it is whole.")


def _blocks(lines: Iterable[str]) -> Iterator[Block]:
    """The blocks of a file: events behind the last position of a seal are not sealed by it."""
    block = Block(None, True, [], [], [])
    unsealed = Block(None, True, [], [], [])
    for number, kind, given in _whole(lines):
        try:
            if kind == "seal":
                if block.seal is not None:
                    yield block
                block = Block(seal_of_object(given), bool(given["whole"]), [], [], [])
            elif kind == "leaf":
                block.leaves.append(_leaf_of(given))
            elif kind == PROOF:
                block.proofs.append(_event_of(given))
            else:
                event = _event_of(given)
                is_sealed = block.seal is not None and event.position <= block.seal.body.upto
                (block if is_sealed else unsealed).events.append(event)
                if len(unsealed.events) == EVENTS_AT_ONCE:
                    # They come behind all seals; what comes behind them belongs to none.
                    if block.seal is not None:
                        yield block
                    yield unsealed
                    block, unsealed = Block(None, True, [], [], []), Block(None, True, [], [], [])
        except (KeyError, TypeError):
            raise _unread(number, f"It is no {kind} as `stepfast audit export` writes them.") from None
    if block.seal is not None:
        yield block
    yield unsealed


def _leaf_of(given: dict[str, Any]) -> tuple[Leaf, list[str] | None]:
    way = given.pop("way")
    leaf = Leaf(**given)
    _check_types(str, leaf.run_id, leaf.tenant, leaf.digest, *way or ())
    _check_types(int, leaf.first_seq, leaf.last_seq)
    return leaf, way


def _event_of(given: dict[str, Any]) -> EventView:
    follows = given.pop("follows", False)
    event = EventView(**{**dict.fromkeys(EventView._fields), **given})
    event = stored(event) if follows else event
    _check_types(int, event.position, event.seq)
    _check_types(str, event.run_id)
    return event


def _check_types(kind: type, *values: object) -> None:
    if not all(type(value) is kind for value in values):
        raise TypeError("a value of another type")


def _read(number: int, line: str) -> tuple[str, dict[str, Any]]:
    try:
        given = json.loads(line)
        kind = given.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise _unread(number, "It is no object of JSON that names its kind.") from None
    if kind not in ("seal", "leaf", "event", PROOF, END):
        raise _unread(number, "It is of no kind that is known.")
    return kind, given


def _unread(number: int, why: str) -> Invalid:
    words = "Have the file written anew with `stepfast audit export`."
    return Invalid(f"Line {number} of the trail cannot be read. {why} {words}")

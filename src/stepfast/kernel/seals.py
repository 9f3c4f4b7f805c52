"""Seals: what proves later that the events of runs are those that were written.

The events of a run between two seals make a leaf. A seal names the root over the hashes of its leaves and the seal
before it, and is signed with a key that is not in the database. Whoever changes a sealed event changes its leaf, the
root and the signed text, and cannot sign it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import EventView

# So many events are sealed at most by one seal: whoever checks it holds them all in memory.
MAX_EVENTS = 10_000
FIRST = 1
NOTHING_BEFORE = ""

# A leaf's hash must never be that of two others together (RFC 6962, 2.1).
_LEAF, _NODE = b"\x00", b"\x01"


class Leaf(NamedTuple):
    """The events of one run in one seal: their numbers, and a digest of all they say."""

    run_id: RunId
    tenant: str
    first_seq: int
    last_seq: int
    digest: str

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(_LEAF + _text_of(list(self))).digest()


class SealBody(NamedTuple):
    """What is signed."""

    number: int
    after: int
    """The position behind which its events are."""
    upto: int
    """The position of its last event, or a later one that was never used."""
    events: int
    leaves: int
    root: str
    previous: str
    """The digest of the seal before; empty for the first."""
    sealed_at: Instant

    @property
    def text(self) -> bytes:
        return _text_of(list(self))


class Seal(NamedTuple):
    """A signed seal, and the name of the key."""

    body: SealBody
    key: str
    signature: str

    @property
    def digest(self) -> str:
        """What the next seal names it by."""
        return hashlib.sha256(_text_of([*self.body, self.key, self.signature])).hexdigest()


class Signer(Protocol):
    """Whoever has the keys of seals."""

    def sign(self, text: bytes) -> tuple[str, str]:
        """The name of the key, and the signature."""
        ...

    def proves(self, text: bytes, key: str, signature: str) -> bool | None:
        """Whether the signature is that of the key; None when the key is not known here."""
        ...


def leaves_of(events: Iterable[EventView]) -> list[Leaf]:
    """The leaves of events, by run; each run's events in the order of their numbers."""
    ordered = sorted(events, key=lambda event: (event.run_id, event.seq, event.position))
    return [_leaf(run_id, list(own)) for run_id, own in groupby(ordered, key=lambda event: event.run_id)]


def _leaf(run_id: RunId, events: Sequence[EventView]) -> Leaf:
    digest = hashlib.sha256()
    for event in events:
        # All that is stored of it; what it is shown with from its run is sealed with the first event of that.
        digest.update(_text_of(event._replace(correlation_id=None)) + b"\n")
    return Leaf(run_id, events[0].tenant, events[0].seq, events[-1].seq, digest.hexdigest())


def sealed(
    previous: Seal | None, events: Sequence[EventView], upto: int, now: Instant, signer: Signer
) -> tuple[Seal, list[Leaf]]:
    """The seal of what has been written since the one before."""
    leaves = leaves_of(events)
    number, after, before = FIRST, 0, NOTHING_BEFORE
    if previous is not None:
        number, after, before = previous.body.number + 1, previous.body.upto, previous.digest
    body = SealBody(number, after, upto, len(events), len(leaves), root_of(leaves).hex(), before, now)
    return Seal(body, *signer.sign(body.text)), leaves


def next_after(seal: Seal) -> tuple[int, str]:
    """The number of the seal that follows upon one, and what it names that by."""
    return seal.body.number + 1, seal.digest


def root_of(leaves: Sequence[Leaf]) -> bytes:
    """The root over leaves, in their order."""
    top = levels_of(leaves)[-1]
    return top[0] if top else hashlib.sha256(b"").digest()


def levels_of(leaves: Sequence[Leaf]) -> list[list[bytes]]:
    """The hashes over leaves, level by level, up to the root."""
    levels = [[leaf.hash for leaf in leaves]]
    while len(levels[-1]) > 1:
        levels.append(_level_above(levels[-1]))
    return levels


def way_up(levels: Sequence[Sequence[bytes]], index: int) -> list[str]:
    """What is needed besides a leaf to come to the root: the hashes at its side, each with the side, from below."""
    sides = list[str]()
    for hashes in levels:
        beside = index ^ 1
        if beside < len(hashes):
            sides.append(f"{'right' if beside > index else 'left'}:{hashes[beside].hex()}")
        index //= 2
    return sides


def root_by(leaf: Leaf, way: Sequence[str]) -> bytes:
    """The root that a leaf and its way up lead to."""
    reached = leaf.hash
    for step in way:
        side, _, text = step.partition(":")
        beside = bytes.fromhex(text)
        reached = _node(reached, beside) if side == "right" else _node(beside, reached)
    return reached


def _level_above(hashes: list[bytes]) -> list[bytes]:
    pairs = [_node(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=False)]
    # Whoever has nobody beside goes up alone.
    return pairs + hashes[len(pairs) * 2 :]


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


def _text_of(values: Iterable[Any]) -> bytes:
    """Values as one line that no other values have."""
    return json.dumps([*values], ensure_ascii=True, separators=(",", ":")).encode()


class SealCopies(Protocol):
    """A place outside of the database that keeps seals in their order, and from which none is ever removed."""

    async def last_number(self) -> int:
        """The number of the last seal that is kept; 0 when there is none."""
        ...

    async def keep(self, seals: Sequence[Seal]) -> None:
        """Keep those that are not kept yet; they are on disk, or wherever they are safe, when this returns.

        One that was kept before may come again; another in its place is refused.
        """
        ...

    def kept(self) -> AsyncIterator[Seal]:
        """All that is kept, in order."""
        ...

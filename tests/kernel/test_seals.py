"""Seals: what they prove of events, of each other and of their leaves, and what nobody can change unnoticed."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.auditing import Fault, check_chain, check_copy, check_events, check_leaves, check_signature
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.seals import Leaf, Seal, leaves_of, levels_of, root_by, root_of, sealed, way_up
from stepfast.kernel.views import EventView


@dataclass
class Signs:
    """A key that a test holds."""

    key: bytes = b"key"

    def sign(self, text: bytes) -> tuple[str, str]:
        return "1", hmac.new(self.key, text, "sha256").hexdigest()

    def proves(self, text: bytes, key: str, signature: str) -> bool | None:
        return None if key != "1" else self.sign(text)[1] == signature


def event(position: int, run: str = "a", seq: int = 1, data: str | None = None) -> EventView:
    at = Instant(1_000 + position)
    return EventView(position, seq, RunId(run), "default", 1, "queued", at, None, None, 0, None, data)


OURS = Signs()
EVENTS = [event(1), event(2, "b"), event(3, seq=2), event(5, "c"), event(6, "b", 2)]


def first(events: list[EventView] = EVENTS, signs: Signs = OURS) -> tuple[Seal, list[Leaf]]:
    return sealed(None, events, 6, Instant(2_000), signs)


def faults(*checks) -> list[Fault]:
    return [finding.fault for check in checks for finding in check]


def test_an_untouched_trail_has_no_fault():
    seal, leaves = first()
    signed = check_signature(seal, Signs())
    assert faults(check_chain(None, seal), signed, check_leaves(seal, leaves), check_events(seal, leaves, EVENTS)) == []


CHANGES = {
    "the data": event(3, seq=2, data="{}"),
    "the moment": event(3, seq=2)._replace(at=Instant(0)),
    "the type": event(3, seq=2)._replace(type="completed"),
    "the actor": event(3, seq=2)._replace(actor="eve"),
    "the tenant": event(3, seq=2)._replace(tenant="other"),
    "the position": event(4, seq=2),
    "what caused it": event(3, seq=2)._replace(causation_id="x"),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_an_event_that_was_changed_is_found(changed):
    seal, leaves = first()
    found = list(check_events(seal, leaves, [*EVENTS[:2], changed, *EVENTS[3:]]))
    assert [(each.fault, each.run_id) for each in found] == [(Fault.CHANGED, "a")]


def test_an_event_that_was_removed_is_found():
    seal, leaves = first()
    assert faults(check_events(seal, leaves, EVENTS[:-1])) == [Fault.REMOVED]


def test_all_events_of_a_run_that_were_removed_are_found():
    seal, leaves = first()
    found = list(check_events(seal, leaves, [each for each in EVENTS if each.run_id != "b"]))
    assert [(each.fault, each.run_id) for each in found] == [(Fault.REMOVED, "b")]


def test_a_run_that_was_pruned_is_not_missed():
    seal, leaves = first()
    assert faults(check_events(seal, leaves, [each for each in EVENTS if each.run_id != "b"], pruned=["b"])) == []


def test_an_event_that_was_inserted_is_found():
    seal, leaves = first()
    assert faults(check_events(seal, leaves, [*EVENTS, event(4, "d")])) == [Fault.INSERTED]


def test_two_events_that_were_swapped_are_found():
    seal, leaves = first()
    swapped = [event(3), event(2, "b"), event(1, seq=2), *EVENTS[3:]]
    assert faults(check_events(seal, leaves, swapped)) == [Fault.CHANGED]


def test_leaves_that_were_made_anew_for_changed_events_do_not_fit_their_seal():
    seal, _ = first()
    assert faults(check_leaves(seal, leaves_of([event(1, data="{}"), *EVENTS[1:]]))) == [Fault.SEAL_CHANGED]


def test_a_seal_that_was_made_anew_without_the_key_is_found():
    forged, _ = first([event(1, data="{}"), *EVENTS[1:]], Signs(b"another"))
    assert faults(check_signature(forged, Signs())) == [Fault.SEAL_UNSIGNED]


def test_a_seal_of_a_key_that_is_not_known_is_told_apart():
    seal, _ = first()
    assert faults(check_signature(seal._replace(key="2"), Signs())) == [Fault.SEAL_UNKNOWN_KEY]


def test_a_seal_that_is_missing_between_others_is_found():
    one, _ = first()
    two, _ = sealed(one, [event(7, "e")], 7, Instant(3_000), Signs())
    three, _ = sealed(two, [event(8, "f")], 8, Instant(4_000), Signs())
    assert faults(check_chain(one, two), check_chain(two, three)) == []
    assert faults(check_chain(one, three)) == [Fault.SEAL_REMOVED]


def test_a_seal_that_was_put_in_the_place_of_another_is_found():
    one, _ = first()
    other, _ = first([event(1, data="{}"), *EVENTS[1:]])
    two, _ = sealed(one, [event(7, "e")], 7, Instant(3_000), Signs())
    assert faults(check_chain(other, two)) == [Fault.SEAL_CHANGED]


def test_a_seal_is_held_against_its_copy():
    seal, _ = first()
    assert faults(check_copy(seal, seal)) == []
    assert faults(check_copy(seal, None)) == [Fault.COPY_MISSING]
    assert faults(check_copy(seal, seal._replace(signature="00"))) == [Fault.COPY_DIFFERS]


@given(st.integers(1, 40), st.data())
def test_every_leaf_leads_to_the_root_by_its_own_way(count, data):
    leaves = leaves_of([event(number, f"run-{number:03}") for number in range(1, count + 1)])
    index = data.draw(st.integers(0, count - 1))
    assert root_by(leaves[index], way_up(levels_of(leaves), index)) == root_of(leaves)


@given(st.integers(2, 20), st.data())
def test_no_other_leaf_leads_to_the_root_by_that_way(count, data):
    leaves = leaves_of([event(number, f"run-{number:03}") for number in range(1, count + 1)])
    index = data.draw(st.integers(0, count - 1))
    other = leaves[index]._replace(digest="00")
    assert root_by(other, way_up(levels_of(leaves), index)) != root_of(leaves)

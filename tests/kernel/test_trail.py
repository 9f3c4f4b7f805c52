"""How far the trail can be read while others write: what settles a position, for every way that writers can go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.trail import Settled, settle


def test_positions_without_a_hole_are_settled():
    assert settle(3, [4, 5, 6], sure_to=0, is_last=True) == Settled(3, 6)


def test_what_stands_behind_a_hole_has_to_wait():
    assert settle(3, [4, 6, 7], sure_to=0, is_last=True) == Settled(1, 4)


def test_a_hole_that_nobody_can_fill_any_more_is_gone_by():
    assert settle(3, [4, 6, 7], sure_to=7, is_last=True) == Settled(3, 7)


def test_a_hole_behind_what_is_sure_has_to_wait():
    assert settle(3, [4, 6, 9], sure_to=6, is_last=True) == Settled(2, 6)


def test_positions_that_were_never_used_are_gone_by_when_there_is_nothing_behind_them():
    assert settle(3, [], sure_to=8, is_last=True) == Settled(0, 8)


def test_a_page_that_is_full_says_nothing_of_what_comes_behind_it():
    assert settle(3, [4, 5], sure_to=8, is_last=False) == Settled(2, 5)


class World:
    """Writers that take positions and end as they like, and one reader by the rules of the trail."""

    def __init__(self) -> None:
        self.next = 1
        self.open: dict[int, list[int]] = {}
        self.committed: set[int] = set()
        self.reached = 0
        self.doubt: tuple[int, frozenset[int]] | None = None
        self.read: list[int] = []

    def act(self, writer: int, move: str) -> None:
        if move == "take":
            self.open.setdefault(writer, []).append(self.next)
            self.next += 1
        elif writer in self.open:
            taken = self.open.pop(writer)
            if move == "commit":
                self.committed.update(taken)

    def look(self, limit: int) -> None:
        if self.doubt is not None and self.doubt[1] & self.open.keys():
            return
        found = sorted(position for position in self.committed if position > self.reached)[:limit]
        sure_to = 0 if self.doubt is None else self.doubt[0]
        count, self.reached = settle(self.reached, found, sure_to, len(found) < limit)
        self.read += found[:count]
        self.doubt = None if count == len(found) else (found[-1], frozenset(self.open))


MOVES = st.tuples(st.integers(0, 3), st.sampled_from(["take", "take", "commit", "roll back", "look"]))


@given(st.lists(MOVES, max_size=60), st.integers(1, 5))
def test_no_event_is_passed_over_and_none_comes_out_of_order_whatever_the_writers_do(moves, limit):
    world = World()
    for writer, move in moves:
        if move == "look":
            world.look(limit)
        else:
            world.act(writer, move)
    for writer in list(world.open):
        world.act(writer, "commit")
    for _ in range(2 * len(moves) + 2):
        world.look(limit)
    assert world.read == sorted(world.committed)

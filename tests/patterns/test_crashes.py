"""Patterns in which the order of arrivals counts come to the same end wherever their process dies."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast.testing import crash_points
from tests.patterns.page import patterns
from tests.patterns.scenes import Tasks, workflows_of

# The store calls of a run are much alike: some of the points tell as much as all of them.
EVERY = 4

Signals = list[tuple[str, Any]]

ENDS: dict[int, tuple[list[Any], Signals, str]] = {
    27: ([["a", "b"]], [], "average ['a', 'b']"),
    31: ([1], [("cem", None), ("ann", None), ("bob", None)], "verdict 0"),
    36: ([["ann", "bob", "cem"]], [("member", "dan")], "decide"),
    38: ([{"start": ["news", "shop"], "shop": ["news"]}], [], "index"),
}
"""What a run is started with, what it is told, and what is done last."""


@pytest.mark.parametrize("number", ENDS)
async def test_a_pattern_comes_to_its_end_wherever_its_process_dies(number, prepared):
    arguments, signals, last = ENDS[number]
    tasks = Tasks()
    known = workflows_of(prepared(patterns()[number], tasks))

    async def scenario(opened):
        tasks.ended.clear()
        run = await opened.start(known[-1], *arguments)
        for name, value in signals:
            await opened.signal(run, name, value)
        await opened.result(run)
        assert tasks.ended[-1] == last
        return (await opened.info(run)).state

    tried = await crash_points(scenario, workflows=known, every=EVERY)
    assert tried.points

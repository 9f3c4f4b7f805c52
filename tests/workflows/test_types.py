"""What type checkers know of workflows and their children: `make check` reads these signatures, pytest runs the names.

Each `type: ignore` here is a call that must be refused; one that is not needed is an error of its own.
"""

from __future__ import annotations

from typing import assert_type

import stepfast
from stepfast import Child, SyncChild, workflow


@workflow
async def greet(name: str, times: int = 1) -> str:
    return name * times


@workflow
def total(prices: list[int]) -> int:
    return sum(prices)


async def children_of_an_async_workflow() -> None:
    child = await greet.start("Ada", times=2)
    assert_type(child, Child[str])
    assert_type(await child, str)
    assert_type(await total.start([1, 2]), Child[int])
    assert_type(await greet.start("Ada", on_parent_end="leave"), Child[str])
    await greet.start(3)  # type: ignore[call-overload]
    await greet.start("Ada", times="twice")  # type: ignore[call-overload]
    await greet.start()  # type: ignore[call-overload]
    await greet.start("Ada", on_parent_end="later")  # type: ignore[call-overload]


def children_of_a_def_workflow() -> None:
    child = greet.start.sync("Ada")
    assert_type(child, SyncChild[str])
    assert_type(child.result(), str)
    assert_type(total.start.sync([1]), SyncChild[int])
    assert_type(total.start.sync([1], on_parent_end="cancel"), SyncChild[int])
    total.start.sync("12")  # type: ignore[call-overload]


def test_the_handles_of_children_are_public_names():
    assert {"Child", "SyncChild"} <= set(stepfast.__all__)
    assert (Child.__name__, SyncChild.__name__) == ("Child", "SyncChild")

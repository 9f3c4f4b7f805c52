"""A value that would come back changed fails where it is given, with the path to the part that changes."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field

from stepfast import RunFailed, step, workflow
from stepfast.kernel.errors import Unstorable
from tests.support.apps import Bodies, app_on


@dataclasses.dataclass
class Counted:
    name: str
    count: int = dataclasses.field(init=False, default=0)


class Hiding(BaseModel):
    hidden: int = Field(default=5, exclude=True)


class Street(TypedDict):
    name: str


def seven() -> Counted:
    value = Counted("a")
    value.count = 7
    return value


CHANGED: list[tuple[Any, Any, str]] = [
    (Counted, seven(), r"\.count is 7 \(int\), which would come back as 0"),
    (Hiding, Hiding(hidden=9), r"\.hidden is a value \(int\), which would come back as another"),
    (Street, {"name": "a", "number": 2}, r"\.number is 2 \(int\), which would not come back"),
    (dict[str | None, int], {None: 1}, r"\[None\] \(the key\) is None \(NoneType\), which would come back as str"),
    (list[int] | tuple[int, ...], (1, 2), r"is a value of 2 parts \(tuple\), which would come back as list"),
]


@pytest.mark.parametrize(("hint", "value", "told"), CHANGED, ids=["init", "exclude", "extra", "key", "tuple"])
@pytest.mark.parametrize("way", ["argument", "result"])
async def test_a_step_does_not_take_or_give_what_would_change(database, hint, value, told, way):
    bodies = Bodies()

    async def give():
        bodies.ran("give")
        return value

    async def take(taken) -> None:
        bodies.ran("take")

    give.__annotations__["return"] = take.__annotations__["taken"] = hint
    giving, taking = step(give), step(take)

    @workflow
    async def flow() -> None:
        await (giving() if way == "result" else taking(value))

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match=told) as failed:
            await (await app.start(flow))
        assert isinstance(failed.value.__cause__, Unstorable)
        assert failed.value.__cause__.code == "E-VAL-003"
        assert bodies == ({"give": 1} if way == "result" else {})


async def test_a_moment_comes_back_with_its_offset_and_without_the_name_of_its_zone(database):
    at = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)

    @step
    async def tell() -> datetime:
        return at

    @workflow
    async def flow() -> bool:
        told = await tell()
        return told.utcoffset() == at.utcoffset() and told.replace(tzinfo=None) == at.replace(tzinfo=None)

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow))

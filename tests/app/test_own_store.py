"""An app on a store that its user brings."""

import pytest

from stepfast import Stepfast
from stepfast.kernel.ports import Clock, Store
from stepfast.stores.urls import store_for
from tests.support.apps import QUICK
from tests.support.workflows import say


@pytest.fixture
def made() -> list[Store]:
    return []


async def test_an_app_asks_for_a_store_each_time_it_opens(database, made):
    def make(clock: Clock) -> Store:
        store = store_for(database, clock, None)
        made.append(store)
        return store

    app = Stepfast(make, workflows=[say], worker=QUICK)
    for _ in range(2):
        async with app:
            assert await (await app.start(say, "a")) == "a"
    assert len(set(map(id, made))) == 2


async def test_the_clock_of_the_app_is_given_to_the_maker(database, made):
    clocks: list[Clock] = []

    def make(clock: Clock) -> Store:
        clocks.append(clock)
        return store_for(database, clock, None)

    async with Stepfast(make, workflows=[say], worker=False) as app:
        assert clocks == [app._clock]

"""An app on a store that its user brings."""

import re

import pytest

from stepfast import Invalid, Stepfast
from stepfast.kernel.ports import Clock, Store
from stepfast.stores.urls import store_for
from tests.support.apps import QUICK
from tests.support.workflows import say


@pytest.fixture
def made() -> list[Store]:
    return []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"blobs": 5}, "blobs is 5, which has no open, close, put, get, has, delete, list."),
        ({"blobs": object()}, "A Blobs has open, close, put"),
        ({"clock": object()}, "which has no now, local, follow, sleep. A Clock has"),
    ],
)
def test_what_lacks_the_calls_of_a_port_is_refused_where_it_is_given(given, told):
    with pytest.raises(Invalid, match=re.escape(told)):
        Stepfast("sqlite:///never.db", **given)


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

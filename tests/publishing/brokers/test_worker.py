"""A worker that publishes to a broker by itself: from an app's sinks, from the setting, and from the command line."""

from __future__ import annotations

import pytest

from stepfast import Stepfast
from tests.cli.processes import worker
from tests.cli.shop import quick
from tests.support.apps import QUICK, app_on
from tests.support.workflows import say


async def told(broker, run_id: str, last: str) -> list[str]:
    """The types of a run's events that have arrived, once this one has."""
    while True:
        types = [each["data"]["type"] for each in await broker.arrived() if each["subject"] == run_id]
        if last in types:
            return types


async def test_a_worker_publishes_to_a_broker(database, broker):
    async with Stepfast(database, workflows=[say], worker=QUICK, sinks=[broker.sink()]) as app:
        run = await app.start(say, "hello")
        assert await told(broker, run.id, "completed") == [event.type for event in await run.history()]


@pytest.mark.parametrize("by", ["option", "setting"])
async def test_the_command_line_names_where_events_go(tmp_path, redis_server, by):
    database = f"sqlite:///{tmp_path}/app.db"
    url = f"{redis_server.url}?stream=stepfast-events"
    options = ["--sink", url] if by == "option" else []
    settings = {"STEPFAST_SINKS": url} if by == "setting" else {}
    async with app_on(database, [quick], worker=False) as client:
        with worker(database, *options, **settings) as process:
            while not await client.sinks.list():
                pass
            run = await client.start(quick)
            assert (await told(redis_server, run.id, "completed"))[0] == "queued"
            process.process.terminate()
            assert await process.ends() == 0

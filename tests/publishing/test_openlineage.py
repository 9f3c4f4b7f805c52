"""The OpenLineage sink: what catalogues are told of runs and their assets, and how it reaches them."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema
import pytest

from stepfast import Invalid, Retry, Stepfast, continue_as, step, storage, workflow
from stepfast.kernel.errors import NotFound, RunFailed, SinkAway, WrongCall
from stepfast.kernel.executor_errors import HttpFailed, HttpRefused, NotAllowed
from stepfast.kernel.ids import parse_run_id
from stepfast.sinks import OpenLineageSink, openlineage
from stepfast.sinks.openlineage_events import run_uuid, step_name
from tests.publishing.openlineage_schema import RUN_EVENT
from tests.publishing.test_webhook import EVENT, HERE, KEY, REDIRECT, SECRET, Server, server
from tests.support.apps import QUICK

__all__ = ["server"]

Told = list[dict[str, Any]]


@step(retry=Retry(attempts=1))
async def derive(name: str, source: str) -> str:
    return (await storage.write_asset(name, b"of " + await storage.read_asset(source))).id


@step(retry=Retry(attempts=1))
async def refuse() -> None:
    raise ValueError("the password is hunter2")


@workflow
async def deriving(fails: bool = False) -> str:
    made = await derive("draft", "source")
    if fails:
        await refuse()
    return await derive("report", made)


@workflow
async def outer() -> str:
    return await deriving()


@workflow
async def twice(left: int) -> int:
    await derive(f"turn-{left}", "source")
    if left:
        continue_as(left - 1)
    return left


class Catalogue:
    """A catalogue that is told of runs when a test says so, each event checked against the schema."""

    def __init__(self, app: Stepfast, asking: Stepfast, sink: OpenLineageSink, told: Told) -> None:
        self.app = app
        self.told = told
        self._sink = sink
        self._asking = asking

    async def hear(self, run_id: str) -> Told:
        """What it is told of a run, which has ended."""
        history = await self._asking.get(run_id).history(limit=1_000)
        start = len(self.told)
        await self._sink.deliver([event for event in history if self._sink.wants(event)])
        for event in self.told[start:]:
            jsonschema.validate(event, RUN_EVENT)
        return self.told[start:]


@asynccontextmanager
async def opened(database: str, sink: OpenLineageSink) -> AsyncIterator[tuple[Stepfast, Stepfast]]:
    """An app with a worker, and one that has the sink and publishes nothing by itself."""
    flows: list[Any] = [deriving, outer, twice]
    async with (
        Stepfast(database, workflows=flows, worker=QUICK) as app,
        Stepfast(database, workflows=flows, worker=False, sinks=[sink]) as asking,
    ):
        await app.assets.put("s", "source")
        yield app, asking


@asynccontextmanager
async def telling(database: str, **options: Any) -> AsyncIterator[Catalogue]:
    told: Told = []
    sink = OpenLineageSink("catalogue", send=told.append, **options)
    async with opened(database, sink) as (app, asking):
        yield Catalogue(app, asking, sink, told)


def of(told: Told, run_id: str) -> Told:
    return [event for event in told if event["run"]["runId"] == run_id]


def names(datasets: Told) -> list[tuple[str, str, str]]:
    return [(each["namespace"], each["name"], each["facets"]["version"]["datasetVersion"]) for each in datasets]


def tags(facets: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in facets["tags"]["tags"]}


def end_of(told: Told, run_id: str) -> dict[str, Any]:
    start, end = of(told, run_id)
    assert (start["eventType"], end["eventType"] == "START") == ("START", False)
    return end


async def test_a_run_is_told_with_what_it_has_read_and_written(database):
    async with telling(database) as catalogue:
        run = await catalogue.app.start(deriving, actor="ann", correlation_id="order-7")
        await run
        end = end_of(await catalogue.hear(run.id), run.id)
        assert (end["job"]["namespace"], end["job"]["name"]) == ("stepfast/default", "deriving")
        assert (end["eventType"], end["job"]["facets"]["jobType"]["jobType"]) == ("COMPLETE", "WORKFLOW")
        # What it has made itself is none of its inputs.
        assert names(end["inputs"]) == [("stepfast/default", "source", "1")]
        assert names(end["outputs"]) == [("stepfast/default", "draft", "1"), ("stepfast/default", "report", "1")]
        assert tags(end["run"]["facets"]) == {
            "state": "completed",
            "correlation_id": "order-7",
            "actor": "ann",
            "generation": "1",
        }


async def test_its_steps_are_told_as_runs_of_jobs_of_their_own(database):
    async with telling(database) as catalogue:
        run = await catalogue.app.start(deriving)
        await run
        steps = [event for event in await catalogue.hear(run.id) if event["job"]["name"] == "deriving.derive"]
        assert [event["eventType"] for event in steps] == ["START", "COMPLETE", "START", "COMPLETE"]
        assert len({event["run"]["runId"] for event in steps}) == 2
        assert [(names(event["inputs"])[0][1], names(event["outputs"])[0][1]) for event in steps[1::2]] == [
            ("source", "draft"),
            ("draft", "report"),
        ]
        parent = steps[0]["run"]["facets"]["parent"]
        assert (parent["run"]["runId"], parent["job"]["name"]) == (run.id, "deriving")
        assert tags(steps[0]["run"]["facets"]) == {"step": "derive#1", "attempt": "1"}


async def test_a_rerun_is_a_run_of_its_own_and_tells_the_id_that_was_wanted(database):
    async with telling(database) as catalogue:
        run = await catalogue.app.start(deriving)
        await run
        await run.rerun()
        await run
        told = await catalogue.hear(run.id)
        assert names(end_of(told, run.id)["outputs"])[-1][1] == "report"
        again = end_of(told, run_uuid(parse_run_id(run.id), 2))
        assert names(again["outputs"])[-1][1] == "report-2"
        assert tags(again["outputs"][-1]["facets"]) == {"wanted": "report"}
        assert tags(again["run"]["facets"])["generation"] == "2"


async def test_a_failure_is_told_without_what_the_error_says(database):
    async with telling(database) as catalogue:
        run = await catalogue.app.start(deriving, fails=True)
        with pytest.raises(RunFailed):
            await run
        told = await catalogue.hear(run.id)
        end = end_of(told, run.id)
        assert end["eventType"] == "FAIL"
        assert end["run"]["facets"]["errorMessage"]["message"] == f"builtins:ValueError, see run {run.id}"
        assert "hunter2" not in json.dumps(told)
        assert names(end["outputs"]) == [("stepfast/default", "draft", "1")]


async def test_what_an_error_says_is_told_where_that_is_wanted(database):
    async with telling(database, with_messages=True) as catalogue:
        run = await catalogue.app.start(deriving, fails=True)
        with pytest.raises(RunFailed):
            await run
        end = end_of(await catalogue.hear(run.id), run.id)
        assert "hunter2" in end["run"]["facets"]["errorMessage"]["message"]


async def test_a_run_that_was_called_off_before_it_began_is_told_whole(database):
    async with telling(database) as catalogue:
        run = await catalogue.app.start(deriving, delay="1h")
        await run.cancel()
        assert end_of(await catalogue.hear(run.id), run.id)["eventType"] == "ABORT"


async def test_a_child_names_its_parent(database):
    async with telling(database, namespace="prod") as catalogue:
        await catalogue.app.assets.put("s", "source", tenant="acme")
        run = await catalogue.app.start(outer, tenant="acme")
        await run
        (child,) = [view for view in await catalogue.app.runs(tenant="acme") if view.parent_id == run.id]
        parent = end_of(await catalogue.hear(child.run_id), child.run_id)["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == run.id
        assert parent["job"] == {"namespace": "prod/acme", "name": "outer"}


async def test_each_generation_of_a_run_that_starts_over_has_its_end(database):
    async with telling(database) as catalogue:
        run = await catalogue.app.start(twice, 1)
        await run
        told = await catalogue.hear(run.id)
        first, last = end_of(told, run.id), end_of(told, run_uuid(parse_run_id(run.id), 2))
        assert (names(first["outputs"])[0][1], names(last["outputs"])[0][1]) == ("turn-1", "turn-0")


async def test_what_is_more_than_can_be_told_is_left_out_and_said(database, monkeypatch):
    monkeypatch.setattr(openlineage, "MAX_ROWS", 1)
    async with telling(database) as catalogue:
        run = await catalogue.app.start(deriving)
        await run
        end = end_of(await catalogue.hear(run.id), run.id)
        assert (len(end["inputs"]) + len(end["outputs"]), tags(end["run"]["facets"])["cut"]) == (1, "true")


async def test_workers_publish_to_it_and_only_of_the_tenants_that_were_chosen(database):
    told: Told = []
    heard = asyncio.Event()

    def hear(event: dict[str, Any]) -> None:
        told.append(event)
        if event["eventType"] == "COMPLETE" and event["job"]["name"] == "deriving":
            heard.set()

    sink = OpenLineageSink("catalogue", send=hear, tenants=["acme"])
    async with Stepfast(database, workflows=[deriving], worker=QUICK, sinks=[sink]) as app:
        for tenant in ("bolt", "acme"):
            await app.assets.put("s", "source", tenant=tenant)
            await (await app.start(deriving, tenant=tenant))
        async with asyncio.timeout(30):
            await heard.wait()
    assert {event["job"]["namespace"] for event in told} == {"stepfast/acme"}


@pytest.mark.parametrize(
    ("step", "name"), [("derive#1", "derive"), ("1.2/derive#3", "derive"), ("items[7]/items#1", "items"), ("x", "x")]
)
def test_a_job_is_known_by_what_it_does(step, name):
    assert step_name(step) == name


def posting(server: Server, **options: Any) -> OpenLineageSink:
    url = f"http://127.0.0.1:{server.port}/api/v1/lineage"
    sink = OpenLineageSink("catalogue", url, allowed=HERE, now=lambda: 99.5, **options)
    return sink


@asynccontextmanager
async def posted(database: str, server: Server, **options: Any) -> AsyncIterator[tuple[OpenLineageSink, Any]]:
    """A sink that has posted what there is to tell of a run, and the run's end."""
    sink = posting(server, **options)
    async with opened(database, sink) as (app, _):
        run = await app.start(deriving)
        await run
        wanted = [event for event in await run.history() if sink.wants(event)]
        await sink.deliver(wanted)
        assert len(server.got) == 6
        yield sink, wanted[-1]


async def test_it_is_posted_as_json_with_its_key(database, server):
    async with posted(database, server, api_key="k-1"):
        for got in server.got:
            jsonschema.validate(json.loads(got.body), RUN_EVENT)
            assert got.line == "POST /api/v1/lineage HTTP/1.1"
            assert (got.headers["Content-Type"], got.headers["Authorization"]) == ("application/json", "Bearer k-1")
            assert "webhook-signature" not in got.headers


async def test_it_is_signed_where_a_secret_is_given(database, server):
    async with posted(database, server, secret=SECRET):
        got = server.got[-1]
        signed = f"{got.headers['webhook-id']}.99.".encode() + got.body
        expected = base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
        assert got.headers["webhook-signature"] == f"v1,{expected}"


async def test_what_comes_again_is_the_same_again(database, server):
    async with posted(database, server) as (sink, end):
        before = [got.body for got in server.got]
        await sink.deliver([end])
        assert {got.body for got in server.got} == set(before)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (REDIRECT, HttpRefused),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", HttpRefused),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", HttpFailed),
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", SinkAway),
        (b"nonsense\r\n\r\n", HttpFailed),
    ],
)
async def test_what_the_server_does_not_take_is_an_error_that_tells_no_key(database, server, answer, error):
    async with posted(database, server, api_key="k-secret") as (sink, end):
        server.answer = answer
        with pytest.raises(error) as refused:
            await sink.deliver([end])
        assert "k-secret" not in f"{refused.value!r} {refused.value} {sink!r}"


async def test_a_private_address_is_refused_unless_it_is_allowed(database, server):
    async with posted(database, server) as (sink, end):
        careful = OpenLineageSink("careful", f"http://127.0.0.1:{server.port}/")
        assert sink._facts is not None
        careful.inform(sink._facts)
        with pytest.raises(NotAllowed):
            await careful.deliver([end])


async def test_a_run_that_is_gone_is_an_error_that_says_so(database, server):
    async with posted(database, server) as (sink, end):
        gone = end._replace(run_id=parse_run_id("01930000-0000-7000-8000-000000000001"))
        with pytest.raises(NotFound, match="is gone"):
            await sink.deliver([gone])


async def test_a_sink_of_no_app_says_so():
    with pytest.raises(WrongCall, match="of no app"):
        await OpenLineageSink("catalogue", send=print).deliver([EVENT])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"url": "https://catalogue.example", "send": print},
        {"url": "ftp://catalogue.example"},
        {"url": "https://user:hunter2@catalogue.example"},
        {"url": "https://catalogue.example", "api_key": "hunter2\r\nX: y"},
        {"url": "https://catalogue.example", "api_key": ""},
        {"url": "https://catalogue.example", "secret": "hunter2"},
        {"send": print, "namespace": ""},
    ],
)
def test_a_sink_that_could_not_work_is_refused_without_telling_keys(options):
    with pytest.raises(Invalid) as refused:
        OpenLineageSink("catalogue", **options)
    assert "hunter2" not in str(refused.value)

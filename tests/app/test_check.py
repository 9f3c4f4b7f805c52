"""The deploy check: which open runs the code at hand fits, found without writing or running anything."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import random
import threading
import time
import uuid
from datetime import datetime as moment
from typing import Any

import pytest

from stepfast import Graph, Stepfast, receive, sleep, step, workflow
from stepfast.checks import PAGE_RUNS
from stepfast.testing import Verdict, engine
from stepfast.workflows.unsafe import unsafe_calls
from tests.support.apps import Bodies, app_on

# By a name of their own, as imports may have it: calls are known by what they are.
let_others_go_on = asyncio.sleep

BODIES = Bodies()


@step
async def charge(cents: int) -> str:
    BODIES.ran("charge")
    return f"receipt over {cents}"


@step
async def audit() -> None:
    BODIES.ran("audit")


def order(function, **options):
    return workflow(name="order", **options)(function)


async def original(cents: int) -> str:
    return f"{await charge(cents)}, {await receive('word', str)}"


async def with_audit(cents: int) -> str:
    await audit()
    return await original(cents)


async def without_charge(cents: int) -> str:
    return await receive("word", str)


async def without_waiting(cents: int) -> str:
    return await charge(cents)


CHANGES = {
    "the same code": (original, 1, Verdict.FITS, None, 0),
    "an added step": (with_audit, 1, Verdict.ADDED_STEP, "audit#1", 0),
    "a removed step": (without_charge, 1, Verdict.MISMATCH, "charge#1", 1),
    "a removed wait": (without_waiting, 1, Verdict.DROPPED_WAIT, "receive:word#1", 0),
    "another version alone": (original, 2, Verdict.UNKNOWN_CODE, None, 1),
}


async def rows(app) -> list[object]:
    views = await app.runs()
    return [*views, *[await app.get(view.run_id).history() for view in views]]


@pytest.mark.parametrize(("changed", "version", "verdict", "step", "breaking"), CHANGES.values(), ids=CHANGES)
async def test_each_open_run_is_told_how_it_gets_on_with_the_code(database, changed, version, verdict, step, breaking):
    async with engine(database=database, workflows=[order(original)]) as opened:
        run = await opened.start("order", 49, tenant="acme")
        await opened.run_until_idle()
    ran = dict(BODIES)
    async with app_on(database, [order(changed, version=version)], worker=False) as app:
        before = await rows(app)
        report = await app.check()
        assert (report.verdicts, report.breaking, report.is_safe) == ({verdict: 1}, breaking, not breaking)
        shown = [(checked.run_id, checked.fit.step, checked.breaks) for checked in report.runs]
        assert shown == ([] if verdict is Verdict.FITS else [(run.id, step, bool(breaking))])
        assert await rows(app) == before
        assert (await app.check("somebody else")).checked == 0
    assert ran == BODIES


async def test_of_calls_side_by_side_the_one_that_does_not_fit_is_named(database):
    async def before() -> None:
        await asyncio.gather(charge(1), charge(2), audit())
        await receive("word")

    async def after() -> None:
        await asyncio.gather(charge(1), charge(3), audit())
        await receive("word")

    async with engine(database=database, workflows=[order(before)]) as opened:
        await opened.start("order")
        await opened.run_until_idle()
    async with app_on(database, [order(after)], worker=False) as app:
        (checked,) = (await app.check()).runs
    assert (checked.fit.verdict, checked.fit.step) == (Verdict.MISMATCH, "2/charge#1")
    assert "2/charge#1" in checked.fit.detail


@step
async def render(pages: int) -> str:
    return "a page of text" * pages


async def with_report(pages: int) -> str:
    await render(pages)
    return await receive("word", str)


async def test_a_run_whose_large_value_is_elsewhere_is_not_taken_for_one_that_the_code_does_not_fit(database, tmp_path):
    code = order(with_report)
    async with Stepfast(database, workflows=[code], worker=False, blobs=tmp_path / "blobs") as app:
        run = await app.start("order", 10_000)
        await run.execute()
        assert (await app.check()).verdicts == {Verdict.FITS: 1}
    async with app_on(database, [code], worker=False) as app:
        report = await app.check()
    assert (report.verdicts, report.is_safe) == ({Verdict.UNREADABLE: 1}, False)
    assert "STEPFAST_BLOBS" in report.runs[0].fit.detail


async def test_runs_of_another_app_break_nothing_here(database):
    @workflow
    async def elsewhere() -> None:
        await sleep("1h")

    async with engine(database=database, workflows=[elsewhere]) as opened:
        await opened.start(elsewhere)
        await opened.run_until_idle()
    async with app_on(database, [order(original)], worker=False) as app:
        report = await app.check()
    assert (report.verdicts, report.breaking) == ({Verdict.UNKNOWN_CODE: 1}, 0)


@step(name="post.send")
async def send(to: str) -> str:
    return to


@step(name="post.stamp")
async def stamp() -> None: ...


@step(name="press.print")
async def print_page() -> None: ...


LETTER = {
    "stepfast": 1,
    "workflow": "letter",
    "steps": [
        {"id": "wait", "receive": {"signal": "word"}},
        {"id": "send", "needs": ["wait"], "use": "post.send", "with": {"to": "ann"}},
    ],
}


async def open_letter(database: str) -> None:
    """A run of a registered template that waits."""
    async with engine(database=database, workflows=[]) as opened:
        await opened.app.register(LETTER)
        await opened.start("letter")
        await opened.run_until_idle()


LACKING = {
    "all that is needed": ([send], Verdict.FITS, 0),
    "another executor of the domain alone": ([stamp], Verdict.NOT_COMPILED, 1),
    "executors of another app": ([print_page], Verdict.NOT_COMPILED, 0),
}


@pytest.mark.parametrize(("executors", "verdict", "breaking"), LACKING.values(), ids=LACKING)
async def test_a_template_whose_executors_are_gone_is_told(database, executors, verdict, breaking):
    await open_letter(database)
    async with Stepfast(database, workflows=[], executors=executors, worker=False) as app:
        report = await app.check()
    assert (report.verdicts, report.breaking) == ({verdict: 1}, breaking)
    assert all("'post.send'" in checked.fit.detail for checked in report.runs)


def counted(value: int) -> Graph[None, Any]:
    graph = Graph("counted")
    graph.receive("word", Any)
    graph.set("number", value)
    return graph


async def test_an_open_run_of_a_graph_that_was_changed_under_its_version_would_not_go_on(database):
    async with engine(database=database, workflows=[counted(1)]) as opened:
        await opened.start("counted")
        await opened.run_until_idle()
    async with app_on(database, [counted(2)], worker=False) as app:
        report = await app.check()
    assert (report.verdicts, report.breaking) == ({Verdict.UNKNOWN_CODE: 1}, 1)


async def test_a_graph_with_other_content_than_is_registered_is_told_before_anybody_starts_it(database):
    async with app_on(database, [], worker=False) as app:
        stands = await app.register(counted(1), tenant="acme")
    async with app_on(database, [counted(2)], worker=False) as app:
        report = await app.check()
        assert (report.is_safe, [changed.registered for changed in report.changed]) == (False, [stands.code])
        assert (await app.check("globex")).is_safe


async def test_every_open_run_is_looked_at_however_many_there_are_and_whatever_they_do(database):
    first, second = order(original), order(without_charge)
    number = PAGE_RUNS + 5
    async with engine(database=database, workflows=[first]) as opened:
        for cents in range(number):
            await opened.start(first, cents)
        await opened.run_until_idle()
        ended = await opened.start(first, 1)
        await opened.signal(ended, "word", "go")
        await opened.result(ended)
        await opened.start(first, 1)
    async with app_on(database, [second], worker=False) as app:
        report = await app.check()
    assert (report.verdicts, report.breaking) == ({Verdict.FITS: 1, Verdict.MISMATCH: number}, number)


def test_calls_that_do_not_replay_are_found_by_reading_the_code():
    @workflow
    async def careless(items: list[int]) -> None:
        moment.now(tz=datetime.UTC)
        datetime.datetime.now(tz=datetime.UTC)
        uuid.uuid4()
        random.shuffle(items)
        await let_others_go_on(0)
        await asyncio.wait_for(charge(1), 5)
        time.monotonic()
        await charge(int(time.monotonic()))

    found = unsafe_calls(careless.workflow)
    names = ["datetime.datetime.now", "datetime.datetime.now", "uuid.uuid4", "random.shuffle", "asyncio.wait_for"]
    assert [call.call for call in found] == [*names, "time.monotonic", "time.monotonic"]
    first = careless.workflow.function.__code__.co_firstlineno
    assert [call.line - first for call in found] == [2, 3, 4, 5, 7, 8, 9]
    assert str(found[2]).endswith("careless@1 calls uuid.uuid4(), which does not replay: use durable.uuid().")
    assert unsafe_calls(order(original).workflow) == []


def test_calls_of_what_the_workflow_imports_itself_are_named_too():
    @workflow
    async def careless() -> None:
        import random as dice
        import uuid
        from time import time as now

        await charge(int(now()) + uuid.uuid4().int + dice.randint(1, 6))

    found = [call.call for call in unsafe_calls(careless.workflow)]
    assert found == ["time.time", "uuid.uuid4", "random.randint"]


def test_a_call_is_named_by_the_class_that_it_is_made_on():
    class Day(datetime.date): ...

    @workflow
    async def careless() -> None:
        from datetime import date

        dates = (date.today(), datetime.date.today())  # noqa: DTZ011
        moments = (moment.today(), datetime.datetime.today())  # noqa: DTZ002
        await charge(len((*dates, *moments, Day.today())))

    found = [call.call for call in unsafe_calls(careless.workflow)]
    of_dates, of_moments = "datetime.date.today", "datetime.datetime.today"
    assert found == [of_dates, of_dates, of_moments, of_moments, of_dates]


def test_a_dotted_import_gives_the_name_of_the_package():
    @workflow
    async def careless() -> None:
        import os.path

        await charge(len(os.path.join(os.getenv("HOME", ""), "x")))

    assert [call.call for call in unsafe_calls(careless.workflow)] == ["os.getenv"]


def test_threads_of_a_workflows_own_are_named():
    @workflow
    def careless(orders: list[int]) -> None:
        from concurrent.futures import ThreadPoolExecutor as Pool

        with Pool() as pool:
            list(pool.map(print, orders))
        threading.Thread(target=print, daemon=True).start()
        concurrent.futures.ThreadPoolExecutor()

    pool = "concurrent.futures.thread.ThreadPoolExecutor"
    assert [call.call for call in unsafe_calls(careless.workflow)] == [pool, "threading.Thread", pool]


def test_a_name_that_the_workflow_imports_from_elsewhere_is_not_that_of_its_file():
    @workflow
    async def careful() -> None:
        from stepfast import durable as moment

        await charge(moment.now().year)

    assert unsafe_calls(careful.workflow) == []

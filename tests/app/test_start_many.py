"""Starting many runs with one call."""

from __future__ import annotations

import pytest

from stepfast import Invalid, Start, step, workflow
from stepfast.kernel.errors import KeyReused, WorkflowNotFound
from stepfast.stores.sqlite.store import SqliteStore
from tests.support.apps import app_on


@step
async def double(number: int) -> int:
    return number * 2


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@workflow(priority=5)
async def pressing() -> None: ...


@pytest.fixture
async def app(database):
    async with app_on(database, [doubled, pressing], worker=False) as app:
        yield app


async def test_each_request_becomes_a_run_in_order(app):
    answers = await app.start_many([Start(doubled, number) for number in range(10)])
    async with app.worker():
        assert [await answer.run.result(timeout="30s") for answer in answers] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]


async def test_a_workflow_can_be_named(app):
    [answer] = await app.start_many([Start("doubled", 4, tenant="acme", key="four")])
    assert (await answer.run.info()).tenant == "acme"


async def test_a_key_that_was_used_before_names_the_earlier_run(app):
    [first] = await app.start_many([Start(doubled, 1, key="one")])
    [again] = await app.start_many([Start(doubled, 1, key="one")])
    assert (again.run.id, again.is_new) == (first.run.id, False)


async def test_a_key_with_another_body_refuses_that_request_and_no_other(app):
    await app.start_many([Start(doubled, 1, key="one")])
    answers = await app.start_many(
        [Start(doubled, number, key=key) for number, key in [(2, "two"), (3, "one"), (4, "x")]]
    )
    assert [(answer.is_new, type(answer.error)) for answer in answers] == [
        (True, type(None)),
        (False, KeyReused),
        (True, type(None)),
    ]


async def test_arguments_that_do_not_fit_refuse_that_request_and_no_other(app):
    answers = await app.start_many([Start(doubled, "many"), Start(doubled, 2)])
    assert [(answer.is_new, isinstance(answer.error, Invalid)) for answer in answers] == [(False, True), (True, False)]


async def test_a_name_that_nothing_has_refuses_that_request_and_no_other(app):
    answers = await app.start_many([Start("ghost"), Start(doubled, 2)])
    assert [(answer.is_new, type(answer.error)) for answer in answers] == [
        (False, WorkflowNotFound),
        (True, type(None)),
    ]


PRIORITIES = {
    "none": ({}, 5),
    "None": ({"priority": None}, 5),
    "zero": ({"priority": 0}, 0),
    "other": ({"priority": -1}, -1),
}


@pytest.mark.parametrize(("options", "stored"), PRIORITIES.values(), ids=PRIORITIES)
async def test_a_start_has_the_workflows_priority_unless_it_names_one(app, options, stored):
    one = await app.start(pressing, **options)
    [many] = await app.start_many([Start(pressing, **options)])
    assert [(await run.info()).priority for run in (one, many.run)] == [stored, stored]


@pytest.mark.parametrize("priority", [False, "high", 0.0])
async def test_a_priority_that_is_no_whole_number_is_refused(app, priority):
    with pytest.raises(Invalid, match="priority"):
        await app.start(pressing, priority=priority)


async def test_any_number_is_taken_from_an_iterator(app):
    answers = await app.start_many(Start(doubled, number) for number in range(2_345))
    assert len({answer.run.id for answer in answers if answer.is_new}) == 2_345


async def test_nothing_at_all_is_started_by_an_empty_list(app):
    assert await app.start_many([]) == []


async def test_a_commit_holds_a_thousand_runs(tmp_path, monkeypatch):
    pages = []
    start = SqliteStore.start

    async def counted(store, runs, holder):
        pages.append(len(runs))
        return await start(store, runs, holder)

    monkeypatch.setattr(SqliteStore, "start", counted)
    async with app_on(f"sqlite:///{tmp_path}/app.db", [doubled], worker=False) as app:
        await app.start_many(Start(doubled, number) for number in range(2_500))
    assert pages == [1_000, 1_000, 500]

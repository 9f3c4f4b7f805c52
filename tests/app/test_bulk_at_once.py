"""One command for many runs, sent twice at once with one key: both senders have the same answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepfast import Retry, Start, bulk, workflow
from tests.support.apps import app_on
from tests.support.workflows import say


@workflow(retry=Retry(attempts=1))
async def refuse() -> None:
    raise ValueError("no")


WHERE = pytest.mark.parametrize("where", [{}, {"state": "pending"}, {"workflow": "say"}], ids=["all", "state", "name"])
MOMENTS = pytest.mark.parametrize("call", ["runs", "answered", "change"])


@pytest.fixture
async def client(database, monkeypatch):
    monkeypatch.setattr(bulk, "PAGE_RUNS", 2)
    async with app_on(database, [say, refuse], worker=False) as client:
        yield client


async def started(client: Any, number: int) -> None:
    await client.start_many([Start(say, "hello") for _ in range(number)])


def interrupted(client: Any, monkeypatch: Any, call: str, act: Any) -> list[Any]:
    """Have something done once, behind the second call of the store of this name; what came of it."""
    store, came, calls = client._parts.store, list[Any](), list[str]()
    original = getattr(store, call)

    async def and_act(*given: Any, **options: Any) -> Any:
        answer = await original(*given, **options)
        calls.append(call)
        if len(calls) == 2:
            monkeypatch.setattr(store, call, original)
            came.append(await act())
        return answer

    monkeypatch.setattr(store, call, and_act)
    return came


@WHERE
async def test_a_sender_that_another_overtakes_between_its_pages_has_the_same_answer(client, where):
    await started(client, 7)
    pages = client.change_pages("cancel", where, key="k")
    answers = [await anext(pages)]
    other = await client.change_many("cancel", where, key="k")
    answers += [page async for page in pages]
    assert bulk.together(answers) == other
    assert (len(other.changed), other.skipped) == (7, 0)


@WHERE
@MOMENTS
async def test_a_sender_that_another_overtakes_within_a_page_has_the_same_answer(client, monkeypatch, where, call):
    await started(client, 7)
    send = partial(client.change_many, "cancel", where, key="k")
    came = interrupted(client, monkeypatch, call, send)
    own = await send()
    assert [own] == came
    assert (len(own.changed), own.skipped) == (7, 0)


async def test_of_dead_letters_both_senders_have_the_same_answer(client):
    for _ in range(5):
        await (await client.start(refuse)).execute()
    pages = client.dead_letters.discard_pages(key="k")
    answers = [await anext(pages)]
    other = await client.dead_letters.discard_many(key="k")
    answers += [page async for page in pages]
    assert bulk.together(answers) == other
    assert len(other.changed) == 5


async def test_runs_that_others_have_changed_are_skipped_as_ever(client):
    await started(client, 5)
    pages = client.change_pages("cancel", {}, key="k")
    answers = [await anext(pages)]
    await client.change_many("cancel", {}, key="another")
    answers += [page async for page in pages]
    found = bulk.together(answers)
    assert (found.matched, len(found.changed), found.skipped) == (5, 2, 3)


async def test_broken_twin_that_looks_up_once_what_was_changed_skips_what_another_sender_did(client, monkeypatch):
    looked_up = bulk.Earlier.newest

    async def once(self: Any, before: Any, limit: int) -> Any:
        return [] if before else await looked_up(self, before, limit)

    monkeypatch.setattr(bulk.Earlier, "newest", once)
    await started(client, 7)
    pages = client.change_pages("cancel", {}, key="k")
    answers = [await anext(pages)]
    await client.change_many("cancel", {}, key="k")
    answers += [page async for page in pages]
    assert bulk.together(answers).skipped > 0

"""The page of events says what `data` holds: every type is brought about, and its keys are held against the page."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from typing import Any

import pytest

from stepfast import Domain, Later, Outside, Retry, callback_token, continue_as, progress, race, receive, review, sleep
from stepfast import step as step_of
from stepfast import workflow as workflow_of
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.events import EventType
from stepfast.testing import engine
from tools.event_fields import FIELDS

TYPES: dict[str, Any] = {
    "array": list,
    "array of strings": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "any": object,
}
# What the page says of all types at once.
COMMON = frozenset({"causation_id"})
ONCE = Retry(attempts=1)

shop = Domain("shop")
tokens: list[str] = []
broken: set[str] = set()


@shop.step("reserve")
async def reserve() -> str:
    return "t-1"


@shop.step("release")
async def release(ticket: str) -> None:
    return None


@shop.step("post", retry=ONCE)
async def post() -> None:
    raise PermissionError("closed")


@step_of(name="fields_flaky", retry=Retry(attempts=2, base="5s", jitter=0))
async def flaky() -> int:
    if "flaky" not in broken:
        broken.add("flaky")
        raise ConnectionError("once")
    return 1


@step_of(name="fields_send", retry=ONCE)
async def send(word: str) -> str:
    if word in broken:
        raise ValueError(word)
    return word


@step_of(name="fields_outside")
async def outside() -> Outside[int]:
    tokens.append(await callback_token())
    return Outside("batch-7", callback=True, deadline="1h")


@workflow_of(name="fields_plain")
async def plain(word: str) -> str:
    progress(1, 2, "half")
    await flaky()
    await receive("go")
    return await send(word)


@workflow_of(name="fields_tried_again", retry=Retry(attempts=2, base="5s", jitter=0))
async def tried_again(word: str) -> str:
    if word not in broken:
        broken.add(word)
        raise ValueError(word)
    return await send("fine")


@workflow_of(name="fields_anew")
async def anew(left: int) -> int:
    if left:
        await continue_as(left - 1)
    return left


@workflow_of(name="fields_later")
async def later(word: str) -> str:
    if word not in broken:
        broken.add(word)
        raise Later("5s")
    return word


@workflow_of(name="fields_racing")
async def racing() -> str:
    name, _ = await race(people=review("Is it right?"), late=sleep("1h"))
    return name


@workflow_of(name="fields_asking")
async def asking(**options: Any) -> Any:
    return (await review("Is it right?", show={"a": 1}, **options)).verdict


@workflow_of(name="fields_calling")
async def calling() -> Any:
    return await outside()


@workflow_of(name="fields_parent")
async def parent() -> int:
    return await anew(1)


@workflow_of(name="fields_simple")
async def simple() -> str:
    return await send("fine")


WORKFLOWS: list[Any] = [simple, plain, tried_again, anew, later, racing, asking, calling, parent]
ORDER = {
    "stepfast": 1,
    "workflow": "fields-order",
    "steps": [
        {"id": "never", "when": "${ false }", "use": "shop.reserve"},
        {
            "id": "publish",
            "on_failure": "compensate",
            "do": [
                {"id": "reserve", "use": "shop.reserve", "undo": {"use": "shop.release", "with": {"ticket": "t"}}},
                {"id": "post", "use": "shop.post", "needs": ["reserve"]},
            ],
        },
    ],
}
BEARING = {
    "stepfast": 1,
    "workflow": "fields-bearing",
    "steps": [{"id": "post", "use": "shop.post", "on_failure": "continue"}, {"id": "last", "use": "shop.reserve"}],
}


@pytest.fixture
async def office(database):
    tokens.clear()
    broken.clear()
    async with engine(database=database, workflows=WORKFLOWS, executors=shop.list()) as opened:
        yield opened


async def ended(office, run):
    with contextlib.suppress(StepfastError):
        await office.result(run)


async def a_run_that_people_steer(office):
    run = await office.start(plain, "late", actor="ann")
    await office.run_until_idle()
    office.clock.advance(10)
    await office.run_until_idle()
    await run.pause(reason="a look", actor="ann", key="look-1")
    await run.resume(reason="seen", actor="ann")
    broken.add("late")
    await office.signal(run, "go", reason="it is time", actor="ann")
    await ended(office, run)
    item = f"{run.id}.failed:1"
    await office.app.exceptions.assign(item, "ben", reason="knows it")
    await office.app.exceptions.assign(item, None)
    await office.app.exceptions.comment(item, "hm")
    await run.retry("fields_send", reason="again", actor="ann")
    await ended(office, run)
    await office.app.dead_letters.discard(run.id, reason="old", actor="ann")
    broken.discard("late")
    await run.rerun("fields_send", reason="mended", actor="ann")
    await ended(office, run)
    await run.annotate("grade", {"is": 1}, scope="quality", reason="asked for", actor="ann")
    await run.rollback("fields_send", reason="wrong", actor="ann")
    await run.rollback(1, actor="ann")
    await run.cancel(reason="enough", actor="ann")


async def runs_that_are_let_go(office):
    await office.run(simple)
    office.clock.advance(120)
    retention = office.app.retention
    await retention.set("1m", workflow="fields_simple", reason="enough", actor="ann")
    await retention.prune(actor="ann")
    await retention.remove(workflow="fields_simple")
    store = office.app.parts.store
    await store.release_sink(await store.take_sink("fields", "ann", 1_000, True))
    await office.app.sinks.remove("fields", reason="sold", actor="ann")


async def runs_that_begin_anew(office):
    for workflow, given in ((tried_again, "tried"), (later, "later")):
        await office.run(workflow, given)
    await office.run(parent)


async def a_worker_that_dies(office):
    run = await office.start(simple)
    office.crash_after("fields_send")
    await ended(office, run)


async def people_who_are_asked(office):
    reviews = office.app.reviews
    for options in (
        {"quorum": 2},
        {"role": "legal", "expires": "1h", "on_expiry": "escalate", "escalate_to": "boss"},
        {"assignee": "ann", "expires": "1h", "on_expiry": "continue"},
    ):
        run = await office.start(asking, **options)
        await office.run_until_idle()
        (asked,) = await office.reviews(run)
        await reviews.comment(asked.review_id, "hm", actor="ann")
        if "quorum" in options:
            await office.decide(run, "continue", actor="ann", note="fine")
            token = await reviews.issue_token(asked.review_id, actor="ben")
            await reviews.resume(token, "continue")
            with pytest.raises(StepfastError):
                await reviews.resume(token, "continue")
            with pytest.raises(StepfastError):
                await reviews.resume("wrong", "continue")
        else:
            await reviews.reassign(asked.review_id, "cleo", reason="away", actor="ann")
            await office.expire(run)
        await ended(office, run)
    await office.run(racing)


async def work_outside(office):
    run = await office.start(calling)
    await office.run_until_idle()
    await office.app.callbacks.progress(tokens[-1], 1, 2)
    await office.complete_callback(tokens[-1], 7)
    await ended(office, run)
    with pytest.raises(StepfastError):
        await office.app.callbacks.complete(tokens[-1], 7)


async def plans(office):
    for definition in (ORDER, BEARING):
        await office.app.register(definition, actor="ann")
        run = await office.start(definition["workflow"])
        await ended(office, run)
    await run.skip("post", None, reason="by hand", actor="ann")
    await ended(office, run)


SCENARIOS = (
    runs_that_are_let_go,
    a_run_that_people_steer,
    runs_that_begin_anew,
    a_worker_that_dies,
    people_who_are_asked,
    work_outside,
    plans,
)


async def written(office):
    """What `data` of each event was, by type, of all that the engine has written."""
    found = defaultdict(list)
    for event in await office.app.parts.store.sealed_events(0, 2**62, 100_000):
        found[event.type].append(json.loads(event.data or "{}"))
    return found


def fits(value: object, type_: str) -> bool:
    return any(isinstance(value, TYPES[each]) for each in type_.split(" or "))


async def test_the_page_says_what_the_data_of_every_type_of_event_holds(office):
    for scenario in SCENARIOS:
        await scenario(office)
    found = await written(office)
    assert sorted(set(map(str, EventType)) - set(found)) == [], "No scenario brings these about."
    wrong = {
        (str(type_), name)
        for type_ in EventType
        for data in found[type_]
        for name in data
        if name not in COMMON
        and not any(field.name == name and fits(data[name], field.type) for field in FIELDS[type_])
    }
    assert sorted(wrong) == [], "The page does not name them, or with another type."
    missing = {
        (str(type_), field.name)
        for type_ in EventType
        for field in FIELDS[type_]
        if field.is_always_there and not all(field.name in data for data in found[type_])
    }
    assert sorted(missing) == [], "The page says that they are always there."


def test_the_page_names_no_type_that_does_not_exist():
    assert set(FIELDS) == set(EventType)

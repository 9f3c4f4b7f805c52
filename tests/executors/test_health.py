"""Health: what an executor says of itself, whatever its check does."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stepfast import Executor, Health, Invalid, Stepfast

SOON_S = 0.01


class Checked:
    def __init__(self, answer=None, error: BaseException | None = None) -> None:
        self._answer, self._error = answer, error

    def execute(self) -> None: ...

    async def health(self):
        if self._error is not None:
            raise self._error
        return self._answer


async def health_of(thing: object, timeout_s: float = 5) -> tuple[bool, str]:
    health = await Executor.of(thing, "checked").check_health(timeout_s)
    return health.ok, health.message


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, (True, "ok")),
        (True, (True, "ok")),
        ("3 servers", (True, "3 servers")),
        (Health(False, "2 of 3", 0), (False, "2 of 3")),
        (False, (False, "it says that it is not")),
        (17, (False, "its check answered 17")),
    ],
    ids=str,
)
async def test_a_check_may_answer_in_several_ways(answer, expected):
    assert await health_of(Checked(answer)) == expected


async def test_one_without_a_check_is_taken_to_be_well():
    assert await health_of(lambda: None) == (True, "it has no health check")


@pytest.mark.parametrize("error", [LookupError("no server"), SystemExit("bye"), BaseException("odd")], ids=repr)
async def test_one_that_raises_is_unhealthy(error):
    ok, message = await health_of(Checked(error=error))
    assert (ok, message.partition(":")[0]) == (False, type(error).__name__)


async def test_one_that_hangs_is_reported_as_hung():
    class Hanging(Checked):
        async def health(self):
            await asyncio.Event().wait()

    ok, message = await health_of(Hanging(), SOON_S)
    assert (ok, message.startswith("hung")) == (False, True)


async def test_one_that_swallows_its_cancellation_holds_up_nobody():
    released = asyncio.Event()

    class Stubborn(Checked):
        async def health(self):
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue

    ok, message = await health_of(Stubborn(), SOON_S)
    assert (ok, message.startswith("hung")) == (False, True)
    released.set()


async def test_a_plain_check_runs_beside_the_event_loop_and_may_hang_there():
    released = threading.Event()

    class Blocking(Checked):
        def health(self):
            released.wait(60)

    ok, message = await health_of(Blocking(), SOON_S)
    assert (ok, message.startswith("hung")) == (False, True)
    released.set()


async def test_many_are_asked_at_once():
    meeting = asyncio.Barrier(3)

    class Meeting(Checked):
        async def health(self):
            await meeting.wait()

    app = Stepfast(workflows=[], worker=False, executors=[Executor.of(Meeting(), f"meet{n}") for n in range(3)])
    answers = await app.executors.health([f"meet{n}" for n in range(3)], "60s")
    assert [answer.ok for answer in answers.values()] == [True] * 3


async def test_without_names_every_executor_is_asked():
    app = Stepfast(workflows=[], worker=False, executors=[Executor.of(Checked(False), "sick")])
    answers = await app.executors.health()
    assert {name for name, answer in answers.items() if not answer.ok} == {"sick"}


async def test_a_function_may_be_registered_with_its_check():
    app = Stepfast(workflows=[], worker=False, executors=[])
    app.executors.register(len, "count", health=lambda: "it counts")
    assert (await app.executors.health(["count"]))["count"].message == "it counts"


async def test_a_time_limit_must_be_one():
    with pytest.raises(Invalid):
        await Stepfast(workflows=[], worker=False).executors.health([], "soon")


async def test_apart_from_the_others_one_may_even_block_the_event_loop():
    released, begun = threading.Event(), threading.Event()

    class Blocking(Checked):
        async def health(self):
            begun.set()
            released.wait(60)

    app = Stepfast(
        workflows=[], worker=False, executors=[Executor.of(Blocking(), "blocks"), Executor.of(Checked(), "well")]
    )
    answers = await app.executors.health(["blocks", "well"], SOON_S, apart=True)
    assert [(answer.ok, answer.message.partition(":")[0]) for answer in answers.values()] == [
        (False, "hung"),
        (True, "ok"),
    ]
    assert begun.is_set()
    released.set()

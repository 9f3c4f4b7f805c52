"""Failed attempts: how often, how soon, and what is left of them."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from stepfast import Invalid, Retry, RunFailed, StepFailed, Stepfast, WrongCall, step, workflow
from tests.support.apps import PATIENT, Bodies
from tests.support.virtual_time import timed_app, until_recorded, virtual_time


def flaky(bodies: Bodies, failures: int, retry: Retry):
    @step(retry=retry)
    async def fragile() -> str:
        bodies.ran("fragile")
        if bodies["fragile"] <= failures:
            raise ConnectionError(f"try {bodies['fragile']}")
        return "done"

    @workflow
    async def flow() -> str:
        return await fragile()

    return flow


async def test_a_step_that_fails_for_a_while_succeeds_in_the_end(database):
    bodies = Bodies()
    flow = flaky(bodies, failures=2, retry=Retry(attempts=3, base="10s", jitter=0))
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 1)
        await time.advance("10s")
        await time.until_recorded(run, 2)
        await time.advance("20s")
        assert await time.result(run) == "done"
        records = await run.steps()
    assert [(record.state, record.attempt) for record in records] == [("pending", 1), ("pending", 2), ("completed", 3)]


async def test_no_attempt_comes_before_its_backoff_is_over(database):
    bodies = Bodies()
    flow = flaky(bodies, failures=1, retry=Retry(attempts=2, base="10s", jitter=0))
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 1)
        await time.advance("9.999s")
        await run.info()
        assert bodies["fragile"] == 1
        await time.advance("1ms")
        assert await time.result(run) == "done"


async def test_the_last_attempts_error_is_the_steps_error(database):
    bodies = Bodies()
    flow = flaky(bodies, failures=9, retry=Retry(attempts=3, base=0))
    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="try 3") as failed:
            await run
        assert isinstance(failed.value.__cause__, ConnectionError)
        types = [event.type for event in await run.history()]
    assert bodies["fragile"] == 3
    assert types[-3:] == ["dlq_pending", "dlq_recorded", "failed"]


async def test_an_error_that_must_not_be_retried_fails_at_once(database):
    bodies = Bodies()
    flow = flaky(bodies, failures=9, retry=Retry(attempts=5, never=(ConnectionError,)))
    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        with pytest.raises(RunFailed, match="try 1"):
            await (await app.start(flow))
    assert bodies["fragile"] == 1


@pytest.mark.parametrize("error", [Invalid, WrongCall])
async def test_an_error_that_says_that_a_call_is_wrong_fails_at_once_whatever_the_policies_name(database, error):
    bodies = Bodies()

    @step(retry=Retry(attempts=3, base="1ms", on=(error,)))
    async def mistaken() -> None:
        bodies.ran("mistaken")
        raise error("not like this")

    @workflow(retry=Retry(attempts=3, base="1ms", on=(error,)))
    async def flow() -> None:
        await mistaken()

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        with pytest.raises(RunFailed, match="not like this"):
            await (await app.start(flow))
    assert bodies["mistaken"] == 1


async def failing_branch(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("second", "tries"), [(ConnectionResetError("no answer"), 3), (ValueError("torn"), 1)])
async def test_errors_that_come_in_a_group_are_retried_when_each_of_them_is(database, second, tries):
    bodies = Bodies()

    @step(retry=Retry(attempts=3, base=0, on=(ConnectionError,)))
    async def fragile() -> None:
        bodies.ran("fragile")
        async with asyncio.TaskGroup() as group:
            group.create_task(failing_branch(ConnectionError("no answer")))
            group.create_task(failing_branch(second))

    @workflow
    async def flow() -> None:
        await fragile()

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        with pytest.raises(RunFailed) as failed:
            await (await app.start(flow))
    assert isinstance(failed.value.__cause__, ExceptionGroup)
    assert bodies["fragile"] == tries


async def test_attempts_before_a_change_of_worker_count(database):
    bodies = Bodies()

    @step(retry=Retry(attempts=2, base="1h", jitter=0))
    async def fragile() -> None:
        bodies.ran("fragile")
        raise ConnectionError(f"try {bodies['fragile']}")

    @workflow
    async def flow() -> None:
        await fragile()

    async with virtual_time(database) as time:
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            run = await app.start(flow)
            await until_recorded(run, 1)
        await time.advance("2h")
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            with pytest.raises(RunFailed, match="try 2"):
                await app.get(run.id).result()
    assert bodies["fragile"] == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
@pytest.mark.parametrize(("on", "tries"), [((Exception,), 1), ((BaseException,), 3)], ids=["unnamed", "named"])
async def test_what_is_no_exception_is_tried_again_only_if_the_policy_names_it(database, error, on, tries):
    bodies = Bodies()

    @step(retry=Retry(attempts=3, base="1ms", on=on))
    def odd() -> None:
        bodies.ran("odd")
        raise error

    @workflow
    def flow() -> None:
        odd()

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        with pytest.raises(RunFailed):
            await (await app.start(flow))
    assert bodies["odd"] == tries


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
async def test_what_would_end_a_process_or_a_coroutine_ends_only_the_def_step_that_raises_it(database, error):
    @step(retry=Retry(attempts=1))
    def odd() -> None:
        raise error

    @workflow
    def flow() -> None:
        odd()

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        with pytest.raises(RunFailed, match=f"raised {error.__name__}"):
            await (await app.start(flow))


class Closed(Exception):
    """An error that does not even say what it is."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(f"no {name} for you")


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: ExceptionGroup("both", [error, ValueError("x")])])
async def test_an_error_that_cannot_be_asked_what_it_is_costs_an_attempt_like_any_other(database, wrap):
    bodies = Bodies()

    @step(retry=Retry(attempts=2, base=0))
    async def closed() -> None:
        bodies.ran("closed")
        raise wrap(Closed("x"))

    @workflow
    async def flow() -> str:
        try:
            await closed()
        except StepFailed as error:
            return error.type_name.rpartition(":")[2]
        return "done"

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        assert await (await app.start(flow)).result() == type(wrap(Closed("x"))).__name__
    assert bodies["closed"] == 2


async def test_a_workflow_that_raises_an_error_which_cannot_be_asked_what_it_is_fails(database):
    @workflow
    async def flow() -> None:
        raise Closed("x")

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="Closed"):
            await run.result()


class Leaving(Exception):
    """An error whose class leaves the process when it is made again of what it keeps."""

    def __init__(self, message: str, *more: object) -> None:
        if not more:
            raise SystemExit(message)
        super().__init__(message)


async def test_an_error_whose_class_leaves_the_process_when_it_is_made_again_ends_nothing_but_its_run(database):
    @step(retry=Retry(attempts=1))
    async def leaving() -> None:
        raise Leaving("out", "of", "paper")

    @workflow
    async def flow(wants_another: bool) -> str:
        try:
            await leaving()
        except StepFailed as error:
            if not wants_another:
                return error.type_name
        raise Leaving("out", "of", "ink")

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        assert await (await app.start(flow, False)).result() == f"{__name__}:Leaving"
        with pytest.raises(RunFailed, match="Leaving: out"):
            await (await app.start(flow, True)).result()


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
async def test_what_a_def_step_says_with_it_is_kept(database, error):
    @step(retry=Retry(attempts=1))
    def odd() -> None:
        raise error("no paper left")

    @workflow
    def flow() -> None:
        odd()

    async with Stepfast(database, workflows=[flow], worker=PATIENT) as app:
        with pytest.raises(RunFailed, match="no paper left"):
            await (await app.start(flow))


class HttpError(Exception):
    body = ""


@step(retry=Retry(attempts=1))
async def fetch(what: str) -> None:
    if what == "bytes":
        raise HttpError("500", b"\xff")
    if what == "attribute":
        error = HttpError("500")
        error.body = "x" * 70_000
        raise error
    if what == "cause":
        raise HttpError("500") from HttpError("500: " + "x" * 70_000)
    if what == "decoding":
        b"\xff".decode()
    raise HttpError("500: " + "x" * 70_000)


@workflow
async def fetch_or_tell(what: str) -> list[str]:
    try:
        await fetch(what)
    except (HttpError, UnicodeDecodeError) as error:
        return [type(error).__name__, type(error.__cause__).__name__, getattr(error, "body", "")[:3]]
    return []


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("text", ["HttpError", "NoneType", ""]),
        ("bytes", ["HttpError", "NoneType", ""]),
        ("attribute", ["HttpError", "NoneType", "xxx"]),
        ("cause", ["HttpError", "HttpError", ""]),
        ("decoding", ["UnicodeDecodeError", "NoneType", ""]),
    ],
)
async def test_a_workflow_catches_an_error_whatever_it_carries(database, what, told):
    async with Stepfast(database, workflows=[fetch_or_tell], worker=PATIENT) as app:
        assert await (await app.start(fetch_or_tell, what)) == told

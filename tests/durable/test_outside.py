"""Steps whose work goes on outside: asked after from time to time, while nobody sits and waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepfast import (
    Executor,
    Outside,
    Pending,
    Retry,
    RunFailed,
    RunState,
    StepTimeout,
    race,
    sleep,
    step,
    step_key,
    workflow,
)
from stepfast.testing import engine
from tests.support.virtual_time import timed_app, until, until_sleeping, until_state


@dataclass
class Report:
    words: int


class Batches:
    """The other side: what was started there by key, how often it was asked after, and what it answers."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.asked: list[str] = []
        self.stopped: list[str] = []
        self.answers: list[object] = []
        self.falls = 0

    def start(self) -> str:
        self.keys.append(step_key())
        return f"batch-{len(self.keys)}"

    def ask(self, handle: str) -> object:
        self.asked.append(handle)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


OTHER_SIDE: list[Batches] = []


class Gone(Exception):
    """The other side knows nothing of the work."""


@step(retry=Retry(attempts=2, base="2s", jitter=0, never=(Gone,)), timeout="10s")
async def look_at_batch(handle: str) -> Pending | Report:
    answer = OTHER_SIDE[-1].ask(handle)
    if answer == "hang":
        await asyncio.get_running_loop().create_future()
    return answer  # type: ignore[return-value]


@step
async def stop_batch(handle: str) -> None:
    OTHER_SIDE[-1].stopped.append(handle)


@step
async def train() -> Outside[Report]:
    handle = OTHER_SIDE[-1].start()
    return Outside(handle, poll=look_at_batch, every="30s", deadline="1h", cancel=stop_batch)


@step
def train_in_a_thread() -> Report | Outside[Report]:
    return Outside(OTHER_SIDE[-1].start(), poll=look_in_a_thread, every="30s")


@step
def look_in_a_thread(handle: str) -> Pending | Report:
    return OTHER_SIDE[-1].ask(handle)  # type: ignore[return-value]


@workflow
async def evaluate() -> int:
    return (await train()).words  # type: ignore[attr-defined,no-any-return]


@workflow
def evaluate_in_a_thread() -> int:
    return train_in_a_thread().words  # type: ignore[union-attr]


@workflow
async def evaluate_in_time() -> str:
    name, _ = await race(done=train(), late=sleep("5m"))
    return name


@workflow(retry=Retry(attempts=2, base="1s", jitter=0))
async def evaluate_with_care() -> int:
    report = asyncio.create_task(train())
    await fall()
    return (await report).words  # type: ignore[attr-defined,no-any-return]


@step(retry=Retry(attempts=2, base="1m", jitter=0))
async def fall() -> None:
    OTHER_SIDE[-1].falls += 1
    if OTHER_SIDE[-1].falls <= 2:
        raise ValueError("fallen")


@step
async def train_soon() -> Outside[Report]:
    return Outside(OTHER_SIDE[-1].start(), poll=look_at_batch, every="30s", deadline="35s")


@workflow
async def evaluate_soon() -> None:
    await train_soon()


WORKFLOWS: list[Any] = [evaluate_soon, evaluate, evaluate_in_a_thread, evaluate_in_time, evaluate_with_care]
NOT_YET = Pending()


@pytest.fixture
def batches():
    OTHER_SIDE.append(Batches())
    yield OTHER_SIDE[-1]
    OTHER_SIDE.pop()


@pytest.fixture
async def hand(database):
    async with engine(database=database, workflows=WORKFLOWS) as hand:
        yield hand


async def pass_time(hand, seconds: float) -> None:
    hand.clock.advance(seconds)
    await hand.run_until_idle()


async def test_the_answer_of_a_poll_is_the_result_of_the_step(hand, batches):
    batches.answers = [NOT_YET, NOT_YET, Report(7)]
    assert await hand.run(evaluate) == 7
    assert batches.asked == ["batch-1"] * 3


async def test_steps_in_threads_start_work_outside_too(hand, batches):
    batches.answers = [NOT_YET, Report(7)]
    assert await hand.run(evaluate_in_a_thread) == 7
    assert (len(batches.keys), len(batches.asked)) == (1, 2)


async def test_between_two_questions_nobody_holds_the_run_and_why_names_the_work(hand, batches):
    batches.answers = [NOT_YET]
    run = await hand.start(evaluate)
    await hand.run_until_idle()
    await pass_time(hand, 30)
    view = await hand.info(run)
    assert (view.state, view.worker_id) == (RunState.WAITING, None)
    assert 'Step train#1 waits for outside work (handle "batch-1"), asked again at' in str(await run.why())


async def test_a_day_of_questions_leaves_one_record_and_one_wait(hand, batches):
    batches.answers = [NOT_YET] * 100 + [Report(7)]
    run = await hand.start(evaluate)
    for _ in range(100):
        await pass_time(hand, 30)
    look = await hand.app._open_parts().store.look(run.id)
    assert (len(batches.asked), len(await hand.steps(run)), len(look.waits)) == (99, 1, 1)
    assert await hand.result(run) == 7
    assert [each.state for each in await hand.steps(run)] == ["waiting", "completed"]


async def test_work_that_is_recorded_is_not_started_again_by_the_next_worker(hand, batches):
    batches.answers = [NOT_YET, Report(7)]
    run = await hand.start(evaluate)
    await hand.run_until_idle()
    await hand.crash()
    assert await hand.result(run) == 7
    assert len(batches.keys) == 1


async def test_a_question_that_fails_is_asked_again_by_its_policy_and_then_in_its_turn(hand, batches):
    batches.answers = [OSError("no route"), OSError("no route"), NOT_YET, Report(7)]
    run = await hand.start(evaluate)
    await hand.run_until_idle()
    asked = []
    for seconds in (30, 2, 28, 2, 30):
        await pass_time(hand, seconds)
        asked.append(len(batches.asked))
    assert asked == [1, 2, 2, 3, 4]
    assert await hand.result(run) == 7


async def test_an_error_that_the_poll_names_as_final_ends_the_step(hand, batches):
    batches.answers = [NOT_YET, Gone("never heard of it")]
    run = await hand.start(evaluate)
    with pytest.raises(RunFailed) as failed:
        await hand.result(run)
    assert isinstance(failed.value.__cause__, Gone)
    assert len(batches.asked) == 2


async def test_what_does_not_fit_the_hint_of_the_step_ends_it(hand, batches):
    batches.answers = ["no report"]
    with pytest.raises(RunFailed, match="does not fit its hint"):
        await hand.run(evaluate)


async def test_the_deadline_fails_the_step_and_names_handle_questions_and_last_error(hand, batches):
    batches.answers = [NOT_YET, OSError("no route")]
    with pytest.raises(RunFailed, match='"batch-1" was not done within its deadline') as failed:
        await hand.run(evaluate)
    error = failed.value.__cause__
    assert isinstance(error, StepTimeout)
    assert f"asked after {len(batches.asked)} times" in str(error)
    assert "OSError: no route" in str(error)


async def test_a_question_that_hangs_is_cut_off_by_its_own_limit_and_asked_again(database, batches):
    batches.answers = ["hang", Report(7)]
    async with timed_app(database, *WORKFLOWS) as (app, time):
        run = await app.start(evaluate)
        await until_state(run, RunState.WAITING)
        await time.advance("30s")
        await until(run, lambda: len(batches.asked) == 1)
        await until_sleeping(run, time, 10_000)
        await time.advance("10s")
        await until_state(run, RunState.WAITING)
        await time.advance("30s")
        assert await time.result(run) == 7


async def test_a_question_that_hangs_does_not_outlast_the_deadline(database, batches):
    batches.answers = ["hang"]
    async with timed_app(database, *WORKFLOWS) as (app, time):
        run = await app.start(evaluate_soon)
        await until_state(run, RunState.WAITING)
        await time.advance("30s")
        await until_sleeping(run, time, 5_000)
        await time.advance("5s")
        with pytest.raises(RunFailed, match="was not done within its deadline"):
            await time.result(run)


async def test_a_retry_after_the_deadline_starts_the_work_anew_under_another_key(hand, batches):
    batches.answers = [NOT_YET]
    run = await hand.start(evaluate)
    with pytest.raises(RunFailed):
        await hand.result(run)
    batches.answers = [Report(7)]
    await run.retry()
    assert await hand.result(run) == 7
    assert len(set(batches.keys)) == 2


async def test_a_paused_run_asks_nothing_until_it_is_resumed(hand, batches):
    batches.answers = [NOT_YET, Report(7)]
    run = await hand.start(evaluate)
    await hand.run_until_idle()
    await run.pause()
    await pass_time(hand, 600)
    assert batches.asked == []
    await run.resume()
    assert await hand.result(run) == 7


async def test_a_cancelled_run_has_its_outside_work_stopped_once(hand, batches):
    batches.answers = [NOT_YET]
    run = await hand.start(evaluate)
    await hand.run_until_idle()
    await pass_time(hand, 60)
    await run.cancel()
    await pass_time(hand, 600)
    await hand.crash()
    await pass_time(hand, 600)
    assert batches.stopped == ["batch-1"]


async def test_work_that_lost_a_race_is_stopped(hand, batches):
    batches.answers = [NOT_YET]
    assert await hand.run(evaluate_in_time) == "late"
    await hand.run_until_idle()
    assert batches.stopped == ["batch-1"]


async def test_work_that_missed_its_deadline_is_stopped(hand, batches):
    batches.answers = [NOT_YET]
    with pytest.raises(RunFailed):
        await hand.run(evaluate)
    await hand.run_until_idle()
    assert batches.stopped == ["batch-1"]


async def test_work_of_a_run_that_tries_again_is_stopped_before_it_begins_anew(hand, batches):
    batches.answers = [*[NOT_YET] * 4, Report(7)]
    await hand.run(evaluate_with_care)
    await hand.run_until_idle()
    assert (len(batches.keys), batches.stopped) == (2, ["batch-1"])


async def test_work_that_is_done_is_not_stopped(hand, batches):
    batches.answers = [NOT_YET, Report(7)]
    await hand.run(evaluate)
    await pass_time(hand, 600)
    assert batches.stopped == []


async def test_progress_is_told_when_it_has_moved(hand, batches):
    batches.answers = [Pending((1, 4)), Pending((1, 4)), Pending(0.5), Report(7)]
    run = await hand.start(evaluate)
    await hand.result(run)
    told = [event.data for event in await hand.events(run) if event.type == "step_progress"]
    assert told == ['{"done": 1, "total": 4, "note": null}', '{"done": 0.5, "total": null, "note": null}']


class Kiln:
    """An executor whose poll is a method of its own."""

    name = "kiln.fire"

    async def execute(self, tiles: int) -> Outside[int]:
        OTHER_SIDE[-1].start()
        return Outside(tiles, every="1m")

    async def poll(self, handle: int) -> Pending | int:
        return Pending() if OTHER_SIDE[-1].ask(str(handle)) == NOT_YET else handle * 2


FIRING = Executor.of(Kiln)


@workflow
async def fire() -> int:
    fired: int = await FIRING.alone.function(3)
    return fired


async def test_the_poll_of_a_class_executor_need_not_be_named(database, batches):
    batches.answers = [NOT_YET, Report(1)]
    async with engine(database=database, workflows=[fire]) as hand:
        assert await hand.run(fire) == 6
    assert (len(batches.keys), batches.asked) == (1, ["3", "3"])


@step
async def train_for_nobody() -> Outside[int]:
    return Outside("lost")


@workflow
async def evaluate_for_nobody() -> None:
    await train_for_nobody()


async def test_work_that_nobody_would_hear_of_is_refused(database):
    async with engine(database=database, workflows=[evaluate_for_nobody]) as hand:
        with pytest.raises(RunFailed, match="without poll and callback"):
            await hand.run(evaluate_for_nobody)

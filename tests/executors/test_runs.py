"""Executors with a queue of their own: their calls are runs, and workers say anew what they can execute."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from stepfast import RunState, Stepfast, StoreUnavailable, WorkerSettings, each, step, workflow
from stepfast.worker.worker import Worker
from tests.support.apps import QUICK
from tests.support.following import state_of, until

# A worker that neither polls nor beats while a test looks: what it does, it was told to do.
STILL = replace(QUICK, lease_ms=10**9, heartbeat_ms=10**8, poll_ms=10**8)


class Greeting(NamedTuple):
    """A step with a queue of its own, and a workflow that calls it."""

    create: Any
    welcome: Any

    def app_on(self, database: str, worker: WorkerSettings = QUICK, **options: Any) -> Stepfast:
        return Stepfast(database, workflows=[self.welcome], worker=worker, **options)


@pytest.fixture
def greeting() -> Greeting:
    """Made for each test: a step with a queue is announced by every worker of the process that knows it."""

    @step(name="exe.create", queue="exe")
    async def create(name: str) -> str:
        return name.title()

    @workflow
    async def exe_welcome(name: str) -> str:
        return await create(name)

    return Greeting(create, exe_welcome)


class Sender:
    """An executor that comes with a queue which nobody else names."""

    name = "exe.send"
    queue = "exe-mail"

    async def execute(self) -> None: ...


async def child_of(app: Stepfast, run):
    await state_of(run, RunState.WAITING)
    (child,) = [view for view in await app.runs() if view.parent_id == run.id]
    return app.get(child.run_id)


async def only_worker(app: Stepfast):
    (worker,) = [each for each in await app.workers.list() if each.dead_at is None]
    return worker


async def announced(app: Stepfast, is_done) -> None:
    """Wait until what the worker has told the store is what a test waits for."""

    async def told() -> bool:
        return bool(is_done(await only_worker(app)))

    await until(told)


async def test_a_step_is_executed_by_a_worker_that_has_it(greeting, database):
    async with greeting.app_on(database) as app:
        assert await (await app.start(greeting.welcome, "ann")).result(timeout="30s") == "Ann"


async def test_an_app_with_other_executors_leaves_its_runs_alone(greeting, database):
    async with greeting.app_on(database, executors=[]) as app:
        child = await child_of(app, await app.start(greeting.welcome, "ann"))
        assert "No live worker has executor exe.create." in str(await child.why())


async def test_unregistered_it_leaves_open_runs_waiting_and_named(greeting, database):
    async with greeting.app_on(database) as app:
        app.executors.unregister("exe.create")
        run = await app.start(greeting.welcome, "ann")
        child = await child_of(app, run)
        assert (await child.info()).state is RunState.PENDING
        await announced(app, lambda worker: "exe.create" not in worker.codes)
        assert "No live worker has executor exe.create." in str(await child.why())
        assert "cannot move: No live worker has executor exe.create." in str(await run.why())


async def test_registered_again_they_go_on(greeting, database):
    async with greeting.app_on(database) as app:
        app.executors.unregister("exe.create")
        run = await app.start(greeting.welcome, "ann")
        await child_of(app, run)
        app.executors.register(greeting.create)
        assert await run.result(timeout="30s") == "Ann"


async def test_a_worker_that_has_it_takes_them_over(greeting, database):
    async with greeting.app_on(database) as app:
        app.executors.unregister("exe.create")
        run = await app.start(greeting.welcome, "ann")
        await child_of(app, run)
        async with greeting.app_on(database):
            assert await run.result(timeout="30s") == "Ann"


async def test_a_running_worker_says_at_once_what_it_can_execute_now(greeting, database):
    async with greeting.app_on(database, STILL) as app:
        app.executors.register(Sender)
        await announced(app, lambda worker: "exe.send" in worker.codes and "exe-mail" in worker.queues)
        app.executors.unregister("exe.send")
        await announced(app, lambda worker: "exe.send" not in worker.codes)


async def test_without_a_word_the_store_would_believe_what_was_said_first(greeting, database, monkeypatch):
    told = asyncio.Event()
    monkeypatch.setattr(Worker, "codes_changed", lambda self: told.set())
    async with greeting.app_on(database, STILL) as app:
        before = await only_worker(app)
        (worker,) = app._open_parts()._workers
        app.executors.register(Sender)
        await told.wait()
        await worker.finish_all()
        assert (await only_worker(app)).codes == before.codes


async def test_a_word_that_the_store_did_not_hear_is_said_again_with_a_heartbeat(greeting, database, monkeypatch):
    beating = replace(STILL, heartbeat_ms=20)
    async with greeting.app_on(database, beating) as app:
        store = app._open_parts().store
        failures: list[object] = []
        enrol = store.enrol

        async def away_once(enrolment):
            if not failures:
                failures.append(enrolment)
                raise StoreUnavailable("away")
            return await enrol(enrolment)

        monkeypatch.setattr(store, "enrol", away_once)
        app.executors.register(Sender)
        await announced(app, lambda worker: "exe.send" in worker.codes)
        assert len(failures) == 1


async def test_a_queue_that_was_named_stays_the_only_one(greeting, database):
    named = replace(STILL, queues=("default",))
    async with greeting.app_on(database, named) as app:
        app.executors.register(Sender)
        await announced(app, lambda worker: "exe.send" in worker.codes)
        assert (await only_worker(app)).queues == ("default",)


async def test_the_runs_of_a_queue_that_came_later_are_executed(greeting, database):
    async with greeting.app_on(database, executors=[]) as app:
        run = await app.start(greeting.welcome, "ann")
        await child_of(app, run)
        app.executors.register(greeting.create)
        assert await run.result(timeout="30s") == "Ann"


async def test_executors_are_registered_from_any_thread(greeting, database):
    async with greeting.app_on(database, STILL) as app:
        await asyncio.to_thread(app.executors.register, Sender)
        await announced(app, lambda worker: "exe.send" in worker.codes)


@pytest.mark.parametrize("spread", [True, False])
async def test_an_apps_own_executors_are_found_for_runs_of_their_own(database, spread):
    app = Stepfast(database, workflows=[], worker=QUICK, executors=[])
    domain = app.executors.domain("exe_own")

    @domain.step("double", queue=None if spread else "exe-own")
    async def double(number: int) -> int:
        return number * 2

    @workflow(name=f"exe_doubling_{spread}")
    async def doubling() -> list[int]:
        return await each(double, [1, 2], spread=spread)

    async with app:
        assert await (await app.start(doubling)).result(timeout="30s") == [2, 4]


async def test_a_step_of_a_template_may_put_any_executor_into_a_queue(database):
    @step(name="exe.plain")
    async def plain(name: str) -> str:
        return name.title()

    calling = {"id": "call", "use": "exe.plain", "with": {"name": "ann"}, "queue": "exe-far"}
    template = {
        "stepfast": 1,
        "workflow": "exe-far-away",
        "version": 1,
        "steps": [calling],
        "output": "${ steps.call.output }",
    }
    async with Stepfast(database, workflows=[], worker=QUICK) as app:
        await app.register(template)
        run = await app.start("exe-far-away")
        assert await run.result(timeout="30s") == "Ann"
        worker = await only_worker(app)
        assert ("exe.plain" in worker.codes, "exe-far" in worker.queues) == (True, True)
    assert plain.body.queue is None

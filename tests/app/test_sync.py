"""The blocking app: the same names, over one event loop in a thread of its own."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from functools import cached_property

import pytest

import stepfast
from stepfast import RunFailed, RunState, Start, StepfastError, WaitTimeout, WrongCall, receive, step, sync, workflow
from stepfast.app import Stepfast
from stepfast.doors import Doors
from stepfast.engine import patience
from stepfast.executors import Executors
from stepfast.kernel.errors import WorkflowNotFound
from stepfast.letters import DeadLetters
from stepfast.library import Workflows
from stepfast.queues import Queues
from stepfast.runs import Run
from stepfast.serverless import Serverless
from stepfast.workers import AppWorker, Workers
from tests.support.apps import QUICK
from tests.support.workflows import say


@workflow
async def patient() -> str:
    return await receive("go", str)


@workflow(priority=5)
async def pressing() -> None: ...


@pytest.fixture
def url(database):
    return database


@pytest.fixture
def app(url):
    with sync.Stepfast(url, workflows=[say, patient, pressing], worker=QUICK) as app:
        yield app


def test_a_run_is_started_and_awaited(app):
    run = app.start(say, "hello", key="one")
    assert (run.result(timeout="30s"), run.info().state) == ("hello", RunState.COMPLETED)


def test_every_public_name_is_there_for_blocking_code(app):
    own = {"Run", "StartAnswer", "Stepfast"}
    assert all(getattr(sync, name) is getattr(stepfast, name) for name in set(stepfast.__all__) - own)
    assert not any(getattr(sync, name) is getattr(stepfast, name) for name in own)
    with pytest.raises(AttributeError, match=r"module 'stepfast\.sync' has no attribute 'stap'"):
        sync.stap  # noqa: B018 - looked up


def test_a_result_that_is_there_is_read_without_waiting(app, monkeypatch):
    monkeypatch.setattr(patience, "LAST_LOOK_S", 60)
    run = app.start(say, "hello")
    assert [run.result(), run.result(timeout=0)] == ["hello"] * 2


def test_a_workflow_that_is_not_there_is_not_found(app):
    with pytest.raises(WorkflowNotFound, match="No workflow is named 'ghost'"):
        app.start("ghost")


def test_a_start_may_take_a_workflows_priority_away(app):
    assert [app.start(pressing, **options).info().priority for options in ({}, {"priority": 0})] == [5, 0]


def test_a_run_is_commanded(app):
    run = app.start(patient)
    run.pause(actor="ann")
    run.signal("go", "on")
    run.resume()
    assert run.result(timeout="30s") == "on"
    assert run.rerun().generation == 2


def test_lists_answer_as_they_do_elsewhere(app):
    [answer] = app.start_many([Start(say, "hello")])
    assert answer.run.result(timeout="30s") == "hello"
    assert [view.run_id for view in app.runs("say")] == [answer.run.id]
    assert (app.dead_letters.list(), len(app.workers.list())) == ([], 1)
    assert {"patient@1", "say@1"} <= set(app.codes())


def test_pages_are_an_iterator(app):
    run = app.start(patient)
    [page] = app.change_pages("cancel", {"workflow": "patient"})
    assert page.changed == (run.id,)


def test_errors_come_through(app):
    run = app.start(patient)
    with pytest.raises(WaitTimeout, match=r"has not ended within 0\.01 s\. It goes on"):
        run.result(timeout=0.01)
    with pytest.raises(StepfastError, match="not found"):
        app.get("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22").info()


def test_a_worker_is_started_by_hand(url):
    with sync.Stepfast(url, workflows=[say], worker=False) as app, app.worker(poll="50ms") as worker:
        assert app.start(say, "hello").result(timeout="30s") == "hello"
        assert worker.stats().runs_processed == 1


def test_several_threads_share_an_app(app):
    words = [f"word-{number}" for number in range(8)]
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda word=word: results.append(app.start(say, word).result("30s"))) for word in words
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == words


def test_nothing_is_left_behind(url):
    before = set(threading.enumerate())
    with sync.Stepfast(url, workflows=[say], worker=QUICK) as app:
        app.start(say, "hello").result(timeout="30s")
    assert {thread for thread in threading.enumerate() if thread.name == "stepfast-sync"} <= before
    with pytest.raises(StepfastError, match="not open"):
        app.runs()


FORKED = """
import os, sys
from stepfast import StepfastError, sync, workflow

@workflow
def echo(word: str) -> str:
    return word

def refused(call):
    try:
        call()
    except StepfastError as error:
        return "is a copy (fork)" in str(error)

app = sync.Stepfast(sys.argv[1], workflows=[echo])
with app:
    child = os.fork()
    if child == 0:
        own = sync.Stepfast(sys.argv[1], workflows=[echo])
        if sys.argv[1].startswith("sqlite"):
            answers = refused(own.open)
        else:
            with own:
                answers = own.start(echo, "there").result() == "there"
        are_refused = refused(lambda: app.start(echo, "there")) and refused(app.runs) and refused(app.open)
    else:
        assert os.waitpid(child, 0)[1] == 0
        print(app.start(echo, "here").result())
if child == 0:
    os._exit(0 if answers and are_refused else 1)
"""


# But not on a SQLite file that was open: SQLite takes locks for held there that are not.
def test_a_copy_of_the_process_is_refused_at_once_and_may_have_an_app_of_its_own(url):
    done = subprocess.run([sys.executable, "-c", FORKED, url], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("here\n", 0), done.stderr


def test_an_app_that_cannot_be_opened_leaves_no_thread(tmp_path):
    (tmp_path / "file").write_text("no folder")
    before = set(threading.enumerate())
    app = sync.Stepfast(f"sqlite:///{tmp_path}/file/app.db", workflows=[say])
    with pytest.raises(StepfastError):
        app.open()
    assert {thread for thread in threading.enumerate() if thread.name == "stepfast-sync"} <= before


def test_a_step_on_the_apps_own_loop_cannot_wait_for_it(app):
    @step
    async def blocks() -> str:
        return str(app.start(say, "hello").id)

    @workflow
    async def stuck() -> str:
        return await blocks()

    with pytest.raises(RunFailed) as failed:
        app.start(stuck).result(timeout="30s")
    assert isinstance(failed.value.__cause__, WrongCall)


def test_a_def_step_may_use_the_app(app):
    @step
    def starts_another() -> str:
        return str(app.start(say, "from a step").id)

    @workflow
    async def outer() -> str:
        return await starts_another.aio()

    run_id = app.start(outer).result(timeout="30s")
    assert app.get(run_id).result(timeout="30s") == "from a step"


PAIRS = {
    "Stepfast": (
        Stepfast,
        sync.Stepfast,
        {"as_client", "database", "has_own_store", "retire_worker", "workflow_named"},
    ),
    "Run": (Run, sync.Run, set()),
    "AppWorker": (AppWorker, sync.AppWorker, {"drained", "spent", "grace_ms", "farewell_failed"}),
    "Workers": (Workers, sync.Workers, set()),
    "Queues": (Queues, sync.Queues, set()),
    "Workflows": (Workflows, sync.Workflows, set()),
    "Executors": (Executors, sync.Executors, set()),
    "DeadLetters": (DeadLetters, sync.DeadLetters, set()),
    "Serverless": (Serverless, sync.Serverless, set()),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_every_name_has_its_blocking_form(pair):
    theirs, ours, internal = pair
    members = dict(inspect.getmembers(theirs))
    doors = {name for name, member in members.items() if isinstance(member, cached_property)}
    names = {name for name in members if not name.startswith("_")} - internal - doors
    assert names <= set(dir(ours))
    assert not [name for name in names if inspect.iscoroutinefunction(getattr(ours, name))]


DOORS = sorted(name for name, member in inspect.getmembers(Doors) if isinstance(member, cached_property))


def test_every_door_of_an_app_has_its_blocking_form(tmp_path):
    app = sync.Stepfast(f"sqlite:///{tmp_path}/x.db", workflows=[])
    assert "reviews" in DOORS
    assert {name: type(getattr(app, name, None)).__module__ for name in DOORS} == dict.fromkeys(DOORS, "stepfast.sync")


@pytest.mark.parametrize("door", DOORS)
def test_every_name_of_a_door_has_its_blocking_form(tmp_path, door):
    theirs = getattr(Stepfast(f"sqlite:///{tmp_path}/x.db", workflows=[]), door)
    ours = getattr(sync.Stepfast(f"sqlite:///{tmp_path}/x.db", workflows=[]), door)
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert names <= set(dir(ours))
    assert not [name for name in names if inspect.iscoroutinefunction(getattr(ours, name))]


async def test_it_can_be_used_where_an_event_loop_runs_as_in_a_notebook(url):
    with sync.Stepfast(url, workflows=[say], worker=QUICK) as app:
        assert app.start(say, "hello").result(timeout="30s") == "hello"

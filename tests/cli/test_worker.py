"""`stepfast worker` as a process: what it executes, and how it leaves."""

from __future__ import annotations

import signal

import pytest

from stepfast import RunState
from tests.cli.processes import LATE_DEADLINE, Pipes, stepfast, worker
from tests.cli.shop import (
    blocking,
    growing,
    hanging,
    hanging_in_a_thread,
    leaving_a_thread,
    quick,
    two_steps,
)
from tests.stores.postgres_proxies import CuttingProxy
from tests.support.apps import app_on
from tests.support.sql import execute

HANGING = [hanging, hanging_in_a_thread, leaving_a_thread, blocking]
WORKFLOWS = [*HANGING, quick, two_steps]


@pytest.fixture
async def client(database):
    async with app_on(database, WORKFLOWS, worker=False) as app:
        yield app


@pytest.fixture
def pipes(tmp_path):
    return Pipes(tmp_path, "begun", "begun-a", "release-a")


async def test_a_worker_executes_the_runs_of_its_workflows(client, database):
    run = await client.start(quick)
    with worker(database) as process:
        assert await run.result(timeout="30s") == process.process.pid


async def test_a_worker_that_was_drained_has_left_nothing_ready(client, database):
    runs = [await client.start(quick) for _ in range(30)]
    with worker(database, "--drain") as process:
        assert await process.ends() == 0
    assert {(await run.info()).state for run in runs} == {RunState.COMPLETED}


@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["one", "two"])
async def test_a_drain_takes_up_what_a_killed_worker_held(client, database, pipes, options):
    run = await client.start(hanging, pipes.folder)
    with worker(database, "--lease", "300ms") as process:
        await pipes.hear("begun")
        process.process.kill()
        await process.ends()
    store = client._open_parts().store
    while any([view.is_alive(await store.now()) for view in await store.workers()]):
        pass
    with worker(database, "--lease", "300ms", "--drain", *options) as drain:
        assert await drain.ends() == 0
    assert [event.type for event in await run.history()].count("reaped") == 1
    assert (await run.info()).state is RunState.COMPLETED


async def test_a_worker_without_the_workflow_leaves_the_run_alone(client, database):
    run = await client.start(quick)
    with worker(database, "--drain", app="tests.cli.other:app") as process:
        assert await process.ends() == 0
    assert ((await run.info()).state, len(await run.history())) == (RunState.PENDING, 1)


async def test_a_worker_serves_the_queues_that_it_is_given_and_no_others(client, database):
    run = await client.start(quick, queue="parse")
    with worker(database, "--drain", "--queues", "eval,default") as process:
        await process.ends()
    assert (await run.info()).state is RunState.PENDING


async def test_a_worker_serves_the_tenants_that_it_is_given_and_no_others(client, database):
    run = await client.start(quick, tenant="acme")
    with worker(database, "--drain", "--tenants", "globex") as process:
        await process.ends()
    assert (await run.info()).state is RunState.PENDING


async def test_two_workers_may_have_one_label(client, database):
    with worker(database, "--id", "web") as one, worker(database, "--id", "web") as two:
        await one.says("worker_started")
        await two.says("worker_started")
        assert [view.label for view in await client.workers.list()] == ["web", "web"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_worker_with_success(database, number):
    with worker(database) as process:
        await process.says("worker_started")
        process.process.send_signal(number)
        assert await process.ends() == 0


@pytest.mark.parametrize("workflow", HANGING, ids=lambda workflow: workflow.__name__)
async def test_sigterm_hands_a_run_back_whatever_its_step_does(client, database, pipes, workflow):
    run = await client.start(workflow, pipes.folder)
    with worker(database, "--grace", "0s") as process:
        await pipes.hear("begun")
        process.process.terminate()
        assert await process.ends() == 0
    assert (await run.info()).worker_id is None


async def test_a_worker_whose_step_outlasts_the_grace_time_in_a_thread_has_missed_nothing(client, database, pipes):
    await client.start(hanging_in_a_thread, pipes.folder)
    with worker(database, "--grace", "0s", **{LATE_DEADLINE: "1"}) as process:
        await pipes.hear("begun")
        process.process.terminate()
        assert await process.ends() == 0
        assert process.process.stderr is not None
        log = process.process.stderr.read()
    assert ("worker_stopped" in log, "deadline_missed" in log, "runs_not_handed_back" in log) == (True, False, False)


async def test_another_worker_takes_up_at_once_what_was_handed_back(client, database, pipes):
    run = await client.start(hanging, pipes.folder)
    with worker(database, "--grace", "0s", "--lease", "10m") as first:
        await pipes.hear("begun")
        first.process.terminate()
        await first.ends()
    with worker(database) as second:
        assert await run.result(timeout="30s") == second.process.pid


async def test_a_hand_back_is_no_crash(client, database, pipes):
    run = await client.start(hanging, pipes.folder)
    with worker(database, "--grace", "0s") as process:
        await pipes.hear("begun")
        process.process.terminate()
        await process.ends()
    assert (await run.info()).crashes == 0


async def refuse_changes_of_workers(database):
    """Have the database refuse what workers say of themselves, as one does that has no room left."""
    if database.startswith("sqlite"):
        await execute(database, "create trigger no_room before update on worker begin select raise(abort, 'full'); end")
        return
    await execute(
        database,
        "create function stepfast.no_room() returns trigger language plpgsql as "
        "$$ begin raise exception using errcode = '53100', message = 'No space left on device'; end $$",
    )
    trigger = "create trigger no_room before update on stepfast.worker execute function stepfast.no_room()"
    await execute(database, trigger)


@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["alone", "supervised"])
async def test_a_worker_that_cannot_hand_back_what_it_holds_does_not_end_with_success(client, database, options):
    with worker(database, *options) as process:
        await process.says("worker_started")
        await refuse_changes_of_workers(database)
        process.process.terminate()
        assert "E-STORE-" in await process.says("runs_not_handed_back")
        await process.is_silent()
        assert await process.ends() == 1


async def test_a_worker_that_left_is_marked_dead(client, database):
    with worker(database) as process:
        await process.says("worker_started")
        process.process.terminate()
        await process.ends()
    assert [view.dead_at is None for view in await client.workers.list()] == [False]


async def test_after_sigterm_the_step_under_way_is_recorded_and_no_other_begins(client, database, pipes):
    run = await client.start(two_steps, pipes.folder)
    with worker(database, "--grace", "30s") as process:
        await pipes.hear("begun-a")
        process.process.terminate()
        await process.says("worker_stopping")
        await pipes.release("release-a")
        assert await process.ends() == 0
    assert [step.call.name for step in await run.steps()] == ["wait_for_the_test"]


async def test_a_second_signal_ends_the_worker_at_once(client, database, pipes):
    await client.start(hanging, pipes.folder)
    with worker(database, "--grace", "10m") as process:
        await pipes.hear("begun")
        process.process.terminate()
        await process.says("worker_stopping")
        assert await process.ends_when_told_again() == 128 + signal.SIGTERM


async def test_a_signal_while_the_app_is_imported_ends_the_worker(tmp_path, pipes):
    (tmp_path / "slow.py").write_text(
        "import threading\nfrom tests.cli.shop import tell\n"
        f"tell({pipes.folder!r}, 'begun')\nthreading.Event().wait(60)\n"
    )
    with worker("sqlite:///unused.db", app=f"{tmp_path}/slow.py") as process:
        await pipes.hear("begun")
        process.process.terminate()
        assert await process.ends() == 0


async def test_a_worker_says_in_one_line_what_it_serves(tmp_path):
    with worker(f"sqlite:///{tmp_path}/app.db", "--queues", "parse,eval", "--concurrency", "3") as process:
        line = await process.says("worker_started")
    expected = [f"database=sqlite:///{tmp_path}/app.db", "queues=parse,eval", "quick@1", "concurrency=6"]
    assert [part for part in expected if part not in line] == []


async def test_max_runs_ends_a_worker_after_so_many_runs(client, database):
    runs = [await client.start(quick) for _ in range(5)]
    with worker(database, "--max-runs", "2") as process:
        assert await process.ends() == 0
    states = [(await run.info()).state for run in runs]
    assert states.count(RunState.COMPLETED) == 2


async def test_a_worker_that_has_grown_above_its_memory_leaves(tmp_path):
    database = f"sqlite:///{tmp_path}/app.db"
    async with app_on(database, [growing], worker=False) as client:
        await client.start(growing)
        with worker(database, "--max-memory", "250MB") as process:
            await process.says("worker_outgrown")
            assert await process.ends() == 0


async def test_a_worker_that_needs_more_memory_than_it_may_have_says_so_and_leaves(tmp_path):
    with worker(f"sqlite:///{tmp_path}/app.db", "--max-memory", "1MB") as process:
        assert "needed_bytes" in await process.says("memory_too_small")
        await process.says("worker_outgrown")
        assert await process.ends() == 1


async def test_a_worker_that_leaves_while_it_connects_leaves_without_a_complaint(migrated_postgres_url):
    # Over TCP the driver asks for TLS first, and is stopped in the middle of that.
    async with CuttingProxy(migrated_postgres_url).listening() as url:
        with worker(url, "--max-memory", "1MB") as process:
            await process.says("worker_stopped")
            assert await process.ends() == 1
            assert process.process.stderr is not None
            assert process.process.stderr.read() == ""


WITHOUT_WORKFLOWS = {
    "no app": ([], "No app is named, and so no workflow is known. Name the app with --app"),
    "no module": (["--app", "absent:app"], "absent cannot be imported: ModuleNotFoundError"),
    "no file": (["--app", "absent.py:app"], "absent.py cannot be imported: FileNotFoundError"),
    "a path without its ending": (["--app", "../x:app"], "'../x' is neither the name of a module nor a file that"),
    "a relative module": (["--app", "..x:app"], "'..x' is neither the name of a module nor a file that"),
    "no place": (["--app", ":app"], "'' is neither the name of a module nor a file that"),
    "no name": (["--app", "tests.cli.shop:absent"], "tests.cli.shop:absent is nothing of that name"),
    "no app of that name": (["--app", "tests.cli.shop:quick"], "tests.cli.shop:quick is a AsyncWorkflow"),
    "an empty module": (["--app", "tests.support.empty"], "tests.support.empty knows no workflow"),
}


@pytest.mark.parametrize(("options", "complaint"), WITHOUT_WORKFLOWS.values(), ids=WITHOUT_WORKFLOWS)
def test_a_worker_without_workflows_says_what_to_do(options, complaint):
    done = stepfast("worker", *options)
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr


PLACES_OF_APPS = ("--app", "STEPFAST_APP", "[tool.stepfast] app in")
APPS_THAT_ARE_NONE = {
    "no module": "absent:app",
    "no file": "absent.py:app",
    "a path without its ending": "../x:app",
    "no name": "tests.cli.shop:absent",
    "an empty module": "tests.support.empty",
}


@pytest.mark.parametrize("named", APPS_THAT_ARE_NONE.values(), ids=APPS_THAT_ARE_NONE)
@pytest.mark.parametrize("by", PLACES_OF_APPS)
def test_an_app_that_is_none_is_refused_with_the_place_that_names_it(named, by, tmp_path):
    if by.startswith("["):
        (tmp_path / "pyproject.toml").write_text(f'[tool.stepfast]\napp = "{named}"\n')
    variables = {by: named} if by == "STEPFAST_APP" else {}
    done = stepfast("worker", *([by, named] if by == "--app" else []), cwd=tmp_path, **variables)
    assert (done.returncode, [place for place in PLACES_OF_APPS if place in done.stderr]) == (2, [by]), done.stderr


SINKS = {
    "a flag": (["--sink", "ftp://h"], {}, "--sink"),
    "a variable": ([], {"STEPFAST_SINKS": "ftp://h"}, "STEPFAST_SINKS"),
}


@pytest.mark.parametrize(("options", "variables", "place"), SINKS.values(), ids=SINKS)
def test_a_sink_that_nobody_knows_is_refused_with_the_place_that_names_it(options, variables, place):
    done = stepfast("worker", "--app", "tests.cli.shop:app", *options, **variables)
    words = f"E-VAL-001: {place} does not fit. No sink is known for URLs that begin with 'ftp'."
    assert (done.returncode, done.stderr.startswith(words)) == (2, True), done.stderr


FOR_TEMPLATES = {
    "an app that names no workflow": "app = Stepfast(workflows=[])",
    "an app with steps": "@step\ndef stamp() -> None: ...\n\napp = Stepfast()",
    "an app with a class": "class Stamp:\n    def execute(self): ...\napp = Stepfast()\napp.executors.register(Stamp)",
}


@pytest.mark.parametrize("code", FOR_TEMPLATES.values(), ids=FOR_TEMPLATES)
def test_a_worker_serves_an_app_that_has_executors_for_templates_and_no_workflow(code, tmp_path):
    (tmp_path / "post.py").write_text(f"from stepfast import Stepfast, step\n\n{code}\n")
    done = stepfast("worker", "--app", "post.py", "--database", "sqlite:///app.db", "--drain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_app_can_be_a_file_without_a_name(tmp_path):
    (tmp_path / "shop.py").write_text("from tests.cli.shop import app\n")
    done = stepfast("worker", "--app", "shop.py", "--database", "sqlite:///app.db", "--drain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_app_can_stand_in_the_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.stepfast]\napp = "tests.cli.shop:app"\n')
    done = stepfast("worker", "--drain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("named", ["post:app", "post.py:app"])
def test_the_app_of_a_project_is_found_from_every_folder_in_it(named, tmp_path):
    (tmp_path / "pyproject.toml").write_text(f'[tool.stepfast]\napp = "{named}"\n')
    (tmp_path / "post.py").write_text("from stepfast import Stepfast\n\napp = Stepfast(workflows=[])\n")
    (tmp_path / "deeper").mkdir()
    done = stepfast("worker", "--drain", cwd=tmp_path / "deeper")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--lease", "1ms", "lease is '1ms'; allowed is a span from 100ms to 365d."),
        ("--poll", "0", "poll is '0s'; allowed is a span from 10ms to 1h."),
        ("--lease", "0.05", "lease is '0.05s'; allowed is a span from 100ms to 365d."),
        ("--lease", ".05", "lease is '0.05s'; allowed is a span from 100ms to 365d."),
        ("--grace", "2d", "grace is '2d'; allowed is a span from 0s to 1d."),
        ("--concurrency", "0", "concurrency is 0; use a whole number between 1 and 100,000."),
        ("--concurrency", "1000000", "concurrency is 1000000; use a whole number between 1 and 100,000."),
        ("--max-runs", "0", "max_runs is 0; use a whole number between 1 and"),
    ],
)
def test_an_option_out_of_bounds_is_refused_with_what_is_allowed(option, value, complaint):
    done = stepfast("worker", "--app", "tests.cli.shop:app", option, value)
    assert (done.returncode, done.stderr.startswith(f"E-VAL-001: {complaint}")) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("option", "bounds"), [("--lease", "100ms to 365d"), ("--poll", "10ms to 1h"), ("--grace", "0s to 1d")]
)
def test_an_option_that_is_no_span_is_refused_with_what_can_be_written(option, bounds):
    done = stepfast("worker", "--app", "tests.cli.shop:app", option, "soon")
    allowed = f'allowed is a span from {bounds}, like "200ms", "30s", "5m", or in seconds.'
    assert (done.returncode, f"'{option}': 'soon' does not fit; {allowed}" in done.stderr) == (2, True), done.stderr


def test_a_worker_needs_some_memory():
    done = stepfast("worker", "--app", "tests.cli.shop:app", "--max-memory", "0MB")
    assert (done.returncode, "'0MB' is too little; give at least 1MB." in done.stderr) == (2, True)


def test_bad_settings_stop_the_worker_before_it_begins():
    done = stepfast("worker", "--app", "tests.cli.shop:app", STEPFAST_LEASE="soon", STEPFAST_LOG="loud")
    assert (done.returncode, done.stderr.count("allowed is")) == (2, 2), done.stderr

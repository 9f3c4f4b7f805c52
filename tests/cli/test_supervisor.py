"""`stepfast worker --processes N`: several processes that look like one."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli.processes import Command, Pipes, stepfast, supervisor
from tests.cli.shop import meeting, quick
from tests.support.apps import app_on


@pytest.fixture
async def client(database):
    async with app_on(database, [meeting, quick], worker=False) as app:
        yield app


async def both_started(command: Command) -> set[int]:
    pids = {await command.pid_of("process_started"), await command.pid_of("process_started")}
    await command.says("worker_started")
    await command.says("worker_started")
    return pids


async def test_runs_are_spread_over_the_processes(client, database, tmp_path):
    pipes = Pipes(tmp_path, "begun-a", "begun-b", "release-a", "release-b")
    with supervisor(database, "--concurrency", "1") as command:
        pids = await both_started(command)
        for pipe in "ab":
            await client.start(meeting, pipes.folder, pipe)
        assert {await pipes.hear("begun-a"), await pipes.hear("begun-b")} == pids


async def test_a_process_that_was_killed_is_replaced(client, database):
    with supervisor(database) as command:
        pids = await both_started(command)
        os.kill(min(pids), signal.SIGKILL)
        assert await command.pid_of("process_ended") == min(pids)
        assert await command.pid_of("process_started") not in pids


async def test_runs_are_executed_while_a_killed_process_is_replaced(client, database):
    with supervisor(database) as command:
        pids = await both_started(command)
        os.kill(min(pids), signal.SIGKILL)
        run = await client.start(quick)
        assert await run.result(timeout="30s") != min(pids)


async def test_a_process_that_has_done_its_runs_is_replaced_at_once(client, database):
    with supervisor(database, "--max-runs", "1") as command:
        pids = await both_started(command)
        done = await (await client.start(quick)).result(timeout="30s")
        assert await command.pid_of("process_replaced") == done
        assert await command.pid_of("process_started") not in pids


async def test_sigterm_ends_all_processes_and_counts_as_success(client, database):
    with supervisor(database) as command:
        await both_started(command)
        command.process.terminate()
        assert await command.ends() == 0
    assert [view.dead_at is None for view in await client.workers.list()] == [False, False]


async def test_a_second_signal_ends_all_processes_at_once(client, database, tmp_path):
    pipes = Pipes(tmp_path, "begun-a", "release-a")
    with supervisor(database, "--grace", "10m") as command:
        await client.start(meeting, pipes.folder, "a")
        await pipes.hear("begun-a")
        command.process.terminate()
        await command.says("worker_stopping")
        assert await command.ends_when_told_again() == 128 + signal.SIGTERM


async def test_drained_processes_are_not_replaced(client, database):
    runs = [await client.start(quick) for _ in range(10)]
    with supervisor(database, "--drain") as command:
        assert await command.ends() == 0
    assert {bool(await run.result(timeout="30s")) for run in runs} == {True}


async def test_processes_leave_when_their_supervisor_was_killed(client, database):
    with supervisor(database) as command:
        await both_started(command)
        command.process.kill()
        await command.is_silent()
    assert [view.dead_at is None for view in await client.workers.list()] == [False, False]


def test_a_mistake_in_the_options_ends_the_supervisor_too():
    done = stepfast("worker", "--app", "absent:app", "--processes", "2")
    assert done.returncode == 2, done.stderr

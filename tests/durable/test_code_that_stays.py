"""Code that catches whatever ends it when its run waits: it does no more, holds nobody up, and is told of."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stepfast import receive, workflow
from stepfast.workflows import branches
from stepfast.workflows.branches import stay_for_good
from stepfast.workflows.code_threads import CodeThreads
from tests.support.apps import app_on
from tests.support.log_lines import lines_of_the_log

PROGRAM = """
import asyncio
from stepfast import Stepfast, receive, workflow

@workflow
def stubborn() -> None:
    while True:
        try:
            receive("go")
            return
        except:
            pass

async def main() -> None:
    async with Stepfast("sqlite:///app.db", workflows=[stubborn]) as app:
        run = await app.start(stubborn)
        while (await run.info()).state != "waiting":
            pass

asyncio.run(main())
"""

tries: list[str] = []


@workflow
def stubborn() -> Any:
    while True:
        try:
            return receive("go")
        except BaseException:  # noqa: BLE001 - that is what people write
            tries.append("again")


@workflow
async def stubborn_async() -> Any:
    while True:
        try:
            return await receive("go")
        except BaseException:  # noqa: BLE001 - as above
            continue


@workflow
def gives_in() -> Any:
    for _ in range(3):
        try:
            return receive("go")
        except BaseException:  # noqa: BLE001 - as above
            continue
    return "gave in"


@pytest.fixture(autouse=True)
def no_tries() -> None:
    tries.clear()


@pytest.mark.parametrize("code", [stubborn, stubborn_async], ids=["def", "async"])
async def test_it_is_told_of_and_its_run_goes_on(database, code):
    with lines_of_the_log() as lines:
        async with app_on(database, [code]) as app:
            run = await app.start(code)
            await lines.come(1, "code_stays")
            await run.signal("go", "done")
            assert await run.result("60s") == "done"


async def test_a_thread_that_stays_makes_no_further_call(database, monkeypatch):
    monkeypatch.setattr(branches, "UNWINDING_CALLS", 5)
    with lines_of_the_log() as lines:
        async with app_on(database, [stubborn]) as app:
            await app.start(stubborn)
            await lines.come(1, "code_stays")
    assert len(tries) == 1 + 5


async def test_twin_a_thread_that_nobody_stops_makes_call_after_call(database, monkeypatch):
    is_enough, has_stopped = threading.Event(), threading.Event()

    def go_on_for_a_while() -> None:
        if is_enough.is_set():
            has_stopped.set()
            stay_for_good()

    monkeypatch.setattr(branches, "UNWINDING_CALLS", 5)
    monkeypatch.setattr(branches, "stay_for_good", go_on_for_a_while)
    with lines_of_the_log() as lines:
        async with app_on(database, [stubborn]) as app:
            await app.start(stubborn)
            await lines.come(3, "code_stays")
            is_enough.set()
            # It would go on into the tests behind this one, and be told of there.
            assert await asyncio.to_thread(has_stopped.wait, 60)
    assert len(tries) > 1 + 5


async def test_code_that_gives_in_is_no_matter(database, caplog):
    async with app_on(database, [gives_in]) as app:
        run = await app.start(gives_in)
        await run.signal("go", "done")
        assert await run.result("60s") == "done"
    assert "code_stays" not in caplog.text


def test_a_thread_that_stays_takes_nobodys_place():
    threads, stay = CodeThreads("test"), threading.Event()
    try:
        for _ in range(50):
            threads.submit(stay.wait)
        assert threads.submit(lambda: "done").result(60) == "done"
    finally:
        stay.set()
        threads.shutdown()


def test_threads_are_used_again():
    threads = CodeThreads("test")
    used = {threads.submit(threading.get_ident).result(60) for _ in range(50)}
    threads.shutdown()
    assert len(used) == 1


def test_an_error_comes_back_to_whoever_waits():
    threads = CodeThreads("test")
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(60)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(print)


def test_the_process_ends_all_the_same(tmp_path):
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, timeout=60, check=False)
    assert ended.returncode == 0


async def test_a_thread_that_a_workflow_starts_is_waited_for_at_the_end_of_the_process(database):
    kinds: list[bool] = []

    @workflow
    def maker() -> None:
        kinds.append(threading.Thread(target=print).daemon)
        kinds.append(threading.Thread(target=print, daemon=True).daemon)
        with ThreadPoolExecutor(1) as pool:
            kinds.append(pool.submit(lambda: threading.current_thread().daemon).result())

    async with app_on(database, [maker]) as app:
        await (await app.start(maker)).result("60s")
    assert kinds == [False, True, False]

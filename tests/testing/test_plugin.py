"""The fixtures that pytest finds where stepfast is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

TESTS = """
from stepfast import sleep, workflow
from stepfast.testing import Engine

@workflow
async def nap() -> str:
    await sleep("24h")
    return "rested"

async def test_async(stepfast_engine, stepfast_clock):
    run = await stepfast_engine.start(nap)
    await stepfast_engine.run_until_idle()
    stepfast_clock.advance("24h")
    await stepfast_engine.run_until_idle()
    assert await run.result() == "rested"

def test_blocking(stepfast_blocking_engine, stepfast_clock):
    begun = stepfast_clock.now()
    assert stepfast_blocking_engine.run(nap) == "rested"
    assert stepfast_clock.now() - begun == 24 * 3_600_000
"""

STRICT = TESTS.replace("async def test_async", "import pytest\n\n@pytest.mark.asyncio\nasync def test_async")


@pytest.mark.parametrize(("mode", "text"), [("auto", TESTS), ("strict", STRICT)])
def test_the_fixtures_work_in_async_and_in_blocking_tests(tmp_path, mode, text):
    assert "2 passed" in told_of_tests(tmp_path, {"test_nap": text}, mode)


SCOPED = """
import pytest
import pytest_asyncio
from stepfast import workflow
from stepfast.testing import engine

@workflow
async def order() -> str:
    return "done"

@pytest_asyncio.fixture(loop_scope="module")
async def own_engine():
    async with engine(workflows=[order]) as opened:
        yield opened

@pytest.mark.asyncio(loop_scope="module")
async def test_with_the_fixture_of_another_loop(stepfast_engine):
    assert await stepfast_engine.run(order) == "done"

@pytest.mark.asyncio(loop_scope="module")
async def test_with_a_fixture_of_the_same_loop(own_engine):
    assert await own_engine.run(order) == "done"
"""


def test_an_engine_of_another_event_loop_is_refused_with_the_remedy(tmp_path):
    told = told_of_tests(tmp_path, {"test_scoped": SCOPED}, "strict")
    assert ("1 failed, 1 passed" in told, "with pytest-asyncio the same `loop_scope`" in told) == (True, True)


OWN = """
from stepfast import step, workflow

@step(queue="slow")
def say() -> str:
    return NAME

@workflow
def own() -> str:
    return say()

def test_of_the_module(stepfast_blocking_engine):
    assert stepfast_blocking_engine.run("own") == NAME
"""

LOCAL = """
from stepfast import workflow

kept = []

def order_of(text):
    @workflow(name="made")
    def made() -> str:
        return text
    return made

def test_one(stepfast_blocking_engine):
    @workflow
    def order() -> str:
        return made()
    made = order_of("one")
    kept.append(order)
    assert stepfast_blocking_engine.run(order) == "one"

def test_another(stepfast_blocking_engine):
    @workflow
    def order() -> str:
        return "another"
    assert stepfast_blocking_engine.run("order") == "another"
"""

SHOP = """
from stepfast import workflow

@workflow
async def ship() -> str:
    return "shipped"

@workflow
async def order() -> str:
    return await ship()
"""

USING = """
from shop import order

def test_a_child_that_the_test_does_not_name(stepfast_blocking_engine):
    assert stepfast_blocking_engine.run(order) == "shipped"
"""

CHOOSING = """
import pytest
import {used}

@pytest.fixture
def stepfast_workflows():
    return {choice}

def test_what_was_chosen(stepfast_blocking_engine):
    assert stepfast_blocking_engine.engine.app.codes() == {codes}
"""


def test_modules_may_each_have_a_workflow_and_a_step_of_one_name(tmp_path):
    texts = {f"test_{name}": OWN.replace("NAME", repr(name)) for name in ("one", "two")}
    assert "2 passed" in told_of_tests(tmp_path, texts)


def test_tests_may_each_define_a_workflow_of_one_name(tmp_path):
    assert "2 passed" in told_of_tests(tmp_path, {"test_local": LOCAL})


def test_what_is_defined_outside_of_tests_is_served(tmp_path):
    assert "1 passed" in told_of_tests(tmp_path, {"shop": SHOP, "test_shop": USING})


def test_what_a_test_module_takes_from_another_is_served(tmp_path):
    tests = {"test_shop": SHOP + "def test_nothing(): ...", "test_using": USING.replace("shop", "test_shop", 1)}
    assert "2 passed" in told_of_tests(tmp_path, tests)


@pytest.mark.parametrize(
    ("choice", "codes"),
    [
        ("shop", ["order@1", "ship@1"]),
        ("shop.ship", ["ship@1"]),
        ("[shop.ship]", ["ship@1"]),
        ("[shop, other.order]", ["order@1", "order@2", "ship@1"]),
    ],
)
def test_a_test_module_chooses_which_workflows_are_served(tmp_path, choice, codes):
    files = {
        "shop": SHOP,
        "other": SHOP.replace("@workflow", "@workflow(version=2)"),
        "namesake": SHOP,
        "test_shop": CHOOSING.format(used="namesake, other, shop", choice=choice, codes=codes),
    }
    assert "1 passed" in told_of_tests(tmp_path, files)


def test_a_chosen_module_without_workflows_is_refused_by_its_name(tmp_path):
    told = told_of_tests(tmp_path, {"test_empty": CHOOSING.format(used="json", choice="json", codes=[])})
    assert "Module 'json' has no workflows." in told


def told_of_tests(folder, texts, mode="auto"):
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-o", f"asyncio_mode={mode}", "--rootdir", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout

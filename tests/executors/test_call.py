"""`python.call`: functions of modules that an operator has allowed."""

from __future__ import annotations

import asyncio
import sys

import pytest

from stepfast import Invalid, NotAllowed, StepTimeout
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.call import CallConfig, PythonCall

SHOP = "tests.executors.shop"
CALL = PythonCall(Allowed(modules=(SHOP, "absent_module")))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add", {"first": 1, "second": 2}, 3),
        ("add", [1, 2], 3),
        ("add", [1], 2),
        ("add_async", {"first": 1}, 2),
        ("add_step", {"first": 1}, 2),
    ],
)
async def test_a_function_is_called_with_keywords_or_values(name, arguments, expected):
    assert await CALL.execute(f"{SHOP}:{name}", arguments) == expected


async def test_its_error_is_its_own():
    with pytest.raises(LookupError, match="no such thing"):
        await CALL.execute(f"{SHOP}:fail")


@pytest.mark.parametrize("target", [f"{SHOP}:add", "os:system", "builtins:eval"])
async def test_by_default_no_module_is_allowed(target):
    with pytest.raises(NotAllowed, match="STEPFAST_CALL_MODULES"):
        await PythonCall(Allowed()).execute(target)


async def test_a_pattern_allows_what_is_in_a_package_and_nothing_beside_it():
    call = PythonCall(Allowed(modules=("tests.executors.*",)))
    assert await call.execute(f"{SHOP}:add", [1]) == 2
    with pytest.raises(NotAllowed):
        await call.execute("tests.executors_other:add", [1])


async def test_what_a_module_has_imported_is_no_function_of_its_own():
    with pytest.raises(NotAllowed, match="'posix'"):
        await CALL.execute(f"{SHOP}:getcwd")


@pytest.mark.parametrize(
    "target", ["", "add", ":add", f"{SHOP}:", f"{SHOP}:_hidden", f"{SHOP}:NUMBER", f"{SHOP}:absent", f"{SHOP}:a.b"]
)
async def test_a_target_that_is_no_public_function_is_refused(target):
    with pytest.raises(Invalid):
        await CALL.execute(target)


async def test_a_module_that_cannot_be_imported_is_told():
    with pytest.raises(Invalid, match="absent_module cannot be imported"):
        await CALL.execute("absent_module:function")


async def test_a_function_that_takes_too_long_is_given_up():
    with pytest.raises(StepTimeout, match=r"within 0\.01 s"):
        await CALL.execute(f"{SHOP}:hang", config=CallConfig(timeout="10ms"))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that may be called."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def write(name: str, code: str) -> PythonCall:
        (tmp_path / f"{name}.py").write_text(code)
        names.append(name)
        return PythonCall(Allowed(modules=(name,)))

    yield write
    for name in names:
        sys.modules.pop(name, None)


async def test_a_module_whose_import_does_not_end_is_given_up_and_holds_up_nobody(module):
    call = module("call_hangs", "import threading\nthreading.Event().wait()\n")
    calling = asyncio.ensure_future(call.execute("call_hangs:x", config=CallConfig(timeout="200ms")))
    assert await CALL.execute(f"{SHOP}:add", [1, 2]) == 3
    with pytest.raises(StepTimeout, match=r"within 0\.2 s"):
        await calling


async def test_a_function_that_raises_what_people_stop_processes_with_fails_like_any_other(module):
    call = module("call_stops", "def stop(): raise KeyboardInterrupt('stop')\n")
    with pytest.raises(RuntimeError, match="it raised KeyboardInterrupt: stop"):
        await call.execute("call_stops:stop")

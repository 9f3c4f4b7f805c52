"""How the checks of an app's policies are asked: apart from each other, from the step, and from all others who work."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from stepfast import Domain, Invalid, Policy, PolicyConflict, Retry, RunFailed, Stepfast, step, storage, workflow
from stepfast.testing import engine
from tests.policies.harness import WORLD

Items = list[dict[str, Any]]
Answer = dict[str, Any]

LONGEST_S = 60


@step(name="look_into")
async def look_into(source: str) -> str:
    return (await storage.read_asset(source)).decode()


@step(name="look_into_in_thread")
def look_into_in_thread(source: str) -> str:
    return storage.read_asset.sync(source).decode()


@workflow
async def looking(source: str) -> str:
    return await look_into(source)


@workflow
def looking_in_thread(source: str) -> str:
    return look_into_in_thread(source)


FLOWS: list[Any] = [looking, looking_in_thread]


@contextlib.asynccontextmanager
async def guarded(*policies: Policy, **options: Any):
    given: dict[str, Any] = {"workflows": FLOWS, "policies": policies, "retry": Retry(attempts=1), **options}
    async with engine(**given) as opened:
        await opened.app.assets.put("short", "source", tags=["secret"], metadata={"of": {"name": "acme"}})
        yield opened


def answering(ok: bool) -> Domain:
    rules = Domain("rules")

    @rules.step("check")
    async def check(assets: Items) -> Answer:
        return {"ok": ok, "reason": "never here"}

    return rules


async def test_a_check_by_name_is_that_of_the_app_that_asks():
    shared = Policy("shared", "rules.check", before="read")
    async with guarded(shared, executors=[answering(False)]) as strict, guarded(shared, executors=[answering(True)]):
        with pytest.raises(RunFailed, match="never here"):
            await strict.run(looking, "source")


desk = Domain("desk", retry=Retry(attempts=1))


@desk.step("note")
async def note(assets: Items) -> str:
    WORLD["given"] = assets
    return "noted"


async def spoils(assets: Items) -> Answer:
    assets[0]["tags"].clear()
    assets[0]["metadata"]["of"]["name"] = "nobody"
    return {"ok": True}


async def sees(assets: Items) -> Answer:
    WORLD["seen"] = assets
    return {"ok": True}


async def test_what_a_check_does_to_what_it_is_shown_nobody_else_sees():
    policies = [Policy("spoils", spoils, before="read"), Policy("sees", sees, before="read")]
    async with guarded(*policies, executors=[desk]) as opened:
        await opened.app.register(
            "stepfast: 1\nworkflow: flow\nsteps:\n  - {id: note, use: desk.note, reads: {asset: source}}"
        )
        assert await opened.run("flow") == "noted"
    for who in ("seen", "given"):
        (told,) = WORLD[who]
        assert (told["tags"], told["metadata"]) == (["secret"], {"of": {"name": "acme"}})


async def stubborn(assets: Items) -> Answer:
    while not WORLD["let_go"].is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await WORLD["let_go"].wait()
    return {"ok": True}


async def test_a_check_that_cannot_be_called_off_is_a_conflict_all_the_same():
    WORLD["let_go"] = asyncio.Event()
    async with asyncio.timeout(LONGEST_S), guarded(Policy("any", stubborn, before="read", timeout="1ms")) as opened:
        try:
            with pytest.raises(RunFailed, match="it could not be checked: TimeoutError"):
                await opened.run(looking, "source")
        finally:
            WORLD["let_go"].set()


async def late(assets: Items) -> Answer:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return {"ok": True}
    raise AssertionError("never")


async def test_a_yes_that_comes_too_late_is_none():
    async with guarded(Policy("any", late, before="read", timeout="1ms")) as opened:
        with pytest.raises(RunFailed, match="it could not be checked: TimeoutError"):
            await opened.run(looking, "source")


def blocks(assets: Items) -> Answer:
    WORLD["let_go"].wait()
    return {"ok": True}


async def test_a_check_that_blocks_takes_nobody_s_thread():
    WORLD["let_go"] = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with guarded(Policy("any", blocks, before="read", timeout="1ms")) as opened:
        try:
            with pytest.raises(RunFailed, match="it could not be checked: TimeoutError"):
                await opened.run(looking, "source")
            async with asyncio.timeout(LONGEST_S):
                await opened.app.assets.put("more", "other")
        finally:
            WORLD["let_go"].set()


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError])
async def test_a_check_that_leaves_is_a_conflict(flow, raised):
    async def leaves(assets: Items) -> Answer:
        raise raised

    async with guarded(Policy("any", leaves, before="read")) as opened:
        with pytest.raises(RunFailed, match=f"it could not be checked: .*{raised.__name__}") as failed:
            await opened.run(flow, "source")
        assert isinstance(failed.value.__cause__, PolicyConflict)


@dataclass
class Shown:
    id: str
    tags: list[str]


@dataclass
class Said:
    ok: bool
    reason: str = ""


@desk.step("typed")
async def typed(assets: list[Shown]) -> Said:
    return Said("secret" not in assets[0].tags, f"{assets[0].id} is secret")


class Strict:
    async def __call__(self, assets: Items) -> Answer:
        return {"ok": False, "reason": f"{assets[0]['id']} is secret"}


def by_mood(mood: str, assets: Items) -> Answer:
    return {"ok": False, "reason": f"{assets[0]['id']} is {mood}"}


@pytest.mark.parametrize("check", [typed, "desk.typed", Strict(), partial(by_mood, "secret")])
async def test_a_check_is_whatever_can_be_called_and_has_types_of_its_own_where_it_is_a_step(check):
    async with guarded(Policy("any", check, before="read"), executors=[desk]) as opened:
        with pytest.raises(RunFailed, match="reads asset:source@1: source is secret"):
            await opened.run(looking, "source")


def by_place(assets: Items, /) -> Answer:
    return {"ok": True}


def by_many(*assets: Any) -> Answer:
    return {"ok": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"check": by_place}, "a check with the parameter 'assets'"),
        ({"check": by_many}, r"a check with the parameter '\*assets'"),
        ({"check": type}, "has the check <class 'type'>"),
        ({"timeout": 0}, "the timeout of policy 'any' is 0"),
        ({"timeout": None}, "the timeout of policy 'any' is None"),
        ({"before": ["read"]}, r"before=\['read'\]"),
        ({"conflict": "shrug"}, "conflict='shrug'; it can be 'fail' or 'review'"),
    ],
)
def test_what_could_only_ever_be_a_conflict_is_refused_when_it_is_written(given, message):
    terms: dict[str, Any] = {"check": sees, "before": "read", **given}
    with pytest.raises(Invalid, match=message):
        Policy("any", terms.pop("check"), **terms)


@pytest.mark.parametrize("policies", [Policy("any", sees, before="read"), None, "any"])
def test_policies_of_an_app_are_several(policies):
    with pytest.raises(Invalid, match="policies"):
        Stepfast("sqlite:///never.db", workflows=[], policies=policies)

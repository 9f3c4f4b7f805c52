"""Policies of a whole app: every read and every write of its runs is let by them first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import (
    Derived,
    Domain,
    Graph,
    Invalid,
    Policy,
    PolicyConflict,
    Retry,
    RunFailed,
    Source,
    Stepfast,
    annotate,
    progress,
    step,
    storage,
    workflow,
)
from stepfast.kernel.errors import ExecutorNotFound
from stepfast.kernel.events import EventType
from stepfast.testing import engine
from stepfast.workflows.storage import Here
from tests.policies.harness import CALLS, CITING, WORLD, docs, policy, read_and_written, template
from tests.policies.harness import begun as begin

Items = list[dict[str, Any]]
Answer = dict[str, Any]


async def no_secrets(assets: Items, tenant: str, workflow: str, step: str) -> Answer:
    CALLS["asked"] += 1
    WORLD["asked"] = (tenant, workflow, step, [asset["uri"] for asset in assets])
    return {"ok": not any("secret" in asset["tags"] for asset in assets), "reason": "it is secret"}


def small(writes: Items) -> Answer:
    WORLD["writes"] = writes
    return {"ok": all(each["size"] < 10 for each in writes), "reason": "it is too large"}


NO_SECRETS = Policy("no-secrets", no_secrets, before="read", conflict="review")
SMALL = Policy("small", small, before="write", conflict="review")


@step(name="copy_it")
async def copy_it(source: str, target: str) -> str:
    CALLS["copy_it"] += 1
    made = await storage.write_asset(target, await storage.read_asset(source), tags=["made"])
    return made.id


@step(name="copy_in_thread")
def copy_in_thread(source: str, target: str) -> str:
    return storage.write_asset.sync(target, storage.read_asset.sync(source)).id


@workflow
async def copying(source: str, target: str = "copy") -> str:
    return await copy_it(source, target)


@workflow
def copying_in_thread(source: str) -> str:
    return copy_in_thread(source, "copy")


@pytest.fixture
async def guarded(database: str):
    flows: list[Any] = [copying, copying_in_thread]
    rules = [NO_SECRETS, SMALL]
    async with engine(database=database, workflows=flows, executors=[docs, policy], policies=rules) as opened:
        await opened.app.assets.put("short", "source")
        await opened.app.assets.put("short", "secrets", tags=["secret"])
        await opened.app.assets.put("much too long", "long")
        yield opened


def conflict_of(failed: pytest.ExceptionInfo[RunFailed]) -> str:
    assert isinstance(failed.value.__cause__, PolicyConflict)
    assert failed.value.__cause__.code == "E-POL-001"
    return str(failed.value.__cause__)


async def test_what_no_policy_is_against_is_read_and_written(guarded):
    assert await guarded.run(copying, "source") == "copy"
    assert WORLD["asked"] == ("default", "copying", "copy_it#1", ["asset:source@1"])
    assert [(each["id"], each["size"], each["tags"]) for each in WORLD["writes"]] == [("copy", 5, ["made"])]


@pytest.mark.parametrize("flow", [copying, copying_in_thread])
async def test_a_body_does_not_read_what_a_policy_refuses(guarded, flow):
    run = await guarded.start(flow, "secrets")
    with pytest.raises(RunFailed, match="Policy no-secrets of the app refuses") as failed:
        await guarded.result(run)
    assert "reads asset:secrets@1: it is secret" in conflict_of(failed)
    assert await read_and_written(guarded, run) == ([], [])


@pytest.mark.parametrize("flow", [copying, copying_in_thread])
async def test_a_body_does_not_write_what_a_policy_refuses(guarded, flow):
    run = await guarded.start(flow, "long")
    with pytest.raises(RunFailed, match="writes 'copy': it is too large") as failed:
        await guarded.result(run)
    conflict_of(failed)
    assert await read_and_written(guarded, run) == (["long@1"], [])


async def test_a_clear_no_costs_one_attempt(guarded):
    with pytest.raises(RunFailed):
        await guarded.run(copying, "secrets")
    assert CALLS["copy_it"] == 1


async def test_without_the_guard_the_same_body_reads_and_writes(guarded, monkeypatch):
    async def let(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(Here, "let_read", let)
    assert await guarded.run(copying, "secrets") == "copy"


@pytest.mark.parametrize(
    ("source", "refused", "traced"),
    [
        ("secrets", "that step cite.reads#1 reads asset:secrets@1", ([], [])),
        ("long", "that step cite.writes#1 writes 'cited'", (["long@1"], [])),
    ],
)
async def test_declared_reads_and_writes_are_guarded(guarded, source, refused, traced):
    flow = "stepfast: 1\nworkflow: flow\nsteps:" + CITING.replace("source", source)
    await guarded.app.register(flow)
    run = await guarded.start("flow")
    with pytest.raises(RunFailed, match=refused) as failed:
        await guarded.result(run)
    conflict_of(failed)
    assert await read_and_written(guarded, run) == traced


async def test_of_several_writes_none_is_made_when_one_is_refused(guarded):
    steps = """
  - id: say
    use: docs.say
    with: {text: hello}
    writes: [{asset: first}, {asset: second, content: much too long for it}]
"""
    await guarded.app.register("stepfast: 1\nworkflow: flow\nsteps:" + steps)
    run = await guarded.start("flow")
    with pytest.raises(RunFailed, match="writes 'first', 'second'"):
        await guarded.result(run)
    assert await read_and_written(guarded, run) == ([], [])


async def test_what_a_step_was_let_read_by_its_declaration_its_body_reads_without_asking_again(guarded):
    await guarded.app.register("stepfast: 1\nworkflow: flow\nsteps:" + CITING)
    run = await guarded.start("flow")
    assert await guarded.result(run) == "short"
    assert CALLS["asked"] == 1


REVIEWED = template(
    CITING.replace("source", "secrets"),
    "  - {id: no-secrets, check: policy.no_secrets_in, before: read, conflict: review, role: privacy}",
)


async def test_a_person_decides_where_the_step_declares_the_policy_with_a_review(guarded):
    run = await begin(guarded, REVIEWED)
    (question,) = await guarded.reviews(run)
    assert question.kind == "policy_conflict"
    await guarded.decide(question, "continue", actor="ann", role="privacy")
    assert await guarded.result(run) == "short"
    assert await read_and_written(guarded, run) == (["secrets@1"], ["cited@1"])


async def test_a_person_who_lets_another_policy_has_not_let_that_of_the_app(guarded):
    run = await begin(guarded, REVIEWED.replace("id: no-secrets", "id: mine"))
    (question,) = await guarded.reviews(run)
    await guarded.decide(question, "continue", actor="ann", role="privacy")
    with pytest.raises(RunFailed, match="Policy no-secrets of the app"):
        await guarded.result(run)


async def test_no_declaration_gets_round_a_policy_that_only_fails(database):
    rule = Policy("no-secrets", no_secrets, before="read")
    async with engine(database=database, workflows=[], executors=[docs, policy], policies=[rule]) as opened:
        await opened.app.assets.put("short", "secrets", tags=["secret"])
        run = await begin(opened, REVIEWED)
        (question,) = await opened.reviews(run)
        await opened.decide(question, "continue", actor="ann", role="privacy")
        with pytest.raises(RunFailed, match="Policy no-secrets of the app"):
            await opened.result(run)


async def test_a_person_lets_a_step_write(guarded):
    steps = "\n  - {id: say, use: docs.say, with: {text: a secret of ours}, writes: {asset: said}}\n"
    rule = (
        "  - {id: small, check: policy.no_secrets_out, with: {output: '${ output }'}, before: write, conflict: review}"
    )
    run = await begin(guarded, template(steps, rule))
    (question,) = await guarded.reviews(run)
    await guarded.decide(question, "continue", actor="ann")
    assert await guarded.result(run) == "a secret of ours"
    assert await read_and_written(guarded, run) == ([], ["said@1"])


papers = Domain("papers", retry=Retry(attempts=1))


@papers.transformation("double")
async def double(document: Source) -> Derived:
    CALLS["double"] += 1
    return Derived(document.text * 2)


@pytest.mark.parametrize(
    ("source", "refused", "done"),
    [("secrets", "reads asset:secrets@1: it is secret", 0), ("source", "writes 'source/double': it is too large", 1)],
)
async def test_transformations_are_guarded(database, source, refused, done):
    graph = Graph("doubling", input=str)
    graph.use(double, document=graph.input)
    async with engine(database=database, workflows=[graph], policies=[NO_SECRETS, SMALL]) as opened:
        await opened.app.assets.put("short", "source")
        await opened.app.assets.put("short", "secrets", tags=["secret"])
        with pytest.raises(RunFailed, match=refused):
            await opened.run(graph, source)
        assert CALLS["double"] == done
        assert [each.id for each in await opened.app.assets.list()] == ["secrets", "source"]


async def odd(assets: Items) -> Any:
    CALLS["odd"] += 1
    if isinstance(WORLD["answer"], Exception):
        raise WORLD["answer"]
    return WORLD["answer"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ValueError("no idea"), "it could not be checked: ValueError: no idea"),
        (None, "it must answer"),
        ({"ok": 1}, "it must answer"),
        ({"ok": False}, "it gives no reason"),
    ],
)
async def test_what_is_no_clear_yes_is_a_conflict(answer, told):
    WORLD["answer"] = answer
    rule = Policy("odd", odd, before="read")
    async with engine(workflows=[copying], policies=[rule], retry=Retry(attempts=1)) as opened:
        await opened.app.assets.put("short", "source")
        with pytest.raises(RunFailed, match=told) as failed:
            await opened.run(copying, "source")
        conflict_of(failed)


async def at_the_second_time(assets: Items) -> Answer:
    CALLS["asked"] += 1
    if CALLS["asked"] == 1:
        raise ValueError("not yet")
    return {"ok": True}


async def test_a_check_that_could_not_answer_is_asked_again_with_the_step():
    rule = Policy("second-time", at_the_second_time, before="read")
    async with engine(workflows=[copying], policies=[rule]) as opened:
        await opened.app.assets.put("short", "source")
        assert await opened.run(copying, "source") == "copy"
    assert CALLS["copy_it"] == 2


@workflow(retry=Retry(attempts=2))
async def copying_twice(source: str) -> str:
    return await copy_it(source, "copy")


def twice(database: str, *answers: Any) -> Any:
    """An engine whose runs are tried twice, and their steps once; the check says one thing after the other."""
    coming = list(answers)

    async def check(assets: Items) -> Any:
        if isinstance(answer := coming.pop(0), Exception):
            raise answer
        return answer

    rule, once = Policy("p", check, before="read"), Retry(attempts=1)
    return engine(database=database, workflows=[copying_twice], policies=[rule], retry=once)


async def test_a_run_is_not_tried_again_after_a_clear_no(database):
    async with twice(database, {"ok": False, "reason": "no"}, {"ok": True}) as opened:
        await opened.app.assets.put("short", "source")
        with pytest.raises(RunFailed) as failed:
            await opened.run(copying_twice, "source")
    conflict_of(failed)
    assert CALLS["copy_it"] == 1


async def test_a_run_is_tried_again_after_a_check_that_could_not_be_made(database):
    async with twice(database, ValueError("not yet"), {"ok": True}) as opened:
        await opened.app.assets.put("short", "source")
        assert await opened.run(copying_twice, "source") == "copy"
    assert CALLS["copy_it"] == 2


async def never(assets: Items) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError("never")


async def test_a_check_that_takes_too_long_is_a_conflict():
    rule = Policy("never", never, before="read", timeout="1ms")
    async with engine(workflows=[copying], policies=[rule], retry=Retry(attempts=1)) as opened:
        await opened.app.assets.put("short", "source")
        with pytest.raises(RunFailed, match="it could not be checked: TimeoutError"):
            await opened.run(copying, "source")


async def looks_inside(assets: Items) -> Answer:
    await storage.read_asset(assets[0])
    return {"ok": True}


async def test_a_check_has_no_storage_of_the_step():
    rule = Policy("inside", looks_inside, before="read")
    async with engine(workflows=[copying], policies=[rule], retry=Retry(attempts=1)) as opened:
        await opened.app.assets.put("short", "source")
        run = await opened.start(copying, "source")
        with pytest.raises(RunFailed, match="WrongCall"):
            await opened.result(run)
        assert await read_and_written(opened, run) == ([], [])


async def talks(assets: Items) -> Answer:
    annotate("seen", len(assets))
    progress(1, 2)
    return {"ok": True}


async def test_what_a_check_notes_and_tells_is_not_taken_for_the_steps(database):
    async with engine(
        database=database, workflows=[copying], policies=[Policy("talks", talks, before="read")]
    ) as opened:
        await opened.app.assets.put("short", "source")
        run = await opened.start(copying, "source")
        assert await opened.result(run) == "copy"
        told = {event.type for event in await run.history()}
        assert not told & {EventType.ANNOTATED, EventType.STEP_PROGRESS}


async def test_a_check_may_be_an_executor_of_the_app():
    rule = Policy("no-secrets", "policy.no_secrets_in", before="read")
    async with engine(workflows=[copying], executors=[policy], policies=[rule]) as opened:
        await opened.app.assets.put("short", "secrets", tags=["secret"])
        with pytest.raises(RunFailed, match="asset:secrets@1 is secret"):
            await opened.run(copying, "secrets")


async def test_an_executor_that_is_not_there_keeps_the_app_closed(database):
    app = Stepfast(database, workflows=[], executors=[], policies=[Policy("any", "policy.none", before="read")])
    with pytest.raises(ExecutorNotFound):
        await app.open()


def needs_more(assets: Items, mood: str) -> Answer:
    return {"ok": True}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("any", small, "look"), "before='look'; it can be 'read' or 'write'"),
        (("any", needs_more, "read"), "a check with the parameter 'mood'"),
        (("any", small, "read"), "a check with the parameter 'writes'"),
        (("any", 3, "read"), "has the check 3"),
        (("", small, "write"), "the id of a policy"),
    ],
)
def test_policies_that_cannot_be_are_refused(arguments, message):
    name, check, before = arguments
    with pytest.raises(Invalid, match=message):
        Policy(name, check, before=before)


def test_two_policies_of_one_id_are_refused():
    with pytest.raises(Invalid, match="Two policies of the app have the id 'small'"):
        Stepfast("sqlite:///never.db", workflows=[], policies=[SMALL, SMALL])

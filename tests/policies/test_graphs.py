"""Policies and transformations in graphs that are put together in Python."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import (
    Derived,
    Domain,
    Graph,
    PolicyConflict,
    Retry,
    RunFailed,
    Source,
    StageContext,
    Stepfast,
    step,
    storage,
)
from stepfast.kernel.errors import InvalidDefinition
from stepfast.testing import engine

papers = Domain("papers")


@papers.transformation("shorten")
async def shorten(document: Source) -> Derived:
    return Derived(document.text[:7])


@step(name="not_secret")
async def not_secret(assets: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": not any("secret" in asset["tags"] for asset in assets), "reason": "it is secret"}


@step(name="named_well")
async def named_well(writes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": writes[0]["id"] != "bad/shorten", "reason": "it has a bad name"}


@step(name="positive")
async def positive(number: int) -> dict[str, Any]:
    return {"ok": number > 0, "reason": "it is not positive"}


def counting(**terms: Any) -> Graph[int, Any]:
    graph = Graph("counting", input=int)

    @graph.stage(policies=[graph.policy("above-zero", positive, **terms)])
    async def count(ctx: StageContext[int]) -> int:
        return ctx.input

    return graph


async def test_the_output_of_a_stage_is_checked():
    graph = counting()
    async with engine(workflows=[graph]) as opened:
        assert await opened.run(graph, 3) == 3
        with pytest.raises(RunFailed, match="Policy above-zero refuses the output of step count: it is not positive"):
            await opened.run(graph, -3)


async def test_a_person_may_decide():
    graph = counting(conflict="review", role="clerk")
    async with engine(workflows=[graph]) as opened:
        run = await opened.start(graph, -3)
        await opened.run_until_idle()
        (question,) = await opened.reviews(run)
        assert (question.kind, question.role) == ("policy_conflict", "clerk")
        await opened.decide(question, "correct", 1, actor="ann", role="clerk")
        assert await opened.result(run) == 1


def shortening() -> Graph[str, Any]:
    graph = Graph("shortening", input=str)
    policies = [
        graph.policy("no-secrets", not_secret, before="read"),
        graph.policy("good-names", named_well, before="write"),
    ]
    graph.use(shorten, id="shorten", document=graph.input, policies=policies)
    return graph


@pytest.mark.parametrize(
    ("asset", "tags", "refused"),
    [
        ("secrets", ["secret"], "Policy no-secrets refuses that step shorten reads asset:secrets@1"),
        ("bad", [], "Policy good-names refuses that step shorten writes 'bad/shorten'"),
    ],
)
async def test_a_transformation_is_checked_before_it_reads_and_writes(asset, tags, refused):
    graph = shortening()
    async with engine(workflows=[graph]) as opened:
        await opened.app.assets.put("Payment in 30 days.", asset, tags=tags)
        with pytest.raises(RunFailed, match=refused):
            await opened.run(graph, asset)
        assert [each.id for each in await opened.app.assets.list()] == [asset]


async def test_a_transformation_that_nothing_is_against_makes_its_asset():
    graph = shortening()
    async with engine(workflows=[graph]) as opened:
        await opened.app.assets.put("Payment in 30 days.", "good")
        made = await opened.run(graph, "good")
        assert made["outputs"][0]["uri"] == "asset:good/shorten@1"
        assert await opened.app.assets.read("good/shorten") == b"Payment"


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"before": "look"}, "policy 'above-zero' has before='look'"),
        ({"conflict": "shrug"}, "policy 'above-zero' has conflict='shrug'"),
        ({"conflict": "review", "quorum": 0}, "policy 'above-zero': "),
        ({"role": "clerk"}, "policy 'above-zero' has role=, which means nothing where a conflict fails the step"),
        ({"before": "read", "conflict": "review", "verdicts": ["correct"]}, "has the verdict 'correct'"),
    ],
)
def test_policies_that_cannot_be_are_told_with_all_else(terms, message):
    with pytest.raises(InvalidDefinition, match=message):
        counting(**terms).plan()


def test_policies_are_a_list_of_policies():
    graph: Any = Graph("wrong", input=int)
    graph.set("it", 1, policies=["above-zero"])
    with pytest.raises(InvalidDefinition, match=r"it must be a list of graph\.policy"):
        graph.plan()


def test_all_that_is_wrong_with_policies_is_told_at_once():
    graph: Any = Graph("wrong", input=int)
    policies = [
        graph.policy("same", positive, role="clerk", assignee="ann"),
        graph.policy("same", positive, before="look", conflict="shrug"),
    ]
    graph.set("it", 1, policies=policies)
    with pytest.raises(InvalidDefinition) as refused:
        graph.plan()
    told = ["assignee=, which", "role=, which", "two policies have the id 'same'", "before='look'", "conflict='shrug'"]
    assert [next(part for part in told if part in line) for line in str(refused.value).splitlines()[1:]] == told


def test_a_check_by_name_is_told_what_it_is_given():
    graph: Any = Graph("wrong", input=int)
    graph.set("it", 1, policies=[graph.policy("above-zero", "positive")])
    with pytest.raises(InvalidDefinition, match="policy 'above-zero' has the check 'positive': say what it is given"):
        graph.plan()


@step(name="moody", retry=Retry(attempts=1))
async def moody(output: int) -> dict[str, bool]:
    if isinstance(answer := MOODS.pop(0), Exception):
        raise answer
    return {"ok": answer}


MOODS: list[Any] = []


def guarded_twice() -> Graph[int, Any]:
    graph = Graph("moods", input=int, retry=Retry(attempts=2))
    graph.set("it", graph.input, policies=[graph.policy("moody", moody)])
    return graph


async def test_a_run_is_not_tried_again_after_a_clear_no(database):
    graph = guarded_twice()
    MOODS[:] = [False, True]
    async with engine(database=database, workflows=[graph]) as opened:
        with pytest.raises(RunFailed, match="Policy moody refuses"):
            await opened.run(graph, 7)
    assert MOODS == [True]


async def test_a_run_is_tried_again_after_a_check_that_could_not_be_made(database):
    graph = guarded_twice()
    MOODS[:] = [ValueError("not yet"), True]
    async with engine(database=database, workflows=[graph]) as opened:
        assert await opened.run(graph, 7) == 7


async def test_a_check_by_name_is_found_in_the_app():
    graph: Any = Graph("named", input=int)
    checks = [graph.policy("above-zero", "positive", arguments={"number": lambda output: output})]
    graph.set("it", graph.input, policies=checks)
    async with engine(workflows=[graph]) as opened:
        with pytest.raises(RunFailed, match="Policy above-zero refuses"):
            await opened.run(graph, -1)


@step(name="short")
async def short(assets: list[dict[str, Any]]) -> str:
    SHORTENED.append(assets[0]["id"])
    return (await storage.read_asset(assets[0])).decode()[:7]


SHORTENED: list[str] = []


def declaring(**terms: Any) -> Graph[str, Any]:
    graph = Graph("declaring", input=str)
    policies = [
        graph.policy("no-secrets", not_secret, before="read", **terms),
        graph.policy("good-names", named_well, before="write", when=lambda writes, assets: writes[0]["size"] > 0),
    ]
    graph.use(
        short,
        reads={"asset": graph.input},
        writes={"asset": lambda input: f"{input}/shorten"},
        policies=policies,
    )
    return graph


@pytest.mark.parametrize(
    ("asset", "tags", "refused", "done"),
    [
        ("secrets", ["secret"], "Policy no-secrets refuses that step short reads asset:secrets@1", []),
        ("bad", [], "Policy good-names refuses that step short writes 'bad/shorten'", ["bad"]),
    ],
)
async def test_a_step_is_checked_before_it_reads_and_writes_what_it_declares(database, asset, tags, refused, done):
    graph = declaring()
    SHORTENED.clear()
    async with engine(database=database, workflows=[graph]) as opened:
        await opened.app.assets.put("Payment in 30 days.", asset, tags=tags)
        with pytest.raises(RunFailed, match=refused) as failed:
            await opened.run(graph, asset)
        assert isinstance(failed.value.__cause__, PolicyConflict)
        assert done == SHORTENED
        assert [each.id for each in await opened.app.assets.list()] == [asset]


async def test_a_person_lets_a_step_read(database):
    graph = declaring(conflict="review", role="privacy", when=lambda assets: "secret" in assets[0]["tags"])
    async with engine(database=database, workflows=[graph]) as opened:
        await opened.app.assets.put("Payment in 30 days.", "secrets", tags=["secret"])
        run = await opened.start(graph, "secrets")
        await opened.run_until_idle()
        (question,) = await opened.reviews(run)
        await opened.decide(question, "continue", actor="ann", role="privacy")
        assert await opened.result(run) == "Payment"


@pytest.mark.parametrize("before", ["read", "write"])
def test_a_policy_before_what_a_step_does_not_do_is_refused(before):
    graph = Graph("wrong", input=int)
    graph.set("it", graph.input, policies=[graph.policy("any", not_secret, before=before)])
    with pytest.raises(InvalidDefinition, match=f"asked before step 'it' {before}s, and that has no {before}s="):
        graph.plan()


desk = Domain("papers.desk")


@desk.step("plain")
async def plain(text: str) -> str:
    return text


def naming(executor: str, **inputs: Any) -> Graph[str, Any]:
    graph = Graph("naming", input=str)
    graph.use(executor, id="it", policies=[graph.policy("any", not_secret, before="read")], **inputs)
    return graph


def test_a_policy_before_what_a_named_executor_does_not_do_is_refused_by_the_app():
    graph = naming("papers.desk.plain", text="any")
    with pytest.raises(InvalidDefinition, match="policy 'any' is asked before step 'it' reads, and that has no reads="):
        Stepfast("sqlite:///never.db", workflows=[graph], executors=[desk])


async def test_a_policy_before_a_transformation_by_name_is_asked():
    graph = naming("papers.shorten", document="secrets")
    async with engine(workflows=[graph], executors=[papers]) as opened:
        await opened.app.assets.put("Payment in 30 days.", "secrets", tags=["secret"])
        with pytest.raises(RunFailed, match="Policy any refuses that step it reads asset:secrets@1"):
            await opened.run(graph, "")


async def test_what_a_check_is_given_may_have_the_name_of_what_it_is_made_of(database):
    graph = Graph("first-only", input=str)
    arguments = {"assets": lambda assets: assets[:1]}
    rule = graph.policy("no-secrets", not_secret, before="read", arguments=arguments)
    graph.use(short, reads=[{"asset": "open"}, {"asset": graph.input}], policies=[rule])
    async with engine(database=database, workflows=[graph]) as opened:
        await opened.app.assets.put("Payment in 30 days.", "open")
        await opened.app.assets.put("Payment in 14 days.", "secrets", tags=["secret"])
        assert await opened.run(graph, "secrets") == "Payment"


def test_two_policies_of_one_id_are_refused():
    graph = Graph("wrong", input=int)
    graph.set("it", graph.input, policies=[graph.policy("any", positive), graph.policy("any", positive)])
    with pytest.raises(InvalidDefinition, match="two policies have the id 'any'"):
        graph.plan()

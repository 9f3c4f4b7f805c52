"""Templates that run: from their text to the end of a run, on every store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from stepfast import RunFailed, Stepfast, load_template
from stepfast.kernel.errors import Invalid, Transient
from stepfast.kernel.states import RunState
from stepfast.workflows.executors.domains import Domain
from tests.support.apps import QUICK

CALLS: Counter[str] = Counter()

docs, ai = Domain("docs"), Domain("ai")


class Clause(TypedDict):
    id: str
    text: str


class Parsed(TypedDict):
    clauses: list[Clause]


@dataclass
class Settings:
    factor: float = 1.0


@docs.step("parse")
async def parse(uri: str) -> Parsed:
    CALLS["parse"] += 1
    return {"clauses": [{"id": word, "text": word} for word in uri.split("-")]}


@ai.step("score")
async def score(text: str, config: Settings) -> float:
    CALLS["score"] += 1
    return len(text) * config.factor


@ai.step("flaky")
async def flaky(kind: str) -> str:
    CALLS[kind] += 1
    if CALLS[kind] < 3:
        raise Transient("busy") if kind == "busy" else ValueError("wrong")
    return "done"


@ai.step("refuse")
async def refuse() -> None:
    raise PermissionError("not this one")


@pytest.fixture(autouse=True)
def fresh_counts():
    CALLS.clear()


@pytest.fixture
def app(database: str) -> Stepfast:
    return Stepfast(database, workflows=[], worker=QUICK, executors=[docs, ai])


async def result_of(app: Stepfast, text: str, **inputs: Any) -> Any:
    async with app:
        await app.register(text)
        run = await app.start("flow", **inputs)
        return await run.result(timeout=30)


SCORING = """
stepfast: 1
workflow: flow
inputs:
  uri: {schema: {type: string}}
  bar: {schema: {type: number}, default: 3}
steps:
  - {id: parse, use: docs.parse, with: {uri: "${ inputs.uri }"}}
  - id: score
    each: "${ steps.parse.output.clauses }"
    as: clause
    key: "${ clause.id }"
    at_once: 2
    use: ai.score
    with: {text: "${ clause.text }"}
    config: {factor: 2}
  - {id: best, set: "${ steps.score.output.results.max() }"}
  - id: verdict
    switch:
      - when: "${ double(steps.best.output) > double(inputs.bar) }"
        do: [{id: high, set: "${ steps.best.output } is high"}]
      - {do: [{id: low, set: low}]}
  - {id: never, when: "${ steps.best.output > 1000.0 }", fail: too much}
output: {best: "${ steps.best.output }", verdict: "${ steps.verdict.output }", skipped: "${ steps.never.skipped }"}
"""


async def test_a_template_runs_from_its_inputs_to_its_output(app):
    assert await result_of(app, SCORING, uri="a-bb-ccc") == {"best": 6.0, "verdict": "6 is high", "skipped": True}
    assert CALLS == {"parse": 1, "score": 3}


async def test_what_a_caller_gives_is_checked_before_anything_is_stored(app):
    async with app:
        await app.register(SCORING)
        with pytest.raises(Invalid, match="bar: 'x' is not of type 'number'\nuri: 5 is not of type 'string'"):
            await app.start("flow", uri=5, bar="x")
        assert list(await app.runs()) == []


async def test_the_config_that_a_caller_gives_is_merged_and_checked(app):
    async with app:
        await app.register(SCORING)
        run = await app.start("flow", uri="a-bb", config={"score": {"factor": 5}})
        assert (await run.result(timeout=30))["best"] == 10.0
        with pytest.raises(Invalid, match="score: fcator: there is no such field"):
            await app.start("flow", uri="a", config={"score": {"fcator": 5}})


async def test_a_loaded_template_can_be_started_itself(app):
    template = load_template(SCORING)
    async with app:
        first = await app.start(template, uri="a")
        second = await app.start(template, uri="bb")
        assert [(await run.result(timeout=30))["best"] for run in (first, second)] == [2.0, 4.0]


async def test_a_template_can_be_one_of_the_apps_own_workflows(database):
    async with Stepfast(database, workflows=[load_template(SCORING)], worker=QUICK, executors=[docs, ai]) as app:
        run = await app.start("flow", uri="a-bb")
        assert (await run.result(timeout=30))["best"] == 4.0


FLAKY = """
stepfast: 1
workflow: flow
defaults: {retry: {attempts: 4, base: 1ms, on: [transient]}}
steps:
  - {id: try, use: ai.flaky, with: {kind: "${ inputs.kind }"}}
inputs: {kind: {}}
"""


async def test_what_is_marked_transient_is_tried_again(app):
    assert await result_of(app, FLAKY, kind="busy") == "done"
    assert CALLS["busy"] == 3


async def test_what_is_not_is_not(app):
    with pytest.raises(RunFailed):
        await result_of(app, FLAKY, kind="broken")
    assert CALLS["broken"] == 1


CATCHING = """
stepfast: 1
workflow: flow
steps:
  - id: try
    use: ai.refuse
    retry: false
    catch:
      - {errors: [KeyError], do: [{id: other, set: other}]}
      - {errors: [PermissionError], do: [{id: told, set: "told: ${ error.message }"}]}
"""


async def test_a_failure_is_caught_by_its_name(app):
    assert await result_of(app, CATCHING) == "told: not this one"


PARTIAL = """
stepfast: 1
workflow: flow
steps:
  - {id: bad, use: ai.refuse, retry: false, on_failure: continue}
  - {id: good, set: 1}
  - {id: after, needs: [good], set: "${ steps.bad.failed ? steps.bad.error.type : '' }"}
output: "${ steps.after.output }"
"""


async def test_a_run_that_goes_on_after_a_failure_is_partial(app):
    async with app:
        await app.register(PARTIAL)
        run = await app.start("flow")
        assert await run.result(timeout=30) == "PermissionError"
        assert (await run.info()).state is RunState.PARTIAL


LOOPING = """
stepfast: 1
workflow: flow
steps:
  - {id: count, while: {when: "${ output == null || output < 5 }"}, set: "${ output == null ? 1 : output + 1 }"}
  - id: both
    parallel:
      - {id: left, set: "${ steps.count.output }"}
      - {id: right, fail: no}
    join: settled
output: {count: "${ steps.count.output }", results: "${ steps.both.output.results }",
         failed: "${ steps.both.output.failed.map(f, f.key) }"}
"""


async def test_loops_and_branches_run(app):
    assert await result_of(app, LOOPING) == {"count": 5, "results": {"left": 5}, "failed": ["right"]}


ASSETS = """
stepfast: 1
workflow: flow
inputs:
  contract: {kind: asset, type: text/plain}
  all: {kind: collection, of: contracts}
  tagged: {kind: query, from: assets, where: "${ item.tags.exists(t, t == 'clause') }"}
  key: {schema: {type: string}}
steps:
  - {id: a, set: "${ [inputs.contract.id, inputs.contract.version, size(inputs.all), inputs.key] }"}
  - {id: b, each: "${ inputs.tagged }", as: one, key: "${ one.id }", set: "${ one.uri }"}
output: {first: "${ steps.a.output }", found: "${ steps.b.output.results }"}
"""


async def test_assets_are_found_when_the_run_starts(app):
    async with app:
        await app.assets.put("text", id="a", media_type="text/plain")
        await app.assets.put("text", id="b", media_type="text/plain", tags=["clause"])
        await app.assets.collect("contracts", ["a", "b"])
        await app.register(ASSETS)
        run = await app.start("flow", contract="a", key="order-1", arguments={"key": "mine"})
        result = await run.result(timeout=30)
    assert result == {"first": ["a", 1, 2, "mine"], "found": ["asset:b@1"]}


async def test_assets_that_are_not_there_are_told_with_all_else_that_does_not_fit(app):
    async with app:
        await app.register(ASSETS)
        with pytest.raises(Invalid) as raised:
            await app.start("flow", contract="nothing", arguments={"key": 5})
        assert list(await app.runs()) == []
    assert str(raised.value).splitlines() == [
        "The inputs of workflow 'flow' do not fit:",
        "all: collection 'contracts' does not exist",
        "contract: asset 'nothing' does not exist",
        "key: 5 is not of type 'string'",
    ]

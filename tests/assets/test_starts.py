"""Inputs that are found at the start, wherever a run comes from: one start, many, a file, a parent."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Graph, Invalid, RunFailed, Start, Stepfast, load_template
from stepfast.kernel.errors import KeyReused, WorkflowNotFound
from stepfast.parts import Parts
from stepfast.testing import Engine, crash_points, engine
from stepfast.worker.learning import Learner
from stepfast.workflows.codec import digest
from stepfast.workflows.plans import children
from tests.faults.test_crash_points import emptied
from tests.support.apps import QUICK

CHILD = """
stepfast: 1
workflow: child
inputs:
  contract: {kind: asset, type: text/plain}
  clauses: {kind: collection, of: clauses}
  marked: {kind: query, from: assets, where: "${ item.tags.exists(t, t == 'marked') }"}
  rubric: {default: standard}
steps:
  - {id: all, set: "${ [inputs.contract.uri] + inputs.clauses.map(c, c.uri) + inputs.marked.map(m, m.id) }"}
output: "${ steps.all.output }"
"""

PARENT = """
stepfast: 1
workflow: parent
inputs: {asset: {}}
steps:
  - {id: kid, run: child, with: {contract: "${ inputs.asset }"}}
output: "${ steps.kid.output }"
"""

FOUND = ["asset:contract@1", "asset:clause@1", "picture"]


@pytest.fixture
def app(database: str) -> Stepfast:
    return Stepfast(database, workflows=[], worker=QUICK)


async def stocked(app: Stepfast, tenant: str | None = None) -> None:
    """What a tenant has to be found."""
    await app.assets.put("Payment in 30 days.", "contract", tenant=tenant)
    await app.assets.put("1.", "clause", tenant=tenant)
    await app.assets.put(b"x", "picture", media_type="image/png", tags=["marked"], tenant=tenant)
    await app.assets.collect("clauses", ["clause"], tenant=tenant)


async def test_each_of_many_starts_finds_its_inputs_or_is_refused_by_itself(app):
    async with app:
        await stocked(app)
        await app.register(CHILD)
        starts = [Start("child", contract=name) for name in ("contract", "gone", "contract")]
        answers = await app.start_many(starts)
        assert [answer.error is None for answer in answers] == [True, False, True]
        assert "contract: asset 'gone' does not exist" in str(answers[1].error)
        assert [await answer.run.result(timeout=30) for answer in answers if answer.run] == [FOUND, FOUND]


async def test_many_starts_look_among_their_own_tenant_s_assets(app):
    async with app:
        await stocked(app, "acme")
        for tenant in ("acme", "bolt"):
            await app.register(CHILD, tenant=tenant)
        starts = [Start("child", contract="contract", tenant=tenant) for tenant in ("acme", "bolt")]
        assert [answer.error is None for answer in await app.start_many(starts)] == [True, False]


async def test_a_key_is_known_by_what_was_given_also_when_assets_have_moved_on(app):
    async with app:
        await stocked(app)
        await app.register(CHILD)
        first = await app.start("child", contract="contract", key="k")
        await app.assets.put("Payment in 14 days.", "contract")
        again = await app.start("child", contract="contract", rubric="standard", key="k")
        (many,) = await app.start_many([Start("child", contract="contract", key="k")])
        assert (again.id, many.run.id if many.run else None, many.is_new) == (first.id, first.id, False)
        assert await again.result(timeout=30) == FOUND
        with pytest.raises(KeyReused):
            await app.start("child", contract="contract@1", key="k")


async def test_a_child_of_a_template_finds_its_inputs(app):
    async with app:
        await stocked(app)
        await app.register(CHILD)
        await app.register(PARENT)
        run = await app.start("parent", asset="contract")
        assert await run.result(timeout=30) == FOUND


async def test_a_child_whose_input_is_not_found_fails_its_step_with_what_is_missing(app):
    async with app:
        await stocked(app)
        await app.register(CHILD)
        await app.register(PARENT)
        run = await app.start("parent", asset="gone")
        with pytest.raises(RunFailed) as raised:
            await run.result(timeout=30)
        assert isinstance(raised.value.__cause__, Invalid)
        assert "contract: asset 'gone' does not exist" in str(raised.value.__cause__)
        await app.assets.put("found", "gone")
        await run.retry()
        assert (await run.result(timeout=30))[0] == "asset:gone@1"


def graph_over(name: str) -> Graph[str, Any]:
    graph: Graph[str, Any] = Graph("over", input=str)
    graph.child(name, id="kid", contract=graph.input)
    return graph


async def test_a_graph_finds_what_the_tenant_of_its_run_has_registered(database):
    graph = graph_over("child")
    async with Stepfast(database, workflows=[graph], worker=QUICK) as app:
        await stocked(app, "acme")
        await app.register(CHILD, tenant="acme")
        run = await app.start(graph, "contract", tenant="acme")
        assert await run.result(timeout=30) == FOUND


async def test_a_child_that_another_tenant_has_registered_is_not_found_and_named(database):
    graph = graph_over("child")
    async with Stepfast(database, workflows=[graph], worker=QUICK) as app:
        await app.register(CHILD, tenant="acme")
        run = await app.start(graph, "contract", tenant="bolt")
        with pytest.raises(RunFailed) as raised:
            await run.result(timeout=30)
        assert isinstance(raised.value.__cause__, WorkflowNotFound)
        assert "Workflow 'child' is not known here" in str(raised.value.__cause__)
        assert "tenant 'bolt'" in str(raised.value.__cause__)


async def unheard_of(database: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The result of a run whose child was registered by another process, and of which nobody here was told."""
    monkeypatch.setattr(Parts, "learn_soon", lambda parts: None)
    monkeypatch.setattr(Learner, "has_to_learn", lambda learner, newest: False)
    graph = graph_over("child")
    async with Stepfast(database, workflows=[graph], worker=QUICK) as app:
        async with Stepfast(database, workflows=[], worker=False) as other:
            await stocked(other)
            await other.register(CHILD)
        run = await app.start(graph, "contract")
        return await run.result(timeout=30)


async def test_a_child_that_was_registered_a_moment_ago_is_found(database, monkeypatch):
    assert await unheard_of(database, monkeypatch) == FOUND


async def test_the_broken_twin_that_does_not_ask_the_store_does_not_find_it(database, monkeypatch):
    async def only_here(self: Any) -> Any:
        return self._find()

    monkeypatch.setattr(children.NamedChildCall, "_found", only_here)
    with pytest.raises(RunFailed, match="not known here"):
        await unheard_of(database, monkeypatch)


NAPPING = """
stepfast: 1
workflow: napping
inputs: {contract: {kind: asset}}
steps:
  - {id: nap, sleep: 1h}
  - {id: told, needs: [nap], set: "${ inputs.contract.uri }"}
output: "${ steps.told.output }"
"""

MAKING = """
stepfast: 1
workflow: making
steps:
  - {id: make, set: text, writes: {asset: contract}}
  - {id: kid, run: napping, needs: [make], with: {contract: contract}}
output: "${ steps.kid.output }"
"""

TWO: list[Any] = [load_template(NAPPING), load_template(MAKING)]


async def nap(opened: Engine) -> Any:
    run = await opened.start("making")
    await opened.run_until_idle()
    await opened.insist(lambda: opened.app.assets.put("other text", "contract", key="moved on"))
    opened.clock.advance(3_600)
    result = await opened.result(run)
    return result, sorted(view.workflow for view in await opened.app.runs())


@pytest.mark.timeout(600)
async def test_a_child_is_started_once_with_what_was_found_wherever_its_parent_dies(database):
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}

    async def as_expected(opened: Engine) -> None:
        assert await nap(opened) == ("asset:contract@1", ["making", "napping"])

    await crash_points(as_expected, workflows=TWO, every=1 if is_sqlite else 5, **databases)


async def test_the_broken_twin_that_knows_a_child_by_what_was_found_does_not_know_it_again(monkeypatch):
    find_and_open = children.NamedChildCall._find_and_open

    async def told_by_what_was_found(self: Any) -> None:
        input_of = self._input_of

        async def noting(workflow: Any) -> str:
            self.input = await input_of(workflow)
            self.asked.digest = digest(self.input)
            return str(self.input)

        self._input_of = noting
        await find_and_open(self)

    monkeypatch.setattr(children.NamedChildCall, "_find_and_open", told_by_what_was_found)
    async with engine(workflows=TWO, patience="5s") as opened:
        with pytest.raises(AssertionError, match="other arguments"):
            await nap(opened)


EVENT = """
stepfast: 1
workflow: flow
inputs:
  upload:
    kind: event
    type: com.acme.uploaded
    schema: {type: object, required: [file], properties: {file: {type: string}}}
  size: {kind: payload, schema: {type: integer, minimum: 1}, default: 3}
steps: [{id: told, set: "${ inputs.upload.data.file } ${ inputs.upload.type } ${ inputs.size }"}]
"""


async def test_an_event_is_seen_whole_and_a_payload_by_its_default(app):
    async with app:
        event = {"type": "com.acme.uploaded", "id": "1", "data": {"file": "a.pdf"}}
        run = await app.start(load_template(EVENT), upload=event)
        assert await run.result(timeout=30) == "a.pdf com.acme.uploaded 3"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"upload": {"type": "other", "data": {"file": "x"}}}, "upload: it is an event of type 'other'"),
        ({"upload": {"data": {"file": "x"}}}, "upload: it is {.*; give an event"),
        ({"upload": "a.pdf"}, "upload: it is 'a.pdf'; give an event"),
        ({"upload": {"type": "com.acme.uploaded", "data": {}}}, "upload: 'file' is a required property"),
        ({"upload": {"type": "com.acme.uploaded", "data": {"file": "x"}}, "size": 0}, "size: 0 is less than"),
        ({}, "upload: nothing is given"),
    ],
)
async def test_events_and_payloads_that_do_not_fit_are_refused_before_anything_is_stored(app, given, complaint):
    async with app:
        with pytest.raises(Invalid, match=complaint):
            await app.start(load_template(EVENT), **given)
        (answer,) = await app.start_many([Start(load_template(EVENT), **given)])
        assert isinstance(answer.error, Invalid)
        assert await app.runs() == []

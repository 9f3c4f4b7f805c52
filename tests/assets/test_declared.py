"""Assets that steps of templates say they read and write: given to the step, kept once, and told of by lineage."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from stepfast import Invalid, RunFailed, Stepfast, load_template, storage
from stepfast.kernel.assets import Role
from stepfast.kernel.errors import AssetNotFound
from stepfast.workflows.executors.domains import Domain
from stepfast.workflows.templates.problems import TemplateInvalid
from tests.support.apps import QUICK

CALLS: Counter[str] = Counter()

docs = Domain("docs")


@docs.step("summarise")
async def summarise(assets: list[dict[str, Any]]) -> str:
    CALLS["summarise"] += 1
    return (await storage.read_asset(assets[0])).decode()[:7]


@docs.step("shout")
async def shout(text: str) -> dict[str, str]:
    CALLS["shout"] += 1
    return {"text": text.upper()}


@docs.step("tries")
async def tries() -> str:
    CALLS["tries"] += 1
    if CALLS["tries"] < 3:
        raise ValueError("not yet")
    return "done"


@pytest.fixture(autouse=True)
def fresh_counts():
    CALLS.clear()


@pytest.fixture
def app(database: str) -> Stepfast:
    return Stepfast(database, workflows=[], worker=QUICK, executors=[docs])


def flow(steps: str, rest: str = "") -> str:
    return f"stepfast: 1\nworkflow: flow\n{rest}\nsteps:\n{steps}"


async def ended(app: Stepfast, text: str, **inputs: Any) -> tuple[Any, Any]:
    """A run of a template and its result."""
    await app.register(text)
    run = await app.start("flow", **inputs)
    return run, await run.result(timeout=30)


def told(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [(row.generation, row.step, row.role.value, row.asset_id, row.version, row.wanted_id) for row in rows]


SUMMARY = flow(
    """
  - id: summarise
    use: docs.summarise
    reads: {asset: "${ inputs.contract.uri }", type: text/*}
    writes: {asset: summary, tags: [made], metadata: {of: "${ assets[0].id }"}}
output: {text: "${ steps.summarise.output }", asset: "${ steps.summarise.assets[0].uri }"}
""",
    "inputs: {contract: {kind: asset}}",
)


async def test_a_step_is_given_what_it_reads_and_what_it_gives_becomes_an_asset(app):
    async with app:
        await app.assets.put("Payment in 30 days.", "contract")
        _, result = await ended(app, SUMMARY, contract="contract")
        assert result == {"text": "Payment", "asset": "asset:summary@1"}
        made = await app.assets.get("summary")
        assert await app.assets.read("summary") == b"Payment"
        assert (made.media_type, made.tags, made.metadata) == ("text/plain", ("made",), {"of": "contract"})


async def test_an_asset_that_was_made_knows_run_step_attempt_and_what_it_is_made_of(app):
    async with app:
        await app.assets.put("Payment in 30 days.", "contract", tenant="acme")
        await app.register(SUMMARY, tenant="acme")
        run = await app.start("flow", contract="contract", tenant="acme", actor="ann")
        await run.result(timeout=30)
        made = await app.assets.get("summary", tenant="acme")
        assert (made.run_id, made.generation, made.step, made.attempt) == (run.id, 1, "summarise#1", 1)
        assert (made.inputs, made.actor) == (("asset:contract@1",), "ann")
        assert told(await app.assets.lineage(run_id=run.id, tenant="acme")) == [
            (1, "summarise#1", "read", "contract", 1, "contract"),
            (1, "summarise#1", "write", "summary", 1, "summary"),
        ]


async def test_a_rerun_leaves_what_was_written_alone_and_lineage_has_both(app):
    async with app:
        await app.assets.put("Payment in 30 days.", "contract")
        run, _ = await ended(app, SUMMARY, contract="contract")
        await run.rerun()
        assert (await run.result(timeout=30))["asset"] == "asset:summary-2@1"
        assert await app.assets.read("summary") == await app.assets.read("summary-2") == b"Payment"
        written = [row for row in await app.assets.lineage(run_id=run.id) if row.role is Role.WRITE]
        assert told(written) == [
            (1, "summarise#1", "write", "summary", 1, "summary"),
            (2, "summarise#1", "write", "summary-2", 1, "summary"),
        ]


READING = flow("  - {id: summarise, use: docs.summarise, reads: {asset: contract}, writes: {asset: summary}}")


async def test_what_a_step_reads_is_looked_up_when_it_is_done_and_a_rerun_reads_the_newest(app):
    async with app:
        await app.assets.put("Payment in 30 days.", "contract")
        run, result = await ended(app, READING)
        assert result == "Payment"
        await app.assets.put("Refunds never.", "contract")
        await run.rerun()
        assert await run.result(timeout=30) == "Refunds"
        assert (await app.assets.get("summary")).inputs == ("asset:contract@1",)
        assert (await app.assets.get("summary-2")).inputs == ("asset:contract@2",)


async def test_the_attempt_that_made_an_asset_is_told(app):
    async with app:
        steps = "  - {id: tries, use: docs.tries, retry: {attempts: 3, base: 1ms}, writes: {asset: it}}"
        await ended(app, flow(steps))
        assert (await app.assets.get("it")).attempt == 3
        (row,) = await app.assets.lineage("it")
        assert row.attempt == 3


async def test_outputs_that_are_no_text_are_written_as_json(app):
    async with app:
        steps = "  - {id: shout, use: docs.shout, with: {text: hey}, writes: {asset: loud}}"
        await ended(app, flow(steps))
        assert (await app.assets.get("loud")).media_type == "application/json"
        assert json.loads(await app.assets.read("loud")) == {"text": "HEY"}


async def test_a_part_of_the_output_can_be_written_under_a_type_of_its_own(app):
    async with app:
        writes = 'writes: {asset: "loud/${ run.id }", content: "${ output.text }!", type: text/markdown}'
        run, _ = await ended(app, flow(f"  - {{id: shout, use: docs.shout, with: {{text: hey}}, {writes}}}"))
        made = await app.assets.get(f"loud/{run.id}")
        assert (made.media_type, await app.assets.read(made.id)) == ("text/markdown", b"HEY!")


async def test_items_write_assets_of_their_own(app):
    async with app:
        steps = """
  - id: shout
    each: "${ inputs.words }"
    as: word
    key: "${ word }"
    use: docs.shout
    with: {text: "${ word }"}
    writes: {asset: "loud-${ word }"}
"""
        run, _ = await ended(app, flow(steps, "inputs: {words: {}}"), words=["a", "b"])
        assert [asset.id for asset in await app.assets.list()] == ["loud-a", "loud-b"]
        assert {row.step for row in await app.assets.lineage(run_id=run.id)} == {"shout[a]/shout#1", "shout[b]/shout#1"}


async def test_a_step_that_a_queue_takes_reads_and_writes_too(app):
    async with app:
        await app.assets.put("Payment in 30 days.", "contract")
        steps = (
            "  - {id: summarise, use: docs.summarise, queue: slow, reads: {asset: contract}, writes: {asset: summary}}"
        )
        async with app.worker(queues=["slow"]):
            run, result = await ended(app, flow(steps))
        assert result == "Payment"
        made = await app.assets.get("summary")
        assert (made.run_id, made.step, made.inputs) == (run.id, "summarise#1", ("asset:contract@1",))


async def test_steps_of_any_sort_write_what_they_give(app):
    async with app:
        steps = """
  - {id: given, set: [1, 2], writes: {asset: numbers}}
  - id: both
    do: [{id: first, set: a}, {id: second, set: "${ steps.first.output }b"}]
    writes: {asset: pair}
"""
        await ended(app, flow(steps))
        assert (await app.assets.read("numbers"), await app.assets.read("pair")) == (b"[1,2]", b"ab")


async def test_a_step_that_is_skipped_neither_reads_nor_writes(app):
    async with app:
        steps = "  - {id: a, when: '${ false }', use: docs.summarise, reads: {asset: gone}, writes: {asset: it}}"
        run, _ = await ended(app, flow(steps))
        assert await app.assets.list() == []
        assert await app.assets.lineage(run_id=run.id) == []


async def test_an_asset_that_is_not_there_fails_the_step_before_its_body(app):
    async with app:
        with pytest.raises(RunFailed) as raised:
            await ended(app, READING)
        assert isinstance(raised.value.__cause__, AssetNotFound)
        assert CALLS == {}


async def test_an_asset_of_another_type_than_wanted_fails_the_step(app):
    async with app:
        await app.assets.put(b"x", "contract", media_type="image/png")
        with pytest.raises(RunFailed) as raised:
            await ended(app, flow("  - {id: a, use: docs.summarise, reads: {asset: contract, type: text/*}}"))
        assert isinstance(raised.value.__cause__, Invalid)
        assert "is image/png; wanted is text/*" in str(raised.value.__cause__)


async def test_another_tenant_s_asset_is_not_read(app):
    async with app:
        await app.assets.put("Payment in 30 days.", "contract", tenant="bolt")
        with pytest.raises(RunFailed) as raised:
            await ended(app, READING)
        assert isinstance(raised.value.__cause__, AssetNotFound)


async def test_a_name_that_no_asset_can_have_fails_the_step_and_can_be_caught(app):
    async with app:
        steps = """
  - id: shout
    use: docs.shout
    with: {text: hey}
    writes: {asset: "../${ inputs.name }"}
    catch: [{do: [{id: instead, set: "${ error.code }"}]}]
"""
        _, result = await ended(app, flow(steps, "inputs: {name: {}}"), name="x")
        assert result == "E-VAL-001"
        assert await app.assets.list() == []


async def test_what_later_steps_read_of_a_written_asset_is_the_id_that_it_got(app):
    async with app:
        await app.assets.put("taken", "loud")
        steps = """
  - {id: shout, use: docs.shout, with: {text: hey}, writes: {asset: loud}}
  - {id: told, set: "${ steps.shout.assets[0].id }"}
"""
        _, result = await ended(app, flow(steps))
        assert result == "loud-2"


async def test_a_rerun_from_a_step_writes_anew_what_that_step_writes_and_nothing_else(app):
    async with app:
        steps = """
  - {id: given, set: hey, writes: {asset: quiet}}
  - {id: shout, use: docs.shout, with: {text: "${ steps.given.output }"}, writes: {asset: loud}}
"""
        run, _ = await ended(app, flow(steps))
        await run.rerun(from_step="shout")
        await run.result(timeout=30)
        assert [asset.id for asset in await app.assets.list()] == ["loud", "loud-2", "quiet"]
        assert [(row.generation, row.asset_id) for row in await app.assets.lineage("loud")] == [
            (1, "loud"),
            (2, "loud-2"),
        ]


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ("- {id: a, set: '${ assets[0].id }'}", "`assets` is not known here (It is known in a step with `reads`"),
        ("- {id: a, set: 1}\n- {id: b, set: '${ steps.a.assets }'}", "a step has no 'assets'"),
        ("- {id: a, set: 1, reads: {asset: x, content: y}}", "content"),
        ("- {id: a, set: '${ assets[0].name }', reads: {asset: x}}", "name"),
    ],
)
def test_what_cannot_be_read_or_written_is_told_before_it_is_registered(steps, complaint):
    with pytest.raises(TemplateInvalid) as raised:
        load_template(f"stepfast: 1\nworkflow: flow\nsteps:\n{steps}\n")
    assert complaint in str(raised.value)


def test_an_executor_that_needs_assets_needs_a_step_that_reads_some():
    executors = Stepfast(workflows=[], worker=False, executors=[docs]).executors
    load_template(READING, executors)
    with pytest.raises(TemplateInvalid, match=r"docs\.summarise needs 'assets', which is not given"):
        load_template(flow("  - {id: a, use: docs.summarise}"), executors)

"""S3's scenarios over templates: registered, run, called off, tried again, decided by people, and found again.

All eight of them: registration and rejection, dependency order, queue, cancel, resume denial and retry, partial
completion, review decisions, failed-step items, reconstruction, and reload of every state.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import IllegalMove, Run, RunCancelled, RunFailed, RunState, Stepfast, StepState
from stepfast.kernel.errors import InvalidDefinition
from stepfast.testing import Engine, engine
from stepfast.workflows.templates.problems import TemplateInvalid
from tests.replacing.desk import desk, noting, started, state_of, states_of, template


@pytest.fixture(autouse=True)
def fresh_desk() -> None:
    desk.clear()


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    async with engine(database=database, workflows=[]) as opened:
        yield opened


# Registration and rejection


async def test_a_template_is_registered_with_its_identity_and_who_did_it(opened):
    stands = await opened.app.register(template(noting("read"), metadata={"owner": "legal"}), actor="ann")
    assert (stands.name, stands.version, stands.kind, stands.actor) == ("evaluation", 1, "template", "ann")
    kept = json.loads((await opened.app.workflows.get("evaluation")).content or "")
    assert kept["metadata"] == {"owner": "legal"}


async def test_a_registration_is_told_as_an_event(opened):
    heard: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue()
    opened.app.on("template_registered")(lambda event: heard.put_nowait((event.run_id, event.actor)))
    stands = await opened.app.register(template(noting("read")), actor="ann")
    assert await asyncio.wait_for(heard.get(), 30) == (stands.definition_id, "ann")


BROKEN = template(
    noting("read"),
    noting("read"),
    noting("parse", needs=["raed"]),
    noting("first", needs=["second"]),
    noting("second", needs=["first"]),
    {"id": "fetch", "use": "service.fetch"},
    {"id": "sum", "set": "${ steps.total.output }"},
    noting("side", on_failure="ignore"),
    {"id": "both", "parallel": [noting("left"), noting("right", needs=["left"])]},
    {"id": "score", "use": "service.score", "with": {"text": "x"}, "config": {"model": "small"}},
)


async def test_a_template_is_refused_with_all_that_is_wrong_with_it_at_once(opened):
    with pytest.raises(TemplateInvalid) as refused:
        await opened.app.register(BROKEN)
    assert refused.value.code == "E-VAL-002"
    assert sorted((each.pointer, each.code) for each in refused.value.problems) == [
        ("/steps/1/id", "E-VAL-002"),
        ("/steps/2/needs/0", "E-VAL-002"),
        ("/steps/3/id", "E-VAL-002"),
        ("/steps/5/use", "E-STEP-004"),
        ("/steps/6/set", "E-VAL-002"),
        ("/steps/7/on_failure", "E-VAL-002"),
        ("/steps/8/parallel/1/id", "E-VAL-002"),
        ("/steps/9/config", "E-VAL-002"),
    ]


async def test_a_refused_template_is_not_there(opened):
    with pytest.raises(InvalidDefinition):
        await opened.app.register(BROKEN)
    assert await opened.app.workflows.list() == []


async def test_other_content_under_a_registered_version_is_refused(opened):
    await opened.app.register(template(noting("read")))
    with pytest.raises(InvalidDefinition, match="version 2"):
        await opened.app.register(template(noting("write")))
    assert "read" in ((await opened.app.workflows.get("evaluation")).content or "")


# Dependency order


async def test_steps_are_done_in_the_order_of_their_dependencies_however_they_are_written(opened):
    run = await started(
        opened,
        noting("publish", needs=["check"]),
        {"id": "check", "use": "service.note", "with": {"name": "check", "after": "${ steps.parse.output }"}},
        noting("parse", needs=["read"]),
        noting("read"),
    )
    assert await state_of(run) is RunState.COMPLETED
    assert desk.done == ["read", "parse", "check", "publish"]


async def test_steps_without_a_tie_are_under_way_together(opened):
    left, right = desk.hold("left"), desk.hold("right")
    await opened.app.register(template(noting("left"), noting("right"), noting("last", needs=["left", "right"])))
    run = await opened.start("evaluation")
    work = asyncio.create_task(opened.run_until_idle())
    await asyncio.gather(desk.begun["left"].wait(), desk.begun["right"].wait())
    right.set()
    left.set()
    await work
    assert await state_of(run) is RunState.COMPLETED
    assert desk.done[-1] == "last"


# Queue, cancel, resume denied, retry


async def test_a_started_run_is_queued_and_does_nothing_before_a_worker_takes_it(opened):
    await opened.app.register(template(noting("read")))
    run = await opened.start("evaluation", actor="ann", correlation_id="case-7")
    info = await run.info()
    assert (info.state, info.actor, info.correlation_id) == (RunState.PENDING, "ann", "case-7")
    assert desk.done == []
    await opened.run_until_idle()
    assert desk.done == ["read"]


async def test_a_queued_run_that_is_cancelled_does_nothing(opened):
    await opened.app.register(template(noting("read")))
    run = await opened.start("evaluation")
    await run.cancel(actor="ann", reason="not wanted any more")
    await opened.run_until_idle()
    assert (await state_of(run), desk.done) == (RunState.CANCELLED, [])
    with pytest.raises(RunCancelled, match="not wanted any more"):
        await run


async def test_a_cancelled_run_cannot_be_resumed_and_stays_as_it_is(opened):
    run = await started(opened, noting("read"), {"id": "wait", "receive": "go", "needs": ["read"]})
    await run.cancel()
    before = (await run.info(), await run.history())
    with pytest.raises(IllegalMove, match="is cancelled") as refused:
        await run.resume()
    assert refused.value.code == "E-RUN-003"
    assert (await run.info(), await run.history()) == before


@pytest.mark.parametrize("command", ["resume", "retry"])
async def test_a_completed_run_can_be_neither_resumed_nor_retried(opened, command):
    run = await started(opened, noting("read"))
    with pytest.raises(IllegalMove, match="is completed"):
        await getattr(run, command)()
    assert await state_of(run) is RunState.COMPLETED


async def test_a_retry_does_the_failed_step_again_and_nothing_that_was_done(opened):
    desk.broken.add("check")
    run = await started(opened, noting("read"), noting("check", needs=["read"]), noting("publish", needs=["check"]))
    assert await state_of(run) is RunState.FAILED
    desk.broken.clear()
    await run.retry(actor="ann")
    await opened.run_until_idle()
    assert await state_of(run) is RunState.COMPLETED
    assert desk.done == ["read", "check", "check", "publish"]


async def test_a_retry_keeps_what_the_failed_attempt_has_left(opened):
    desk.broken.add("check")
    run = await started(opened, noting("check"))
    desk.broken.clear()
    await run.retry()
    await opened.run_until_idle()
    kept = [(step.state, step.superseded_by) for step in await run.steps()]
    assert kept == [(StepState.FAILED, 2), (StepState.COMPLETED, None)]


async def test_a_repeated_run_leaves_its_earlier_output_and_lineage_has_both(opened):
    run = await started(
        opened, {"id": "write", "use": "service.write", "with": {"text": "${ string(run.generation) }"}}
    )
    await run.rerun()
    await opened.run_until_idle()
    assert await run == "report-2"
    assert await opened.app.assets.read("report") == b"1"
    lineage = await opened.app.assets.lineage(run_id=run.id)
    assert [(row.generation, row.asset_id, row.wanted_id) for row in lineage] == [
        (1, "report", "report"),
        (2, "report-2", "report"),
    ]


# Partial completion


async def test_a_run_whose_step_may_fail_ends_in_part_with_what_the_others_gave(opened):
    desk.broken.add("mail")
    run = await started(opened, noting("read"), noting("mail", on_failure="continue"), output="${ steps.read.output }")
    assert await state_of(run) is RunState.PARTIAL
    assert await run == "read"
    assert await states_of(run) == {
        "read": StepState.COMPLETED,
        "mail": StepState.FAILED,
        "mail.borne": StepState.COMPLETED,
    }


async def test_what_depends_on_a_failed_step_is_skipped_where_the_template_says_so(opened):
    desk.broken.add("mail")
    run = await started(
        opened,
        noting("read"),
        noting("mail", on_failure="skip_dependents"),
        noting("file", needs=["mail"]),
        noting("archive", needs=["file"]),
    )
    assert await state_of(run) is RunState.PARTIAL
    assert await states_of(run) == {
        "read": StepState.COMPLETED,
        "mail": StepState.FAILED,
        "mail.borne": StepState.COMPLETED,
        "file": StepState.SKIPPED,
        "archive": StepState.SKIPPED,
    }


async def test_a_retry_of_a_partial_run_does_what_failed_and_what_was_skipped_for_it(opened):
    desk.broken.add("mail")
    run = await started(
        opened, noting("read"), noting("mail", on_failure="skip_dependents"), noting("file", needs=["mail"])
    )
    desk.broken.clear()
    await run.retry()
    await opened.run_until_idle()
    assert await state_of(run) is RunState.COMPLETED
    assert sorted(desk.done) == ["file", "mail", "mail", "read"]


# Review decisions

SCORED = {
    "id": "score",
    "use": "service.score",
    "with": {"text": "long"},
    "gate": {"after": {"when": "${ output.confidence < 0.6 }", "reason": "low_confidence", "role": "analyst"}},
}
PUBLISHED = {"id": "publish", "use": "service.note", "with": {"name": "publish", "after": "${ steps.score.output }"}}


async def in_review(opened: Engine, **scored: Any) -> Run[Any]:
    """A run that waits for a person to look at its score."""
    run = await started(opened, {**SCORED, **scored}, PUBLISHED, output="${ steps.score.output.score }")
    assert await state_of(run) is RunState.WAITING
    assert desk.done == ["score"]
    return run


async def decided(opened: Engine, run: Run[Any], verdict: str, value: Any = None, **more: Any) -> None:
    await opened.decide(run, verdict, value, actor="ann", role="analyst", **more)
    await opened.run_until_idle()


async def test_a_low_confidence_is_an_item_for_a_person(opened):
    run = await in_review(opened)
    (item,) = await opened.app.exceptions.list(run_id=run.id)
    assert (item.kind, item.step) == ("low_confidence", "score/ask#1")


async def test_an_output_that_is_marked_for_review_is_an_item_for_a_person(opened):
    run = await started(opened, {"id": "mark", "use": "service.mark"})
    (item,) = await opened.app.exceptions.list(run_id=run.id)
    assert (await state_of(run), item.kind) == (RunState.WAITING, "review_required")


async def test_a_policy_that_refuses_an_output_is_an_item_for_a_person(opened):
    policy = {"id": "no-names", "check": "service.allow", "on": ["read"], "conflict": "review"}
    run = await started(opened, noting("read"), policies=[policy])
    (item,) = await opened.app.exceptions.list(run_id=run.id)
    assert (await state_of(run), item.kind) == (RunState.WAITING, "policy_conflict")


async def test_continue_lets_the_output_count(opened):
    run = await in_review(opened)
    await decided(opened, run, "continue")
    assert await run == 4
    assert desk.done == ["score", "publish"]


async def test_correct_puts_the_corrected_output_in_its_place(opened):
    run = await in_review(opened)
    await decided(opened, run, "correct", {"score": 9, "confidence": 1.0})
    assert await run == 9


async def test_retry_does_the_step_again(opened):
    run = await in_review(opened)
    await decided(opened, run, "retry")
    assert await run == 4
    assert desk.done == ["score", "score", "publish"]


async def test_reject_fails_the_step_and_with_it_the_run(opened):
    run = await in_review(opened)
    await decided(opened, run, "reject", note="made up")
    assert await state_of(run) is RunState.FAILED
    with pytest.raises(RunFailed, match="made up") as failed:
        await run
    assert getattr(failed.value.__cause__, "code", None) == "E-REV-006"


async def test_a_rejected_step_fails_as_the_template_says(opened):
    run = await started(opened, {**SCORED, "on_failure": "continue"}, PUBLISHED, output="done")
    await decided(opened, run, "reject")
    assert await state_of(run) is RunState.PARTIAL
    assert "publish" not in desk.done


async def test_escalate_asks_somebody_else_and_the_run_waits_on(opened):
    run = await in_review(opened)
    await decided(opened, run, "escalate", to="carol")
    (asked,) = await opened.reviews(run)
    assert (await state_of(run), asked.assignee) == (RunState.WAITING, "carol")
    (item,) = await opened.app.exceptions.list(assignee="carol")
    assert item.run_id == run.id


async def test_every_decision_is_told_in_the_history(opened):
    run = await in_review(opened)
    await decided(opened, run, "continue")
    told = [(event.type, event.actor) for event in await run.history() if event.type.startswith("review_")]
    assert told == [("review_requested", None), ("review_decided", "ann")]


# Failed-step items


async def test_a_failed_step_that_fails_its_run_is_an_item_that_names_it(opened):
    desk.broken.add("check")
    run = await started(opened, noting("read"), noting("check", needs=["read"]))
    (item,) = await opened.app.exceptions.list(kind="failed")
    assert (item.run_id, item.step) == (run.id, "check#1")
    assert "no connection" in item.title


async def test_a_retry_resolves_the_item(opened):
    desk.broken.add("check")
    run = await started(opened, noting("check"))
    desk.broken.clear()
    await run.retry()
    await opened.run_until_idle()
    assert await opened.app.exceptions.list() == []
    (item,) = await opened.app.exceptions.list(resolved=True)
    assert item.resolution is not None


async def test_an_item_is_assigned_and_put_aside_by_a_person(opened):
    desk.broken.add("check")
    await started(opened, noting("check"))
    (item,) = await opened.app.exceptions.list()
    await opened.app.exceptions.assign(item.id, "ben", actor="ann")
    assert [each.id for each in await opened.app.exceptions.list(assignee="ben")] == [item.id]
    await opened.app.exceptions.resolve(item.id, actor="ben", reason="the source is gone")
    assert await opened.app.exceptions.list() == []


async def test_a_step_whose_requirement_does_not_hold_is_an_item_that_a_person_frees(opened):
    run = await started(opened, noting("read"), noting("publish", require="${ steps.read.output == 'write' }"))
    (item,) = await opened.app.exceptions.list()
    assert (item.kind, item.step, desk.done) == ("blocked", "publish/ask#1", ["read"])
    await opened.decide(run, "continue", actor="ann")
    await opened.run_until_idle()
    assert (await state_of(run), desk.done) == (RunState.COMPLETED, ["read", "publish"])


# Reconstruction


async def test_a_run_is_reconstructed_in_one_call_with_its_template_values_and_decisions(opened):
    desk.broken.add("side")
    run = await started(opened, SCORED, noting("side", on_failure="continue"))
    await decided(opened, run, "continue", note="looks right")
    desk.broken.clear()
    found = await run.reconstruct()
    assert (found.run.state, found.state.state, found.differences) == (RunState.PARTIAL, RunState.PARTIAL, ())
    assert found.definition is not None
    assert json.loads(found.definition.content)["workflow"] == "evaluation"
    states = {step.call.address: step.state for step in found.steps}
    assert (states["score#1"], states["side#1"]) == (StepState.COMPLETED, StepState.FAILED)
    assert [(said.actor, said.verdict, said.note) for said in found.reviews[0].said] == [
        ("ann", "continue", "looks right")
    ]
    assert [item.kind for item in found.exceptions if item.resolved_at is None] == ["failed"]


async def test_a_run_is_reconstructed_as_of_every_event(opened):
    await opened.app.register(template(noting("read"), noting("parse", needs=["read"])))
    run = await opened.start("evaluation")
    await opened.run_until_idle()
    last = len(await run.history())
    states = [(await run.at(event)).state.state for event in range(1, last + 1)]
    assert list(dict.fromkeys(states)) == [RunState.PENDING, RunState.RUNNING, RunState.COMPLETED]


# Reload of every state


async def in_every_state(opened: Engine) -> dict[RunState, str]:
    """A run in each state but `running`, by the state."""
    app = opened.app
    for name, *steps in (
        ("plain", noting("read")),
        ("bears", noting("read"), noting("mail", on_failure="continue", needs=["read"])),
        ("breaks", noting("read"), noting("mail", needs=["read"])),
        ("asks", noting("read"), {"id": "ask", "review": "Publish?", "needs": ["read"]}),
    ):
        await app.register({**template(*steps), "workflow": name})
    desk.broken.add("mail")
    names = {
        RunState.COMPLETED: "plain",
        RunState.PARTIAL: "bears",
        RunState.FAILED: "breaks",
        RunState.WAITING: "asks",
        RunState.PAUSED: "asks",
        RunState.CANCELLED: "asks",
    }
    runs = {state: await opened.start(name) for state, name in names.items()}
    await opened.run_until_idle()
    await runs[RunState.PAUSED].pause()
    await runs[RunState.CANCELLED].cancel()
    runs[RunState.PENDING] = await opened.start("plain")
    return {state: run.id for state, run in runs.items()}


async def seen(app: Stepfast, run_ids: dict[RunState, str]) -> dict[RunState, Any]:
    """What an app knows of runs."""
    handles = {state: app.get(run_id) for state, run_id in run_ids.items()}
    return {state: (await run.info(), await run.steps(), await run.history()) for state, run in handles.items()}


async def test_a_second_app_sees_every_state_as_the_first_does(opened, database):
    runs = await in_every_state(opened)
    first = await seen(opened.app, runs)
    assert {state: facts[0].state for state, facts in first.items()} == {state: state for state in runs}
    async with Stepfast(database, workflows=[], worker=False) as second:
        assert await seen(second, runs) == first
        assert {view.run_id for view in await second.runs()} == set(runs.values())


async def lists_of(app: Stepfast) -> list[Any]:
    """What an app lists beside runs."""
    return [
        await app.workflows.list(),
        await app.reviews.list(state=None),
        await app.exceptions.list(resolved=True),
        await app.dead_letters.list(),
    ]


async def test_a_second_app_has_the_same_templates_reviews_items_and_dead_letters(opened, database):
    await in_every_state(opened)
    first = await lists_of(opened.app)
    assert [len(found) for found in first] == [4, 3, 5, 1]
    async with Stepfast(database, workflows=[], worker=False) as second:
        assert await lists_of(second) == first


async def test_a_second_app_sees_a_run_that_is_running(opened, database):
    release = desk.hold("read")
    await opened.app.register(template(noting("read")))
    run = await opened.start("evaluation")
    work = asyncio.create_task(opened.run_until_idle())
    await desk.begun["read"].wait()
    async with Stepfast(database, workflows=[], worker=False) as second:
        assert await state_of(second.get(run.id)) is RunState.RUNNING
    release.set()
    await work


async def test_after_a_restart_every_run_is_as_it_was_and_open_ones_go_on(database):
    async with engine(database=database, workflows=[]) as opened:
        runs = await in_every_state(opened)
    desk.broken.clear()
    async with engine(database=database, workflows=[]) as again:
        found = {state: (await again.info(run_id)).state for state, run_id in runs.items()}
        assert found == {state: state for state in runs}
        await again.app.get(runs[RunState.PAUSED]).resume()
        await again.app.get(runs[RunState.FAILED]).retry()
        for state in (RunState.WAITING, RunState.PAUSED):
            await again.decide(runs[state], "continue", actor="ann")
        await again.run_until_idle()
        ended = {state: (await again.info(run_id)).state for state, run_id in runs.items()}
    assert ended == dict.fromkeys(runs, RunState.COMPLETED) | {
        RunState.PARTIAL: RunState.PARTIAL,
        RunState.CANCELLED: RunState.CANCELLED,
    }

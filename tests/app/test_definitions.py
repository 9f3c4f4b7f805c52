"""Workflows as data: registered once for each version, learned by workers, and runs pinned to their content."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from stepfast import (
    Graph,
    NotFound,
    Retry,
    RunFailed,
    StageContext,
    Stepfast,
    definitions,
    step,
    workflow,
)
from stepfast.kernel.errors import InvalidDefinition, WorkflowNotFound
from stepfast.kernel.states import RunState
from stepfast.starts import Start
from stepfast.worker.learning import Learner
from stepfast.workflows.templates.loading import load_template
from tests.support.apps import QUICK


@step(name="text.shout")
def shout(text: str) -> str:
    return text.upper()


@step(name="text.whisper")
def whisper(text: str) -> str:
    return text.lower()


@step(name="text.refuse", retry=Retry(attempts=1))
def refusing(text: str) -> str:
    raise ValueError(text)


@workflow
async def plain(word: str) -> str:
    return word


def template(version: int = 1, use: str = "text.shout", name: str = "say") -> dict[str, Any]:
    return {
        "stepfast": 1,
        "workflow": name,
        "version": version,
        "inputs": {"word": {"kind": "payload", "schema": {"type": "string"}}},
        "steps": [{"id": "speak", "use": use, "with": {"text": "${ inputs.word }"}}],
        "output": "${ steps.speak.output }",
    }


def app_with(database: str, *executors: Any, worker: Any = QUICK, workflows: Any = ()) -> Stepfast:
    return Stepfast(database, workflows=workflows, worker=worker, executors=executors)


async def test_a_registered_template_is_started_by_its_name(database):
    async with app_with(database, shout) as app:
        await app.register(template())
        assert await (await app.start("say", word="hi")) == "HI"


async def test_what_another_tenant_has_registered_under_a_name_is_not_told(database):
    async with app_with(database, workflows=[plain]) as app:
        run = await app.start(plain, "hi", tenant="acme")
        await run.result(timeout="30s")
    async with app_with(database, shout) as app:
        await app.register(template(7, name="plain"), tenant="globex")
        assert await (await app.start("plain", word="hi", tenant="globex")) == "HI"
        # As far as acme can know, nobody here has its workflow.
        await app.get(run.id, tenant="acme").rerun(version=9)
        said = str(await app.get(run.id, tenant="acme").why())
        assert "No live worker has plain@9." in said
        assert "plain@7" not in said


async def test_a_start_by_name_is_of_the_newest_version(database):
    async with app_with(database, shout, whisper) as app:
        for content in (template(2, "text.whisper"), template(1)):
            await app.register(content)
        assert await (await app.start("say", word="Hi")) == "hi"


async def test_a_file_is_registered_with_who_did_it(database, tmp_path):
    file = tmp_path / "say.json"
    file.write_text(json.dumps(template()))
    async with app_with(database, shout) as app:
        stands = await app.register(file, actor="ada")
    assert (stands.name, stands.version, stands.kind, stands.actor) == ("say", 1, "template", "ada")


async def test_the_same_content_again_answers_the_same(database):
    async with app_with(database, shout) as app:
        first = await app.register(template(), actor="ada")
        assert await app.register(dict(reversed(template().items())), actor="bob") == first


async def test_other_content_under_a_version_is_refused_with_both_digests_and_the_next_version(database):
    async with app_with(database, shout, whisper) as app:
        first = await app.register(template())
        await app.register(template(4))
        with pytest.raises(InvalidDefinition, match="version 5") as refused:
            await app.register(template(use="text.whisper"))
        other = app.compiler.load(template(use="text.whisper"))
    assert refused.value.code == "E-VAL-002"
    assert first.digest in str(refused.value)
    assert other.digest in str(refused.value)


async def test_a_registration_is_heard_of(database):
    heard = []
    app = app_with(database, shout)
    app.on("template_registered")(lambda event: heard.append((event.run_id, event.actor)))
    async with app:
        stands = await app.register(template(), actor="ada")
    assert heard == [(stands.definition_id, "ada")]


async def test_a_function_cannot_be_registered(database):
    async with app_with(database) as app:
        with pytest.raises(InvalidDefinition, match="is a function"):
            await app.register(plain.workflow)


async def test_content_that_is_too_large_is_refused(database):
    async with app_with(database, shout) as app:
        with pytest.raises(InvalidDefinition, match="limit is 1,000,000"):
            await app.register({**template(), "description": "x" * 1_000_001})


async def test_a_tenants_template_is_started_by_that_tenant_alone(database):
    async with app_with(database, shout, whisper) as app:
        await app.register(template(), tenant="acme")
        await app.register(template(use="text.whisper"), tenant="globex")
        assert await (await app.start("say", word="Hi", tenant="acme")) == "HI"
        assert await (await app.start("say", word="Hi", tenant="globex")) == "hi"
        with pytest.raises(WorkflowNotFound, match="No workflow is named 'say'"):
            await app.start("say", word="Hi", tenant="initech")


async def test_many_starts_name_a_template_too(database):
    async with app_with(database, shout) as app:
        await app.register(template(), tenant="acme")
        answers = await app.start_many([Start("say", word="a", tenant="acme"), Start("say", word="b")])
        assert answers[0].run is not None
        assert await answers[0].run == "A"
        assert isinstance(answers[1].error, WorkflowNotFound)


async def test_a_run_tells_which_content_it_is_pinned_to(database):
    async with app_with(database, shout) as app:
        stands = await app.register(template())
        run = await app.start("say", word="hi")
        info = await run.info()
        assert (info.definition, info.code) == (stands.digest, f"say@1#{stands.digest[:12]}")
        function = await app.start(plain, "hi")
        assert (await function.info()).definition is None


async def test_a_worker_elsewhere_learns_of_what_is_registered_while_it_runs(database):
    async with app_with(database, shout), app_with(database, worker=False) as client:
        client.executors.register(shout)
        await client.register(template())
        run = await client.start("say", word="hi")
        assert await run.result(timeout="20s") == "HI"


async def test_a_worker_that_heard_no_hint_learns_by_its_upkeep(database, monkeypatch):
    async with app_with(database, shout) as app, app_with(database, shout, worker=False) as client:
        monkeypatch.setattr(app._open_parts(), "learn_soon", lambda: None)
        monkeypatch.setattr(client._open_parts()._hints, "send", lambda topic: None)
        await client.register(template())
        assert await (await client.start("say", word="hi")).result(timeout="20s") == "HI"


async def test_without_its_upkeep_a_worker_that_heard_no_hint_learns_nothing(database, monkeypatch):
    passes = asyncio.Semaphore(0)
    monkeypatch.setattr(Learner, "has_to_learn", lambda self, newest: passes.release())
    async with app_with(database, shout) as app, app_with(database, shout, worker=False) as client:
        monkeypatch.setattr(app._open_parts(), "learn_soon", lambda: None)
        monkeypatch.setattr(client._open_parts()._hints, "send", lambda topic: None)
        await client.register(template())
        run = await client.start("say", word="hi")
        for _ in range(3):
            await asyncio.wait_for(passes.acquire(), 20)
        assert (await run.info()).state is RunState.PENDING


async def test_a_worker_that_starts_later_knows_what_was_registered_before(database):
    async with app_with(database, shout, worker=False) as client:
        await client.register(template())
        run = await client.start("say", word="hi")
    async with app_with(database, shout) as app:
        assert await app.get(run.id).result(timeout="20s") == "HI"


async def test_why_names_the_executor_that_no_worker_has(database):
    async with app_with(database, shout, worker=False) as client:
        await client.register(template())
        run = await client.start("say", word="hi")
        async with app_with(database):
            assert "text.shout" in str(await run.why())
            assert "No live worker can execute say@1#" in str(await run.why())


async def test_what_could_not_be_compiled_is_executed_once_its_executor_is_there(database):
    async with app_with(database, shout, worker=False) as client:
        await client.register(template())
        run = await client.start("say", word="hi")
        async with app_with(database) as app:
            app.executors.register(shout)
            assert await app.get(run.id).result(timeout="20s") == "HI"


async def test_a_worker_with_other_content_under_that_version_leaves_a_run_alone(database):
    async with app_with(database, shout, whisper, worker=False) as client:
        await client.register(template(), tenant="acme")
        run = await client.start("say", word="Hi", tenant="acme")
        await client.register(template(use="text.whisper"), tenant="globex")
        async with app_with(database, whisper) as app:
            other = await client.start("say", word="Hi", tenant="globex")
            assert await other.result(timeout="20s") == "hi"
            assert (await run.info()).state is RunState.PENDING
            assert app.codes() == [(await other.info()).code]


async def test_a_rerun_in_another_version_is_pinned_to_its_content(database):
    async with app_with(database, shout, whisper) as app:
        await app.register(template())
        run = await app.start("say", word="Hi")
        assert await run == "HI"
        second = await app.register(template(2, "text.whisper"))
        await run.rerun(version=2)
        assert await run == "hi"
        assert (await run.info()).definition == second.digest


async def test_a_rerun_keeps_the_content_that_the_run_began_with(database):
    async with app_with(database, shout, whisper) as app:
        first = await app.register(template())
        run = await app.start("say", word="Hi")
        await run
        await app.register(template(2, "text.whisper"))
        await run.rerun()
        assert await run == "HI"
        assert (await run.info()).definition == first.digest


async def test_a_rerun_in_a_version_that_nobody_has_is_refused(database):
    async with app_with(database, shout) as app:
        await app.register(template())
        run = await app.start("say", word="Hi")
        await run
        with pytest.raises(NotFound, match="has no version 9") as refused:
            await run.rerun(version=9)
        assert (refused.value.code, (await run.info()).state) == ("E-VAL-006", RunState.COMPLETED)


async def test_a_dead_letter_is_replayed_in_another_version_that_is_pinned_to_its_content(database):
    async with app_with(database, shout, refusing) as app:
        await app.register(template(use="text.refuse"))
        run = await app.start("say", word="Hi")
        with pytest.raises(RunFailed):
            await run
        second = await app.register(template(2))
        await app.dead_letters.replay(run.id, version=2)
        assert await run == "HI"
        assert (await run.info()).definition == second.digest


def one_step(value: int) -> Graph[None, Any]:
    graph = Graph("counted")
    graph.set("number", value)
    return graph


async def test_a_graph_is_not_started_with_other_content_than_its_version_is_registered_with(database):
    async with app_with(database, workflows=[one_step(2)]) as app:
        await app.register(one_step(1))
        with pytest.raises(InvalidDefinition, match="give the new content version 2"):
            await app.start("counted")
        (answer,) = await app.start_many([Start("counted")])
        assert isinstance(answer.error, InvalidDefinition)


async def test_what_was_refused_is_not_what_its_name_stands_for(database):
    async with app_with(database, shout, whisper) as app:
        await app.register(template())
        with pytest.raises(InvalidDefinition, match="with other content"):
            await app.start(load_template(template(use="text.whisper"), app.executors), word="Hi")
        assert await (await app.start("say", word="Hi")) == "HI"


async def test_other_content_is_refused_too_when_it_was_registered_by_another_process(database, monkeypatch):
    monkeypatch.setattr(definitions, "NOT_REGISTERED_MS", 0)
    async with app_with(database, workflows=[one_step(2)]) as app:
        assert await (await app.start("counted")) == 2
        async with app_with(database, worker=False) as other:
            await other.register(one_step(1))
        with pytest.raises(InvalidDefinition, match="with other content"):
            await app.start("counted")


async def test_the_content_of_one_tenant_does_not_bind_another(database):
    async with app_with(database, workflows=[one_step(2)]) as app:
        await app.register(one_step(1), tenant="acme")
        assert await (await app.start("counted", tenant="globex")) == 2


async def test_workflows_are_listed_with_where_they_are_from(database):
    async with app_with(database, shout, workflows=[plain]) as app:
        await app.register(template())
        await app.register(template(2))
        listed = [(view.name, view.version, view.kind, view.sources) for view in await app.workflows.list()]
        assert listed == [
            ("plain", 1, "function", ("code",)),
            ("say", 1, "template", ("registered",)),
            ("say", 2, "template", ("registered",)),
        ]


async def test_a_workflow_is_had_by_its_name_in_a_version_or_the_newest(database):
    async with app_with(database, shout) as app:
        for version in (1, 2):
            await app.register(template(version))
        assert (await app.workflows.get("say")).version == 2
        assert json.loads((await app.workflows.get("say", 1)).content or "")["version"] == 1
        with pytest.raises(NotFound, match=r"has no version 3\. It has: 1, 2"):
            await app.workflows.get("say", 3)
        with pytest.raises(NotFound, match="stepfast workflows list"):
            await app.workflows.get("sing")


async def test_a_run_of_a_registered_template_is_executed_here_and_now(database):
    async with app_with(database, shout, worker=False) as client:
        await client.register(template())
        run = await client.start("say", word="hi")
    async with app_with(database, shout, worker=False) as other:
        assert await other.get(run.id).execute() is RunState.COMPLETED


async def test_the_deploy_check_knows_what_is_registered(database):
    async with app_with(database, shout, worker=False) as client:
        await client.register(template())
        await client.start("say", word="hi")
    async with app_with(database, shout, worker=False) as other:
        assert (await other.check()).is_safe
        assert (await other.check()).verdicts == {"fits": 1}


def counting() -> Graph[str, int]:
    graph = Graph("counting", version=1, input=str, output=int)

    @graph.stage
    async def count(ctx: StageContext[str, None]) -> int:
        return len(ctx.input)

    return graph


async def test_a_graph_registers_what_it_does_and_its_runs_are_pinned_to_it(database):
    graph = counting()
    async with app_with(database, workflows=[graph]) as app:
        stands = await app.register(graph)
        run = await app.start(graph, "four")
        assert await run == 4
        assert (stands.kind, (await run.info()).definition) == ("graph", stands.digest)
        (view,) = await app.workflows.list("counting")
        assert view.sources == ("code", "registered")


async def test_a_loaded_template_is_registered_as_its_file_would_be(database):
    async with app_with(database, shout) as app:
        stands = await app.register(load_template(template()))
        assert await app.register(template()) == stands

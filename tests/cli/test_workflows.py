"""`stepfast workflows list|show|register`, and starting what is registered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepfast import Graph, Stepfast, step
from tests.cli.office import WORKFLOWS
from tests.support.apps import QUICK

OFFICE = "tests.cli.office:app"
CONTENT: dict[str, Any] = {
    "stepfast": 1,
    "workflow": "greet",
    "version": 1,
    "inputs": {"word": {"kind": "payload", "schema": {"type": "string"}}},
    "steps": [{"id": "speak", "use": "greeting.say", "with": {"word": "${ inputs.word }"}}],
    "output": "${ steps.speak.output }",
}


@step(name="greeting.say")
def say(word: str) -> str:
    return f"hello {word}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "greet.json"
    path.write_text(json.dumps(CONTENT))
    return path


async def test_a_registered_template_is_told_with_its_digest(client, office, file):
    told = await office.json("workflows", "register", str(file), "--actor", "ada")
    (stands,) = await client.workflows.list("greet")
    assert (told["name"], told["version"], told["digest"], told["actor"]) == ("greet", 1, stands.digest, "ada")


async def test_without_an_app_people_are_told_that_executors_were_not_checked(client, office, file):
    done = await office("workflows", "register", str(file))
    assert (done.code, "were not checked" in done.err) == (0, True)


async def test_other_content_under_a_version_is_an_error(client, office, file):
    await office("workflows", "register", str(file))
    file.write_text(json.dumps({**CONTENT, "description": "changed"}))
    done = await office("workflows", "register", str(file))
    assert (done.code, "version 2" in done.err) == (1, True)


async def test_registered_workflows_are_listed_beside_those_of_the_app(client, office, file):
    await office("workflows", "register", str(file))
    found = (await office.json("workflows", "list", "--app", OFFICE))["items"]
    sources = {each["name"]: (each["kind"], each["sources"]) for each in found}
    assert sources == {each.workflow.name: ("function", ["code"]) for each in WORKFLOWS} | {
        "greet": ("template", ["registered"])
    }


async def test_a_worker_tells_what_it_has_learned(database, client, office, file):
    await office("workflows", "register", str(file))
    async with Stepfast(database, workflows=[], worker=QUICK, executors=[say]):
        (greet,) = (await office.json("workflows", "list"))["items"]
    assert (greet["name"], greet["workers"]) == ("greet", 1)


async def test_a_workflow_is_shown_with_its_content(client, office, file):
    await office("workflows", "register", str(file))
    shown = await office.json("workflows", "show", "greet")
    assert (shown["content"], shown["kind"]) == (CONTENT, "template")
    people = await office("workflows", "show", "greet")
    assert ("greeting.say" in people.out, shown["digest"] in people.out) == (True, True)


async def test_a_workflow_is_drawn(client, office, file):
    await office("workflows", "register", str(file))
    done = await office("workflows", "show", "greet", "--mermaid")
    assert (done.code, "speak" in done.out, "flowchart" in done.out) == (0, True, True)


async def test_a_function_has_no_picture(client, office):
    done = await office("workflows", "show", "checkout", "--mermaid", "--app", OFFICE)
    assert (done.code, "is a function" in done.err) == (2, True)


@pytest.mark.parametrize("asked", [("sing",), ("greet", "--version", "9")])
async def test_what_is_not_there_is_not_found(client, office, file, asked):
    await office("workflows", "register", str(file))
    assert (await office("workflows", "show", *asked)).code == 3


async def test_what_is_registered_is_started_by_name_without_an_app(database, client, office, file):
    await office("workflows", "register", str(file))
    told = await office.json("runs", "start", "greet", '{"word": "you"}')
    async with Stepfast(database, workflows=[], worker=QUICK, executors=[say]) as app:
        assert await app.get(told["run_id"]).result(timeout="60s") == "hello you"


async def completed(database: str, file: Path) -> str:
    """A run of the first version that has ended."""
    async with Stepfast(database, workflows=[], worker=QUICK, executors=[say]) as app:
        await app.register(file)
        run = await app.start("greet", word="you")
        await run.result(timeout="60s")
        return run.id


async def test_a_rerun_may_name_a_version_that_is_registered(database, client, office, file):
    run_id = await completed(database, file)
    second = await client.register({**CONTENT, "version": 2}, tenant="default")
    done = await office("runs", "rerun", run_id, "--version", "2")
    info = await client.get(run_id).info()
    assert (done.code, info.version, info.definition) == (0, 2, second.digest)


async def test_a_rerun_in_a_version_that_is_nowhere_is_not_found(database, client, office, file):
    run_id = await completed(database, file)
    done = await office("runs", "rerun", run_id, "--version", "9")
    assert (done.code, "has no version 9 that is registered or known here" in done.err) == (3, True)


def counting(version: int) -> Graph[None, Any]:
    graph = Graph("counting", version=version)
    graph.set("number", version)
    return graph


async def test_what_a_version_of_a_graph_stands_for_is_known_by_the_app(database, client, office, tmp_path):
    async with Stepfast(database, workflows=[counting(1)], worker=QUICK) as app:
        run = await app.start("counting")
        await run.result(timeout="60s")
    code = "from tests.cli.test_workflows import counting\nfrom stepfast import Stepfast\n"
    (tmp_path / "both_counts.py").write_text(f"{code}app = Stepfast(workflows=[counting(1), counting(2)])\n")
    done = await office("runs", "rerun", run.id, "--version", "2", "--app", f"{tmp_path}/both_counts.py")
    info = await client.get(run.id).info()
    assert (done.code, info.version, info.definition) == (0, 2, counting(2).plan().digest)

"""`stepfast workflows list|show|register`, and starting what is registered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepfast import Stepfast, step
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
        assert await app.get(told["run_id"]).result(timeout="20s") == "hello you"

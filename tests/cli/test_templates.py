"""`stepfast workflows validate|schema|plan`: what people and programs see of templates before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepfast.workflows.templates.schema import shipped_schema
from tests.cli.invoking import Done, invoke

APP = "tests.cli.kitchen:app"

GOOD = """
stepfast: 1
workflow: dinner
version: 2
inputs: {guests: {schema: {type: integer}}}
steps:
  - {id: cook, use: kitchen.cook, with: {portions: "${ inputs.guests + 1 }"}}
  - id: serve
    needs: [cook]
    do:
      - {id: plate, set: "${ steps.cook.output.dish }"}
      - {id: shout, emit: {type: served, data: "${ steps.plate.output }"}}
  - {id: bill, each: [1, 2], set: "${ item }", on_failure: continue}
"""

BAD = """
stepfast: 1
workflow: dinner
steps:
  - {id: cook, use: kitchen.cok, with: {portions: many}}
  - {id: serve, needs: [cok], set: "${ steps.cook.output.dsh }"}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    return str(file)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    return str(file)


async def workflows(*args: str, stdin: str | None = None) -> Done:
    return await invoke("workflows", *args, stdin=stdin)


async def test_a_good_template_ends_with_zero(good):
    done = await workflows("validate", good, "--app", APP)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{good}: dinner version 2 is good: 5 steps.\n"


async def test_everything_that_is_wrong_is_told_with_place_remedy_and_code(bad, good):
    done = await workflows("validate", bad, good, "--app", APP)
    assert (done.code, done.out) == (1, "")
    unknown, missing, fine = done.err.splitlines()
    assert unknown == (
        f"{bad}:5:21: /steps/0/use: there is no executor 'kitchen.cok' (Did you mean 'kitchen.cook'?) [E-STEP-004]"
    )
    assert missing.startswith(f"{bad}:6:25: /steps/1/needs/0: step 'serve' needs 'cok', which does not exist")
    assert missing.endswith("(Did you mean 'cook'?) [E-VAL-002]")
    assert fine == f"{good}: dinner version 2 is good: 5 steps."


async def test_without_an_app_it_is_said_that_executors_were_not_looked_at(good):
    done = await workflows("validate", good)
    assert done.code == 0
    assert done.err.splitlines()[-1] == "Executors were not looked at, as no app is named with --app."


async def test_a_program_gets_it_as_json(bad, good):
    done = await workflows("validate", good, bad, "-o", "json", "--app", APP)
    assert done.code == 1
    assert done.json["valid"] is False
    assert [(each["workflow"], each["version"]) for each in done.json["templates"]] == [("dinner", 2)]
    assert done.json["problems"][0] == {
        "code": "E-STEP-004",
        "pass": "references",
        "file": bad,
        "line": 5,
        "column": 21,
        "pointer": "/steps/0/use",
        "message": "there is no executor 'kitchen.cok'",
        "hint": "Did you mean 'kitchen.cook'?",
    }


async def test_a_template_may_come_from_standard_input():
    done = await workflows("validate", "-", stdin=BAD)
    assert done.code == 1
    assert done.err.startswith("standard input:6:25: /steps/1/needs/0")


async def test_a_file_that_is_not_there_is_a_fault():
    done = await workflows("validate", "nowhere.yaml")
    assert done.code == 1
    assert done.err.startswith("nowhere.yaml: /: the file cannot be read: No such file or directory")


async def test_the_schema_is_the_one_that_is_shipped():
    done = await workflows("schema")
    assert (done.code, done.json) == (0, shipped_schema())


async def test_with_an_app_the_schema_knows_its_executors():
    done = await workflows("schema", "--app", APP)
    names = [each["const"] for each in done.json["$defs"]["StepForm"]["properties"]["use"]["anyOf"]]
    assert "kitchen.cook" in names
    assert '"portions"' in done.out


async def test_a_plan_is_a_table_of_steps_in_their_order(good):
    done = await workflows("plan", good)
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[1:] == [
        ["cook", "1", "use", "kitchen.cook", "fail"],
        ["serve", "2", "do", "cook", "fail"],
        ["plate", "1", "set", "fail"],
        ["shout", "2", "emit", "served", "plate", "fail"],
        ["bill", "1", "each", "set", "continue"],
    ]


async def test_a_plan_can_be_drawn_and_read_by_programs(good):
    drawn = await workflows("plan", good, "--mermaid")
    assert drawn.out.startswith("flowchart TD\n")
    told = await workflows("plan", good, "-o", "json")
    assert [step["id"] for step in json.loads(told.out)["steps"]] == ["cook", "serve", "bill"]


async def test_a_template_with_faults_has_no_plan(bad):
    done = await workflows("plan", bad)
    assert (done.code, done.out) == (1, "")
    assert f"{bad}:6:25" in done.err

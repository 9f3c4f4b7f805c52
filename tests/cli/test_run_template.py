"""`stepfast run` with a template: for real with an app's executors, or as a rehearsal with mocks."""

from __future__ import annotations

import pytest

from stepfast import Stepfast
from tests.cli.invoking import invoke

TEMPLATE = """
stepfast: 1
workflow: rehearsed
version: 1
inputs:
  name: {schema: {type: string}}
steps:
  - id: greet
    use: rehearsal.greet
    with: {name: "${ inputs.name }"}
    mock: {text: mocked}
  - id: loud
    set: "${ steps.greet.output.text.upperAscii() }"
  - id: approve
    review: {title: "Fine?", show: "${ steps.loud.output }"}
    mock: seen
output: "${ steps.loud.output }"
"""

APP = """
from stepfast import Domain, Stepfast

rehearsal = Domain("rehearsal")


@rehearsal.step("greet")
async def greet(name: str) -> dict[str, str]:
    return {"text": f"hello {name}"}


app = Stepfast(workflows=[])
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    return str(tmp_path / "template.yaml")


async def test_a_rehearsal_gives_mocks_and_needs_no_database_and_no_executor(file):
    done = await invoke("run", file, '{"name": "ann"}', "--dry-run")
    assert (done.code, done.json) == (0, "MOCKED")
    assert "greet#1: completed" in done.err


async def test_a_rehearsal_checks_its_input(file):
    done = await invoke("run", file, '{"name": 7}', "--dry-run")
    assert done.code == 2
    assert "name: 7 is not of type 'string'" in done.err


async def test_a_rehearsal_that_fails_tells_which_steps_have_no_mock(file, tmp_path):
    (tmp_path / "template.yaml").write_text(TEMPLATE.replace("    mock: {text: mocked}\n", ""))
    done = await invoke("run", file, '{"name": "ann"}', "--dry-run")
    assert (done.code, "Steps without a `mock` give null in a dry run: greet." in done.err) == (1, True)
    assert "greet#1: completed" in done.err


async def test_a_template_may_be_named_with_its_workflow(file):
    assert (await invoke("run", f"{file}:rehearsed", '{"name": "ann"}', "--dry-run")).json == "MOCKED"
    done = await invoke("run", f"{file}:other", '{"name": "ann"}', "--dry-run")
    assert (done.code, "E-VAL-006: " in done.err) == (3, True)
    assert "has no workflow 'other'. It has: rehearsed." in done.err


async def test_only_templates_are_rehearsed(tmp_path):
    done = await invoke("run", str(tmp_path / "code.py"), "--dry-run")
    assert done.code == 2
    assert "--dry-run is for templates" in done.err


async def test_a_template_is_run_with_the_executors_of_an_app(database, file, tmp_path):
    (tmp_path / "rehearsing.py").write_text(APP)
    unreviewed = TEMPLATE.replace("  - id: approve", "  - id: approve\n    when: false")
    (tmp_path / "template.yaml").write_text(unreviewed)
    app = str(tmp_path / "rehearsing.py")
    done = await invoke("run", file, '{"name": "ann"}', "--app", f"{app}:app", "--database", database)
    assert (done.code, done.json) == (0, "HELLO ANN")


async def test_an_executor_that_is_not_there_is_named_with_its_place(database, file, tmp_path):
    (tmp_path / "template.yaml").write_text(TEMPLATE.replace("rehearsal.greet", "nobody.greets"))
    done = await invoke("run", file, '{"name": "ann"}', "--database", database)
    assert done.code != 0
    assert "there is no executor 'nobody.greets'" in done.err


FINDING = """
stepfast: 1
workflow: finding
inputs:
  contract: {kind: asset, type: text/plain}
  clauses: {kind: collection}
steps:
  - id: all
    set: "${ [assets[0].uri] + inputs.clauses.map(c, c.uri) }"
    reads: {asset: "${ inputs.contract.uri }"}
"""


async def test_a_template_that_is_run_finds_its_inputs(database, tmp_path):
    (tmp_path / "finding.yaml").write_text(FINDING)
    async with Stepfast(database, workflows=[], worker=False) as app:
        for name in ("contract", "contract", "clause"):
            await app.assets.put(f"{name} {await app.assets.list()}", name)
    given = '{"contract": "contract@1", "clauses": ["clause", "contract"]}'
    done = await invoke("run", str(tmp_path / "finding.yaml"), given, "--database", database)
    assert (done.code, done.json) == (0, ["asset:contract@1", "asset:clause@1", "asset:contract@2"])


async def test_a_rehearsal_takes_every_asset_for_one_that_is_there(tmp_path):
    (tmp_path / "finding.yaml").write_text(FINDING)
    given = '{"contract": "contract", "clauses": ["a", "b@2"]}'
    done = await invoke("run", str(tmp_path / "finding.yaml"), given, "--dry-run")
    assert (done.code, done.json) == (0, ["asset:contract@1", "asset:a@1", "asset:b@2"])

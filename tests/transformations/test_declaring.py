"""What transformations may be and give; everything else is refused by its name and place."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Derived, Domain, RunFailed, Source
from stepfast.kernel import assets
from stepfast.kernel.errors import Invalid, InvalidDefinition
from stepfast.testing import engine
from stepfast.workflows.transformations.values import Derivation
from tests.templates.writing import loaded, told
from tests.transformations.harness import WORLD, docs

ODD = """
stepfast: 1
workflow: flow
steps:
  - {id: odd, use: docs.odd, with: {document: source}}
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "Transformation docs.odd gives None; give Derived"),
        ([], "Transformation docs.odd gives"),
        ("text", "Transformation docs.odd gives 'text'"),
        ([Derived("a"), "b"], r"Output \[1\] of transformation docs.odd is 'b'; give Derived"),
        (Derived(3), r"Output \[0\] of transformation docs.odd: content is 3"),  # type: ignore[arg-type]
        (Derived("a", confidence=1.5), r"Output \[0\] of transformation docs.odd: confidence is 1.5"),
        (Derived("a", confidence=True), r"Output \[0\] of transformation docs.odd: confidence is True"),
        (Derived("a", "nonsense"), "The media type is 'nonsense'"),
        (Derived("a", id="../up"), r"Output \[0\] of transformation docs.odd: id is '../up'"),
    ],
)
async def test_what_is_no_output_is_refused_with_its_place_and_leaves_no_asset(given, message):
    WORLD["given"] = given
    async with engine(workflows=[], executors=[docs]) as opened:
        await opened.app.assets.put("text", "source")
        await opened.app.register(ODD)
        run = await opened.start("flow")
        with pytest.raises(RunFailed, match=message):
            await opened.result(run)
        assert [asset.id for asset in await opened.app.assets.list()] == ["source"]


async def test_an_output_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(assets, "MAX_CONTENT", 10)
    WORLD["given"] = Derived("more than ten")
    async with engine(workflows=[], executors=[docs]) as opened:
        await opened.app.assets.put("text", "source")
        await opened.app.register(ODD)
        run = await opened.start("flow")
        with pytest.raises(RunFailed, match="has 13 bytes, and the limit is 10"):
            await opened.result(run)


async def test_an_output_of_another_type_than_said_is_refused():
    own = Domain("own")

    @own.transformation("text", outputs=["text/plain", "text/markdown"])
    async def text(document: Source) -> Derived:
        return Derived(b"", "image/png")

    async with engine(workflows=[], executors=[own]) as opened:
        await opened.app.assets.put("text", "source")
        await opened.app.register(ODD.replace("docs.odd", "own.text"))
        run = await opened.start("flow")
        with pytest.raises(RunFailed, match="is image/png; it says that it gives text/plain, text/markdown"):
            await opened.result(run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": "pdf"}, "Transformation own.bad: inputs: The media type is 'pdf'"),
        ({"outputs": ["text/plain", 3]}, "Transformation own.bad: outputs: The media type is 3"),
        ({"review_below": 2}, "Transformation own.bad: review_below is 2; give a number from 0 to 1"),
        ({"version": 0}, "Transformation own.bad has version 0"),
    ],
)
def test_terms_that_make_no_sense_are_refused(options, message):
    async def bad(document: Source) -> Derived:
        return Derived("")

    with pytest.raises(InvalidDefinition, match=message):
        Domain("own").transformation("bad", **options)(bad)


def test_a_transformation_takes_assets():
    async def bad(text: str) -> Derived:
        return Derived(text)

    with pytest.raises(InvalidDefinition, match=r"takes no asset. Give it a parameter: `document: Source`"):
        Domain("own").transformation("bad")(bad)


def test_a_type_that_no_asset_could_fit_is_refused():
    async def bad(document: Source) -> Derived:
        return Derived(document.text)

    with pytest.raises(InvalidDefinition, match=r"inputs: The media type is '\*/pdf'"):
        Domain("own").transformation("bad", inputs="*/pdf")(bad)


def test_executors_tell_what_it_is_and_takes():
    (executor,) = [each for each in docs.list() if each.name == "docs.to_text"]
    assert (executor.kind, executor.description) == ("transformation", "Make a text of a document.")
    assert set(executor.inputs["properties"]) == {"document", "suffix"}
    assert executor.inputs["required"] == ["document"]


KNOWN = {executor.name: executor for executor in docs.list()}


def test_templates_are_held_to_what_it_takes():
    step = "{id: a, use: docs.to_text, with: {document: x, paper: x}}"
    (found,) = told(f"stepfast: 1\nworkflow: w\nsteps: [{step}]", KNOWN)
    assert "docs.to_text takes no 'paper'" in found


def test_a_policy_for_all_that_read_is_for_transformations_and_for_no_other_step():
    text = """
stepfast: 1
workflow: w
policies: [{id: p, check: docs.clean, before: read}]
steps:
  - {id: text, use: docs.to_text, with: {document: x}}
  - {id: other, use: docs.quiet, with: {writes: [], output: "${ steps.text.assets }"}}
"""
    steps = loaded(text, KNOWN).plan.block.steps
    assert [len(step.policies) for step in steps] == [1, 0]


async def test_a_transformation_is_not_repeated_by_while():
    text = ODD.replace("source}}", 'source}, while: {when: "${ round < 3 }"}}')
    WORLD["given"] = Derived("x")
    async with engine(workflows=[], executors=[docs]) as opened:
        await opened.app.assets.put("text", "source")
        await opened.app.register(text)
        run = await opened.start("flow")
        with pytest.raises(RunFailed, match="repeats a transformation by `while`"):
            await opened.result(run)


def test_a_correction_must_have_as_many_outputs():
    made: Any = Derivation({"outputs": [{}, {}]})
    with pytest.raises(Invalid, match="give `outputs` with 2 of them"):
        made.corrected({"outputs": []})

"""Transformations for tests, which do what the test wants."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stepfast import Derived, Domain, Retry, Source, workflow

CALLS: Counter[str] = Counter()
WORLD: dict[str, Any] = {}

docs = Domain("docs", retry=Retry(attempts=1))


@docs.transformation("to_text", inputs="application/pdf", outputs="text/*", review_below=0.8, version=3)
async def to_text(document: Source, suffix: str = "!") -> Derived:
    """Make a text of a document."""
    CALLS["to_text"] += 1
    WORLD["source"] = document
    return Derived(
        document.text + suffix,
        "text/plain",
        id=WORLD.get("id"),
        metadata={"pages": 1},
        tags=["made"],
        confidence=WORLD.get("confidence", 0.9),
        review_required=WORLD.get("review_required", False),
    )


@docs.transformation("split", retry=Retry(attempts=3, base=0))
def split(documents: list[Source], by: str) -> list[Derived]:
    """Make one text of each part of some documents."""
    CALLS["split"] += 1
    if CALLS["split"] < WORLD.get("attempts", 1):
        raise ValueError("not yet")
    parts = [part for document in documents for part in document.text.split(by)]
    return [Derived(part, name=f"part-{number}", confidence=0.5) for number, part in enumerate(parts)]


@docs.transformation("odd")
async def odd(document: Source) -> Any:
    """Gives what the test wants."""
    return WORLD["given"]


@docs.step("clean")
async def clean(assets: list[dict[str, Any]]) -> dict[str, Any]:
    CALLS["clean"] += 1
    if "app" in WORLD:
        await WORLD.pop("app").assets.put(b"newer", "contract", media_type="application/pdf")
    return {"ok": not any("secret" in asset["tags"] for asset in assets), "reason": "it is secret"}


@docs.step("quiet")
async def quiet(writes: list[dict[str, Any]], output: Any) -> dict[str, Any]:
    CALLS["quiet"] += 1
    WORLD["writes"] = writes
    return {"ok": "secret" not in str(output["outputs"][0]["content"]), "reason": "it tells a secret"}


@workflow(name="transforming")
async def transforming(asset: str) -> list[str]:
    made = await to_text(asset)
    return [each["uri"] for each in made["outputs"]]


@workflow(name="transforming_in_a_thread")
def transforming_in_a_thread(asset: str) -> list[str]:
    made = to_text.sync(document=asset, suffix="?")
    return [each["uri"] for each in made["outputs"]]


TEXT = """
stepfast: 1
workflow: flow
inputs: {document: {kind: asset}}
%s
steps:
  - {id: text, use: docs.to_text, with: {document: "${ inputs.document }"}%s}
output: {uri: "${ steps.text.assets[0].uri }", sure: "${ steps.text.output.confidence }"}
"""


def flow(policies: str = "", rest: str = "") -> str:
    return TEXT % (f"policies:\n{policies}" if policies else "", rest)


async def begun(opened: Any, text: str, **inputs: Any) -> Any:
    """A run of a template, as far as it comes by itself."""
    await opened.app.register(text)
    run = await opened.start("flow", **inputs)
    await opened.run_until_idle()
    return run


async def put_contract(opened: Any, content: bytes = b"pay in 30 days", **options: Any) -> None:
    await opened.app.assets.put(content, "contract", media_type="application/pdf", **options)


async def lineage(opened: Any, asset_id: str) -> list[tuple[str, str, str, int]]:
    rows = await opened.app.assets.lineage(asset_id)
    return [(row.run_id, row.role.value, row.asset_id, row.version) for row in rows]

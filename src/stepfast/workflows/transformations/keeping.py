"""What a transformation has made becomes assets: by whoever called it, once, and as made by its run."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from stepfast.kernel.assets import NewAsset, item_of
from stepfast.kernel.blobs import Reference
from stepfast.kernel.errors import NotFound
from stepfast.kernel.ids import RunId
from stepfast.kernel.retry import Retry
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.step_calls import StepCall
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.storage import Here, body_here, checked_metadata
from stepfast.workflows.transformations.values import Derivation, writes_of

Items = list[dict[str, Any]]


async def keep(derivation: dict[str, Any], let: list[str] | None = None) -> Items:
    """The body of `parse.writes`: each output as an asset, with the run, step and versions that it was made of."""
    here = body_here("writes")
    await here.let_write(writes_of(derivation), let or ())
    return [await _kept(here, derivation, number) for number in range(len(derivation["outputs"]))]


async def _kept(here: Here, derivation: Mapping[str, Any], number: int) -> dict[str, Any]:
    output, run_id = derivation["outputs"][number], RunId(derivation["run_id"])
    # Written under the lease of the run that calls, and told to be made by the one that has made it.
    maker = here.maker(derivation["step"], derivation["attempt"], tuple(derivation["inputs"]))
    made_by = maker._replace(run_id=run_id, generation=derivation["generation"], token=None)
    new = NewAsset(
        here.info.run.tenant,
        output["id"],
        output["media_type"],
        checked_metadata(output["metadata"]),
        tuple(sorted(set(output["tags"]))),
        made_by=made_by,
    )
    origin = f"{run_id} {made_by.generation} {made_by.step} {made_by.attempt} {number} {output['digest']}"
    # One after the other: all contents together may be more than there is room for.
    return item_of(await here.make(new, await _content(here, output, run_id), origin))


async def _content(here: Here, output: Mapping[str, Any], run_id: RunId) -> bytes:
    if output.get("corrected"):
        return str(output["content"]).encode()
    what = f"What run {run_id} made as {output['id']!r}"
    return await here.host.contents.get(here.info.run.tenant, run_id, Reference(output["digest"], output["size"]), what)


KEEP = StepBody(keep, "writes", Retry(never=(NotFound,)), None)


async def kept(
    loop: RunLoop, name: str, derivation: Derivation, let: list[str] | None = None
) -> tuple[dict[str, Any], Items]:
    """Keep what was made, under the name of a call; the output with what it has become, and the assets."""
    body = copy.copy(KEEP)
    body.name = f"{name}.writes"
    call = StepCall(body, (json.loads(json.dumps(derivation)), let), {})
    call.kind = "writes"
    items: Items = await ask_durably(loop, call)
    outputs = [{**told, **item} for told, item in zip(derivation["outputs"], items, strict=True)]
    return {**derivation, "outputs": outputs}, items

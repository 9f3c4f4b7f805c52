"""Assets that steps of a plan say they read and write: looked up before a step is done, and kept after it, once.

Both are durable calls of their own beside the step's, `parse.reads` and `parse.writes`. What is written is made of what
the step's record holds: whoever comes back after a crash makes the same thing again, and is given what was made.

Where a policy must let the step read, `parse.finds` comes first: it is asked about the versions that this names, and
these are read.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from stepfast.kernel.assets import (
    AssetView,
    NewAsset,
    Role,
    check_name,
    check_size,
    item_of,
    parse_asset,
    write_item,
)
from stepfast.kernel.blobs import Reference
from stepfast.kernel.decisions import CallId
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.media_types import JSON_TYPE, PLAIN_TEXT, check_media_type, fits_type
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import shown
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.inputs import stand_in
from stepfast.workflows.loop import current_branch_of
from stepfast.workflows.plans.frame import as_json
from stepfast.workflows.plans.guarding import FINDS, guards
from stepfast.workflows.plans.places import Place
from stepfast.workflows.plans.plan import AssetUse, PlanStep
from stepfast.workflows.step_calls import StepCall
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.storage import Here, body_here, checked_metadata

if TYPE_CHECKING:
    from stepfast.workflows.plans.interpreter import Interpreter

Items = list[dict[str, Any]]
"""Assets as formulas and steps see them."""

PLAIN = ValueCodec(Any, "the content of an asset")
# What does not exist now will hardly do so in a second.
RETRY = Retry(never=(NotFound,))


class Wanted(TypedDict):
    """An asset to be read, by its id, `id@version` or uri, and the media type that it must be of."""

    asset: str
    type: str | None


class ToKeep(TypedDict):
    """An asset to be written; of its content only the digest, as the step's own record has the content."""

    asset: str
    type: str
    metadata: str | None
    tags: list[str]
    digest: str


async def find(assets: list[Wanted]) -> Items:
    """The body of `parse.finds`: what the step would read, of which nothing is told yet."""
    here = body_here(FINDS)
    return [item_of(await _found(here, wanted)) for wanted in assets]


async def look_up(step: str, assets: list[Wanted], let: list[str] | None = None) -> Items:
    """The body of `parse.reads`: what the step reads, in the versions that it is given."""
    here = body_here("reads")
    found = [await _found(here, wanted) for wanted in assets]
    await here.let_read(found, let or ())
    traced = [(asset, parse_asset(wanted["asset"]).id) for asset, wanted in zip(found, assets, strict=True)]
    # An earlier try that died may have found other versions, and nothing has come of those.
    await here.host.rows.trace(here.info.run.tenant, here.maker(step), Role.READ, traced, anew=True)
    return [item_of(asset) for asset in found]


async def _found(here: Here, wanted: Wanted) -> AssetView:
    asset, media_type = await here.find(parse_asset(wanted["asset"])), wanted["type"]
    if media_type is not None and not fits_type(asset.media_type, media_type):
        raise Invalid(f"Asset {asset.id!r} is {asset.media_type}; wanted is {media_type}.")
    return asset


async def keep(
    contents: list[bytes],
    step: str,
    attempt: int,
    inputs: list[str],
    assets: list[ToKeep],
    let: list[str] | None = None,
) -> Items:
    """The body of `parse.writes`: keep what the step has made, each with what it was made of."""
    here = body_here("writes")
    run, made_by = here.info.run, here.maker(step, attempt, tuple(inputs))
    said = list(zip(assets, contents, strict=True))
    await here.let_write((_seen(*each) for each in said), let or ())
    made: list[AssetView] = []
    for number, (told, content) in enumerate(said):
        tags = tuple(sorted(set(told["tags"])))
        new = NewAsset(run.tenant, told["asset"], told["type"], told["metadata"], tags, made_by=made_by)
        origin = f"{run.run_id} {run.generation} {step} {attempt} {number}"
        made.append(await here.make(new, content, origin))
    return [item_of(asset) for asset in made]


def _seen(told: ToKeep, content: bytes) -> dict[str, Any]:
    metadata, reference = json.loads(told["metadata"] or "{}"), Reference(told["digest"], len(content))
    return write_item(told["asset"], told["type"], told["tags"], metadata, reference)


async def _kept(
    step: str, attempt: int, inputs: list[str], assets: list[ToKeep], let: list[str] | None = None
) -> Items:
    """Only its types count: what `keep` is called with, apart from the contents."""
    raise AssertionError("never called")


FIND = StepBody(find, FINDS, RETRY, None)
LOOK_UP = StepBody(look_up, "reads", RETRY, None)
KEEP = StepBody(_kept, "writes", RETRY, None)


class StepAssets:
    """What the steps of one run read and write."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._read: dict[tuple[str, str], Items] = {}
        self._attempts: dict[CallId, int] = {}

    def note_attempt(self, step: PlanStep, attempt: int) -> None:
        """What a step writes is told to be of the attempt that its last call has ended with."""
        self._attempts[current_branch_of(self._interpreter.loop).last_call(step.id)] = attempt

    async def reading(self, step: PlanStep, place: Place) -> Place:
        """Look up what a step reads, once its policies let it; where it stands, with these as `assets`."""
        wanted = [_wanted(step, use, place.names) for use in step.reads]
        if self._interpreter.frame.is_dry:
            found = [stand_in(parse_asset(each["asset"]), each["type"]) for each in wanted]
        else:
            if guards(step, "read"):
                wanted = await self.let(step, place, wanted)
            coming = current_branch_of(self._interpreter.loop).coming_call(step.id)
            let = self._interpreter.guards.let_by_people(step, place, "read")
            found = await self._ask(step, LOOK_UP, "reads", coming.address, wanted, let)
        self._read[place.path, step.id] = found
        return place.knowing({**place.names, "assets": found})

    async def let(self, step: PlanStep, place: Place, wanted: list[Wanted]) -> list[Wanted]:
        """The same in the versions that policies were asked about; nothing is told to be read before they let it."""
        branch = self._interpreter.gate_branch(step, place)
        while True:
            found = await self._ask(step, FIND, FINDS, wanted)
            if await self._interpreter.guards.before_reading(step, place, branch, found):
                return [{**each, "asset": item["uri"]} for each, item in zip(wanted, found, strict=True)]

    def names_at_end(self, step: PlanStep, place: Place, output: Any) -> dict[str, Any]:
        """What formulas see of a step that has ended."""
        return {**place.names, "assets": self._read.get((place.path, step.id), []), "output": as_json(output)}

    def to_write(self, step: PlanStep, names: Mapping[str, Any]) -> Items:
        """What a step is about to write, as its policies see it."""
        return [_seen(*_to_keep(step, use, names)) for use in step.writes]

    async def write(self, step: PlanStep, place: Place, output: Any) -> None:
        """Keep what a step has made, once it has ended well in the eyes of everybody who was to look at it."""
        names = self.names_at_end(step, place, output)
        read, said = names["assets"], [_to_keep(step, use, names) for use in step.writes]
        if self._interpreter.frame.is_dry:
            return
        last = current_branch_of(self._interpreter.loop).last_call(step.id)
        given = (last.address, self._attempts.get(last, 1), [each["uri"] for each in read], [told for told, _ in said])
        body = copy.copy(KEEP)
        body.function = partial(keep, [content for _, content in said])
        let = self._interpreter.guards.let_by_people(step, place, "write")
        place.made[step.id] = await self._ask(step, body, "writes", *given, let)

    async def _ask(self, step: PlanStep, body: StepBody, kind: str, *given: Any) -> Items:
        own = copy.copy(body)
        own.name = f"{step.id}.{kind}"
        call = StepCall(own, given, {})
        call.kind = kind
        found: Items = await ask_durably(self._interpreter.loop, call)
        return found


def _wanted(step: PlanStep, use: AssetUse, names: Mapping[str, Any]) -> Wanted:
    asset = use.asset.evaluate(names)
    if not isinstance(asset, str):
        raise Invalid(f"What step {step.id} reads is {shown(asset)}; name an asset by its id or uri.")
    parse_asset(asset)
    return {"asset": asset, "type": use.media_type}


def _to_keep(step: PlanStep, use: AssetUse, names: Mapping[str, Any]) -> tuple[ToKeep, bytes]:
    what = f"What step {step.id} writes"
    value = as_json(names["output"] if use.content is None else use.content.evaluate(names))
    content = value.encode() if isinstance(value, str) else PLAIN.encode(value).encode()
    check_size(what, len(content))
    media_type = use.media_type or (PLAIN_TEXT if isinstance(value, str) else JSON_TYPE)
    told: ToKeep = {
        "asset": check_name(what, use.asset.evaluate(names)),
        "type": check_media_type(media_type),
        "metadata": None if use.metadata is None else _metadata(what, use.metadata.evaluate(names)),
        "tags": list(use.tags),
        "digest": hashlib.sha256(content).hexdigest(),
    }
    return told, content


def _metadata(what: str, metadata: Any) -> str:
    if not isinstance(metadata, Mapping):
        raise Invalid(f"{what} has {shown(metadata)} as its metadata; give a map of names to values.")
    return checked_metadata(as_json(dict(metadata)))

"""The run of a transformation: what it is given is looked up, its body is called, and what it made is put aside.

Its outputs are artifacts of the run. They become assets by whoever called it, once policies and people let them: until
then nobody finds them, and what is rejected leaves none.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stepfast.kernel.artifacts import Artifact, ArtifactKind, Form
from stepfast.kernel.assets import Role, check_name, item_of, parse_asset
from stepfast.kernel.errors import Invalid, InvalidDefinition, NotFound, WrongCall
from stepfast.kernel.media_types import ANY_TYPE, JSON_TYPE, check_kind, check_media_type, fits_type
from stepfast.kernel.retry import Retry
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.texts import shown
from stepfast.kernel.transformations import MARK
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.codec import hints_of
from stepfast.workflows.content import content_of
from stepfast.workflows.executors.threads import called
from stepfast.workflows.loop import RunLoop, current_branch_of
from stepfast.workflows.step_calls import StepCall
from stepfast.workflows.steps import ask_durably
from stepfast.workflows.storage import Here, body_here, checked_metadata, checked_tags
from stepfast.workflows.transformations.values import MAX_SHOWN, Derivation, DerivationTold, Derived, OutputTold, Source

GIVEN = str | dict[str, Any]
"""An asset by its id, `id@version` or uri, or as expressions see it."""

Types = tuple[str, ...]


class Slot(NamedTuple):
    """A parameter that takes an asset, or several."""

    name: str
    is_many: bool
    is_optional: bool
    types: Types


class Terms(NamedTuple):
    """What is said of a transformation beside its function."""

    name: str
    version: int = 1
    inputs: Any = ANY_TYPE
    outputs: Any = ANY_TYPE
    review_below: float | None = None


class Spec:
    """What a transformation is: its function, which of its parameters are assets, and what may come of it."""

    def __init__(self, function: Callable[..., Any], terms: Terms) -> None:
        self.function = function
        self.name = terms.name
        self.version = terms.version
        self.outputs = _types(f"Transformation {terms.name}: outputs", terms.outputs)
        self.review_below = terms.review_below
        self.slots = {slot.name: slot for slot in _slots(function, terms)}
        self._reads = StepBody(self._read, f"{terms.name}.reads", Retry(never=(NotFound,)), None)
        self._derive = StepBody(_facade(self._derived, self._inner_hints(), dict[str, Any]), terms.name, None, None)

    @property
    def outer(self) -> Callable[..., Any]:
        """Its parameters as callers see them: assets are named there, and read here."""

        async def transformation(**given: Any) -> Any:
            raise WrongCall(f"Transformation {self.name} cannot undo or check; let a step or a workflow use it.")

        hints = {name: _named(self.slots[name]) for name in self.slots}
        parameters = inspect.signature(self.function).parameters.values()
        known = hints_of(self.function)
        kept = [each.replace(annotation=hints.get(each.name, known.get(each.name, Any))) for each in parameters]
        facade = _facade(transformation, {}, DerivationTold, kept)
        facade.__module__, facade.__qualname__ = self.function.__module__, self.function.__qualname__
        facade.__name__, facade.__doc__ = self.name, self.function.__doc__
        return facade

    @property
    def metadata(self) -> dict[str, Any]:
        """What is said of its runs."""
        return {MARK: {"name": self.name, "version": self.version}}

    def named(self, given: Mapping[str, Any]) -> list[tuple[Slot, list[Any]]]:
        """The assets among what it is called with."""
        return [(slot, _several(given.get(slot.name))) for slot in self.slots.values()]

    async def perform(self, loop: RunLoop, body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The code of its run."""
        given = body.arguments.bind(args, kwargs)
        derive = copy.copy(self._derive)
        derive.retry, derive.limits = body.retry, body.limits
        coming = current_branch_of(loop).coming_call(derive.name)
        wanted = {slot.name: assets for slot, assets in self.named(given)}
        reading = StepCall(self._reads, (coming.address, wanted), {})
        reading.kind = "reads"
        sources = await ask_durably(loop, reading)
        others = {name: value for name, value in given.items() if name not in self.slots}
        return await ask_durably(loop, StepCall(derive, (), {"sources": sources, **others}))

    async def _read(self, step: str, sources: dict[str, list[Any]]) -> dict[str, list[dict[str, Any]]]:
        """The body of its reads: in the versions that it is given; lineage tells of them."""
        here = body_here("reads")
        found: dict[str, list[dict[str, Any]]] = {}
        traced = []
        for name, assets in sources.items():
            found[name] = []
            for given in assets:
                wanted = parse_asset(given)
                asset = await here.find(wanted)
                self.check_type(name, asset.id, asset.media_type)
                found[name].append(item_of(asset))
                traced.append((asset, wanted.id))
        await here.let_read([asset for asset, _ in traced])
        await here.host.rows.trace(here.info.run.tenant, here.maker(step), Role.READ, traced, anew=True)
        return found

    def check_type(self, parameter: str, asset_id: str, media_type: str) -> None:
        """Refuse an asset that it does not take."""
        wanted = self.slots[parameter].types
        if not any(fits_type(media_type, each) for each in wanted):
            raise Invalid(
                f"Asset {asset_id!r} is {media_type}; {parameter!r} of transformation {self.name} takes "
                f"{', '.join(wanted)}."
            )

    async def _derived(self, sources: dict[str, list[dict[str, Any]]], **others: Any) -> dict[str, Any]:
        """The body of its derivation."""
        here = body_here(MARK)
        given = {name: await self._content(here, name, items) for name, items in sources.items()}
        call = functools.partial(self.function, **given, **others)
        # In no thread of a pool: it may wait for work of the engine that is done in one of those.
        return dict(await self._told(here, sources, await called(self.function, call)))

    async def _content(self, here: Here, name: str, items: list[dict[str, Any]]) -> Any:
        slot = self.slots[name]
        found = [await _source(here, item) for item in items]
        if slot.is_many:
            return found
        return found[0] if found else None

    async def _told(self, here: Here, sources: Mapping[str, list[dict[str, Any]]], given: Any) -> DerivationTold:
        items = [item for each in sources.values() for item in each]
        made = [given] if isinstance(given, Derived) else given
        if not isinstance(made, list | tuple) or not made:
            raise Invalid(f"Transformation {self.name} gives {shown(given)}; give Derived(...), or a list of those.")
        outputs = [await self._output(here, number, each, items) for number, each in enumerate(made)]
        confidence = min(each["confidence"] for each in outputs)
        is_low = self.review_below is not None and confidence < self.review_below
        is_marked = any(each["review_required"] for each in outputs)
        reason = ItemKind.LOW_CONFIDENCE if is_low else ItemKind.REVIEW_REQUIRED
        info = here.info
        return {
            "transformation": self.name,
            "version": self.version,
            "run_id": info.run.run_id,
            "generation": info.run.generation,
            "step": info.call.address,
            "attempt": info.attempt,
            "inputs": [item["uri"] for item in items],
            "confidence": confidence,
            "review_required": is_low or is_marked,
            "reason": reason.value if is_low or is_marked else "",
            "outputs": outputs,
        }

    async def _output(self, here: Here, number: int, made: Any, items: list[dict[str, Any]]) -> OutputTold:
        what = f"Output [{number}] of transformation {self.name}"
        if not isinstance(made, Derived):
            raise Invalid(f"{what} is {shown(made)}; give Derived(content, ...).")
        given = await content_of(f"{what}: content", made.content)
        media_type = given.media_type if made.media_type is None else check_media_type(made.media_type)
        if not any(fits_type(media_type, each) for each in self.outputs):
            raise Invalid(f"{what} is {media_type}; it says that it gives {', '.join(self.outputs)}.")
        name = made.name or self.name.rpartition(".")[2]
        told: OutputTold = {
            "id": check_name(f"{what}: id", made.id or _default_id(items, name)),
            "name": name,
            "media_type": media_type,
            "metadata": {} if made.metadata is None else json.loads(checked_metadata(made.metadata)),
            "tags": [] if made.tags is None else list(checked_tags(made.tags)),
            "confidence": _confidence(what, made.confidence),
            "review_required": made.review_required is True,
            "size": len(given.content),
            "digest": hashlib.sha256(given.content).hexdigest(),
            "content": _shown_text(media_type, given.content),
        }
        await _put_aside(here, number, media_type, given.content)
        return told

    def _inner_hints(self) -> dict[str, Any]:
        known = hints_of(self.function)
        names = [name for name in inspect.signature(self.function).parameters if name not in self.slots]
        return {"sources": dict[str, list[dict[str, Any]]], **{name: known.get(name, Any) for name in names}}


async def _source(here: Here, item: Mapping[str, Any]) -> Source:
    asset = await here.find(parse_asset(item))
    content = await here.host.assets.read(asset)
    return Source(asset.id, asset.version, asset.uri, asset.media_type, asset.metadata, asset.tags, content)


async def _put_aside(here: Here, number: int, media_type: str, content: bytes) -> None:
    run = here.info.run
    reference = await here.host.contents.put(run.tenant, run.run_id, content)
    artifact = Artifact(f"output-{number}", ArtifactKind.ARTIFACT, Form.BYTES, media_type, reference)
    await here.host.rows.keep_artifact(here.keeping, artifact)


def _default_id(items: Sequence[Mapping[str, Any]], name: str) -> str:
    return f"{items[0]['id']}/{name}" if items else name


def _confidence(what: str, confidence: object) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise Invalid(f"{what}: confidence is {shown(confidence)}; give a number from 0 to 1.")
    return float(confidence)


def _shown_text(media_type: str, content: bytes) -> str | None:
    is_text = media_type.startswith("text/") or fits_type(media_type, JSON_TYPE)
    if not is_text or len(content) > MAX_SHOWN:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _slots(function: Callable[..., Any], terms: Terms) -> list[Slot]:
    hints = hints_of(function)
    found = [slot for name in inspect.signature(function).parameters for slot in _slot(name, hints.get(name), terms)]
    if not found:
        raise InvalidDefinition(
            f"Transformation {terms.name} takes no asset. Give it a parameter: `document: Source`, or `list[Source]`."
        )
    return found


def _slot(name: str, hint: Any, terms: Terms) -> Iterator[Slot]:
    inner = typing.get_args(hint)
    is_optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and set(inner) == {Source, type(None)}
    is_many = typing.get_origin(hint) in (list, tuple, Sequence, Iterable) and inner[:1] == (Source,)
    if hint is Source or is_optional or is_many:
        wanted = terms.inputs.get(name, ANY_TYPE) if isinstance(terms.inputs, Mapping) else terms.inputs
        yield Slot(name, is_many, is_optional, _types(f"Transformation {terms.name}: inputs", wanted))


def _types(what: str, given: Any) -> Types:
    several = (given,) if isinstance(given, str) else tuple(given)
    try:
        return tuple(check_kind(each) for each in several)
    except Invalid as error:
        raise InvalidDefinition(f"{what}: {error}") from None


def _named(slot: Slot) -> Any:
    if slot.is_many:
        return list[GIVEN]
    return GIVEN | None if slot.is_optional else GIVEN


def _facade(
    function: Callable[..., Any], hints: Mapping[str, Any], result: Any, parameters: Sequence[inspect.Parameter] = ()
) -> Callable[..., Any]:
    """A function of keywords as one with these parameters."""

    async def facade(**given: Any) -> Any:
        return await function(**given)

    kind = inspect.Parameter.KEYWORD_ONLY
    own = parameters or [inspect.Parameter(name, kind, annotation=hint) for name, hint in hints.items()]
    named: Any = facade
    named.__signature__ = inspect.Signature(own)
    named.__annotations__ = {**{each.name: each.annotation for each in own}, "return": result}
    return facade


def derivation_of(told: Mapping[str, Any]) -> Derivation:
    """What the run of a transformation gave, until it counts."""
    return Derivation(told)

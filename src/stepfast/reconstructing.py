"""Reading all that is known of a run, as of one moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from stepfast.engine.values import Values
from stepfast.kernel.agreeing import differences, missing_events, owed_events
from stepfast.kernel.artifacts import ArtifactFilter
from stepfast.kernel.assets import LineageFilter
from stepfast.kernel.blobs import Reference, is_reference, parse_reference
from stepfast.kernel.definitions import DefinitionFilter, DefinitionView
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import ItemFilter, ItemId, ItemView
from stepfast.kernel.origins import shown
from stepfast.kernel.ports import Store
from stepfast.kernel.rebuilding import rebuild
from stepfast.kernel.rebuilt import Rebuilt
from stepfast.kernel.reconstruction import LargeValue, Reconstruction
from stepfast.kernel.review_views import ReviewFilter, ReviewView, WholeReview
from stepfast.kernel.reviews import parse_review_id
from stepfast.kernel.transformations import TransformationView, mark_of
from stepfast.kernel.views import EventView, LetterFilter, RunView, StepView
from stepfast.missing import run_of
from stepfast.transformation_reads import transformation_of

T = TypeVar("T")

PAGE = 1_000
TRIES = 5
# Whoever reads a run whole has it in memory whole.
MAX_EVENTS = 500_000
MAX_LISTED = 10_000
MAX_VALUE = 1_048_576
MAX_VALUES = 16 * MAX_VALUE


class Reader(NamedTuple):
    """Where a run is read, and whose it must be; None: anybody's."""

    store: Store
    values: Values
    tenant: str | None
    run_id: RunId

    async def run(self) -> RunView:
        return await run_of(self.store, self.tenant, self.run_id)

    async def pages(self, after: int = 0, last: int | None = None) -> AsyncIterator[list[EventView]]:
        """The run's events in order, page by page, up to a number."""
        while last is None or after < last:
            limit = PAGE if last is None else min(PAGE, last - after)
            page = await self.store.events(self.run_id, after, limit)
            if page:
                yield page
                after = page[-1].seq
            if len(page) < limit:
                return


async def reconstruct(reader: Reader) -> Reconstruction:
    """One run whole. While it goes on it is read again, so that all parts are of one moment."""
    for _ in range(TRIES):
        found = await _read(reader)
        if found.is_settled:
            break
    # What has ended stays as it is: it is read once.
    return await Resolving(reader).resolved(await _with_transformations(reader, found))


class Core(NamedTuple):
    """What a run's state shows by, in its rows and by its events."""

    run: RunView
    events: list[EventView]
    steps: list[StepView]
    reviews: list[ReviewView]
    items: list[ItemView]
    state: Rebuilt

    @property
    def differences(self) -> tuple[str, ...]:
        """Where rows say something that the events rule out."""
        found = differences(self.state, self.run, self.steps, self.reviews, self.items)
        return (*missing_events(self.events), *found)


async def read_core(reader: Reader, cut: list[str]) -> Core:
    """A run's state; what is left out is noted in `cut`."""
    store, run_id = reader.store, reader.run_id
    await reader.run()
    events = await _events(reader, cut)
    run, look = await reader.run(), await store.look(run_id)
    steps, reviews, items = await store.steps(run_id), await _reviews(reader, cut), await _items(reader, cut)
    last = events[-1] if events else None
    owed = owed_events(run, look, last.seq if last else 0)
    rebuilt = rebuild([*events, *owed], await store.now())
    state = rebuilt._replace(event=last.seq if last else 0, at=last and last.at)
    return Core(run, events, steps, reviews, items, state)


async def _read(reader: Reader) -> Reconstruction:
    store, run_id, cut = reader.store, reader.run_id, list[str]()
    core = await read_core(reader, cut)
    run, is_whole = core.run, not cut
    letters = await store.dead_letters(LetterFilter(run_id=run_id, resolved=True, limit=MAX_LISTED + 1))
    lineage = await store.lineage(LineageFilter(run.tenant, run_id, limit=MAX_LISTED + 1))
    artifacts = await store.artifacts(ArtifactFilter(run.tenant, run_id, True, limit=MAX_LISTED + 1))
    found = Reconstruction(
        run=run,
        definition=await _definition(store, run),
        generations=tuple(await store.generations(run_id)),
        events=tuple(shown(event, run.correlation_id) for event in core.events),
        steps=tuple(core.steps),
        reviews=tuple(await _whole(reader, core.reviews)),
        exceptions=tuple(core.items),
        dead_letters=tuple(_bounded("dead letters", letters, cut)),
        children=tuple(await _children(reader, cut)),
        lineage=tuple(_bounded("lineage", lineage, cut)),
        artifacts=tuple(_bounded("artifacts", artifacts, cut)),
        state=core.state,
    )
    is_settled = not is_whole or not await store.events(run_id, core.state.event, 1)
    told = core.differences if is_settled and is_whole else ()
    return found._replace(is_settled=is_settled, differences=told, cut=tuple(cut))


def _bounded(what: str, found: list[T], cut: list[str]) -> list[T]:
    """What was read of a list, without the one too many that says that there is more."""
    if len(found) > MAX_LISTED:
        cut.append(f"{what}: there are more than {MAX_LISTED:,}")
    return found[:MAX_LISTED]


async def _events(reader: Reader, cut: list[str]) -> list[EventView]:
    found: list[EventView] = []
    async for page in reader.pages():
        found += page
        if len(found) >= MAX_EVENTS:
            cut.append(f"events after number {found[-1].seq}: there are more than {MAX_EVENTS:,}")
            break
    return found


async def _definition(store: Store, run: RunView) -> DefinitionView | None:
    if run.definition is None:
        return None
    found = await store.definitions(DefinitionFilter(run.tenant, run.workflow, run.version))
    return next((each for each in found if each.digest == run.definition), None)


async def _reviews(reader: Reader, cut: list[str]) -> list[ReviewView]:
    listed = await reader.store.reviews(ReviewFilter(run_id=reader.run_id, limit=PAGE + 1))
    if len(listed) > PAGE:
        cut.append(f"reviews: there are more than {PAGE:,}, and these are the newest")
    return listed[:PAGE][::-1]


async def _whole(reader: Reader, views: list[ReviewView]) -> list[WholeReview]:
    """Reviews with what was shown and said, and without their tokens, which are nobody's business."""
    found = [await reader.store.review(reader.tenant, parse_review_id(view.review_id)) for view in views]
    return [review._replace(tokens=()) for review in found if review is not None]


async def _items(reader: Reader, cut: list[str]) -> list[ItemView]:
    async def after(last: ItemView | None) -> list[ItemView]:
        before = None if last is None else ItemId(last.run_id, last.cause)
        return await reader.store.exceptions(ItemFilter(run_id=reader.run_id, resolved=True, before=before, limit=PAGE))

    found = await _all("exception items", after, cut)
    return sorted(found, key=lambda item: (item.opened_at, item.cause))


async def _children(reader: Reader, cut: list[str]) -> list[RunView]:
    async def after(last: RunView | None) -> list[RunView]:
        return await reader.store.children(reader.run_id, None if last is None else last.run_id, PAGE)

    return await _all("children", after, cut)


async def _with_transformations(reader: Reader, found: Reconstruction) -> Reconstruction:
    used, cut, views = (
        [each for each in found.children if mark_of(each) is not None],
        list[str](),
        list[TransformationView](),
    )
    if len(used) > PAGE:
        cut.append(f"transformations: there are more than {PAGE:,}, and these are the oldest")
    for run in used[:PAGE]:
        try:
            views.append(await transformation_of(reader.store, reader.values, run))
        except StepfastError as error:
            cut.append(f"transformation {run.run_id}: {error}")
    return found._replace(transformations=tuple(views), cut=(*found.cut, *cut))


async def _all(what: str, page_after: Callable[[T | None], Awaitable[list[T]]], cut: list[str]) -> list[T]:
    """All pages of a list, up to a bound."""
    found: list[T] = []
    last: T | None = None
    while page := await page_after(last):
        found += page
        last = page[-1]
        if len(page) < PAGE:
            break
        if len(found) >= MAX_LISTED:
            cut.append(f"{what}: there are more than {MAX_LISTED:,}")
            break
    return found


class Resolving:
    """Reads large values in place of their references, as long as there is room for them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._room = MAX_VALUES
        self.large: list[LargeValue] = []
        self._cut: list[str] = []

    async def resolved(self, found: Reconstruction) -> Reconstruction:
        """The same with large values in full; those that are too large, or cannot be read, are named."""
        run, tenant = found.run, found.run.tenant
        run = run._replace(input=await self._text(tenant, "input", run.input))
        run = run._replace(value=await self._optional(tenant, "result", run.value))
        generations = [
            each._replace(
                input=await self._text(tenant, f"input of generation {each.generation}", each.input),
                value=await self._optional(tenant, f"result of generation {each.generation}", each.value),
            )
            for each in found.generations
        ]
        steps = await self.steps(tenant, found.steps)
        reviews = [
            each._replace(shown=await self._text(tenant, f"what review {each.view.review_id} showed", each.shown))
            for each in found.reviews
        ]
        cut = (*found.cut, *self._cut)
        found = found._replace(run=run, generations=tuple(generations), steps=tuple(steps), reviews=tuple(reviews))
        return found._replace(large=tuple(self.large), cut=cut)

    async def steps(self, tenant: str, steps: Iterable[StepView]) -> list[StepView]:
        """Records with their large values in full."""
        return [await self._step(tenant, step) for step in steps]

    async def _step(self, tenant: str, step: StepView) -> StepView:
        if not is_reference(step.input) and not is_reference(step.value):
            return step
        name = f"of step {step.call.address} ({step.seq})"
        given = await self._text(tenant, f"input {name}", step.input)
        return step._replace(input=given, value=await self._optional(tenant, f"value {name}", step.value))

    async def _optional(self, tenant: str, place: str, text: str | None) -> str | None:
        return None if text is None else await self._text(tenant, place, text)

    async def _text(self, tenant: str, place: str, text: str) -> str:
        if not is_reference(text):
            return text
        try:
            reference = parse_reference(text, self._reader.run_id)
            if not self._has_room(reference):
                self.large.append(LargeValue(place, reference.digest, reference.size))
                return text
            (whole,) = await self._reader.values.resolve(tenant, self._reader.run_id, [text])
            return whole or "null"
        except StepfastError as error:
            self._cut.append(f"{place}: {error}")
            return text

    def _has_room(self, reference: Reference) -> bool:
        if reference.size > min(MAX_VALUE, self._room):
            return False
        self._room -= reference.size
        return True

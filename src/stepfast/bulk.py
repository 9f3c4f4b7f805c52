"""One command for many runs: in pages, each of them one transaction, with counts and the error of every refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from stepfast.control import Asked
from stepfast.errands import begin_errand
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import IllegalMove, StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.ports import Store
from stepfast.kernel.states import is_legal
from stepfast.kernel.views import LetterFilter, LetterView, RunFilter, RunView
from stepfast.parts import Parts

PAGE_RUNS = 500

V = TypeVar("V", RunView, LetterView)


class Refusal(NamedTuple):
    """A run that a bulk command did not change, and why."""

    run_id: RunId
    error: StepfastError


class BulkAnswer(NamedTuple):
    """What a bulk command did, or, after a dry run, would do now.

    `matched` are the runs that fit the filters, `skipped` those of them whose state does not allow it. With `cursor`
    the command goes on behind the last run it has seen; None: it has seen all.
    """

    matched: int = 0
    changed: tuple[RunId, ...] = ()
    skipped: int = 0
    refused: tuple[Refusal, ...] = ()
    cursor: RunId | None = None


class Page(NamedTuple):
    """Some of the runs that fit: those to be changed, how many more fit, and where the next page begins."""

    wanted: Sequence[tuple[RunId, str]]
    """Each with its tenant."""
    skipped: int
    last: RunId | None
    doubtful: frozenset[RunId] = frozenset()
    """Those whose state allows it for some runs only: they are skipped where it does not."""


Pages = Callable[[RunId | None, int], Awaitable[Page]]
Read = Callable[[RunId | None, int, bool], Awaitable[list[V]]]
"""What lies behind a run, so many, by a filter; or also what a command has changed so that the filter misses it."""


class Earlier:
    """The runs that a command for many was carried out on under its key: before, or by another sender meanwhile.

    They are as the command left them, and fit its filters no more; their answers are still those of the first time.
    """

    def __init__(self, store: Store, tenant: str | None, command: Asked) -> None:
        self._store = store
        self._tenant = tenant
        self._command = command
        self.runs: set[RunId] = set()
        """Those that were found with the pages that were read."""

    async def newest(self, before: RunId | None, limit: int) -> list[RunId]:
        """So many of them, behind a run, where pages go from the newest to the oldest."""
        key = self._command.shared_key
        if self._command.dry_run or key is None:
            return []
        return await self._store.answered(self._tenant, self._command.command.name, key, before=before, limit=limit)

    async def among(self, read: Read[V], before: RunId | None, size: int) -> list[V]:
        """What the filter finds, with those of them that it finds no more in their places."""
        views = await read(before, size, False)
        # Looked up behind the filter: what another sender has changed before that is one of them, the rest was found.
        found = await self.newest(before, size)
        self.runs.update(found)
        seen, is_last = {view.run_id: view for view in views}, len(views) < size
        if all(run_id in seen or not (is_last or run_id > views[-1].run_id) for run_id in found):
            return views
        return [seen.get(view.run_id, view) for view in await read(before, size, True)]


def pages_of_runs(store: Store, where: RunFilter, command: Asked) -> Pages:
    """The runs of a filter, newest first; those whose state does not allow the command are skipped."""
    earlier, action = Earlier(store, where.tenant, command), command.command.name

    async def read(before: RunId | None, size: int, with_earlier: bool) -> list[RunView]:
        # Commands change the state and the version, and leave alone what else a filter asks for.
        asked = where._replace(state=None, version=None) if with_earlier else where
        return await store.runs(asked._replace(before=before, limit=size))

    async def page(before: RunId | None, size: int) -> Page:
        def fits(view: RunView) -> bool:
            return _fits(view, where) or view.run_id in earlier.runs

        views, last = await _filled(partial(earlier.among, read), fits, before, size)
        sure = {view.run_id for view in views if is_legal(view.state, action) or view.run_id in earlier.runs}
        doubtful = frozenset(view.run_id for view in views if _may_allow(view, where, action)) - sure
        wanted = [(view.run_id, view.tenant) for view in views if view.run_id in sure or view.run_id in doubtful]
        return Page(wanted, len(views) - len(wanted), last, doubtful)

    return page


def _may_allow(view: RunView, where: RunFilter, action: str) -> bool:
    """Whether a run's state allows the command for some runs, and whoever commands has asked for that state."""
    return action == "retry" and where.state is view.state and is_legal(view.state, "retry_open")


def _fits(view: RunView, where: RunFilter) -> bool:
    return where.state in (None, view.state) and where.version in (None, view.version)


def pages_of_letters(store: Store, where: LetterFilter, earlier: Earlier) -> Pages:
    """The runs of open dead letters, newest first."""

    async def read(before: RunId | None, size: int, with_earlier: bool) -> list[LetterView]:
        asked = where._replace(resolved=True) if with_earlier else where
        return await store.dead_letters(asked._replace(before=before, limit=size))

    async def page(before: RunId | None, size: int) -> Page:
        seen = set[RunId]()

        def fits(view: LetterView) -> bool:
            # A run may have a letter for each of its lives; only that of the newest is open.
            if view.run_id in seen:
                return False
            seen.add(view.run_id)
            return view.resolved_at is None or view.run_id in earlier.runs

        views, last = await _filled(partial(earlier.among, read), fits, before, size)
        return Page([(view.run_id, view.tenant) for view in views], 0, last)

    return page


async def _filled(
    read: Callable[[RunId | None, int], Awaitable[list[V]]], fits: Callable[[V], bool], before: RunId | None, size: int
) -> tuple[list[V], RunId | None]:
    """So many of those that fit, however many do not in between, and where the next page begins, if there is one."""
    found: list[V] = []
    while len(found) <= size:
        # One more than is wanted tells whether this page is the last.
        views = await read(before, size + 1)
        found += filter(fits, views)
        if len(views) <= size:
            break
        before = views[-1].run_id
    page = found[:size]
    return page, page[-1].run_id if len(found) > size else None


async def change_pages(
    parts: Parts, pages: Pages, command: Asked, *, before: RunId | None, limit: int | None
) -> AsyncIterator[BulkAnswer]:
    """Carry a command out page by page, and answer for each page once it is done, also when cancelled meanwhile."""
    left = None if limit is None else check_whole("limit", limit, 1)
    while left is None or left > 0:
        size = PAGE_RUNS if left is None else min(left, PAGE_RUNS)
        page = await pages(before, size)
        async for answer in answered(_change_page(parts, page, command)):
            yield answer
        left = None if left is None else left - size
        before = page.last
        if before is None:
            return


async def answered(change: Coroutine[Any, Any, BulkAnswer]) -> AsyncIterator[BulkAnswer]:
    """The answer of a change that was begun: whoever is cancelled leaves when it is done and counted.

    The store may carry it out to its end all the same, and nobody would hear of it.
    """
    changing = begin_errand(change)
    try:
        answer = await asyncio.shield(changing)
    except asyncio.CancelledError:
        yield await changing
        raise
    yield answer


async def _change_page(parts: Parts, page: Page, command: Asked) -> BulkAnswer:
    matched = len(page.wanted) + page.skipped
    requests = [command.of_one_among_many(run_id, tenant) for run_id, tenant in page.wanted]
    answers = list(zip(requests, await parts.change(requests), strict=True))
    changed = tuple(answer.run_id for _, answer in answers if isinstance(answer, Changed))
    refused = [Refusal(asked.run_id, error) for asked, error in answers if isinstance(error, StepfastError)]
    wrong = [one for one in refused if one.run_id not in page.doubtful or not isinstance(one.error, IllegalMove)]
    return BulkAnswer(matched, changed, page.skipped + len(refused) - len(wrong), tuple(wrong), page.last)


async def summed(answers: AsyncIterator[BulkAnswer]) -> BulkAnswer:
    """The answers of all pages together."""
    return together([answer async for answer in answers])


def together(pages: Sequence[BulkAnswer]) -> BulkAnswer:
    """The answers of some pages as one."""
    return BulkAnswer(
        sum(page.matched for page in pages),
        tuple(chain.from_iterable(page.changed for page in pages)),
        sum(page.skipped for page in pages),
        tuple(chain.from_iterable(page.refused for page in pages)),
        pages[-1].cursor if pages else None,
    )

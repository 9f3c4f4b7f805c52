"""One command for many runs: in pages, each of them one transaction, with counts and the error of every refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import chain
from typing import NamedTuple

from stepfast.control import Asked
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.ports import Store
from stepfast.kernel.states import is_legal
from stepfast.kernel.views import LetterFilter, LetterView, RunFilter, RunView
from stepfast.parts import Parts

PAGE_RUNS = 500


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


Pages = Callable[[RunId | None, int], Awaitable[Page]]


def pages_of_runs(store: Store, where: RunFilter, action: str) -> Pages:
    """The runs of a filter, newest first; those whose state does not allow the action are skipped."""

    async def page(before: RunId | None, size: int) -> Page:
        views = await store.runs(where._replace(before=before, limit=size))
        wanted = [(view.run_id, view.tenant) for view in views if is_legal(view.state, action)]
        return Page(wanted, len(views) - len(wanted), _last(views, size))

    return page


def pages_of_letters(store: Store, where: LetterFilter) -> Pages:
    """The runs of open dead letters, newest first."""

    async def page(before: RunId | None, size: int) -> Page:
        views = await store.dead_letters(where._replace(before=before, limit=size))
        return Page([(view.run_id, view.tenant) for view in views], 0, _last(views, size))

    return page


def _last(views: Sequence[RunView] | Sequence[LetterView], size: int) -> RunId | None:
    return views[-1].run_id if len(views) == size else None


async def change_pages(
    parts: Parts, pages: Pages, command: Asked, *, before: RunId | None, limit: int | None
) -> AsyncIterator[BulkAnswer]:
    """Carry a command out page by page, and answer for each page once it is done."""
    left = None if limit is None else check_whole("limit", limit, 1)
    while left is None or left > 0:
        size = PAGE_RUNS if left is None else min(left, PAGE_RUNS)
        page = await pages(before, size)
        yield await _change_page(parts, page, command)
        left = None if left is None else left - size
        before = page.last
        if before is None:
            return


async def _change_page(parts: Parts, page: Page, command: Asked) -> BulkAnswer:
    matched = len(page.wanted) + page.skipped
    requests = [command.of_one_among_many(run_id, tenant) for run_id, tenant in page.wanted]
    answers = list(zip(requests, await parts.change(requests), strict=True))
    changed = tuple(answer.run_id for _, answer in answers if isinstance(answer, Changed))
    refused = tuple(Refusal(asked.run_id, error) for asked, error in answers if isinstance(error, StepfastError))
    return BulkAnswer(matched, changed, page.skipped, refused, page.last)


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

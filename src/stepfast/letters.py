"""Dead letters: runs out of attempts that no other run awaits, to be looked at, replayed or put aside."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from stepfast.base import AppBase
from stepfast.bulk import BulkAnswer, Earlier, change_pages, pages_of_letters, summed
from stepfast.control import Asked, asked, changed_or_raise, retry_command
from stepfast.filters import letter_filter, page_size, place
from stepfast.kernel.causes import group_id, is_group_id, shape_of
from stepfast.kernel.commands import Changed, Discard
from stepfast.kernel.errors import NotFound
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.items import GroupView, ItemFilter, is_step_cause
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.texts import check_optional_text
from stepfast.kernel.views import LetterFilter, LetterView
from stepfast.parts import Parts

Views = list[LetterView]
Groups = list[GroupView]

MOST_GROUPS = 100_000


class DeadLetters:
    """The dead letters on an app's store.

    Filters are `workflow`, `step` (its name, or its address, like `charge#1`), `error_type` (its name, or
    `module:name`), `tenant` and `recorded_after`. Those that somebody has replayed or discarded are left out unless
    `resolved`. For many at once there is `group` too: the id that `groups` gives to equal failures, or the shape that
    they have in common.
    """

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(
        self, /, *, resolved: bool = False, limit: int = 100, cursor: str | None = None, **filters: Any
    ) -> Views:
        """A page of dead letters, newest run first; the run id of the last one is the cursor of the next page."""
        where = letter_filter(**filters)._replace(resolved=resolved, limit=page_size(limit), before=place(cursor))
        return await self._app._open_parts().store.dead_letters(where)

    async def get(self, run_id: str, *, tenant: str | None = None) -> LetterView:
        """The newest dead letter of a run, also one that somebody has seen to; `error` has its traceback and causes."""
        letter = await self._newest(run_id, tenant)
        lives = await self._app._open_parts().store.generations(letter.run_id)
        return letter._replace(error=next((life.error for life in lives if life.generation == letter.generation), None))

    async def _newest(self, run_id: str, tenant: str | None) -> LetterView:
        where = LetterFilter(tenant=check_optional_text("tenant", tenant), run_id=parse_run_id(run_id), resolved=True)
        letters = await self._app._open_parts().store.dead_letters(where)
        if not letters:
            raise NotFound(f"Run {run_id} is no dead letter. List those with `stepfast dead-letters list`.")
        return max(letters, key=lambda letter: letter.generation)

    async def groups(self, *, tenant: str | None = None, workflow: str | None = None, limit: int = 100) -> Groups:
        """Equal failures as one, the largest groups first: same workflow, same step by name, same shape of error."""
        where = ItemFilter(
            check_optional_text("tenant", tenant), ItemKind.FAILED, check_optional_text("workflow", workflow)
        )
        groups = await self._app._open_parts().store.exception_groups(where._replace(limit=page_size(limit)))
        # A failure that its run went on from is in the exception queue, and no dead letter.
        return [group for group in groups if not is_step_cause(group.newest.cause)]

    async def replay(
        self,
        run_id: str,
        *,
        version: int | None = None,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Let the run go on, as a new generation, without the failure that ended it; a dry run changes nothing."""
        return await self._change(run_id, tenant, asked(retry_command(None, version), key, reason, actor, dry_run))

    async def discard(
        self,
        run_id: str,
        *,
        tenant: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Put a dead letter aside: the run stays failed, and leaves the list; a dry run changes nothing."""
        return await self._change(run_id, tenant, asked(Discard(), key, reason, actor, dry_run))

    async def replay_many(self, /, *, version: int | None = None, **options: Any) -> BulkAnswer:
        """Replay all that fit the filters; takes what `replay_pages` takes."""
        return await summed(self.replay_pages(version=version, **options))

    async def discard_many(self, /, **options: Any) -> BulkAnswer:
        """Discard all that fit the filters; takes what `discard_pages` takes."""
        return await summed(self.discard_pages(**options))

    def replay_pages(
        self,
        /,
        *,
        version: int | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        **options: Any,
    ) -> AsyncIterator[BulkAnswer]:
        """Replay all that fit the filters, up to 500 in a commit, answering page by page.

        `limit` bounds how many; `dry_run` changes nothing; `cursor` goes on where an earlier answer ended.
        """
        return self._pages(asked(retry_command(None, version), key, reason, actor), **options)

    def discard_pages(
        self, /, *, key: str | None = None, reason: str | None = None, actor: str | None = None, **options: Any
    ) -> AsyncIterator[BulkAnswer]:
        """Discard all that fit the filters; the same otherwise."""
        return self._pages(asked(Discard(), key, reason, actor), **options)

    def _pages(
        self,
        command: Asked,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        dry_run: bool = False,
        group: str | None = None,
        **filters: Any,
    ) -> AsyncIterator[BulkAnswer]:
        where, shape = letter_filter(**filters), check_optional_text("group", group)
        walk = {"before": place(cursor), "limit": limit}
        return self._walk(self._app._open_parts(), where, shape, command._replace(dry_run=dry_run), walk)

    async def _walk(
        self, parts: Parts, where: LetterFilter, group: str | None, command: Asked, walk: dict[str, Any]
    ) -> AsyncIterator[BulkAnswer]:
        earlier = Earlier(parts.store, where.tenant, command)
        if group is not None:
            where = await self._of_group(where, group, earlier)
        async for answer in change_pages(parts, pages_of_letters(parts.store, where, earlier), command, **walk):
            yield answer

    async def _of_group(self, where: LetterFilter, group: str, earlier: Earlier) -> LetterFilter:
        """The same filter for one group alone; a shape may be that of several, in other workflows."""
        if not is_group_id(group):
            return where._replace(shape=group)
        groups = await self.groups(tenant=where.tenant, workflow=where.workflow, limit=MOST_GROUPS)
        found = next(((each.workflow, each.shape) for each in groups if each.id == group), None)
        found = found or await self._seen_to(group, earlier)
        if found is None:
            raise NotFound(f"No open dead letters are in group {group}. List groups with `stepfast exceptions groups`.")
        workflow, shape = found
        return where._replace(workflow=workflow, shape=shape)

    async def _seen_to(self, group: str, earlier: Earlier) -> tuple[str, str] | None:
        """The workflow and the shape of a group that this very command has seen to before; None: it has not."""
        for run_id in await earlier.newest(None, 1):
            where = LetterFilter(run_id=run_id, resolved=True)
            for letter in await self._app._open_parts().store.dead_letters(where):
                shape = shape_of(letter.error_type, letter.message, letter.step)
                if group_id(ItemKind.FAILED, letter.workflow, shape) == group:
                    return letter.workflow, shape
        return None

    async def _change(self, run_id: str, tenant: str | None, command: Asked) -> Changed:
        letter = await self._newest(run_id, tenant)
        parts = self._app._open_parts()
        return changed_or_raise(await parts.change([command.of(letter.run_id, tenant)]))

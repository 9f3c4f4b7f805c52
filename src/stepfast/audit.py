"""The audit trail of an app's store: sealing it, and proving that it is what was written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from stepfast.base import AppBase
from stepfast.engine.sealing import Sealer
from stepfast.filters import event_filter, page_size, trail_place
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import EventNotFound, Invalid
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.origins import shown
from stepfast.kernel.seals import SealCopies, Signer
from stepfast.kernel.texts import check_optional_text
from stepfast.kernel.trail import HIGHEST
from stepfast.kernel.views import EventView
from stepfast.parts import Parts
from stepfast.signing import ONLY_PUBLIC

# What verifies and exports is imported when it is asked for: most processes never do.
if TYPE_CHECKING:
    from stepfast.kernel.auditing import AuditReport


Events = list[EventView]


class SealingStatus(NamedTuple):
    """How far a trail is sealed."""

    seals: int
    sealed_at: Instant | None
    """When the last seal was made."""
    unsealed_since: Instant | None
    """When the oldest event was written that no seal covers yet; None where there is none."""


class Audit:
    """The trail of an app's store."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(
        self,
        *,
        run_id: str | None = None,
        type: str | Iterable[str] | None = None,
        step: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        tenant: str | None = None,
        limit: int = 100,
        cursor: int | None = None,
    ) -> Events:
        """A page of events of all runs, newest first; the position of the last one is the cursor of the next page.

        A step is named by its address, like `charge#1`, or, for every call of it, by its name. Events of a run are
        found by its key; for others the trail is looked through from its end, until there are so many of them, or a
        long part of it is older than `since`.
        """
        wanted = event_filter(tenant, run_id, type, step, actor, correlation_id, since, until)
        where = wanted._replace(before=trail_place(cursor), limit=page_size(limit))
        return [shown(event) for event in await self._app._open_parts().store.find_events(where)]

    async def get(self, position: int, *, tenant: str | None = None) -> EventView:
        """One event, by its position."""
        wanted, whose = check_whole("position", position, 1, HIGHEST), check_optional_text("tenant", tenant)
        found = await self._app._open_parts().store.sealed_events(wanted - 1, wanted, 1)
        if not found or whose not in (None, found[0].tenant):
            raise EventNotFound(f"There is no event at position {wanted}. List events with `stepfast audit list`.")
        return shown(found[0])

    async def status(self) -> SealingStatus:
        """How far the trail is sealed."""
        store = self._app._open_parts().store
        last = await store.last_seal()
        unsealed = await store.sealed_events(0 if last is None else last.body.upto, HIGHEST, 1)
        since = unsealed[0].at if unsealed else None
        if last is None:
            return SealingStatus(0, None, since)
        return SealingStatus(last.body.number, last.body.sealed_at, since)

    async def seal(self) -> int:
        """Seal now what was written since the last seal; how many events that were. Workers do so by themselves."""
        return await self._sealer(self._app._open_parts()).seal()

    async def verify(self, copies: SealCopies | None = None) -> AuditReport:
        """Check every seal, its signature, its copy outside, and every sealed event that should be there."""
        from stepfast.verifying import Check

        store = self._app._open_parts().store
        return await Check(store, self._signer(), copies or self._app.seal_copies).whole()

    def export(self, *, tenant: str | None = None, run_id: str | None = None) -> AsyncIterator[str]:
        """The trail as lines of a file that proves itself, of all runs, of one tenant or of one run."""
        from stepfast.trail_files import Chosen, exported

        return exported(self._app._open_parts().store, Chosen(tenant, run_id))

    def verify_lines(self, lines: Iterable[str]) -> AuditReport:
        """Check lines that were exported, by the keys alone."""
        from stepfast.trail_files import verify_lines

        return verify_lines(lines, self._signer())

    async def report(
        self, run_id: str, form: str = "md", *, tz: str | tzinfo = "UTC", tenant: str | None = None
    ) -> str:
        """What happened to a run, for people who do not program, and what proves it: as `md` or `html`."""
        from stepfast.reconstructing import Reader, reconstruct
        from stepfast.reports import check_form, prove, report

        check_form(form, tz)
        parts, whose = self._app._open_parts(), check_optional_text("tenant", tenant)
        found = await reconstruct(Reader(parts.store, parts.values, whose, parse_run_id(run_id)))
        proof = await prove(parts.store, found.events, self._app.signer)
        return report(found, form, tz=tz, proof=proof)

    def _sealer(self, parts: Parts) -> Sealer:
        self._signer()
        if (sealer := self._app._new_sealer(parts.store)) is None:
            raise Invalid(ONLY_PUBLIC)
        return sealer

    def _signer(self) -> Signer:
        if self._app.signer is None:
            raise Invalid("Seals need a key that is not in the database: set STEPFAST_SEAL_KEYS.")
        return self._app.signer

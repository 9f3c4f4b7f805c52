"""The audit trail of an app's store: sealing it, and proving that it is what was written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import tzinfo
from typing import TYPE_CHECKING

from stepfast.base import AppBase
from stepfast.engine.sealing import Sealer
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.seals import SealCopies, Signer
from stepfast.kernel.texts import check_optional_text
from stepfast.parts import Parts
from stepfast.signing import ONLY_PUBLIC

# What verifies and exports is imported when it is asked for: most processes never do.
if TYPE_CHECKING:
    from stepfast.kernel.auditing import AuditReport


class Audit:
    """The trail of an app's store."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

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
        signer = self._signer()
        if not self._app.seals:
            raise Invalid(ONLY_PUBLIC)
        return Sealer(parts.store, self._app._clock, signer, self._app.seal_copies)

    def _signer(self) -> Signer:
        if self._app.signer is None:
            raise Invalid("Seals need a key that is not in the database: set STEPFAST_SEAL_KEYS.")
        return self._app.signer

"""Call backs at the door: whoever does the outside work of a step says by its token how far it is, or how it ended."""

from __future__ import annotations

import json
from typing import Any

from stepfast.base import AppBase
from stepfast.control import asked, changed_or_raise
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import NotFound
from stepfast.kernel.events import EventType
from stepfast.kernel.outside import CallBack, CallbackAct, CallbackWrong
from stepfast.kernel.outside_judging import wrong_callback
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text
from stepfast.log import Log
from stepfast.parts import Parts
from stepfast.tokens import Secret, ShownCallback, shown_callback
from stepfast.workflows.given import text_given
from stepfast.workflows.progress import progress_data

log = Log("callbacks")


class Callbacks:
    """The outside work on an app's store, for whoever has a token that a step's body gave away.

    A token that is wrong, expired, used or foreign changes nothing, and the attempt is in the history of the run.
    """

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def complete(
        self, token: str | Secret, value: Any = None, *, tenant: str | None = None, actor: str | None = None
    ) -> Changed:
        """The work is done, with this result; kept also when the step has yet to record that it has begun it."""
        shown = shown_callback(token)
        # A traceback with the variables of its frames must not hold it.
        del token
        text = text_given(value, "The value of a call back")
        return await self._call_back(shown, CallbackAct.COMPLETE, f'{{"value":{text}}}', tenant, actor)

    async def fail(
        self,
        token: str | Secret,
        error_type: str,
        message: str = "",
        *,
        tenant: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """The work has failed, and its step fails with a StepFailed of that type."""
        shown = shown_callback(token)
        del token
        said = {"type": check_text("error_type", error_type), "message": _checked_message(message)}
        return await self._call_back(shown, CallbackAct.FAIL, json.dumps({"error": said}), tenant, actor)

    async def progress(
        self,
        token: str | Secret,
        done: float,
        total: float | None = None,
        note: str | None = None,
        *,
        tenant: str | None = None,
        actor: str | None = None,
    ) -> Changed:
        """The work goes on; this does not use the token up."""
        shown = shown_callback(token)
        del token
        return await self._call_back(shown, CallbackAct.PROGRESS, progress_data(done, total, note), tenant, actor)

    @property
    def _parts(self) -> Parts:
        return self._app._open_parts()

    async def _call_back(
        self, shown: ShownCallback | None, act: CallbackAct, text: str, tenant: str | None, actor: str | None
    ) -> Changed:
        whose, actor = check_optional_text("tenant", tenant), check_optional_text("actor", actor)
        keys = self._app.token_keys.for_old()
        if shown is None or not keys.proves(shown):
            raise await self._lost(whose, actor)
        run = await self._parts.store.run(None, shown.run_id)
        if run is None:
            raise await self._lost(whose, actor)
        if act is CallbackAct.COMPLETE:
            # Only whoever has a token that was handed out may fill the blob store.
            text = await self._parts.values.keep(run.tenant, shown.run_id, text)
        command = CallBack(shown.call, shown.generation, shown.expires_at, act, text, whose)
        try:
            return changed_or_raise(
                await self._parts.change([asked(command, None, None, actor).of(shown.run_id, None)])
            )
        except NotFound:
            raise await self._lost(whose, actor) from None

    async def _lost(self, tenant: str | None, actor: str | None) -> CallbackWrong:
        """Somebody showed what was never handed out: told beside all runs, for none is to be told what anybody says."""
        whose, refusal = tenant or self._app.tenant, wrong_callback()
        await self._parts.store.tell(whose, EventType.CALLBACK_SUBMITTED, actor, json.dumps({"outcome": refusal.code}))
        log.warning("callback_refused", tenant=whose, code=refusal.code)
        return refusal


def _checked_message(message: str) -> str:
    return "" if message == "" else check_text("message", message, MAX_NOTE)

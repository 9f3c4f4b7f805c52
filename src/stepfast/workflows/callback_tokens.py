"""What a step's body gives to the other side: a key that stays the same, and a token to call back with."""

from __future__ import annotations

import hashlib
from asyncio import events
from collections.abc import Coroutine
from typing import Any

from stepfast.kernel.durations import Duration, Instant, span_ms
from stepfast.kernel.errors import WrongCall
from stepfast.kernel.numbers import check_whole
from stepfast.workflows.bodies import StepInfo, current_step
from stepfast.workflows.deterministic import refuse_in_workflow
from stepfast.workflows.outside import LONGEST_MS


def step_key() -> str:
    """A key that is the same in every attempt of this call, also after a crash, and another in each generation.

    Given to the other side, it lets that know a second start of the same work for what it is.
    """
    info = _info("step_key")
    seed = f"{info.run.run_id}:{info.run.generation}:{info.call.address}"
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest()


class CallbackToken:
    """`await callback_token()` in the body of an `async def` step, `callback_token.sync()` in that of a `def` step."""

    def __call__(self, expires: Duration | None = None) -> Coroutine[Any, Any, str]:
        """A token by which the other side can say, once, what became of the work that this step starts.

        It works as long as the step waits, or as `expires` says, and is stored nowhere: give it away, and nothing else.
        """
        info = _info("callback_token")
        if events._get_running_loop() is None:
            raise WrongCall("callback_token() must be awaited: in a `def` step call callback_token.sync().")

        async def made() -> str:
            return _made(info, expires)

        return made()

    def sync(self, expires: Duration | None = None) -> str:
        """The same for the body of a `def` step."""
        return _made(_info("callback_token"), expires)


callback_token = CallbackToken()


def _made(info: StepInfo, expires: Duration | None) -> str:
    span = LONGEST_MS if expires is None else span_ms(expires, "expires")
    ends_at = Instant(info.now() + check_whole("expires, in milliseconds,", span, 1, LONGEST_MS))
    if info.storage is None or info.storage.callback_token is None:
        raise WrongCall("callback_token() was called in a step that no app executes.")
    return info.storage.callback_token(info.run, info.call, ends_at)


def _info(what: str) -> StepInfo:
    refuse_in_workflow(f"{what}()")
    info = current_step.get(None)
    if info is None:
        raise WrongCall(f"{what}() was called outside the body of a step in a run.")
    return info

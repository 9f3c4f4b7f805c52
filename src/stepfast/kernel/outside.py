"""Work that goes on outside, as data: what is known of it while its step waits, and what can be brought to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from stepfast.kernel.decisions import CallId, NewRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import StepState

CALLBACK = "callback"
"""The kind of message that brings the end of outside work; its name is the address of the step."""

SHOWN_HANDLE = 200
SHOWN_ERROR = 300


class CallbackWrong(StepfastError):
    """A callback token that nobody was given; nothing has changed."""

    code = "E-CALL-001"


class CallbackExpired(StepfastError):
    """A callback token whose time is over, or that of its step; nothing has changed."""

    code = "E-CALL-002"


class CallbackUsed(StepfastError):
    """The outside work of a callback token has its end already; nothing has changed."""

    code = "E-CALL-003"


class CallbackForeign(StepfastError):
    """A callback token for another tenant, or for an earlier generation of its run; nothing has changed."""

    code = "E-CALL-004"


class Asking(NamedTuple):
    """How a step stands with its outside work: kept as the name of its wait, and written anew when it is put off.

    So a day of answers that say "not yet" leaves no row behind.
    """

    step: str
    handle: Any
    polls: int = 0
    tries: int = 0
    """How often the present question has failed."""
    error: str | None = None
    """What the last question that failed has raised."""
    told: Any = None
    """The progress that was told last."""
    polled: bool = True
    """Whether somebody asks after it; else only its call back tells."""
    stop: dict[str, Any] | None = None
    """The run that stops it, where nobody waits for it any more."""

    @property
    def text(self) -> str:
        """As it is kept."""
        return json.dumps(self._asdict(), separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Asking:
        """Of what was kept; whatever a later version has put there besides is not ours to know."""
        kept = json.loads(text)
        return cls(**{name: kept[name] for name in cls._fields if name in kept})

    def stopping(self) -> tuple[NewRun, ...]:
        """The run to start when nobody waits for it any more, if there is one."""
        return () if self.stop is None else (NewRun(**self.stop),)

    @property
    def shown_handle(self) -> str:
        """The handle for people, shortened."""
        text = json.dumps(self.handle, ensure_ascii=False)
        return text if len(text) <= SHOWN_HANDLE else f"{text[:SHOWN_HANDLE]}..."


class CallbackAct(StrEnum):
    """What whoever does the outside work can say of it."""

    COMPLETE = "complete"
    FAIL = "fail"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class CallBack:
    """Outside work is done, has failed, or goes on; said by whoever has the token for it, which is known to be one."""

    call: CallId
    generation: int
    expires_at: Instant
    act: CallbackAct
    value: str
    """JSON: what the step's code is brought, or the progress."""
    tenant: str | None = None
    """Whose run its bearer takes it to be for."""
    name: ClassVar[str] = CALLBACK
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class ExpireCall:
    """The time for outside work is over."""

    call: CallId
    generation: int
    name: ClassVar[str] = "expire_call"
    needs_steps: ClassVar[bool] = False


OutsideCommand = CallBack | ExpireCall


def message_name(generation: int, call: CallId) -> str:
    """What the code of a step looks for: an answer to an earlier generation is none to this one."""
    return f"{generation}:{call.address}"


class LockedCall(NamedTuple):
    """A step's call as a command sees it while nobody else can change it."""

    state: StepState | None
    """None: nothing is recorded of it."""
    due_at: Instant | None
    """Until when its outside work must be done."""
    is_answered: bool
    """The end of its outside work has come, and its code has not taken it yet."""


class LeftOutside(NamedTuple):
    """Outside work that nobody waits for any more, and that is to be stopped; `asking` is as it was kept."""

    run_id: RunId
    wait_id: int
    asking: str


class NewMessage(NamedTuple):
    """Something that a command leaves in the inbox of a run, for its code."""

    kind: str
    name: str
    value: str

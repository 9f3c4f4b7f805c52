"""Facts that the code of a run notes: of the run, once; or of a step, saved with what came of the attempt."""

from __future__ import annotations

import json
from asyncio import events
from collections.abc import Generator
from typing import Any

from stepfast.kernel.annotations import MAX_OF_ATTEMPT, MAX_VALUE, annotated, note
from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.errors import Invalid, Unstorable, WrongCall
from stepfast.kernel.texts import MAX_NAME, check_optional_text, check_text
from stepfast.workflows.bodies import current_step
from stepfast.workflows.branches import thread_branch
from stepfast.workflows.culprits import find
from stepfast.workflows.given import text_given
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.once_calls import WrittenCall
from stepfast.workflows.waiting import ask


class Noted:
    """What `annotate` gives in a step's body: it may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


NOTED = Noted()


class AnnotateCall(WrittenCall):
    """A fact of the run, noted by its code once."""

    kind = "annotate"

    def __init__(self, fact: str, value: str, scope: str | None) -> None:
        super().__init__(f"annotate:{fact}", json.dumps({"value": json.loads(value), "scope": scope}))
        self._fact = (fact, value, scope)

    def decided(self, run: HeldRun, record: Record) -> Decision:
        return note(run, record, *self._fact)


def annotate(name: str, value: Any, *, scope: str | None = None) -> Any:
    """Note a fact: in a step's body, saved with what comes of this attempt; in workflow code, `await`ed, written once.

    `scope` says what it is about beside the run or step: a tool, a model's answer, a part of a document.
    """
    facts = checked_name(name), value_text(name, value), check_optional_text("scope", scope)
    # The branch first: a run that was started inside a step's body inherits the context of that step.
    if isinstance(events._get_running_loop(), RunLoop) or thread_branch() is not None:
        return ask("annotate", AnnotateCall(*facts))
    info = current_step.get(None)
    if info is None:
        raise WrongCall("annotate(...) was called outside a run. From outside there is `await run.annotate(...)`.")
    if info.notes is not None:
        if len(info.notes) >= MAX_OF_ATTEMPT:
            raise Invalid(
                f"Step {info.call.address} has noted {MAX_OF_ATTEMPT} facts in attempt {info.attempt}, and no more are "
                f"kept. Note several as one value, or save them with `storage.save`."
            )
        call, who = info.call.address, info.run.actor
        info.notes.append(annotated(*facts, info.now(), step=call, attempt=info.attempt, actor=who, by_code=True))
    return NOTED


def checked_name(name: str) -> str:
    """The name of an annotation, refused if it could not be stored or found by."""
    return check_text("The annotation's name", name, MAX_NAME)


def value_text(name: str, value: Any) -> str:
    """A value as JSON, refused with the path to what cannot be stored."""
    what = f"The value of annotation {name!r}"
    text = text_given(value, what)
    if len(text) > MAX_VALUE:
        size = f"as JSON it has {len(text):,} characters, and the limit is {MAX_VALUE:,}"
        raise Unstorable(f"{what} cannot be stored: {size}. Keep it with `storage.artifact`, and note its name.")
    # An event is looked into by the database, whose JSON has no form for it.
    if "\\u0000" in text and (culprit := find(json.loads(text), _with_nul)) is not None:
        raise Unstorable(culprit.told(what))
    return text


def _with_nul(value: object) -> tuple[str, str] | None:
    return ("holds a NUL character", "Leave it out") if isinstance(value, str) and "\0" in value else None

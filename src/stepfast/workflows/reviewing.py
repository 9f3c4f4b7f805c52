"""What a workflow's code calls to ask a person."""

from __future__ import annotations

import json
from asyncio import events
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypedDict, TypeVar, cast, overload

from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import Invalid, ReviewEnded, WrongCall
from stepfast.kernel.texts import shown
from stepfast.workflows.branches import thread_code
from stepfast.workflows.calls import Operation
from stepfast.workflows.loop import CallAnswer, RunLoop, current_branch_of
from stepfast.workflows.questions import Terms, question_of
from stepfast.workflows.review_calls import AskCall, AskedReview, Codecs, Question, ReviewCall, Reviewed
from stepfast.workflows.steps import AsyncStep, SyncStep, ask_durably, know_step, operation_of

T = TypeVar("T")

Notify = AsyncStep[..., Any] | SyncStep[..., Any]


class ReviewInfo(TypedDict):
    """What the step that tells people is given: which review it is, and whom it asks for what."""

    review_id: str
    run_id: str
    title: str
    kind: str
    digest: str
    role: str | None
    assignee: str | None
    verdicts: list[str]
    expires_ms: int | None


@overload
def review(
    title: str,
    *,
    type: type[T],
    show: Any = None,
    role: str | None = None,
    assignee: str | None = None,
    verdicts: Iterable[str] | None = None,
    expires: Duration | None = None,
    on_expiry: str = "fail",
    escalate_to: str | None = None,
    escalate_role: str | None = None,
    quorum: int = 1,
    quorum_reject: int = 1,
    notify: Notify | None = None,
    kind: str = "review_required",
) -> Awaitable[Reviewed[T]]: ...


@overload
def review(
    title: str,
    *,
    show: Any = None,
    type: Any = None,
    role: str | None = None,
    assignee: str | None = None,
    verdicts: Iterable[str] | None = None,
    expires: Duration | None = None,
    on_expiry: str = "fail",
    escalate_to: str | None = None,
    escalate_role: str | None = None,
    quorum: int = 1,
    quorum_reject: int = 1,
    notify: Notify | None = None,
    kind: str = "review_required",
) -> Awaitable[Reviewed[Any]]: ...


def review(
    title: str,
    *,
    show: Any = None,
    type: Any = None,
    role: str | None = None,
    assignee: str | None = None,
    verdicts: Iterable[str] | None = None,
    expires: Duration | None = None,
    on_expiry: str = "fail",
    escalate_to: str | None = None,
    escalate_role: str | None = None,
    quorum: int = 1,
    quorum_reject: int = 1,
    notify: Notify | None = None,
    kind: str = "review_required",
) -> Any:
    """Ask a person, and wait for the answer: `await review("Publish?", show=draft)`, in a `def` workflow without await.

    The run holds no worker meanwhile. Raises Rejected when the answer is no, and WaitTimeout when there is none in
    time, unless `on_expiry` says otherwise. `type` is the type of a value that people may correct, or a JSON Schema.
    `notify` is a step that is called with a `ReviewInfo` as soon as the review is open.
    """
    if notify is not None and not isinstance(notify, AsyncStep | SyncStep):
        raise Invalid(f"notify of a review is {shown(notify)}; it must be a step. Mark it @step.")
    terms = Terms(role, assignee, verdicts, expires, on_expiry, escalate_to, escalate_role, quorum, quorum_reject, kind)
    loop, thread = events._get_running_loop(), thread_code()
    is_async = isinstance(loop, RunLoop)
    if not is_async and (loop is not None or thread is None):
        raise WrongCall("review(...) was called outside the code of a workflow; a step's body cannot ask a person.")
    asking = partial(_review, *question_of(title, show, type, terms), notify)
    if is_async:
        return asking()
    assert thread is not None
    return thread.run(asking)


async def _review(question: Question, codecs: Codecs, notify: Notify | None) -> Reviewed[Any]:
    loop = events._get_running_loop()
    assert isinstance(loop, RunLoop)
    if notify is not None:
        know_step(notify.body)
    while True:
        opened: AskedReview = await ask_durably(loop, AskCall(question, codecs))
        # Begun before people are told: who is told first may answer before all others are.
        waiting = ReviewCall(opened)
        answer = _begin(loop, waiting, waiting.withdrawal)
        if notify is not None:
            telling = operation_of(notify.body, (_info_of(opened),), {})
            await _tell(_begin(loop, telling, rules.call_off), opened, answer)
        reviewed: Reviewed[Any] | None = await answer
        # Without an answer it belonged to an earlier generation of the run, and people must be asked anew.
        if reviewed is not None:
            return reviewed


def _begin(loop: RunLoop, operation: Operation, forgone: Callable[[HeldRun, Record], Decision]) -> CallAnswer:
    """Make a durable call, and go on."""
    branch, answer = current_branch_of(loop), loop.create_answer()
    branch.context.ask(branch, operation, answer).forgone = forgone
    return answer


async def _tell(told: CallAnswer, opened: AskedReview, answer: CallAnswer) -> None:
    if not opened.is_present:
        # Called off in the same breath: what was told stays told, and nobody is told of what is open no more.
        told.cancel()
        return
    try:
        await told
    except Exception as error:
        # Somebody was quicker than the telling: what they said counts, however that ended.
        if _is_answered(answer) or (isinstance(error, ReviewEnded) and str(opened.review_id) in str(error)):
            return
        _forgo(answer)
        raise
    except BaseException:
        _forgo(answer)
        raise


def _is_answered(answer: CallAnswer) -> bool:
    return answer.done() and not answer.cancelled()


def _forgo(answer: CallAnswer) -> None:
    """Nobody waits for the answer to a review any more: people could not be told of it, or its branch is called off."""
    if not answer.cancel() and not answer.cancelled():
        answer.exception()


def _info_of(opened: AskedReview) -> ReviewInfo:
    review_id = opened.review_id
    facts = {"review_id": str(review_id), "run_id": review_id.run_id, **json.loads(opened.facts)}
    return cast(ReviewInfo, facts)

"""Every error a caller can meet, each with a stable code."""

from __future__ import annotations

from typing import ClassVar


class StepfastError(Exception):
    """The root of all errors that Stepfast raises; `code` is stable and listed in docs/reference/errors.md."""

    code: ClassVar[str] = "E-GEN-001"


class NotFound(StepfastError):
    """A run, or something else that was named, that does not exist, or not for this tenant."""

    code = "E-RUN-001"


class WorkerNotFound(NotFound):
    """A worker that does not exist, or has been gone for long."""

    code = "E-WORKER-001"


class AssetNotFound(NotFound):
    """An asset, collection or artifact that does not exist, or not for this tenant."""

    code = "E-ASSET-001"


class WorkflowNotFound(NotFound):
    """There is no workflow of that name, or not in that version."""

    code = "E-VAL-006"


class ExecutorNotFound(NotFound):
    """An executor that nobody has registered here, or that was unregistered."""

    code = "E-EXE-001"


class LeaseLost(StepfastError):
    """Another worker or a command owns the run now, and nothing sent was written; or its workers died too often."""

    code = "E-RUN-002"


class IllegalMove(StepfastError):
    """The state does not allow the move; nothing has changed."""

    code = "E-RUN-003"


class ReviewEnded(IllegalMove):
    """The review has its end already; nothing has changed."""


class NonDeterminism(StepfastError):
    """The code asks for other steps than the record of its run holds."""

    code = "E-RUN-004"


class NothingBefore(StepfastError):
    """A run cannot go on from a step when nothing finished before it."""

    code = "E-RUN-005"


class EventNotFound(NotFound):
    """There is no such event, or a run was never in such a state."""

    code = "E-RUN-010"


class StepFailed(StepfastError):
    """A step's error whose own class cannot be restored here; carries what is known of it."""

    code = "E-STEP-001"

    def __init__(
        self,
        message: str,
        *,
        type_name: str = "",
        traceback: str = "",
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback
        self.__cause__ = cause


class StepTimeout(StepfastError, TimeoutError):
    """A step's attempt, or all of its attempts together, took longer than allowed."""

    code = "E-STEP-002"


class Transient(StepfastError):
    """Something that will pass by itself; a step that raises it, or an error with `transient = True`, is retried."""

    code = "E-STEP-007"
    transient: ClassVar[bool] = True


class StepNotFound(StepfastError):
    """A run has no step of that name or number."""

    code = "E-STEP-003"


class JoinFailed(StepfastError):
    """Too few of several steps side by side came to a good end."""

    code = "E-STEP-005"


class UndoFailed(StepfastError):
    """A step that was to be undone could not be: somebody must look at what it left behind."""

    code = "E-STEP-006"


class PolicyConflict(StepfastError):
    """A policy does not let a step read, write or give what it would."""

    code = "E-POL-001"


class WaitTimeout(StepfastError, TimeoutError):
    """What was waited for did not come in time."""

    code = "E-WAIT-001"


class KeyReused(StepfastError):
    """An idempotency key came again with another body; nothing has changed."""

    code = "E-IDEM-001"


class Invalid(StepfastError):
    """An argument, value or setting that does not fit."""

    code = "E-VAL-001"


class InvalidDefinition(Invalid):
    """A workflow or step that cannot be registered as it is."""

    code = "E-VAL-002"


class OutputMissing(Invalid):
    """A step's output that another one requires and that is not there; trying again would not bring it."""

    code = "E-STEP-003"


class Unstorable(Invalid):
    """A value that cannot be kept as JSON and restored; the message holds the path to the culprit."""

    code = "E-VAL-003"


class WrongCall(StepfastError):
    """A durable call in a form or place that cannot work; the message names the form that does."""

    code = "E-VAL-004"


class EvaluationFailed(StepfastError):
    """An expression that has no value for what it was given; the message names the part and the reason."""

    code = "E-VAL-005"


class StoreUnavailable(StepfastError):
    """The store did not answer in time, or cannot write for now: a full database, a blob folder that is away."""

    code = "E-STORE-001"


class KeyInProgress(StoreUnavailable):
    """The command that first used this idempotency key has not been answered yet."""

    code = "E-IDEM-002"


class StoreMismatch(StepfastError):
    """The store's schema is older or newer than this program knows."""

    code = "E-STORE-002"


class StoreUnusable(StepfastError):
    """The store cannot be used as it is: a file that is read-only, damaged or on a network, a full blob folder."""

    code = "E-STORE-003"


class RowsRefused(StepfastError):
    """The store refuses a batch for the data in it; nothing of the batch is written."""

    code = "E-STORE-004"


class BlobDamaged(StepfastError):
    """A large value that a run refers to is missing from the blob store, or is not what was put there."""

    code = "E-BLOB-001"


class BlobsFailed(StepfastError):
    """The blob store did not do what it was asked, for a reason that it does not name."""

    code = "E-BLOB-002"


class SinkFailed(StepfastError):
    """A sink could not be reached, did not answer, or did not take events; the message has what it said."""

    code = "E-SINK-001"


class SinkAway(SinkFailed):
    """A sink can take nothing now, whatever it is offered; a sink's own code may raise it, and is asked again later."""

    code = "E-SINK-002"


class RunFailed(StepfastError):
    """The run that was waited for has failed; its own error is the cause."""

    code = "E-RUN-007"


class RunTimeout(StepfastError, TimeoutError):
    """A run did not end before its deadline."""

    code = "E-RUN-009"


class RunCancelled(StepfastError):
    """The run that was waited for was cancelled."""

    code = "E-RUN-008"


class TokenWrong(StepfastError):
    """A resume token that nobody has issued."""

    code = "E-REV-001"


class TokenExpired(StepfastError):
    """A resume token, or its review, whose time is over."""

    code = "E-REV-002"


class TokenUsed(StepfastError):
    """A resume token that was used before, or whose review has its end."""

    code = "E-REV-003"


class TokenForeign(StepfastError):
    """A resume token of another tenant, person, subject, run or generation."""

    code = "E-REV-004"


class VerdictNotAllowed(StepfastError):
    """An answer that this review does not take."""

    code = "E-REV-005"


class Rejected(StepfastError):
    """A person has said no."""

    code = "E-REV-006"


class NotShowable(Invalid):
    """What a review shows must be JSON."""

    code = "E-REV-007"


class RoleNotAllowed(StepfastError):
    """Somebody may not do this: it is for another person or role."""

    code = "E-AUTH-002"

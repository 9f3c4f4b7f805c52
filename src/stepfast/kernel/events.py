"""The facts that make up a run's history."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepfast.kernel.durations import Instant


class EventType(StrEnum):
    """Every kind of fact; published names, only ever added to."""

    TEMPLATE_REGISTERED = "template_registered"
    RETENTION_CHANGED = "retention_changed"
    PRUNED = "pruned"
    SINK_REMOVED = "sink_removed"
    QUEUED = "queued"
    CLAIMED = "claimed"
    STARTED = "started"
    WAITING = "waiting"
    PAUSED = "paused"
    RESUMED = "resumed"
    RETRY_SCHEDULED = "retry_scheduled"
    RETRIED = "retried"
    RERUN = "rerun"
    ROLLED_BACK = "rolled_back"
    SIGNALLED = "signalled"
    REAPED = "reaped"
    HANDED_BACK = "handed_back"
    CONTINUED = "continued"
    COMPLETED = "completed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    DLQ_PENDING = "dlq_pending"
    DLQ_RECORDED = "dlq_recorded"
    DLQ_DISCARDED = "dlq_discarded"
    FAILED = "failed"
    STEP_STARTED = "step_started"
    STEP_PROGRESS = "step_progress"
    STEP_WAITING = "step_waiting"
    STEP_COMPLETED = "step_completed"
    STEP_FAILED = "step_failed"
    STEP_SKIPPED = "step_skipped"
    STEP_CANCELLED = "step_cancelled"
    STEP_UNDONE = "step_undone"
    REVIEW_REQUESTED = "review_requested"
    REVIEW_ANSWERED = "review_answered"
    REVIEW_DECIDED = "review_decided"
    REVIEW_EXPIRED = "review_expired"
    REVIEW_ESCALATED = "review_escalated"
    REVIEW_ASSIGNED = "review_assigned"
    REVIEW_COMMENTED = "review_commented"
    TOKEN_ISSUED = "token_issued"
    RESUME_SUBMITTED = "resume_submitted"
    CALLBACK_SUBMITTED = "callback_submitted"
    EXCEPTION_OPENED = "exception_opened"
    EXCEPTION_ASSIGNED = "exception_assigned"
    EXCEPTION_COMMENTED = "exception_commented"
    EXCEPTION_RESOLVED = "exception_resolved"
    ANNOTATED = "annotated"


class Event(NamedTuple):
    """One fact; its run, tenant, generation and token come from the decision that carries it.

    A type that is no EventType is a workflow's own.
    """

    type: EventType | str
    at: Instant
    step: str | None = None
    attempt: int | None = None
    actor: str | None = None
    data: str | None = None

"""What steps keep for themselves while they run: values by name, and artifacts that people find with the run."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stepfast.kernel.blobs import Reference
from stepfast.kernel.decisions import CallId, HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, WorkerId


class ArtifactKind(StrEnum):
    """What was kept under a name: something for the step itself, something for people, or no longer anything."""

    VALUE = "value"
    ARTIFACT = "artifact"
    DELETED = "deleted"


class Form(StrEnum):
    """How the content is read back."""

    JSON = "json"
    BYTES = "bytes"


class Keeping(NamedTuple):
    """Whose storage it is: one attempt of one call of a step, under one lease of its run."""

    tenant: str
    run_id: RunId
    call: CallId
    generation: int
    token: int
    worker_id: WorkerId
    attempt: int


class Artifact(NamedTuple):
    """Something kept under a name; what is deleted has no content."""

    name: str
    kind: ArtifactKind
    form: Form = Form.BYTES
    media_type: str = ""
    content: Reference | None = None


class ArtifactView(NamedTuple):
    """What a step has kept, as it is listed with the run."""

    run_id: RunId
    step: str
    """The address of the call, as events have it."""
    name: str
    kind: ArtifactKind
    form: Form
    media_type: str
    digest: str
    size: int
    generation: int
    attempt: int
    saved_at: Instant
    superseded: bool
    """A later attempt or generation of the step has taken its place."""

    @property
    def reference(self) -> Reference:
        return Reference(self.digest, self.size)


class ArtifactFilter(NamedTuple):
    """Which of a run's artifacts are meant: with `all` also superseded ones, and what steps keep for themselves."""

    tenant: str
    run_id: RunId
    all: bool = False
    name: str | None = None
    limit: int = 1_000


def keeping_of(run: HeldRun, call: CallId, attempt: int) -> Keeping:
    """The storage of a step that runs now."""
    return Keeping(run.tenant, run.run_id, call, run.generation, run.token, run.worker_id, attempt)

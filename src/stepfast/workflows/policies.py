"""What a caller says of a step that is a run of its own elsewhere: how it is retried, and how long it may take."""

from __future__ import annotations

import copy
import json
from dataclasses import fields
from typing import Any, NamedTuple

from stepfast.kernel.durations import span_ms
from stepfast.kernel.error_kinds import error_kinds, kind_names
from stepfast.kernel.retry import Retry
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.limits import UNLIMITED, Limits

# The metadata of such a run is the engine's own.
KEY = "step_policy"
_ERRORS = ("on", "never")


class StepPolicy(NamedTuple):
    """The retries and the time limits of one step of a plan; what it does not say is the executor's own affair."""

    retry: Retry | None = None
    limits: Limits = UNLIMITED

    @property
    def text(self) -> str | None:
        """As the metadata of its run; None where nothing is said."""
        said = {
            "retry": None if self.retry is None else _retry_data(self.retry),
            "limits": None if self.limits == UNLIMITED else self.limits._asdict(),
        }
        kept = {name: value for name, value in said.items() if value is not None}
        return json.dumps({KEY: kept}) if kept else None

    @classmethod
    def read(cls, metadata: str | None) -> StepPolicy:
        """Of the metadata of a run."""
        said = json.loads(metadata or "{}").get(KEY) or {}
        retry, limits = said.get("retry"), said.get("limits")
        return cls(
            None if retry is None else _read_retry(retry),
            UNLIMITED if limits is None else Limits(limits.get("attempt_ms"), limits.get("total_ms")),
        )

    def governing(self, body: StepBody) -> StepBody:
        """The same body under this policy; a copy shares what is dear to make."""
        if self.retry is None and self.limits == UNLIMITED:
            return body
        governed = copy.copy(body)
        governed.retry = self.retry or body.retry
        governed.limits = body.limits if self.limits == UNLIMITED else self.limits
        return governed


def _retry_data(retry: Retry) -> dict[str, Any]:
    said = {field.name: getattr(retry, field.name) for field in fields(retry)}
    spans = {name: f"{span_ms(said[name])}ms" for name in ("base", "cap")}
    # By name: a worker that has the executor need not have the errors that the plan was written with.
    return said | spans | {name: kind_names(said[name]) for name in _ERRORS}


def _read_retry(said: dict[str, Any]) -> Retry:
    known = {field.name: said[field.name] for field in fields(Retry) if field.name in said}
    return Retry(**known | {name: error_kinds(known[name]) for name in _ERRORS if name in known})

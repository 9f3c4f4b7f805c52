"""Annotations as people give and ask for them: checked, and made into what a store carries out and reads."""

from __future__ import annotations

from typing import Any

from stepfast.control import Asked, asked, check_step
from stepfast.filters import step_filter
from stepfast.kernel.annotations import Annotate, AnnotationFilter, AnnotationView, digest_of
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.ports import Store
from stepfast.kernel.texts import check_optional_text
from stepfast.workflows.annotating import checked_name, value_text

ANYTHING: Any = object()
"""No value in particular; None is one."""


def annotate_command(
    name: str,
    value: Any,
    scope: str | None,
    step: str | int | None,
    key: str | None,
    reason: str | None,
    actor: str | None,
) -> Asked:
    """A fact that somebody notes from outside."""
    text = value_text(checked_name(name), value)
    fact = Annotate(name, text, check_optional_text("scope", scope), check_step("step", step))
    return asked(fact, key, reason, actor)


async def of_run(store: Store, run_id: RunId, name: str | None, step: str | None, limit: int) -> list[AnnotationView]:
    """What was noted of a run, in order."""
    where = annotation_filter(name, ANYTHING, step)._replace(run_id=run_id, limit=check_whole("limit", limit, 1))
    return (await store.annotations(where))[::-1]


def annotation_filter(name: str | None, value: Any, step: str | None) -> AnnotationFilter:
    """Which annotations are meant."""
    if value is not ANYTHING and name is None:
        raise Invalid("A value is asked for without a name. Say which name it belongs to.")
    named = None if name is None else checked_name(name)
    digest = None if value is ANYTHING else digest_of(named or "", value_text(named or "", value))
    return AnnotationFilter(name=named, digest=digest, **step_filter(step))

"""Annotations, read by one statement for both stores."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepfast.kernel.annotations import AnnotationFilter, AnnotationView
from stepfast.kernel.ids import RunId
from stepfast.kernel.trail import HIGHEST

Row = Sequence[Any]
T = TypeVar("T")


def annotation_view(row: Row) -> AnnotationView:
    """A row of `list_annotations`."""
    position, seq, run_id, *rest = row
    view = AnnotationView(position, seq, RunId(str(run_id)), *rest)
    return view._replace(value=_as_given(view.value))


def _as_given(value: str) -> str:
    """A value in the form in which every other value is stored; databases have forms of their own for it."""
    try:
        return json.dumps(json.loads(value), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError):
        return value


class Annotations:
    """What every store reads of annotations."""

    @abstractmethod
    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Row], T]) -> list[T]:
        """The rows of a shared statement, each as its view."""

    async def annotations(self, where: AnnotationFilter) -> list[AnnotationView]:
        """A page of annotations, newest first."""
        before = HIGHEST if where.before is None else where.before
        return await self._ask("list_annotations", where._asdict() | {"before": before}, annotation_view)

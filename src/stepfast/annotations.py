"""Annotations of an app's runs: finding what code and people have noted."""

from __future__ import annotations

from typing import Any

from stepfast.base import AppBase
from stepfast.filters import page_size, trail_place
from stepfast.kernel.annotations import AnnotationView
from stepfast.kernel.ids import parse_run_id
from stepfast.kernel.texts import check_optional_text
from stepfast.noting import ANYTHING, annotation_filter

Views = list[AnnotationView]


class Annotations:
    """The annotations on an app's store."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(
        self,
        name: str | None = None,
        *,
        value: Any = ANYTHING,
        run_id: str | None = None,
        step: str | None = None,
        actor: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        cursor: int | None = None,
    ) -> Views:
        """A page of annotations, newest first; the position of the last one is the cursor of the next page.

        With a name and a value, those that note just that. A step is named by its address, like `charge#1`, or, for
        every call of it, by its name.
        """
        where = annotation_filter(name, value, step)._replace(
            run_id=None if run_id is None else parse_run_id(run_id),
            actor=check_optional_text("actor", actor),
            tenant=check_optional_text("tenant", tenant),
            before=trail_place(cursor),
            limit=page_size(limit),
        )
        return await self._app._open_parts().store.annotations(where)

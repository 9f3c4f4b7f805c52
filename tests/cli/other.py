"""An app that does not know the workflows of the shop."""

from __future__ import annotations

from stepfast import Stepfast, workflow


@workflow
async def unrelated() -> None:
    """Nothing to do."""


app = Stepfast(workflows=[unrelated])

"""An app with executors and nothing else, for the commands that look at them."""

from __future__ import annotations

import asyncio

from stepfast import Executor, Retry, Stepfast


class Painter:
    """Paints things."""

    queue = "studio"
    retry = Retry(attempts=2)

    async def execute(self, motif: str, config: dict[str, int] | None = None) -> list[str]:
        return [motif]

    async def health(self) -> str:
        return "2 brushes"


class Ill(Painter):
    async def health(self) -> str:
        raise OSError("no \x1b[31mpaint")


class Hung(Painter):
    async def health(self) -> str:
        await asyncio.Event().wait()
        return "never"


app = Stepfast(
    workflows=[],
    executors=[Executor.of(Painter, "art.paint"), Executor.of(Ill, "art.ill"), Executor.of(Hung, "art.hung")],
)

"""An app inside a web application: open, with its worker, for as long as that one serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from stepfast.app import Stepfast

Lifespan = Callable[[Any], AbstractAsyncContextManager[dict[str, Stepfast]]]


def lifespan(app: Stepfast) -> Lifespan:
    """For `FastAPI(lifespan=lifespan(app))` and `Starlette(lifespan=lifespan(app))`.

    The app is `request.state.stepfast` too.
    """

    @asynccontextmanager
    async def open_while_serving(host: Any) -> AsyncIterator[dict[str, Stepfast]]:
        async with app:
            yield {"stepfast": app}

    return open_while_serving

"""An app inside a web application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from stepfast import StepfastError
from stepfast.asgi import lifespan
from tests.support.apps import app_on
from tests.support.workflows import say


@asynccontextmanager
async def serving(web: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a web application that is served as a server would: its lifespan, then requests with its state."""
    state: dict[str, Any] = {}
    told: asyncio.Queue[Any] = asyncio.Queue()
    answers: asyncio.Queue[Any] = asyncio.Queue()
    living = asyncio.create_task(web({"type": "lifespan", "state": state}, told.get, answers.put))
    told.put_nowait({"type": "lifespan.startup"})
    assert (await answers.get())["type"] == "lifespan.startup.complete"

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        await web({**scope, "state": dict(state)}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(with_state), base_url="http://test") as client:
        yield client
    told.put_nowait({"type": "lifespan.shutdown"})
    assert (await answers.get())["type"] == "lifespan.shutdown.complete"
    await living


async def test_an_app_is_open_while_the_web_application_serves(database):
    app = app_on(database, [say])

    async def hello(request: Request) -> PlainTextResponse:
        assert request.state.stepfast is app
        return PlainTextResponse(await (await app.start(say, "hello")).result(timeout="30s"))

    async with serving(Starlette(routes=[Route("/", hello)], lifespan=lifespan(app))) as client:
        assert (await client.get("/")).text == "hello"
    with pytest.raises(StepfastError, match="not open"):
        await app.runs()

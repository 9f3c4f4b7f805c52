"""Workflows that give people something to do: questions, and failures that are alike."""

from __future__ import annotations

from typing import Any, TypedDict

from stepfast import Retry, review, step, workflow

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202e <script>alert(1)</script>"


class Draft(TypedDict):
    text: str


@step(retry=Retry(attempts=1))
async def send(order: int) -> str:
    raise ConnectionError(f"order {order} was refused {HOSTILE}")


@workflow
async def sending(order: int) -> str:
    return await send(order)


@workflow
async def drafting(title: str = "Send it?", options: dict[str, Any] | None = None) -> Any:
    answer = await review(title, show={"text": HOSTILE}, type=Draft, **(options or {}))
    return [answer.verdict, answer.value, answer.actor, answer.note]


WORKFLOWS: list[Any] = [sending, drafting]

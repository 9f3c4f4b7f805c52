"""A workflow for tests that are not about what a workflow does."""

from __future__ import annotations

from stepfast import step, workflow


@step
async def echo(word: str) -> str:
    return word


@workflow
async def say(word: str) -> str:
    return await echo(word)

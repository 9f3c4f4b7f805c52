"""Workflows that end well, badly, with children and without."""

from __future__ import annotations

from typing import Any

from stepfast import Retry, each, receive, step, workflow


@step
async def echo(word: str) -> str:
    return word


@step(retry=Retry(attempts=1))
async def refuse(word: str) -> str:
    raise ValueError(word)


@workflow
async def say(word: str) -> str:
    return await echo(word)


@workflow
async def shout(word: str) -> str:
    return await echo(word.upper())


@workflow
async def wail(word: str) -> str:
    return await refuse(word)


@workflow
async def listen(word: str) -> str:
    return word + str(await receive("word"))


@workflow
async def tell(words: list[str]) -> list[str]:
    """A parent with a child for each word."""
    return await each(say, words)


@workflow
async def pass_on(words: list[str]) -> list[str]:
    """A grandparent."""
    return await tell(words)


ALL: list[Any] = [say, shout, wail, listen, tell, pass_on]

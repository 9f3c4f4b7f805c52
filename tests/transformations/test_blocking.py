"""Transformations beside the engine: those that block, and those that make much."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stepfast import Derived, Domain, Graph, Retry, Source, storage
from stepfast.testing import engine
from stepfast.workflows.storage import Here
from stepfast.workflows.transformations import keeping

LONGEST_S = 60

sheets = Domain("sheets", retry=Retry(attempts=1))


@sheets.transformation("stamp")
def stamp(document: Source) -> Derived:
    storage.artifact.sync("proof", "seen")
    return Derived(document.text + "!")


async def test_one_that_blocks_may_wait_for_what_the_engine_does_in_threads(database):
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    graph = Graph("stamping", input=str)
    graph.use(stamp, document=graph.input)
    async with engine(database=database, workflows=[graph]) as opened, asyncio.timeout(LONGEST_S):
        await opened.app.assets.put("paid", "contract")
        await opened.run(graph, "contract")
        assert await opened.app.assets.read("contract/stamp") == b"paid!"


@sheets.transformation("cut")
def cut(document: Source) -> list[Derived]:
    return [Derived(word, name=word) for word in document.text.split()]


async def test_of_what_it_has_made_one_content_at_a_time_is_in_memory(database, monkeypatch):
    seen: list[str] = []
    content, make = keeping._content, Here.make

    async def noted_content(here: Here, output: Any, run_id: Any) -> bytes:
        seen.append(f"read {output['name']}")
        return await content(here, output, run_id)

    async def noted_make(self: Here, new: Any, *rest: Any) -> Any:
        seen.append(f"kept {new.id}")
        return await make(self, new, *rest)

    monkeypatch.setattr(keeping, "_content", noted_content)
    monkeypatch.setattr(Here, "make", noted_make)
    graph = Graph("cutting", input=str)
    graph.use(cut, document=graph.input)
    async with engine(database=database, workflows=[graph]) as opened:
        await opened.app.assets.put("one two", "words")
        await opened.run(graph, "words")
    assert seen == ["read one", "kept words/one", "read two", "kept words/two"]

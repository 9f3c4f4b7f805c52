"""A trail as it grows in earnest, and all that somebody may do to it who owns the database."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import asyncpg

from stepfast import Stepfast
from stepfast.kernel.auditing import AuditReport
from stepfast.kernel.seals import Seal, sealed
from stepfast.seal_files import SealFile
from stepfast.signing import KeyedSigner, NewPair, new_pair, read_seal_keys
from stepfast.stores.statements import unprefixed
from tests.support.apps import QUICK
from tests.support.sql import fetch, guards
from tests.support.turns import turn
from tests.support.workflows import say

WRITERS = 8
# Processes that a test starts seal with the same keys.
PAIR = (
    NewPair(*json.loads(os.environ["STEPFAST_TEST_SEAL_PAIR"]))
    if "STEPFAST_TEST_SEAL_PAIR" in os.environ
    else new_pair("2026")
)
SIGNER = KeyedSigner(read_seal_keys(PAIR.private))
VERIFIER = KeyedSigner(read_seal_keys(PAIR.public))
# Somebody without the key signs with one of their own, and names it like the real one.
FORGER = KeyedSigner(read_seal_keys(new_pair("2026").private))

TABLES = ("event", "seal", "leaf")
WRITE = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token, actor, data)
select '{run}', 1 + coalesce(max(seq), 0), 'default', 1, 'progress', {at}, 0, 'writer', '{{}}'
  from stepfast.event where run_id = '{run}'
"""


@dataclass
class Trail:
    """A trail that was sealed while it was written, with its copies."""

    database: str
    app: Stepfast
    copies: Path
    kept: bytes = b""
    saved: list[str] = field(default_factory=list)

    async def verify(self, *, by: KeyedSigner = VERIFIER, has_copies: bool = True) -> AuditReport:
        self.app.signer = by
        self.app.seal_copies = SealFile(self.copies) if has_copies else None
        return await self.app.audit.verify()

    async def save(self) -> None:
        """Keep the trail as it is, to be put back by `restore`."""
        self.kept = self.copies.read_bytes()
        await run_sql(
            self.database, [f"create table stepfast.saved_{each} as select * from stepfast.{each}" for each in TABLES]
        )

    async def restore(self) -> None:
        self.copies.write_bytes(self.kept)
        statements = [f"delete from stepfast.{each}" for each in TABLES]
        await run_sql(
            self.database,
            [*statements, *(f"insert into stepfast.{each} select * from stepfast.saved_{each}" for each in TABLES)],
        )

    async def seals(self) -> list[Seal]:
        return await self.app._open_parts().store.seals(0, 1_000)

    async def columns(self, table: str) -> list[str]:
        if self.database.startswith("sqlite"):
            return [row[1] for row in await fetch(self.database, f"pragma table_info({table})")]
        query = f"select attname from pg_attribute where attrelid = 'stepfast.{table}'::regclass and attnum > 0"
        return [name for (name,) in await fetch(self.database, f"{query} and not attisdropped order by attnum")]


async def run_sql(database: str, statements: Iterable[str]) -> None:
    """Run statements in one transaction, past the guards; `text` is what a store holds, whatever type it has."""
    for guard in await guards(database):
        await _run(database, [guard])
    await _run(database, statements)


async def _run(database: str, statements: Iterable[str]) -> None:
    if database.startswith("sqlite"):
        connection = apsw.Connection(str(Path(database.removeprefix("sqlite:///"))))
        connection.set_busy_timeout(10_000)
        try:
            with connection:
                for statement in statements:
                    connection.execute(unprefixed(statement))
        finally:
            connection.close()
        return
    session = await asyncpg.connect(database)
    try:
        async with session.transaction():
            for statement in statements:
                await session.execute(statement)
    finally:
        await session.close()


@asynccontextmanager
async def trail_of(database: str, copies: Path, seed: int = 0) -> AsyncIterator[Trail]:
    """Eight writers beside the runs of an app, some of whose transactions are rolled back, sealed at random moments."""
    app = Stepfast(database, workflows=[say], worker=replace(QUICK, seal_every_ms=86_400_000))
    app.signer, app.seal_copies = SIGNER, SealFile(copies)
    async with app:
        is_over = asyncio.Event()
        sealing = asyncio.create_task(_seal_now_and_then(app, random.Random(seed), is_over))
        await asyncio.gather(*(_write(database, number, seed) for number in range(WRITERS)), _run_some(app))
        is_over.set()
        await sealing
        for word in ("three", "more", "seals", "at least"):
            await (await app.start(say, word)).result(timeout="60s")
            await app.audit.seal()
        await (await app.start(say, "not sealed")).result(timeout="60s")
        yield Trail(database, app, copies)


async def _run_some(app: Stepfast) -> None:
    runs = [await app.start(say, f"word {number}") for number in range(WRITERS)]
    for run in runs:
        await run.result(timeout="60s")


async def _seal_now_and_then(app: Stepfast, chosen: random.Random, is_over: asyncio.Event) -> None:
    while not is_over.is_set():
        for _ in range(chosen.randrange(1, 20)):
            await turn()
        await app.audit.seal()


def run_of(writer: int) -> UUID:
    return UUID(int=0x700000000000 + writer)


async def _write(database: str, number: int, seed: int) -> None:
    chosen = random.Random(f"{seed}/{number}")
    texts = [WRITE.format(run=run_of(number), at=1_700_000_000_000 + at) for at in range(8)]
    if database.startswith("sqlite"):
        await asyncio.to_thread(_write_to_file, Path(database.removeprefix("sqlite:///")), texts, chosen)
        return
    session = await asyncpg.connect(database)
    try:
        for text in texts:
            held = session.transaction()
            await held.start()
            await session.execute(text)
            await (held.rollback() if chosen.random() < 0.3 else held.commit())
    finally:
        await session.close()


def _write_to_file(path: Path, texts: list[str], chosen: random.Random) -> None:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(30_000)
    try:
        for text in texts:
            connection.execute("begin immediate")
            connection.execute(unprefixed(text))
            connection.execute("rollback" if chosen.random() < 0.3 else "commit")
    finally:
        connection.close()


def literal(value: Any) -> str:
    """A value of a row as SQL."""
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


async def sealed_anew(trail: Trail, first: int) -> list[str]:
    """What makes the seals from a number on anew, as far as one can without the key: leaves, roots, chain."""
    store, statements = trail.app._open_parts().store, list[str]()
    known = await trail.seals()
    previous = next((seal for seal in known if seal.body.number == first - 1), None)
    for old in known[first - 1 :]:
        events = await store.sealed_events(old.body.after, old.body.upto, 20_000)
        seal, leaves = sealed(previous, events, old.body.upto, old.body.sealed_at, FORGER)
        values = ", ".join(map(literal, (*seal.body, seal.key, seal.signature)))
        statements += [
            f"delete from stepfast.seal where number = {old.body.number}",
            f"delete from stepfast.leaf where number = {old.body.number}",
            f"insert into stepfast.seal values ({values})",
        ]
        for n, leaf in enumerate(leaves, 1):
            told = ", ".join(map(literal, (seal.body.number, n, *leaf)))
            statements.append(f"insert into stepfast.leaf values ({told})")
        previous = seal
    return statements

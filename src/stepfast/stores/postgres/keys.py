"""The keys of commands: what comes again is answered as the first time, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.errors import KeyReused
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Connection

USED = "select * from stepfast.used_keys($1::uuid[], $2::text[], $3::text[])"
USE = "select stepfast.use_keys($1::text[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[])"


class KeyName(NamedTuple):
    """What a key is unique by."""

    tenant: str
    command: str
    key: str


class KeyUse(NamedTuple):
    """What a key was first used for, and what that did."""

    digest: str
    answer: str


class Keys:
    """The uses of the keys that one call's requests have: earlier ones, and those of the call itself."""

    def __init__(self, uses: dict[KeyName, KeyUse]) -> None:
        self._uses = uses
        self._fresh: list[tuple[str, ...]] = []

    @classmethod
    async def read(cls, connection: Connection, requests: Sequence[Request]) -> Keys:
        """What the keys were used for before this call."""
        wanted = [
            (request.run_id, request.command.name, request.key) for request in requests if request.key is not None
        ]
        found = await connection.fetch(USED, *zip(*wanted, strict=True)) if wanted else []
        return cls({KeyName(*name): KeyUse(digest, answer) for *name, digest, answer in found})

    def earlier(self, tenant: str, request: Request) -> Changed | KeyReused | None:
        """The answer to a request whose key was used before."""
        if request.key is None or request.dry_run or (use := self._uses.get(_name(tenant, request))) is None:
            return None
        if use.digest == request.digest:
            return rows.repeated_answer(use.answer)
        return rows.key_reused(tenant, request.key, request.command.name)

    def use(self, tenant: str, request: Request, answer: Changed) -> None:
        """Keep what a request did for when its key comes again."""
        if request.key is not None:
            name, use = _name(tenant, request), KeyUse(request.digest, rows.answer_text(answer))
            self._uses[name] = use
            self._fresh.append((*name, use.digest, request.run_id, use.answer))

    async def write(self, connection: Connection) -> None:
        """Store the uses of this call."""
        if self._fresh:
            await connection.fetch(USE, *zip(*self._fresh, strict=True))


def _name(tenant: str, request: Request) -> KeyName:
    return KeyName(tenant, request.command.name, request.key or "")

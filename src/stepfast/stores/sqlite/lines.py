"""The ready runs of a queue as one line for each tenant, found by looks into the index."""

from __future__ import annotations

import heapq
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile

import apsw

from stepfast.kernel.ids import RunId
from stepfast.stores.sqlite.asking import one, statements

SQL = statements("claiming")

Spot = tuple[int, str]
"""A place in the line, and the run that has it."""

FRONT: Spot = (-(2**63), "")


class Tenants:
    """The tenants that have ready runs for some codes, in order of their names."""

    def __init__(
        self, connection: apsw.Connection, queue: str, codes: Sequence[str], only: Sequence[str] | None
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._codes = sorted(set(codes))
        self._only = None if only is None else sorted(only)

    def after(self, tenant: str) -> Iterator[tuple[str, list[str]]]:
        """Each tenant after the given one, with those of the codes that it has ready runs for."""
        yield from self._walk(self._heads("next_tenants", tenant, self._next))

    def up_to(self, tenant: str) -> Iterator[tuple[str, list[str]]]:
        """Each tenant from the first to the given one."""
        heads = self._heads("first_tenants", "", self._at_or_after)
        yield from takewhile(lambda served: served[0] <= tenant, self._walk(heads))

    def _heads(self, name: str, tenant: str, look: Callable[[str, str], str | None]) -> list[tuple[str, str]]:
        """The tenant that each code begins with, and the code, where it has any: one statement for all codes."""
        asked = {"queue": self._queue, "codes": json.dumps(self._codes), "tenant": tenant}
        try:
            found = json.loads(one(self._connection, SQL[name], asked))
        except UnicodeDecodeError:
            found = [(code, look(code, tenant)) for code in self._codes]
        allowed = ((self._allowed(code, first), code) for code, first in found)
        return [(first, code) for first, code in allowed if first is not None]

    def _walk(self, heads: list[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
        """Go on from the first tenant of each code, looking only at codes that the tenant at hand has."""
        heapq.heapify(heads)
        while heads:
            tenant = heads[0][0]
            codes = []
            while heads and heads[0][0] == tenant:
                _, code = heapq.heappop(heads)
                codes.append(code)
            yield tenant, codes
            for code in codes:
                following = self._next(code, tenant)
                if following is not None:
                    heapq.heappush(heads, (following, code))

    def _next(self, code: str, tenant: str) -> str | None:
        return self._allowed(code, self._found("next_tenant", code, tenant))

    def _at_or_after(self, code: str, tenant: str) -> str | None:
        return self._allowed(code, self._found("this_or_next_tenant", code, tenant))

    def _found(self, name: str, code: str, tenant: str) -> str | None:
        try:
            found: str | None = one(self._connection, SQL[name], (self._queue, code, tenant))
        except UnicodeDecodeError:
            return self._next_readable(code, tenant)
        return found

    def _next_readable(self, code: str, tenant: str) -> str | None:
        """The next tenant whose name is text: who has damaged that of one run must not keep all others from theirs."""
        reached = tenant.encode()
        while (raw := one(self._connection, SQL["next_tenant_as_stored"], (self._queue, code, reached))) is not None:
            try:
                return str(raw, "utf-8")
            except UnicodeDecodeError:
                reached = raw
        return None

    def _allowed(self, code: str, found: str | None) -> str | None:
        """The tenant found, or the next one that may be served: jumps over those between, however many."""
        if found is None or self._only is None:
            return found
        nearest = bisect_left(self._only, found)
        if nearest == len(self._only):
            return None
        return found if self._only[nearest] == found else self._at_or_after(code, self._only[nearest])


class TenantLine:
    """A tenant's ready runs over several codes, read in pieces that grow with what is taken."""

    def __init__(self, connection: apsw.Connection, queue: str, tenant: str, codes: Sequence[str], piece: int) -> None:
        self._connection = connection
        self._queue = queue
        self._tenant = tenant
        self._piece = piece
        self._spots = heapq.merge(*(self._line(code) for code in codes))

    def take(self, count: int) -> list[RunId]:
        """The next runs of the line; fewer than asked for only when it ends."""
        return [RunId(run_id) for _, run_id in islice(self._spots, count)]

    def _line(self, code: str) -> Iterator[Spot]:
        size, reached = self._piece, FRONT
        while True:
            row = (self._queue, code, self._tenant, *reached, size)
            piece = json.loads(one(self._connection, SQL["tenant_line"], row))
            yield from ((place, run_id) for place, run_id in piece)
            if len(piece) < size:
                return
            size, reached = 2 * size, (piece[-1][0], piece[-1][1])

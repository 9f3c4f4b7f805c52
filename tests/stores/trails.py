"""Writers of events that are put into the trail as they are, one by one."""

from __future__ import annotations

from uuid import UUID

import asyncpg

RUN = [UUID(int=number) for number in range(1, 30)]
WRITE = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token)
select $1::uuid, 1 + coalesce(max(seq), 0), 'default', 1, 'progress', 0, 0 from stepfast.event where run_id = $1::uuid
returning position
"""


async def write(session: asyncpg.Connection, run: UUID) -> int:
    """The position of one more event of a run."""
    return int(await session.fetchval(WRITE, run))

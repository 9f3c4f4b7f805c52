"""How much memory this process has."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

from stepfast.log import Log

log = Log("cli")

LOOK_EVERY_S = 1.0


async def outgrown(limit_bytes: int) -> None:
    """Return when the process has grown beyond the limit, and say so."""
    while (held := resident_bytes()) <= limit_bytes:  # noqa: ASYNC110 - the system tells nobody by itself
        await asyncio.sleep(LOOK_EVERY_S)
    log.info("worker_outgrown", bytes=held, limit_bytes=limit_bytes)


def leaves_room(limit_bytes: int) -> bool:
    """Whether the process, as it begins, is below the limit; says so if it is not."""
    needed = resident_bytes()
    if needed > limit_bytes:
        log.error("memory_too_small", setting="--max-memory", limit_bytes=limit_bytes, needed_bytes=needed)
    return needed <= limit_bytes


def resident_bytes() -> int:
    """The memory that this process holds; where the system does not tell, the most it ever held."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1_024

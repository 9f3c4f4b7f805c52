"""A process that seals, and is killed at a point of that."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from stepfast import Stepfast, seal_files
from stepfast.engine.sealing import Sealer
from stepfast.kernel.seals import Seal
from stepfast.seal_files import SealFile
from tests.audit.trails import SIGNER
from tests.support.workflows import say

POINTS = ("before it is stored", "before it is copied", "in the middle of its line", "when it is copied")


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str, app: Stepfast) -> None:
    sync, line = os.fsync, seal_files.seal_line

    def half_of(seal: Seal) -> bytes:
        whole = line(seal)
        return whole[: len(whole) // 2]

    def die_when_synced(fd: Any) -> None:
        sync(fd)
        die()

    match point:
        case "before it is stored":
            app._open_parts().store.put_seal = die  # type: ignore[method-assign]
        case "before it is copied":
            SealFile.keep = die  # type: ignore[method-assign]
        case "in the middle of its line":
            seal_files.seal_line = half_of
            os.fsync = die_when_synced
        case "when it is copied":
            os.fsync = die_when_synced


def copy_late() -> None:
    """Take the guard out: what has no copy yet is not copied before the next seal is made."""
    copy_out, calls = Sealer._copy_out, list[Seal | None]()

    async def late(self: Sealer, last: Seal | None) -> Any:
        calls.append(last)
        return None if len(calls) == 1 else await copy_out(self, last)

    Sealer._copy_out = late  # type: ignore[method-assign]


async def main(database: str, copies: str, point: str, is_broken: bool) -> None:
    app = Stepfast(database, workflows=[say], worker=False)
    app.signer, app.seal_copies = SIGNER, SealFile(Path(copies))
    async with app:
        if is_broken:
            copy_late()
        die_at(point, app)
        await app.audit.seal()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], "broken" in sys.argv[4:]))

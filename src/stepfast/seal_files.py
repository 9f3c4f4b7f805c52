"""Copies of seals in a file outside of the database, one line of JSON for each, only ever added to."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from stepfast.kernel.errors import Invalid, StoreUnavailable
from stepfast.kernel.seals import Seal, SealBody

LONGEST_LINE = 4_096
LINES_AT_ONCE = 1_000


class SealFile:
    """A file of seals; several processes may add to one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def last_number(self) -> int:
        """The number of the last seal in the file."""
        return await asyncio.to_thread(self._last_number)

    async def keep(self, seals: Sequence[Seal]) -> None:
        """Add those that the file does not have."""
        await asyncio.to_thread(self._keep, seals)

    async def kept(self) -> AsyncIterator[Seal]:
        """All seals of the file."""
        try:
            with self._path.open("rb") as file:
                number = 0
                while lines := await asyncio.to_thread(lambda: list(islice(file, LINES_AT_ONCE))):
                    for line in lines:
                        number += 1
                        # A process that died over its last line will have it written anew.
                        if line.endswith(b"\n"):
                            yield self._seal_of(line, f":{number}")
        except FileNotFoundError:
            return

    def _last_number(self) -> int:
        try:
            with self._path.open("rb") as file:
                return self._last_of(file)
        except FileNotFoundError:
            return 0
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _keep(self, seals: Sequence[Seal]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                # Two processes that copy the same seal write it once.
                fcntl.flock(file, fcntl.LOCK_EX)
                last = self._last_of(file)
                file.truncate(file.tell())
                file.writelines(seal_line(seal) for seal in seals if seal.body.number > last)
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _last_of(self, file: BinaryIO) -> int:
        """The number of the last whole line; the file then stands behind that."""
        size = file.seek(0, os.SEEK_END)
        begins = file.seek(max(size - 2 * LONGEST_LINE, 0))
        whole, newline, _ = file.read().rpartition(b"\n")
        file.seek(begins + len(whole) + len(newline))
        return self._seal_of(whole.rpartition(b"\n")[2]).body.number if newline else 0

    def _seal_of(self, line: bytes, where: str = "") -> Seal:
        try:
            return seal_of_object(json.loads(line))
        except (ValueError, TypeError, KeyError):
            raise Invalid(f"{self._path}{where}: a line that is no seal. Put the file back by a backup.") from None

    def _unusable(self, problem: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"The copies of seals in {self._path} cannot be used: {problem.strerror}.")


def seal_line(seal: Seal) -> bytes:
    """A seal as a line of a file."""
    return json.dumps(seal_object(seal), ensure_ascii=True).encode() + b"\n"


def seal_object(seal: Seal) -> dict[str, Any]:
    """A seal as JSON."""
    return {**seal.body._asdict(), "key": seal.key, "signature": seal.signature}


def seal_of_object(given: dict[str, Any]) -> Seal:
    """A seal from JSON; raises KeyError or TypeError for what is none."""
    body = {name: given[name] for name in SealBody._fields}
    return Seal(SealBody(**body), str(given["key"]), str(given["signature"]))

"""Copies of seals in a file outside of the database, one line of JSON for each, only ever added to."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from stepfast.file_locks import locked
from stepfast.kernel.errors import Invalid, StoreUnavailable, StoreUnusable
from stepfast.kernel.seals import Seal, SealBody, next_after

LONGEST_LINE = 4_096
LINES_AT_ONCE = 1_000
LINE_BEGINS = b'{"number": '


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
                while lines := await asyncio.to_thread(_next_lines, file):
                    for line in lines:
                        number += 1
                        yield self._seal_of(line, f":{number}")
        except FileNotFoundError:
            return
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _last_number(self) -> int:
        try:
            self._check_regular()
            with self._path.open("rb") as file:
                last = self._last_of(file)
                return 0 if last is None else last.body.number
        except FileNotFoundError:
            return 0
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _keep(self, seals: Sequence[Seal]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._check_regular()
            # Two processes that copy the same seal write it once.
            with self._path.open("a+b") as file, locked(file.fileno(), fcntl.LOCK_EX):
                last = self._last_of(file)
                file.truncate(file.tell())
                file.writelines(map(seal_line, self._new(last, seals)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _check_regular(self) -> None:
        """What is added to has an end: a pipe would be waited for, and a device read for ever."""
        if self._path.exists() and not (self._path.is_file() or self._path.is_dir()):
            raise OSError(errno.EINVAL, "it is no regular file")

    def _last_of(self, file: BinaryIO) -> Seal | None:
        """The seal of the last whole line; the file then stands behind that."""
        size = file.seek(0, os.SEEK_END)
        begins = file.seek(max(size - 2 * LONGEST_LINE, 0))
        whole, newline, rest = file.read(size - begins).rpartition(b"\n")
        # What stands behind the last line is removed: it must be what a process that died has left.
        if not (rest.startswith(LINE_BEGINS) or LINE_BEGINS.startswith(rest)) or (begins and not newline):
            raise self._no_seal("")
        file.seek(begins + len(whole) + len(newline))
        return self._seal_of(whole.rpartition(b"\n")[2]) if newline else None

    def _new(self, last: Seal | None, seals: Sequence[Seal]) -> list[Seal]:
        """Those of some seals that come behind the last one, if they follow upon it."""
        for seal in seals:
            if last is not None and seal.body.number == last.body.number and seal != last:
                raise StoreUnusable(
                    f"Seal {seal.body.number} of the database is not the one in {self._path}: the database was cut "
                    "short or put back by an older backup, or those are copies of another. Keep the file, run "
                    "`stepfast audit verify`, and name another in STEPFAST_SEAL_FILE."
                )
        new = [seal for seal in seals if last is None or seal.body.number > last.body.number]
        if last is not None and new and (new[0].body.number, new[0].body.previous) != next_after(last):
            raise StoreUnusable(
                f"Seal {new[0].body.number} does not follow upon seal {last.body.number} of {self._path}: those are "
                "copies of another database, or this one is not what it was. Keep the file, run `stepfast audit "
                "verify`, and name another in STEPFAST_SEAL_FILE."
            )
        return new

    def _seal_of(self, line: bytes, where: str = "") -> Seal:
        try:
            return seal_of_object(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._no_seal(where) from None

    def _no_seal(self, where: str) -> Invalid:
        return Invalid(f"{self._path}{where}: a line that is no seal. Put the file back by a backup, or name another.")

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
    body = SealBody(**{name: given[name] for name in SealBody._fields})
    texts = {"root": body.root, "previous": body.previous, "key": given["key"], "signature": given["signature"]}
    numbers = [value for name, value in body._asdict().items() if name not in texts]
    if not all(type(number) is int for number in numbers) or not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a seal has numbers and texts in their places")
    return Seal(body, texts["key"], texts["signature"])


def _next_lines(file: BinaryIO) -> list[bytes]:
    """Some lines, none of them longer than one can be, and none that is being written."""
    lines = list(islice(iter(lambda: file.readline(LONGEST_LINE), b""), LINES_AT_ONCE))
    if lines and not lines[-1].endswith(b"\n") and len(lines[-1]) < LONGEST_LINE:
        file.seek(-len(lines.pop()), os.SEEK_CUR)
    return lines

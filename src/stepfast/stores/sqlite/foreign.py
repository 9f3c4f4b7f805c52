"""Files of other programs: found out before anything is made beside them or changed in them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from stepfast.kernel.errors import StoreUnusable
from stepfast.stores.sqlite.migrate import has_migrations
from stepfast.stores.sqlite.turnstile import is_known


def refuse_foreign(path: Path) -> None:
    """Refuse a file that is there, and is no store: a plain look, without locks and without a file beside it."""
    if is_known(path) or not path.exists():
        return
    refuse_folder(path)
    # Nobody of ours has it open. If another program writes to it now, what is seen may not hold together.
    with suppress(apsw.CorruptError):
        connection = _untouched(path)
        try:
            has_migrations(connection, path)
        finally:
            connection.close()


def refuse_folder(path: Path) -> None:
    """Refuse a folder: of it SQLite says that the disk cannot be read."""
    if path.is_dir():
        raise StoreUnusable(f"The store {path} is a folder. Name a file in it.")


def _untouched(path: Path) -> apsw.Connection:
    # Of a file that is called immutable SQLite reads no log, and makes none.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(path.absolute()))}?immutable=1", flags=flags)

"""Migrates a SQLite file in processes that are killed at its first statement, at its second, and so on.

Called as `python -m tests.support.migration_victim FILE BROKEN`; prints as JSON how many things each death left in the
file, how many the first process left that was not killed, and how that ended. BROKEN "yes" lets every statement commit
by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import apsw

from stepfast.stores.sqlite import migrate
from stepfast.stores.sqlite.store import SqliteStore

STATEMENT = re.compile(r"^(create|alter|insert) ", re.MULTILINE)


def between_statements(script: str, text: str) -> str:
    """A migration with something before each of its statements; what is inside of one is indented."""
    return STATEMENT.sub(rf"{text}\n\1 ", script)


def die_at(number: int) -> None:
    """Let this process die when the migration has come to a statement."""
    apply, statements = migrate.apply_next, itertools.count(1)

    def traced(connection: apsw.Connection, path: Path) -> str | None:
        connection.exec_trace = count_down
        return apply(connection, path)

    def count_down(*_: Any) -> bool:
        if next(statements) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    setattr(migrate, "apply_next", traced)  # noqa: B010 - as a type checker must not see it


def commit_each_statement() -> None:
    """Take out the one transaction of a migration."""
    broken = tuple(
        step._replace(script=between_statements(step.script, "commit; begin immediate;"))
        for step in migrate.known_migrations()
    )
    setattr(migrate, "known_migrations", lambda: broken)  # noqa: B010 - as above


def die_in_a_child(path: Path, number: int) -> int:
    """How a process ends that is killed at this statement of the migration."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    die_at(number)
    try:
        asyncio.run(SqliteStore(path, lambda: 1).open())
    except BaseException:  # noqa: BLE001 - the parent hears of it by the exit code
        os._exit(1)
    os._exit(0)


def left_in(path: Path) -> int:
    connection = apsw.Connection(str(path))
    try:
        return int(connection.execute("select count(*) from sqlite_schema").get)
    finally:
        connection.close()


def main(path: Path, is_broken: bool) -> None:
    if is_broken:
        commit_each_statement()
    left: list[int] = []
    number = 1
    while (code := die_in_a_child(path, number)) == -signal.SIGKILL:
        left.append(left_in(path))
        # Behind a migration that came through, the next is killed from its first statement on.
        number = 1 if left[-1] != left[max(len(left) - 2, 0)] else number + 1
    print(json.dumps({"left": left, "whole": left_in(path), "code": code}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "yes")

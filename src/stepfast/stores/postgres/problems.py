"""What PostgreSQL and the network complain about, as errors that name the database, its state and the next step."""

from __future__ import annotations

import errno
import json
import re
from urllib.parse import parse_qs, unquote, urlsplit

from stepfast.kernel.errors import (
    Invalid,
    KeyInProgress,
    KeyReused,
    RowsRefused,
    StepfastError,
    StoreMismatch,
    StoreUnavailable,
    StoreUnusable,
)
from stepfast.stores.postgres.driver import InterfaceError, InternalClientError, PostgresError, sqlstate

# What a call to the database can fail with; anything else is a mistake of ours and stays as it is.
FAILURES = (PostgresError, InterfaceError, InternalClientError, OSError, TimeoutError, EOFError)

KEY_REUSED = "SF001"
ROLE_REFUSED = "SF002"
NOT_ALLOWED = "42501"
# A prepared statement that is not there, or is there already: a pooler hands our statements to changing sessions.
NOT_OUR_SESSION = frozenset({"26000", "42P05"})
# How often a call is tried that failed in a way that left nothing behind. Deadlocks and serialization failures pass; a
# row that exists already may be our own, from a try whose answer was lost, and is found by a second look.
TRIES = {"40P01": 5, "40001": 5, "23505": 2, "26000": 2, "42P05": 2}

_REFUSED_CLASSES = frozenset({"22", "23", "54"})
# Connection, resources, operator (shut down, cancelled), locks that were not given in time, the loser of a failover.
_AWAY_CLASSES = frozenset({"08", "40", "53", "55", "57"})
_LOCKED = "55P03"
_KEY_IN_PROGRESS = (
    "has a command with this key under way that has not ended yet. Nothing was written; send the same again a little "
    "later, and it is carried out, or answered as the other one."
)
# What a server says that is up and cannot do it now: it may soon, so that it is waited for like one that is away.
_NOT_NOW = {
    "53100": "has no room left on its disk ({said}). Nothing was written; free some space.",
    "25006": "is read-only ({said}). Nothing was written; name the primary in the database URL, or allow writing.",
    _LOCKED: "kept us waiting for a lock ({said}). Look for a transaction that was left open; try again.",
}
# Where a lock was waited for, in the server's own language but for the name: at a key whose command is under way.
_AT_A_KEY = re.compile(r'"idempotency(_pkey)?"')
# A server that lost its place to another, and one that was kept waiting in the middle of a transaction.
_AWAY_STATES = frozenset({"25006", "25P03", "25P04"})
_NO_SCHEMA = frozenset({"3F000", "42P01", "42703", "42883"})
_AT_THE_DOOR = {
    "28P01": "refuses the password. Check user and password in the database URL.",
    "28000": "refuses the user. Check user and password in the database URL, and pg_hba.conf of the server.",
    "3D000": "does not exist. Create it with `createdb`, or check the name in the database URL.",
    "53300": "has no connection to spare. Close some, or raise max_connections of the server.",
    "57P03": "is starting up or shutting down. Try again in a moment.",
}

# An option that no server has, or that has no such value, or that nobody may set for a session.
_WRONG_OPTIONS = frozenset({"22023", "42602", "42704", "55P02"})
_CORRECT_OPTIONS = "Correct the options behind the ? of the database URL, or leave them out."

# How the database quotes what people gave, in messages of its own functions.
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')

_LET_IN = (
    "Let the owner of the database run `grant connect on database ... to ...` for the user of the database URL, or "
    "name another user there; options behind its ? that only a superuser may set are refused in this way too."
)
_LET_THE_OWNER = (
    "Let the owner of the schema run `stepfast migrate --grant ROLE` for the role of the database URL, or "
    "`--grant-reader ROLE` for one that only reads."
)
_READS_ALONE = (
    "The role of the database URL may read, and not do this: a role of `--grant-reader` changes nothing, and no engine "
    "changes what is in the trail. Name another role in the database URL."
)


def place(url: str) -> str:
    """The database as errors name it: host, port and name, never the password."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    host = parts.netloc.rpartition("@")[2] or options.get("host", ["localhost"])[0]
    name = unquote(parts.path.removeprefix("/")) or options.get("dbname", ["(default)"])[0]
    return f"The PostgreSQL database {name!r} on {host}"


def explained(where: str, problem: BaseException) -> StepfastError:
    """The error of the kernel for a call that failed."""
    state = sqlstate(problem)
    if state == KEY_REUSED:
        return KeyReused(_JSON_TEXT.sub(lambda found: repr(json.loads(found[0])), str(problem)))
    if state == ROLE_REFUSED:
        return Invalid(str(problem))
    if state == NOT_ALLOWED:
        # Whoever may use the schema was let in; what a server says in another language is not understood.
        is_inside = "permission denied for" in str(problem) and "for schema" not in str(problem)
        advice = _READS_ALONE if is_inside else _LET_THE_OWNER
        return StoreUnusable(f"{where} does not allow it ({problem}). {advice}")
    if state[:2] in _REFUSED_CLASSES:
        return RowsRefused(f"{where} refuses a row ({state}: {problem}). Nothing of its batch was written.")
    if state in _NO_SCHEMA:
        return StoreMismatch(f"{where} lacks a table or function ({problem}). Run `stepfast migrate`.")
    if state == _LOCKED and _AT_A_KEY.search(str(getattr(problem, "context", ""))):
        return KeyInProgress(f"{where} {_KEY_IN_PROGRESS}")
    if state in _NOT_NOW:
        return StoreUnavailable(f"{where} {_NOT_NOW[state].format(said=_said(problem))}")
    if not state or state[:2] in _AWAY_CLASSES or state in _AWAY_STATES:
        return StoreUnavailable(f"{where} did not answer ({_said(problem)}). Check that the server is up; try again.")
    return StoreUnusable(f"{where} cannot do what it was asked ({state}: {problem}). Run `stepfast doctor`.")


def explained_at_the_door(where: str, problem: BaseException) -> StepfastError:
    """The error of the kernel for a connection that could not be made."""
    if sqlstate(problem) in _WRONG_OPTIONS:
        return Invalid(f"{where} does not take what it is asked for ({_said(problem)}). {_CORRECT_OPTIONS}")
    if _is_of_the_url(problem):
        return Invalid(f"{where} cannot be asked for like that ({_said(problem)}). {_CORRECT_OPTIONS}")
    advice = _AT_THE_DOOR.get(sqlstate(problem))
    if advice is not None:
        return StoreUnavailable(f"{where} {advice}")
    if sqlstate(problem) == NOT_ALLOWED:
        return StoreUnavailable(f"{where} does not let the user in ({_said(problem)}). {_LET_IN}")
    if isinstance(problem, OSError) and problem.errno == errno.EMFILE:
        return StoreUnavailable(
            f"{where} cannot be reached: this process has as many files open as it may ({_said(problem)}). Close what "
            "it leaves open, or raise its limit, as with `ulimit -n`."
        )
    return StoreUnavailable(
        f"{where} cannot be reached ({_said(problem)}). Check that the server is up, and host and port in the "
        "database URL."
    )


def _is_of_the_url(problem: BaseException) -> bool:
    """Whether the driver did not come to ask anybody; a certificate that is refused is both of these."""
    return isinstance(problem, ValueError | OverflowError) and not isinstance(problem, OSError)


def breaks_the_connection(problem: BaseException) -> bool:
    """Whether the connection must not be used again: it is gone, or leads to a server that is of no use."""
    state = sqlstate(problem)
    return not state or state[:2] in ("08", "53", "57") or state in _AWAY_STATES or state in NOT_OUR_SESSION


def _said(problem: BaseException) -> str:
    """What the server or the network says, without the lines of advice behind it: a message has its own."""
    return str(problem).partition("\n")[0] or type(problem).__name__

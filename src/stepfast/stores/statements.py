"""SQL kept in `.sql` files as named statements, one text for both dialects.

A file is a list of statements, each of this form, with `:name` parameters and tables written `stepfast.run`:

    -- name: list_events
    -- What it answers, for the reader.
    select seq, type from stepfast.event where run_id = :run_id;
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
# On SQLite a truth is a number, and an index on those that nobody holds is found only by the words it was made with.
_NOT_HELD = re.compile(r"\bnot (\w+\.)hold\b")
_PREFIX = re.compile(r"\bstepfast\.(?=[a-z_])")
# Quoted text goes first, so that a colon inside it is no parameter; `::type` is a cast.
_PARAMETER = re.compile(r"'[^']*'|(?<!:):([a-z_]\w*)")
_OPTIONAL = re.compile(r"^ *and \(cast\(:(\w+) as \w+\) is null or (.+)\)$\n?", re.MULTILINE)


class Numbered(NamedTuple):
    """A statement as asyncpg wants it, and the names of its parameters in the order of their numbers."""

    text: str
    names: tuple[str, ...]


@cache
def load_statements(package: str, file: str) -> dict[str, str]:
    """The statements of a file beside `package`, by name, as they are written there."""
    parts = _NAME.split((files(package) / file).read_text(encoding="utf-8"))
    return {name: _trim(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def shared_statements() -> dict[str, str]:
    """The cold reads that both stores use."""
    found: dict[str, str] = {}
    for name in ("reads", "review_reads", "trail", "sinks", "retention", "annotations", "lives"):
        found |= load_statements("stepfast.stores", f"sql/{name}.sql")
    # The same events of one run in the order of its key: by position all others would be walked through for a long one.
    found["find_events_of_run"] = found["find_events"].replace("order by e.position desc", "order by e.seq desc")
    assert found["find_events_of_run"] != found["find_events"]
    return found


def review_statements() -> dict[str, str]:
    """What both stores read and write of reviews."""
    return load_statements("stepfast.stores", "sql/reviews.sql")


def exception_statements() -> dict[str, str]:
    """What both stores read and write of the exception queue."""
    return load_statements("stepfast.stores", "sql/exceptions.sql")


def blob_statements() -> dict[str, str]:
    """What both stores keep large values by."""
    return load_statements("stepfast.stores", "sql/blobs.sql")


def asset_statements() -> dict[str, str]:
    """What both stores read and write of assets and of steps' storage."""
    return load_statements("stepfast.stores", "sql/assets.sql")


def definition_statements() -> dict[str, str]:
    """What both stores read and write of definitions."""
    return load_statements("stepfast.stores", "sql/definitions.sql")


def outside_statements() -> dict[str, str]:
    """What both stores read and write of outside work that is left behind."""
    return load_statements("stepfast.stores", "sql/outside.sql")


def unprefixed(text: str) -> str:
    """A statement for SQLite, whose tables are plain."""
    plain = _NOT_HELD.sub(r"\1hold = 0", _PREFIX.sub("", text))
    return plain.replace("json_agg(", "json_group_array(")


def numbered(text: str) -> Numbered:
    """A statement for asyncpg: `:name` becomes `$n`, one number for each name."""
    names: dict[str, int] = {}
    rendered = _PARAMETER.sub(_numbering(names), text)
    return Numbered(rendered, tuple(names))


def joined(texts: Sequence[str]) -> Numbered:
    """One query of several statements that have nothing to do with each other; `:name` of the nth becomes `name_n`."""
    parts = [f"w{n} as ({_PARAMETER.sub(_suffixing(n), text)})" for n, text in enumerate(texts)]
    return numbered(f"with {', '.join(parts)} select 1")


def narrowed(text: str, given: Collection[str]) -> str:
    """A statement with only those optional conditions whose parameter is given, so that indexes serve it.

    An optional condition is a line of the form `and (cast(:state as text) is null or state = :state)`.
    """

    def keep(match: re.Match[str]) -> str:
        return f"   and {match[2]}\n" if match[1] in given else ""

    return _OPTIONAL.sub(keep, text)


def _numbering(names: dict[str, int]) -> Callable[[re.Match[str]], str]:
    def number(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return number


def _suffixing(n: int) -> Callable[[re.Match[str]], str]:
    def suffix(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else f":{match[1]}_{n}"

    return suffix


def _trim(body: str) -> str:
    return _COMMENT.sub("", body).strip().removesuffix(";")

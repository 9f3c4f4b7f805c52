"""`[tool.stepfast]` of the nearest pyproject.toml, as settings read it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown

_KINDS = {bool: "a boolean", list: "an array", dict: "a table"}


class Entry(NamedTuple):
    """What stands at a key: its text, or in `unfit` what it is instead of text or a number."""

    text: str
    unfit: str = ""


def project_table(folder: Path) -> tuple[Path, dict[str, Entry]]:
    """The nearest file and its entries, their keys with underscores; nothing where there is no file."""
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        if file.is_file():
            table = _stepfast_table(file)
            return file, {str(key).replace("-", "_").lower(): _entry(value) for key, value in table.items()}
    return folder, {}


def _stepfast_table(file: Path) -> dict[str, Any]:
    # Most processes run where there is none.
    import tomllib

    try:
        table = _parsed(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise Invalid(f"{file} cannot be read: it is nested too deeply.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    except ValueError:
        # The parser lets through what Python says of such numbers, which is for programmers.
        raise Invalid(f"{file} cannot be read: it has a whole number with too many digits.") from None
    for name, place in (("tool", "tool"), ("stepfast", "tool.stepfast")):
        inner = table.get(name, {})
        if not isinstance(inner, dict):
            raise Invalid(f"{place} in {file} is {shown(inner)}; allowed is a table, [{place}].")
        table = inner
    return table


# A process that opens many apps, as tests do, reads the same lines each time; files of some hundred take milliseconds.
@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _entry(value: object) -> Entry:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return Entry("", _KINDS.get(type(value), "a date or time"))
    try:
        return Entry(str(value))
    except ValueError:
        # Written in hexadecimal digits it can be read, and Python does not write it in decimal ones.
        return Entry("", shown(value))

"""What settings may hold: how the text of each kind is read, and what is allowed in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepfast.kernel.blobs import IN_THE_DATABASE
from stepfast.kernel.durations import in_seconds, span_ms
from stepfast.kernel.texts import MAX_BYTES, check_text, shown
from stepfast.signing import KEYS_ALLOWED as SEAL_KEYS_ALLOWED
from stepfast.signing import read_seal_keys
from stepfast.stores.blobs.urls import FORMS as BLOB_FORMS
from stepfast.stores.blobs.urls import check_blobs
from stepfast.stores.postgres_urls import POSTGRES_FORM, check_address, without_password
from stepfast.stores.urls import FORMS, check_database, database_in, is_postgres
from stepfast.tokens import KEYS_ALLOWED, read_keys
from stepfast.worker.settings import BOUNDS
from stepfast.workflows.executors.allowed import read_modules, read_names, read_networks, read_variables

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
MAX_COUNT = 100_000


class LogSettings(NamedTuple):
    """How much of the engine's own log is shown, and in which form."""

    level: str = "info"
    form: str = "text"


@dataclass(frozen=True)
class Kind:
    """What a setting may hold: how its text is read, what is allowed in words, and how a text that is not is shown."""

    allowed: str
    read: Callable[[str], Any]
    show: Callable[[str], str] = shown
    in_folder: Callable[[str, Path], str] = lambda text, _: text
    """The text as it is meant in a file of that folder: what is relative in it is relative to the folder."""


def number(lowest: int, highest: int = MAX_COUNT) -> Kind:
    def read(text: str) -> int:
        given = int(text)
        if not lowest <= given <= highest:
            raise ValueError
        return given

    return Kind(f"a whole number from {lowest:,} to {highest:,}", read)


def span(name: str) -> Kind:
    bounds = BOUNDS[f"{name}_ms"]

    def read(text: str) -> int:
        given_ms = span_ms(in_seconds(text))
        if not bounds.hold(given_ms):
            raise ValueError
        return given_ms

    return Kind(bounds.as_text, read)


def choice(choices: tuple[str, ...]) -> Kind:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text

    return Kind(f"one of {', '.join(choices)}", read)


def _read_log(text: str) -> LogSettings:
    words = [word.strip().lower() for word in text.split(",")]
    levels = [word for word in words if word in LEVELS]
    forms = [word for word in words if word in FORMATS]
    if len(levels) + len(forms) != len(words) or len(levels) > 1 or len(forms) > 1:
        raise ValueError
    return LogSettings(*levels or ["info"], *forms or ["text"])


def _read_text(text: str) -> str:
    return check_text("text", text)


def _read_database(text: str) -> str:
    check_database(_read_text(text))
    return text


def _read_direct(text: str) -> str:
    if not is_postgres(_read_text(text)):
        raise ValueError
    check_address(text)
    return text


def _read_blobs(text: str) -> str:
    check_blobs(_read_text(text))
    return text


def _path_in(text: str, folder: Path) -> str:
    return str(folder / text)


def _blobs_in(text: str, folder: Path) -> str:
    return text if text == IN_THE_DATABASE or "://" in text else _path_in(text, folder)


def _without_password(text: str) -> str:
    return shown(without_password(text))


def _read_urls(text: str) -> tuple[str, ...]:
    # One URL may have several hosts with commas between them; the next one begins with its scheme.
    urls = tuple(re.split(r"[,\s]+(?=[A-Za-z][A-Za-z0-9+.-]*://|log:)", text.strip()))
    if any(":" not in url for url in urls):
        raise ValueError
    return urls


DATABASE = Kind(FORMS, _read_database, _without_password, database_in)
DIRECT = Kind(POSTGRES_FORM, _read_direct, _without_password)
BLOBS = Kind(BLOB_FORMS, _read_blobs, in_folder=_blobs_in)
URLS = Kind("URLs with commas between them, like redis://host:6379/0?stream=events", _read_urls)
NAMES = Kind("names with commas between them", read_names)
MODULES = Kind("names of modules like shop.orders or shop.* with commas between them, or * for all", read_modules)
VARIABLES = Kind("names of variables with commas between them", read_variables)
NETWORKS = Kind("addresses and networks like 10.0.0.0/8 with commas between them, or * for all", read_networks)
KEYS = Kind(KEYS_ALLOWED, read_keys)
SEAL_KEYS = Kind(SEAL_KEYS_ALLOWED, read_seal_keys)
TEXT = Kind(f"text of 1 to {MAX_BYTES:,} bytes", _read_text)
FILE = Kind(TEXT.allowed, _read_text, in_folder=_path_in)
LOG = Kind(f"a level ({', '.join(LEVELS)}), a format ({', '.join(FORMATS)}), or both with a comma", _read_log)
# A hundred days: no backoff needs more, and the sum of many stays a moment that every store can hold.
MILLISECONDS = number(0, 100 * 24 * 3_600_000)

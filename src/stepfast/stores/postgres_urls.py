"""What a URL must be to lead to a PostgreSQL database, and how one is shown: any part of a wrong one may be a password.

The driver takes what it can from a wrong one: it would ask for a host that is half of a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urlsplit

from stepfast.kernel.errors import Invalid

POSTGRES_FORM = "postgresql://user@host/database"
POSTGRES = ("postgresql", "postgres")

_ESCAPED = "In a user, password or name write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, [ as %5B and % as %25."
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_HOST = re.compile(r"(?:\[[^\[\]]+\]|[^:\[\]]+)?(?::(?P<port>[^:]*))?")
_LAST_PORT = 65_535
# Users of some clouds are called user@server.
_MAY_HAVE_AT = ("user", "password")

# Behind the first colon, up to the last @: all that a password with any character in it can be.
_AFTER_COLON = re.compile(r"(?<=://)([^:]*):.*@", re.DOTALL)
# Without any @ it may be a password all the same, if it is no port.
_NO_PORT = re.compile(r"(?<=://)([^:@]*):(?!\d+(?:[/,]|$))[^@]*$", re.DOTALL)
_NAMED = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)
_NAMED_TO_THE_END = re.compile(r"(password=).*", re.IGNORECASE | re.DOTALL)
_BEFORE_AT = re.compile(r"(?<=:)[^/:@\s][^:@\s]*(?=@)")


class WrongAddress(Invalid):
    """A database URL with a fault in it; the message says which, and nothing of the URL."""


def check_address(url: str) -> None:
    """Refuse a PostgreSQL URL that does not say clearly what it means."""
    try:
        parts = urlsplit(url)
        fault = next((told for is_wrong, told in _FAULTS if is_wrong(parts)), None)
    except ValueError:
        fault = "it cannot be taken apart."
    if fault is not None:
        raise WrongAddress(f"As a database URL it is wrong: {fault} {_ESCAPED}")


def without_password(url: str) -> str:
    """A database URL that may be shown; also what is none, as the words that libpq takes, may have a password."""
    with suppress(ValueError, WrongAddress):
        parts = urlsplit(url)
        if parts.scheme in POSTGRES:
            check_address(url)
            if parts.password is not None:
                parts = parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@"))
            return _NAMED.sub(r"\1***", parts.geturl())
    if "://" in url:
        return _NAMED_TO_THE_END.sub(r"\1***", _NO_PORT.sub(r"\1:***", _AFTER_COLON.sub(r"\1:***@", url)))
    return _BEFORE_AT.sub("***", _NAMED.sub(r"\1***", url))


def _has_fragment(parts: SplitResult) -> bool:
    return bool(parts.fragment)


def _has_stray_at(parts: SplitResult) -> bool:
    stray = (value for name, value in parse_qsl(parts.query) if name not in _MAY_HAVE_AT)
    return parts.netloc.count("@") > 1 or any("@" in text for text in (parts.path, *stray))


def _has_odd_options(parts: SplitResult) -> bool:
    return bool(parts.query) and not all("=" in option[1:] for option in parts.query.split("&"))


def _has_bad_escape(parts: SplitResult) -> bool:
    return any(_BAD_ESCAPE.search(part) or _is_no_text(part) for part in parts)


def _is_no_text(part: str) -> bool:
    # What is no UTF-8 is a ValueError: such a URL cannot be taken apart either.
    return "\0" in unquote_to_bytes(part).decode()


def _has_bad_host(parts: SplitResult) -> bool:
    return not all(map(_is_host, _hosts(parts)))


def _hosts(parts: SplitResult) -> Iterator[str]:
    """Each host with its port; sockets, which are files, have none."""
    options = dict(parse_qsl(parts.query))
    named = parts.netloc.rpartition("@")[2]
    if named:
        yield from named.split(",")
    if "host" in options:
        yield from (host for host in options["host"].split(",") if not host.startswith("/"))
    if "port" in options:
        yield from (f"host:{port}" for port in options["port"].split(","))


def _is_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None or not host:
        return False
    port = found["port"]
    return not port or (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _LAST_PORT)


_FAULTS: tuple[tuple[Callable[[SplitResult], bool], str], ...] = (
    (_has_fragment, "it has a # in it."),
    (_has_stray_at, "it has an @ where none can be, as behind a / or another @ of a password."),
    (_has_odd_options, "behind the ? it has something other than name=value, with & between several."),
    (_has_bad_escape, "it has a % that does not begin the two hexadecimal digits of a character."),
    (_has_bad_host, f"it has no host, or one whose port is no number from 1 to {_LAST_PORT:,}."),
)

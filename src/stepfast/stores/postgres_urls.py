"""What a URL must be to lead to a PostgreSQL database, and how one is shown: any part of a wrong one may be a password.

The driver takes what it can from a wrong one: it would ask for a host that is half of a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import SplitResult, parse_qsl, unquote_plus, unquote_to_bytes, urlsplit

from stepfast.kernel.errors import Invalid

POSTGRES_FORM = "postgresql://user@host/database"
POSTGRES = ("postgresql", "postgres")

_ESCAPED = "In a user, password or name write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, [ as %5B and % as %25."
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_BRACKETED = re.compile(r"\[[^\[\]]*\]")
_HOST = re.compile(r"(?:\[[^\[\]]+\]|[^:\[\]]+)?(?::(?P<port>[^:]*))?")
_LAST_PORT = 65_535
# Options in whose values an @ is common: users of some clouds are called user@server, and files may be called anything.
_MAY_HAVE_AT = re.compile(r"user|password|application_name|passfile|ssl\w+")

_SCHEME = re.compile(r"\s*[\w+.-]+://")
# Behind the first colon, up to the last @: all that a password with any character in it can be.
_AFTER_COLON = re.compile(r"^([^:]*):.*@", re.DOTALL)
# Without any @ it may be a password all the same, if it is no port.
_NO_PORT = re.compile(r"^([^:@]*):(?!\d+(?:[/,]|$))[^@]*$", re.DOTALL)
_NAMED_TO_THE_END = re.compile(r"(password\s*=\s*).*", re.IGNORECASE | re.DOTALL)


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
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme[0].lower().removesuffix("://") in POSTGRES:
        with suppress(ValueError, WrongAddress):
            check_address(url)
            return _masked(urlsplit(url))
    start, rest = ("", url) if scheme is None else (scheme[0], url[scheme.end() :])
    # First, as what follows would hide by what name the rest of a password with an @ in it was given.
    rest = _NAMED_TO_THE_END.sub(r"\1***", rest)
    rest = _AFTER_COLON.sub(r"\1:***@", rest)
    return start + (_NO_PORT.sub(r"\1:***", rest) if start else rest)


def _masked(parts: SplitResult) -> str:
    """A URL without fault; put together here, since `geturl` may leave out the // where no host follows."""
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    query = "&".join(map(_masked_option, parts.query.split("&")))
    return f"{parts.scheme}://{name}{colon and ':***'}{at}{hosts}{parts.path}{query and '?'}{query}"


def _masked_option(option: str) -> str:
    name, _, _ = option.partition("=")
    return f"{name}=***" if "password" in unquote_plus(name).lower() else option


def _has_fragment(parts: SplitResult) -> bool:
    return bool(parts.fragment)


def _has_stray_at(parts: SplitResult) -> bool:
    return parts.netloc.count("@") > 1 or "@" in parts.path or any(map(_is_stray, parts.query.split("&")))


def _is_stray(option: str) -> bool:
    """Whether an option has an @, as it is written, that may be the one behind a password with a ? in it."""
    name, _, value = option.partition("=")
    if name == "host":
        return any("@" in host for host in value.split(",") if not host.startswith("/"))
    return "@" in name or ("@" in value and _MAY_HAVE_AT.fullmatch(name) is None)


def _has_odd_options(parts: SplitResult) -> bool:
    return bool(parts.query) and not all("=" in option[1:] for option in parts.query.split("&"))


def _has_bad_escape(parts: SplitResult) -> bool:
    user, _, hosts = parts.netloc.rpartition("@")
    # Within brackets a % may begin the zone of an address.
    plain = (user, _BRACKETED.sub("", hosts), parts.path, parts.query)
    return any(map(_BAD_ESCAPE.search, plain)) or any("%00" in part for part in parts)


def _has_no_text(parts: SplitResult) -> bool:
    try:
        return not [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        return True


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
    (_has_odd_options, "behind the ? it has something other than name=value, with & between several."),
    (_has_stray_at, "it has an @ where none can be, as behind a /, a ? or another @ of a password."),
    (_has_bad_escape, "it has a % that does not begin the two hexadecimal digits of a character."),
    (_has_no_text, "its characters behind a % are no UTF-8, in which é is %C3%A9."),
    (_has_bad_host, f"it has no host, or one whose port is no number from 1 to {_LAST_PORT:,}."),
)

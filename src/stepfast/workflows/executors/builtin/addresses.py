"""Which addresses may be called: public ones, and those that an operator has allowed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from stepfast.kernel.executor_errors import HttpFailed, NotAllowed
from stepfast.kernel.texts import shown
from stepfast.workflows.executors.allowed import EVERYTHING, Allowed

Address = IPv4Address | IPv6Address

# Packets to these go to the IPv4 address in their last 32 bits.
TRANSLATED = IPv6Network("64:ff9b::/96")
# The same within one organisation, by rules of its own; not every version of Python knows that.
TRANSLATED_HERE = IPv6Network("64:ff9b:1::/48")


async def checked_addresses(host: str, port: int, allowed: Allowed) -> list[str]:
    """The addresses of a host that may be called; refused when there is none.

    Whoever calls must connect to one of these: asked again, a name may stand for another address.
    """
    found = await resolved(host, port)
    usable = [address for address in found if may_be_called(address, allowed)]
    if not usable:
        raise NotAllowed(
            f"{shown(host)} is {', '.join(found) or 'nowhere'}, which is no public address: to allow it, name it or "
            f"its network in STEPFAST_HTTP_PRIVATE."
        )
    return usable


async def resolved(host: str, port: int) -> list[str]:
    """What a name stands for now, each address once."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HttpFailed(f"{shown(host)} cannot be resolved: {error}.") from error
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def may_be_called(text: str, allowed: Allowed) -> bool:
    """Whether an address, and every address that is wrapped in it, is public or allowed."""
    return all(_is_public(each) or _is_allowed(each, allowed) for each in _with_wrapped(ip_address(text)))


def _with_wrapped(address: Address) -> Iterator[Address]:
    """The address that packets go to in the end: IPv6 has several ways to write one of IPv4."""
    wrapped: list[Address] = []
    if isinstance(address, IPv6Address):
        teredo = address.teredo or ()
        wrapped = [each for each in (address.ipv4_mapped, address.sixtofour, *teredo) if each is not None]
        if address in TRANSLATED:
            wrapped.append(IPv4Address(int(address) & 0xFFFFFFFF))
    # One that only wraps another is judged by that alone.
    yield from wrapped or [address]


def _is_public(address: Address) -> bool:
    is_open = address.is_global and not address.is_multicast and not address.is_reserved
    return is_open and address not in TRANSLATED_HERE


def _is_allowed(address: Address, allowed: Allowed) -> bool:
    if EVERYTHING in allowed.networks:
        return True
    networks = (ip_network(text) for text in allowed.networks)
    return any(address.version == network.version and address in network for network in networks)

"""Tenants as names of folders: told apart on every file system, and never a way out of the folder."""

from __future__ import annotations

import hashlib
import re

# Capitals are not among them: some file systems take `A` and `a` for the same name.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST = 200
HASHED = "~"
_ESCAPE = re.compile(r"((?:%[0-9a-f]{2})+)")


def folder_of(tenant: str) -> str:
    """The name of a tenant's folder; one that would be too long is replaced by its digest."""
    name = "".join(_written(character) for character in tenant)
    if len(name) <= _LONGEST:
        return name
    return HASHED + hashlib.sha256(tenant.encode()).hexdigest()


def tenant_of(folder: str) -> str:
    """The tenant whose folder has this name; one that was replaced by its digest is not told by it."""
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].replace("%", "")).decode(), folder)


def _written(character: str) -> str:
    if character in _PLAIN:
        return character
    return "".join(f"%{byte:02x}" for byte in character.encode())

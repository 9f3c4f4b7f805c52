"""Roles of a database server, and what they may do with the schema."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RoleKind(StrEnum):
    """What a role is for; engines add to the trail and cannot change it, readers change nothing."""

    ENGINE = "engine"
    READER = "reader"


class Grant(NamedTuple):
    """A role, and what it is to be."""

    role: str
    kind: RoleKind

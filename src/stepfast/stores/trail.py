"""Rows of the trail and its seals, in the column order of their statements, as the kernel's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepfast.kernel.ids import RunId
from stepfast.kernel.seals import Leaf, Seal, SealBody
from stepfast.kernel.trail import Gap

Row = Sequence[Any]

# The statements that find them, each by other means.
GAPS = ("gaps_of_leaves", "gaps_of_events", "gaps_of_starts", "gaps_of_ends")


def seal_of(row: Row) -> Seal:
    """A row of any statement that reads seals."""
    *body, key, signature = row
    return Seal(SealBody(*body), key, signature)


def leaf_of(row: Row) -> Leaf:
    """A row of `list_leaves`."""
    run_id, *rest = row
    return Leaf(RunId(str(run_id)), *rest)


def gap_of(row: Row) -> Gap:
    """A row of any statement that finds gaps."""
    run_id, seq = row
    return Gap(RunId(str(run_id)), seq)

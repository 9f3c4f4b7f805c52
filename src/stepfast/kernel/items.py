"""Exception items as data: what a person should look at, how it stands, and what may be asked of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from stepfast.kernel.causes import group_id
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.reviews import ItemKind, ReviewId
from stepfast.kernel.texts import shown

_CAUSE = re.compile(r"(review|failed|blocked|step):([1-9][0-9]{0,8})")


def failed_cause(generation: int) -> str:
    """The cause of the item that a dead letter opens."""
    return f"failed:{generation}"


def blocked_cause(generation: int) -> str:
    """The cause of the item that a run opens which waits for code that fits."""
    return f"blocked:{generation}"


def step_cause(seq: int) -> str:
    """The cause of the item that a step opens whose failure its run bears: the number of the record that says so."""
    return f"step:{seq}"


def is_step_cause(cause: str) -> bool:
    """Whether an item stands for a failure that its run has gone on from."""
    return cause.startswith("step:")


def review_number(cause: str) -> int | None:
    """The number of the review that an item stands for, if it does."""
    name, _, number = cause.partition(":")
    return int(number) if name == "review" else None


class ItemId(NamedTuple):
    """Where an item is: its run, and its cause in there, like `failed:1`."""

    run_id: RunId
    cause: str

    def __str__(self) -> str:
        return f"{self.run_id}.{self.cause}"


def parse_item_id(text: str) -> ItemId:
    """The id of an item as people see it: a run's id, a dot, and the cause."""
    run_id, _, cause = str(text).partition(".")
    if not _CAUSE.fullmatch(cause):
        raise NotFound(
            f"Exception item {shown(text)} not found: an id looks like 01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22.failed:1. "
            "List them with `stepfast exceptions list`."
        )
    return ItemId(parse_run_id(run_id), cause)


class LockedItem(NamedTuple):
    """An item as a command sees it while nobody else can change it."""

    cause: str
    kind: ItemKind
    step: str | None
    resolution: str | None
    """None: it is open."""


@dataclass(frozen=True, slots=True)
class AssignItem:
    """Say who sees to an item; nobody in particular without a name."""

    cause: str
    assignee: str | None
    name: ClassVar[str] = "assign_item"
    needs_steps: ClassVar[bool] = False

    @property
    def wait_id(self) -> int | None:
        """The review that is meant, if it is one: its assignee is the item's."""
        return review_number(self.cause)


@dataclass(frozen=True, slots=True)
class CommentItem:
    """Say something about an item."""

    cause: str
    text: str
    name: ClassVar[str] = "comment_item"
    needs_steps: ClassVar[bool] = False

    @property
    def wait_id(self) -> int | None:
        """The review that is meant, if it is one: its comments are the item's."""
        return review_number(self.cause)


@dataclass(frozen=True, slots=True)
class ResolveItem:
    """Put an item aside by hand."""

    cause: str
    name: ClassVar[str] = "resolve_item"
    needs_steps: ClassVar[bool] = False


ItemCommand = AssignItem | CommentItem | ResolveItem


class ItemChange(NamedTuple):
    """What a command writes of an item; what is None stays as it is."""

    cause: str
    assigned: tuple[str | None] | None = None
    """Who sees to it from now on."""
    comment: str | None = None
    resolution: str | None = None
    """What has become of it, where it stands for nothing else that says so."""


class ItemView(NamedTuple):
    """An exception item: what a person should look at, and what has become of it."""

    run_id: RunId
    cause: str
    tenant: str
    generation: int
    workflow: str
    kind: ItemKind
    step: str | None
    title: str
    shape: str
    assignee: str | None
    opened_at: Instant
    resolved_at: Instant | None
    resolution: str | None
    actor: str | None

    @property
    def id(self) -> str:
        """The name that people use for it."""
        return str(ItemId(self.run_id, self.cause))

    @property
    def review_id(self) -> str | None:
        """The review that it stands for, if it does."""
        number = review_number(self.cause)
        return None if number is None else str(ReviewId(self.run_id, number))

    @property
    def dead_letter(self) -> str | None:
        """The run whose dead letter it stands for, if it does."""
        return self.run_id if self.cause.startswith("failed:") else None


class ItemFilter(NamedTuple):
    """Which items a list holds; those that are resolved are left out unless asked for."""

    tenant: str | None = None
    kind: ItemKind | None = None
    workflow: str | None = None
    assignee: str | None = None
    run_id: RunId | None = None
    cause: str | None = None
    shape: str | None = None
    opened_after: Instant | None = None
    resolved: bool = False
    before: ItemId | None = None
    """The item that the page before ended with."""
    limit: int = 100


class CommentView(NamedTuple):
    """What somebody said of an item."""

    actor: str | None
    text: str
    at: Instant


class GroupView(NamedTuple):
    """Equal open items: how many, the newest of them, and when the first and the newest were opened."""

    kind: ItemKind
    workflow: str
    shape: str
    size: int
    first_at: Instant
    newest_at: Instant
    newest: ItemId
    step: str | None
    title: str
    """Step and title are those of the newest."""

    @property
    def id(self) -> str:
        """A short name for the group that stays the same while it has items."""
        return group_id(self.kind, self.workflow, self.shape)

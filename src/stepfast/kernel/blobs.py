"""Large values: where their content is kept, and the reference that stands for it in a row."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeGuard

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import BlobDamaged, Invalid, StoreUnavailable
from stepfast.kernel.ids import RunId
from stepfast.kernel.texts import check_text

IN_THE_DATABASE = "database"
"""What people say for blobs in the store itself."""
DEFAULT_THRESHOLD = 64 * 1024
"""From how many characters on a text is large."""

NO_RUN = RunId("00000000-0000-0000-0000-000000000000")
"""In the place of a run, for what belongs to none."""

# No JSON text begins so, and every other text that is stored in place of one is JSON.
MARK = "@blob:"
VALUE_NAME = re.compile(r"sha256-([0-9a-f]{64})")
_REFERENCE = re.compile(rf"{MARK}{VALUE_NAME.pattern}:(\d{{1,12}})(\{{.*\}})?", re.DOTALL)
_NAME = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,199}")
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NAMES_ALLOWED = "1 to 200 of the characters a-z 0-9 . _ -, of which `.` is not the first"


class BlobsAway(StoreUnavailable):
    """Large values are out of reach for now; a step that meets it has not failed, and its run is handed back."""


class BlobKey(NamedTuple):
    """Whose a blob is, and its name within the run."""

    tenant: str
    run_id: RunId
    name: str


class BlobInfo(NamedTuple):
    """A blob without its content; `put_at` is when it was put last."""

    key: BlobKey
    size: int
    put_at: Instant


class BlobFilter(NamedTuple):
    """Which blobs a list holds; `after` is the key that the page before ended with."""

    tenant: str | None = None
    run_id: RunId | None = None
    after: BlobKey | None = None
    limit: int = 1_000


class Blobs(Protocol):
    """Where large content is kept, apart for each tenant and run.

    Trouble that will pass raises StoreUnavailable: the engine tries again. A key that `check_key` refuses is
    refused here too, with Invalid. Calls come from one event loop and may overlap.
    """

    async def open(self) -> None:
        """Get ready; called once, before anything else."""
        ...

    async def close(self) -> None:
        """Let go of every connection, thread and file."""
        ...

    async def put(self, key: BlobKey, content: bytes) -> None:
        """Keep the content, in place of what the key had; it is as durable as the store when this returns.

        Whoever reads meanwhile gets all of the old content or all of the new. The same content put again counts as put
        now.
        """
        ...

    async def get(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        ...

    async def has(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        ...

    async def delete(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since; whether there was one to remove.

        Looking at the moment and removing are one: a put in between is never lost.
        """
        ...

    async def list(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs in an order of the store's own, which does not change; without a tenant those of all."""
        ...


class LargeValues(Protocol):
    """How texts of any size reach a row and come back from it; short ones pass as they are."""

    async def keep(self, tenant: str, run_id: RunId, text: str) -> str:
        """The text as a row of that run may hold it: itself, or the reference to it."""
        ...

    async def resolve(self, tenant: str, run_id: RunId, texts: Sequence[str | None]) -> Sequence[str | None]:
        """Each text as it was before it was put away; a reference whose content is missing or wrong raises."""
        ...


class Reference(NamedTuple):
    """What a row holds instead of a large text: the digest of its content, by which it is named, and its size."""

    digest: str
    size: int

    @property
    def name(self) -> str:
        return f"sha256-{self.digest}"

    @property
    def text(self) -> str:
        return f"{MARK}{self.name}:{self.size}"


def check_key(key: BlobKey) -> BlobKey:
    """Refuse names that some store could not keep apart from others, or could take for a way out of its place."""
    if not _NAME.fullmatch(key.name):
        raise Invalid(f"The blob's name is {key.name!r}; allowed are {NAMES_ALLOWED}.")
    if not _RUN_ID.fullmatch(key.run_id):
        raise Invalid(f"The blob's run is {key.run_id!r}; a run id looks like 01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22.")
    check_text("The blob's tenant", key.tenant)
    return key


def is_reference(text: str | None) -> TypeGuard[str]:
    return text is not None and text.startswith(MARK)


def reference_to(content: bytes) -> Reference:
    """The reference to a content; equal content has an equal one, so that putting it twice is putting it once."""
    return Reference(hashlib.sha256(content).hexdigest(), len(content))


def parse_reference(text: str, run_id: RunId) -> Reference:
    """The reference that a row holds."""
    return _parsed(text, run_id)[0]


def with_value(facts: str, value: str) -> str:
    """An object's JSON with one more member `value`; where that is a reference, the facts stand behind it."""
    if is_reference(value):
        return value + facts
    # What a person wrote is JSON already, and may be too large to be taken apart for nothing.
    return f'{facts[:-1]}, "value": {value}}}'


def completed(text: str, content: str, run_id: RunId) -> str:
    """What a reference stands for, once its content is there: that, or the object that it is the value of."""
    _, facts = _parsed(text, run_id)
    return content if facts is None else with_value(facts, content)


def _parsed(text: str, run_id: RunId) -> tuple[Reference, str | None]:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise BlobDamaged(f"Run {run_id} holds {text[:100]!r}, which refers to no blob. Put the row right by a backup.")
    return Reference(found[1], int(found[2])), found[3]


def reference_of(info: BlobInfo) -> Reference | None:
    """The reference by which rows mention a blob; None when it holds something else than a value."""
    found = VALUE_NAME.fullmatch(info.key.name)
    return None if found is None else Reference(found[1], info.size)


def restored(reference: Reference, content: bytes | None, run_id: RunId) -> str:
    """The text that was put away, once its content is proved to be the same."""
    if content is None:
        raise BlobDamaged(
            f"Run {run_id} refers to blob {reference.name}, which is not in the blob store. "
            f"Check that STEPFAST_BLOBS names the store that the run was started with, or put it back by a backup."
        )
    if reference_to(content) != reference:
        raise BlobDamaged(
            f"Blob {reference.name} of run {run_id} is not what was put there: it has {len(content):,} bytes with "
            f"another digest, and had {reference.size:,}. Put it back by a backup."
        )
    return content.decode()

"""What a worker can be told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from stepfast.kernel.durations import Duration, span_ms, written_span
from stepfast.kernel.errors import Invalid
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import shown

DEFAULT_QUEUE = "default"
DEFAULT_CONCURRENCY = 100
DEFAULT_LEASE_MS = 30_000
# Below the ten seconds after which Docker kills a container that was told to stop.
DEFAULT_GRACE_MS = 8_000
HEARTBEATS_PER_LEASE = 3
LONGEST_PAUSE_MS = 2_000
"""How long a loop rests at most after the store has failed it: a few times that, and all work again."""

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


class Bounds(NamedTuple):
    """Between which numbers a setting must lie, these two included."""

    lowest: int
    highest: int

    def hold(self, number: int) -> bool:
        return self.lowest <= number <= self.highest

    @property
    def as_spans(self) -> str:
        return f"a span from {written_span(self.lowest)} to {written_span(self.highest)}"

    @property
    def as_text(self) -> str:
        """The same for those who write it where all is text."""
        return f'{self.as_spans}, like "200ms", "30s", "5m", or in seconds'


# Below, a lease is over before a heartbeat is answered, and an idle worker keeps the database busy. Above, it is a
# slip: what is due would wait for hours, and nobody would take up what a dead worker left.
BOUNDS = {
    "concurrency": Bounds(1, 100_000),
    "lease_ms": Bounds(100, 365 * _UNITS_MS["d"]),
    "heartbeat_ms": Bounds(10, 100 * _UNITS_MS["d"]),
    "poll_ms": Bounds(10, _UNITS_MS["h"]),
    "upkeep_ms": Bounds(10, _UNITS_MS["h"]),
    "seal_every_ms": Bounds(100, _UNITS_MS["d"]),
    "prune_every_ms": Bounds(100, _UNITS_MS["d"]),
    "grace_ms": Bounds(0, _UNITS_MS["d"]),
    "burst": Bounds(1, 100_000),
    "max_crashes": Bounds(1, 100_000),
    "max_claims": Bounds(1, 100_000),
    "max_polls": Bounds(1, 100_000),
    "max_publish": Bounds(1, 10_000),
}


@dataclass(frozen=True)
class WorkerSettings:
    """How much a worker takes, how long its lease is and how often it looks.

    Without `queues` a worker serves `default` and those of its workflows; `heartbeat_ms` 0 is a third of the lease.
    `retry` is for steps that name no policy of their own; `max_runs` is how many runs it claims in its life.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = DEFAULT_CONCURRENCY
    queue_concurrency: dict[str, int] = field(default_factory=dict)
    tenants: tuple[str, ...] | None = None
    label: str = ""
    lease_ms: int = DEFAULT_LEASE_MS
    heartbeat_ms: int = 0
    poll_ms: int = 1_000
    upkeep_ms: int = 1_000
    seal_every_ms: int = 10_000
    prune_every_ms: int = 60_000
    burst: int = 10
    max_crashes: int = 3
    max_claims: int = 500
    max_polls: int = 100
    """How many questions after outside work it asks at once."""
    max_publish: int = 500
    """How many events a sink is given in one pass."""
    max_runs: int | None = None
    grace_ms: int = DEFAULT_GRACE_MS
    retry: Retry = Retry()  # noqa: RUF009 - it is frozen
    heartbeat_given: str = field(default="", compare=False, repr=False)
    """Where a heartbeat was set outside of code, and to what, in the words of a message."""
    heartbeat_fault: str = field(default="", compare=False, repr=False)
    """Why that heartbeat does not fit the lease; a worker may still be given a longer one."""

    def __post_init__(self) -> None:
        if self.heartbeat_ms == 0:
            object.__setattr__(self, "heartbeat_ms", max(self.lease_ms // HEARTBEATS_PER_LEASE, 1))
        if faults := list(self._faults()):
            raise Invalid(" ".join(faults))

    def room_of(self, queue: str) -> int:
        """How many runs of a queue this worker executes at once."""
        return self.queue_concurrency.get(queue, self.concurrency)

    def with_lease(self, lease_ms: int) -> WorkerSettings:
        """The same with another lease; a heartbeat that nobody has set stays a third of it."""
        if not self.heartbeat_given and self.heartbeat_ms == self.lease_ms // HEARTBEATS_PER_LEASE:
            return replace(self, lease_ms=lease_ms, heartbeat_ms=0)
        if self.heartbeat_ms * 2 > lease_ms:
            given = self.heartbeat_given or f"heartbeat_ms is {self.heartbeat_ms}"
            raise Invalid(f"lease is {written_span(lease_ms)}; it must be at least twice the heartbeat, and {given}.")
        return replace(self, lease_ms=lease_ms, heartbeat_fault="")

    def check(self) -> None:
        """Refuse a worker with a heartbeat that does not fit its lease."""
        if self.heartbeat_fault:
            raise Invalid(self.heartbeat_fault)

    @property
    def again_after_ms(self) -> int:
        """How long after a failure the store is asked again: soon, however seldom a worker looks."""
        return min(self.poll_ms, LONGEST_PAUSE_MS)

    @cached_property
    def slots(self) -> int:
        """How many runs this worker executes at once in all its queues."""
        return sum(self.room_of(queue) for queue in self.queues)

    def serving(self, queues: Iterable[str]) -> WorkerSettings:
        """The same for a worker whose workflows have these queues: which ones it serves, and with how much room each.

        Queues that were named stay as they are. Room may be given by a queue's name as environment variables spell it.
        """
        served = self.queues or tuple(sorted({DEFAULT_QUEUE, *queues, *self._queues_with_room(queues)}))
        rooms = {env_name(queue): room for queue, room in self.queue_concurrency.items()}
        own = {queue: rooms[env_name(queue)] for queue in served if env_name(queue) in rooms}
        return replace(self, queues=served, queue_concurrency=own)

    def _queues_with_room(self, queues: Iterable[str]) -> set[str]:
        known = {env_name(queue) for queue in queues}
        return {queue.lower() for queue in self.queue_concurrency if env_name(queue) not in known}

    def _faults(self) -> Iterator[str]:
        for name, bounds in BOUNDS.items():
            # Code may have its reasons to never poll, or to hold a lease for years; no setting of an installation has.
            if getattr(self, name) < bounds.lowest:
                yield f"{name} is {getattr(self, name)!r}; it must be at least {bounds.lowest}."
        if self.heartbeat_ms * 2 > self.lease_ms and not self.heartbeat_fault:
            yield f"heartbeat_ms is {self.heartbeat_ms}; it must be at most half of the lease ({self.lease_ms} ms)."
        if min(self.queue_concurrency.values(), default=1) < 1:
            yield f"queue_concurrency is {self.queue_concurrency!r}; each must be at least 1."
        if self.tenants == ():
            yield "tenants is empty; name at least one, or leave it out to serve all."
        given: object = self.retry
        if not isinstance(given, Retry):
            yield f"retry is {shown(given)}; use Retry(attempts=...)."
        if self.max_runs is not None and self.max_runs < 1:
            yield f"max_runs is {self.max_runs!r}; it must be at least 1."


def checked_ms(name: str, duration: Duration) -> int:
    """A span that somebody gives for the setting `name` (lease, poll, grace), in milliseconds."""
    given_ms, bounds = span_ms(duration, name), BOUNDS[f"{name}_ms"]
    if not bounds.hold(given_ms):
        raise Invalid(f"{name} is {shown(duration)}; allowed is {bounds.as_spans}.")
    return given_ms


def env_name(queue: str) -> str:
    """A queue's name as it is written in the name of an environment variable."""
    return "".join(letter if letter.isalnum() else "_" for letter in queue).upper()

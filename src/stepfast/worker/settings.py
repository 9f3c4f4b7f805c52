"""What a worker can be told."""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT_CONCURRENCY = 100


@dataclass(frozen=True)
class WorkerSettings:
    """How much a worker takes, how long its lease is and how often it looks."""

    queues: tuple[str, ...] = ("default",)
    concurrency: int = DEFAULT_CONCURRENCY
    queue_concurrency: dict[str, int] = field(default_factory=dict)
    tenants: tuple[str, ...] | None = None
    label: str = ""
    lease_ms: int = 30_000
    heartbeat_ms: int = 10_000
    poll_ms: int = 1_000
    upkeep_ms: int = 1_000
    burst: int = 10
    max_crashes: int = 3
    max_claims: int = 500
    grace_ms: int = 30_000

    def room_of(self, queue: str) -> int:
        """How many runs of a queue this worker executes at once."""
        return self.queue_concurrency.get(queue, self.concurrency)

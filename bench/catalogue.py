"""The workloads by name, and where each can be measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bench.bars import NO_STORE
from bench.databases import Databases
from bench.figures import Figures
from bench.workloads import (
    audit,
    backlog,
    children,
    drain,
    event_cost,
    fan_out,
    footprint,
    graphs,
    latency,
    outage,
    publishing,
    reconstruction,
    recovery,
    remote_latency,
    reviews,
    scaling,
    steps,
    waiting_reviews,
)

BOTH = ("sqlite", "postgres")


class Workload(NamedTuple):
    """How a workload is measured; a slow one only when asked for by name or with --all."""

    measure: Callable[[Databases], Figures]
    stores: tuple[str, ...] = BOTH
    is_slow: bool = False
    most_rounds: int = 1_000


WORKLOADS = {
    "steps": Workload(steps.measure),
    "latency": Workload(latency.measure),
    "remote-latency": Workload(remote_latency.measure),
    "drain": Workload(drain.measure),
    "scaling": Workload(scaling.measure),
    # Its figures are medians of many claims, and filling the line takes longer than all else together.
    "backlog": Workload(backlog.measure, most_rounds=1),
    "fan-out": Workload(fan_out.measure),
    "children": Workload(children.measure),
    "reviews": Workload(reviews.measure),
    # An idle worker is watched for a while, twice.
    "waiting-reviews": Workload(waiting_reviews.measure, most_rounds=1),
    "graphs": Workload(graphs.measure),
    # A million events are written first.
    "audit": Workload(audit.measure, most_rounds=1),
    "event-cost": Workload(event_cost.measure),
    "reconstruction": Workload(reconstruction.measure),
    "publishing": Workload(publishing.measure),
    "recovery": Workload(recovery.measure),
    "outage": Workload(outage.measure, stores=("postgres",), is_slow=True, most_rounds=1),
    "footprint": Workload(lambda _: footprint.measure(), stores=(NO_STORE,), most_rounds=1),
}

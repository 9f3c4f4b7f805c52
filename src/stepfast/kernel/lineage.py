"""The graph of lineage: which versions of assets were made of which, by which steps, however far back or on."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from stepfast.kernel.ids import RunId

MAX_EDGES = 100_000
"""Edges of one answer: they are held in memory."""
MAX_DEPTH = 100_000

Node = tuple[str, int]
"""A version of an asset, by id and number."""


class Direction(StrEnum):
    """Which way a graph is followed from an asset."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


class LineageEdge(NamedTuple):
    """A step of a run has made a version of an asset of another; `wanted_id` is the id that it asked for."""

    input_id: str
    input_version: int
    asset_id: str
    version: int
    wanted_id: str
    run_id: RunId
    generation: int
    step: str
    attempt: int
    depth: int = 0
    """How many steps lie between it and the asset that was asked about, itself among them."""

    @property
    def source(self) -> Node:
        return self.input_id, self.input_version

    @property
    def target(self) -> Node:
        return self.asset_id, self.version


class LineageGraph(NamedTuple):
    """What a version of an asset was made of, or what was made of it; the nearest edges first."""

    asset_id: str
    version: int
    direction: Direction
    edges: tuple[LineageEdge, ...]
    is_cut: bool
    """Whether there is more, left out for the depth or the number of edges that was asked for."""

    @property
    def assets(self) -> tuple[Node, ...]:
        """Every version in it but the one that was asked about, the nearest first."""
        ends = (edge.source if self.direction is Direction.UPSTREAM else edge.target for edge in self.edges)
        start = (self.asset_id, self.version)
        return tuple(dict.fromkeys(node for node in ends if node != start))


class GraphFilter(NamedTuple):
    """The graph of one version of a tenant's asset."""

    tenant: str
    asset_id: str
    version: int
    direction: Direction
    limit: int


def graph_of(where: GraphFilter, found: Sequence[LineageEdge], depth: int | None) -> LineageGraph:
    """What was found, each edge at its smallest depth; whatever goes in circles is passed once."""
    by_node: dict[Node, list[LineageEdge]] = {}
    is_up = where.direction is Direction.UPSTREAM
    for edge in found[: where.limit]:
        by_node.setdefault(edge.target if is_up else edge.source, []).append(edge)
    start: Node = (where.asset_id, where.version)
    reached, waiting = {start: 0}, deque([start])
    edges: list[LineageEdge] = []
    is_cut = len(found) > where.limit
    while waiting:
        node = waiting.popleft()
        away = reached[node] + 1
        nearest = by_node.get(node, [])
        if depth is not None and away > depth:
            is_cut = is_cut or bool(nearest)
            continue
        for edge in nearest:
            edges.append(edge._replace(depth=away))
            beyond = edge.source if is_up else edge.target
            if beyond not in reached:
                reached[beyond] = away
                waiting.append(beyond)
    return LineageGraph(where.asset_id, where.version, where.direction, tuple(edges), is_cut)

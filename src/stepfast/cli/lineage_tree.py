"""The graph of an asset's lineage as a tree for people."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.kernel.lineage import Direction, LineageEdge, LineageGraph, Node

# Deeper ones stand below each other: a line must not be all blanks.
MAX_INDENT = 40


def tree_lines(graph: LineageGraph) -> Iterator[str]:
    """One line for each edge, below the asset that it leads on from; what is there already is not unfolded again."""
    is_up = graph.direction is Direction.UPSTREAM
    beyond: dict[Node, list[LineageEdge]] = {}
    for edge in graph.edges:
        beyond.setdefault(edge.target if is_up else edge.source, []).append(edge)
    start: Node = (graph.asset_id, graph.version)
    yield _named(start)
    unfolded, waiting = {start}, [(edge, 1) for edge in reversed(beyond.get(start, []))]
    while waiting:
        edge, depth = waiting.pop()
        node = edge.source if is_up else edge.target
        is_known = node in unfolded
        yield f"{_indent(depth)}{_named(node)}{_wanted(edge, is_up)}  {_by(edge)}{_again(is_known, beyond, node)}"
        if not is_known:
            unfolded.add(node)
            waiting += [(further, depth + 1) for further in reversed(beyond.get(node, []))]


def _named(node: Node) -> str:
    return f"{node[0]}@{node[1]}"


def _indent(depth: int) -> str:
    return "  " * depth if depth <= MAX_INDENT else f"{'  ' * MAX_INDENT}[{depth}] "


def _wanted(edge: LineageEdge, is_up: bool) -> str:
    return "" if is_up or edge.wanted_id == edge.asset_id else f" (wanted: {edge.wanted_id})"


def _by(edge: LineageEdge) -> str:
    attempt = "" if edge.attempt == 1 else f", attempt {edge.attempt}"
    generation = "" if edge.generation == 1 else f", generation {edge.generation}"
    return f"by {edge.step} of run {edge.run_id}{generation}{attempt}"


def _again(is_known: bool, beyond: dict[Node, list[LineageEdge]], node: Node) -> str:
    return ", see above" if is_known and node in beyond else ""

"""Graphs of lineage: each edge at its smallest depth, circles passed once, and cuts told."""

from __future__ import annotations

from stepfast.kernel.ids import RunId
from stepfast.kernel.lineage import Direction, GraphFilter, LineageEdge, LineageGraph, graph_of


def edge(source: str, target: str) -> LineageEdge:
    return LineageEdge(source, 1, target, 1, target, RunId("r"), 1, "s#1", 1)


def graph(
    *pairs: str, start: str = "a", way: Direction = Direction.DOWNSTREAM, depth: int | None = None, limit: int = 100
) -> LineageGraph:
    """The graph of edges written `ab`: b was made of a."""
    return graph_of(GraphFilter("acme", start, 1, way, limit), [edge(*pair) for pair in pairs], depth)


def shape(given: LineageGraph) -> list[tuple[str, int]]:
    return [(f"{edge.input_id}{edge.asset_id}", edge.depth) for edge in given.edges]


def test_each_edge_has_its_smallest_depth():
    assert shape(graph("ab", "bc", "ac", "cd")) == [("ab", 1), ("ac", 1), ("bc", 2), ("cd", 2)]


def test_upstream_goes_the_other_way():
    assert shape(graph("ab", "bc", start="c", way=Direction.UPSTREAM)) == [("bc", 1), ("ab", 2)]


def test_circles_are_passed_once():
    assert shape(graph("ab", "ba", "aa")) == [("ab", 1), ("aa", 1), ("ba", 2)]


def test_what_lies_deeper_than_asked_is_left_out_and_told():
    cut = graph("ab", "bc", "cd", depth=2)
    assert (shape(cut), cut.is_cut) == ([("ab", 1), ("bc", 2)], True)


def test_what_is_just_as_deep_as_asked_is_whole():
    assert not graph("ab", "bc", depth=2).is_cut


def test_more_edges_than_asked_are_left_out_and_told():
    cut = graph("ab", "bc", "cd", limit=2)
    assert (shape(cut), cut.is_cut) == ([("ab", 1), ("bc", 2)], True)


def test_as_many_edges_as_asked_are_whole():
    assert not graph("ab", "bc", limit=2).is_cut


def test_its_assets_are_all_but_the_one_asked_about():
    assert graph("ab", "ba", "bc").assets == (("b", 1), ("c", 1))


def test_nothing_is_an_empty_graph():
    assert graph() == LineageGraph("a", 1, Direction.DOWNSTREAM, (), False)
